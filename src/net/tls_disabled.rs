//! What stands in for `tls` where the server was built without it: a start that asks for TLS is refused.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::config::Config;

/// Never made, so it takes no connection.
pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn new(_: &Config) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "keylatch was built without the feature tls"))
    }

    /// Has nobody to call it.
    ///
    /// # Errors
    ///
    /// None.
    #[expect(clippy::unused_async, reason = "the counterpart waits for the client")]
    pub(crate) async fn accept(&self, _: TcpStream, _: &Arc<Config>) -> io::Result<TcpStream> {
        match self.0 {}
    }
}
