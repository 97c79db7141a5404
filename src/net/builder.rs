//! What a program that embeds the server chooses before it starts: settings, clock, address.
//!
//! No method but the last fails: starting reports the first setting that is invalid, so that a server is built in one
//! expression.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::command;
use crate::config::{Config, apply_lines, set_by_name};
use crate::dispatch::Handlers;
use crate::memory::allocator::AllocatorStats;
use crate::net::server::Server;
use crate::runtime::log_queue::LogQueue;
use crate::time::clock::Clock;

/// Builds a [`Server`]: by default one on a free port of the loopback interface, with Redis' settings, that follows the
/// system's clock. Where two calls set the same, the later one counts.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use keylatch::{Clock, Server};
///
/// let server = Server::builder()
///     .clock(Clock::manual())
///     .set("requirepass", "secret")
///     .set("maxclients", 10)
///     .start_blocking()?;
/// assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
///
/// let error = Server::builder().set("maxclient", 10).start_blocking().err().expect("no such setting");
/// assert_eq!(error.to_string(), "there is no setting 'maxclient'; did you mean 'maxclients'?");
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) config_file: Option<PathBuf>,
    pub(super) workers: Vec<Handle>,
    pub(super) allocator: Option<fn() -> AllocatorStats>,
    pub(super) log_queue: Option<Arc<LogQueue>>,
    pub(super) handlers: &'static Handlers,
    /// Why the first invalid setting was rejected.
    pub(super) invalid: Option<String>,
}

impl Default for Builder {
    fn default() -> Self {
        let mut config = Config::default();
        config.port = 0;
        config.bind = vec!["127.0.0.1".into()];
        Builder {
            config,
            clock: Clock::system(),
            config_file: None,
            workers: Vec::new(),
            allocator: None,
            log_queue: None,
            handlers: command::handlers(),
            invalid: None,
        }
    }
}

impl Builder {
    /// Sets the clock; with [`Clock::manual`] time stands still until [`Server::advance`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Turns test mode on, as `set("test-mode", "yes")` does: the server takes faults ([`Server::inject`]) and keeps the
    /// calls that it receives ([`Server::command_log`]), its clients can use the commands `TEST.*`, and its clock can be
    /// moved, also if it runs at the system's pace, as it does unless [`Builder::clock`] says otherwise.
    pub fn test_mode(self) -> Self {
        self.set("test-mode", "yes")
    }

    /// Sets a setting of `redis.conf` by its name. A list is given as in a line of that file: `set("save", "60 1 300 10")`.
    ///
    /// An unknown name or an invalid value is an error of [`Builder::start`].
    pub fn set(self, name: &str, value: impl Display) -> Self {
        self.configure(|config| set_by_name(command::table(), config, name, &value.to_string()))
    }

    /// Sets settings from lines of a `redis.conf`, such as `"maxmemory 10mb\nrequirepass secret"`.
    ///
    /// An invalid line is an error of [`Builder::start`].
    pub fn settings(self, lines: &str) -> Self {
        self.configure(|config| apply_lines(command::table(), config, lines))
    }

    fn configure(mut self, change: impl FnOnce(Config) -> Result<Config, String>) -> Self {
        match change(self.config.clone()) {
            Ok(config) => self.config = config,
            Err(reason) => self.invalid = self.invalid.or(Some(reason)),
        }
        self
    }

    /// Sets the TCP port; 0, the default, selects a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.config.port = port;
        self
    }

    /// Replaces all settings, including the address, which defaults to port 6379 of every interface. A `port` of 0
    /// selects a free one; with `tls-port` or `unixsocket` it opens none, as in Redis.
    #[doc(hidden)]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the path of the configuration file that `INFO server` shows.
    #[doc(hidden)]
    pub fn config_file(mut self, path: Option<PathBuf>) -> Self {
        self.config_file = path;
        self
    }

    /// Lets `INFO memory` show the allocator's statistics; without them, only the data is counted.
    #[doc(hidden)]
    pub fn allocator(mut self, stats: fn() -> AllocatorStats) -> Self {
        self.allocator = Some(stats);
        self
    }

    /// Lets `INFO stats` show how many lines the log has dropped.
    #[doc(hidden)]
    pub fn log_queue(mut self, queue: Arc<LogQueue>) -> Self {
        self.log_queue = Some(queue);
        self
    }

    /// Adds the commands of the project's own tests.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn with_test_commands(mut self) -> Self {
        self.handlers = command::testing::handlers();
        self
    }

    /// Distributes connections evenly over these runtimes and accepts them on the one that calls [`Builder::start`],
    /// instead of doing both on a thread of the server's own. The clock must not be moved from a thread of theirs.
    #[doc(hidden)]
    pub fn workers(mut self, workers: Vec<Handle>) -> Self {
        self.workers = workers;
        self
    }

    /// The same as [`Builder::start_blocking`], for asynchronous callers.
    ///
    /// # Errors
    /// Those of [`Builder::start_blocking`].
    pub async fn start(self) -> io::Result<Server> {
        self.start_blocking()
    }
}
