//! Who is interested in a key, whether it exists or not: transactions and migrations that watch it, and clients that
//! are blocked on it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::heap::{allocation_len, hash_map_len, list_len, tree_map_len};
use crate::store::memory_account::{MemoryAccount, Share};

/// A flag that is raised when a watched key changes. Shared by a session and the shards it watches keys in.
#[derive(Clone, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Returns whether a watched key has changed since the flag was created.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The work for the tail of a call, in one word so that a call pays one load for the check: blocked clients to serve,
/// or the log to write. Almost always zero.
#[derive(Default)]
pub(crate) struct TailWork(AtomicUsize);

/// Set while changes are logged. The bits below count the changed keys on which clients are blocked, until those
/// clients are served.
const LOGGED: usize = 1 << (usize::BITS - 1);

impl TailWork {
    /// Returns whether there is any work.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns whether keys with blocked clients have changed.
    #[inline]
    pub(crate) fn has_ready_keys(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !LOGGED != 0
    }

    /// Returns whether changes are logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LOGGED != 0
    }

    /// Sets whether changes are logged.
    pub(crate) fn set_logged(&self, is_logged: bool) {
        match is_logged {
            true => self.0.fetch_or(LOGGED, Ordering::Relaxed),
            false => self.0.fetch_and(!LOGGED, Ordering::Relaxed),
        };
    }
}

/// The watchers and blocked clients of one key.
#[derive(Default)]
struct Interest {
    /// Raised when the key changes.
    flags: Vec<WatchFlag>,
    /// The ids of the clients that are blocked on the key, in order of arrival.
    waiters: VecDeque<u64>,
}

impl Interest {
    fn is_none(&self) -> bool {
        self.flags.is_empty() && self.waiters.is_empty()
    }
}

/// The interests of all keys of a shard.
pub(super) struct Interests {
    by_key: HashMap<Box<[u8]>, Interest>,
    /// How many of the keys are watched, and how many have blocked clients.
    watched: usize,
    blocking: usize,
    /// Keys with blocked clients that have changed since [`Interests::take_ready`].
    ready: Vec<Box<[u8]>>,
    tail_work: Arc<TailWork>,
    /// Memory of the keys: here, and in the sessions that watch them.
    bytes: usize,
    share: Share,
}

impl Interests {
    /// Creates an empty set that reports its memory.
    pub(super) fn new(memory_account: Arc<MemoryAccount>, tail_work: Arc<TailWork>) -> Self {
        let share = Share::new(memory_account);
        Interests { by_key: HashMap::new(), watched: 0, blocking: 0, ready: Vec::new(), tail_work, bytes: 0, share }
    }

    /// Takes out all interests, to be put back later: changes in between notify no client.
    pub(super) fn take_all(&mut self) -> Interests {
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

    /// Returns whether no key has any interest.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns how many keys are watched.
    pub(super) fn watched(&self) -> usize {
        self.watched
    }

    /// Returns how many keys have blocked clients.
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

    /// Appends a client to the queue of a key.
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

    /// Removes a client from the queue of a key.
    pub(super) fn dequeue(&mut self, key: &[u8], client: u64) {
        let Some(interest) = self.by_key.get_mut(key) else { return };
        let Some(at) = interest.waiters.iter().position(|waiter| *waiter == client) else { return };
        interest.waiters.remove(at);
        self.blocking -= usize::from(interest.waiters.is_empty());
        self.bytes -= WAITER_LEN;
        self.forget_unless_wanted(key);
    }

    /// Returns the clients that are blocked on a key, in order of arrival.
    pub(super) fn waiters(&self, key: &[u8]) -> Vec<u64> {
        self.by_key.get(key).map_or_else(Vec::new, |interest| interest.waiters.iter().copied().collect())
    }

    /// Handles the change of a key: raises the flags of its watchers and marks it as ready for its blocked clients.
    pub(super) fn key_changed(&mut self, key: &[u8]) {
        let Some(interest) = self.by_key.get(key) else { return };
        interest.flags.iter().for_each(WatchFlag::raise);
        self.mark_ready(key);
    }

    /// Marks a key as ready for its blocked clients.
    pub(super) fn mark_ready(&mut self, key: &[u8]) {
        let has_waiters = self.by_key.get(key).is_some_and(|interest| !interest.waiters.is_empty());
        if has_waiters && !self.ready.iter().any(|ready| **ready == *key) {
            self.ready.push(key.into());
            self.tail_work.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the changed keys with blocked clients, in the order of their changes.
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

/// Memory of one place in a queue, in bytes; the capacity doubles.
const WAITER_LEN: usize = 2 * size_of::<u64>();

/// Returns the memory of a key here, without its flags and queue.
fn interest_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + list_len::<WatchFlag>(4)
}

/// Returns the memory a session needs to record a watched key.
fn watch_len(key: &[u8]) -> usize {
    const MANY: usize = 1000;
    allocation_len(key.len()) + tree_map_len::<(usize, Box<[u8]>), ()>(MANY) / MANY
}
