//! The passage of time: all that the sentinels do at one instant, and when the next of it is due.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::info::InfoReading;
use crate::topology::sentinel::master::{FailoverPhase, MonitoredMaster, Reconf};
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Limit on the rounds of one instant, which ends a history that would not come to rest.
const ROUND_MAX: usize = 1000;

impl Sentinels {
    /// Performs all that is due up to a time, each at its own time.
    pub(super) fn advance(&mut self, now_ms: u64) {
        while let Some(due_ms) = self.next_due_ms().filter(|due_ms| *due_ms <= now_ms) {
            self.world.now_ms = due_ms;
            self.settle();
        }
        self.world.now_ms = self.world.now_ms.max(now_ms);
    }

    /// Makes the steps of the sentinels until none has anything to do at this instant. Messages take no time.
    pub(super) fn settle(&mut self) {
        self.world.update_links();
        self.update_links();
        self.exchange_hellos();
        for _ in 0..ROUND_MAX {
            let before = self.world.changes.len();
            self.read_infos(InfoReading::Urgent);
            self.run_timers();
            self.update_links();
            self.exchange_hellos();
            if self.world.changes.len() == before {
                self.read_infos(InfoReading::Periodic);
            }
            if self.world.changes.len() == before {
                return;
            }
        }
    }

    fn update_links(&mut self) {
        for sentinel in self.sentinels.iter_mut().filter(|sentinel| self.world.is_up(sentinel.node)) {
            sentinel.update_links(&self.world);
        }
    }

    fn read_infos(&mut self, reading: InfoReading) {
        for sentinel in &mut self.sentinels {
            if self.world.is_up(sentinel.node) {
                sentinel.read_infos(reading, &mut self.world);
            }
        }
    }

    /// Makes one step of each sentinel that acts. All notice which instances are down before any of them attempts
    /// a failover.
    fn run_timers(&mut self) {
        let mut acting = Vec::new();
        for (index, sentinel) in self.sentinels.iter_mut().enumerate() {
            if self.world.is_up(sentinel.node) && sentinel.acts(&mut self.world) {
                sentinel.check_instances(&mut self.world);
                acting.push(index);
            }
        }
        for index in acting {
            self.run_timer(index);
        }
    }

    /// Makes one step of a sentinel for each master that it monitors.
    fn run_timer(&mut self, index: usize) {
        for master in 0..self.sentinels[index].masters.len() {
            self.ask_others(index, master);
            self.sentinels[index].masters[master].check_quorum(&mut self.world);
            self.sentinels[index].start_failover_if_due(master, &mut self.world);
            self.sentinels[index].step_failover(master, &mut self.world);
            if !self.world.is_up(self.sentinels[index].node) {
                return;
            }
            self.ask_others(index, master);
            self.sentinels[index].masters[master].finish_failover(&mut self.world);
        }
    }

    /// Returns the next time at which something happens by itself.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let sentinels = self.sentinels.iter().filter(|sentinel| self.world.is_up(sentinel.node));
        let dues = sentinels.flat_map(SentinelProcess::dues_ms);
        dues.filter(|due_ms| *due_ms > self.world.now_ms).min()
    }
}

impl SentinelProcess {
    fn check_instances(&mut self, world: &mut SentinelWorld) {
        for master in &mut self.masters {
            master.check_master(self.periods.info, world);
            master.check_others(world);
        }
    }

    /// Returns times at which this sentinel may have something to do; those in the past await something else.
    fn dues_ms(&self) -> Vec<u64> {
        if let Some(since_ms) = self.tilt_since_ms {
            return vec![since_ms.saturating_add(self.periods.tilt_period)];
        }
        let mut dues = Vec::new();
        for master in &self.masters {
            master.add_down_dues(self.periods.info, &mut dues);
            master.add_failover_dues(self.periods.election_timeout, self.periods.reconf_timeout, &mut dues);
        }
        dues
    }
}

impl MonitoredMaster {
    /// Adds times at which instances are believed to be down, or replicas are corrected.
    fn add_down_dues(&self, info_period_ms: u64, dues: &mut Vec<u64>) {
        let replicas = self.replicas.iter().map(|replica| &replica.data.base);
        let bases = replicas.chain(self.sentinels.iter().map(|sentinel| &sentinel.base)).chain([&self.data.base]);
        dues.extend(bases.filter_map(|base| base.s_down_due_ms(self.settings.down_after_ms)));
        dues.extend(self.wrong_role_due_ms(info_period_ms));
        let corrected = (0..self.replicas.len()).filter(|replica| self.needed_correction(*replica).is_some());
        dues.extend(corrected.map(|replica| self.replicas[replica].data.fix_due_ms));
    }

    /// Adds times at which a failover begins, goes on or ends.
    fn add_failover_dues(&self, election_timeout_ms: u64, reconf_timeout_ms: u64, dues: &mut Vec<u64>) {
        match self.failover.stage {
            None => dues.extend(self.start_due_ms()),
            Some(FailoverPhase::WaitStart) => dues.push(self.election_over_ms(election_timeout_ms)),
            Some(_) => dues.push(self.stage_over_ms()),
        }
        let sent = self.replicas.iter().filter_map(|replica| match replica.reconf {
            Reconf::Sent { at_ms } => Some(at_ms.saturating_add(reconf_timeout_ms)),
            _ => None,
        });
        dues.extend(sent);
    }
}
