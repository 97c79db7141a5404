//! The walk of a snapshot over all shards, a step at a time; see [`store::walk`](crate::store::walk).

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::store::entry::Entry;
use crate::store::fences::Retired;
use crate::store::hold::ExclusiveHold;
use crate::store::key::{Key, SHARDS};
use crate::store::keyspace::Store;
use crate::store::reclaim::{Contents, Unvisited};
use crate::store::value::{RecordPart, WalkProgress};
use crate::store::walk::{Beside, Entries, Visitor, WalkSink, visit_elements};

/// Result of a step of the walk over the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// There is more to visit.
    More,
    /// A busy script holds the gate.
    Blocked,
    /// A command is moving the large value that is to be visited next.
    Moving,
    /// All keys of the cut were visited or given to the sink.
    All,
}

/// Position of the walk in the store.
pub(crate) struct WalkCursor {
    /// Number of the shard, counted through the databases in use.
    shard: usize,
    /// Number of shards in a row that had no walk.
    finished: usize,
    /// Number of the record of a large value of which some parts were visited, but not the last.
    record: Option<u64>,
    progress: Arc<WalkProgress>,
}

impl WalkCursor {
    /// Creates the cursor of a walk that has not begun; `progress` is shared with its records.
    pub(crate) fn new(progress: &Arc<WalkProgress>) -> Self {
        WalkCursor { shard: 0, finished: 0, record: None, progress: progress.clone() }
    }

    /// Returns true if some parts of a record were visited, but not the last: nothing else may be written before that.
    pub(crate) fn is_in_record(&self) -> bool {
        self.record.is_some()
    }
}

/// Visitor that notes the record of the last visited part.
struct Parts<'v> {
    visitor: &'v mut dyn Visitor,
    record: &'v mut Option<u64>,
}

impl Visitor for Parts<'_> {
    fn visit(&mut self, db: usize, entry: &Entry, beside: Beside<'_>) {
        self.visitor.visit(db, entry, beside);
    }

    fn visit_retired(&mut self, db: usize, key: &[u8], retired: Retired) {
        self.visitor.visit_retired(db, key, retired);
    }

    fn add_part(&mut self, part: RecordPart) {
        *self.record = (!part.is_last).then_some(part.number);
        self.visitor.add_part(part);
    }
}

impl Store {
    /// Begins a walk: the cut is now. Keys that change before the walk has reached them go to the sink. Only one walk
    /// may be in progress. Returns the number of keys.
    pub(crate) fn begin_walk(&self, held: &mut ExclusiveHold<'_>, sink: &Arc<dyn WalkSink>) -> usize {
        let mut count = 0;
        held.guard.value.each_shard_mut(|shard| {
            count += shard.keys.len();
            shard.keys.begin_walk(sink);
        });
        self.events().set_walked(true);
        count
    }

    /// Continues the walk until the time is up: visits keys of one shard, which is locked meanwhile, or elements of one
    /// large value.
    pub(crate) fn walk(
        &self,
        cursor: &mut WalkCursor,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> Walked {
        loop {
            let Some(databases) = self.share_gate() else { return Walked::Blocked };
            let used = databases.value.used();
            let count = used.len() * SHARDS;
            let lock = |shard: usize| databases.value.at(used[shard / SHARDS]).shards()[shard % SHARDS].lock();
            // Records that have begun come first, so that copies of large values are not kept for long.
            if cursor.progress.has_unfinished() {
                let (number, first) = (cursor.record, cursor.shard);
                let visitor = &mut Parts { visitor, record: &mut cursor.record };
                let mut shards = (0..count).map(|step| (first + step) % count);
                let is_visited = shards.any(|shard| {
                    let mut shard = lock(shard);
                    let is_visited = shard.keys.visit_begun(number, is_time_up, visitor);
                    MutexGuard::unlock_fair(shard); // a thread that waits for it is next
                    is_visited
                });
                return if is_visited || self.visit_begun_unseen(number, is_time_up, visitor) {
                    Walked::More
                } else {
                    Walked::Moving
                };
            }
            if cursor.finished >= count {
                // SWAPDB may have exchanged visited shards with others; while the gate is shared it cannot.
                let Some(left) = (0..count).find(|shard| lock(*shard).keys.has_walk()) else {
                    drop(databases);
                    return self.walk_unseen(is_time_up, visitor);
                };
                (cursor.shard, cursor.finished) = (left, 0);
            }
            cursor.shard %= count;
            let mut shard = lock(cursor.shard);
            let went_on = shard.keys.walk(is_time_up, visitor);
            MutexGuard::unlock_fair(shard); // as above
            match went_on {
                Some(false) => {
                    cursor.finished = 0;
                    return Walked::More;
                }
                Some(true) => cursor.finished = 0,
                None => cursor.finished += 1,
            }
            cursor.shard += 1;
            if is_time_up() {
                return Walked::More;
            }
        }
    }

    /// Visits elements of a large value that commands no longer see, and whose record has begun. Returns true if there
    /// is one.
    fn visit_begun_unseen(
        &self,
        number: Option<u64>,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> bool {
        let mut unvisited = self.reclaimer().unvisited();
        let is_of = |(entry, _): &mut (Entry, usize)| visit_elements(Some(entry), number, is_time_up, visitor);
        let Some(index) = unvisited.entries.iter_mut().position(is_of) else {
            return unvisited.shards.iter_mut().any(|contents| contents.visit_begun(number, is_time_up, visitor));
        };
        if unvisited.entries[index].0.record().is_none() {
            let visited = unvisited.entries.swap_remove(index);
            drop(unvisited);
            self.reclaimer().free_visited(visited);
        }
        true
    }

    /// Visits keys that commands no longer see, and frees the visited ones.
    fn walk_unseen(&self, is_time_up: &dyn Fn() -> bool, visitor: &mut dyn Visitor) -> Walked {
        let Some(mut contents) = self.reclaimer().unvisited().shards.pop() else { return Walked::All };
        contents.walk(is_time_up, visitor);
        self.reclaimer().free_shards(vec![contents]);
        Walked::More
    }

    /// Ends the walk. It need not have visited all keys.
    pub(crate) fn end_walk(&self) {
        self.events().set_walked(false);
        let mut held = self.exclusive();
        held.guard.value.each_shard_mut(|shard| shard.keys.end_walk());
        drop(held);
        let Unvisited { mut shards, entries } = std::mem::take(&mut *self.reclaimer().unvisited());
        shards.iter_mut().for_each(Contents::end_walk);
        self.reclaimer().free_shards(shards);
        entries.into_iter().for_each(|entry| self.reclaimer().free_visited(entry));
    }
}

impl Contents {
    /// Continues the walk over the keys.
    fn walk(&mut self, is_time_up: &dyn Fn() -> bool, visitor: &mut dyn Visitor) {
        let Some(mut walk) = self.walk.take() else { return };
        if !walk.visit_retired(&self.fences, is_time_up, visitor) {
            self.walk = Some(walk);
            return;
        }
        let fence =
            |key: &[u8], contents: &Contents| contents.fences.get(Key { bytes: key, hash: contents.table.hash(key) });
        let fence_of = |entry: &Entry| if self.fences.is_empty() { 0 } else { fence(entry.key(), self) };
        let beside = |entry: &Entry| Beside { fence: fence_of(entry), lock: None }; // locks have ended with their keys
        for name in walk.scan(&self.table, beside, is_time_up, visitor) {
            let fence = fence(&name, self);
            if let Some(entry) = self.entry(&name) {
                walk.begin(entry, Beside { fence, lock: None });
            }
        }
        self.walk = (!walk.is_over(self)).then_some(walk);
    }

    fn visit_begun(&mut self, number: Option<u64>, is_time_up: &dyn Fn() -> bool, visitor: &mut dyn Visitor) -> bool {
        let Some(mut walk) = self.walk.take() else { return false };
        let is_visited = walk.visit_begun(self, number, is_time_up, visitor);
        self.walk = Some(walk);
        is_visited
    }

    fn end_walk(&mut self) {
        if let Some(mut walk) = self.walk.take() {
            walk.end(self);
        }
    }
}

#[cfg(test)]
mod tests;
