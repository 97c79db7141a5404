//! Belief that instances are down: subjective of one sentinel, objective of a quorum.

use crate::topology::sentinel::event::{Detail, Subject};
use crate::topology::sentinel::instance::{ReportedRole, WatchedInstance};
use crate::topology::sentinel::master::MonitoredMaster;
use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::world::SentinelWorld;

impl WatchedInstance {
    /// Notes if the instance is down in the sentinel's view.
    fn set_s_down(&mut self, is_down: bool, subject: Subject, watcher: NodeNumber, world: &mut SentinelWorld) {
        if is_down == self.is_s_down() {
            return;
        }
        self.s_down_since_ms = is_down.then_some(world.now_ms);
        world.emit(watcher, if is_down { "+sdown" } else { "-sdown" }, subject, Detail::None);
    }

    /// Returns the time from which on the instance, which does not answer, is down.
    pub(super) fn s_down_due_ms(&self, down_after_ms: u64) -> Option<u64> {
        self.silent_since_ms().map(|since_ms| since_ms.saturating_add(down_after_ms))
    }
}

impl MonitoredMaster {
    /// Returns the time from which on the master is down as it reports another role.
    pub(super) fn wrong_role_due_ms(&self, info_period_ms: u64) -> Option<u64> {
        let wait_ms = self.settings.down_after_ms.saturating_add(info_period_ms.saturating_mul(2));
        let is_wrong = self.data.reported == ReportedRole::Replica;
        is_wrong.then(|| self.data.reported_ms.saturating_add(wait_ms))
    }

    /// Checks if the master is down.
    pub(super) fn check_master(&mut self, info_period_ms: u64, world: &mut SentinelWorld) {
        let is_over = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= world.now_ms);
        let is_silent = is_over(self.data.base.s_down_due_ms(self.settings.down_after_ms));
        let is_down = is_silent || is_over(self.wrong_role_due_ms(info_period_ms));
        let subject = self.subject();
        self.data.base.set_s_down(is_down, subject, self.watcher, world);
    }

    /// Checks which replicas and sentinels are down.
    pub(super) fn check_others(&mut self, world: &mut SentinelWorld) {
        let (down_after_ms, now_ms) = (self.settings.down_after_ms, world.now_ms);
        let is_down = |base: &WatchedInstance| base.s_down_due_ms(down_after_ms).is_some_and(|due_ms| due_ms <= now_ms);
        for index in 0..self.replicas.len() {
            let subject = self.replica_subject(&self.replicas[index]);
            let base = &mut self.replicas[index].data.base;
            base.set_s_down(is_down(base), subject, self.watcher, world);
        }
        for index in 0..self.sentinels.len() {
            let subject = self.sentinel_subject(&self.sentinels[index]);
            let base = &mut self.sentinels[index].base;
            base.set_s_down(is_down(base), subject, self.watcher, world);
        }
    }

    /// Checks if a quorum of the sentinels believes that the master is down.
    pub(super) fn check_quorum(&mut self, world: &mut SentinelWorld) {
        let agreeing = 1 + self.sentinels.iter().filter(|sentinel| sentinel.says_down).count() as u64;
        let is_down = self.data.base.is_s_down() && agreeing >= self.settings.quorum;
        if is_down == self.o_down_since_ms.is_some() {
            return;
        }
        self.o_down_since_ms = is_down.then_some(world.now_ms);
        if is_down {
            let detail = Detail::Text(format!("#quorum {agreeing}/{}", self.settings.quorum));
            world.emit(self.watcher, "+odown", self.subject(), detail);
        } else {
            self.emit(world, "-odown");
        }
    }
}
