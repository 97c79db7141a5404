//! Stories about ranges and combinations of sorted sets, and about their events.

use super::notifications::tell_beside_listener;
use super::script::tell;

#[test]
fn ranges_are_those_of_redis() {
    tell("ranges", RANGES);
}

#[test]
fn ranges_of_members_without_an_order_are_those_of_redis() {
    tell("unordered", UNORDERED);
}

#[test]
fn sorted_sets_are_combined_as_redis_combines_them() {
    tell("combinations", COMBINATIONS);
}

#[test]
fn commands_on_sorted_sets_tell_the_events_of_redis() {
    tell_beside_listener(
        "events",
        "
        ZADD z 1 a
        ZADD z 1 a
        ZADD z 2 a 3 b
        ZADD z NX 9 a
        ZADD z XX 9 new
        ZADD missing XX 9 new
        ZADD z INCR 1 a
        ZADD z INCR 0 a
        ZADD z GT INCR -1 a
        ZADD z x a
        ZINCRBY z 1 a
        ZINCRBY z 0 a
        ZINCRBY new 0 a
        ZADD z inf b
        ZINCRBY z -inf b
        ZREM z missing
        ZREM z a missing
        ZREM z b b
        ZREM z a
        ZREM new a
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f
        ZREMRANGEBYRANK z 9 10
        ZREMRANGEBYRANK z 0 1
        ZREMRANGEBYSCORE z 9 10
        ZREMRANGEBYSCORE z 3 3
        ZREMRANGEBYLEX z [x [y
        ZREMRANGEBYLEX z - [d
        ZPOPMIN z
        ZPOPMIN z 0
        ZPOPMAX z 5
        ZPOPMAX z
        ZADD z 1 a 2 b 3 c
        ZMPOP 2 missing z MIN
        ZMPOP 2 missing z MAX COUNT 5
        ZMPOP 2 missing z MAX COUNT 5
        ZADD z 1 a 2 b 3 c
        BZPOPMIN z 0
        BZPOPMAX missing z 0
        BZMPOP 0 1 z MAX
        ZADD z 1 a 2 b
        ZADD y 1 b 2 c
        ZRANGESTORE t z 0 -1
        ZRANGESTORE t z 0 -1
        ZRANGESTORE t z 5 6
        ZRANGESTORE t z 5 6
        ZRANGESTORE t missing 0 1
        ZUNIONSTORE t 2 z y
        ZUNIONSTORE t 2 z y
        ZINTERSTORE t 2 z y
        ZDIFFSTORE t 2 z y
        ZDIFFSTORE t 2 z z
        ZDIFFSTORE t 2 z z
        ZUNIONSTORE t 1 missing
        SET t v
        ZUNIONSTORE t 1 z
        ZRANGESTORE z z 0 0
        ZINTERSTORE z 1 missing
        ZSCORE y b
        ZSCORE missing b
        ZRANGE missing 0 -1
        ZCARD missing
        ZRANK missing b
        ZSCAN missing 0
        ZRANDMEMBER missing
        ZUNION 2 missing y
        ZINTERCARD 2 missing y

        CONFIG SET zset-max-listpack-entries 1
        ZADD z 1 a 2 b 3 c
        ZADD z 4 a
        ZREM z b
        ZREMRANGEBYRANK z 0 -1
        ZADD z 1 a 2 b
        ZPOPMIN z 2
        CONFIG SET zset-max-listpack-entries 128
        ",
    );
}

const RANGES: &str = r#"
    ZADD z 1 a 2 b 3 c 4 d 5 e
    ZRANGE z 0 -1
    ZRANGE z 1 2
    ZRANGE z 1 2 WITHSCORES
    ZRANGE z -2 -1
    ZRANGE z -100 1
    ZRANGE z 3 100
    ZRANGE z 100 200
    ZRANGE z 3 1
    ZRANGE z -1 -2
    ZRANGE z 9223372036854775807 9223372036854775807
    ZRANGE z -9223372036854775808 9223372036854775807
    ZRANGE z 0 9223372036854775808
    ZRANGE z 0 1 REV
    ZRANGE z 0 1 REV WITHSCORES
    ZRANGE z 1 -2 REV
    ZRANGE z -2 -1 REV
    ZRANGE z 0 1 WITHSCORES WITHSCORES
    ZRANGE z 0 1 LIMIT 0 -1
    ZRANGE z 0 1 LIMIT 0 1
    ZRANGE z 0 1 LIMIT x 1
    ZRANGE z 0 1 LIMIT 1
    ZRANGE z 0 1 LIMIT
    ZRANGE z 0 1 FOO
    ZRANGE z 0 1 REV REV
    ZRANGE z a b
    ZRANGE z 0 b
    ZRANGE z 0
    ZRANGE missing 0 -1
    ZRANGE missing 0 x
    ZRANGE z 1 3 BYSCORE
    ZRANGE z 3 1 BYSCORE
    ZRANGE z (1 (4 BYSCORE WITHSCORES
    ZRANGE z 3 1 BYSCORE REV
    ZRANGE z 1 3 BYSCORE REV
    ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2 WITHSCORES
    ZRANGE z -inf +inf BYSCORE LIMIT 1 2
    ZRANGE z -inf +inf BYSCORE LIMIT 1 -1
    ZRANGE z -inf +inf BYSCORE LIMIT 1 -5
    ZRANGE z -inf +inf BYSCORE LIMIT 4 2
    ZRANGE z -inf +inf BYSCORE LIMIT 5 2
    ZRANGE z -inf +inf BYSCORE LIMIT 9223372036854775807 9223372036854775807
    ZRANGE z -inf +inf BYSCORE LIMIT -1 2
    ZRANGE z -inf +inf BYSCORE LIMIT 0 0
    ZRANGE z -inf +inf BYSCORE LIMIT 0 2 LIMIT 1 1
    ZRANGE z 3 4 BYSCORE LIMIT 1 5
    ZRANGE z 3 4 BYSCORE LIMIT 2 5
    ZRANGE z 0 1 BYSCORE BYLEX
    ZRANGE z 0 1 BYLEX BYSCORE
    ZRANGE z 0 1 BYSCORE BYSCORE
    ZRANGE z x 1 BYSCORE
    ZRANGE z 1 x BYSCORE
    ZRANGE z 0 1 BYLEX
    ZRANGE z - + BYLEX WITHSCORES
    ZRANGE z 0 1 byscore rev limit 0 1 withscores
    ZRANGEBYSCORE z 1 3
    ZRANGEBYSCORE z 1 3 WITHSCORES
    ZRANGEBYSCORE z 1 3 LIMIT 1 1 WITHSCORES
    ZRANGEBYSCORE z (1 3 LIMIT 1 -1
    ZRANGEBYSCORE z 3 1
    ZRANGEBYSCORE z 1 3 REV
    ZRANGEBYSCORE z 1 3 BYSCORE
    ZRANGEBYSCORE z 1 3 LIMIT 1
    ZRANGEBYSCORE z x 3
    ZRANGEBYSCORE z 1
    ZRANGEBYSCORE missing 1 3
    ZRANGEBYSCORE missing x 3
    ZREVRANGEBYSCORE z 3 1
    ZREVRANGEBYSCORE z 3 1 WITHSCORES LIMIT 1 5
    ZREVRANGEBYSCORE z (3 1
    ZREVRANGEBYSCORE z 1 3
    ZREVRANGEBYSCORE z +inf -inf LIMIT 4 1
    ZREVRANGEBYSCORE z +inf -inf LIMIT 5 1
    ZREVRANGEBYSCORE z +inf -inf LIMIT -1 1
    ZREVRANGEBYSCORE z 3 1 REV
    ZREVRANGEBYSCORE z 3 x
    ZREVRANGEBYSCORE missing 3 1
    ZREVRANGE z 0 1
    ZREVRANGE z 0 1 WITHSCORES
    ZREVRANGE z -2 -1
    ZREVRANGE z 3 100
    ZREVRANGE z 3 1
    ZREVRANGE z 0 1 REV
    ZREVRANGE z 0 1 BYSCORE
    ZREVRANGE z 0 1 LIMIT 0 1
    ZREVRANGE z 0 x
    ZREVRANGE missing 0 1
    ZREVRANGE z 0

    ZADD z 0 a 0 b 0 c 0 d 0 e 0 "" 0 10 0 9
    ZRANGEBYLEX z - +
    ZRANGEBYLEX z [b +
    ZRANGEBYLEX z (b [d
    ZRANGEBYLEX z (b (d
    ZRANGEBYLEX z [d [b
    ZRANGEBYLEX z - + LIMIT 1 2
    ZRANGEBYLEX z - + LIMIT 1 -1
    ZRANGEBYLEX z - + LIMIT 7 2
    ZRANGEBYLEX z - + LIMIT 8 2
    ZRANGEBYLEX z - + LIMIT -1 2
    ZRANGEBYLEX z - + WITHSCORES
    ZRANGEBYLEX z - + REV
    ZRANGEBYLEX z b +
    ZRANGEBYLEX z - b
    ZRANGEBYLEX z -
    ZRANGEBYLEX missing - +
    ZRANGEBYLEX missing x +
    ZREVRANGEBYLEX z + -
    ZREVRANGEBYLEX z [d (b
    ZREVRANGEBYLEX z (d [b
    ZREVRANGEBYLEX z [b [d
    ZREVRANGEBYLEX z + - LIMIT 1 2
    ZREVRANGEBYLEX z + - LIMIT 7 2
    ZREVRANGEBYLEX z + - LIMIT 8 2
    ZREVRANGEBYLEX z + - WITHSCORES
    ZREVRANGEBYLEX z + b
    ZREVRANGEBYLEX missing + -
    ZRANGE z - + BYLEX
    ZRANGE z [b (d BYLEX
    ZRANGE z (d [b BYLEX REV
    ZRANGE z + - BYLEX REV LIMIT 2 2
    ZRANGE z - + BYLEX REV
    ZREMRANGEBYLEX z [b (d
    ZREMRANGEBYLEX z [zz +
    ZREMRANGEBYLEX z b c
    ZREMRANGEBYLEX missing - +
    ZREMRANGEBYLEX missing b c
    ZREMRANGEBYLEX z -
    ZRANGE z 0 -1
    ZREMRANGEBYLEX z - +
    EXISTS z

    ZADD z 1 a 2 b 3 c 4 d 5 e
    ZREMRANGEBYRANK z 1 2
    ZREMRANGEBYRANK z 5 6
    ZREMRANGEBYRANK z 2 1
    ZREMRANGEBYRANK z -1 -1
    ZREMRANGEBYRANK z x 1
    ZREMRANGEBYRANK z 1 x
    ZREMRANGEBYRANK z 1
    ZREMRANGEBYRANK missing 0 1
    ZREMRANGEBYRANK missing x 1
    ZRANGE z 0 -1
    ZREMRANGEBYRANK z -9223372036854775808 9223372036854775807
    EXISTS z
    ZADD z 1 a 2 b 3 c 4 d 5 e
    ZREMRANGEBYSCORE z (1 3
    ZREMRANGEBYSCORE z 6 7
    ZREMRANGEBYSCORE z 5 4
    ZREMRANGEBYSCORE z x 4
    ZREMRANGEBYSCORE z 4 x
    ZREMRANGEBYSCORE missing 1 2
    ZREMRANGEBYSCORE missing x 2
    ZREMRANGEBYSCORE z 4
    ZRANGE z 0 -1
    ZREMRANGEBYSCORE z -inf inf
    EXISTS z

    ZADD z 1 a 2 b 3 c 4 d 5.5 e
    ZRANGESTORE t z 1 3
    ZRANGE t 0 -1 WITHSCORES
    ZRANGESTORE t z 0 1 REV
    ZRANGE t 0 -1 WITHSCORES
    ZRANGESTORE t z 2 inf BYSCORE LIMIT 1 2
    ZRANGE t 0 -1 WITHSCORES
    ZRANGESTORE t z inf 2 BYSCORE REV LIMIT 1 2
    ZRANGE t 0 -1 WITHSCORES
    ZRANGESTORE t z - [b BYLEX
    ZRANGE t 0 -1 WITHSCORES
    ZRANGESTORE t z 10 20
    EXISTS t
    ZRANGESTORE t z 10 20
    ZRANGESTORE t missing 0 -1
    SET t v
    EXPIRE t 1000
    ZRANGESTORE t z 0 0
    TTL t
    ZRANGESTORE t missing 0 -1
    EXISTS t
    ZRANGESTORE z z 1 2
    ZRANGE z 0 -1 WITHSCORES
    ZRANGESTORE t z 0 1 WITHSCORES
    ZRANGESTORE t z 0 1 LIMIT 0 1
    ZRANGESTORE t z 0
    ZRANGESTORE t z a b
    ZRANGESTORE t z a b BYSCORE
    ZRANGESTORE t z a b BYLEX
    ZRANGESTORE t z 0 1 FOO
    SET s v
    ZRANGESTORE t s 0 1
    ZRANGESTORE t s x 1
    ZRANGESTORE s z 0 -1
    TYPE s

    SET s v
    ZRANGE s 0 1
    ZRANGE s x 1
    ZRANGE s 0 1 FOO
    ZREVRANGE s 0 1
    ZRANGEBYSCORE s 0 1
    ZRANGEBYSCORE s x 1
    ZRANGEBYLEX s - +
    ZRANGEBYLEX s x +
    ZREVRANGEBYSCORE s 1 0
    ZREVRANGEBYLEX s + -
    ZREMRANGEBYRANK s 0 1
    ZREMRANGEBYRANK s x 1
    ZREMRANGEBYSCORE s 0 1
    ZREMRANGEBYLEX s - +
    GET s
"#;

/// Requests on members with different scores, which have no lexicographical order: Redis' results are defined for
/// packed sets alone.
const UNORDERED: &str = r#"
    ZADD z 1 d 2 a 3 e 4 b 5 c
    ZRANGEBYLEX z - +
    ZRANGEBYLEX z [b +
    ZRANGEBYLEX z [b [d
    ZRANGEBYLEX z [a [c
    ZRANGEBYLEX z [d [e
    ZREVRANGEBYLEX z + [b
    ZREVRANGEBYLEX z [d [b
    ZREVRANGEBYLEX z [c [a
    ZREVRANGEBYLEX z [b -
    ZREVRANGEBYLEX z [c [c
    ZLEXCOUNT z [b [d
    ZLEXCOUNT z [a [c
    ZLEXCOUNT z [d [e
    ZLEXCOUNT z - [d
    ZRANGE z [d [b BYLEX REV
    ZREMRANGEBYLEX z [b [d
    ZREMRANGEBYLEX z - [d
    ZRANGE z 0 -1 WITHSCORES
"#;

const COMBINATIONS: &str = r#"
    ZADD a 1 x 2 y 3 z
    ZADD b 10 y 20 z 30 w
    ZADD c 100 z 0.5 v
    ZUNION 1 a
    ZUNION 2 a b
    ZUNION 2 a b WITHSCORES
    ZUNION 3 a b c WITHSCORES
    ZUNION 3 a b c WEIGHTS 1 2 3 WITHSCORES
    ZUNION 3 a b c AGGREGATE MIN WITHSCORES
    ZUNION 3 a b c AGGREGATE MAX WITHSCORES
    ZUNION 3 a b c AGGREGATE SUM WEIGHTS 0 -1 0.5 WITHSCORES
    ZUNION 3 a b c WEIGHTS 1 2 3 WEIGHTS 3 2 1 AGGREGATE MIN AGGREGATE MAX WITHSCORES WITHSCORES
    ZUNION 2 a a WITHSCORES
    ZUNION 2 a missing WITHSCORES
    ZUNION 2 missing other
    ZINTER 1 a WITHSCORES
    ZINTER 2 a b
    ZINTER 2 a b WITHSCORES
    ZINTER 3 a b c WITHSCORES WEIGHTS 1 2 3
    ZINTER 2 a b AGGREGATE MIN WITHSCORES
    ZINTER 2 a b AGGREGATE max WITHSCORES
    ZINTER 2 a a WITHSCORES
    ZINTER 2 a missing
    ZINTER 2 missing a
    ZDIFF 1 a WITHSCORES
    ZDIFF 2 a b WITHSCORES
    ZDIFF 2 a b
    ZDIFF 2 b a WITHSCORES
    ZDIFF 3 a b c
    ZDIFF 2 a a
    ZDIFF 2 a missing WITHSCORES
    ZDIFF 2 missing a
    ZINTERCARD 2 a b
    ZINTERCARD 2 a b LIMIT 1
    ZINTERCARD 2 a b LIMIT 0
    ZINTERCARD 2 a b LIMIT 100
    ZINTERCARD 2 a b LIMIT 1 LIMIT 2
    ZINTERCARD 2 a missing
    ZINTERCARD 1 a
    ZUNIONSTORE t 2 a b
    ZRANGE t 0 -1 WITHSCORES
    ZUNIONSTORE t 2 a b WEIGHTS 2 3 AGGREGATE MAX
    ZRANGE t 0 -1 WITHSCORES
    ZUNIONSTORE a 1 a WEIGHTS 2
    ZRANGE a 0 -1 WITHSCORES
    ZINTERSTORE t 2 a b
    ZRANGE t 0 -1 WITHSCORES
    ZINTERSTORE t 2 a b AGGREGATE MIN
    ZRANGE t 0 -1 WITHSCORES
    ZDIFFSTORE t 2 a b
    ZRANGE t 0 -1 WITHSCORES
    ZDIFFSTORE t 2 a a
    EXISTS t
    ZINTERSTORE t 2 a missing
    SET t v
    EXPIRE t 1000
    ZUNIONSTORE t 1 a
    TTL t
    TYPE t
    ZUNIONSTORE t 1 missing
    EXISTS t
    SET t v
    ZDIFFSTORE t 1 missing
    EXISTS t
    OBJECT ENCODING a

    ZADD a inf x -inf y 1 z
    ZADD b -inf x inf y 1 z
    ZUNION 2 a b WITHSCORES
    ZINTER 2 a b WITHSCORES
    ZUNION 1 a WEIGHTS 0 WITHSCORES
    ZINTER 2 a b WEIGHTS 0 -1 WITHSCORES
    ZUNION 2 a b WEIGHTS inf -inf WITHSCORES
    ZUNION 2 a b WEIGHTS 1 nan
    ZUNION 2 a b AGGREGATE MIN WITHSCORES

    ZADD a 1 x 2 y 3.5 17
    SADD ints 17 18 -3
    SADD words x z 17
    ZUNION 2 a ints WITHSCORES
    ZUNION 2 a words WEIGHTS 2 3 WITHSCORES
    ZUNION 2 ints words WITHSCORES AGGREGATE MAX
    ZINTER 2 a ints WITHSCORES
    ZINTER 3 a words ints WITHSCORES
    ZINTER 2 words ints WEIGHTS 2 3 WITHSCORES
    ZDIFF 2 a words WITHSCORES
    ZDIFF 2 words a WITHSCORES
    ZDIFF 2 ints a WITHSCORES
    ZINTERCARD 2 a words
    ZINTERCARD 2 words ints LIMIT 1
    ZUNIONSTORE t 3 a ints words
    ZRANGE t 0 -1 WITHSCORES
    ZINTERSTORE t 2 words a AGGREGATE MIN
    ZRANGE t 0 -1 WITHSCORES
    ZDIFFSTORE words 2 words a
    TYPE words
    ZRANGE words 0 -1 WITHSCORES
    ZADD ints 1 a
    SADD a x

    ZADD a 0.1 x
    ZADD b 0.2 x
    ZADD c 0.3 x 1 y
    ZUNION 3 a b c WITHSCORES
    ZUNION 3 c b a WITHSCORES
    ZINTER 3 c b a WITHSCORES
    ZADD d 1 17 2 -3 3 x17 4 "" 5 017
    ZADD e 1 17 2 -3 7 3 9 ""
    ZUNION 2 d e WITHSCORES
    ZINTER 2 d e WITHSCORES
    ZDIFF 2 d e WITHSCORES

    ZADD a 1 x
    ZUNION 0 a
    ZUNION -1 a
    ZUNION x a
    ZUNION 2 a
    ZUNION 9223372036854775807 a
    ZUNION 1
    ZUNION 1 a FOO
    ZUNION 1 a WEIGHTS
    ZUNION 1 a WEIGHTS x
    ZUNION 2 a a WEIGHTS 1
    ZUNION 1 a WEIGHTS 1 2
    ZUNION 1 a AGGREGATE
    ZUNION 1 a AGGREGATE FOO
    ZUNION 1 a LIMIT 1
    ZINTER 0 a
    ZINTER 1 a LIMIT 1
    ZDIFF 0 a
    ZDIFF 1 a WEIGHTS 1
    ZDIFF 1 a AGGREGATE MIN
    ZINTERCARD 0 a
    ZINTERCARD 1 a WITHSCORES
    ZINTERCARD 1 a WEIGHTS 1
    ZINTERCARD 1 a LIMIT
    ZINTERCARD 1 a LIMIT -1
    ZINTERCARD 1 a LIMIT x
    ZUNIONSTORE t 0 a
    ZUNIONSTORE t x a
    ZUNIONSTORE t 2 a
    ZUNIONSTORE t 1
    ZUNIONSTORE t 1 a WITHSCORES
    ZINTERSTORE t 0 a
    ZINTERSTORE t 1 a WITHSCORES
    ZDIFFSTORE t 0 a
    ZDIFFSTORE t 1 a WITHSCORES
    ZDIFFSTORE t 1 a WEIGHTS 1
    EXISTS t
    SET s v
    ZUNION 1 s
    ZUNION 2 a s
    ZUNION 2 s a FOO
    ZINTER 2 missing s
    ZDIFF 2 missing s
    ZINTERCARD 2 missing s
    ZUNIONSTORE t 2 a s
    ZUNIONSTORE s 1 a
    TYPE s
"#;
