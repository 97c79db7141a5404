//! The guard by which handlers change a value in place.

use std::marker::PhantomData;

use crate::store::changes::ChangeCx;
use crate::store::cx::{Cx, Lookup};
use crate::store::entry::Entry;
use crate::store::event::{self, Event};
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::keys::{is_expired, record_use};
use crate::store::table::SlotPosition;
use crate::store::value::{DataType, WrongType};

/// Guard of a key's value, existing or not, to read and change it. When dropped, it accounts for the change: memory,
/// deletion of a key whose value became empty, and the event. Without a change only the memory is settled, and a
/// missing key stays missing.
pub struct Edit<'v, 'r, K: DataType> {
    keys: &'v mut Keys,
    key: Key<'v>,
    event: &'static Event,
    cx: &'v mut ChangeCx<'r>,
    /// Position of the entry, if the key exists. It stays valid, because the shard is borrowed.
    place: Option<SlotPosition>,
    /// Memory of the entry that the shard has counted.
    memory: usize,
    is_new: bool,
    /// True if the key is to be deleted, even if its value is not empty.
    is_emptied: bool,
    /// True if watchers and blocked clients are not notified.
    is_quiet: bool,
    /// True if elements of the value had deadlines.
    had_deadlines: bool,
    changes: u64,
    /// True once the value was borrowed mutably, so that its memory may differ.
    is_lent: bool,
    /// True once the value was changed, even if the change is not counted.
    is_changed: bool,
    /// True if the event is emitted even if nothing has changed.
    is_touched: bool,
    /// True if the creation of a key is published even though the key is deleted in the end.
    is_passing_shown: bool,
    kind: PhantomData<K>,
}

impl Keys {
    /// Opens the value of a key for a change; this is a use of the key.
    #[inline(always)] // see View::edit
    pub(crate) fn open<'v, 'r, K: DataType>(
        &'v mut self,
        key: Key<'v>,
        event: &'static Event,
        cx: &'v mut ChangeCx<'r>,
    ) -> Result<Edit<'v, 'r, K>, WrongType> {
        let (table, memory_account, dice) = self.table_and_usage();
        let (place, memory, had_deadlines) = match table.locate(key.hash, key.bytes) {
            Some((place, entry)) if !is_expired(entry, cx) => {
                if Lookup::WRITE.is_use(cx.lookup) {
                    record_use(entry, memory_account, dice, cx.now);
                }
                if !entry.is_of(K::TYPE) {
                    return Err(WrongType);
                }
                (Some(place), K::memory(entry), K::nearest_deadline(entry).is_some())
            }
            // An expired key that cannot be deleted yet counts as missing.
            Some(_) => {
                self.delete_expired(key, cx);
                (None, 0, false)
            }
            None => (None, 0, false),
        };
        Ok(Edit {
            keys: self,
            key,
            event,
            cx,
            place,
            memory,
            is_new: false,
            is_emptied: false,
            is_quiet: false,
            had_deadlines,
            changes: 0,
            is_lent: false,
            is_changed: false,
            is_touched: false,
            is_passing_shown: false,
            kind: PhantomData,
        })
    }
}

impl<K: DataType> Edit<'_, '_, K> {
    /// Returns true if the key exists.
    pub fn exists(&self) -> bool {
        self.place.is_some()
    }

    /// Returns true if anything was changed so far.
    pub fn is_changed(&self) -> bool {
        self.changes > 0
    }

    /// Borrows the value for reading; a missing key reads as the empty value.
    #[inline]
    pub fn value(&self) -> K::Ref<'_> {
        match self.entry() {
            Some(entry) => K::read(entry),
            None => K::nothing(),
        }
    }

    /// Returns the context of the call.
    pub fn cx(&self) -> Cx {
        **self.cx
    }

    /// Sets the event of the change, if it depends on the change.
    pub fn set_event(&mut self, event: &'static Event) {
        self.event = event;
    }

    /// Makes the changes quiet: they are counted and logged and have an event, but watchers, blocked clients and caches
    /// are not notified. For example, the entries that a consumer of a stream has read and acknowledged are not
    /// content.
    pub fn keep_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// Notifies blocked clients of quiet changes.
    pub fn wake_blocked(&mut self) {
        self.keys.interests.mark_ready(self.key);
    }

    /// Counts more changes of the value than the calls of [`Edit::change`], for example if one call adds several
    /// elements.
    pub fn count_more(&mut self, changes: usize) {
        self.is_changed |= changes > 0;
        self.changes += changes as u64;
    }

    /// Marks the change as one to be logged, even if it does not count.
    pub fn record(&mut self) {
        self.is_changed = true;
    }

    /// Publishes the creation of a key that is empty, and so deleted, in the end.
    pub fn show_passing(&mut self) {
        self.is_passing_shown = true;
    }

    /// Emits the event, and wakes watchers, even if nothing is changed.
    pub fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Borrows the value for a change; a missing key is created.
    #[inline]
    pub fn change(&mut self) -> K::Mut<'_> {
        self.changes += 1;
        self.change_uncounted()
    }

    /// Borrows the value, as [`Edit::change`] does, for a part of a change that is counted elsewhere.
    #[inline]
    pub fn change_uncounted(&mut self) -> K::Mut<'_> {
        self.is_changed = true;
        self.lend();
        if self.place.is_none() {
            self.create();
        }
        K::write(self.entry_mut().expect("it was created where it was missing"))
    }

    /// Marks the key for deletion at the end, as if each of its elements had been removed, and counts `changes`. The
    /// value stays readable until then, and is freed as a whole, in the background if it is large.
    pub fn empty(&mut self, changes: usize) {
        self.is_emptied = true;
        self.lend();
        self.count_more(changes);
    }

    /// Borrows the value of an existing key for an operation that is not counted as a change, such as another encoding,
    /// or is counted later.
    pub fn annotate(&mut self) -> Option<K::Mut<'_>> {
        self.lend();
        self.entry_mut().map(K::write)
    }

    /// Begins a change, which ends when the guard is dropped without a panic.
    #[inline]
    fn lend(&mut self) {
        self.keys.unfinished += u16::from(!self.is_lent);
        self.is_lent = true;
    }

    #[cold]
    fn create(&mut self) {
        self.keys.displace(self.key, self.cx);
        let entry = K::create(self.key.bytes);
        self.memory = K::memory(&entry);
        self.keys.attach(self.key, entry, self.cx);
        self.place = self.keys.table().locate(self.key.hash, self.key.bytes).map(|(place, _)| place);
        self.is_new = true;
    }

    /// Accounts for the present memory of the value, and for the deadlines of its elements. Returns true if the value
    /// is empty.
    #[inline]
    fn settle(&mut self) -> bool {
        if self.is_new
            && let Some(entry) = self.entry_mut()
        {
            entry.fit(); // most collections are not changed again
        }
        let Some(entry) = self.entry() else { return false };
        self.keys.events.pass_half_way(self.key.hash);
        let (memory, nearest, is_empty) = (K::memory(entry), K::nearest_deadline(entry), K::is_empty(entry));
        if memory != self.memory {
            self.keys.resized(memory as isize - self.memory as isize);
        }
        self.keys.record_fields(self.key, K::TYPE, self.had_deadlines, nearest, self.cx);
        is_empty
    }

    #[inline]
    fn entry(&self) -> Option<&Entry> {
        self.keys.table().at(self.place?)
    }

    #[inline]
    fn entry_mut(&mut self) -> Option<&mut Entry> {
        self.keys.entry_mut(self.key, self.place?, self.cx)
    }
}

impl<K: DataType> Drop for Edit<'_, '_, K> {
    fn drop(&mut self) {
        // A value whose change was interrupted is not looked at: it may be damaged and could panic again. The change
        // stays unfinished, so that the shard recovers.
        if !std::thread::panicking() {
            self.account();
            self.keys.unfinished -= u16::from(self.is_lent);
        }
    }
}

impl<K: DataType> Edit<'_, '_, K> {
    /// Accounts for the change, if there was one.
    #[inline]
    fn account(&mut self) {
        // A value that was not lent is unchanged, and so not empty.
        let is_empty = self.is_lent && self.settle() || self.is_emptied;
        if !self.is_changed && !self.is_touched {
            return;
        }
        if is_empty && let Some(emptied) = self.keys.detach(self.key, self.cx) {
            self.keys.reclaimer.free(emptied);
        }
        if self.is_new && is_empty && !self.is_passing_shown {
            return; // it was never visible
        }
        if self.is_quiet && !self.is_new && !is_empty {
            return self.keys.changed_quietly(self.key, self.event, self.changes, self.cx);
        }
        if self.is_new {
            self.keys.emit(self.key, event::NEW);
        }
        if self.is_changed {
            self.keys.changed(self.key, self.event, self.changes, self.cx);
        } else {
            self.keys.touched(self.key, self.event, self.cx);
        }
        if is_empty {
            self.keys.emit(self.key, Event::DEL);
        }
    }
}
