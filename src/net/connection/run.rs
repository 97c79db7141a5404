//! A connection from its first request to its end, which may be a panic.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tracing::debug;

use crate::client::outbox::{END, EVICTED, OVERFLOW, PUSHED};
use crate::dispatch::Continuation;
use crate::dispatch::interrupted::log_interrupted;
use crate::dispatch::serve::serve_remaining_keys;
use crate::net::connection::{BUSY_PAUSE, Connection};
use crate::runtime::panics::caught;
use crate::store::{Cx, Origin};

/// Time that a client being closed may take to read its last replies.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same once the server stops, which waits for every connection, also for one that is read from slowly.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Leaves the client without an answer for a time. Its requests are read, and executed by [`Connection::run`]; if it
    /// disconnects before, they are not.
    pub(in crate::net) async fn stay_silent(&mut self, time: Duration) {
        match self.meanwhile(tokio::time::sleep(time)).await {
            // What was read is executed as that of a client that was throttled.
            Ok(true) => self.is_throttled = true,
            Ok(false) | Err(_) => self.client.caller.info.outbox.signal(END),
        }
    }

    /// Serves the client until it disconnects, or until a panic in one of its calls. Its registrations are removed when
    /// the connection is dropped.
    pub async fn run(&mut self) {
        let outcome = caught(pin!(self.serve_and_close())).await;
        if let Err(panic) = outcome {
            self.namespace.instance.panics.report("connection", &*panic);
            self.recover();
        }
    }

    async fn serve_and_close(&mut self) {
        if let Err(error) = self.serve().await {
            debug!(client = self.client.caller.info.id, cause = %error, "connection broke");
        }
        self.leave(false).await;
        // A client that does not read its last replies does not keep the connection open for ever. Boxed, because
        // otherwise every connection would have room for the timer all its life.
        let stop = self.namespace.instance.stop.clone();
        let limit = async move {
            if tokio::time::timeout(CLOSE_TIMEOUT, stop.cancelled()).await.is_ok() {
                tokio::time::sleep(STOP_TIMEOUT).await;
            }
        };
        Box::pin(async {
            tokio::select! {
                _ = self.flush_and_close() => {}
                () = limit => {}
            }
        })
        .await;
    }

    /// Writes the last replies and the messages pushed before the client was told to close, and closes. Delayed messages
    /// are lost.
    async fn flush_and_close(&mut self) -> io::Result<()> {
        let outbox = &self.client.caller.info.outbox;
        let signals = outbox.signals();
        if signals & PUSHED != 0 && signals & (OVERFLOW | EVICTED) == 0 {
            let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
            outbox.take_into(&mut buffers.output, usize::MAX);
        }
        poll_fn(|cx| {
            self.poll_write(cx)?;
            if self.waiting() == 0 { Poll::Ready(Ok::<_, io::Error>(())) } else { Poll::Pending }
        })
        .await?;
        self.stream.shutdown().await
    }

    /// Undoes what a command has left in the store, as soon as no busy script holds the store.
    pub(super) async fn abandon_soon(&mut self, rest: &mut dyn Continuation) {
        while !self.abandon(rest) {
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Repairs what a panic in a call of this client has left half done, and serves the clients for which the call has
    /// made keys ready.
    fn recover(&mut self) {
        let (namespace, handlers) = (&self.namespace, self.pool.handlers);
        namespace.instance.panics.catch("recovery", || {
            namespace.store.recover(Cx::new(namespace.clock.now(), Origin::HOST));
            log_interrupted(namespace);
            serve_remaining_keys(namespace, handlers);
            namespace.upkeep.sweep_notify.notify_one();
        });
    }
}
