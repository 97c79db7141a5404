//! Publication of a key's change: to the log first, then to all that have an interest in the key.

use crate::store::changes::ChangeCx;
use crate::store::cx::{Cx, Removal};
use crate::store::entry::Entry;
use crate::store::event::{self, Event};
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::fences::FenceSidecar;
use crate::store::shard::lock::LockSidecar;
use crate::store::shard::sidecar::Sidecar;
use crate::store::shard::waiters::WaiterSidecar;
use crate::store::value::Type;
use crate::time::clock::Deadline;

/// Calls a function of each sidecar: this is the list of them.
macro_rules! each_sidecar {
    ($function:ident($($argument:expr),*)) => {{
        WaiterSidecar::$function($($argument),*);
        LockSidecar::$function($($argument),*);
        FenceSidecar::$function($($argument),*);
    }};
}

impl Keys {
    #[cold]
    #[inline(never)] // keeps the path of every change short
    pub(super) fn publish_change(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        self.record_change(key, event);
        self.announce(key, event, cx);
    }

    /// Notifies all that have an interest in a key of its change.
    fn announce(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        self.record_time(key, cx.now);
        self.events.emit_change(self.db(), key.bytes, event, cx);
        if !self.interests.is_empty() {
            self.sidecars_on_change(key, event, cx);
        }
    }

    /// Handles a change of which watchers, blocked clients and caches are not notified.
    pub(super) fn changed_quietly(&mut self, key: Key<'_>, event: &'static Event, count: u64, cx: &mut ChangeCx<'_>) {
        self.changes += count;
        cx.changes_mut().add();
        self.record_change(key, event);
        self.record_time(key, cx.now);
        self.emit(key, event);
    }

    /// Announces a change of a key whose value stays the same.
    pub(super) fn touched(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        if !self.interests.is_empty() || self.events.is_observed() {
            self.announce(key, event, cx);
        }
    }

    /// Passes the change of a key to the log, which writes a record for an event that is its own record.
    pub(super) fn record_change(&self, key: Key<'_>, event: &'static Event) {
        if self.events.is_logged() {
            self.events.log_change(self.db(), key.bytes, event);
        }
    }

    /// Publishes that an existing key was set to a string.
    #[cold]
    #[inline(never)] // see Keys::publish_change
    pub(super) fn publish_text(
        &mut self,
        key: Key<'_>,
        event: &'static Event,
        (was_string, old_deadline): (bool, Option<Deadline>),
        cx: &mut ChangeCx<'_>,
    ) {
        let had_expired = old_deadline.is_some_and(|deadline| cx.has_expired(deadline));
        if event.replaces() && !had_expired {
            self.emit_overwritten(key, was_string);
        }
        if event.replaces() || had_expired {
            self.sidecars_forget_value(key);
        }
        self.publish_change(key, event, cx);
    }

    /// Emits that a value was replaced, by a value of the same type or of another.
    pub(crate) fn emit_overwritten(&self, key: Key<'_>, is_same_type: bool) {
        self.emit(key, if is_same_type { event::OVERWRITTEN } else { event::RETYPED });
    }

    /// Returns the type of a key if there is an observer of events.
    pub(crate) fn observed_type(&self, key: Key<'_>, cx: &Cx) -> Option<Type> {
        if !self.events.is_observed() {
            return None;
        }
        self.unexpired(key, cx).map(Entry::kind)
    }

    /// Logs the deletion of an expired key that is created again before it was deleted.
    pub(super) fn log_removal(&self, key: Key<'_>) {
        self.events.log_removal(self.db(), key.bytes);
    }

    /// Handles the setting of an expired key before it was deleted.
    #[cold]
    pub(super) fn record_revival(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        self.expired += 1;
        self.sidecars_on_removal(key, Removal::Expired, cx);
        self.log_removal(key);
        self.emit(key, event::EXPIRED);
        self.emit(key, event::NEW);
    }

    /// Emits an event that is not a change itself, or that summarises several.
    #[inline]
    pub(crate) fn emit(&self, key: Key<'_>, event: &'static Event) {
        self.events.emit(self.db(), key.bytes, event);
    }
}

impl Keys {
    /// See [`Sidecar::on_change`].
    pub(super) fn sidecars_on_change(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        each_sidecar!(on_change(self, key, event, cx));
    }

    /// See [`Sidecar::on_removal`].
    pub(in crate::store) fn sidecars_on_removal(&mut self, key: Key<'_>, cause: Removal, cx: &mut ChangeCx<'_>) {
        each_sidecar!(on_removal(self, key, cause, cx));
    }

    /// See [`Sidecar::forget_value`].
    pub(super) fn sidecars_forget_value(&mut self, key: Key<'_>) {
        each_sidecar!(forget_value(self, key));
    }

    /// See [`Sidecar::before_bulk_change`].
    pub(super) fn sidecars_before_bulk_change(&mut self, cause: Removal, cx: &mut ChangeCx<'_>) {
        each_sidecar!(before_bulk_change(self, cause, cx));
    }

    /// See [`Sidecar::on_bulk_change`].
    pub(super) fn sidecars_on_bulk_change(&mut self, key: Key<'_>, cause: Removal, cx: &mut ChangeCx<'_>) {
        each_sidecar!(on_bulk_change(self, key, cause, cx));
    }

    /// See [`Sidecar::on_swap`].
    pub(super) fn sidecars_on_swap(&mut self, other: &mut Keys) {
        each_sidecar!(on_swap(self, other));
    }
}
