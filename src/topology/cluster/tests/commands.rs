//! Commands as nodes receive them. Texts and replies were asked of redis-server 7.0.15.

use crate::topology::cluster::tests::{TIMEOUT_MS, at, deeds, down, made, replica_of};
use crate::topology::cluster::{
    FailoverMode, NodeChange, NodeCommandError, NodeNumber, NodeRole, SetSlot, TopologyCluster,
};
use crate::topology::{NodeHealth, SLOT_COUNT, Slot};

type Attempt = fn(&mut TopologyCluster) -> Result<(), NodeCommandError>;

fn id(cluster: &TopologyCluster, node: NodeNumber) -> String {
    cluster.id(node).to_owned()
}

fn assign(
    cluster: &mut TopologyCluster,
    at_node: NodeNumber,
    slot: Slot,
    owner: NodeNumber,
) -> Result<(), NodeCommandError> {
    let owner = SetSlot::Node(id(cluster, owner));
    cluster.set_slot(at_node, slot, &owner, false, at(0))
}

fn known(cluster: &TopologyCluster, node: NodeNumber, now_ms: u64) -> usize {
    cluster.view(node, at(now_ms), 0, &[]).nodes.len()
}

/// Commands that are refused in a cluster of three primaries with a replica each, and an empty node 6.
const REFUSALS: &[(&str, Attempt)] = &[
    ("Slot 9000 is already busy", |cluster| cluster.add_slots(0, &[9000], at(0))),
    ("Slot 9000 is already busy", |cluster| cluster.add_slots(3, &[9000], at(0))),
    ("Slot 7 is already unassigned", |cluster| {
        cluster.del_slots(0, &[7], at(0))?;
        cluster.del_slots(0, &[8, 7], at(0))
    }),
    ("Slot 9 specified multiple times", |cluster| cluster.del_slots(0, &[9, 10, 9], at(0))),
    ("DB must be empty to perform CLUSTER FLUSHSLOTS.", |cluster| cluster.flush_slots(0, true, at(0))),
    ("Please use SETSLOT only with masters.", |cluster| cluster.set_slot(3, 5, &SetSlot::Stable, false, at(0))),
    ("I'm not the owner of hash slot 9000", |cluster| {
        cluster.set_slot(0, 9000, &SetSlot::Migrating("x".to_owned()), false, at(0))
    }),
    ("I'm already the owner of hash slot 5", |cluster| {
        cluster.set_slot(0, 5, &SetSlot::Importing("x".to_owned()), false, at(0))
    }),
    ("I don't know about node x", |cluster| cluster.set_slot(0, 5, &SetSlot::Migrating("x".to_owned()), false, at(0))),
    ("I don't know about node x", |cluster| {
        cluster.set_slot(0, 9000, &SetSlot::Importing("x".to_owned()), false, at(0))
    }),
    ("Unknown node x", |cluster| cluster.set_slot(0, 5, &SetSlot::Node("x".to_owned()), false, at(0))),
    ("Target node is not a master", |cluster| {
        let target = SetSlot::Migrating(id(cluster, 3));
        cluster.set_slot(0, 5, &target, false, at(0))
    }),
    ("Target node is not a master", |cluster| assign(cluster, 0, 5, 3)),
    ("Can't assign hashslot 5 to a different node while I still hold keys for this hash slot.", |cluster| {
        let target = SetSlot::Node(id(cluster, 1));
        cluster.set_slot(0, 5, &target, true, at(0))
    }),
    ("Unknown node x", |cluster| cluster.forget(0, "x", at(0))),
    ("I tried hard but I can't forget myself...", |cluster| cluster.forget(0, &id(cluster, 0), at(0))),
    ("Can't forget my master!", |cluster| cluster.forget(3, &id(cluster, 0), at(0))),
    ("Unknown node x", |cluster| cluster.replicate(0, "x", false, at(0))),
    ("Can't replicate myself", |cluster| cluster.replicate(0, &id(cluster, 0), false, at(0))),
    ("I can only replicate a master, not a replica.", |cluster| cluster.replicate(0, &id(cluster, 4), false, at(0))),
    ("To set a master the node must be empty and without assigned slots.", |cluster| {
        cluster.replicate(0, &id(cluster, 1), false, at(0))
    }),
    ("To set a master the node must be empty and without assigned slots.", |cluster| {
        cluster.replicate(6, &id(cluster, 1), true, at(0))
    }),
    ("You should send CLUSTER FAILOVER to a replica", |cluster| {
        cluster.cluster_failover(0, FailoverMode::Takeover, at(0))
    }),
    ("Master is down or failed, please use CLUSTER FAILOVER FORCE", |cluster| {
        assert_eq!(cluster.stop(0, at(0)), Ok(()));
        cluster.cluster_failover(3, FailoverMode::Normal, at(0))
    }),
    ("I'm a replica but my master is unknown to me", |cluster| {
        cluster.flush_slots(0, false, at(0))?;
        cluster.reset(0, true, false, at(0))?;
        cluster.cluster_failover(3, FailoverMode::Force, at(0))
    }),
    ("CLUSTER RESET can't be called with master nodes containing keys", |cluster| cluster.reset(0, false, true, at(0))),
    ("Invalid config epoch specified: -1", |cluster| cluster.set_config_epoch(0, -1, at(0))),
    ("The user can assign a config epoch only when the node does not know any other node.", |cluster| {
        cluster.set_config_epoch(0, 9, at(0))
    }),
    ("Node config epoch is already non-zero", |cluster| {
        cluster.reset(6, true, false, at(0))?;
        cluster.set_config_epoch(6, 5, at(0))?;
        cluster.set_config_epoch(6, 6, at(0))
    }),
];

#[test]
fn commands_are_refused_as_by_redis() {
    for (text, attempt) in REFUSALS {
        let mut cluster = made(3, 1);
        cluster.add(None, at(0)).expect("others are up");
        assert_eq!(attempt(&mut cluster).map_err(|error| error.to_string()), Err((*text).to_owned()));
    }
}

#[test]
fn epochs_are_bumped_unless_they_are_the_greatest() {
    let mut cluster = made(3, 1);
    let table = [(0, "BUMPED 7"), (0, "STILL 7"), (1, "BUMPED 8"), (0, "BUMPED 9"), (0, "STILL 9")];
    for (node, reply) in table {
        assert_eq!(cluster.bump_epoch(node, at(0)), Ok(reply.to_owned()));
    }
    let mut lone = TopologyCluster::empty("e", 1, TIMEOUT_MS, 0);
    assert_eq!((lone.bump_epoch(0, at(0)), lone.bump_epoch(0, at(0))), (Ok("BUMPED 1".into()), Ok("STILL 1".into())));
}

#[test]
fn commands_of_redis_cli_make_the_cluster_that_is_made_at_once() {
    let (mut cluster, ready) = (TopologyCluster::empty("c", 6, TIMEOUT_MS, 0), made(3, 1));
    let epochs = (1..).zip(0..6);
    for (first, node) in [(0, 0), (5461, 1), (10923, 2), (SLOT_COUNT, 3)].windows(2).map(|pair| (pair[0].0, pair)) {
        let slots: Vec<Slot> = (first..node[1].0).collect();
        cluster.add_slots(node[0].1, &slots, at(0)).expect("they are free");
    }
    for (epoch, node) in epochs {
        cluster.set_config_epoch(node, epoch, at(0)).expect("it has none");
    }
    for node in 1..6 {
        cluster.meet(0, node, at(0)).expect("it is up");
    }
    for node in 3..6 {
        let primary = id(&cluster, node - 3);
        cluster.replicate(node, &primary, false, at(0)).expect("it is empty");
    }
    for node in 0..6 {
        assert_eq!(cluster.view(node, at(0), 0, &[1; 6]), ready.view(node, at(0), 0, &[1; 6]), "at {node}");
    }
}

#[test]
fn slots_move_by_the_commands_of_redis_cli() {
    let mut cluster = made(3, 1);
    let (source, target) = (id(&cluster, 0), id(&cluster, 1));
    cluster.set_slot(1, 5, &SetSlot::Importing(source), false, at(0)).expect("node 0 has it");
    cluster.set_slot(0, 5, &SetSlot::Migrating(target), true, at(0)).expect("node 0 has it");
    assign(&mut cluster, 1, 5, 1).expect("it is known");
    assert!((0..6).all(|node| cluster.owner(node, 5) == Some(1)), "all are told by the new owner");
    assert_eq!(cluster.view(2, at(0), 0, &[]).nodes[1].config_epoch, 7);
    assert_eq!((cluster.routes(0).migrating.len(), cluster.routes(1).importing.len()), (1, 0), "as in Redis 7.0");
    assign(&mut cluster, 0, 5, 1).expect("it is known");
    assert_eq!(cluster.routes(0).migrating.len(), 0);
    assert_eq!(deeds(&mut cluster), [NodeChange::LostSlots { node: 0, slots: vec![(5, 5)] }]);
}

#[test]
fn a_slot_that_is_assigned_elsewhere_only_at_its_owner_is_no_news_to_others() {
    let mut cluster = made(3, 1);
    assign(&mut cluster, 0, 5, 1).expect("it is known");
    let owners: Vec<_> = (0..6).map(|node| cluster.owner(node, 5)).collect();
    assert_eq!(owners, [Some(1), Some(0), Some(0), Some(0), Some(0), Some(0)]);
    cluster.del_slots(1, &[5], at(0)).expect("node 0 has it, in its view");
    cluster.add_slots(1, &[5], at(0)).expect("it is free");
    assert!((0..6).all(|node| cluster.owner(node, 5) == Some(1)), "nobody else claims it");
    cluster.partition(&[0], at(0)).expect("two sides");
    cluster.del_slots(0, &[5], at(0)).expect("it has an owner");
    cluster.add_slots(0, &[5], at(0)).expect("it is free");
    cluster.heal(at(0)).expect("it heals");
    assert!((0..6).all(|node| cluster.owner(node, 5) == Some(1)), "its new owner claims it, under a greater epoch");
}

#[test]
fn a_slot_that_is_added_is_not_being_taken_over() {
    let mut cluster = TopologyCluster::empty("e", 2, TIMEOUT_MS, 0);
    cluster.meet(0, 1, at(0)).expect("they are up");
    let source = SetSlot::Importing(id(&cluster, 1));
    cluster.set_slot(0, 3, &source, false, at(0)).expect("it is not its own");
    cluster.add_slots(0, &[3], at(0)).expect("it is free");
    assert_eq!((cluster.routes(0).importing.len(), cluster.owner(1, 3)), (0, Some(0)));
}

#[test]
fn a_primary_that_gives_its_last_slot_away_follows_the_new_owner() {
    let mut cluster = made(3, 0);
    cluster.del_slots(0, &(1..=5460).collect::<Vec<_>>(), at(0)).expect("it has them");
    assign(&mut cluster, 0, 0, 2).expect("it is known");
    assert_eq!(deeds(&mut cluster), [NodeChange::Follows { node: 0, primary: 2 }]);
}

#[test]
fn a_slot_that_is_being_taken_over_is_bound_only_by_command_while_its_owner_claims_it() {
    let mut cluster = made(4, 0);
    let source = id(&cluster, 0);
    cluster.set_slot(3, 5, &SetSlot::Importing(source), false, at(0)).expect("node 0 has it");
    cluster.partition(&[0], at(0)).expect("two sides");
    let target = SetSlot::Importing(id(&cluster, 0));
    cluster.set_slot(1, 5, &target, false, at(0)).expect("node 0 has it");
    assign(&mut cluster, 1, 5, 1).expect("it is known");
    assert_eq!((cluster.owner(2, 5), cluster.owner(3, 5)), (Some(1), Some(0)));
    cluster.heal(at(1)).expect("it heals");
    assert_eq!((cluster.owner(0, 5), cluster.owner(3, 5)), (Some(1), Some(1)));
}

#[test]
fn a_forgotten_node_stays_forgotten_for_a_minute() {
    let mut cluster = made(3, 1);
    let forgotten = id(&cluster, 5);
    cluster.forget(0, &forgotten, at(0)).expect("it is known");
    assert_eq!((known(&cluster, 0, 0), known(&cluster, 5, 0), known(&cluster, 1, 0)), (5, 6, 6));
    assert_eq!(cluster.next_due_ms(), Some(60_000));
    cluster.tick(at(59_999));
    assert_eq!(known(&cluster, 0, 0), 5);
    cluster.tick(at(60_000));
    assert_eq!((known(&cluster, 0, 0), cluster.next_due_ms()), (6, None), "the others have told of it");
    cluster.forget(0, &forgotten, at(60_000)).expect("it is known");
    cluster.meet(0, 5, at(60_001)).expect("it is up");
    assert_eq!(known(&cluster, 0, 0), 6, "an operator may introduce it before");
    cluster.forget(0, &forgotten, at(60_002)).expect("it is known");
    cluster.stop(0, at(60_003)).expect("it is up");
    cluster.start(0, at(60_004)).expect("it is stopped");
    assert_eq!(known(&cluster, 0, 0), 6, "a process that starts remembers nobody whom it was to forget");
}

#[test]
fn a_node_that_all_forget_in_time_is_out() {
    let mut cluster = made(3, 1);
    let forgotten = id(&cluster, 5);
    for node in 0..5 {
        cluster.forget(node, &forgotten, at(node as u64)).expect("it is known");
    }
    cluster.tick(at(100_000));
    assert!((0..5).all(|node| known(&cluster, node, 100_000) == 5));
    assert_eq!((known(&cluster, 5, 100_000), down(&cluster)), (6, vec![]));
}

#[test]
fn slots_of_a_forgotten_node_have_no_owner() {
    let mut cluster = made(3, 1);
    let forgotten = id(&cluster, 1);
    cluster.forget(0, &forgotten, at(0)).expect("it is known");
    assert_eq!((cluster.owner(0, 6000), cluster.owner(2, 6000), down(&cluster)), (None, Some(1), vec![0]));
    cluster.tick(at(60_000));
    assert_eq!((cluster.owner(0, 6000), down(&cluster)), (Some(1), vec![]));
}

#[test]
fn an_empty_node_becomes_a_replica() {
    let mut cluster = made(3, 1);
    cluster.add(None, at(0)).expect("others are up");
    for primary in [1, 2, 2] {
        let primary = id(&cluster, primary);
        cluster.replicate(6, &primary, false, at(0)).expect("it is empty");
    }
    let follow = [1, 2].map(|primary| NodeChange::Follows { node: 6, primary });
    assert_eq!((deeds(&mut cluster), cluster.role(6)), (follow.to_vec(), replica_of(2)));
    assert_eq!(cluster.view(0, at(0), 0, &[]).nodes[6].primary.as_deref(), Some(cluster.id(2)));
}

#[test]
fn manual_failovers_take_the_consent_that_they_ask_for() {
    type Case = (FailoverMode, fn(&mut TopologyCluster), bool);
    let stop_majority: fn(&mut TopologyCluster) = |cluster| {
        for node in [1, 2] {
            cluster.stop(node, at(0)).expect("it is up");
        }
    };
    let table: &[Case] = &[
        (FailoverMode::Normal, |_| {}, true),
        (FailoverMode::Normal, |cluster| cluster.pause(0, at(0)).expect("it is up"), false),
        (FailoverMode::Normal, stop_majority, false),
        (FailoverMode::Force, |cluster| cluster.stop(0, at(0)).expect("it is up"), true),
        (FailoverMode::Force, stop_majority, false),
        (FailoverMode::Takeover, stop_majority, true),
    ];
    for (mode, prepare, is_promoted) in table {
        let mut cluster = made(3, 1);
        prepare(&mut cluster);
        assert_eq!(cluster.cluster_failover(3, *mode, at(0)), Ok(()));
        assert_eq!(cluster.role(3).is_primary(), *is_promoted, "{mode:?}");
        assert_eq!(cluster.slots_of(3), if *is_promoted { vec![(0, 5460)] } else { vec![] });
    }
}

#[test]
fn a_soft_reset_leaves_the_id_and_what_others_know() {
    let mut cluster = made(3, 1);
    let before = id(&cluster, 3);
    cluster.reset(3, false, true, at(0)).expect("it is a replica");
    assert_eq!((deeds(&mut cluster), id(&cluster, 3)), (vec![NodeChange::Reset { node: 3 }], before));
    assert_eq!((cluster.role(3), known(&cluster, 3, 0), down(&cluster)), (NodeRole::Primary, 1, vec![3]));
    let seen = &cluster.view(0, at(0), 0, &[]).nodes[3];
    assert_eq!((seen.primary.as_deref(), seen.health), (None, NodeHealth::Online));
    cluster.meet(3, 1, at(0)).expect("it is up");
    assert_eq!((known(&cluster, 3, 0), down(&cluster)), (6, vec![]));
}

#[test]
fn a_hard_reset_makes_another_node() {
    let mut cluster = made(3, 1);
    let before = id(&cluster, 3);
    cluster.reset(3, true, true, at(0)).expect("it is a replica");
    assert_ne!(id(&cluster, 3), before);
    assert_eq!((cluster.node_by_id(&before), known(&cluster, 0, 0), known(&cluster, 3, 0)), (None, 5, 1));
    assert_eq!(cluster.view(3, at(0), 0, &[]).current_epoch, 0);
    cluster.set_config_epoch(3, 4, at(0)).expect("it has none");
    cluster.meet(0, 3, at(0)).expect("it is up");
    assert_eq!(known(&cluster, 5, 0), 6);
}

#[test]
fn slots_that_nobody_has_take_the_cluster_down_where_all_are_needed() {
    let mut cluster = made(3, 0);
    cluster.flush_slots(0, false, at(0)).expect("it has no keys");
    assert_eq!(down(&cluster), [0], "the others keep the slots with their former owner");
    cluster.del_slots(1, &[0], at(0)).expect("it is bound");
    cluster.del_slots(2, &[0], at(0)).expect("it is bound");
    assert_eq!(down(&cluster), [0, 1, 2]);
    assert!(cluster.service(1).is_ok(false));
}
