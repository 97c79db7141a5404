//! Stories about streams and consumer groups, and dumps of streams exchanged between both servers.

use super::companions::play;
use super::oracle::{Arena, Pair};
use super::script::{Differences, tell};
use crate::harness::{Dice, encode};

#[test]
fn entries_are_added_read_and_deleted_as_redis_does() {
    tell("entries", ENTRIES);
}

#[test]
fn streams_are_trimmed_as_redis_does() {
    tell("trims", TRIMS);
}

#[test]
fn consumer_groups_do_what_those_of_redis_do() {
    tell("groups", GROUPS);
}

#[test]
fn readers_that_block_are_served_as_by_redis() {
    play("blocked", BLOCKED);
}

#[test]
fn wrong_arguments_of_stream_commands_get_the_errors_of_redis() {
    tell("errors", ERRORS);
}

const ENTRIES: &str = r#"
    XADD s 1-1 f v
    XADD s 1-2 f v2 g w
    XADD s 1-* f 3
    XADD s 2 f 4
    XADD s 2-* a b
    XADD s 5-7 f -12 f 70000 f 9223372036854775807 "" ""
    XLEN s
    XLEN missing
    TYPE s
    OBJECT ENCODING s
    XRANGE s - +
    XREVRANGE s + -
    XRANGE s 1 2
    XRANGE s 1-2 2-0
    XRANGE s (1-1 (2-1
    XRANGE s (1 (5
    XREVRANGE s (5-7 (1-1
    XRANGE s - + COUNT 2
    XREVRANGE s + - COUNT 2
    XRANGE s - + COUNT 0
    XRANGE s - + COUNT -1
    XRANGE s - + COUNT 1 COUNT 3
    XRANGE s + -
    XREVRANGE s - +
    XRANGE missing - +
    XRANGE missing - + COUNT 0
    XREAD STREAMS s 0
    XREAD COUNT 2 STREAMS s 1-2
    XREAD STREAMS s missing s 5-6 0 2
    XREAD STREAMS s $
    XREAD STREAMS s 5-7
    XREAD COUNT 0 STREAMS s 2
    XREAD COUNT -5 STREAMS s 2
    XDEL s 1-2 9-9 1-1
    XDEL s 1-2
    XDEL missing 1-1
    XLEN s
    XRANGE s - +
    XINFO STREAM s
    DEBUG DIGEST-VALUE s
    XDEL s 5-7
    XINFO STREAM s
    XREAD STREAMS s 5-6
    XADD s 5-7 f v
    XADD s 5-8 f v
    XINFO STREAM s
    COPY s t
    DEBUG DIGEST
    XINFO STREAM t
    RENAME t u
    XRANGE u - +
    XDEL s 1-3 2-0 2-1 5-8
    XLEN s
    EXISTS s
    XINFO STREAM s
    XRANGE s - +
    XREVRANGE s + - COUNT 1
    XADD s 5-9 f v
    XINFO STREAM s

    XADD s NOMKSTREAM 1-1 f v
    EXISTS s
    XADD s 0-1 f v
    XADD s 0-* f v
    XADD s nomkstream 7-* f v
    XADD s 7-18446744073709551615 f v
    XADD s 8-18446744073709551614 f v
    XADD s 8-* f v
    XADD s 18446744073709551615-18446744073709551615 f v
    XADD s * f v
    XADD s 9-* f v
    XRANGE s - +
    XSETID s 18446744073709551615-18446744073709551615

    XADD s 1-1 f v
    XADD s 2-1 f v
    XADD s 3-1 f v
    XSETID s 10-5
    XINFO STREAM s
    XSETID s 11-0 ENTRIESADDED 7 MAXDELETEDID 4-4
    XINFO STREAM s
    XSETID s 11-0 MAXDELETEDID 0-0
    XINFO STREAM s
    XADD s 11-0 f v
    XADD s 11-1 f v
    XSETID s 4-4 ENTRIESADDED 3
    XSETID s 12 ENTRIESADDED 4
    XSETID s 12 entriesadded 40
    XINFO STREAM s

    XADD s 1-1 a 1 b 2 c 3
    XADD s 1-2 a 1 b 2 c 3
    XADD s 1-3 c 1 b 2 a 3
    XADD s 1-4 a 1 b 2
    XADD s 1-5 a 1 b 2 c 3 d 4
    XADD s 2-0 a 1 b 2 c 3
    XRANGE s - +
    XREVRANGE s + -
    XDEL s 1-4
    XRANGE s - +
    XREVRANGE s + -
    DEBUG DIGEST-VALUE s
"#;

const TRIMS: &str = r#"
    CONFIG SET stream-node-max-entries 3
    XADD s 1 f v
    XADD s 2 f v
    XADD s 3 f v
    XADD s 4 f v
    XADD s 5 f v
    XADD s 6 f v
    XADD s 7 f v
    XADD s 8 f v
    XINFO STREAM s
    XTRIM s MAXLEN ~ 6
    XLEN s
    XTRIM s MAXLEN ~ 5
    XLEN s
    XTRIM s MAXLEN = 4
    XINFO STREAM s
    XADD s MAXLEN ~ 3 9 f v
    XINFO STREAM s
    XADD s MAXLEN 3 10 f v
    XRANGE s - +
    XADD s MINID 9 11 f v
    XRANGE s - +
    XADD s MINID ~ 10 12 f v
    XRANGE s - +
    XTRIM s MINID 11
    XTRIM s MINID 11
    XINFO STREAM s
    XADD s MAXLEN 0 13 f v
    XLEN s
    XINFO STREAM s
    XTRIM s MAXLEN 0
    XTRIM missing MAXLEN 0
    XADD s MAXLEN = 10 MINID 3 14 f v
    XADD s 14-5 f v
    CONFIG SET stream-node-max-entries 100

    CONFIG SET stream-node-max-entries 2
    XADD s 1 f v
    XADD s 2 f v
    XADD s 3 f v
    XADD s 4 f v
    XADD s 5 f v
    XADD s 6 f v
    XADD s 7 f v
    XTRIM s MAXLEN ~ 0 LIMIT 1
    XTRIM s MAXLEN ~ 0 LIMIT 2
    XTRIM s MAXLEN ~ 1 LIMIT 5
    XLEN s
    XTRIM s MINID ~ 7 LIMIT 0
    XTRIM s MINID ~ 8
    XLEN s
    XTRIM s MAXLEN ~ 0 LIMIT 0
    XTRIM s LIMIT 5 MAXLEN ~ 0
    CONFIG SET stream-node-max-entries 100

    CONFIG SET stream-node-max-bytes 200
    XADD s 1 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XADD s 2 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XADD s 3 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XADD s 4 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XADD s 5 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XINFO STREAM s
    XTRIM s MAXLEN ~ 3
    XINFO STREAM s
    CONFIG SET stream-node-max-bytes 0
    XADD s 6 field aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    XINFO STREAM s
    CONFIG SET stream-node-max-bytes 4096

    XADD s 1 f v
    XTRIM s MAXLEN
    XTRIM s MAXLEN x
    XTRIM s MAXLEN -1
    XTRIM s MAXLEN ~
    XTRIM s MAXLEN =
    XTRIM s MAXLEN ~ x
    XTRIM s MINID x
    XTRIM s MINID -
    XTRIM s MINID
    XTRIM s LIMIT 3 LIMIT 5
    XTRIM s LIMIT 0 FOO
    XTRIM s MAXLEN 3 LIMIT 5
    XTRIM s MAXLEN = 3 LIMIT 0
    XTRIM s MAXLEN ~ 3 LIMIT -1
    XTRIM s MAXLEN ~ 3 LIMIT x
    XTRIM s MAXLEN 3 MAXLEN 4
    XTRIM s MAXLEN 3 MINID 4
    XTRIM s FOO 3
    XTRIM s NOMKSTREAM MAXLEN 3
    XTRIM s
    XTRIM s MAXLEN 9223372036854775807
    XTRIM s MAXLEN 9223372036854775808
    XADD s LIMIT 5 * f v
    XADD s MAXLEN 5 LIMIT 5 * f v
    XADD s MAXLEN 5 2
    XADD s MAXLEN 5 2 f
    XADD s MAXLEN * f v
    SET k v
    XTRIM k MAXLEN 3
    XTRIM k FOO 3
"#;

const GROUPS: &str = r#"
    XGROUP CREATE s g $
    XGROUP CREATE s g $ MKSTREAM
    XGROUP CREATE s g $ MKSTREAM
    XLEN s
    XINFO STREAM s
    XINFO GROUPS s
    XADD s 1-0 f a
    XADD s 2-0 f b
    XADD s 3-0 f c
    XADD s 4-0 f d
    XINFO GROUPS s
    XREADGROUP GROUP g alice COUNT 2 STREAMS s >
    XINFO GROUPS s
    XREADGROUP GROUP g bob COUNT 1 STREAMS s >
    XREADGROUP GROUP g alice STREAMS s 0
    XREADGROUP GROUP g alice COUNT 1 STREAMS s 0
    XREADGROUP GROUP g alice STREAMS s 1-0
    XREADGROUP GROUP g carol STREAMS s 0
    XPENDING s g
    XPENDING s g - + 0
    XPENDING s g - + -1
    XPENDING s g - + 10 nobody
    XPENDING s g IDLE 100000 - + 10
    XPENDING s g + - 10
    XACK s g 1-0 9-9
    XACK s g 1-0
    XACK s nog 1-0
    XACK missing g 1-0
    XPENDING s g
    XDEL s 2-0
    XREADGROUP GROUP g alice STREAMS s 0
    XREADGROUP GROUP g alice NOACK STREAMS s >
    XREADGROUP GROUP g alice STREAMS s >
    XPENDING s g
    XINFO GROUPS s
    XGROUP SETID s g 0
    XINFO GROUPS s
    XREADGROUP GROUP g bob STREAMS s >
    XGROUP DELCONSUMER s g alice
    XGROUP DELCONSUMER s g alice
    XPENDING s g
    XGROUP CREATECONSUMER s g dave
    XGROUP CREATECONSUMER s g dave
    XGROUP DESTROY s g
    XGROUP DESTROY s g
    XINFO GROUPS s
    XPENDING s g

    XADD s 1-0 f a
    XADD s 2-0 f b
    XADD s 3-0 f c
    XGROUP CREATE s g 0
    XREADGROUP GROUP g alice STREAMS s >
    XCLAIM s g bob 0 1-0 2-0
    XCLAIM s g bob 0 1-0 JUSTID
    XCLAIM s g bob 1000000 1-0
    XCLAIM s g bob -5 3-0 RETRYCOUNT 7 JUSTID
    XCLAIM s g bob 0 9-0
    XCLAIM s g bob 0 9-0 FORCE
    XACK s g 2-0
    XCLAIM s g carol 0 2-0
    XCLAIM s g carol 0 2-0 FORCE
    XCLAIM s g carol 0 2-0 FORCE JUSTID
    XCLAIM s g carol 0 2-0 IDLE 1000 TIME 5 LASTID 1-0
    XCLAIM s g carol 0 2-0 LASTID 7-0
    XINFO GROUPS s
    XDEL s 1-0
    XCLAIM s g carol 0 1-0
    XPENDING s g
    XAUTOCLAIM s g dave 0 0
    XAUTOCLAIM s g dave 0 0 JUSTID
    XAUTOCLAIM s g dave 0 - COUNT 1
    XAUTOCLAIM s g dave 0 (2-0 COUNT 1
    XAUTOCLAIM s g dave 0 3-0 COUNT 1
    XAUTOCLAIM s g dave 1000000 0
    XDEL s 2-0
    XAUTOCLAIM s g erin 0 0
    XPENDING s g

    XADD s 1-0 f a
    XADD s 2-0 f b
    XADD s 3-0 f c
    XADD t 1-0 f x
    XGROUP CREATE s g 0
    XGROUP CREATE t g 0
    XREADGROUP GROUP g c COUNT 1 STREAMS s t > >
    XREADGROUP GROUP g c STREAMS s t 0 >
    XREADGROUP GROUP g c BLOCK 1 STREAMS t >
    MULTI
    XREADGROUP GROUP g c BLOCK 0 STREAMS t >
    XREAD BLOCK 0 STREAMS t $
    EXEC
    XREAD BLOCK 1 STREAMS t $
    XGROUP CREATE s h 2-0 ENTRIESREAD 2
    XGROUP CREATE s i 2-0
    XGROUP CREATE s j $
    XGROUP CREATE s k 0-1
    XGROUP CREATE s l 9-0
    XINFO GROUPS s
    XREADGROUP GROUP h c STREAMS s >
    XREADGROUP GROUP i c STREAMS s >
    XREADGROUP GROUP k c COUNT 1 STREAMS s >
    XINFO GROUPS s
    XGROUP SETID s h $ ENTRIESREAD 3
    XGROUP SETID s i - ENTRIESREAD -1
    XGROUP SETID s j +
    XINFO GROUPS s
    RENAME s u
    XINFO GROUPS u
    COPY u v
    XPENDING v g
    XGROUP CREATE v m 0
    XINFO STREAM u
    XINFO STREAM v
"#;

const BLOCKED: &str = r#"
    b: XADD s 1 f v
    b: XADD s 2 f v
    a> XREAD BLOCK 0 STREAMS t s $ $
    ? blocked_clients:1
    b: XADD s 3 f v
    a<

    b: XADD t 1 f v
    a> XREAD BLOCK 0 STREAMS s 0
    ? blocked_clients:1
    b: RENAME t s
    a<

    b: XADD t 1 f v
    a> XREAD BLOCK 0 STREAMS s 0
    ? blocked_clients:1
    b: COPY t s
    a<

    b: SELECT 1
    b: XADD s 1 f v
    b: SELECT 0
    a> XREAD BLOCK 0 STREAMS s 0
    ? blocked_clients:1
    b: SWAPDB 0 1
    a<

    a> XREAD BLOCK 20 STREAMS s $
    a<
    b: XGROUP CREATE s g $ MKSTREAM
    a> XREADGROUP GROUP g c BLOCK 20 STREAMS s >
    a<

    # all readers are served, but each entry goes to one consumer
    d: XGROUP CREATE s g $ MKSTREAM
    a> XREAD BLOCK 0 STREAMS s $
    ? blocked_clients:1
    b> XREAD BLOCK 0 STREAMS s $
    ? blocked_clients:2
    c> XREADGROUP GROUP g a BLOCK 0 STREAMS s >
    ? blocked_clients:3
    e> XREADGROUP GROUP g b BLOCK 0 STREAMS s >
    ? blocked_clients:4
    d: XADD s 1 f v
    a<
    b<
    c<
    d: XADD s 2 f v
    e<
    d: XPENDING s g
"#;

const ERRORS: &str = r#"
    XADD s
    XADD s *
    XADD s * f
    XADD s * f v g
    XADD s 0-0 f v
    XADD s 0 f v
    XADD s x f v
    XADD s - f v
    XADD s + f v
    XADD s 1-x f v
    XADD s 1-2-3 f v
    XADD s 18446744073709551616-0 f v
    XADD s -1 f v
    XADD s "" f v
    XADD s FOO 1-1 f v
    EXISTS s
    XADD s 5-5 f v
    XADD s 5-5 f v
    XADD s 5-4 f v
    XADD s 4-* f v
    XADD s 007-08 f v
    XADD s " 9-+1" f v
    XRANGE s - +
    XRANGE s x +
    XRANGE s - x
    XRANGE s (- +
    XRANGE s - (+
    XRANGE s ( +
    XRANGE s - (0-0
    XRANGE s (18446744073709551615-18446744073709551615 +
    XRANGE s - + COUNT
    XRANGE s - + COUNT x
    XRANGE s - + FOO 1
    XRANGE s - + 1
    XREVRANGE s + (18446744073709551615-18446744073709551615
    XDEL s
    XDEL s x
    XDEL s 5-5 x
    XLEN s
    XSETID missing 1-1
    XSETID s x
    XSETID s 1-1
    XSETID s 9-9 ENTRIESADDED
    XSETID s 9-9 ENTRIESADDED x
    XSETID s 9-9 ENTRIESADDED -1
    XSETID s 9-9 ENTRIESADDED 0
    XSETID s 9-9 MAXDELETEDID x
    XSETID s 9-9 MAXDELETEDID 10-0
    XSETID s 9-9 FOO
    XREAD STREAMS s
    XREAD s 0
    XREAD COUNT 1 s 0
    XREAD COUNT x STREAMS s 0
    XREAD STREAMS s x
    XREAD STREAMS s -
    XREAD STREAMS s >
    XREAD BLOCK x STREAMS s 0
    XREAD BLOCK -1 STREAMS s 0
    XREAD GROUP g c STREAMS s 0
    XREAD NOACK STREAMS s 0
    XREAD COUNT 1 BLOCK 1 FOO STREAMS s 0
    XREADGROUP GROUP g c STREAMS s >
    XREADGROUP GROUP g c STREAMS missing >
    XREADGROUP COUNT 1 COUNT 2 STREAMS s >
    XREADGROUP GROUP g c COUNT 1 s >
    XGROUP CREATE s g $
    XREADGROUP GROUP g c STREAMS s $
    XREADGROUP GROUP g c STREAMS s x
    XREADGROUP GROUP g c STREAMS s -
    XREADGROUP GROUP g c COUNT x STREAMS s >
    XREADGROUP GROUP g STREAMS s >
    XGROUP CREATE s g $
    XGROUP CREATE s h x
    XGROUP CREATE s h -
    XGROUP CREATE s h $ FOO
    XGROUP CREATE s h $ MKSTREAM FOO
    XGROUP CREATE s h $ ENTRIESREAD
    XGROUP CREATE s h $ ENTRIESREAD x
    XGROUP CREATE s h $ ENTRIESREAD -2
    XGROUP CREATE s h $ MKSTREAM ENTRIESREAD 1 MKSTREAM
    XGROUP CREATE s h
    XGROUP SETID s nog $
    XGROUP SETID s g x
    XGROUP SETID s g $ MKSTREAM
    XGROUP SETID missing g $
    XGROUP DESTROY missing g
    XGROUP DESTROY s
    XGROUP CREATECONSUMER s nog c
    XGROUP CREATECONSUMER missing g c
    XGROUP CREATECONSUMER s g
    XGROUP DELCONSUMER s nog c
    XGROUP DELCONSUMER missing g c
    XGROUP FOO s g
    XGROUP
    XACK s g
    XACK s g x
    XACK s nog x
    XPENDING s
    XPENDING s nog
    XPENDING missing g
    XPENDING s g -
    XPENDING s g - +
    XPENDING s g - + x
    XPENDING s g x + 1
    XPENDING s g - x 1
    XPENDING s g (- + 1
    XPENDING s g IDLE x - + 1
    XPENDING s g IDLE 5 - +
    XPENDING s g IDLE 5 - + 1 c more
    XPENDING s g - + 1 c d
    XPENDING s nog x x x
    XCLAIM s nog c 0 1-1
    XCLAIM missing g c 0 1-1
    XCLAIM s g c x 1-1
    XCLAIM s g c 0
    XCLAIM s g c 0 x
    XCLAIM s g c 0 1-1 FOO
    XCLAIM s g c 0 1-1 IDLE
    XCLAIM s g c 0 1-1 IDLE x
    XCLAIM s g c 0 1-1 TIME x
    XCLAIM s g c 0 1-1 RETRYCOUNT x
    XCLAIM s g c 0 1-1 LASTID x
    XCLAIM s g c 0 1-1 JUSTID 1-1
    XAUTOCLAIM s nog c 0 0
    XAUTOCLAIM missing g c 0 0
    XAUTOCLAIM s g c x 0
    XAUTOCLAIM s g c 0 x
    XAUTOCLAIM s g c 0 (-
    XAUTOCLAIM s g c 0 (18446744073709551615-18446744073709551615
    XAUTOCLAIM s g c 0 0 COUNT 0
    XAUTOCLAIM s g c 0 0 COUNT x
    XAUTOCLAIM s g c 0 0 COUNT
    XAUTOCLAIM s g c 0 0 FOO
    XAUTOCLAIM s nog c x 0
    XINFO STREAM missing
    XINFO STREAM s FOO
    XINFO STREAM s FULL FOO
    XINFO STREAM s FULL FOO 1
    XINFO STREAM s FULL COUNT x
    XINFO STREAM
    XINFO GROUPS missing
    XINFO GROUPS
    XINFO CONSUMERS s nog
    XINFO CONSUMERS missing g
    XINFO CONSUMERS s
    XINFO FOO s
    XINFO

    SET k v
    XADD k * f v
    XADD k NOMKSTREAM * f v
    XADD k x f v
    XLEN k
    XRANGE k - +
    XREVRANGE k + -
    XREAD STREAMS k 0
    XREADGROUP GROUP g c STREAMS k >
    XDEL k 1-1
    XDEL k x
    XTRIM k MAXLEN 1
    XSETID k 1-1
    XACK k g 1-1
    XPENDING k g
    XCLAIM k g c 0 1-1
    XAUTOCLAIM k g c 0 0
    XGROUP CREATE k g $
    XGROUP CREATE k g $ MKSTREAM
    XGROUP SETID k g $
    XGROUP DESTROY k g
    XGROUP CREATECONSUMER k g c
    XGROUP DELCONSUMER k g c
    XINFO STREAM k
    XINFO STREAM k FOO
    XINFO GROUPS k
    XINFO CONSUMERS k g
    XADD s 1-1 f v
    GET s
    APPEND s x
    SETRANGE s 0 x
    COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0 0
    COMMAND GETKEYS XREADGROUP GROUP g c BLOCK 1 NOACK STREAMS a b > >
    COMMAND GETKEYS XADD s 1-1 f v
    COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0
    COMMAND GETKEYS XGROUP CREATE s g $
"#;

/// Creates a stream by random commands on one server.
fn grow(pair: &mut Pair, dice: &mut Dice, found: &mut Differences) {
    let (mut ms, mut call) = (0, |words: &[&str]| {
        let replies = pair.call(words);
        if !replies.agree() {
            found.add(&words.join(" "), &replies);
        }
    });
    call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    for _ in 0..150 {
        ms += dice.roll(50);
        let (id, value) = (format!("{ms}-*"), "v".repeat(dice.roll(300) as usize));
        match dice.roll(10) {
            0 => call(&["XADD", "s", &id, "other", &value, "field", "1"]),
            1 => call(&["XDEL", "s", &format!("{}-0", dice.roll(ms + 1)), &format!("{}-1", dice.roll(ms + 1))]),
            2 => call(&["XTRIM", "s", "MAXLEN", "~", "50"]),
            3 => call(&[
                "XREADGROUP",
                "GROUP",
                "g",
                ["a", "b"][dice.roll(2) as usize],
                "COUNT",
                "3",
                "STREAMS",
                "s",
                ">",
            ]),
            _ => call(&["XADD", "s", &id, "f", &value]),
        }
    }
}

#[test]
fn dumps_of_streams_are_exchanged_with_redis() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut found) = (Dice::new(11), Differences::default());
    let mut pair = arena.pair();
    for round in 0..20 {
        arena.flush();
        grow(&mut pair, &mut dice, &mut found);
        let dumps = pair.call(&["DUMP", "s"]);
        for from_redis in [true, false] {
            let dump = if from_redis { dumps.redis.clone() } else { dumps.keylatch.clone() };
            let dump = dump.expect("a dump");
            let start = dump.iter().position(|byte| *byte == b'\n').expect("a bulk string") + 1;
            let payload = dump[start..dump.len() - 2].to_vec();
            let words: [&[u8]; 5] = [b"RESTORE", b"t", b"0", &payload, b"REPLACE"];
            pair.send(&encode(&words));
            let replies = pair.replies();
            let about = format!("round {round}, from redis: {from_redis}");
            if !replies.agree() || replies.redis.as_deref() != Some(b"+OK\r\n") {
                found.add(&about, &replies);
            }
            for words in [
                &["XRANGE", "t", "-", "+"][..],
                &["XREVRANGE", "t", "+", "-"],
                &["XINFO", "STREAM", "t"],
                &["XPENDING", "t", "g"],
                &["DEBUG", "DIGEST-VALUE", "t"],
            ] {
                let replies = pair.call(words);
                if !replies.agree() {
                    found.add(&format!("{about}: {}", words.join(" ")), &replies);
                }
            }
        }
    }
    found.report();
}
