//! Stories about sets: each command, option and error at least once, in all encodings; and random members, of which
//! only the common properties are compared.

use std::collections::BTreeSet;

use keylatch::internals::resp::Frame;

use super::script::tell;
use crate::harness::{Client, TestServer};

#[test]
fn members_are_added_found_and_removed_as_by_redis() {
    tell("members", MEMBERS);
}

#[test]
fn sets_are_combined_as_by_redis() {
    tell("combinations", COMBINATIONS);
}

#[test]
fn members_are_chosen_as_by_redis_where_there_is_no_choice() {
    tell("choices", CHOICES);
}

#[test]
fn sets_are_scanned_as_by_redis() {
    tell("scans", SCANS);
}

#[test]
fn integers_are_kept_apart_up_to_the_limit_of_redis() {
    tell("encodings", ENCODINGS);
}

#[test]
fn commands_on_keys_of_any_type_take_sets_as_redis_does() {
    tell("generic", GENERIC);
}

const MEMBERS: &str = r#"
    SADD s a
    SADD s a
    SADD s a b c b
    SADD s "" "\x00\r\n\xff"
    SADD s 1 2 01 -0 0 +1 " 1" 1.0 9223372036854775807 -9223372036854775808 9223372036854775808
    SADD s 1
    SADD s
    SADD
    SCARD s
    SCARD missing
    SCARD
    SCARD s s
    ~ SMEMBERS s
    SMEMBERS missing
    SMEMBERS
    SMEMBERS s s
    SISMEMBER s a
    SISMEMBER s ""
    SISMEMBER s "\x00\r\n\xff"
    SISMEMBER s 1
    SISMEMBER s 01
    SISMEMBER s -0
    SISMEMBER s 9223372036854775807
    SISMEMBER s 9223372036854775806
    SISMEMBER s x
    SISMEMBER missing x
    SISMEMBER s
    SISMEMBER s a b
    SMISMEMBER s a x 1 01 001 a
    SMISMEMBER missing a b
    SMISMEMBER s
    SREM s a x 1 a
    SREM s x
    SREM missing a
    SREM s
    SREM
    ~ SMEMBERS s
    SREM s b c "" "\x00\r\n\xff" 2 01 -0 0 +1 " 1" 1.0
    SREM s 9223372036854775807 -9223372036854775808 9223372036854775808 9223372036854775808
    EXISTS s
    TYPE s

    SADD n 3 1 2
    SMEMBERS n
    SADD n 70000 -70000 5000000000 -5000000000
    SMEMBERS n
    SISMEMBER n 3
    SISMEMBER n 4
    SISMEMBER n x
    SISMEMBER n 5000000000
    SMISMEMBER n 1 x 3 5000000001
    SREM n 1 x 70000 7
    SMEMBERS n
    OBJECT ENCODING n
    SADD n x
    SREM n x
    ~ SMEMBERS n
    SREM n 3 2 -70000 5000000000 -5000000000 4
    EXISTS n

    SET k v
    SADD k a
    SADD k
    SREM k a
    SCARD k
    SISMEMBER k a
    SMISMEMBER k a b
    SMEMBERS k
    SADD s a
    GET s
    APPEND s x
    INCR s
    SETRANGE s 0 x
    GETEX s
    BITCOUNT s
    PFADD s x
    STRLEN s
    MGET s k
    GETSET s x
    SETNX s x
    SCARD s
    SET s x
    TYPE s

    SADD a x y 1
    SADD b z
    SMOVE a b x
    ~ SMEMBERS a
    ~ SMEMBERS b
    SMOVE a b x
    SMOVE a b missing
    SMOVE missing b x
    SMOVE a new 1
    OBJECT ENCODING new
    SMEMBERS new
    SMOVE a a y
    SMOVE a a missing
    SADD b y
    SMOVE a b y
    EXISTS a
    SCARD b
    SET str v
    SMOVE str b x
    SMOVE b str x
    SMOVE b str missing
    SMOVE missing str x
    SMOVE str str x
    SMOVE str missing x
    SMOVE b
    SMOVE a b
    SMOVE a b c d
    ~ SMEMBERS b

    MULTI
    SADD s a b
    SREM s a
    SMEMBERS s
    SPOP s
    SPOP s
    EXISTS s
    EXEC
    WATCH s
    b: SADD s a
    MULTI
    PING
    EXEC
    WATCH s
    b: SADD s a
    b: SREM s missing
    b: SPOP s 0
    b: SMOVE s s a
    b: SDIFF s missing
    MULTI
    PING
    EXEC
    WATCH s
    b: SREM s a
    MULTI
    PING
    EXEC
    WATCH d
    b: SINTERSTORE d missing
    MULTI
    PING
    EXEC
    WATCH d
    b: SADD s a
    b: SUNIONSTORE d s
    MULTI
    PING
    EXEC
"#;

const COMBINATIONS: &str = r#"
    SADD a 1 2 3 x y
    SADD b 2 3 4 y z
    SADD c 3 y
    SADD n 1 2 3 4
    SADD m 2 3 5
    ~ SINTER a
    ~ SINTER a b
    ~ SINTER a b c
    ~ SINTER c b a a
    ~ SINTER a n
    ~ SINTER n m
    ~ SINTER n a m
    SINTER a missing
    SINTER missing a
    SINTER missing
    SINTER
    ~ SUNION a
    ~ SUNION a b
    ~ SUNION a b c missing n m
    SUNION n m
    SUNION missing
    SUNION missing missing
    SUNION
    ~ SDIFF a
    ~ SDIFF a b
    ~ SDIFF a b c
    SDIFF n m
    SDIFF m n
    ~ SDIFF a missing n
    SDIFF missing a
    SDIFF a a
    SDIFF a b a
    SDIFF
    SINTERCARD 1 a
    SINTERCARD 2 a b
    SINTERCARD 3 a b c
    SINTERCARD 2 a missing
    SINTERCARD 1 missing
    SINTERCARD 2 a b LIMIT 0
    SINTERCARD 2 a b LIMIT 1
    SINTERCARD 2 a b limit 2
    SINTERCARD 2 a b LIMIT 100
    SINTERCARD 2 a b LIMIT 1 LIMIT 2
    SINTERCARD 2 a b LIMIT 9223372036854775807
    SINTERCARD 2 a b LIMIT 9223372036854775808
    SINTERCARD 2 a b LIMIT -1
    SINTERCARD 2 a b LIMIT x
    SINTERCARD 2 a b LIMIT
    SINTERCARD 2 a b FOO 1
    SINTERCARD 1 a b
    SINTERCARD 0 a
    SINTERCARD -1 a
    SINTERCARD -9223372036854775808 a
    SINTERCARD 9223372036854775807 a
    SINTERCARD 9223372036854775808 a
    SINTERCARD x a
    SINTERCARD 1.0 a
    SINTERCARD 3 a b
    SINTERCARD 2 a
    SINTERCARD 1
    SINTERCARD
    SET str v
    SINTERCARD 2 missing str
    SINTERCARD 1 str LIMIT -1
    SINTER a str
    SINTER missing str
    SINTER str a
    SUNION a str
    SUNION missing str
    SDIFF a str
    SDIFF missing str
    SDIFF a a str

    SADD a 1 2 3 x y
    SADD b 2 3 4 y z
    SADD n 1 2 3 4
    SADD m 2 3 5
    SINTERSTORE d a b
    ~ SMEMBERS d
    SINTERSTORE d n m
    SMEMBERS d
    OBJECT ENCODING d
    SINTERSTORE d a n
    ~ SMEMBERS d
    SINTERSTORE d a missing
    EXISTS d
    SINTERSTORE d a missing
    SUNIONSTORE d a b
    ~ SMEMBERS d
    SUNIONSTORE d n m
    SMEMBERS d
    OBJECT ENCODING d
    SUNIONSTORE d missing
    EXISTS d
    SDIFFSTORE d a b
    ~ SMEMBERS d
    SDIFFSTORE d n m
    SMEMBERS d
    OBJECT ENCODING d
    SDIFFSTORE d a a
    EXISTS d
    SUNIONSTORE a a b
    ~ SMEMBERS a
    SDIFFSTORE a a b
    ~ SMEMBERS a
    SINTERSTORE b b b
    ~ SMEMBERS b
    SINTERSTORE b b missing
    EXISTS b
    SET str v EX 100
    SINTERSTORE str n
    TYPE str
    TTL str
    SET str v
    SUNIONSTORE str n
    TYPE str
    SET str v
    SDIFFSTORE str n
    TYPE str
    SET str v
    SDIFFSTORE str missing
    EXISTS str
    SET str v
    SINTERSTORE d n str
    SINTERSTORE str str
    SUNIONSTORE d str
    SDIFFSTORE d missing str
    GET str
    SINTERSTORE d
    SUNIONSTORE d
    SDIFFSTORE d
    SINTERSTORE
    SUNIONSTORE
    SDIFFSTORE
    EXPIRE n 100
    SINTERSTORE n n m
    TTL n
"#;

const CHOICES: &str = r#"
    SPOP missing
    SPOP missing 0
    SPOP missing 5
    SPOP missing -1
    SPOP missing x
    SPOP missing 1 2
    SPOP
    SADD s only
    SPOP s 0
    SPOP s
    EXISTS s
    SADD s 7
    SPOP s 1
    EXISTS s
    SADD s a b c 1
    ~ SPOP s 4
    EXISTS s
    SADD s a b c 1
    ~ SPOP s 9223372036854775807
    EXISTS s
    SADD s a
    SPOP s 9223372036854775808
    SPOP s -9223372036854775808
    SPOP s ""
    SPOP s 1 x
    SRANDMEMBER missing
    SRANDMEMBER missing 0
    SRANDMEMBER missing 5
    SRANDMEMBER missing -5
    SRANDMEMBER missing x
    SRANDMEMBER missing 1 2
    SRANDMEMBER missing -9223372036854775808
    SRANDMEMBER missing -9223372036854775807
    SRANDMEMBER
    SRANDMEMBER s
    SRANDMEMBER s 0
    SRANDMEMBER s 1
    SRANDMEMBER s 5
    SRANDMEMBER s 9223372036854775807
    SRANDMEMBER s 9223372036854775808
    SRANDMEMBER s -3
    SRANDMEMBER s -9223372036854775808
    SRANDMEMBER s -9223372036854775809
    SRANDMEMBER s ""
    SRANDMEMBER s 1 x
    SADD s b c 1
    ~ SRANDMEMBER s 4
    ~ SRANDMEMBER s 100
    SADD n 3 1 2
    ~ SRANDMEMBER n 3
    ~ SPOP n 3
    SET str v
    SPOP str
    SPOP str 0
    SPOP str 1
    SPOP str x
    SRANDMEMBER str
    SRANDMEMBER str 0
    SRANDMEMBER str x
    SRANDMEMBER str -9223372036854775808
"#;

const SCANS: &str = r#"
    SADD n 1 2 3
    SSCAN n 0
    SSCAN n 99
    SSCAN n 18446744073709551615
    SSCAN n 18446744073709551616
    SSCAN n -1
    SSCAN n x
    SSCAN n ""
    SSCAN n 0 MATCH 1
    SSCAN n 0 MATCH *
    SSCAN n 0 MATCH [12] COUNT 1
    SSCAN n 0 count 100 match ?
    SSCAN n 0 MATCH x
    SSCAN n 0 MATCH x MATCH 3
    SSCAN n 0 COUNT 0
    SSCAN n 0 COUNT -1
    SSCAN n 0 COUNT x
    SSCAN n 0 COUNT 9223372036854775807
    SSCAN n 0 COUNT 9223372036854775808
    SSCAN n 0 COUNT
    SSCAN n 0 MATCH
    SSCAN n 0 TYPE set
    SSCAN n 0 FOO
    SSCAN n
    SSCAN
    SSCAN missing 0
    SSCAN missing 7 FOO
    SSCAN missing x
    SADD s a ab b ba "" 7
    ~ SSCAN s 0 COUNT 100
    ~ SSCAN s 0 COUNT 100 MATCH a*
    ~ SSCAN s 0 COUNT 100 MATCH ""
    ~ SSCAN s 0 COUNT 100 MATCH 7
    SET str v
    SSCAN str 0
    SSCAN str x
    SSCAN str 0 FOO
"#;

const ENCODINGS: &str = r#"
    CONFIG SET set-max-intset-entries 4
    SADD n 1 2 3 4
    OBJECT ENCODING n
    SADD n 4 3
    OBJECT ENCODING n
    SADD n 5
    OBJECT ENCODING n
    SREM n 5 4
    OBJECT ENCODING n
    SINTERSTORE m n n
    OBJECT ENCODING m
    CONFIG SET set-max-intset-entries 512
"#;

const GENERIC: &str = r#"
    SADD s a b
    SADD n 1 2
    TYPE s
    EXISTS s n
    COPY s t
    ~ SMEMBERS t
    COPY n t REPLACE
    SMEMBERS t
    SREM t 1
    SMEMBERS n
    RENAME t u
    SMEMBERS u
    RENAME s u
    ~ SMEMBERS u
    MOVE u 5
    EXISTS u
    SELECT 5
    ~ SMEMBERS u
    SELECT 0
    EXPIRE n 100
    SADD n 3
    TTL n
    PERSIST n
    SREM n 1 2 3
    SADD n 1
    TTL n
    DEL n
    SADD n 1
    UNLINK n
    OBJECT REFCOUNT n
    SADD n 1
    OBJECT REFCOUNT n
    OBJECT IDLETIME n
    DEBUG DIGEST-VALUE n
    SADD s a b c 1 2 3 "" 99999999999999999999 9223372036854775807
    DEBUG DIGEST-VALUE s missing n
    DEBUG DIGEST
    SET str v
    DEBUG DIGEST-VALUE str s
    SCAN 0 TYPE set COUNT 1000 MATCH n
    EXPIRE s 100
    DEBUG DIGEST-VALUE s
    DUMP n
    SADD n 70000 5000000000
    DUMP n
    FLUSHALL
    SADD one x
    DUMP one
    DEBUG DIGEST
"#;

fn texts(frame: Frame) -> Vec<Vec<u8>> {
    let (Frame::Array(items) | Frame::Set(items)) = frame else { panic!("no members: {frame:?}") };
    items.iter().map(|item| item.as_bytes().expect("a member").to_vec()).collect()
}

fn set(members: &[Vec<u8>]) -> BTreeSet<&[u8]> {
    members.iter().map(Vec::as_slice).collect()
}

/// Fills a set of each encoding; returns the names, each with its members.
fn fill(client: &mut Client) -> [(&'static str, Vec<Vec<u8>>); 4] {
    let name = |number: usize| format!("member:{number}").into_bytes();
    let int = |number: usize| (number * 1000).to_string().into_bytes();
    let sets = [
        ("intset", (0..100).map(int).collect::<Vec<_>>()),
        ("listpack", (0..100).map(name).collect()),
        ("hashtable", (0..1000).map(name).collect()),
        ("hashtable of integers", (0..1000).map(int).collect()),
    ];
    for (key, members) in &sets {
        let words: Vec<&[u8]> =
            [b"SADD", key.as_bytes()].into_iter().chain(members.iter().map(Vec::as_slice)).collect();
        assert_eq!(client.call_args(&words), format!(":{}", members.len()));
        let encoding = client.call_args(&["OBJECT", "ENCODING", key]);
        assert!(encoding.ends_with(key.split(' ').next().expect("a word")), "{encoding}");
    }
    sets
}

#[test]
fn random_members_are_different_where_they_must_be_and_members_always() {
    let server = TestServer::start();
    let mut client = server.client();
    for (key, members) in fill(&mut client) {
        for count in ["0", "1", "5", "99", "100", "500", "999", "1000", "5000", "-1", "-5", "-3000"] {
            let chosen = texts(client.frame(&["SRANDMEMBER", key, count]));
            let wanted: i64 = count.parse().expect("a number");
            assert!(set(&chosen).is_subset(&set(&members)));
            if wanted >= 0 {
                assert_eq!(chosen.len(), members.len().min(wanted as usize), "{key} {count}");
                assert_eq!(set(&chosen).len(), chosen.len());
            } else {
                assert_eq!(chosen.len() as i64, -wanted);
            }
        }
        let one = client.frame(&["SRANDMEMBER", key]);
        assert!(set(&members).contains(one.as_bytes().expect("a member")));
    }
    assert_eq!(client.call("SRANDMEMBER intset -9223372036854775807"), "-ERR value is out of range");
}

#[test]
fn popped_members_are_gone_and_the_others_stay() {
    let server = TestServer::start();
    let mut client = server.client();
    for (key, members) in fill(&mut client) {
        let mut left = set(&members);
        for count in ["1", "3", "50", "20", "900", "5000"] {
            let popped = texts(client.frame(&["SPOP", key, count]));
            assert_eq!(popped.len(), left.len().min(count.parse().expect("a number")), "{key} {count}");
            popped.iter().for_each(|member| assert!(left.remove(member.as_slice())));
            let rest = texts(client.frame(&["SMEMBERS", key]));
            assert_eq!(set(&rest), left);
            if let Some(one) = client.frame(&["SPOP", key]).as_bytes() {
                assert!(left.remove(one));
            }
        }
        assert_eq!(client.call_args(&["EXISTS", key]), ":0");
    }
}

#[test]
fn a_large_set_is_scanned_in_parts() {
    let server = TestServer::start();
    let mut client = server.client();
    for (key, members) in fill(&mut client) {
        for count in ["1", "10", "100000"] {
            let (mut seen, mut cursor, mut calls) = (Vec::new(), "0".to_owned(), 0);
            loop {
                let Frame::Array(reply) = client.frame(&["SSCAN", key, &cursor, "COUNT", count]) else { panic!() };
                let [next, found] = &reply[..] else { panic!("{reply:?}") };
                seen.extend(texts(found.clone()));
                cursor = String::from_utf8(next.as_bytes().expect("a cursor").to_vec()).expect("a number");
                calls += 1;
                if cursor == "0" {
                    break;
                }
            }
            assert_eq!((seen.len(), set(&seen)), (members.len(), set(&members)), "{key} {count}");
            assert_eq!(calls > 1, members.len() > 100 && count != "100000");
        }
        client.call_args(&["SSCAN", key, "18446744073709551615"]);
    }
    let reply = client.call("SSCAN intset 0 NOVALUES");
    assert_eq!(reply, "-ERR NOVALUES option can only be used in HSCAN");
}

/// Covers Redis' behaviour since 7.2, which 7.0 does not have.
#[test]
fn small_sets_are_listpacks_up_to_the_limits() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut encoding = |commands: &[&str]| {
        commands.iter().for_each(|command| drop(client.call(command)));
        client.call("OBJECT ENCODING s")
    };
    let long = "x".repeat(65);
    assert_eq!(encoding(&["SADD s a 1 b"]), "$8 listpack");
    assert_eq!(encoding(&["DEL s", "SADD s 1", "SADD s a"]), "$8 listpack");
    assert_eq!(encoding(&[&format!("SADD s {long}")]), "$9 hashtable");
    assert_eq!(encoding(&["DEL s", &format!("SADD s {long}")]), "$9 hashtable");
    assert_eq!(encoding(&["DEL s", &format!("SADD s 1 {long}")]), "$9 hashtable");
    assert_eq!(encoding(&["CONFIG SET set-max-listpack-entries 3", "DEL s", "SADD s a b c"]), "$8 listpack");
    assert_eq!(encoding(&["SADD s c", "SADD s b"]), "$8 listpack");
    assert_eq!(encoding(&["SADD s d"]), "$9 hashtable");
    assert_eq!(encoding(&["SREM s b c d"]), "$9 hashtable");
    assert_eq!(encoding(&["DEL s", "SADD s a a a a"]), "$9 hashtable");
    assert_eq!(encoding(&["DEL s", "SADD s a", "SADD s a a a a"]), "$9 hashtable");
    assert_eq!(encoding(&["DEL s", "SADD s 1 2 3", "SADD s a"]), "$9 hashtable");
    assert_eq!(encoding(&["SADD t 1 2 3 4 5 x", "SADD u 1 2 3 4", "SINTERSTORE s t u"]), "$6 intset");
    assert_eq!(encoding(&["SADD v x 1", "SINTERSTORE s t v"]), "$8 listpack");
    assert_eq!(encoding(&["SUNIONSTORE s t v"]), "$9 hashtable");
    assert_eq!(encoding(&["SUNIONSTORE s v"]), "$8 listpack");
    assert_eq!(encoding(&["SUNIONSTORE s u"]), "$6 intset");
    assert_eq!(encoding(&["CONFIG SET set-max-intset-entries 2", "DEL s", "SADD s 1 2 3"]), "$8 listpack");
    assert_eq!(encoding(&["DEL s", "SADD s 1 2", "SADD s 3"]), "$9 hashtable");
    assert_eq!(encoding(&["SUNIONSTORE s u"]), "$9 hashtable");
    assert_eq!(encoding(&["CONFIG SET set-max-listpack-entries 9", "SINTERSTORE s t u"]), "$9 hashtable");
    assert_eq!(encoding(&["SREM t 4", "SINTERSTORE s t t v v"]), "$8 listpack");
    assert_eq!(encoding(&["CONFIG SET set-max-intset-entries 4", "SDIFFSTORE s u v"]), "$6 intset");
    assert_eq!(encoding(&["SDIFFSTORE s t u"]), "$8 listpack");
    let mut client = server.client();
    client.call("SADD order z y x 1");
    client.call("SADD order w y");
    assert_eq!(client.call("SMEMBERS order"), "*5 $1 z $1 y $1 x $1 1 $1 w");
}
