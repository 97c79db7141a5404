//! Rules of the making, of failures and of what nodes learn from each other.

use crate::topology::cluster::observe::NodeCondition;
use crate::topology::cluster::tests::{TIMEOUT_MS, at, deeds, down, made, replica_of};
use crate::topology::cluster::{Moment, NodeChange, NodeNumber, NodeRole, TopologyCluster};
use crate::topology::{ClusterView, NodeAddress, NodeHealth, SLOT_COUNT, Slot};

fn view(cluster: &TopologyCluster, node: NodeNumber, now_ms: u64) -> ClusterView {
    cluster.view(node, at(now_ms), 1_000_000, &[70, 71, 72, 73, 74, 75])
}

/// Printed by redis-cli 7.0.15.
#[test]
fn slots_are_dealt_out_as_redis_cli_does() {
    let deals: [&[Slot]; 5] = [
        &[16383],
        &[5460, 10922, 16383],
        &[3276, 6553, 9829, 13106, 16383],
        &[2730, 5460, 8191, 10922, 13652, 16383],
        &[2340, 4680, 7021, 9361, 11702, 14042, 16383],
    ];
    for lasts in deals {
        let cluster = made(lasts.len(), 0);
        let mut first = 0;
        for (node, last) in lasts.iter().enumerate() {
            assert_eq!(cluster.slots_of(node), [(first, *last)], "of {}", lasts.len());
            first = last + 1;
        }
    }
}

#[test]
fn a_cluster_is_made_as_redis_cli_leaves_it() {
    let cluster = made(3, 1);
    let roles: Vec<NodeRole> = (0..6).map(|node| cluster.role(node)).collect();
    let primary = NodeRole::Primary;
    assert_eq!(roles, [primary, primary, primary, replica_of(0), replica_of(1), replica_of(2)]);
    for node in 0..6 {
        let view = view(&cluster, node, 0);
        assert_eq!((view.nodes.len(), view.own, view.current_epoch, view.is_ok), (6, node, 6, true));
        let epochs: Vec<u64> = view.nodes.iter().map(|node| node.config_epoch).collect();
        assert_eq!(epochs, [1, 2, 3, 1, 2, 3]);
        assert_eq!(view.nodes[4].primary.as_deref(), Some(cluster.id(1)));
        assert_eq!(view.nodes[4].shard_id, view.nodes[1].shard_id);
        assert_ne!(view.nodes[4].shard_id, view.nodes[2].shard_id);
        assert_eq!(view.nodes[node].address, NodeAddress::Own);
    }
    assert_eq!(
        view(&cluster, 0, 0).nodes[2].address,
        NodeAddress::SameHost { port: 72, ip: None, host_name: String::new() }
    );
    assert_eq!(cluster.next_due_ms(), None);
}

#[test]
fn ids_follow_from_name_and_number() {
    let (one, same, other) = (made(3, 3), made(3, 3), TopologyCluster::empty("d", 12, TIMEOUT_MS, 0));
    for node in one.numbers() {
        assert!(one.id(node).len() == 40 && one.id(node).bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(one.id(node), same.id(node));
        assert_ne!(one.id(node), other.id(node));
        assert_eq!(one.node_by_id(one.id(node)), Some(node));
    }
    assert_eq!(one.node_by_id(other.id(0)), None);
}

#[test]
fn a_stopped_primary_has_a_successor_at_the_timeout() {
    let mut cluster = made(3, 1);
    cluster.stop(0, at(100)).expect("it is up");
    assert_eq!(cluster.next_due_ms(), Some(100 + TIMEOUT_MS));
    cluster.tick(at(99 + TIMEOUT_MS));
    assert_eq!((deeds(&mut cluster), cluster.believed_dead(1)), (vec![], vec![]));
    cluster.tick(at(100 + TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 3 }]);
    assert_eq!((cluster.slots_of(3), cluster.believed_dead(1), down(&cluster)), (vec![(0, 5460)], vec![0], vec![]));
    let seen = view(&cluster, 4, 100 + TIMEOUT_MS);
    assert_eq!((seen.current_epoch, seen.nodes[3].config_epoch), (7, 7));
    assert_eq!((seen.nodes[0].health, seen.nodes[0].is_connected), (NodeHealth::Failed, false));
    assert_eq!(seen.nodes[0].ping_sent_ms, 1_000_000 - 15_000);
    assert_eq!(cluster.next_due_ms(), None);
}

#[test]
fn a_late_tick_comes_to_the_same() {
    let (mut punctual, mut late) = (made(3, 1), made(3, 1));
    for cluster in [&mut punctual, &mut late] {
        cluster.stop(0, at(0)).expect("it is up");
        cluster.stop(3, at(10)).expect("it is up");
    }
    for now_ms in [TIMEOUT_MS, TIMEOUT_MS + 10, 5 * TIMEOUT_MS] {
        punctual.tick(at(now_ms));
    }
    late.tick(at(5 * TIMEOUT_MS));
    assert_eq!(format!("{punctual:?}"), format!("{late:?}"));
}

#[test]
fn the_replica_with_the_most_data_is_elected_then_the_lowest_number() {
    let table: [(&[u64], NodeNumber); 3] =
        [(&[9, 9, 9, 5, 0, 0, 5, 0, 0], 3), (&[9, 9, 9, 5, 0, 0, 6, 0, 0], 6), (&[], 3)];
    for (offsets, elected) in table {
        let mut cluster = made(3, 2);
        cluster.stop(0, at(0)).expect("it is up");
        cluster.tick(Moment { now_ms: TIMEOUT_MS, offsets });
        let other = 9 - elected;
        let follows = NodeChange::Follows { node: other, primary: elected };
        assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: elected }, follows]);
        assert_eq!(cluster.primary_of(other), Some(elected));
    }
}

#[test]
fn a_replica_that_is_not_up_is_not_elected() {
    let mut cluster = made(3, 2);
    cluster.pause(3, at(0)).expect("it is up");
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 6 }]);
    cluster.resume(3, at(TIMEOUT_MS)).expect("it is paused");
    assert_eq!(deeds(&mut cluster), [NodeChange::Follows { node: 3, primary: 6 }]);
}

#[test]
fn slots_of_a_failed_primary_without_replica_are_down_until_it_is_back() {
    let mut cluster = made(3, 0);
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!(down(&cluster), [1, 2]);
    assert!(cluster.service(1).is_ok(false), "unless it may serve what is left");
    assert_eq!((cluster.owner(1, 7), cluster.state(0)), (Some(0), NodeCondition::Stopped));
    cluster.start(0, at(TIMEOUT_MS)).expect("it is stopped");
    assert_eq!((deeds(&mut cluster), down(&cluster), cluster.believed_dead(1)), (vec![], vec![], vec![]));
}

#[test]
fn without_a_majority_nothing_is_decided() {
    for (primaries, stopped) in [(1, &[0][..]), (2, &[0]), (3, &[0, 1]), (4, &[0, 1])] {
        let mut cluster = made(primaries, 1);
        for node in stopped {
            cluster.stop(*node, at(0)).expect("it is up");
        }
        cluster.tick(at(TIMEOUT_MS));
        assert_eq!(deeds(&mut cluster), [], "{stopped:?} of {primaries}");
        let replica = primaries;
        assert_eq!(view(&cluster, replica, TIMEOUT_MS).nodes[0].health, NodeHealth::Suspected);
        assert_eq!(cluster.believed_dead(replica), stopped);
        assert_eq!(down(&cluster).len(), 2 * primaries - stopped.len());
    }
}

#[test]
fn a_primary_in_the_minority_serves_until_the_timeout_and_follows_at_the_end() {
    let mut cluster = made(3, 1);
    cluster.partition(&[0], at(0)).expect("two sides");
    assert!(!cluster.reaches(0, 1) && cluster.reaches(3, 1));
    cluster.tick(at(TIMEOUT_MS - 1));
    assert!(down(&cluster).is_empty());
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 3 }]);
    assert_eq!((down(&cluster), cluster.role(0)), (vec![0], NodeRole::Primary));
    assert_eq!((cluster.state(0), cluster.believed_dead(0)), (NodeCondition::Failed, vec![1, 2, 3, 4, 5]));
    assert_eq!(cluster.slots_of(0), cluster.slots_of(3));
    cluster.heal(at(2 * TIMEOUT_MS)).expect("it heals");
    assert_eq!(deeds(&mut cluster), [NodeChange::Follows { node: 0, primary: 3 }]);
    assert_eq!((down(&cluster), cluster.state(0), cluster.slots_of(0)), (vec![], NodeCondition::Up, vec![]));
}

#[test]
fn a_partition_that_ends_in_time_leaves_nothing() {
    let mut cluster = made(3, 1);
    let before = format!("{:?}", view(&cluster, 1, 0).nodes);
    cluster.partition(&[0, 3], at(0)).expect("two sides");
    cluster.heal(at(TIMEOUT_MS - 1)).expect("it heals");
    cluster.tick(at(3 * TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), []);
    assert_eq!(format!("{:?}", view(&cluster, 1, 0).nodes).replace("985001", "1000000"), before);
}

#[test]
fn a_primary_and_its_replica_in_the_minority_come_back_as_they_were() {
    let mut cluster = made(3, 1);
    cluster.partition(&[0, 3], at(0)).expect("two sides");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!((deeds(&mut cluster), down(&cluster)), (vec![], vec![0, 1, 2, 3, 4, 5]));
    cluster.heal(at(TIMEOUT_MS)).expect("it heals");
    assert_eq!((deeds(&mut cluster), down(&cluster), cluster.role(3)), (vec![], vec![], replica_of(0)));
}

#[test]
fn a_suspicion_of_one_side_becomes_a_failure_when_it_meets_the_other() {
    let mut cluster = made(3, 1);
    cluster.partition(&[1, 4], at(0)).expect("two sides");
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!((deeds(&mut cluster), cluster.role(3)), (vec![], replica_of(0)));
    cluster.heal(at(TIMEOUT_MS + 5)).expect("it heals");
    assert_eq!((deeds(&mut cluster), down(&cluster)), (vec![NodeChange::Promoted { node: 3 }], vec![]));
}

#[test]
fn a_replica_that_starts_waits_for_its_primary_as_long_as_others() {
    let mut cluster = made(3, 1);
    cluster.stop(0, at(0)).expect("it is up");
    cluster.stop(3, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    cluster.start(3, at(20_000)).expect("it is stopped");
    assert_eq!((deeds(&mut cluster), cluster.next_due_ms()), (vec![], Some(20_000 + TIMEOUT_MS)));
    cluster.tick(at(20_000 + TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 3 }]);
}

#[test]
fn a_primary_that_starts_after_its_successor_has_stopped_learns_from_others() {
    let mut cluster = made(3, 1);
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    cluster.stop(3, at(TIMEOUT_MS)).expect("it is up");
    cluster.start(0, at(TIMEOUT_MS)).expect("it is stopped");
    let follows = NodeChange::Follows { node: 0, primary: 3 };
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 3 }, follows]);
    cluster.tick(at(2 * TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 0 }], "it has the data of its successor");
    assert_eq!((cluster.slots_of(0), down(&cluster)), (vec![(0, 5460)], vec![]));
}

#[test]
fn a_paused_primary_keeps_its_view_until_it_goes_on() {
    let mut cluster = made(3, 1);
    cluster.pause(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!((cluster.state(0), cluster.role(0)), (NodeCondition::Paused, NodeRole::Primary));
    assert!(view(&cluster, 1, 0).nodes[0].is_connected, "connects succeed");
    cluster.resume(0, at(TIMEOUT_MS)).expect("it is paused");
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 3 }, NodeChange::Follows { node: 0, primary: 3 }]);
}

#[test]
fn two_primaries_that_fail_at_once_have_two_successors_in_two_epochs() {
    let mut cluster = made(5, 1);
    cluster.stop(1, at(0)).expect("it is up");
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 5 }, NodeChange::Promoted { node: 6 }]);
    let seen = view(&cluster, 2, TIMEOUT_MS);
    assert_eq!((seen.nodes[5].config_epoch, seen.nodes[6].config_epoch, seen.current_epoch), (11, 12, 12));
}

#[test]
fn nodes_that_know_only_themselves_become_one_cluster_by_meeting() {
    let mut cluster = TopologyCluster::empty("e", 6, TIMEOUT_MS, 0);
    assert_eq!((down(&cluster).len(), view(&cluster, 0, 0).nodes.len()), (6, 1));
    for (one, other) in [(0, 1), (1, 2), (3, 4), (4, 5)] {
        cluster.meet(one, other, at(0)).expect("they are up");
    }
    assert_eq!((view(&cluster, 2, 0).nodes.len(), view(&cluster, 5, 0).nodes.len()), (3, 3));
    cluster.meet(2, 3, at(0)).expect("they are up");
    let mut epochs: Vec<u64> = view(&cluster, 5, 0).nodes.iter().map(|node| node.config_epoch).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 6, "epochs that collide are told apart");
    for node in 0..6 {
        let slots: Vec<Slot> = (0..SLOT_COUNT).filter(|slot| usize::from(*slot) % 6 == node).collect();
        cluster.add_slots(node, &slots, at(0)).expect("they are free");
    }
    assert!(down(&cluster).is_empty());
}

#[test]
fn of_two_clusters_that_meet_the_greater_epochs_win() {
    let mut cluster = TopologyCluster::empty("e", 2, TIMEOUT_MS, 0);
    let all: Vec<Slot> = (0..SLOT_COUNT).collect();
    for node in 0..2 {
        cluster.add_slots(node, &all, at(0)).expect("they are free");
        cluster.set_config_epoch(node, 5 - i64::try_from(node).expect("small"), at(0)).expect("it has none");
    }
    cluster.meet(1, 0, at(0)).expect("they are up");
    assert_eq!(deeds(&mut cluster), [NodeChange::Follows { node: 1, primary: 0 }]);
}

#[test]
fn a_claim_under_the_same_epoch_takes_nothing() {
    let mut cluster = TopologyCluster::empty("e", 3, TIMEOUT_MS, 0);
    for node in [0, 1] {
        cluster.set_config_epoch(node, 5, at(0)).expect("it has none");
        cluster.add_slots(node, &[1], at(0)).expect("it is free");
    }
    cluster.meet(2, 0, at(0)).expect("they are up");
    cluster.stop(0, at(0)).expect("it is up");
    cluster.meet(2, 1, at(0)).expect("they are up");
    assert_eq!((cluster.owner(2, 1), cluster.owner(1, 1)), (Some(0), Some(1)));
}

#[test]
fn nodes_that_do_not_reach_each_other_meet_when_they_do_or_not_at_all() {
    let mut cluster = TopologyCluster::empty("e", 2, TIMEOUT_MS, 0);
    cluster.pause(1, at(0)).expect("it is up");
    cluster.meet(0, 1, at(0)).expect("it is up");
    let seen = view(&cluster, 0, 0);
    assert_eq!((seen.nodes.len(), seen.nodes[1].is_in_handshake, cluster.next_due_ms()), (2, true, Some(TIMEOUT_MS)));
    let mut other = cluster.clone();
    other.resume(1, at(TIMEOUT_MS - 1)).expect("it is paused");
    assert_eq!(view(&other, 1, TIMEOUT_MS).nodes.len(), 2);
    cluster.resume(1, at(TIMEOUT_MS)).expect("it is paused");
    assert_eq!((view(&cluster, 0, TIMEOUT_MS).nodes.len(), cluster.next_due_ms()), (1, None));
}

#[test]
fn routes_are_told_once_and_last() {
    let mut cluster = made(3, 1);
    cluster.stop(0, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    let routes = (0..6).map(|node| NodeChange::Routes { node });
    let all: Vec<NodeChange> = std::iter::once(NodeChange::Promoted { node: 3 }).chain(routes).collect();
    assert_eq!((cluster.take_changes(), cluster.take_changes()), (all, vec![]));
}

#[test]
fn routes_show_the_owner_of_each_slot() {
    let mut cluster = made(3, 1);
    let routes = cluster.routes(4);
    assert_eq!((routes.own, routes.primary, routes.service), (4, Some(1), cluster.service(4)));
    assert_eq!((routes.owners.len(), routes.owners[5460], routes.owners[5461]), (16384, 0, 1));
    cluster.begin_migration(3, 4, 2, at(0)).expect("they are up");
    assert_eq!(cluster.routes(0).migrating.into_iter().collect::<Vec<_>>(), [(3, 2), (4, 2)]);
    assert_eq!(cluster.routes(2).importing.into_iter().collect::<Vec<_>>(), [(3, 0), (4, 0)]);
    let seen = view(&cluster, 0, 0);
    assert_eq!(seen.nodes[0].migrating, [(3, cluster.id(2).to_owned()), (4, cluster.id(2).to_owned())]);
    assert_eq!((seen.nodes[2].importing.len(), cluster.migrating_to(2)), (0, vec![0]));
}

#[test]
fn a_cluster_of_a_hundred_nodes_is_made_and_changed_in_no_time() {
    let mut cluster = made(50, 1);
    cluster.stop(7, at(0)).expect("it is up");
    cluster.tick(at(TIMEOUT_MS));
    assert_eq!(deeds(&mut cluster), [NodeChange::Promoted { node: 57 }]);
}
