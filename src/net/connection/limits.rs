//! Limits of a client: of its input, its output and its memory, and of the values that it leaves to be freed.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncWrite};
use tracing::warn;

use crate::config::{ClientMemory, OutputLimit};
use crate::net::connection::{BUSY_PAUSE, Connection};

/// The minimum of the size limit of a request whose parts are each within `client-query-buffer-limit`, in bytes.
const REQUEST_LEN_MAX: usize = 1024 * 1024 * 1024;
/// Maximum of pending replies, in bytes, of a client that has to authenticate and has not; above it, the client is
/// closed.
const UNAUTHENTICATED_OUTPUT_MAX: u64 = 17 * 1024;
/// Number of looks whether enough was freed before a client continues in any case: for ten seconds.
const LOOKS_MAX: usize = 1000;

/// Number of looks after which a snapshot that writes nothing is given up: the disk stands still.
const STILL_LOOKS_MAX: usize = 100;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Returns true if the client exceeds a memory limit. The soft limit depends on time, so it is only recorded here;
    /// the server's housekeeping checks it.
    pub(super) fn is_over_limits(&mut self) -> bool {
        let (waiting, is_over) =
            self.buffers.as_ref().map_or((0, false), |buffers| (buffers.output.len(), buffers.output.is_over()));
        let may_be_over = waiting > OutputLimit::LEAST || is_over || self.client.session.feed.is_some();
        // Checked first, because no other client should be evicted for the memory of this one.
        if may_be_over && self.has_too_much_output(waiting, is_over) {
            self.drop_output();
            return true;
        }
        if self.is_evicted() {
            self.drop_output();
            return true;
        }
        false
    }

    /// Returns true if the client's limit is exceeded by the `waiting` bytes of replies, and for a replica the log that
    /// waits, or `was_exceeded` while requests were executed.
    #[cold]
    fn has_too_much_output(&self, waiting: usize, was_exceeded: bool) -> bool {
        let waiting = waiting + self.client.session.feed.as_ref().map_or(0, |feed| feed.waiting() as usize);
        let limit = if self.client.caller.access.needs_authentication() {
            Some(UNAUTHENTICATED_OUTPUT_MAX)
        } else {
            self.client.caller.info.output_limit(&self.config).hard()
        };
        let is_too_much = was_exceeded || limit.is_some_and(|limit| waiting as u64 > limit);
        if is_too_much {
            warn!(
                client = self.client.caller.info.id,
                waiting, "closing a client that exceeds its output buffer limit"
            );
            self.namespace.observed.stats.output_limit_disconnections.fetch_add(1, Relaxed);
        }
        is_too_much
    }

    /// Returns true if the client's unexecuted input is too large: one argument, a request, or a transaction's queue.
    /// Checked before any of it is executed.
    pub(super) fn is_greedy(&mut self) -> bool {
        let Some(buffers) = &self.buffers else { return false };
        let limit = self.config.client_query_buffer_limit;
        let len = buffers.input.len() + buffers.codec.requests.separate_len();
        let queued =
            self.client.session.transaction.as_ref().map_or(0, |_| self.client.caller.info.buffers.queued_bytes());
        if len + queued <= limit {
            return false;
        }
        let query = buffers.codec.requests.unparsed_len(&buffers.input) + queued;
        let is_greedy = query > limit || len > limit.max(REQUEST_LEN_MAX);
        if is_greedy {
            warn!(client = self.client.caller.info.id, query, "closing a client that exceeds its query buffer limit");
            self.namespace.observed.stats.query_limit_disconnections.fetch_add(1, Relaxed);
            self.drop_output();
        }
        is_greedy
    }

    /// Reports the client's memory where `maxmemory-clients` limits it; returns whether this client is evicted.
    #[inline]
    pub(super) fn is_evicted(&mut self) -> bool {
        self.config.maxmemory_clients != ClientMemory::Bytes(0) && self.is_evicted_for_memory()
    }

    #[cold]
    fn is_evicted_for_memory(&mut self) -> bool {
        let info = &self.client.caller.info;
        if let Some(buffers) = &self.buffers {
            info.buffers.set_pending(buffers.pending());
        }
        info.buffers.set_output_buffer(self.waiting());
        if let Some(limit) = self.config.client_memory_max() {
            self.namespace.clients.account(info, limit);
        }
        info.outbox.is_ending()
    }

    /// Waits until enough of the deleted large values is freed, so that no client fills the memory by making and
    /// deleting some, and until the append-only file has taken enough of the log. Returns whether the client is still
    /// connected.
    pub(super) async fn wait_for_others(&mut self) -> io::Result<bool> {
        self.outruns_others = false;
        let namespace = self.namespace.clone();
        let done = async {
            let reclaimer = namespace.store.reclaimer();
            let (mut written, mut still) = (reclaimer.written(), 0);
            for _ in 0..LOOKS_MAX {
                if !reclaimer.is_behind() {
                    break;
                }
                tokio::time::sleep(BUSY_PAUSE).await;
                still = if reclaimer.written() == written { still + 1 } else { 0 };
                written = reclaimer.written();
                if written.is_some() && still >= STILL_LOOKS_MAX {
                    reclaimer.give_up_snapshot();
                    break;
                }
            }
            // Waits as long as the disk takes, as in Redis; a client that does not want to wait disconnects.
            while namespace.log.is_behind() {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
        };
        self.meanwhile(done).await
    }
}
