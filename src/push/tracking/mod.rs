//! Client-side caching: recorded reads, broadcast prefixes, and the invalidation of changed keys.
//!
//! A client that tracks keeps copies of keys it has read. [`Tracking`] records its reads, and a change of a key sends
//! an invalidation to all its readers. Both happen while the key's shard is locked, so no change is lost between a read
//! and its record. In broadcasting mode reads are not recorded: the client is notified of every changed key that begins
//! with one of its prefixes and that its user may read, for all keys of a batch at once. A command that changes the
//! users or the user of a client first broadcasts the earlier changes, by the permissions that were in force then.
//!
//! While no client tracks keys, nothing here is called: the [`EventSink`] of the store checks that.
//!
//! Lock order: a shard, then the state here, then the registry of clients, then outboxes.

mod prefixes;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed};

use parking_lot::Mutex;

pub(crate) use prefixes::{Overlap, find_overlap};

use crate::acl::{Acl, User};
use crate::client::info::{Class, ClientInfo};
use crate::client::outbox::PushFrame;
use crate::client::registry::Clients;
use crate::client::tracking::{BROADCAST, BROKEN, CACHING, NO_LOOP, ON, TrackingFlags};
use crate::config::Config;
use crate::resp::{Protocol, Reply};
use crate::store::{EventSink, MemoryAccount, Origin, ReportedMemory};
use crate::time::clock::Now;
use prefixes::Prefixes;
use table::{Readers, TrackingTable};

/// The channel of invalidation messages for RESP2 clients.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Clients that track keys, their recorded reads, and their prefixes.
pub struct Tracking {
    clients: Arc<Clients>,
    /// Users, by whose permissions broadcast keys are filtered.
    acl: Arc<Acl>,
    state: Mutex<State>,
    /// True while keys wait to be broadcast.
    has_invalidations: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Clients that track, by id.
    trackers: HashMap<u64, Arc<ClientInfo>, ahash::RandomState>,
    table: TrackingTable,
    prefixes: Prefixes,
    /// Reported memory of table and prefixes.
    share: ReportedMemory,
}

impl State {
    /// Updates the reported memory.
    fn count(&mut self) {
        self.share.set(self.table.memory() + self.prefixes.memory());
    }
}

/// The totals of tracking, for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Clients that track.
    pub clients: usize,
    /// Keys that were read by tracking clients.
    pub keys: usize,
    /// Readers of all keys, summed up.
    pub items: usize,
    /// Prefixes that are broadcast.
    pub prefixes: usize,
}

/// The content of an invalidation: some keys, or all.
enum Invalidation<'a> {
    Keys(&'a [&'a [u8]]),
    /// All keys; written as the null of the tracking client's protocol, whichever client receives it.
    Everything(Protocol),
}

impl Invalidation<'_> {
    fn write(&self, reply: &mut Reply<'_>) {
        if reply.protocol() == Protocol::Resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        }
        match self {
            Invalidation::Keys(keys) => {
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.bulk(key));
            }
            Invalidation::Everything(Protocol::Resp2) => reply.raw(b"$-1\r\n"),
            Invalidation::Everything(Protocol::Resp3) => reply.raw(b"_\r\n"),
        }
    }
}

impl Tracking {
    /// Creates the state without clients; redirection targets are looked up in `clients`, and the permissions of
    /// clients in `acl`. Its memory counts as used memory.
    pub fn new(clients: Arc<Clients>, acl: Arc<Acl>, memory_account: &Arc<MemoryAccount>) -> Self {
        let state = State { share: ReportedMemory::new(memory_account.clone()), ..State::default() };
        Tracking { clients, acl, state: Mutex::new(state), has_invalidations: AtomicBool::new(false) }
    }

    /// Turns tracking on for a client, or changes its mode; new prefixes are added to the client's present ones.
    pub fn join(
        &self,
        client: &Arc<ClientInfo>,
        flags: TrackingFlags,
        redirect: u64,
        prefixes: &[&[u8]],
        events: &EventSink,
    ) {
        let mut state = self.state.lock();
        client.tracking.set(flags | ON | client.tracking.flags() & CACHING, redirect);
        state.trackers.insert(client.id, client.clone());
        if flags & BROADCAST != 0 {
            let all: &[&[u8]] = &[b""];
            for prefix in if prefixes.is_empty() { all } else { prefixes } {
                state.prefixes.join(prefix, client);
            }
            state.count();
        }
        events.set_tracked(true);
    }

    /// Turns tracking off for a client. Its recorded reads stay until the keys change, as in Redis, or no client
    /// tracks.
    pub fn leave(&self, client: &ClientInfo, events: &EventSink) {
        if !client.tracking.is_on() {
            return;
        }
        let mut state = self.state.lock();
        if client.tracking.has(BROADCAST) {
            state.prefixes.leave(client);
        }
        client.tracking.set(0, 0);
        state.trackers.remove(&client.id);
        if state.trackers.is_empty() {
            state.table = TrackingTable::default();
            events.set_tracked(false);
        }
        state.count();
    }

    /// Returns the prefixes of a client, in order.
    pub fn prefixes_of(&self, client: u64) -> Vec<Box<[u8]>> {
        self.state.lock().prefixes.of(client)
    }

    /// Returns the totals of tracking.
    pub fn tracked(&self) -> Tracked {
        let State { trackers, table, prefixes, .. } = &*self.state.lock();
        Tracked { clients: trackers.len(), keys: table.len(), items: table.items(), prefixes: prefixes.len() }
    }

    /// Records that a client has read keys; must be called while their shards are still locked. When more than
    /// `max_keys` keys would be recorded, the readers of other keys get an invalidation, and those keys are dropped.
    pub fn remember<'k>(
        &self,
        client: &ClientInfo,
        keys: impl Iterator<Item = &'k [u8]>,
        max_keys: usize,
        (config, now): (&Config, Now),
    ) {
        let mut state = self.state.lock();
        for key in keys {
            state.table.note(key, client.id);
        }
        self.limit(&mut state, max_keys, usize::MAX, (config, now));
        state.count();
    }

    /// Drops up to `steps` keys while more than `max_keys` are recorded; returns whether there are more. 0 is no limit.
    pub fn forget(&self, max_keys: usize, steps: usize, (config, now): (&Config, Now)) -> bool {
        let mut state = self.state.lock();
        let has_more = self.limit(&mut state, max_keys, steps, (config, now));
        state.count();
        has_more
    }

    fn limit(&self, state: &mut State, max_keys: usize, steps: usize, (config, now): (&Config, Now)) -> bool {
        for _ in 0..steps {
            if !state.table.is_over(max_keys) {
                return false;
            }
            let Some((key, readers)) = state.table.take_any() else { return false };
            // The reader of the last key too many loses a copy like any other reader.
            self.invalidate_readers(state, &key, &readers, None, (config, now));
        }
        true
    }

    /// Invalidates the copies of a changed key, and records it for clients with a matching prefix; must be called while
    /// its shard is locked. With NOLOOP, as in Redis, a broadcast skips the client that changed the key, and the
    /// invalidation of readers skips the caller, even when the key has expired or was evicted.
    pub fn invalidate(&self, key: &[u8], origin: Origin, caller: Origin, (config, now): (&Config, Now)) {
        let mut state = self.state.lock();
        if state.prefixes.note(key, client_of(origin)) {
            self.has_invalidations.store(true, Relaxed);
        }
        if let Some(readers) = state.table.take(key) {
            self.invalidate_readers(&state, key, &readers, client_of(caller), (config, now));
            state.count();
        }
    }

    /// Invalidates the copies of all readers of a key, except the caller's if it has NOLOOP.
    fn invalidate_readers(
        &self,
        state: &State,
        key: &[u8],
        readers: &Readers,
        caller: Option<u64>,
        (config, now): (&Config, Now),
    ) {
        let invalidation = Invalidation::Keys(&[key]);
        let write = |reply: &mut Reply<'_>| invalidation.write(reply);
        let mut push_frame = PushFrame::new(&write);
        for client in readers.iter().filter_map(|id| state.trackers.get(id)) {
            // The reads of a client that broadcasts now may have been recorded before.
            let is_silent = client.tracking.has(NO_LOOP) && caller == Some(client.id);
            if !client.tracking.has(BROADCAST) && !is_silent {
                self.send(client, &mut push_frame, (config, now));
            }
        }
    }

    /// Tells all tracking clients that all keys may have changed, and drops the recorded reads.
    pub fn invalidate_all(&self, (config, now): (&Config, Now)) {
        let mut state = self.state.lock();
        state.table = TrackingTable::default();
        state.count();
        for client in state.trackers.values() {
            let invalidation = Invalidation::Everything(client.session.protocol());
            let write = |reply: &mut Reply<'_>| invalidation.write(reply);
            self.send(client, &mut PushFrame::new(&write), (config, now));
        }
    }

    /// Returns true if there is anything to broadcast.
    #[inline]
    pub fn has_invalidations(&self) -> bool {
        self.has_invalidations.load(Relaxed)
    }

    /// Broadcasts the keys that have changed since the last broadcast; each client gets the keys that its user may
    /// read.
    #[cold]
    pub fn broadcast(&self, (config, now): (&Config, Now)) {
        let mut state = self.state.lock();
        if !self.has_invalidations.swap(false, AcqRel) {
            return;
        }
        for prefix in state.prefixes.iter_mut().filter(|prefix| !prefix.changed.is_empty()) {
            let changed = std::mem::take(&mut prefix.changed);
            let keys: Vec<&[u8]> = changed.keys().map(|key| &key[..]).collect();
            let common = Invalidation::Keys(&keys);
            let write = |reply: &mut Reply<'_>| common.write(reply);
            let mut push_frame = PushFrame::new(&write);
            for client in prefix.clients.values() {
                let Some(user) = self.user_of(client) else { continue };
                if client.tracking.has(NO_LOOP) || !user.is_unlimited() {
                    self.send_some(client, &user, &changed, (config, now));
                } else {
                    self.send(client, &mut push_frame, (config, now));
                }
            }
        }
    }

    /// Returns the user of a client as it is now; `None` if it was removed.
    fn user_of(&self, client: &ClientInfo) -> Option<Arc<User>> {
        let name = client.user()?;
        self.acl.user(&name).filter(|user| user.is(&name))
    }

    /// Sends a client the keys that its user may read, with NOLOOP only those that were changed by others.
    fn send_some(
        &self,
        client: &Arc<ClientInfo>,
        user: &User,
        changed: &BTreeMap<Box<[u8]>, Option<u64>>,
        (config, now): (&Config, Now),
    ) {
        let skipped = client.tracking.has(NO_LOOP).then_some(client.id);
        let is_sent = |key: &[u8], author: Option<u64>| (author.is_none() || author != skipped) && user.reads_key(key);
        let keys = changed.iter().filter(|(key, author)| is_sent(key, **author)).map(|(key, _)| &key[..]);
        let keys: Vec<&[u8]> = keys.collect();
        if !keys.is_empty() {
            let invalidation = Invalidation::Keys(&keys);
            let write = |reply: &mut Reply<'_>| invalidation.write(reply);
            self.send(client, &mut PushFrame::new(&write), (config, now));
        }
    }

    /// Queues a message for a tracking client, or for the client it redirects to. A RESP2 client receives it only if it
    /// is subscribed to the channel, so only by redirection.
    fn send(&self, client: &Arc<ClientInfo>, push_frame: &mut PushFrame<'_>, (config, now): (&Config, Now)) {
        let redirect = client.tracking.redirect();
        if redirect == 0 {
            if client.session.protocol() == Protocol::Resp3 {
                client.push(push_frame, config, now);
            }
            return;
        }
        let Some(target) = self.clients.find(redirect) else {
            client.tracking.raise(BROKEN);
            if client.session.protocol() == Protocol::Resp3 {
                let write = |reply: &mut Reply<'_>| {
                    reply.push(2);
                    reply.bulk(b"tracking-redir-broken");
                    reply.int(redirect as i64);
                };
                client.push(&mut PushFrame::new(&write), config, now);
            }
            return;
        };
        if target.session.protocol() == Protocol::Resp3 || target.session.class() == Class::Subscriber {
            target.push(push_frame, config, now);
        }
    }
}

/// Returns the client id of an origin, if it is a client.
fn client_of(origin: Origin) -> Option<u64> {
    match origin {
        Origin::Client(id) => Some(id),
        _ => None,
    }
}
