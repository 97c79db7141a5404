//! Deadlines of members of sets: SEXPIRE and its kin, and SADDEX.

use keylatch::internals::resp::Frame;

use crate::files::{dir, start_in};
use crate::harness::{Client, TestServer, wait_until};

/// Date on which the clocks of these tests begin, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// Limits under which sets are packed, and under which they are not.
const FORMS: [&str; 2] = ["128", "0"];

/// Starts a server whose sets have one form.
fn start(entries: &str) -> TestServer {
    let server = TestServer::start_with(&[
        ("set-max-listpack-entries", entries),
        ("set-max-intset-entries", entries),
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
            ("SADD s a 7 c", ":3"),
            ("SEXPIRE s 10 MEMBERS 2 a nothing", "*2 :1 :-2"),
            ("SPEXPIRE s 1500 MEMBERS 1 7", "*1 :1"),
            ("STTL s MEMBERS 4 a 7 c nothing", "*4 :10 :2 :-1 :-2"),
            ("SPTTL s MEMBERS 2 a 7", "*2 :10000 :1500"),
            ("SEXPIRETIME s MEMBERS 2 a 7", "*2 :1700000010 :1700000002"),
            ("SPEXPIRETIME s MEMBERS 3 a 7 c", "*3 :1700000010000 :1700000001500 :-1"),
            ("SEXPIREAT s 1700000020 MEMBERS 1 a", "*1 :1"),
            ("SPEXPIREAT s 1700000030000 MEMBERS 1 c", "*1 :1"),
            ("SPERSIST s MEMBERS 3 7 7 nothing", "*3 :1 :-1 :-2"),
            ("SPEXPIRETIME s MEMBERS 3 a 7 c", "*3 :1700000020000 :-1 :1700000030000"),
            ("SMISMEMBER s a 7 c 8", "*4 :1 :1 :1 :0"),
            ("STTL missing MEMBERS 2 a b", "*2 :-2 :-2"),
            ("SPERSIST missing MEMBERS 1 a", "*1 :-2"),
            ("SEXPIRE missing 10 MEMBERS 1 a", "*1 :-2"),
            ("EXISTS missing", ":0"),
            ("SEXPIRE s 10 MEMBERS 2 a a", "*2 :1 :1"),
        ]);
    }
}

#[test]
fn conditions_are_judged_for_each_member_and_before_a_time_in_the_past() {
    for form in FORMS {
        let server = start(form);
        server.client().expect(&[
            ("SADD s a b", ":2"),
            ("SEXPIRE s 10 XX MEMBERS 2 a b", "*2 :0 :0"),
            ("SEXPIRE s 10 GT MEMBERS 1 a", "*1 :0"),
            ("SEXPIRE s 10 NX MEMBERS 1 a", "*1 :1"),
            ("SEXPIRE s 20 nx MEMBERS 2 a b", "*2 :0 :1"),
            ("SEXPIRE s 10 GT MEMBERS 1 a", "*1 :0"),
            ("SEXPIRE s 11 MEMBERS 1 a GT", "*1 :1"),
            ("SEXPIRE s 11 LT MEMBERS 1 a", "*1 :0"),
            ("SEXPIRE s 5 LT MEMBERS 1 a", "*1 :1"),
            ("SEXPIRE s 0 GT MEMBERS 1 a", "*1 :0"),
            ("SEXPIRE s 0 MEMBERS 1 a", "*1 :2"),
            ("SPEXPIREAT s 1 MEMBERS 2 b a", "*2 :2 :-2"),
            ("EXISTS s", ":0"),
        ]);
    }
}

#[test]
fn wrong_arguments_are_refused_in_the_words_of_redis() {
    let server = start("128");
    let mut client = server.client();
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    client.expect(&[("SET t v", "+OK"), ("SADD s a b", ":2")]);
    for (request, error) in [
        ("SEXPIRE t x MEMBERS 1 a", wrong_type),
        ("STTL t MEMBERS 5 a", wrong_type),
        ("SPERSIST t x 1 a", wrong_type),
        ("SADDEX t x 1 a", "-ERR unknown argument: x"),
        ("SADDEX t MEMBERS 1 a", wrong_type),
        ("SEXPIRE s x MEMBERS 1 a", "-ERR value is not an integer or out of range"),
        ("SEXPIRE s -1 MEMBERS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("SEXPIRE s 9223372036854775807 MEMBERS 1 a", "-ERR invalid expire time in 'sexpire' command"),
        ("SPEXPIREAT s 70368744177664 MEMBERS 1 a", "-ERR invalid expire time in 'spexpireat' command"),
        ("SEXPIRE s 1 NX NX NX", "-ERR missing MEMBERS argument"),
        ("SEXPIRE s 1 a b c", "-ERR unknown argument: a"),
        ("SEXPIRE s 1 MEMBERS 0 a", "-ERR Parameter `numMembers` should be greater than 0"),
        ("SEXPIRE s 1 MEMBERS x a", "-ERR Parameter `numMembers` should be greater than 0"),
        ("SEXPIRE s 1 MEMBERS 3 a b", "-ERR wrong number of arguments"),
        ("SEXPIRE s 1 MEMBERS 1 a c", "-ERR unknown argument: c"),
        ("SEXPIRE s 1 NX MEMBERS 1", "-ERR MEMBERS requires at least nummembers and one member argument"),
        ("SEXPIRE s 1 MEMBERS 1 a MEMBERS 1 b", "-ERR MEMBERS keyword specified multiple times"),
        ("SEXPIRE s 1 NX XX MEMBERS 1 a", "-ERR Multiple condition flags specified"),
        ("SEXPIRE s 1 MEMBERS 1", "-ERR wrong number of arguments for 'sexpire' command"),
        ("STTL s a 1 a", "-ERR Mandatory argument MEMBERS is missing or not at the right position"),
        ("STTL s MEMBERS 0 a", "-ERR Number of members must be a positive integer"),
        ("SPERSIST s MEMBERS x a", "-ERR Number of members must be a positive integer"),
        ("SPTTL s MEMBERS 2 a", "-ERR The `nummembers` parameter must match the number of arguments"),
        ("SEXPIRETIME s MEMBERS 1 a b", "-ERR The `nummembers` parameter must match the number of arguments"),
        ("SADDEX s EX 100 MXX", "-ERR missing MEMBERS argument"),
        ("SADDEX s MEMBERS 0 a", "-ERR invalid number of members"),
        ("SADDEX s MEMBERS x a", "-ERR invalid number of members"),
        ("SADDEX s MEMBERS 3 a b", "-ERR wrong number of arguments"),
        ("SADDEX s EX 5 MEMBERS", "-ERR wrong number of arguments for 'saddex' command"),
        ("SADDEX s MEMBERS 1 a MEMBERS 1 b", "-ERR MEMBERS keyword specified multiple times"),
        ("SADDEX s MEMBERS 1 a c", "-ERR unknown argument: c"),
        ("SADDEX s FNX MEMBERS 1 a", "-ERR unknown argument: FNX"),
        ("SADDEX s MXX MNX MEMBERS 1 a", "-ERR Only one of MXX or MNX arguments can be specified"),
        (
            "SADDEX s EX 1 KEEPTTL MEMBERS 1 a",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("SADDEX s MEMBERS 1 a EX", "-ERR missing expire time"),
        ("SADDEX s PX -1 MEMBERS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("SADDEX s PXAT 70368744177664 MEMBERS 1 a", "-ERR invalid expire time in 'saddex' command"),
    ] {
        assert_eq!(client.call(request), error, "{request}");
    }
    client.expect(&[("SMEMBERS s", "*2 $1 a $1 b"), ("OBJECT ENCODING s", "$8 listpack")]);
}

#[test]
fn members_are_added_with_a_deadline_under_a_condition() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[
            ("SADDEX s MXX EX 10 MEMBERS 1 a", ":0"),
            ("EXISTS s", ":0"),
            ("SADDEX s MNX PX 1000 MEMBERS 2 a 5", ":1"),
            ("SADDEX s MNX MEMBERS 2 c 5", ":0"),
            ("SADDEX s MXX MEMBERS 2 c 5", ":0"),
            ("STTL s MEMBERS 3 a 5 c", "*3 :1 :1 :-2"),
            ("SADDEX s KEEPTTL MEMBERS 2 a c", ":1"),
            ("STTL s MEMBERS 3 a 5 c", "*3 :1 :1 :-1"),
            ("SADDEX s MEMBERS 1 a MXX EXAT 1700000100", ":1"),
            ("SADDEX s MEMBERS 1 5", ":1"),
            ("STTL s MEMBERS 3 a 5 c", "*3 :100 :-1 :-1"),
            ("SADD s a", ":0"),
            ("STTL s MEMBERS 1 a", "*1 :100"),
            ("SADDEX s PXAT 1 MEMBERS 2 a new", ":1"),
            ("SADDEX missing EX 0 MEMBERS 2 a b", ":1"),
            ("EXISTS missing", ":0"),
            ("SADDEX s EXAT 1 MEMBERS 2 5 c", ":1"),
            ("EXISTS s", ":0"),
        ]);
        let events = heard(&mut listener, &mut client);
        let expected = ["sadd s", "sexpire s", "sadd s", "sadd s", "sexpire s", "sadd s", "srem s", "srem s", "del s"];
        assert_eq!(events, expected);
    }
}

#[test]
fn members_expire_each_at_its_time_and_the_last_one_with_its_key() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[
            ("SADD s a 2 c", ":3"),
            ("SPEXPIRE s 100 MEMBERS 2 a 2", "*2 :1 :1"),
            ("SPEXPIRE s 200 MEMBERS 1 c", "*1 :1"),
            ("SPEXPIRE s 200 NX MEMBERS 1 c", "*1 :0"),
            ("HSETEX h PX 5000 FIELDS 1 f v", ":1"),
        ]);
        assert!(client.info("db0").ends_with("subexpiry=2"));
        assert_eq!(heard(&mut listener, &mut client), ["sadd s", "sexpire s", "sexpire s", "hset h", "hexpire h"]);
        server.advance_ms(99);
        assert!(heard(&mut listener, &mut client).is_empty());
        assert_eq!(client.call("SCARD s"), ":3");
        server.advance_ms(1);
        assert_eq!(heard(&mut listener, &mut client), ["sexpired s"]);
        client.expect(&[("SCARD s", ":1"), ("SMEMBERS s", "*1 $1 c")]);
        server.advance_ms(100);
        assert_eq!(heard(&mut listener, &mut client), ["sexpired s", "del s"]);
        assert_eq!(client.call("EXISTS s"), ":0");
        assert_eq!(client.info("expired_subkeys"), "3");
        assert!(client.info("db0").ends_with("subexpiry=1"));
    }
}

#[test]
fn a_member_that_is_looked_up_before_it_is_swept_has_expired_too() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SADD t 1 b", ":2")]);
        for (request, reply) in [
            ("SISMEMBER s 1", ":0"),
            ("SMISMEMBER s 1 b", "*2 :0 :1"),
            ("SMEMBERS s", "*1 $1 b"),
            ("SCARD s", ":1"),
            ("SADD s 1 b", ":1"),
            ("SREM s 1", ":0"),
            ("STTL s MEMBERS 1 1", "*1 :-2"),
            ("SEXPIRE s 5 MEMBERS 1 1", "*1 :-2"),
            ("SPERSIST s MEMBERS 1 1", "*1 :-2"),
            ("SADDEX s MNX MEMBERS 1 1", ":1"),
            ("SADDEX s MXX MEMBERS 1 1", ":0"),
            ("SRANDMEMBER s", "$1 b"),
            ("SRANDMEMBER s -3", "*3 $1 b $1 b $1 b"),
            ("SPOP s", "$1 b"),
            ("SPOP s 5", "*1 $1 b"),
            ("SSCAN s 0", "*2 $1 0 *1 $1 b"),
            ("SMOVE s other 1", ":0"),
            ("SINTER s t", "*1 $1 b"),
            ("SINTERCARD 2 s t", ":1"),
            ("SUNION s s", "*1 $1 b"),
            ("SUNIONCARD 2 s s", ":1"),
            ("SDIFF t s", "*1 $1 1"),
            ("SDIFFCARD 2 t s", ":1"),
            ("SINTERSTORE other s t", ":1"),
            ("SUNIONSTORE other s", ":1"),
            ("SDIFFSTORE other t s", ":1"),
            ("ZUNION 1 s", "*1 $1 b"),
            ("ZINTERCARD 2 s t", ":1"),
            ("ZDIFFSTORE other 2 t s", ":1"),
            ("SORT s ALPHA", "*1 $1 b"),
            ("SORT s BY nosort STORE other", ":1"),
        ] {
            client.expect(&[("DEL s other", ":0"), ("SADD s 1 b", ":2"), ("SPEXPIRE s 50 MEMBERS 1 1", "*1 :1")]);
            server.advance_ms(50);
            heard(&mut listener, &mut client);
            assert_eq!(client.call(request), reply, "{request}");
            assert_eq!(heard(&mut listener, &mut client)[0], "sexpired s", "{request}");
            client.call("DEL s other");
        }
        client.expect(&[("SADDEX s PX 10 MEMBERS 1 a", ":1")]);
        server.advance_ms(10);
        client.expect(&[("SISMEMBER s a", ":0"), ("EXISTS s", ":0")]);
    }
}

#[test]
fn a_member_moves_with_its_deadline() {
    for form in FORMS {
        let server = start(form);
        let (mut client, mut listener) = (server.client(), listener(&server));
        client.expect(&[("SADD s a b c 4 y z w", ":7"), ("SADD t y z w", ":3")]);
        client.expect(&[("SEXPIRE s 10 MEMBERS 2 a y", "*2 :1 :1"), ("SEXPIRE t 30 MEMBERS 2 y w", "*2 :1 :1")]);
        heard(&mut listener, &mut client);
        for (member, events, left) in [
            ("a", &["srem s", "sadd t", "sexpire t"][..], ":10"),
            ("b", &["srem s", "sadd t"], ":-1"),
            ("y", &["srem s", "sexpire t"], ":10"),
            ("w", &["srem s", "spersist t"], ":-1"),
            ("z", &["srem s"], ":-1"),
        ] {
            assert_eq!(client.call(&format!("SMOVE s t {member}")), ":1");
            assert_eq!(heard(&mut listener, &mut client), events, "{member}");
            assert_eq!(client.call(&format!("STTL t MEMBERS 1 {member}")), format!("*1 {left}"), "{member}");
        }
        client.expect(&[
            ("SEXPIRE s 7 MEMBERS 1 4", "*1 :1"),
            ("SMOVE s new 4", ":1"),
            ("STTL new MEMBERS 1 4", "*1 :7"),
        ]);
    }
}

#[test]
fn a_stored_member_has_the_nearest_deadline_that_it_has_in_any_source() {
    for form in FORMS {
        let server = start(form);
        server.client().expect(&[
            ("SADD a 1 m n o", ":4"),
            ("SADD b 1 m n p", ":4"),
            ("SEXPIRE a 100 MEMBERS 2 1 m", "*2 :1 :1"),
            ("SEXPIRE a 5 MEMBERS 1 o", "*1 :1"),
            ("SEXPIRE b 30 MEMBERS 2 m p", "*2 :1 :1"),
            ("SUNIONSTORE d a b", ":5"),
            ("STTL d MEMBERS 5 1 m n o p", "*5 :100 :30 :-1 :5 :30"),
            ("SINTERSTORE d b a", ":3"),
            ("STTL d MEMBERS 3 1 m n", "*3 :100 :30 :-1"),
            ("SDIFFSTORE d a b", ":1"),
            ("STTL d MEMBERS 1 o", "*1 :5"),
            ("SDIFFSTORE d b missing", ":4"),
            ("STTL d MEMBERS 3 1 m p", "*3 :-1 :30 :30"),
            ("SADD plain x", ":1"),
            ("SUNIONSTORE d plain", ":1"),
            ("STTL d MEMBERS 1 x", "*1 :-1"),
        ]);
        assert!(server.client().info("db0").ends_with("subexpiry=2"));
    }
}

#[test]
fn sets_take_their_deadlines_along() {
    for form in FORMS {
        let server = start(form);
        let mut client = server.client();
        client.expect(&[
            ("SADD s 1 b", ":2"),
            ("SPEXPIRE s 100 MEMBERS 1 1", "*1 :1"),
            ("COPY s copied", ":1"),
            ("RENAME s renamed", "+OK"),
            ("COPY renamed moved", ":1"),
            ("MOVE moved 1", ":1"),
            ("SPTTL copied MEMBERS 2 1 b", "*2 :100 :-1"),
            ("SPTTL renamed MEMBERS 1 1", "*1 :100"),
        ]);
        let digest = client.call("DEBUG DIGEST-VALUE copied");
        let Frame::Bulk(dump) = client.frame(&["DUMP", "copied"]) else { panic!("no dump") };
        client.call_args(&[b"RESTORE", &b"restored"[..], b"0", &dump]);
        assert_eq!(client.call("DEBUG DIGEST-VALUE restored"), digest);
        client.expect(&[("SPTTL restored MEMBERS 2 1 b", "*2 :100 :-1"), ("DEBUG RELOAD", "+OK")]);
        client.expect(&[("SPTTL restored MEMBERS 2 1 b", "*2 :100 :-1"), ("SWAPDB 0 2", "+OK"), ("DBSIZE", ":0")]);
        server.advance_ms(100);
        client.expect(&[("SELECT 2", "+OK"), ("SMEMBERS copied", "*1 $1 b"), ("SMEMBERS renamed", "*1 $1 b")]);
        client.expect(&[("SMEMBERS restored", "*1 $1 b"), ("SELECT 1", "+OK"), ("SMEMBERS moved", "*1 $1 b")]);
        assert_eq!(client.info("expired_subkeys"), "4");
    }
}

#[test]
fn a_set_takes_the_form_with_deadlines_at_the_first_one() {
    let server = start("4");
    server.client().expect(&[
        ("SADD s 1 2 3", ":3"),
        ("SEXPIRE s 10 XX MEMBERS 1 1", "*1 :0"),
        ("SEXPIRE s 0 MEMBERS 1 3", "*1 :2"),
        ("OBJECT ENCODING s", "$6 intset"),
        ("SADD s 3", ":1"),
        ("SEXPIRE s 20 MEMBERS 1 2", "*1 :1"),
        ("OBJECT ENCODING s", "$10 listpackex"),
        ("SEXPIRE s 10 MEMBERS 1 3", "*1 :1"),
        ("SMEMBERS s", "*3 $1 3 $1 2 $1 1"),
        ("SPERSIST s MEMBERS 2 2 3", "*2 :1 :1"),
        ("OBJECT ENCODING s", "$10 listpackex"),
        ("SPEXPIRE s 500 MEMBERS 1 1", "*1 :1"),
        ("SADD s d e", ":2"),
        ("OBJECT ENCODING s", "$9 hashtable"),
        ("SPTTL s MEMBERS 2 1 2", "*2 :500 :-1"),
    ]);
    server.advance_ms(500);
    server.client().expect(&[("SCARD s", ":4"), ("SISMEMBER s 1", ":0"), ("OBJECT ENCODING s", "$9 hashtable")]);
}

#[test]
fn ten_thousand_members_expire_each_at_its_time_while_sets_grow_and_shrink() {
    let server = start("0");
    let mut client = server.client();
    let mut requests = Vec::new();
    for number in 0..10_000 {
        let (key, ttl_ms) = (number % 7, 1 + number * 37 % 1000);
        let member = if number % 3 == 0 { number.to_string() } else { format!("m{number}") };
        requests.push(format!("SADDEX s{key} PX {ttl_ms} MEMBERS 1 {member}"));
    }
    assert!(client.pipeline(&requests).iter().all(|reply| reply == ":1"));
    for passed in (100..=1000).step_by(100) {
        server.advance_ms(100);
        let left: i64 = (0..7).map(|key| client.int(&format!("SCARD s{key}"))).sum();
        let expected = (0..10_000).filter(|number| 1 + number * 37 % 1000 > passed).count();
        assert_eq!(left, expected as i64, "after {passed} ms");
    }
    assert_eq!((client.call("DBSIZE"), client.info("expired_subkeys")), (":0".into(), "10000".into()));
}

/// Returns the commands that the log has for a request.
fn log_of(server: &TestServer, client: &mut Client, request: &str) -> String {
    client.call(request);
    let (mut codec, mut log) =
        (keylatch::internals::resp::Codec::new(keylatch::internals::resp::RequestLimits::default()), server.take_log());
    let mut text = Vec::new();
    while let Some(batch) = tokio_util::codec::Decoder::decode(&mut codec, &mut log).expect("a sequence of requests") {
        let spell = |arg: &[u8]| arg.escape_ascii().to_string();
        text.extend(batch.iter().map(|request| request.args().map(spell).collect::<Vec<_>>().join(" ")));
    }
    text.join("; ")
}

#[test]
fn deadlines_are_logged_as_dates_and_what_adds_or_removes_members_in_words_of_every_server() {
    let server = start("128");
    let mut client = server.client();
    client.call("SET the:first command");
    server.begin_log();
    assert_eq!(log_of(&server, &mut client, "SADD s a b c"), "SELECT 0; sadd s a b c");
    let at = |ms: i64| BEGIN_MS + ms;
    for (request, logged) in [
        ("SEXPIRE s 10 MEMBERS 2 a nothing", format!("SPEXPIREAT s {} MEMBERS 1 a", at(10_000))),
        ("SEXPIRE s 20 NX MEMBERS 2 a b", format!("SPEXPIREAT s {} MEMBERS 1 b", at(20_000))),
        ("SEXPIRE s 20 NX MEMBERS 2 a b", String::new()),
        ("SPERSIST s MEMBERS 1 b", "spersist s MEMBERS 1 b".into()),
        ("SPERSIST s MEMBERS 1 b", String::new()),
        ("SADDEX s KEEPTTL MEMBERS 2 b d", "SADD s b d".into()),
        ("SADDEX s MNX MEMBERS 1 a", String::new()),
        ("SEXPIRE s 0 MEMBERS 2 c b", "MULTI; SREM s c; SREM s b; EXEC".into()),
        ("SADDEX s PXAT 1 MEMBERS 2 d nothing", "SREM s d".into()),
    ] {
        assert_eq!(log_of(&server, &mut client, request), logged, "{request}");
    }
    let logged = log_of(&server, &mut client, "SADDEX s EX 5 MEMBERS 2 x y");
    assert!(logged.starts_with("MULTI; SADD s x y; PING keylatch-members:1 s"), "{logged}");
    server.advance_ms(5000);
    assert_eq!(log_of(&server, &mut client, "PING"), "SREM s x; SREM s y");
    server.advance_ms(5000);
    assert_eq!(log_of(&server, &mut client, "EXISTS s"), "SREM s a");
}

#[test]
fn saved_and_logged_members_keep_their_deadlines_through_a_restart() {
    for aof in ["no", "yes"] {
        let dir = dir();
        let server = start_in(dir.path(), &[("appendonly", aof)]);
        let mut client = server.client();
        let many: Vec<String> = (0..300).map(|n| if n % 2 == 0 { n.to_string() } else { format!("m{n}") }).collect();
        client.expect(&[
            ("SADD few 1 b c", ":3"),
            ("SPEXPIREAT few 33000000000000 MEMBERS 2 1 b", "*2 :1 :1"),
            (&format!("SADDEX many PXAT 33000000000001 MEMBERS 300 {}", many.join(" ")), ":1"),
            ("SPERSIST many MEMBERS 1 m7", "*1 :1"),
            ("SADDEX many MEMBERS 1 8", ":1"),
            ("SADD plain 1 b", ":2"),
            ("SPEXPIREAT plain 33000000000000 MEMBERS 1 b", "*1 :1"),
            ("SPERSIST plain MEMBERS 1 b", "*1 :1"),
        ]);
        if aof == "no" {
            client.expect(&[("SAVE", "+OK")]);
        }
        drop((client, server));
        let server = start_in(dir.path(), &[("appendonly", aof)]);
        let mut client = server.client();
        client.expect(&[
            ("SPEXPIRETIME few MEMBERS 3 1 b c", "*3 :33000000000000 :33000000000000 :-1"),
            ("SPEXPIRETIME many MEMBERS 4 m7 8 10 m299", "*4 :-1 :-1 :33000000000001 :33000000000001"),
            ("SCARD many", ":300"),
            ("SMEMBERS plain", "*2 $1 1 $1 b"),
            ("SPTTL plain MEMBERS 2 1 b", "*2 :-1 :-1"),
        ]);
        assert!(client.info("db0").ends_with("subexpiry=2"), "{}", client.info("db0"));
    }
}

#[test]
fn transactions_and_scripts_set_deadlines_and_keys_need_their_rights() {
    let server = start("128");
    let mut client = server.client();
    client.expect(&[
        ("MULTI", "+OK"),
        ("SADDEX s EX 10 MEMBERS 1 a", "+QUEUED"),
        ("STTL s MEMBERS 1 a", "+QUEUED"),
        ("EXEC", "*2 :1 *1 :10"),
        ("ACL SETUSER reader on nopass %R~s %RW~own +@all", "+OK"),
        ("AUTH reader any", "+OK"),
        ("STTL s MEMBERS 1 a", "*1 :10"),
        ("SADDEX own MEMBERS 1 a", ":1"),
    ]);
    for request in ["SEXPIRE s 5 MEMBERS 1 a", "SPERSIST s MEMBERS 1 a", "SADDEX s MEMBERS 1 a"] {
        assert!(client.call(request).starts_with("-NOPERM"), "{request}");
    }
    #[cfg(feature = "lua")]
    {
        let script = "return redis.call('SPEXPIRE', KEYS[1], 500, 'MEMBERS', 1, 'a')";
        assert_eq!(server.client().call_args(&["EVAL", script, "1", "s"]), "*1 :1");
        assert_eq!(server.client().call("SPTTL s MEMBERS 1 a"), "*1 :500");
    }
    client.call("AUTH default any");
    assert!(client.call("HELLO 3").starts_with('%'));
    client.expect(&[("SEXPIRE s 100 MEMBERS 2 a x", "*2 :1 :-2"), ("STTL s MEMBERS 2 a x", "*2 :100 :-2")]);
    client.expect(&[("SADDEX s MNX MEMBERS 1 a", ":0"), ("SPERSIST s MEMBERS 1 a", "*1 :1")]);
}

#[test]
fn members_whose_time_ends_during_a_pause_are_removed_after_it() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SADD s f g", ":2"), ("SPEXPIRE s 10 MEMBERS 1 f", "*1 :1"), ("CLIENT PAUSE 1000 WRITE", "+OK")]);
    server.advance_ms(10);
    client.expect(&[("SMEMBERS s", "*1 $1 g"), ("SCARD s", ":1"), ("SISMEMBER s f", ":0")]);
    assert_eq!(client.info("expired_subkeys"), "0");
    client.expect(&[("CLIENT UNPAUSE", "+OK"), ("SISMEMBER s f", ":0")]);
    wait_until(|| client.info("expired_subkeys") == "1");
    client.expect(&[("SCARD s", ":1")]);
}

#[test]
fn a_damaged_record_of_deadlines_is_refused() {
    let server = start("128");
    let mut client = server.client();
    client.expect(&[("SADDEX s PXAT 33000000000000 MEMBERS 2 ab cd", ":1")]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "s"]) else { panic!("no dump") };
    let body = &dump[..dump.len() - 10];
    let restore = |client: &mut Client, body: &[u8]| {
        let payload = keylatch::internals::rdb::seal(body.to_vec(), 10);
        client.call_args(&[b"RESTORE", &b"t"[..], b"0", &payload, b"REPLACE"])
    };
    assert_eq!(restore(&mut client, body), "+OK");
    client.expect(&[("SPEXPIRETIME t MEMBERS 1 cd", "*1 :33000000000000")]);
    let with = |from: &[u8], to: &[u8]| {
        let at = body.windows(from.len()).rposition(|part| part == from).expect("a part");
        [&body[..at], to, &body[at + from.len()..]].concat()
    };
    for damaged in [with(b"\x02cd", b"\x02ce"), with(b"\x02cd", b"\x02ab"), with(b"\x02cd", b"\x09cd")] {
        assert_eq!(restore(&mut client, &damaged), "-ERR Bad data format", "{}", damaged.escape_ascii());
    }
    // Other records are skipped, as by other servers.
    assert_eq!(restore(&mut client, &with(b"keylatch-members", b"keylatch-something")), "+OK");
    assert_eq!(client.call("SPEXPIRETIME t MEMBERS 1 cd"), "*1 :-1");
}
