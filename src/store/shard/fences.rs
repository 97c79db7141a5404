//! The fences of a shard's keys; see [`store::fences`](crate::store).

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::fences::Retired;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::sidecar::Sidecar;
use crate::time::clock::Now;

/// The sidecar of fences.
pub(super) struct FenceSidecar;

impl Sidecar for FenceSidecar {
    fn on_change(keys: &mut Keys, key: Key<'_>, _: &'static Event, cx: &mut ChangeCx<'_>) {
        if keys.interests.has_fences() {
            let is_there = keys.find_undeleted(key).is_some();
            keys.interests.follow_fence(key, is_there, cx.now.mono_ms().cast_signed());
        }
    }

    fn forget_value(keys: &mut Keys, key: Key<'_>) {
        keys.interests.forget_fence(key);
    }

    fn on_swap(keys: &mut Keys, other: &mut Keys) {
        keys.interests.swap_fences(&mut other.interests);
    }
}

impl Keys {
    /// The funnel: sets the entry of an existing key to an entry with a changed value or the same value. The key keeps
    /// its fence.
    pub(crate) fn rebuild(&mut self, key: Key<'_>, entry: Entry, event: &'static Event, cx: &mut ChangeCx<'_>) {
        let fence = self.interests.fence(key);
        self.replace(key, entry, false, event, 1, cx);
        self.set_fence(key, fence);
    }

    /// Returns the fence of a key; 0 if there is none.
    pub(crate) fn fence(&self, key: Key<'_>) -> i64 {
        self.interests.fence(key)
    }

    /// Returns the fence of a key, or its retired fence while it is remembered.
    pub(crate) fn fence_or_memory(&self, key: Key<'_>, cx: &Cx) -> i64 {
        self.interests.fence_since(key, self.forgotten_until_ms(cx.now).saturating_add(1))
    }

    /// Forgets the fences of removed keys whose time is over.
    pub(in crate::store) fn forget_retired_fences(&mut self, now: Now) {
        self.interests.forget_retired_fences(self.forgotten_until_ms(now));
    }

    /// Forgets the fences of all removed keys; returns true if there were any.
    pub(in crate::store) fn forget_all_retired_fences(&mut self) -> bool {
        let has_any = self.interests.fences().remembered().0 > 0;
        if has_any {
            self.interests.forget_retired_fences(i64::MAX);
        }
        has_any
    }

    /// Returns the time, in monotonic milliseconds, up to which the fences of removed keys are forgotten.
    fn forgotten_until_ms(&self, now: Now) -> i64 {
        let memory_ms = i64::try_from(self.sweep_timer.fence_memory_ms()).unwrap_or(i64::MAX);
        now.mono_ms().cast_signed().saturating_sub(memory_ms)
    }

    /// Adds the retired fence of a key that an earlier process has removed, unless the key exists or its time is over.
    pub(crate) fn load_retired_fence(&mut self, key: Key<'_>, retired: Retired, cx: &Cx) {
        if retired.at_ms > self.forgotten_until_ms(cx.now) && self.find_undeleted(key).is_none() {
            self.interests.load_retired(key, retired);
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
