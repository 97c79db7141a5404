//! A server in test mode works in the same way while it has a replica.

use keylatch::Clock;

use super::parties::{Primary, RawReplica};
use crate::harness::wait_until;

fn start() -> Primary {
    Primary::start_on(Clock::system(), &[("test-mode", "yes"), ("repl-ping-replica-period", "1")])
}

#[test]
fn the_last_writes_are_lost_though_messages_and_pings_lie_between_them() {
    let primary = start();
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.call("SET k 1");
    for n in 2..=5 {
        client.call("PUBLISH news m");
        client.call(&format!("SET k {n}"));
        client.call("SET elsewhere v");
        client.call("WAIT 1 1");
        while raw.command() != "ping" {}
    }
    let reply = client.call("TEST.FAILOVER LOSE 1000000000");
    assert_eq!(reply, "-ERR only 9 writes are remembered");
    client.send(b"TEST.FAILOVER LOSE 3\r\n");
    client.read_to_end();
    let mut client = primary.client();
    client.expect(&[("GET k", "$1 4"), ("GET elsewhere", "$1 v")]);
    client.send(b"TEST.FAILOVER LOSE 4\r\n");
    client.read_to_end();
    primary.client().expect(&[("GET k", "$1 2")]);
}

#[test]
fn a_replica_has_what_a_snapshot_restores_and_what_a_failover_leaves() {
    let primary = start();
    let Some(replica) = primary.synchronized_replica() else { return };
    let mut client = primary.client();
    client.expect(&[("SET k 1", "+OK"), ("RPUSH l a b", ":2"), ("SELECT 4", "+OK"), ("SET far v", "+OK")]);
    client.expect(&[("SELECT 0", "+OK"), ("TEST.SNAPSHOT before", "+OK"), ("SET k 2", "+OK"), ("DEL l", ":1")]);
    client.call("PUBLISH news m");
    primary.assert_same(&replica);
    client.expect(&[("TEST.RESTORE before", "+OK"), ("GET k", "$1 1"), ("LLEN l", ":2")]);
    primary.assert_same(&replica);
    client.expect(&[("SET k 3", "+OK"), ("SET k 4", "+OK")]);
    client.send(b"TEST.FAILOVER LOSE 1\r\n");
    client.read_to_end();
    let mut client = primary.client();
    client.expect(&[("GET k", "$1 3")]);
    primary.assert_same(&replica);
}

#[test]
fn times_are_dates_while_replicas_may_come_back() {
    let primary = start();
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    wait_until(|| primary.info("connected_slaves") == "0");
    primary.client().call("SET k v PX 100000");
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    let change = std::iter::from_fn(|| Some(again.change())).find(|change| change.starts_with("set k v"));
    assert!(change.as_ref().is_some_and(|change| change.starts_with("set k v pxat ")), "{change:?}");
}
