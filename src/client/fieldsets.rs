//! The fieldsets of a session: names of fields, in order, by which HIMPORT stores hashes.

use std::sync::Arc;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;

/// Names of fields, in the order in which values are given.
pub(crate) type Fieldset = Arc<[Box<[u8]>]>;

/// The fieldsets of a session, by name.
#[derive(Default)]
pub(crate) struct Fieldsets(OrderedMap<Box<[u8]>, Fieldset>);

impl Fieldsets {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Fieldset> {
        self.0.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a fieldset, in place of another one with this name; returns the growth in bytes.
    pub(crate) fn insert(&mut self, name: &[u8], fields: &[&[u8]]) -> isize {
        let fields: Fieldset = fields.iter().map(|field| Box::from(*field)).collect();
        let growth = memory(name, &fields);
        growth - self.0.insert(name.into(), fields).map_or(0, |old| memory(name, &old))
    }

    /// Removes a fieldset; returns its bytes, if it existed.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<isize> {
        self.0.remove(name).map(|fields| memory(name, &fields))
    }

    /// Returns the bytes of all fieldsets.
    pub(crate) fn memory(&self) -> isize {
        self.0.iter().map(|(name, fields)| memory(name, fields)).sum()
    }
}

fn memory(name: &[u8], fields: &Fieldset) -> isize {
    let texts: usize = fields.iter().map(|field| size_of::<Box<[u8]>>() + allocation_len(field.len())).sum();
    (allocation_len(name.len()) + OrderedMap::<Box<[u8]>, Fieldset>::entry_len() + texts) as isize
}
