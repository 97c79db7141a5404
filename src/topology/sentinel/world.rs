//! The nodes of the topology: processes, roles, reachability, and the changes that sentinels have made.

use std::collections::BTreeSet;

use crate::topology::sentinel::event::{Detail, SentinelChange, SentinelEvent, Subject};
use crate::topology::sentinel::place::NodeNumber;

/// State of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    Up,
    Stopped,
    Paused,
}

impl NodeState {
    /// Returns the word for the state in TEST.SENTINEL NODES.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeState::Up => "up",
            NodeState::Stopped => "stopped",
            NodeState::Paused => "paused",
        }
    }
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopologyRole {
    Master,
    Replica { of: NodeNumber },
    Sentinel,
}

impl TopologyRole {
    /// Returns the word for the role in TEST.SENTINEL NODES.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TopologyRole::Master => "master",
            TopologyRole::Replica { .. } => "replica",
            TopologyRole::Sentinel => "sentinel",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct SimulatedProcess {
    pub(super) state: NodeState,
    /// Id of the process, which is another one after each start.
    pub(super) run_id: String,
    starts: u32,
    pub(super) paused_since_ms: u64,
}

/// Data node: the master or a replica.
#[derive(Clone, Debug)]
pub(super) struct DataNode {
    /// The node that it replicates; `None` in a master.
    pub(super) primary: Option<NodeNumber>,
    pub(super) priority: u32,
    pub(super) offset: u64,
    /// Time since which the link to its primary is down.
    link_down_since_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct SentinelWorld {
    name: String,
    pub(super) now_ms: u64,
    processes: Vec<SimulatedProcess>,
    data: Vec<DataNode>,
    /// Nodes that the rest cannot reach.
    cut_off: BTreeSet<NodeNumber>,
    /// The greatest epoch of a failover without an election. Elections have greater ones, so that no two failovers
    /// share an epoch.
    pub(super) forced_epoch: u64,
    pub(super) changes: Vec<SentinelChange>,
}

const DEFAULT_PRIORITY: u32 = 100;

impl SentinelWorld {
    pub(super) fn new(name: &str, replica_count: usize, sentinel_count: usize, now_ms: u64) -> Self {
        let process = |node| SimulatedProcess {
            state: NodeState::Up,
            run_id: hex_id(&format!("{name}/{node}/0")),
            starts: 0,
            paused_since_ms: 0,
        };
        let data_node = |node| DataNode {
            primary: (node > 0).then_some(0),
            priority: DEFAULT_PRIORITY,
            offset: 0,
            link_down_since_ms: None,
        };
        SentinelWorld {
            name: name.to_owned(),
            now_ms,
            processes: (0..1 + replica_count + sentinel_count).map(process).collect(),
            data: (0..1 + replica_count).map(data_node).collect(),
            cut_off: BTreeSet::new(),
            forced_epoch: 0,
            changes: Vec::new(),
        }
    }

    pub(super) fn node_count(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn data_count(&self) -> usize {
        self.data.len()
    }

    pub(super) fn process(&self, node: NodeNumber) -> Option<&SimulatedProcess> {
        self.processes.get(node)
    }

    pub(super) fn is_up(&self, node: NodeNumber) -> bool {
        self.process(node).is_some_and(|process| process.state == NodeState::Up)
    }

    pub(super) fn data(&self, node: NodeNumber) -> Option<&DataNode> {
        self.data.get(node)
    }

    pub(super) fn data_mut(&mut self, node: NodeNumber) -> Option<&mut DataNode> {
        self.data.get_mut(node)
    }

    pub(super) fn role(&self, node: NodeNumber) -> Option<TopologyRole> {
        self.process(node)?;
        Some(match self.data(node) {
            None => TopologyRole::Sentinel,
            Some(data) => data.primary.map_or(TopologyRole::Master, |of| TopologyRole::Replica { of }),
        })
    }

    /// Returns an id that is the same for all processes of a node.
    pub(super) fn node_id(&self, node: NodeNumber) -> String {
        hex_id(&format!("{}/{node}", self.name))
    }

    /// Returns true if both nodes are up, and no partition is between them.
    pub(super) fn reaches(&self, a: NodeNumber, b: NodeNumber) -> bool {
        self.is_up(a) && self.is_up(b) && self.cut_off.contains(&a) == self.cut_off.contains(&b)
    }

    /// Separates nodes from the rest, in place of those that were separated before.
    pub(super) fn cut_off(&mut self, nodes: BTreeSet<NodeNumber>) {
        self.cut_off = nodes;
    }

    pub(super) fn set_state(&mut self, node: NodeNumber, state: NodeState) {
        let now_ms = self.now_ms;
        if let Some(process) = self.processes.get_mut(node) {
            process.state = state;
            process.paused_since_ms = now_ms;
        }
    }

    /// Starts the process of a node anew.
    pub(super) fn restart(&mut self, node: NodeNumber) {
        let name = &self.name;
        if let Some(process) = self.processes.get_mut(node) {
            process.state = NodeState::Up;
            process.starts += 1;
            process.run_id = hex_id(&format!("{name}/{node}/{}", process.starts));
        }
    }

    /// Returns true if a data node is a replica whose link to its primary is up.
    pub(super) fn is_linked(&self, node: NodeNumber) -> bool {
        let primary = self.data(node).and_then(|data| data.primary);
        primary.is_some_and(|primary| self.reaches(node, primary))
    }

    /// Returns for how long the link of a replica to its primary has been down, in whole seconds, as INFO has it.
    pub(super) fn link_down_ms(&self, node: NodeNumber) -> u64 {
        let since_ms = self.data(node).and_then(|data| data.link_down_since_ms);
        since_ms.map_or(0, |since_ms| self.now_ms.saturating_sub(since_ms) / 1000 * 1000)
    }

    /// Notes since when links of replicas are down.
    pub(super) fn update_links(&mut self) {
        for node in 0..self.data.len() {
            let is_fine = self.data[node].primary.is_none() || self.is_linked(node);
            let since_ms = self.data[node].link_down_since_ms.unwrap_or(self.now_ms);
            self.data[node].link_down_since_ms = (!is_fine).then_some(since_ms);
        }
    }

    /// Returns the replicas that a data node lists in INFO.
    pub(super) fn linked_replicas(&self, primary: NodeNumber) -> impl Iterator<Item = NodeNumber> {
        let follows = move |node: &NodeNumber| self.data[*node].primary == Some(primary) && self.is_linked(*node);
        (0..self.data.len()).filter(follows)
    }

    /// Makes a data node a master, unless it is one.
    pub(super) fn promote(&mut self, node: NodeNumber) {
        if self.data(node).is_some_and(|data| data.primary.is_some()) {
            self.set_primary(node, None);
            self.changes.push(SentinelChange::Promoted { node });
        }
    }

    /// Makes a data node a replica of another one, unless it is one.
    pub(super) fn follow(&mut self, node: NodeNumber, primary: NodeNumber) {
        if self.data(node).is_some_and(|data| data.primary != Some(primary)) {
            self.set_primary(node, Some(primary));
            self.changes.push(SentinelChange::Follows { node, primary });
        }
    }

    /// Sets the primary of a data node without a change for the caller.
    pub(super) fn set_primary(&mut self, node: NodeNumber, primary: Option<NodeNumber>) {
        if let Some(data) = self.data.get_mut(node) {
            data.primary = primary;
            data.link_down_since_ms = None;
        }
        self.update_links();
    }

    /// Ends a sentinel that simulates a failure.
    pub(super) fn crash(&mut self, sentinel: NodeNumber) {
        self.set_state(sentinel, NodeState::Stopped);
        self.changes.push(SentinelChange::Crashed { sentinel });
    }

    pub(super) fn emit(
        &mut self,
        sentinel: NodeNumber,
        channel: &'static str,
        subject: impl Into<Option<Subject>>,
        detail: Detail,
    ) {
        self.changes
            .push(SentinelChange::SentinelEvent(Box::new(SentinelEvent::new(sentinel, channel, subject, detail))));
    }
}

/// Returns forty hexadecimal digits that depend on a text alone.
fn hex_id(text: &str) -> String {
    let fnv = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let word = |index: u64| {
        let mixed = fnv.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    format!("{:016x}{:016x}{:08x}", word(1), word(2), word(3) >> 32)
}
