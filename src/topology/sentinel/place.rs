//! Places of instances: nodes of the topology, by number, and addresses that belong to none.

pub(crate) use crate::topology::NodeNumber;

/// Addresses at which clients reach the nodes. A function from the number of a node to its host and port is one.
pub(crate) trait Addresses {
    /// Returns the host and port of a node.
    fn address(&self, node: NodeNumber) -> (String, u16);

    /// Returns true if the host and port, given by a client, are those of a node.
    fn is_at(&self, node: NodeNumber, host: &str, port: u16) -> bool {
        let (node_host, node_port) = self.address(node);
        node_port == port && node_host == host
    }
}

impl<F: Fn(NodeNumber) -> (String, u16)> Addresses for F {
    fn address(&self, node: NodeNumber) -> (String, u16) {
        self(node)
    }
}

/// Place of an instance that a sentinel monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The node of the topology at this place; `None` for a place that nothing reaches.
    pub(super) node: Option<NodeNumber>,
    /// Host and port that are shown in place of those of the node.
    host: Option<String>,
    port: Option<u16>,
}

impl Place {
    pub(super) fn node(node: NodeNumber) -> Self {
        Place { node: Some(node), host: None, port: None }
    }

    /// Returns the place at an address that no node has.
    pub(super) fn elsewhere(host: &str, port: u16) -> Self {
        Place { node: None, host: Some(host.to_owned()), port: Some(port) }
    }

    /// Returns the place of a node that announces a host, a port, or both.
    pub(super) fn announced(node: NodeNumber, host: Option<String>, port: Option<u16>) -> Self {
        Place { node: Some(node), host, port }
    }

    /// Returns the place at an address: that of the node, of so many, which has it.
    pub(super) fn at(host: &str, port: u16, node_count: usize, addresses: &dyn Addresses) -> Self {
        let node = (0..node_count).find(|node| addresses.is_at(*node, host, port));
        node.map_or_else(|| Place::elsewhere(host, port), Place::node)
    }

    /// Returns the host and port.
    pub(super) fn address(&self, addresses: &dyn Addresses) -> (String, u16) {
        let (host, port) = self.node.map(|node| addresses.address(node)).unwrap_or_default();
        (self.host.clone().unwrap_or(host), self.port.unwrap_or(port))
    }

    /// Returns the host and port as one text, which is the name of a replica.
    pub(super) fn joined(&self, addresses: &dyn Addresses) -> String {
        let (host, port) = self.address(addresses);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Returns the host and port with a space between them.
    pub(super) fn spaced(&self, addresses: &dyn Addresses) -> String {
        let (host, port) = self.address(addresses);
        format!("{host} {port}")
    }
}
