//! Deadlines of fields of hashes, which Redis has since 7.4: commands, expiry, events, payloads and the log.

use crate::harness::{Client, TestServer, encode, wait_until};

/// Date on which the clocks of these tests begin, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// Limits under which hashes are packed, and under which they are not.
const FORMS: [&str; 2] = ["512", "0"];

/// Starts a server whose hashes have one form.
fn start(entries: &str) -> TestServer {
    let server = TestServer::start_with(&[
        ("hash-max-listpack-entries", entries),
        ("notify-keyspace-events", "AE"),
        ("enable-debug-command", "yes"),
    ]);
    server.server().set_wall_ms(BEGIN_MS);
    server
}

fn listener(server: &TestServer) -> Client {
    let mut client = server.client();
    client.call("PSUBSCRIBE __keyevent@*");
    client
}

/// Returns the events received so far, each as `event key`.
fn heard(listener: &mut Client, talker: &mut Client) -> Vec<String> {
    talker.int("PUBLISH __keyevent@mark end");
    let mut events = Vec::new();
    loop {
        let message = listener.reply();
        let words: Vec<&str> = message.split(' ').collect();
        match words[6].split_once("__:") {
            Some((_, event)) => events.push(format!("{event} {}", words[8])),
            None => return events,
        }
    }
}

#[test]
fn deadlines_are_set_read_and_removed_in_both_units() {
    for form in FORMS {
        let server = start(form);
        server.client().expect(&[
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HEXPIRE h 10 FIELDS 2 a nothing", "*2 :1 :-2"),
            ("HPEXPIRE h 1500 FIELDS 1 b", "*1 :1"),
            ("HTTL h FIELDS 4 a b c nothing", "*4 :10 :2 :-1 :-2"),
            ("HPTTL h FIELDS 2 a b", "*2 :10000 :1500"),
            ("HEXPIRETIME h FIELDS 2 a b", "*2 :1700000010 :1700000002"),
            ("HPEXPIRETIME h FIELDS 3 a b c", "*3 :1700000010000 :1700000001500 :-1"),
            ("HEXPIREAT h 1700000020 FIELDS 1 a", "*1 :1"),
            ("HPEXPIREAT h 1700000030000 FIELDS 1 c", "*1 :1"),
            ("HPERSIST h FIELDS 3 b b nothing", "*3 :1 :-1 :-2"),
            ("HPEXPIRETIME h FIELDS 3 a b c", "*3 :1700000020000 :-1 :1700000030000"),
            ("HMGET h a b c", "*3 $1 1 $1 2 $1 3"),
            ("HTTL missing FIELDS 2 a b", "*2 :-2 :-2"),
            ("HEXPIRE missing 10 FIELDS 1 a", "*1 :-2"),
            ("HPERSIST missing FIELDS 1 a", "*1 :-2"),
            ("EXISTS missing", ":0"),
        ]);
    }
}

#[test]
fn conditions_are_judged_for_each_field_and_before_a_time_in_the_past() {
    for form in FORMS {
        let server = start(form);
        server.client().expect(&[
            ("HSET h a 1 b 2", ":2"),
            ("HEXPIRE h 10 XX FIELDS 2 a b", "*2 :0 :0"),
            ("HEXPIRE h 10 GT FIELDS 1 a", "*1 :0"),
            ("HEXPIRE h 10 NX FIELDS 1 a", "*1 :1"),
            ("HEXPIRE h 20 nx FIELDS 2 a b", "*2 :0 :1"),
            ("HEXPIRE h 10 GT FIELDS 1 a", "*1 :0"),
            ("HEXPIRE h 11 GT FIELDS 1 a", "*1 :1"),
            ("HEXPIRE h 11 LT FIELDS 1 a", "*1 :0"),
            ("HEXPIRE h 5 LT FIELDS 1 a", "*1 :1"),
            ("HEXPIRE h 0 GT FIELDS 1 a", "*1 :0"),
            ("HEXPIRE h 0 FIELDS 1 a", "*1 :2"),
            ("HGETALL h", "*2 $1 b $1 2"),
            ("HPEXPIREAT h 1 FIELDS 2 b a", "*2 :2 :-2"),
            ("EXISTS h", ":0"),
        ]);
    }
}

#[test]
fn wrong_arguments_are_refused_in_the_order_of_redis() {
    let server = start("512");
    let (no_fields, number) = (
        "-ERR Mandatory argument FIELDS is missing or not at the right position",
        "-ERR The `numfields` parameter must match the number of arguments",
    );
    let (conditions, twice) =
        ("-ERR Multiple condition flags specified", "-ERR FIELDS keyword specified multiple times");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    server.client().expect(&[
        ("SET s v", "+OK"),
        ("HSET h a 1", ":1"),
        ("HEXPIRE s x FIELDS 1 a", wrong_type),
        ("HTTL s x 1 a", wrong_type),
        ("HPERSIST s x 1 a", wrong_type),
        ("HGETDEL s x 1 a", wrong_type),
        ("HGETEX s x 1 a", wrong_type),
        ("HSETEX s x 1 a v", "-ERR unknown argument: x"),
        ("HSETEX s FIELDS 1 a v", wrong_type),
        ("HEXPIRE h x y 1 a", "-ERR value is not an integer or out of range"),
        ("HEXPIRE h -1 y 1 a", "-ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command"),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 1 FOO 1 a", "-ERR unknown argument: FOO"),
        ("HEXPIRE h 1 NX XX FIELDS 1 a", conditions),
        ("HEXPIRE h 1 NX FIELDS 1 a XX", conditions),
        ("HEXPIRE h 1 NX XX NX NX", "-ERR missing FIELDS argument"),
        ("HEXPIRE h 1 NX XX FIELDS 1", "-ERR FIELDS requires at least numfields and one field argument"),
        ("HEXPIRE h 1 FIELDS 1 a FIELDS 1 b", twice),
        ("HEXPIRE h 1 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS 2 a", "-ERR wrong number of arguments"),
        ("HEXPIRE h 1 FIELDS 9223372036854775807 a", "-ERR wrong number of arguments"),
        ("HEXPIRE h 1 FIELDS 1 a b", "-ERR unknown argument: b"),
        ("HTTL h FOO 1 a", no_fields),
        ("HTTL h FIELDS 0 a", "-ERR Number of fields must be a positive integer"),
        ("HTTL h FIELDS 2 a", number),
        ("HGETEX h EX", "-ERR wrong number of arguments for 'hgetex' command"),
        ("HGETEX h EX x FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HGETEX h KEEPTTL FIELDS 1 a", "-ERR unknown argument: KEEPTTL"),
        ("HGETEX h FIELDS 1 a FNX", "-ERR unknown argument: FNX"),
        ("HGETEX h FIELDS 0 a", "-ERR invalid number of fields"),
        ("HGETEX h FIELDS 2 a", "-ERR wrong number of arguments for 'hgetex' command"),
        ("HGETEX h FIELDS 1 a FIELDS 1 b", twice),
        ("HGETEX h FIELDS 1 a EX", "-ERR missing expire time"),
        ("HGETEX h EX 1 PERSIST", "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"),
        (
            "HSETEX h EX 1 PX 1 FIELDS 1 a 1",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX h FIELDS 1 a 1 FIELDS 1 b 1", twice),
        ("HSETEX h FNX EX 5 KEEPTTL", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"),
        ("HSETEX h FNX EX 5", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
        ("HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields"),
        ("HSETEX h FIELDS 2 a 1", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h FIELDS 9223372036854775807 a 1", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h EX FIELDS 1 a 1", "-ERR value is not an integer or out of range"),
        ("HSETEX h PERSIST FIELDS 1 a 1", "-ERR unknown argument: PERSIST"),
        ("HGET h a", "$1 1"),
    ]);
}

#[test]
fn options_may_stand_on_either_side_of_the_fields() {
    let server = start("512");
    server.client().expect(&[
        ("HSET h a 1 b 2 NX 3", ":3"),
        ("HEXPIRE h 10 FIELDS 1 a NX", "*1 :1"),
        ("HPEXPIRE h 20000 fields 2 a b nx", "*2 :0 :1"),
        ("HEXPIRE h 10 NX FIELDS 1 NX NX", "*1 :1"),
        ("HEXPIREAT h 1 FIELDS 1 NX GT", "*1 :0"),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a GT", "*1 :1"),
        ("HTTL h FIELDS 2 b NX", "*2 :20 :10"),
        ("HGETEX h FIELDS 2 a x PERSIST", "*2 $1 1 $-1"),
        ("HGETEX h FIELDS 1 b PX 5000", "*1 $1 2"),
        ("HTTL h FIELDS 2 a b", "*2 :-1 :5"),
        ("HSETEX h FIELDS 1 b 3 FXX KEEPTTL", ":1"),
        ("HSETEX h FNX FIELDS 1 EX FNX PX 7000", ":1"),
        ("HSETEX h EX 1 FIELDS 1 b 3 FNX", ":0"),
        ("HTTL h FIELDS 2 b EX", "*2 :5 :7"),
        ("HMGET h b EX", "*2 $1 3 $3 FNX"),
    ]);
}

#[test]
fn fields_expire_at_their_deadline_and_the_key_with_the_last_of_them() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HPEXPIRE h 100 FIELDS 2 a b", "*2 :1 :1"),
            ("HPEXPIRE h 200 FIELDS 1 c", "*1 :1"),
        ]);
        assert!(client.info("db0").ends_with("subexpiry=1"));
        assert_eq!(heard(&mut listener, &mut client), ["hset h", "hexpire h", "hexpire h"]);
        server.advance_ms(99);
        assert!(heard(&mut listener, &mut client).is_empty());
        assert_eq!(client.call("HLEN h"), ":3");
        server.advance_ms(1);
        assert_eq!(heard(&mut listener, &mut client), ["hexpired h"]);
        client.expect(&[("HLEN h", ":1"), ("HGETALL h", "*2 $1 c $1 3")]);
        server.advance_ms(100);
        assert_eq!(heard(&mut listener, &mut client), ["hexpired h", "del h"]);
        assert_eq!(client.call("EXISTS h"), ":0");
        assert_eq!(client.info("expired_subkeys"), "3");
        assert_eq!(client.info("expired_keys"), "0");
    }
}

#[test]
fn a_field_that_is_looked_up_before_it_is_swept_has_expired_too() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.call("DEBUG SET-ACTIVE-EXPIRE 0");
        for (request, reply) in [
            ("HGET h a", "$-1"),
            ("HMGET h a b", "*2 $-1 $1 2"),
            ("HGETALL h", "*2 $1 b $1 2"),
            ("HINCRBY h a 5", ":5"),
            ("HSETNX h a 7", ":1"),
            ("HDEL h a", ":0"),
            ("HTTL h FIELDS 1 a", "*1 :-2"),
            ("HEXPIRE h 5 FIELDS 1 a", "*1 :-2"),
            ("HRANDFIELD h 5", "*1 $1 b"),
            ("HSCAN h 0", "*2 $1 0 *2 $1 b $1 2"),
        ] {
            client.expect(&[("DEL h", ":0"), ("HSET h a 1 b 2", ":2"), ("HPEXPIRE h 50 FIELDS 1 a", "*1 :1")]);
            server.advance_ms(50);
            heard(&mut listener, &mut client);
            assert_eq!(client.call(request), reply, "{request}");
            assert_eq!(heard(&mut listener, &mut client)[0], "hexpired h", "{request}");
            client.call("DEL h");
        }
        client.expect(&[("HSETEX h PX 10 FIELDS 1 a 1", ":1")]);
        server.advance_ms(10);
        client.expect(&[("HGET h a", "$-1"), ("EXISTS h", ":0")]);
    }
}

#[test]
fn a_new_value_removes_the_deadline_and_a_sum_keeps_it() {
    for form in FORMS {
        let server = start(form);
        server.client().expect(&[
            ("HSETEX h EX 10 FIELDS 4 a 1 b 2 c 3 d 4", ":1"),
            ("HSET h a 2", ":0"),
            ("HINCRBY h b 1", ":3"),
            ("HINCRBYFLOAT h c 0.5", "$3 3.5"),
            ("HSETNX h d 5", ":0"),
            ("HTTL h FIELDS 4 a b c d", "*4 :-1 :10 :10 :10"),
            ("HSETEX h KEEPTTL FIELDS 2 a 5 b 6", ":1"),
            ("HTTL h FIELDS 2 a b", "*2 :-1 :10"),
            ("HSETEX h FIELDS 1 b 6", ":1"),
            ("HTTL h FIELDS 1 b", "*1 :-1"),
        ]);
    }
}

#[test]
fn values_are_read_and_set_together_with_deadlines() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[
            ("HSETEX h FXX FIELDS 1 a 1", ":0"),
            ("EXISTS h", ":0"),
            ("HSETEX h FNX PX 1000 FIELDS 2 a 1 b 2", ":1"),
            ("HSETEX h FNX FIELDS 2 c 1 b 2", ":0"),
            ("HSETEX h FXX FIELDS 2 c 1 b 2", ":0"),
            ("HGETEX h FIELDS 2 a x", "*2 $1 1 $-1"),
            ("HGETEX h EX 20 FIELDS 2 a x", "*2 $1 1 $-1"),
            ("HTTL h FIELDS 2 a b", "*2 :20 :1"),
            ("HGETEX h PERSIST FIELDS 1 a", "*1 $1 1"),
            ("HGETEX h PERSIST FIELDS 1 a", "*1 $1 1"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
            ("HGETEX h PXAT 5 FIELDS 1 a", "*1 $1 1"),
            ("HGETDEL h FIELDS 3 a b b", "*3 $-1 $1 2 $-1"),
            ("EXISTS h", ":0"),
            ("HGETDEL h FIELDS 1 a", "*1 $-1"),
            ("HGETEX h EX 5 FIELDS 1 a", "*1 $-1"),
        ]);
        let events = heard(&mut listener, &mut client);
        let expected = ["hset h", "hexpire h", "hexpire h", "hpersist h", "hdel h", "hdel h", "del h"];
        assert_eq!(events, expected);
    }
}

#[test]
fn hashes_take_their_deadlines_along() {
    for form in FORMS {
        let server = start(form);
        let mut client = server.client();
        client.expect(&[
            ("HSET h a 1 b 2", ":2"),
            ("HPEXPIRE h 100 FIELDS 1 a", "*1 :1"),
            ("COPY h copied", ":1"),
            ("RENAME h renamed", "+OK"),
            ("COPY renamed moved", ":1"),
            ("MOVE moved 1", ":1"),
            ("HPTTL copied FIELDS 2 a b", "*2 :100 :-1"),
            ("HPTTL renamed FIELDS 1 a", "*1 :100"),
        ]);
        let digest = client.call("DEBUG DIGEST-VALUE copied");
        let keylatch::internals::resp::Frame::Bulk(dump) = client.frame(&["DUMP", "copied"]) else { panic!("no dump") };
        client.call_args(&[b"RESTORE", &b"restored"[..], b"0", &dump]);
        assert_eq!(client.call("DEBUG DIGEST-VALUE restored"), digest);
        client.expect(&[("HPTTL restored FIELDS 2 a b", "*2 :100 :-1"), ("SWAPDB 0 2", "+OK"), ("DBSIZE", ":0")]);
        server.advance_ms(100);
        client.expect(&[("SELECT 2", "+OK"), ("HKEYS copied", "*1 $1 b"), ("HKEYS renamed", "*1 $1 b")]);
        client.expect(&[("HKEYS restored", "*1 $1 b"), ("SELECT 1", "+OK"), ("HKEYS moved", "*1 $1 b")]);
        assert_eq!(client.info("expired_subkeys"), "4");
        client.expect(&[("FLUSHALL", "+OK"), ("HSETEX h PX 10 FIELDS 1 a 1", ":1"), ("FLUSHALL", "+OK")]);
        server.advance_ms(10);
        assert_eq!(client.info("expired_subkeys"), "4");
    }
}

/// Follows Redis 8.0. The log has commands that create the same fields in any hash that another server may have.
#[test]
fn a_missing_hash_that_is_set_with_a_time_in_the_past_is_created_and_deleted() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "AEn")]);
    server.begin_log();
    let (mut watcher, mut client, mut listener) = (server.client(), server.client(), server.client());
    listener.call("PSUBSCRIBE __keyevent@*");
    for request in ["HSETEX h PXAT 1 FIELDS 2 a 1 b 2", "HSETEX h FNX EXAT 1 FIELDS 2 a 1 b 2"] {
        watcher.expect(&[("WATCH h", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
        let before = client.info("rdb_changes_since_last_save").parse::<i64>().expect("a number");
        client.expect(&[(request, ":1"), ("EXISTS h", ":0")]);
        assert_eq!(watcher.call("EXEC"), "*-1", "{request}");
        assert_eq!(heard(&mut listener, &mut client), ["new h", "hset h", "hdel h", "del h"], "{request}");
        let changes = client.info("rdb_changes_since_last_save").parse::<i64>().expect("a number") - before;
        assert_eq!(changes, 2, "{request}");
        let log = server.take_log();
        let removed = [encode(&["HDEL", "h", "a"]), encode(&["HDEL", "h", "b"])].concat();
        assert!(log.windows(removed.len()).any(|part| *part == removed), "{}", log.escape_ascii());
        assert!(!log.windows(6).any(|part| *part == *b"HSETEX"), "{}", log.escape_ascii());
    }
    // An unmet condition creates nothing.
    watcher.expect(&[("WATCH h", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
    client.expect(&[("HSETEX h FXX PXAT 1 FIELDS 1 a 1", ":0")]);
    assert_eq!(watcher.call("EXEC"), "*1 +PONG");
    assert!(heard(&mut listener, &mut client).is_empty());
    assert!(!server.take_log().windows(4).any(|part| *part == *b"HDEL"));
}

#[test]
fn a_hash_with_deadlines_is_a_listpack_of_its_own_kind_in_the_order_of_the_deadlines() {
    let server = start("4");
    server.client().expect(&[
        ("HSET h a 1 b 2 c 3", ":3"),
        ("OBJECT ENCODING h", "$8 listpack"),
        ("HEXPIRE h 20 FIELDS 1 b", "*1 :1"),
        ("OBJECT ENCODING h", "$10 listpackex"),
        ("HEXPIRE h 10 FIELDS 1 c", "*1 :1"),
        ("HGETALL h", "*6 $1 c $1 3 $1 b $1 2 $1 a $1 1"),
        ("HPERSIST h FIELDS 2 b c", "*2 :1 :1"),
        ("OBJECT ENCODING h", "$10 listpackex"),
        ("HPEXPIRE h 500 FIELDS 1 a", "*1 :1"),
        ("HSET h d 4 e 5", ":2"),
        ("OBJECT ENCODING h", "$9 hashtable"),
        ("HPTTL h FIELDS 2 a b", "*2 :500 :-1"),
    ]);
    server.advance_ms(500);
    assert_eq!(server.client().call("HLEN h"), ":4");
}

#[test]
fn ten_thousand_fields_expire_each_at_its_time_while_hashes_grow_and_shrink() {
    let server = start("0");
    let mut client = server.client();
    let mut requests = Vec::new();
    for number in 0..10_000 {
        let (key, ttl_ms) = (number % 7, 1 + number * 37 % 1000);
        requests.push(format!("HSETEX h{key} PX {ttl_ms} FIELDS 1 f{number} v"));
    }
    assert!(client.pipeline(&requests).iter().all(|reply| reply == ":1"));
    for passed in (100..=1000).step_by(100) {
        server.advance_ms(100);
        let left: i64 = (0..7).map(|key| client.int(&format!("HLEN h{key}"))).sum();
        let expected = (0..10_000).filter(|number| 1 + number * 37 % 1000 > passed).count();
        assert_eq!(left, expected as i64, "after {passed} ms");
    }
    assert_eq!((client.call("DBSIZE"), client.info("expired_subkeys")), (":0".into(), "10000".into()));
}

#[test]
fn deadlines_are_logged_as_dates_and_expired_fields_as_removed() {
    let server = start("512");
    let mut client = server.client();
    client.call("SET the:first command");
    server.begin_log();
    let mut log_of = |request: &str| {
        client.call(request);
        let (mut codec, mut log) = (
            keylatch::internals::resp::Codec::new(keylatch::internals::resp::RequestLimits::default()),
            server.take_log(),
        );
        let mut text = Vec::new();
        while let Some(batch) =
            tokio_util::codec::Decoder::decode(&mut codec, &mut log).expect("a sequence of requests")
        {
            let spell = |arg: &[u8]| arg.escape_ascii().to_string();
            text.extend(batch.iter().map(|request| request.args().map(spell).collect::<Vec<_>>().join(" ")));
        }
        text.join("; ")
    };
    assert_eq!(log_of("HSET h a 1 b 2 c 3"), "SELECT 0; hset h a 1 b 2 c 3");
    let at = |ms: i64| BEGIN_MS + ms;
    for (request, logged) in [
        ("HEXPIRE h 10 FIELDS 2 a nothing", format!("HPEXPIREAT h {} FIELDS 1 a", at(10_000))),
        ("HEXPIRE h 20 NX FIELDS 2 a b", format!("HPEXPIREAT h {} FIELDS 1 b", at(20_000))),
        ("HEXPIRE h 20 NX FIELDS 2 a b", String::new()),
        ("HPERSIST h FIELDS 1 b", "hpersist h FIELDS 1 b".into()),
        ("HINCRBYFLOAT h a 0.5", "HSETEX h KEEPTTL FIELDS 1 a 1.5".into()),
        ("HSETEX h FNX EX 5 FIELDS 1 d 4", format!("HSETEX h PXAT {} FIELDS 1 d 4", at(5000))),
        ("HGETEX h PX 50 FIELDS 1 b", format!("HPEXPIREAT h {} FIELDS 1 b", at(50))),
        ("HGETEX h PERSIST FIELDS 1 b", "HPERSIST h FIELDS 1 b".into()),
        ("HGETDEL h FIELDS 1 b", "HDEL h b".into()),
        ("HEXPIRE h 0 FIELDS 1 c", "HDEL h c".into()),
    ] {
        assert_eq!(log_of(request), logged, "{request}");
    }
    server.advance_ms(5000);
    assert_eq!(log_of("PING"), "HDEL h d");
    server.advance_ms(5000);
    assert_eq!(log_of("EXISTS h"), "HDEL h a");
}

#[test]
fn expired_fields_are_counted_from_the_last_reset_of_the_statistics() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    let lapse = |client: &mut Client| {
        client.expect(&[("HSET h a 1 b 2 c 3", ":3"), ("HPEXPIRE h 50 FIELDS 2 a b", "*2 :1 :1")]);
        server.advance_ms(50);
    };
    lapse(&mut client);
    wait_until(|| client.info("expired_subkeys") == "2");
    assert_eq!(client.info("expired_subkeys_active"), "2");
    client.expect(&[("CONFIG RESETSTAT", "+OK"), ("DEL h", ":1"), ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")]);
    assert_eq!(client.info("expired_subkeys"), "0");
    lapse(&mut client);
    assert_eq!(client.call("HGETALL h"), "*2 $1 c $1 3");
    assert_eq!(client.info("expired_subkeys"), "2");
    assert_eq!(client.info("expired_subkeys_active"), "0");
}

#[test]
fn a_hash_that_is_overwritten_has_no_fields_with_deadlines_any_more() {
    let server = TestServer::start();
    let mut client = server.client();
    let long = format!("SET h {}", "v".repeat(20_000));
    for overwrite in ["SET h v", "SET h v PX 1000", "MSET h v", &long, "SUNIONSTORE h s", "DEL h", "COPY k h REPLACE"] {
        client.call("FLUSHALL");
        client.expect(&[("SADD s m", ":1"), ("SET k v", "+OK"), ("HSET h a 1 b 2", ":2")]);
        client.expect(&[("HEXPIRE h 100 FIELDS 1 a", "*1 :1")]);
        assert!(client.info("db0").ends_with("subexpiry=1"));
        client.call(overwrite);
        assert!(client.info("db0").ends_with("subexpiry=0"), "{overwrite}");
    }
}

#[test]
fn fields_whose_time_ends_during_a_pause_are_removed_after_it() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("HSET h f 1 g 2", ":2"),
        ("HPEXPIRE h 10 FIELDS 1 f", "*1 :1"),
        ("CLIENT PAUSE 1000 WRITE", "+OK"),
    ]);
    server.advance_ms(10);
    client.expect(&[("HGET h g", "$1 2")]);
    assert_eq!(client.info("expired_subkeys"), "0");
    client.expect(&[("CLIENT UNPAUSE", "+OK"), ("HGET h f", "$-1")]);
    wait_until(|| client.info("expired_subkeys") == "1");
    client.expect(&[("HLEN h", ":1")]);
}

#[test]
fn growing_and_shrinking_tables_lose_no_deadline_of_a_field() {
    let server = TestServer::start();
    let mut client = server.client();
    let timed: Vec<String> = (0..500)
        .flat_map(|n| [format!("HSET h:{n} f 1 g 2"), format!("HPEXPIRE h:{n} {} FIELDS 1 f", 1000 + n)])
        .collect();
    client.pipeline(&timed);
    client.pipeline(&(0..30_000).map(|n| format!("SET plain:{n} v")).collect::<Vec<_>>());
    server.advance_ms(1000 + 249);
    assert_eq!(client.info("expired_subkeys"), "250");
    client.pipeline(&(0..30_000).map(|n| format!("DEL plain:{n}")).collect::<Vec<_>>());
    server.advance_ms(250);
    assert_eq!(client.info("expired_subkeys"), "500");
}
