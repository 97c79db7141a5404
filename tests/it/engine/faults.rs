//! Nodes that end and come back, processes whose lease ends, changes that were compacted.

use std::sync::Arc;
use std::thread;

use keylatch::Clock;

use crate::engine::Fleet;
use crate::engine::etcd::Etcd;
use crate::harness::wait_until;

#[test]
fn without_a_majority_commands_are_refused_after_the_timeout_and_served_again_afterwards() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(mut fleet) = Fleet::start_on(etcd.clone(), 0) else { return };
    fleet.add(Clock::system(), &[("etcd-timeout", "500")]);
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET k v", "+OK")]);
    etcd.kill(0);
    client.expect(&[("GET k", "-NOQUORUM the engine cannot reach a majority of the cluster")]);
    let reply = client.call("SET k w");
    assert!(reply.starts_with("-UNCERTAIN") || reply.starts_with("-NOQUORUM"), "{reply}");
    client.expect(&[("PING", "+PONG")]);
    etcd.resume(0);
    wait_until(|| client.call("SET k x") == "+OK");
    client.expect(&[("GET k", "$1 x")]);
}

#[test]
fn wait_and_replicas_tell_what_a_majority_has() {
    let Some(etcd) = Etcd::start(3).map(Arc::new) else { return };
    let Some(mut fleet) = Fleet::start_on(etcd.clone(), 0) else { return };
    fleet.add(Clock::system(), &[("etcd-timeout", "500")]);
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET k v", "+OK"), ("WAIT 1 0", ":1"), ("WAIT 2 0", ":1")]);
    client.expect(&[("MULTI", "+OK"), ("WAIT 1 0", "+QUEUED"), ("EXEC", "*1 :0")]);
    client.int("LOCK.ACQUIRE lock t PX 100000 REPLICAS 2");
    client.expect(&[
        ("LOCK.ACQUIRE lock other PX 1 REPLICAS 1", "$-1"),
        (
            "LOCK.ACQUIRE x t PX 1 REPLICAS 3",
            "-ERR REPLICAS must be below 3, the number of members of the etcd cluster",
        ),
    ]);
    etcd.kill(1);
    wait_until(|| client.call("SET k w") == "+OK");
    client.expect(&[("WAIT 2 0", ":1")]);
    etcd.kill(2);
    let reply = client.call("SET k lost");
    assert!(reply.starts_with("-UNCERTAIN") || reply.starts_with("-NOQUORUM"), "{reply}");
    if reply.starts_with("-UNCERTAIN") {
        client.expect(&[("WAIT 1 1", ":0"), ("WAIT 0 0", ":0")]);
        let unblock = format!("CLIENT UNBLOCK {}", client.int("CLIENT ID"));
        client.send(b"WAIT 1 0\r\n");
        let mut other = fleet.servers[0].client();
        wait_until(|| other.call(&unblock) == ":1");
        assert_eq!(client.reply(), ":0");
    }
    etcd.resume(1);
    wait_until(|| client.call("SET k x") == "+OK");
    client.expect(&[("WAIT 1 0", ":1")]);
}

#[test]
fn a_cluster_that_loses_its_leader_loses_nothing_that_was_acknowledged() {
    let Some(etcd) = Etcd::start(3).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 3) else { return };
    let acknowledged: i64 = thread::scope(|scope| {
        let counting = fleet.servers.iter().map(|server| {
            let mut client = server.client();
            scope.spawn(move || {
                let replies = (0..150).map(|_| client.call("INCR n"));
                replies.filter(|reply| reply.starts_with(':')).count() as i64
            })
        });
        let counting: Vec<_> = counting.collect();
        wait_until(|| etcd.leader().is_some());
        let leader = etcd.leader().expect("it has one");
        etcd.kill(leader);
        wait_until(|| etcd.leader().is_some_and(|new| new != leader));
        etcd.resume(leader);
        counting.into_iter().map(|counted| counted.join().expect("it ends")).sum()
    });
    let counted = fleet.servers.iter().map(|server| server.client().int("INCRBY n 0")).collect::<Vec<_>>();
    assert!(counted.iter().all(|count| *count == counted[0]), "{counted:?}");
    // Uncertain increments may have been counted.
    assert!((acknowledged..=450).contains(&counted[0]), "{acknowledged} acknowledged, {} counted", counted[0]);
}

#[test]
fn a_server_whose_lease_has_expired_is_registered_again() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET k v", "+OK")]);
    let leases = etcd.ask("/v3/lease/leases", "{}");
    let lease = leases.split("\"ID\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a lease").to_owned();
    etcd.ask("/v3/lease/revoke", &format!("{{\"ID\":\"{lease}\"}}"));
    wait_until(|| client.call("SET k w") == "+OK");
    client.expect(&[("GET k", "$1 w"), ("INCR n", ":1")]);
}

#[test]
fn a_server_that_has_missed_what_was_compacted_loads_all_keys_again() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SET k v", "+OK")]);
    other.expect(&[("GET k", "$1 v"), ("SET gone v", "+OK")]);
    one.expect(&[("DEL gone", ":1"), ("INCR n", ":1")]);
    etcd.kill(0);
    etcd.resume(0);
    wait_until(|| one.call("INCR n") == ":2" || one.call("INCR n").starts_with(':'));
    other.expect(&[("EXISTS gone k", ":1")]);
}

#[test]
fn a_transaction_that_panics_changes_nothing_and_others_are_served() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    fleet.add(Clock::system(), &[("enable-debug-command", "yes")]);
    let (mut client, mut other) = (fleet.servers[0].client(), fleet.servers[0].client());
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("DEBUG INJECT-PANIC handler", "+QUEUED"),
        ("EXEC", "-UNCERTAIN the engine has not confirmed the outcome"),
        ("MSET b 1 c 1", "+OK"),
    ]);
    other.expect(&[("MGET a b c", "*3 $-1 $1 1 $1 1"), ("SET a 2", "+OK"), ("GET a", "$1 2")]);
    assert_eq!(other.info("caught_panics"), "1");
    // A call that waits at the same time goes on.
    for round in 0..20 {
        client.expect(&[("MULTI", "+OK"), ("SET a 3", "+QUEUED"), ("DEBUG INJECT-PANIC handler", "+QUEUED")]);
        client.send(b"EXEC\r\n");
        let mut same_time: Vec<_> = (0..8).map(|_| fleet.servers[0].client()).collect();
        for (at, client) in same_time.iter_mut().enumerate() {
            client.send(format!("SET k{at} {round}\r\n").as_bytes());
        }
        same_time.iter_mut().for_each(|client| assert_eq!(client.reply(), "+OK"));
        assert_eq!(client.reply(), "-UNCERTAIN the engine has not confirmed the outcome");
    }
}
