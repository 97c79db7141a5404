//! The connection of one client: read, decode all requests, execute all, write once.
//!
//! Generic over the stream: TCP, or any other behind a pointer. While replies wait for a slow reader the
//! connection continues to read, as Redis does, because many clients send a whole pipeline before they read; the
//! pending output is limited by `client-output-buffer-limit` and by the total of all clients (`Backlog`).

mod close;
mod exchange;
mod feed;
mod limits;
mod mirror;
mod run;

use std::future::poll_fn;
use std::io;
use std::mem::{ManuallyDrop, forget};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use crate::client::backlog::SHARE_MIN;
use crate::client::caller::Caller;
use crate::client::registry::{Blocked, Blocking, Unblocked};
use crate::client::session::{Client, DelayedReply, DelayedUntil, Replies};
use crate::config::Config;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::serve::serve_due;
use crate::dispatch::{Continuation, Env, Next, TimeTravel, Wait};
use crate::namespace::Namespace;
use crate::net::buffers::{BufferPool, ConnBuffers};
use crate::net::held::HeldOutput;
use crate::resp::{DecodeError, Output, Reply, RequestLimits};
use crate::runtime::batched_notify;
use crate::runtime::executor::yield_to_answered;
use crate::runtime::panics::caught;
use crate::store::NEVER;
use crate::upkeep::time_travel;

/// Memory of an idle connection, in bytes.
const IDLE_LEN: usize = 1200;
/// Change of the connection's buffers, in bytes, above which they are reported again.
const COUNTED_STEP: usize = 4 * 1024;
/// The interval at which a client retries while a script keeps the server busy.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Connection of one client, served until it disconnects, breaks the protocol or is told to close.
pub struct Connection<S> {
    stream: S,
    namespace: Arc<Namespace>,
    client: Client,
    config: Arc<Config>,
    config_version: u64,
    /// Generation of the state that admits the client's requests, see [`Connection::catch_up`].
    generation: u64,
    pool: Arc<BufferPool>,
    /// Bytes besides [`IDLE_LEN`] that were last reported as used memory.
    counted: usize,
    /// Pending bytes of replies that were last reported.
    reported: usize,
    /// True while nothing is read or executed because too many replies are pending.
    is_throttled: bool,
    /// Bytes read and executed in the present turn of a client that sends a lot; 0 outside such a turn.
    turn: u32,
    /// True if the client's calls have queued work, values to be freed or records to be written, faster than it is
    /// done.
    outruns_others: bool,
    /// True while a fault holds a reply back, which pushed frames must not overtake.
    is_reply_due: bool,
    /// Output withheld until the log is confirmed.
    held: Option<Box<HeldOutput>>,
    /// Buffers, taken from the pool while there is anything to read, execute or write.
    buffers: Option<Box<ConnBuffers>>,
}

/// The result of the last exchange with the client.
enum Exchange {
    /// This many bytes were read; 0 when throttled requests may be executed now.
    Read(usize),
    /// Pushed frames were written.
    Changed,
    /// The client has disconnected, or was told to close.
    Ended,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Creates the connection of an admitted client; its buffers come from `pool`.
    pub fn new(stream: S, namespace: Arc<Namespace>, client: Client, pool: Arc<BufferPool>) -> Self {
        let config_version = namespace.settings.version();
        let config = namespace.settings.current();
        namespace.store.memory_account().report_outside(0, IDLE_LEN);
        Connection {
            stream,
            namespace,
            client,
            config,
            config_version,
            generation: 0,
            pool,
            counted: 0,
            reported: 0,
            is_throttled: false,
            turn: 0,
            outruns_others: false,
            is_reply_due: false,
            held: None,
            buffers: None,
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let len = match poll_fn(|cx| self.poll_exchange(cx)).await? {
                Exchange::Ended => return Ok(()),
                Exchange::Changed => {
                    if self.namespace.restrictions.is_in_topology() {
                        self.leave_lost_shards();
                    }
                    continue;
                }
                Exchange::Read(len) => len,
            };
            self.namespace.observed.stats.bytes_in.fetch_add(len as u64, Relaxed);
            self.client.caller.info.traffic.count_bytes_in(len);
            if self.is_evicted() {
                continue;
            }
            if self.is_greedy() {
                return Ok(());
            }
            self.namespace.observed.stats.reads.fetch_add(1, Relaxed);
            let before = self.client.caller.commands;
            loop {
                let left = self.execute_input();
                let is_here = if left.is_unfinished() {
                    self.turn = 0; // meanwhile, replies and signals come first
                    Box::pin(self.finish(left)).await?
                } else {
                    forget(left); // as in `execute_decoded`
                    if !self.outruns_others {
                        break;
                    }
                    Box::pin(self.wait_for_others()).await?
                };
                if !is_here {
                    return Ok(());
                }
            }
            if self.client.caller.closing || self.is_over_limits() {
                return Ok(());
            }
            yield_to_answered().await;
            // A client that sends a lot yields to the others of this thread.
            if !self.keeps_turn(len, self.client.caller.commands - before) {
                poll_fn(|cx| Poll::Ready(self.poll_write(cx))).await?;
                self.count_buffers(); // other clients may list this one
                tokio::task::yield_now().await;
            }
        }
    }

    /// Reports the pending input and output: as used memory, and as the client's.
    fn count_buffers(&mut self) {
        let Some(buffers) = &self.buffers else { return };
        // Almost always both are and were zero.
        let was_something = self.counted | self.reported != 0;
        if was_something || !buffers.holds_nothing() || self.client.session.transaction.is_some() {
            self.count_used_buffers();
        }
    }

    fn count_used_buffers(&mut self) {
        let Some(buffers) = &self.buffers else { return };
        let pending = buffers.pending();
        self.client.caller.info.buffers.set_pending(pending);
        let queued = self.client.session.transaction.as_ref().map_or(0, |transaction| transaction.memory());
        let held = pending.held + buffers.output.held() + queued;
        if held.abs_diff(self.counted) > COUNTED_STEP {
            self.namespace.store.memory_account().report_outside(self.counted, held);
            self.counted = held;
        }
        let waiting = buffers.output.len();
        if waiting.abs_diff(self.reported) > COUNTED_STEP {
            self.namespace.clients.report_backlog(self.reported, waiting);
            self.reported = waiting;
        }
    }

    /// Returns true if requests may be read and executed while `waiting` bytes of replies are pending.
    #[inline]
    fn may_continue(&mut self, waiting: usize) -> bool {
        !self.is_throttled && self.namespace.clients.backlog.may_continue(waiting, self.reported)
            || self.check_backlog(waiting)
    }

    /// Answers [`Connection::may_continue`] for a client that is throttled or becomes so, and records its state.
    #[cold]
    fn check_backlog(&mut self, waiting: usize) -> bool {
        let clients = &self.namespace.clients;
        // Registered before it looks: it sees that the sum has fallen, or the client that lowers the sum sees it
        // throttled.
        clients.set_throttled(&self.client.caller.info, true);
        self.is_throttled = !clients.backlog.may_continue(waiting, self.reported);
        if !self.is_throttled {
            clients.set_throttled(&self.client.caller.info, false);
        }
        !self.is_throttled
    }

    /// Returns how many bytes of replies are pending.
    fn waiting(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.output.len())
    }

    /// Decodes and executes the complete requests in the input: all of them, or up to a command that the caller must
    /// finish before calling again.
    fn execute_input(&mut self) -> Next {
        let Some(mut buffers) = self.buffers.take() else { return Next::Done };
        let left = self.execute_decoded(&mut buffers);
        self.buffers = Some(buffers);
        left
    }

    #[inline(always)] // its only caller
    fn execute_decoded(&mut self, buffers: &mut ConnBuffers) -> Next {
        while !self.client.caller.closing && !self.outruns_others && !buffers.output.is_over() {
            if buffers.next < buffers.batch.len() {
                if !self.may_continue(buffers.output.len()) {
                    break;
                }
                let left = self.execute_batch(buffers);
                if left.is_unfinished() {
                    return left;
                }
                let is_over = matches!(left, Next::EndBatch | Next::Again);
                forget(left); // it owns nothing, and its drop glue would be called
                if is_over && !self.catch_up() {
                    break;
                }
            } else if !self.decode_batch(buffers) {
                break;
            }
        }
        Next::Done
    }

    /// Decodes the next batch; returns true if there was one; after a protocol error the client is closed.
    fn decode_batch(&mut self, buffers: &mut ConnBuffers) -> bool {
        if !buffers.batch.is_empty() {
            buffers.recycle();
        }
        if buffers.input.is_empty() && buffers.codec.requests.is_between_requests() {
            return false;
        }
        if !self.catch_up() {
            return false;
        }
        let requests = &mut buffers.codec.requests;
        requests.set_limits(limits(&self.config, &self.client.caller));
        match requests.decode_into(&mut buffers.input, &mut buffers.batch) {
            Ok(true) => {}
            Ok(false) => {
                self.pass_empty_requests(buffers);
                return false;
            }
            Err(error) => {
                self.pass_empty_requests(buffers);
                if let (DecodeError::Protocol(error), Replies::On) = (&error, self.client.session.replies) {
                    let line = error.wire_text();
                    self.namespace.observed.errors.count(&line);
                    Reply::new(&mut buffers.output, self.client.caller.protocol).error(&line);
                }
                debug!(client = self.client.caller.info.id, cause = %error, "closing a client after a protocol error");
                self.client.caller.closing = true;
            }
        }
        true
    }

    /// Handles empty requests after the last one, if there were any: they use up CLIENT REPLY SKIP, and show that a
    /// replica is alive.
    fn pass_empty_requests(&mut self, buffers: &mut ConnBuffers) {
        if buffers.codec.requests.take_empties() {
            self.client.session.replies.pass_empty_request();
            self.hear_replica();
        }
    }

    /// Executes the batch in one run until its end or until a command ends the run.
    #[inline(always)] // for a single request the call would cost a tenth of all instructions
    fn execute_batch(&mut self, buffers: &mut ConnBuffers) -> Next {
        let ConnBuffers { input, output, plan, batch, next, .. } = buffers;
        // CLIENT REPLY ends a run, so no request inside of one follows it.
        if self.client.session.replies != Replies::On && batch.follows_empty(*next) {
            self.client.session.replies.pass_empty_request();
        }
        let timer = self.namespace.call_timer(self.client.caller.info.id);
        let (handlers, config) = (self.pool.handlers, &*self.config);
        let env = Env { namespace: &self.namespace, handlers, config, timer: &timer };
        let mut run = BatchRun::new(env, self.generation, &self.client);
        run.set_up_extra_work(&self.client);
        run.plan(batch, *next, self.client.caller.db, plan);
        let planned = plan.of(batch, *next);
        let room = input.capacity() - input.len() + batch.spare_len();
        // Begin of the replies in the stream; 0 while nothing is held back: earlier output is then held back with the
        // replies.
        let begin = if self.namespace.log.is_confirmed() { 0 } else { output.end() };
        self.client.caller.info.buffers.set_query_buffer(batch.buffer_len() + input.len(), room);
        output.set_limit(output_max(config, &self.client.caller));
        // Not dropped in the loop, which continues only with values that own nothing: the drop glue would be called
        // each time.
        let (mut executed, mut left) = (0, ManuallyDrop::new(Next::Done));
        let (clients, reclaimer) = (&self.namespace.clients, self.namespace.store.reclaimer());
        let queued = reclaimer.queued();
        while executed < plan.len() && matches!(*left, Next::Done) && !self.client.caller.closing && !output.is_over() {
            let waiting = output.len();
            if waiting >= SHARE_MIN {
                // Other threads fill their outputs at the same time; they need this one's size before the batch ends.
                if waiting.abs_diff(self.reported) > COUNTED_STEP {
                    clients.report_backlog(self.reported, waiting);
                    self.reported = waiting;
                }
                if !clients.backlog.may_continue(waiting, self.reported) {
                    break;
                }
            }
            left = ManuallyDrop::new(run.execute(&mut self.client, planned, &mut executed, output));
            executed += 1;
        }
        output.set_limit(0);
        if !self.namespace.log.is_confirmed() {
            self.held.get_or_insert_default().add(output, begin, run.dependence(), &self.namespace.log);
            batched_notify::count_batch();
        }
        let (log, written) = (&self.namespace.log, &self.client.caller.info.written);
        self.outruns_others = reclaimer.is_behind() && reclaimer.queued() != queued
            || log.is_behind() && log.holds_up(written.load(Relaxed));
        let left = ManuallyDrop::into_inner(left);
        if let Next::Retry | Next::Again | Next::Refresh(_) = left {
            executed -= 1;
        }
        *next += executed;
        let caller = &self.client.caller;
        caller.info.touch(run.now(), caller.called, input.len());
        caller.info.traffic.set_commands(caller.commands);
        if self.namespace.push.tracking.has_invalidations() {
            self.namespace.push.tracking.broadcast((&self.config, run.now()));
        }
        left
    }

    /// Completes a request after its handler; returns whether the client is still connected.
    async fn finish(&mut self, next: Next) -> io::Result<bool> {
        match next {
            Next::Done | Next::EndBatch | Next::Again | Next::Settle(_) | Next::StayBlocked { .. } => Ok(true),
            Next::Retry => match self.namespace.restrictions.pause.in_force(self.namespace.clock.now()) {
                Some((_, until_ms)) => {
                    let info = &self.client.caller.info;
                    let blocked = self.namespace.clients.block(info, Blocking::Pause, until_ms);
                    Ok(self.block(&blocked, true).await?.is_some())
                }
                None => Ok(true),
            },
            Next::Refresh(refreshed) => self.await_fresh_mirror(refreshed).await,
            Next::Continue(rest) => self.finish_command(rest).await,
            Next::Delay(delayed) => self.send_later(*delayed).await,
        }
    }

    /// Finishes a command step by step; other clients are served between the steps. What it has left in the store is
    /// undone also after a panic, which then continues.
    async fn finish_command(&mut self, mut rest: Box<dyn Continuation>) -> io::Result<bool> {
        let outcome = caught(pin!(self.run_rest(&mut *rest))).await;
        match outcome {
            Ok(Ok(Some(Next::Delay(delayed)))) => {
                drop(rest); // the client is not blocked any more, though its reply is yet to come
                self.send_later(*delayed).await
            }
            Ok(next) => next.map(|next| next.is_some()),
            Err(panic) => {
                self.abandon_soon(&mut *rest).await;
                resume_unwind(panic)
            }
        }
    }

    /// Waits as the rest of a command demands, and executes its steps; returns what remains to be done then, or `None`
    /// if the client has disconnected.
    async fn run_rest(&mut self, rest: &mut dyn Continuation) -> io::Result<Option<Next>> {
        loop {
            // When the client disconnects, what the command has left in the store is undone.
            let woken = match rest.wait() {
                Wait::Turn => {
                    tokio::task::yield_now().await;
                    Ok(Some(Unblocked::InTime))
                }
                Wait::Blocked(blocked) => self.block(blocked, false).await,
                Wait::Work(work) => self.meanwhile(work).await.map(|is_here| is_here.then_some(Unblocked::InTime)),
                Wait::Commit(work) => self.await_commit(work).await.map(|is_here| is_here.then_some(Unblocked::InTime)),
                Wait::TimeTravel(travel) => {
                    self.travel(travel).await.map(|is_here| is_here.then_some(Unblocked::InTime))
                }
                Wait::Replica(replica) => {
                    self.make_replica(replica).await;
                    Ok(Some(Unblocked::InTime))
                }
                Wait::Topology(new, made) => {
                    made.0 = Some(self.make_topology(new).await);
                    Ok(Some(Unblocked::InTime))
                }
                Wait::Entry(entry) => {
                    self.enter(entry).await;
                    Ok(Some(Unblocked::InTime))
                }
            };
            while self.namespace.store.busy_flag().is_occupied() && !rest.needs_no_keys() {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            let Ok(Some(woken)) = woken else {
                self.abandon_soon(rest).await;
                return woken.map(|_| None);
            };
            if let Some(next) = self.step(rest, woken) {
                return Ok(Some(next));
            }
        }
    }

    /// Executes the next step of an unfinished command; returns what remains to be done once it is finished.
    fn step(&mut self, rest: &mut dyn Continuation, woken: Unblocked) -> Option<Next> {
        let buffers = self.buffers.get_or_insert_with(|| self.pool.take());
        let before = buffers.output.mark();
        let timer = self.namespace.call_timer(self.client.caller.info.id);
        let (handlers, config) = (self.pool.handlers, &*self.config);
        let env = Env { namespace: &self.namespace, handlers, config, timer: &timer };
        let mut batch = BatchRun::new(env, self.generation, &self.client);
        batch.set_up_extra_work(&self.client);
        buffers.output.set_limit(output_max(config, &self.client.caller));
        let is_finished = batch.resume(rest, &mut self.client.caller, woken, &mut buffers.output);
        buffers.output.set_limit(0);
        if !is_finished {
            return None;
        }
        let caller = &self.client.caller;
        caller.info.traffic.set_commands(caller.commands);
        if self.namespace.push.tracking.has_invalidations() {
            self.namespace.push.tracking.broadcast((&self.config, batch.now()));
        }
        let delayed = self.client.end_request(&mut buffers.output, before, None);
        if delayed.is_none() {
            self.client.take_pushes(&mut buffers.output);
        }
        Some(delayed.map_or(Next::Done, Next::Delay))
    }

    /// Sends a reply when its time has come, and only then the frames pushed to the client; returns whether the client
    /// is still connected.
    async fn send_later(&mut self, delayed: DelayedReply) -> io::Result<bool> {
        self.is_reply_due = true;
        let is_here = match delayed.until {
            DelayedUntil::Later(time) => self.meanwhile(tokio::time::sleep(time)).await,
            DelayedUntil::Advanced(time) => self.travel(TimeTravel::By(time)).await,
        };
        self.is_reply_due = false;
        if !is_here? {
            self.client.cut_off(); // a reply that was not sent yet is lost, and what would follow it
            return Ok(false);
        }
        let output = &mut self.buffers.get_or_insert_with(|| self.pool.take()).output;
        output.append(delayed.reply);
        self.client.take_pushes(output);
        Ok(true)
    }

    /// Moves, stops or starts the clock for the client's command; returns whether the client is still connected.
    async fn travel(&mut self, travel: TimeTravel) -> io::Result<bool> {
        let (namespace, handlers) = (self.namespace.clone(), self.pool.handlers);
        self.meanwhile(time_travel::travel(&namespace, handlers, travel)).await
    }

    /// Undoes what a command has left in the store, after a disconnect; returns whether that was possible.
    fn abandon(&self, rest: &mut dyn Continuation) -> bool {
        let timer = self.namespace.call_timer(self.client.caller.info.id);
        let (handlers, config) = (self.pool.handlers, &*self.config);
        let env = Env { namespace: &self.namespace, handlers, config, timer: &timer };
        let batch = BatchRun::new(env, self.generation, &self.client);
        let is_done = batch.abandon(rest, &self.client.caller);
        if is_done && self.namespace.push.tracking.has_invalidations() {
            self.namespace.push.tracking.broadcast((&self.config, batch.now()));
        }
        is_done
    }

    /// Blocks the client until a time or until it is unblocked. Meanwhile output is written, and input is read but not
    /// parsed. Returns `None` on disconnect.
    async fn block(&mut self, blocked: &Blocked, is_paused: bool) -> io::Result<Option<Unblocked>> {
        let unblocked = self.await_answer(blocked, is_paused).await;
        if !matches!(unblocked, Ok(Some(_))) {
            blocked.end(); // before anything is awaited: nobody serves a client that is known to be gone
        }
        unblocked
    }

    async fn await_answer(&mut self, blocked: &Blocked, is_paused: bool) -> io::Result<Option<Unblocked>> {
        let namespace = self.namespace.clone();
        let mut next_ms = NEVER;
        let mut time_is_over = pin!(namespace.clock.reach(next_ms));
        let mut is_over = true;
        loop {
            // While the clock is steered, the call that steers it ends the wait, and nudges the client afterwards.
            let turn = namespace.clock.is_steered().then(|| namespace.upkeep.steering.try_lock());
            let (now, may_end_itself) = (namespace.clock.now(), !matches!(turn, Some(Err(_))));
            if let Some(unblocked) = blocked.ended(now, may_end_itself) {
                return Ok(Some(unblocked));
            }
            let due_ms = blocked.due_ms(&namespace.restrictions.pause, now);
            if due_ms <= now.mono_ms() && may_end_itself {
                let is_busy = namespace.store.busy_flag().is_occupied();
                let is_served = !is_busy && serve_due(&namespace, self.pool.handlers, blocked);
                drop(turn);
                if !is_served {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                continue;
            }
            drop(turn);
            // A steered clock may have been moved, stopped or started.
            if !may_end_itself {
                is_over = true;
            } else if due_ms != next_ms || namespace.clock.is_steered() {
                time_is_over.set(namespace.clock.reach(due_ms));
                (next_ms, is_over) = (due_ms, false);
            }
            // The pause may have ended before this client was registered as blocked.
            if is_paused && namespace.restrictions.pause.in_force(now).is_none() {
                return Ok(Some(Unblocked::InTime));
            }
            let exchange = tokio::select! {
                exchange = poll_fn(|cx| {
                    // Frames that the call has pushed to its own client are written after the reply.
                    if blocked.is_answered() { Poll::Ready(Ok(Exchange::Changed)) } else { self.poll_exchange(cx) }
                }) => exchange?,
                () = &mut time_is_over, if !is_over => {
                    is_over = true;
                    Exchange::Changed
                }
            };
            if !self.stays_after(exchange) {
                return Ok(None);
            }
        }
    }

    /// Runs a future for the client's command, with the client served as in [`Connection::block`]; the future is
    /// dropped on disconnect. Returns whether the client is still connected.
    async fn meanwhile(&mut self, work: impl Future<Output = ()>) -> io::Result<bool> {
        let mut work = pin!(work);
        loop {
            let exchange = tokio::select! {
                () = &mut work => return Ok(true),
                exchange = poll_fn(|cx| self.poll_exchange(cx)) => exchange?,
            };
            if !self.stays_after(exchange) {
                return Ok(false);
            }
        }
    }

    /// Returns true if a blocked client stays connected after an exchange.
    fn stays_after(&mut self, exchange: Exchange) -> bool {
        match exchange {
            Exchange::Ended => false,
            Exchange::Changed => true,
            Exchange::Read(len) => {
                self.namespace.observed.stats.bytes_in.fetch_add(len as u64, Relaxed);
                self.client.caller.info.traffic.count_bytes_in(len);
                !self.is_greedy() && !self.is_over_limits()
            }
        }
    }

    /// Publishes how much output is pending, and records the time since which it has exceeded the soft limit.
    fn record_waiting(&self) {
        let info = &self.client.caller.info;
        info.buffers.set_output_buffer(self.waiting());
        let limit = info.output_limit(&self.config);
        if limit.soft_bytes != 0 {
            info.record_soft_limit(limit, self.namespace.clock.now());
        }
    }

    /// Drops pending replies that the client must not get.
    fn drop_output(&mut self) {
        if let Some(buffers) = &mut self.buffers {
            buffers.output = Output::new();
        }
        self.held = None;
    }
}

impl<S> Connection<S> {
    /// Reads the state that admits the client's next requests. Returns false if the client was told to close.
    #[inline]
    fn catch_up(&mut self) -> bool {
        // Read first: later changes are noticed by the batch, when it acquires the gate.
        self.generation = self.namespace.store.generation();
        self.follow_settings();
        self.client.caller.follow_users(&self.namespace.acl);
        !self.client.caller.info.outbox.is_ending()
    }

    /// Applies changed settings.
    #[inline]
    fn follow_settings(&mut self) {
        if self.namespace.settings.version() != self.config_version {
            self.read_settings();
        }
    }

    /// Reads the settings of the namespace.
    fn read_settings(&mut self) {
        self.config_version = self.namespace.settings.version();
        self.config = self.namespace.settings.current();
    }
}

/// Returns how many bytes of replies may be pending while requests of a client are executed; 0 for any number.
#[inline]
fn output_max(config: &Config, caller: &Caller) -> usize {
    let limit = caller.info.output_limit(config).hard();
    limit.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

fn limits(config: &Config, caller: &Caller) -> RequestLimits {
    RequestLimits { bulk_len_max: config.proto_max_bulk_len, authenticated: !caller.access.needs_authentication() }
}
