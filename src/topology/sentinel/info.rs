//! Reading of INFO from masters and replicas, and the corrections that follow from it.

use crate::topology::sentinel::event::{Detail, Subject};
use crate::topology::sentinel::instance::{DataInstance, ReportedRole};
use crate::topology::sentinel::master::{FailoverPhase, MonitoredMaster, Reconf};
use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Extent of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InfoReading {
    /// INFO that is read at once: of nodes just reached, and of replicas during a failover.
    Urgent,
    /// INFO of all nodes, with the corrections of their roles.
    Periodic,
}

/// Number of hello messages that a sentinel awaits before it makes a new master a replica again.
const HELLOS_BEFORE_CONVERSION: u64 = 4;

impl SentinelProcess {
    /// Reads INFO of the nodes that are reached.
    pub(super) fn read_infos(&mut self, reading: InfoReading, world: &mut SentinelWorld) {
        for index in 0..self.masters.len() {
            if reading == InfoReading::Periodic || self.masters[index].data.needs_info {
                self.masters[index].read_own_info(world);
            }
            for replica in 0..self.masters[index].replicas.len() {
                if reading == InfoReading::Periodic || self.masters[index].is_urgent(replica) {
                    self.read_replica_info(index, replica, reading, world);
                }
                if !world.is_up(self.node) {
                    return;
                }
            }
        }
    }

    /// Notes the positions that the replicas which are reached have come to.
    pub(super) fn note_offsets(&mut self, world: &SentinelWorld) {
        for replica in self.masters.iter_mut().flat_map(|master| &mut master.replicas) {
            let data = replica.data.readable(world).and_then(|node| world.data(node));
            if let (Some(data), Some(info)) = (data, &mut replica.data.info) {
                info.offset = data.offset;
            }
        }
    }

    fn read_replica_info(&mut self, index: usize, replica: usize, reading: InfoReading, world: &mut SentinelWorld) {
        let wait_ms = self.periods.publish.saturating_mul(HELLOS_BEFORE_CONVERSION);
        let master = &mut self.masters[index];
        let Some(node) = master.replicas[replica].data.readable(world) else { return };
        master.note_replica(replica, node, wait_ms, world);
        if self.tilt_since_ms.is_some() {
            return;
        }
        if master.has_promoted(replica) {
            self.finish_promotion(index, replica, world);
        } else if reading == InfoReading::Periodic {
            master.correct(replica, node, wait_ms, world);
        }
        self.masters[index].follow_up(replica, node, world);
    }

    /// Takes note that the promoted replica has become a master.
    fn finish_promotion(&mut self, index: usize, replica: usize, world: &mut SentinelWorld) {
        let master = &mut self.masters[index];
        master.config_epoch = master.failover.epoch;
        master.failover.enter(FailoverPhase::ReconfReplicas, world.now_ms);
        master.emit_replica(world, "+promoted-slave", &master.replicas[replica]);
        if self.failures.after_promotion {
            return world.crash(self.node);
        }
        master.emit(world, "+failover-state-reconf-slaves");
    }
}

impl MonitoredMaster {
    /// Returns true if INFO of a replica is read at once.
    fn is_urgent(&self, replica: usize) -> bool {
        let is_hurried = self.o_down_since_ms.is_some() || self.failover.stage.is_some();
        is_hurried || self.replicas[replica].data.needs_info
    }

    /// Reads INFO of the master itself, which names its replicas.
    fn read_own_info(&mut self, world: &mut SentinelWorld) {
        let Some(node) = self.data.readable(world) else { return };
        let subject = self.subject();
        self.data.note_process(node, &subject, self.watcher, world);
        let replicas: Vec<NodeNumber> = world.linked_replicas(node).collect();
        for replica in replicas {
            self.discover_replica(Place::node(replica), world);
        }
        self.data.note_role(node, ReportedRole::Master, &subject, self.watcher, world);
        self.data.note_info(node, world);
    }

    /// Notes the figures of a replica, and when a difference from the configuration is to be corrected.
    fn note_replica(&mut self, index: usize, node: NodeNumber, wait_ms: u64, world: &mut SentinelWorld) {
        let (watcher, timeout_ms) = (self.watcher, self.settings.failover_timeout_ms);
        let subject = self.replica_subject(&self.replicas[index]);
        let data = &mut self.replicas[index].data;
        let (is_first, primary) = (data.needs_info, data.primary());
        data.note_process(node, &subject, watcher, world);
        let has_new_role = data.note_role(node, ReportedRole::Replica, &subject, watcher, world);
        data.note_info(node, world);
        let is_replica = data.reported == ReportedRole::Replica;
        if is_first {
            data.fix_due_ms = world.now_ms;
        } else if is_replica && (has_new_role || data.primary() != primary) {
            data.fix_due_ms = world.now_ms.saturating_add(timeout_ms);
        } else if has_new_role {
            data.fix_due_ms = world.now_ms.saturating_add(wait_ms);
        }
    }

    /// Returns true if the replica is the one whose promotion is awaited, and is a master now.
    fn has_promoted(&self, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        replica.data.reported == ReportedRole::Master
            && self.failover.stage == Some(FailoverPhase::WaitPromotion)
            && self.is_promoted(replica)
    }

    /// Returns true if the master is up, and a master in its own view too.
    fn is_sane(&self) -> bool {
        let is_down = self.data.base.is_s_down() || self.o_down_since_ms.is_some();
        let is_read = self.data.base.is_linked() && !self.data.needs_info;
        self.data.reported == ReportedRole::Master && is_read && !is_down
    }

    /// Returns the channel of the event by which a replica is corrected, if it differs from the configuration.
    pub(super) fn needed_correction(&self, replica: usize) -> Option<&'static str> {
        let replica = &self.replicas[replica];
        if !self.is_sane() || !replica.data.base.is_linked() || replica.data.needs_info {
            return None;
        }
        match replica.data.reported {
            ReportedRole::Master => (!self.is_promoted(replica)).then_some("+convert-to-slave"),
            ReportedRole::Replica => (replica.data.primary() != self.place().node).then_some("+fix-slave-config"),
        }
    }

    /// Makes a node a replica of the master, if it is not and the time has come.
    fn correct(&mut self, index: usize, node: NodeNumber, wait_ms: u64, world: &mut SentinelWorld) {
        let Some(channel) = self.needed_correction(index) else { return };
        let Some(primary) = self.place().node.filter(|primary| *primary != node) else { return };
        if world.now_ms < self.replicas[index].data.fix_due_ms {
            return;
        }
        self.replicas[index].data.fix_due_ms = world.now_ms.saturating_add(wait_ms);
        world.follow(node, primary);
        self.emit_replica(world, channel, &self.replicas[index]);
    }

    /// Moves a replica forward that was told to follow the promoted one.
    fn follow_up(&mut self, index: usize, node: NodeNumber, world: &mut SentinelWorld) {
        let promoted = self.failover.promoted.as_ref().and_then(|place| place.node);
        let replica = &self.replicas[index];
        if replica.data.reported == ReportedRole::Master {
            return;
        }
        if matches!(replica.reconf, Reconf::Sent { .. }) && promoted.is_some() && replica.data.primary() == promoted {
            self.replicas[index].reconf = Reconf::InProgress;
            self.emit_replica(world, "+slave-reconf-inprog", &self.replicas[index]);
        }
        if self.replicas[index].reconf == Reconf::InProgress && world.is_linked(node) {
            self.replicas[index].reconf = Reconf::Done;
            self.emit_replica(world, "+slave-reconf-done", &self.replicas[index]);
        }
    }
}

impl DataInstance {
    /// Notes the id of the process.
    fn note_process(&mut self, node: NodeNumber, subject: &Subject, watcher: NodeNumber, world: &mut SentinelWorld) {
        let Some(process) = world.process(node) else { return };
        if self.base.run_id.as_ref() == Some(&process.run_id) {
            return;
        }
        if self.base.run_id.replace(process.run_id.clone()).is_some() {
            world.emit(watcher, "+reboot", subject.clone(), Detail::None);
        }
    }

    /// Notes the role, of which one is expected; returns true if it is another one than before.
    fn note_role(
        &mut self,
        node: NodeNumber,
        expected: ReportedRole,
        subject: &Subject,
        watcher: NodeNumber,
        world: &mut SentinelWorld,
    ) -> bool {
        let Some(data) = world.data(node) else { return false };
        let role = if data.primary.is_some() { ReportedRole::Replica } else { ReportedRole::Master };
        if role == self.reported {
            return false;
        }
        self.reported = role;
        self.reported_ms = world.now_ms;
        let channel = if role == expected { "+role-change" } else { "-role-change" };
        let detail = Detail::Text(format!("new reported role is {}", role.name()));
        world.emit(watcher, channel, subject.clone(), detail);
        true
    }
}
