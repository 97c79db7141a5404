//! Nodes that fail, and replicas that take their places, beside a real cluster.

use super::topologies::tell;

#[test]
fn a_replica_takes_over_by_hand_and_clients_learn_of_it_as_in_redis() {
    tell("by-hand", BY_HAND);
}

const BY_HAND: &str = r##"
    p0: MSET b 1 {b}1 2
    ! CAUGHT-UP
    p0.x> BLPOP {b}list 0
    p0.y> XREAD BLOCK 0 STREAMS {b}stream $
    r0.z: READONLY
    r0.z> XREAD BLOCK 0 STREAMS {b}stream $
    p0.s: SUBSCRIBE news
    p0.t: SSUBSCRIBE b
    r0.t: SSUBSCRIBE b
    p0.w: WATCH b
    p0.w: MULTI
    p0.w: PING
    p0.q: MULTI
    p0.q: SET b 2
    p0.i: PING
    r0.i: READONLY
    ! FAILOVER r0
    p0.x<
    p0.x<
    p0.y<
    p0.y<
    p0.i: GET b
    p0.i: READONLY
    p0.i: GET b
    p0.i: SET b 3
    r0.i: GET b
    r0.i: SET b 3
    r0: SET b 4
    p0.w: EXEC
    p0.q: EXEC
    r0: XADD {b}stream 1-1 f v
    r0.z<
    p1: PUBLISH news 1
    p0.s<
    # a demoted node of Redis ends the subscriptions of its shard; one of keylatch goes on with them as a replica
    r0: SPUBLISH b 1
    != p0.t<
    r0.t<
    p0.s: PING
    ~ p0: CLUSTER NODES
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    ~ r2: CLUSTER SHARDS
    p0: CLUSTER INFO
    r0: CLUSTER INFO
    p0: ROLE
    r0: ROLE
    p0: INFO replication
    r0: INFO replication
    p1: GET b
    ! CAUGHT-UP
    p0.i: GET b

    # and back
    ! FAILOVER p0
    p0: SET b 5
    r0: GET b
    p1: GET b
    p1: CLUSTER SLOTS
    ~ p1: CLUSTER NODES
    p0: ROLE

    # by takeover, which asks nobody
    r0: CLUSTER FAILOVER TAKEOVER
    ! AGREE
    ! CAUGHT-UP
    p0: GET b
    r0: GET b
    p2: CLUSTER SLOTS
    ~ p2: CLUSTER NODES
    r0: CLUSTER INFO
"##;

#[test]
fn the_replica_of_a_primary_that_is_gone_takes_its_place_and_it_comes_back_as_replica() {
    tell("gone", GONE);
}

const GONE: &str = r##"
    p0: MSET b 1 {b}1 2
    ! CAUGHT-UP
    p1.i: PING
    r0.i: READONLY
    r0.s: SSUBSCRIBE b
    p1.s: SUBSCRIBE news
    ! STOP p0
    r0.i: GET b
    r0.i: SET b 2
    p1.i: GET b
    ~ p1: CLUSTER NODES
    ~ r0: CLUSTER NODES
    p1: CLUSTER SLOTS
    r2: CLUSTER SLOTS
    ~ p1: CLUSTER SHARDS
    p1: CLUSTER INFO
    r0: CLUSTER INFO
    p1: CLUSTER REPLICAS {r0}
    p1: CLUSTER REPLICAS {p0}
    r0: ROLE
    r0: INFO replication
    r0.w> WAIT 1 200
    ! PASS 200
    r0.w<
    r0: SPUBLISH b 1
    r0.s<
    r0: PUBLISH news 1
    p1.s<
    r0: CLUSTER FAILOVER
    p1: CLUSTER FORGET x
    ! START p0
    p0: GET b
    p0: READONLY
    p0: GET b
    p0: MGET b {b}1
    p0: ROLE
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    ~ p1: CLUSTER SHARDS
    r0: WAIT 1 0
    ! FAILOVER p0
    p0: GET b
    p1: CLUSTER SLOTS
    p0: CLUSTER INFO
"##;

#[test]
fn without_a_replica_the_slots_of_a_node_that_is_gone_are_down() {
    tell("down", DOWN);
}

const DOWN: &str = r##"
    p0: SET b 1
    p1: SET c 1
    p0.x> BLPOP {b}list 0
    ! STOP r1
    p0: GET b
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS
    ~ p0: CLUSTER SHARDS
    p1: ROLE
    p1.w> WAIT 1 200
    ! PASS 200
    p1.w<
    p0: CLUSTER INFO
    ! STOP p1
    p0.x<
    p0: GET b
    p0: GET c
    p0: SET b 1
    p0: EVAL_RO "return 1" 0
    p0: PING
    p0: PUBLISH b 1
    p0: SPUBLISH b 1
    p0: SPUBLISH c 1
    p0.s: SSUBSCRIBE b
    p0: MULTI
    p0: SET b 1
    p0: EXEC
    r0: READONLY
    r0: GET b
    p0: CLUSTER INFO
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS
    ~ p0: CLUSTER SHARDS
    p0: CONFIG SET cluster-allow-reads-when-down yes
    p0: GET b
    p0: GET c
    p0: SET b 1
    p0: CONFIG SET cluster-allow-reads-when-down no
    p0: GET b
    p0: CONFIG SET cluster-require-full-coverage no
    ? p0 cluster_state:ok
    p0: GET b
    p0: SET b 2
    p0: GET c
    p0: SPUBLISH c 1
    p0: CLUSTER INFO
    p2: GET a
    ! START p1
    ? p2 cluster_state:ok
    p0: GET b
    p0: GET c
    p1: GET c
    p0: CLUSTER SLOTS
    ! START r1
    p1: SET c 2
    ! CAUGHT-UP
    p0: CLUSTER SLOTS
    r1: READONLY
    r1: GET c
    ~ p0: CLUSTER NODES
    p0: CLUSTER INFO
"##;

#[test]
fn a_primary_that_reaches_no_majority_serves_nothing() {
    tell("minority", MINORITY);
}

const MINORITY: &str = r##"
    p0: SET b 1
    ! CAUGHT-UP
    ! STOP p1 p2 r1 r2
    p0: GET b
    p0: SET b 2
    p0: GET c
    p0: GET a
    p0: CLUSTER INFO
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS
    ~ p0: CLUSTER SHARDS
    r0: READONLY
    r0: GET b
    r0: CLUSTER INFO
    p0: CONFIG SET cluster-allow-reads-when-down yes
    p0: GET b
    p0: SET b 2
    p0: GET c
    r0: CONFIG SET cluster-allow-reads-when-down yes
    r0: GET b
    p0: CONFIG SET cluster-require-full-coverage no
    p0: GET b
    p0: SET b 2
    p0: CONFIG SET cluster-allow-reads-when-down no
    p0: GET b
    r0: CONFIG SET cluster-allow-reads-when-down no
    r0: CLUSTER FAILOVER
    ! AGREE
    r0: SET b 3
"##;

#[test]
fn a_primary_that_stands_still_is_replaced_and_obeys_when_it_goes_on() {
    tell("still", STILL);
}

const STILL: &str = r##"
    p0: SET b 1
    p0.x> BLPOP {b}list 0
    ! CAUGHT-UP
    ! PAUSE p0
    r0: GET b
    r0: SET b 2
    p1: GET b
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    ! RESUME p0
    p0: GET b
    p0: READONLY
    p0: GET b
    p0: SET b 3
    p0.x<
    p0.x<
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    p0: ROLE

    # a replica
    ! PAUSE p0
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    ~ p1: CLUSTER SHARDS
    r0: SET b 4
    ! RESUME p0
    p0: READONLY
    p0: GET b
    p1: CLUSTER SLOTS
"##;
