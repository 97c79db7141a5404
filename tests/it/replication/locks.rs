//! Locks on a primary, and what a replica that takes its place knows of them.

use keylatch::Clock;

use super::nodes::{Kind, Node};
use crate::harness::{TestServer, wait_until};

#[test]
fn a_lock_is_held_at_a_replica_that_is_promoted_until_its_own_deadline() {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[]);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.wait_for(&primary);
        let mut holder = primary.client();
        assert!(holder.int("LOCK.ACQUIRE held mine PX 60000") > 0);
        assert!(holder.int("LOCK.ACQUIRE released mine PX 60000") > 0);
        holder.expect(&[("LOCK.RELEASE released mine", ":1"), ("WAIT 1 0", ":1")]);
        let mut other = replica.client();
        other.expect(&[("REPLICAOF NO ONE", "+OK"), ("GET held", "$4 mine"), ("SET held other NX PX 1000", "$-1")]);
        // The deadline is logged in whole milliseconds, rounded up.
        let left_ms = other.int("PTTL held");
        assert!((1..=60_001).contains(&left_ms), "{left_ms}");
        other.expect(&[("SET released other NX PX 1000", "+OK")]);
        if kind == Kind::Keylatch {
            other.expect(&[("LOCK.ACQUIRE held other PX 1000", "$-1"), ("LOCK.RELEASE held mine", ":1")]);
        }
    }
}

#[test]
fn fences_increase_over_a_failover_to_a_server_whose_clock_is_behind() {
    let ahead = TestServer::start_on(Clock::manual(), &[("repl-diskless-sync-delay", "0")]);
    ahead.server().set_wall_ms(Clock::system().now().wall_ms() + 1_000_000_000);
    let mut client = ahead.client();
    let first = client.int("LOCK.ACQUIRE before mine PX 60000");
    // By all data, and by what follows it.
    let [early, late] = [(); 2].map(|()| Node::keylatch(&[]));
    let mut fences = Vec::new();
    for replica in [&early, &late] {
        let mut there = replica.client();
        there.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", ahead.addr().port()), "+OK")]);
        wait_until(|| there.info("master_link_status") == "up");
        if fences.is_empty() {
            there.expect(&[("REPLICAOF NO ONE", "+OK")]);
            fences.push((first, there.int("LOCK.ACQUIRE after mine PX 60000")));
        }
    }
    ahead.server().set_wall_ms(Clock::system().now().wall_ms() + 2_000_000_000);
    let given = client.int("LOCK.ACQUIRE between mine PX 60000");
    let mut there = late.client();
    wait_until(|| there.call("EXISTS between") == ":1");
    there.expect(&[("REPLICAOF NO ONE", "+OK")]);
    fences.push((given, there.int("LOCK.ACQUIRE after mine PX 60000")));
    for (before, after) in fences {
        assert!(after > before, "{after} after {before}");
    }
}

#[test]
fn who_waits_for_a_lock_is_told_when_the_primary_becomes_a_replica() {
    let primary = Node::keylatch(&[]);
    assert!(primary.client().int("LOCK.ACQUIRE k mine PX 60000") > 0);
    let mut waiter = primary.client();
    waiter.send(b"LOCK.ACQUIRE k other PX 1000 BLOCK 0\r\n");
    wait_until(|| primary.info("blocked_clients") == "1");
    primary.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    assert!(waiter.reply().starts_with("-UNBLOCKED "));
    assert_eq!(waiter.read_raw(), None);
}

#[test]
fn a_session_that_ends_on_a_former_primary_releases_nothing() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    let mut holder = primary.client();
    assert!(holder.int("LOCK.ACQUIRE k mine PX 60000 SESSION") > 0);
    replica.wait_for(&primary);
    replica.client().expect(&[("REPLICAOF NO ONE", "+OK")]);
    primary.follow(&replica);
    primary.wait_for(&replica);
    let id = holder.int("CLIENT ID");
    drop(holder);
    wait_until(|| primary.client().call(&format!("CLIENT LIST ID {id}")).trim() == "$0");
    replica.client().expect(&[("SET k other NX", "$-1"), ("SET marker v", "+OK")]);
    wait_until(|| primary.client().call("GET marker") == "$1 v");
    assert_eq!(primary.client().call("GET k"), "$4 mine");
}

#[test]
fn a_lock_that_only_the_primary_has_is_given_twice_and_wait_tells_its_holder() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let (mut one, mut other) = (primary.client(), replica.client());
    // The network between the two has failed.
    other.expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    wait_until(|| primary.info("connected_slaves") == "0");
    one.expect(&[("SET lock one NX PX 60000", "+OK"), ("WAIT 1 50", ":0")]);
    other.expect(&[("REPLICAOF NO ONE", "+OK"), ("SET lock other NX PX 60000", "+OK")]);
    one.expect(&[("GET lock", "$3 one")]);
}
