//! Faults and an operator's commands: what they do, and when they are refused.

use crate::topology::cluster::tests::{TIMEOUT_MS, at, deeds, down, made, replica_of};
use crate::topology::cluster::{NodeChange, NodeRole, TopologyCluster, TopologyError};

type Attempt = fn(&mut TopologyCluster) -> Result<(), TopologyError>;

/// Node 1 is stopped, node 2 is paused, 5 is cut off, 6 has left; 0 is a primary with the replica 3.
fn troubled() -> TopologyCluster {
    let mut cluster = made(3, 1);
    cluster.add(None, at(0)).expect("others are up");
    cluster.remove(6, at(0)).expect("it is empty");
    cluster.partition(&[5], at(0)).expect("two sides");
    cluster.stop(1, at(0)).expect("it is up");
    cluster.pause(2, at(0)).expect("it is up");
    cluster.take_changes();
    cluster
}

#[test]
fn what_is_impossible_is_refused_in_a_sentence_and_changes_nothing() {
    let table: &[(&str, Attempt)] = &[
        ("node 0 is up", |cluster| cluster.start(0, at(0))),
        ("node 0 is up", |cluster| cluster.resume(0, at(0))),
        ("node 1 is stopped", |cluster| cluster.stop(1, at(0))),
        ("node 1 is stopped", |cluster| cluster.pause(1, at(0))),
        ("node 1 is stopped", |cluster| cluster.resume(1, at(0))),
        ("node 2 is paused", |cluster| cluster.pause(2, at(0))),
        ("node 2 is paused", |cluster| cluster.start(2, at(0))),
        ("there is no node 7", |cluster| cluster.stop(7, at(0))),
        ("there is no node 6", |cluster| cluster.start(6, at(0))),
        ("there is no node 9", |cluster| cluster.partition(&[0, 9], at(0))),
        ("a partition has a node on each side", |cluster| cluster.partition(&[], at(0))),
        ("a partition has a node on each side", |cluster| cluster.partition(&[0, 1, 2, 3, 4, 5], at(0))),
        ("node 0 is a primary", |cluster| cluster.failover(0, at(0))),
        ("node 1 is stopped", |cluster| cluster.failover(1, at(0))),
        ("node 3 does not reach a majority of the primaries", |cluster| cluster.failover(3, at(0))),
        ("there is no node 8", |cluster| cluster.add(Some(8), at(0)).map(|_| ())),
        ("node 1 is stopped", |cluster| cluster.add(Some(1), at(0)).map(|_| ())),
        ("node 3 is a replica", |cluster| cluster.add(Some(3), at(0)).map(|_| ())),
        ("node 0 has slots", |cluster| cluster.remove(0, at(0))),
        ("there is no node 6", |cluster| cluster.remove(6, at(0))),
        ("node 1 is stopped", |cluster| cluster.begin_migration(5, 5, 1, at(0))),
        ("node 3 is a replica", |cluster| cluster.begin_migration(5, 5, 3, at(0))),
        ("slots are from 0 to 16383, the first before the last", |cluster| cluster.begin_migration(5, 4, 0, at(0))),
        ("slots are from 0 to 16383, the first before the last", |cluster| cluster.begin_migration(5, 16384, 0, at(0))),
        ("node 0 does not reach a majority of the primaries", |cluster| cluster.finish_migration(9999, 9999, 0, at(0))),
    ];
    for (text, attempt) in table {
        let mut cluster = troubled();
        let before = format!("{cluster:?}");
        assert_eq!(attempt(&mut cluster).map_err(|error| error.to_string()), Err((*text).to_owned()));
        assert_eq!(format!("{cluster:?}"), before, "{text}");
    }
}

#[test]
fn slots_that_cannot_move_stay() {
    let table: &[(&str, Attempt)] = &[
        ("node 0 has slot 5 already", |cluster| cluster.begin_migration(5, 5, 0, at(0))),
        ("node 1 has slot 5461 already", |cluster| cluster.finish_migration(5460, 5461, 1, at(0))),
        ("slot 5460 is on its way to node 1", |cluster| cluster.begin_migration(5455, 5460, 2, at(0))),
        ("slot 5460 is on its way to node 1", |cluster| cluster.finish_migration(5460, 5460, 2, at(0))),
        ("node 2 is stopped", |cluster| {
            cluster.stop(2, at(0)).expect("it is up");
            cluster.begin_migration(16383, 16383, 1, at(0))
        }),
        ("nodes 2 and 1 are cut off from each other", |cluster| {
            cluster.partition(&[2], at(0)).expect("two sides");
            cluster.begin_migration(16383, 16383, 1, at(0))
        }),
        ("slot 7 has no owner", |cluster| {
            cluster.del_slots(0, &[7], at(0)).expect("it has an owner");
            cluster.begin_migration(7, 7, 1, at(0))
        }),
        ("nodes 2 and 1 have not met", |cluster| {
            let id = cluster.id(1).to_owned();
            cluster.forget(2, &id, at(0)).expect("it is known");
            cluster.begin_migration(16383, 16383, 1, at(0))
        }),
        ("node 0 is the only one", |_| TopologyCluster::empty("e", 1, TIMEOUT_MS, 0).remove(0, at(0))),
        ("no node is up that a new one could meet", |_| {
            let mut cluster = TopologyCluster::empty("e", 1, TIMEOUT_MS, 0);
            cluster.stop(0, at(0)).expect("it is up");
            cluster.add(None, at(0)).map(|_| ())
        }),
    ];
    for (text, attempt) in table {
        let mut cluster = made(3, 1);
        cluster.begin_migration(5460, 5460, 1, at(0)).expect("they are up");
        assert_eq!(attempt(&mut cluster).map_err(|error| error.to_string()), Err((*text).to_owned()));
    }
}

#[test]
fn all_know_of_a_failover_before_it_returns() {
    let mut cluster = made(3, 2);
    cluster.failover(6, at(0)).expect("it is a replica");
    let followers = [0, 3].map(|node| NodeChange::Follows { node, primary: 6 });
    assert_eq!(deeds(&mut cluster), [&[NodeChange::Promoted { node: 6 }][..], &followers].concat());
    for node in 0..9 {
        assert_eq!((cluster.owner(node, 0), cluster.routes(node).service.is_ok(true)), (Some(6), true));
    }
    assert_eq!(cluster.view(1, at(0), 0, &[]).current_epoch, 10);
}

#[test]
fn a_replica_takes_over_from_a_stopped_primary_at_once() {
    let mut cluster = made(3, 1);
    cluster.stop(0, at(0)).expect("it is up");
    cluster.failover(3, at(1)).expect("it is a replica");
    assert_eq!((deeds(&mut cluster), down(&cluster)), (vec![NodeChange::Promoted { node: 3 }], vec![]));
    cluster.start(0, at(2)).expect("it is stopped");
    assert_eq!(deeds(&mut cluster), [NodeChange::Follows { node: 0, primary: 3 }]);
}

#[test]
fn a_new_node_is_known_to_all_that_reach_it() {
    let mut cluster = made(3, 1);
    cluster.partition(&[2], at(0)).expect("two sides");
    assert_eq!(cluster.add(None, at(0)), Ok(6));
    assert_eq!(cluster.add(Some(1), at(0)), Ok(7));
    assert_eq!(
        (deeds(&mut cluster), cluster.role(6)),
        (vec![NodeChange::Follows { node: 7, primary: 1 }], NodeRole::Primary)
    );
    let known = |cluster: &TopologyCluster, node| cluster.view(node, at(0), 0, &[]).nodes.len();
    assert_eq!((known(&cluster, 0), known(&cluster, 6), known(&cluster, 7), known(&cluster, 2)), (8, 8, 8, 6));
    assert_eq!(cluster.routes(7).primary, Some(1));
    cluster.heal(at(0)).expect("it heals");
    assert_eq!((known(&cluster, 2), down(&cluster)), (8, vec![]));
}

#[test]
fn a_replica_is_added_on_the_side_of_its_primary() {
    let mut cluster = made(3, 1);
    cluster.partition(&[2], at(0)).expect("two sides");
    assert_eq!(cluster.add(Some(2), at(0)), Ok(6));
    assert!(cluster.reaches(2, 6) && !cluster.reaches(0, 6));
    cluster.heal(at(0)).expect("it heals");
    assert!(cluster.view(0, at(0), 0, &[]).nodes[6].primary.is_some());
}

#[test]
fn a_node_that_has_left_is_forgotten_by_all_and_its_number_is_not_used_again() {
    let mut cluster = made(3, 1);
    assert_eq!(cluster.remove(0, at(0)), Err(TopologyError::HasSlots(0)));
    cluster.stop(5, at(0)).expect("it is up");
    cluster.remove(3, at(0)).expect("it is a replica");
    cluster.start(5, at(0)).expect("it is stopped");
    assert_eq!(cluster.numbers().collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
    for node in [0, 5] {
        assert_eq!(cluster.view(node, at(0), 0, &[]).nodes.len(), 5);
    }
    assert_eq!((cluster.add(None, at(0)), cluster.count()), (Ok(6), 7));
    assert_eq!(cluster.node_by_id(cluster.id(3)), None);
    let mut cluster = made(3, 1);
    cluster.add(None, at(0)).expect("others are up");
    cluster.add(Some(6), at(0)).expect("it is up");
    assert_eq!(cluster.remove(6, at(0)), Err(TopologyError::HasReplicas(6)));
}

#[test]
fn slots_move_in_two_steps() {
    let mut cluster = made(3, 1);
    cluster.begin_migration(5459, 5460, 1, at(0)).expect("they are up");
    cluster.begin_migration(5459, 5460, 1, at(0)).expect("it is begun already");
    assert_eq!((deeds(&mut cluster), cluster.slots_of(0)), (vec![], vec![(0, 5460)]));
    cluster.finish_migration(5460, 5460, 1, at(0)).expect("they are up");
    assert_eq!(deeds(&mut cluster), [NodeChange::LostSlots { node: 0, slots: vec![(5460, 5460)] }]);
    for node in 0..6 {
        assert_eq!((cluster.owner(node, 5459), cluster.owner(node, 5460)), (Some(0), Some(1)), "at {node}");
    }
    assert_eq!((cluster.routes(0).migrating.len(), cluster.routes(1).importing.len()), (1, 1));
    cluster.finish_migration(5459, 5459, 1, at(0)).expect("they are up");
    let seen = cluster.view(5, at(0), 0, &[]);
    assert_eq!((seen.nodes[1].config_epoch, seen.current_epoch), (7, 7), "one epoch is great enough for both");
}

#[test]
fn slots_of_several_owners_move_at_once() {
    let mut cluster = made(3, 0);
    cluster.begin_migration(5000, 6000, 2, at(0)).expect("they are up");
    assert_eq!(cluster.migrating_to(2), [0, 1]);
    cluster.finish_migration(5000, 6000, 2, at(0)).expect("they are up");
    assert_eq!(cluster.slots_of(2), [(5000, 6000), (10923, 16383)]);
    assert_eq!(deeds(&mut cluster).len(), 2);
}

#[test]
fn a_primary_that_has_given_its_last_slot_follows_with_its_replicas() {
    let mut cluster = made(3, 1);
    cluster.begin_migration(0, 5460, 1, at(0)).expect("they are up");
    cluster.finish_migration(0, 5460, 1, at(0)).expect("they are up");
    let follow = [0, 3].map(|node| NodeChange::Follows { node, primary: 1 });
    assert_eq!(deeds(&mut cluster), follow);
    cluster.remove(0, at(0)).expect("its slots are elsewhere");
    assert_eq!((down(&cluster), cluster.role(3)), (vec![], replica_of(1)));
}

#[test]
fn a_failover_in_the_middle_of_a_move_leaves_the_slots_with_the_successor() {
    for failed in [0, 1] {
        let mut cluster = made(3, 1);
        cluster.begin_migration(0, 99, 1, at(0)).expect("they are up");
        cluster.stop(failed, at(0)).expect("it is up");
        cluster.tick(at(TIMEOUT_MS));
        let (from, to) = if failed == 0 { (3, 1) } else { (0, 4) };
        assert_eq!(cluster.owner(to, 0), Some(from), "before the former primary is back");
        cluster.start(failed, at(TIMEOUT_MS)).expect("it is stopped");
        assert!((0..6).all(|node| cluster.owner(node, 0) == Some(from)));
        let demoted = cluster.routes(failed);
        assert_eq!((demoted.migrating.len(), demoted.importing.len()), (0, 0));
        assert!(down(&cluster).is_empty());
        cluster.begin_migration(0, 99, to, at(TIMEOUT_MS)).expect("they are up");
        cluster.finish_migration(0, 99, to, at(TIMEOUT_MS)).expect("they are up");
        assert!((0..6).all(|node| cluster.owner(node, 0) == Some(to)));
    }
}
