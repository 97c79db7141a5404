//! Compare-and-set: conditions of SET, DELEX, DELIFEQ, EXPIRE and EXEC on a key's string, DIGEST, and MSETEX. No server
//! here has all of them, so the expected replies of Redis 8.4 and Valkey 9 are written down.

use crate::harness::{Client, TestServer};

const SYNTAX: &str = "-ERR syntax error";
const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOT_DIGEST: &str = "-ERR must be exactly 16 hexadecimal characters";
const NO_KEY_PERMISSION: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";

/// The digest of `hello`.
const HELLO: &str = "9555e8555c62dcfd";
/// A digest that no string of these tests has.
const OTHER: &str = "0123456789abcdef";

/// Conditions: the arguments, whether `hello` meets them, and whether a missing key does.
const CONDITIONS: [(&str, bool, bool); 12] = [
    ("IFEQ hello", true, false),
    ("IFEQ other", false, false),
    ("ifeq hell", false, false),
    ("IFNE hello", false, true),
    ("IfNe other", true, true),
    ("IFNE Hello", true, true),
    ("IFDEQ 9555e8555c62dcfd", true, false),
    ("IFDEQ 9555E8555C62DCFD", true, false),
    ("IFDEQ 0123456789abcdef", false, false),
    ("ifdne 9555E8555c62dcfd", false, true),
    ("IFDNE 0123456789abcdef", true, true),
    ("IFDNE zzzzzzzzzzzzzzzz", true, true),
];

#[test]
fn set_acts_only_if_the_condition_is_met() {
    let server = TestServer::start();
    for (mut client, null) in [(server.client(), "$-1"), (server.client3(), "_")] {
        for (condition, is_met, is_met_by_nothing) in CONDITIONS {
            let reply = |is_met| if is_met { "+OK" } else { null };
            client.expect(&[("SET k hello", "+OK")]);
            assert_eq!(client.call(&format!("SET k new {condition}")), reply(is_met), "{condition}");
            assert_eq!(client.call("GET k"), if is_met { "$3 new" } else { "$5 hello" }, "{condition}");
            client.expect(&[("DEL k", ":1")]);
            assert_eq!(client.call(&format!("SET k new {condition}")), reply(is_met_by_nothing), "{condition}");
            assert_eq!(client.int("EXISTS k"), i64::from(is_met_by_nothing), "{condition}");
            client.call("DEL k");
        }
    }
}

#[test]
fn set_with_get_replies_with_the_old_string_whether_or_not_the_condition_is_met() {
    let server = TestServer::start();
    for (mut client, null) in [(server.client(), "$-1"), (server.client3(), "_")] {
        for (condition, is_met, is_met_by_nothing) in CONDITIONS {
            for order in [format!("{condition} GET"), format!("GET {condition}")] {
                client.expect(&[("SET k hello", "+OK")]);
                assert_eq!(client.call(&format!("SET k new {order}")), "$5 hello", "{order}");
                assert_eq!(client.call("GET k"), if is_met { "$3 new" } else { "$5 hello" }, "{order}");
                client.expect(&[("DEL k", ":1")]);
                assert_eq!(client.call(&format!("SET k new {order}")), null, "{order}");
                assert_eq!(client.int("DEL k"), i64::from(is_met_by_nothing), "{order}");
            }
        }
    }
}

#[test]
fn set_under_a_condition_treats_the_ttl_as_set_does_and_only_when_it_acts() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k hello EX 100", "+OK"),
        ("SET k new IFEQ other", "$-1"),
        ("TTL k", ":100"),
        ("SET k new IFEQ other EX 7", "$-1"),
        ("SET k new PX 7 GET IFNE hello", "$5 hello"),
        ("TTL k", ":100"),
        ("SET k one KEEPTTL IFEQ hello", "+OK"),
        ("TTL k", ":100"),
        ("SET k two IFEQ one EX 7", "+OK"),
        ("TTL k", ":7"),
        ("SET k three PX 9000 IFNE one", "+OK"),
        ("PTTL k", ":9000"),
        ("SET k four IFEQ three", "+OK"),
        ("TTL k", ":-1"),
        ("SET k five GET EXAT 1 IFEQ four", "$4 four"),
        ("EXISTS k", ":0"),
        ("SET k six PXAT 1 IFNE four", "+OK"),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn conditions_of_set_exclude_each_other_in_either_order() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k hello", "+OK")]);
    let conditions = ["NX", "XX", "IFEQ hello", "IFNE other", &format!("IFDEQ {HELLO}"), &format!("IFDNE {OTHER}")];
    for one in conditions {
        for other in conditions {
            // An option that changes nothing may be repeated, as in Redis 7.
            let is_fine = one == other && !one.starts_with("IF");
            for between in ["", "GET ", "EX 5 "] {
                let reply = client.call(&format!("SET k new {one} {between}{other}"));
                assert_eq!(reply == SYNTAX, !is_fine, "{one} {between}{other}: {reply}");
            }
            client.expect(&[("SET k hello", "+OK")]);
        }
    }
    client.expect(&[
        ("SET k v IFEQ", SYNTAX),
        ("SET k v IFNE", SYNTAX),
        ("SET k v GET IFDEQ", SYNTAX),
        ("SET k v IFDNE", SYNTAX),
        ("SET k v IFEQ hello world", SYNTAX),
        ("SET k v IFEQ hello PERSIST", SYNTAX),
        ("SET k v IFGT hello", SYNTAX),
        ("SET k v IFEQ hello KEEPTTL EX 5", SYNTAX),
        // The argument after IFEQ is a value, even if it looks like an option.
        ("SET k v IFEQ NX", "$-1"),
        ("SET k v IFNE GET", "+OK"),
        ("GET k", "$1 v"),
    ]);
}

#[test]
fn the_expiry_is_refused_before_the_key_is_looked_at_and_the_digest_after_it() {
    let server = TestServer::start();
    let mut client = server.client();
    for key in ["missing", "k"] {
        client.expect(&[
            (&format!("SET {key} v IFEQ hello EX 0"), "-ERR invalid expire time in 'set' command"),
            (&format!("SET {key} v EX -1 IFDEQ short"), "-ERR invalid expire time in 'set' command"),
            (&format!("SET {key} v IFDNE short PX ten"), NOT_INTEGER),
            (&format!("SET {key} v PXAT 9223372036854775808 IFDNE short"), NOT_INTEGER),
        ]);
        client.expect(&[("SET k hello", "+OK")]);
    }
    client.expect(&[
        ("SET missing v IFDEQ short", "$-1"),
        ("SET missing v IFDEQ short GET", "$-1"),
        ("EXISTS missing", ":0"),
        ("SET missing v IFDNE short", "+OK"),
    ]);
    for digest in ["", "short", &HELLO[1..], &format!("0{HELLO}")] {
        for condition in ["IFDEQ", "IFDNE"] {
            assert_eq!(client.call_args(&["SET", "k", "v", condition, digest]), NOT_DIGEST);
            assert_eq!(client.call_args(&["SET", "k", "v", "GET", condition, digest]), NOT_DIGEST);
            assert_eq!(client.call_args(&["DELEX", "k", condition, digest]), NOT_DIGEST);
            assert_eq!(client.call_args(&["EXPIRE", "k", "10", condition, digest]), NOT_DIGEST);
        }
    }
    client.expect(&[("GET k", "$5 hello"), ("TTL k", ":-1")]);
}

#[test]
fn strings_are_compared_byte_by_byte() {
    let server = TestServer::start();
    let mut client = server.client();
    let long = vec![b'x'; 100_000];
    let values: [&[u8]; 6] = [b"", b"\0\r\n\xff", b"-999", b"12345", b"0123", &long];
    for value in values {
        for other in values {
            let is_equal = value == other;
            client.call_args(&[b"SET", &b"k"[..], value]);
            let reply = client.call_args(&[b"SET", &b"k"[..], b"new", b"IFEQ", other]);
            assert_eq!(reply == "+OK", is_equal);
            client.call_args(&[b"SET", &b"k"[..], value]);
            assert_eq!(client.call_args(&[b"DELEX", &b"k"[..], b"IFNE", other]), format!(":{}", u8::from(!is_equal)));
            client.call_args(&[b"SET", &b"k"[..], value]);
            assert_eq!(client.call_args(&[b"DELIFEQ", &b"k"[..], other]), format!(":{}", u8::from(is_equal)));
        }
    }
    // The value of an incremented number is its decimal digits.
    client.expect(&[("SET n 10", "+OK"), ("INCR n", ":11"), ("SET n 12 IFEQ 11", "+OK"), ("DELEX n IFEQ 012", ":0")]);
}

#[test]
fn delex_removes_what_fulfils_its_condition() {
    let server = TestServer::start();
    let mut client = server.client();
    for (condition, is_met, _) in CONDITIONS {
        client.expect(&[("SET k hello", "+OK")]);
        assert_eq!(client.int(&format!("DELEX k {condition}")), i64::from(is_met), "{condition}");
        assert_eq!(client.int("DEL k"), i64::from(!is_met), "{condition}");
        assert_eq!(client.int(&format!("DELEX k {condition}")), 0, "{condition} of a missing key");
    }
    client.expect(&[("DELEX k", ":0"), ("SET k v EX 5", "+OK"), ("DELEX k", ":1"), ("EXISTS k", ":0")]);
}

#[test]
fn delex_rejects_its_arguments_before_the_look_up_but_an_unknown_condition_after_it() {
    const ARITY: &str = "-ERR wrong number of arguments for 'delex' command";
    const UNKNOWN: &str = "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("DELEX", ARITY),
        ("DELEX missing IFEQ", ARITY),
        ("DELEX missing IFEQ v extra", ARITY),
        ("DELEX missing FOO v", ":0"),
        ("SET k hello", "+OK"),
        ("DELEX k IFEQ", ARITY),
        ("DELEX k IFEQ hello extra", ARITY),
        ("DELEX k FOO hello", UNKNOWN),
        ("DELEX k IF hello", UNKNOWN),
        ("DELEX k NX hello", UNKNOWN),
        ("GET k", "$5 hello"),
    ]);
}

#[test]
fn digest_returns_sixteen_digits_of_xxh3() {
    const ARITY: &str = "-ERR wrong number of arguments for 'digest' command";
    let server = TestServer::start();
    let mut client = server.client();
    let long = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
    let vectors = [
        ("", "2d06800538d394c2"),
        ("hello", HELLO),
        ("123", "404a763b3f4c8c9a"),
        ("v8", "0cc76dbb41381419"),
        ("Hello world", "b6acb9d84a38ff74"),
        (long, "00006c38adf31777"),
    ];
    for (value, digest) in vectors {
        assert_eq!(client.call_args(&["SET", "k", value]), "+OK");
        assert_eq!(client.call("DIGEST k"), format!("$16 {digest}"));
    }
    client.expect(&[("DIGEST missing", "$-1"), ("DIGEST", ARITY), ("DIGEST k k", ARITY)]);
    client.expect(&[("SET n 122", "+OK"), ("INCR n", ":123"), ("DIGEST n", "$16 404a763b3f4c8c9a")]);
    server.client3().expect(&[("DIGEST missing", "_"), ("DIGEST n", "$16 404a763b3f4c8c9a")]);
}

#[test]
fn what_digest_says_of_a_string_of_any_length_is_what_ifdeq_compares_with() {
    let server = TestServer::start();
    let mut client = server.client();
    for len in [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 16_384, 300_000] {
        let value: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        client.call_args(&[b"SET", &b"k"[..], &value]);
        let digest = client.frame(&["DIGEST", "k"]).as_bytes().expect("a digest").to_vec();
        let longer = [&value[..], b"x"].concat();
        client.call_args(&[b"SET", &b"other"[..], &longer]);
        assert_eq!(client.call_args(&[b"DELEX", &b"other"[..], b"IFDEQ", &digest]), ":0", "{len}");
        assert_eq!(client.call_args(&[b"DELEX", &b"k"[..], b"IFDEQ", &digest]), ":1", "{len}");
    }
}

#[test]
fn delifeq_removes_a_string_that_is_equal() {
    let server = TestServer::start();
    server.client().expect(&[
        ("DELIFEQ k v", ":0"),
        ("SET k v", "+OK"),
        ("DELIFEQ k w", ":0"),
        ("DELIFEQ k v", ":1"),
        ("DELIFEQ k v", ":0"),
        ("DELIFEQ k", "-ERR wrong number of arguments for 'delifeq' command"),
        ("DELIFEQ k v w", "-ERR wrong number of arguments for 'delifeq' command"),
    ]);
}

#[test]
fn msetex_sets_all_keys_or_none() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("MSETEX 2 a 1 b 2", ":1"),
        ("MGET a b", "*2 $1 1 $1 2"),
        ("TTL a", ":-1"),
        ("MSETEX 2 a 3 c 3 NX", ":0"),
        ("MSETEX 2 a 3 c 3 XX", ":0"),
        ("MGET a b c", "*3 $1 1 $1 2 $-1"),
        ("MSETEX 2 a 4 b 4 xx EX 50", ":1"),
        ("MGET a b", "*2 $1 4 $1 4"),
        ("TTL b", ":50"),
        ("MSETEX 2 c 5 d 5 PX 5000 nx", ":1"),
        ("PTTL d", ":5000"),
        // Without an expiry option the TTL is removed; with KEEPTTL each key keeps its own.
        ("MSETEX 2 a 6 d 6 KEEPTTL", ":1"),
        ("TTL a", ":50"),
        ("PTTL d", ":5000"),
        ("MSETEX 1 a 7", ":1"),
        ("TTL a", ":-1"),
        ("MSETEX 1 a 8 EXAT 99999999999", ":1"),
        ("EXPIRETIME a", ":99999999999"),
        ("MSETEX 1 a 8 PXAT 99999999999999", ":1"),
        ("PEXPIRETIME a", ":99999999999999"),
        ("MSETEX 2 same 1 same 2 NX", ":1"),
        ("GET same", "$1 2"),
        ("MSETEX 2 a 9 b 9 EXAT 1", ":1"),
        ("EXISTS a b", ":0"),
        // An option name is a plain value where a value is expected.
        ("MSETEX 1 NX XX NX", ":1"),
        ("GET NX", "$2 XX"),
    ]);
    assert_eq!(client.call("MSETEX 1 k v NX NX EX 5 EX 6"), ":1");
    assert_eq!(client.int("TTL k"), 6);
}

#[test]
fn msetex_refuses_what_it_cannot_count_or_does_not_know() {
    const COUNT: &str = "-ERR invalid numkeys value";
    const PAIRS: &str = "-ERR wrong number of key-value pairs";
    const EXPIRE: &str = "-ERR invalid expire time in 'msetex' command";
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("MSETEX", "-ERR wrong number of arguments for 'msetex' command"),
        ("MSETEX 1 k", "-ERR wrong number of arguments for 'msetex' command"),
        ("MSETEX key1 val1 EX 10", COUNT),
        ("MSETEX 0 k v", COUNT),
        ("MSETEX -1 k v", COUNT),
        ("MSETEX 1.0 k v", COUNT),
        ("MSETEX 2147483648 k v", COUNT),
        ("MSETEX 9223372036854775808 k v", COUNT),
        ("MSETEX 2147483647 k v EX 10", PAIRS),
        ("MSETEX 2 k v k2", PAIRS),
        ("MSETEX 2 k v", PAIRS),
        ("MSETEX 1 k v extra", SYNTAX),
        ("MSETEX 1 k v EX", SYNTAX),
        ("MSETEX 1 k v GET", SYNTAX),
        ("MSETEX 1 k v PERSIST", SYNTAX),
        ("MSETEX 1 k v IFEQ w", SYNTAX),
        ("MSETEX 1 k v NX XX", SYNTAX),
        ("MSETEX 1 k v XX EX 5 NX", SYNTAX),
        ("MSETEX 1 k v EX 10 PX 10", SYNTAX),
        ("MSETEX 1 k v KEEPTTL EX 10", SYNTAX),
        ("MSETEX 1 k v EXAT 10 KEEPTTL", SYNTAX),
        ("MSETEX 1 k v EX 0", EXPIRE),
        ("MSETEX 1 k v PX -1 XX", EXPIRE),
        ("MSETEX 1 k v EX 9223372036854775807", EXPIRE),
        ("MSETEX 1 k v EX ten", NOT_INTEGER),
        ("DBSIZE", ":0"),
    ]);
}

#[test]
fn the_expire_family_acts_only_if_the_key_holds_the_right_string() {
    let server = TestServer::start();
    let mut client = server.client();
    for (condition, is_met, _) in CONDITIONS {
        for call in ["EXPIRE k 100", "PEXPIRE k 100000", "EXPIREAT k 99999999999", "PEXPIREAT k 99999999999999"] {
            client.expect(&[("SET k hello", "+OK")]);
            assert_eq!(client.int(&format!("{call} {condition}")), i64::from(is_met), "{call} {condition}");
            assert_eq!(client.int("TTL k") > 0, is_met, "{call} {condition}");
            client.expect(&[("DEL k", ":1")]);
            assert_eq!(client.int(&format!("{call} {condition}")), 0, "{call} {condition} of a missing key");
        }
    }
}

#[test]
fn conditions_of_expire_go_with_those_on_the_deadline() {
    const MATCH: &str = "-ERR IFEQ, IFNE, IFDEQ and IFDNE options at the same time are not compatible";
    const NX: &str = "-ERR NX and XX, GT or LT options at the same time are not compatible";
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k mine", "+OK"),
        ("EXPIRE k 100 XX IFEQ mine", ":0"),
        ("EXPIRE k 100 NX IFEQ other", ":0"),
        ("EXPIRE k 100 IFEQ mine NX", ":1"),
        ("EXPIRE k 50 IFEQ mine GT", ":0"),
        ("EXPIRE k 50 LT IFNE mine", ":0"),
        ("TTL k", ":100"),
        ("EXPIRE k 50 LT IFEQ mine XX", ":1"),
        ("TTL k", ":50"),
        // A deadline in the past deletes the key, if the condition holds.
        ("EXPIRE k -1 IFEQ other", ":0"),
        ("EXPIRE k -1 IFEQ mine", ":1"),
        ("EXISTS k", ":0"),
        ("EXPIRE k 10 IFEQ a IFEQ a", MATCH),
        ("EXPIRE k 10 IFEQ a IFNE b", MATCH),
        ("EXPIRE k 10 IFDEQ a XX IFDNE b", MATCH),
        ("EXPIRE k 10 NX XX IFEQ a", NX),
        ("EXPIRE k 10 IFEQ", SYNTAX),
        ("EXPIRE k 10 NX IFDEQ", SYNTAX),
        ("EXPIRE k 10 IFGT a", "-ERR Unsupported option IFGT"),
        ("EXPIRE k ten IFEQ a", NOT_INTEGER),
        ("EXPIRE missing 10 IFDEQ short", ":0"),
        ("PERSIST k", ":0"),
    ]);
}

#[test]
fn a_lock_is_taken_renewed_and_released_by_its_owner_alone() {
    let server = TestServer::start();
    let (mut owner, mut thief) = (server.client(), server.client());
    owner.expect(&[("SET lock a NX PX 30000", "+OK")]);
    thief.expect(&[
        ("SET lock b NX PX 30000", "$-1"),
        ("SET lock b IFEQ b PX 30000", "$-1"),
        ("PEXPIRE lock 90000 IFEQ b", ":0"),
        ("DELEX lock IFEQ b", ":0"),
        ("DELIFEQ lock b", ":0"),
        ("PTTL lock", ":30000"),
    ]);
    server.advance_ms(20_000);
    owner.expect(&[("PEXPIRE lock 30000 IFEQ a", ":1"), ("PTTL lock", ":30000")]);
    server.advance_ms(29_999);
    owner.expect(&[("SET lock a IFEQ a PX 10", "+OK")]);
    server.advance_ms(10);
    owner.expect(&[("DELEX lock IFEQ a", ":0"), ("SET lock a IFEQ a PX 10", "$-1"), ("PEXPIRE lock 10 IFEQ a", ":0")]);
    thief.expect(&[("SET lock b NX PX 30000", "+OK"), ("DELEX lock IFEQ b", ":1"), ("EXISTS lock", ":0")]);
}

/// Queues `SET done 1` and calls EXEC with these arguments.
fn exec(client: &mut Client, words: &str) -> String {
    client.expect(&[("MULTI", "+OK"), ("SET done 1", "+QUEUED")]);
    client.call(format!("EXEC {words}").trim_end())
}

#[test]
fn exec_acts_only_if_all_its_conditions_are_met() {
    let server = TestServer::start();
    for (mut client, null) in [(server.client(), "*-1"), (server.client3(), "_")] {
        client.expect(&[("MSET a 1 b 2", "+OK")]);
        let cases = [
            ("", true),
            ("IFEQ a 1", true),
            ("ifeq a 2", false),
            ("IFEQ missing 1", false),
            ("IFNE a 1", false),
            ("IFNE a 2", true),
            ("IFNE missing 1", true),
            ("NX a", false),
            ("NX missing", true),
            ("XX a", true),
            ("xx missing", false),
            ("IFEQ a 1 IFEQ b 2 XX a NX missing", true),
            ("IFEQ a 1 IFEQ b 1", false),
            ("XX a XX b XX missing", false),
            ("IFEQ a 1 IFNE a 1", false),
            ("IFEQ a NX", false),
        ];
        for (words, is_met) in cases {
            assert_eq!(exec(&mut client, words), if is_met { "*1 +OK" } else { null }, "EXEC {words}");
            assert_eq!(client.int("DEL done"), i64::from(is_met), "EXEC {words}");
            client.expect(&[("EXEC", "-ERR EXEC without MULTI")]);
        }
    }
}

#[test]
fn exec_aborts_when_its_conditions_make_no_sense() {
    const REFUSED: &str = "-EXECABORT Transaction discarded because of: invalid check condition syntax";
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET a 1", "+OK")]);
    for words in
        ["x", "IFEQ", "IFEQ a", "NX", "IFEQ a 1 XX", "NX a b", "IFDEQ a 0123456789abcdef", "GT a", "XX a IFNE a"]
    {
        assert_eq!(exec(&mut client, words), REFUSED, "EXEC {words}");
        client.expect(&[("EXISTS done", ":0"), ("EXEC", "-ERR EXEC without MULTI")]);
    }
    client.expect(&[
        ("EXEC IFEQ a 1", "-ERR EXEC without MULTI"),
        ("EXEC x", "-ERR EXEC without MULTI"),
        ("MULTI", "+OK"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        ("EXEC IFEQ a 1", "-EXECABORT Transaction discarded because of previous errors."),
    ]);
}

#[test]
fn exec_looks_at_its_conditions_when_it_is_called_and_in_the_selected_database() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.expect(&[("SET version 1", "+OK"), ("MULTI", "+OK"), ("INCR version", "+QUEUED")]);
    other.expect(&[("SET version 2", "+OK")]);
    client.expect(&[
        ("EXEC IFEQ version 1", "*-1"),
        ("MULTI", "+OK"),
        ("INCR version", "+QUEUED"),
        ("EXEC IFEQ version 2", "*1 :3"),
        ("SELECT 1", "+OK"),
        ("SET there 1", "+OK"),
        ("MULTI", "+OK"),
        ("SELECT 0", "+QUEUED"),
        ("GET version", "+QUEUED"),
        ("EXEC XX there NX version", "*2 +OK $1 3"),
        // Watched keys count as well.
        ("WATCH version", "+OK"),
        ("SET version 4", "+OK"),
        ("MULTI", "+OK"),
        ("GET version", "+QUEUED"),
        ("EXEC IFEQ version 4", "*-1"),
    ]);
    client.expect(&[("SET soon v PX 10", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
    server.advance_ms(10);
    client.expect(&[("EXEC NX soon", "*1 +PONG")]);
}

#[test]
fn watches_break_by_what_changes_and_hold_through_what_does_not() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let cases = [
        ("DELEX k IFEQ hello", true),
        ("DELEX k IFEQ other", false),
        ("DELEX k", true),
        ("DELIFEQ k hello", true),
        ("DELIFEQ k other", false),
        ("SET k hello IFEQ hello", true),
        ("SET k hello IFNE hello", false),
        ("SET k hello IFEQ other GET", false),
        ("EXPIRE k 10 IFEQ hello", true),
        ("EXPIRE k 10 IFEQ other", false),
        ("MSETEX 1 k v", true),
        ("MSETEX 2 k v new v NX", false),
        ("MSETEX 2 k v missing v XX", false),
        ("DIGEST k", false),
    ];
    for (words, breaks) in cases {
        client.expect(&[("SET k hello", "+OK"), ("DEL new missing", ":0"), ("WATCH k", "+OK")]);
        other.call(words);
        client.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED")]);
        assert_eq!(client.call("EXEC") == "*-1", breaks, "{words}");
    }
}

#[test]
fn whoever_may_not_read_a_key_may_not_compare_it_either() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SET k hello", "+OK"),
        ("ACL SETUSER writer on nopass %W~k* +@all", "+OK"),
        ("ACL SETUSER reader on nopass %R~k* +@all", "+OK"),
        ("AUTH writer any", "+OK"),
        ("SET k hello", "+OK"),
        ("SET k new IFEQ hello", NO_KEY_PERMISSION),
        ("SET k new IFDNE short", NO_KEY_PERMISSION),
        ("DELEX k IFEQ hello", NO_KEY_PERMISSION),
        ("DELIFEQ k hello", NO_KEY_PERMISSION),
        ("DIGEST k", NO_KEY_PERMISSION),
        ("EXPIRE k 100", ":1"),
        ("EXPIRE k 100 IFEQ hello", NO_KEY_PERMISSION),
        ("PEXPIREAT k 100 NX IFDEQ short", NO_KEY_PERMISSION),
        ("DELEX k", ":1"),
        ("MSETEX 2 k1 v k2 v", ":1"),
        ("MSETEX 2 k1 v other v", NO_KEY_PERMISSION),
        ("MSETEX 1 other v", NO_KEY_PERMISSION),
        ("MSETEX 9 other v", "-ERR wrong number of key-value pairs"),
    ]);
    let refused = format!("-EXECABORT Transaction discarded because of: {}", &NO_KEY_PERMISSION[1..]);
    client.expect(&[("MULTI", "+OK"), ("EXEC IFEQ k1 v", &refused), ("EXEC", "-ERR EXEC without MULTI")]);
    client.expect(&[("MULTI", "+OK"), ("EXEC NX k1 XX k2", &refused)]);
    client.expect(&[
        ("AUTH reader any", "+OK"),
        ("DIGEST k1", "$16 f7042be43fb80714"),
        ("SET k1 v", NO_KEY_PERMISSION),
        ("DELEX k1 IFEQ v", NO_KEY_PERMISSION),
        ("MSETEX 1 k1 v", NO_KEY_PERMISSION),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("EXEC IFEQ k1 v XX k2", "*1 +PONG"),
        ("MULTI", "+OK"),
        ("EXEC IFEQ k1 v XX other", &refused),
    ]);
}

#[test]
fn the_new_commands_declare_their_keys_flags_and_categories() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 5", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS MSETEX 1 a 1 b 2", "*1 $1 a"),
        ("COMMAND GETKEYS MSETEX 3 a 1 b 2", "-ERR Invalid arguments specified for command"),
        ("COMMAND GETKEYS MSETEX 0 a 1", "-ERR Invalid arguments specified for command"),
        ("COMMAND GETKEYS EXEC IFEQ a 1 XX b NX c", "*3 $1 a $1 b $1 c"),
        ("COMMAND GETKEYS EXEC IFEQ a", "-ERR Invalid arguments specified for command"),
        ("COMMAND GETKEYS DELEX a IFEQ b", "*1 $1 a"),
        ("COMMAND GETKEYSANDFLAGS DELEX a", "*1 *2 $1 a *2 +RM +delete"),
        ("COMMAND GETKEYSANDFLAGS DELEX a IFEQ b", "*1 *2 $1 a *3 +RW +access +delete"),
        ("COMMAND GETKEYSANDFLAGS SET a b", "*1 *2 $1 a *2 +OW +update"),
        ("COMMAND GETKEYSANDFLAGS SET a b IFNE c", "*1 *2 $1 a *3 +RW +access +update"),
        ("COMMAND GETKEYSANDFLAGS EXPIRE a 1", "*1 *2 $1 a *2 +RW +update"),
        ("COMMAND GETKEYSANDFLAGS EXPIRE a 1 IFEQ c", "*1 *2 $1 a *3 +RW +access +update"),
        ("COMMAND GETKEYSANDFLAGS DIGEST a", "*1 *2 $1 a *2 +RO +access"),
        (
            "COMMAND INFO delex",
            "*1 *10 $5 delex :-2 *2 +write +fast :1 :1 :1 *3 +@write +@string +@fast *0 *1 *6 $5 flags *3 +RW +delete \
             +variable_flags $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 \
             range $4 spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0",
        ),
        (
            "COMMAND INFO digest",
            "*1 *10 $6 digest :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2 +RO \
             +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 \
             spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0",
        ),
        (
            "COMMAND INFO msetex",
            "*1 *10 $6 msetex :-4 *3 +write +denyoom +movablekeys :0 :0 :0 *3 +@write +@string +@slow *2 $26 \
             request_policy:multi_shard $29 response_policy:all_succeeded *1 *6 $5 flags *2 +OW +update $12 \
             begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $6 keynum $4 spec *6 $9 \
             keynumidx :0 $8 firstkey :1 $7 keystep :2 *0",
        ),
    ]);
}

#[test]
fn msetex_locks_its_keys_beside_other_workers() {
    let server = TestServer::start_on_workers(2);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let calls: Vec<String> =
                    (0..300).map(|at| format!("MSETEX 3 a {number} b {number} key:{at} {number}")).collect();
                assert!(client.pipeline(&calls).iter().all(|reply| reply == ":1"));
            });
        }
        let mut reader = server.client();
        for _ in 0..300 {
            let seen = reader.call("MGET a b");
            let values: Vec<&str> = seen.split(' ').skip(1).collect();
            assert_eq!(values[..values.len() / 2], values[values.len() / 2..], "{seen}");
        }
    });
}

#[test]
#[cfg(feature = "lua")]
fn scripts_compare_and_set_too_and_learn_the_version() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut eval = |script: &str| client.call_args(&["EVAL", script, "1", "k"]);
    assert_eq!(eval("return redis.REDIS_VERSION"), "$5 8.4.0");
    assert_eq!(eval("return redis.REDIS_VERSION_NUM"), format!(":{}", 0x0008_0400));
    assert_eq!(eval("redis.call('SET', KEYS[1], 'a'); return redis.call('SET', KEYS[1], 'b', 'IFEQ', 'a')"), "+OK");
    assert_eq!(eval("return redis.call('SET', KEYS[1], 'c', 'IFEQ', 'a')"), "$-1");
    assert_eq!(eval("return redis.call('MSETEX', 2, KEYS[1], 'd', 'other', 'e')"), ":1");
    assert_eq!(eval("return redis.call('DELEX', KEYS[1], 'IFDEQ', redis.call('DIGEST', KEYS[1]))"), ":1");
    assert!(eval("return redis.call('EXEC', 'NX', KEYS[1])").starts_with("-ERR This Redis command is not allowed"));
}
