//! One client: read, decode all, execute all, write once.
//!
//! Generic over the stream, so that TCP, Unix sockets and whatever comes later share every line.
//! While replies wait for a slow reader the connection goes on reading, as Redis does, because many
//! clients send a whole pipeline before they read; how much may wait is bounded by
//! `client-output-buffer-limit` and, above that, by `OUTPUT_PAUSE`.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::codec::Decoder;
use tokio_util::io::poll_read_buf;
use tracing::{debug, warn};

use crate::command::dispatch::{Deferred, Sliced, Turn};
use crate::config::Config;
use crate::namespace::Namespace;
use crate::resp::{Batch, Codec, DecodeError, Limits, Output, Reply};
use crate::session::Session;

/// How much is read at once, in bytes.
const READ_LEN: usize = 16 * 1024;
/// How large a read buffer may be that is kept once a large request has been taken out of it, in bytes.
const INPUT_KEEP_MAX: usize = 4 * READ_LEN;
/// How many bytes of replies may wait before the client's requests are no longer read.
const OUTPUT_PAUSE: usize = 256 * 1024 * 1024;
/// How many pieces of the output one write takes.
const SLICES: usize = 16;
/// How long a client that is being closed has to take its last replies.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves one client until it leaves, breaks the protocol or is told to go.
pub struct Connection<S> {
    stream: S,
    server: Arc<Namespace>,
    session: Session,
    config: Arc<Config>,
    config_version: u64,
    codec: Codec,
    input: BytesMut,
    output: Output,
}

/// What the last exchange with the client brought.
enum Exchange {
    /// This many bytes were read.
    Read(usize),
    /// Replies were written after reading had been paused.
    Written,
    /// The client is gone, or was told to go.
    Ended,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Creates the connection of a client that has been admitted.
    pub fn new(stream: S, server: Arc<Namespace>, session: Session) -> Self {
        let config_version = server.settings.version();
        let config = server.settings.current();
        Connection {
            codec: Codec::new(limits(&config, &session)),
            stream,
            server,
            session,
            config,
            config_version,
            input: BytesMut::new(),
            output: Output::new(),
        }
    }

    /// Serves the client to the end.
    pub async fn run(mut self) {
        if let Err(error) = self.serve().await {
            debug!(client = self.session.info.id, cause = %error, "connection broke");
        }
        let store = &self.server.store;
        self.session.stop_watching(&mut store.share().view(0, &[], self.server.clock.now()), store);
        // A client that takes nothing any more does not hold the connection for ever.
        let _ = tokio::time::timeout(LAST_WORDS, self.say_goodbye()).await;
        self.server.clients.remove(self.session.info.id);
    }

    async fn serve(&mut self) -> io::Result<()> {
        let ended = self.session.info.ended.clone();
        let mut ended = Box::pin(ended.cancelled());
        loop {
            match poll_fn(|cx| self.poll_exchange(cx, ended.as_mut())).await? {
                Exchange::Ended => return Ok(()),
                Exchange::Written => {}
                Exchange::Read(len) => {
                    self.server.stats.bytes_in.fetch_add(len as u64, Relaxed);
                    self.execute_input().await;
                    // The token is asked here too, because a client that always has more to read is never waited for.
                    if self.session.closing || self.is_over_limits() || self.session.info.ended.is_cancelled() {
                        return Ok(());
                    }
                    // A client that floods lets the others of this thread have their turn.
                    if len >= READ_LEN {
                        poll_fn(|cx| Poll::Ready(self.poll_write(cx))).await?;
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Writes what can be written, then reads what can be read.
    fn poll_exchange<E: Future>(&mut self, cx: &mut Context<'_>, ended: Pin<&mut E>) -> Poll<io::Result<Exchange>> {
        let waiting = self.output.len();
        self.poll_write(cx)?;
        if waiting > 0 {
            self.note_soft_limit();
            self.output.shrink();
        }
        if self.output.len() < OUTPUT_PAUSE {
            if waiting >= OUTPUT_PAUSE {
                return Poll::Ready(Ok(Exchange::Written));
            }
            self.input.reserve(READ_LEN);
            if self.input.is_empty() && self.input.capacity() > INPUT_KEEP_MAX {
                self.input = BytesMut::with_capacity(READ_LEN);
            }
            if let Poll::Ready(read) = poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.input) {
                return Poll::Ready(Ok(match read? {
                    0 => Exchange::Ended,
                    len => Exchange::Read(len),
                }));
            }
        }
        ready!(ended.poll(cx));
        Poll::Ready(Ok(Exchange::Ended))
    }

    /// Writes until nothing is left or the client's buffer is full.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.output.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut self.stream);
            let written = match count {
                1 => stream.poll_write(cx, &slices[0]),
                _ => stream.poll_write_vectored(cx, &slices[..count]),
            };
            match written {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(len)) => {
                    self.server.stats.bytes_out.fetch_add(len as u64, Relaxed);
                    self.output.advance(len);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Decodes and executes all complete requests that have been read.
    async fn execute_input(&mut self) {
        while !self.session.closing {
            self.follow_settings();
            match self.codec.decode(&mut self.input) {
                Ok(Some(batch)) => {
                    self.execute_batch(&batch).await;
                    self.codec.requests.recycle(batch);
                }
                Ok(None) => return,
                Err(error) => {
                    if let DecodeError::Protocol(error) = &error {
                        Reply::new(&mut self.output, self.session.protocol).error(&error.wire_text());
                    }
                    debug!(client = self.session.info.id, cause = %error, "closing a client that broke the protocol");
                    self.session.closing = true;
                }
            }
        }
    }

    async fn execute_batch(&mut self, batch: &Batch) {
        let mut next = 0;
        while next < batch.len() && !self.session.closing {
            let (executed, deferred) = self.execute_from(batch, next);
            next += executed;
            if let Some(task) = deferred {
                self.finish(task).await;
            }
        }
    }

    /// Executes requests in one turn until the batch, or the turn, ends; returns how many.
    fn execute_from(&mut self, batch: &Batch, first: usize) -> (usize, Deferred) {
        let mut turn = Turn::new(&self.server, self.config.clone());
        let plan = turn.plan(batch.iter().skip(first), self.session.db);
        let (mut executed, mut deferred) = (0, None);
        while executed < plan.len() && deferred.is_none() && !self.session.closing {
            deferred = turn.execute(&mut self.session, &plan, executed, &mut self.output);
            executed += 1;
        }
        self.server.stats.commands.fetch_add(std::mem::take(&mut self.session.calls), Relaxed);
        self.session.info.touch(turn.now(), self.session.last_command, self.input.len(), self.output.len());
        (executed, deferred)
    }

    /// Finishes a long command slice by slice; others are served in between.
    async fn finish(&mut self, mut task: Box<dyn Sliced>) {
        loop {
            tokio::task::yield_now().await;
            let mut turn = Turn::new(&self.server, self.config.clone());
            if turn.resume(&mut *task, &self.session, &mut self.output) {
                return;
            }
        }
    }

    /// Takes over settings that changed, and tells the decoder what this client may send.
    fn follow_settings(&mut self) {
        let version = self.server.settings.version();
        if version != self.config_version {
            self.config_version = version;
            self.config = self.server.settings.current();
        }
        self.codec.requests.set_limits(limits(&self.config, &self.session));
    }

    /// Returns whether the client makes the server keep more than it may. The soft limit needs time to pass, so it is
    /// only noted here; the server's housekeeping looks at it.
    fn is_over_limits(&mut self) -> bool {
        let (query, waiting) = (self.input.len(), self.output.len());
        let hard_bytes = self.config.client_output_buffer_limit[0].hard_bytes;
        self.note_soft_limit();
        let is_over = query > self.config.client_query_buffer_limit || (hard_bytes != 0 && waiting as u64 > hard_bytes);
        if is_over {
            warn!(client = self.session.info.id, query, waiting, "closing a client that exceeds its buffer limits");
            self.output = Output::new();
        }
        is_over
    }

    fn note_soft_limit(&self) {
        let soft_bytes = self.config.client_output_buffer_limit[0].soft_bytes;
        if soft_bytes != 0 {
            let is_over = self.output.len() as u64 > soft_bytes;
            self.session.info.set_over_soft_limit(is_over, || self.server.clock.now());
        }
    }

    /// Writes the replies that are left and closes.
    async fn say_goodbye(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            self.poll_write(cx)?;
            if self.output.is_empty() { Poll::Ready(Ok::<_, io::Error>(())) } else { Poll::Pending }
        })
        .await?;
        self.stream.shutdown().await
    }
}

fn limits(config: &Config, session: &Session) -> Limits {
    Limits { bulk_len_max: config.proto_max_bulk_len, authenticated: session.authenticated }
}
