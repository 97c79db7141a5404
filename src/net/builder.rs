//! Builder of an embedded server: settings, clock, address; and the start.
//!
//! No method but the last fails: starting reports the first setting that is invalid, so that a server is built in one
//! expression.

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::acl::Acl;
use crate::command;
use crate::config::{Config, EngineKind, apply_lines, refusal, set_by_name};
use crate::dispatch::Handlers;
use crate::durability::{self, LoadEnd};
use crate::instance::Instance;
use crate::memory::AllocatorStats;
use crate::namespace::Namespace;
use crate::net::accept::{ServerShared, Worker};
use crate::net::engine::{self, Ready};
use crate::net::listener::{ListeningPort, Ports, bind_unix, has_plain_port};
#[cfg(feature = "metrics")]
use crate::net::metrics_port::MetricsPort;
#[cfg(not(feature = "metrics"))]
use crate::net::metrics_port_disabled::MetricsPort;
use crate::net::node_file::kept_node;
use crate::net::restart::RestartMark;
use crate::net::server::{OwnRuntime, Server};
use crate::net::tenancy::{AcceptsFor, Tenancy};
use crate::persist::disk::Disk;
use crate::persist::disk::real::RealDisk;
use crate::replication::{keep_link, run_failover};
use crate::runtime::log_queue::LogQueue;
use crate::runtime::{block_on, worker};
use crate::time::clock::Clock;

/// Builder of a [`Server`]: by default one on a free port of the loopback interface, with Redis' settings, that follows
/// the system's clock and keeps data in memory only. If two calls set the same, the later one counts.
///
/// The server reads and writes files only if `save`, `dir`, `dbfilename` or `appendonly` is set.
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
    config: Config,
    clock: Clock,
    config_file: Option<PathBuf>,
    workers: Vec<Handle>,
    allocator: Option<fn() -> AllocatorStats>,
    log_queue: Option<Arc<LogQueue>>,
    disk: Arc<dyn Disk>,
    handlers: &'static Handlers,
    /// True for the program's server, false for one that another program embeds.
    is_of_program: bool,
    /// Reason for which the first invalid setting was rejected.
    invalid: Option<String>,
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
            disk: Arc::new(RealDisk),
            handlers: command::handlers(),
            is_of_program: false,
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

    /// Turns test mode on, as `set("test-mode", "yes")` does: the server takes faults ([`Server::inject`]) and keeps
    /// the calls that it receives ([`Server::command_log`]), its clients can use the commands `TEST.*`, and its clock
    /// can be moved, also if it runs at the system's pace, as it does unless [`Builder::clock`] says otherwise.
    pub fn test_mode(self) -> Self {
        self.set("test-mode", "yes")
    }

    /// Opens a port for TLS as well, with a certificate that the server makes, as `set("test-tls", "yes")` does in test mode;
    /// [`Server::tls_url`] has its address, and [`Server::tls_ca`] the authority that clients have to trust.
    #[cfg(feature = "tls")]
    pub fn test_tls(self) -> Self {
        self.set("test-tls", "yes")
    }

    /// Sets a setting of `redis.conf` by its name. A list is given as in a line of that file:
    /// `set("save", "60 1 300 10")`.
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

    /// Gives settings that were not set the defaults of the program, which writes snapshots.
    #[doc(hidden)]
    pub fn of_program(mut self) -> Self {
        self.is_of_program = true;
        self
    }

    /// Sets the source of the allocator's statistics in `INFO memory`; without them, only the data is counted.
    #[doc(hidden)]
    pub fn allocator(mut self, stats: fn() -> AllocatorStats) -> Self {
        self.allocator = Some(stats);
        self
    }

    /// Sets the log queue whose dropped lines `INFO stats` shows.
    #[doc(hidden)]
    pub fn log_queue(mut self, queue: Arc<LogQueue>) -> Self {
        self.log_queue = Some(queue);
        self
    }

    /// Sets a simulated disk for the server's files.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn disk(mut self, disk: crate::persist::disk::simulated::SimulatedDisk) -> Self {
        self.disk = Arc::new(disk);
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
    /// instead of doing both on a thread of the server's own. The clock must not be moved from a thread of these
    /// runtimes.
    #[doc(hidden)]
    pub fn workers(mut self, workers: Vec<Handle>) -> Self {
        self.workers = workers;
        self
    }

    /// Binds and starts to serve on a thread that the server owns, and returns when the data is loaded, if files are
    /// set. The server does not depend on the caller's runtime, so blocking clients may run on the caller's thread.
    ///
    /// # Errors
    /// If a setting is invalid, an address cannot be bound, a thread cannot be started, or the data cannot be loaded.
    ///
    /// # Panics
    /// If workers were given and the caller is outside a tokio runtime.
    pub fn start_blocking(self) -> io::Result<Server> {
        let (server, opening) = self.open()?;
        block_on(opening.wait())?;
        Ok(server)
    }

    /// Completes the settings.
    ///
    /// # Errors
    /// The reason for which no server can start with the settings.
    fn check_settings(&mut self) -> io::Result<()> {
        if !self.is_of_program || self.config.engine != EngineKind::Memory {
            self.config.use_memory_defaults();
        }
        match self.invalid.take().or_else(|| refusal(&self.config)) {
            Some(reason) => Err(io::Error::new(io::ErrorKind::InvalidInput, reason)),
            None => Ok(()),
        }
    }

    /// Binds and starts to serve; until the data is loaded, requests get an error.
    fn open(mut self) -> io::Result<(Server, Opening)> {
        self.check_settings()?;
        let runtime = if self.workers.is_empty() { OwnRuntime(Some(worker::runtime(0)?)) } else { OwnRuntime(None) };
        let accepting = runtime.0.as_ref().map_or_else(Handle::current, |own| own.handle().clone());
        if self.workers.is_empty() {
            self.workers.push(accepting.clone());
        }
        let _inside = accepting.enter();
        let may_clock_run = !self.clock.is_steered() || self.config.test_mode;
        let new_clock = self.config.test_mode.then(|| self.enter_test_mode());
        let acl = Acl::configured(&self.handlers.commands, &self.config.users()).map_err(io::Error::other)?;
        let has_plain = has_plain_port(&self.config);
        let plain =
            has_plain.then(|| ListeningPort::plain(&self.config, self.config.port)).transpose()?.unwrap_or_default();
        let tls = ListeningPort::first_tls(&mut self.config)?;
        let metrics_port = MetricsPort::open(&self.config)?;
        let unix = self.config.unixsocket.as_deref().map(|path| bind_unix(path, self.config.unixsocketperm));
        let (unix, socket_file) = unix.transpose()?.unzip();
        let addr = plain.addr().or(tls.addr()).unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let node = kept_node(&self.config, &*self.disk, addr.port())?;
        // The last step that may fail, and after the ports are bound: the mark of another server is not touched.
        let mark = RestartMark::of(&self.config)?;
        let instance = Instance {
            node,
            allocator: self.allocator,
            log_queue: self.log_queue,
            acl: Arc::new(acl),
            config_file: self.config_file,
            ..Instance::new(&self.handlers.commands, self.config)
        };
        let namespace = Namespace::new(&self.handlers.commands, Arc::new(instance), self.workers.len(), self.clock);
        namespace.record_startup();
        if let Some(mark) = &mark {
            mark.begin_grace(&namespace);
        }
        let namespace = Arc::new(namespace);
        namespace.instance.tcp_port.store(u64::from(addr.port()), Relaxed);
        let (tasks, handlers) = (TaskTracker::new(), self.handlers);
        let with = (&self.workers[0], &tasks);
        let tenancy = new_clock.map(|clock| Tenancy::new(&namespace, handlers, (clock, self.disk.clone()), with));
        info!("Server initialized"); // as in Redis, before the data is loaded
        let (files, loaded) = durability::start(&namespace, handlers, self.disk.clone())?;
        let shared = Arc::new(ServerShared {
            workers: Worker::all(self.workers, &namespace.instance.panics, handlers, tenancy.clone()),
            next_worker: AtomicUsize::new(0),
            namespace,
            handlers,
            runtime: accepting.clone(),
            ports: Mutex::new(Ports::new(plain, tls)),
            handshakes: Arc::default(),
            opening: files.opening(),
            tasks,
            accepting: TaskTracker::new(),
        });
        introduce(&shared, tenancy);
        let (engine, engine_ready) = engine::begin(&shared.namespace, handlers)?;
        shared.tasks.spawn(run_failover(shared.namespace.clone()));
        shared.tasks.spawn(keep_link(shared.namespace.clone(), handlers, self.disk));
        shared.ports.lock().all().into_iter().for_each(|opened| shared.listen(opened));
        metrics_port.serve(&shared.namespace, shared.handlers, &shared.tasks, &shared.accepting);
        shared.follow_settings();
        if let Some(listener) = unix {
            shared.listen_unix(listener);
        }
        shared.start_tasks(may_clock_run);
        drop(_inside);
        let server = Server { shared, addr, mark, files, engine, _socket_file: socket_file, _runtime: runtime };
        Ok((server, Opening { loaded, engine_ready }))
    }

    /// Starts the server like [`Builder::start_blocking`], for asynchronous callers.
    ///
    /// # Errors
    /// The errors of [`Builder::start_blocking`].
    pub async fn start(self) -> io::Result<Server> {
        let (server, opening) = self.open()?;
        opening.wait().await?;
        Ok(server)
    }

    /// Adds the commands of test mode, and makes the clock one that they can steer. Returns a function that creates
    /// clocks of the same kind for private instances.
    fn enter_test_mode(&mut self) -> fn() -> Clock {
        self.handlers = command::test_mode::handlers();
        if self.clock.is_steered() {
            return Clock::manual;
        }
        self.clock = Clock::running();
        Clock::running
    }
}

/// Conditions that the start of a server still waits for.
struct Opening {
    loaded: LoadEnd,
    engine_ready: Option<Ready>,
}

impl Opening {
    async fn wait(self) -> io::Result<()> {
        self.loaded.wait().await?;
        match self.engine_ready {
            Some(ready) => ready.wait().await,
            None => Ok(()),
        }
    }
}

impl Server {
    /// Returns a builder: a free loopback port, the system's clock.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Tells the state from which namespaces are created of the server that accepts connections of theirs.
fn introduce(shared: &Arc<ServerShared>, tenancy: Option<Arc<Tenancy>>) {
    if let Some(tenancy) = tenancy {
        let server: Arc<dyn AcceptsFor> = shared.clone();
        let _ = tenancy.server.set(Arc::downgrade(&server)); // this is the first time
    }
}
