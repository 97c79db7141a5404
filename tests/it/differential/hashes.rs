//! Stories about hashes: each command, option and error at least once, packed and large.

use super::oracle::Arena;
use super::script::tell;
use crate::harness::{Dice, encode};

#[test]
fn hashes_are_read_and_written_as_redis_does() {
    tell("hashes", HASHES);
}

#[test]
fn numbers_in_hashes_are_counted_as_redis_counts_them() {
    tell("numbers", NUMBERS);
}

#[test]
fn hashes_are_enumerated_as_by_redis() {
    tell("enumerations", ENUMERATIONS);
}

#[test]
fn hashes_become_hash_tables_at_the_limits_of_redis() {
    tell("limits", LIMITS);
}

#[test]
fn commands_on_keys_of_any_type_take_hashes_as_redis_does() {
    tell("generic", GENERIC);
}

const HASHES: &str = r#"
    HSET h a 1
    HSET h a 2 b 3
    HSET h "" ""
    HSET h "\x00\r\n\xff" "\x00\r\n\xff" 7 8
    HSET h a
    HSET h a 1 b
    HSET h
    HSET
    HGET h a
    HGET h ""
    HGET h "\x00\r\n\xff"
    HGET h 7
    HGET h missing
    HGET missing a
    HGET h
    HGET h a b
    HMGET h a missing b a
    HMGET missing a b
    HMGET h
    HMSET h a 5 c 6
    HMSET h a
    HMSET h a 1 b
    HMSET h
    HGETALL h
    HGETALL missing
    HGETALL
    HGETALL h x
    HKEYS h
    HKEYS missing
    HVALS h
    HVALS missing
    HVALS
    HLEN h
    HLEN missing
    HSTRLEN h a
    HSTRLEN h "\x00\r\n\xff"
    HSTRLEN h missing
    HSTRLEN missing a
    HSTRLEN h
    HEXISTS h a
    HEXISTS h missing
    HEXISTS missing a
    HSETNX h a 9
    HSETNX h new 9
    HSETNX other new 10
    HSETNX h a
    HGETALL h
    HDEL h a missing b
    HDEL h a
    HDEL missing a
    HDEL h
    HDEL h "" "\x00\r\n\xff" 7 c new
    EXISTS h
    HDEL other new new
    EXISTS other
    TYPE h

    HSET h a 1 a 2 a 3
    HGETALL h
    HSET h -5 -5 007 007 9223372036854775807 -9223372036854775808 9223372036854775808 18446744073709551615
    HGETALL h
    HGET h -5
    HGET h 7
    HGET h 007
    HSTRLEN h 9223372036854775807
    HDEL h -5
    HSETNX h 9223372036854775807 x
    HGETALL h
    OBJECT ENCODING h

    SET s v
    HSET s a 1
    HSET s a
    HMSET s a 1
    HSETNX s a 1
    HGET s a
    HMGET s a
    HGETALL s
    HKEYS s
    HVALS s
    HLEN s
    HSTRLEN s a
    HEXISTS s a
    HDEL s a
    HINCRBY s a 1
    HINCRBY s a x
    HINCRBYFLOAT s a 1
    HINCRBYFLOAT s a x
    HINCRBYFLOAT s a inf
    HRANDFIELD s
    HRANDFIELD s 1
    HRANDFIELD s x
    HRANDFIELD s 1 FOO
    HSCAN s 0
    HSCAN s x
    HSCAN s 0 FOO
    GET s
    HSET h f v
    GET h
    APPEND h x
    INCR h
    SETRANGE h 0 x
    GETSET h x
    GETDEL h
    MGET h s
    STRLEN h
    BITCOUNT h
    PFADD h x
    SET h x
    TYPE h

    MULTI
    HSET h a 1
    HGET h a
    HINCRBY h b 5
    HGETALL h
    HSET h a
    EXEC
    MULTI
    HSET h a 1
    HGETALL h
    HDEL h a
    EXEC
    WATCH h
    b: HSET h b 6
    MULTI
    PING
    EXEC
    WATCH h
    b: HDEL h nothing
    MULTI
    PING
    EXEC
    WATCH h
    b: HDEL h b
    MULTI
    PING
    EXEC
"#;

const NUMBERS: &str = r#"
    HINCRBY h n 5
    HINCRBY h n -7
    HINCRBY h n 0
    HGET h n
    HINCRBY h n 9223372036854775807
    HINCRBY h n 9223372036854775807
    HINCRBY h n -9223372036854775808
    HINCRBY h n x
    HINCRBY h n 1.5
    HINCRBY h n 9223372036854775808
    HINCRBY h n
    HSET h t text e "" s " 1" f 1.5 z 007 long 9223372036854775808
    HINCRBY h t 1
    HINCRBY h e 1
    HINCRBY h s 1
    HINCRBY h f 1
    HINCRBY h z 1
    HINCRBY h long 1
    HINCRBY missing n x
    EXISTS missing
    HINCRBY missing n 1
    HGETALL missing
    HINCRBYFLOAT h n 1.5
    HINCRBYFLOAT h n -1.5
    HINCRBYFLOAT h f 0.1
    HINCRBYFLOAT h f 1e3
    HINCRBYFLOAT h f 1e-7
    HINCRBYFLOAT h f x
    HINCRBYFLOAT h f ""
    HINCRBYFLOAT h f " 1"
    HINCRBYFLOAT h f inf
    HINCRBYFLOAT h f -inf
    HINCRBYFLOAT h f nan
    HINCRBYFLOAT h f 1e4933
    HINCRBYFLOAT h f
    HINCRBYFLOAT h t 1
    HINCRBYFLOAT h e 1
    HINCRBYFLOAT h s 1
    HINCRBYFLOAT h z 1
    HSET h i inf j -infinity k nan x 0x10
    HINCRBYFLOAT h i 1
    HINCRBYFLOAT h j 1
    HINCRBYFLOAT h k 1
    HINCRBYFLOAT h x 1
    HINCRBYFLOAT h new 3
    HINCRBYFLOAT h new 3.0e2
    HINCRBYFLOAT h large 1.18e4932
    HINCRBYFLOAT h large 1.18e4932
    ~ HGETALL h
    HINCRBYFLOAT other n 1e2
    HINCRBY other n 1
    HGETALL other
"#;

const ENUMERATIONS: &str = r#"
    HSCAN missing 0
    HSCAN missing 0 FOO
    HSCAN missing x
    HSCAN missing
    HSET h a 1 b 2 aa 3 "" 4 7 5
    HSCAN h 0
    HSCAN h 5
    HSCAN h 18446744073709551615
    HSCAN h -1
    HSCAN h 18446744073709551616
    HSCAN h x
    HSCAN h 0 COUNT 1
    HSCAN h 0 COUNT 0
    HSCAN h 0 COUNT -1
    HSCAN h 0 COUNT x
    HSCAN h 0 COUNT
    HSCAN h 0 COUNT 9223372036854775807
    HSCAN h 0 MATCH a*
    HSCAN h 0 MATCH *
    HSCAN h 0 MATCH 7
    HSCAN h 0 MATCH "" COUNT 5
    HSCAN h 0 MATCH nothing
    HSCAN h 0 MATCH
    HSCAN h 0 MATCH b MATCH a count 100 COUNT 1
    HSCAN h 0 TYPE hash
    HSCAN h 0 FOO

    HRANDFIELD missing
    HRANDFIELD missing 3
    HRANDFIELD missing -3
    HRANDFIELD missing 3 WITHVALUES
    HRANDFIELD missing x
    HRANDFIELD missing 3 FOO
    HSET h a 1
    HRANDFIELD h
    HRANDFIELD h 0
    HRANDFIELD h -0
    HRANDFIELD h 1
    HRANDFIELD h 5
    HRANDFIELD h -5
    HRANDFIELD h -1 WITHVALUES
    HRANDFIELD h 1 WITHVALUES
    HRANDFIELD h 5 withvalues
    HRANDFIELD h -2 WITHVALUES
    HRANDFIELD h 0 WITHVALUES
    HRANDFIELD h 1 WITHVALUES WITHVALUES
    HRANDFIELD h 1 FOO
    HRANDFIELD h x WITHVALUES
    HRANDFIELD h 9223372036854775807
    HRANDFIELD h -9223372036854775808
    HRANDFIELD h 9223372036854775808
    HRANDFIELD h 4611686018427387903 WITHVALUES
    HRANDFIELD h 4611686018427387904 WITHVALUES
    HRANDFIELD h -4611686018427387904 WITHVALUES
    HRANDFIELD h 9223372036854775807 WITHVALUES
    HSET h b 2 c 3
    HRANDFIELD h 3
    HRANDFIELD h 3 WITHVALUES
    HRANDFIELD h 9 WITHVALUES

    CONFIG SET hash-max-listpack-entries 0
    HSET h a 1 b 2 c 3
    OBJECT ENCODING h
    ~ HRANDFIELD h 3
    ~ HKEYS h
    ~ HVALS h
    ~ HSCAN h 0 COUNT 100
    ~ HSCAN h 0 MATCH a COUNT 100
    HGETALL missing
    HDEL h a b
    HGETALL h
    HRANDFIELD h
    HRANDFIELD h 4 WITHVALUES
    HDEL h c
    EXISTS h
    CONFIG SET hash-max-listpack-entries 512
"#;

const LIMITS: &str = r#"
    CONFIG SET hash-max-listpack-entries 3
    HSET h a 1 b 2 c 3
    OBJECT ENCODING h
    HSET h a 4
    OBJECT ENCODING h
    HSET h d 4
    OBJECT ENCODING h
    ~ HVALS h
    HDEL h d c
    OBJECT ENCODING h
    HSETNX i a 1
    HSETNX i b 1
    HSETNX i c 1
    HSETNX i a 1
    OBJECT ENCODING i
    HSETNX i d 1
    OBJECT ENCODING i
    HINCRBY n a 1
    HINCRBY n b 1
    HINCRBY n c 1
    HINCRBYFLOAT n c 1
    OBJECT ENCODING n
    HINCRBY n d 1
    OBJECT ENCODING n
    HINCRBYFLOAT n d 1
    HGET n d
    HMSET m a 1 b 2 c 3 d 4
    OBJECT ENCODING m
    HSETNX m a 2
    CONFIG SET hash-max-listpack-entries 512

    CONFIG SET hash-max-listpack-value 5
    HSET h a 12345
    OBJECT ENCODING h
    HSET h a 123456
    OBJECT ENCODING h
    HGET h a
    HSET i 123456 a
    OBJECT ENCODING i
    HSET j a 1
    HSETNX j b abcdef
    OBJECT ENCODING j
    HSET k a 1
    HSETNX k a abcdef
    OBJECT ENCODING k
    HINCRBY l a 99999
    OBJECT ENCODING l
    HINCRBY l a 1
    OBJECT ENCODING l
    HINCRBYFLOAT o a 1.234
    OBJECT ENCODING o
    HINCRBYFLOAT o a 0.0001
    OBJECT ENCODING o
    CONFIG SET hash-max-listpack-value 64

    HSET h a 0123456789012345678901234567890123456789012345678901234567890123
    OBJECT ENCODING h
    HSET h a 01234567890123456789012345678901234567890123456789012345678901234
    OBJECT ENCODING h
"#;

const GENERIC: &str = r#"
    HSET h a 1 b text c ""
    TYPE h
    COPY h i
    HSET i d 4
    HGETALL h
    HGETALL i
    RENAME i j
    HGETALL j
    MOVE j 1
    SELECT 1
    HGETALL j
    SELECT 0
    EXPIRE h 100000000
    HSET h a 2
    PEXPIRE h 4102444800000
    HDEL h a b c
    TTL h
    HSET h a 1
    TTL h
    SCAN 0 TYPE hash COUNT 1000
    SCAN 0 TYPE string COUNT 1000
    OBJECT REFCOUNT h
    OBJECT FREQ h
    DEL h

    HSET h a 1 b text c ""
    DEBUG DIGEST-VALUE h
    DEBUG DIGEST
    HSET i c "" b text a 1
    DEBUG DIGEST-VALUE i h missing
    EXPIRE i 100000000
    DEBUG DIGEST-VALUE i
    CONFIG SET hash-max-listpack-entries 2
    HSET j c "" b text a 1
    OBJECT ENCODING j
    DEBUG DIGEST-VALUE j
    DEBUG DIGEST
    COPY j k
    OBJECT ENCODING k
    DEBUG DIGEST-VALUE k
    HDEL k a b
    HGETALL k
    CONFIG SET hash-max-listpack-entries 512
    SORT h
    SORT h STORE x
    EXISTS x
    DUMP h
    DUMP missing
    INFO nothing
"#;

/// Returns the bulk string of a reply.
fn bulk(reply: Option<Vec<u8>>) -> Vec<u8> {
    let reply = reply.expect("a reply");
    let start = reply.windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
    reply[start..reply.len() - 2].to_vec()
}

#[test]
fn every_dump_of_a_hash_is_restored_by_the_other_server() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut pair) = (Dice::new(5), arena.pair());
    for round in 0..300 {
        let count = 1 + dice.roll(if round % 10 == 0 { 700 } else { 20 });
        let mut request: Vec<Vec<u8>> = vec![b"HSET".to_vec(), b"h".to_vec()];
        for number in 0..count {
            request.push(format!("field:{number}").into_bytes());
            request.push(match dice.roll(4) {
                0 => dice.roll(1 << 40).to_string().into_bytes(),
                1 => vec![b'x'; dice.roll(70) as usize],
                _ => (0..dice.roll(30)).map(|_| dice.roll(256) as u8).collect(),
            });
        }
        pair.call(&["FLUSHALL"]);
        pair.call(&request);
        let encoding = pair.call(&["OBJECT", "ENCODING", "h"]);
        assert_eq!(encoding.keylatch, encoding.redis);
        let dumps = pair.call(&["DUMP", "h"]);
        let (ours, theirs) = (bulk(dumps.keylatch), bulk(dumps.redis));
        let is_packed = encoding.keylatch.is_some_and(|name| name.ends_with(b"listpack\r\n"));
        assert!(!is_packed || ours.len() >= theirs.len(), "a listpack is written as it is");
        pair.keylatch.send(&encode(&[b"RESTORE", &b"i"[..], b"0", &theirs]));
        pair.redis.send(&encode(&[b"RESTORE", &b"i"[..], b"0", &ours]));
        let restored = pair.replies();
        assert_eq!(
            (restored.keylatch.as_deref(), restored.redis.as_deref()),
            (Some(&b"+OK\r\n"[..]), Some(&b"+OK\r\n"[..]))
        );
        for command in ["ENCODING h", "ENCODING i"] {
            let (word, key) = command.split_once(' ').expect("two words");
            let replies = pair.call(&["OBJECT", word, key]);
            assert_eq!(replies.keylatch, replies.redis);
        }
        let digests = pair.call(&["DEBUG", "DIGEST-VALUE", "h", "i"]);
        assert_eq!(digests.keylatch, digests.redis);
        let reply = digests.keylatch.expect("a reply");
        let lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines[1], lines[2], "both keys have the same value");
    }
}
