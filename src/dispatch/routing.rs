//! Routing of calls in a topology: whether a node serves the keys of a call, or who does.
//!
//! The order of the reasons is that of Redis Cluster.

use std::net::SocketAddr;

use crate::client::caller::Caller;
use crate::config::EndpointType;
use crate::dispatch::admission::{Admission, declares_writes};
use crate::error::Error;
use crate::namespace::member::Member;
use crate::namespace::member::RoutingTable;
use crate::spec::marks::MOVES_KEYS;
use crate::spec::registry::Hashes;
use crate::spec::{ASKING, Group, WRITE};
use crate::store::{Cx, Lookup, Origin};
use crate::topology::{Slot, slot_of};

/// Reason for which a node does not serve the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// The keys are in several slots.
    CrossSlot,
    /// The slot has no node.
    Unassigned,
    /// The cluster is down.
    Down,
    /// The cluster is down, and serves reads only.
    DownForWrites,
    /// Some of the keys have moved to another node already.
    TryAgain,
    /// The key is at the node that the slot is being moved to.
    Ask { slot: Slot, port: u16 },
    /// The slot belongs to another node.
    Moved { slot: Slot, port: u16 },
}

impl Redirection {
    /// Returns the error that a client gets; nodes are named by the address at which it has reached this one.
    pub(super) fn error(self, call: &Admission<'_>) -> Error {
        match self {
            Redirection::CrossSlot => Error::CrossSlot,
            Redirection::Unassigned => Error::ClusterDown("CLUSTERDOWN Hash slot not served"),
            Redirection::Down => Error::ClusterDown("CLUSTERDOWN The cluster is down"),
            Redirection::DownForWrites => {
                Error::ClusterDown("CLUSTERDOWN The cluster is down and only accepts read commands")
            }
            Redirection::TryAgain => Error::TryAgain,
            Redirection::Ask { slot, port } => Error::Ask { slot, host: host_at(call, port), port },
            Redirection::Moved { slot, port } => Error::Moved { slot, host: host_at(call, port), port },
        }
    }

    /// Returns the text of the error that a script gets.
    pub(super) fn text_for_scripts(self, name: &str) -> String {
        match self {
            Redirection::CrossSlot => {
                format!("Command '{name}' in script attempted to access keys that don't hash to the same slot")
            }
            Redirection::DownForWrites => {
                "Script attempted to execute a write command while the cluster is down and readonly".to_owned()
            }
            Redirection::Down => "Script attempted to execute a command while the cluster is down".to_owned(),
            Redirection::Unassigned => "Script attempted to access a slot not served".to_owned(),
            Redirection::TryAgain | Redirection::Ask { .. } | Redirection::Moved { .. } => {
                "Script attempted to access a non local key in a cluster node".to_owned()
            }
        }
    }
}

/// Checks that a node serves the keys of a call, for EXEC those of its queue.
///
/// # Errors
/// The reason why it does not.
pub(super) fn route(call: &Admission<'_>, table: &RoutingTable) -> Result<(), Redirection> {
    let keys = call.routed_keys();
    let Some(first) = keys.first() else { return Ok(()) };
    let (slot, routes) = (slot_of(first), &table.routes);
    // A blocked call, which waits on while its slot is being moved.
    let is_again = call.session.is_none() && call.script.is_none();
    let is_down = !routes.service.is_ok(call.config.cluster_require_full_coverage);
    if is_again && is_down && !call.config.cluster_allow_reads_when_down {
        return Err(Redirection::Down);
    }
    let Some(owner) = table.owner(slot) else { return Err(Redirection::Unassigned) };
    if keys.iter().any(|key| slot_of(key) != slot) {
        return Err(Redirection::CrossSlot);
    }
    let is_pubsub = call.command.command.group == Group::PubSub;
    let writes = || call.executes(|command, request| declares_writes(call.namespace, command, request, WRITE));
    if is_down {
        if is_pubsub && call.config.cluster_allow_pubsubshard_when_down {
        } else if is_pubsub || !call.config.cluster_allow_reads_when_down {
            return Err(Redirection::Down);
        } else if writes() {
            return Err(Redirection::DownForWrites);
        }
    }
    let port_of = |node: usize| table.ports.get(node).copied().unwrap_or(0);
    let (is_own, target) = (owner == routes.own, routes.migrating.get(&slot).copied());
    let leaves = target.filter(|_| is_own && !is_again);
    let arrives = !is_own && routes.importing.contains_key(&slot) && !is_again;
    if leaves.is_some() || arrives {
        if call.command.is(MOVES_KEYS) {
            return Ok(());
        }
        let (present, absent) = if is_pubsub { (0, 0) } else { count_present(call, &keys) };
        if let Some(target) = leaves.filter(|_| absent > 0) {
            let redirection = Redirection::Ask { slot, port: port_of(target) };
            return Err(if present > 0 { Redirection::TryAgain } else { redirection });
        }
        if arrives && (call.caller.is_asking || call.command.flags & ASKING != 0) {
            let has_several = keys.iter().any(|key| key != first);
            return if has_several && absent > 0 { Err(Redirection::TryAgain) } else { Ok(()) };
        }
    }
    let may_read = call.caller.reads_replica || is_pubsub;
    let serves = is_own || may_read && routes.primary == Some(owner) && !writes();
    if serves { Ok(()) } else { Err(Redirection::Moved { slot, port: port_of(owner) }) }
}

/// Returns how many of the keys are there, and how many are not. The caller does not hold the store, unless a script calls.
fn count_present(call: &Admission<'_>, keys: &[&[u8]]) -> (usize, usize) {
    if let Some(script) = call.script {
        return script.presence;
    }
    let store = &call.namespace.store;
    let hashes: Hashes = keys.iter().map(|key| store.hash(key)).collect();
    let mut guard = store.hold(1);
    let cx = Cx { lookup: Lookup::PEEK, ..Cx::new(call.now, Origin::HOST) };
    let mut view = guard.view(0, &hashes, cx);
    if view.is_closed() {
        return (keys.len(), 0); // a busy script holds the store, and the call is rejected
    }
    let present = keys.iter().filter(|key| view.lookup(store.key(key), Lookup::PEEK).is_some()).count();
    (present, keys.len() - present)
}

/// Returns the host of the node at a port, as the calling client is told.
fn host_at(call: &Admission<'_>, port: u16) -> Box<str> {
    let announced = call.namespace.member().and_then(Member::topology).map(|topology| topology.announced(port));
    let announced = announced.unwrap_or_default();
    match call.config.cluster_preferred_endpoint_type {
        EndpointType::Ip => announced.ip.map_or_else(|| reached_host(call.caller), String::into_boxed_str),
        EndpointType::HostName if announced.host_name.is_empty() => "?".into(),
        EndpointType::HostName => announced.host_name.into(),
        EndpointType::Unknown => "".into(),
    }
}

/// Returns the IP address at which a client has reached the server.
pub(crate) fn reached_host(caller: &Caller) -> Box<str> {
    let reached = caller.info.peer.laddr.parse::<SocketAddr>().ok();
    reached.map(|addr| addr.ip().to_canonical().to_string()).unwrap_or_default().into()
}
