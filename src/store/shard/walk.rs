//! The walk of a snapshot over the keys of a shard; see [`store::walk`](crate::store::walk).

use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::walk::{Walk, WalkSink};

impl Keys {
    /// Lets a walk over the present keys begin, if there are any.
    pub(in crate::store) fn begin_walk(&mut self, sink: &Arc<dyn WalkSink>) {
        self.walk = (!self.is_empty()).then(|| Box::new(Walk::new(self.db(), sink)));
    }

    /// Gives a key that is about to change to the walk, if there is one.
    pub(super) fn give_to_walk(&mut self, key: Key<'_>) {
        if let Some(mut walk) = self.walk.take() {
            walk.before_change(key, self.find_undeleted(key), self.fence(key));
            self.walk = Some(walk);
        }
    }

    /// Goes on with the walk until the time is up; returns whether it has visited all keys, or `None` where there is none.
    pub(in crate::store) fn walk(
        &mut self,
        is_time_up: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(usize, &Entry, i64),
    ) -> Option<bool> {
        let mut walk = self.walk.take()?;
        let fence = |entry: &Entry| if self.interests.has_fences() { self.fence(self.key(entry.key())) } else { 0 };
        let is_over = walk.go_on(self.table(), fence, is_time_up, visit);
        self.walk = (!is_over).then_some(walk);
        Some(is_over)
    }

    /// Ends the walk, if there is one.
    pub(in crate::store) fn end_walk(&mut self) {
        self.walk = None;
    }
}
