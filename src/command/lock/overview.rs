//! An overview of all locks for the metrics page: first the locks with waiting clients, longest wait first, and then
//! those that have been held for longest; each with its holders and its queue.
//!
//! The overview visits one shard at a time and keeps only the locks to be shown, so ten thousand locks block no client.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::client::info::RemoteClient;
use crate::command::lock::deadlock::{self, CycleLink};
use crate::command::lock::inspect::{ListedLock, age_ms, mode_word, pttl_ms};
use crate::dispatch::introspection::describe;
use crate::dispatch::{Call, Handlers};
use crate::namespace::Namespace;
use crate::store::entry::Entry;
use crate::store::{HeldLock, LockRecord, LockWaiter, SHARDS, SeenLock};
use crate::time::clock::{Deadline, Now};

/// The number of holders of a lock that are shown.
const HOLDERS_SHOWN: usize = 20;
/// The number of queued clients of a lock that are shown.
const QUEUED_SHOWN: usize = 100;
/// The number of holders and queued clients of all locks that are shown: of later locks only a few each.
const CLIENTS_SHOWN: usize = 2000;
/// The number that is shown of any lock.
const CLIENTS_LEAST: usize = 3;

/// The bytes of a text that are shown: it may have millions.
const TEXT_SHOWN: usize = 128;
/// The bytes of a key that are kept: more than are shown, so that a lock can be named exactly.
pub(crate) const KEY_KEPT: usize = 1024;

/// A lock that is shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownLock {
    /// The waiting time of the first client in the queue, if there is one. Locks are ordered by these times.
    pub(crate) wait_ms: Option<u64>,
    /// The time for which the lock has been held, if known: a lock may have been taken by another command.
    pub(crate) age_ms: Option<u64>,
    pub(crate) db: usize,
    /// The key, or its first bytes.
    pub(crate) key: Vec<u8>,
    /// The length of the key, in bytes.
    pub(crate) key_len: usize,
    /// The mode in which the lock is held, in the words of LOCK.INFO.
    pub(crate) mode: &'static str,
    /// The permits of a semaphore: total and free.
    pub(crate) permits: Option<(u32, u32)>,
    pub(crate) fence: Option<i64>,
    /// The remaining TTL; -1 without limit.
    pub(crate) pttl_ms: i64,
    /// The number of known holders.
    pub(crate) held_by: usize,
    /// The first known holders.
    pub(crate) holders: Vec<ShownHolder>,
    /// The number of queued clients.
    pub(crate) queued: usize,
    /// The first queued clients.
    pub(crate) queue: Vec<ShownWaiter>,
    /// The cycle of clients waiting for each other in which the lock is held.
    pub(crate) cycle: Option<Vec<CycleLink>>,
}

/// A holder of a lock.
#[derive(Clone, Debug)]
pub(crate) struct ShownHolder {
    /// The number among several holders.
    pub(crate) number: Option<u64>,
    /// The client that has acquired the lock, of this process or of another one; it may have disconnected since.
    pub(crate) client: Option<RemoteClient>,
    /// True if the connection of the holder to this process has closed.
    pub(crate) is_gone: bool,
    /// True if the lock is bound to a session whose connection has closed, and ends unless the session returns in time.
    pub(crate) is_away: bool,
    /// The text given by the holder about the lock, or its first bytes.
    pub(crate) meta: Option<Vec<u8>>,
    /// The number of bytes left out of `meta`.
    pub(crate) meta_rest: usize,
    pub(crate) age_ms: u64,
    /// The remaining TTL; -1 without limit.
    pub(crate) pttl_ms: i64,
    pub(crate) fence: i64,
    /// The permits held, of a semaphore.
    pub(crate) permits: Option<u32>,
}

/// A client queued for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownWaiter {
    pub(crate) client: u64,
    pub(crate) wait_ms: u64,
    /// The mode asked for, in the words of LOCK.INFO.
    pub(crate) mode: &'static str,
    /// The number of permits asked for.
    pub(crate) permits: Option<u32>,
    /// True if the connection of the client has ended and its place is reserved.
    pub(crate) is_away: bool,
}

impl ShownHolder {
    fn new(record: &LockRecord, pttl_ms: i64, now: Now) -> Self {
        let holder = record.hold.as_ref().map(|hold| hold.holder());
        let meta = record.meta.as_deref();
        ShownHolder {
            number: None,
            client: holder.and_then(RemoteClient::of_holder),
            is_gone: holder.is_some_and(|holder| holder.is_gone()),
            is_away: record.session.as_ref().is_some_and(|session| session.is_gone()),
            meta: meta.map(|meta| meta[..meta.len().min(TEXT_SHOWN)].to_vec()),
            meta_rest: meta.map_or(0, |meta| meta.len().saturating_sub(TEXT_SHOWN)),
            age_ms: age_ms(record, now),
            pttl_ms,
            fence: record.fence,
            permits: None,
        }
    }

    /// Returns the first known holders of a lock.
    fn all(lock: &SeenLock<'_>, deadline: Option<Deadline>, now: Now) -> Vec<Self> {
        match lock.held {
            None => Vec::new(),
            Some(HeldLock::Exclusive(record)) => vec![ShownHolder::new(record, pttl_ms(deadline, now), now)],
            Some(HeldLock::Shared(holders)) => {
                let shown = holders.iter().take(HOLDERS_SHOWN).map(|(number, holder)| ShownHolder {
                    number: Some(number),
                    permits: holder.count(),
                    ..ShownHolder::new(&holder.record, pttl_ms(holder.deadline(), now), now)
                });
                shown.collect()
            }
        }
    }
}

impl ShownWaiter {
    fn new(waiter: &LockWaiter, now: Now) -> Self {
        let LockWaiter { client, mode, since_us, is_away, .. } = *waiter;
        let wait_ms = now.ms_since(since_us);
        ShownWaiter { client, wait_ms, mode: mode_word(mode), permits: mode.count(), is_away }
    }
}

impl ShownLock {
    /// Returns the sort key.
    fn rank(&self) -> impl Ord + '_ {
        (self.wait_ms, self.age_ms, self.db, &self.key)
    }
}

impl PartialEq for ShownLock {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ShownLock {}

impl PartialOrd for ShownLock {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShownLock {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Returns up to `max_count` locks; `None` while a script keeps the store busy.
pub(crate) fn overview(namespace: &Namespace, handlers: &'static Handlers, max_count: usize) -> Option<Vec<ShownLock>> {
    let mut shown = TopLocks { locks: BinaryHeap::new(), max_count };
    let databases = describe(namespace, handlers, "lock.list", |call| {
        let used = call.view.used_databases();
        let has_locks = |db: &usize| {
            let totals = call.view.in_db(*db, |view| view.totals());
            totals.locks + totals.queued > 0
        };
        used.into_iter().filter(has_locks).collect::<Vec<_>>()
    })?;
    for db in databases {
        for shard in 0..SHARDS {
            describe(namespace, handlers, "lock.list", |call| {
                let now = call.now();
                call.view.in_db(db, |view| {
                    view.locks().for_each_of(shard, |lock, entry| shown.offer(db, lock, entry, now));
                });
            })?;
        }
    }
    let mut locks: Vec<ShownLock> = shown.locks.into_iter().map(|Reverse(lock)| lock).collect();
    locks.sort_unstable_by(|one, other| other.cmp(one));
    limit_clients(&mut locks);
    for lock in locks.iter_mut().filter(|lock| lock.queued > 0) {
        let awaited = lock.queue.iter().find_map(|waiter| namespace.clients.awaited_locks(waiter.client).pop());
        let cycle_of = |call: &mut Call<'_>| deadlock::cycle_from(call, awaited?);
        lock.cycle = describe(namespace, handlers, "lock.list", cycle_of)?;
    }
    Some(locks)
}

/// Leaves out clients of later locks when there are too many in all.
fn limit_clients(locks: &mut [ShownLock]) {
    let mut left = CLIENTS_SHOWN;
    for lock in locks {
        lock.holders.truncate(left.max(CLIENTS_LEAST));
        left = left.saturating_sub(lock.holders.len());
        lock.queue.truncate(left.max(CLIENTS_LEAST));
        left = left.saturating_sub(lock.queue.len());
    }
}

/// The first locks in the order, among those visited so far.
struct TopLocks {
    locks: BinaryHeap<Reverse<ShownLock>>,
    max_count: usize,
}

impl TopLocks {
    fn offer(&mut self, db: usize, lock: &SeenLock<'_>, entry: Option<&Entry>, now: Now) {
        let (key, queue) = (lock.key.bytes, lock.queue);
        let listed = ListedLock::of(lock, entry, now);
        let wait_ms = queue.front().map(|waiter| now.ms_since(waiter.since_us));
        let age_ms = listed.as_ref().and_then(|listed| listed.age_ms);
        if self.locks.len() == self.max_count {
            match self.locks.peek() {
                Some(Reverse(last)) if (wait_ms, age_ms) > (last.wait_ms, last.age_ms) => self.locks.pop(),
                _ => return,
            };
        }
        let deadline = entry.and_then(Entry::deadline);
        self.locks.push(Reverse(ShownLock {
            wait_ms,
            age_ms,
            db,
            key: key[..key.len().min(KEY_KEPT)].to_vec(),
            key_len: key.len(),
            // A lock taken by another command has no record.
            mode: listed.as_ref().map_or("exclusive", |listed| listed.mode),
            permits: listed.as_ref().and_then(|listed| listed.permits),
            fence: listed.as_ref().and_then(|listed| listed.fence),
            pttl_ms: pttl_ms(deadline, now),
            held_by: listed.map_or(0, |listed| listed.holders),
            holders: ShownHolder::all(lock, deadline, now),
            queued: queue.len(),
            queue: queue.iter().take(QUEUED_SHOWN).map(|waiter| ShownWaiter::new(waiter, now)).collect(),
            cycle: None,
        }));
    }
}
