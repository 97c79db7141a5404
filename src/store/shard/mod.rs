//! One shard: part of the keys of a database ([`Keys`]), with expiry and eviction (`sweep.rs`), and the clients that
//! wait for keys (`locks.rs`).

mod edit;
mod fences;
mod field_deadlines;
mod fields;
mod findings;
mod image;
mod keys;
mod lock;
mod publish;
mod recount;
mod sidecar;
mod totals;
mod waiters;
mod walk;

use crate::store::changes::ChangeCx;
use crate::store::entry::Entry;
use crate::store::services::Services;

pub(crate) use edit::Edit;
pub(super) use field_deadlines::wall_ms;
pub(crate) use field_deadlines::{nearest_deadline, remove_expired_elements};
pub(crate) use keys::Keys;
use keys::is_expired;
pub(crate) use totals::Totals;

/// Part of the keys of a database.
///
/// The size of a shard should not be a power of two, so that the first cache lines of all shards do not fall into the
/// same few sets of the processor's cache.
#[repr(C)]
pub(crate) struct Shard {
    pub(crate) keys: Keys,
    /// Counts of keys that were removed without a call, once there was one.
    removed: Option<Box<RemovalCounts>>,
}

/// Counts of the keys that were removed without a call.
#[derive(Clone, Copy, Default)]
pub(super) struct RemovalCounts {
    /// Expired keys that the sweeper deleted.
    pub(super) swept: u64,
    pub(super) evicted: u64,
}

// With the lock in front and padded to 128 bytes, 64 shards are 24 KB and not 32.
const _: () = assert!(size_of::<Shard>() <= 376);

impl Shard {
    /// Creates an empty shard of a database, which allocates on first use.
    pub(crate) fn new(place: (usize, usize), services: &Services) -> Self {
        Shard { keys: Keys::new(place, services), removed: None }
    }

    /// Repairs the shard after a panic, see [`Keys::recover`], and hands over the keys whose changes the panic has kept
    /// from being logged.
    pub(crate) fn recover(&mut self, cx: &mut ChangeCx<'_>) {
        self.keys.events.interrupt(&cx.take_records());
        self.keys.recover(cx);
    }

    pub(crate) fn totals(&self) -> Totals {
        let RemovalCounts { swept, evicted } = self.removed();
        Totals { swept, evicted, ..self.keys.totals() }
    }

    fn removed(&self) -> RemovalCounts {
        self.removed.as_deref().copied().unwrap_or_default()
    }

    /// Counts a key that was removed.
    pub(super) fn count_removed(&mut self, count: impl FnOnce(&mut RemovalCounts)) {
        count(self.removed.get_or_insert_default());
    }

    /// Returns the number of keys and fields that the sweeper has removed.
    pub(crate) fn swept_count(&self) -> u64 {
        self.removed().swept + self.keys.fields.as_ref().map_or(0, |fields| fields.swept)
    }

    /// Visits the keys at a scan position, each with a flag that it has expired; see
    /// [`Table::scan`](crate::store::table::Table::scan). Deletes the expired keys for which `visit` returns true.
    pub(crate) fn scan(
        &mut self,
        position: u64,
        cx: &mut ChangeCx<'_>,
        mut visit: impl FnMut(&Entry, bool) -> bool,
    ) -> Option<u64> {
        let mut expired = Vec::new();
        let next = self.keys.table().scan(position, |entry| {
            let is_expired = is_expired(entry, cx);
            if visit(entry, is_expired) && is_expired {
                expired.push(entry.key().to_vec());
            }
        });
        for bytes in &expired {
            self.keys.peek(self.keys.key(bytes), cx);
        }
        next
    }
}
