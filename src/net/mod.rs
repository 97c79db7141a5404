//! The network: ports, TLS, connections, and the embedding API on top of them.

mod accept;
pub(crate) mod buffers;
pub(crate) mod builder;
pub(crate) mod connection;
pub(crate) mod embedded_topology;
#[cfg(not(feature = "etcd"))]
#[path = "engine_disabled.rs"]
mod engine;
mod handshakes;
mod held;
pub(crate) mod inspect;
pub(crate) mod listener;
#[cfg(feature = "metrics")]
mod metrics_port;
#[cfg(not(feature = "metrics"))]
mod metrics_port_disabled;
mod node_file;
mod restart;
pub(crate) mod server;
pub(crate) mod tenancy;
#[cfg(feature = "tls")]
mod test_certificate;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
mod tls_disabled;
mod topologies;
#[cfg(test)]
mod toy_type_tests;

#[cfg(feature = "etcd")]
use crate::engine;
