//! Changes made by the call of a view, for the log of effects.

use crate::store::change_records::{Change, ChangeRecord, ChangeRecords};
use crate::store::entry::Entry;
use crate::store::key::KeyName;
use crate::store::view::View;

impl View<'_> {
    /// Calls `visit` for each change of a key's value by this call, and by calls nested in it, with the key's entry and
    /// its fence; 0 is none. Only changed values are looked up, or values with a changed deadline, too
    /// (`with_deadlines`).
    pub(crate) fn visit_changes(
        &mut self,
        with_deadlines: bool,
        mut visit: impl FnMut(ChangeRecord<'_>, Option<&Entry>, i64),
    ) {
        let View { access, cx, .. } = self;
        for record in cx.own_records().filter_map(|position| cx.record_at(position)) {
            let is_read = match record.change {
                Some(Change::Value) => true,
                Some(Change::Deadline(_)) => with_deadlines,
                Some(Change::Removal) => false,
                None => continue,
            };
            access.with_any(record.db, record.key, |shard| {
                let entry = if is_read { shard.keys.unexpired(record.key, cx) } else { None };
                let fence = entry.map_or(0, |_| shard.keys.fence(record.key));
                visit(record, entry, fence);
            });
        }
    }

    /// Returns true if the call may have changed locks.
    #[inline]
    pub(crate) fn may_have_changed_locks(&self) -> bool {
        self.cx.has_lock_records()
    }

    /// Returns the keys whose locks this call and calls nested in it have changed, each with the number of its
    /// database.
    pub(crate) fn changed_locks(&self) -> Vec<KeyName> {
        let changed = self.cx.own_records().filter_map(|position| self.cx.record_at(position));
        let mut locks: Vec<KeyName> =
            changed.filter(|record| record.is_lock).map(|record| (record.db, record.key.bytes.into())).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }

    /// Begins the changes of this call: those before it, by others in this view, are logged.
    pub(crate) fn begin_changes(&mut self) {
        self.cx.renew();
    }

    /// Takes all changes of the hold that are not logged yet, so that the caller logs them.
    pub(crate) fn take_changes(&mut self) -> ChangeRecords {
        self.cx.take_records()
    }

    /// Forgets all changes of the hold: they are logged.
    pub(crate) fn forget_changes(&mut self) {
        self.cx.clear_records();
    }
}
