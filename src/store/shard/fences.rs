//! The fences of a shard's keys; see [`store::fences`](crate::store).

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::time::clock::Now;

impl Keys {
    /// The funnel: sets the entry of an existing key to one whose value was changed, or is the same: the key keeps its
    /// fence.
    pub(crate) fn rebuild(&mut self, key: Key<'_>, entry: Entry, event: &'static Event, cx: &mut ChangeCx) {
        let fence = self.interests.fence(key);
        self.replace(key, entry, false, event, 1, cx);
        self.set_fence(key, fence);
    }

    /// Returns the fence of a key; 0 without one.
    pub(crate) fn fence(&self, key: Key<'_>) -> i64 {
        self.interests.fence(key)
    }

    /// Returns the fence of a key, or that of a removed one while it is remembered.
    pub(crate) fn fence_or_memory(&self, key: Key<'_>, cx: &Cx) -> i64 {
        let since_ms = (cx.now.mono_ms() + 1).saturating_sub(self.sweep_timer.fence_memory_ms());
        self.interests.fence_since(key, since_ms)
    }

    /// Forgets the fences of removed keys that were remembered for long enough.
    pub(in crate::store) fn forget_retired_fences(&mut self, now: Now) {
        if let Some(until_ms) = now.mono_ms().checked_sub(self.sweep_timer.fence_memory_ms()) {
            self.interests.forget_retired_fences(until_ms);
        }
    }

    /// Sets the fence of an existing key; 0 is none.
    pub(crate) fn set_fence(&mut self, key: Key<'_>, fence: i64) {
        if fence != 0 {
            self.before_remark(key);
            self.interests.set_fence(key, fence);
        }
    }
}
