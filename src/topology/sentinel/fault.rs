//! Faults: processes that end, pause and return, and partitions of the network.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::fault_error::FaultError;
use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::world::NodeState;
use std::collections::BTreeSet;

impl Sentinels {
    /// Ends the process of a node, which keeps its data or its configuration.
    ///
    /// # Errors
    /// If there is no such node, or it is stopped.
    pub(crate) fn stop(&mut self, node: NodeNumber, now_ms: u64) -> Result<(), FaultError> {
        self.advance(now_ms);
        self.expect_state(node, &[NodeState::Up, NodeState::Paused])?;
        self.change_world(now_ms, |topology| topology.world.set_state(node, NodeState::Stopped));
        Ok(())
    }

    /// Starts the process of a stopped node, with the role that it had.
    ///
    /// # Errors
    /// If there is no such node, or it is not stopped.
    pub(crate) fn start(&mut self, node: NodeNumber, now_ms: u64) -> Result<(), FaultError> {
        self.advance(now_ms);
        self.expect_state(node, &[NodeState::Stopped])?;
        self.change_world(now_ms, |topology| {
            topology.world.restart(node);
            if let Some(index) = topology.index(node) {
                topology.sentinels[index].restart(&mut topology.world);
            }
        });
        Ok(())
    }

    /// Halts the process of a node, which neither answers nor acts.
    ///
    /// # Errors
    /// If there is no such node, or it is not up.
    pub(crate) fn pause(&mut self, node: NodeNumber, now_ms: u64) -> Result<(), FaultError> {
        self.advance(now_ms);
        self.expect_state(node, &[NodeState::Up])?;
        self.change_world(now_ms, |topology| topology.world.set_state(node, NodeState::Paused));
        Ok(())
    }

    /// Continues the process of a paused node.
    ///
    /// # Errors
    /// If there is no such node, or it is not paused.
    pub(crate) fn resume(&mut self, node: NodeNumber, now_ms: u64) -> Result<(), FaultError> {
        self.advance(now_ms);
        self.expect_state(node, &[NodeState::Paused])?;
        self.change_world(now_ms, |topology| {
            let since_ms = topology.world.process(node).map_or(0, |process| process.paused_since_ms);
            topology.world.set_state(node, NodeState::Up);
            if let Some(index) = topology.index(node) {
                topology.sentinels[index].resume(since_ms, &mut topology.world);
            }
        });
        Ok(())
    }

    /// Separates nodes from the rest, in place of a former partition.
    ///
    /// # Errors
    /// If there is no such node, or one side has none.
    pub(crate) fn partition(&mut self, nodes: &[NodeNumber], now_ms: u64) -> Result<(), FaultError> {
        self.advance(now_ms);
        let side: BTreeSet<NodeNumber> = nodes.iter().copied().collect();
        if let Some(unknown) = side.iter().find(|node| self.world.process(**node).is_none()) {
            return Err(FaultError::NoNode(*unknown));
        }
        if side.is_empty() || side.len() == self.world.node_count() {
            return Err(FaultError::OneSided);
        }
        self.change_world(now_ms, |topology| topology.world.cut_off(side));
        Ok(())
    }

    /// Ends the partition, if there is one.
    pub(crate) fn heal(&mut self, now_ms: u64) {
        self.change_world(now_ms, |topology| topology.world.cut_off(BTreeSet::new()));
    }

    /// Notes that a client has made a data node the replica of another one, or a master if that is `None`.
    ///
    /// # Errors
    /// If one of the nodes is no data node, or both are the same.
    pub(crate) fn set_primary(
        &mut self,
        node: NodeNumber,
        primary: Option<NodeNumber>,
        now_ms: u64,
    ) -> Result<(), FaultError> {
        self.expect_data(node)?;
        if let Some(primary) = primary {
            self.expect_data(primary)?;
        }
        if primary == Some(node) {
            return Err(FaultError::FollowsItself(node));
        }
        self.change_world(now_ms, |topology| topology.world.set_primary(node, primary));
        Ok(())
    }

    /// Changes the world after all that is due has happened, and lets the sentinels act.
    pub(super) fn change_world(&mut self, now_ms: u64, change: impl FnOnce(&mut Self)) {
        self.advance(now_ms);
        change(self);
        self.settle();
    }

    pub(super) fn expect_state(&self, node: NodeNumber, states: &[NodeState]) -> Result<(), FaultError> {
        let state = self.state(node).ok_or(FaultError::NoNode(node))?;
        if states.contains(&state) { Ok(()) } else { Err(FaultError::Is(node, state)) }
    }

    pub(super) fn expect_data(&self, node: NodeNumber) -> Result<NodeNumber, FaultError> {
        self.state(node).ok_or(FaultError::NoNode(node))?;
        self.world.data(node).map(|_| node).ok_or(FaultError::IsSentinel(node))
    }
}
