//! Histories by chance, against what must always hold, and what must hold once all is healed.

use std::collections::BTreeMap;

use crate::topology::cluster::slots::SlotSet;
use crate::topology::cluster::tests::{TIMEOUT_MS, made};
use crate::topology::cluster::{
    FailoverMode, Moment, NodeChange, NodeCommandError, NodeNumber, NodeRole, Routes, SetSlot, TopologyCluster,
};
use crate::topology::{NodeHealth, SLOT_COUNT, Slot};

/// A pseudo-random sequence (SplitMix64).
struct Dice(u64);

impl Dice {
    /// Returns the next number below a limit.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit).expect("a limit");
        usize::try_from((mixed ^ (mixed >> 31)) % limit).expect("a number below it")
    }
}

/// A history, and what its changes add up to.
struct History {
    cluster: TopologyCluster,
    dice: Dice,
    now_ms: u64,
    offsets: Vec<u64>,
    roles: BTreeMap<NodeNumber, NodeRole>,
    routes: BTreeMap<NodeNumber, Routes>,
    own: BTreeMap<NodeNumber, SlotSet>,
    /// The slots that each node has claimed under an epoch.
    claimed: BTreeMap<u64, BTreeMap<NodeNumber, SlotSet>>,
    /// True if clients give the nodes commands of their own, with which views may differ for good.
    has_commands: bool,
}

impl History {
    fn new(seed: u64, has_commands: bool) -> Self {
        let mut dice = Dice(seed);
        let cluster = made(3 + dice.below(3), dice.below(3));
        let count = cluster.count();
        let roles = (0..count).map(|node| (node, cluster.role(node))).collect();
        let routes = (0..count).map(|node| (node, cluster.routes(node))).collect();
        let own = (0..count).map(|node| (node, (*cluster.nodes[node].own.slots).clone())).collect();
        let claimed = BTreeMap::new();
        History { cluster, dice, now_ms: 0, offsets: vec![0; 100], roles, routes, own, claimed, has_commands }
    }

    fn node(&mut self) -> NodeNumber {
        self.dice.below(self.cluster.count())
    }

    fn slot(&mut self) -> Slot {
        Slot::try_from(self.dice.below(SLOT_COUNT.into())).expect("a slot")
    }

    fn existing(&mut self) -> NodeNumber {
        let numbers: Vec<NodeNumber> = self.cluster.numbers().collect();
        numbers[self.dice.below(numbers.len())]
    }

    fn step(&mut self) {
        if self.dice.below(2) == 0 {
            self.now_ms += u64::try_from(self.dice.below(20_000)).expect("a time");
        }
        let node = self.node();
        self.offsets[node] += 1;
        if self.has_commands && self.dice.below(2) == 0 {
            self.command();
        } else {
            self.event();
        }
        self.check();
    }

    fn event(&mut self) {
        let (node, other, slot) = (self.node(), self.node(), self.slot());
        let last = slot.saturating_add(100 * Slot::try_from(self.dice.below(80)).expect("few")).min(SLOT_COUNT - 1);
        let choice = self.dice.below(13);
        let moment = Moment { now_ms: self.now_ms, offsets: &self.offsets };
        let cluster = &mut self.cluster;
        let count = cluster.numbers().count();
        let lame = cluster.numbers().filter(|node| !cluster.nodes[*node].is_running()).collect::<Vec<_>>();
        let is_lame = lame.len() * 3 > count;
        let _ = match choice {
            0 if !is_lame => cluster.stop(node, moment),
            1 if !is_lame => cluster.pause(node, moment),
            0..=3 if !lame.is_empty() => cluster.start(lame[0], moment).or(cluster.resume(lame[0], moment)),
            4 => cluster.partition(&[node, other], moment),
            5 | 6 => cluster.heal(moment),
            7 => cluster.failover(node, moment),
            8 if count < 9 => cluster.add(Some(node).filter(|_| slot % 2 == 0), moment).map(|_| ()),
            9 if all_know_all(cluster) => cluster.remove(node, moment),
            10 => cluster.begin_migration(slot, last, node, moment),
            11 => cluster.finish_migration(slot, last, node, moment),
            _ => {
                cluster.tick(moment);
                Ok(())
            }
        };
    }

    fn command(&mut self) {
        let (node, other, slot) = (self.existing(), self.existing(), self.slot());
        let (choice, has_keys, mode) = (self.dice.below(14), self.dice.below(2) == 0, self.dice.below(3));
        let id = self.cluster.id(other).to_owned();
        let moment = Moment { now_ms: self.now_ms, offsets: &self.offsets };
        let cluster = &mut self.cluster;
        if !cluster.nodes[node].is_running() {
            return cluster.tick(moment);
        }
        let few: Vec<Slot> = (slot..SLOT_COUNT).take(mode * 50 + 1).collect();
        let mode = [FailoverMode::Normal, FailoverMode::Force, FailoverMode::Takeover][mode];
        let _: Result<(), NodeCommandError> = match choice {
            0..=2 => cluster.meet(node, other, moment),
            3 => cluster.add_slots(node, &few, moment),
            4 => cluster.del_slots(node, &few, moment),
            5 => cluster.set_slot(node, slot, &SetSlot::Migrating(id), has_keys, moment),
            6 => cluster.set_slot(node, slot, &SetSlot::Importing(id), has_keys, moment),
            7 => cluster.set_slot(node, slot, &SetSlot::Node(id), has_keys, moment),
            8 => cluster.set_slot(node, slot, &SetSlot::Stable, has_keys, moment),
            9 => cluster.forget(node, &id, moment),
            10 => cluster.replicate(node, &id, has_keys, moment),
            11 => cluster.cluster_failover(node, mode, moment),
            12 => cluster.reset(node, has_keys, slot % 4 != 0, moment),
            _ => cluster.bump_epoch(node, moment).map(|_| ()),
        };
    }

    fn check(&mut self) {
        let before = self.own.clone();
        let lost = self.apply_changes();
        for node in 0..self.cluster.count() {
            self.check_view(node);
            self.check_claims(node);
            self.check_loss(node, &before, &lost);
        }
        if self.dice.below(4) == 0 {
            self.check_due();
        }
    }

    /// Adds the changes up, and returns the slots that nodes have lost by them.
    fn apply_changes(&mut self) -> BTreeMap<NodeNumber, SlotSet> {
        let mut lost: BTreeMap<NodeNumber, SlotSet> = BTreeMap::new();
        for change in self.cluster.take_changes() {
            match change {
                NodeChange::Promoted { node } | NodeChange::Reset { node } => {
                    _ = self.roles.insert(node, NodeRole::Primary)
                }
                NodeChange::Follows { node, primary } => {
                    self.roles.insert(node, NodeRole::Replica { of: Some(primary) });
                }
                NodeChange::LostSlots { node, slots } => {
                    let set = lost.entry(node).or_default();
                    *set = slots.iter().fold(set.clone(), |set, (first, last)| set.or(&SlotSet::range(*first, *last)));
                }
                NodeChange::Routes { node } => _ = self.routes.insert(node, self.cluster.routes(node)),
            }
        }
        for node in 0..self.cluster.count() {
            let role = self.cluster.role(node);
            let noted = *self.roles.entry(node).or_default();
            assert!(noted == role || role == NodeRole::Replica { of: None }, "role of {node}: {noted:?}, {role:?}");
        }
        let node = self.existing();
        assert!(self.routes.get(&node) == Some(&self.cluster.routes(node)), "routes of {node}");
        self.own =
            (0..self.cluster.count()).map(|node| (node, (*self.cluster.nodes[node].own.slots).clone())).collect();
        lost
    }

    /// Each slot has one owner at most in a view, and nobody is believed dead who is reached.
    fn check_view(&self, number: NodeNumber) {
        let node = &self.cluster.nodes[number];
        let mut seen = SlotSet::default();
        for (other, peer) in node.known() {
            assert!(!self.cluster.reaches(number, other) || peer.health == NodeHealth::Online);
            assert!(peer.role.primary().is_none_or(|of| node.peer(of).is_some()), "{number} sees a strange primary");
            assert!(
                peer.role.is_primary() || peer.slots.is_empty() || self.has_commands,
                "{other} has slots as a replica"
            );
            if !peer.slots.is_empty() {
                assert!(seen.and(&peer.slots).is_empty(), "{number} sees two owners");
                seen = seen.or(&peer.slots);
            }
        }
        let owners = |open: &BTreeMap<Slot, NodeNumber>| open.values().all(|other| node.peer(*other).is_some());
        assert!(owners(&node.migrating) && owners(&node.importing), "{number} moves slots to nowhere");
    }

    /// No slot has two owners under one epoch, nor two that reach each other.
    fn check_claims(&mut self, number: NodeNumber) {
        let node = &self.cluster.nodes[number];
        if !node.own.role.is_primary() || !node.is_running() {
            return;
        }
        let others = self.cluster.nodes.iter().filter(|other| {
            other.number > number && other.own.role.is_primary() && self.cluster.reaches(number, other.number)
        });
        for other in others.filter(|other| other.peer(number).is_some() && node.peer(other.number).is_some()) {
            let both = node.own.slots.and(&other.own.slots);
            assert!(both.is_empty(), "{number} and {} own {:?}", other.number, both.ranges());
        }
        if self.has_commands {
            return;
        }
        let claimed = self.claimed.entry(node.own.config_epoch).or_default();
        for (other, slots) in claimed.iter().filter(|(other, _)| **other != number) {
            let both = slots.and(&node.own.slots);
            assert!(both.is_empty(), "{number} and {other} own {:?} under {}", both.ranges(), node.own.config_epoch);
        }
        let own = claimed.entry(number).or_default();
        *own = own.or(&node.own.slots);
    }

    /// A primary that remains one is told of every slot that it loses.
    fn check_loss(
        &self,
        node: NodeNumber,
        before: &BTreeMap<NodeNumber, SlotSet>,
        lost: &BTreeMap<NodeNumber, SlotSet>,
    ) {
        let (Some(before), Some(after)) = (before.get(&node), self.own.get(&node)) else { return };
        let missing = before.without(after);
        if self.cluster.role(node).is_primary() && !self.has_commands {
            let told = lost.get(&node).cloned().unwrap_or_default();
            assert!(missing.without(&told).is_empty(), "{node} has lost {:?} in silence", missing.ranges());
        }
    }

    /// Nothing happens before the time that is due, and then it moves on.
    fn check_due(&mut self) {
        let Some(due_ms) = self.cluster.next_due_ms() else { return };
        assert!(due_ms > self.now_ms, "what is due has not happened");
        let mut early = self.cluster.clone();
        let offsets = self.offsets.clone();
        early.tick(Moment { now_ms: due_ms - 1, offsets: &offsets });
        assert_eq!((early.take_changes(), early.next_due_ms()), (vec![], Some(due_ms)), "too early");
        early.tick(Moment { now_ms: due_ms, offsets: &offsets });
        assert!(early.next_due_ms().is_none_or(|next_ms| next_ms > due_ms), "the time does not move on");
    }

    /// Ends all faults and lets time pass.
    fn mend(&mut self) {
        for _ in 0..2 {
            let moment = Moment { now_ms: self.now_ms, offsets: &self.offsets };
            self.cluster.heal(moment).expect("it always heals");
            for node in 0..self.cluster.count() {
                let _ = self.cluster.start(node, moment);
                let _ = self.cluster.resume(node, moment);
            }
            self.check();
            self.now_ms += 61_000 + TIMEOUT_MS;
            self.cluster.tick(Moment { now_ms: self.now_ms, offsets: &self.offsets });
            self.check();
        }
    }

    /// All nodes see the same, and all slots are served.
    fn check_agreement(&self) {
        assert_eq!(self.cluster.next_due_ms(), None);
        let numbers: Vec<NodeNumber> = self.cluster.numbers().collect();
        let first = self.cluster.routes(numbers[0]);
        for node in numbers.iter().copied() {
            let routes = self.cluster.routes(node);
            assert!(routes.service.is_ok(true), "{node} is down");
            let differ = |slot: &Slot| first.owners[usize::from(*slot)] != routes.owners[usize::from(*slot)];
            let differing: SlotSet = (0..SLOT_COUNT).filter(differ).collect();
            assert!(differing.is_empty(), "{node} and {} disagree on {:?}", numbers[0], differing.ranges());
            let known: Vec<NodeNumber> = self.cluster.nodes[node].known().map(|(number, _)| number).collect();
            assert_eq!(known.len(), numbers.len(), "{node} does not know all");
            if let NodeRole::Replica { of } = self.cluster.role(node) {
                assert!(of.is_some_and(|of| self.cluster.role(of).is_primary()), "{node} follows no primary");
            }
            for other in numbers.iter().copied() {
                assert_eq!(self.cluster.nodes[node].peer(other).map(|peer| peer.role), Some(self.cluster.role(other)));
            }
        }
        for slot in 0..SLOT_COUNT {
            let owner = usize::from(first.owners[usize::from(slot)]);
            let nodes = numbers.iter().filter(|node| self.cluster.nodes[**node].own.slots.contains(slot));
            assert_eq!(nodes.copied().collect::<Vec<_>>(), [owner], "owners of slot {slot}");
        }
    }
}

/// Returns true if no node is known only to another one, with which it would be lost.
fn all_know_all(cluster: &TopologyCluster) -> bool {
    let count = cluster.numbers().count();
    cluster.numbers().all(|node| cluster.nodes[node].known().count() == count)
}

const SEEDS: std::ops::Range<u64> = 0..24;
const STEPS: usize = 300;

/// Runs histories, and names the one that fails.
fn run_histories(run: fn(seed: u64, steps: usize)) {
    for seed in SEEDS {
        assert!(std::panic::catch_unwind(|| run(seed, STEPS)).is_ok(), "history {seed}");
    }
}

fn history(seed: u64, steps: usize, has_commands: bool) -> History {
    let mut history = History::new(seed, has_commands);
    for _ in 0..steps {
        history.step();
    }
    history
}

#[test]
fn every_history_ends_with_all_slots_served_once_all_is_healed() {
    run_histories(|seed, steps| {
        let mut history = history(seed, steps, false);
        history.mend();
        history.check_agreement();
    });
}

#[test]
fn no_command_of_a_client_breaks_a_view() {
    run_histories(|seed, steps| history(seed, steps, true).mend());
}

#[test]
fn the_same_history_has_the_same_end() {
    let end = |seed| format!("{:?}", history(seed, 200, true).cluster);
    assert_eq!(end(7), end(7));
    assert_ne!(end(7), end(8));
}
