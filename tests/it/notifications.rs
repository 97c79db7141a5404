//! Keyspace notifications: the time, the channels and the order of events. The events themselves are compared with
//! Redis in `differential/notifications.rs`.

use crate::harness::{Client, TestServer, wait_until};

/// Starts a server that publishes all events, and a client that is subscribed to the keyevent channels.
fn start_with_listener(settings: &[(&str, &str)]) -> (TestServer, Client) {
    let server = TestServer::start_with(&[&[("notify-keyspace-events", "AEnm")], settings].concat());
    let listener = listener(&server);
    (server, listener)
}

fn listener(server: &TestServer) -> Client {
    let mut client = server.client();
    assert_eq!(client.call("PSUBSCRIBE __keyevent@*"), "*3 $10 psubscribe $12 __keyevent@* :1");
    client
}

/// Returns the events received so far, each as `event key`; in another database than 0, as `event@db key`.
fn heard(listener: &mut Client, talker: &mut Client) -> Vec<String> {
    assert!(talker.int("PUBLISH __keyevent@mark end") > 0);
    let mut events = Vec::new();
    loop {
        let message = listener.reply();
        let words: Vec<&str> = message.split(' ').collect();
        let (channel, key) = (words[6], words[8]);
        if channel == "__keyevent@mark" {
            return events;
        }
        let (db, event) = channel["__keyevent@".len()..].split_once("__:").expect("a channel of events");
        events.push(if db == "0" { format!("{event} {key}") } else { format!("{event}@{db} {key}") });
    }
}

#[test]
fn the_expired_event_is_published_at_the_deadline_and_not_before() {
    let (server, mut listener) = start_with_listener(&[]);
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK"), ("SELECT 3", "+OK"), ("SET l v PX 101", "+OK")]);
    assert_eq!(heard(&mut listener, &mut client), ["new k", "set k", "expire k", "new@3 l", "set@3 l", "expire@3 l"]);
    server.advance_ms(99);
    assert!(heard(&mut listener, &mut client).is_empty());
    server.advance_ms(1);
    assert_eq!(heard(&mut listener, &mut client), ["expired k"]);
    server.advance_ms(1);
    assert_eq!(heard(&mut listener, &mut client), ["expired@3 l"]);
}

#[test]
fn a_key_that_is_set_with_a_deadline_in_the_past_expires_at_once() {
    let (server, mut listener) = start_with_listener(&[]);
    let mut client = server.client();
    client.expect(&[("SET k v EXAT 1", "+OK")]);
    assert_eq!(heard(&mut listener, &mut client), ["new k", "set k", "expire k", "expired k"]);
}

#[test]
fn of_ten_thousand_keys_that_expire_at_once_each_emits_one_event() {
    let (server, mut listener) = start_with_listener(&[("notify-keyspace-events", "Ex")]);
    let mut client = server.client();
    let sets: Vec<String> = (0..10_000).map(|number| format!("SET k:{number} v PX 100")).collect();
    client.pipeline(&sets);
    server.advance_ms(100);
    let mut events = heard(&mut listener, &mut client);
    events.sort();
    let mut expected: Vec<String> = (0..10_000).map(|number| format!("expired k:{number}")).collect();
    expected.sort();
    assert!(events == expected, "{} events", events.len());
}

#[test]
fn every_evicted_key_emits_an_event() {
    for policy in ["allkeys-lru", "allkeys-random", "volatile-ttl"] {
        let settings = [("notify-keyspace-events", "Ee"), ("maxmemory-policy", policy)];
        let (server, mut listener) = start_with_listener(&settings);
        let mut client = server.client();
        let limit: usize = client.info("used_memory").parse::<usize>().expect("a number") + 100_000;
        client.expect(&[(&format!("CONFIG SET maxmemory {limit}"), "+OK")]);
        let sets: Vec<String> = (0..500).map(|number| format!("SETEX k:{number} 1000 {}", "x".repeat(1000))).collect();
        assert!(client.pipeline(&sets).iter().all(|reply| reply == "+OK"));
        client.expect(&[("CONFIG SET maxmemory 0", "+OK")]);
        let mut events = heard(&mut listener, &mut client);
        assert_eq!(events.len().to_string(), client.info("evicted_keys"), "{policy}");
        assert!(events.len() > 300 && events.iter().all(|event| event.starts_with("evicted k:")), "{policy}");
        events.sort();
        events.dedup();
        assert_eq!(events.len().to_string(), client.info("evicted_keys"), "{policy}: a key is told twice");
    }
}

#[test]
fn the_events_of_a_key_come_in_the_order_of_its_changes() {
    let server = TestServer::start_on_workers(2);
    let mut client = server.client();
    client.expect(&[("CONFIG SET notify-keyspace-events Egn", "+OK")]);
    let mut listener = listener(&server);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let words = if number % 2 == 0 { ["SETNX k v", "DEL k"] } else { ["DEL k", "SETNX k v"] };
                let commands: Vec<String> = words.iter().cycle().take(20).map(ToString::to_string).collect();
                (0..100).for_each(|_| drop(client.pipeline(&commands)));
            });
        }
    });
    let events = heard(&mut listener, &mut client);
    assert!(events.len() > 10);
    let expected = ["new k", "del k"].into_iter().cycle();
    assert!(events.iter().zip(expected).all(|(event, expected)| event == expected), "new and del take turns");
}

#[test]
fn a_listener_that_does_not_read_is_cut_off_and_keys_change_all_the_same() {
    let settings = [("client-output-buffer-limit", "pubsub 1mb 0 0"), ("notify-keyspace-events", "KEA")];
    let (server, listener) = start_with_listener(&settings);
    let mut client = server.client();
    let sets: Vec<String> = (0..100).map(|number| format!("SET {}:{number} v", "k".repeat(10_000))).collect();
    wait_until(|| {
        assert!(client.pipeline(&sets).iter().all(|reply| reply == "+OK"));
        client.info("client_output_buffer_limit_disconnections") == "1"
    });
    drop(listener);
}

#[test]
fn a_client_subscribed_to_its_own_events_gets_them_after_its_replies() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "AE")]);
    let mut client = server.client3();
    client.expect(&[("SUBSCRIBE __keyevent@0__:set", ">3 $9 subscribe $18 __keyevent@0__:set :1"), ("MULTI", "+OK")]);
    client.expect(&[("SET k v", "+QUEUED"), ("GET k", "+QUEUED"), ("EXEC", "*2 +OK $1 v")]);
    assert_eq!(client.reply(), ">3 $7 message $18 __keyevent@0__:set $1 k");
}

/// Covers commands of Redis 8 and Valkey 9, which no server here has.
#[test]
fn what_is_done_under_a_condition_is_told_as_what_it_does_without() {
    let (server, mut listener) = start_with_listener(&[]);
    let mut client = server.client();
    let cases: &[(&str, &[&str])] = &[
        ("SET k a IFEQ a", &[]),
        ("SET k a IFNE b", &["new k", "set k"]),
        ("SET k b IFNE a", &[]),
        ("SET k b IFEQ a EX 100", &["set k", "expire k"]),
        ("EXPIRE k 50 IFEQ a", &[]),
        ("EXPIRE k 50 IFEQ b", &["expire k"]),
        ("DIGEST k", &[]),
        ("DELEX k IFEQ a", &[]),
        ("DELEX k IFEQ b", &["del k"]),
        ("DIGEST k", &["keymiss k"]),
        ("DELEX k IFEQ b", &[]),
        ("MSETEX 2 k a l b", &["new k", "set k", "new l", "set l"]),
        ("MSETEX 2 k a m b NX", &[]),
        ("MSETEX 2 k a l b XX EX 9", &["set k", "expire k", "set l", "expire l"]),
        ("DELIFEQ k b", &[]),
        ("DELIFEQ k a", &["del k"]),
        ("DELEX l", &["del l"]),
        ("INCREX n BYINT 5", &["new n", "incrby n"]),
        ("INCREX n BYINT 5 UBOUND 7", &[]),
        ("INCREX n BYFLOAT 0.5 EX 100", &["incrbyfloat n", "expire n"]),
        ("INCREX n BYFLOAT 0.5 EX 200 ENX", &["incrbyfloat n"]),
        ("INCREX n PERSIST", &["incrby n", "persist n"]),
        ("INCREX n PERSIST", &["incrby n"]),
        ("INCREX n EXAT 1", &["del n"]),
        ("INCREX n EXAT 1", &[]),
    ];
    for (words, events) in cases {
        client.call(words);
        assert_eq!(heard(&mut listener, &mut client), *events, "{words}");
    }
}

#[test]
fn a_replaced_value_has_an_event_of_its_own() {
    let (server, mut listener) = start_with_listener(&[("notify-keyspace-events", "AEoc")]);
    let mut client = server.client();
    let (same, other) = (["overwritten k"].as_slice(), ["overwritten k", "type_changed k"].as_slice());
    // The events of the replacement, the command, whether its own events come first, and these.
    let cases: &[(&[&str], &str, bool, &[&str])] = &[
        (&[], "SET k v", false, &["set k"]),
        (same, "SET k w", false, &["set k"]),
        (same, "SET k 1 EX 10", false, &["set k", "expire k"]),
        (same, "GETSET k w", false, &["set k"]),
        (same, "SETEX k 10 w", false, &["set k", "expire k"]),
        (same, "MSET k x", false, &["set k"]),
        (&[], "MSETNX k v", false, &[]),
        (&[], "APPEND k v", false, &["append k"]),
        (&[], "SETRANGE k 0 v", false, &["setrange k"]),
        (same, "SET k 7", false, &["set k"]),
        (&[], "INCR k", false, &["incrby k"]),
        (&[], "INCRBYFLOAT k 0.5", false, &["incrbyfloat k"]),
        (same, "BITOP NOT k source", false, &["set k"]),
        (other, "SORT list STORE k", false, &["sortstore k"]),
        (same, "SORT list STORE k", false, &["sortstore k"]),
        (other, "SUNIONSTORE k set", false, &["sunionstore k"]),
        (same, "SDIFFSTORE k set", false, &["sdiffstore k"]),
        (other, "ZUNIONSTORE k 1 sorted", false, &["zunionstore k"]),
        (same, "ZRANGESTORE k sorted 0 -1", false, &["zrangestore k"]),
        (same, "GEOSEARCHSTORE k geo FROMMEMBER m BYRADIUS 1 km", false, &["geosearchstore k"]),
        (&[], "SDIFFSTORE k set set", false, &["del k"]),
        (&[], "SUNIONSTORE k set", false, &["sunionstore k"]),
        (other, "SET k v", false, &["set k"]),
        (other, "COPY list k REPLACE", true, &["copy_to k"]),
        (same, "COPY list k REPLACE", true, &["copy_to k"]),
        (other, "RENAME set k", true, &["rename_from set", "rename_to k"]),
        (same, "RENAME other k", true, &["rename_from other", "rename_to k"]),
        (&[], "DEL k", false, &["del k"]),
        (&[], "RENAME k set", false, &["rename_from k", "rename_to set"]),
    ];
    client.expect(&[
        ("MSET source abc plain v", "+OK"),
        ("RPUSH list 1 2", ":2"),
        ("SADD set a", ":1"),
        ("SADD other a", ":1"),
        ("ZADD sorted 1 a", ":1"),
        ("GEOADD geo 1 1 m", ":1"),
    ]);
    heard(&mut listener, &mut client);
    for (told, command, is_first, own) in cases {
        if command.starts_with("RENAME k") {
            client.call("SADD k a");
            client.call("DEL set");
            heard(&mut listener, &mut client);
        }
        client.call(command);
        let expected = if *is_first { [*own, *told].concat() } else { [*told, *own].concat() };
        assert_eq!(heard(&mut listener, &mut client), expected, "{command}");
    }
    // An expired key is not replaced: its event comes before.
    client.expect(&[("DEL k set", ":1"), ("SET k v PX 10", "+OK")]);
    let dump = client.frame(&["DUMP", "plain"]);
    let dump = dump.as_bytes().expect("a dump");
    server.advance_ms(10);
    heard(&mut listener, &mut client);
    client.call_args(&[&b"RESTORE"[..], b"k", b"0", dump]);
    client.call_args(&[&b"RESTORE"[..], b"k", b"0", dump, b"REPLACE"]);
    client.call_args(&[&b"RESTORE"[..], b"list", b"0", dump, b"REPLACE"]);
    let expected = ["restore k", "restore k", "overwritten k", "restore list", "overwritten list", "type_changed list"];
    assert_eq!(heard(&mut listener, &mut client), expected);
}

#[test]
fn classes_that_all_does_not_stand_for_must_be_asked_for() {
    for (classes, expected) in [
        ("AE", &["set k"][..]),
        ("Eo", &["overwritten k"]),
        ("Ec", &["type_changed k"]),
        ("E$c", &["type_changed k", "set k"]),
    ] {
        let (server, mut listener) = start_with_listener(&[("notify-keyspace-events", classes)]);
        let mut client = server.client();
        client.call("SADD k a");
        heard(&mut listener, &mut client);
        client.call("SET k v");
        assert_eq!(heard(&mut listener, &mut client), expected, "{classes}");
    }
}

#[test]
fn a_value_in_place_of_an_expired_key_has_replaced_nothing() {
    let settings = [("notify-keyspace-events", "AEoc"), ("enable-debug-command", "yes")];
    let (server, mut listener) = start_with_listener(&settings);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SADD members a", ":1")]);
    for (command, own) in [
        ("SET k w", "set k"),
        ("SET k 1 KEEPTTL", "set k"),
        ("GETSET k w", "set k"),
        ("MSET k w", "set k"),
        ("SUNIONSTORE k members", "sunionstore k"),
        ("RENAME members k", "rename_to k"),
    ] {
        client.expect(&[("SET k v PX 100", "+OK")]);
        server.advance_ms(100);
        heard(&mut listener, &mut client);
        client.call(command);
        let events = heard(&mut listener, &mut client);
        assert!(events.contains(&"expired k".into()) && events.contains(&own.into()), "{command}: {events:?}");
        assert!(!events.iter().any(|event| event.starts_with("overwritten") || event.starts_with("type_changed")));
        client.call("DEL k");
        heard(&mut listener, &mut client);
    }
}
