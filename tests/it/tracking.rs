//! Client-side caching: no cached copy outlives its value unnoticed, whatever changes or deletes the key. The messages
//! of each command are compared with Redis in `differential/tracking.rs`.

use std::collections::HashMap;

use crate::harness::{Client, Dice, TestServer, wait_until};

/// Connects a client that tracks keys, with options.
fn tracker(server: &TestServer, options: &str) -> Client {
    let mut client = server.client3();
    assert_eq!(client.call(format!("CLIENT TRACKING ON {options}").trim_end()), "+OK");
    client
}

fn invalidation(key: &str) -> String {
    format!(">2 $10 invalidate *1 ${} {key}", key.len())
}

#[test]
fn copies_of_keys_that_expire_are_invalidated() {
    let server = TestServer::start();
    let (mut reader, mut broadcast) = (tracker(&server, ""), tracker(&server, "BCAST"));
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK"), ("SET l v PX 100", "+OK")]);
    assert_eq!(broadcast.reply(), invalidation("k"));
    assert_eq!(broadcast.reply(), invalidation("l"));
    assert_eq!(reader.call("GET k"), "$1 v");
    server.advance_ms(99);
    assert_eq!(reader.call("PING"), "+PONG");
    server.advance_ms(1);
    assert_eq!(reader.reply(), invalidation("k"));
    let told = broadcast.reply();
    assert!(
        [("k", "l"), ("l", "k")].iter().any(|(a, b)| told == format!(">2 $10 invalidate *2 $1 {a} $1 {b}")),
        "{told}"
    );
}

#[cfg(feature = "lua")]
#[test]
fn of_the_keys_of_a_script_those_that_it_reads_are_remembered() {
    let server = TestServer::start();
    let (mut reader, mut client) = (tracker(&server, ""), server.client());
    for (script, is_told) in
        [("redis.call('PING')", false), ("redis.call('SET', 'm', 1)", false), ("redis.call('GET', 'k')", true)]
    {
        for eval in if script.contains("SET") { &["EVAL"][..] } else { &["EVAL", "EVAL_RO"] } {
            assert_eq!(reader.call_args(&[eval, script, "2", "k", "l"]), "_");
            client.expect(&[("MSET l 1 k 1", "+OK")]);
            if is_told {
                assert_eq!(reader.reply(), invalidation("k"));
            }
            assert_eq!(reader.call("PING"), "+PONG", "{eval} {script}");
        }
    }
}

#[test]
fn a_client_is_notified_of_a_key_that_expires_in_its_own_call_unless_noloop_is_set() {
    for (options, is_told) in [("", true), ("NOLOOP", false)] {
        let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
        let mut reader = tracker(&server, options);
        reader.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k v PX 100", "+OK"), ("GET k", "$1 v")]);
        server.advance_ms(100);
        assert_eq!(reader.call("GET k"), "_");
        if is_told {
            assert_eq!(reader.reply(), invalidation("k"));
        }
        assert_eq!(reader.call("PING"), "+PONG");
    }
}

#[test]
fn copies_of_evicted_keys_are_invalidated() {
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-random")]);
    let (mut reader, mut client) = (tracker(&server, ""), server.client());
    let names: Vec<String> = (0..200).map(|number| format!("k:{number}")).collect();
    let sets: Vec<String> = names.iter().map(|name| format!("SET {name} {}", "x".repeat(1000))).collect();
    assert!(client.pipeline(&sets).iter().all(|reply| reply == "+OK"));
    assert!(reader.call(&format!("MGET {}", names.join(" "))).starts_with("*200 $1000 x"));
    let used: usize = client.info("used_memory").parse().expect("a number");
    client.expect(&[(&format!("CONFIG SET maxmemory {}", used - 100_000), "+OK"), ("SET other v", "+OK")]);
    let left = |client: &mut Client| -> usize { client.info("evicted_keys").parse().expect("a number") };
    wait_until(|| left(&mut client) > 50 && client.call("SET other v") == "+OK");
    client.expect(&[("CONFIG SET maxmemory 0", "+OK")]);
    let gone: Vec<&String> = names.iter().filter(|name| client.call(&format!("EXISTS {name}")) == ":0").collect();
    assert!(gone.len() > 50, "{}", gone.len());
    let mut told: Vec<String> = gone.iter().map(|_| reader.reply()).collect();
    let mut expected: Vec<String> = gone.iter().map(|name| invalidation(name)).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    assert_eq!(reader.call("PING"), "+PONG");
}

#[test]
fn no_more_keys_are_remembered_than_may_be() {
    let server = TestServer::start_with(&[("tracking-table-max-keys", "10")]);
    let (mut reader, mut client) = (tracker(&server, ""), server.client());
    let gets: Vec<String> = (0..10).map(|number| format!("GET k:{number}")).collect();
    assert!(gets.iter().all(|get| reader.call(get) == "_"));
    assert_eq!(client.info("tracking_total_keys"), "10");
    assert_eq!(reader.call("MGET l:1 l:2 l:3"), "*3 _ _ _");
    (0..3).for_each(|_| assert!(reader.reply().starts_with(">2 $10 invalidate *1 $3 ")));
    client.expect(&[("CONFIG SET tracking-table-max-keys 4", "+OK")]);
    (0..6).for_each(|_| assert!(reader.reply().starts_with(">2 $10 invalidate *1 $3 ")));
    assert_eq!((client.info("tracking_total_keys"), client.info("tracking_total_items")), ("4".into(), "4".into()));
    client.expect(&[("CONFIG SET tracking-table-max-keys 0", "+OK")]);
    assert!(reader.pipeline(&(0..100).map(|number| format!("GET m:{number}")).collect::<Vec<_>>()).len() == 100);
    assert_eq!(client.info("tracking_total_keys"), "104");
}

#[test]
fn who_leaves_is_forgotten() {
    let server = TestServer::start();
    let mut client = server.client();
    for ending in ["RESET", "QUIT", "CLIENT TRACKING OFF"] {
        let mut reader = tracker(&server, "");
        let mut broadcast = tracker(&server, "BCAST PREFIX k PREFIX l");
        assert_eq!(reader.call("GET k"), "_");
        assert_eq!(client.info("tracking_clients"), "2");
        assert_eq!(client.info("tracking_total_prefixes"), "2");
        reader.call(ending);
        broadcast.call(ending);
        wait_until(|| client.info("tracking_clients") == "0");
        assert_eq!(client.info("tracking_total_keys"), "0");
        assert_eq!(client.info("tracking_total_prefixes"), "0");
        client.expect(&[("SET k v", "+OK"), ("DEL k", ":1")]);
    }
}

#[test]
fn the_list_of_clients_shows_how_they_track() {
    let server = TestServer::start();
    let (mut target, mut observer) = (server.client3(), server.client());
    let target_id = target.int("CLIENT ID");
    let (mut plain, _broadcast) = (tracker(&server, &format!("REDIRECT {target_id}")), tracker(&server, "BCAST"));
    let line = |list: &str, id: i64| list.lines().find(|line| line.contains(&format!("id={id} "))).map(str::to_owned);
    let list = observer.call("CLIENT LIST").replace(" id=", "\nid=");
    let id = plain.int("CLIENT ID");
    let shown = line(&list, id).expect("it is listed");
    assert!(shown.contains(" flags=t ") && shown.contains(&format!(" redir={target_id} ")), "{shown}");
    let shown = line(&list, id + 1).expect("it is listed");
    assert!(shown.contains(" flags=tB ") && shown.contains(" redir=0 "), "{shown}");
    let shown = line(&list, target_id).expect("it is listed");
    assert!(shown.contains(" flags=N ") && shown.contains(" redir=-1 "), "{shown}");
    plain.call("GET k");
    drop(target);
    wait_until(|| observer.info("connected_clients") == "3");
    observer.expect(&[("SET k v", "+OK")]);
    assert_eq!(plain.reply(), format!(">2 $21 tracking-redir-broken :{target_id}"));
    let list = observer.call("CLIENT LIST").replace(" id=", "\nid=");
    assert!(line(&list, id).expect("it is listed").contains(" flags=tR "));
    assert!(plain.call("CLIENT TRACKINGINFO").contains("$2 on $15 broken_redirect $8 redirect"));
}

/// Cache of keys, as in a client library.
struct Cache {
    client: Client,
    copies: HashMap<String, String>,
}

impl Cache {
    /// Handles one message: a reply to a GET of this key, or an invalidation.
    fn take(&mut self, asked: Option<&str>) -> bool {
        let message = self.client.reply();
        if let Some(news) = message.strip_prefix(">2 $10 invalidate *") {
            for key in news.split(' ').skip(2).step_by(2) {
                self.copies.remove(key);
            }
            return false;
        }
        if let Some(key) = asked {
            self.copies.insert(key.to_owned(), message);
        }
        true
    }
}

#[test]
fn copies_that_were_not_invalidated_are_up_to_date() {
    for (options, prefix) in [("", "k"), ("NOLOOP", "k"), ("BCAST", "k"), ("BCAST PREFIX k:", "k:")] {
        let server = TestServer::start_on_workers(2);
        std::thread::scope(|scope| {
            for number in 0..2 {
                let mut writer = server.client();
                scope.spawn(move || {
                    let mut dice = Dice::new(number);
                    for _ in 0..150 {
                        let burst: Vec<String> =
                            (0..1 + dice.roll(8)).map(|_| format!("INCR {prefix}{}", dice.roll(20))).collect();
                        writer.pipeline(&burst);
                    }
                });
            }
            let readers: Vec<_> = (0..3)
                .map(|number| {
                    let mut cache = Cache { client: tracker(&server, options), copies: HashMap::new() };
                    scope.spawn(move || {
                        let mut dice = Dice::new(100 + number);
                        for _ in 0..1000 {
                            let key = format!("{prefix}{}", dice.roll(20));
                            cache.client.send(&crate::harness::encode(&["GET", &key]));
                            while !cache.take(Some(&key)) {}
                        }
                        cache
                    })
                })
                .collect();
            let caches: Vec<Cache> = readers.into_iter().map(|reader| reader.join().expect("a cache")).collect();
            caches
        })
        .into_iter()
        .for_each(|mut cache| {
            // Every writer has its reply, so all invalidations are queued for the reader.
            cache.client.send(&crate::harness::encode(&["PING"]));
            while !cache.take(None) {}
            let mut client = server.client3();
            for (key, copy) in &cache.copies {
                assert_eq!(client.call(&format!("GET {key}")), *copy, "{options}: {key}");
            }
        });
    }
}

#[test]
fn with_noloop_the_prefixes_of_a_client_are_not_told_of_what_its_own_blocked_call_has_changed() {
    let server = TestServer::start();
    let mut other = server.client();
    for (options, is_told) in [("BCAST NOLOOP PREFIX to", false), ("BCAST PREFIX to", true)] {
        let client = tracker(&server, options);
        let mut client = server.block_as(client, "BLMOVE from to LEFT RIGHT 0");
        assert_eq!(other.call("RPUSH from a"), ":1");
        assert_eq!(client.reply(), "$1 a");
        client.send(b"PING\r\n");
        if is_told {
            assert_eq!(client.reply(), invalidation("to"));
        }
        assert_eq!(client.reply(), "+PONG");
        // Changes by other clients are announced in any case.
        other.call("RPUSH to b");
        assert_eq!(client.reply(), invalidation("to"));
    }
}

/// Connects a client of a user with these rules, which tracks keys by broadcasts.
fn tracker_of_a_user(server: &TestServer, name: &str, rules: &str, options: &str) -> Client {
    let mut admin = server.client();
    assert_eq!(admin.call(&format!("ACL SETUSER {name} on nopass +@all {rules}")), "+OK");
    let mut client = server.client3();
    assert_eq!(client.call(&format!("AUTH {name} x")), "+OK");
    assert_eq!(client.call(format!("CLIENT TRACKING ON BCAST {options}").trim_end()), "+OK");
    client
}

#[test]
fn a_broadcast_names_only_keys_that_the_user_may_read() {
    let server = TestServer::start();
    let mut limited = tracker_of_a_user(&server, "limited", "~a:* %R~r:* %W~w:* (~s:* +get)", "");
    let mut noloop = tracker_of_a_user(&server, "noloop", "~a:*", "NOLOOP");
    let mut all = tracker_of_a_user(&server, "all", "~*", "");
    let mut client = server.client();
    client.expect(&[("MSET a:1 v b:1 v r:1 v s:1 v w:1 v", "+OK"), ("SET b:2 v", "+OK")]);
    assert_eq!(limited.reply(), ">2 $10 invalidate *3 $3 a:1 $3 r:1 $3 s:1");
    assert_eq!(noloop.reply(), invalidation("a:1"));
    assert_eq!(all.reply(), ">2 $10 invalidate *5 $3 a:1 $3 b:1 $3 r:1 $3 s:1 $3 w:1");
    assert_eq!(all.reply(), invalidation("b:2"));
    for tracker in [&mut limited, &mut noloop, &mut all] {
        assert_eq!(tracker.call("PING"), "+PONG");
    }
}

#[test]
fn a_redirected_broadcast_names_only_keys_that_the_user_who_tracks_may_read() {
    let server = TestServer::start();
    let mut target = server.client3();
    let id = target.call("CLIENT ID").trim_start_matches(':').to_owned();
    let _limited = tracker_of_a_user(&server, "limited", "~a:*", &format!("REDIRECT {id}"));
    server.client().expect(&[("MSET b:1 v c:1 v", "+OK"), ("SET a:1 v", "+OK")]);
    assert_eq!(target.reply(), invalidation("a:1"));
}

#[test]
fn keys_that_have_changed_before_a_user_changes_are_broadcast_by_the_permissions_of_before() {
    let server = TestServer::start();
    let mut admin = server.client();
    // More permissions do not announce earlier changes, fewer do not hide them; each in one batch.
    let mut gains = tracker_of_a_user(&server, "gains", "~a:*", "");
    admin.send(b"SET b:1 v\r\nACL SETUSER gains ~b:*\r\nSET b:2 v\r\n");
    assert_eq!((admin.reply(), admin.reply(), admin.reply()), ("+OK".into(), "+OK".into(), "+OK".into()));
    assert_eq!(gains.reply(), invalidation("b:2"));
    let mut loses = tracker_of_a_user(&server, "loses", "~c:*", "");
    admin.send(b"SET c:1 v\r\nACL SETUSER loses resetkeys\r\nSET c:2 v\r\n");
    assert_eq!((admin.reply(), admin.reply(), admin.reply()), ("+OK".into(), "+OK".into(), "+OK".into()));
    assert_eq!(loses.reply(), invalidation("c:1"));
    assert_eq!(loses.call("PING"), "+PONG");
    // The same if the client becomes another user.
    let mut client = tracker_of_a_user(&server, "one", "~d:*", "");
    client.send(b"SET d:1 v\r\nAUTH loses x\r\n");
    let replies = [client.reply(), client.reply(), client.reply()];
    assert!(replies.contains(&invalidation("d:1")), "{replies:?}");
    admin.expect(&[("SET d:2 v", "+OK")]);
    assert_eq!(client.call("PING"), "+PONG");
}

#[test]
fn a_client_whose_user_was_removed_is_told_of_no_key() {
    let server = TestServer::start();
    let mut gone = tracker_of_a_user(&server, "gone", "~*", "");
    let mut admin = server.client();
    admin.send(b"ACL DELUSER gone\r\nSET k v\r\n");
    assert_eq!((admin.reply(), admin.reply()), (":1".into(), "+OK".into()));
    assert!(gone.read_to_end().is_empty(), "it is disconnected, and was sent nothing before");
}
