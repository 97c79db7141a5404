//! Watched keys: the flags of the transactions and migrations that depend on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The watched keys of a shard, there or not.
pub(super) struct Watchers {
    flags: HashMap<Box<[u8]>, Vec<WatchFlag>>,
    /// Bytes taken for the watched keys: here, and by the sessions that remember what they watch.
    bytes: usize,
    share: Share,
}

impl Watchers {
    /// Creates an empty set, whose memory is reported.
    pub(super) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        Watchers { flags: HashMap::new(), bytes: 0, share: Share::new(memory_account) }
    }

    /// Returns whether no key is watched.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// Returns how many keys are watched.
    pub(super) fn len(&self) -> usize {
        self.flags.len()
    }

    /// Iterates over the watched keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.flags.keys().map(|key| &key[..])
    }

    /// Adds a flag that is raised when the key changes.
    pub(super) fn add(&mut self, key: &[u8], flag: &WatchFlag) {
        let flags = self.flags.entry(key.into()).or_default();
        if flags.is_empty() {
            self.bytes += allocation_len(key.len()) + list_len::<WatchFlag>(4);
        }
        flags.push(flag.clone());
        self.bytes += watch_len(key);
        self.report();
    }

    /// Removes a flag from a key.
    pub(super) fn remove(&mut self, key: &[u8], flag: &WatchFlag) {
        if let Some(flags) = self.flags.get_mut(key) {
            let before = flags.len();
            flags.retain(|other| !Arc::ptr_eq(&other.0, &flag.0));
            self.bytes -= (before - flags.len()) * watch_len(key);
            if flags.is_empty() {
                self.flags.remove(key);
                self.bytes -= allocation_len(key.len()) + list_len::<WatchFlag>(4);
            }
            if self.flags.is_empty() {
                self.flags = HashMap::new();
            }
            self.report();
        }
    }

    /// Raises the flags of a key, which has changed.
    pub(super) fn raise(&self, key: &[u8]) {
        if let Some(flags) = self.flags.get(key) {
            flags.iter().for_each(WatchFlag::raise);
        }
    }

    fn report(&mut self) {
        let map = hash_map_len::<Box<[u8]>, Vec<WatchFlag>>(self.flags.capacity());
        self.share.set(if self.flags.is_empty() { 0 } else { self.bytes + map });
    }
}

/// Returns what a session takes to remember that it watches a key.
fn watch_len(key: &[u8]) -> usize {
    const MANY: usize = 1000;
    allocation_len(key.len()) + tree_map_len::<(usize, Box<[u8]>), ()>(MANY) / MANY
}
