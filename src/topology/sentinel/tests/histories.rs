//! Random histories against the invariants of the state machine.

use std::collections::BTreeMap;

use super::*;

const HISTORIES: u64 = 600;
const STEPS: usize = 40;

/// A pseudo-random sequence, the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

/// A history and the facts that were seen in it.
struct History {
    dice: Dice,
    story: Story,
    changes: Vec<SentinelChange>,
    /// The master of each configuration epoch.
    masters: BTreeMap<u64, Place>,
    is_forced: bool,
    /// True if a client has asked a sentinel for a failover, which may be done later.
    was_forced: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let sentinels = [1, 3, 3, 3, 4, 5][dice.below(6)];
        let quorum = 1 + dice.below(sentinels) as u64;
        let story = Story::new(&plan(1 + dice.below(4), sentinels, quorum));
        let masters = BTreeMap::from([(0, Place::node(0))]);
        History { dice, story, changes: Vec::new(), masters, is_forced: false, was_forced: false }
    }

    /// Makes a random step, which may be impossible, and checks the invariants.
    fn step(&mut self) {
        let count = self.story.topology.node_count();
        let (node, other) = (self.dice.below(count), self.dice.below(count));
        let ms = [1, 500, 5000, 30_000, 60_000, 400_000][self.dice.below(6)];
        let replicas = self.story.topology.world.data_count();
        let (data, other_data) = (node % replicas, other % replicas);
        let step = match self.dice.below(23) {
            0..=2 => format!("stop {node}"),
            3..=5 => format!("start {node}"),
            6 => format!("pause {node}"),
            7 | 8 => format!("resume {node}"),
            9 => format!("partition {node} {other}"),
            10 | 11 => "heal".to_owned(),
            12 if self.dice.below(3) == 0 => format!("failover {data}"),
            12 => "failover".to_owned(),
            13 => format!("priority {data} {other}"),
            14 => format!("offsets {node} {other} {} {}", node + other, node * other),
            15 => format!("promote {data}"),
            16 => format!("follow {data} {other_data}"),
            17 => format!("force {}", replicas + node),
            _ => format!("advance {ms}"),
        };
        self.is_forced = step.starts_with("failover");
        self.was_forced |= step.starts_with("force");
        let _ = self.story.step(&step);
        self.check();
    }

    fn play(&mut self, step: &str) {
        self.is_forced = false;
        let _ = self.story.step(step);
        self.check();
    }

    fn check(&mut self) {
        let changes = self.story.topology.take_changes();
        for change in &changes {
            match change {
                SentinelChange::Promoted { node } => self.check_promotion(*node),
                SentinelChange::Follows { node, primary } => assert_ne!(node, primary),
                SentinelChange::Crashed { .. } => unreachable!("nobody has asked for it"),
                SentinelChange::SentinelEvent(_) => {}
            }
        }
        self.changes.extend(changes);
        for master in self.story.topology.sentinels.iter().map(|sentinel| &sentinel.masters[0]) {
            let place = master.present_place();
            let first = self.masters.entry(master.config_epoch).or_insert_with(|| place.clone());
            assert_eq!(first, place, "two masters in epoch {}", master.config_epoch);
        }
        let mut at_rest = self.story.topology.clone();
        at_rest.settle();
        assert_eq!(at_rest.take_changes(), [], "something is left to do");
        let due_ms = self.story.topology.next_due_ms();
        assert!(due_ms.is_none_or(|due_ms| due_ms > self.story.now_ms), "{due_ms:?}");
    }

    /// Checks that a majority of the sentinels, or the operator, has promoted a node that is up.
    fn check_promotion(&self, node: NodeNumber) {
        let topology = &self.story.topology;
        let sentinels = topology.world.data_count()..topology.node_count();
        let reaching = sentinels.clone().filter(|sentinel| topology.reaches(*sentinel, node)).count();
        assert!(topology.world.is_up(node) && reaching > 0);
        assert!(
            self.is_forced || self.was_forced || reaching > sentinels.len() / 2,
            "{reaching} of {} sentinels",
            sentinels.len()
        );
    }

    /// Repairs all faults, and waits until all timeouts are over.
    fn repair(&mut self) {
        self.play("heal");
        for node in 0..self.story.topology.node_count() {
            self.play(&format!("start {node}"));
            self.play(&format!("resume {node}"));
        }
        for node in 0..self.story.topology.world.data_count() {
            self.play(&format!("priority {node} 100"));
        }
        self.play("advance 2000000");
    }
}

fn played(seed: u64) -> History {
    let mut history = History::new(seed);
    (0..STEPS).for_each(|_| history.step());
    history
}

#[test]
fn all_agree_on_a_master_that_is_up_once_all_is_repaired() {
    for seed in 0..HISTORIES {
        let mut history = played(seed);
        history.repair();
        let story = &history.story;
        let masters = story.masters();
        let master = masters[0].expect("the master is a node");
        assert!(masters.iter().all(|other| *other == Some(master)), "seed {seed}: {masters:?} {}", story.roles());
        for node in 0..story.topology.world.data_count() {
            let role = if node == master { TopologyRole::Master } else { TopologyRole::Replica { of: master } };
            assert_eq!(story.topology.role(node), Some(role), "seed {seed}: {}", story.roles());
        }
        for sentinel in &story.topology.sentinels {
            assert!(story.topology.believed_down(sentinel.node).is_empty(), "seed {seed}");
        }
        assert_eq!(story.topology.next_due_ms(), None, "seed {seed}");
    }
}

#[test]
fn the_same_history_has_the_same_outcome() {
    for seed in 0..HISTORIES / 10 {
        assert_eq!(played(seed).changes, played(seed).changes, "seed {seed}");
    }
}

#[test]
fn small_steps_of_time_lead_where_great_ones_do() {
    for seed in 0..HISTORIES / 10 {
        let (mut great, mut small) = (played(seed), played(seed));
        great.play("advance 400000");
        for _ in 0..400 {
            small.play("advance 1000");
        }
        assert_eq!(great.changes, small.changes, "seed {seed}");
        assert_eq!(great.story.topology.next_due_ms(), small.story.topology.next_due_ms(), "seed {seed}");
    }
}

#[test]
fn most_histories_have_failovers() {
    let promotions = |seed| {
        let changes = played(seed).changes;
        changes.iter().filter(|change| matches!(change, SentinelChange::Promoted { .. })).count()
    };
    let with_promotions = (0..100).filter(|seed| promotions(*seed) > 0).count();
    assert!(with_promotions > 60, "{with_promotions}");
}

/// Gives a sentinel a command whose arguments may be wrong.
fn command(story: &mut Story, dice: &mut Dice) {
    let node = dice.below(story.topology.node_count() + 1);
    let texts = ["mymaster", "x", "", "*", "127.0.0.1", "7000", "7001", "7003", "0", "1", "9223372036854775807", "-1"];
    let mut text = || texts[dice.below(texts.len())];
    let (a, b, c, d) = (text(), text(), text(), text());
    let (topology, now_ms) = (&mut story.topology, story.now_ms);
    let options = ["quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs", "rename-command"];
    let periods = ["info-period", "tilt-trigger", "tilt-period", "election-timeout", "ping-period", "publish-period"];
    match dice.below(11) {
        0 => drop(topology.reset(node, &|name| name == a, now_ms)),
        1 => {
            let request = MonitorRequest { name: a, host: "127.0.0.1", port: b, quorum: c };
            drop(topology.monitor(node, &request, &addresses, now_ms));
        }
        2 => drop(topology.remove(node, a, now_ms)),
        3 | 4 => drop(topology.set(node, "mymaster", &[options[dice.below(5)], b, c], now_ms)),
        5 => drop(topology.set_config(node, ["announce-ip", "announce-port"][dice.below(2)], b, now_ms)),
        6 => drop(topology.set_debug(node, &[periods[dice.below(6)], b], now_ms)),
        7 => {
            let request = DownRequest { host: "127.0.0.1", port: b, epoch: c, candidate: d };
            drop(topology.is_master_down(node, &request, &addresses, now_ms));
        }
        8 => drop(topology.simulate_failure(node, &["crash-after-election", "crash-after-promotion"][dice.below(2)..])),
        9 => {
            let hello = format!("{a},{b},{c},{d},mymaster,127.0.0.1,{b},{c}");
            drop(topology.publish(node, "__sentinel__:hello", &hello, &addresses, now_ms));
        }
        _ => drop(topology.force_failover(node, a, now_ms)),
    }
}

/// Asks a sentinel for all that it tells.
fn ask(story: &Story, node: NodeNumber) {
    let Some(view) = story.topology.sentinel(node) else { return };
    for name in view.master_names() {
        assert!(view.master(name, &addresses).is_ok() && view.replicas(name, &addresses).is_ok());
        assert!(view.sentinels(name, &addresses).is_ok() && view.master_address(name, &addresses).is_some());
        let _ = view.check_quorum(name);
    }
    assert_eq!(view.masters(&addresses).len(), view.info_cache(None).len());
    assert!(view.info(&addresses).starts_with("# Sentinel\r\n"));
}

#[test]
fn no_command_makes_a_topology_restless() {
    for seed in 0..HISTORIES / 3 {
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            command(&mut history.story, &mut history.dice);
            let _ = history.story.step(["stop 1", "start 1", "stop 0", "start 0", "heal"][history.dice.below(5)]);
            let _ = history.story.step(&format!("advance {}", [0, 1, 2000][history.dice.below(3)]));
            ask(&history.story, history.dice.below(8));
            let mut at_rest = history.story.topology.clone();
            at_rest.take_changes();
            at_rest.settle();
            assert_eq!(at_rest.take_changes(), [], "seed {seed}: something is left to do");
        }
        for change in history.story.topology.take_changes() {
            if let SentinelChange::SentinelEvent(event) = change {
                assert!(!published(&event, &addresses).is_empty());
            }
        }
    }
}
