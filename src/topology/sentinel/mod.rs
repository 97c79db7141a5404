//! Sentinels of a simulated topology: when masters are believed to be down, who fails them over, and to whom.
//!
//! One pure state machine: events and the time are arguments, changes are results; no sockets, no threads, no clock, no
//! randomness. Nodes are numbers; addresses are filled in when texts are written ([`Addresses`]). Each sentinel has a
//! state of its own, which follows Redis 7.0's `sentinel.c`, with two differences: messages between nodes take no time,
//! so that all that follows from an event happens at the instant of that event, and timers have no random part, so that
//! the lowest-numbered sentinel that can win an election does.
//!
//! The owner calls [`Sentinels::tick`] before it asks a sentinel, and applies [`Sentinels::take_changes`] after each
//! call that takes the time.
//!
//! Invariants: no two failovers have the same epoch of the configuration, unless SENTINEL RESET has made a sentinel
//! forget others; a node is promoted only by an elected sentinel, by a client's SENTINEL FAILOVER, or by the operator;
//! the same history gives the same changes.

mod command;
mod down;
mod event;
mod failover;
mod fault;
mod fault_error;
mod hello;
mod info;
mod instance;
mod master;
mod operator;
mod place;
mod process;
mod settings;
mod settle;
#[cfg(test)]
mod tests;
mod vote;
mod world;

pub(crate) use command::{CachedInfo, DownRequest, FAILURE_NAMES, HELP, MonitorRequest, ReplyFields, SentinelError};
pub(crate) use event::SentinelChange;
pub(crate) use fault_error::FaultError;
pub(crate) use place::{Addresses, NodeNumber};
pub(crate) use world::{NodeState, TopologyRole};

use std::collections::BTreeSet;

use instance::KnownSentinel;
use master::{MasterSettings, MonitoredMaster};
use place::Place;
use process::SentinelProcess;
use world::SentinelWorld;

/// Maximum number of sentinels: what they tell each other grows with its third power, and a test waits for it.
pub(crate) const SENTINELS_MAX: usize = 100;

/// Size and settings of a topology with sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentinelPlan {
    pub(crate) replicas: usize,
    pub(crate) sentinels: usize,
    pub(crate) quorum: u64,
    pub(crate) master_name: String,
    pub(crate) down_after_ms: u64,
    pub(crate) failover_timeout_ms: u64,
}

/// A master, its replicas, and the sentinels that monitor them.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    master_name: String,
    world: SentinelWorld,
    sentinels: Vec<SentinelProcess>,
}

impl Sentinels {
    /// Creates a topology in which all nodes are up, and all sentinels know of all nodes.
    pub(crate) fn new(name: &str, plan: &SentinelPlan, now_ms: u64) -> Self {
        let world = SentinelWorld::new(name, plan.replicas, plan.sentinels, now_ms);
        let nodes = world.data_count()..world.node_count();
        let ids: Vec<(NodeNumber, String)> = nodes.map(|node| (node, world.node_id(node))).collect();
        let sentinel = |(node, id): &(NodeNumber, String)| {
            let mut sentinel = SentinelProcess::new(*node, id.clone());
            let others = ids.iter().filter(|(other, _)| other != node);
            sentinel.masters.push(plan.monitored(*node, others, &world));
            sentinel
        };
        let sentinels = ids.iter().map(sentinel).collect();
        let mut topology = Sentinels { master_name: plan.master_name.clone(), world, sentinels };
        topology.settle();
        topology.world.changes.clear();
        topology
    }

    /// Returns the changes since the last call, in their order.
    pub(crate) fn take_changes(&mut self) -> Vec<SentinelChange> {
        std::mem::take(&mut self.world.changes)
    }

    /// Notes the positions that the data nodes have reached in their logs, by number, and does all that is due up to a
    /// time.
    pub(crate) fn tick(&mut self, now_ms: u64, offsets: &[u64]) {
        for (node, offset) in offsets.iter().enumerate() {
            if let Some(data) = self.world.data_mut(node) {
                data.offset = *offset;
            }
        }
        for sentinel in self.sentinels.iter_mut().filter(|sentinel| self.world.is_up(sentinel.node)) {
            sentinel.note_offsets(&self.world);
        }
        self.advance(now_ms);
    }

    /// Sets the priority of a data node in elections; 0 if it is never to be promoted.
    ///
    /// # Errors
    /// If there is no such node, or it is a sentinel.
    pub(crate) fn set_priority(&mut self, node: NodeNumber, priority: u32, now_ms: u64) -> Result<(), FaultError> {
        self.expect_data(node)?;
        self.change_world(now_ms, |topology| {
            if let Some(data) = topology.world.data_mut(node) {
                data.priority = priority;
            }
        });
        Ok(())
    }

    /// Returns the number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.world.node_count()
    }

    /// Returns the role of a node; `None` if there is no such node. So do the functions below.
    pub(crate) fn role(&self, node: NodeNumber) -> Option<TopologyRole> {
        self.world.role(node)
    }

    /// Returns the state of a node's process.
    pub(crate) fn state(&self, node: NodeNumber) -> Option<NodeState> {
        self.world.process(node).map(|process| process.state)
    }

    /// Returns true if there are both nodes, they are up, and no partition is between them.
    pub(crate) fn reaches(&self, a: NodeNumber, b: NodeNumber) -> bool {
        self.world.reaches(a, b)
    }

    /// Returns the id of a node's process, which sentinels read in INFO.
    pub(crate) fn run_id(&self, node: NodeNumber) -> Option<&str> {
        self.world.process(node).map(|process| process.run_id.as_str())
    }

    /// Returns the nodes that a sentinel believes to be down, in the order of their numbers.
    pub(crate) fn believed_down(&self, sentinel: NodeNumber) -> Vec<NodeNumber> {
        let masters = self.index(sentinel).map(|index| &self.sentinels[index].masters);
        let down = masters.into_iter().flatten().flat_map(MonitoredMaster::down_nodes);
        down.collect::<BTreeSet<NodeNumber>>().into_iter().collect()
    }

    /// Returns true if a majority of the sentinels believes that a node is down.
    pub(crate) fn is_believed_down(&self, node: NodeNumber) -> bool {
        let sentinels = self.world.data_count()..self.world.node_count();
        let believers = sentinels
            .clone()
            .filter(|sentinel| self.world.is_up(*sentinel) && self.believed_down(*sentinel).contains(&node));
        believers.count() > sentinels.len() / 2
    }

    /// Returns the index of the sentinel that is a node.
    fn index(&self, node: NodeNumber) -> Option<usize> {
        node.checked_sub(self.world.data_count()).filter(|index| *index < self.sentinels.len())
    }
}

impl Default for SentinelPlan {
    fn default() -> Self {
        SentinelPlan {
            replicas: 2,
            sentinels: 3,
            quorum: 2,
            master_name: "mymaster".to_owned(),
            down_after_ms: 30_000,
            failover_timeout_ms: 180_000,
        }
    }
}

impl SentinelPlan {
    /// Returns the master as a sentinel monitors it at the beginning.
    fn monitored<'a>(
        &self,
        watcher: NodeNumber,
        others: impl Iterator<Item = &'a (NodeNumber, String)>,
        world: &SentinelWorld,
    ) -> MonitoredMaster {
        let settings = MasterSettings::new(self.quorum, self.down_after_ms, self.failover_timeout_ms);
        let mut master = MonitoredMaster::new(watcher, self.master_name.clone(), Place::node(0), settings, world);
        for replica in 1..world.data_count() {
            master.add_replica(Place::node(replica), world);
        }
        let known =
            |(node, id): &(NodeNumber, String)| KnownSentinel::new(Place::node(*node), id.clone(), watcher, world);
        master.sentinels.extend(others.map(known));
        master
    }
}
