//! The metrics port: its sockets, its connections, and the limits on what a peer can occupy.
//!
//! A connection serves one request. Until the request is answered, the connection lasts for a few seconds at most, and
//! when there are too many such connections, the oldest is closed; a page that follows the server lasts as long as it
//! reads.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::client::info::Peer;
use crate::config::Config;
use crate::dispatch::Handlers;
use crate::metrics::{HttpPeer, Metrics};
use crate::namespace::Namespace;
use crate::net::accept::pause_after;
use crate::net::handshakes::{Handshake, Handshakes};
use crate::net::listener::bind_addresses;
use crate::runtime::executor::supervise;

/// Maximum number of connections that wait for their answer.
const PENDING_MAX: usize = 64;
/// Maximum duration of a connection, from its beginning to the end of its answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Maximum length of all headers of a request, in bytes.
const HEAD_LEN_MAX: usize = 16 * 1024;

/// The open port.
pub(crate) struct MetricsPort {
    listeners: Vec<Arc<TcpListener>>,
}

impl MetricsPort {
    /// Opens the port, if the settings ask for it; must be called inside a runtime.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let listeners = match config.metrics_port {
            0 => Vec::new(),
            port => bind_addresses(&config.metrics_bind, port, config.tcp_backlog)?,
        };
        Ok(MetricsPort { listeners })
    }

    /// Begins to serve; must be called inside a runtime.
    pub(crate) fn serve(
        self,
        namespace: &Arc<Namespace>,
        handlers: &'static Handlers,
        tasks: &TaskTracker,
        accepting: &TaskTracker,
    ) {
        if self.listeners.is_empty() {
            return;
        }
        let metrics = Arc::new(Metrics::new(namespace.clone(), handlers));
        let (panics, follower) = (namespace.instance.panics.clone(), metrics.clone());
        tasks.spawn(supervise(panics.clone(), "metrics", move || follower.clone().follow()));
        let service =
            Arc::new(Service { namespace: namespace.clone(), metrics, pending: Arc::default(), tasks: tasks.clone() });
        for listener in self.listeners {
            if let Ok(addr) = listener.local_addr() {
                info!("Serving metrics at http://{addr}/");
            }
            let service = service.clone();
            let accept = move || service.clone().accept(listener.clone());
            tasks.spawn(accepting.track_future(supervise(panics.clone(), "accept", accept)));
        }
    }
}

/// State shared by the connections of the port.
struct Service {
    namespace: Arc<Namespace>,
    metrics: Arc<Metrics>,
    /// Connections that wait for their answer.
    pending: Arc<Handshakes>,
    tasks: TaskTracker,
}

impl Service {
    async fn accept(self: Arc<Self>, listener: Arc<TcpListener>) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.namespace.instance.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, addr)) => {
                    let place = self.pending.begin(PENDING_MAX, &self.namespace.instance.stop);
                    self.tasks.spawn(self.clone().serve(stream, addr, place));
                }
                Err(error) => pause_after(&error).await,
            }
        }
    }

    /// Serves a connection until it is answered, has taken too long, or is cut.
    async fn serve(self: Arc<Self>, stream: TcpStream, addr: SocketAddr, place: Handshake) {
        let Ok(laddr) = stream.local_addr() else { return };
        let visit = HttpPeer {
            peer: Peer {
                addr: addr.to_string().into(),
                laddr: laddr.to_string().into(),
                fd: stream.as_raw_fd().into(),
                is_unix: false,
            },
            ip: addr.ip(),
            is_local: addr.ip().to_canonical().is_loopback(),
            is_at_loopback: laddr.ip().to_canonical().is_loopback(),
            cut: place.token().clone(),
        };
        let cut = visit.cut.clone();
        // An endless answer gives its place back, and is not limited in time.
        let (place, is_endless) = (Mutex::new(Some(place)), CancellationToken::new());
        let (metrics, visit, place, endless) = (&self.metrics, &visit, &place, &is_endless);
        let answer = service_fn(|request: Request<Incoming>| async move {
            let answer = metrics.answer(request, visit).await;
            if answer.body().is_endless() {
                place.lock().take();
                endless.cancel();
            }
            Ok::<_, Infallible>(answer)
        });
        let connection = http1::Builder::new()
            .keep_alive(false)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_LEN_MAX)
            .serve_connection(TokioIo::new(stream), answer);
        let overdue = async {
            if tokio::time::timeout(PATIENCE, is_endless.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // The peer has had its answer, or does not speak HTTP, or is gone.
            _ = connection => {}
            () = cut.cancelled() => {}
            () = overdue => {}
        }
    }
}
