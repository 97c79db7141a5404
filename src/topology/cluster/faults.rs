//! Faults: nodes stop, pause, and are cut off from each other.

use std::collections::BTreeSet;

use crate::topology::cluster::node::{ClusterNode, NodeProcess};
use crate::topology::cluster::{Moment, NodeNumber, TopologyCluster, TopologyError};

impl TopologyCluster {
    /// Ends a node's process, which may be paused.
    pub(crate) fn stop(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.change_process(node, &[NodeProcess::Running, NodeProcess::Paused], NodeProcess::Stopped, moment)
    }

    /// Starts the process of a stopped node, with the data and the view that it had.
    pub(crate) fn start(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.catch_up(moment);
        self.expect_process(node, &[NodeProcess::Stopped])?;
        let started = &mut self.nodes[node];
        started.forgotten.clear();
        started.handshakes.clear();
        for peer in started.peers.values_mut() {
            peer.unreachable_since_ms = None;
        }
        self.change_process(node, &[NodeProcess::Stopped], NodeProcess::Running, moment)
    }

    /// Suspends a node's process, as SIGSTOP does.
    pub(crate) fn pause(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.change_process(node, &[NodeProcess::Running], NodeProcess::Paused, moment)
    }

    /// Resumes a paused process.
    pub(crate) fn resume(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.change_process(node, &[NodeProcess::Paused], NodeProcess::Running, moment)
    }

    /// Cuts nodes off from the rest, in place of those that have been.
    pub(crate) fn partition(&mut self, side: &[NodeNumber], moment: Moment<'_>) -> Result<(), TopologyError> {
        self.catch_up(moment);
        let side: BTreeSet<NodeNumber> = side.iter().copied().collect();
        for node in &side {
            self.existing(*node)?;
        }
        let existing = self.nodes.iter().filter(|node| !node.is_gone()).count();
        if side.is_empty() || side.len() == existing {
            return Err(TopologyError::OneSided);
        }
        for node in &mut self.nodes {
            node.is_cut_off = side.contains(&node.number);
        }
        self.settle(moment);
        Ok(())
    }

    /// Ends the partition, if there is one.
    pub(crate) fn heal(&mut self, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.catch_up(moment);
        for node in &mut self.nodes {
            node.is_cut_off = false;
        }
        self.settle(moment);
        Ok(())
    }

    fn change_process(
        &mut self,
        node: NodeNumber,
        from: &[NodeProcess],
        to: NodeProcess,
        moment: Moment<'_>,
    ) -> Result<(), TopologyError> {
        self.catch_up(moment);
        self.expect_process(node, from)?;
        self.nodes[node].process = to;
        self.changes.reroute(node);
        self.settle(moment);
        Ok(())
    }

    fn expect_process(&self, node: NodeNumber, expected: &[NodeProcess]) -> Result<(), TopologyError> {
        let process = self.existing(node)?.process;
        if expected.contains(&process) { Ok(()) } else { Err(refusal(node, process)) }
    }

    /// Returns a node that has not left.
    pub(super) fn existing(&self, node: NodeNumber) -> Result<&ClusterNode, TopologyError> {
        self.nodes.get(node).filter(|node| !node.is_gone()).ok_or(TopologyError::NoNode(node))
    }

    /// Returns a node whose process is running.
    pub(super) fn running(&self, node: NodeNumber) -> Result<&ClusterNode, TopologyError> {
        self.expect_process(node, &[NodeProcess::Running])?;
        self.existing(node)
    }
}

fn refusal(node: NodeNumber, process: NodeProcess) -> TopologyError {
    match process {
        NodeProcess::Running => TopologyError::IsUp(node),
        NodeProcess::Stopped => TopologyError::IsStopped(node),
        NodeProcess::Paused => TopologyError::IsPaused(node),
        NodeProcess::Removed => TopologyError::NoNode(node),
    }
}
