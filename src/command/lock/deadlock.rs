//! Cycles of queued clients that wait for each other's locks.
//!
//! A lock may be released at any time, on any connection, unless the client that has to release it is queued itself.
//! Two kinds of clients are known to be that client: the one to whose session the lock is bound, and clients that wait
//! with the lock's token. So a client waits for ever if it would not be served even if all clients that do not wait
//! released their locks, and each client served in consequence did so, too. Timeouts and TTLs do not count: they end
//! the wait, but not the mistake.
//!
//! A client is examined when it begins to wait. It is first recorded as queued; then a check looks for a wanted lock
//! that is held by a waiting client: so of the clients of a cycle at least the last one finds the next. The rest of the
//! search needs the records of other keys, so this client is examined again, with the whole store locked: no client can
//! begin or end a wait then, and of two clients that close a cycle at the same moment the second one is refused.
//!
//! A cycle leads back to the client. So a client that holds nothing is not examined, however many are queued before it;
//! nor is a client for whose locks none of the clients can wait for which it would wait itself: this is found out from
//! holder to holder, without the queues.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::client::info::{ClientInfo, RemoteClient};
use crate::command::lock::args::{AcquireArgs, shown_key};
use crate::config::OnDeadlock;
use crate::dispatch::Call;
use crate::store::{HeldLock, Key, KeyName, LockMode, LockRecord, LockWaiter};

/// The number of locks of a cycle that an error shows.
const LINKS_SHOWN: usize = 16;

/// Outcome of the search for a deadlock by a client that is about to queue.
pub(super) enum DeadlockCheck {
    /// The client waits until it is served.
    Waits,
    /// The client depends on locks that the call has not locked.
    Unknown,
    /// The client would wait for ever; holds a description of the cycle.
    Deadlock(String),
}

/// A lock of a cycle, and the client that waits for the next one: this client holds the lock, or is queued for it
/// before others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CycleLink {
    pub(crate) key: Box<[u8]>,
    pub(crate) client: u64,
    /// True if the client is only queued.
    is_queued: bool,
}

/// Checks if the caller is in a deadlock if it waits for locks that it cannot have now, and records the caller as
/// queued.
pub(super) fn check(call: &mut Call<'_>, ask: &AcquireArgs<'_>) -> DeadlockCheck {
    if call.config.lock_deadlock == OnDeadlock::Wait {
        return DeadlockCheck::Waits;
    }
    let (clients, info) = (&call.namespace.clients, call.caller.info.clone());
    clients.queued.enter(&info, ask.claim.token_hash);
    let check = if !may_be_waited_for(call, ask) {
        DeadlockCheck::Waits
    } else if call.view.is_whole() {
        let locks = ask.keys.iter().map(|key| (call.caller.db, Box::from(key.bytes))).collect();
        let kept = ask.kept.as_ref().map(|kept| kept.number);
        let newcomer = Waiting { client: info.id, token: ask.claim.token_hash, locks, mode: ask.claim.mode, kept };
        let cycle = if may_lead_to(call, &newcomer) { Search::new(call).cycle_of(newcomer) } else { None };
        cycle.map_or(DeadlockCheck::Waits, |cycle| DeadlockCheck::Deadlock(in_words(call, &cycle)))
    } else if ask.keys.iter().any(|key| may_hang(call, *key, ask)) {
        DeadlockCheck::Unknown
    } else {
        DeadlockCheck::Waits
    };
    if !matches!(check, DeadlockCheck::Waits) {
        clients.queued.leave(&info, ask.claim.token_hash);
    }
    check
}

/// Returns the cycle that contains the holder of a lock, or into which the holder's wait leads, if the lock is held for
/// ever; for calls that need the whole store, and those that declare no keys.
pub(super) fn cycle_from(call: &mut Call<'_>, lock: KeyName) -> Option<Vec<CycleLink>> {
    Search::new(call).cycle_from(lock)
}

/// Returns true if a client may wait for the caller once the caller waits: for a lock that it holds, or at the place
/// that it takes up. Otherwise it closes no cycle.
fn may_be_waited_for(call: &Call<'_>, ask: &AcquireArgs<'_>) -> bool {
    let Call { namespace, caller, .. } = call;
    ask.kept.is_some()
        || namespace.engine().is_some()
        || caller.info.has_bound_locks()
        || namespace.clients.held_tokens.contains(ask.claim.token_hash)
}

/// Returns true if a client that is about to wait may have to wait for itself: it holds a lock that it wants, or a lock
/// that is wanted by a client for which it would wait, and so on. Of the clients queued for a lock only those matter
/// that are queued for other locks, too.
fn may_lead_to(call: &mut Call<'_>, newcomer: &Waiting) -> bool {
    let Call { view, namespace, .. } = call;
    let (clients, store) = (&namespace.clients, &namespace.store);
    // Other clients may be queued behind a client that takes up a place, and behind one that an engine has queued.
    let is_ahead = newcomer.kept.is_some() || namespace.engine().is_some();
    let (mut next, mut steps, mut is_found) = (newcomer.locks.clone(), 0, is_ahead);
    let (mut locks, mut others): (HashSet<KeyName>, HashSet<u64>) = (next.iter().cloned().collect(), HashSet::new());
    while let Some((db, bytes)) = next.pop().filter(|_| !is_found) {
        let (key, mut found) = (store.key(&bytes), Vec::new());
        let mut look_at = |record: &LockRecord| {
            let (token, session) = (store.hash(&record.token), record.session.as_ref().map(|session| session.id()));
            if record.hold.is_some() {
                is_found |= token == newcomer.token || session == Some(newcomer.client);
                found.extend(session);
                found.extend(clients.queued.with_token(token));
            }
        };
        view.locks().inspect(db, key, |held, _| match held {
            HeldLock::Exclusive(record) => look_at(record),
            HeldLock::Shared(holders) => {
                steps += holders.len();
                holders.iter().for_each(|(_, holder)| look_at(&holder.record));
            }
        });
        found.extend(view.locks().queued_for_several(db, key));
        steps += 1 + found.len();
        for other in found.into_iter().filter(|other| others.insert(*other)) {
            next.extend(clients.awaited_locks(other).into_iter().filter(|lock| locks.insert(lock.clone())));
        }
    }
    namespace.observed.locks.record_deadlock_steps(steps);
    is_found
}

/// Returns true if a lock depends on a waiting client, the caller included: its release does, or the turn of a client
/// that also waits for other locks.
fn may_hang(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>) -> bool {
    let Call { view, namespace, caller, .. } = call;
    if view.locks().has_queued_for_several(key) {
        return true;
    }
    let queued = &namespace.clients.queued;
    let hangs = |record: &LockRecord| {
        let session = record.session.as_deref().and_then(|session| (session as &dyn Any).downcast_ref::<ClientInfo>());
        let is_own = ask.claim.mode.passes_own_hold() && *record.token == *ask.claim.token;
        record.hold.is_some()
            && !is_own
            && (session.is_some_and(|session| session.id == caller.info.id || session.flags.is_queued())
                || queued.has_token(namespace.store.hash(&record.token)))
    };
    match view.locks().holders(key) {
        Some(holders) => {
            namespace.observed.locks.record_deadlock_steps(holders.len());
            holders.iter().any(|(_, holder)| hangs(&holder.record))
        }
        None => view.locks().record(key).is_some_and(hangs),
    }
}

/// A client that waits, or is about to.
#[derive(Clone)]
struct Waiting {
    client: u64,
    /// The hash of the client's token.
    token: u64,
    /// The wanted locks: one, or several at once.
    locks: Vec<KeyName>,
    mode: LockMode,
    /// The number of the place reserved for the client, which it is about to take up.
    kept: Option<u64>,
}

impl Waiting {
    /// Returns true if the client, which is not queued yet, is to upgrade a lock.
    fn is_to_upgrade(&self, lock: &KeyName, queue: &[LockWaiter]) -> bool {
        let is_queued = || queue.iter().any(|waiter| waiter.client == self.client);
        self.mode == LockMode::Upgrade && self.locks.contains(lock) && !is_queued()
    }

    /// Returns true if the client waits for several locks and has this one already: the queue of this lock does not keep
    /// it from getting the others.
    fn has_already(&self, awaited: &Awaited) -> bool {
        let is_exclusive = !awaited.is_shared && awaited.free.is_none();
        let is_own = |holder: &HeldBy| holder.is_held && holder.token == self.token;
        self.mode == LockMode::Several && is_exclusive && awaited.holders.iter().any(is_own)
    }

    /// Returns true if the client does not wait for a holder, which is itself.
    fn passes(&self, holder: &HeldBy) -> bool {
        self.mode.passes_own_hold() && holder.token == self.token
    }
}

/// A lock with waiting clients.
struct Awaited {
    holders: Vec<HeldBy>,
    /// True if readers share the lock.
    is_shared: bool,
    /// The number of free permits, of a semaphore.
    free: Option<u32>,
    /// The queued clients, in order.
    queue: Vec<LockWaiter>,
    /// The indexes of the clients in `queue`.
    places: HashMap<u64, usize>,
}

/// A holder of a lock.
struct HeldBy {
    /// The hash of the holder's token.
    token: u64,
    /// True if the lock is held, and not only waited for.
    is_held: bool,
    permits: u32,
    /// The waiting clients of which one has to release the lock; none if any other client may.
    clients: Vec<u64>,
}

/// The state of a search for clients that wait for each other.
struct Search<'c, 'v> {
    call: &'c mut Call<'v>,
    newcomer: Option<Waiting>,
    /// The waiting clients, in the order in which they were found.
    waiting: Vec<Waiting>,
    /// The indexes of the clients in `waiting`; `None` for clients that do not wait.
    found: HashMap<u64, Option<usize>>,
    locks: HashMap<KeyName, Awaited>,
    /// The clients that are served when the others release their locks.
    served: HashSet<u64>,
}

impl<'c, 'v> Search<'c, 'v> {
    fn new(call: &'c mut Call<'v>) -> Self {
        let (waiting, found, locks) = (Vec::new(), HashMap::new(), HashMap::new());
        Search { call, newcomer: None, waiting, found, locks, served: HashSet::new() }
    }

    /// Returns the cycle that a client would close by waiting.
    fn cycle_of(mut self, newcomer: Waiting) -> Option<Vec<CycleLink>> {
        let client = newcomer.client;
        self.newcomer = Some(newcomer.clone());
        self.find(client);
        self.explore();
        if self.served.contains(&client) {
            return None;
        }
        // Searches the shortest way along clients that are not served, back to the client.
        let mut from: HashMap<u64, (u64, CycleLink)> = HashMap::new();
        let mut next = VecDeque::from([client]);
        while let Some(at) = next.pop_front() {
            for link in self.blockers(at) {
                let to = link.client;
                if from.contains_key(&to) {
                    continue;
                }
                from.insert(to, (at, link));
                next.push_back(to);
                if to == client {
                    return Some(path_to(&from, client));
                }
            }
        }
        None // it would wait for others who wait for each other already
    }

    /// Returns the cycle in which a lock is held, or into which its holder's wait leads.
    fn cycle_from(mut self, lock: KeyName) -> Option<Vec<CycleLink>> {
        self.look_at(&lock);
        let awaited = &self.locks[&lock];
        let holders = awaited.holders.iter().flat_map(|holder| holder.clients.clone());
        holders.collect::<Vec<_>>().into_iter().for_each(|client| self.find(client));
        self.explore();
        let stuck = self.locks[&lock].holders.iter().find(|holder| !self.is_released(holder))?;
        let mut links = vec![CycleLink { key: lock.1, client: *stuck.clients.first()?, is_queued: false }];
        loop {
            let link = self.blockers(links.last()?.client).into_iter().next()?;
            if let Some(begin) = links.iter().position(|seen| seen.key == link.key && seen.client == link.client) {
                return Some(links.split_off(begin));
            }
            links.push(link);
        }
    }

    /// Adds a client; one that does not wait counts as served.
    fn find(&mut self, client: u64) {
        if self.found.contains_key(&client) {
            return;
        }
        if let Some(newcomer) = self.newcomer.as_ref().filter(|newcomer| newcomer.client == client) {
            return self.add(newcomer.clone());
        }
        let locks = self.call.namespace.clients.awaited_locks(client);
        if let Some(lock) = locks.first() {
            self.look_at(lock);
        }
        let awaited = locks.first().map(|lock| &self.locks[lock]);
        match awaited.and_then(|awaited| Some(awaited.queue[*awaited.places.get(&client)?])) {
            Some(place) => self.add(Waiting { client, token: place.token, locks, mode: place.mode, kept: None }),
            None => {
                self.found.insert(client, None);
                self.served.insert(client);
            }
        }
    }

    /// Adds a client that is queued for a lock.
    fn find_queued(&mut self, place: LockWaiter, lock: &KeyName) {
        let LockWaiter { client, token, mode, .. } = place;
        let is_newcomer = self.newcomer.as_ref().is_some_and(|newcomer| newcomer.client == client);
        match mode {
            // A client that waits for one lock waits for no other than this one.
            _ if is_newcomer || mode == LockMode::Several => self.find(client),
            _ if self.found.contains_key(&client) => {}
            _ => self.add(Waiting { client, token, locks: vec![lock.clone()], mode, kept: None }),
        }
    }

    fn add(&mut self, waiting: Waiting) {
        self.found.insert(waiting.client, Some(self.waiting.len()));
        self.waiting.push(waiting);
    }

    /// Finds all clients on which those found so far depend, and those of them that are served.
    fn explore(&mut self) {
        let mut at = 0;
        while at < self.waiting.len() {
            let Waiting { client, locks, .. } = self.waiting[at].clone();
            for lock in &locks {
                self.look_at(lock);
                let awaited = &self.locks[lock];
                let holders: Vec<u64> = awaited.holders.iter().flat_map(|holder| holder.clients.clone()).collect();
                let before = awaited.place_before(client);
                holders.into_iter().for_each(|holder| self.find(holder));
                if let Some(before) = before {
                    self.find_queued(before, lock);
                }
            }
            at += 1;
        }
        // Clients found later are more likely the ones waited for.
        loop {
            let before = self.served.len();
            for waiting in self.waiting.iter().rev() {
                if !self.served.contains(&waiting.client)
                    && waiting.locks.iter().all(|lock| self.is_granted(waiting, lock))
                {
                    self.served.insert(waiting.client);
                }
            }
            if self.served.len() == before {
                return;
            }
        }
    }

    /// Collects the holders of a lock and its queue.
    fn look_at(&mut self, lock: &KeyName) {
        if self.locks.contains_key(lock) {
            return;
        }
        let namespace = self.call.namespace;
        let (store, queued) = (&namespace.store, &namespace.clients.queued);
        let (newcomer, is_idle) = (self.newcomer.as_ref(), queued.is_empty());
        let held_by = |record: &LockRecord, permits: u32| {
            let token = store.hash(&record.token);
            let mut clients = Vec::new();
            if record.hold.is_some() && !is_idle {
                let waits = |client: &u64| {
                    newcomer.is_some_and(|newcomer| newcomer.client == *client)
                        || !namespace.clients.awaited_locks(*client).is_empty()
                };
                clients.extend(record.session.as_ref().map(|session| session.id()).filter(waits));
                clients.extend(queued.with_token(token).into_iter().filter(waits));
                clients.dedup();
            }
            HeldBy { token, is_held: record.hold.is_some(), permits, clients }
        };
        let (db, key) = (lock.0, store.key(&lock.1));
        let mut awaited =
            Awaited { holders: Vec::new(), is_shared: false, free: None, queue: Vec::new(), places: HashMap::new() };
        self.call.view.locks().inspect(db, key, |held, _| match held {
            HeldLock::Exclusive(record) => awaited.holders.push(held_by(record, 0)),
            HeldLock::Shared(holders) => {
                awaited.is_shared = holders.permits().is_none();
                awaited.free = holders.permits().map(|(_, free)| free);
                awaited.holders.extend(holders.iter().map(|(_, holder)| held_by(&holder.record, holder.permits)));
            }
        });
        awaited.queue = self.call.view.locks().queue_in(db, key);
        if let Some((newcomer, kept)) = self.newcomer.as_ref().and_then(|newcomer| Some((newcomer, newcomer.kept?))) {
            let own = awaited.queue.iter_mut().filter(|waiter| waiter.number == kept);
            own.for_each(|waiter| (waiter.client, waiter.is_away) = (newcomer.client, false));
        }
        if let Some(newcomer) = self.newcomer.as_ref().filter(|newcomer| newcomer.is_to_upgrade(lock, &awaited.queue)) {
            // It comes before clients that are queued already.
            let Waiting { client, token, mode, .. } = *newcomer;
            let place = awaited.queue.partition_point(|waiter| waiter.mode == LockMode::Upgrade);
            let waiter = LockWaiter { client, number: u64::MAX, mode, token, since_us: 0, is_away: false };
            awaited.queue.insert(place, waiter);
        }
        namespace.observed.locks.record_deadlock_steps(1 + awaited.holders.len() + awaited.queue.len());
        awaited.places = awaited.queue.iter().enumerate().map(|(place, waiter)| (waiter.client, place)).collect();
        self.locks.insert(lock.clone(), awaited);
    }

    /// Returns true if one of the clients that may release the lock does so.
    fn is_released(&self, holder: &HeldBy) -> bool {
        holder.clients.is_empty() || holder.clients.iter().any(|client| self.served.contains(client))
    }

    /// Returns true if a client gets a lock when the served clients release theirs.
    fn is_granted(&self, waiting: &Waiting, lock: &KeyName) -> bool {
        let awaited = &self.locks[lock];
        if waiting.has_already(awaited) {
            return true;
        }
        awaited.before(waiting.client).is_none_or(|before| self.served.contains(&before))
            && match waiting.mode {
                LockMode::Shared if awaited.is_shared => true,
                LockMode::Permits { count, .. } if awaited.free.is_some() => {
                    let released = awaited.holders.iter().filter(|holder| self.is_released(holder));
                    let released: u64 = released.map(|holder| u64::from(holder.permits)).sum();
                    released + u64::from(awaited.free.unwrap_or_default()) >= u64::from(count)
                }
                _ => awaited.holders.iter().all(|holder| waiting.passes(holder) || self.is_released(holder)),
            }
    }

    /// Returns the clients for which a client waits in vain, with the locks.
    fn blockers(&self, client: u64) -> Vec<CycleLink> {
        let Some(waiting) = self.found.get(&client).and_then(|place| self.waiting.get((*place)?)) else {
            return Vec::new();
        };
        let mut links = Vec::new();
        for lock in waiting.locks.iter().filter(|lock| !self.is_granted(waiting, lock)) {
            let awaited = &self.locks[lock];
            let link = |client, is_queued| CycleLink { key: lock.1.clone(), client, is_queued };
            let held = awaited.holders.iter().filter(|holder| !waiting.passes(holder) && !self.is_released(holder));
            links.extend(held.flat_map(|holder| &holder.clients).map(|client| link(*client, false)));
            let before = awaited.before(client).filter(|before| !self.served.contains(before));
            links.extend(before.map(|before| link(before, true)));
        }
        links
    }
}

impl Awaited {
    /// Returns the client that is queued directly before another one.
    fn before(&self, client: u64) -> Option<u64> {
        self.place_before(client).map(|waiter| waiter.client)
    }

    fn place_before(&self, client: u64) -> Option<LockWaiter> {
        let place = self.places.get(&client).copied().unwrap_or(self.queue.len());
        self.queue[..place].iter().rev().find(|waiter| !waiter.is_away).copied()
    }
}

/// Returns the links from a client back to itself, each found from the client before.
fn path_to(from: &HashMap<u64, (u64, CycleLink)>, client: u64) -> Vec<CycleLink> {
    let (mut links, mut at) = (Vec::new(), client);
    while let Some((before, link)) = from.get(&at) {
        links.push(link.clone());
        at = *before;
        if at == client {
            break;
        }
    }
    links.reverse();
    links
}

/// Describes a cycle for an error, from the key asked for to the caller.
fn in_words(call: &Call<'_>, cycle: &[CycleLink]) -> String {
    let describe = |link: &CycleLink| {
        let key = shown_key(call, &link.key);
        let how = if link.is_queued { "awaited" } else { "held" };
        match call.namespace.clients.shown(link.client) {
            Some(RemoteClient { id, process: Some(process), .. }) => {
                format!("{key} {how} by client {id} of process {process:016x}")
            }
            _ => format!("{key} {how} by client {}", link.client),
        }
    };
    let mut words: Vec<String> = cycle.iter().map(describe).collect();
    if words.len() > LINKS_SHOWN {
        words.splice(LINKS_SHOWN - 1..words.len() - 1, ["..".to_owned()]);
    }
    words.join(" waits for ")
}
