//! A chunk: some consecutive entries of a stream in a listpack, in the format of Redis' nodes.
//!
//! ```text
//! +------+---------+----------+--------+---+--------+------------+
//! | live | deleted | n fields | fields | 0 | entry  | entry ...  |
//! +------+---------+----------+--------+---+--------+------------+
//!
//! +-------+----------+-----------+----------------------------+------------------+
//! | flags | ms delta | seq delta | values, if the fields are  | number of these  |
//! |       |          |           | the same as above, or else | elements without |
//! |       |          |           | n fields, fields & values  | this last one    |
//! +-------+----------+-----------+----------------------------+------------------+
//! ```
//!
//! The fields of the first entry come first, so that entries with the same fields store only values. Entries are
//! deleted by a flag, so nothing moves. The deltas count from the first entry's ID, the key of the chunk.
//!
//! Bytes are appended to spare room: neither a move nor an allocation per entry.

use smallvec::SmallVec;

use crate::memory::heap::allocation_len;
use crate::store::limits::StreamLimit;
use crate::store::value::listpack::{self, Encoded, HEADER_LEN, Item, Items, Listpack, ListpackMut};
use crate::store::value::stream::StreamId;

/// The flag of a deleted entry.
const DELETED: i64 = 1;
/// The flag of an entry with the fields of the first one.
const SAME_FIELDS: i64 = 2;

/// The last byte of a listpack.
const END: u8 = 0xFF;
/// In a listpack's header: the elements must be counted.
const COUNT_UNKNOWN: u16 = 0xFFFF;

/// The room of the first chunk of a stream at its creation.
const ROOM_MIN: usize = 128;

/// Consecutive entries.
#[derive(Debug)]
pub(crate) struct Chunk(Vec<u8>);

/// What precedes the entries of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Master {
    /// The number of entries that are not deleted.
    pub(super) live: usize,
    /// The number of deleted entries.
    pub(super) dead: usize,
    /// The number of fields of the first entry.
    fields: usize,
    /// Where the fields begin.
    fields_at: usize,
    /// Where the entries begin.
    pub(super) entries_at: usize,
}

/// An entry in its chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where it begins.
    pub(super) at: usize,
    flags: i64,
    pub(super) id: StreamId,
    /// The number of fields.
    fields: usize,
    /// Where the values, or the fields and values, begin.
    content_at: usize,
}

impl Place {
    /// Returns whether the entry is deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    fn has_same_fields(&self) -> bool {
        self.flags & SAME_FIELDS != 0
    }

    fn elements(&self) -> usize {
        if self.has_same_fields() { self.fields } else { 2 * self.fields }
    }
}

/// Iterates over the fields and values of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    /// The fields of the first entry, if the entry has the same ones.
    shared: Option<Items<'a>>,
    items: Items<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Item<'a>, Item<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = match &mut self.shared {
            Some(shared) => shared.next()?,
            None => self.items.next()?,
        };
        Some((field, self.items.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl Chunk {
    /// Creates a chunk without entries, for entries with the fields of `pairs`. `room` is the size that it will grow
    /// to.
    pub(super) fn new(pairs: &[&[u8]], room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room);
        bytes.extend_from_slice(&listpack::header(0, 0));
        Encoded::of_int(0).write_to(&mut bytes);
        Encoded::of_int(0).write_to(&mut bytes);
        Encoded::of_int(pairs.len() as i64 / 2).write_to(&mut bytes);
        pairs.iter().step_by(2).for_each(|field| Encoded::of(field).write_to(&mut bytes));
        Encoded::of_int(0).write_to(&mut bytes);
        bytes.push(END);
        let mut chunk = Chunk(bytes);
        chunk.write_header(4 + pairs.len() / 2);
        chunk
    }

    /// Takes over bytes that were checked by [`Chunk::validate`].
    pub(crate) fn from_checked(bytes: Vec<u8>) -> Self {
        Chunk(bytes)
    }

    /// Returns the listpack.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes allocated.
    pub(super) fn memory(&self) -> usize {
        allocation_len(self.0.capacity())
    }

    /// Returns a copy without spare room.
    pub(super) fn copy(&self) -> Self {
        Chunk(self.0.clone())
    }

    /// Gives spare room back that another class of allocations saves; called when the next chunk begins.
    pub(super) fn seal(&mut self) {
        if allocation_len(self.0.len()) < allocation_len(self.0.capacity()) {
            self.0.shrink_to_fit();
        }
    }

    /// Returns whether another entry, of `added_len` bytes of fields and values, goes into this chunk.
    pub(super) fn has_room(&self, limit: StreamLimit, added_len: usize) -> bool {
        let dead_at = listpack::next(&self.0, HEADER_LEN);
        let int = |at: usize| listpack::item_at(&self.0, at).to_int().unwrap_or(0).max(0) as usize;
        limit.has_room(self.0.len() + added_len, int(HEADER_LEN) + int(dead_at))
    }

    /// Appends an entry; `pairs` are fields and values alternating, `room` the size that the chunk will grow to.
    pub(super) fn append(&mut self, id: StreamId, master_id: StreamId, pairs: &[&[u8]], room: usize) {
        let master = self.master();
        let is_same = self.has_fields(&master, pairs);
        let (ms, seq) = id.since(master_id);
        let mut elements: SmallVec<[Encoded<'_>; 8]> =
            [if is_same { SAME_FIELDS } else { 0 }, ms, seq].map(Encoded::of_int).into_iter().collect();
        match is_same {
            true => elements.extend(pairs.iter().skip(1).step_by(2).map(|value| Encoded::of(value))),
            false => {
                elements.push(Encoded::of_int(pairs.len() as i64 / 2));
                elements.extend(pairs.iter().map(|part| Encoded::of(part)));
            }
        }
        elements.push(Encoded::of_int(elements.len() as i64));
        self.make_room(elements.iter().map(Encoded::len).sum(), room);
        let Chunk(bytes) = self;
        bytes.pop();
        elements.iter().for_each(|element| element.write_to(bytes));
        bytes.push(END);
        self.write_header(elements.len());
        self.set_counts(master.live + 1, master.dead);
    }

    /// Makes room for `needed` more bytes: doubled up to `room`, beyond that exactly.
    fn make_room(&mut self, needed: usize, room: usize) {
        let (len, capacity) = (self.0.len(), self.0.capacity());
        if capacity - len < needed {
            let wanted = (len + needed).max(ROOM_MIN).max((capacity * 2).min(room));
            // A class of allocations is used to its end.
            self.0.reserve_exact(allocation_len(wanted) - len);
        }
    }

    /// Updates the header after `added` elements were appended.
    fn write_header(&mut self, added: usize) {
        let [a, b, c, d] = u32::try_from(self.0.len()).expect("a chunk is shorter than 4 GB").to_le_bytes();
        let count = u16::from_le_bytes([self.0[4], self.0[5]]);
        let count = if count == COUNT_UNKNOWN { usize::MAX } else { usize::from(count) + added };
        let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        let [e, f] = count.to_le_bytes();
        self.0[..HEADER_LEN].copy_from_slice(&[a, b, c, d, e, f]);
    }

    /// Returns whether the entry to be added has the fields of the first one, in the same order.
    fn has_fields(&self, master: &Master, pairs: &[&[u8]]) -> bool {
        master.fields == pairs.len() / 2
            && self.items(master.fields_at).zip(pairs.iter().step_by(2)).all(|(own, field)| own.is(field))
    }

    fn items(&self, at: usize) -> Items<'_> {
        Items::within(&self.0, at..self.0.len() - 1)
    }

    /// Reads the numbers before the entries.
    pub(super) fn master(&self) -> Master {
        let bytes = &self.0;
        let int = |at: usize| listpack::item_at(bytes, at).to_int().unwrap_or(0).max(0) as usize;
        let dead_at = listpack::next(bytes, HEADER_LEN);
        let fields_n_at = listpack::next(bytes, dead_at);
        let fields_at = listpack::next(bytes, fields_n_at);
        let fields = int(fields_n_at);
        let end = (0..fields).fold(fields_at, |at, _| listpack::next(bytes, at));
        Master { live: int(HEADER_LEN), dead: int(dead_at), fields, fields_at, entries_at: listpack::next(bytes, end) }
    }

    /// Sets the numbers of entries.
    fn set_counts(&mut self, live: usize, dead: usize) {
        let dead_at = listpack::next(&self.0, HEADER_LEN);
        let are_bytes = self.0[HEADER_LEN] < 128 && self.0[dead_at] < 128;
        if are_bytes && live < 128 && dead < 128 {
            // Small numbers are one byte, and the length behind stays the same.
            self.0[HEADER_LEN] = live as u8;
            self.0[dead_at] = dead as u8;
            return;
        }
        let mut listpack = ListpackMut::new(&mut self.0);
        listpack.replace(dead_at, Encoded::of_int(dead as i64));
        listpack.replace(HEADER_LEN, Encoded::of_int(live as i64));
    }

    /// Returns whether an offset lies behind the last entry.
    pub(super) fn is_end(&self, at: usize) -> bool {
        at + 1 >= self.0.len()
    }

    /// Returns the offset behind the last entry.
    pub(super) fn end(&self) -> usize {
        self.0.len() - 1
    }

    /// Reads the entry at an offset.
    pub(super) fn entry_at(&self, master_id: StreamId, master: &Master, at: usize) -> Place {
        let mut items = self.items(at);
        let mut int = || items.next().and_then(Item::to_int).unwrap_or(0);
        let (flags, delta) = (int(), (int(), int()));
        let fields = if flags & SAME_FIELDS != 0 { master.fields } else { int().max(0) as usize };
        Place { at, flags, id: StreamId::after(master_id, delta), fields, content_at: items.range().start }
    }

    /// Returns the offset behind an entry.
    pub(super) fn after(&self, place: &Place) -> usize {
        (0..=place.elements()).fold(place.content_at, |at, _| listpack::next(&self.0, at))
    }

    /// Returns the offset of the entry that ends at an offset.
    pub(super) fn before(&self, end: usize) -> usize {
        let count_at = listpack::prev(&self.0, end);
        let count = listpack::item_at(&self.0, count_at).to_int().unwrap_or(0);
        (0..count).fold(count_at, |at, _| listpack::prev(&self.0, at))
    }

    /// Iterates over fields and values of an entry.
    pub(super) fn fields(&self, master: &Master, place: &Place) -> Fields<'_> {
        Fields {
            shared: place.has_same_fields().then(|| self.items(master.fields_at)),
            items: self.items(place.content_at),
            left: place.fields,
        }
    }

    /// Marks an entry as deleted, without counting it.
    pub(super) fn mark_deleted(&mut self, place: &Place) {
        // Flags are less than 128, which is one byte.
        self.0[place.at] = (place.flags | DELETED) as u8;
    }

    /// Counts entries that were marked as deleted.
    pub(super) fn count_deleted(&mut self, deleted: usize) {
        let master = self.master();
        self.set_counts(master.live - deleted, master.dead + deleted);
    }

    /// Checks bytes from elsewhere; returns the number of entries that are not deleted, and the first and the last
    /// ID, deleted or not.
    pub(crate) fn validate(bytes: &[u8], master_id: StreamId) -> Option<(usize, StreamId, StreamId)> {
        let listpack = Listpack::validate(bytes)?;
        let mut items = listpack.iter();
        let (live, dead) = (natural(&mut items)?, natural(&mut items)?);
        let fields = natural(&mut items)?;
        skip(&mut items, fields)?;
        if items.next()?.to_int()? != 0 {
            return None;
        }
        let (mut seen_live, mut seen, mut first, mut last) = (0, 0usize, None, None);
        while !items.range().is_empty() {
            // A flag is rewritten in place.
            let flags = items.next()?.to_int().filter(|flags| (0..=127).contains(flags))?;
            if bytes[items.range().start - 2] != flags as u8 {
                return None;
            }
            let id = StreamId::after(master_id, (items.next()?.to_int()?, items.next()?.to_int()?));
            if last.is_some_and(|last| id <= last) {
                return None;
            }
            let elements = match flags & SAME_FIELDS {
                0 => {
                    let own = natural(&mut items)?;
                    let both = own.checked_mul(2)?;
                    skip(&mut items, both)?;
                    both + 4
                }
                _ => {
                    skip(&mut items, fields)?;
                    fields + 3
                }
            };
            if natural(&mut items)? != elements {
                return None;
            }
            first = first.or(Some(id));
            last = Some(id);
            seen += 1;
            seen_live += usize::from(flags & DELETED == 0);
        }
        let is_right = seen == live.checked_add(dead)? && seen_live == live;
        is_right.then_some((live, first?, last?))
    }
}

/// Reads a number that is not negative.
fn natural(items: &mut Items<'_>) -> Option<usize> {
    usize::try_from(items.next()?.to_int()?).ok()
}

/// Skips elements, if there are enough.
fn skip(items: &mut Items<'_>, count: usize) -> Option<()> {
    if count > items.range().len() {
        return None;
    }
    (0..count).try_for_each(|_| items.next().map(|_| ()))
}
