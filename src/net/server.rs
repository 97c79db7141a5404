//! The server as a library: bind, accept, limit, expire, shut down.
//!
//! It knows no command, and of the protocol only the line that rejects a connection. A [`Server`] stops when it is
//! dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::acl::Acl;
use crate::client::registry::{ClientInfo, Peer};
use crate::client::session::Client;
use crate::command;
use crate::config::{Config, SetError, refusal};
use crate::dispatch::{Handlers, TimeTravel};
use crate::error::Error;
use crate::instance::Instance;
use crate::namespace::Namespace;
use crate::net::buffers::BufferPool;
use crate::net::builder::Builder;
use crate::net::connection::Connection;
use crate::net::handshakes::Handshakes;
use crate::net::listener::{Opened, Ports, SocketFile, bind_unix, changed_tls, has_plain_port};
#[cfg(feature = "metrics")]
use crate::net::metrics_port::MetricsPort;
#[cfg(not(feature = "metrics"))]
use crate::net::metrics_port_disabled::MetricsPort;
use crate::net::restart::RestartMark;
use crate::net::tenancy::Tenancy;
#[cfg(feature = "tls")]
use crate::net::tls::Acceptor;
#[cfg(not(feature = "tls"))]
use crate::net::tls_disabled::Acceptor;
use crate::runtime::executor::{Executor, supervise};
use crate::runtime::panics::{Panics, Site};
use crate::runtime::park::block_on;
use crate::runtime::worker;
use crate::time::clock::Clock;
use crate::upkeep;
use crate::upkeep::time_travel::travel_blocking;

/// How long to wait after a failed accept, usually because file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Builder {
    /// Adds the commands of test mode, and makes the clock one that they can steer. Returns what creates the clocks of
    /// private instances: of the same kind.
    fn enter_test_mode(&mut self) -> fn() -> Clock {
        self.handlers = command::test_mode::handlers();
        if self.clock.is_steered() {
            return Clock::manual;
        }
        self.clock = Clock::running();
        Clock::running
    }

    /// Binds and starts to serve on a thread that the server owns. It does not depend on the caller's runtime, so
    /// blocking clients may run on the caller's thread.
    ///
    /// # Errors
    /// When a setting is invalid, an address cannot be bound, or the thread cannot be started.
    ///
    /// # Panics
    /// If workers were given and it is called outside a tokio runtime.
    pub fn start_blocking(mut self) -> io::Result<Server> {
        if let Some(reason) = self.invalid.take().or_else(|| refusal(&self.config)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let runtime = match self.workers.is_empty() {
            true => OwnRuntime(Some(worker::runtime(0)?)),
            false => OwnRuntime(None),
        };
        let accepting = match &runtime.0 {
            Some(own) => own.handle().clone(),
            None => Handle::current(),
        };
        if self.workers.is_empty() {
            self.workers.push(accepting.clone());
        }
        let _inside = accepting.enter();
        let may_clock_run = !self.clock.is_steered() || self.config.test_mode;
        let new_clock = self.config.test_mode.then(|| self.enter_test_mode());
        let acl = Acl::configured(&self.handlers.commands, &self.config.users()).map_err(io::Error::other)?;
        let plain = match has_plain_port(&self.config) {
            true => Opened::plain(&self.config, self.config.port)?,
            false => Opened::default(),
        };
        let tls = Opened::tls(&self.config, self.config.tls_port)?;
        let metrics_port = MetricsPort::open(&self.config)?;
        let unix = self.config.unixsocket.as_deref().map(|path| bind_unix(path, self.config.unixsocketperm));
        let (unix, socket_file) = unix.transpose()?.unzip();
        // The last step that may fail, and after the ports are bound: the mark of another server is not touched.
        let mark = RestartMark::of(&self.config)?;
        let addr = plain.addr().or(tls.addr()).unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let instance = Instance {
            allocator: self.allocator,
            log_queue: self.log_queue,
            acl: Arc::new(acl),
            config_file: self.config_file,
            ..Instance::new(&self.handlers.commands, self.config)
        };
        let namespace = Namespace::new(&self.handlers.commands, Arc::new(instance), self.workers.len(), self.clock);
        namespace.note_startup();
        mark.iter().for_each(|mark| mark.begin_grace(&namespace));
        let namespace = Arc::new(namespace);
        namespace.instance.tcp_port.store(u64::from(addr.port()), Relaxed);
        let (tasks, handlers) = (TaskTracker::new(), self.handlers);
        let tenancy = new_clock.map(|new_clock| {
            let (main, runtime, tasks) = (namespace.clone(), self.workers[0].clone(), tasks.clone());
            Arc::new(Tenancy { main, handlers, new_clock, runtime, tasks })
        });
        let shared = Arc::new(Shared {
            workers: Worker::all(self.workers, &namespace.instance.panics, handlers, tenancy),
            next_worker: AtomicUsize::new(0),
            namespace,
            handlers,
            runtime: accepting.clone(),
            ports: Mutex::new(Ports::new(plain, tls)),
            handshakes: Arc::default(),
            tasks,
            accepting: TaskTracker::new(),
        });
        shared.ports.lock().all().into_iter().for_each(|opened| shared.listen(opened));
        metrics_port.serve(&shared.namespace, shared.handlers, &shared.tasks, &shared.accepting);
        shared.follow_settings();
        unix.into_iter().for_each(|listener| shared.listen_unix(listener));
        shared.tasks.spawn(shared.clone().end_clients());
        if may_clock_run {
            shared.start_upkeep();
        }
        drop(_inside);
        Ok(Server { shared, addr, mark, _socket_file: socket_file, _runtime: runtime })
    }
}

/// A running server; it stops when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    addr: SocketAddr,
    /// Tells the next start whether this server has crashed.
    mark: Option<RestartMark>,
    /// The file of the Unix socket, which is removed with the server.
    _socket_file: Option<SocketFile>,
    // Dropped after the server was told to stop.
    _runtime: OwnRuntime,
}

/// The runtime that the server has started for itself, if any.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    /// Shuts the runtime down in the background, because the caller may be asynchronous and must not block.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Server {
    /// Returns a builder: a free loopback port, the system's clock.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the first TCP address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address in the form that client libraries accept: `redis://127.0.0.1:6379`, with the password of the
    /// default user if `requirepass` sets one, and `rediss` where the port is one for TLS.
    pub fn url(&self) -> String {
        let config = self.namespace().settings.current();
        let scheme = if config.tls_port != 0 && config.port == 0 { "rediss" } else { "redis" };
        let user = config.requirepass.as_deref().map(|password| format!(":{}@", percent_encoded(password)));
        format!("{scheme}://{}{}", user.unwrap_or_default(), self.addr)
    }

    /// Advances the clock, from one deadline to the next. When this returns, every key whose TTL is over
    /// has expired at its own instant, every blocked call past its timeout has timed out, and every client past its idle
    /// timeout was told to close.
    ///
    /// # Panics
    /// If the server uses the system's clock: build it with [`Clock::manual`], or in test mode.
    pub fn advance(&self, by: Duration) {
        self.check_steered();
        travel_blocking(self.namespace(), self.shared.handlers, TimeTravel::By(by));
    }

    /// Sets the wall clock of a manual clock, in milliseconds since 1970, but not the monotonic one, as when an
    /// administrator sets the date; keys whose absolute deadline has passed expire.
    ///
    /// # Panics
    /// As for [`Server::advance`].
    pub fn set_wall_ms(&self, unix_ms: i64) {
        self.check_steered();
        self.namespace().clock.set_wall_ms(unix_ms);
        travel_blocking(self.namespace(), self.shared.handlers, TimeTravel::By(Duration::ZERO));
    }

    fn check_steered(&self) {
        assert!(self.namespace().clock.is_steered(), "only the time of a server with Clock::manual() can be moved");
    }

    /// Removes every key of every database.
    pub fn flush(&self) {
        self.namespace().flush();
    }

    /// Returns everything the server owns, for inspection.
    #[doc(hidden)]
    pub fn namespace(&self) -> &Namespace {
        &self.shared.namespace
    }

    /// Returns the handlers of commands.
    pub(super) fn handlers(&self) -> &'static Handlers {
        self.shared.handlers
    }

    /// Waits until SHUTDOWN stops the server.
    pub async fn stopped(&self) {
        self.namespace().instance.stop.cancelled().await;
    }

    /// Stops gracefully: accepts no new connections, writes the pending replies and closes every connection.
    pub async fn shutdown(self) {
        self.namespace().begin_shutdown();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        let held = self.namespace().held_locks().unwrap_or_default();
        if held.locks > 0 {
            warn!("{} locks are held, and free when the server starts again", held.locks);
        }
    }

    /// Does the same as [`Server::shutdown`] in blocking code.
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

/// One runtime that serves connections, its executor and its pool of buffers.
struct Worker {
    runtime: Handle,
    executor: Executor,
    pool: Arc<BufferPool>,
}

impl Worker {
    /// Creates the workers of these runtimes, whose connections may enter the namespaces of `tenancy`.
    fn all(
        runtimes: Vec<Handle>,
        panics: &Arc<Panics>,
        handlers: &'static Handlers,
        tenancy: Option<Arc<Tenancy>>,
    ) -> Vec<Self> {
        let worker = |runtime: Handle| Worker {
            executor: Executor::new(runtime.clone(), panics.clone()),
            runtime,
            pool: Arc::new(BufferPool::new(handlers, tenancy.clone())),
        };
        runtimes.into_iter().map(worker).collect()
    }
}

/// The state shared by the tasks of a server.
struct Shared {
    namespace: Arc<Namespace>,
    handlers: &'static Handlers,
    workers: Vec<Worker>,
    next_worker: AtomicUsize,
    /// The runtime that accepts connections.
    runtime: Handle,
    ports: Mutex<Ports>,
    handshakes: Arc<Handshakes>,
    tasks: TaskTracker,
    /// The accepting tasks, which are also in `tasks`.
    accepting: TaskTracker,
}

impl Shared {
    /// Starts the tasks that follow the clock.
    fn start_upkeep(&self) {
        let (sweeper, housekeeper, handlers) = (self.namespace.clone(), self.namespace.clone(), self.handlers);
        let sweep = self.supervised("sweep", move || upkeep::sweep(sweeper.clone(), handlers));
        // On a worker, so that neither contends for the other's locks, and accepting continues while a million keys
        // expire.
        self.tasks.spawn_on(sweep, &self.workers[0].runtime);
        self.tasks.spawn(self.supervised("housekeeping", move || upkeep::housekeeping(housekeeper.clone())));
    }

    /// Accepts connections at an open port.
    fn listen(self: &Arc<Self>, opened: &mut Opened) {
        for listener in opened.take() {
            let (shared, acceptor, closed) = (self.clone(), opened.acceptor.clone(), opened.closed.clone());
            let accept = move || shared.clone().accept_tcp(listener.clone(), acceptor.clone(), closed.clone());
            self.tasks.spawn_on(self.accepting.track_future(self.supervised("accept", accept)), &self.runtime);
        }
    }

    /// Accepts connections at the Unix socket; must be called inside the runtime that accepts.
    fn listen_unix(self: &Arc<Self>, listener: UnixListener) {
        let (shared, listener) = (self.clone(), Arc::new(listener));
        let accept = move || shared.clone().accept_unix(listener.clone());
        self.tasks.spawn(self.accepting.track_future(self.supervised("accept", accept)));
    }

    /// Runs a server task under [`supervise`].
    fn supervised<F, W>(&self, name: &'static str, work: W) -> impl Future<Output = ()> + Send + use<F, W>
    where
        F: Future<Output = ()> + Send,
        W: FnMut() -> F + Send,
    {
        supervise(self.namespace.instance.panics.clone(), name, work)
    }

    /// Lets changes of the settings change the ports.
    fn follow_settings(self: &Arc<Self>) {
        let follower = Arc::downgrade(self);
        let follow =
            move |old: &Config, new: &Config| follower.upgrade().map_or(Ok(()), |shared| shared.follow_ports(old, new));
        self.namespace.settings.on_change(follow);
    }

    /// Applies new settings to the ports.
    fn follow_ports(self: &Arc<Self>, old: &Config, new: &Config) -> Result<(), SetError> {
        let same_ports = (&old.bind, old.port, old.tls_port) == (&new.bind, new.port, new.tls_port);
        if same_ports && changed_tls(old, new).is_none() {
            return Ok(());
        }
        let _inside = self.runtime.enter();
        let mut ports = self.ports.lock();
        let before = ports.all().map(|opened| opened.closed.clone());
        let followed = ports.follow(old, new);
        for (opened, before) in ports.all().into_iter().zip(before) {
            // A closed port was reopened, at the new address or at the old one.
            if before.is_cancelled() {
                self.listen(opened);
            }
        }
        self.namespace.instance.tcp_port.store(u64::from(ports.plain_port()), Relaxed);
        followed
    }

    async fn accept_tcp(
        self: Arc<Self>,
        listener: Arc<TcpListener>,
        tls: Option<Arc<Acceptor>>,
        closed: CancellationToken,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.namespace.instance.stop.cancelled() => return,
                () = closed.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            self.namespace.instance.panics.pass(Site::Accept);
            match accepted {
                Ok((stream, addr)) => self.hand_out_tcp(stream, addr, tls.clone()),
                Err(error) => pause_after(&error).await,
            }
        }
    }

    /// Closes all connections once the server was told to stop and its ports are closed.
    async fn end_clients(self: Arc<Self>) {
        self.namespace.instance.stop.cancelled().await;
        self.accepting.close();
        self.accepting.wait().await;
        self.namespace.end_clients();
    }

    async fn accept_unix(self: Arc<Self>, listener: Arc<UnixListener>) {
        loop {
            let accepted = tokio::select! {
                () = self.namespace.instance.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.hand_out_unix(stream),
                Err(error) => pause_after(&error).await,
            }
        }
    }

    fn hand_out_tcp(&self, stream: TcpStream, addr: SocketAddr, tls: Option<Arc<Acceptor>>) {
        let config = self.namespace.settings.current();
        // If socket options or the move to the worker fail, the client has already disconnected.
        let _ = stream.set_nodelay(true);
        if config.tcp_keepalive_s > 0 {
            let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(u64::from(config.tcp_keepalive_s)));
            let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        }
        let laddr = stream.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
        let peer = Peer { addr: addr.to_string(), laddr, fd: i64::from(stream.as_raw_fd()), is_unix: false };
        let is_stranger = !addr.ip().to_canonical().is_loopback();
        if is_stranger && config.protected_mode && self.namespace.acl.default_user().needs_no_password() {
            return self.refuse(stream, Error::ProtectedMode);
        }
        let Ok(stream) = stream.into_std() else { return };
        match tls {
            None => self.hand_out(peer, &config, async move { TcpStream::from_std(stream) }),
            Some(tls) => self.hand_out_tls(peer, config, stream, tls),
        }
    }

    /// Hands a connection to the next worker, which performs the handshake; it is admitted and counted as a client
    /// after that.
    fn hand_out_tls(&self, peer: Peer, config: Arc<Config>, stream: std::net::TcpStream, tls: Arc<Acceptor>) {
        let server = self.namespace.clone();
        let places = (config.maxclients as usize).saturating_sub(server.instance.admissions.connected());
        let handshake = self.handshakes.begin(places, &server.instance.stop);
        self.spawn(async move {
            let shaken = handshake.shake(async { tls.accept(TcpStream::from_std(stream)?, &config).await }).await;
            let info = match &shaken {
                Ok(_) => server.clients.admit(peer, server.clock.now(), config.maxclients as usize),
                Err(_) => None,
            };
            (shaken, info)
        });
    }

    fn hand_out_unix(&self, stream: UnixStream) {
        let config = self.namespace.settings.current();
        let path = config.unixsocket.as_deref().unwrap_or(Path::new("")).display().to_string();
        let fd = i64::from(stream.as_raw_fd());
        let peer = Peer { addr: format!("{path}:0"), laddr: format!("{path}:0"), fd, is_unix: true };
        let Ok(stream) = stream.into_std() else { return };
        self.hand_out(peer, &config, async move { UnixStream::from_std(stream) });
    }

    /// Hands a client's connection to the next worker, which registers it with its own runtime.
    fn hand_out<S>(&self, peer: Peer, config: &Config, register: impl Future<Output = io::Result<S>> + Send + 'static)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let info = self.namespace.clients.admit(peer, self.namespace.clock.now(), config.maxclients as usize);
        self.spawn(async move { (register.await, info) });
    }

    /// Spawns a connection on the next worker, from a future that yields the stream and, if the limit allows, the
    /// client.
    fn spawn<S>(&self, arrival: impl Future<Output = (io::Result<S>, Option<Arc<ClientInfo>>)> + Send + 'static)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.namespace.clone();
        let worker = &self.workers[self.next_worker.fetch_add(1, Relaxed) % self.workers.len()];
        let pool = worker.pool.clone();
        let serve = async move {
            let (stream, info) = Box::pin(arrival).await;
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => {
                    debug!(cause = %error, "a connection failed before it was served");
                    return info.iter().for_each(|info| server.clients.remove(info.id));
                }
            };
            match info.map(|info| Client::new(info, &server.acl)) {
                Some(session) => Connection::new(stream, server, session, pool).run().await,
                None => Box::pin(say_and_close(stream, Error::MaxClients)).await,
            }
        };
        worker.executor.spawn(self.tasks.track_future(serve));
    }

    fn refuse(&self, stream: TcpStream, error: Error) {
        self.tasks.spawn(say_and_close(stream, error));
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

/// Waits after a failed accept.
pub(crate) async fn pause_after(error: &io::Error) {
    warn!(cause = %error, "failed to accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

async fn say_and_close(mut stream: impl AsyncWrite + Unpin, error: Error) {
    let line = [b"-", &error.wire_text()[..], b"\r\n"].concat();
    // One line fits any socket's buffer; a failure means that the client has already disconnected.
    let _ = stream.write_all(&line).await;
    let _ = stream.shutdown().await;
}
