//! Defragmentation: moves entries together where eviction has left the allocator's pages partly empty.
//!
//! The allocator fills its oldest pages first. So an entry that is allocated again usually moves to a fuller page, and
//! the page that it leaves becomes empty in the end. Old allocations are freed many at a time: the allocator reuses
//! first what a thread has freed last, so that entries moved one by one would only swap places.

use crate::store::hold::GateGuard;
use crate::store::key::SHARDS;
use crate::store::relocation::Moved;

/// The position of the next entries to move.
#[derive(Default)]
pub(super) struct Cursor {
    /// Index of the database among the databases in use.
    at: usize,
    shard: usize,
    bucket: usize,
}

impl Cursor {
    /// Moves some entries, cycling through the whole store. Returns the number of bytes copied.
    pub(super) fn compact(&mut self, hold: &mut GateGuard<'_>) -> usize {
        let (used, mut moved) = (hold.used(), Moved::default());
        for _ in 0..used.len() * SHARDS {
            let Cursor { at, shard, bucket } = *self;
            let db = used[at % used.len()];
            let next = hold.with_shard(db, shard, |shard| shard.keys.compact(bucket, &mut moved)).flatten();
            *self = match next {
                Some(bucket) => Cursor { at, shard, bucket },
                None if shard + 1 < SHARDS => Cursor { at, shard: shard + 1, bucket: 0 },
                None => Cursor { at: (at + 1) % used.len(), shard: 0, bucket: 0 },
            };
            if moved.is_enough() {
                break;
            }
        }
        moved.bytes
    }
}
