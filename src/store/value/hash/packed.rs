//! Packed hashes: a listpack in which field and value alternate, or one in which a deadline follows each value.
//!
//! The second form is used once a field of the hash has got a deadline: the time in milliseconds since 1970, or 0 for
//! none. It is in the order of the deadlines, with fields without a deadline last, so that the nearest deadline is the
//! first. A packed set some of whose members have deadlines has this form, too: its fields are the members, with empty
//! values.

use crate::store::entry::Entry;
use crate::store::value::Packing;
use crate::store::value::hash::text::{FieldAndValue, HashText};
use crate::store::value::listpack::{Encoded, HEADER_LEN, Items, Listpack, ListpackMut, StoredElement};

/// A borrowed packed hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedHash<'e> {
    listpack: Listpack<'e>,
    has_deadlines: bool,
}

impl<'e> PackedHash<'e> {
    /// A hash without fields.
    pub(in crate::store::value) const EMPTY: PackedHash<'static> =
        PackedHash { listpack: Listpack::EMPTY, has_deadlines: false };

    /// Borrows the listpack of a hash.
    #[inline]
    pub(in crate::store::value) fn new(listpack: Listpack<'e>, packing: Packing) -> Self {
        PackedHash { listpack, has_deadlines: packing == Packing::Timed }
    }

    pub(crate) fn listpack(self) -> Listpack<'e> {
        self.listpack
    }

    /// Returns true if a deadline, or 0, follows each value.
    pub(crate) fn has_deadlines(self) -> bool {
        self.has_deadlines
    }

    pub(in crate::store::value) fn len(self) -> usize {
        self.listpack.len() / self.width()
    }

    /// Returns true if there is no field.
    pub(super) fn is_empty(self) -> bool {
        self.listpack.is_empty()
    }

    /// Returns the number of elements per field.
    #[inline]
    fn width(self) -> usize {
        if self.has_deadlines { 3 } else { 2 }
    }

    /// Returns the position of a field.
    #[inline]
    pub(in crate::store::value) fn find(self, field: &[u8]) -> Option<usize> {
        self.listpack.find(HEADER_LEN, field, self.width() - 1)
    }

    /// Returns the position of the value, given the position of its field.
    #[inline]
    pub(super) fn value_at(self, at: usize) -> usize {
        self.listpack.next(at).expect("a value follows each field")
    }

    /// Returns the position of the next field, given the position of a field.
    fn next(self, at: usize) -> Option<usize> {
        let last = self.value_at(at);
        let last = if self.has_deadlines { self.listpack.next(last)? } else { last };
        self.listpack.next(last)
    }

    /// Returns field and value at the position of a field.
    pub(super) fn pair_at(self, at: usize) -> FieldAndValue<'e> {
        (self.listpack.get(at).into(), self.listpack.get(self.value_at(at)).into())
    }

    /// Returns the position of the field with an index.
    pub(in crate::store::value) fn seek(self, index: usize) -> Option<usize> {
        self.listpack.seek((self.width() * index) as isize)
    }

    /// Returns the deadline of the field at a position.
    pub(in crate::store::value) fn deadline_at(self, at: usize) -> Option<i64> {
        if !self.has_deadlines {
            return None;
        }
        read_deadline(self.listpack.get(self.listpack.next(self.value_at(at))?))
    }

    pub(in crate::store::value) fn nearest_deadline(self) -> Option<i64> {
        if !self.has_deadlines {
            return None;
        }
        self.deadline_at(self.listpack.first()?)
    }

    /// Returns the fields with their values.
    pub(super) fn pairs(self) -> impl Iterator<Item = FieldAndValue<'e>> {
        self.timed().map(|(field, value, _)| (field, value))
    }

    /// Returns the fields with their values and deadlines.
    pub(super) fn timed(self) -> Timed<'e> {
        Timed { items: self.listpack.iter(), has_deadlines: self.has_deadlines }
    }

    /// Returns the members of a set in this form with their deadlines.
    pub(in crate::store::value) fn members(self) -> impl Iterator<Item = (StoredElement<'e>, Option<i64>)> {
        let mut items = self.listpack.iter();
        std::iter::from_fn(move || {
            let member = items.next()?;
            items.next()?; // the empty value
            Some((member, items.next().and_then(read_deadline)))
        })
    }

    /// Returns the position of the first field without a deadline, or with a deadline later than `at_ms`.
    fn place_of(self, at_ms: i64) -> usize {
        let mut next = self.listpack.first();
        while let Some(at) = next {
            match self.deadline_at(at) {
                Some(other_ms) if other_ms <= at_ms => next = self.next(at),
                _ => return at,
            }
        }
        self.listpack.end()
    }
}

/// An iterator over the fields of a packed hash with their values and deadlines.
pub(super) struct Timed<'e> {
    items: Items<'e>,
    has_deadlines: bool,
}

impl<'e> Iterator for Timed<'e> {
    type Item = (HashText<'e>, HashText<'e>, Option<i64>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (field, value) = (self.items.next()?.into(), self.items.next()?.into());
        let deadline = if self.has_deadlines { self.items.next().and_then(read_deadline) } else { None };
        Some((field, value, deadline))
    }
}

/// Reads the element after a value: a deadline, or 0 for none.
#[inline]
fn read_deadline(item: StoredElement<'_>) -> Option<i64> {
    item.to_int().filter(|at_ms| *at_ms != 0)
}

fn packed(entry: &Entry) -> PackedHash<'_> {
    PackedHash::new(Listpack::new(entry.packed_bytes().expect("the caller has found a packed hash")), entry.packing())
}

/// Sets a field; returns true if it is new. An existing field loses its deadline unless it `keeps` it.
pub(in crate::store::value) fn set(entry: &mut Entry, field: &[u8], value: &[u8], keeps: bool) -> bool {
    let hash = packed(entry);
    let (found, width) = (hash.find(field), hash.width());
    let target = found.map(|at| (at, hash.value_at(at), !keeps && hash.deadline_at(at).is_some()));
    let mut listpack = ListpackMut::new(entry);
    let elements = [Encoded::of(field), Encoded::of(value), Encoded::of_int(0)];
    match target {
        Some((at, _, true)) => {
            listpack.remove_range(at, width);
            listpack.push_back_all(&elements);
        }
        Some((_, value_at, false)) => listpack.replace(value_at, elements[1]),
        None => listpack.push_back_all(&elements[..width]),
    }
    found.is_none()
}

/// Removes a field; returns true if it existed.
pub(in crate::store::value) fn remove(entry: &mut Entry, field: &[u8]) -> bool {
    let hash = packed(entry);
    let (found, width) = (hash.find(field), hash.width());
    if let Some(at) = found {
        ListpackMut::new(entry).remove_range(at, width);
    }
    found.is_some()
}

/// Sets or removes the deadline of an existing field.
pub(in crate::store::value) fn set_deadline(entry: &mut Entry, field: &[u8], deadline: Option<i64>) {
    add_deadlines(entry);
    let hash = packed(entry);
    let Some(at) = hash.find(field) else { return };
    let value = hash.listpack.get(hash.value_at(at)).to_cow().into_owned();
    ListpackMut::new(&mut *entry).remove_range(at, 3);
    let hash = packed(entry);
    let place = deadline.map_or(hash.listpack.end(), |at_ms| hash.place_of(at_ms));
    let elements = [Encoded::of(field), Encoded::of(&value), Encoded::of_int(deadline.unwrap_or(0))];
    ListpackMut::new(entry).insert_all_before(place, &elements);
}

/// Converts the hash to the form with deadlines, unless it has this form.
fn add_deadlines(entry: &mut Entry) {
    let hash = packed(entry);
    if hash.has_deadlines {
        return;
    }
    let mut bytes = Listpack::EMPTY.bytes().to_vec();
    let (mut items, mut with_deadlines) = (hash.listpack.iter(), ListpackMut::new(&mut bytes));
    while let (Some(field), Some(value)) = (items.next(), items.next()) {
        with_deadlines.push_back_all(&[field.into(), value.into(), Encoded::of_int(0)]);
    }
    entry.set_packed(Packing::Timed, &bytes);
}

/// Removes up to `max_count` fields whose deadlines have passed, and appends them to `expired`.
pub(in crate::store::value) fn remove_expired(
    entry: &mut Entry,
    now_ms: i64,
    max_count: usize,
    expired: &mut Vec<Box<[u8]>>,
) {
    let hash = packed(entry);
    let (mut next, mut count) = (hash.listpack.first(), 0); // the nearest deadlines are first
    while count < max_count
        && let Some(at) = next
        && hash.deadline_at(at).is_some_and(|at_ms| at_ms <= now_ms)
    {
        expired.push(hash.listpack.get(at).to_cow().into());
        count += 1;
        next = hash.next(at);
    }
    if count > 0 {
        ListpackMut::new(entry).remove_range(HEADER_LEN, 3 * count);
    }
}
