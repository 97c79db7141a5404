//! The hand-over of locks on a stage: clients join the queues, leave them, and are handed the locks that have become
//! free, by the same rules as clients that ask for a lock.

use crate::client::info::{ClientInfo, RemoteClient};
use crate::client::registry::Suspended;
use crate::client::staged::{HeldToken, LockDemand, NewFence};
use crate::command::lock::claim::{self, Availability, ClaimTurn, LockClaim, LockTaker};
use crate::dispatch::serve::may_have;
use crate::engine::locks::{Given, LockState};
use crate::engine::stage::{Copy, Stage};
use crate::engine::stored::{StoredRefusal, StoredWait, StoredWaiter};
use crate::error::Error;
use crate::store::{Cx, HeldLock, Key, KeyName, LockMode, LockWaiter, Origin, View, first_of};
use crate::time::clock::{Deadline, Now};

/// Number of fencing tokens from which on a transaction hands over no more permits: another one continues.
const PERMITS_HANDED_OVER_MAX: u32 = 32;

/// Outcome of the hand-over of the free locks.
#[derive(Default)]
pub(in crate::engine) struct HandOver {
    /// The processes of the new holders.
    pub(in crate::engine) processes: Vec<u64>,
    /// The keys that are needed on the stage: a client that asks for several locks may have its turn.
    pub(in crate::engine) missing: Vec<KeyName>,
}

impl HandOver {
    /// Adds the turn of a queued client; returns true if the client was served.
    fn add(&mut self, turn: Turn, waiter: &StoredWaiter) -> bool {
        let is_used = matches!(turn, Turn::Used);
        match turn {
            Turn::Used => self.processes.push(waiter.wait.process),
            Turn::Kept => {}
            Turn::Missing(keys) => self.missing.extend(keys),
        }
        is_used
    }
}

/// Outcome of the turn of a queued client.
enum Turn {
    /// The client has the lock, or was refused.
    Used,
    /// The client has to wait.
    Kept,
    /// Keys are missing on the stage.
    Missing(Vec<KeyName>),
}

impl Stage {
    /// Adds the queue for a lock whose key the calls have deleted with all others of its database.
    pub(in crate::engine) fn load_queue(&mut self, key: &KeyName, copy: Copy) {
        self.loaded.insert(key.clone());
        let queue = self.cx.holders.read_queue(&copy.lock.queue, (&self.store, self.cx.now));
        self.in_store(key, |view, name| view.locks().set_queue(key.0, name, queue));
        self.queues.load(key, None, LockState { lock: None, holders: None, ..copy.lock });
    }

    /// Calls `act` with the view of the store in which queued clients are served, and the key.
    fn in_store<T>(&self, key: &KeyName, act: impl FnOnce(&mut View<'_>, Key<'_>) -> T) -> T {
        let mut hold = self.store.exclusive();
        act(&mut hold.view(key.0, Cx::new(self.cx.now, Origin::HOST)), self.store.key(&key.1))
    }

    /// Appends a client to the queues for the locks that it asks for.
    pub(in crate::engine) fn queue(&mut self, suspended: &Suspended, demand: LockDemand, client: &ClientInfo) {
        let LockDemand { token, mode, ttl_ms, is_session, is_announced, meta } = demand;
        let holders = &self.cx.holders;
        let awaited: Vec<KeyName> = suspended.awaited_locks();
        let waiter = StoredWaiter {
            client: holders.stored(RemoteClient::of(client)),
            wait: StoredWait { process: holders.process, number: suspended.blocked.number() },
            token: token.into(),
            ttl_ms,
            is_session,
            is_announced,
            meta: meta.map(Into::into),
            since_us: self.cx.now.wall_us(),
            is_shared: mode == LockMode::Shared,
            is_upgrade: mode == LockMode::Upgrade,
            permits: mode.count().unwrap_or(0),
            size: mode.size().unwrap_or(0),
            keys: match mode {
                LockMode::Several => awaited.iter().map(|(_, key)| key.to_vec()).collect(),
                _ => Vec::new(),
            },
        };
        for key in awaited {
            let number = self.queues.join(key.clone(), waiter.clone());
            let queued = self.cx.holders.read_waiter(number, &waiter, (&self.store, self.cx.now));
            self.in_store(&key, |view, name| view.locks().join_queue(name, queued));
        }
    }

    /// Ends the wait of a client for a lock: it leaves the queue, or gives the lock back.
    pub(in crate::engine) fn leave_queue(&mut self, key: &KeyName, wait: StoredWait) {
        self.remove(key, |waiter| waiter.wait == wait);
        let Some(token) = self.queues.end_grant(key, wait) else { return };
        let hash = self.store.hash(&token);
        self.in_store(key, |view, name| {
            let holder = |held: HeldLock<'_>| Some(held.record(hash, &token)?.hold.as_ref()?.holder().id());
            if let Some(client) = view.locks().look_at(key.0, name, holder).flatten() {
                view.locks().take_back(key.0, name, &token, (client, 0));
            }
        });
    }

    /// Removes waits of dead processes from the queue for a lock.
    pub(in crate::engine) fn remove_dead(&mut self, key: &KeyName, is_dead: impl Fn(u64) -> bool) {
        self.remove(key, |waiter| is_dead(waiter.wait.process));
    }

    /// Removes the clients that meet a condition from the queue for a lock.
    fn remove(&mut self, key: &KeyName, is_it: impl Fn(&StoredWaiter) -> bool) {
        for number in self.queues.remove(key, is_it) {
            self.in_store(key, |view, name| view.locks().leave_queue(name, number));
        }
    }

    /// Records the locks that a call has acquired or renewed: they are not given back when the client that they were
    /// handed over to is gone.
    pub(in crate::engine) fn record_held(&mut self, held: Vec<HeldToken>) {
        for HeldToken { key, token } in held {
            self.has_lost_hand_over |= self.queues.keep(&key, &token);
        }
    }

    /// Returns true if a lock that was handed over on this stage was changed afterwards.
    pub(in crate::engine) fn has_lost_hand_over(&self) -> bool {
        let is_lost = |(key, token, given): (&KeyName, &[u8], Given)| {
            let hash = self.store.hash(token);
            let fence_of = |held: HeldLock<'_>| held.record(hash, token).map(|record| record.fence);
            let present = self.in_store(key, |view, name| view.locks().look_at(key.0, name, fence_of).flatten());
            present != Some(given.fence)
        };
        self.has_lost_hand_over || self.queues.given().any(is_lost)
    }

    /// Hands over locks to queued clients that can have them, at the present time.
    pub(in crate::engine) fn hand_over(&mut self, now: Now, is_dead: impl Fn(u64) -> bool) -> HandOver {
        self.cx.now = now;
        let mut done = HandOver::default();
        loop {
            let mut has_any = false;
            for key in self.queues.locks() {
                self.remove_dead(&key, &is_dead);
                for number in self.candidates(&key) {
                    // Unless it was served since, with another one.
                    if let Some(waiter) = self.queues.waiter(&key, number).cloned() {
                        has_any |= self.serve(&key, &waiter, &mut done, &is_dead);
                    }
                }
            }
            if !has_any {
                return done;
            }
        }
    }

    /// Returns the numbers of the clients in the queue for a lock whose turn it may be: the first one, clients that ask
    /// for several locks with the token of the present holder, and clients that ask for more permits than there are
    /// since the semaphore has become smaller.
    fn candidates(&self, key: &KeyName) -> Vec<u64> {
        let is_full = self.given_fences >= PERMITS_HANDED_OVER_MAX;
        self.in_store(key, |view, name| {
            let mut wanted = view.locks().take_excessive(name);
            wanted.extend(view.locks().queued_holders(name));
            let first = view.locks().queue(name).and_then(first_of).copied();
            let is_turn = |first: &LockWaiter| {
                // Nobody else can get at the free permits of a semaphore: they can be left to another transaction.
                let may_wait = matches!(first.mode, LockMode::Permits { .. }) && view.exists(name);
                may_have(view, name, *first) && !(is_full && may_wait)
            };
            wanted.extend(first.filter(is_turn));
            wanted.into_iter().map(|waiter| waiter.number).collect()
        })
    }

    /// Hands locks over to a queued client if it can have them, and to other clients that wait with the same token.
    /// Adds the processes of all of them, and missing keys, to `done`; returns true if the first one has been served.
    fn serve(
        &mut self,
        key: &KeyName,
        waiter: &StoredWaiter,
        done: &mut HandOver,
        is_dead: &impl Fn(u64) -> bool,
    ) -> bool {
        let turn = self.serve_one(key, waiter, is_dead);
        if !done.add(turn, waiter) {
            return false;
        }
        let mut tried = Vec::new();
        for key in waiter.awaited(key) {
            let is_next = |other: &&StoredWaiter, tried: &[StoredWait]| {
                other.token == waiter.token && !tried.contains(&other.wait) && !is_dead(other.wait.process)
            };
            loop {
                let next = self.queues.queue(&key).find(|other| is_next(other, &tried)).cloned();
                let Some(other) = next else { break };
                tried.push(other.wait);
                let turn = self.serve_one(&key, &other, is_dead);
                done.add(turn, &other);
            }
        }
        true
    }

    /// Hands locks over to a queued client if they are free or held with its token.
    fn serve_one(&mut self, key: &KeyName, waiter: &StoredWaiter, is_dead: &impl Fn(u64) -> bool) -> Turn {
        let (keys, now) = (waiter.awaited(key), self.cx.now);
        let missing: Vec<KeyName> = keys.iter().filter(|key| !self.has_loaded(key)).cloned().collect();
        if !missing.is_empty() {
            return Turn::Missing(missing);
        }
        for key in keys.iter().filter(|_| keys.len() > 1) {
            self.remove_dead(key, is_dead); // so that they are not before this client
        }
        let deadline = (waiter.ttl_ms > 0).then(|| Deadline::after(now, waiter.ttl_ms));
        let mut claim = LockClaim {
            token: &waiter.token,
            token_hash: self.store.hash(&waiter.token),
            mode: waiter.mode(),
            deadline,
            is_session: waiter.is_session,
            is_announced: waiter.is_announced,
            meta: waiter.meta.as_deref(),
        };
        let refusal = match self.availability(&keys, &mut claim, waiter) {
            Ok(Availability::Free | Availability::Held) => None,
            Ok(Availability::Taken) => return Turn::Kept,
            Ok(Availability::NotHeld) => Some(Vec::new()),
            Err(error) => Some(error.wire_text()),
        };
        if let Some(error) = refusal {
            self.refusals.push(StoredRefusal { wait: waiter.wait, error });
            keys.iter().for_each(|key| self.remove(key, |other| other.wait == waiter.wait));
            return Turn::Used;
        }
        for key in &keys {
            self.take(key, &claim, waiter);
            self.remove(key, |other| other.wait == waiter.wait);
        }
        Turn::Used
    }

    /// Returns the state of locks for a queued client: that of the first one that it cannot have, if there is one.
    fn availability(
        &self,
        keys: &[KeyName],
        claim: &mut LockClaim<'_>,
        waiter: &StoredWaiter,
    ) -> Result<Availability, Error> {
        let turn = ClaimTurn { client: self.cx.holders.id_of(&waiter.client), kept: None, was_queued: true };
        let mut all = Availability::Free;
        for key in keys {
            let found = self.in_store(key, |view, name| claim::availability(view, name, claim, turn))?;
            if matches!(all, Availability::Free | Availability::Held) {
                all = found;
            }
        }
        Ok(all)
    }

    /// Gives a queued client a lock that it can have.
    fn take(&mut self, key: &KeyName, claim: &LockClaim<'_>, waiter: &StoredWaiter) {
        let (client, now) = (self.cx.holders.copied(&waiter.client), self.cx.now);
        let taker = LockTaker { client, db: key.0, now, since_us: now.mono_us().cast_signed() };
        let mut given_fences = self.given_fences;
        let mut new_fence = || {
            given_fences += 1;
            NewFence(given_fences).placeholder()
        };
        let (fence, is_held) = self.in_store(key, |view, name| {
            let is_held = claim::is_held(view, name, claim);
            (claim::take(view, name, claim, (&taker, is_held), &mut new_fence), is_held)
        });
        self.given_fences = given_fences;
        let ttl = claim.deadline.map(|deadline| (deadline.mono_ms(now), waiter.ttl_ms));
        // A client that cannot be told of an upgrade keeps the lock.
        let was_held = is_held || waiter.is_upgrade;
        self.queues.grant(key, &waiter.token, waiter.wait, (Given { fence, ttl }, was_held));
    }

    /// Returns the TTL in milliseconds of a lock that was handed over, if its TTL still ends then, in monotonic
    /// milliseconds: it counts from the reply to the client.
    pub(super) fn handed_over_ttl(&self, key: &KeyName, token: &[u8], until_ms: u64) -> Option<u64> {
        let (given_ms, ttl_ms) = self.queues.granted(key, token).given?.ttl?;
        (given_ms == until_ms).then_some(ttl_ms)
    }
}
