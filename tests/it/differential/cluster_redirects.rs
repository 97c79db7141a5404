//! The node that serves a request, beside a real cluster: MOVED, CROSSSLOT, replicas that serve reads, channels.

use super::topologies::tell;

#[test]
fn requests_for_keys_of_another_node_are_sent_there() {
    tell("moved", MOVED);
}

/// Slots: 3300 of `b` and 3168 of `f` are of p0, 7365 of `c` of p1, 15495 of `a` and 12182 of `foo` of p2.
const MOVED: &str = r##"
    p0: GET b
    p0: GET c
    p0: GET a
    p0: SET c 1
    p0: SET b 1
    p1: SET b 1
    p2: DEL b
    p0: INCR c
    p1: INCR c
    p0: EXISTS b
    p0: EXISTS c
    p0: TYPE c
    p0: OBJECT ENCODING c
    p0: TTL c
    p0: EXPIRE c 10
    p0: DUMP c
    p0: RESTORE c 0 x
    p0: TOUCH c
    p0: SCAN 0
    p0: RANDOMKEY
    ~ p0: KEYS *
    p1: DBSIZE
    p0: DBSIZE

    # several keys: first that they are of one slot, then whose it is
    p0: MGET c c
    p0: MGET {c}1 {c}2
    p0: MGET b c
    p0: MGET b f
    p0: MGET c z
    p0: MSET {c}1 1 {c}2 2
    p0: MSET b 1 c 2
    p0: MSET b 1 f 2
    p0: DEL b c
    p0: UNLINK {c}1 {c}2
    p0: RENAME c {c}2
    p0: RENAME b c
    p0: COPY c {c}2
    p0: COPY b c
    p0: COPY c {c}2 DB 1
    p0: MOVE b 1
    p0: MOVE c 1
    p0: SELECT 1
    p0: SELECT 0
    p0: SWAPDB 0 1
    p0: SORT c
    p0: SORT c STORE {c}2
    p0: SORT b STORE c
    p0: SINTERSTORE b c f
    p0: ZUNIONSTORE {c}d 2 {c}1 {c}2
    p0: ZUNIONSTORE {c}d 2 {c}1 b
    p0: XREAD STREAMS c {c}1 0 0
    p0: XREAD STREAMS c b 0 0
    p0: XREADGROUP GROUP g x STREAMS c >
    p0: LMPOP 2 c {c}1 LEFT
    p0: LMPOP 2 c b LEFT
    p0: BITOP AND c {c}1
    p0: GEORADIUS c 1 1 1 km STORE {c}2
    p0: PFCOUNT c {c}1
    p0: LCS c {c}1
    p0: MEMORY USAGE c
    p0: DEBUG OBJECT c
    p0: DEBUG SLEEP 0
    p0: MIGRATE 127.0.0.1 {port p1} c 0 1000
    p0: MIGRATE 127.0.0.1 {port p1} b 0 1000
    p0: MIGRATE 127.0.0.1 {port p1} b 1 1000

    # what is wrong with a request besides comes first, and so do rights; its type does not
    p0: NOSUCH c
    p0: GET
    p0: GET c c
    p0: SET c 1 NOSUCH
    p0: EXPIRE c x
    p0: LMPOP 0 c LEFT
    p0: LMPOP x c LEFT
    p0: LMPOP 3 c LEFT
    p0: ZUNIONSTORE d 5 c
    p0: XREAD STREAMS c
    p0: XREAD c
    p0: EVAL "return 1" x c
    p0: EVAL "return 1" -1 c
    p0: EVAL "return 1" 2 c
    p0: MIGRATE h 1 "" 0 1000 KEYS
    p0: MIGRATE h 1 "" 0 1000
    p0: OBJECT NOSUCH c
    p0: OBJECT ENCODING
    p0: ACL SETUSER few on nopass ~b +get +mget +multi +exec +ping
    p0.few: AUTH few x
    p0.few: GET c
    p0.few: GET b
    p0.few: SET b 1
    p0.few: MGET b c
    p0: ACL DELUSER few
"##;

#[test]
fn transactions_with_keys_of_another_node_are_not_begun_and_not_executed() {
    tell("transactions", TRANSACTIONS);
}

const TRANSACTIONS: &str = r##"
    # a call is redirected when it is queued
    p0: MULTI
    p0: SET b 1
    p0: SET c 1
    p0: GET b
    p0: EXEC
    p0: GET b

    # calls of one node in two slots are queued, and EXEC refuses them
    p0: MULTI
    p0: SET b 1
    p0: SET f 1
    p0: EXEC
    p0: GET b
    p0: MULTI
    p0: MSET b 1 f 1
    p0: EXEC

    # calls in one slot, and calls without keys
    p0: MULTI
    p0: SET b 1
    p0: MSET {b}1 1 {b}2 2
    p0: PING
    p0: EXEC
    p0: MULTI
    p0: PING
    p0: DBSIZE
    p0: EXEC
    p0: MULTI
    p0: EXEC
    p0: MULTI
    p0: SELECT 1
    p0: SET b 2
    p0: EXEC

    # errors, and redirections, before the end
    p0: MULTI
    p0: NOSUCH
    p0: SET c 1
    p0: EXEC
    p0: MULTI
    p0: SET c 1
    p0: DISCARD
    p0: GET b
    p0: DISCARD

    # a key that is watched
    p0: WATCH c
    p0: WATCH b c
    p0: WATCH b f
    p0: WATCH b
    p0: WATCH f
    p0.b: SET f 1
    p0: MULTI
    p0: SET b 1
    p0: EXEC
    p0: WATCH b
    p0: MULTI
    p0: SET c 1
    p0: EXEC
    p0: MULTI
    p0: WATCH c
    p0: WATCH b
    p0: EXEC
    p0: UNWATCH
"##;

#[cfg(feature = "lua")]
#[test]
fn scripts_are_executed_where_their_keys_are() {
    tell("scripts", SCRIPTS);
}

#[cfg(feature = "lua")]
const SCRIPTS: &str = r##"
    p0: EVAL "return 1" 0
    p0: EVAL "return 1" 1 b
    p0: EVAL "return 1" 1 c
    p0: EVAL "return 1" 2 b c
    p0: EVAL "return 1" 2 c {c}1
    p0: EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 b v
    p0: EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 c v
    p0: EVAL_RO "return redis.call('GET', KEYS[1])" 1 c
    p0: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 c
    p0: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 b
    p0: EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 b
    p0: EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 c
    p0: EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 1 c
    p1: SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
    p0: SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db

    # what the script calls besides
    p0: EVAL "return redis.pcall('GET', 'c')" 0
    p0: EVAL "return redis.pcall('GET', 'c')" 1 b
    p0: EVAL "return redis.pcall('SET', 'f', 1)" 1 b
    p0: EVAL "#!lua\nreturn redis.pcall('GET', 'c')" 0
    p0: EVAL "#!lua\nreturn redis.pcall('GET', 'c')" 1 b
    p0: EVAL "#!lua\nreturn redis.pcall('GET', 'f')" 1 b
    p0: EVAL "#!lua\nreturn redis.pcall('GET', '{b}1')" 1 b
    p0: EVAL "#!lua flags=allow-cross-slot-keys\nreturn {redis.pcall('GET', 'f'), redis.pcall('GET', 'c')}" 1 b
    p0: EVAL "#!lua flags=allow-cross-slot-keys\nreturn 1" 2 b c
    p0: EVAL "#!lua flags=allow-cross-slot-keys\nreturn 1" 2 b f
    p0: EVAL "#!lua flags=no-cluster\nreturn 1" 0
    p0: EVAL "#!lua flags=no-cluster\nreturn 1" 1 c
    p0: EVAL "return redis.pcall('CLUSTER', 'KEYSLOT', 'c')" 0
    p0: EVAL "return redis.pcall('READONLY')" 0
    p0: EVAL "return redis.pcall('ASKING')" 0
    p0: EVAL "return redis.pcall('SSUBSCRIBE', 'c')" 0
    p0: EVAL "return redis.pcall('SPUBLISH', 'c', 'm')" 0
    p0: EVAL "return redis.pcall('SPUBLISH', 'b', 'm')" 0
    p0: EVAL "return redis.pcall('PUBLISH', 'c', 'm')" 0

    # functions
    p0: FUNCTION LOAD REPLACE "#!lua name=l\nredis.register_function('f', function(keys) return #keys end)\nredis.register_function{function_name='n', callback=function() return 1 end, flags={'no-cluster'}}"
    p0: FCALL f 1 b
    p0: FCALL f 1 c
    p0: FCALL f 2 b c
    p0: FCALL n 0
    p0: FCALL n 1 c
    p0: FCALL nosuch 1 c
    p0: FCALL nosuch 1 b
    p1: FCALL f 1 c
    p0: FUNCTION DELETE l
"##;

#[test]
fn blocking_calls_are_redirected_before_they_block() {
    tell("blocking", BLOCKING);
}

const BLOCKING: &str = r##"
    p0: BLPOP c 0
    p0: BLPOP b c 0
    p0: BLPOP c x
    p0: BLMOVE b c LEFT LEFT 0
    p0: BLMPOP 0 2 c {c}1 LEFT
    p0: BZPOPMIN c 0
    p0: XREAD BLOCK 0 STREAMS c $
    p0: XREADGROUP GROUP g x BLOCK 0 STREAMS c >
    p0.x> BLPOP b {b}1 0
    p0: RPUSH {b}1 v
    p0.x<
    p0.x> BLMOVE b {b}to LEFT LEFT 0
    p0: RPUSH b v
    p0.x<
    r0: BLPOP b 1
    r0: READONLY
    r0: BLPOP b 1
    r0.x: READONLY
    r0.x> XREAD BLOCK 200 STREAMS b $
    ! PASS 200
    r0.x<
    p0: SET b 1
    ! CAUGHT-UP
    p0: WAIT 1 0
    p0.x> WAIT 2 200
    ! PASS 200
    p0.x<
    r0: WAIT 0 0
    r0: WAIT 1 1
"##;

#[test]
fn replicas_serve_reads_to_clients_that_have_said_readonly() {
    tell("readonly", READONLY);
}

const READONLY: &str = r##"
    p0: MSET b 1 {b}1 2 {b}2 3
    p0: RPUSH {b}l 2 1
    ! CAUGHT-UP
    r0: GET b
    r0: SET b 2
    r0: MGET b {b}1
    r0: GET c
    r0: READONLY
    r0: GET b
    r0: MGET b {b}1
    r0: MGET b f
    r0: MGET b c
    r0: SET b 2
    r0: GET c
    r0: SET c 1
    r0: EXISTS b {b}1
    r0: SORT {b}l
    r0: SORT_RO {b}l
    r0: SORT {b}l STORE {b}m
    r0: GETEX b
    r0: GETEX b EX 10
    r0: TTL b
    r0: TOUCH b
    r0: OBJECT ENCODING b
    r0: BITFIELD b GET u8 0
    r0: BITFIELD_RO b GET u8 0
    r0: PFCOUNT b
    r0: GEORADIUS b 1 1 1 km
    r0: DUMP nosuch{b}
    r0: EXPIRE b 10
    ~ r0: KEYS *
    r0: DBSIZE
    r0: FLUSHALL
    r0: SELECT 1
    r0: READWRITE
    r0: GET b
    r0: READONLY x
    r0: READWRITE x
    r0: ASKING
    r0: GET b
    r0: GET b

    # transactions
    r0: READONLY
    r0: MULTI
    r0: GET b
    r0: GET {b}1
    r0: EXEC
    r0: MULTI
    r0: GET b
    r0: SET b 1
    r0: EXEC
    r0: MULTI
    r0: GET b
    r0: GET f
    r0: EXEC
    r0: MULTI
    r0: READWRITE
    r0: GET b
    r0: EXEC
    r0: WATCH b
    r0: MULTI
    r0: PING
    r0: EXEC
    r0: READWRITE
    r0: WATCH b
    r0: MULTI
    r0: GET b
    r0: EXEC
    r0: MULTI
    r0: READONLY
    r0: GET b
    r0: EXEC

    # at a primary, it changes nothing
    p0: READONLY
    p0: SET b 1
    p0: GET c
    p0: READWRITE
    r1: READONLY
    r1: GET b
    r1: GET c

    # it ends with RESET
    r0: READONLY
    r0: GET b
    r0: RESET
    r0: GET b
"##;

#[cfg(feature = "lua")]
#[test]
fn replicas_execute_scripts_that_say_that_they_only_read() {
    tell("readonly-scripts", READONLY_SCRIPTS);
}

#[cfg(feature = "lua")]
const READONLY_SCRIPTS: &str = r##"
    p0: SET b 1
    ! CAUGHT-UP
    r0: EVAL "return redis.call('GET', KEYS[1])" 1 b
    r0: EVAL_RO "return redis.call('GET', KEYS[1])" 1 b
    r0: READONLY
    r0: EVAL "return redis.call('GET', KEYS[1])" 1 b
    r0: EVAL_RO "return redis.call('GET', KEYS[1])" 1 b
    r0: EVAL_RO "return redis.call('GET', KEYS[1])" 1 c
    r0: EVAL "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])" 1 b
    r0: EVAL "#!lua\nreturn redis.call('GET', KEYS[1])" 1 b
    r0: EVAL_RO "return redis.pcall('SET', KEYS[1], 1)" 1 b
    r0: EVAL "return 1" 0
    r0: EVAL "#!lua\nreturn 1" 0
    r0: EVAL "return redis.pcall('GET', 'b')" 0
    r0: EVAL "return redis.pcall('SET', 'b', 1)" 0
    r0: EVAL "#!lua flags=no-writes\nreturn redis.pcall('GET', 'c')" 0
    r0: EVAL_RO "return redis.pcall('GET', 'c')" 0
    p0: FUNCTION LOAD REPLACE "#!lua name=l\nredis.register_function{function_name='r', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}\nredis.register_function('w', function(keys) return redis.call('GET', keys[1]) end)"
    ! CAUGHT-UP
    r0: FCALL r 1 b
    r0: FCALL_RO r 1 b
    r0: FCALL w 1 b
    r0: FCALL_RO w 1 b
    r0: FCALL r 1 c
    r0: FUNCTION FLUSH
    r0: SCRIPT LOAD "return 1"
    r0: READWRITE
    r0: FCALL r 1 b
    r0: FCALL_RO r 1 b
    p0: FUNCTION FLUSH
"##;

#[test]
fn messages_reach_all_nodes_and_those_of_a_shard_its_own() {
    tell("channels", CHANNELS);
}

const CHANNELS: &str = r##"
    # to all nodes; the number is that of the receivers at this node
    p0.s: SUBSCRIBE news
    p1.s: SUBSCRIBE news
    r0.s: SUBSCRIBE news
    r2.s: PSUBSCRIBE n*
    p2: PUBLISH news 1
    p0.s<
    p1.s<
    r0.s<
    r2.s<
    p0: PUBLISH news 2
    p0.s<
    p1.s<
    r0.s<
    r2.s<
    r0: PUBLISH news 3
    p0.s<
    p1.s<
    r0.s<
    r2.s<
    p0: PUBSUB CHANNELS
    p1: PUBSUB NUMSUB news
    p2: PUBSUB NUMSUB news
    r2: PUBSUB NUMPAT

    # of a shard
    p0: SSUBSCRIBE c
    p0: SSUBSCRIBE b c
    p0: SSUBSCRIBE b f
    p0: SPUBLISH c 1
    p0.s: SSUBSCRIBE b
    r0.s: SSUBSCRIBE b
    p0.t: SSUBSCRIBE b
    p1: SPUBLISH b 1
    p0: SPUBLISH b 1
    p0.s<
    p0.t<
    r0.s<
    r0: SPUBLISH b 2
    p0.s<
    p0.t<
    r0.s<
    r1: SSUBSCRIBE b
    r1: SSUBSCRIBE c
    r1: SPUBLISH c 1
    p0: PUBSUB SHARDCHANNELS
    p0: PUBSUB SHARDNUMSUB b c
    r0: PUBSUB SHARDNUMSUB b
    p1: PUBSUB SHARDNUMSUB b
    p0.s: GET b
    p0.s: PING
    p0.s: SUNSUBSCRIBE c
    p0.s: SUNSUBSCRIBE
    p0: MULTI
    p0: SPUBLISH b 1
    p0: SPUBLISH c 1
    p0: EXEC
    p0: MULTI
    p0: SPUBLISH b 3
    p0: SET b 1
    p0: EXEC
    p0.t<
    r0.s<
    p0: MULTI
    p0: PUBLISH c 1
    p0: SET b 1
    p0: EXEC
    p0: EXISTS b

    # with pushes
    p0.s: HELLO 3
    p0.s: SSUBSCRIBE b {b}1
    p0.s<
    p0.s: SSUBSCRIBE c
    p0.s: GET b
    p0.s: GET c
    p0: SPUBLISH {b}1 1
    p0.s<
    p0.s: SUNSUBSCRIBE {b}1
    p0.s: SUNSUBSCRIBE
"##;
