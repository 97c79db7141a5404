//! A running server as a library: its address, its clock, and its end.
//!
//! A [`Server`] stops when it is dropped.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tracing::warn;

use crate::dispatch::{Handlers, TimeTravel};
use crate::durability::{Files, unfinished};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::net::accept::ServerShared;
use crate::net::engine::RunningEngine;
use crate::net::listener::{SocketFile, has_plain_port};
use crate::net::restart::RestartMark;
use crate::runtime::block_on;
use crate::upkeep::time_travel::travel_blocking;

/// A running server; it stops when it is dropped.
pub struct Server {
    pub(super) shared: Arc<ServerShared>,
    pub(super) addr: SocketAddr,
    /// The thread that loads and writes files.
    pub(super) files: Files,
    /// The engine, if the data is in a cluster.
    pub(super) engine: Option<RunningEngine>,
    /// Mark that tells the next start whether this server has crashed.
    pub(super) mark: Option<RestartMark>,
    /// The file of the Unix socket, which is removed with the server.
    pub(super) _socket_file: Option<SocketFile>,
    // Dropped after the server was told to stop.
    pub(super) _runtime: OwnRuntime,
}

/// The runtime that the server has started for itself, if any.
pub(super) struct OwnRuntime(pub(super) Option<Runtime>);

impl Drop for OwnRuntime {
    /// Shuts the runtime down in the background, because the caller may be asynchronous and must not block.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Server {
    /// Returns the first TCP address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address in the form that client libraries accept: `redis://127.0.0.1:6379`, with the password of the
    /// default user if `requirepass` sets one, and `rediss` where the port is one for TLS.
    pub fn url(&self) -> String {
        let config = self.namespace().settings.current();
        let scheme = if config.tls_port != 0 && !has_plain_port(&config) { "rediss" } else { "redis" };
        self.url_at(scheme, self.addr)
    }

    /// Returns the address of the port for TLS in the form of [`Server::url`], `rediss://127.0.0.1:6380`; `None` if there is
    /// no such port.
    #[cfg(feature = "tls")]
    pub fn tls_url(&self) -> Option<String> {
        let addr = self.shared.ports.lock().tls_addr()?;
        Some(self.url_at("rediss", addr))
    }

    /// Returns the certificate of the authority that clients of that port have to trust, in PEM, if the server has made it:
    /// see [`Builder::test_tls`](crate::Builder::test_tls).
    #[cfg(feature = "tls")]
    pub fn tls_ca(&self) -> Option<String> {
        let config = self.namespace().settings.current();
        config.test_certificate.as_ref().map(|made| made.authority.clone())
    }

    fn url_at(&self, scheme: &str, addr: SocketAddr) -> String {
        let config = self.namespace().settings.current();
        let user = config.requirepass.as_deref().map(|password| format!(":{}@", percent_encoded(password)));
        format!("{scheme}://{}{addr}", user.unwrap_or_default())
    }

    /// Advances the clock, from one deadline to the next. When this returns, every key whose TTL is over has expired at
    /// its own instant, every blocked call past its timeout has timed out, and every client past its idle timeout was
    /// told to close.
    ///
    /// # Panics
    /// If the server uses the system's clock: build it with
    /// [`Clock::manual`](crate::time::clock::Clock::manual), or in test mode.
    pub fn advance(&self, by: Duration) {
        self.check_steered();
        travel_blocking(&self.shared.namespace, self.shared.handlers, TimeTravel::By(by));
    }

    /// Sets the wall clock of a manual clock, in milliseconds since 1970, but not the monotonic one, as when an
    /// administrator sets the date; keys whose absolute deadline has passed expire.
    ///
    /// # Panics
    /// If the server uses the system's clock, see [`Server::advance`].
    pub fn set_wall_ms(&self, unix_ms: i64) {
        self.check_steered();
        self.namespace().clock.set_wall_ms(unix_ms);
        travel_blocking(&self.shared.namespace, self.shared.handlers, TimeTravel::By(Duration::ZERO));
    }

    fn check_steered(&self) {
        assert!(self.namespace().clock.is_steered(), "only the time of a server with Clock::manual() can be moved");
    }

    /// Removes every key of every database.
    ///
    /// # Panics
    /// If the data is in a cluster, of which this server is only a part.
    pub fn flush(&self) {
        assert!(self.namespace().engine().is_none(), "with an engine, FLUSHALL empties all databases");
        self.namespace().flush();
    }

    /// Returns everything the server owns, for inspection.
    #[doc(hidden)]
    pub fn namespace(&self) -> &Namespace {
        &self.shared.namespace
    }

    /// Makes a private instance that lasts until it is ended.
    ///
    /// # Errors
    /// If the server is not in test mode, or there are too many.
    pub(crate) fn make_instance(&self, name: &[u8]) -> Result<Arc<Namespace>> {
        let tenancy = self.shared.tenancy().ok_or(Error::other("the server is not in test mode"))?;
        tenancy.make_lasting(name)
    }

    pub(crate) fn handlers(&self) -> &'static Handlers {
        self.shared.handlers
    }

    /// Waits until SHUTDOWN stops the server.
    pub async fn stopped(&self) {
        self.namespace().instance.stop.cancelled().await;
    }

    /// Removes a snapshot that is being written, for a process that does not wait for it.
    pub(crate) fn remove_unfinished(&self) {
        let path = unfinished(&self.namespace().settings.current().dir);
        self.namespace().persistence.abandon_files(|| _ = std::fs::remove_file(path)); // it may not be there
    }

    /// Leaves the data allocated until the process ends, which ends with this server: the operating system frees all of
    /// it at once, where dropping it would free each key.
    pub(crate) fn leave_data(&self) {
        static LEFT: OnceLock<Arc<Namespace>> = OnceLock::new();
        let _ = LEFT.set(self.shared.namespace.clone()); // only the first server is of the program
    }

    /// Stops gracefully: accepts no new connections, writes the pending replies, for half a second at
    /// most, and closes every connection.
    pub async fn shutdown(mut self) {
        self.namespace().begin_shutdown();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.files.end().await;
        if let Some(engine) = &mut self.engine {
            engine.end().await;
        }
        let (held, config) = (self.namespace().held_locks().unwrap_or_default(), self.namespace().settings.current());
        let are_kept = self.engine.is_some() || config.appendonly || config.has_snapshots();
        if held.locks > 0 && !are_kept {
            warn!("{} locks are held, and free when the server starts again", held.locks);
        }
    }

    /// Stops the server as [`Server::shutdown`] does, in blocking code.
    pub fn shutdown_blocking(self) {
        block_on(self.shutdown());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.namespace().stop();
        if let Some(mark) = self.mark.take_if(|_| self.shared.namespace.may_leave_holders()) {
            mark.leave();
        }
    }
}

/// Percent-encodes bytes for a URL.
fn percent_encoded(bytes: &[u8]) -> String {
    let encoded = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encoded).collect()
}
