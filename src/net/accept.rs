//! Accepting of connections: the tasks at the ports, and the workers that connections are handed to.
//!
//! Nothing here knows a command, and of the protocol only the line that rejects a connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::client::info::{ClientInfo, Peer};
use crate::client::session::Client;
use crate::config::{Config, SetError};
use crate::dispatch::Handlers;
use crate::durability::InitialLoad;
use crate::error::Error;
use crate::namespace::{Namespace, Reception};
use crate::net::buffers::BufferPool;
use crate::net::connection::Connection;
use crate::net::handshakes::Handshakes;
use crate::net::listener::{ListeningPort, Ports, changed_tls};
use crate::net::tenancy::{AcceptsFor, Tenancy};
#[cfg(feature = "tls")]
use crate::net::tls::Acceptor;
#[cfg(not(feature = "tls"))]
use crate::net::tls_disabled::Acceptor;
use crate::runtime::executor::{Executor, supervise};
use crate::runtime::panics::{Panics, Site};
use crate::upkeep;

/// Pause after a failed accept, usually because file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// One runtime that serves connections, its executor and its pool of buffers.
pub(super) struct Worker {
    runtime: Handle,
    executor: Executor,
    pool: Arc<BufferPool>,
}

impl Worker {
    /// Creates the workers of these runtimes, whose connections may enter the namespaces of `tenancy`.
    pub(super) fn all(
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
pub(super) struct ServerShared {
    pub(super) namespace: Arc<Namespace>,
    pub(super) handlers: &'static Handlers,
    pub(super) workers: Vec<Worker>,
    pub(super) next_worker: AtomicUsize,
    /// The runtime that accepts connections.
    pub(super) runtime: Handle,
    pub(super) ports: Mutex<Ports>,
    pub(super) handshakes: Arc<Handshakes>,
    /// The first load; for a short time of it, no connection is accepted.
    pub(super) opening: InitialLoad,
    pub(super) tasks: TaskTracker,
    /// The accepting tasks, which are also in `tasks`.
    pub(super) accepting: TaskTracker,
}

impl ServerShared {
    /// Returns the state from which namespaces are created, in test mode.
    pub(super) fn tenancy(&self) -> Option<&Arc<Tenancy>> {
        self.workers.first()?.pool.tenancy.as_ref()
    }

    /// Starts the tasks that end the server, and, where the clock runs, the tasks that follow the clock.
    pub(super) fn start_tasks(self: &Arc<Self>, may_clock_run: bool) {
        self.tasks.spawn(self.clone().end_clients());
        self.tasks.spawn(self.clone().end_after_waits());
        if may_clock_run {
            self.start_upkeep();
        }
    }

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
    pub(super) fn listen(self: &Arc<Self>, opened: &mut ListeningPort) {
        self.listen_for(&self.namespace, opened);
    }

    /// Accepts connections of a namespace at an open port.
    fn listen_for(self: &Arc<Self>, namespace: &Arc<Namespace>, opened: &mut ListeningPort) {
        for listener in opened.take() {
            let (shared, namespace) = (self.clone(), namespace.clone());
            let (acceptor, closed) = (opened.acceptor.clone(), opened.closed.clone());
            let accept = move || {
                shared.clone().accept_tcp(listener.clone(), namespace.clone(), acceptor.clone(), closed.clone())
            };
            self.tasks.spawn_on(self.accepting.track_future(self.supervised("accept", accept)), &self.runtime);
        }
    }

    /// Accepts connections at the Unix socket; must be called inside the runtime that accepts.
    pub(super) fn listen_unix(self: &Arc<Self>, listener: UnixListener) {
        let (shared, listener) = (self.clone(), Arc::new(listener));
        let accept = move || shared.clone().accept_unix(listener.clone());
        self.tasks.spawn(self.accepting.track_future(self.supervised("accept", accept)));
    }

    /// Waits until clients are to be answered, or the server stops.
    async fn await_opening(&self) {
        tokio::select! {
            () = self.namespace.instance.stop.cancelled() => {}
            () = self.opening.wait_shortly() => {}
        }
    }

    /// Runs a server task under [`supervise`].
    fn supervised<F, W>(&self, name: &'static str, work: W) -> impl Future<Output = ()> + Send + use<F, W>
    where
        F: Future<Output = ()> + Send,
        W: FnMut() -> F + Send,
    {
        supervise(self.namespace.instance.panics.clone(), name, work)
    }

    /// Registers an observer that applies changes of the settings to the ports.
    pub(super) fn follow_settings(self: &Arc<Self>) {
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
        namespace: Arc<Namespace>,
        tls: Option<Arc<Acceptor>>,
        closed: CancellationToken,
    ) {
        self.await_opening().await;
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.namespace.instance.stop.cancelled() => return,
                () = closed.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            self.namespace.instance.panics.pass(Site::Accept);
            match accepted {
                Ok((stream, addr)) => self.hand_out_tcp(stream, addr, &namespace, tls.clone()),
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

    /// Stops the server once the condition that a shutdown waits for is met.
    async fn end_after_waits(self: Arc<Self>) {
        self.namespace.finish_shutdowns().await;
    }

    async fn accept_unix(self: Arc<Self>, listener: Arc<UnixListener>) {
        self.await_opening().await;
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

    fn hand_out_tcp(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        namespace: &Arc<Namespace>,
        tls: Option<Arc<Acceptor>>,
    ) {
        let config = namespace.settings.current();
        // If socket options or the move to the worker fail, the client has already disconnected.
        let _ = stream.set_nodelay(true);
        if config.tcp_keepalive_s > 0 {
            let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(u64::from(config.tcp_keepalive_s)));
            let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        }
        let laddr = stream.local_addr().map(|addr| addr.to_string()).unwrap_or_default().into();
        let peer = Peer { addr: addr.to_string().into(), laddr, fd: i64::from(stream.as_raw_fd()), is_unix: false };
        let is_stranger = !addr.ip().to_canonical().is_loopback();
        if is_stranger && config.protected_mode && namespace.acl.default_user().needs_no_password() {
            return self.refuse(stream, Error::ProtectedMode);
        }
        let silence = match namespace.reception("") {
            Reception::Served => Duration::ZERO,
            Reception::Late(time) => time,
            Reception::Refused(line) => return self.refuse(stream, Error::Injected(line)),
            // A connection that lingers for no time is reset.
            Reception::Reset => {
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                return;
            }
        };
        let Ok(stream) = stream.into_std() else { return };
        match tls {
            None => self.hand_out((namespace, silence), peer, &config, async move { TcpStream::from_std(stream) }),
            Some(tls) => self.hand_out_tls((namespace, silence), peer, config, (stream, tls)),
        }
    }

    /// Hands a connection to the next worker, which performs the handshake; the connection is admitted and counted as a
    /// client after that.
    fn hand_out_tls(
        &self,
        (namespace, silence): (&Arc<Namespace>, Duration),
        peer: Peer,
        config: Arc<Config>,
        (stream, tls): (std::net::TcpStream, Arc<Acceptor>),
    ) {
        let server = namespace.clone();
        let places = config.clients_max().saturating_sub(server.instance.admissions.connected());
        let handshake = self.handshakes.begin(places, &server.instance.stop);
        self.spawn((namespace, silence), async move {
            let shaken = handshake.shake(async { tls.accept(TcpStream::from_std(stream)?, &config).await }).await;
            if let Err(cause) = &shaken
                && cause.kind() != io::ErrorKind::Interrupted
            {
                warn!("Error accepting a client connection: {cause} (addr={} laddr={})", peer.addr, peer.laddr);
            }
            let info = match &shaken {
                Ok(_) => server.clients.admit(peer, server.clock.now(), config.clients_max()),
                Err(_) => None,
            };
            (shaken.map(|stream| -> OtherStream { Box::new(stream) }), info)
        });
    }

    fn hand_out_unix(&self, stream: UnixStream) {
        let config = self.namespace.settings.current();
        let path = config.unixsocket.as_deref().unwrap_or(Path::new("")).display();
        let addr: Box<str> = format!("{path}:0").into();
        let fd = i64::from(stream.as_raw_fd());
        let peer = Peer { addr: addr.clone(), laddr: addr, fd, is_unix: true };
        let Ok(stream) = stream.into_std() else { return };
        let served_at_once = (&self.namespace, Duration::ZERO);
        self.hand_out(served_at_once, peer, &config, async move {
            UnixStream::from_std(stream).map(|stream| -> OtherStream { Box::new(stream) })
        });
    }

    /// Hands a client's connection to the next worker, which registers it with its own runtime.
    fn hand_out<S>(
        &self,
        (namespace, silence): (&Arc<Namespace>, Duration),
        peer: Peer,
        config: &Config,
        register: impl Future<Output = io::Result<S>> + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let info = namespace.clients.admit(peer, namespace.clock.now(), config.clients_max());
        self.spawn((namespace, silence), async move { (register.await, info) });
    }

    /// Spawns a connection on the next worker, from a future that yields the stream and, if the limit allows, the
    /// client. The client is not answered before a time of silence is over.
    fn spawn<S>(
        &self,
        (namespace, silence): (&Arc<Namespace>, Duration),
        arrival: impl Future<Output = (io::Result<S>, Option<Arc<ClientInfo>>)> + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = namespace.clone();
        let worker = &self.workers[self.next_worker.fetch_add(1, Relaxed) % self.workers.len()];
        let pool = worker.pool.clone();
        // Boxed, like the futures before it: otherwise every connection would have room for them all its life.
        let begin = Box::pin(async move {
            let (stream, info) = arrival.await;
            match (stream, info) {
                (Ok(stream), Some(info)) => {
                    let client = Client::new(info, &server.acl);
                    let mut connection = Connection::new(stream, server, client, pool);
                    if !silence.is_zero() {
                        connection.stay_silent(silence).await;
                    }
                    return Some(connection);
                }
                (Ok(stream), None) => say_and_close(stream, Error::MaxClients).await,
                (Err(error), info) => {
                    debug!(cause = %error, "a connection failed before it was served");
                    if let Some(info) = info {
                        server.clients.remove(info.id);
                    }
                }
            }
            None
        });
        let serve = async move {
            let Some(mut connection) = begin.await else { return };
            connection.run().await;
        };
        worker.executor.spawn(self.tasks.track_future(serve));
    }

    fn refuse(&self, stream: TcpStream, error: Error) {
        self.tasks.spawn(say_and_close(stream, error));
    }
}

/// Stream that is no plain TCP connection. TLS and Unix sockets share the code of a connection, by dynamic dispatch of
/// their reads and writes: another instance of it is 60 KB of the binary.
type OtherStream = Box<dyn ByteStream>;

/// Stream of bytes in both directions.
trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

impl AcceptsFor for ServerShared {
    fn accept_for(self: Arc<Self>, namespace: &Arc<Namespace>, opened: &mut ListeningPort) {
        self.listen_for(namespace, opened);
    }
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
