//! Topologies: clusters and Sentinel deployments in this process, for test mode.
//!
//! A node is a private namespace with a port of its own, and a replica has a link in the process to its primary. What happens
//! to nodes, and what they know of each other, is decided by a pure state machine (`topology/`); this module applies what it
//! decides. All nodes share the clock of the instance in which the topology was made.
//!
//! Lock order: the turn of those who steer the clock, then stores, then the state machine. Nobody holds a store while waiting
//! for the turn.

mod keys;
mod life;
mod model;
mod operations;
mod port;
mod sentinel;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::dispatch::history::begin_anew;
use crate::dispatch::serve::recheck_blocked;
use crate::dispatch::{NewTopology, TopologyAccess, TopologyKind};
use crate::durability::send_copies;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;
use crate::namespace::member::{AnnouncedName, Member, NodeReport, Operation, Outcome, RoutingTable, Topology};
use crate::net::tenancy::{AcceptsFor, Tenancy};
use crate::net::topologies::model::{HostChange, Model, NodeSettings};
use crate::net::topologies::port::NodePort;
use crate::push::hub::Message;
use crate::replication::begin_link;
use crate::store::{Cx, NEVER, Origin};
use crate::time::clock::Now;
use crate::topology::cluster::{ClusterPlan, Moment, NodeNumber, TopologyCluster};
use crate::topology::sentinel::Sentinels;
use crate::topology::{ClusterView, NodeAddress, NodeIdentity};

/// A topology with its nodes.
pub(super) struct Deployment {
    name: Box<[u8]>,
    pub(super) tenancy: Arc<Tenancy>,
    server: Weak<dyn AcceptsFor>,
    /// The instance in which it was made.
    pub(super) creator: Arc<Namespace>,
    owner: Owner,
    access: TopologyAccess,
    nodes: Mutex<Vec<Node>>,
    state: Mutex<Model>,
    /// Wakeup of the task that follows a running clock.
    news: Notify,
    /// Cancelled when it ends.
    ended: CancellationToken,
    own: Weak<Deployment>,
}

/// By whom a topology was made, who keeps it alive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// A client, by its id.
    Client(u64),
    /// The program that embeds the server, which ends it.
    Program,
}

/// A node.
struct Node {
    namespace: Arc<Namespace>,
    port: NodePort,
    /// The link to its primary.
    link: Option<Arc<dyn LocalLink>>,
    lag_ms: u64,
    is_removed: bool,
}

/// Makes a topology; returns its nodes. Must be called inside a runtime, without the turn of those who steer the clock.
///
/// # Errors
/// If there is one of this name, or a node cannot be made.
pub(super) async fn create(
    tenancy: &Arc<Tenancy>,
    creator: &Arc<Namespace>,
    owner: u64,
    new: &NewTopology,
) -> Result<Vec<NodeReport>> {
    let server = tenancy.server.get().and_then(Weak::upgrade).ok_or(Error::other("the server is not ready"))?;
    let turn = creator.upkeep.steering.clone().lock_owned().await;
    let (tenancy, creator, new) = (tenancy.clone(), creator.clone(), new.clone());
    let runtime = Handle::current();
    let make = move || {
        let _inside = runtime.enter();
        let _turn = turn;
        make(&tenancy, &server, &creator, Owner::Client(owner), &new).map(|made| made.reports(None))
    };
    tokio::task::spawn_blocking(make).await.map_err(|_| Error::other("the topology could not be made"))?
}

/// Implements [`create`], on a thread that may wait for stores.
pub(super) fn make(
    tenancy: &Arc<Tenancy>,
    server: &Arc<dyn AcceptsFor>,
    creator: &Arc<Namespace>,
    owner: Owner,
    new: &NewTopology,
) -> Result<Arc<Deployment>> {
    let now = creator.clock.now();
    let name = String::from_utf8_lossy(&new.name);
    let state = match &new.kind {
        &TopologyKind::Cluster { primaries, replicas, node_timeout_ms } => {
            let plan = ClusterPlan { primaries, replicas, node_timeout_ms };
            Model::Cluster(TopologyCluster::new(&name, plan, now.mono_ms()))
        }
        TopologyKind::Sentinels(plan) => Model::Sentinels(Sentinels::new(&name, plan, now.mono_ms())),
        &TopologyKind::EmptyCluster { nodes, node_timeout_ms } => {
            Model::Cluster(TopologyCluster::empty(&name, nodes, node_timeout_ms, now.mono_ms()))
        }
    };
    let count = state.count();
    let deployment = Arc::new_cyclic(|own| Deployment {
        name: new.name.clone(),
        tenancy: tenancy.clone(),
        server: Arc::downgrade(server),
        creator: creator.clone(),
        owner,
        access: new.access.clone(),
        nodes: Mutex::default(),
        state: Mutex::new(state),
        news: Notify::new(),
        ended: creator.tenant.stop.child_token(),
        own: own.clone(),
    });
    let topology: Arc<dyn Topology> = deployment.clone();
    {
        let mut topologies = creator.topologies.lock();
        if topologies.contains_key(&new.name) {
            return Err(Error::other("there is a topology of this name"));
        }
        topologies.insert(new.name.clone(), topology);
    }
    if let Err(error) = (0..count).try_for_each(|number| deployment.add_node(number)) {
        deployment.end();
        return Err(error);
    }
    deployment.begin(now);
    deployment.live();
    Ok(deployment)
}

impl Deployment {
    /// Makes the namespace of a node that the state machine has, and opens its port.
    fn add_node(&self, number: NodeNumber) -> Result<()> {
        let (identity, is_sentinel) = {
            let state = self.state.lock();
            let (id, shard_id) = (state.id(number).to_owned(), String::new()); // replies have the shard of the view
            let is_clustered = matches!(*state, Model::Cluster(_));
            (is_clustered.then_some(NodeIdentity { id, shard_id }), state.is_sentinel(number))
        };
        let (main, server) = (&self.tenancy.main, self.server.upgrade().ok_or(Error::other("the server has ended"))?);
        let mut port = NodePort::reserve(&main.settings.current(), self.access.tls)?;
        let creator = self.creator.tenant.name().unwrap_or_default();
        let name = [b"node ", creator, b"/", &self.name, b"/", number.to_string().as_bytes()].concat();
        let founded = main.found_private(&name, || {
            Namespace::new_node((main, &self.creator), &name, identity.clone(), (port.number, self.access.tls))
        });
        let (namespace, is_new) = founded.ok_or(Error::other("too many private instances"))?;
        if !is_new {
            return Err(Error::other("an earlier topology of this name is ending"));
        }
        let topology: Weak<dyn Topology> = self.own.clone();
        namespace.join(Member::new(topology, number, port.number), is_sentinel);
        self.access.apply(&namespace, is_sentinel);
        port.open(server, &namespace)?;
        self.tenancy.begin_sweeping(&namespace);
        self.nodes.lock().push(Node { namespace, port, link: None, lag_ms: 0, is_removed: false });
        if let Some(topology) = self.own.upgrade() {
            let topology: Arc<dyn Topology> = topology;
            self.creator.drive(&topology, &[&self.node(number)]);
        }
        Ok(())
    }

    /// Gives the nodes of a new topology their roles and routes.
    fn begin(&self, now: Now) {
        let roles: Vec<_> = {
            let state = self.state.lock();
            state.numbers().into_iter().map(|number| (number, state.primary_of(number))).collect()
        };
        for (number, primary) in &roles {
            if let Some(primary) = primary {
                self.follow(*number, *primary);
            }
        }
        if matches!(*self.state.lock(), Model::Cluster(_)) {
            roles.iter().for_each(|(number, _)| self.route(*number, now));
        }
        self.settle(now);
    }

    fn node(&self, number: NodeNumber) -> Arc<Namespace> {
        self.nodes.lock()[number].namespace.clone()
    }

    /// Returns the namespaces of all nodes.
    fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.nodes.lock().iter().map(|node| node.namespace.clone()).collect()
    }

    /// Returns the positions that the nodes have reached in their logs.
    fn offsets(&self) -> Vec<u64> {
        self.nodes.lock().iter().map(|node| node.namespace.log.end()).collect()
    }

    /// Returns the hosts and ports of the nodes.
    fn addresses(&self) -> Vec<(String, u16)> {
        self.nodes.lock().iter().map(|node| (node.port.host.clone(), node.port.number)).collect()
    }

    /// Returns the settings of the nodes on which the state machine depends.
    fn node_settings(&self) -> Vec<NodeSettings> {
        self.nodes.lock().iter().map(|node| NodeSettings::of(&node.namespace.settings.current())).collect()
    }

    fn ports(&self) -> Vec<u16> {
        self.nodes.lock().iter().map(|node| node.port.number).collect()
    }

    /// Applies what the state machine has decided, until it has decided no more.
    fn settle(&self, now: Now) {
        loop {
            let hosts = self.addresses();
            let address = move |node: NodeNumber| hosts.get(node).cloned().unwrap_or_default();
            let changes = self.state.lock().take_changes(&address);
            if changes.is_empty() {
                break;
            }
            for change in changes {
                self.apply(change, now);
            }
        }
        self.follow_links(now);
        self.news.notify_one();
    }

    fn apply(&self, change: HostChange, now: Now) {
        match change {
            HostChange::Promoted { node } => {
                self.promote(node);
                self.close_clients(node);
            }
            HostChange::Follows { node, primary } => {
                self.follow(node, primary);
                self.close_clients(node);
            }
            HostChange::LostSlots { node, slots } => {
                keys::delete_slots(&self.node(node), self.tenancy.handlers, &slots)
            }
            HostChange::Reset { node } => {
                self.promote(node);
                self.node(node).flush();
            }
            HostChange::Routes { node } => self.route(node, now),
            HostChange::Event { node, channel, message } => {
                let (namespace, message) = (self.node(node), message.as_bytes());
                let message = Message { channel: channel.as_bytes(), payload: message };
                namespace.push.hub.publish(message, &namespace.settings.current(), now);
            }
            HostChange::Crashed { node } => self.end_process(node),
        }
    }

    /// Closes the clients of a node that a sentinel has given another role, as Sentinel does by CLIENT KILL.
    fn close_clients(&self, node: NodeNumber) {
        if matches!(*self.state.lock(), Model::Sentinels(_)) {
            self.node(node).clients.end_connected();
        }
    }

    /// Makes a node's namespace a primary.
    fn promote(&self, number: NodeNumber) {
        let link = self.nodes.lock()[number].link.take();
        self.nodes.lock()[number].lag_ms = 0;
        let namespace = self.node(number);
        {
            let mut held = namespace.store.exclusive();
            if namespace.role.is_replica() {
                namespace.become_primary();
                let cx = Cx::new(namespace.clock.now(), Origin::HOST);
                begin_anew(&namespace, &mut held.view(0, cx));
            }
        }
        link.into_iter().for_each(LocalLink::finish);
        namespace.store.pass_barrier();
    }

    /// Makes a node's namespace a replica of another one's.
    fn follow(&self, number: NodeNumber, primary: NodeNumber) {
        let former = self.nodes.lock()[number].link.take();
        let (replica, primary) = (self.node(number), self.node(primary));
        if let Some(member) = replica.member() {
            member.set_link(true, 0); // until it is known whether the two reach each other
        }
        former.into_iter().for_each(LocalLink::finish);
        let (link, keep) = begin_link(&primary, &replica, (self.tenancy.handlers, self.tenancy.disk.clone()));
        replica.store.pass_barrier();
        self.tenancy.tasks.spawn_on(keep, &self.tenancy.runtime);
        self.nodes.lock()[number].link = Some(link);
    }

    /// Tells a node by what it routes calls, and asks again where blocked clients belong.
    fn route(&self, number: NodeNumber, now: Now) {
        let Ok(routes) = self.state.lock().cluster().map(|cluster| cluster.routes(number)) else { return };
        let ports = self.ports();
        let namespace = self.node(number);
        namespace.set_routes(RoutingTable { routes, ports });
        recheck_blocked(&namespace, self.tenancy.handlers, now);
    }

    /// Cuts the links between nodes that do not reach each other, and delivers what the others have.
    fn follow_links(&self, now: Now) {
        let linked: Vec<_> = {
            let (nodes, state) = (self.nodes.lock(), self.state.lock());
            let linked = nodes.iter().enumerate().filter_map(|(number, node)| {
                let (link, primary) = (node.link.clone()?, state.primary_of(number)?);
                let is_cut = !state.reaches(number, primary);
                node.namespace.member()?.set_link(is_cut, node.lag_ms);
                Some(link)
            });
            linked.collect()
        };
        for link in linked {
            link.deliver(now);
            link.wake();
        }
    }

    /// Describes the nodes, or one.
    pub(super) fn reports(&self, only: Option<NodeNumber>) -> Vec<NodeReport> {
        let (nodes, state) = (self.nodes.lock(), self.state.lock());
        let wanted =
            nodes.iter().enumerate().filter(|(number, node)| only.map_or(!node.is_removed, |only| only == *number));
        let report = |(number, node): (NodeNumber, &Node)| {
            let primary = state.primary_of(number);
            let offset = node.namespace.log.end();
            let behind = primary.map_or(0, |primary| nodes[primary].namespace.log.end().saturating_sub(offset));
            NodeReport {
                number,
                id: state.id(number).to_owned(),
                host: node.port.host.clone(),
                port: node.port.number,
                role: state.role_name(number),
                slots: state.slots_of(number),
                primary,
                state: state.state_name(number),
                offset,
                lag: (behind, node.lag_ms),
                believed_dead: state.believed_dead(number),
            }
        };
        wanted.map(report).collect()
    }
}

impl Topology for Deployment {
    fn tick(&self, now: Now) -> bool {
        if self.ended.is_cancelled() {
            return false;
        }
        let offsets = self.offsets();
        let settings = self.node_settings();
        let is_due = {
            let mut state = self.state.lock();
            // First, since what is due at this instant is not any more once the model has been told of it.
            let is_due = state.next_due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms());
            let is_due = is_due || !state.has_followed(&settings);
            state.follow_settings(&settings, now.mono_ms());
            if is_due {
                state.tick(Moment { now_ms: now.mono_ms(), offsets: &offsets });
            }
            is_due
        };
        if is_due {
            self.settle(now);
        }
        is_due
    }

    fn next_due_ms(&self) -> u64 {
        if self.ended.is_cancelled() {
            return NEVER;
        }
        let (settings, state) = (self.node_settings(), self.state.lock());
        if state.has_followed(&settings) { state.next_due_ms().unwrap_or(NEVER) } else { 0 }
    }

    fn perform(&self, operation: &Operation, now: Now) -> Result<Outcome> {
        if self.ended.is_cancelled() {
            return Err(Error::other("the topology has ended"));
        }
        self.operate(operation, now)
    }

    fn hold_news(&self, now: Now) {
        self.with_state(now, |state, moment| {
            if let Ok(cluster) = state.cluster() {
                cluster.hold_messages(moment);
            }
        });
    }

    fn spread_news(&self, now: Now) {
        if self.ended.is_cancelled() {
            return;
        }
        self.with_state(now, |state, moment| {
            if let Ok(cluster) = state.cluster() {
                cluster.pass_messages(moment);
            }
        });
        self.settle(now);
    }

    fn view(&self, at: NodeNumber, now: Now) -> Option<ClusterView> {
        // A real cluster has pinged its replicas when clients see it, and Redis hides those at the very beginning of the log.
        let offsets: Vec<u64> = self.offsets().into_iter().map(|offset| offset.max(1)).collect();
        let ports = self.ports();
        let moment = Moment { now_ms: now.mono_ms(), offsets: &offsets };
        let node = self.nodes.lock().get(at)?.namespace.clone();
        let needs_full_coverage = node.settings.current().cluster_require_full_coverage;
        let settings = self.node_settings();
        let mut view = {
            let mut state = self.state.lock();
            state.follow_settings(&settings, now.mono_ms());
            let state = state.cluster().ok()?;
            let view = state.view(at, moment, now.wall_ms(), &ports);
            ClusterView { is_ok: state.service(at).is_ok(needs_full_coverage), ..view }
        };
        for node in &mut view.nodes {
            // The state is not held any more: whoever holds both holds the nodes first.
            if let NodeAddress::SameHost { port, ip, host_name } = &mut node.address {
                AnnouncedName { ip: *ip, host_name: *host_name } = self.announced(*port);
            }
        }
        Some(view)
    }

    fn sentinel_info(&self, at: NodeNumber) -> Option<String> {
        let hosts = self.addresses();
        let address = move |node: NodeNumber| hosts.get(node).cloned().unwrap_or_default();
        match &*self.state.lock() {
            Model::Sentinels(sentinels) => Some(sentinels.sentinel(at)?.info(&address)),
            Model::Cluster(_) => None,
        }
    }

    fn announced(&self, port: u16) -> AnnouncedName {
        let nodes = self.nodes.lock();
        let node = nodes.iter().find(|node| node.port.number == port);
        node.map(|node| announced(&node.namespace.settings.current())).unwrap_or_default()
    }

    fn send_snapshots(&self, at: NodeNumber) {
        let node = self.node(at);
        self.tenancy.runtime.spawn_blocking(move || send_copies(&node));
    }

    fn is_cluster(&self) -> bool {
        matches!(*self.state.lock(), Model::Cluster(_))
    }

    fn publish(&self, from: NodeNumber, message: Message<'_>, is_sharded: bool, now: Now) {
        let reached: Vec<_> = {
            let (nodes, state) = (self.nodes.lock(), self.state.lock());
            let shard = |state: &Model, node| state.primary_of(node).unwrap_or(node);
            let others = (0..nodes.len()).filter(|other| *other != from && state.reaches(from, *other));
            let others = others.filter(|other| !is_sharded || shard(&state, from) == shard(&state, *other));
            others.map(|other| nodes[other].namespace.clone()).collect()
        };
        for namespace in reached {
            let config = namespace.settings.current();
            if is_sharded {
                namespace.push.hub.publish_to_shard(message, &config, now);
            } else {
                namespace.push.hub.publish(message, &config, now);
            }
        }
    }
}

/// Returns what the settings of a node announce in place of the address that a client has reached.
fn announced(config: &Config) -> AnnouncedName {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    AnnouncedName {
        ip: config.cluster_announce_ip.as_deref().map(text),
        host_name: config.cluster_announce_hostname.as_deref().map(text).unwrap_or_default(),
    }
}
