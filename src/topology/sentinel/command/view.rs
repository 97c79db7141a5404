//! Commands of a sentinel that change nothing.

use std::fmt::Write as _;

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::command::error::SentinelError;
use crate::topology::sentinel::instance::{DataInstance, InstanceLink};
use crate::topology::sentinel::master::MonitoredMaster;
use crate::topology::sentinel::place::{Addresses, NodeNumber};
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Names and values of a map, in order.
pub(crate) type ReplyFields = Vec<(&'static str, String)>;

/// A sentinel that is asked.
#[derive(Clone, Copy)]
pub(crate) struct SentinelView<'t> {
    topology: &'t Sentinels,
    index: usize,
}

/// A master in the reply of SENTINEL INFO-CACHE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedGroup {
    pub(crate) master_name: String,
    /// The master, then its replicas.
    pub(crate) nodes: Vec<CachedInfo>,
}

/// A data node in the reply of SENTINEL INFO-CACHE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedInfo {
    /// The node whose INFO is shown; `None` for null, as none was ever received.
    pub(crate) node: Option<NodeNumber>,
    /// Time since INFO was received; 0 if it never was.
    pub(crate) age_ms: u64,
}

impl Sentinels {
    /// Returns a sentinel that is to be asked; `None` if the node is none.
    pub(crate) fn sentinel(&self, node: NodeNumber) -> Option<SentinelView<'_>> {
        self.index(node).map(|index| SentinelView { topology: self, index })
    }
}

impl<'t> SentinelView<'t> {
    pub(super) fn world(&self) -> &'t SentinelWorld {
        &self.topology.world
    }

    pub(super) fn process(&self) -> &'t SentinelProcess {
        &self.topology.sentinels[self.index]
    }

    fn by_name(&self, name: &str) -> Result<&'t MonitoredMaster, SentinelError> {
        let index = self.process().master_index(name).ok_or(SentinelError::NoMaster)?;
        Ok(&self.process().masters[index])
    }

    /// Returns the reply of SENTINEL MYID.
    pub(crate) fn id(&self) -> &'t str {
        &self.process().id
    }

    /// Returns the names of the masters, which ROLE shows.
    pub(crate) fn master_names(&self) -> Vec<&'t str> {
        self.process().masters.iter().map(|master| master.name.as_str()).collect()
    }

    /// Returns the reply of SENTINEL MASTERS.
    pub(crate) fn masters(&self, addresses: &dyn Addresses) -> Vec<ReplyFields> {
        self.process().masters.iter().map(|master| self.master_fields(master, addresses)).collect()
    }

    /// Returns the reply of SENTINEL MASTER.
    ///
    /// # Errors
    /// If no such master is monitored; so do the functions below.
    pub(crate) fn master(&self, name: &str, addresses: &dyn Addresses) -> Result<ReplyFields, SentinelError> {
        Ok(self.master_fields(self.by_name(name)?, addresses))
    }

    /// Returns the reply of SENTINEL REPLICAS and SENTINEL SLAVES.
    pub(crate) fn replicas(&self, name: &str, addresses: &dyn Addresses) -> Result<Vec<ReplyFields>, SentinelError> {
        let master = self.by_name(name)?;
        Ok(master.replicas.iter().map(|replica| self.replica_fields(master, replica, addresses)).collect())
    }

    /// Returns the reply of SENTINEL SENTINELS.
    pub(crate) fn sentinels(&self, name: &str, addresses: &dyn Addresses) -> Result<Vec<ReplyFields>, SentinelError> {
        let master = self.by_name(name)?;
        Ok(master.sentinels.iter().map(|sentinel| self.sentinel_fields(master, sentinel, addresses)).collect())
    }

    /// Returns the reply of SENTINEL GET-MASTER-ADDR-BY-NAME; `None` for a null array.
    pub(crate) fn master_address(&self, name: &str, addresses: &dyn Addresses) -> Option<(String, u16)> {
        Some(self.by_name(name).ok()?.present_place().address(addresses))
    }

    /// Returns the node that is the master; `None` if no such master is monitored, or it is at no node.
    #[cfg(test)]
    pub(crate) fn master_node(&self, name: &str) -> Option<NodeNumber> {
        self.by_name(name).ok()?.present_place().node
    }

    /// Returns the status of SENTINEL CKQUORUM.
    pub(crate) fn check_quorum(&self, name: &str) -> Result<String, SentinelError> {
        let master = self.by_name(name)?;
        let usable = 1 + master.sentinels.iter().filter(|sentinel| !sentinel.base.is_s_down()).count();
        let lacks_quorum = (usable as u64) < master.settings.quorum;
        let lacks_majority = usable <= master.sentinels.len().div_ceil(2);
        if lacks_quorum || lacks_majority {
            return Err(SentinelError::NoQuorum { usable, lacks_quorum, lacks_majority });
        }
        Ok(format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached"))
    }

    /// Returns the reply of SENTINEL CONFIG GET, for the parameters whose names match.
    pub(crate) fn config(&self, matches: &dyn Fn(&str) -> bool) -> ReplyFields {
        self.process().settings.fields().into_iter().filter(|(name, _)| matches(name)).collect()
    }

    /// Returns the reply of SENTINEL DEBUG without arguments.
    pub(crate) fn debug(&self) -> ReplyFields {
        self.process().periods.fields()
    }

    /// Returns the reply of SENTINEL INFO-CACHE, for the masters of these names that are monitored, or for all.
    pub(crate) fn info_cache(&self, names: Option<&[&str]>) -> Vec<CachedGroup> {
        let is_asked = |master: &&MonitoredMaster| names.is_none_or(|names| names.contains(&master.name.as_str()));
        let group = |master: &MonitoredMaster| {
            let replicas = master.replicas.iter().map(|replica| &replica.data);
            let nodes = std::iter::once(&master.data).chain(replicas).map(|data| self.cached(data)).collect();
            CachedGroup { master_name: master.name.clone(), nodes }
        };
        self.process().masters.iter().filter(is_asked).map(group).collect()
    }

    fn cached(&self, data: &DataInstance) -> CachedInfo {
        let Some(info) = &data.info else { return CachedInfo { node: None, age_ms: 0 } };
        let age_ms = match data.base.link {
            InstanceLink::Up { .. } => self.age(data.base.link, self.process().periods.info),
            InstanceLink::Silent { .. } => self.since(info.read_ms),
        };
        CachedInfo { node: data.base.place.node, age_ms }
    }

    /// Returns the section `# Sentinel` of INFO.
    pub(crate) fn info(&self, addresses: &dyn Addresses) -> String {
        let (process, mut text) = (self.process(), String::from("# Sentinel\r\n"));
        let tilt_seconds = process.tilt_since_ms.map_or(-1, |since_ms| (self.since(since_ms) / 1000) as i64);
        let lines = [
            ("sentinel_masters", process.masters.len() as i64),
            ("sentinel_tilt", i64::from(process.tilt_since_ms.is_some())),
            ("sentinel_tilt_since_seconds", tilt_seconds),
            ("sentinel_running_scripts", 0),
            ("sentinel_scripts_queue_length", 0),
            ("sentinel_simulate_failure_flags", i64::from(process.failures.flags())),
        ];
        for (name, value) in lines {
            let _ = write!(text, "{name}:{value}\r\n");
        }
        for (index, master) in process.masters.iter().enumerate() {
            let _ = write!(text, "master{index}:{}\r\n", master_line(master, addresses));
        }
        text
    }
}

/// Returns the values of a line about a master in INFO.
fn master_line(master: &MonitoredMaster, addresses: &dyn Addresses) -> String {
    let status = if master.o_down_since_ms.is_some() {
        "odown"
    } else if master.data.base.is_s_down() {
        "sdown"
    } else {
        "ok"
    };
    let (host, port) = master.place().address(addresses);
    let (replicas, sentinels) = (master.replicas.len(), master.sentinels.len() + 1);
    format!("name={},status={status},address={host}:{port},slaves={replicas},sentinels={sentinels}", master.name)
}
