//! Clusters and Sentinel deployments for tests of a program that embeds the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::{NewTopology, TopologyAccess, TopologyKind};
use crate::error::Error;
use crate::namespace::member::{NodeReport, Operation, Outcome};
use crate::net::inspect::CommandError;
use crate::net::server::Server;
use crate::net::tenancy::AcceptsFor;
use crate::net::topologies::{Deployment, Owner, make};
use crate::topology::sentinel::{SENTINELS_MAX, SentinelPlan};
use crate::topology::slot_of;

/// The node timeout of such a cluster, in milliseconds: Redis' default.
const NODE_TIMEOUT_MS: u64 = 15_000;

/// A cluster or a Sentinel deployment in this process, made by [`Server::cluster`] or [`Server::sentinel`]. It ends when it
/// is dropped.
pub struct TestTopology {
    deployment: Arc<Deployment>,
}

/// A node of a [`TestTopology`] as it is now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TestNode {
    /// Its number, by which the methods of [`TestTopology`] name it: primaries first, then replicas, then sentinels.
    pub number: usize,
    /// `primary`, `replica` or `sentinel`; `master` in place of `primary` where there are sentinels.
    pub role: &'static str,
    /// The address for clients.
    pub addr: SocketAddr,
    /// The number of its primary, in a replica.
    pub primary: Option<usize>,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// `up`, `stopped`, `paused`, or `failed` if others believe so.
    pub state: &'static str,
}

/// Topologies that follow the clock of the server, see `TEST.CLUSTER` and `TEST.SENTINEL`.
impl Server {
    /// Makes a cluster of so many primaries, each with so many replicas, whose nodes listen on free ports.
    ///
    /// # Errors
    /// If the server is not in test mode, there would be no node or more than a thousand, or no port is free.
    pub fn cluster(&self, primaries: usize, replicas: usize) -> Result<TestTopology, CommandError> {
        let count = primaries.saturating_mul(replicas.saturating_add(1));
        self.make_topology(count, TopologyKind::Cluster { primaries, replicas, node_timeout_ms: NODE_TIMEOUT_MS })
    }

    /// Makes a master named `mymaster` with so many replicas, and sentinels of which a majority has to agree that it is down.
    /// All of them listen on free ports.
    ///
    /// # Errors
    /// If the server is not in test mode, there would be no sentinel, more than a hundred, or more than a thousand nodes, or no port is free.
    pub fn sentinel(&self, replicas: usize, sentinels: usize) -> Result<TestTopology, CommandError> {
        if sentinels > SENTINELS_MAX {
            return Err(Error::other(format!("a topology has at most {SENTINELS_MAX} sentinels")).into());
        }
        let count = if sentinels == 0 { 0 } else { replicas.saturating_add(sentinels).saturating_add(1) };
        let quorum = sentinels as u64 / 2 + 1;
        let plan = SentinelPlan { replicas, sentinels, quorum, ..SentinelPlan::default() };
        self.make_topology(count, TopologyKind::Sentinels(plan))
    }

    fn make_topology(&self, count: usize, kind: TopologyKind) -> Result<TestTopology, CommandError> {
        if !(1..=1000).contains(&count) {
            return Err(Error::other("a topology has from 1 to 1000 nodes").into());
        }
        let tenancy = self.shared.tenancy().ok_or(Error::other("the server is not in test mode"))?;
        let creator = self.shared.namespace.clone();
        let (_inside, _turn) = (self.shared.runtime.enter(), creator.upkeep.wait_for_turn());
        let used = creator.topologies.lock().len();
        let names = (used..).map(|number| format!("topology-{number}").into_bytes());
        let name = names.into_iter().find(|name| !creator.topologies.lock().contains_key(&name[..]));
        let name = name.unwrap_or_default().into_boxed_slice();
        let new = NewTopology { name, kind, access: TopologyAccess::default() };
        let server: Arc<dyn AcceptsFor> = self.shared.clone();
        Ok(TestTopology { deployment: make(tenancy, &server, &creator, Owner::Program, &new)? })
    }
}

impl TestTopology {
    /// Returns the nodes.
    pub fn nodes(&self) -> Vec<TestNode> {
        self.deployment.reports(None).into_iter().map(TestNode::from).collect()
    }

    /// Returns the addresses that clients begin with: of the sentinels where there are some, else of all nodes.
    pub fn urls(&self) -> Vec<String> {
        let (sentinels, others): (Vec<_>, Vec<_>) = self.nodes().into_iter().partition(|node| node.role == "sentinel");
        let first = if sentinels.is_empty() { others } else { sentinels };
        first.iter().map(|node| format!("redis://{}", node.addr)).collect()
    }

    /// Returns the master that is up, where there are sentinels.
    pub fn master(&self) -> Option<TestNode> {
        self.nodes().into_iter().find(|node| node.role == "master" && node.state == "up")
    }

    /// Returns the primary that has the slot of a key, the one that is up if several believe so.
    pub fn primary_of(&self, key: impl AsRef<[u8]>) -> Option<TestNode> {
        let slot = slot_of(key.as_ref());
        let has_it = |node: &TestNode| node.primary.is_none() && node.slots.iter().any(|range| range.contains(&slot));
        let mut owners: Vec<TestNode> = self.nodes().into_iter().filter(has_it).collect();
        owners.sort_by_key(|node| node.state != "up");
        owners.into_iter().next()
    }

    /// Makes a replica the primary; nothing is lost. All nodes know when this returns.
    ///
    /// # Errors
    /// If the node is a primary, or does not reach a majority of the others.
    pub fn failover(&self, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Failover { node: Some(node), lose: None })
    }

    /// Makes a replica the primary, without the last writes of the old one.
    ///
    /// # Errors
    /// The errors of [`TestTopology::failover`]; if fewer writes are remembered.
    pub fn failover_losing(&self, node: usize, writes: usize) -> Result<(), CommandError> {
        self.perform(Operation::Failover { node: Some(node), lose: Some(writes) })
    }

    /// Ends the process of a node: its connections are cut, further ones are refused. After fifteen seconds of the server's
    /// clock, thirty where sentinels watch it, a replica takes its place.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn stop(&self, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Stop(node))
    }

    /// Starts a stopped node with its data.
    ///
    /// # Errors
    /// If it is up.
    pub fn start(&self, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Start(node))
    }

    /// Suspends a node: it accepts connections, and answers nothing.
    ///
    /// # Errors
    /// If it is not up.
    pub fn pause(&self, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Pause(node))
    }

    /// Continues a suspended node.
    ///
    /// # Errors
    /// If it is not suspended.
    pub fn resume(&self, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Resume(node))
    }

    /// Cuts nodes off from the others; clients reach all.
    ///
    /// # Errors
    /// If one side has no node.
    pub fn partition(&self, nodes: &[usize]) -> Result<(), CommandError> {
        self.perform(Operation::Partition(nodes.to_vec()))
    }

    /// Ends a partition.
    ///
    /// # Errors
    /// None.
    pub fn heal(&self) -> Result<(), CommandError> {
        self.perform(Operation::Heal)
    }

    /// Delays what a replica gets from its primary, by the server's clock.
    ///
    /// # Errors
    /// If the node is a primary.
    pub fn lag(&self, node: usize, delay: Duration) -> Result<(), CommandError> {
        self.perform(Operation::Lag { node, ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX) })
    }

    /// Moves slots of a cluster with their keys to a node.
    ///
    /// # Errors
    /// If it has one of them, or is a replica; if there are sentinels.
    pub fn migrate(&self, slots: RangeInclusive<u16>, node: usize) -> Result<(), CommandError> {
        self.perform(Operation::Migrate { slots: slots.into_inner(), to: node, keys: None })
    }

    fn perform(&self, operation: Operation) -> Result<(), CommandError> {
        let creator = &self.deployment.creator;
        let _inside = self.deployment.tenancy.runtime.enter();
        let _turn = creator.upkeep.wait_for_turn();
        match self.deployment.operate(&operation, creator.clock.now())? {
            Outcome::Done | Outcome::Nodes(_) | Outcome::Text(_) | Outcome::Reply(_) => Ok(()),
        }
    }
}

impl Drop for TestTopology {
    fn drop(&mut self) {
        let _turn = self.deployment.creator.upkeep.wait_for_turn();
        self.deployment.end();
    }
}

impl From<NodeReport> for TestNode {
    fn from(report: NodeReport) -> Self {
        let ip = report.host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        TestNode {
            number: report.number,
            role: report.role,
            addr: SocketAddr::new(ip, report.port),
            primary: report.primary,
            slots: report.slots.into_iter().map(|(first, last)| first..=last).collect(),
            state: report.state,
        }
    }
}
