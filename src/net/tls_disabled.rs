//! Stand-in for `tls` in a build without TLS: a startup that asks for TLS fails.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::config::Config;

/// An uninhabited type: there is no acceptor.
pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    /// Fails.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn new(_: &Config) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    #[expect(clippy::unused_async, reason = "the counterpart waits for the client")]
    pub(crate) async fn accept(&self, _: TcpStream, _: &Arc<Config>) -> io::Result<TcpStream> {
        match self.0 {}
    }
}

/// Fails.
///
/// # Errors
///
/// Always.
pub(crate) fn certify(_: &mut Config) -> io::Result<()> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "keylatch was built without the feature tls")
}
