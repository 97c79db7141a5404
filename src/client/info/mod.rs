//! State of a client that other tasks read: the fields of CLIENT LIST and CLIENT INFO, and the means to send it frames
//! and signals.
//!
//! The fields are atomics that the client's own task writes, so listing ten thousand clients stops none of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;

mod buffers;
mod held_locks;
mod identity;
mod listing;
mod lock_holder;
mod session_state;
mod traffic;

use buffers::Buffers;
pub(crate) use buffers::PendingInput;
use held_locks::ClientLocks;
pub(crate) use held_locks::HeldTokens;
pub(crate) use identity::ClientNames;
use identity::CountedNames;
pub use identity::Peer;
pub(crate) use lock_holder::{RemoteClient, RestoredHolder};
pub(crate) use session_state::{ChannelKind, Class, NoticeMode};
use session_state::{ClientFlags, SessionState};
use traffic::Traffic;

use crate::client::outbox::{OVERFLOW, Outbox, PushFrame, PushRule};
use crate::client::tracking::TrackingMode;
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
    /// The two ends of the client's connection.
    pub(crate) peer: Peer,
    connected_ms: u64,
    /// Frames and signals from other tasks.
    pub outbox: Outbox,
    /// The client's tracking mode.
    pub tracking: TrackingMode,
    /// Counters of bytes and commands.
    pub(crate) traffic: Traffic,
    /// Buffer sizes and counted memory.
    pub(crate) buffers: Buffers,
    /// State set by the client's commands.
    pub(crate) session: SessionState,
    /// Flags such as blocked, throttled and exempt.
    pub flags: ClientFlags,
    /// Time since which the soft output limit has been exceeded, in monotonic milliseconds, or [`NEVER`].
    over_soft_limit_ms: AtomicU64,
    names: Mutex<CountedNames>,
    /// Position in the log behind the client's last change.
    pub(crate) written: AtomicU64,
    locks: ClientLocks,
    /// The name of the user, see [`User::is`](crate::acl::User::is); set by the session when it is created.
    user: Mutex<Option<Arc<[u8]>>>,
    /// The rule for messages that are pushed to it, where they do not all arrive.
    push_rule: Option<Arc<PushRule>>,
}

impl ClientInfo {
    /// Creates the state of a client that has connected now. Its names and its outbox are counted as used memory;
    /// `all_memory` is the memory counted for all clients, and `tokens` are the tokens with which any client holds a
    /// lock; `push_rule` is there in test mode.
    pub(super) fn new(
        (id, peer, now): (u64, Peer, Now),
        memory_account: &Arc<MemoryAccount>,
        all_memory: Arc<AtomicUsize>,
        tokens: Arc<HeldTokens>,
        push_rule: Option<Arc<PushRule>>,
    ) -> Self {
        ClientInfo {
            id,
            peer,
            connected_ms: now.mono_ms(),
            outbox: Outbox::new(memory_account.clone()),
            tracking: TrackingMode::default(),
            traffic: Traffic::new(now),
            buffers: Buffers::new(all_memory),
            session: SessionState::new(),
            flags: ClientFlags::default(),
            over_soft_limit_ms: AtomicU64::new(NEVER),
            names: Mutex::new(CountedNames::new(memory_account.clone())),
            written: AtomicU64::new(0),
            locks: ClientLocks::new(tokens),
            user: Mutex::default(),
            push_rule,
        }
    }

    /// Records the protocol. Queued frames, encoded in the previous protocol, are moved to the output first.
    pub fn set_protocol(&self, protocol: Protocol, out: Option<&mut Output>) {
        self.outbox.set_protocol(protocol, out);
        self.session.set_protocol(protocol);
    }

    /// Records how many commands MULTI has queued; `None` outside a transaction.
    pub fn set_queued(&self, queued: Option<usize>) {
        self.session.set_queued(queued);
        if queued.is_none() {
            self.buffers.clear_queued_bytes();
        }
    }

    /// Records the end of a batch: the time, the last command, and the input that remains.
    pub fn touch(&self, now: Now, last: Option<&'static CommandSpec>, query_buffer: usize) {
        if let Some(last) = last {
            self.traffic.set_last_command(last);
        }
        self.traffic.set_active(now);
        self.buffers.set_remaining_input(query_buffer);
    }

    /// Returns the output limits that apply to the client. A replica may lag by the size of the backlog: it would be
    /// sent as much when it reconnects, and be disconnected for it again.
    pub fn output_limit(&self, config: &Config) -> OutputLimit {
        let class = self.session.class();
        let limit = config.client_output_buffer_limit[class as usize];
        if class == Class::Replica { limit.at_least(config.repl_backlog_size) } else { limit }
    }

    /// Queues a message in the client's outbox; returns whether it was accepted. A client that exceeds the output limit
    /// of its class is disconnected instead.
    pub fn push(&self, push_frame: &mut PushFrame<'_>, config: &Config, now: Now) -> bool {
        let limit = self.output_limit(config);
        let hard = limit.hard().unwrap_or(WAITING_MAX).saturating_sub(self.buffers.output_buffer() as u64);
        let is_delivered = match &self.push_rule {
            None => self.outbox.push(push_frame, hard),
            Some(rule) => self.outbox.push_by_rule(push_frame, hard, |encode| (rule.0)(encode, &self.names().name)),
        };
        if limit.soft_bytes != 0 && is_delivered {
            self.record_soft_limit(limit, now);
        }
        if config.maxmemory_clients != ClientMemory::Bytes(0) && is_delivered {
            self.count_memory(); // the pushing client checks the sum after its command
        }
        is_delivered
    }

    /// Returns how many bytes wait to be written to the client: replies, pushed frames, and the log for a replica.
    pub fn waiting(&self) -> usize {
        self.buffers.output_buffer() + self.outbox.waiting().1 + self.buffers.log_waiting()
    }

    /// Tracks the soft output limit, and disconnects a client that has exceeded it for too long.
    pub fn record_soft_limit(&self, limit: OutputLimit, now: Now) {
        self.set_over_soft_limit(limit.is_over_soft(self.waiting() as u64), now);
        if self.over_soft_limit_for_ms(now) > u64::from(limit.soft_seconds) * 1000 {
            self.outbox.signal(OVERFLOW);
        }
    }

    /// Returns the names that the client has set for itself.
    pub fn names(&self) -> ClientNames {
        ClientNames::clone(&self.names.lock())
    }

    /// Changes the names that the client has set for itself.
    pub fn update_names(&self, change: impl FnOnce(&mut ClientNames)) {
        self.buffers.add_kept_len(self.names.lock().update(change));
    }

    /// Records the name of the client's user.
    pub fn set_user(&self, name: &Arc<[u8]>) {
        *self.user.lock() = Some(name.clone());
    }

    /// Returns the name of the client's user, shared with the user.
    pub fn user(&self) -> Option<Arc<[u8]>> {
        self.user.lock().clone()
    }

    /// Records whether the soft output limit is exceeded; the time counts from the first call with `is_over`.
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

    /// Returns for how many milliseconds the client has been connected.
    pub fn age_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.connected_ms)
    }

    /// Returns true if the connection has output that the client has not read.
    pub(crate) fn has_output(&self) -> bool {
        self.buffers.output_buffer() > 0
    }

    /// Returns the memory held for the client alone, in bytes: without the log that a replica still has to be sent.
    pub(crate) fn memory_of_its_own(&self) -> usize {
        self.memory() - self.buffers.log_waiting().min(self.waiting())
    }

    /// Returns the memory held for the client, in bytes.
    pub fn memory(&self) -> usize {
        CLIENT_BYTES
            + self.buffers.len_without_output()
            + self.waiting()
            + self.session.subscriptions_and_watched() * SUBSCRIPTION_BYTES
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.session.class() == Class::Replica
    }

    /// Updates the memory counted for the client, which is 0 for a replica, because it has limits of its own. Returns
    /// the sum of all clients.
    pub(super) fn count_memory(&self) -> usize {
        self.buffers.count_memory(if self.is_replica() { 0 } else { self.memory() })
    }
}
