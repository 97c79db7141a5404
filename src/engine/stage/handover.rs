//! The hand-over of locks on a stage: clients join the queues, leave them, and are handed the locks that have become
//! free, by the same rules as clients that ask for a lock.

use crate::client::info::{ClientInfo, RemoteClient};
use crate::client::registry::Suspended;
use crate::client::staged::{HeldToken, LockDemand, NewFence};
use crate::command::lock::claim::{self, Availability, ClaimTurn, LockClaim, LockTaker};
use crate::dispatch::serve::may_have;
use crate::engine::locks::LockState;
use crate::engine::stage::{Copy, HandedOver, Stage};
use crate::engine::stored::{StoredRefusal, StoredWait, StoredWaiter};
use crate::error::Error;
use crate::store::{Cx, HeldLock, Holders, Key, KeyName, LockMode, LockRecord, NEVER, Origin, Store, first_of};
use crate::time::clock::{Deadline, Now};

/// Number of fencing tokens from which on a transaction hands over no more locks: another one continues.
const FENCES_HANDED_OVER_MAX: u32 = 32;

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
        self.queues.load(key, None, LockState { lock: None, holders: None, ..copy.lock });
        self.sync_queue(key);
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
            permits: mode.count().unwrap_or(0),
            size: mode.size().unwrap_or(0),
            keys: match mode {
                LockMode::Several => awaited.iter().map(|(_, key)| key.to_vec()).collect(),
                _ => Vec::new(),
            },
        };
        for key in awaited {
            self.queues.join(key.clone(), waiter.clone());
            self.sync_queue(&key);
        }
    }

    /// Ends the wait of a client for a lock: it leaves the queue, or gives the lock back.
    pub(in crate::engine) fn leave_queue(&mut self, key: &KeyName, wait: StoredWait) {
        if let Some(token) = self.queues.leave(key, wait) {
            self.handed_over.retain(|lock| lock.key != *key || lock.token != token);
            let name = self.store.key(&key.1);
            let mut hold = self.store.exclusive();
            let mut view = hold.view(key.0, Cx::new(self.cx.now, Origin::HOST));
            let client = |record: &LockRecord| record.hold.as_ref().map(|hold| hold.holder().id());
            let found = view.locks().look_at(key.0, name, |held| record_of(held, &self.store, &token).and_then(client));
            if let Some(client) = found.flatten() {
                view.locks().take_back(key.0, name, &token, (client, 0));
            }
        }
        self.sync_queue(key);
    }

    /// Removes waits of dead processes from the queue for a lock.
    pub(in crate::engine) fn remove_dead(&mut self, key: &KeyName, is_dead: impl Fn(u64) -> bool) {
        self.queues.remove_dead(key, is_dead);
        self.sync_queue(key);
    }

    /// Records the locks that a call has acquired or renewed: they are not given back when the client that they were
    /// handed over to is gone.
    pub(in crate::engine) fn record_held(&mut self, held: Vec<HeldToken>) {
        for HeldToken { key, token } in held {
            self.has_lost_hand_over |= self.handed_over.iter().any(|lock| lock.key == key && *lock.token == *token);
            self.queues.keep(&key, &token);
        }
    }

    /// Returns true if a lock that was handed over on this stage was changed afterwards.
    pub(in crate::engine) fn has_lost_hand_over(&self) -> bool {
        let is_lost = |HandedOver { key, token, fence, .. }: &HandedOver| {
            let name = self.store.key(&key.1);
            let mut hold = self.store.exclusive();
            let mut view = hold.view(key.0, Cx::new(self.cx.now, Origin::Replay));
            let fence_of = |held: HeldLock<'_>| record_of(held, &self.store, token).map(|record| record.fence);
            view.locks().look_at(key.0, name, fence_of).flatten() != Some(*fence)
        };
        self.has_lost_hand_over || self.handed_over.iter().any(is_lost)
    }

    /// Hands over locks to queued clients that can have them, at the present time.
    pub(in crate::engine) fn hand_over(&mut self, now: Now, is_dead: impl Fn(u64) -> bool) -> HandOver {
        let mut done = HandOver::default();
        loop {
            let mut has_any = false;
            for key in self.queues.locks() {
                for waiter in self.candidates(&key, now, &is_dead) {
                    if self.given_fences >= FENCES_HANDED_OVER_MAX {
                        return done;
                    }
                    has_any |= self.serve(&key, &waiter, (now, &mut done), &is_dead);
                }
            }
            if !has_any {
                return done;
            }
        }
    }

    /// Returns the clients in the queue for a lock whose turn it may be: the first one, clients that ask for several
    /// locks with the token of the present holder, and clients that ask for more permits than there are.
    fn candidates(&mut self, key: &KeyName, now: Now, is_dead: impl Fn(u64) -> bool) -> Vec<StoredWaiter> {
        if self.queues.queue(key).iter().any(|waiter| is_dead(waiter.wait.process)) {
            self.remove_dead(key, is_dead);
        }
        let queue = self.queues.queue(key);
        let name = self.store.key(&key.1);
        let mut hold = self.store.exclusive();
        let mut view = hold.view(key.0, Cx::new(now, Origin::HOST));
        let first = view.locks().queue(name).and_then(first_of).copied();
        let is_turn = first.is_some_and(|first| may_have(&mut view, name, first));
        let mut wanted: Vec<usize> = is_turn.then_some(0).into_iter().collect();
        if queue.iter().any(|waiter| !waiter.keys.is_empty()) {
            let holding = view.locks().queued_holders(name);
            let is_holding = |waiter: &StoredWaiter| {
                let client = self.cx.holders.id_of(&waiter.client);
                holding.iter().any(|holder| holder.client == client)
            };
            wanted.extend((usize::from(is_turn)..queue.len()).filter(|at| is_holding(&queue[*at])));
        }
        if let Some((size, _)) = view.locks().holders(name).and_then(Holders::permits) {
            wanted.extend((usize::from(is_turn)..queue.len()).filter(|at| queue[*at].permits > size));
        }
        wanted.into_iter().map(|at| queue[at].clone()).collect()
    }

    /// Hands locks over to a queued client if it can have them, and to other clients that wait with the same token.
    /// Adds the processes of all of them, and missing keys, to `done`; returns true if the first one has been served.
    fn serve(
        &mut self,
        key: &KeyName,
        waiter: &StoredWaiter,
        (now, done): (Now, &mut HandOver),
        is_dead: &impl Fn(u64) -> bool,
    ) -> bool {
        let turn = self.serve_one(key, waiter, !waiter.keys.is_empty(), now, is_dead);
        if !done.add(turn, waiter) {
            return false;
        }
        let mut tried = Vec::new();
        for key in keys_of(key, waiter) {
            let is_next = |other: &&StoredWaiter, tried: &[StoredWait]| {
                other.token == waiter.token && !tried.contains(&other.wait) && !is_dead(other.wait.process)
            };
            while let Some(other) = self.queues.queue(&key).iter().find(|other| is_next(other, &tried)).cloned() {
                tried.push(other.wait);
                let turn = self.serve_one(&key, &other, true, now, is_dead);
                done.add(turn, &other);
            }
        }
        true
    }

    /// Hands locks over to a queued client if they are free or, where `joins`, held with its token.
    fn serve_one(
        &mut self,
        key: &KeyName,
        waiter: &StoredWaiter,
        joins: bool,
        now: Now,
        is_dead: &impl Fn(u64) -> bool,
    ) -> Turn {
        let keys = keys_of(key, waiter);
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
        match self.is_available(&keys, &mut claim, (waiter, joins), now) {
            Ok(true) => {}
            Ok(false) => return Turn::Kept,
            Err(error) => {
                self.refusals.push(StoredRefusal { wait: waiter.wait, error: error.wire_text() });
                keys.iter().for_each(|key| self.take_out(key, waiter.wait));
                return Turn::Used;
            }
        }
        for key in &keys {
            self.take(key, &claim, waiter, now);
            self.take_out(key, waiter.wait);
        }
        Turn::Used
    }

    /// Returns true if a queued client can have all of these locks, which it may hold already where it `joins`.
    fn is_available(
        &self,
        keys: &[KeyName],
        claim: &mut LockClaim<'_>,
        (waiter, joins): (&StoredWaiter, bool),
        now: Now,
    ) -> Result<bool, Error> {
        let turn = ClaimTurn { client: self.cx.holders.id_of(&waiter.client), kept: None, was_queued: true };
        let mut hold = self.store.exclusive();
        let mut is_available = true;
        for key in keys {
            let mut view = hold.view(key.0, Cx::new(now, Origin::HOST));
            let name = self.store.key(&key.1);
            is_available &= match claim::availability(&mut view, name, claim, turn)? {
                Availability::Free => true,
                Availability::Held => joins,
                Availability::Taken => false,
            };
        }
        Ok(is_available)
    }

    /// Gives a queued client a lock that it can have.
    fn take(&mut self, key: &KeyName, claim: &LockClaim<'_>, waiter: &StoredWaiter, now: Now) {
        let client = self.cx.holders.copied(&waiter.client);
        let taker = LockTaker { client, db: key.0, now, since_us: now.mono_us().cast_signed() };
        let name: Key<'_> = self.store.key(&key.1);
        let mut hold = self.store.exclusive();
        let mut view = hold.view(key.0, Cx::new(now, Origin::HOST));
        let is_held = claim::is_held(&mut view, name, claim);
        let given = &mut self.given_fences;
        let fence = claim::take(&mut view, name, claim, (&taker, is_held), &mut || {
            *given += 1;
            NewFence(*given).placeholder()
        });
        drop(view);
        drop(hold);
        let ttl = claim.deadline.map(|deadline| (deadline.mono_ms(now), waiter.ttl_ms));
        self.handed_over.push(HandedOver { key: key.clone(), token: waiter.token.clone(), fence, ttl });
        self.queues.grant(key, &waiter.token, (waiter.wait, is_held));
    }

    fn take_out(&mut self, key: &KeyName, wait: StoredWait) {
        self.queues.take(key, wait);
        self.sync_queue(key);
    }

    /// Gives the store the present queue for a lock: calls on the stage see it.
    pub(super) fn sync_queue(&self, key: &KeyName) {
        let queue = self.cx.holders.read_queue(self.queues.queue(key), (&self.store, self.cx.now));
        let name = self.store.key(&key.1);
        let mut hold = self.store.exclusive();
        hold.view(key.0, Cx::new(self.cx.now, Origin::Replay)).locks().set_queue(key.0, name, queue);
    }

    /// Returns the TTL in milliseconds of a lock that was handed over, if its TTL still ends then, in monotonic
    /// milliseconds: it counts from the time when the client is told.
    pub(super) fn handed_over_ttl(&self, key: &KeyName, token: &[u8], until_ms: u64) -> Option<u64> {
        let of_lock = self.handed_over.iter().filter(|lock| lock.key == *key && lock.token == token);
        let mut given = of_lock.filter_map(|lock| lock.ttl);
        given.rfind(|(given_ms, _)| *given_ms == until_ms && until_ms != NEVER).map(|(_, ttl_ms)| ttl_ms)
    }
}

/// Returns the keys of the locks that a client in the queue for this one asks for.
fn keys_of((db, key): &KeyName, waiter: &StoredWaiter) -> Vec<KeyName> {
    match &waiter.keys[..] {
        [] => vec![(*db, key.clone())],
        keys => keys.iter().map(|key| (*db, key.as_slice().into())).collect(),
    }
}

/// Returns the record of the holder with a token.
fn record_of<'l>(held: HeldLock<'l>, store: &Store, token: &[u8]) -> Option<&'l LockRecord> {
    match held {
        HeldLock::Exclusive(record) => (*record.token == *token).then_some(record),
        HeldLock::Shared(holders) => Some(&holders.get(holders.find(store.hash(token), token)?)?.record),
    }
}
