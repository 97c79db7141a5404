//! Answers of a sentinel, and what it tells of a failover, beside real ones.

use super::topologies::tell_sentinels as tell;

#[test]
fn sentinels_describe_what_they_watch() {
    tell("described", DESCRIBED);
}

const DESCRIBED: &str = r##"
    s0: PING
    s0: PING x
    s0: ROLE
    s0: SENTINEL MYID
    s2: SENTINEL MYID
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s1: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME x
    s0: SENTINEL MASTERS
    s1: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    ~ s2: SENTINEL SLAVES mymaster
    ~ s0: SENTINEL SENTINELS mymaster
    ~ s1: SENTINEL SENTINELS mymaster
    s0: SENTINEL CKQUORUM mymaster
    s0: SENTINEL PENDING-SCRIPTS
    s0: INFO sentinel
    s2: INFO sentinel
    s0: INFO nosuch
    s0: SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 {port m} 0 *
    s0: SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *
    s0: SENTINEL SIMULATE-FAILURE HELP
    s0: SENTINEL FLUSHCONFIG
    s0: SENTINEL CONFIG GET *
    s0: SENTINEL CONFIG GET announce-*
    s0: SENTINEL CONFIG GET x
    r0: ROLE
    r1: ROLE
    m: SET k v
    ! CAUGHT-UP
    r1: GET k
    r1: SET k w
    m: WAIT 2 0
    ~ m: INFO replication
    r0: INFO replication

    # in RESP3
    s0: HELLO 3
    s0: SENTINEL MASTERS
    s0: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    ~ s0: SENTINEL SENTINELS mymaster
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME x
    s0: ROLE
    s0: INFO sentinel
    s0: SENTINEL CONFIG GET *
"##;

#[test]
fn sentinels_refuse_what_those_of_redis_refuse() {
    tell("refused", REFUSED);
}

const REFUSED: &str = r##"
    s0: SENTINEL
    s0: SENTINEL X
    s0: SENTINEL MASTERS x
    s0: SENTINEL MASTER
    s0: SENTINEL MASTER x
    s0: SENTINEL REPLICAS
    s0: SENTINEL REPLICAS x
    s0: SENTINEL SLAVES x
    s0: SENTINEL SENTINELS x
    s0: SENTINEL MYID x
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME
    s0: SENTINEL CKQUORUM
    s0: SENTINEL CKQUORUM x
    s0: SENTINEL FAILOVER
    s0: SENTINEL FAILOVER x
    s0: SENTINEL RESET
    s0: SENTINEL RESET x
    s0: SENTINEL MONITOR
    s0: SENTINEL MONITOR x 127.0.0.1 1
    s0: SENTINEL MONITOR x 127.0.0.1 1 0
    s0: SENTINEL MONITOR x 127.0.0.1 1 x
    s0: SENTINEL MONITOR x 127.0.0.1 x 1
    s0: SENTINEL MONITOR x nohost 1 1
    s0: SENTINEL MONITOR x 127.0.0.1 70000 1
    s0: SENTINEL MONITOR mymaster 127.0.0.1 1 1
    s0: SENTINEL REMOVE
    s0: SENTINEL REMOVE x
    s0: SENTINEL SET
    s0: SENTINEL SET x
    s0: SENTINEL SET x quorum 1
    s0: SENTINEL SET mymaster quorum
    s0: SENTINEL SET mymaster nosuch 1
    s0: SENTINEL SET mymaster quorum x
    s0: SENTINEL SET mymaster quorum 0
    s0: SENTINEL SET mymaster down-after-milliseconds 0
    s0: SENTINEL SET mymaster down-after-milliseconds x
    s0: SENTINEL SET mymaster failover-timeout 0
    s0: SENTINEL SET mymaster parallel-syncs -1
    s0: SENTINEL SET mymaster notification-script /bin/true
    s0: SENTINEL SET mymaster client-reconfig-script /bin/true
    s0: SENTINEL SET mymaster auth-pass
    s0: SENTINEL SET mymaster rename-command CONFIG
    s0: SENTINEL SET mymaster quorum 3 nosuch 1
    s0: SENTINEL SET mymaster quorum 2 down-after-milliseconds
    s0: SENTINEL MASTER mymaster
    s0: SENTINEL IS-MASTER-DOWN-BY-ADDR
    s0: SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 1 *
    s0: SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *
    s0: SENTINEL PENDING-SCRIPTS x
    s0: SENTINEL SIMULATE-FAILURE
    s0: SENTINEL SIMULATE-FAILURE x
    s0: SENTINEL FLUSHCONFIG x
    s0: SENTINEL CONFIG
    s0: SENTINEL CONFIG GET
    s0: SENTINEL CONFIG X
    s0: SENTINEL CONFIG X y
    s0: SENTINEL CONFIG SET x 1
    s0: SENTINEL CONFIG SET announce-port x
    s0: SENTINEL CONFIG SET resolve-hostnames x
    s0: SENTINEL DEBUG x 1
    s0: SENTINEL DEBUG info-period x
    s0: SENTINEL DEBUG info-period
    s0: SENTINEL INFO-CACHE
    s0: SENTINEL INFO-CACHE x

    # commands of servers
    s0: GET a
    s0: SET a 1
    s0: KEYS *
    s0: MULTI
    s0: EXEC
    s0: WATCH a
    s0: SELECT 0
    s0: CONFIG GET *
    s0: CLUSTER INFO
    s0: REPLICAOF a 1
    s0: WAIT 0 0
    s0: FLUSHALL
    s0: TIME
    s0: ECHO a
    s0: DEBUG SLEEP 0
    s0: EVAL "return 1" 0
    s0: MONITOR
    s0: SLOWLOG GET
    s0: LATENCY LATEST
    s0: PUBSUB CHANNELS
    s0: SSUBSCRIBE a
    s0: SPUBLISH a b
    s0: PUBLISH a b
    s0: PUBLISH __sentinel__:hello x
    s0: PUBLISH a
    s0: RESET
    s0: NOSUCH
    s0: GET
    s0: COMMAND INFO get
    s0: COMMAND GETKEYS GET a
    s0: AUTH x
    s0: AUTH a x
    s0: ACL WHOAMI
    s0: CLIENT GETNAME
    s0: CLIENT SETNAME x
    s0: CLIENT GETNAME
    s0: HELLO
    s0: HELLO 4
    s0: HELLO 3
    s0: HELLO 2
    s0: SUBSCRIBE a
    s0: PING
    s0: SENTINEL MYID
    s0: ROLE
    s0: PSUBSCRIBE *
    s0: UNSUBSCRIBE
    s0: PUNSUBSCRIBE
    s0: QUIT
"##;

#[test]
fn sentinels_take_settings_and_primaries() {
    tell("settings", SETTINGS);
}

const SETTINGS: &str = r##"
    s0.e: PSUBSCRIBE *
    s0: SENTINEL SET mymaster down-after-milliseconds 20000
    s0: SENTINEL SET mymaster failover-timeout 90000 parallel-syncs 2
    s0: SENTINEL SET mymaster quorum 3
    s0: SENTINEL MASTER mymaster
    s1: SENTINEL MASTER mymaster
    s0: SENTINEL SET mymaster auth-pass secret auth-user alice
    s0: SENTINEL SET mymaster auth-pass "" auth-user ""
    s0: SENTINEL SET mymaster rename-command CONFIG CONF
    s0: SENTINEL SET mymaster rename-command CONFIG CONFIG
    s0: SENTINEL CKQUORUM mymaster
    s0: SENTINEL SET mymaster quorum 4
    s0: SENTINEL CKQUORUM mymaster
    s0: SENTINEL SET mymaster quorum 2
    s0: SENTINEL CONFIG SET resolve-hostnames yes
    s0: SENTINEL CONFIG GET resolve-hostnames
    s0: SENTINEL CONFIG SET announce-ip 127.0.0.1
    s0: SENTINEL CONFIG GET announce-ip
    s0: SENTINEL CONFIG SET announce-ip ""
    s0: SENTINEL CONFIG SET resolve-hostnames no
    s0: SENTINEL MONITOR other 127.0.0.1 {port m} 1
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME other
    s0: SENTINEL REMOVE other
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME other
    s0: SENTINEL REMOVE other
    s1: SENTINEL REMOVE mymaster
    s1: SENTINEL MASTERS
    s1: INFO sentinel
    s1: ROLE
    s1: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s1: SENTINEL FAILOVER mymaster
    s0: PING
"##;

#[test]
fn a_failover_by_hand_is_told_of_as_in_redis() {
    tell("by-hand", BY_HAND);
}

const BY_HAND: &str = r##"
    m: SET k v
    ! CAUGHT-UP
    m.x> BLPOP list 0
    m.i: PING
    r0.i: PING
    r1.i: PING
    m.s: SUBSCRIBE news
    s0.e: PSUBSCRIBE *
    s1.e: PSUBSCRIBE *
    s2.e: SUBSCRIBE +switch-master
    ! FAILOVER r0
    s0.e<<
    s1.e<<
    s2.e<<
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s1: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s0: SENTINEL MASTER mymaster
    s1: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    ~ s1: SENTINEL SENTINELS mymaster
    s0: INFO sentinel
    m.i: PING
    r0.i: PING
    r1.i: PING
    # Redis ends the connection before it has sent why
    != m.x<
    ~ r0.y: INFO replication
    m.y: ROLE
    r0.y: SET k w
    ! CAUGHT-UP
    m.y: GET k
    m.y: SET k x
    r1.y: GET k
    m.y: PUBLISH news 1
    m.s<
"##;

#[test]
fn a_primary_that_is_gone_is_replaced_and_comes_back_as_replica() {
    tell("gone", GONE);
}

const GONE: &str = r##"
    m: SET k v
    ! CAUGHT-UP
    s0.e: PSUBSCRIBE *
    s1.e: PSUBSCRIBE *
    s2.e: SUBSCRIBE +switch-master
    ! STOP m
    s0.e<<
    s1.e<<
    s2.e<<
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s1: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    s0: SENTINEL CKQUORUM mymaster
    s0: INFO sentinel
    r0: ROLE
    r0: SET k w
    ! CAUGHT-UP
    r1: GET k
    ! START m
    m: GET k
    m: ROLE
    m: SET k x
    ~ s0: SENTINEL REPLICAS mymaster
    s0: SENTINEL FAILOVER mymaster
    # that of Redis goes on for a while
    != s0: SENTINEL FAILOVER mymaster
"##;

#[test]
fn without_a_majority_nothing_is_replaced() {
    tell("minority", MINORITY);
}

const MINORITY: &str = r##"
    ! STOP s1 s2
    s0: SENTINEL CKQUORUM mymaster
    ~ s0: SENTINEL SENTINELS mymaster
    s0: INFO sentinel
    s0.e: PSUBSCRIBE *
    ! STOP m
    s0.e<<
    s0: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s0: INFO sentinel
    r0: SET k v
    s0: SENTINEL FAILOVER mymaster
"##;

#[test]
fn replicas_and_sentinels_that_are_gone_are_marked_and_forgotten() {
    tell("forgotten", FORGOTTEN);
}

const FORGOTTEN: &str = r##"
    s0.e: PSUBSCRIBE *
    ! STOP r1 s2
    ~ s0.e<<
    s0: SENTINEL MASTER mymaster
    ~ s0: SENTINEL REPLICAS mymaster
    ~ s0: SENTINEL SENTINELS mymaster
    s0: SENTINEL CKQUORUM mymaster
    s0: INFO sentinel
    s0: SENTINEL RESET my*
    s0: SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
    s1: SENTINEL CKQUORUM mymaster
    ! START r1
    s1: INFO sentinel
"##;
