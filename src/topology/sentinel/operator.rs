//! Failover on the operator's command, TEST.SENTINEL FAILOVER: at once, and known to all sentinels that are up.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::fault_error::FaultError;
use crate::topology::sentinel::master::{FailoverPhase, MonitoredMaster};
use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::world::{NodeState, TopologyRole};

/// A sentinel and one of its masters, by index, and the node that is the master.
struct Leader {
    sentinel: usize,
    master: usize,
    former: Option<NodeNumber>,
}

impl Sentinels {
    /// Promotes a replica, the best one if none is given, and demotes the master; returns the promoted node. All
    /// sentinels that are up know of it afterwards, on both sides of a partition.
    ///
    /// # Errors
    /// If the node is no replica that is up, or no sentinel can do it.
    pub(crate) fn failover(&mut self, target: Option<NodeNumber>, now_ms: u64) -> Result<NodeNumber, FaultError> {
        self.advance(now_ms);
        if let Some(target) = target {
            self.expect_data(target)?;
            self.expect_state(target, &[NodeState::Up])?;
        }
        for _ in 0..self.sentinels.len() {
            let leader = self.leader(target)?;
            self.begin_forced(&leader, target);
            self.settle();
            let master = &self.sentinels[leader.sentinel].masters[leader.master];
            if let Some(promoted) = master.present_place().node.filter(|node| Some(*node) != leader.former) {
                self.tell_all(leader.sentinel);
                self.settle();
                self.demote(leader.former, promoted);
                return Ok(promoted);
            }
            // The sentinel has simulated a failure, so that another one is to try.
        }
        Err(FaultError::NoGoodReplica(self.master_name.clone()))
    }

    /// Returns the lowest-numbered sentinel that can promote the node, or any replica.
    fn leader(&self, target: Option<NodeNumber>) -> Result<Leader, FaultError> {
        let mut error = FaultError::NotMonitored(self.master_name.clone());
        for (sentinel, process) in self.sentinels.iter().enumerate() {
            let Some(master) = process.master_index(&self.master_name) else { continue };
            if !self.world.is_up(process.node) {
                continue;
            }
            match self.obstacle(&process.masters[master], target) {
                None => return Ok(Leader { sentinel, master, former: process.masters[master].place().node }),
                Some(obstacle) => error = obstacle,
            }
        }
        Err(error)
    }

    /// Returns the reason why a sentinel cannot promote the node, or any replica, of its master.
    fn obstacle(&self, master: &MonitoredMaster, target: Option<NodeNumber>) -> Option<FaultError> {
        if master.failover.stage > Some(FailoverPhase::WaitStart) {
            return Some(FaultError::InProgress(master.name.clone()));
        }
        let Some(target) = target else {
            let has_replica = master.best_replica(&self.world).is_some();
            return (!has_replica).then(|| FaultError::NoGoodReplica(master.name.clone()));
        };
        if master.place().node == Some(target) {
            return Some(FaultError::IsMaster(target));
        }
        let mut replicas = master.replicas.iter();
        let is_reached = replicas.any(|replica| replica.data.readable(&self.world) == Some(target));
        (!is_reached).then_some(FaultError::NotReached(target))
    }

    /// Begins a failover that needs no election, in place of an attempt that waits for one.
    fn begin_forced(&mut self, leader: &Leader, target: Option<NodeNumber>) {
        let sentinel = &mut self.sentinels[leader.sentinel];
        sentinel.end_tilt(&mut self.world);
        if sentinel.masters[leader.master].failover.stage.is_some() {
            sentinel.masters[leader.master].abort("-failover-abort-not-elected", &mut self.world);
        }
        self.start_forced_failover(leader.sentinel, leader.master, target);
    }

    /// Tells all sentinels that are up of a sentinel's configuration, across partitions.
    fn tell_all(&mut self, from: usize) {
        for to in 0..self.sentinels.len() {
            if from != to && self.world.is_up(self.sentinels[to].node) {
                self.deliver_hellos(from, to, true);
            }
        }
    }

    /// Makes the former master a replica if its process is up, and no sentinel has done so.
    fn demote(&mut self, former: Option<NodeNumber>, promoted: NodeNumber) {
        let former =
            former.filter(|former| self.world.is_up(*former) && self.role(*former) == Some(TopologyRole::Master));
        if let Some(former) = former {
            self.world.follow(former, promoted);
            self.settle();
        }
    }
}
