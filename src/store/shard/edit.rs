//! The guard with which handlers change a value in place.

use std::marker::PhantomData;

use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::{self, Event};
use crate::store::shard::{Key, Shard, is_expired};
use crate::store::table::Place;
use crate::store::value::{Kind, WrongType};

/// Lends the value of a key, or of a key that does not exist yet, to be read and changed. When it is dropped it settles
/// what has changed: the memory that is counted, a key whose value has become empty, and the event. Where nothing was
/// changed, nothing happens, and a missing key stays missing.
pub struct Edit<'v, K: Kind> {
    shard: &'v mut Shard,
    key: Key<'v>,
    event: &'static Event,
    cx: Cx,
    /// Where the entry is, if the key exists. The shard is borrowed, so it stays there.
    place: Option<Place>,
    /// What the entry took, as far as the shard has counted it.
    memory: usize,
    is_new: bool,
    changes: u64,
    /// How often the view has changed keys.
    view_changes: &'v mut u32,
    kind: PhantomData<K>,
}

impl Shard {
    /// Opens the value of a key to be changed.
    pub(crate) fn open<'v, K: Kind>(
        &'v mut self,
        key: Key<'v>,
        event: &'static Event,
        cx: Cx,
        view_changes: &'v mut u32,
    ) -> Result<Edit<'v, K>, WrongType> {
        // What has expired and may not be removed yet counts as missing.
        let found = self.table.locate(key.hash, key.bytes).filter(|(_, entry)| !is_expired(entry, &cx));
        let (place, memory) = match found {
            Some((_, entry)) if !entry.is_of(K::TYPE) => return Err(WrongType),
            Some((place, entry)) => (Some(place), entry.memory()),
            None => (None, 0),
        };
        Ok(Edit {
            shard: self,
            key,
            event,
            cx,
            place,
            memory,
            is_new: false,
            changes: 0,
            view_changes,
            kind: PhantomData,
        })
    }
}

impl<K: Kind> Edit<'_, K> {
    /// Returns whether the key exists.
    pub fn exists(&self) -> bool {
        self.place.is_some()
    }

    /// Returns whether anything was changed so far.
    pub fn is_changed(&self) -> bool {
        self.changes > 0
    }

    /// Lends the value to be read; a key that does not exist has the empty one.
    pub fn value(&self) -> K::Ref<'_> {
        match self.entry() {
            Some(entry) => K::read(entry),
            None => K::nothing(),
        }
    }

    /// Lends the value to be changed; the key is created where it does not exist.
    pub fn change(&mut self) -> K::Mut<'_> {
        self.changes += 1;
        if self.place.is_none() {
            self.create();
        }
        K::write(self.entry_mut().expect("it was created where it was missing"))
    }

    /// Lends the value of a key that exists, for something that is no change of it.
    pub fn annotate(&mut self) -> Option<K::Mut<'_>> {
        self.entry_mut().map(K::write)
    }

    fn create(&mut self) {
        self.shard.displace(self.key, &self.cx);
        let entry = K::create(self.key.bytes);
        self.memory = entry.memory();
        self.shard.attach(self.key, entry, &self.cx);
        self.place = self.shard.table.locate(self.key.hash, self.key.bytes).map(|(place, _)| place);
        self.is_new = true;
    }

    fn entry(&self) -> Option<&Entry> {
        self.shard.table.at(self.place?)
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        self.shard.table.at_mut(self.place?)
    }
}

impl<K: Kind> Drop for Edit<'_, K> {
    fn drop(&mut self) {
        if self.changes == 0 {
            return;
        }
        let (memory, is_empty) = self.entry().map_or((0, false), |entry| (entry.memory(), K::is_empty(K::read(entry))));
        self.shard.resized(memory as isize - self.memory as isize);
        if is_empty && let Some(emptied) = self.shard.detach(self.key) {
            self.shard.reclaimer.free(emptied);
        }
        if self.is_new && is_empty {
            return; // it was never seen
        }
        *self.view_changes += 1;
        if self.is_new {
            self.shard.emit(self.key, event::NEW);
        }
        self.shard.changes += self.changes - 1;
        self.shard.changed(self.key, self.event, &self.cx);
        if is_empty {
            self.shard.emit(self.key, Event::DEL);
        }
    }
}
