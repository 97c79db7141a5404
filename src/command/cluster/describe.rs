//! The view of a cluster in the form of Redis 7.0: the lines of NODES, the text of INFO, the replies of SLOTS, SHARDS and LINKS.

use std::fmt::Write as _;

use crate::command::cluster::address::{AddressBook, Announced};
use crate::config::EndpointType;
use crate::resp::Reply;
use crate::topology::{ClusterView, NodeHealth, NodeView, Slot};

/// Returns the line about a node in the reply of NODES, without its end.
pub(super) fn line(view: &ClusterView, node: &NodeView, addresses: &AddressBook) -> String {
    let at = addresses.find(&node.address);
    let mut line = format!("{} {}:{}@{}", node.id, at.ip, at.port, at.bus_port);
    if !at.host_name.is_empty() {
        line.push(',');
        line.push_str(&at.host_name);
    }
    let is_own = view.is_own(node);
    let primary = node.primary.as_deref().unwrap_or("-");
    let link = if node.is_connected || is_own { "connected" } else { "disconnected" };
    let (ping, pong, epoch) = (node.ping_sent_ms, node.pong_received_ms, node.config_epoch);
    write_to(&mut line, format_args!(" {} {primary} {ping} {pong} {epoch} {link}", flags(node, &at, is_own)));
    for (first, last) in &node.slots {
        write_to(&mut line, format_args!(" {first}"));
        if first != last {
            write_to(&mut line, format_args!("-{last}"));
        }
    }
    let mut moving: Vec<(Slot, &str, &str)> =
        node.migrating.iter().map(|(slot, id)| (*slot, ">", id.as_str())).collect();
    moving.extend(node.importing.iter().map(|(slot, id)| (*slot, "<", id.as_str())));
    moving.sort_unstable();
    for (slot, direction, id) in moving.into_iter().filter(|_| is_own) {
        write_to(&mut line, format_args!(" [{slot}-{direction}-{id}]"));
    }
    line
}

fn write_to(text: &mut String, parts: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(parts); // a string takes everything
}

/// Returns the flags of a node, in Redis' order.
fn flags(node: &NodeView, at: &Announced, is_own: bool) -> String {
    let role = match &node.primary {
        _ if node.is_in_handshake => "handshake",
        Some(_) => "slave",
        None => "master",
    };
    let health = match node.health {
        NodeHealth::Online => "",
        NodeHealth::Suspected => ",fail?",
        NodeHealth::Failed => ",fail",
    };
    let has_address = at.port != 0 || !at.ip.is_empty();
    let (own, no_address) = (if is_own { "myself," } else { "" }, if has_address { "" } else { ",noaddr" });
    format!("{own}{role}{health}{no_address}{}", if node.has_no_failover { ",nofailover" } else { "" })
}

/// Returns the text of INFO.
pub(super) fn info(view: &ClusterView) -> String {
    let count = |health: Option<NodeHealth>| -> usize {
        let meant = view.nodes.iter().filter(|node| health.is_none_or(|health| node.health == health));
        meant.flat_map(|node| &node.slots).map(|(first, last)| usize::from(last - first) + 1).sum()
    };
    let (ok, pfail, fail) =
        (count(Some(NodeHealth::Online)), count(Some(NodeHealth::Suspected)), count(Some(NodeHealth::Failed)));
    format!(
        "cluster_state:{}\r\ncluster_slots_assigned:{}\r\ncluster_slots_ok:{ok}\r\n\
         cluster_slots_pfail:{pfail}\r\ncluster_slots_fail:{fail}\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\n\
         cluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n",
        if view.is_ok { "ok" } else { "fail" },
        count(None),
        view.nodes.len(),
        view.nodes.iter().filter(|node| !node.slots.is_empty()).count(),
        view.current_epoch,
        view.own().config_epoch,
    )
}

/// Writes the reply of LINKS: a link to each other node that is connected, and one from it.
pub(super) fn write_links(reply: &mut Reply<'_>, view: &ClusterView) {
    let linked: Vec<&NodeView> = view.nodes.iter().filter(|node| node.is_connected && !view.is_own(node)).collect();
    reply.array(2 * linked.len());
    for node in linked {
        for direction in ["to", "from"] {
            reply.map(6);
            write_text(reply, "direction", direction);
            write_text(reply, "node", &node.id);
            write_number(reply, "create-time", node.linked_ms);
            write_text(reply, "events", "r");
            write_number(reply, "send-buffer-allocated", 0);
            write_number(reply, "send-buffer-used", 0);
        }
    }
}

/// Writes the reply of SLOTS: ascending ranges, each with its primary and the replicas that can be asked.
pub(super) fn write_slots(reply: &mut Reply<'_>, view: &ClusterView, addresses: &AddressBook) {
    let mut ranges: Vec<(Slot, Slot, &NodeView)> = Vec::new();
    for node in &view.nodes {
        ranges.extend(node.slots.iter().map(|(first, last)| (*first, *last, node)));
    }
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    reply.array(ranges.len());
    for (first, last, primary) in ranges {
        let available = |node: &&NodeView| node.health != NodeHealth::Failed && node.offset != 0;
        let replicas: Vec<&NodeView> = view.replicas_of(primary).filter(available).collect();
        reply.array(3 + replicas.len());
        reply.int(first.into());
        reply.int(last.into());
        for node in std::iter::once(primary).chain(replicas) {
            write_endpoint(reply, node, addresses);
        }
    }
}

/// Writes a node as SLOTS names it.
fn write_endpoint(reply: &mut Reply<'_>, node: &NodeView, addresses: &AddressBook) {
    let at = addresses.find(&node.address);
    reply.array(4);
    match addresses.endpoint(&at) {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
    reply.int(at.port.into());
    reply.bulk(node.id.as_bytes());
    let has_ip = addresses.preferred != EndpointType::Ip;
    let has_host_name = addresses.preferred != EndpointType::HostName && !at.host_name.is_empty();
    reply.map(usize::from(has_ip) + usize::from(has_host_name));
    if has_ip {
        write_text(reply, "ip", &at.ip);
    }
    if has_host_name {
        write_text(reply, "hostname", &at.host_name);
    }
}

/// Writes the reply of SHARDS: each primary with its slots and its replicas.
pub(super) fn write_shards(reply: &mut Reply<'_>, view: &ClusterView, addresses: &AddressBook) {
    let is_primary = |node: &&NodeView| node.primary.is_none() && !node.is_in_handshake;
    let primaries: Vec<&NodeView> = view.nodes.iter().filter(is_primary).collect();
    reply.array(primaries.len());
    for primary in primaries {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * primary.slots.len());
        for (first, last) in &primary.slots {
            reply.int((*first).into());
            reply.int((*last).into());
        }
        reply.bulk(b"nodes");
        let replicas: Vec<&NodeView> = view.replicas_of(primary).collect();
        reply.array(1 + replicas.len());
        for node in std::iter::once(primary).chain(replicas) {
            write_details(reply, node, addresses);
        }
    }
}

/// Writes a node as SHARDS describes it.
fn write_details(reply: &mut Reply<'_>, node: &NodeView, addresses: &AddressBook) {
    let at = addresses.find(&node.address);
    let ports = [("port", at.plain_port), ("tls-port", at.tls_port)];
    let ports: Vec<(&str, u16)> = ports.into_iter().filter(|(_, port)| *port != 0).collect();
    let has_host_name = !at.host_name.is_empty();
    reply.map(6 + ports.len() + usize::from(has_host_name));
    write_text(reply, "id", &node.id);
    for (name, port) in ports {
        write_number(reply, name, port.into());
    }
    write_text(reply, "ip", &at.ip);
    write_text(reply, "endpoint", addresses.endpoint(&at).unwrap_or_default());
    if has_host_name {
        write_text(reply, "hostname", &at.host_name);
    }
    let is_replica = node.primary.is_some();
    write_text(reply, "role", if is_replica { "replica" } else { "master" });
    write_number(reply, "replication-offset", node.offset as i64);
    let health = match node.health {
        NodeHealth::Failed => "fail",
        _ if is_replica && node.offset == 0 => "loading",
        _ => "online",
    };
    write_text(reply, "health", health);
}

fn write_text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn write_number(reply: &mut Reply<'_>, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Output, Protocol};
    use crate::topology::NodeAddress;

    const IP: &str = "127.0.0.1";

    fn node(id: &str, port: u16, config_epoch: u64) -> NodeView {
        let address =
            NodeAddress::At { ip: IP.to_owned(), port, tls_port: 0, bus_port: port + 10_000, host_name: String::new() };
        let id = id.to_owned();
        NodeView { id, address, config_epoch, is_connected: true, linked_ms: 9, ..NodeView::default() }
    }

    fn replica(id: &str, port: u16, config_epoch: u64, primary: &str) -> NodeView {
        NodeView { primary: Some(primary.to_owned()), ..node(id, port, config_epoch) }
    }

    /// Returns what a node of redis-server 7.0.15 has seen after two others have ended, one of them a primary, and with slots on
    /// their way.
    fn seen() -> (ClusterView, AddressBook) {
        let moving = |slot, id: &str| (slot, id.to_owned());
        let failed = |node: NodeView| NodeView {
            health: NodeHealth::Failed,
            is_connected: false,
            ping_sent_ms: 70,
            pong_received_ms: 69,
            offset: 14,
            failure_reports: 1,
            ..node
        };
        let alive = |pong_received_ms, offset, node| NodeView { pong_received_ms, offset, ..node };
        let nodes = vec![
            alive(1000, 302, replica("E", 7105, 1, "A")),
            NodeView { slots: vec![(5461, 6000), (6002, 10922)], ..alive(1580, 64, node("F", 7106, 7)) },
            NodeView { is_in_handshake: true, is_connected: false, ..node("H", 7999, 0) },
            NodeView {
                address: NodeAddress::Own,
                slots: vec![(0, 5460)],
                migrating: vec![moving(7, "C"), moving(5, "B")],
                importing: vec![moving(6001, "B")],
                ..alive(1000, 302, node("A", 7101, 1))
            },
            failed(replica("D", 7104, 3, "C")),
            NodeView { slots: vec![(10923, 16383)], ..alive(2183, 93, node("C", 7103, 3)) },
            NodeView { slots: vec![(6001, 6001)], ..failed(node("B", 7102, 2)) },
        ];
        let view = ClusterView { nodes, own: 3, current_epoch: 7, is_ok: false };
        (view, AddressBook::of_test(IP, 7101, EndpointType::Ip))
    }

    /// Returns a reply with spaces for the ends of lines, without the lengths of texts.
    fn written(write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut output = Output::new();
        write(&mut Reply::new(&mut output, Protocol::Resp3));
        let text = String::from_utf8_lossy(&output.into_bytes()).into_owned();
        let words = text.split("\r\n").filter(|line| !line.starts_with('$'));
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    #[test]
    fn lines_about_nodes_are_those_of_redis() {
        let (view, addresses) = seen();
        let lines: Vec<String> = view.nodes.iter().map(|node| line(&view, node, &addresses)).collect();
        assert_eq!(
            lines,
            [
                "E 127.0.0.1:7105@17105 slave A 0 1000 1 connected",
                "F 127.0.0.1:7106@17106 master - 0 1580 7 connected 5461-6000 6002-10922",
                "H 127.0.0.1:7999@17999 handshake - 0 0 0 disconnected",
                "A 127.0.0.1:7101@17101 myself,master - 0 1000 1 connected 0-5460 [5->-B] [7->-C] [6001-<-B]",
                "D 127.0.0.1:7104@17104 slave,fail C 70 69 3 disconnected",
                "C 127.0.0.1:7103@17103 master - 0 2183 3 connected 10923-16383",
                "B 127.0.0.1:7102@17102 master,fail - 70 69 2 disconnected 6001",
            ]
        );
        let host_name = "a.example".to_owned();
        let address = NodeAddress::At { ip: String::new(), port: 0, tls_port: 0, bus_port: 0, host_name };
        let gone = NodeView { address, health: NodeHealth::Suspected, slots: Vec::new(), ..view.nodes[1].clone() };
        assert_eq!(line(&view, &gone, &addresses), "F :0@0,a.example master,fail?,noaddr - 0 1580 7 connected");
        let beside =
            NodeView { address: NodeAddress::SameHost { port: 7, ip: None, host_name: String::new() }, ..gone };
        assert_eq!(line(&view, &beside, &addresses), "F 127.0.0.1:7@10007 master,fail? - 0 1580 7 connected");
    }

    #[test]
    fn slots_are_told_in_their_order_with_the_replicas_that_can_be_asked() {
        let (view, addresses) = seen();
        assert_eq!(
            written(|reply| write_slots(reply, &view, &addresses)),
            "*5 *4 :0 :5460 *4 127.0.0.1 :7101 A %0 *4 127.0.0.1 :7105 E %0 *3 :5461 :6000 *4 127.0.0.1 :7106 F %0 \
             *3 :6001 :6001 *4 127.0.0.1 :7102 B %0 *3 :6002 :10922 *4 127.0.0.1 :7106 F %0 \
             *3 :10923 :16383 *4 127.0.0.1 :7103 C %0"
        );
    }

    #[test]
    fn shards_are_primaries_with_their_replicas() {
        let (view, addresses) = seen();
        let node = |id: &str, role: &str, offset: u64, health: &str| {
            let port = view.nodes.iter().find(|node| node.id == id).map(|node| addresses.find(&node.address).port);
            format!(
                "%7 id {id} port :{} ip {IP} endpoint {IP} role {role} replication-offset :{offset} health {health}",
                port.expect("it is there")
            )
        };
        let shards = [
            format!("*4 %2 slots *4 :5461 :6000 :6002 :10922 nodes *1 {}", node("F", "master", 64, "online")),
            format!("%2 slots *2 :0 :5460 nodes *2 {}", node("A", "master", 302, "online")),
            node("E", "replica", 302, "online"),
            format!("%2 slots *2 :10923 :16383 nodes *2 {}", node("C", "master", 93, "online")),
            node("D", "replica", 14, "fail"),
            format!("%2 slots *2 :6001 :6001 nodes *1 {}", node("B", "master", 14, "fail")),
        ];
        assert_eq!(written(|reply| write_shards(reply, &view, &addresses)), shards.join(" "));
    }

    #[test]
    fn the_state_counts_slots_by_the_health_of_their_nodes() {
        let (view, _) = seen();
        let text = info(&view);
        for line in [
            "cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16383\r\n",
            "cluster_slots_pfail:0\r\ncluster_slots_fail:1\r\ncluster_known_nodes:7\r\ncluster_size:4\r\n",
            "cluster_current_epoch:7\r\ncluster_my_epoch:1\r\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn each_connected_node_has_two_links() {
        let (view, _) = seen();
        let link = |id: &str, direction: &str| {
            let buffers = "send-buffer-allocated :0 send-buffer-used :0";
            format!("%6 direction {direction} node {id} create-time :9 events r {buffers}")
        };
        let links = ["E", "F", "C"].map(|id| format!("{} {}", link(id, "to"), link(id, "from")));
        assert_eq!(written(|reply| write_links(reply, &view)), format!("*6 {}", links.join(" ")));
    }
}
