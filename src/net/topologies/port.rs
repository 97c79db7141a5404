//! The port of a node: reserved as long as the node exists, open while it runs.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use socket2::Socket;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::net::listener::{ListeningPort, reserve_port};
use crate::net::tenancy::AcceptsFor;

/// Number of free ports that are tried before a node cannot be made.
const TRIES: usize = 20;

/// The port of a node.
pub(super) struct NodePort {
    /// The address for clients on this machine, or the one that the settings announce.
    pub(super) host: String,
    pub(super) number: u16,
    is_tls: bool,
    /// Sockets at the port on which nobody listens: nobody else gets the port while the node is stopped.
    _reserved: Vec<Socket>,
    open: ListeningPort,
}

impl NodePort {
    /// Reserves a port, out of a range if there is one; must be called inside a runtime.
    ///
    /// # Errors
    /// If none is free.
    pub(super) fn reserve(config: &Config, is_tls: bool) -> Result<Self> {
        let reserved = match &config.topology_ports {
            None => (0..TRIES).find_map(|_| reserve_port(config, 0).ok()),
            Some(range) => RangeInclusive::clone(range).find_map(|port| reserve_unused(config, port).ok()),
        };
        let (sockets, number) = reserved.ok_or_else(|| match &config.topology_ports {
            Some(range) => Error::other(format!("no port of {}-{} is free", range.start(), range.end())),
            None => Error::other("no port is free"),
        })?;
        let announced = config.cluster_announce_ip.as_deref().map(|ip| String::from_utf8_lossy(ip).into_owned());
        let bound = sockets.first().and_then(|socket| socket.local_addr().ok()?.as_socket()).map(|addr| addr.ip());
        let reached = bound.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
        let host = announced.or(reached).unwrap_or_else(|| "127.0.0.1".to_owned());
        Ok(NodePort { host, number, is_tls, _reserved: sockets, open: ListeningPort::default() })
    }

    /// Accepts connections of a node; must be called inside a runtime.
    ///
    /// # Errors
    /// If somebody else has the port, or the certificate cannot be used.
    pub(super) fn open(&mut self, server: Arc<dyn AcceptsFor>, node: &Arc<Namespace>) -> Result<()> {
        let (config, open) =
            (&node.instance.settings.current(), if self.is_tls { ListeningPort::tls } else { ListeningPort::plain });
        self.open = open(config, self.number).map_err(|cause| Error::other(cause.to_string()))?;
        server.accept_for(node, &mut self.open);
        Ok(())
    }

    /// Accepts no more connections; they are refused.
    pub(super) fn close(&mut self) {
        self.open.shut();
    }
}

impl Drop for NodePort {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reserves a port on which nobody listens, and which nobody has reserved.
fn reserve_unused(config: &Config, port: u16) -> io::Result<(Vec<Socket>, u16)> {
    // Bound without SO_REUSEADDR first, which fails where another socket is bound.
    drop(std::net::TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port))?);
    reserve_port(config, port)
}
