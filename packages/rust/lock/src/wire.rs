//! Connections of a lock: one at a time, which tells of losses and of its own end.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, ServerErrorKind, Value, from_redis_value,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout_at};

use crate::connect::Connect;

/// Something that a connection has told without being asked.
#[derive(Debug)]
pub(crate) enum Event {
    /// A lock was lost.
    Lost { name: Vec<u8>, token: String, fence: i64, reason: String },
    /// The connection of this number has ended.
    Ended(u64),
}

/// Source of the connections of all locks of one server.
pub(crate) struct Source {
    connect: Box<dyn Connect>,
    /// Number of the next connection.
    next: AtomicU64,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// A connection.
pub(crate) struct Wire {
    pub(crate) number: u64,
    /// True if it tells of losses, and of its end.
    pub(crate) tells: bool,
    connection: MultiplexedConnection,
}

impl Source {
    pub(crate) fn new(connect: impl Connect) -> Self {
        Source { connect: Box::new(connect), next: AtomicU64::new(0) }
    }

    /// Opens a connection, to a node of a cluster if one is named.
    pub(crate) async fn open(
        &self,
        events: &UnboundedSender<Event>,
        node: Option<&(String, u16)>,
        until: Option<Instant>,
    ) -> RedisResult<Wire> {
        in_time(until, self.try_open(events, node)).await
    }

    async fn try_open(&self, events: &UnboundedSender<Event>, node: Option<&(String, u16)>) -> RedisResult<Wire> {
        let mut info = self.connect.client().await?.get_connection_info().clone();
        if let Some((host, port)) = node {
            let mut addr = info.addr().clone();
            match &mut addr {
                ConnectionAddr::TcpTls { host: of, port: at, .. } => (*of, *at) = (host.clone(), *port),
                _ => addr = ConnectionAddr::Tcp(host.clone(), *port),
            }
            info = info.set_addr(addr);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let events = events.clone();
        let hear = move |push: PushInfo| match event(push, number) {
            Some(event) => events.send(event),
            None => Ok(()),
        };
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let telling = Client::open(info.clone().set_redis_settings(settings))?;
        let opened = telling.get_multiplexed_async_connection_with_config(&config.clone().set_push_sender(hear)).await;
        match opened {
            Ok(connection) => Ok(Wire { number, tells: true, connection }),
            // What does not know HELLO, a proxy perhaps, may still pass the commands on.
            Err(error) if lacks_resp3(&error) => {
                let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
                let silent = Client::open(info.set_redis_settings(settings))?;
                let connection = silent.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Wire { number, tells: false, connection })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the node of a cluster that an error names.
pub(crate) fn redirected(error: &RedisError) -> Option<(String, u16)> {
    if error.kind() != ErrorKind::Server(ServerErrorKind::Moved) {
        return None;
    }
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
}

impl Wire {
    /// Sends a command and waits for its reply, until a time.
    pub(crate) async fn call(&mut self, cmd: &Cmd, until: Option<Instant>) -> RedisResult<Value> {
        in_time(until, self.connection.send_packed_command(cmd)).await.and_then(Value::extract_error)
    }
}

async fn in_time<T>(until: Option<Instant>, call: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match until {
        None => call.await,
        Some(until) => {
            timeout_at(until, call).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        }
    }
}

/// Returns what a push says, if it is about locks or the connection.
fn event(push: PushInfo, number: u64) -> Option<Event> {
    match push.kind {
        PushKind::Disconnection => Some(Event::Ended(number)),
        PushKind::Other(kind) if kind == "lock-lost" => {
            let (name, token, fence, reason) = from_redis_value(Value::Array(push.data)).ok()?;
            Some(Event::Lost { name, token, fence, reason })
        }
        _ => None,
    }
}

/// Returns true if an error is the server's reply: its connection is well.
pub(crate) fn is_reply(error: &RedisError) -> bool {
    error.code().is_some()
}

/// Returns true if the server refuses because it has no such command, or not for this user.
pub(crate) fn lacks_command(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") || says(error, "unknown command")
}

/// Returns true if the text of a server's error has these words.
pub(crate) fn says(error: &RedisError, words: &str) -> bool {
    is_reply(error) && error.detail().is_some_and(|detail| detail.to_lowercase().contains(words))
}

/// Returns true if an error of the server passes: it is loading, or no primary any more, or a slot is on its way.
pub(crate) fn is_passing(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, ReadOnly, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Ask | BusyLoading | ClusterDown | MasterDown | ReadOnly | TryAgain))
}

fn lacks_resp3(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported || says(error, "unknown command")
}

/// Returns the time after a pause.
pub(crate) fn later(pause: Duration) -> Instant {
    Instant::now() + pause
}
