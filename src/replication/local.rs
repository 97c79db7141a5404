//! The link of a replica to a primary in the same process, for test mode.
//!
//! There is no connection. Without a fault, the replica has executed the primary's writes before the primary's client
//! gets its reply: the link is a reader of the log that confirms, like an append-only file with `appendfsync always`.
//! With a delay, writes arrive later, by the clock that both share; while the link is cut, none arrives. So everything
//! that depends on the replica's progress happens in the same way in each run.

use std::collections::VecDeque;
use std::io::Cursor;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::client::info::Peer;
use crate::client::replica::{Replica, ReplicaState};
use crate::config::HostPort;
use crate::dispatch::Handlers;
use crate::durability::{ReceivedData, ReplicaLoader, copy};
use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;
use crate::namespace::role::{LinkConnection, LinkState};
use crate::persist::LogReader;
use crate::persist::disk::Disk;
use crate::replication::stream::PrimaryStream;
use crate::store::NEVER;
use crate::text::system_text;
use crate::time::clock::Now;

/// Interval of checks that a replica is done with a script.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

struct Local {
    primary: Weak<Namespace>,
    replica: Weak<Namespace>,
    handlers: &'static Handlers,
    disk: Arc<dyn Disk>,
    /// The term of the replica's role.
    term: u64,
    /// The replica as shown by WAIT and INFO of the primary.
    shown: Arc<Replica>,
    state: Mutex<State>,
    /// Wakeup of the task that delivers records.
    news: Arc<Notify>,
    /// Set once the term is over, or one of the two namespaces has ended.
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Reader of the primary's log, while the link is up or about to be.
    reader: Option<LogReader>,
    /// Executor of the records.
    stream: Option<PrimaryStream>,
    /// The position up to which the replica has executed everything; `None` until it has data of the primary.
    executed: Option<u64>,
    /// Records that have not arrived, oldest first.
    on_way: VecDeque<Delivery>,
    /// True while nothing arrives, because the primary is about to take back the records on the way.
    is_held: bool,
    is_up: bool,
    /// True while all data is being copied.
    is_copying: bool,
}

/// Records that the primary has written in one piece.
struct Delivery {
    bytes: Vec<u8>,
    /// The position behind them.
    end: u64,
    arrives_us: u64,
}

/// Makes an empty namespace the replica of another one, until the role changes or one of the two ends. Returns once the
/// replica has all data; the returned future delivers further records.
pub(crate) async fn replicate_locally(
    primary: &Arc<Namespace>,
    replica: &Arc<Namespace>,
    with: (&'static Handlers, Arc<dyn Disk>),
) -> impl Future<Output = ()> + Send + 'static {
    let link = link_locally(primary, replica, with);
    link.deliver_soon().await;
    keep(link)
}

/// Makes a namespace the replica of another one as [`replicate_locally`] does, but returns before it has data: once the first
/// records are delivered. The returned future delivers them while the clock runs.
pub(crate) fn begin_link(
    primary: &Arc<Namespace>,
    replica: &Arc<Namespace>,
    with: (&'static Handlers, Arc<dyn Disk>),
) -> (Arc<dyn LocalLink>, impl Future<Output = ()> + Send + 'static) {
    let link = link_locally(primary, replica, with);
    (link.clone(), keep(link))
}

fn link_locally(
    primary: &Arc<Namespace>,
    replica: &Arc<Namespace>,
    (handlers, disk): (&'static Handlers, Arc<dyn Disk>),
) -> Arc<Local> {
    let named = |namespace: &Namespace| match namespace.tenant.name() {
        Some(name) if namespace.member().is_none() => String::from_utf8_lossy(name).into_owned(),
        _ => "127.0.0.1".to_owned(),
    };
    let address = HostPort { host: named(primary), port: primary.port() };
    {
        let _held = replica.store.exclusive();
        replica.follow_primary(address.clone());
    }
    let shown = Replica::new(primary.links.next_id(), &named(replica), 0);
    shown.port.store(i64::from(replica.port()), Relaxed);
    let link = Arc::new(Local {
        primary: Arc::downgrade(primary),
        replica: Arc::downgrade(replica),
        handlers,
        disk,
        term: replica.role.term(),
        shown: Arc::new(shown),
        state: Mutex::default(),
        news: Arc::default(),
        is_over: AtomicBool::new(false),
    });
    let news = link.news.clone();
    let hang_up = Box::new(move || news.notify_one());
    let peer = Peer { addr: address.host.into(), laddr: named(replica).into(), fd: -1, is_unix: false };
    replica.role.connected(link.term, Some(LinkConnection { peer, hang_up, client: None }));
    primary.link_to(replica, link.clone());
    link
}

/// Delivers records when they are due, until the link is over.
async fn keep(link: Arc<Local>) {
    while !link.is_over.load(Relaxed) {
        let (Some(primary), Some(replica)) = (link.primary.upgrade(), link.replica.upgrade()) else { break };
        let (ends, stops) = (primary.tenant.stop.clone(), replica.tenant.stop.clone());
        let clock = replica.clock.clone();
        let (due_ms, is_busy) = (link.next_arrival_ms(), replica.store.busy_flag().is_occupied());
        drop((primary, replica));
        let written = std::future::poll_fn(|cx| match &link.state.lock().reader {
            Some(reader) => reader.poll_readable(cx),
            None => Poll::Pending,
        });
        tokio::select! {
            () = ends.cancelled() => break,
            () = stops.cancelled() => break,
            () = link.news.notified() => {}
            () = written => {}
            () = clock.reach(due_ms) => {}
            () = tokio::time::sleep(BUSY_PAUSE), if is_busy => {}
        }
        link.deliver_soon().await;
    }
    link.finish();
}

impl LocalLink for Local {
    fn deliver(&self, now: Now) -> bool {
        let (Some(primary), Some(replica)) = (self.primary.upgrade(), self.replica.upgrade()) else { return false };
        let delivered = primary.instance.panics.catch("link", || self.deliver_between(&primary, &replica, now));
        if delivered.is_none() {
            self.end();
        }
        delivered.unwrap_or(false)
    }

    fn next_arrival_ms(&self) -> u64 {
        let state = self.state.lock();
        let next = state.on_way.front().filter(|_| !state.is_held);
        next.map_or(NEVER, |parcel| parcel.arrives_us.div_ceil(1000))
    }

    fn hold(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.is_held = state.executed.is_some();
        state.executed
    }

    fn release(&self, join: bool) {
        let mut state = self.state.lock();
        state.is_held = false;
        if join
            && let Some(replica) = self.replica.upgrade()
            && let Some(delay) = replica.link_delay()
            && self.take(&mut state, delay, false, replica.clock.now())
        {
            state.join();
        }
        self.news.notify_one();
    }

    fn wake(&self) {
        self.news.notify_one();
    }

    fn finish(self: Arc<Self>) {
        self.end();
        *self.state.lock() = State::default();
        let (primary, replica) = (self.primary.upgrade(), self.replica.upgrade());
        let (client, term) = (self.shown.client, self.term);
        let link: Arc<dyn LocalLink> = self;
        if let Some(primary) = primary {
            primary.unlink(&link);
            primary.replicas.remove(client, primary.clock.now());
            primary.follow_replicas(primary.clock.now());
        }
        if let Some(replica) = replica {
            replica.unlink_primary(&link);
            let now = replica.clock.now();
            // By the time at which the task of a link ends, the replica may have another one.
            replica.update_link(term, |link| {
                if link.is_up() {
                    (link.state, link.down_since_ms) = (LinkState::Connect, Some(now.mono_ms()));
                }
            });
        }
    }
}

impl Local {
    /// Implements [`LocalLink::deliver`].
    fn deliver_between(&self, primary: &Arc<Namespace>, replica: &Arc<Namespace>, now: Now) -> bool {
        if self.is_over.load(Relaxed) {
            return false;
        }
        if replica.role.term() != self.term {
            self.end();
            return false;
        }
        let mut state = self.state.lock();
        let Some(delay) = replica.link_delay() else {
            self.cut(&mut state, primary, replica);
            return false;
        };
        let is_busy = replica.store.busy_flag().is_occupied();
        if is_busy && !state.is_up {
            return false;
        }
        let Some(mut state) = self.connect(state, primary, replica) else { return false };
        if primary.tenant.replication_id() != replica.tenant.replication_id() {
            replica.continue_with_primary(self.term, Some(primary.tenant.replication_id()));
        }
        // Replies do not wait for a replica that executes a long script.
        let is_awaited = delay.is_zero() && !is_busy;
        if !self.take(&mut state, delay, is_awaited, now) {
            self.cut(&mut state, primary, replica); // the link is opened again at once
            self.news.notify_one();
            return true;
        }
        !is_busy && self.execute_arrived(&mut state, primary, replica, now)
    }

    /// Delivers the present records, on a thread that may wait for the stores.
    async fn deliver_soon(self: &Arc<Self>) {
        let link = self.clone();
        let deliver = move || {
            let now = link.replica.upgrade().map(|replica| replica.clock.now());
            now.is_some_and(|now| link.deliver(now))
        };
        let _ = spawn_blocking(deliver).await; // cancelled only when the process ends
    }

    /// Opens the link if it is down; `None` if that is in progress or fails. The replica continues at its position if
    /// the primary has kept the next records.
    fn connect<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        primary: &Arc<Namespace>,
        replica: &Arc<Namespace>,
    ) -> Option<MutexGuard<'s, State>> {
        if state.is_up {
            return Some(state);
        }
        if state.is_copying {
            return None;
        }
        let id = replica.tenant.replication_id();
        let kept = state.executed.and_then(|position| primary.resume(id.as_bytes(), position));
        let stats = &primary.observed.stats;
        let is_partial = kept.is_some();
        let counter = if is_partial { &stats.partial_syncs } else { &stats.full_syncs };
        counter.fetch_add(1, Relaxed);
        let db = match kept {
            Some(reader) => {
                state.reader = Some(reader);
                replica.log.copied_db().unwrap_or(0)
            }
            None => {
                (state.is_copying, state.executed) = (true, None);
                drop(state); // the copy waits for the primary's store, whose holder may wait for the state
                let copied = self.copy_all(primary, replica);
                state = self.state.lock();
                state.is_copying = false;
                let copied = copied.inspect_err(|reason| warn!("The replica has no data: {reason}"));
                let (reader, db) = copied.ok()??;
                state.executed = Some(reader.position());
                state.reader = Some(reader);
                db
            }
        };
        let peer = Peer { addr: "".into(), laddr: "".into(), fd: -1, is_unix: false };
        state.stream = Some(PrimaryStream::new(replica, peer, db));
        state.is_up = true;
        self.shown.set_state(ReplicaState::Online);
        primary.replicas.add(self.shown.clone(), primary.clock.now());
        replica.update_link(self.term, |link| (link.state, link.down_since_ms) = (LinkState::Connected, None));
        self.acknowledge(&state, primary, replica);
        Some(state)
    }

    /// Copies all data; returns the reader of the log behind it, and the database that is selected there.
    fn copy_all(
        &self,
        primary: &Arc<Namespace>,
        replica: &Arc<Namespace>,
    ) -> Result<Option<(LogReader, usize)>, String> {
        let (content, reader) = copy(primary).map_err(|cause| system_text(&cause))?;
        let received = ReceivedData {
            len: Some(content.len() as u64),
            content: Cursor::new(content),
            path: "the data of the primary".into(),
            id: primary.tenant.replication_id(),
            position: reader.position(),
            term: self.term,
            time: None, // both have one clock
        };
        let db = ReplicaLoader::new(replica, self.handlers, self.disk.clone()).replace(received)?;
        Ok(db.map(|db| (reader, db)))
    }

    /// Closes the link; records on the way are lost.
    fn cut(&self, state: &mut State, primary: &Namespace, replica: &Namespace) {
        if !state.is_up {
            return;
        }
        (state.reader, state.stream, state.is_up) = (None, None, false);
        state.on_way.clear();
        let now = primary.clock.now();
        primary.replicas.remove(self.shown.client, now);
        primary.follow_replicas(now);
        replica.update_link(self.term, |link| {
            (link.state, link.down_since_ms) = (LinkState::Connect, Some(now.mono_ms()));
        });
    }

    /// Takes the primary's new records, which arrive after a delay; the primary's replies wait for them if `is_awaited`
    /// is set. Returns false if the log has not waited for the reader.
    fn take(&self, state: &mut State, delay: Duration, is_awaited: bool, now: Now) -> bool {
        let State { reader: Some(reader), on_way, .. } = state else { return false };
        let Ok(bytes) = reader.read_all() else { return false };
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let arrives_us = now.mono_us().saturating_add(delay_us);
        if !bytes.is_empty() {
            on_way.push_back(Delivery { bytes, end: reader.position(), arrives_us });
        }
        if delay.is_zero() {
            on_way.iter_mut().for_each(|parcel| parcel.arrives_us = arrives_us);
        }
        reader.set_confirmed(state.executed.filter(|_| is_awaited));
        true
    }

    /// Has the replica execute the records that have arrived; returns true if there were any.
    fn execute_arrived(&self, state: &mut State, primary: &Namespace, replica: &Arc<Namespace>, now: Now) -> bool {
        let mut has_executed = false;
        while !state.is_held
            && state.on_way.front().is_some_and(|parcel| parcel.arrives_us <= now.mono_us())
            && let (Some(parcel), Some(stream)) = (state.on_way.pop_front(), &mut state.stream)
        {
            has_executed = true;
            match stream.execute((replica, self.handlers), self.term, &parcel.bytes) {
                Ok(true) => state.executed = Some(parcel.end),
                Ok(false) => break, // the term is over
                Err(reason) => {
                    warn!("The replica cannot execute what its primary has written: {reason}");
                    state.executed = None;
                    self.cut(state, primary, replica);
                    break;
                }
            }
        }
        if has_executed {
            self.acknowledge(state, primary, replica);
        }
        has_executed
    }

    /// Tells the primary the position that the replica has executed.
    fn acknowledge(&self, state: &State, primary: &Namespace, replica: &Namespace) {
        let (Some(reader), Some(executed)) = (&state.reader, state.executed) else { return };
        let now = primary.clock.now();
        self.shown.set_position(reader.position());
        self.shown.acknowledge(executed, None, now);
        replica.update_link(self.term, |link| link.hear(now));
        primary.replicas.unblock_waiters(&primary.clients);
        primary.follow_replicas(now);
        reader.confirm(executed);
    }

    /// Has the task end the link.
    fn end(&self) {
        self.is_over.store(true, Relaxed);
        self.news.notify_one();
    }
}

impl State {
    /// Joins all records on the way, to arrive at once with the last of them.
    fn join(&mut self) {
        let Some(&Delivery { end, arrives_us, .. }) = self.on_way.back() else { return };
        let bytes = self.on_way.drain(..).flat_map(|parcel| parcel.bytes).collect();
        self.on_way.push_back(Delivery { bytes, end, arrives_us });
    }
}
