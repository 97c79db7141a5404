//! The registry of a namespace's clients, which admits, removes, counts and evicts them; and the waits of blocked clients.

mod blocked;
mod mirrored;
mod queued;
mod suspended;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, info};

use crate::client::backlog::Backlog;
use crate::client::info::{Class, ClientInfo, HeldTokens, Peer};
use crate::client::outbox::{END, EVICTED, NUDGE, PushRule};
use crate::client::registry::mirrored::MirroredWaiters;
use crate::client::registry::queued::QueuedClients;
use crate::client::registry::wait::Waits;
use crate::store::MemoryAccount;
use crate::time::clock::Now;

pub(crate) use blocked::Blocked;
pub(crate) use suspended::{BlockedOn, OnTimeout, QueuePlace, Suspended};
pub(crate) use wait::{AwaitedGroup, BlockedCall, Blocking, ClientWait, Grant, Unblocked};

/// The clients admitted to all namespaces of a process together.
#[derive(Default)]
pub struct Admissions {
    last_id: AtomicU64,
    connected: AtomicUsize,
}

impl Admissions {
    /// Returns how many clients are connected.
    pub fn connected(&self) -> usize {
        self.connected.load(Relaxed)
    }

    /// Counts a client; returns its id, unless `max` clients are connected already.
    fn admit(&self, max: usize) -> Option<u64> {
        let room = |connected: usize| (connected < max).then_some(connected + 1);
        self.connected.fetch_update(Relaxed, Relaxed, room).ok()?;
        Some(self.last_id.fetch_add(1, Relaxed) + 1)
    }
}

/// The registry of the clients of a namespace.
#[derive(Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// Set when the server stops: clients admitted after that are closed at once. Changed under the lock of `by_id`.
    are_over: AtomicBool,
    admissions: Arc<Admissions>,
    served: AtomicU64,
    refused: AtomicU64,
    /// Notified when the last client is removed.
    pub(crate) deserted: Notify,
    waits: Waits,
    /// The clients that are queued for locks, or about to be.
    pub(crate) queued: QueuedClients,
    /// The tokens that hold locks in this store; locks in an etcd cluster are not counted.
    pub(crate) held_tokens: Arc<HeldTokens>,
    /// Clients in the queues of an etcd cluster.
    mirrored: MirroredWaiters,
    /// The counted memory of all clients; maintained only while there is a limit.
    memory: Arc<AtomicUsize>,
    evicted: AtomicU64,
    /// The account that outboxes report to.
    memory_account: Arc<MemoryAccount>,
    /// The pending replies of all clients.
    pub backlog: Backlog,
    /// The rule for pushed messages, where they do not all arrive.
    push_rule: Option<Arc<PushRule>>,
}

impl Clients {
    /// Creates an empty registry; the memory of outboxes is reported as used memory.
    pub(crate) fn new(
        admissions: Arc<Admissions>,
        memory_account: Arc<MemoryAccount>,
        push_rule: Option<Arc<PushRule>>,
    ) -> Self {
        let held_tokens = Arc::new(HeldTokens::new(memory_account.clone()));
        Clients { admissions, held_tokens, memory_account, push_rule, ..Clients::default() }
    }

    /// Adds a client, unless the process has `max` clients already.
    pub fn admit(&self, peer: Peer, now: Now, max: usize) -> Option<Arc<ClientInfo>> {
        let Some(id) = self.admissions.admit(max) else {
            self.refused.fetch_add(1, Relaxed);
            return None;
        };
        let info = self.describe(id, peer, now);
        debug!("Accepted {} as client {}", info.peer.addr, info.id);
        Some(self.add(info))
    }

    /// Adds a client that comes from another namespace, which it has not left yet; the client keeps its id, names and
    /// protocol.
    pub fn adopt(&self, client: &ClientInfo, now: Now) -> Arc<ClientInfo> {
        let info = self.describe(client.id, client.peer.clone(), now);
        info.update_names(|names| *names = client.names());
        info.set_protocol(client.session.protocol(), None);
        info.flags.set_exempt(client.flags.is_exempt());
        info.flags.set_no_touch(client.flags.is_no_touch());
        if client.outbox.is_ending() {
            info.outbox.signal(END);
        }
        self.admissions.connected.fetch_add(1, Relaxed);
        self.add(info)
    }

    fn add(&self, info: Arc<ClientInfo>) -> Arc<ClientInfo> {
        let mut by_id = self.by_id.lock();
        self.served.fetch_add(1, Relaxed);
        if self.are_over.load(Relaxed) {
            info.outbox.signal(END);
        }
        by_id.insert(info.id, info.clone());
        info
    }

    /// Returns a client that is not listed, for commands that the server executes itself.
    pub fn unlisted(&self, now: Now) -> Arc<ClientInfo> {
        self.visitor(Peer { addr: "".into(), laddr: "".into(), fd: -1, is_unix: true }, now)
    }

    /// Returns a client that is not listed, for a peer that does not speak RESP.
    pub fn visitor(&self, peer: Peer, now: Now) -> Arc<ClientInfo> {
        self.describe(0, peer, now)
    }

    /// Returns the link to a primary as a client, which has an id of its own and is not in the registry.
    pub(crate) fn primary(&self, peer: Peer, now: Now) -> Arc<ClientInfo> {
        let info = self.describe(self.admissions.last_id.fetch_add(1, Relaxed) + 1, peer, now);
        info.flags.set_primary();
        info
    }

    fn describe(&self, id: u64, peer: Peer, now: Now) -> Arc<ClientInfo> {
        let (all_memory, tokens) = (self.memory.clone(), self.held_tokens.clone());
        let push_rule = self.push_rule.clone();
        Arc::new(ClientInfo::new((id, peer, now), &self.memory_account, all_memory, tokens, push_rule))
    }

    /// Closes every connection, and those admitted later.
    pub fn end_all(&self) {
        let by_id = self.by_id.lock();
        self.are_over.store(true, Relaxed);
        by_id.values().for_each(|client| client.outbox.signal(END));
    }

    /// Closes every connection.
    pub(crate) fn end_connected(&self) {
        self.by_id.lock().values().for_each(|client| client.outbox.signal(END));
    }

    /// Removes a client that has disconnected.
    pub fn remove(&self, id: u64) {
        let mut by_id = self.by_id.lock();
        let removed = by_id.remove(&id);
        if removed.is_some() && by_id.is_empty() {
            self.deserted.notify_one();
        }
        drop(by_id);
        if let Some(client) = removed {
            self.admissions.connected.fetch_sub(1, Relaxed);
            debug!("Client closed connection id={id} addr={} laddr={}", client.peer.addr, client.peer.laddr);
            self.memory.fetch_sub(client.buffers.set_counted_memory(0), Relaxed);
        }
    }

    /// Updates the memory counted for a client, and disconnects clients, largest first, while the sum is `max` bytes
    /// or more.
    pub fn account(&self, client: &ClientInfo, max: u64) {
        if client.outbox.is_ending() {
            return; // already removed
        }
        if client.count_memory() as u64 >= max {
            self.evict(max);
        }
    }

    /// Updates the memory counted for all clients, and disconnects the largest until the sum is below `max` bytes.
    pub fn evict(&self, max: u64) {
        let mut clients = self.all();
        for client in &clients {
            client.count_memory();
        }
        let mut all: usize = clients.iter().map(|client| client.buffers.counted_memory()).sum();
        self.memory.store(all, Relaxed);
        if (all as u64) < max {
            return;
        }
        clients.sort_by_key(|client| std::cmp::Reverse(client.buffers.counted_memory()));
        for client in clients.iter().filter(|client| !client.flags.is_exempt() && !client.is_replica()) {
            if (all as u64) < max {
                return;
            }
            all -= client.buffers.counted_memory();
            info!(client = client.id, "evicting a client: maxmemory-clients is exceeded");
            self.evicted.fetch_add(1, Relaxed);
            client.outbox.signal(EVICTED);
            self.remove(client.id);
        }
    }

    /// Returns how many clients were disconnected because of their memory.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Closes the connection of a client and removes it from the list.
    pub fn kill(&self, client: &ClientInfo) {
        self.remove(client.id);
        client.outbox.signal(END);
    }

    /// Reports the pending output of a client, see `Backlog::report`, and makes throttled clients check again.
    pub fn report_backlog(&self, before: usize, bytes: usize) {
        if self.backlog.report(before, bytes) {
            let throttled = self.all().into_iter().filter(|client| client.flags.is_throttled());
            throttled.for_each(|client| client.outbox.signal(NUDGE));
        }
    }

    /// Records whether a client is throttled because too many replies are pending.
    pub fn set_throttled(&self, client: &ClientInfo, is_throttled: bool) {
        if client.flags.set_throttled(is_throttled) {
            self.backlog.record_throttled(is_throttled);
        }
    }

    /// Finds a client by its id.
    pub fn find(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Returns all clients, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// Returns the number of connected clients of a class.
    pub fn count_of(&self, class: Class) -> usize {
        self.by_id.lock().values().filter(|client| client.session.class() == class).count()
    }

    /// Returns the number of connected clients.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Returns true if no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many connections were ever served.
    pub fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }

    /// Returns how many connections were refused because of `maxclients`.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}
