//! Nodes that do not reach each other, beside a real cluster.

use super::topologies::tell;

#[test]
fn a_primary_that_is_cut_off_serves_until_its_timeout_and_loses_what_it_has_written() {
    tell("primary", PRIMARY);
}

const PRIMARY: &str = r##"
    p0: SET b before
    ! CAUGHT-UP
    p0.x> BLPOP {b}list 0
    p0.s: SUBSCRIBE news
    p1.s: SUBSCRIBE news
    r0: READONLY
    ! CUT p0

    # nobody has noticed yet
    p0: SET b minority
    p0: GET b
    p1: GET b
    r0: READONLY
    r0: GET b
    p0: SPUBLISH b 1
    p0: CLUSTER INFO
    p1: CLUSTER SLOTS

    # both sides have
    ! FIND-OUT p0
    p0: GET b
    p0: SET b lost
    p0: CLUSTER INFO
    ~ p0: CLUSTER NODES
    p0: CLUSTER SLOTS
    p0: CONFIG SET cluster-allow-reads-when-down yes
    p0: GET b
    p0: SET b lost
    p0: CONFIG SET cluster-allow-reads-when-down no
    p0: ROLE
    r0: GET b
    r0: SET b majority
    r0: ROLE
    p1: GET b
    p1: CLUSTER INFO
    ~ p1: CLUSTER NODES
    p1: CLUSTER SLOTS
    ~ r1: CLUSTER SHARDS

    # together again
    ! HEAL
    p0: GET b
    p0: READONLY
    p0: GET b
    p0: ROLE
    p1: GET b
    p1: CLUSTER SLOTS
    ~ p0: CLUSTER NODES
    p0: CLUSTER INFO
    r0: GET b
"##;

#[test]
fn clients_of_a_primary_that_is_cut_off_are_told_when_it_notices() {
    tell("clients", CLIENTS);
}

const CLIENTS: &str = r##"
    p0.x> BLPOP {b}list 0
    p0.s: SUBSCRIBE news
    p0.t: SSUBSCRIBE b
    p1.s: SUBSCRIBE news
    ! CUT p0
    p1: PUBLISH news 1
    p1.s<
    p0: PUBLISH news 2
    p0.s<
    ! FIND-OUT p0
    p0.x<
    p0: PUBLISH news 3
    p0.s<
    p1: PUBLISH news 4
    p1.s<
    ! HEAL
    p1: PUBLISH news 5
    p0.s<
    p1.s<
    p0: RPUSH {b}list 1
    r0: RPUSH {b}list 1
"##;

#[test]
fn a_replica_that_is_cut_off_serves_nothing_after_its_timeout() {
    tell("replica", REPLICA);
}

const REPLICA: &str = r##"
    p0: SET b 1
    ! CAUGHT-UP
    r0: READONLY
    ! CUT r0
    p0: SET b 2
    r0: GET b
    ! FIND-OUT r0
    r0: GET b
    r0: SET b 3
    p0: GET b
    p0: SET b 3
    p0: CLUSTER INFO
    r0: CLUSTER INFO
    ~ p0: CLUSTER NODES
    ~ r0: CLUSTER NODES
    p0: CLUSTER SLOTS
    ! HEAL
    r0: GET b
    ~ p1: CLUSTER NODES
    p0: CLUSTER SLOTS
"##;

#[test]
fn a_shard_that_is_cut_off_as_a_whole_keeps_its_writes() {
    tell("shard", SHARD);
}

const SHARD: &str = r##"
    p0: SET b 1
    p1: SET c 1
    ! CAUGHT-UP
    ! CUT p0 r0
    p0: SET b 2
    p1: SET c 2
    ! FIND-OUT p0 r0
    p0: GET b
    p1: GET c
    p1: GET b
    p0: CLUSTER INFO
    p1: CLUSTER INFO
    ~ p0: CLUSTER NODES
    ~ p1: CLUSTER NODES
    ! HEAL
    p0: GET b
    p1: GET c
    p1: GET b
    ~ p1: CLUSTER NODES
    p1: CLUSTER INFO
"##;
