//! Settings that are not possible with an engine, where the data is in a cluster.

use crate::config::{Config, EngineKind};
use crate::store::EvictionPolicy;

impl Config {
    /// Fails if the settings ask for an engine together with a setting that it does not support, or without
    /// `etcd-endpoints`.
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
        ];
        if self.etcd_endpoints.is_none() {
            return Err("engine etcd needs the addresses of the cluster: the setting 'etcd-endpoints'".to_owned());
        }
        match refused.into_iter().find(|(_, _, is_refused)| *is_refused) {
            Some((name, reason, _)) => Err(format!("the setting '{name}' is not possible with engine etcd: {reason}")),
            None => Ok(()),
        }
    }
}
