//! Addresses of nodes, as the asking client is told.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::config::{Config, EndpointType};
use crate::dispatch::Call;
use crate::topology::{NodeAddress, bus_port_of};

/// Address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) ip: String,
    /// The port for clients that connect as the asking one does.
    pub(super) port: u16,
    pub(super) bus_port: u16,
    /// The ports without and with TLS; 0 without such a port.
    pub(super) plain_port: u16,
    pub(super) tls_port: u16,
    pub(super) host_name: String,
}

/// The addresses of all nodes for one client.
pub(super) struct AddressBook {
    own: Announced,
    /// True if the client is connected with TLS.
    is_tls: bool,
    pub(super) preferred: EndpointType,
}

impl AddressBook {
    /// Reads the own address from the settings, and otherwise from the local address of the client's connection.
    pub(super) fn for_caller(call: &Call<'_>) -> Self {
        let config: &Config = call.config;
        let reached = call.caller.info.peer.laddr.parse::<SocketAddr>().ok();
        let is_tls = reached.is_some_and(|addr| addr.port() == config.tls_port);
        let own_port = call.namespace.port();
        let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
        // The port of the connection is a port of its kind, with or without TLS; the other one is known from the settings.
        let reached_port = |is_meant: bool, own: u16| reached.filter(|_| is_meant).map_or(own, |addr| addr.port());
        let plain_port = or(
            config.cluster_announce_port,
            reached_port(!is_tls, if own_port == config.tls_port { 0 } else { own_port }),
        );
        let tls_port = or(config.cluster_announce_tls_port, reached_port(is_tls, config.tls_port));
        let port = port_for(is_tls, plain_port, tls_port);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let own = Announced {
            ip: match config.cluster_announce_ip.as_deref() {
                Some(ip) => text(ip),
                None => reached.map(|addr| addr.ip().to_canonical().to_string()).unwrap_or_default(),
            },
            port,
            bus_port: or(config.cluster_announce_bus_port, or(config.cluster_port, bus_port_of(port))),
            plain_port,
            tls_port,
            host_name: config.cluster_announce_hostname.as_deref().map(text).unwrap_or_default(),
        };
        AddressBook { own, is_tls, preferred: config.cluster_preferred_endpoint_type }
    }

    /// Returns the address of a node.
    pub(super) fn find(&self, address: &NodeAddress) -> Cow<'_, Announced> {
        Cow::Owned(match address {
            NodeAddress::Own => return Cow::Borrowed(&self.own),
            NodeAddress::SameHost { port, ip, host_name } => Announced {
                port: *port,
                bus_port: bus_port_of(*port),
                plain_port: if self.is_tls { 0 } else { *port },
                tls_port: if self.is_tls { *port } else { 0 },
                ip: ip.clone().unwrap_or_else(|| self.own.ip.clone()),
                host_name: host_name.clone(),
            },
            NodeAddress::At { ip, port, tls_port, bus_port, host_name } => Announced {
                port: port_for(self.is_tls, *port, *tls_port),
                bus_port: *bus_port,
                plain_port: *port,
                tls_port: *tls_port,
                ip: ip.clone(),
                host_name: host_name.clone(),
            },
        })
    }

    /// Returns the name of a node by which clients are to connect; `None` if they are to use the one that they have.
    pub(super) fn endpoint<'a>(&self, at: &'a Announced) -> Option<&'a str> {
        match self.preferred {
            EndpointType::Ip => Some(&at.ip),
            EndpointType::HostName if at.host_name.is_empty() => Some("?"),
            EndpointType::HostName => Some(&at.host_name),
            EndpointType::Unknown => None,
        }
    }
}

/// Returns the port for clients with or without TLS; the other one if there is none of the kind.
fn port_for(is_tls: bool, plain_port: u16, tls_port: u16) -> u16 {
    if plain_port == 0 || is_tls && tls_port != 0 { tls_port } else { plain_port }
}

#[cfg(test)]
impl AddressBook {
    /// Returns the addresses for a client without TLS that has reached the own node at an address.
    pub(super) fn of_test(ip: &str, port: u16, preferred: EndpointType) -> Self {
        let own = Announced {
            port,
            bus_port: bus_port_of(port),
            plain_port: port,
            ip: ip.to_owned(),
            ..Announced::default()
        };
        AddressBook { own, is_tls: false, preferred }
    }
}
