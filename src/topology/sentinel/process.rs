//! One sentinel: its epoch, its settings, and the masters that it monitors.

use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::instance::KnownSentinel;
use crate::topology::sentinel::master::MonitoredMaster;
use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::settings::{GlobalSettings, Periods};
use crate::topology::sentinel::world::SentinelWorld;

#[derive(Clone, Debug)]
pub(super) struct SentinelProcess {
    pub(super) node: NodeNumber,
    pub(super) id: String,
    pub(super) current_epoch: u64,
    pub(super) masters: Vec<MonitoredMaster>,
    /// Time since which the sentinel does not act, as its own process was paused.
    pub(super) tilt_since_ms: Option<u64>,
    pub(super) failures: SimulatedFailures,
    pub(super) settings: GlobalSettings,
    pub(super) periods: Periods,
}

/// Points of a failover at which a sentinel ends itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SimulatedFailures {
    pub(super) after_election: bool,
    pub(super) after_promotion: bool,
}

impl SimulatedFailures {
    /// Returns the bits that INFO shows.
    pub(super) fn flags(self) -> u8 {
        u8::from(self.after_election) | u8::from(self.after_promotion) << 1
    }
}

impl SentinelProcess {
    pub(super) fn new(node: NodeNumber, id: String) -> Self {
        SentinelProcess {
            node,
            id,
            current_epoch: 0,
            masters: Vec::new(),
            tilt_since_ms: None,
            failures: SimulatedFailures::default(),
            settings: GlobalSettings::default(),
            periods: Periods::default(),
        }
    }

    /// Returns the place that the sentinel announces.
    pub(super) fn announced_place(&self) -> Place {
        let (host, port) = (self.settings.announce_ip.clone(), self.settings.announce_port);
        Place::announced(self.node, host.filter(|host| !host.is_empty()), Some(port).filter(|port| *port != 0))
    }

    pub(super) fn master_index(&self, name: &str) -> Option<usize> {
        self.masters.iter().position(|master| master.name == name)
    }

    /// Adopts a greater epoch; events name a master.
    pub(super) fn adopt_epoch(&mut self, epoch: u64, world: &mut SentinelWorld) {
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            world.emit(self.node, "+new-epoch", None, Detail::Text(epoch.to_string()));
        }
    }

    /// Starts the process anew, with what its configuration file has.
    pub(super) fn restart(&mut self, world: &mut SentinelWorld) {
        self.tilt_since_ms = None;
        self.failures = SimulatedFailures::default();
        self.periods = Periods::default();
        for master in &mut self.masters {
            master.restart(world);
        }
    }

    /// Enters TILT mode if the process was paused for too long since the given time.
    pub(super) fn resume(&mut self, paused_since_ms: u64, world: &mut SentinelWorld) {
        if world.now_ms.saturating_sub(paused_since_ms) > self.periods.tilt_trigger {
            self.tilt_since_ms = Some(world.now_ms);
            world.emit(self.node, "+tilt", None, Detail::Text("#tilt mode entered".to_owned()));
        }
    }

    /// Leaves TILT mode when its time is over; returns true if the sentinel acts.
    pub(super) fn acts(&mut self, world: &mut SentinelWorld) -> bool {
        let Some(since_ms) = self.tilt_since_ms else { return true };
        if world.now_ms < since_ms.saturating_add(self.periods.tilt_period) {
            return false;
        }
        self.end_tilt(world);
        true
    }

    pub(super) fn end_tilt(&mut self, world: &mut SentinelWorld) {
        if self.tilt_since_ms.take().is_some() {
            world.emit(self.node, "-tilt", None, Detail::Text("#tilt mode exited".to_owned()));
        }
    }

    /// Brings all links up to date.
    pub(super) fn update_links(&mut self, world: &SentinelWorld) {
        let node = self.node;
        for master in &mut self.masters {
            master.data.update_link(node, world);
            for replica in &mut master.replicas {
                replica.data.update_link(node, world);
            }
            for sentinel in &mut master.sentinels {
                sentinel.base.update_link(node, world);
            }
        }
    }
}

impl MonitoredMaster {
    /// Forgets all that is not in the configuration file.
    fn restart(&mut self, world: &mut SentinelWorld) {
        let (former, present) = (self.place().clone(), self.present_place().clone());
        let replicas: Vec<Place> = self.replicas.iter().map(|replica| replica.data.base.place.clone()).collect();
        let sentinels = std::mem::take(&mut self.sentinels);
        self.reset(present.clone(), world);
        self.failover.epoch = 0;
        for place in replicas {
            self.add_replica(if place == present { former.clone() } else { place }, world);
        }
        for known in sentinels {
            self.sentinels.push(KnownSentinel::new(known.base.place, known.id, self.watcher, world));
        }
        let quorum = Detail::Text(format!("quorum {}", self.settings.quorum));
        world.emit(self.watcher, "+monitor", self.subject(), quorum);
    }
}
