//! Fences of keys, kept with the interests so that a change has to look in one place only.

use crate::store::fences::{Fences, Retired};
use crate::store::interest::Interests;
use crate::store::key::Key;

impl Interests {
    pub(in crate::store) fn has_fences(&self) -> bool {
        !self.fences.is_empty()
    }

    /// Returns the fence of a key; 0 if there is none.
    pub(in crate::store) fn fence(&self, key: Key<'_>) -> i64 {
        self.fences.get(key)
    }

    pub(in crate::store) fn set_fence(&mut self, key: Key<'_>, fence: i64) {
        self.fences.set(key, fence);
        self.report();
    }

    pub(in crate::store) fn fences(&self) -> &Fences {
        &self.fences
    }

    /// Adds the retired fence of a key that an earlier process has removed.
    pub(in crate::store) fn load_retired(&mut self, key: Key<'_>, retired: Retired) {
        self.fences.load_retired(key, retired);
        self.share.note_retired_fence();
        self.report();
    }

    /// Returns the fence of a key, or its retired fence if it was removed at `since_ms` or later; 0 if there is none.
    pub(in crate::store) fn fence_since(&self, key: Key<'_>, since_ms: i64) -> i64 {
        self.fences.get_since(key, since_ms)
    }

    /// Updates the fence after a change of a key: retires the fence of a removed key, forgets the retired fence of a
    /// key that exists without a fence.
    pub(in crate::store) fn follow_fence(&mut self, key: Key<'_>, is_there: bool, now_ms: i64) {
        if !is_there {
            self.fences.retire(key, now_ms);
        } else if self.fences.get(key) == 0 {
            self.fences.forget(key);
        } else {
            return;
        }
        self.share.note_retired_fence();
        self.report();
    }

    /// Forgets the fences of keys that were removed at `until_ms` or before.
    pub(in crate::store) fn forget_retired_fences(&mut self, until_ms: i64) {
        if self.has_fences() {
            self.fences.forget_retired(until_ms);
            self.report();
        }
    }

    pub(in crate::store) fn forget_fence(&mut self, key: Key<'_>) {
        if self.has_fences() {
            self.fences.forget(key);
            self.report();
        }
    }

    /// Forgets all fences and returns them.
    pub(in crate::store) fn take_fences(&mut self) -> Fences {
        let fences = std::mem::take(&mut self.fences);
        self.report();
        fences
    }

    /// Swaps the fences with the fences of another shard.
    pub(in crate::store) fn swap_fences(&mut self, other: &mut Interests) {
        std::mem::swap(&mut self.fences, &mut other.fences);
        self.report();
        other.report();
    }
}
