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
//! A chunk stores the listpack's elements from the second one on. The header, the first element, which changes with
//! every entry, and the terminator are made when the listpack is asked for. So a chunk whose listpack is a few bytes
//! longer than the limit of 4096 still fits into an allocation of that size, and does not need the next one of 5120.
//!
//! Bytes are appended to spare room: neither a move nor an allocation per entry.

use crate::memory::heap::allocation_len;
use crate::store::limits::StreamLimit;
use crate::store::value::big::stream::StreamId;
use crate::store::value::listpack::{self, Encoded, HEADER_LEN, Items, Listpack, StoredElement, put_int, put_text};

/// Flag of a deleted entry.
const DELETED: i64 = 1;
/// Flag of an entry with the fields of the first entry.
const SAME_FIELDS: i64 = 2;

const END: u8 = 0xFF;
/// Length of the parts of a listpack that a chunk does not store, with less than 128 live entries.
const FRAME_LEN: usize = HEADER_LEN + 2 + 1;

/// Maximum length of an element without its text.
const ELEMENT_OVERHEAD_MAX: usize = 10;

/// Initial room of the first chunk of a stream.
const ROOM_MIN: usize = 128;

/// Consecutive entries.
#[derive(Debug)]
pub(crate) struct StreamChunk {
    /// Elements in `..len`, from the number of deleted entries on; the rest is room for more.
    buffer: Box<[u8]>,
    len: u32,
    /// Number of entries that are not deleted.
    live: u32,
}

/// Part of a chunk that precedes the entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Master {
    /// Number of entries that are not deleted.
    pub(super) live: usize,
    /// Number of fields of the first entry.
    fields: usize,
    /// Offset of the fields.
    fields_at: usize,
    /// Offset of the entries.
    pub(super) entries_at: usize,
}

/// An entry in its chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPosition {
    /// Offset of the entry.
    pub(super) at: usize,
    flags: i64,
    pub(super) id: StreamId,
    /// Number of fields.
    fields: usize,
    /// Offset of the values, or of the fields and values.
    content_at: usize,
}

impl EntryPosition {
    /// Returns true if the entry is deleted.
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

/// An iterator over the fields and values of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    /// Fields of the first entry, if the entry has the same fields.
    shared: Option<Items<'a>>,
    items: Items<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (StoredElement<'a>, StoredElement<'a>);

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

impl StreamChunk {
    /// Creates a chunk without entries, for entries with the fields of `pairs`. `room` is the expected final size.
    pub(super) fn new(pairs: &[&[u8]], room: usize) -> Self {
        let fields = || pairs.iter().step_by(2);
        let len = fields().map(|field| Encoded::of(field).len()).sum::<usize>() + 3 * ELEMENT_OVERHEAD_MAX;
        let mut chunk = StreamChunk { buffer: Box::default(), len: 0, live: 0 };
        chunk.make_room(len.max(room), room);
        let mut at = put_int(&mut chunk.buffer, 0, 0);
        at = put_int(&mut chunk.buffer, at, pairs.len() as i64 / 2);
        at = fields().fold(at, |at, field| put_text(&mut chunk.buffer, at, field));
        chunk.len = put_int(&mut chunk.buffer, at, 0) as u32;
        chunk
    }

    /// Creates a chunk of a listpack that was checked by [`StreamChunk::validate`], with its number of entries that are not
    /// deleted.
    pub(super) fn from_checked(listpack: &[u8], live: usize) -> Self {
        let start = listpack::next(listpack, HEADER_LEN);
        let buffer: Box<[u8]> = listpack[start..listpack.len() - 1].into();
        // A listpack is shorter than 4 GB.
        StreamChunk { len: buffer.len() as u32, buffer, live: live as u32 }
    }

    pub(crate) fn to_listpack(&self) -> Vec<u8> {
        let (live, elements) = (Encoded::of_int(i64::from(self.live)), self.elements());
        let mut bytes = Vec::with_capacity(FRAME_LEN + ELEMENT_OVERHEAD_MAX + elements.len());
        let count = 1 + Items::new(elements).count();
        bytes.extend_from_slice(&listpack::header(live.len() + elements.len(), count));
        live.write_to(&mut bytes);
        bytes.extend_from_slice(elements);
        bytes.push(END);
        bytes
    }

    #[inline]
    fn elements(&self) -> &[u8] {
        &self.buffer[..self.len as usize]
    }

    #[inline]
    fn listpack_len(&self) -> usize {
        let live_len = if self.live < 128 { 2 } else { Encoded::of_int(i64::from(self.live)).len() };
        FRAME_LEN - 2 + live_len + self.len as usize
    }

    #[inline]
    pub(super) fn memory(&self) -> usize {
        allocation_len(self.buffer.len())
    }

    /// Returns a copy without spare room.
    pub(super) fn copy(&self) -> Self {
        StreamChunk { buffer: self.elements().into(), ..*self }
    }

    /// Frees spare room if that makes the allocation smaller; called when the next chunk begins.
    pub(super) fn seal(&mut self) {
        if allocation_len(self.len as usize) < self.memory() {
            *self = self.copy();
        }
    }

    /// Returns true if another entry, with `added_len` bytes of fields and values, fits in this chunk.
    #[inline]
    pub(super) fn has_room(&self, limit: StreamLimit, added_len: usize) -> bool {
        limit.has_room(self.listpack_len() + added_len, self.live as usize + self.natural_at(0).0)
    }

    /// Returns the number at an offset, which is not negative, and the offset after it.
    #[inline]
    fn natural_at(&self, at: usize) -> (usize, usize) {
        match self.buffer[at] {
            small @ 0..128 => (usize::from(small), at + 2),
            _ => {
                let int = listpack::item_at(self.elements(), at).to_int().unwrap_or(0);
                (int.max(0) as usize, listpack::next(self.elements(), at))
            }
        }
    }

    /// Appends an entry; `pairs` are alternating fields and values, `room` is the expected final size of the chunk.
    /// Returns the growth of the chunk's memory.
    pub(super) fn append(&mut self, id: StreamId, master_id: StreamId, pairs: &[&[u8]], room: usize) -> isize {
        let is_same = self.has_fields(pairs);
        let (ms, seq) = id.since(master_id);
        let texts: usize = pairs.iter().map(|part| part.len()).sum();
        let (mut growth, max_len) = (0, texts + (pairs.len() + 5) * ELEMENT_OVERHEAD_MAX);
        if self.buffer.len() - (self.len as usize) < max_len {
            growth = self.make_room(exact_len((ms, seq), pairs, is_same), room);
        }
        let buffer = &mut self.buffer;
        let mut at = put_int(buffer, self.len as usize, if is_same { SAME_FIELDS } else { 0 });
        at = put_int(buffer, at, ms);
        at = put_int(buffer, at, seq);
        let elements = if is_same {
            at = pairs.iter().skip(1).step_by(2).fold(at, |at, value| put_text(buffer, at, value));
            3 + pairs.len() / 2
        } else {
            at = put_int(buffer, at, pairs.len() as i64 / 2);
            at = pairs.iter().fold(at, |at, part| put_text(buffer, at, part));
            4 + pairs.len()
        };
        self.len = put_int(buffer, at, elements as i64) as u32;
        self.live += 1;
        growth
    }

    /// Makes room for `needed` more bytes: doubles the buffer up to `room`, beyond that grows it exactly. Returns the
    /// growth of the memory.
    fn make_room(&mut self, needed: usize, room: usize) -> isize {
        let (len, capacity, before) = (self.len as usize, self.buffer.len(), self.memory());
        if capacity - len >= needed {
            return 0;
        }
        let wanted = (len + needed).max(ROOM_MIN).max((capacity * 2).min(room));
        // Allocations are rounded up to their size class.
        let mut buffer = vec![0; allocation_len(wanted)].into_boxed_slice();
        buffer[..len].copy_from_slice(self.elements());
        self.buffer = buffer;
        self.memory() as isize - before as isize
    }

    /// Returns true if the entry to be added has the fields of the first entry, in the same order.
    #[inline]
    fn has_fields(&self, pairs: &[&[u8]]) -> bool {
        let (fields, mut at) = self.natural_at(self.natural_at(0).1);
        fields == pairs.len() / 2
            && pairs.iter().step_by(2).all(|field| {
                let (own, len) = listpack::first(&self.elements()[at..]);
                at += len;
                own.is(field)
            })
    }

    fn items(&self, at: usize) -> Items<'_> {
        Items::within(self.elements(), at..self.end())
    }

    /// Reads the numbers before the entries.
    pub(super) fn master(&self) -> Master {
        let (fields, fields_at) = self.natural_at(self.natural_at(0).1);
        let end = (0..fields).fold(fields_at, |at, _| listpack::next(self.elements(), at));
        let entries_at = listpack::next(self.elements(), end);
        Master { live: self.live as usize, fields, fields_at, entries_at }
    }

    /// Returns true if an offset is after the last entry.
    pub(super) fn is_end(&self, at: usize) -> bool {
        at >= self.end()
    }

    /// Returns the offset after the last entry.
    pub(super) fn end(&self) -> usize {
        self.len as usize
    }

    /// Reads the entry at an offset.
    pub(super) fn entry_at(&self, master_id: StreamId, master: &Master, at: usize) -> EntryPosition {
        let mut items = self.items(at);
        let mut int = || items.next().and_then(StoredElement::to_int).unwrap_or(0);
        let (flags, delta) = (int(), (int(), int()));
        let fields = if flags & SAME_FIELDS != 0 { master.fields } else { int().max(0) as usize };
        EntryPosition { at, flags, id: StreamId::after(master_id, delta), fields, content_at: items.range().start }
    }

    /// Returns the offset after an entry.
    pub(super) fn after(&self, place: &EntryPosition) -> usize {
        (0..=place.elements()).fold(place.content_at, |at, _| listpack::next(self.elements(), at))
    }

    /// Returns the offset of the entry that ends at an offset.
    pub(super) fn before(&self, end: usize) -> usize {
        let elements = self.elements();
        let count_at = listpack::prev(elements, end);
        let count = listpack::item_at(elements, count_at).to_int().unwrap_or(0);
        (0..count).fold(count_at, |at, _| listpack::prev(elements, at))
    }

    /// Iterates over fields and values of an entry.
    pub(super) fn fields(&self, master: &Master, place: &EntryPosition) -> Fields<'_> {
        Fields {
            shared: place.has_same_fields().then(|| self.items(master.fields_at)),
            items: self.items(place.content_at),
            left: place.fields,
        }
    }

    /// Marks an entry as deleted, without counting it.
    pub(super) fn mark_deleted(&mut self, place: &EntryPosition) {
        // Flags are less than 128, so they are one byte.
        self.buffer[place.at] = (place.flags | DELETED) as u8;
    }

    /// Counts entries that were marked as deleted.
    pub(super) fn count_deleted(&mut self, deleted: usize) {
        self.live -= deleted as u32;
        let (dead, behind) = self.natural_at(0);
        let dead = dead + deleted;
        if behind == 2 && dead < 128 {
            // Small numbers are one byte, so the length after them stays the same.
            self.buffer[0] = dead as u8;
            return;
        }
        let dead = Encoded::of_int(dead as i64);
        let mut elements = Vec::with_capacity(dead.len() + self.len as usize);
        dead.write_to(&mut elements);
        elements.extend_from_slice(&self.elements()[behind..]);
        (self.len, self.buffer) = (elements.len() as u32, elements.into());
    }

    /// Checks bytes from elsewhere; returns the number of entries that are not deleted, and the first and the last ID,
    /// including deleted entries.
    pub(crate) fn validate(bytes: &[u8], master_id: StreamId) -> Option<(usize, StreamId, StreamId)> {
        let listpack = Listpack::validate(bytes)?;
        let mut items = listpack.iter();
        let (live, dead) = (natural(&mut items)?, natural(&mut items)?);
        let fields = natural(&mut items)?;
        items.advance(fields)?;
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
                    items.advance(both)?;
                    both + 4
                }
                _ => {
                    items.advance(fields)?;
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

/// Returns the encoded length of an entry whose ID differs from the first one by `ms` and `seq`.
#[cold]
fn exact_len((ms, seq): (i64, i64), pairs: &[&[u8]], is_same: bool) -> usize {
    let ints: usize = [0, ms, seq, pairs.len() as i64 + 4].map(|int| Encoded::of_int(int).len()).iter().sum();
    let len = |part: &&[u8]| Encoded::of(part).len();
    let parts = if is_same {
        pairs.iter().skip(1).step_by(2).map(len).sum::<usize>()
    } else {
        Encoded::of_int(pairs.len() as i64 / 2).len() + pairs.iter().map(len).sum::<usize>()
    };
    ints + parts
}

/// Reads a number that is not negative.
fn natural(items: &mut Items<'_>) -> Option<usize> {
    usize::try_from(items.next()?.to_int()?).ok()
}
