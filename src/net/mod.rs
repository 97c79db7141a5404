//! The network: ports, TLS, connections, and the embedding API on top of them.

pub mod buffers;
pub mod connection;
pub mod handshakes;
pub mod listener;
pub mod server;
pub mod shutdown;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
mod tls_disabled;
