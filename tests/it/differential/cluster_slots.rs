//! Slots that move from node to node, and slots that nobody serves, beside a real cluster.

use super::topologies::tell;

#[test]
fn keys_of_a_slot_that_moves_are_asked_for_at_its_next_node() {
    tell("asked", ASKED);
}

/// Slot 3300 of `b` moves from p0 to p1.
const ASKED: &str = r##"
    p0: MSET b 1 {b}1 2 {b}2 3
    p1: CLUSTER SETSLOT 3300 IMPORTING {p0}
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    ~ p0: CLUSTER NODES
    ~ p1: CLUSTER NODES
    ~ p2: CLUSTER NODES
    p0: CLUSTER SLOTS
    p1: CLUSTER COUNTKEYSINSLOT 3300
    ~ p0: CLUSTER GETKEYSINSLOT 3300 10
    p0: GET b
    p0: GET {b}9
    p0: SET {b}9 1
    p0: SET b 2
    p0: EXISTS {b}9
    p1: GET b
    p2: GET b
    p1: ASKING
    p1: GET b
    p1: GET b

    # one key at the source is enough for a single one; all or none for several
    p0: MGET b {b}1
    p0: MGET b {b}9
    p0: MGET {b}8 {b}9
    p0: MSET {b}8 1 {b}9 1
    p0: MSET b 4 {b}9 1
    p0: DEL b {b}9
    p0: EXISTS {b}9 {b}8
    p0: RENAME b {b}9
    p0: COPY b {b}9
    p0: MULTI
    p0: GET b
    p0: EXEC
    p0: MULTI
    p0: GET {b}9
    p0: EXEC
    p0: WATCH {b}9
    p0: WATCH b
    p0: MULTI
    p0: GET b
    p0: GET {b}9
    p0: EXEC
    p0: SPUBLISH b 1
    p0.s: SSUBSCRIBE b

    # the target serves the call after ASKING, even of keys that it does not have
    p1: ASKING
    p1: SET {b}9 9
    p1: GET {b}9
    p1: ASKING
    p1: GET {b}9
    p1: ASKING
    p1: PING
    p1: GET {b}9
    p1: ASKING
    p1: ASKING
    p1: GET {b}9
    p1: ASKING
    p1: GET c
    p1: GET {b}9
    p1: ASKING
    p1: GET
    p1: GET {b}9
    p1: ASKING
    p1: NOSUCH
    p1: GET {b}9
    p1: ASKING
    p1: GET a
    p1: GET {b}9
    p1: ASKING
    p1: MGET b {b}9
    p1: ASKING
    p1: MGET {b}9 {b}9
    p1: ASKING
    p1: MGET b {b}1
    p1: ASKING
    p1: MSET {b}7 1 {b}9 2
    p1: ASKING
    p1: DEL {b}7 {b}9
    p1: ASKING
    p1: DEL {b}9
    p1: ASKING
    p1: MSET {b}9 2
    p1: ASKING x

    # transactions
    p1: ASKING
    p1: MULTI
    p1: GET {b}9
    p1: EXEC
    p1: MULTI
    p1: ASKING
    p1: GET {b}9
    p1: EXEC
    p1: ASKING
    p1: MULTI
    p1: ASKING
    p1: GET {b}9
    p1: ASKING
    p1: GET {b}9
    p1: EXEC
    p1: MULTI
    p1: ASKING
    p1: GET {b}9
    p1: ASKING
    p1: EXEC
    p1: ASKING
    p1: SPUBLISH b 1
    p1.s: ASKING
    p1.s: SSUBSCRIBE b
    p1: ASKING
    p1: WATCH b
    p1: WATCH b
    p1: MULTI
    p1: PING
    p1: EXEC

    # keys are moved
    p0: MIGRATE 127.0.0.1 {port p1} b 0 5000
    p0: GET b
    p0: GET {b}1
    p0: MGET b {b}1
    p0: MGET {b}1 {b}2
    p0: MIGRATE 127.0.0.1 {port p1} "" 0 5000 KEYS b {b}1
    p0: GET {b}1
    p0: GET {b}2
    p0: MGET b {b}2
    p0: MIGRATE 127.0.0.1 {port p1} {b}2 0 5000 COPY
    p0: GET {b}2
    p0: MIGRATE 127.0.0.1 {port p1} {b}2 0 5000 COPY
    p0: MIGRATE 127.0.0.1 {port p1} {b}2 0 5000 REPLACE
    p0: GET {b}2
    p0: MIGRATE 127.0.0.1 {port p1} {b}2 0 5000
    p1: ASKING
    p1: MGET b {b}2
    p1: CLUSTER COUNTKEYSINSLOT 3300
    p0: CLUSTER COUNTKEYSINSLOT 3300
    p1: ASKING
    p1: RESTORE {b}r 0 x
    p1: RESTORE {b}r 0 x
    p1: RESTORE-ASKING {b}r 0 x

    # the end: SETSLOT NODE at the target, then at the source, and all learn of it
    p1: CLUSTER SETSLOT 3300 NODE {p1}
    p0: CLUSTER SETSLOT 3300 NODE {p1}
    ! AGREE
    p0: GET b
    p1: GET b
    p2: GET b
    r1: GET b
    p0: CLUSTER SLOTS
    p2: CLUSTER SLOTS
    ~ p1: CLUSTER NODES
    p0: CLUSTER COUNTKEYSINSLOT 3300

    # and back, by one command less
    p1: SET b 1
    p0: CLUSTER SETSLOT 3300 IMPORTING {p1}
    p1: CLUSTER SETSLOT 3300 MIGRATING {p0}
    p1: CLUSTER SETSLOT 3300 NODE {p0}
    p1: MIGRATE 127.0.0.1 {port p0} b 0 5000
    p1: CLUSTER SETSLOT 3300 NODE {p0}
    p0: CLUSTER SETSLOT 3300 NODE {p0}
    ! AGREE
    p0: GET b
    p1: GET b
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS

    # given up
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    p0: GET {b}9
    p0: CLUSTER SETSLOT 3300 STABLE
    p0: GET {b}9
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    p0: CLUSTER SETSLOT 3300 NODE {p0}
    ~ p0: CLUSTER NODES
    p0: GET {b}9
"##;

#[cfg(feature = "lua")]
#[test]
fn scripts_at_a_slot_that_moves_are_redirected_like_other_calls() {
    tell("asked-scripts", ASKED_SCRIPTS);
}

#[cfg(feature = "lua")]
const ASKED_SCRIPTS: &str = r##"
    p0: MSET b 1 {b}1 2
    p1: CLUSTER SETSLOT 3300 IMPORTING {p0}
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    p0: EVAL "return redis.call('GET', KEYS[1])" 1 b
    p0: EVAL "return redis.call('GET', KEYS[1])" 1 {b}9
    p0: EVAL "return redis.call('MGET', KEYS[1], KEYS[2])" 2 b {b}1
    p0: EVAL "return redis.call('MGET', KEYS[1], KEYS[2])" 2 b {b}9
    p0: EVAL "return redis.pcall('GET', '{b}9')" 0
    p0: EVAL "return redis.pcall('GET', '{b}9')" 1 b
    p0: EVAL "return redis.pcall('SET', '{b}9', 1)" 1 b
    p0: EVAL "return redis.pcall('MGET', 'b', '{b}8')" 1 b
    p1: EVAL "return redis.call('GET', KEYS[1])" 1 b
    p1: ASKING
    p1: EVAL "return redis.call('SET', KEYS[1], 1)" 1 {b}9
    p1: ASKING
    p1: EVAL "return redis.pcall('GET', KEYS[1])" 1 {b}9
    p1: ASKING
    p1: EVAL "return redis.pcall('GET', '{b}9')" 0
    p1: ASKING
    p1: EVAL "return redis.pcall('GET', '{b}9')" 1 {b}9
    p1: EVAL "return redis.pcall('GET', '{b}9')" 0
    p1: ASKING
    p1: EVAL "return redis.pcall('MGET', 'b', '{b}9')" 1 {b}9
    p1: ASKING
    p1: EVAL "return redis.call('MGET', KEYS[1], KEYS[2])" 2 b {b}9
    p1: EVAL "redis.call('ASKING') return redis.pcall('GET', '{b}9')" 0
    r0: READONLY
    ! CAUGHT-UP
    r0: GET b
    r0: GET {b}9
"##;

#[test]
fn clients_of_a_slot_that_moves_away_are_told() {
    tell("moved-away", MOVED_AWAY);
}

const MOVED_AWAY: &str = r##"
    # blocked clients; those of other slots go on waiting
    p0.x> BLPOP b 0
    p0.y> BLPOP f 0
    p0.z> XREAD BLOCK 0 STREAMS b 0
    p1: CLUSTER SETSLOT 3300 IMPORTING {p0}
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    p1: CLUSTER SETSLOT 3300 NODE {p1}
    p0: CLUSTER SETSLOT 3300 NODE {p1}
    p0.x<
    p0.z<
    p0.x: PING
    p0: RPUSH f 1
    p0.y<
    ! AGREE

    # channels of a shard are left
    p1.s: SSUBSCRIBE b
    p1.s: SSUBSCRIBE c
    p1.s: SUBSCRIBE b
    p1.t: HELLO 3
    p1.t: SSUBSCRIBE b
    r1.s: SSUBSCRIBE b
    p0: CLUSTER SETSLOT 3300 IMPORTING {p1}
    p1: CLUSTER SETSLOT 3300 MIGRATING {p0}
    p1: SPUBLISH b 1
    p1.s<
    p1.t<
    r1.s<
    p0: CLUSTER SETSLOT 3300 NODE {p0}
    p1: CLUSTER SETSLOT 3300 NODE {p0}
    p1.s<
    p1.t<
    r1.s<
    ! AGREE
    p1: SPUBLISH b 2
    p0: SPUBLISH b 3
    p1: SPUBLISH c 1
    p1.s<
    p0: PUBLISH b 1
    p1.s<
    p1.s: PING

    # a call that is queued, and a key that is watched
    p0: SET b 1
    p0.m: MULTI
    p0.m: GET b
    p0.w: WATCH b
    p0.w: MULTI
    p0.w: PING
    p0: MIGRATE 127.0.0.1 {port p1} b 0 5000
    p0: SET b 1
    p1: CLUSTER SETSLOT 3300 IMPORTING {p0}
    p0: CLUSTER SETSLOT 3300 MIGRATING {p1}
    p0: MIGRATE 127.0.0.1 {port p1} b 0 5000
    p1: CLUSTER SETSLOT 3300 NODE {p1}
    p0: CLUSTER SETSLOT 3300 NODE {p1}
    p0.m: EXEC
    p0.w: EXEC
    ! AGREE

    # keys that were left behind are deleted when the slot goes
    p1: SET b 1
    p1: SET {b}1 1
    p0: CLUSTER SETSLOT 3300 IMPORTING {p1}
    p1: CLUSTER SETSLOT 3300 NODE {p0}
    p1: CLUSTER SETSLOT 3300 MIGRATING {p0}
    p1: CLUSTER SETSLOT 3300 NODE {p0}
    p0: CLUSTER SETSLOT 3300 NODE {p0}
    ! AGREE
    p1: GET b
    p0: GET b
    p1: DBSIZE
    p1: CLUSTER COUNTKEYSINSLOT 3300
    p0: CLUSTER COUNTKEYSINSLOT 3300
"##;

#[test]
fn slots_that_nobody_serves_are_down() {
    tell("unserved", UNSERVED);
}

const UNSERVED: &str = r##"
    p0: SET b 1
    p1: SET c 1
    ! CAUGHT-UP
    p0.x> BLPOP {b}l 0
    p0: CLUSTER DELSLOTS 3300
    p0.x<
    p0: GET b
    p0: CLUSTER INFO
    p0: GET f
    p0: GET c
    p0: SET b 1
    p0: PING
    p0: KEYS *
    p0: MGET b f
    p0: MULTI
    p0: GET b
    p0: EXEC
    p0: MULTI
    p0: PING
    p0: EXEC
    p0: PUBLISH b 1
    p0: SPUBLISH b 1
    p0: SSUBSCRIBE b
    p0.s: SUBSCRIBE b
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS
    p1: GET c
    p1: GET b

    # reads are allowed where the settings say so
    p0: CONFIG SET cluster-allow-reads-when-down yes
    p0: GET f
    p0: GET b
    p0: SET f 1
    p0: MGET f b
    p0: GET c
    p0: MULTI
    p0: GET f
    p0: EXEC
    p0: CONFIG SET cluster-allow-reads-when-down no
    p0: GET f

    # or the other slots are served
    p0: CONFIG SET cluster-require-full-coverage no
    ? p0 cluster_state:ok
    p0: CLUSTER INFO
    p0: GET f
    p0: GET b
    p0: SET b 1
    p0: MGET b b
    p0: GET c
    p0: SPUBLISH b 1
    p0: BLPOP {b}l 0
    p0.x> BLPOP {f}l 0
    p0: CLUSTER DELSLOTS 3168
    p0.x<
    p0: CLUSTER ADDSLOTS 3168
    p0: GET f
    p0: CONFIG SET cluster-require-full-coverage yes
    p0: CLUSTER DELSLOTS 3301
    p0: GET f
    p0: CLUSTER ADDSLOTS 3301

    # channels may go on
    p0: CONFIG SET cluster-allow-pubsubshard-when-down no
    p0: SPUBLISH f 1
    p0: PUBLISH f 1
    p0: CONFIG SET cluster-allow-pubsubshard-when-down yes
    p0: SPUBLISH f 1
    p0: SPUBLISH b 1

    # it comes back
    p0: CLUSTER ADDSLOTS 3300
    ? p0 cluster_state:ok
    ! AGREE
    p0: GET b
    p0: GET c
    p1: GET b
"##;

#[cfg(feature = "lua")]
#[test]
fn scripts_are_refused_while_slots_are_down() {
    tell("unserved-scripts", UNSERVED_SCRIPTS);
}

#[cfg(feature = "lua")]
const UNSERVED_SCRIPTS: &str = r##"
    p0: CLUSTER DELSLOTS 3300
    p0: EVAL "return 1" 0
    p0: EVAL "return 1" 1 f
    p0: EVAL "return redis.pcall('GET', 'f')" 0
    p0: EVAL "return redis.pcall('PING')" 0
    p0: EVAL "#!lua\nreturn 1" 0
    p0: EVAL "#!lua flags=no-writes\nreturn redis.pcall('GET', 'f')" 0
    p0: CONFIG SET cluster-allow-reads-when-down yes
    p0: EVAL "return redis.pcall('GET', 'f')" 0
    p0: EVAL "return redis.pcall('SET', 'f', 1)" 0
    p0: EVAL "return redis.pcall('GET', 'f')" 1 f
    p0: EVAL "#!lua\nreturn redis.pcall('GET', 'f')" 1 f
    p0: EVAL "#!lua flags=no-writes\nreturn redis.pcall('GET', 'f')" 1 f
    p0: EVAL_RO "return redis.pcall('GET', 'f')" 1 f
    p0: CONFIG SET cluster-allow-reads-when-down no
    p0: CLUSTER ADDSLOTS 3300
"##;
