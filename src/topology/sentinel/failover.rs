//! Stages of a failover, as the sentinel that attempts it passes them.

use std::cmp::Reverse;

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::instance::ReceivedInfo;
use crate::topology::sentinel::master::{FailoverPhase, MonitoredMaster, MonitoredReplica, Reconf};
use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Multiple of the time after which a master is down, for which a replica's link may have been down before that.
const LINK_DOWN_FACTOR: u64 = 10;

/// Minimum time between two attempts of a failover.
const ATTEMPT_PAUSE_MIN_MS: u64 = 1000;

impl Sentinels {
    /// Begins a failover that needs no election, in an epoch that no sentinel has seen.
    pub(super) fn start_forced_failover(&mut self, sentinel: usize, master: usize, target: Option<NodeNumber>) {
        let epochs = self.sentinels.iter().map(|sentinel| sentinel.current_epoch);
        self.world.forced_epoch = epochs.fold(self.world.forced_epoch, u64::max);
        self.sentinels[sentinel].start_failover(master, &mut self.world);
        self.world.forced_epoch = self.sentinels[sentinel].current_epoch;
        let failover = &mut self.sentinels[sentinel].masters[master].failover;
        failover.is_forced = true;
        failover.target = target;
    }
}

impl SentinelProcess {
    /// Begins a failover if a quorum believes that the master is down, and the last attempt is long enough ago.
    pub(super) fn start_failover_if_due(&mut self, index: usize, world: &mut SentinelWorld) {
        if self.masters[index].start_due_ms().is_some_and(|due_ms| due_ms <= world.now_ms) {
            self.start_failover(index, world);
        }
    }

    /// Begins a failover, in an epoch of its own.
    pub(super) fn start_failover(&mut self, index: usize, world: &mut SentinelWorld) {
        self.current_epoch = self.current_epoch.max(world.forced_epoch).saturating_add(1);
        let epoch = self.current_epoch;
        let failover = &mut self.masters[index].failover;
        failover.enter(FailoverPhase::WaitStart, world.now_ms);
        failover.epoch = epoch;
        failover.started_ms = Some(world.now_ms);
        world.emit(self.node, "+new-epoch", None, Detail::Text(epoch.to_string()));
        self.masters[index].emit(world, "+try-failover");
    }

    /// Makes the next step of a failover, if one is in progress.
    pub(super) fn step_failover(&mut self, index: usize, world: &mut SentinelWorld) {
        let reconf_timeout_ms = self.periods.reconf_timeout;
        let master = &mut self.masters[index];
        match master.failover.stage {
            Some(FailoverPhase::WaitStart) => self.await_election(index, world),
            Some(FailoverPhase::SelectReplica) => master.select_replica(world),
            Some(FailoverPhase::SendReplicaOf) => master.send_promotion(world),
            Some(FailoverPhase::WaitPromotion) => master.await_promotion(world),
            Some(FailoverPhase::ReconfReplicas) => master.reconfigure_next(reconf_timeout_ms, world),
            Some(FailoverPhase::UpdateConfig) | None => {}
        }
    }

    fn await_election(&mut self, index: usize, world: &mut SentinelWorld) {
        let is_elected = self.is_elected(index, world);
        let election_timeout_ms = self.periods.election_timeout;
        let master = &mut self.masters[index];
        if is_elected || master.failover.is_forced {
            master.emit(world, "+elected-leader");
            if self.failures.after_election {
                return world.crash(self.node);
            }
            master.failover.enter(FailoverPhase::SelectReplica, world.now_ms);
            master.emit(world, "+failover-state-select-slave");
        } else if master.election_over_ms(election_timeout_ms) <= world.now_ms {
            master.abort("-failover-abort-not-elected", world);
        }
    }
}

impl MonitoredMaster {
    /// Returns the time from which on a failover may begin, if the master is down and none is in progress.
    pub(super) fn start_due_ms(&self) -> Option<u64> {
        let pause_ms = self.settings.failover_timeout_ms.saturating_mul(2).max(ATTEMPT_PAUSE_MIN_MS);
        let due_ms = self.failover.started_ms.map_or(0, |started_ms| started_ms.saturating_add(pause_ms));
        (self.o_down_since_ms.is_some() && self.failover.stage.is_none()).then_some(due_ms)
    }

    /// Returns the time at which an attempt without a majority ends.
    pub(super) fn election_over_ms(&self, election_timeout_ms: u64) -> u64 {
        let wait_ms = election_timeout_ms.min(self.settings.failover_timeout_ms);
        self.failover.started_ms.unwrap_or_default().saturating_add(wait_ms)
    }

    /// Returns the time at which the present stage has lasted for the timeout.
    pub(super) fn stage_over_ms(&self) -> u64 {
        self.failover.stage_since_ms.saturating_add(self.settings.failover_timeout_ms)
    }

    /// Ends a failover whose replica is not promoted yet.
    pub(super) fn abort(&mut self, channel: &'static str, world: &mut SentinelWorld) {
        self.emit(world, channel);
        let failover = &mut self.failover;
        failover.stage = None;
        failover.stage_since_ms = world.now_ms;
        failover.is_forced = false;
        failover.target = None;
        failover.promoted = None;
    }

    fn select_replica(&mut self, world: &mut SentinelWorld) {
        let Some(index) = self.best_replica(world) else {
            return self.abort("-failover-abort-no-good-slave", world);
        };
        let replica = &self.replicas[index];
        self.emit_replica(world, "+selected-slave", replica);
        self.failover.promoted = Some(replica.data.base.place.clone());
        self.failover.enter(FailoverPhase::SendReplicaOf, world.now_ms);
        self.emit_replica(world, "+failover-state-send-slaveof-noone", &self.replicas[index]);
    }

    /// Returns the index of the replica that is to be promoted: the one that the operator has chosen, or that of the
    /// lowest priority, then of the greatest offset, then of the lowest number.
    pub(super) fn best_replica(&self, world: &SentinelWorld) -> Option<usize> {
        let key = |(index, info): &(usize, &ReceivedInfo)| {
            (info.priority, Reverse(info.offset), self.replicas[*index].data.base.place.node)
        };
        let candidates = self.replicas.iter().enumerate();
        let candidates = candidates.filter_map(|(index, replica)| Some((index, self.promotable(replica, world)?)));
        candidates.min_by_key(key).map(|(index, _)| index)
    }

    /// Returns the figures of a replica that may be promoted.
    fn promotable<'r>(&self, replica: &'r MonitoredReplica, world: &SentinelWorld) -> Option<&'r ReceivedInfo> {
        let data = &replica.data;
        let is_usable = data.base.is_linked() && !data.base.is_s_down() && !data.needs_info;
        let info = data.info.as_ref().filter(|_| is_usable)?;
        let is_eligible = match self.failover.target {
            Some(target) => data.base.place.node == Some(target),
            None => info.priority > 0 && info.link_down_ms <= self.link_down_max_ms(world.now_ms),
        };
        is_eligible.then_some(info)
    }

    /// Returns for how long the link of a replica may be down if it is to be promoted.
    fn link_down_max_ms(&self, now_ms: u64) -> u64 {
        let down_ms = self.data.base.s_down_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        self.settings.down_after_ms.saturating_mul(LINK_DOWN_FACTOR).saturating_add(down_ms)
    }

    /// Returns the promoted replica's node, if it is reached.
    fn reachable_promoted(&self, world: &SentinelWorld) -> Option<NodeNumber> {
        let node = self.failover.promoted.as_ref()?.node?;
        world.reaches(self.watcher, node).then_some(node)
    }

    fn send_promotion(&mut self, world: &mut SentinelWorld) {
        let Some(node) = self.reachable_promoted(world) else { return self.await_promotion(world) };
        world.promote(node);
        if let Some(index) = self.promoted() {
            self.emit_replica(world, "+failover-state-wait-promotion", &self.replicas[index]);
        }
        self.failover.enter(FailoverPhase::WaitPromotion, world.now_ms);
    }

    fn await_promotion(&mut self, world: &mut SentinelWorld) {
        if self.stage_over_ms() <= world.now_ms {
            self.abort("-failover-abort-slave-timeout", world);
        }
    }

    /// Tells further replicas to follow the promoted one, as many at a time as may synchronise.
    fn reconfigure_next(&mut self, reconf_timeout_ms: u64, world: &mut SentinelWorld) {
        let is_busy = |replica: &&MonitoredReplica| matches!(replica.reconf, Reconf::Sent { .. } | Reconf::InProgress);
        let mut busy = self.replicas.iter().filter(is_busy).count() as u64;
        for index in 0..self.replicas.len() {
            if busy >= self.settings.parallel_syncs {
                break;
            }
            if self.is_promoted(&self.replicas[index]) {
                continue;
            }
            self.give_up_reconfiguration(index, reconf_timeout_ms, world);
            if self.replicas[index].reconf == Reconf::None && self.send_reconfiguration(index, world) {
                self.emit_replica(world, "+slave-reconf-sent", &self.replicas[index]);
                busy += 1;
            }
        }
        self.detect_end(world);
    }

    /// Counts a replica as reconfigured that has not followed for too long.
    fn give_up_reconfiguration(&mut self, index: usize, timeout_ms: u64, world: &mut SentinelWorld) {
        let Reconf::Sent { at_ms } = self.replicas[index].reconf else { return };
        if at_ms.saturating_add(timeout_ms) <= world.now_ms {
            self.emit_replica(world, "-slave-reconf-sent-timeout", &self.replicas[index]);
            self.replicas[index].reconf = Reconf::Done;
        }
    }

    /// Tells a replica to follow the promoted one; returns true if both are there.
    fn send_reconfiguration(&mut self, index: usize, world: &mut SentinelWorld) -> bool {
        let promoted = self.failover.promoted.as_ref().and_then(|place| place.node);
        let node = self.replicas[index].data.readable(world);
        let (Some(node), Some(promoted)) = (node, promoted) else { return false };
        world.follow(node, promoted);
        self.replicas[index].reconf = Reconf::Sent { at_ms: world.now_ms };
        true
    }

    /// Ends the failover when all replicas that are up follow, or at the timeout.
    fn detect_end(&mut self, world: &mut SentinelWorld) {
        let Some(promoted) = self.promoted().filter(|index| !self.replicas[*index].data.base.is_s_down()) else {
            return;
        };
        let is_over = self.stage_over_ms() <= world.now_ms;
        if is_over {
            self.emit(world, "+failover-end-for-timeout");
        }
        let is_behind = |(index, replica): (usize, &MonitoredReplica)| {
            index != promoted && replica.reconf != Reconf::Done && !replica.data.base.is_s_down()
        };
        if is_over || !self.replicas.iter().enumerate().any(is_behind) {
            self.emit(world, "+failover-end");
            self.failover.enter(FailoverPhase::UpdateConfig, world.now_ms);
        }
        if is_over {
            self.reconfigure_rest(promoted, world);
        }
    }

    /// Tells all remaining replicas to follow the promoted one.
    fn reconfigure_rest(&mut self, promoted: usize, world: &mut SentinelWorld) {
        for index in 0..self.replicas.len() {
            let is_told = matches!(self.replicas[index].reconf, Reconf::Sent { .. } | Reconf::Done);
            if index != promoted && !is_told && self.send_reconfiguration(index, world) {
                self.emit_replica(world, "+slave-reconf-sent-be", &self.replicas[index]);
            }
        }
    }

    /// Monitors the promoted replica in place of the former master, once the failover has ended.
    pub(super) fn finish_failover(&mut self, world: &mut SentinelWorld) {
        if self.failover.stage == Some(FailoverPhase::UpdateConfig) {
            self.switch(self.place().clone(), self.present_place().clone(), world);
        }
    }
}
