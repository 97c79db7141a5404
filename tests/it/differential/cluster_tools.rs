//! `redis-cli --cluster` on nodes that know nothing of each other, beside the same nodes of Redis.

use super::topologies::tell_tools as tell;

#[test]
fn redis_cli_makes_a_cluster_and_adds_and_removes_nodes() {
    tell("made", MADE);
}

const MADE: &str = r##"
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n2} << no
    $ redis-cli --cluster create {addr n0} {addr n1} --cluster-yes
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n2} << yes
    ? n0 cluster_state:ok
    ! AGREE
    $ redis-cli --cluster add-node {addr n3} {addr n1} --cluster-slave --cluster-master-id {n0}
    ! AGREE
    $ redis-cli --cluster add-node {addr n4} {addr n0} --cluster-slave --cluster-master-id {n1}
    ! AGREE
    ? n3 master_link_status:up
    ? n4 master_link_status:up
    $ redis-cli --cluster check {addr n0}
    n0: MSET b 1 {b}1 2 {b}2 3
    n1: SET c 1
    $ redis-cli --cluster info {addr n4}
    $ redis-cli --cluster call {addr n0} get b
    $ redis-cli --cluster call {addr n0} --cluster-only-masters dbsize
    $ redis-cli --cluster call {addr n0} nosuch
    $ redis-cli --cluster check {addr x}
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n6} --cluster-yes

    $ redis-cli --cluster add-node {addr n6} {addr n0}
    ! AGREE
    $ redis-cli --cluster add-node {addr n6} {addr n0}
    $ redis-cli --cluster add-node {addr x} {addr n0}
    $ redis-cli --cluster check {addr n6}
    $ redis-cli --cluster del-node {addr n0} {n1}
    $ redis-cli --cluster del-node {addr n0} 0123
    $ redis-cli --cluster del-node {addr n0} {n6}
    ! AGREE
    ~ n6: CLUSTER NODES
    ~ n0: CLUSTER NODES
    # the others have forgotten n6 for a minute
    $ redis-cli --cluster add-node {addr n7} {addr n1} --cluster-slave --cluster-master-id 0123
    n7: FUNCTION LOAD "#!lua name=f\nredis.register_function('f', function() return 1 end)"
    $ redis-cli --cluster add-node {addr n7} {addr n1}
    n7: FUNCTION FLUSH
    $ redis-cli --cluster add-node {addr n7} {addr n1} --cluster-slave --cluster-master-id {n1}
    ! AGREE
    ? n7 master_link_status:up
    n7: READONLY
    n7: GET c
    $ redis-cli --cluster check {addr n0} --cluster-search-multiple-owners
    $ redis-cli --cluster set-timeout {addr n0} 20000
    $ redis-cli --cluster set-timeout {addr n0} 99
    n3: CONFIG GET cluster-node-timeout
    $ redis-cli --cluster backup {addr n0} {dir}
    $ redis-cli -p {port n0} -c mget b {b}2
    $ redis-cli -p {port n0} -c get c
    $ redis-cli -p {port n0} get c
"##;

#[test]
fn redis_cli_moves_slots_with_their_keys() {
    tell("moved", MOVED);
}

/// `06S` is in slot 0, which is the first to move.
const MOVED: &str = r##"
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n2} --cluster-yes
    ? n0 cluster_state:ok
    ! AGREE
    n0: MSET 06S 1 {06S}1 2 {06S}2 3 {06S}3 4 {06S}4 5
    n0: EXPIRE {06S}4 1000
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n0} --cluster-to {n1} --cluster-slots 20 << no
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n0} --cluster-to {n1} --cluster-slots 20 --cluster-yes --cluster-pipeline 2 --cluster-timeout 5000
    ! AGREE
    $ redis-cli --cluster check {addr n2}
    n1: CLUSTER COUNTKEYSINSLOT 0
    n1: MGET 06S {06S}4
    n1: TTL {06S}4
    n0: GET 06S
    ~ n0: CLUSTER NODES
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n0} --cluster-to 0123 --cluster-slots 10 --cluster-yes
    $ redis-cli --cluster reshard {addr n0} --cluster-from 0123 --cluster-to {n1} --cluster-slots 10 --cluster-yes
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n1} --cluster-to {n1} --cluster-slots 10 --cluster-yes
    n0: CLUSTER SETSLOT 3300 MIGRATING {n1}
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n0} --cluster-to {n1} --cluster-slots 20 --cluster-yes
    $ redis-cli --cluster rebalance {addr n0}
    n0: CLUSTER SETSLOT 3300 STABLE
    $ redis-cli --cluster rebalance {addr n0}
    $ redis-cli --cluster rebalance {addr n0} --cluster-threshold 0.1
    ! AGREE
    $ redis-cli --cluster info {addr n0}
    n0: MGET 06S {06S}4

    # a key that is at both nodes: that of the former owner is gone as soon as it hears of the new one, which takes time in Redis
    n1: CLUSTER SETSLOT 0 IMPORTING {n0}
    n1: ASKING
    n1: SET 06S other
    n1: CLUSTER SETSLOT 0 STABLE
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n0} --cluster-to {n1} --cluster-slots 1 --cluster-yes
    $ redis-cli --cluster check {addr n0}
    != $ redis-cli --cluster fix {addr n0} --cluster-replace
    ! AGREE
    $ redis-cli --cluster check {addr n0}
    n0: GET 06S
    != n1: GET 06S

    $ redis-cli --cluster add-node {addr n3} {addr n0}
    ! AGREE
    $ redis-cli --cluster rebalance {addr n0} --cluster-weight {n2}=2 --cluster-simulate
    $ redis-cli --cluster rebalance {addr n0} --cluster-weight {n1}=0.5 {n2}=2 {n3}=0.5 --cluster-use-empty-masters --cluster-simulate
    $ redis-cli --cluster rebalance {addr n0} --cluster-weight 0123=1
    $ redis-cli --cluster reshard {addr n0} --cluster-from {n1},{n2} --cluster-to {n3} --cluster-slots 40 --cluster-yes
    ! AGREE
    $ redis-cli --cluster check {addr n3}
"##;

#[test]
fn redis_cli_mends_slots_that_are_open_or_that_nobody_has() {
    tell("mended", MENDED);
}

const MENDED: &str = r##"
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n2} --cluster-yes
    ? n0 cluster_state:ok
    ! AGREE
    n0: MSET b 1 {b}1 2 {b}2 3

    # as redis-cli tells them: in a transaction
    n0: MULTI
    n0: CLUSTER DELSLOTS 5
    n0: CLUSTER DELSLOTS 5
    n0: CLUSTER ADDSLOTS 5
    n0: CLUSTER MYID
    n0: CLUSTER BUMPEPOCH
    n0: CLUSTER SETSLOT 5 STABLE
    n0: SET b 1
    n0: EXEC
    ? n0 cluster_state:ok
    ! AGREE

    # only the one side is told, or only the other
    n0: CLUSTER SETSLOT 3300 MIGRATING {n1}
    $ redis-cli --cluster check {addr n0}
    $ redis-cli --cluster fix {addr n0}
    n1: CLUSTER SETSLOT 3300 IMPORTING {n0}
    $ redis-cli --cluster fix {addr n0}
    $ redis-cli --cluster check {addr n0}

    # a move that has stopped in the middle
    n0: CLUSTER SETSLOT 3300 MIGRATING {n1}
    n1: CLUSTER SETSLOT 3300 IMPORTING {n0}
    n0: MIGRATE 127.0.0.1 {port n1} b 0 1000
    $ redis-cli --cluster fix {addr n0}
    ! AGREE
    $ redis-cli --cluster check {addr n0}
    n0: GET b
    n1: GET b
    ~ n0: CLUSTER NODES

    # a slot that nobody has, without keys
    n2: CLUSTER DELSLOTS 15495
    n0: CLUSTER DELSLOTS 15495
    n1: CLUSTER DELSLOTS 15495
    ! AGREE
    $ redis-cli --cluster check {addr n0}
    $ redis-cli --cluster fix {addr n0} << no
    $ redis-cli --cluster check {addr n0}
"##;

#[test]
fn redis_cli_brings_the_keys_of_a_server_into_a_cluster() {
    tell("imported", IMPORTED);
}

const IMPORTED: &str = r##"
    $ redis-cli --cluster create {addr n0} {addr n1} {addr n2} --cluster-yes
    ? n0 cluster_state:ok
    ! AGREE
    x: SET b 1
    n0: SET b before
    $ redis-cli --cluster import {addr n0} --cluster-from {addr x} --cluster-copy
    n0: GET b
    x: MSET c 2 a 3
    x: RPUSH {b}l 1 2 3
    x: SET {c}t v EX 1000
    $ redis-cli --cluster import {addr n0} --cluster-from {addr x} --cluster-copy --cluster-replace
    n0: GET b
    n1: GET c
    n1: TTL {c}t
    n2: GET a
    n0: LRANGE {b}l 0 -1
    x: DBSIZE
    $ redis-cli --cluster import {addr n0} --cluster-from {addr x} --cluster-replace
    x: DBSIZE
    $ redis-cli --cluster info {addr n0}
    $ redis-cli --cluster import {addr n0} --cluster-from {addr n1}
"##;
