//! The holders of a namespace's locks: the last fencing token, and the clients whose connections have ended, but not
//! their sessions: during the grace period, or because a script keeps the keys locked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;

use crate::client::info::{HeldTokens, RestoredHolder};
use crate::memory::heap::{allocation_len, list_len};
use crate::store::{KeyName, LockMode, MemoryAccount, NEVER};

/// Memory limit for kept queue positions, in bytes: some 40,000 of them. The oldest are dropped for later ones.
const PLACES_MAX: usize = 16 * 1024 * 1024;

/// Number of tokens that replicas are told of in advance: those of ten seconds.
const ANNOUNCED_AHEAD: i64 = 10_000_000;

/// State of a client whose connection has ended.
pub(super) struct DepartedClient {
    pub(super) client: u64,
    pub(super) locks: Vec<KeyName>,
    /// The client's position in queues, which it is to leave.
    pub(super) place: Option<ReservedSlot>,
}

impl DepartedClient {
    /// Returns the memory in use, without the queue position; nodes of a map are half full.
    fn len(&self) -> usize {
        let names: usize = self.locks.iter().map(|(_, key)| allocation_len(key.len())).sum();
        2 * size_of::<(Ending, DepartedClient)>() + list_len::<KeyName>(self.locks.capacity()) + names
    }
}

/// The position of a client in the queues for locks, kept for its return.
#[derive(Clone)]
pub(crate) struct ReservedSlot {
    /// Number of the client's wait.
    pub(crate) number: u64,
    /// Hash of the client's token.
    pub(crate) token: u64,
    pub(crate) mode: LockMode,
    pub(crate) db: usize,
    pub(crate) keys: Vec<Box<[u8]>>,
}

impl ReservedSlot {
    /// Returns the memory in use besides [`DepartedClient`].
    fn len(&self) -> usize {
        let names: usize = self.keys.iter().map(|key| allocation_len(key.len())).sum();
        2 * size_of::<((u64, u64), Ending)>()
            + 2 * size_of::<Ending>()
            + list_len::<Box<[u8]>>(self.keys.capacity())
            + names
    }

    /// Returns true if both positions are for the same request.
    fn is_of(&self, other: &ReservedSlot) -> bool {
        let is_same_mode = match (self.mode, other.mode) {
            (LockMode::Permits { count, .. }, LockMode::Permits { count: others, .. }) => count == others,
            (one, another) => one == another,
        };
        is_same_mode && self.db == other.db && self.keys == other.keys
    }
}

/// End of a session, in monotonic milliseconds, and the ID of its client.
type Ending = (u64, u64);

#[derive(Default)]
struct DepartedClients {
    by_time: BTreeMap<Ending, DepartedClient>,
    /// Sessions with a kept queue position, by the hash of the token and the number of the wait.
    places: BTreeMap<(u64, u64), Ending>,
    /// Sessions with a kept queue position, by time.
    with_place: BTreeSet<Ending>,
    /// Memory of all sessions.
    bytes: usize,
    /// Memory of the kept queue positions, including sessions that have nothing else.
    place_bytes: usize,
}

impl DepartedClients {
    fn add(&mut self, ending: Ending, departed: DepartedClient) {
        if let Some(place) = &departed.place {
            self.places.insert((place.token, place.number), ending);
            self.with_place.insert(ending);
        }
        let (bytes, place_bytes) = lens(&departed);
        (self.bytes, self.place_bytes) = (self.bytes + bytes, self.place_bytes + place_bytes);
        self.by_time.insert(ending, departed);
    }

    fn remove(&mut self, ending: Ending) -> Option<DepartedClient> {
        let departed = self.by_time.remove(&ending)?;
        let (bytes, place_bytes) = lens(&departed);
        (self.bytes, self.place_bytes) = (self.bytes - bytes, self.place_bytes - place_bytes);
        if let Some(place) = &departed.place {
            self.places.remove(&(place.token, place.number));
            self.with_place.remove(&ending);
        }
        Some(departed)
    }

    /// Takes the kept queue position of a session.
    fn take_place(&mut self, ending: Ending) -> Option<ReservedSlot> {
        let mut departed = self.remove(ending)?;
        let place = departed.place.take();
        // A session without locks ends with its queue position.
        if !departed.locks.is_empty() {
            self.add(ending, departed);
        }
        place
    }
}

/// Returns the memory of a departed client, and the part of it that is due to the kept queue position.
fn lens(departed: &DepartedClient) -> (usize, usize) {
    let of_place = departed.place.as_ref().map_or(0, ReservedSlot::len);
    let all = departed.len() + of_place;
    (all, if departed.locks.is_empty() { all } else { of_place })
}

/// The state of the holders of locks.
#[derive(Default)]
pub(crate) struct LockHolders {
    last_fence: AtomicI64,
    /// The largest fencing token that replicas know may have been given.
    announced: AtomicI64,
    /// Held while replicas are told.
    telling: Mutex<()>,
    departed: Mutex<DepartedClients>,
    memory_account: Arc<MemoryAccount>,
    /// Stand-ins for clients that have acquired locks before the start, or at the primary, by user.
    former: Mutex<BTreeMap<Box<[u8]>, Arc<RestoredHolder>>>,
    has_departed: AtomicBool,
}

impl LockHolders {
    /// Creates the state of a namespace; the memory of departed clients is reported as used memory.
    pub(super) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        LockHolders { memory_account, ..LockHolders::default() }
    }

    /// Changes the departed clients.
    fn change<T>(&self, change: impl FnOnce(&mut DepartedClients) -> T) -> T {
        let mut all = self.departed.lock();
        let before = all.bytes;
        let result = change(&mut all);
        self.memory_account.report_outside(before, all.bytes);
        self.has_departed.store(!all.by_time.is_empty(), Release);
        result
    }

    /// Returns the number of kept queue positions, and their memory.
    pub(crate) fn kept_places(&self) -> (usize, usize) {
        let all = self.departed.lock();
        (all.with_place.len(), all.place_bytes)
    }

    /// Returns a fencing token: larger than all before, even those before a restart, because it is not below `now_us`,
    /// the microseconds since 1970. Only a wall clock that was set back over the restart makes it smaller.
    pub(crate) fn next_fence(&self, now_us: i64) -> i64 {
        let next = |last: i64| last.saturating_add(1).max(now_us);
        // Never fails, because the closure always returns a value.
        next(self.last_fence.fetch_update(Relaxed, Relaxed, |last| Some(next(last))).unwrap_or_default())
    }

    /// Returns the last fencing token that was given; 0 if none was.
    pub(crate) fn last_fence(&self) -> i64 {
        self.last_fence.load(Relaxed)
    }

    /// Returns an upper bound of all fencing tokens given so far, and of those to come before replicas are told again.
    pub(crate) fn fence_bound(&self) -> i64 {
        self.last_fence().max(self.announced.load(Relaxed))
    }

    /// Tells replicas that a token may have been given, with the bound of further ones, unless they know. On return
    /// they have been told, perhaps by another thread.
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

    /// Resets the bound that replicas know.
    pub(super) fn forget_announced(&self) {
        self.announced.store(0, Relaxed);
    }

    /// Makes the next fencing token larger than one from before a restart, or of a primary.
    pub(crate) fn continue_after(&self, fence: i64) {
        self.last_fence.fetch_max(fence, Relaxed);
    }

    /// Returns the stand-in for the former clients of a user; `tokens` are the tokens with which any client holds a
    /// lock.
    pub(super) fn former(
        &self,
        user: &[u8],
        memory_account: &Arc<MemoryAccount>,
        tokens: &Arc<HeldTokens>,
    ) -> Arc<RestoredHolder> {
        let mut former = self.former.lock();
        let (number, account, tokens) = (former.len() as u64, memory_account.clone(), tokens.clone());
        former
            .entry(user.into())
            .or_insert_with(|| Arc::new(RestoredHolder::new(number, user, account, tokens)))
            .clone()
    }

    /// Returns all stand-ins for former clients.
    pub(super) fn all_former(&self) -> Vec<Arc<RestoredHolder>> {
        self.former.lock().values().cloned().collect()
    }

    /// Retains the state of a departed client until a time, in monotonic milliseconds.
    pub(super) fn remember(&self, departed: DepartedClient, until_ms: u64) {
        let ending = (until_ms, departed.client);
        self.change(|all| {
            let mut whole = all.remove(ending).unwrap_or(DepartedClient {
                client: departed.client,
                locks: Vec::new(),
                place: None,
            });
            whole.locks.extend(departed.locks);
            whole.place = departed.place.or(whole.place);
            all.add(ending, whole);
        });
    }

    /// Drops the oldest kept queue positions while all together take more than [`PLACES_MAX`]; returns them, for the
    /// caller to take them out of the queues.
    pub(super) fn give_up_places(&self) -> Vec<ReservedSlot> {
        self.change(|all| {
            let mut given_up = Vec::new();
            while all.place_bytes > PLACES_MAX
                && let Some(oldest) = all.with_place.first().copied()
            {
                given_up.extend(all.take_place(oldest));
            }
            given_up
        })
    }

    /// Removes all departed clients: their locks are those of a primary now.
    pub(super) fn forget_departed(&self) {
        self.change(|all| *all = DepartedClients::default());
    }

    /// Returns the end of the next session, in monotonic milliseconds, or [`NEVER`].
    pub(super) fn next_end_ms(&self) -> u64 {
        if !self.has_departed.load(Acquire) {
            return NEVER;
        }
        self.departed.lock().by_time.keys().next().map_or(NEVER, |(until_ms, _)| *until_ms)
    }

    /// Takes the departed clients whose sessions end by a time.
    pub(super) fn take_departed(&self, now_ms: u64) -> Vec<DepartedClient> {
        if self.next_end_ms() > now_ms {
            return Vec::new();
        }
        self.change(|all| {
            let mut over = Vec::new();
            while let Some((ending, _)) = all.by_time.first_key_value().filter(|((until_ms, _), _)| *until_ms <= now_ms)
            {
                let ending = *ending;
                over.extend(all.remove(ending));
            }
            over
        })
    }

    /// Returns the first kept queue position for the same request; the `number` of the request has no meaning.
    pub(crate) fn kept_place(&self, asked: impl FnOnce() -> ReservedSlot) -> Option<ReservedSlot> {
        if !self.has_departed.load(Acquire) {
            return None;
        }
        let asked = asked();
        let all = self.departed.lock();
        let same = all.places.range((asked.token, 0)..=(asked.token, u64::MAX));
        let mut kept = same.filter_map(|(_, key)| all.by_time.get(key)?.place.as_ref());
        kept.find(|kept| kept.is_of(&asked)).cloned()
    }

    /// Takes a kept queue position for the caller; returns false if it is not kept any more.
    pub(crate) fn claim_slot(&self, place: &ReservedSlot) -> bool {
        self.change(|all| {
            let ending = all.places.get(&(place.token, place.number)).copied();
            ending.is_some_and(|ending| all.take_place(ending).is_some())
        })
    }
}
