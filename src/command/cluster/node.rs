//! The node and its cluster: ids, slots and addresses.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::{Config, EndpointType};
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::topology::{NodeIdentity, SLOT_COUNT, bus_port_of};

/// Addresses of the node, as the asking client is told.
struct Announced<'a> {
    ip: String,
    /// The port for clients that connect as the asking one does.
    port: u16,
    bus_port: u16,
    /// The ports without and with TLS; 0 without such a port.
    plain_port: u16,
    tls_port: u16,
    host_name: &'a [u8],
    preferred: EndpointType,
}

impl<'a> Announced<'a> {
    /// Returns the addresses that the settings announce, and otherwise the local address of the client's connection.
    fn to_caller(call: &Call<'a>) -> Self {
        let config: &'a Config = call.config;
        let reached = call.caller.info.peer.laddr.parse::<SocketAddr>().ok();
        let is_tls = reached.is_some_and(|addr| addr.port() == config.tls_port);
        let own_port = call.namespace.instance.tcp_port.load(Relaxed) as u16;
        let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
        // The port of the connection is a port of its kind, with or without TLS; the other one is known from the settings.
        let reached_port = |is_meant: bool, own: u16| reached.filter(|_| is_meant).map_or(own, |addr| addr.port());
        let plain_port = or(
            config.cluster_announce_port,
            reached_port(!is_tls, if own_port == config.tls_port { 0 } else { own_port }),
        );
        let tls_port = or(config.cluster_announce_tls_port, reached_port(is_tls, config.tls_port));
        let port = if is_tls || plain_port == 0 { tls_port } else { plain_port };
        let announced = config.cluster_announce_ip.as_deref();
        Announced {
            ip: match announced {
                Some(ip) => String::from_utf8_lossy(ip).into_owned(),
                None => reached.map(|addr| addr.ip().to_canonical().to_string()).unwrap_or_default(),
            },
            port,
            bus_port: or(config.cluster_announce_bus_port, or(config.cluster_port, bus_port_of(port))),
            plain_port,
            tls_port,
            host_name: config.cluster_announce_hostname.as_deref().unwrap_or_default(),
            preferred: config.cluster_preferred_endpoint_type,
        }
    }

    /// Returns the name of the node; `None` if clients are to use the address that they have.
    fn endpoint(&self) -> Option<&[u8]> {
        match self.preferred {
            EndpointType::Ip => Some(self.ip.as_bytes()),
            EndpointType::HostName if self.host_name.is_empty() => Some(b"?"),
            EndpointType::HostName => Some(self.host_name),
            EndpointType::Unknown => None,
        }
    }
}

/// Returns the node of the caller.
///
/// # Errors
/// A server that is not a cluster.
pub(super) fn own_node<'a>(call: &Call<'a>) -> Result<&'a NodeIdentity> {
    call.namespace.node.as_ref().ok_or(Error::other("This instance has cluster support disabled"))
}

pub(super) fn my_id(call: &mut Call<'_>) -> Result<()> {
    let node = own_node(call)?;
    call.reply.bulk(node.id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call<'_>) -> Result<()> {
    let node = own_node(call)?;
    call.reply.bulk(node.shard_id.as_bytes());
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let slots = SLOT_COUNT;
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n\
         cluster_current_epoch:0\r\ncluster_my_epoch:0\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn links(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    call.reply.array(0);
    Ok(())
}

/// Replies to SAVECONFIG: the file has what it had at the start.
pub(super) fn save_config(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn count_failure_reports(call: &mut Call<'_>) -> Result<()> {
    read_own_id(call)?;
    call.reply.int(0);
    Ok(())
}

pub(super) fn replicas(call: &mut Call<'_>) -> Result<()> {
    read_own_id(call)?;
    call.reply.array(0);
    Ok(())
}

/// Reads the id of a node, of which there is one.
fn read_own_id(call: &mut Call<'_>) -> Result<()> {
    let node = own_node(call)?;
    let id = call.args.bytes()?;
    if id == node.id.as_bytes() {
        return Ok(());
    }
    Err(Error::other(format!("Unknown node {}", String::from_utf8_lossy(id))))
}

pub(super) fn nodes(call: &mut Call<'_>) -> Result<()> {
    let (node, at) = (own_node(call)?, Announced::to_caller(call));
    let mut address = format!("{}:{}@{}", at.ip, at.port, at.bus_port);
    if !at.host_name.is_empty() {
        address.push(',');
        address.push_str(&String::from_utf8_lossy(at.host_name));
    }
    call.reply.verbatim("txt", node.line(&address).as_bytes());
    Ok(())
}

pub(super) fn slots(call: &mut Call<'_>) -> Result<()> {
    let (node, at) = (own_node(call)?, Announced::to_caller(call));
    let reply = &mut call.reply;
    reply.array(1);
    reply.array(3);
    reply.int(0);
    reply.int(i64::from(SLOT_COUNT) - 1);
    reply.array(4);
    match at.endpoint() {
        Some(endpoint) => reply.bulk(endpoint),
        None => reply.null(),
    }
    reply.int(at.port.into());
    reply.bulk(node.id.as_bytes());
    let has_ip = at.preferred != EndpointType::Ip;
    let has_host_name = at.preferred != EndpointType::HostName && !at.host_name.is_empty();
    reply.map(usize::from(has_ip) + usize::from(has_host_name));
    if has_ip {
        write_text(reply, "ip", at.ip.as_bytes());
    }
    if has_host_name {
        write_text(reply, "hostname", at.host_name);
    }
    Ok(())
}

pub(super) fn shards(call: &mut Call<'_>) -> Result<()> {
    let (node, at, offset) = (own_node(call)?, Announced::to_caller(call), call.namespace.log.end());
    let reply = &mut call.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.int(0);
    reply.int(i64::from(SLOT_COUNT) - 1);
    reply.bulk(b"nodes");
    reply.array(1);
    let ports = [("port", at.plain_port), ("tls-port", at.tls_port)];
    let ports: Vec<(&str, u16)> = ports.into_iter().filter(|(_, port)| *port != 0).collect();
    let has_host_name = !at.host_name.is_empty();
    reply.map(6 + ports.len() + usize::from(has_host_name));
    write_text(reply, "id", node.id.as_bytes());
    for (name, port) in ports {
        write_number(reply, name, port.into());
    }
    write_text(reply, "ip", at.ip.as_bytes());
    write_text(reply, "endpoint", at.endpoint().unwrap_or_default());
    if has_host_name {
        write_text(reply, "hostname", at.host_name);
    }
    write_text(reply, "role", b"master");
    write_number(reply, "replication-offset", offset as i64);
    write_text(reply, "health", b"online");
    Ok(())
}

fn write_text(reply: &mut Reply<'_>, name: &str, value: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(value);
}

fn write_number(reply: &mut Reply<'_>, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}
