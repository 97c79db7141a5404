//! Values in etcd, as protocol buffers: a later version may add fields, and changes the version of the format if an
//! earlier version would misread a value.

use prost::Message;

use crate::store::{KeyName, LockMode};

/// The version of the format, the value of [`Name::Format`](super::names::EtcdName::Format).
pub(super) const FORMAT: &[u8] = b"keylatch 2";

/// The version before, without locks that several clients hold or ask for together. Its values are read as they are.
pub(super) const FORMER_FORMAT: &[u8] = b"keylatch 1";

/// The kind of a key that does not exist, and has a queue of clients that ask for several locks at the same time.
pub(super) const ABSENT: u32 = 1 << 16;

/// A key's value, with its TTL, fence, and lock state.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredKey {
    /// Number of the type, as in a dump, or [`ABSENT`].
    #[prost(uint32, tag = "1")]
    pub(super) kind: u32,
    /// The value, as in a dump.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) body: bytes::Bytes,
    #[prost(message, optional, tag = "3")]
    pub(super) ttl: Option<StoredTtl>,
    /// The fence (SETIFGREATER); 0 without one.
    #[prost(sint64, tag = "4")]
    pub(super) fence: i64,
    /// Storage hint of a string, see [`StringHint`](crate::store::StringHint).
    #[prost(uint32, tag = "5")]
    pub(super) hint: u32,
    /// The lock record, if the key is an exclusive lock.
    #[prost(message, optional, tag = "6")]
    pub(super) lock: Option<StoredLock>,
    /// The clients queued for the lock, in order.
    #[prost(message, repeated, tag = "7")]
    pub(super) queue: Vec<StoredWaiter>,
    /// Revision of the last change of the value, if it is not the revision of this write; 0 otherwise.
    #[prost(int64, tag = "8")]
    pub(super) value_revision: i64,
    /// The holders, if the key is a shared lock or a semaphore.
    #[prost(message, optional, tag = "9")]
    pub(super) holders: Option<StoredHolders>,
}

impl StoredKey {
    /// Creates a key that does not exist, with its queue.
    pub(super) fn absent(queue: Vec<StoredWaiter>) -> Self {
        StoredKey { kind: ABSENT, queue, ..StoredKey::default() }
    }

    /// Returns the lock records of the holders.
    pub(super) fn locks(&self) -> impl Iterator<Item = &StoredLock> {
        let shared = self.holders.iter().flat_map(|holders| &holders.holders);
        self.lock.iter().chain(shared.map(|holder| &holder.lock))
    }

    /// Returns the TTLs of the holders of a shared lock or a semaphore.
    pub(super) fn holder_ttls(&self) -> impl Iterator<Item = Option<StoredTtl>> {
        self.holders.iter().flat_map(|holders| &holders.holders).map(|holder| holder.ttl)
    }
}

/// The holders of a shared lock or a semaphore.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredHolders {
    /// Number of permits in all; 0 for a shared lock.
    #[prost(uint32, tag = "1")]
    pub(super) size: u32,
    /// The fencing token of a shared lock, or its base, as in [`StoredLock`].
    #[prost(sint64, tag = "2")]
    pub(super) fence: i64,
    #[prost(uint32, tag = "3")]
    pub(super) fence_index: u32,
    /// Time since which there has always been a holder, as in [`StoredLock`].
    #[prost(int64, tag = "4")]
    pub(super) since_us: i64,
    /// The holders, in the order in which they have acquired the lock.
    #[prost(message, repeated, tag = "5")]
    pub(super) holders: Vec<StoredHolder>,
}

/// A holder of a shared lock or a semaphore.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredHolder {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) token: Vec<u8>,
    #[prost(message, required, tag = "2")]
    pub(super) lock: StoredLock,
    /// Number of permits; 0 for a shared lock.
    #[prost(uint32, tag = "3")]
    pub(super) permits: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) ttl: Option<StoredTtl>,
}

/// The record of a holder of a lock.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredLock {
    /// The fencing token, or its base if the token is one of this transaction's.
    #[prost(sint64, tag = "1")]
    pub(super) fence: i64,
    /// Index of the token among those that the transaction has given, from 1 on; 0 otherwise.
    #[prost(uint32, tag = "2")]
    pub(super) fence_index: u32,
    /// Start of the hold, by the wall clock of the process that has granted the lock, in microseconds since 1970.
    #[prost(int64, tag = "3")]
    pub(super) since_us: i64,
    /// The client that has acquired it.
    #[prost(message, optional, tag = "4")]
    pub(super) holder: Option<StoredClient>,
    /// The client whose end releases it.
    #[prost(message, optional, tag = "5")]
    pub(super) session: Option<StoredClient>,
    /// True if its loss is announced.
    #[prost(bool, tag = "6")]
    pub(super) is_announced: bool,
    /// A text of the holder's own.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) meta: Option<Vec<u8>>,
    /// The waits that the lock was handed over to.
    #[prost(message, repeated, tag = "8")]
    pub(super) granted: Vec<StoredWait>,
    /// True if a client with the token has acquired or renewed the lock by itself since.
    #[prost(bool, tag = "9")]
    pub(super) is_kept: bool,
}

/// The wait of a client in the queue for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct StoredWait {
    #[prost(fixed64, tag = "1")]
    pub(super) process: u64,
    /// Number of the wait in its process.
    #[prost(uint64, tag = "2")]
    pub(super) number: u64,
}

/// A lock that is not held any more, although its holder has not released it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredLoss {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) token: Vec<u8>,
    /// The lock record at that time.
    #[prost(message, required, tag = "3")]
    pub(super) lock: StoredLock,
    /// The word for the reason.
    #[prost(string, tag = "4")]
    pub(super) reason: String,
}

/// A client, with the fields that LOCK.INFO shows.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredClient {
    #[prost(fixed64, tag = "1")]
    pub(super) process: u64,
    /// ID of the client in its process.
    #[prost(uint64, tag = "2")]
    pub(super) id: u64,
    #[prost(string, tag = "3")]
    pub(super) addr: String,
    #[prost(string, tag = "4")]
    pub(super) name: String,
    /// Name of the client's library.
    #[prost(string, tag = "5")]
    pub(super) lib: String,
    #[prost(bytes = "vec", tag = "6")]
    pub(super) user: Vec<u8>,
}

/// A client queued for a lock, with its request, so that any process can hand the lock over to it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredWaiter {
    #[prost(message, required, tag = "1")]
    pub(super) client: StoredClient,
    #[prost(message, required, tag = "2")]
    pub(super) wait: StoredWait,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) token: Vec<u8>,
    /// TTL of the lock from its grant on, in milliseconds; 0 for none.
    #[prost(uint64, tag = "4")]
    pub(super) ttl_ms: u64,
    /// True if the lock ends with the client's connection.
    #[prost(bool, tag = "5")]
    pub(super) is_session: bool,
    /// True if the loss of the lock is announced.
    #[prost(bool, tag = "6")]
    pub(super) is_announced: bool,
    /// Text given by the client.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) meta: Option<Vec<u8>>,
    /// Start of the wait, by the wall clock of the client's process, in microseconds since 1970.
    #[prost(int64, tag = "8")]
    pub(super) since_us: i64,
    /// True if the client asks for a shared lock.
    #[prost(bool, tag = "9")]
    pub(super) is_shared: bool,
    /// Number of permits that the client asks for; 0 for none.
    #[prost(uint32, tag = "10")]
    pub(super) permits: u32,
    /// Size of the semaphore when the client began to wait.
    #[prost(uint32, tag = "11")]
    pub(super) size: u32,
    /// The keys, if the client asks for several locks at the same time; all are in the same database.
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub(super) keys: Vec<Vec<u8>>,
    /// True if the client shares the lock and asks for it alone.
    #[prost(bool, tag = "13")]
    pub(super) is_upgrade: bool,
}

impl StoredWaiter {
    /// Returns the keys of the locks that the client, which is in the queue for this one, asks for.
    pub(super) fn awaited(&self, (db, key): &KeyName) -> Vec<KeyName> {
        match &self.keys[..] {
            [] => vec![(*db, key.clone())],
            keys => keys.iter().map(|key| (*db, key.as_slice().into())).collect(),
        }
    }

    /// Returns the mode that the client asks for.
    pub(super) fn mode(&self) -> LockMode {
        match self {
            StoredWaiter { permits: count @ 1.., size, .. } => LockMode::Permits { count: *count, size: *size },
            StoredWaiter { is_shared: true, .. } => LockMode::Shared,
            StoredWaiter { is_upgrade: true, .. } => LockMode::Upgrade,
            StoredWaiter { keys, .. } if !keys.is_empty() => LockMode::Several,
            _ => LockMode::Exclusive,
        }
    }
}

/// A client that was removed from the queue for a lock with an error.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredRefusal {
    #[prost(message, required, tag = "1")]
    pub(super) wait: StoredWait,
    /// The text of the error; empty if the reply is null.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) error: Vec<u8>,
}

/// A TTL, which each process counts from the time when it learns of the TTL.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StoredTtl {
    /// Random ID, given when the TTL was set, and retained by writes that keep the TTL: a process that knows it counts
    /// on.
    #[prost(fixed64, tag = "1")]
    pub(super) id: u64,
    /// Rest of the TTL when the value was written, in milliseconds.
    #[prost(uint64, tag = "2")]
    pub(super) left_ms: u64,
    /// Further time for which the key is kept, because the clocks of two machines do not run equally fast, in
    /// milliseconds.
    #[prost(uint64, tag = "3")]
    pub(super) slack_ms: u64,
    /// End of the TTL by the wall clock of the process that has set it, in milliseconds since 1970.
    #[prost(int64, tag = "4")]
    pub(super) wall_ms: i64,
    /// True if the TTL was set as a date.
    #[prost(bool, tag = "5")]
    pub(super) is_date: bool,
}

/// The value of the marker of a process that is a node of a cluster to clients; that of another one is empty.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredNode {
    /// Version of the fields below.
    #[prost(uint32, tag = "1")]
    pub(super) format: u32,
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(string, tag = "3")]
    pub(super) shard_id: String,
    /// The address for clients; empty if they are to use the one that they have.
    #[prost(string, tag = "4")]
    pub(super) ip: String,
    /// The port without TLS; 0 without one.
    #[prost(uint32, tag = "5")]
    pub(super) port: u32,
    /// The port with TLS; 0 without one.
    #[prost(uint32, tag = "6")]
    pub(super) tls_port: u32,
    /// The port of the bus, where nothing listens.
    #[prost(uint32, tag = "7")]
    pub(super) bus_port: u32,
    /// The host name for clients; empty without one.
    #[prost(string, tag = "8")]
    pub(super) host_name: String,
}

/// The value of a lane: effects of a transaction besides the present values of keys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredRecord {
    /// The number of the transaction, unique in its process.
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    /// ID of the client that has caused the transaction; 0 for none or several.
    #[prost(uint64, tag = "2")]
    pub(super) client: u64,
    /// The keyspace events, in order.
    #[prost(message, repeated, tag = "3")]
    pub(super) events: Vec<StoredEvent>,
    /// The messages, in order.
    #[prost(message, repeated, tag = "4")]
    pub(super) messages: Vec<StoredMessage>,
    /// The locks that were lost, before any of the other changes.
    #[prost(message, repeated, tag = "7")]
    pub(super) losses: Vec<StoredLoss>,
    /// The queued clients that were refused.
    #[prost(message, repeated, tag = "8")]
    pub(super) refusals: Vec<StoredRefusal>,
}

/// The databases that were emptied, each with the revision of that.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredFlushes {
    /// The last time that all were emptied.
    #[prost(message, optional, tag = "1")]
    pub(super) all: Option<StoredFlush>,
    /// The databases that were emptied since.
    #[prost(message, repeated, tag = "2")]
    pub(super) databases: Vec<StoredFlush>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredFlush {
    #[prost(uint64, tag = "1")]
    pub(super) db: u64,
    /// 0 for the revision of the last change of this value.
    #[prost(int64, tag = "2")]
    pub(super) revision: i64,
}

/// The libraries of functions.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredLibraries {
    /// The libraries, in the order of their names.
    #[prost(message, repeated, tag = "1")]
    pub(super) libraries: Vec<StoredLibrary>,
}

/// A library of functions.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredLibrary {
    /// Random ID, given when the library was loaded: a process that has it keeps it, with its state.
    #[prost(fixed64, tag = "1")]
    pub(super) id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredEvent {
    #[prost(uint64, tag = "1")]
    pub(super) db: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    /// Bit of the event's class.
    #[prost(uint32, tag = "3")]
    pub(super) class: u32,
    #[prost(string, tag = "4")]
    pub(super) name: String,
}

/// A message of PUBLISH or SPUBLISH.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredMessage {
    /// True for a message of SPUBLISH.
    #[prost(bool, tag = "1")]
    pub(super) is_sharded: bool,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) channel: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) payload: Vec<u8>,
}
