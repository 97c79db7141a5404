//! Hello messages, by which sentinels learn of each other and of newer configurations.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::instance::KnownSentinel;
use crate::topology::sentinel::master::MonitoredMaster;
use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Message of a sentinel about a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) place: Place,
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) master_name: String,
    pub(super) master_place: Place,
    pub(super) config_epoch: u64,
}

impl Sentinels {
    /// Delivers the messages of all sentinels.
    pub(super) fn exchange_hellos(&mut self) {
        for from in 0..self.sentinels.len() {
            for to in 0..self.sentinels.len() {
                let (a, b) = (self.sentinels[from].node, self.sentinels[to].node);
                if from != to && self.world.reaches(a, b) {
                    self.deliver_hellos(from, to, false);
                }
            }
        }
    }

    /// Delivers the messages of one sentinel to another: all, or those that arrive by the network.
    pub(super) fn deliver_hellos(&mut self, from: usize, to: usize, delivers_all: bool) {
        let (sender, receiver) = (&self.sentinels[from], &self.sentinels[to]);
        let hears = |master: &&MonitoredMaster| delivers_all || receiver.hears(sender, master, &self.world);
        let hellos: Vec<Hello> = sender.masters.iter().filter(hears).map(|master| sender.hello(master)).collect();
        for hello in hellos {
            self.sentinels[to].receive_hello(&hello, &mut self.world);
        }
    }
}

impl SentinelProcess {
    fn hello(&self, master: &MonitoredMaster) -> Hello {
        Hello {
            place: self.announced_place(),
            id: self.id.clone(),
            epoch: self.current_epoch,
            master_name: master.name.clone(),
            master_place: master.present_place().clone(),
            config_epoch: master.config_epoch,
        }
    }

    /// Returns true if messages of another sentinel about a master arrive here: by a data node that both monitor, or
    /// because the other one knows this one.
    fn hears(&self, sender: &SentinelProcess, master: &MonitoredMaster, world: &SentinelWorld) -> bool {
        let Some(own) = self.master_index(&master.name) else { return false };
        let is_heard_at = |node: NodeNumber| world.reaches(sender.node, node) && world.reaches(self.node, node);
        master.sentinel_by_id(&self.id).is_some()
            || master.nodes().any(|node| is_heard_at(node) && self.masters[own].nodes().any(|other| other == node))
    }

    /// Learns of a sentinel, of a greater epoch, or of a newer configuration.
    pub(super) fn receive_hello(&mut self, hello: &Hello, world: &mut SentinelWorld) {
        let Some(index) = self.master_index(&hello.master_name) else { return };
        if hello.id == self.id {
            return;
        }
        self.note_sentinel(index, hello, world);
        self.adopt_epoch(hello.epoch, world);
        let master = &mut self.masters[index];
        if master.config_epoch >= hello.config_epoch {
            return;
        }
        master.config_epoch = hello.config_epoch;
        // While the watcher fails the master over, others may have returned to the master.
        let former = [master.place(), master.present_place()].into_iter().find(|place| **place != hello.master_place);
        if let Some(former) = former.cloned() {
            if let Some(sender) = master.sentinel_by_id(&hello.id) {
                let subject = master.sentinel_subject(&master.sentinels[sender]);
                world.emit(self.node, "+config-update-from", subject, Detail::None);
            }
            master.switch(former, hello.master_place.clone(), world);
        }
    }

    /// Adds the sender of a message to the sentinels of a master, or changes its address.
    fn note_sentinel(&mut self, index: usize, hello: &Hello, world: &mut SentinelWorld) {
        let known = self.masters[index].sentinel_by_id(&hello.id);
        if known.is_some_and(|known| self.masters[index].sentinels[known].base.place == hello.place) {
            return;
        }
        if known.is_some() {
            return self.change_address(index, hello, world);
        }
        let master = &mut self.masters[index];
        master.sentinels.push(KnownSentinel::new(hello.place.clone(), hello.id.clone(), self.node, world));
        if let Some(sentinel) = master.sentinels.last() {
            world.emit(self.node, "+sentinel", master.sentinel_subject(sentinel), Detail::None);
        }
    }

    /// Notes that a sentinel announces another address, for all masters.
    fn change_address(&mut self, index: usize, hello: &Hello, world: &mut SentinelWorld) {
        let detail = Detail::Announced { place: hello.place.clone(), id: hello.id.clone() };
        world.emit(self.node, "+sentinel-address-switch", self.masters[index].subject(), detail);
        let mut count = 0;
        for master in &mut self.masters {
            if let Some(known) = master.sentinel_by_id(&hello.id) {
                master.sentinels[known].base.place = hello.place.clone();
                count += 1;
            }
        }
        let master = &self.masters[index];
        if let Some(known) = master.sentinel_by_id(&hello.id).filter(|_| count > 1) {
            let subject = master.sentinel_subject(&master.sentinels[known]);
            let detail = Detail::Text(format!("{} additional matching instances", count - 1));
            world.emit(self.node, "+sentinel-address-update", subject, detail);
        }
    }
}

impl MonitoredMaster {
    /// Returns the data nodes of which the sentinel has the addresses.
    fn nodes(&self) -> impl Iterator<Item = NodeNumber> {
        let replicas = self.replicas.iter().filter_map(|replica| replica.data.base.place.node);
        self.place().node.into_iter().chain(replicas)
    }
}
