//! Input and output of a connection: replies that are written at once, input that is read, frames that are pushed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::warn;

use crate::client::outbox::{ENDS, EVICTED, NUDGE, OVERFLOW, PUSHED};
use crate::net::buffers::READ_LEN;
use crate::net::connection::{Connection, Exchange};
use crate::runtime::batched_notify;
use crate::runtime::executor::has_no_other_task;

/// Number of bytes of pushed frames that are moved to the output at a time; the rest stays shared.
const PUSH_PORTION: usize = 64 * 1024;
/// Number of bytes that are read from a client that sends a lot before others have their turn.
const TURN_LEN: u64 = 1024 * 1024;
/// Number of bytes that a command counts as in [`TURN_LEN`], besides its own bytes. After a read of short commands a
/// turn is over; 18 commands of 10 kB are one. With a smaller number, the waits of others grow by more than the CPU
/// time falls.
const COMMAND_LEN: u64 = 48 * 1024;
/// Maximum number of slices of one vectored write.
const SLICES: usize = 16;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Returns true if the client continues before others, after `len` bytes of its input were read and `commands`
    /// executed: a client that sends little, or one that sends a lot, until that has taken a while. In the latter case
    /// its replies are written together, it is woken less often, and a large argument is still in the processor's cache
    /// once it is complete.
    #[inline]
    pub(super) fn keeps_turn(&mut self, len: usize, commands: u64) -> bool {
        len < READ_LEN && self.turn == 0 || self.keeps_long_turn(len, commands)
    }

    fn keeps_long_turn(&mut self, len: usize, commands: u64) -> bool {
        let is_receiving = self.buffers.as_ref().is_some_and(|buffers| buffers.is_receiving_large());
        if len < READ_LEN && !is_receiving {
            self.turn = 0;
            return true;
        }
        let turn = u64::from(self.turn) + len as u64 + commands * COMMAND_LEN;
        self.turn = if turn < TURN_LEN { u32::try_from(turn).unwrap_or(0) } else { 0 };
        self.turn > 0
    }

    /// Reads what can be read into prepared buffers.
    #[inline(always)] // its only caller that counts
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Exchange>> {
        let Some(buffers) = &mut self.buffers else { return Poll::Pending };
        let len = ready!(buffers.poll_read(Pin::new(&mut self.stream), cx))?;
        Poll::Ready(Ok(if len == 0 { Exchange::Ended } else { Exchange::Read(len) }))
    }

    /// Reads what can be read before the replies so far are written, while the client keeps its turn.
    #[cold]
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Exchange>> {
        if let Some(buffers) = &mut self.buffers {
            buffers.prepare_input();
        }
        let read = self.poll_read(cx);
        if read.is_pending() {
            self.turn = 0;
        }
        read
    }

    /// Writes what can be written, then reads what can be read. Without input or output the connection holds no
    /// buffers.
    pub(super) fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Exchange>> {
        if self.namespace.restrictions.is_frozen() {
            return self.poll_thaw(cx).map(Ok);
        }
        // Input that is not executed because replies wait must not pile up, and replies as long as a read are written
        // first.
        if self.turn > 0
            && !self.is_throttled
            && self.waiting() < READ_LEN
            && let Poll::Ready(exchange) = self.poll_read_ahead(cx)
        {
            return Poll::Ready(exchange);
        }
        let waiting = self.waiting();
        self.poll_write(cx)?;
        // Checked every time, because a client with more input never gets to wait for signals.
        if self.client.caller.info.outbox.signals() != 0 && self.poll_outbox(cx)?.is_ready() {
            return Poll::Ready(Ok(Exchange::Ended));
        }
        if self.client.session.feed.is_some() && self.poll_feed(cx)?.is_ready() {
            return Poll::Ready(Ok(Exchange::Ended));
        }
        let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
        if waiting > 0 {
            buffers.output.shrink();
        }
        buffers.prepare_input();
        self.count_buffers();
        if waiting > 0 {
            self.record_waiting();
        }
        let was_held_up = self.is_throttled;
        let may_continue = self.may_continue(self.waiting());
        if may_continue {
            if was_held_up {
                return Poll::Ready(Ok(Exchange::Read(0)));
            }
            if let Poll::Ready(exchange) = self.poll_read(cx) {
                return Poll::Ready(exchange);
            }
        }
        let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
        if may_continue {
            buffers.settle();
        }
        // Frames pushed while output is pending are handled once the client has read it, or the reply that is due is
        // there.
        let takes_pushes = buffers.output.is_empty() && !self.is_reply_due;
        let awaited = if takes_pushes { ENDS | NUDGE | PUSHED } else { ENDS | NUDGE };
        if let Some(blank) = self.buffers.take_if(|buffers| buffers.is_blank()) {
            self.pool.give(blank);
        }
        ready!(self.client.caller.info.outbox.poll(cx, awaited));
        self.client.caller.info.outbox.lower(NUDGE);
        Poll::Ready(Ok(Exchange::Changed))
    }

    /// Waits until a suspended node continues or ends.
    #[cold]
    fn poll_thaw(&self, cx: &mut Context<'_>) -> Poll<Exchange> {
        let outbox = &self.client.caller.info.outbox;
        ready!(outbox.poll(cx, ENDS | NUDGE));
        if outbox.signals() & ENDS != 0 {
            return Poll::Ready(Exchange::Ended);
        }
        outbox.lower(NUDGE);
        Poll::Ready(Exchange::Changed)
    }

    /// Writes pushed frames, as much as the client accepts; ready when the connection must close.
    #[cold]
    fn poll_outbox(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        loop {
            let signals = self.client.caller.info.outbox.signals();
            if signals & EVICTED != 0 {
                self.drop_output();
            }
            if signals & OVERFLOW != 0 {
                warn!(client = self.client.caller.info.id, "closing a client that reads its output too slowly");
                self.namespace.observed.stats.output_limit_disconnections.fetch_add(1, Relaxed);
                self.drop_output();
            }
            if signals & ENDS != 0 {
                return Ok(Poll::Ready(()));
            }
            let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
            if signals & PUSHED == 0 || self.is_reply_due || !buffers.output.is_empty() {
                return Ok(Poll::Pending);
            }
            self.client.caller.info.outbox.take_into(&mut buffers.output, PUSH_PORTION);
            self.poll_write(cx)?;
            self.record_waiting();
        }
    }

    /// Writes until nothing is pending, the socket's buffer is full, or the rest waits until the log is confirmed.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(buffers) = &mut self.buffers {
            while !buffers.output.is_empty() {
                let (log, client) = (&self.namespace.log, self.client.caller.info.id);
                // A replica may get records that are not durable here.
                let writable = if log.is_confirmed() || self.client.session.feed.is_some() {
                    buffers.output.len()
                } else {
                    let held = self.held.get_or_insert_default();
                    // The last connection that is ready does the work that its reply and those of the others wait for.
                    if has_no_other_task() && held.is_held(&buffers.output, log) {
                        batched_notify::run_deferred();
                    }
                    held.writable(&buffers.output, log, client, cx.waker())
                };
                if writable == 0 {
                    break;
                }
                let stream = Pin::new(&mut self.stream);
                let written = match buffers.output.as_slice() {
                    Some(all) => stream.poll_write(cx, &all[..writable]),
                    None => {
                        let mut slices = [IoSlice::new(&[]); SLICES];
                        let count = buffers.output.chunks_up_to(writable, &mut slices);
                        stream.poll_write_vectored(cx, &slices[..count])
                    }
                };
                match written {
                    Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Ok(len)) => {
                        self.namespace.observed.stats.bytes_out.fetch_add(len as u64, Relaxed);
                        if self.client.session.feed.is_some() {
                            self.namespace.observed.stats.link_bytes_out.fetch_add(len as u64, Relaxed);
                        }
                        self.client.caller.info.traffic.count_bytes_out(len);
                        self.namespace.observed.stats.writes.fetch_add(1, Relaxed);
                        buffers.output.advance(len);
                    }
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Pending => break,
                }
            }
        }
        if let (Some(held), Some(buffers)) = (&mut self.held, &self.buffers)
            && buffers.output.is_empty()
        {
            held.forget();
        }
        // A TLS stream buffers what the socket did not accept; for a plain one this does nothing.
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}
