//! `engine etcd`: several servers on one cluster, as their clients see them.
//!
//! - [`blocked`] tests the order in which blocked calls are repeated;
//! - [`etcd`] runs real nodes;
//! - [`faults`] tests the end of nodes and processes;
//! - [`groups`] tests calls that share a transaction;
//! - [`histories`] tests whether one order explains the replies to clients while anything ended, was stopped or cut
//!   off;
//! - [`nodes`] tests what clients of a cluster are told;
//! - [`metrics`] tests the page of the metrics port;
//! - [`proxy`] is a link to a node that can be cut;
//! - [`published`] tests calls in flight while clients are paused or closed, or lose permissions;
//! - `stalls` tests the effect of a script or a full cluster on other clients;
//! - [`start`] tests rejected starts and unsupported commands;
//! - `types` tests the types of Redis 8.

mod blocked;
mod data;
mod elements;
pub(crate) mod etcd;
mod faults;
mod flushes;
#[cfg(feature = "lua")]
mod functions;
mod groups;
mod histories;
mod links;
mod locks;
mod messages;
#[cfg(feature = "metrics")]
mod metrics;
mod nodes;
#[cfg(feature = "binary")]
mod page;
mod proxy;
mod published;
mod shared_locks;
#[cfg(feature = "lua")]
mod stalls;
mod start;
mod ttl;
#[cfg(all(feature = "json", feature = "probabilistic", feature = "vectors"))]
mod types;

use std::sync::Arc;

use keylatch::Clock;

use crate::engine::etcd::Etcd;
use crate::harness::{Client, TestServer};

/// Returns a field of the section `engine` of INFO.
fn engine_info(client: &mut Client, name: &str) -> String {
    let text = client.call("INFO engine");
    let value = text.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// Servers with the same data.
pub(crate) struct Fleet {
    pub(crate) servers: Vec<TestServer>,
    etcd: Arc<Etcd>,
    prefix: String,
}

impl Fleet {
    /// Starts servers on the system's clock; `None` without etcd.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_on(Etcd::shared()?, count)
    }

    /// Starts servers on a cluster.
    fn start_on(etcd: Arc<Etcd>, count: usize) -> Option<Self> {
        let mut fleet = Fleet { servers: Vec::new(), etcd, prefix: Etcd::prefix() };
        (0..count).for_each(|_| fleet.add(Clock::system(), &[]));
        Some(fleet)
    }

    /// Starts another server, with this clock and more settings.
    fn add(&mut self, clock: Clock, settings: &[(&str, &str)]) {
        let endpoints = self.etcd.endpoints();
        let engine = [("engine", "etcd"), ("etcd-endpoints", &endpoints), ("etcd-prefix", &self.prefix)];
        self.servers.push(TestServer::start_on(clock, &[&engine, settings].concat()));
    }

    /// Returns a client of each of two servers.
    fn two_clients(&self) -> [Client; 2] {
        [self.servers[0].client(), self.servers[1].client()]
    }
}
