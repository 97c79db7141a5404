//! What hangs on keys, there or not: the flags of transactions and migrations that depend on them, and the clients that are
//! blocked until they can be served from them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::heap::{allocation_len, hash_map_len, list_len, tree_map_len};
use crate::store::memory_account::{MemoryAccount, Share};

/// Tells a transaction that one of its watched keys has changed. Shared by a session and the shards it watches in.
#[derive(Clone, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Returns whether a watched key has changed since the flag was made.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Says in one word whether there is anything to do in the tail of a call, so that it pays one load for it: blocked clients
/// to be served, or the log to be written. It is nearly always zero.
#[derive(Default)]
pub(crate) struct TailWork(AtomicUsize);

/// Changes are logged. The bits below count the keys that have changed and that clients are blocked on, until it is tried
/// to serve those.
const LOGGED: usize = 1 << (usize::BITS - 1);

impl TailWork {
    /// Returns whether there is any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns whether keys have changed that clients are blocked on.
    #[inline]
    pub(crate) fn has_ready_keys(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !LOGGED != 0
    }

    /// Returns whether changes are logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LOGGED != 0
    }

    /// Chooses whether changes are logged.
    pub(crate) fn set_logged(&self, is_logged: bool) {
        match is_logged {
            true => self.0.fetch_or(LOGGED, Ordering::Relaxed),
            false => self.0.fetch_and(!LOGGED, Ordering::Relaxed),
        };
    }
}

/// What hangs on one key.
#[derive(Default)]
struct Interest {
    /// Raised when the key changes.
    flags: Vec<WatchFlag>,
    /// The clients that are blocked on the key, by their ids, in the order in which they came.
    waiters: VecDeque<u64>,
}

impl Interest {
    fn is_none(&self) -> bool {
        self.flags.is_empty() && self.waiters.is_empty()
    }
}

/// What hangs on the keys of a shard.
pub(super) struct Interests {
    by_key: HashMap<Box<[u8]>, Interest>,
    /// How many of the keys are watched, and how many clients are blocked on.
    watched: usize,
    blocking: usize,
    /// Keys with waiters that have changed since [`Interests::take_ready`].
    ready: Vec<Box<[u8]>>,
    tail_work: Arc<TailWork>,
    /// Bytes taken for the keys: here, and by the sessions that remember what they watch.
    bytes: usize,
    share: Share,
}

impl Interests {
    /// Creates an empty set, whose memory is reported.
    pub(super) fn new(memory_account: Arc<MemoryAccount>, tail_work: Arc<TailWork>) -> Self {
        let share = Share::new(memory_account);
        Interests { by_key: HashMap::new(), watched: 0, blocking: 0, ready: Vec::new(), tail_work, bytes: 0, share }
    }

    /// Takes all of it out, to be put back: changes in between are told to nobody.
    pub(super) fn lay_aside(&mut self) -> Interests {
        let empty = Interests {
            by_key: HashMap::new(),
            watched: 0,
            blocking: 0,
            ready: Vec::new(),
            tail_work: self.tail_work.clone(),
            bytes: 0,
            share: Share::new(self.share.account()),
        };
        std::mem::replace(self, empty)
    }

    /// Returns whether nothing hangs on any key.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns how many keys are watched.
    pub(super) fn watched(&self) -> usize {
        self.watched
    }

    /// Returns how many keys clients are blocked on.
    pub(super) fn blocking(&self) -> usize {
        self.blocking
    }

    /// Iterates over the keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|key| &key[..])
    }

    /// Adds a flag that is raised when the key changes.
    pub(super) fn watch(&mut self, key: &[u8], flag: &WatchFlag) {
        let interest = self.interest(key);
        interest.flags.push(flag.clone());
        let is_first = interest.flags.len() == 1;
        self.watched += usize::from(is_first);
        self.bytes += watch_len(key);
        self.report();
    }

    /// Removes a flag from a key.
    pub(super) fn unwatch(&mut self, key: &[u8], flag: &WatchFlag) {
        let Some(interest) = self.by_key.get_mut(key) else { return };
        let before = interest.flags.len();
        interest.flags.retain(|other| !Arc::ptr_eq(&other.0, &flag.0));
        let removed = before - interest.flags.len();
        self.watched -= usize::from(removed > 0 && interest.flags.is_empty());
        self.bytes -= removed * watch_len(key);
        self.forget_unless_wanted(key);
    }

    /// Lets a client queue up for a key.
    pub(super) fn enqueue(&mut self, key: &[u8], client: u64) {
        let interest = self.interest(key);
        if interest.waiters.contains(&client) {
            return; // a call may name a key twice
        }
        interest.waiters.push_back(client);
        let is_first = interest.waiters.len() == 1;
        self.blocking += usize::from(is_first);
        self.bytes += WAITER_LEN;
        self.report();
    }

    /// Takes a client out of the queue for a key.
    pub(super) fn dequeue(&mut self, key: &[u8], client: u64) {
        let Some(interest) = self.by_key.get_mut(key) else { return };
        let Some(at) = interest.waiters.iter().position(|waiter| *waiter == client) else { return };
        interest.waiters.remove(at);
        self.blocking -= usize::from(interest.waiters.is_empty());
        self.bytes -= WAITER_LEN;
        self.forget_unless_wanted(key);
    }

    /// Returns the clients that are blocked on a key, in the order in which they came.
    pub(super) fn waiters(&self, key: &[u8]) -> Vec<u64> {
        self.by_key.get(key).map_or_else(Vec::new, |interest| interest.waiters.iter().copied().collect())
    }

    /// Takes note that a key has changed: raises its flags, and notes it for its waiters.
    pub(super) fn key_changed(&mut self, key: &[u8]) {
        let Some(interest) = self.by_key.get(key) else { return };
        interest.flags.iter().for_each(WatchFlag::raise);
        if !interest.waiters.is_empty() && !self.ready.iter().any(|ready| **ready == *key) {
            self.ready.push(key.into());
            self.tail_work.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the keys that have changed and that clients are blocked on, in the order of their changes.
    pub(super) fn take_ready(&mut self) -> Vec<Box<[u8]>> {
        self.tail_work.0.fetch_sub(self.ready.len(), Ordering::Relaxed);
        std::mem::take(&mut self.ready)
    }

    fn interest(&mut self, key: &[u8]) -> &mut Interest {
        if !self.by_key.contains_key(key) {
            self.bytes += interest_len(key);
        }
        self.by_key.entry(key.into()).or_default()
    }

    fn forget_unless_wanted(&mut self, key: &[u8]) {
        if self.by_key.get(key).is_some_and(Interest::is_none) {
            self.by_key.remove(key);
            self.bytes -= interest_len(key);
        }
        if self.by_key.is_empty() {
            self.by_key = HashMap::new();
        }
        self.report();
    }

    fn report(&mut self) {
        let map = hash_map_len::<Box<[u8]>, Interest>(self.by_key.capacity());
        self.share.set(if self.by_key.is_empty() { 0 } else { self.bytes + map });
    }
}

/// What a place in a queue takes, in bytes; queues double.
const WAITER_LEN: usize = 2 * size_of::<u64>();

/// Returns what a key takes here, whatever hangs on it.
fn interest_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + list_len::<WatchFlag>(4)
}

/// Returns what a session takes to remember that it watches a key.
fn watch_len(key: &[u8]) -> usize {
    const MANY: usize = 1000;
    allocation_len(key.len()) + tree_map_len::<(usize, Box<[u8]>), ()>(MANY) / MANY
}
