//! Who is connected: what CLIENT LIST and CLIENT INFO show, and the means to end a connection.
//!
//! Each client's facts are atomics that its own task writes and others read, so that listing ten
//! thousand clients stops none of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::clock::Now;
use crate::command::Registered;
use crate::config::{Config, OutputLimit};
use crate::mailbox::{END, Letter, Mailbox, OVERFLOW};
use crate::resp::{Output, Protocol};
use crate::store::NEVER;

/// How much may wait for a client whose class has no limit, in bytes: replies are held back then by not reading on,
/// but what others send cannot be.
const WAITING_MAX: u64 = 256 * 1024 * 1024;

/// Shows one client to the others.
pub struct ClientInfo {
    /// The number by which it is known, from 1 up and never used again.
    pub id: u64,
    /// The peer's address: `ip:port`, or the socket's path and `:0`.
    pub addr: String,
    /// The server's own address on this connection.
    pub laddr: String,
    /// What others leave for it, and what tells its connection to end.
    pub mailbox: Mailbox,
    is_unix: bool,
    fd: i64,
    connected_ms: u64,
    active_ms: AtomicU64,
    db: AtomicUsize,
    protocol: AtomicUsize,
    /// Commands queued by MULTI, or -1 outside.
    queued: AtomicI64,
    watched: AtomicUsize,
    query_buffer: AtomicUsize,
    output_buffer: AtomicUsize,
    /// How many channels, patterns and shard channels it is subscribed to.
    subscriptions: [AtomicU32; 3],
    /// Since when the soft output limit has been exceeded, in monotonic milliseconds, or [`NEVER`].
    over_soft_limit_ms: AtomicU64,
    last_command: Mutex<Option<&'static Registered>>,
    names: Mutex<Names>,
    /// The name of the user, see [`User::is`](crate::acl::User::is); the session sets it as soon as it exists.
    user: Mutex<Option<Arc<[u8]>>>,
}

/// Names a class of clients with an output limit of its own; the order is that of `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Those that ask and are answered, and those that watch others by MONITOR.
    Normal = 0,
    /// Those that have subscribed to anything.
    Subscriber = 2,
}

/// Names what a client may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Channels, by name.
    Channel,
    /// Channels whose names match a pattern.
    Pattern,
    /// Channels of a cluster's shard.
    ShardChannel,
}

/// Holds what the client says about itself.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// From CLIENT SETNAME or HELLO.
    pub name: String,
    /// From CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// From CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
}

/// What a listener knows about a connection that it has accepted.
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
    /// Returns whether the client is on this machine: it came through the Unix socket or the loopback interface.
    pub fn is_local(&self) -> bool {
        self.is_unix || self.addr.starts_with("127.0.0.1:") || self.addr.starts_with("[::1]:")
    }

    /// Notes which database is selected.
    pub fn set_db(&self, db: usize) {
        self.db.store(db, Relaxed);
    }

    /// Notes the protocol. Frames that wait go to the output first: they were written in the old one.
    pub fn set_protocol(&self, protocol: Protocol, out: &mut Output) {
        self.mailbox.set_protocol(protocol, out);
        self.protocol.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Relaxed);
    }

    /// Notes how many commands MULTI has queued; `None` outside a transaction.
    pub fn set_queued(&self, queued: Option<usize>) {
        self.queued.store(queued.map_or(-1, |queued| queued as i64), Relaxed);
    }

    /// Notes how many keys are watched.
    pub fn set_watched(&self, watched: usize) {
        self.watched.store(watched, Relaxed);
    }

    /// Notes that a batch was carried out, which command came last, and how much input waits after it.
    pub fn touch(&self, now: Now, last: Option<&'static Registered>, query_buffer: usize) {
        if let Some(last) = last {
            self.set_last_command(last);
        }
        self.active_ms.store(now.mono_ms, Relaxed);
        self.query_buffer.store(query_buffer, Relaxed);
    }

    /// Notes how many bytes of output the client has not taken yet.
    pub fn set_output_buffer(&self, len: usize) {
        self.output_buffer.store(len, Relaxed);
    }

    /// Notes how many subscriptions of a kind the client has.
    pub fn set_subscriptions(&self, topic: Topic, count: usize) {
        self.subscriptions[topic as usize].store(count as u32, Relaxed);
    }

    /// Returns how many subscriptions of a kind the client has.
    pub fn subscriptions(&self, topic: Topic) -> u32 {
        self.subscriptions[topic as usize].load(Relaxed)
    }

    /// Returns the class of clients it belongs to.
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

    /// Leaves a message for the client, which its own task writes between replies; returns whether that may happen. A
    /// client that already has more waiting than its class may is cut off instead.
    pub fn post(&self, letter: &mut Letter<'_>, config: &Config, now: Now) -> bool {
        let limit = self.output_limit(config);
        let most = if limit.hard_bytes == 0 { WAITING_MAX } else { limit.hard_bytes };
        let is_delivered = self.mailbox.post(letter, most.saturating_sub(self.output_buffer.load(Relaxed) as u64));
        if limit.soft_bytes != 0 && is_delivered {
            self.note_soft_limit(limit, now);
        }
        is_delivered
    }

    /// Returns how many bytes wait to be written to the client: replies, and what others left.
    pub fn waiting(&self) -> usize {
        self.output_buffer.load(Relaxed) + self.mailbox.waiting().1
    }

    /// Notes whether more waits than the soft limit allows, and cuts the client off when it has done so for too long.
    pub fn note_soft_limit(&self, limit: OutputLimit, now: Now) {
        self.set_over_soft_limit(limit.soft_bytes != 0 && self.waiting() as u64 > limit.soft_bytes, now);
        if self.over_soft_limit_for_ms(now) > u64::from(limit.soft_seconds) * 1000 {
            self.mailbox.signal(OVERFLOW);
        }
    }

    /// Notes the command last called.
    pub fn set_last_command(&self, command: &'static Registered) {
        *self.last_command.lock() = Some(command);
    }

    /// Returns what the client says about itself.
    pub fn names(&self) -> Names {
        self.names.lock().clone()
    }

    /// Changes what the client says about itself.
    pub fn update_names(&self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names.lock());
    }

    /// Notes who the client's user is.
    pub fn set_user(&self, name: &Arc<[u8]>) {
        *self.user.lock() = Some(name.clone());
    }

    /// Returns the name of the client's user, which is the user's own copy.
    pub fn user(&self) -> Option<Arc<[u8]>> {
        self.user.lock().clone()
    }

    /// The time counts from the first note.
    fn set_over_soft_limit(&self, is_over: bool, now: Now) {
        if !is_over {
            self.over_soft_limit_ms.store(NEVER, Relaxed);
        } else if self.over_soft_limit_ms.load(Relaxed) == NEVER {
            self.over_soft_limit_ms.store(now.mono_ms, Relaxed);
        }
    }

    fn over_soft_limit_for_ms(&self, now: Now) -> u64 {
        now.mono_ms.saturating_sub(self.over_soft_limit_ms.load(Relaxed))
    }

    /// Returns for how many milliseconds the client has sent nothing.
    pub fn idle_ms(&self, now: Now) -> u64 {
        now.mono_ms.saturating_sub(self.active_ms.load(Relaxed))
    }

    /// Returns the client's line of CLIENT LIST, without line end.
    pub fn line(&self, now: Now) -> String {
        let names = self.names();
        let mut line = format!("id={} addr={} laddr={} fd={}", self.id, self.addr, self.laddr, self.fd);
        let seconds = |ms: u64| now.mono_ms.saturating_sub(ms) / 1000;
        let queued = self.queued.load(Relaxed);
        let flags = match (queued >= 0, self.is_unix) {
            (true, true) => "xU",
            (true, false) => "x",
            (false, true) => "U",
            (false, false) => "N",
        };
        let output = self.output_buffer.load(Relaxed);
        let command = self.last_command.lock().map_or("NULL", |command| command.name.as_str());
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 multi={queued} watch={} qbuf={} qbuf-free=0 \
             argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={output} oll=0 omem=0 tot-mem={} events=r cmd={command} user={} \
             redir=-1 resp={} lib-name={} lib-ver={}",
            names.name,
            seconds(self.connected_ms),
            seconds(self.active_ms.load(Relaxed)),
            self.db.load(Relaxed),
            self.watched.load(Relaxed),
            self.query_buffer.load(Relaxed),
            self.query_buffer.load(Relaxed) + output,
            self.user().map_or("default".into(), |name| String::from_utf8_lossy(&name).into_owned()),
            self.protocol.load(Relaxed),
            names.lib_name,
            names.lib_ver,
        );
        line
    }
}

/// Lists everybody who is connected.
#[derive(Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// Set when the server stops: who is admitted after that ends at once. Changed under the lock of `by_id`.
    are_over: AtomicBool,
    last_id: AtomicU64,
    refused: AtomicU64,
}

impl Clients {
    /// Adds a client, unless there are `most` already.
    pub fn admit(&self, peer: Peer, now: Now, most: usize) -> Option<Arc<ClientInfo>> {
        let mut by_id = self.by_id.lock();
        if by_id.len() >= most {
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        let mailbox = Mailbox::default();
        if self.are_over.load(Relaxed) {
            mailbox.signal(END);
        }
        let info = Arc::new(ClientInfo {
            id,
            addr: peer.addr,
            laddr: peer.laddr,
            mailbox,
            is_unix: peer.is_unix,
            fd: peer.fd,
            connected_ms: now.mono_ms,
            active_ms: AtomicU64::new(now.mono_ms),
            db: AtomicUsize::new(0),
            protocol: AtomicUsize::new(2),
            queued: AtomicI64::new(-1),
            watched: AtomicUsize::new(0),
            query_buffer: AtomicUsize::new(0),
            output_buffer: AtomicUsize::new(0),
            subscriptions: Default::default(),
            over_soft_limit_ms: AtomicU64::new(NEVER),
            last_command: Mutex::new(None),
            names: Mutex::default(),
            user: Mutex::default(),
        });
        by_id.insert(id, info.clone());
        Some(info)
    }

    /// Ends every connection, and those that are admitted later.
    pub fn end_all(&self) {
        let by_id = self.by_id.lock();
        self.are_over.store(true, Relaxed);
        by_id.values().for_each(|client| client.mailbox.signal(END));
    }

    /// Removes a client that is gone.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// Returns everybody, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// Returns how many are connected.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Returns whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many connections were ever served.
    pub fn served(&self) -> u64 {
        self.last_id.load(Relaxed)
    }

    /// Returns how many connections were refused because of `maxclients`.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}
