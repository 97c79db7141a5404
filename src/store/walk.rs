//! The walk of a snapshot over the keys: it visits each as it was at one moment, the *cut*, while commands change them.
//!
//! At the cut, with the gate held exclusively, every shard gets a [`Walk`]. A thread then visits the keys of one shard
//! after another in the order of a scan, whose positions keep their meaning while the table grows and shrinks. Whatever
//! changes a key that the walk has not reached gives it to the [`WalkSink`] first, as it is until then, and the walk
//! passes over it; a key that is created after the cut is passed over, too. So each key of the cut is visited once, and
//! nothing is copied but what changes meanwhile.
//!
//! A walk belongs to the table: SWAPDB swaps both, and FLUSHALL hands both over, so that the walk goes on in what is no
//! longer there for commands.

use std::collections::HashSet;
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::fences::Fences;
use crate::store::hold::Exclusive;
use crate::store::key::{Key, SHARDS};
use crate::store::reclaim::Contents;
use crate::store::root::Store;
use crate::store::table::{Table, scan_position};

/// Takes keys that are changed before the walk has reached them. It is called while their shard is locked.
pub(crate) trait WalkSink: Send + Sync {
    /// Takes a key as it was at the cut, with the number that its database had then, and its fence.
    fn add_former(&self, db: usize, entry: &Entry, fence: i64);
}

/// Visits a key: the number that its database had at the cut, the key with its value, and its fence.
type Visit<'v> = &'v mut dyn FnMut(usize, &Entry, i64);

/// The walk over the keys of one table.
pub(super) struct Walk {
    /// The number of the database at the cut.
    db: usize,
    /// The scan position up to which keys were visited.
    position: u64,
    /// The keys beyond the position that are not to be visited: they were given to the sink, or created after the cut.
    passed_over: HashSet<Box<[u8]>, ahash::RandomState>,
    sink: Arc<dyn WalkSink>,
}

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

impl Walk {
    /// Begins a walk.
    pub(super) fn new(db: usize, sink: &Arc<dyn WalkSink>) -> Self {
        Walk { db, position: 0, passed_over: HashSet::default(), sink: sink.clone() }
    }

    /// Gives a key to the sink that is about to change, unless it was reached or given before. `entry` is what it holds,
    /// if it exists.
    pub(super) fn before_change(&mut self, key: Key<'_>, entry: Option<&Entry>, fence: i64) {
        if scan_position(key.hash) < self.position || self.passed_over.contains(key.bytes) {
            return;
        }
        entry.iter().for_each(|entry| self.sink.add_former(self.db, entry, fence));
        self.passed_over.insert(key.bytes.into());
    }

    /// Visits keys until the time is up; returns whether that were all.
    pub(super) fn go_on(
        &mut self,
        table: &Table<Entry>,
        fence: impl Fn(&Entry) -> i64,
        is_time_up: &dyn Fn() -> bool,
        visit: Visit<'_>,
    ) -> bool {
        loop {
            let Walk { db, position, passed_over, .. } = self;
            let next = table.scan(*position, |entry| {
                if passed_over.is_empty() || !passed_over.remove(entry.key()) {
                    visit(*db, entry, fence(entry));
                }
            });
            match next {
                Some(next) => self.position = next,
                None => return true,
            }
            if is_time_up() {
                return false;
            }
        }
    }
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
