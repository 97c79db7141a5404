//! What stands in etcd, as protocol buffers: a later version may add fields, and changes the version of the format where an
//! earlier one would misread it.

use prost::Message;

/// The version of the format, the value of [`Name::Format`](super::names::Name::Format).
pub(super) const FORMAT: &[u8] = b"keylatch 1";

/// A key's value and what belongs to it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredKey {
    /// The number of its type, as in a dump.
    #[prost(uint32, tag = "1")]
    pub(super) kind: u32,
    /// The value, as in a dump.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) body: bytes::Bytes,
    /// Its TTL.
    #[prost(message, optional, tag = "3")]
    pub(super) ttl: Option<StoredTtl>,
    /// Its fence (SETIFGREATER); 0 without one.
    #[prost(sint64, tag = "4")]
    pub(super) fence: i64,
    /// How a string was stored, see [`StringHint`](crate::store::StringHint).
    #[prost(uint32, tag = "5")]
    pub(super) hint: u32,
    /// What is known of the lock that it is, if it is one.
    #[prost(message, optional, tag = "6")]
    pub(super) lock: Option<StoredLock>,
    /// The clients queued for it, in order.
    #[prost(message, repeated, tag = "7")]
    pub(super) queue: Vec<StoredWaiter>,
    /// When its value was last changed, if not by the transaction that has written this; 0 otherwise.
    #[prost(int64, tag = "8")]
    pub(super) value_revision: i64,
}

/// What is known of a lock that is held.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredLock {
    /// Its fencing token, or what that is counted from if it is one of this transaction's.
    #[prost(sint64, tag = "1")]
    pub(super) fence: i64,
    /// Which one then, of those that the transaction has given, from 1 on; 0 otherwise.
    #[prost(uint32, tag = "2")]
    pub(super) fence_index: u32,
    /// Since when it has been held, by the wall clock of the process that has granted it, in microseconds since 1970.
    #[prost(int64, tag = "3")]
    pub(super) since_us: i64,
    /// The client that has acquired it.
    #[prost(message, optional, tag = "4")]
    pub(super) holder: Option<StoredClient>,
    /// The client whose end releases it.
    #[prost(message, optional, tag = "5")]
    pub(super) session: Option<StoredClient>,
    /// Whether its loss is announced.
    #[prost(bool, tag = "6")]
    pub(super) is_announced: bool,
    /// A text of the holder's own.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) meta: Option<Vec<u8>>,
    /// The waits that the lock was handed over to, until one who knows the token changes the lock.
    #[prost(message, repeated, tag = "8")]
    pub(super) granted: Vec<StoredWait>,
}

/// The wait of a client in the queue for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct StoredWait {
    /// Its process.
    #[prost(fixed64, tag = "1")]
    pub(super) process: u64,
    /// Its number there.
    #[prost(uint64, tag = "2")]
    pub(super) number: u64,
}

/// A lock that is held no longer, although its holder has not released it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredLoss {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// The token.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) token: Vec<u8>,
    /// What was known of it.
    #[prost(message, required, tag = "3")]
    pub(super) lock: StoredLock,
    /// The word for the reason.
    #[prost(string, tag = "4")]
    pub(super) reason: String,
}

/// A client, and what LOCK.INFO shows of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredClient {
    /// Its process.
    #[prost(fixed64, tag = "1")]
    pub(super) process: u64,
    /// Its id there.
    #[prost(uint64, tag = "2")]
    pub(super) id: u64,
    /// Its address.
    #[prost(string, tag = "3")]
    pub(super) addr: String,
    /// Its name.
    #[prost(string, tag = "4")]
    pub(super) name: String,
    /// The name of its library.
    #[prost(string, tag = "5")]
    pub(super) lib: String,
    /// Its user.
    #[prost(bytes = "vec", tag = "6")]
    pub(super) user: Vec<u8>,
}

/// A client queued for a lock: what it asks for, so that any process can hand the lock over to it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredWaiter {
    /// The client.
    #[prost(message, required, tag = "1")]
    pub(super) client: StoredClient,
    /// Its wait.
    #[prost(message, required, tag = "2")]
    pub(super) wait: StoredWait,
    /// Its token.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) token: Vec<u8>,
    /// The TTL of the lock from when it gets it, in milliseconds; 0 for none.
    #[prost(uint64, tag = "4")]
    pub(super) ttl_ms: u64,
    /// Whether the lock ends with its connection.
    #[prost(bool, tag = "5")]
    pub(super) is_session: bool,
    /// Whether the loss of the lock is announced.
    #[prost(bool, tag = "6")]
    pub(super) is_announced: bool,
    /// A text of its own.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) meta: Option<Vec<u8>>,
    /// Since when it waits, by its process' wall clock, in microseconds since 1970.
    #[prost(int64, tag = "8")]
    pub(super) since_us: i64,
}

/// A TTL, which each process counts from the moment at which it learns of it.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StoredTtl {
    /// Made when the TTL was set, and kept by writes that keep the TTL: a process that knows it already counts on.
    #[prost(fixed64, tag = "1")]
    pub(super) id: u64,
    /// How many milliseconds were left when the value was written.
    #[prost(uint64, tag = "2")]
    pub(super) left_ms: u64,
    /// For how many milliseconds more the key is kept, because the clocks of two machines do not run equally fast.
    #[prost(uint64, tag = "3")]
    pub(super) slack_ms: u64,
    /// When it ends by the wall clock of the process that has set it, in milliseconds since 1970.
    #[prost(int64, tag = "4")]
    pub(super) wall_ms: i64,
    /// Whether it was set as a date.
    #[prost(bool, tag = "5")]
    pub(super) is_date: bool,
}

/// The value of a lane: what a transaction has done besides the present values of keys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredRecord {
    /// The number of the transaction, unique in its process.
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    /// The id of the client that has caused it; 0 for none or several.
    #[prost(uint64, tag = "2")]
    pub(super) client: u64,
    /// The keyspace events, in order.
    #[prost(message, repeated, tag = "3")]
    pub(super) events: Vec<StoredEvent>,
    /// The messages, in order.
    #[prost(message, repeated, tag = "4")]
    pub(super) messages: Vec<StoredMessage>,
    /// The databases that were emptied, before any of the other changes.
    #[prost(uint64, repeated, tag = "5")]
    pub(super) cleared: Vec<u64>,
    /// Whether all databases were.
    #[prost(bool, tag = "6")]
    pub(super) is_all_cleared: bool,
    /// The locks that were lost, before any of the other changes.
    #[prost(message, repeated, tag = "7")]
    pub(super) losses: Vec<StoredLoss>,
}

/// A keyspace event.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredEvent {
    /// The number of the database.
    #[prost(uint64, tag = "1")]
    pub(super) db: u64,
    /// The key.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    /// The bit of the event's class.
    #[prost(uint32, tag = "3")]
    pub(super) class: u32,
    /// Its name.
    #[prost(string, tag = "4")]
    pub(super) name: String,
}

/// A message of PUBLISH or SPUBLISH.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredMessage {
    /// Whether it is one of SPUBLISH.
    #[prost(bool, tag = "1")]
    pub(super) is_sharded: bool,
    /// The channel.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) channel: Vec<u8>,
    /// The message.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) payload: Vec<u8>,
}
