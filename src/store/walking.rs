//! The walk of a snapshot over all shards, a step at a time; see [`store::walk`](crate::store::walk).

use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::fences::Fences;
use crate::store::hold::Exclusive;
use crate::store::key::{Key, SHARDS};
use crate::store::reclaim::Contents;
use crate::store::root::Store;
use crate::store::table::Table;
use crate::store::walk::{Visit, WalkSink};

/// What a step of the walk over the store has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// There is more to visit.
    More,
    /// A busy script holds the gate.
    Blocked,
    /// All keys of the cut were visited or given to the sink.
    All,
}

/// Where in the store the walk goes on.
#[derive(Default)]
pub(crate) struct WalkCursor {
    /// The number of the shard, counted through the databases in use.
    shard: usize,
    /// How many shards in a row had no walk.
    finished: usize,
}

impl Store {
    /// Lets a walk begin: the cut is now. What changes before the walk has reached it goes to the sink. Only one walk may be
    /// under way. Returns how many keys there are.
    pub(crate) fn begin_walk(&self, held: &mut Exclusive<'_>, sink: &Arc<dyn WalkSink>) -> usize {
        let mut count = 0;
        held.0.value.each_shard_mut(|shard| {
            count += shard.keys.len();
            shard.keys.begin_walk(sink);
        });
        self.events().set_walked(true);
        count
    }

    /// Goes on with the walk until the time is up: visits keys of one shard, which is locked meanwhile.
    pub(crate) fn walk(&self, cursor: &mut WalkCursor, is_time_up: &dyn Fn() -> bool, visit: Visit<'_>) -> Walked {
        loop {
            let Some(databases) = self.share_gate() else { return Walked::Blocked };
            let used = databases.value.used();
            if cursor.finished >= used.len() * SHARDS {
                drop(databases);
                return self.walk_handed_over(is_time_up, visit);
            }
            cursor.shard %= used.len() * SHARDS;
            let mut shard = databases.value.at(used[cursor.shard / SHARDS]).shards()[cursor.shard % SHARDS].lock();
            let went_on = shard.keys.walk(is_time_up, visit);
            parking_lot::MutexGuard::unlock_fair(shard); // who waits for it is next
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

    /// Visits keys that no command sees any more, and frees those that were visited.
    fn walk_handed_over(&self, is_time_up: &dyn Fn() -> bool, visit: Visit<'_>) -> Walked {
        let Some(mut contents) = self.reclaimer().take_unvisited() else { return Walked::All };
        let Contents { table, fences, walk, .. } = &mut contents;
        let fence = |entry: &Entry| fence_of(fences, entry, table);
        if walk.as_mut().is_none_or(|walk| walk.go_on(table, fence, is_time_up, visit)) {
            *walk = None;
        }
        self.reclaimer().free_shards(vec![contents]);
        Walked::More
    }

    /// Ends the walk, whether it has visited all keys or not.
    pub(crate) fn end_walk(&self) {
        self.events().set_walked(false);
        let mut held = self.exclusive();
        held.0.value.each_shard_mut(|shard| shard.keys.end_walk());
        drop(held);
        while let Some(mut contents) = self.reclaimer().take_unvisited() {
            contents.walk = None;
            self.reclaimer().free_shards(vec![contents]);
        }
    }
}

fn fence_of(fences: &Fences, entry: &Entry, table: &Table<Entry>) -> i64 {
    if fences.is_empty() { 0 } else { fences.get(Key { bytes: entry.key(), hash: table.hash(entry.key()) }) }
}

#[cfg(test)]
mod tests;
