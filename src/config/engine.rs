//! Settings that are not possible with an engine, where the data is in a cluster.

use crate::config::{Config, EngineKind};
use crate::store::EvictionPolicy;

impl Config {
    /// Fails if the settings ask for an engine, and for a feature that it does not have.
    pub(super) fn refuse_beside_engine(&self) -> Result<(), String> {
        if self.engine == EngineKind::Memory {
            return Ok(());
        }
        let refused = [
            ("save", "it writes no files, the data is in etcd", !self.save_points.is_empty()),
            ("appendonly", "it writes no files, the data is in etcd", self.appendonly),
            ("replicaof", "all processes are equal, there are no replicas", self.replicaof.is_some()),
            ("maxmemory-policy", "it evicts no keys", self.maxmemory_policy != EvictionPolicy::Noeviction),
            ("test-mode", "its clock is not that of the other processes", self.test_mode),
            ("etcd-endpoints", "it needs the addresses of the cluster", self.etcd_endpoints.is_none()),
        ];
        match refused.into_iter().find(|(_, _, is_refused)| *is_refused) {
            Some((name, reason, _)) => Err(format!("the setting '{name}' is not possible with engine etcd: {reason}")),
            None => Ok(()),
        }
    }
}
