//! The walk of a snapshot over the keys of a shard; see [`store::walk`](crate::store::walk).

use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::walk::{Beside, TableWalk, Visitor, WalkSink};

impl Keys {
    /// Begins a walk over the present keys and fences, if there are any.
    pub(in crate::store) fn begin_walk(&mut self, sink: &Arc<dyn WalkSink>) {
        self.walk =
            (!self.is_empty() || self.interests.has_fences()).then(|| Box::new(TableWalk::new(self.db(), sink)));
    }

    /// Gives a key that is about to change to the walk, if there is one.
    pub(super) fn give_to_walk(&mut self, key: Key<'_>) {
        self.with_walk(|walk, keys| {
            let retired = keys.interests.fences().retired(key);
            let (entry, beside) = keys.entry_and_beside(key);
            walk.before_change(key, entry, beside, retired);
        });
    }

    /// Returns the state of a key besides its entry.
    fn beside(&self, key: Key<'_>) -> Beside<'_> {
        Beside { fence: self.fence(key), lock: self.held_lock(key) }
    }

    /// Adds a key to the walk whose value has come from another key, if the value's record has begun.
    #[cold]
    pub(super) fn follow_record(&mut self, key: Key<'_>) {
        if self.find_undeleted(key).is_some_and(|entry| entry.record().is_some()) {
            self.walk.get_or_insert_with(|| Box::new(TableWalk::of_begun())).add_begun(key.bytes);
        }
    }

    /// Continues the walk over the keys until the time is up; returns true if it is over, `None` if there is none.
    pub(in crate::store) fn walk(&mut self, is_time_up: &dyn Fn() -> bool, visitor: &mut dyn Visitor) -> Option<bool> {
        let is_over = self.with_walk(|walk, keys| {
            if !walk.visit_retired(keys.interests.fences(), is_time_up, visitor) {
                return false;
            }
            let has_any = !keys.interests.is_empty();
            let beside = |entry: &Entry| if has_any { keys.beside(keys.key(entry.key())) } else { Beside::default() };
            for name in walk.scan(keys.table(), beside, is_time_up, visitor) {
                let (entry, beside) = keys.entry_and_beside(keys.key(&name));
                if let Some(entry) = entry {
                    walk.begin(entry, beside);
                }
            }
            walk.is_over(keys)
        })?;
        if is_over {
            self.walk = None;
        }
        Some(is_over)
    }

    /// Visits elements of a large value whose record has begun, as [`TableWalk::visit_begun`] does.
    pub(in crate::store) fn visit_begun(
        &mut self,
        number: Option<u64>,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> bool {
        self.with_walk(|walk, keys| walk.visit_begun(keys, number, is_time_up, visitor)).unwrap_or(false)
    }

    /// Returns true if there is a walk.
    pub(in crate::store) fn has_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Ends the walk, if there is one.
    pub(in crate::store) fn end_walk(&mut self) {
        self.with_walk(|walk, keys| walk.end(keys));
        self.walk = None;
    }

    /// Runs a closure on the walk, if there is one, and on the keys.
    fn with_walk<R>(&mut self, act: impl FnOnce(&mut TableWalk, &mut Keys) -> R) -> Option<R> {
        let mut walk = self.walk.take()?;
        let result = act(&mut walk, self);
        self.walk = Some(walk);
        Some(result)
    }
}
