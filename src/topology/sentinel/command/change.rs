//! Commands of a sentinel that change what it monitors, or that it answers as another sentinel asks.

use std::net::IpAddr;

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::command::error::SentinelError;
use crate::topology::sentinel::command::help::FAILURE_NAMES;
use crate::topology::sentinel::command::set::integer;
use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::hello::Hello;
use crate::topology::sentinel::info::InfoReading;
use crate::topology::sentinel::master::{MasterSettings, MonitoredMaster};
use crate::topology::sentinel::place::{Addresses, NodeNumber, Place};
use crate::topology::sentinel::process::SimulatedFailures;
use crate::topology::sentinel::vote::{DownQuestion, DownReply};

/// Channel of the messages by which sentinels find each other.
const HELLO_CHANNEL: &str = "__sentinel__:hello";

/// Arguments of SENTINEL MONITOR as a client gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonitorRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    pub(crate) quorum: &'a str,
}

/// Arguments of SENTINEL IS-MASTER-DOWN-BY-ADDR as a client gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DownRequest<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    pub(crate) epoch: &'a str,
    /// Id of the sentinel that asks for a vote, or `*`.
    pub(crate) candidate: &'a str,
}

impl Sentinels {
    /// Fails a master over without asking other sentinels, for SENTINEL FAILOVER.
    ///
    /// # Errors
    /// If no such master is monitored, a failover is in progress, or no replica can be promoted.
    pub(crate) fn force_failover(
        &mut self,
        sentinel: NodeNumber,
        name: &str,
        now_ms: u64,
    ) -> Result<(), SentinelError> {
        let (index, master) = self.find_master(sentinel, name)?;
        self.advance(now_ms);
        let monitored = &self.sentinels[index].masters[master];
        if monitored.failover.stage.is_some() {
            return Err(SentinelError::FailoverInProgress);
        }
        monitored.best_replica(&self.world).ok_or(SentinelError::NoGoodReplica)?;
        self.start_forced_failover(index, master, None);
        self.settle();
        Ok(())
    }

    /// Forgets the replicas, the other sentinels and the state of the masters whose names match, for SENTINEL RESET;
    /// returns their number.
    pub(crate) fn reset(&mut self, sentinel: NodeNumber, matches: &dyn Fn(&str) -> bool, now_ms: u64) -> usize {
        let Some(index) = self.index(sentinel) else { return 0 };
        let mut count = 0;
        self.change_world(now_ms, |topology| {
            for master in &mut topology.sentinels[index].masters {
                if matches(&master.name) {
                    master.sentinels.clear();
                    master.reset(master.place().clone(), &topology.world);
                    master.emit(&mut topology.world, "+reset-master");
                    count += 1;
                }
            }
            topology.sentinels[index].read_infos(InfoReading::Urgent, &mut topology.world);
        });
        count
    }

    /// Monitors another master, for SENTINEL MONITOR.
    ///
    /// # Errors
    /// If an argument is wrong, or the name is in use.
    pub(crate) fn monitor(
        &mut self,
        sentinel: NodeNumber,
        request: &MonitorRequest<'_>,
        addresses: &dyn Addresses,
        now_ms: u64,
    ) -> Result<(), SentinelError> {
        let Some(index) = self.index(sentinel) else { return Ok(()) };
        let quorum = integer(request.quorum).ok_or(SentinelError::InvalidQuorum)?;
        let port = integer(request.port).ok_or(SentinelError::InvalidPort)?;
        let quorum = u64::try_from(quorum).ok().filter(|quorum| *quorum > 0).ok_or(SentinelError::QuorumBelowOne)?;
        if request.host.parse::<IpAddr>().is_err() && !self.sentinels[index].settings.resolve_hostnames {
            return Err(SentinelError::InvalidAddress);
        }
        let port = u16::try_from(port).map_err(|_| SentinelError::PortOutOfRange)?;
        if self.sentinels[index].master_index(request.name).is_some() {
            return Err(SentinelError::DuplicateName);
        }
        let place = Place::at(request.host, port, self.world.node_count(), addresses);
        self.change_world(now_ms, |topology| topology.add_master(index, request.name, place, quorum));
        Ok(())
    }

    fn add_master(&mut self, index: usize, name: &str, place: Place, quorum: u64) {
        let sentinel = &mut self.sentinels[index];
        let periods = &sentinel.periods;
        let settings = MasterSettings::new(quorum, periods.default_down_after, periods.default_failover_timeout);
        let master = MonitoredMaster::new(sentinel.node, name.to_owned(), place, settings, &self.world);
        let detail = Detail::Text(format!("quorum {quorum}"));
        self.world.emit(sentinel.node, "+monitor", master.subject(), detail);
        sentinel.masters.push(master);
        sentinel.read_infos(InfoReading::Urgent, &mut self.world);
    }

    /// Ceases to monitor a master, for SENTINEL REMOVE.
    ///
    /// # Errors
    /// If no such master is monitored.
    pub(crate) fn remove(&mut self, sentinel: NodeNumber, name: &str, now_ms: u64) -> Result<(), SentinelError> {
        let (index, master) = self.find_master(sentinel, name)?;
        self.change_world(now_ms, |topology| {
            topology.sentinels[index].masters[master].emit(&mut topology.world, "-monitor");
            topology.sentinels[index].masters.remove(master);
        });
        Ok(())
    }

    /// Returns the reply of SENTINEL IS-MASTER-DOWN-BY-ADDR, for which the sentinel may vote.
    ///
    /// # Errors
    /// If the port or the epoch is no integer.
    pub(crate) fn is_master_down(
        &mut self,
        sentinel: NodeNumber,
        request: &DownRequest<'_>,
        addresses: &dyn Addresses,
        now_ms: u64,
    ) -> Result<DownReply, SentinelError> {
        let port = integer(request.port).ok_or(SentinelError::NotAnInteger)?;
        let epoch = integer(request.epoch).ok_or(SentinelError::NotAnInteger)?;
        let (Some(index), Ok(port)) = (self.index(sentinel), u16::try_from(port)) else {
            return Ok(DownReply::default());
        };
        let place = Place::at(request.host, port, self.world.node_count(), addresses);
        let candidate = Some(request.candidate).filter(|id| *id != "*").map(str::to_owned);
        let question = DownQuestion { place, epoch: epoch as u64, candidate };
        let mut reply = DownReply::default();
        self.change_world(now_ms, |topology| {
            reply = topology.sentinels[index].is_master_down(&question, &mut topology.world);
        });
        Ok(reply)
    }

    /// Sets the points of a failover at which the sentinel ends itself, for SENTINEL SIMULATE-FAILURE; returns the
    /// lines of its help, or none for OK.
    ///
    /// # Errors
    /// If there is no such point; those before it are set.
    pub(crate) fn simulate_failure(
        &mut self,
        sentinel: NodeNumber,
        names: &[&str],
    ) -> Result<&'static [&'static str], SentinelError> {
        let Some(index) = self.index(sentinel) else { return Ok(&[]) };
        let failures = &mut self.sentinels[index].failures;
        *failures = SimulatedFailures::default();
        for name in names {
            match name.to_ascii_lowercase().as_str() {
                "crash-after-election" => failures.after_election = true,
                "crash-after-promotion" => failures.after_promotion = true,
                "help" => return Ok(&FAILURE_NAMES),
                _ => return Err(SentinelError::UnknownFailure),
            }
        }
        Ok(&[])
    }

    /// Receives a message that a client publishes at a sentinel, for PUBLISH; returns the number of receivers.
    ///
    /// # Errors
    /// If the channel is not that of hello messages.
    pub(crate) fn publish(
        &mut self,
        sentinel: NodeNumber,
        channel: &str,
        message: &str,
        addresses: &dyn Addresses,
        now_ms: u64,
    ) -> Result<u64, SentinelError> {
        if channel != HELLO_CHANNEL {
            return Err(SentinelError::OnlyHellos);
        }
        if let (Some(index), Some(hello)) = (self.index(sentinel), self.parse_hello(message, addresses)) {
            self.change_world(now_ms, |topology| {
                topology.sentinels[index].receive_hello(&hello, &mut topology.world);
            });
        }
        Ok(1)
    }

    /// Reads a hello message; `None` if it is none.
    fn parse_hello(&self, message: &str, addresses: &dyn Addresses) -> Option<Hello> {
        let words: Vec<&str> = message.split(',').collect();
        let [host, port, id, epoch, name, master_host, master_port, config_epoch] = words[..] else { return None };
        let port = port.parse().unwrap_or_default();
        let sender = self.sentinels.iter().find(|sentinel| sentinel.id == id).map(|sentinel| sentinel.node);
        let place = match sender {
            Some(node) if addresses.is_at(node, host, port) => Place::node(node),
            Some(node) => Place::announced(node, Some(host.to_owned()), Some(port)),
            None => Place::elsewhere(host, port),
        };
        let master_port = master_port.parse().unwrap_or_default();
        Some(Hello {
            place,
            id: id.to_owned(),
            epoch: epoch.parse().unwrap_or_default(),
            master_name: name.to_owned(),
            master_place: Place::at(master_host, master_port, self.world.node_count(), addresses),
            config_epoch: config_epoch.parse().unwrap_or_default(),
        })
    }

    /// Returns the indices of a sentinel and of a master that it monitors.
    pub(super) fn find_master(&self, sentinel: NodeNumber, name: &str) -> Result<(usize, usize), SentinelError> {
        let index = self.index(sentinel).ok_or(SentinelError::NoMaster)?;
        let master = self.sentinels[index].master_index(name).ok_or(SentinelError::NoMaster)?;
        Ok((index, master))
    }
}
