//! A master as one sentinel monitors it: settings, instances, and the failover that this sentinel attempts.

use crate::topology::sentinel::event::{Detail, Subject, SubjectKind};
use crate::topology::sentinel::instance::{DataInstance, KnownSentinel, ReportedRole};
use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::world::SentinelWorld;

/// Settings of a master, which SENTINEL SET changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MasterSettings {
    pub(super) quorum: u64,
    pub(super) down_after_ms: u64,
    pub(super) failover_timeout_ms: u64,
    pub(super) parallel_syncs: u64,
    pub(super) auth_user: Option<String>,
    pub(super) auth_pass: Option<String>,
    pub(super) renamed_commands: Vec<(String, String)>,
    pub(super) reboot_down_after_ms: u64,
}

impl MasterSettings {
    pub(super) fn new(quorum: u64, down_after_ms: u64, failover_timeout_ms: u64) -> Self {
        MasterSettings {
            quorum,
            down_after_ms: down_after_ms.max(1),
            failover_timeout_ms: failover_timeout_ms.max(1),
            parallel_syncs: 1,
            auth_user: None,
            auth_pass: None,
            renamed_commands: Vec::new(),
            reboot_down_after_ms: 0,
        }
    }
}

/// Stage of a failover, in the order in which they are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailoverPhase {
    WaitStart,
    SelectReplica,
    SendReplicaOf,
    WaitPromotion,
    ReconfReplicas,
    UpdateConfig,
}

impl FailoverPhase {
    /// Returns the name of the stage in SENTINEL MASTER.
    pub(super) fn name(self) -> &'static str {
        match self {
            FailoverPhase::WaitStart => "wait_start",
            FailoverPhase::SelectReplica => "select_slave",
            FailoverPhase::SendReplicaOf => "send_slaveof_noone",
            FailoverPhase::WaitPromotion => "wait_promotion",
            FailoverPhase::ReconfReplicas => "reconf_slaves",
            FailoverPhase::UpdateConfig => "update_config",
        }
    }
}

/// The failover that a sentinel attempts, and the last attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct FailoverProgress {
    /// `None` if no failover is in progress.
    pub(super) stage: Option<FailoverPhase>,
    pub(super) stage_since_ms: u64,
    pub(super) epoch: u64,
    /// Time of the last attempt, or of the last vote for another sentinel.
    pub(super) started_ms: Option<u64>,
    /// True if a client has asked for it, so that no election is needed.
    pub(super) is_forced: bool,
    /// The replica that the operator has chosen.
    pub(super) target: Option<NodeNumber>,
    pub(super) promoted: Option<Place>,
}

impl FailoverProgress {
    pub(super) fn enter(&mut self, stage: FailoverPhase, now_ms: u64) {
        self.stage = Some(stage);
        self.stage_since_ms = now_ms;
    }
}

/// Progress of a replica that is to follow the promoted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reconf {
    #[default]
    None,
    Sent {
        at_ms: u64,
    },
    InProgress,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct MonitoredReplica {
    pub(super) data: DataInstance,
    pub(super) reconf: Reconf,
}

#[derive(Clone, Debug)]
pub(super) struct MonitoredMaster {
    /// The sentinel that monitors it.
    pub(super) watcher: NodeNumber,
    pub(super) name: String,
    pub(super) settings: MasterSettings,
    pub(super) data: DataInstance,
    pub(super) replicas: Vec<MonitoredReplica>,
    pub(super) sentinels: Vec<KnownSentinel>,
    pub(super) config_epoch: u64,
    pub(super) o_down_since_ms: Option<u64>,
    /// The sentinel that the watcher has voted for, by id.
    pub(super) vote: Option<String>,
    pub(super) vote_epoch: u64,
    pub(super) failover: FailoverProgress,
}

impl MonitoredMaster {
    pub(super) fn new(
        watcher: NodeNumber,
        name: String,
        place: Place,
        settings: MasterSettings,
        world: &SentinelWorld,
    ) -> Self {
        MonitoredMaster {
            watcher,
            name,
            settings,
            data: DataInstance::new(place, ReportedRole::Master, watcher, world),
            replicas: Vec::new(),
            sentinels: Vec::new(),
            config_epoch: 0,
            o_down_since_ms: None,
            vote: None,
            vote_epoch: 0,
            failover: FailoverProgress::default(),
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.data.base.place
    }

    /// Returns the place that clients are told: that of the promoted replica, once that is a master.
    pub(super) fn present_place(&self) -> &Place {
        let is_switched = self.failover.stage >= Some(FailoverPhase::ReconfReplicas);
        self.failover.promoted.as_ref().filter(|_| is_switched).unwrap_or(self.place())
    }

    pub(super) fn subject(&self) -> Subject {
        self.subject_of(SubjectKind::Master, self.place())
    }

    pub(super) fn replica_subject(&self, replica: &MonitoredReplica) -> Subject {
        self.subject_of(SubjectKind::Replica, &replica.data.base.place)
    }

    pub(super) fn sentinel_subject(&self, sentinel: &KnownSentinel) -> Subject {
        self.subject_of(SubjectKind::Sentinel(sentinel.id.clone()), &sentinel.base.place)
    }

    fn subject_of(&self, kind: SubjectKind, place: &Place) -> Subject {
        let (master_name, master_place) = (self.name.clone(), self.place().clone());
        Subject { kind, place: place.clone(), master_name, master_place }
    }

    /// Publishes an event about the master.
    pub(super) fn emit(&self, world: &mut SentinelWorld, channel: &'static str) {
        world.emit(self.watcher, channel, self.subject(), Detail::None);
    }

    /// Publishes an event about a replica.
    pub(super) fn emit_replica(&self, world: &mut SentinelWorld, channel: &'static str, replica: &MonitoredReplica) {
        world.emit(self.watcher, channel, self.replica_subject(replica), Detail::None);
    }

    pub(super) fn is_promoted(&self, replica: &MonitoredReplica) -> bool {
        self.failover.promoted.as_ref() == Some(&replica.data.base.place)
    }

    /// Returns the index of the promoted replica.
    pub(super) fn promoted(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| self.is_promoted(replica))
    }

    pub(super) fn sentinel_by_id(&self, id: &str) -> Option<usize> {
        self.sentinels.iter().position(|sentinel| sentinel.id == id)
    }

    /// Returns the nodes that are believed to be down.
    pub(super) fn down_nodes(&self) -> impl Iterator<Item = NodeNumber> {
        let replicas = self.replicas.iter().map(|replica| &replica.data.base);
        let bases = replicas.chain(self.sentinels.iter().map(|sentinel| &sentinel.base)).chain([&self.data.base]);
        bases.filter(|base| base.is_s_down()).filter_map(|base| base.place.node)
    }

    /// Adds a replica, unless it is known; returns its index if it is new.
    pub(super) fn add_replica(&mut self, place: Place, world: &SentinelWorld) -> Option<usize> {
        if self.replicas.iter().any(|replica| replica.data.base.place == place) {
            return None;
        }
        let data = DataInstance::new(place, ReportedRole::Replica, self.watcher, world);
        self.replicas.push(MonitoredReplica { data, reconf: Reconf::None });
        Some(self.replicas.len() - 1)
    }

    /// Adds a replica that is not known yet, and publishes that.
    pub(super) fn discover_replica(&mut self, place: Place, world: &mut SentinelWorld) {
        if let Some(index) = self.add_replica(place, world) {
            self.emit_replica(world, "+slave", &self.replicas[index]);
        }
    }

    /// Forgets the replicas and the state, and monitors a place.
    pub(super) fn reset(&mut self, place: Place, world: &SentinelWorld) {
        self.data = DataInstance::new(place, ReportedRole::Master, self.watcher, world);
        self.replicas.clear();
        self.o_down_since_ms = None;
        self.vote = None;
        self.failover = FailoverProgress { epoch: self.failover.epoch, ..FailoverProgress::default() };
    }

    /// Monitors another place than clients were told before, with all others as replicas.
    pub(super) fn switch(&mut self, from: Place, to: Place, world: &mut SentinelWorld) {
        let detail = Detail::Switch { name: self.name.clone(), from, to: to.clone() };
        world.emit(self.watcher, "+switch-master", None, detail);
        let mut places: Vec<Place> = self.replicas.iter().map(|replica| replica.data.base.place.clone()).collect();
        places.push(self.place().clone());
        places.retain(|place| *place != to);
        self.reset(to, world);
        for place in places {
            self.discover_replica(place, world);
        }
    }
}
