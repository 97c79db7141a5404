//! Watchers of keys: transactions and migrations.

use std::sync::Arc;

use crate::store::interest::{Interests, WatchFlag, flags_len, watch_len};
use crate::store::key::Key;

impl Interests {
    /// Adds a flag that is raised when the key changes.
    pub(in crate::store) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let interest = self.interest_mut(key);
        let before = flags_len(&interest.flags);
        interest.flags.push(flag.clone());
        let (is_first, grown) = (interest.flags.len() == 1, flags_len(&interest.flags) - before);
        self.counts.watched += u32::from(is_first);
        self.bytes += watch_len(key.bytes) + grown;
        self.report();
    }

    /// Removes a flag from a key.
    pub(in crate::store) fn unwatch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let Some(interest) = self.find_mut(key) else { return };
        let (before, len) = (interest.flags.len(), flags_len(&interest.flags));
        interest.flags.retain(|other| !Arc::ptr_eq(&other.0, &flag.0));
        let (removed, is_last) = (before - interest.flags.len(), interest.flags.is_empty());
        if is_last {
            interest.flags = Vec::new();
        }
        let shrunk = len - flags_len(&interest.flags);
        self.counts.watched -= u32::from(removed > 0 && is_last);
        self.bytes -= removed * watch_len(key.bytes) + shrunk;
        self.forget_unless_wanted(key);
    }

    /// Raises the flags of the watchers of a changed key.
    pub(in crate::store) fn raise_flags(&self, key: Key<'_>) {
        self.find(key).iter().flat_map(|interest| &interest.flags).for_each(WatchFlag::raise);
    }
}
