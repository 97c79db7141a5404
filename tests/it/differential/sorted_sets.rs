//! Stories about sorted sets: each command, option and error at least once, packed and large. Ranges are in
//! [`sorted_set_ranges`](super::sorted_set_ranges).

use super::oracle::Arena;
use super::script::{Differences, tell};
use crate::harness::{Dice, encode};

#[test]
fn members_are_added_and_removed_as_redis_does() {
    tell("additions", ADDITIONS);
}

#[test]
fn scores_and_ranks_are_those_of_redis() {
    tell("reads", READS);
}

#[test]
fn elements_are_popped_as_redis_does() {
    tell("pops", POPS);
}

#[test]
fn random_members_are_chosen_as_many_as_in_redis() {
    tell("samples", SAMPLES);
}

#[test]
fn sorted_sets_become_large_at_the_limits_of_redis() {
    tell("limits", LIMITS);
}

#[test]
fn commands_on_keys_of_any_type_take_sorted_sets_as_redis_does() {
    tell("generic", GENERIC);
}

#[test]
fn large_sorted_sets_are_those_of_redis() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    for (fill, protocol) in [(fill_with_numbers as fn(usize) -> Vec<String>, 2), (fill_with_ties, 3)] {
        arena.flush();
        let mut pair = arena.pair();
        pair.speak(protocol);
        let commands = (0..2000).map(fill).chain(questions());
        for args in commands {
            pair.send(&encode(&args));
            let replies = pair.replies();
            if !replies.agree() {
                found.add(&args.join(" "), &replies);
            }
        }
    }
    found.report();
}

/// Returns commands that add to `z`, or remove from it, in no particular order.
fn fill_with_numbers(step: usize) -> Vec<String> {
    let member = format!("member:{}", step * 7919 % 1500);
    let score = (step * 104_729 % 3000) as f64 / 8.0 - 100.0;
    match step % 9 {
        0..6 => ["ZADD", "z", &score.to_string(), &member].map(String::from).to_vec(),
        6 => ["ZINCRBY", "z", "0.5", &member].map(String::from).to_vec(),
        7 => ["ZREM", "z", &member].map(String::from).to_vec(),
        _ => ["ZRANK", "z", &member].map(String::from).to_vec(),
    }
}

/// Returns the same commands with equal scores.
fn fill_with_ties(step: usize) -> Vec<String> {
    let member = format!("m{}", step * 7919 % 1000);
    match step % 5 {
        0..3 => ["ZADD", "z", "0", &member].map(String::from).to_vec(),
        3 => ["ZREVRANK", "z", &member].map(String::from).to_vec(),
        _ => ["ZREM", "z", &member].map(String::from).to_vec(),
    }
}

/// Returns all kinds of queries of a large sorted set, and then commands that remove it in parts.
fn questions() -> impl Iterator<Item = Vec<String>> {
    const QUESTIONS: &str = "
        OBJECT ENCODING z
        ZCARD z
        ZRANGE z 0 -1 WITHSCORES
        ZRANGE z 5 15 REV WITHSCORES
        ZRANGE z -10 -1
        ZRANGE z 100 50
        ZRANGE z -50 30 BYSCORE LIMIT 3 20 WITHSCORES
        ZRANGE z 30 -50 BYSCORE REV LIMIT 3 20 WITHSCORES
        ZRANGE z 30 -50 BYSCORE REV LIMIT 2000 20
        ZRANGE z (0 +inf BYSCORE
        ZCOUNT z -inf (0.5
        ZCOUNT z 0.5 0.5
        ZLEXCOUNT z - +
        DEBUG DIGEST-VALUE z
        ZRANGESTORE part z 10 900
        OBJECT ENCODING part
        ZRANGESTORE small z 10 50 REV
        OBJECT ENCODING small
        ZRANGE small 0 -1 WITHSCORES
        ZUNIONSTORE sum 3 z part small WEIGHTS 1 2 0.5
        ZRANGE sum 0 -1 WITHSCORES
        ZINTERSTORE common 2 z part AGGREGATE MAX
        ZRANGE common 0 -1 WITHSCORES
        ZDIFFSTORE rest 2 z part
        ZRANGE rest 0 -1 WITHSCORES
        ZDIFF 3 z rest small WITHSCORES
        ZINTER 3 z part small WITHSCORES
        ZUNION 2 small part WITHSCORES AGGREGATE MIN
        ZINTERCARD 2 z part
        ZINTERCARD 2 z part LIMIT 100
        COPY z copy
        DEBUG DIGEST-VALUE copy
        ZPOPMIN z 20
        ZPOPMAX z 20
        ZPOPMAX z
        ZMPOP 1 z MIN COUNT 5
        ZREMRANGEBYRANK z 3 40
        ZREMRANGEBYRANK z -50 -40
        ZREMRANGEBYSCORE z 0 (20
        ZREMRANGEBYLEX part [m1 (m2
        ZRANGE z 0 -1 WITHSCORES
        ZCARD part
        DEBUG DIGEST-VALUE z part
        ZREMRANGEBYRANK z 0 -1
        EXISTS z
        ZADD z 1 a
        ZRANGE z 0 -1
        DEBUG DIGEST-VALUE copy
        ZREMRANGEBYSCORE copy -inf +inf
        EXISTS copy
    ";
    let lines = QUESTIONS.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split(' ').map(String::from).collect())
}

#[test]
fn every_dump_of_a_sorted_set_is_restored_by_the_other_server() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut pair) = (Dice::new(5), arena.pair());
    for round in 0..200 {
        let count = 1 + dice.roll(if round % 10 == 0 { 300 } else { 20 });
        let mut request: Vec<Vec<u8>> = vec![b"ZADD".to_vec(), b"z".to_vec()];
        for number in 0..count {
            request.push(match dice.roll(4) {
                0 => dice.roll(1 << 40).to_string().into_bytes(),
                1 => (dice.roll(1 << 20) as f64 / 64.0).to_string().into_bytes(),
                2 => b"-inf".to_vec(),
                _ => b"1".to_vec(),
            });
            request.push([number.to_string().as_bytes(), &vec![b'x'; dice.roll(60) as usize]].concat());
        }
        pair.call(&["FLUSHALL"]);
        pair.call(&request);
        let encoding = pair.call(&["OBJECT", "ENCODING", "z"]);
        assert_eq!(encoding.keylatch, encoding.redis);
        let dumps = pair.call(&["DUMP", "z"]);
        let (ours, theirs) = (bulk(dumps.keylatch), bulk(dumps.redis));
        pair.keylatch.send(&encode(&[b"RESTORE", &b"i"[..], b"0", &theirs]));
        pair.redis.send(&encode(&[b"RESTORE", &b"i"[..], b"0", &ours]));
        let restored = pair.replies();
        assert_eq!(
            (restored.keylatch.as_deref(), restored.redis.as_deref()),
            (Some(&b"+OK\r\n"[..]), Some(&b"+OK\r\n"[..]))
        );
        let encoding = pair.call(&["OBJECT", "ENCODING", "i"]);
        assert_eq!(encoding.keylatch, encoding.redis);
        let digests = pair.call(&["DEBUG", "DIGEST-VALUE", "z", "i"]);
        assert_eq!(digests.keylatch, digests.redis);
        let reply = digests.keylatch.expect("a reply");
        let lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines[1], lines[2], "both keys have the same value");
    }
}

/// Returns the string of a reply.
fn bulk(reply: Option<Vec<u8>>) -> Vec<u8> {
    let reply = reply.expect("a reply");
    let header = reply.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    reply[header..reply.len() - 2].to_vec()
}

const ADDITIONS: &str = r#"
    ZADD z 1 a
    ZADD z 1 a
    ZADD z 2 a 3 b
    ZADD z CH 2 a 4 b 5 c
    ZADD z 1 "" 3 17 4 -5 5 007
    ZADD bytes 1 "\x00\r\n\xff" 2 "\xff"
    ZRANGE bytes 0 -1 WITHSCORES
    ZRANGE z 0 -1 WITHSCORES
    ZADD z 0 a 0 b 0 c
    ZRANGE z 0 -1 WITHSCORES
    ZADD z 1.5 a 0.1 b -0.25 c 1e20 d 1e-7 e 5e-324 f
    ZRANGE z 0 -1 WITHSCORES
    ZADD z inf a -inf b +inf c Infinity d -infinity e
    ZRANGE z 0 -1 WITHSCORES
    ZADD z 0x10 hex 9223372036854775807 max 4503599627370497 bits 1e17 large 123456789012 number
    ZRANGE z 0 -1 WITHSCORES

    ZADD z
    ZADD z 1
    ZADD z 1 a 2
    ZADD z NX
    ZADD z NX 1
    ZADD z NX 1 a 2
    ZADD z NX XX CH
    ZADD z NX XX 1 a
    ZADD z NX GT 1 a
    ZADD z LT NX 1 a
    ZADD z GT LT 1 a
    ZADD z XX GT LT 1 a
    ZADD z NX XX GT INCR 1 a 2 b
    ZADD z NX GT INCR 1 a 2 b
    ZADD z INCR 1 a 2 b
    ZADD z x a
    ZADD z "" a
    ZADD z nan a
    ZADD z "1 " a
    ZADD z " 1" a
    ZADD z 1e400 a
    ZADD z 1 a x b
    ZADD z FOO 1 a
    ZADD z NX FOO 1 a
    ZADD z ch
    ZADD z CH INCR
    ZADD z 1 NX
    ZADD z nx 2 xx
    ZRANGE z 0 -1 WITHSCORES
    EXISTS a

    ZADD z XX 1 a
    EXISTS z
    ZADD z XX INCR 1 a
    ZADD z NX 1 a
    ZADD z NX 2 a 2 b
    ZADD z XX 3 a 3 c
    ZADD z XX CH 4 a 4 c
    ZADD z GT 3 a 9 b
    ZADD z GT CH 5 a 5 b 5 c
    ZADD z LT CH 5 a 4 b 6 c
    ZADD z XX LT CH 1 a 1 d
    ZADD z XX GT CH 1 a 1 d
    ZADD z nx ch incr 1 e
    ZADD z NX INCR 1 a
    ZADD z XX INCR 1.5 a
    ZADD z XX INCR 1 missing
    ZADD z GT INCR -1 a
    ZADD z GT INCR 1 a
    ZADD z LT INCR 1 a
    ZADD z LT INCR -1 a
    ZADD z INCR 0 a
    ZADD z GT 1 new
    ZADD z LT 1 newer
    ZRANGE z 0 -1 WITHSCORES

    ZINCRBY z 1 a
    ZINCRBY z 0.1 a
    ZINCRBY z 0.2 a
    ZINCRBY z -5 a
    ZINCRBY z 0 a
    ZINCRBY z inf a
    ZINCRBY z -inf a
    ZINCRBY z 1 a
    ZADD z INCR -inf a
    ZADD z NX INCR -inf a
    ZADD z GT INCR -inf a
    ZADD z -inf b
    ZINCRBY z inf b
    ZADD z XX INCR +inf b
    ZINCRBY z x a
    ZINCRBY z nan a
    ZINCRBY z 1
    ZINCRBY z 1 a b
    ZINCRBY z 1 a 2 b
    ZINCRBY z 1 nx
    ZRANGE z 0 -1 WITHSCORES
    ZINCRBY z 9007199254740993 big
    ZINCRBY z 1 big
    ZINCRBY new 2.5 a
    ZSCORE new a

    ZADD z 1 a 2 b 3 c
    ZREM z a
    ZREM z a missing b
    ZREM z
    ZREM missing a
    ZREM z c c c
    EXISTS z
    TYPE z
    ZADD z 1 a 2 a 3 a
    ZRANGE z 0 -1 WITHSCORES

    SET s v
    ZADD s 1 a
    ZADD s x a
    ZADD s XX 1 a
    ZADD s NX XX 1 a
    ZADD s 1
    ZINCRBY s 1 a
    ZREM s a
    GET s

    ZADD z 1 a
    WATCH z
    b: ZADD z 1 a
    MULTI
    PING
    EXEC
    WATCH z
    b: ZADD z 2 a
    MULTI
    PING
    EXEC
    WATCH z
    b: ZADD z NX 5 a
    b: ZREM z missing
    b: ZREMRANGEBYRANK z 5 6
    b: ZINCRBY z 0 a
    MULTI
    PING
    EXEC
    WATCH z
    b: ZREM z a
    MULTI
    PING
    EXEC
"#;

const READS: &str = r#"
    ZADD z 1 a 2 b 2 c 3.25 d inf e 10 17
    ZCARD z
    ZCARD missing
    ZCARD
    ZCARD z z
    ZSCORE z a
    ZSCORE z d
    ZSCORE z e
    ZSCORE z 17
    ZSCORE z 017
    ZSCORE z missing
    ZSCORE missing a
    ZSCORE z
    ZSCORE z a b
    ZMSCORE z a missing d a
    ZMSCORE missing a b
    ZMSCORE z
    ZRANK z a
    ZRANK z c
    ZRANK z e
    ZRANK z missing
    ZRANK missing a
    ZRANK z
    ZREVRANK z a
    ZREVRANK z c
    ZREVRANK z e
    ZREVRANK z missing
    ZREVRANK missing a
    ZREVRANK z
    ZCOUNT z 1 2
    ZCOUNT z (1 2
    ZCOUNT z (1 (2
    ZCOUNT z -inf +inf
    ZCOUNT z 2 1
    ZCOUNT z (2 (2
    ZCOUNT z 2 (2
    ZCOUNT z 2 2
    ZCOUNT z inf inf
    ZCOUNT z (inf inf
    ZCOUNT z x 1
    ZCOUNT z 1 x
    ZCOUNT z nan 1
    ZCOUNT z ((1 2
    ZCOUNT z [1 2
    ZCOUNT missing x 1
    ZCOUNT missing 0 1
    ZCOUNT z 0
    ZCOUNT z 0 1 2
    ZSCAN z 0
    ZSCAN z 0 MATCH [ab]
    ZSCAN z 0 MATCH *
    ZSCAN z 0 MATCH x
    ZSCAN z 0 COUNT 1
    ZSCAN z 0 COUNT 1 MATCH d COUNT 2 MATCH e
    ZSCAN z 0 COUNT 9223372036854775807
    ZSCAN z 5
    ZSCAN z x
    ZSCAN z -1 COUNT 2
    ZSCAN z 0 COUNT 0
    ZSCAN z 0 COUNT x
    ZSCAN z 0 COUNT
    ZSCAN z 0 MATCH
    ZSCAN z 0 FOO
    ZSCAN z 0 TYPE string
    ZSCAN missing 0
    ZSCAN missing 0 FOO
    ZSCAN missing x
    ZSCAN z

    ZADD z 0 a 0 b 0 c 0 d 0 e 0 "" 0 10 0 9
    ZLEXCOUNT z - +
    ZLEXCOUNT z [b +
    ZLEXCOUNT z (b +
    ZLEXCOUNT z - [c
    ZLEXCOUNT z - (c
    ZLEXCOUNT z [b [d
    ZLEXCOUNT z (b (d
    ZLEXCOUNT z [d [b
    ZLEXCOUNT z + -
    ZLEXCOUNT z + +
    ZLEXCOUNT z - -
    ZLEXCOUNT z [bb [cc
    ZLEXCOUNT z [ (
    ZLEXCOUNT z - [
    ZLEXCOUNT z - (
    ZLEXCOUNT z [1 [2
    ZLEXCOUNT z b c
    ZLEXCOUNT z - b
    ZLEXCOUNT z "" +
    ZLEXCOUNT missing x x
    ZLEXCOUNT missing - +

    SET s v
    ZCARD s
    ZSCORE s a
    ZMSCORE s a
    ZRANK s a
    ZREVRANK s a
    ZCOUNT s 0 1
    ZCOUNT s x 1
    ZLEXCOUNT s - +
    ZLEXCOUNT s x +
    ZSCAN s 0
    ZSCAN s x
    ZSCAN s 0 FOO
    ZRANDMEMBER s
    ZRANDMEMBER s 1
    ZRANDMEMBER s x
    ZRANDMEMBER s 1 FOO
"#;

const POPS: &str = r#"
    ZADD z 1 a 2 b 3 c 4 d 5 e 6.5 f
    ZPOPMIN z
    ZPOPMAX z
    ZPOPMIN z 1
    ZPOPMAX z 1
    ZPOPMIN z 0
    ZPOPMIN z -1
    ZPOPMIN z x
    ZPOPMIN z 1 2
    ZPOPMIN missing
    ZPOPMIN missing 1
    ZPOPMIN missing 0
    ZPOPMIN missing -1
    ZPOPMAX missing
    ZPOPMAX z 1 x
    ZPOPMIN
    ZRANGE z 0 -1
    ZPOPMAX z 9223372036854775807
    EXISTS z
    ZADD z 1 a 2 b 3 c
    ZPOPMIN z 2
    ZPOPMIN z 9223372036854775808
    ZPOPMIN z
    EXISTS z

    ZADD z 1 a 2 b 3 c
    ZADD y 1 a
    ZMPOP 1 z MIN
    ZMPOP 1 z MAX
    ZMPOP 3 missing y z MIN COUNT 2
    ZMPOP 3 missing y z MAX COUNT 9223372036854775807
    ZMPOP 3 missing y z MAX
    ZMPOP 1 missing min
    ZMPOP 0 z MIN
    ZMPOP -1 z MIN
    ZMPOP x z MIN
    ZMPOP 9223372036854775807 z MIN
    ZMPOP 9223372036854775808 z MIN
    ZMPOP 1 z
    ZMPOP 1 z FOO
    ZMPOP 2 z MIN
    ZMPOP 2 z y MIN COUNT
    ZMPOP 1 z MIN COUNT 0
    ZMPOP 1 z MIN COUNT -1
    ZMPOP 1 z MIN COUNT x
    ZMPOP 1 z MIN COUNT 1 COUNT 1
    ZMPOP 1 z MIN FOO 1
    ZMPOP 1 z MIN COUNT 1 FOO
    ZMPOP 1

    ZADD z 1 a 2 b 3.5 c
    BZPOPMIN z 0
    BZPOPMAX missing z 0.1
    BZMPOP 0 1 z MIN
    EXISTS z
    ZADD z 1 a 2 b 3.5 c
    BZMPOP 1 2 missing z MAX COUNT 5
    EXISTS z
    BZPOPMIN missing 0.01
    BZPOPMAX missing other 0.01
    BZMPOP 0.01 1 missing MIN
    BZPOPMIN missing -1
    BZPOPMIN missing x
    BZPOPMIN missing ""
    BZPOPMIN missing -inf
    BZPOPMIN missing nan
    BZPOPMIN z -1
    BZPOPMIN missing
    BZPOPMIN
    BZMPOP x 1 z MIN
    BZMPOP -1 1 z MIN
    BZMPOP -1 0 z MIN
    BZMPOP 1 0 z MIN
    BZMPOP x 1 z FOO
    BZMPOP 1 1 z MIN COUNT 0
    BZMPOP 1 1 z MIN COUNT 1 COUNT 2
    BZMPOP 1 2 z MIN
    BZMPOP 1 1 z
    MULTI
    BZPOPMIN missing 0
    BZMPOP 0 1 missing MIN
    ZADD new 1 a
    BZPOPMAX missing new 0
    EXEC

    SET s v
    ZADD z 1 a
    ZPOPMIN s
    ZPOPMIN s 0
    ZPOPMIN s x
    ZPOPMAX s 1
    ZMPOP 1 s MIN
    ZMPOP 2 z s MIN
    ZMPOP 2 s z MIN
    ZADD z 1 a
    BZPOPMIN s 0
    BZPOPMIN missing s 0
    BZPOPMIN z s 0
    BZPOPMIN s x
    BZMPOP 0 1 s MIN
    GET s
"#;

const SAMPLES: &str = r#"
    ZADD one 1.5 m
    ZRANDMEMBER one
    ZRANDMEMBER one 1
    ZRANDMEMBER one 5
    ZRANDMEMBER one 5 WITHSCORES
    ZRANDMEMBER one -3
    ZRANDMEMBER one -3 WITHSCORES
    ZRANDMEMBER one 0
    ZRANDMEMBER one 0 WITHSCORES
    ZRANDMEMBER one 9223372036854775807
    ZRANDMEMBER one 4611686018427387903 WITHSCORES
    ZRANDMEMBER one 4611686018427387904 WITHSCORES
    ZRANDMEMBER one -4611686018427387904 WITHSCORES
    ZRANDMEMBER one 9223372036854775808
    ZRANDMEMBER one -9223372036854775808
    ZRANDMEMBER one x
    ZRANDMEMBER one 1 FOO
    ZRANDMEMBER one 1 WITHSCORES FOO
    ZRANDMEMBER one x FOO
    ZRANDMEMBER missing
    ZRANDMEMBER missing 1
    ZRANDMEMBER missing -1 WITHSCORES
    ZRANDMEMBER
    ZADD z 1 a 2 b 3 c
    ~ ZRANDMEMBER z 3
    ~ ZRANDMEMBER z 3 WITHSCORES
    ~ ZRANDMEMBER z 10 WITHSCORES
"#;

const LIMITS: &str = r#"
    CONFIG SET zset-max-listpack-entries 3
    ZADD z 1 a 2 b 3 c
    OBJECT ENCODING z
    ZADD z 4 a
    OBJECT ENCODING z
    ZADD z 5 d
    OBJECT ENCODING z
    ZREM z a b
    OBJECT ENCODING z
    ZRANGE z 0 -1 WITHSCORES
    ZADD y 1 a 2 b 3 c 4 d
    OBJECT ENCODING y
    ZUNIONSTORE t 1 y
    OBJECT ENCODING t
    ZRANGESTORE t y 0 2
    OBJECT ENCODING t
    ZRANGESTORE t y 0 3
    OBJECT ENCODING t
    ZDIFFSTORE t 2 y z
    OBJECT ENCODING t
    ZSCAN t 0
    ~ ZSCAN y 0 COUNT 100
    ~ ZSCAN y 0 COUNT 100 MATCH [ab]
    ZSCAN y x
    ZSCAN y 0 COUNT 0
    CONFIG SET zset-max-listpack-value 4
    ZADD v 1 abcd
    OBJECT ENCODING v
    ZADD v 1 abcde
    OBJECT ENCODING v
    ZADD w 1 abcde
    OBJECT ENCODING w
    ZINTERSTORE t 2 v w
    OBJECT ENCODING t
    ZINCRBY u 1 abcde
    OBJECT ENCODING u
    COPY u copy
    OBJECT ENCODING copy
    ZRANGE copy 0 -1 WITHSCORES
    CONFIG SET zset-max-listpack-entries 0
    ZADD x 1 a
    OBJECT ENCODING x
    ZRANGE x 0 -1 WITHSCORES
    ZRANGESTORE t x 0 -1
    OBJECT ENCODING t
    ZPOPMIN x
    EXISTS x
    CONFIG SET zset-max-listpack-value 64
    CONFIG SET zset-max-ziplist-entries 128
    CONFIG GET zset-max-listpack-entries
"#;

const GENERIC: &str = r#"
    ZADD z 1 a 2.5 b inf c
    TYPE z
    OBJECT ENCODING z
    OBJECT REFCOUNT z
    DEBUG DIGEST-VALUE z
    DEBUG DIGEST
    COPY z copy
    ZRANGE copy 0 -1 WITHSCORES
    ZADD copy 9 d
    ZCARD z
    RENAME copy moved
    ZRANGE moved 0 -1 WITHSCORES
    EXPIRE z 1000
    ZADD z 3 d
    TTL z
    PERSIST z
    MOVE z 1
    SELECT 1
    ZRANGE z 0 -1
    GET z
    APPEND z x
    INCR z
    STRLEN z
    GETSET z x
    SETRANGE z 0 x
    BITCOUNT z
    PFADD z x
    SCAN 0 TYPE zset
    SCAN 0 TYPE string
    DEL z
    SELECT 0
    SET moved v
    GET moved
    ZADD z 1 a
    UNLINK z
    EXISTS z
    FLUSHALL
    DEBUG DIGEST
"#;
