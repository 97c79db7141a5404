//! A connection to a replica, which is sent the log.

use std::io;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tracing::warn;

use crate::client::replica::ReplicaState;
use crate::client::replica::feed::FeedEnded;
use crate::net::connection::Connection;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Records that a replica has sent an empty line: it loads a snapshot, and says that it is still there.
    pub(super) fn hear_replica(&self) {
        if let Some(feed) = &self.client.session.feed {
            feed.replica().restart_lag(self.namespace.clock.now());
        }
    }

    /// Writes the next data of the feed, as much as the replica accepts; ready when the connection must close.
    #[cold]
    pub(super) fn poll_feed(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        loop {
            let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
            let Some(feed) = self.client.session.feed.as_mut().filter(|_| buffers.output.is_empty()) else {
                return Ok(Poll::Pending);
            };
            let was_online = feed.replica().state() == ReplicaState::Online;
            let filled = feed.poll_fill(cx, &mut buffers.output);
            if !was_online && feed.replica().state() == ReplicaState::Online {
                // The replica had acknowledged the snapshot before the feed knew that all of it was sent.
                self.namespace.replicas.unblock_waiters(&self.namespace.clients);
                self.namespace.follow_replicas(self.namespace.clock.now());
            }
            match filled {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(FeedEnded::Complete)) => return Ok(Poll::Ready(())),
                Poll::Ready(Err(FeedEnded::Failed)) => {
                    warn!(client = self.client.caller.info.id, "closing a replica that cannot be sent what comes next");
                    return Ok(Poll::Ready(()));
                }
                Poll::Ready(Ok(())) => self.client.caller.info.buffers.set_log_waiting(feed.waiting() as usize),
            }
            self.poll_write(cx)?;
            self.record_waiting();
            if self.is_over_limits() {
                return Ok(Poll::Ready(()));
            }
        }
    }
}
