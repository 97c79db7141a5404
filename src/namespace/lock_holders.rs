//! The holders of a namespace's locks: the last fencing token, and the clients whose connections have ended and whose sessions
//! have not: for a grace, or because a script keeps the keys locked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;

use crate::client::info::{FormerClient, HeldTokens, LockName};
use crate::store::{LockMode, MemoryAccount, NEVER};

/// How many tokens replicas are told of at once: those of ten seconds.
const ANNOUNCED_AHEAD: i64 = 10_000_000;

/// What is left of a client whose connection has ended.
pub(super) struct Departed {
    /// Its id.
    pub(super) client: u64,
    /// The locks to be released.
    pub(super) locks: Vec<LockName>,
    /// The place in queues that it leaves.
    pub(super) place: Option<KeptPlace>,
}

/// The place of a client in the queues for locks, for when it comes back.
#[derive(Clone)]
pub(crate) struct KeptPlace {
    /// The number of its wait.
    pub(crate) number: u64,
    /// The hash of its token.
    pub(crate) token: u64,
    pub(crate) mode: LockMode,
    pub(crate) db: usize,
    pub(crate) keys: Vec<Box<[u8]>>,
}

impl KeptPlace {
    /// Returns whether somebody asks for the same.
    fn is_of(&self, other: &KeptPlace) -> bool {
        let is_same_mode = match (self.mode, other.mode) {
            (LockMode::Permits { count, .. }, LockMode::Permits { count: others, .. }) => count == others,
            (one, another) => one == another,
        };
        is_same_mode && self.db == other.db && self.keys == other.keys
    }
}

/// The clients whose connections have ended.
#[derive(Default)]
struct Departures {
    /// By the times at which their sessions end, in monotonic milliseconds, and their ids.
    by_time: BTreeMap<(u64, u64), Departed>,
    /// The places that they have kept, by the hashes of their tokens, with those times and ids.
    places: BTreeMap<(u64, u64), (u64, u64)>,
}

/// The holders of locks.
#[derive(Default)]
pub(crate) struct LockHolders {
    /// The fencing token of the last lock.
    last_fence: AtomicI64,
    /// Up to which one the replicas know that they may have been given.
    announced: AtomicI64,
    /// Held while they are told.
    telling: Mutex<()>,
    departed: Mutex<Departures>,
    /// What stands for the clients of users that have acquired locks before the start, or at the primary.
    former: Mutex<BTreeMap<Box<[u8]>, Arc<FormerClient>>>,
    /// Whether there is any of them.
    has_departed: AtomicBool,
}

impl LockHolders {
    /// Returns a fencing token: larger than all before, also than those before a restart, because it is not below
    /// `now_us`, the microseconds since 1970. Only a wall clock that was set back over the restart makes it smaller.
    pub(crate) fn next_fence(&self, now_us: i64) -> i64 {
        let next = |last: i64| last.saturating_add(1).max(now_us);
        // Never fails, because the closure always returns a value.
        next(self.last_fence.fetch_update(Relaxed, Relaxed, |last| Some(next(last))).unwrap_or_default())
    }

    /// Returns the last fencing token that was given; 0 if none was.
    pub(crate) fn last_fence(&self) -> i64 {
        self.last_fence.load(Relaxed)
    }

    /// Returns a fencing token that none is larger than which was given, and none will be before replicas are told.
    pub(crate) fn fence_bound(&self) -> i64 {
        self.last_fence().max(self.announced.load(Relaxed))
    }

    /// Tells replicas that a token may have been given, and up to which one others may be, unless they know. When this
    /// returns, they have been told, by whatever thread.
    pub(super) fn announce(&self, fence: i64, tell: impl FnOnce(i64)) {
        if self.announced.load(Acquire) < fence {
            let _telling = self.telling.lock();
            if self.announced.load(Relaxed) < fence {
                let bound = fence.saturating_add(ANNOUNCED_AHEAD);
                tell(bound);
                self.announced.store(bound, Release);
            }
        }
    }

    /// Forgets what the replicas know.
    pub(super) fn forget_announced(&self) {
        self.announced.store(0, Relaxed);
    }

    /// Lets the next fencing token be larger than one from before a restart, or of a primary.
    pub(crate) fn continue_after(&self, fence: i64) {
        self.last_fence.fetch_max(fence, Relaxed);
    }

    /// Returns what stands for the former clients of a user; `tokens` are those that locks are held with.
    pub(super) fn former(
        &self,
        user: &[u8],
        memory_account: &Arc<MemoryAccount>,
        tokens: &Arc<HeldTokens>,
    ) -> Arc<FormerClient> {
        let mut former = self.former.lock();
        let (number, account, tokens) = (former.len() as u64, memory_account.clone(), tokens.clone());
        former.entry(user.into()).or_insert_with(|| Arc::new(FormerClient::new(number, user, account, tokens))).clone()
    }

    /// Returns all of them.
    pub(super) fn all_former(&self) -> Vec<Arc<FormerClient>> {
        self.former.lock().values().cloned().collect()
    }

    /// Remembers what is left of a client until a time, in monotonic milliseconds.
    pub(super) fn remember(&self, departed: Departed, until_ms: u64) {
        let mut all = self.departed.lock();
        let key = (until_ms, departed.client);
        if let Some(place) = &departed.place {
            all.places.insert((place.token, place.number), key);
        }
        match all.by_time.entry(key) {
            Entry::Vacant(entry) => _ = entry.insert(departed),
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.locks.extend(departed.locks);
                known.place = departed.place.or(known.place.take());
            }
        }
        self.has_departed.store(true, Release);
    }

    /// Forgets all of them: their locks are those of a primary now.
    pub(super) fn forget_departed(&self) {
        *self.departed.lock() = Departures::default();
        self.has_departed.store(false, Release);
    }

    /// Returns when the next session ends, in monotonic milliseconds, or [`NEVER`].
    pub(super) fn next_end_ms(&self) -> u64 {
        if !self.has_departed.load(Acquire) {
            return NEVER;
        }
        self.departed.lock().by_time.keys().next().map_or(NEVER, |(until_ms, _)| *until_ms)
    }

    /// Returns what is left of the clients whose sessions end by a time, and forgets it.
    pub(super) fn take_departed(&self, now_ms: u64) -> Vec<Departed> {
        if self.next_end_ms() > now_ms {
            return Vec::new();
        }
        let mut all = self.departed.lock();
        let later = all.by_time.split_off(&(now_ms.saturating_add(1), 0));
        let over: Vec<Departed> = std::mem::replace(&mut all.by_time, later).into_values().collect();
        for place in over.iter().filter_map(|departed| departed.place.as_ref()) {
            all.places.remove(&(place.token, place.number));
        }
        self.has_departed.store(!all.by_time.is_empty(), Release);
        over
    }

    /// Returns the first place that was kept by somebody who asked for the same; the number of that has no meaning.
    pub(crate) fn kept_place(&self, asked: impl FnOnce() -> KeptPlace) -> Option<KeptPlace> {
        if !self.has_departed.load(Acquire) {
            return None;
        }
        let asked = asked();
        let all = self.departed.lock();
        let same = all.places.range((asked.token, 0)..=(asked.token, u64::MAX));
        let mut kept = same.filter_map(|(_, key)| all.by_time.get(key)?.place.as_ref());
        kept.find(|kept| kept.is_of(&asked)).cloned()
    }

    /// Takes a kept place up, which is the caller's from then on; returns false if it is kept no longer.
    pub(crate) fn take_up(&self, place: &KeptPlace) -> bool {
        let mut all = self.departed.lock();
        let Some(key) = all.places.remove(&(place.token, place.number)) else { return false };
        let departed = all.by_time.get_mut(&key);
        departed.is_some_and(|departed| departed.place.take().is_some())
    }
}
