//! An overview of all locks for the metrics page: those that clients wait for, longest first, and then those that have
//! been held for longest.
//!
//! It visits one shard at a time and keeps what is shown only, so ten thousand locks block nobody.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::client::info::ClientCopy;
use crate::client::registry::Clients;
use crate::command::lock::deadlock::{self, Link};
use crate::command::lock::inspect::{Listed, first_record, pttl_ms};
use crate::dispatch::introspection::describe;
use crate::dispatch::{Call, Handlers};
use crate::namespace::Namespace;
use crate::store::entry::Entry;
use crate::store::{Hold, LockWaiter, SHARDS, SeenLock};
use crate::time::clock::Now;

/// How many clients queued are shown of each lock.
const IN_LINE_SHOWN: usize = 3;

/// How many bytes of a key or a text are shown: it may have millions.
const KEY_SHOWN: usize = 128;

/// A lock that is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShownLock {
    /// For how long the first client in the queue has waited, if there is one. The order of locks is that of these times.
    pub(crate) wait_ms: Option<u64>,
    /// For how long the lock has been held, if it is known: a lock may have been taken by another command.
    pub(crate) age_ms: Option<u64>,
    /// The database of the key.
    pub(crate) db: usize,
    /// The key, or the first bytes of it.
    pub(crate) key: Vec<u8>,
    /// How many bytes of the key are left out.
    pub(crate) key_rest: usize,
    /// The fencing token.
    pub(crate) fence: Option<i64>,
    /// How long it has left; -1 without limit.
    pub(crate) pttl_ms: i64,
    /// How many clients are queued.
    pub(crate) in_line: usize,
    /// What the lock is for, in its holder's words, or the first bytes of it.
    pub(crate) meta: Option<Vec<u8>>,
    /// How many bytes of that are left out.
    pub(crate) meta_rest: usize,
    /// The client that has acquired it, which may have left since.
    pub(crate) holder: Option<Holder>,
    /// The cycle of clients that wait for each other which the lock is held in.
    pub(crate) cycle: Option<Vec<Link>>,
    /// The first clients in the queue, and for how long they have waited.
    first: Vec<(u64, u64)>,
}

/// The client that has acquired a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// The client, of this process or of another one.
    pub(crate) client: ClientCopy,
    /// Whether its connection to this process has closed.
    pub(crate) is_gone: bool,
}

impl Holder {
    fn new(hold: &Hold) -> Option<Self> {
        Some(Holder { client: ClientCopy::of_holder(hold.holder())?, is_gone: hold.holder().is_gone() })
    }
}

impl ShownLock {
    /// Returns the first clients in the queue, and for how long they have waited.
    pub(crate) fn first_in_line(&self, clients: &Clients) -> Vec<(ClientCopy, u64)> {
        self.first.iter().filter_map(|(id, wait_ms)| Some((clients.shown(*id)?, *wait_ms))).collect()
    }
}

/// Returns up to `max_count` locks; `None` while a script keeps the store busy.
pub(crate) fn overview(namespace: &Namespace, handlers: &'static Handlers, max_count: usize) -> Option<Vec<ShownLock>> {
    let mut shown = Shown { locks: BinaryHeap::new(), max_count };
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
    for lock in locks.iter_mut().filter(|lock| lock.in_line > 0) {
        let awaited = lock.first.iter().find_map(|(client, _)| namespace.clients.awaited_locks(*client).pop());
        let cycle_of = |call: &mut Call<'_>| deadlock::cycle_from(call, awaited?);
        lock.cycle = describe(namespace, handlers, "lock.list", cycle_of)?;
    }
    Some(locks)
}

/// The locks that come first among those visited so far.
struct Shown {
    locks: BinaryHeap<Reverse<ShownLock>>,
    max_count: usize,
}

impl Shown {
    fn offer(&mut self, db: usize, lock: &SeenLock<'_>, entry: Option<&Entry>, now: Now) {
        let (key, queue) = (lock.key.bytes, lock.queue);
        let since = |waiter: &LockWaiter| now.ms_since(waiter.since_us);
        let listed = Listed::of(lock, entry, now);
        let (wait_ms, age_ms) = (queue.front().map(since), listed.as_ref().and_then(|listed| listed.age_ms));
        if self.locks.len() == self.max_count {
            match self.locks.peek() {
                Some(Reverse(last)) if (wait_ms, age_ms) > (last.wait_ms, last.age_ms) => self.locks.pop(),
                _ => return,
            };
        }
        let record = first_record(lock);
        let meta = record.and_then(|record| record.meta.as_deref());
        self.locks.push(Reverse(ShownLock {
            wait_ms,
            age_ms,
            db,
            key: key[..key.len().min(KEY_SHOWN)].to_vec(),
            key_rest: key.len().saturating_sub(KEY_SHOWN),
            fence: listed.and_then(|listed| listed.fence),
            pttl_ms: pttl_ms(entry.and_then(Entry::deadline), now),
            in_line: queue.len(),
            meta: meta.map(|meta| meta[..meta.len().min(KEY_SHOWN)].to_vec()),
            meta_rest: meta.map_or(0, |meta| meta.len().saturating_sub(KEY_SHOWN)),
            holder: record.and_then(|record| Holder::new(record.hold.as_ref()?)),
            cycle: None,
            first: queue.iter().take(IN_LINE_SHOWN).map(|waiter| (waiter.client, since(waiter))).collect(),
        }));
    }
}
