//! Stories about lists: each command, option and error at least once, events, and clients that block.

use super::companions::{play, play_in};
use super::notifications::tell_beside_listener;
use super::script::tell;

#[test]
fn lists_grow_and_shrink_at_both_ends_as_in_redis() {
    tell("ends", ENDS);
}

#[test]
fn lists_are_read_and_changed_by_index_and_value_as_in_redis() {
    tell("inside", INSIDE);
}

#[test]
fn elements_are_moved_between_lists_as_in_redis() {
    tell("moves", MOVES);
}

#[test]
fn commands_that_may_block_reply_at_once_where_they_can_as_in_redis() {
    tell("at-once", AT_ONCE);
}

#[test]
fn long_lists_and_long_elements_are_those_of_redis() {
    let mut story = String::new();
    for number in 0..300 {
        story.push_str(&format!("RPUSH long element-{number} {number} {}\n", "x".repeat(number * 7 % 300)));
    }
    for line in [
        "LLEN long",
        "LRANGE long 0 -1",
        "LINDEX long 450",
        "LINDEX long -450",
        "LRANGE long 400 -400",
        "LSET long 450 changed",
        r#"LSET long 451 "y\{9000}""#,
        r#"LSET long 452 "y\{9000}""#,
        "LSET long 451 short",
        r#"LINSERT long BEFORE 150 "y\{9000}""#,
        r#"LINSERT long AFTER 150 "y\{5000}""#,
        r#"LINSERT long AFTER element-200 "y\{100}""#,
        r#"LREM long 3 """#,
        "LREM long -2 7",
        "LRANGE long 0 -1",
        "LPOP long 100",
        "RPOP long 100",
        "LPOS long 150",
        "LPOS long changed RANK -1",
        "LTRIM long 20 -20",
        "LRANGE long 0 -1",
        "DEBUG DIGEST-VALUE long",
        r#"LPUSH long "y\{9000}" "y\{20000}""#,
        r#"RPUSH long "y\{9000}""#,
        "LLEN long",
        "LMOVE long other LEFT RIGHT",
        "COPY long copy",
        "DEBUG DIGEST-VALUE long other copy",
        "LTRIM long 1 1",
        "LRANGE long 0 -1",
        "DEL other",
        "OBJECT ENCODING other",
    ] {
        story.push_str(line);
        story.push('\n');
    }
    tell("long", &story);
}

#[test]
fn changes_of_lists_have_the_events_of_redis() {
    tell_beside_listener("events", EVENTS);
}

#[test]
fn clients_that_block_on_lists_are_served_as_by_redis() {
    play("blocked", BLOCKED);
}

/// Covers all orders of the keys' hashes.
#[test]
fn clients_that_block_on_several_keys_are_served_in_the_order_of_redis() {
    let stories = (0..40).map(|number| {
        let changes = match number % 4 {
            0 => "RPUSH p 1; RPUSH q 2",
            1 => "RPUSH q 1; RPUSH p 2 3; RPUSH q 4",
            2 => "SET q x; RPUSH p 1; DEL q; RPUSH q 2",
            _ => "RPUSH p 1; DEL p; RPUSH q 2; RPUSH p 3",
        };
        let changes: Vec<String> = changes.split("; ").map(|change| format!("c: {change}")).collect();
        let story = ORDER.replace("CHANGES", &changes.join("\n"));
        story.replace('p', &format!("p{number}")).replace('q', &format!("q{number}"))
    });
    play_in(&[2], "order", &stories.collect::<Vec<_>>().join("\n"));
}

const ORDER: &str = r#"
    a> BLMOVE p d LEFT RIGHT 0
    ? blocked_clients:1
    b> BLMOVE q d LEFT RIGHT 0
    ? blocked_clients:2
    c: MULTI
    CHANGES
    c: EXEC
    a<
    b<
    c: LRANGE d 0 -1
"#;

const ENDS: &str = r#"
    LPUSH k a
    LPUSH k b c d
    RPUSH k 1 2 -3 007 "" "\x00\r\n"
    LRANGE k 0 -1
    LLEN k
    LLEN missing
    TYPE k
    LPUSHX k x y
    RPUSHX k z
    LPUSHX missing x
    RPUSHX missing x y
    EXISTS missing
    LPOP k
    RPOP k
    LPOP k 2
    RPOP k 3
    LPOP k 0
    RPOP k 0
    LPOP missing
    RPOP missing
    LPOP missing 1
    RPOP missing 0
    LPOP k -1
    LPOP k x
    RPOP k 9223372036854775808
    LPOP missing x
    LPOP k 1 2
    RPOP k 9223372036854775807
    EXISTS k
    LPUSH k 9223372036854775807 -9223372036854775808 9223372036854775808 1e3 " 1" -0
    LPOP k 9223372036854775807
    EXISTS k
    LPUSH
    LPUSH k
    RPUSHX k
    LPOP
    LLEN
    LLEN a b

    SET s x
    LPUSH s a
    RPUSHX s a
    LPOP s
    RPOP s 1
    LPOP s x
    LLEN s
    LMPOP 1 s LEFT
    LMPOP 2 missing s LEFT
    GET s

    RPUSH a 1 2 3 4 5
    RPUSH b x y
    LMPOP 2 a b LEFT
    LMPOP 2 a b RIGHT COUNT 2
    LMPOP 2 missing b LEFT COUNT 10
    LMPOP 3 missing b a RIGHT COUNT 9223372036854775807
    LMPOP 2 a b LEFT
    LMPOP 0 a LEFT
    LMPOP -1 a LEFT
    LMPOP x a LEFT
    LMPOP 2 a LEFT
    LMPOP 1 a
    LMPOP 1 a UP
    LMPOP 1 a LEFT COUNT
    LMPOP 1 a LEFT COUNT 0
    LMPOP 1 a LEFT COUNT -1
    LMPOP 1 a LEFT COUNT x
    LMPOP 1 a LEFT COUNT 1 COUNT 1
    LMPOP 1 a LEFT FOO 1
    LMPOP 1 a left count 1
    LMPOP 9223372036854775807 a LEFT
    LMPOP 1

    RPUSH k a b
    PEXPIREAT k 4102444800000
    LPUSH k c
    PEXPIRETIME k
    LPOP k
    PEXPIRETIME k
    RENAME k l
    LRANGE l 0 -1
    COPY l m
    LPUSH m more
    LRANGE l 0 -1
    LRANGE m 0 -1
    SET l overwritten
    GET l
    DEBUG DIGEST
    MOVE m 1
    SELECT 1
    LRANGE m 0 -1
    DEBUG DIGEST-VALUE m
    SELECT 0
    SWAPDB 0 1
    LRANGE m 0 -1
    OBJECT REFCOUNT m
    APPEND m x
    INCR m
    GET m
    STRLEN m
    SETRANGE m 0 x
    GETEX m
    MGET m l
    PFADD m x
    BITCOUNT m
    GETSET m x
    SET m x GET
    SET m x NX
    SET m x
    TYPE m
"#;

const INSIDE: &str = r#"
    RPUSH k a b c d e f
    LRANGE k 0 -1
    LRANGE k 1 3
    LRANGE k -3 -2
    LRANGE k -100 100
    LRANGE k 3 1
    LRANGE k 6 10
    LRANGE k 5 5
    LRANGE k -7 0
    LRANGE k -9223372036854775808 9223372036854775807
    LRANGE k 9223372036854775807 -9223372036854775808
    LRANGE k x 1
    LRANGE k 1 x
    LRANGE k 0
    LRANGE missing 0 -1
    LRANGE missing x 0
    LINDEX k 0
    LINDEX k -1
    LINDEX k 5
    LINDEX k 6
    LINDEX k -7
    LINDEX k 9223372036854775807
    LINDEX k -9223372036854775808
    LINDEX k x
    LINDEX missing x
    LINDEX missing 0
    LSET k 0 A
    LSET k -1 12
    LSET k 6 x
    LSET k -7 x
    LSET k x x
    LSET k -9223372036854775808 x
    LSET missing 0 x
    LSET missing x x
    LRANGE k 0 -1
    LINSERT k BEFORE A start
    LINSERT k AFTER 12 end
    LINSERT k before c 3
    LINSERT k After c 4
    LINSERT k AFTER nosuch x
    LINSERT k UP c x
    LINSERT missing BEFORE c x
    LINSERT missing UP c x
    LINSERT k BEFORE c
    LRANGE k 0 -1
    LTRIM k 1 -2
    LRANGE k 0 -1
    LTRIM k 0 -1
    LTRIM k x 1
    LTRIM k 1 x
    LTRIM missing 0 1
    LTRIM missing x 1
    LTRIM k -100 100
    LLEN k
    LTRIM k 2 1
    EXISTS k
    RPUSH k a
    LTRIM k -9223372036854775808 -9223372036854775808
    EXISTS k

    RPUSH k a b a c a 1 01 1 a
    LREM k 2 a
    LRANGE k 0 -1
    LREM k -1 a
    LRANGE k 0 -1
    LREM k 0 1
    LRANGE k 0 -1
    LREM k 0 nosuch
    LREM k x a
    LREM missing 0 a
    LREM missing x a
    LREM k 9223372036854775807 01
    LREM k -9223372036854775807 c
    LREM k 0 b
    LREM k 0 a
    EXISTS k

    RPUSH k a b c 1 2 3 c c
    LPOS k a
    LPOS k c
    LPOS k c RANK 2
    LPOS k c RANK 3
    LPOS k c RANK 4
    LPOS k c RANK -1
    LPOS k c RANK -3
    LPOS k c RANK -4
    LPOS k c COUNT 0
    LPOS k c COUNT 1
    LPOS k c COUNT 2
    LPOS k c COUNT 2 RANK -1
    LPOS k c RANK 2 COUNT 0
    LPOS k c RANK -2 COUNT 5
    LPOS k c MAXLEN 3
    LPOS k c MAXLEN 2
    LPOS k c COUNT 0 MAXLEN 7
    LPOS k c COUNT 0 MAXLEN 7 RANK -1
    LPOS k c COUNT 9223372036854775807 MAXLEN 9223372036854775807
    LPOS k c MAXLEN 0
    LPOS k 2
    LPOS k nosuch
    LPOS k nosuch COUNT 0
    LPOS k nosuch RANK 9223372036854775807
    LPOS missing c
    LPOS missing c COUNT 0
    LPOS missing c RANK 0
    LPOS k c RANK 0
    LPOS k c RANK x
    LPOS k c RANK 9223372036854775807
    LPOS k c RANK -9223372036854775807
    LPOS k c COUNT -1
    LPOS k c COUNT x
    LPOS k c MAXLEN -1
    LPOS k c MAXLEN x
    LPOS k c RANK
    LPOS k c COUNT
    LPOS k c FOO 1
    LPOS k c RANK 1 RANK 2
    LPOS k c COUNT 1 COUNT 2
    lpos k c rank 2 count 1 maxlen 8
    LPOS k

    SET s x
    LRANGE s 0 -1
    LRANGE s x -1
    LINDEX s 0
    LINDEX s x
    LSET s 0 x
    LSET s x x
    LINSERT s BEFORE a b
    LINSERT s UP a b
    LREM s 0 a
    LREM s x a
    LTRIM s 0 1
    LTRIM s x 1
    LPOS s a
    LPOS s a RANK 0
"#;

const MOVES: &str = r#"
    RPUSH a 1 2 3 4
    LMOVE a b LEFT RIGHT
    LMOVE a b RIGHT LEFT
    LMOVE a b left left
    LMOVE a b Right Right
    EXISTS a
    LRANGE b 0 -1
    LMOVE a b LEFT RIGHT
    LMOVE missing a LEFT RIGHT
    EXISTS a
    LMOVE b b LEFT RIGHT
    LRANGE b 0 -1
    LMOVE b b RIGHT LEFT
    LRANGE b 0 -1
    LMOVE b b LEFT LEFT
    LMOVE b b RIGHT RIGHT
    LRANGE b 0 -1
    RPOPLPUSH b b
    LRANGE b 0 -1
    RPOPLPUSH b c
    RPOPLPUSH missing c
    LRANGE c 0 -1
    RPOPLPUSH c c
    LMOVE c c LEFT RIGHT
    LRANGE c 0 -1
    LMOVE b c UP LEFT
    LMOVE b c LEFT UP
    LMOVE missing c UP LEFT
    LMOVE b c LEFT
    RPOPLPUSH b
    SET s x
    LMOVE s b LEFT LEFT
    LMOVE b s LEFT LEFT
    LMOVE missing s LEFT LEFT
    RPOPLPUSH s s
    RPOPLPUSH b s
    LRANGE b 0 -1
    PEXPIREAT c 4102444800000
    RPOPLPUSH b c
    PEXPIRETIME c
"#;

const AT_ONCE: &str = r#"
    RPUSH k a b c d e f g h
    BLPOP k 0
    BRPOP k 0
    BLPOP missing k 0
    BRPOP missing k other 1
    BLPOP k 0.001
    BLPOP k -0.0001
    BLPOP k x
    BLPOP k -1
    BLPOP k ""
    BLPOP k nan
    BLPOP k 1e
    BLPOP k -inf
    BLPOP x
    BRPOP
    BLMPOP 0 1 k LEFT
    BLMPOP 0.5 2 missing k RIGHT COUNT 2
    BLMPOP 0 0 k LEFT
    BLMPOP x 0 k LEFT
    BLMPOP x 1 k LEFT
    BLMPOP -1 1 k LEFT
    BLMPOP 0 x k LEFT
    BLMPOP 0 2 k LEFT
    BLMPOP 0 1 k UP
    BLMPOP 0 1 k LEFT COUNT 0
    BLMPOP 0 1 k LEFT COUNT 1 COUNT 1
    BLMPOP 0 1 k
    EXISTS k
    RPUSH k a b c
    BLMOVE k l LEFT RIGHT 0
    BLMOVE k k LEFT RIGHT 0
    BLMOVE k l UP RIGHT 0
    BLMOVE k l LEFT UP x
    BLMOVE k l LEFT RIGHT x
    BLMOVE k l LEFT RIGHT -1
    BLMOVE missing l LEFT RIGHT -1
    BRPOPLPUSH k l 0
    BRPOPLPUSH k l x
    BRPOPLPUSH k l
    LRANGE l 0 -1
    SET s x
    BLPOP s 0
    BLPOP missing s 0
    BLPOP l s 0
    BLPOP s l 0
    BLMPOP 0 2 s l LEFT
    BLMOVE s l LEFT LEFT 0
    BLMOVE l s LEFT LEFT 0
    BRPOPLPUSH l s 0

    MULTI
    BLPOP k 0
    BRPOP k l 5
    BLMPOP 0 1 k LEFT
    BLMOVE k l LEFT LEFT 0
    BRPOPLPUSH k l 0
    RPUSH k a b c d
    BLPOP k 0
    BLMOVE k l LEFT LEFT 0
    EXEC
    LRANGE k 0 -1
"#;

const EVENTS: &str = r#"
    LPUSH k a
    LPUSH k b c
    RPUSH k d
    LPUSHX k e
    LPUSHX missing e
    LINSERT k BEFORE d x
    LINSERT k BEFORE nosuch x
    LSET k 0 y
    LSET k 100 y
    LREM k 0 nosuch
    LREM k 0 x
    LTRIM k 0 -1
    LTRIM k 1 -2
    LTRIM missing 1 -2
    LPOP k
    RPOP k 0
    RPOP k 5
    RPUSH k a b c
    LMOVE k l LEFT RIGHT
    LMOVE k k LEFT RIGHT
    LMOVE k k RIGHT LEFT
    LMOVE k k LEFT LEFT
    RPOPLPUSH k l
    RPOPLPUSH k l
    RPOPLPUSH k l
    LMOVE k l LEFT LEFT
    LMPOP 2 k l LEFT
    LMPOP 2 k l RIGHT COUNT 10
    RPUSH k a b c d
    BLPOP k 0
    BRPOP k 0
    BLMOVE k l LEFT LEFT 0
    BRPOPLPUSH k l 0
    BLMPOP 0 1 l LEFT COUNT 5
    RPUSH k a
    LREM k 0 a
    RPUSH k a
    LTRIM k 1 0
    LRANGE k 0 -1
    LLEN k
    LPOP k
    RPUSH k a
    SET k b
    LPUSH k a
    GET k
"#;

const BLOCKED: &str = r#"
    a> BLPOP k 0
    ? blocked_clients:1
    b: RPUSH k x y
    a<
    b: LRANGE k 0 -1
    a: PING

    a> BLPOP k 0
    ? blocked_clients:1
    b> BRPOP k 0
    ? blocked_clients:2
    c: RPUSH k 1 2 3
    a<
    b<
    c: LRANGE k 0 -1

    a> BLPOP k1 k2 k3 0
    ? blocked_clients:1
    b: RPUSH k3 3
    a<
    b: EXISTS k3

    a> BLPOP k 0
    ? blocked_clients:1
    b: MULTI
    b: RPUSH k x
    b: LPOP k
    b: EXEC
    b: RPUSH k y
    a<

    a> BLPOP k 0
    ? blocked_clients:1
    b: SET k string
    b: DEL k
    b: RPUSH k y
    a<

    a> BLMOVE a b LEFT RIGHT 0
    ? blocked_clients:1
    b> BLPOP b 0
    ? blocked_clients:2
    c: RPUSH a x
    a<
    b<
    c: EXISTS a b

    a> BRPOPLPUSH a b 0
    ? blocked_clients:1
    b> BRPOPLPUSH b c 0
    ? blocked_clients:2
    c> BRPOPLPUSH c d 0
    ? blocked_clients:3
    d: RPUSH a x
    a<
    b<
    c<
    d: LRANGE d 0 -1

    a> BLMOVE k k LEFT RIGHT 0
    ? blocked_clients:1
    b> BLMOVE k k LEFT RIGHT 0
    ? blocked_clients:2
    c: RPUSH k 1 2 3
    a<
    b<
    c: LRANGE k 0 -1

    a> BLMOVE a s LEFT RIGHT 0
    ? blocked_clients:1
    b: SET s string
    b: RPUSH a 1 2
    a<
    b: LRANGE a 0 -1

    a> BLMPOP 0 2 k l LEFT COUNT 2
    ? blocked_clients:1
    b: RPUSH l 1 2 3
    a<
    b: LRANGE l 0 -1

    a> BLPOP k 0.01
    a<
    a> BLMPOP 0.01 1 k LEFT
    a<
    a> BLMOVE k l LEFT LEFT 0.01
    a<
    a> BRPOPLPUSH k l 0.01
    a<
    b: RPUSH k x
    b: LLEN k

    a> BLPOP k 0
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a}
    a<
    a> BLPOP k 0
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a} ERROR
    a<
    a> BLMOVE k l LEFT LEFT 0
    ? blocked_clients:1
    b: CLIENT UNBLOCK {a} TIMEOUT
    a<
    b: RPUSH k x
    b: LLEN k

    a> BLPOP new 0
    ? blocked_clients:1
    b: RPUSH old x
    b: RENAME old new
    a<

    a> BLPOP new 0
    ? blocked_clients:1
    b: RPUSH old x
    b: COPY old new
    a<
    b: LRANGE old 0 -1

    a> BLPOP k 0
    ? blocked_clients:1
    b: SELECT 1
    b: RPUSH k x
    b: SWAPDB 0 1
    a<

    a> BLPOP k 0
    ? blocked_clients:1
    b: SELECT 1
    b: RPUSH k x
    b: MOVE k 0
    a<

    a> BLPOP k 0
    ? blocked_clients:1
    b: FLUSHALL
    b: RPUSH k x
    a<

    a> BLPOP k 0
    ? blocked_clients:1
    b: CLIENT KILL ID {a}
    a<
    b: RPUSH k x
    b: LRANGE k 0 -1

    a> BLPOP k 0
    ? blocked_clients:1
    a/
    ? blocked_clients:0
    b: RPUSH k x
    b: LRANGE k 0 -1

    a> BLPOP l 0
    ? blocked_clients:1
    b: RPUSH k 2 1
    b: SORT k STORE l
    a<
    b: LRANGE l 0 -1

    a> BLPOP k 0 ; RPUSH l done ; LRANGE l 0 -1
    ? blocked_clients:1
    b: RPUSH k x
    a<
    a<
    a<
"#;
