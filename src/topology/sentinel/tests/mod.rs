//! Histories of a topology with a master, 0, two replicas, 1 and 2, and three sentinels, 3 to 5, told as scripts.

mod commands;
mod failover;
mod faults;
mod formats;
mod histories;
mod monitoring;

use super::command::{CachedGroup, SentinelView};
use super::event::{Detail, SentinelEvent};
use super::vote::DownReply;
use super::*;

fn plan(replicas: usize, sentinels: usize, quorum: u64) -> SentinelPlan {
    SentinelPlan { replicas, sentinels, quorum, ..SentinelPlan::default() }
}

fn addresses(node: NodeNumber) -> (String, u16) {
    ("127.0.0.1".to_owned(), 7000 + node as u16)
}

struct Story {
    topology: Sentinels,
    now_ms: u64,
}

impl Story {
    fn new(plan: &SentinelPlan) -> Self {
        Story { topology: Sentinels::new("t", plan, 0), now_ms: 0 }
    }

    /// Creates the usual topology, and plays a script without regard to what follows from it.
    fn after(script: &str) -> Self {
        let mut story = Story::new(&SentinelPlan::default());
        story.play(script);
        story
    }

    /// Plays steps that are separated by `;`, and returns the changes, written short.
    fn play(&mut self, script: &str) -> Vec<String> {
        for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
            assert_eq!(self.step(step), Ok(()), "{step}");
        }
        self.topology.take_changes().iter().map(short).collect()
    }

    fn step(&mut self, step: &str) -> Result<(), FaultError> {
        let mut words = step.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        let (topology, now_ms) = (&mut self.topology, self.now_ms);
        match (verb, &numbers[..]) {
            ("stop", [node]) => topology.stop(*node, now_ms),
            ("start", [node]) => topology.start(*node, now_ms),
            ("pause", [node]) => topology.pause(*node, now_ms),
            ("resume", [node]) => topology.resume(*node, now_ms),
            ("partition", nodes) => topology.partition(nodes, now_ms),
            ("heal", []) => {
                topology.heal(now_ms);
                Ok(())
            }
            ("force", [sentinel]) => {
                let _ = topology.force_failover(*sentinel, "mymaster", now_ms);
                Ok(())
            }
            ("failover", target) => topology.failover(target.first().copied(), now_ms).map(|_| ()),
            ("priority", [node, priority]) => topology.set_priority(*node, *priority as u32, now_ms),
            ("promote", [node]) => topology.set_primary(*node, None, now_ms),
            ("follow", [node, of]) => topology.set_primary(*node, Some(*of), now_ms),
            ("offsets", offsets) => {
                let offsets: Vec<u64> = offsets.iter().map(|offset| *offset as u64).collect();
                topology.tick(now_ms, &offsets);
                Ok(())
            }
            ("advance", [ms]) => {
                self.now_ms += *ms as u64;
                topology.tick(self.now_ms, &[]);
                Ok(())
            }
            _ => panic!("{step} is no step"),
        }
    }

    /// Plays a script, and returns the changes as clients see them.
    fn play_in_full(&mut self, script: &str) -> Vec<String> {
        for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
            assert_eq!(self.step(step), Ok(()), "{step}");
        }
        let full = |change: &SentinelChange| match change {
            SentinelChange::SentinelEvent(event) => published(event, &addresses),
            change => short(change),
        };
        self.topology.take_changes().iter().map(full).collect()
    }

    fn set(&mut self, sentinel: NodeNumber, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(self.topology.set(sentinel, "mymaster", &words, self.now_ms), Ok(()), "{words:?}");
    }

    fn view(&self, sentinel: NodeNumber) -> SentinelView<'_> {
        self.topology.sentinel(sentinel).expect("the node is a sentinel")
    }

    /// Returns the nodes that the sentinels take for the master.
    fn masters(&self) -> Vec<Option<NodeNumber>> {
        let first = self.topology.world.data_count();
        (first..self.topology.node_count()).map(|sentinel| self.view(sentinel).master_node("mymaster")).collect()
    }

    /// Returns the roles of the data nodes: `M`, or the number of the primary.
    fn roles(&self) -> String {
        let role = |node| match self.topology.role(node) {
            Some(TopologyRole::Replica { of }) => of.to_string(),
            _ => "M".to_owned(),
        };
        (0..self.topology.world.data_count()).map(role).collect::<Vec<String>>().join(" ")
    }

    fn id(&self, sentinel: NodeNumber) -> String {
        self.view(sentinel).id().to_owned()
    }
}

/// Writes a change with numbers of nodes in place of addresses and ids.
fn short(change: &SentinelChange) -> String {
    match change {
        SentinelChange::Promoted { node } => format!("{node} is promoted"),
        SentinelChange::Follows { node, primary } => format!("{node} follows {primary}"),
        SentinelChange::Crashed { sentinel } => format!("{sentinel} crashes"),
        SentinelChange::SentinelEvent(event) => short_event(event),
    }
}

fn short_event(event: &SentinelEvent) -> String {
    let subject = event.subject.as_ref().map(|subject| number(&subject.place));
    let detail = match &event.detail {
        Detail::Text(text) if event.channel == "+vote-for-leader" => {
            text.split(' ').next_back().map(|epoch| format!("in {epoch}"))
        }
        Detail::Text(text) => Some(text.clone()),
        Detail::Switch { from, to, .. } => Some(format!("{} to {}", number(from), number(to))),
        Detail::None | Detail::Announced { .. } => None,
    };
    let words = [Some(event.sentinel.to_string()), Some(event.channel.to_owned()), subject, detail];
    words.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

/// Writes an event as clients see it.
fn published(event: &SentinelEvent, addresses: &dyn Addresses) -> String {
    format!("{} {} {}", event.sentinel, event.channel, event.message(addresses))
}

fn number(place: &Place) -> String {
    place.node.map_or_else(|| "elsewhere".to_owned(), |node| node.to_string())
}

/// Compares lines with expected ones, of which each may have spaces around it.
fn assert_lines(lines: &[String], expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}
