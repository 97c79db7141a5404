//! What is known of a client: what CLIENT LIST and CLIENT INFO show, and the means to send it frames and signals.
//!
//! The facts are atomics that its own task writes and others read, so listing ten thousand clients stops none of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

use parking_lot::Mutex;

mod held_locks;
mod listing;
mod lock_holder;
mod names;

use held_locks::ClientLocks;
pub(crate) use held_locks::LockName;
use names::CountedNames;
pub(crate) use names::Names;

use crate::client::outbox::{OVERFLOW, Outbox, PushFrame};
use crate::client::pending::Pending;
use crate::client::tracking::Mode;
use crate::config::{ClientMemory, Config, OutputLimit};
use crate::resp::{Output, Protocol};
use crate::spec::CommandSpec;
use crate::store::{MemoryAccount, NEVER};
use crate::time::clock::Now;

/// The limit of pushed bytes for a client whose class has no limit. Replies are limited by not reading further
/// requests, but pushes by others are not.
const WAITING_MAX: u64 = 256 * 1024 * 1024;

/// Measured memory of an idle client, in bytes: its task, its registration with the runtime, and its entry here.
const CLIENT_BYTES: usize = 1450;
/// Memory of a subscription or a watched key besides its name, in bytes.
const SUBSCRIPTION_BYTES: usize = 64;

/// One client, as other clients see it.
pub struct ClientInfo {
    /// The client's id, from 1 up and never reused.
    pub id: u64,
    /// The peer's address: `ip:port`, or the socket's path and `:0`.
    pub addr: String,
    /// The server's own address on this connection.
    pub laddr: String,
    /// Frames and signals from other tasks.
    pub outbox: Outbox,
    /// The client's tracking mode.
    pub tracking: Mode,
    is_unix: bool,
    fd: i64,
    connected_ms: u64,
    active_ms: AtomicU64,
    db: AtomicUsize,
    protocol: AtomicUsize,
    /// Commands queued by MULTI, or -1 outside.
    queued: AtomicI64,
    queued_bytes: AtomicUsize,
    watched: AtomicUsize,
    /// Whether it runs MONITOR.
    is_monitoring: AtomicBool,
    query_buffer: AtomicUsize,
    query_room: AtomicUsize,
    /// Bytes of the arguments of an incomplete request.
    arguments: AtomicUsize,
    output_buffer: AtomicUsize,
    /// The bytes that were read from it and written to it, and the commands executed.
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    commands: AtomicU64,
    /// Whether it is not read from because too many replies are pending.
    is_throttled: AtomicBool,
    /// Bytes kept for it elsewhere: names of channels, watched keys and tracking prefixes, its own names, and the call in
    /// which it is blocked.
    kept_len: AtomicUsize,
    /// How many channels, patterns and shard channels it is subscribed to.
    subscriptions: [AtomicU32; 3],
    /// Whether it is blocked, see [`Clients::block`](crate::client::registry::Clients::block).
    is_blocked: AtomicBool,
    /// Whether it is queued for a lock.
    is_queued: AtomicBool,
    is_exempt: AtomicBool,
    is_no_touch: AtomicBool,
    /// The memory counted for it by [`Clients::account`](crate::client::registry::Clients::account), in bytes.
    counted_memory: AtomicUsize,
    /// The memory counted for all clients, see [`Clients`](crate::client::registry::Clients).
    all_memory: Arc<AtomicUsize>,
    /// Since when the soft output limit has been exceeded, in monotonic milliseconds, or [`NEVER`].
    over_soft_limit_ms: AtomicU64,
    last_command: Mutex<Option<&'static CommandSpec>>,
    names: Mutex<CountedNames>,
    /// The locks that it holds.
    locks: ClientLocks,
    /// The name of the user, see [`User::is`](crate::acl::User::is); set by the session when it is created.
    user: Mutex<Option<Arc<[u8]>>>,
}

/// Classes of clients with an output limit of their own, in the order of `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Clients without subscriptions, also those that run MONITOR.
    Normal = 0,
    /// Clients with a subscription.
    Subscriber = 2,
}

/// Kinds of channels a client may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Channels, by name.
    Channel,
    /// Channels whose names match a pattern.
    Pattern,
    /// Channels of a cluster's shard.
    ShardChannel,
}

/// What a listener knows about an accepted connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's address as CLIENT LIST shows it.
    pub addr: String,
    /// The server's own address.
    pub laddr: String,
    /// The file descriptor, or -1.
    pub fd: i64,
    /// Whether it came through the Unix socket.
    pub is_unix: bool,
}

impl ClientInfo {
    /// Creates what is known of a client that has connected now. Its names and its outbox are counted as used memory;
    /// `all_memory` is the memory counted for all clients.
    pub(super) fn new(
        id: u64,
        peer: Peer,
        now: Now,
        memory_account: &Arc<MemoryAccount>,
        all_memory: Arc<AtomicUsize>,
    ) -> Self {
        let outbox = Outbox::new(memory_account.clone());
        ClientInfo {
            id,
            addr: peer.addr,
            laddr: peer.laddr,
            outbox,
            tracking: Mode::default(),
            is_unix: peer.is_unix,
            fd: peer.fd,
            connected_ms: now.mono_ms(),
            active_ms: AtomicU64::new(now.mono_ms()),
            db: AtomicUsize::new(0),
            protocol: AtomicUsize::new(2),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            query_room: AtomicUsize::new(0),
            arguments: AtomicUsize::new(0),
            is_throttled: AtomicBool::new(false),
            kept_len: AtomicUsize::new(0),
            is_blocked: AtomicBool::new(false),
            is_queued: AtomicBool::new(false),
            is_exempt: AtomicBool::new(false),
            is_no_touch: AtomicBool::new(false),
            counted_memory: AtomicUsize::new(0),
            all_memory,
            watched: AtomicUsize::new(0),
            is_monitoring: AtomicBool::new(false),
            query_buffer: AtomicUsize::new(0),
            output_buffer: AtomicUsize::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            subscriptions: Default::default(),
            over_soft_limit_ms: AtomicU64::new(NEVER),
            last_command: Mutex::new(None),
            names: Mutex::new(CountedNames::new(memory_account.clone())),
            locks: ClientLocks::default(),
            user: Mutex::default(),
        }
    }

    /// Returns whether the client is on this machine: it came through the Unix socket or the loopback interface.
    pub fn is_local(&self) -> bool {
        self.is_unix || self.addr.starts_with("127.0.0.1:") || self.addr.starts_with("[::1]:")
    }

    /// Records the selected database.
    pub fn set_db(&self, db: usize) {
        self.db.store(db, Relaxed);
    }

    /// Records the protocol. Queued frames are moved to the output first: they are encoded in the old one.
    pub fn set_protocol(&self, protocol: Protocol, out: &mut Output) {
        self.outbox.set_protocol(protocol, out);
        self.protocol.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Relaxed);
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> Protocol {
        if self.protocol.load(Relaxed) == 3 { Protocol::Resp3 } else { Protocol::Resp2 }
    }

    /// Records how many commands MULTI has queued; `None` outside a transaction.
    pub fn set_queued(&self, queued: Option<usize>) {
        self.queued.store(queued.map_or(-1, |queued| queued as i64), Relaxed);
        if queued.is_none() {
            self.queued_bytes.store(0, Relaxed);
        }
    }

    /// Adds to the bytes of arguments that MULTI has queued.
    pub fn add_queued_bytes(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Relaxed);
    }

    /// Records whether the client runs MONITOR.
    pub fn set_monitoring(&self, is_monitoring: bool) {
        self.is_monitoring.store(is_monitoring, Relaxed);
    }

    /// Records how many keys are watched.
    pub fn set_watched(&self, watched: usize) {
        self.watched.store(watched, Relaxed);
    }

    /// Returns how many keys are watched.
    pub fn watched(&self) -> usize {
        self.watched.load(Relaxed)
    }

    /// Records the bytes in the query buffer and its spare capacity.
    #[inline]
    pub fn set_query_buffer(&self, len: usize, room: usize) {
        self.query_buffer.store(len, Relaxed);
        self.query_room.store(room, Relaxed);
    }

    /// Records the input of an incomplete request.
    pub fn set_pending(&self, pending: Pending) {
        self.set_query_buffer(pending.unparsed, pending.held.saturating_sub(pending.unparsed + pending.arguments));
        self.arguments.store(pending.arguments, Relaxed);
    }

    /// Returns how many bytes of its requests are not parsed yet, or queued by MULTI.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Relaxed)
    }

    /// Adds to the bytes kept for it elsewhere, such as prefixes and channels; negative when they are removed.
    pub fn add_kept_len(&self, growth: isize) {
        self.kept_len.fetch_add(growth as usize, Relaxed);
    }

    /// Exempts the client from being evicted (CLIENT NO-EVICT).
    pub fn set_exempt(&self, is_exempt: bool) {
        self.is_exempt.store(is_exempt, Relaxed);
    }

    /// Returns whether the client is exempt from being evicted.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_exempt.load(Relaxed)
    }

    /// Sets CLIENT NO-TOUCH: the client's commands do not update the usage of keys.
    pub fn set_no_touch(&self, is_no_touch: bool) {
        self.is_no_touch.store(is_no_touch, Relaxed);
    }

    /// Returns whether CLIENT NO-TOUCH is set.
    #[inline]
    pub fn is_no_touch(&self) -> bool {
        self.is_no_touch.load(Relaxed)
    }

    /// Records the end of a batch: the time, the last command, and the input that remains.
    pub fn touch(&self, now: Now, last: Option<&'static CommandSpec>, query_buffer: usize) {
        if let Some(last) = last {
            self.set_last_command(last);
        }
        self.active_ms.store(now.mono_ms(), Relaxed);
        self.set_query_buffer(query_buffer, 0);
        self.arguments.store(0, Relaxed);
    }

    /// Counts bytes that were read from the client.
    #[inline]
    pub fn count_bytes_in(&self, len: usize) {
        add(&self.bytes_in, len);
    }

    /// Counts bytes that were written to the client.
    #[inline]
    pub fn count_bytes_out(&self, len: usize) {
        add(&self.bytes_out, len);
    }

    /// Records how many commands were executed for the client.
    #[inline]
    pub fn set_commands(&self, count: u64) {
        self.commands.store(count, Relaxed);
    }

    /// Records how many bytes of output are pending.
    pub fn set_output_buffer(&self, len: usize) {
        self.output_buffer.store(len, Relaxed);
    }

    /// Records how many subscriptions of a kind the client has.
    pub fn set_subscriptions(&self, channel_kind: ChannelKind, count: usize) {
        self.subscriptions[channel_kind as usize].store(count as u32, Relaxed);
    }

    /// Returns how many subscriptions of a kind the client has.
    pub fn subscriptions(&self, channel_kind: ChannelKind) -> u32 {
        self.subscriptions[channel_kind as usize].load(Relaxed)
    }

    /// Returns the client's class.
    pub fn class(&self) -> Class {
        match self.subscriptions.iter().any(|count| count.load(Relaxed) > 0) {
            true => Class::Subscriber,
            false => Class::Normal,
        }
    }

    /// Returns the output limits that apply to it.
    pub fn output_limit(&self, config: &Config) -> OutputLimit {
        config.client_output_buffer_limit[self.class() as usize]
    }

    /// Queues a message in the client's outbox; returns whether it was accepted. A client that exceeds the output limit
    /// of its class is disconnected instead.
    pub fn push(&self, push_frame: &mut PushFrame<'_>, config: &Config, now: Now) -> bool {
        let limit = self.output_limit(config);
        let hard = limit.hard().unwrap_or(WAITING_MAX);
        let is_delivered = self.outbox.push(push_frame, hard.saturating_sub(self.output_buffer.load(Relaxed) as u64));
        if limit.soft_bytes != 0 && is_delivered {
            self.record_soft_limit(limit, now);
        }
        if config.maxmemory_clients != ClientMemory::Bytes(0) && is_delivered {
            self.count_memory(); // the pushing client checks the sum after its command
        }
        is_delivered
    }

    /// Returns how many bytes wait to be written to the client: replies and pushed frames.
    pub fn waiting(&self) -> usize {
        self.output_buffer.load(Relaxed) + self.outbox.waiting().1
    }

    /// Tracks the soft output limit, and disconnects a client that has exceeded it for too long.
    pub fn record_soft_limit(&self, limit: OutputLimit, now: Now) {
        self.set_over_soft_limit(limit.is_over_soft(self.waiting() as u64), now);
        if self.over_soft_limit_for_ms(now) > u64::from(limit.soft_seconds) * 1000 {
            self.outbox.signal(OVERFLOW);
        }
    }

    /// Records the command last called.
    pub fn set_last_command(&self, command: &'static CommandSpec) {
        *self.last_command.lock() = Some(command);
    }

    /// Returns the names that the client has set for itself.
    pub fn names(&self) -> Names {
        Names::clone(&self.names.lock())
    }

    /// Changes the names that the client has set for itself.
    pub fn update_names(&self, change: impl FnOnce(&mut Names)) {
        self.add_kept_len(self.names.lock().update(change));
    }

    /// Records the name of the client's user.
    pub fn set_user(&self, name: &Arc<[u8]>) {
        *self.user.lock() = Some(name.clone());
    }

    /// Returns the name of the client's user, shared with the user.
    pub fn user(&self) -> Option<Arc<[u8]>> {
        self.user.lock().clone()
    }

    /// The time counts from the first call with `is_over`.
    fn set_over_soft_limit(&self, is_over: bool, now: Now) {
        if !is_over {
            self.over_soft_limit_ms.store(NEVER, Relaxed);
        } else if self.over_soft_limit_ms.load(Relaxed) == NEVER {
            self.over_soft_limit_ms.store(now.mono_ms(), Relaxed);
        }
    }

    fn over_soft_limit_for_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.over_soft_limit_ms.load(Relaxed))
    }

    /// Returns for how many milliseconds the client has sent nothing.
    pub fn idle_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.active_ms.load(Relaxed))
    }

    /// Returns for how many milliseconds the client has been connected.
    pub fn age_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.connected_ms)
    }

    /// Returns whether the client is blocked.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// Records whether the client is blocked.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// Returns whether the client is queued for a lock, or is about to be.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued.load(Relaxed)
    }

    /// Records whether the client is queued for a lock.
    pub(super) fn set_queued_for_lock(&self, is_queued: bool) {
        self.is_queued.store(is_queued, Relaxed);
    }

    /// Returns whether the client is not read from because too many replies are pending.
    pub(super) fn is_throttled(&self) -> bool {
        self.is_throttled.load(Relaxed)
    }

    /// Records whether the client is throttled; returns whether that is new.
    pub(super) fn set_throttled(&self, is_throttled: bool) -> bool {
        self.is_throttled() != is_throttled && self.is_throttled.swap(is_throttled, Relaxed) != is_throttled
    }

    /// Returns the memory held for the client, in bytes.
    pub fn memory(&self) -> usize {
        let subscriptions: u32 = self.subscriptions.iter().map(|count| count.load(Relaxed)).sum();
        CLIENT_BYTES
            + self.query_buffer.load(Relaxed)
            + self.query_room.load(Relaxed)
            + self.arguments.load(Relaxed)
            + self.queued_bytes.load(Relaxed)
            + self.kept_len.load(Relaxed)
            + self.waiting()
            + (subscriptions as usize + self.watched.load(Relaxed)) * SUBSCRIPTION_BYTES
    }

    /// Returns the memory that is counted for the client.
    pub(super) fn counted_memory(&self) -> usize {
        self.counted_memory.load(Relaxed)
    }

    /// Sets the memory counted for the client, without the sum of all clients; returns what was counted before.
    pub(super) fn set_counted_memory(&self, memory: usize) -> usize {
        self.counted_memory.swap(memory, Relaxed)
    }

    /// Updates the memory counted for the client; returns the sum of all clients.
    pub(super) fn count_memory(&self) -> usize {
        let memory = self.memory();
        let growth = memory.wrapping_sub(self.set_counted_memory(memory));
        self.all_memory.fetch_add(growth, Relaxed).wrapping_add(growth)
    }

    /// Returns the sizes of the query buffer and of the pending output.
    pub fn buffers(&self) -> (usize, usize) {
        (self.query_buffer.load(Relaxed) + self.query_room.load(Relaxed), self.waiting())
    }

    /// Returns what the listener knew about the connection.
    pub(super) fn peer(&self) -> Peer {
        Peer { addr: self.addr.clone(), laddr: self.laddr.clone(), fd: self.fd, is_unix: self.is_unix }
    }

    /// Returns the caller as MONITOR shows it: the address, or the path of the Unix socket.
    pub fn caller(&self) -> String {
        match self.addr.strip_suffix(":0") {
            Some(path) if self.is_unix => format!("unix:{path}"),
            _ => self.addr.clone(),
        }
    }
}

/// Adds to a counter that only one task writes, which needs no atomic addition.
#[inline]
fn add(counter: &AtomicU64, len: usize) {
    counter.store(counter.load(Relaxed) + len as u64, Relaxed);
}
