//! Loading keys from a file: a bulk version of the funnel, because loaded keys have no watchers and are not logged.

use crate::store::changes::ChangeCx;
use crate::store::entry::Entry;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::field_deadlines::nearest_deadline;

impl Keys {
    /// Adds a key from a file, with its fence; returns its name if it existed already.
    pub(crate) fn load(&mut self, key: Key<'_>, entry: Entry, fence: i64, cx: &mut ChangeCx) -> Option<Box<[u8]>> {
        self.unfinished += 1;
        let is_there = self.find_undeleted(key).is_some();
        if is_there {
            self.displace(key, cx);
        }
        let nearest = nearest_deadline(&entry);
        self.attach(key, entry, cx);
        self.record_fields(key, false, nearest, cx);
        match fence {
            0 => self.interests.forget_fence(key), // a retired fence
            fence => self.set_fence(key, fence),
        }
        self.unfinished -= 1;
        is_there.then(|| key.bytes.into())
    }
}
