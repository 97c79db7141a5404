//! The store: databases, each divided into shards. Memory only: no wire, no sessions, no async, no clock.
//!
//! **Lock order.** First the gate, then shards in ascending order, each once.
//! - An ordinary call holds the gate *shared* ([`Store::hold`], for a whole pipelined batch) and locks
//!   the shards of its declared keys ([`GateGuard::view`]).
//! - Scripts and other calls whose keys are not known beforehand hold the gate *exclusively*
//!   ([`Store::exclusive`]); every shard is then plain `&mut` and none is locked. Where one thread executes all
//!   commands, a long batch does so too ([`Store::hold`]).
//! - Eviction ([`Store::evict_to_fit`]) takes the evictor between the gate and a shard, and compaction
//!   ([`Store::compact`]) the cursor.
//! - No other code takes two locks, and no code awaits while it holds one.
//!
//! Invariant: a key is read and changed only through a [`View`], and changes only in the funnel of its [`Shard`].

mod change_records;
mod changes;
mod compact;
pub(crate) mod cx;
mod databases;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod evict;
pub(crate) mod expire;
pub(crate) mod fences;
mod gate;
mod generation;
mod hold;
mod image;
mod interest;
mod key;
mod keyspace;
pub(crate) mod limits;
mod lock;
pub(crate) mod memory_account;
mod prefetch;
mod queues;
pub(crate) mod reclaim;
mod relocation;
pub(crate) mod resident;
mod services;
pub(crate) mod shard;
mod side_record;
mod sweep;
mod sync;
pub(crate) mod table;
mod tail_work;
pub(crate) mod usage;
pub(crate) mod value;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod walking;

pub(crate) use change_records::{Change, ChangeRecord, ChangeRecords};
pub(crate) use cx::{Cx, Lookup, Origin, Removal};
pub(crate) use event::{ChangeLog, Classes, Event, EventSink, KeyspaceObserver};
pub(crate) use evict::{Eviction, EvictionPolicy};
pub(crate) use expire::{NEVER, SweepTimer};
pub(crate) use gate::BusyFlag;
pub(crate) use hold::{ExclusiveHold, GateGuard};
pub(crate) use image::{ByKey, CopyLimit, Image, TooLarge};
pub(crate) use interest::WatchFlag;
pub(crate) use key::{Key, KeyName, SHARDS};
pub(crate) use keyspace::Store;
pub(crate) use limits::{ListLimit, PackedLimit, StreamLimit};
pub(crate) use lock::{
    HeldLock, HoldGuard, Holder, Holders, LockHolder, LockImage, LockMode, LockRecord, LockWaiter, LossReason,
    LostLock, SeenLock, Sharing, first_of, is_shared_value,
};
pub(crate) use memory_account::{MemoryAccount, ReportedMemory};
pub(crate) use prefetch::PrefetchElement;
pub(crate) use queues::Waiter;
pub(crate) use shard::{Shard, Totals, nearest_deadline, remove_expired_elements};
pub(crate) use side_record::SideRecord;
pub(crate) use table::{Hasher, SCAN_POSITIONS};
pub(crate) use value::stream::{
    BigStream, Bound, Consumer, ConsumerGroup, ConsumerNumber, PendingEntry, Producers, References, Remembrance,
    Stream, StreamChunk, StreamEntry, StreamId, StreamRef, Trim, Trimmed, entries_of,
};
pub(crate) use value::{List, ListBuilder, ListEnd, ListNode, ListRef, NodeLimit, Str, StringHint, WrongType};
pub(crate) use view::{AdoptedLock, LookupCounts, Ttl, View};

/// Number of cursors of a scan of a database: one for every position of every shard's table.
pub(crate) const SCAN_CURSORS: u64 = SHARDS as u64 * table::SCAN_POSITIONS;
