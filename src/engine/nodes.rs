//! The live processes as nodes of a cluster: what the marker of a process tells of it, and the list of those that are known.
//!
//! Nodes are advice to clients. Each process serves every key, so nothing depends on when a process learns of another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tracing::warn;

use crate::config::Config;
use crate::engine::cluster::{NamedValue, Revision};
use crate::engine::stored::StoredNode;
use crate::namespace::Namespace;
use crate::time::clock::Now;
use crate::topology::{ClusterView, NodeAddress, NodeIdentity, NodeView, bus_port_of, deal};

/// The version of [`StoredNode`]: a marker of another version is none of a node.
const NODE_FORMAT: u32 = 1;

/// Time after which the search for an own address is given up, as the lease has to be renewed.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the node that a marker tells of; `None` if its process is no node, as that of an earlier version.
fn node_of(marker: &[u8]) -> Option<StoredNode> {
    let is_node = |node: &StoredNode| node.format == NODE_FORMAT && is_id(&node.id) && is_id(&node.shard_id);
    StoredNode::decode(marker).ok().filter(is_node)
}

fn is_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The nodes that are known, shared with the threads that answer clients.
pub(super) struct KnownNodes {
    /// The node of this process, if it is one.
    own: Option<NodeIdentity>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    live: BTreeMap<u64, LiveNode>,
    /// True if a marker of the own node was seen. Before that, the process is about to be registered.
    has_seen_own: bool,
    /// Revision of the last change.
    changed: Revision,
}

struct LiveNode {
    node: StoredNode,
    /// Revision of the marker.
    revision: Revision,
    /// The time at which this process has learned of it, in milliseconds since 1970.
    learned_ms: i64,
}

impl KnownNodes {
    /// Creates an empty list, for a process that may be a node.
    pub(super) fn new(own: Option<NodeIdentity>) -> Self {
        KnownNodes { own, known: Mutex::default() }
    }

    /// Applies a marker.
    pub(super) fn put(&self, process: u64, marker: &NamedValue, now: Now) {
        let mut known = self.known.lock();
        known.changed = known.changed.max(marker.mod_revision);
        let Some(node) = node_of(&marker.value) else {
            known.live.remove(&process);
            return;
        };
        known.has_seen_own |= self.own.as_ref().is_some_and(|own| own.id == node.id);
        known.live.insert(process, LiveNode { node, revision: marker.mod_revision, learned_ms: now.wall_ms() });
    }

    /// Applies the end of a process.
    pub(super) fn remove(&self, process: u64, revision: Revision) {
        let mut known = self.known.lock();
        if known.live.remove(&process).is_some() {
            known.changed = known.changed.max(revision);
        }
    }

    /// Applies all markers that exist at a revision.
    pub(super) fn replace(&self, markers: &BTreeMap<u64, NamedValue>, revision: Revision, now: Now) {
        let gone: Vec<u64> =
            self.known.lock().live.keys().filter(|process| !markers.contains_key(process)).copied().collect();
        gone.into_iter().for_each(|process| self.remove(process, revision));
        markers.iter().for_each(|(process, marker)| self.put(*process, marker, now));
    }

    /// Returns the cluster as this process sees it, which `is_ok` if it serves; `None` if it is no node.
    pub(super) fn view(&self, is_ok: bool) -> Option<ClusterView> {
        let own = self.own.as_ref()?;
        let known = self.known.lock();
        let mut live: BTreeMap<&str, &LiveNode> = BTreeMap::new();
        for node in known.live.values() {
            // Of two markers of a node one is that of its former process, which is not over yet.
            let present = live.entry(&node.node.id).or_insert(node);
            if present.revision < node.revision {
                *present = node;
            }
        }
        let mut nodes: Vec<NodeView> = live.values().map(|live| live.view()).collect();
        let place = nodes.binary_search_by(|node| node.id.cmp(&own.id)).unwrap_or_else(|place| {
            nodes.insert(place, NodeView { is_connected: true, ..named(&own.id, &own.shard_id) });
            place
        });
        if nodes.len() == 1 {
            nodes[place].address = NodeAddress::Own; // so that its clients need no announcement
        }
        let is_served = |node: &NodeView| node.id != own.id || live.contains_key(&*own.id) || !known.has_seen_own;
        let served: Vec<usize> = (0..nodes.len()).filter(|node| is_served(&nodes[*node])).collect();
        let ids: Vec<&str> = served.iter().map(|node| nodes[*node].id.as_str()).collect();
        let dealt = deal(&ids);
        for (node, slots) in served.iter().zip(dealt) {
            nodes[*node].slots = slots;
        }
        let current_epoch = u64::try_from(known.changed).unwrap_or(0);
        Some(ClusterView { nodes, own: place, current_epoch, is_ok: is_ok && !served.is_empty() })
    }
}

fn named(id: &str, shard_id: &str) -> NodeView {
    NodeView { id: id.to_owned(), shard_id: shard_id.to_owned(), ..NodeView::default() }
}

impl LiveNode {
    fn view(&self) -> NodeView {
        let StoredNode { id, shard_id, ip, host_name, .. } = &self.node;
        let port = |port: u32| u16::try_from(port).unwrap_or(0);
        NodeView {
            address: NodeAddress::At {
                ip: ip.clone(),
                port: port(self.node.port),
                tls_port: port(self.node.tls_port),
                bus_port: port(self.node.bus_port),
                host_name: host_name.clone(),
            },
            config_epoch: u64::try_from(self.revision).unwrap_or(0),
            is_connected: true,
            linked_ms: self.learned_ms,
            ..named(id, shard_id)
        }
    }
}

/// Announcement of this process to the others, in its marker.
pub(super) struct Announcement {
    namespace: Arc<Namespace>,
    /// URLs of the cluster's members.
    endpoints: Vec<String>,
    /// The local address by which a member is reached, if there is one, once it was looked for.
    reached_by: OnceCell<Option<IpAddr>>,
}

impl Announcement {
    /// Creates the announcement of a process that reaches the cluster at these URLs.
    pub(super) fn new(namespace: Arc<Namespace>, endpoints: Vec<String>) -> Self {
        Announcement { namespace, endpoints, reached_by: OnceCell::new() }
    }

    /// Returns the value of the marker as the settings are at present; an empty one if clients cannot reach this process as a node.
    pub(super) async fn marker(&self) -> Vec<u8> {
        let Some(own) = self.namespace.node() else { return Vec::new() };
        let config = self.namespace.settings.current();
        let own_port = self.namespace.instance.tcp_port.load(Relaxed) as u16;
        let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
        let port = or(config.cluster_announce_port, if own_port == config.tls_port { 0 } else { own_port });
        let tls_port = or(config.cluster_announce_tls_port, config.tls_port);
        let first_port = or(port, tls_port);
        if first_port == 0 {
            return Vec::new();
        }
        let bus_port = or(config.cluster_announce_bus_port, or(config.cluster_port, bus_port_of(first_port)));
        let text = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|text| String::from_utf8_lossy(text).into_owned());
        let ip = match text(&config.cluster_announce_ip) {
            Some(ip) => ip,
            None => self.address(&config).await.map(|ip| ip.to_string()).unwrap_or_default(),
        };
        let node = StoredNode {
            format: NODE_FORMAT,
            id: own.id.clone(),
            shard_id: own.shard_id.clone(),
            ip,
            port: port.into(),
            tls_port: tls_port.into(),
            bus_port: bus_port.into(),
            host_name: text(&config.cluster_announce_hostname).unwrap_or_default(),
        };
        node.encode_to_vec()
    }

    /// Returns the address at which clients are likely to reach this process: the one at which it listens, if that is one, and
    /// otherwise the one by which it reaches the cluster.
    async fn address(&self, config: &Config) -> Option<IpAddr> {
        match bound_address(&config.bind) {
            Some(bound) => Some(bound),
            None => *self.reached_by.get_or_init(|| local_address(&self.endpoints)).await,
        }
    }
}

/// Returns the address among those of the setting `bind` at which other machines reach the process, if it does not listen at all
/// of its machine.
fn bound_address(bind: &[String]) -> Option<IpAddr> {
    let mut bound: Vec<IpAddr> =
        bind.iter().map(|address| address.trim_start_matches('-').parse().ok()).collect::<Option<_>>()?;
    bound.sort_by_key(IpAddr::is_loopback);
    bound.first().filter(|_| !bound.iter().any(IpAddr::is_unspecified)).copied()
}

/// Returns the address of this machine from which it reaches one of these URLs: if possible one that other machines reach, too.
async fn local_address(urls: &[String]) -> Option<IpAddr> {
    let mut found = None;
    let search = async {
        for url in urls {
            let authority = url.split("://").nth(1).unwrap_or(url).split('/').next().unwrap_or_default();
            let members = tokio::net::lookup_host(authority).await.into_iter().flatten();
            for local in members.filter_map(source_address) {
                found = Some(local);
                if !local.is_loopback() {
                    return;
                }
            }
        }
    };
    let _ = timeout(SEARCH_TIMEOUT, search).await; // what was found until then is better than nothing
    if found.is_none() {
        warn!("etcd: no address of this process is known for clients: set cluster-announce-ip");
    }
    found
}

/// Returns the address that packets to another one would come from. None is sent.
fn source_address(to: SocketAddr) -> Option<IpAddr> {
    let any = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|local| local.ip()).filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stored::FORMAT;
    use crate::time::clock::Clock;

    fn node(digit: char, port: u32) -> StoredNode {
        let id = digit.to_string().repeat(40);
        let ip = "192.0.2.7".to_owned();
        StoredNode { format: NODE_FORMAT, shard_id: id.clone(), id, ip, port, ..StoredNode::default() }
    }

    fn own() -> NodeIdentity {
        let StoredNode { id, shard_id, .. } = node('a', 1);
        NodeIdentity { id, shard_id }
    }

    fn marker(value: Vec<u8>, mod_revision: Revision) -> NamedValue {
        NamedValue { name: Vec::new(), value, mod_revision, version: 1 }
    }

    fn put(known: &KnownNodes, process: u64, value: &StoredNode, revision: Revision) {
        known.put(process, &marker(value.encode_to_vec(), revision), Clock::manual().now());
    }

    /// Returns the first digit of the ids of the nodes, in upper case if they have slots.
    fn shown(known: &KnownNodes) -> String {
        let view = known.view(true).expect("it is a node");
        let slots: u32 =
            view.nodes.iter().flat_map(|node| &node.slots).map(|(first, last)| u32::from(last - first) + 1).sum();
        assert!(slots == 16384 || !view.is_ok && slots == 0);
        let digit = |node: &NodeView| {
            let digit = node.id.chars().next().expect("an id");
            if node.slots.is_empty() { digit } else { digit.to_ascii_uppercase() }
        };
        view.nodes.iter().map(digit).collect()
    }

    #[test]
    fn a_marker_of_this_version_is_that_of_a_node_and_no_other_is() {
        let value = node('a', 1);
        assert_eq!(node_of(&value.encode_to_vec()), Some(value.clone()));
        let later = StoredNode { format: NODE_FORMAT + 1, ..value.clone() };
        let nameless = StoredNode { id: "a".to_owned(), ..value };
        for other in [Vec::new(), later.encode_to_vec(), nameless.encode_to_vec(), FORMAT.to_vec(), vec![0xff; 50]] {
            assert_eq!(node_of(&other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn the_nodes_are_the_live_processes_that_have_announced_themselves() {
        let known = KnownNodes::new(Some(own()));
        assert_eq!(shown(&known), "A", "it is about to be registered");
        put(&known, 2, &node('b', 2), 10);
        assert_eq!(shown(&known), "AB");
        put(&known, 1, &node('a', 1), 11);
        put(&known, 3, &node('c', 3), 12);
        known.put(4, &marker(Vec::new(), 13), Clock::manual().now());
        assert_eq!(shown(&known), "ABC");
        known.remove(2, 14);
        assert_eq!(shown(&known), "AC");
        known.remove(1, 15);
        assert_eq!(shown(&known), "aC", "its lease is over, and it has no slots");
        known.remove(3, 16);
        assert_eq!(shown(&known), "a");
        put(&known, 5, &node('a', 1), 17);
        assert_eq!((shown(&known), known.view(true).expect("a node").current_epoch), ("A".to_owned(), 17));
        assert_eq!(KnownNodes::new(None).view(true), None);
    }

    #[test]
    fn a_node_that_has_begun_again_is_where_it_is_now() {
        let known = KnownNodes::new(Some(own()));
        put(&known, 1, &node('a', 1), 10);
        put(&known, 9, &node('b', 7), 11);
        put(&known, 3, &node('b', 8), 12);
        let port = || match &known.view(true).expect("a node").nodes[1].address {
            NodeAddress::At { port, .. } => *port,
            other => panic!("{other:?}"),
        };
        assert_eq!((shown(&known), port()), ("AB".to_owned(), 8));
        known.remove(9, 13);
        assert_eq!((shown(&known), port()), ("AB".to_owned(), 8));
        let markers = BTreeMap::from([(1, marker(node('a', 1).encode_to_vec(), 10))]);
        known.replace(&markers, 20, Clock::manual().now());
        assert_eq!(shown(&known), "A");
        assert_eq!(known.view(true).expect("a node").nodes[0].address, NodeAddress::Own);
    }

    #[test]
    fn an_address_is_one_of_bind_or_none() {
        let bound = |addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
            bound_address(&addresses).map(|ip| ip.to_string())
        };
        assert_eq!(bound(&["127.0.0.1", "192.0.2.7"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(bound(&["127.0.0.1", "-::1"]).as_deref(), Some("127.0.0.1"));
        for all in [&["*", "-::*"][..], &["0.0.0.0"], &["127.0.0.1", "::"], &[], &["host.example"]] {
            assert_eq!(bound(all), None, "{all:?}");
        }
    }

    #[tokio::test]
    async fn the_address_by_which_a_member_is_reached_is_found_without_asking_it() {
        let found = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            async move { local_address(&urls).await.map(|ip| ip.to_string()) }
        };
        assert_eq!(found(&["http://127.0.0.1:1/"]).await.as_deref(), Some("127.0.0.1"));
        assert_eq!(found(&["http://", "https://nowhere.invalid:1"]).await, None);
    }
}
