//! Position of the last change of each shard's keys, which replies that show the keys depend on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::store::SHARDS;

/// The position behind the last record about the keys of each shard, in any database.
///
/// A shard's position is read and raised while that shard is locked, and the position of all shards while the gate is
/// held, which orders both.
pub(super) struct LastChanges {
    shards: Box<[AtomicU64; SHARDS]>,
    /// The position behind the last record about unknown keys.
    any: AtomicU64,
}

impl Default for LastChanges {
    fn default() -> Self {
        LastChanges { shards: Box::new([const { AtomicU64::new(0) }; SHARDS]), any: AtomicU64::new(0) }
    }
}

impl LastChanges {
    /// Raises the position of the given shards, or of all if the shards are not known.
    pub(super) fn raise(&self, shards: Option<&[usize]>, position: u64) {
        match shards {
            Some(shards) => shards.iter().for_each(|shard| _ = self.shards[*shard].fetch_max(position, Relaxed)),
            None => _ = self.any.fetch_max(position, Relaxed),
        }
    }

    /// Forgets all records: the log begins again at `position`.
    pub(super) fn restart(&self, position: u64) {
        self.shards.iter().chain([&self.any]).for_each(|last| last.store(position, Relaxed));
    }

    /// Returns the position behind the last record about the keys of the given shards.
    pub(super) fn of(&self, shards: &[usize]) -> u64 {
        let own = shards.iter().map(|shard| self.shards[*shard].load(Relaxed)).max();
        own.unwrap_or(0).max(self.any.load(Relaxed))
    }
}
