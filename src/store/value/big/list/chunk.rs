//! A chunk of a long list: elements of a listpack, without header and terminator, in a buffer with room at both ends.

use crate::memory::heap::allocation_len;
use crate::store::limits::ListLimit;
use crate::store::value::listpack::{
    END, Encoded, HEADER_LEN, Items, StoredElement, find, first, header, is_short_text, item_at, next, prev,
    write_short_text,
};

/// Length of a listpack's header and terminator; limits count them, too.
pub(in crate::store::value) const FRAME_LEN: usize = HEADER_LEN + 1;

/// Overhead that Redis adds to the length of an element to estimate its stored length.
const ELEMENT_OVERHEAD: usize = 8;

/// Minimum size of the buffer of a growing chunk.
const BUFFER_LEN_MIN: usize = 256;

/// Elements of a list. An offset is the distance of an element from the first one.
#[derive(Debug)]
pub(in crate::store::value) struct ListChunk {
    /// Elements in `start..end`; the rest is room for more.
    buffer: Box<[u8]>,
    start: u32,
    end: u32,
    count: u32,
    /// True if the buffer is the text of a single element, which is too long for a chunk of several.
    is_plain: bool,
}

/// An end of a list or of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    /// The first element.
    Head,
    /// The last element.
    Tail,
}

impl ListChunk {
    /// Creates a chunk of elements, without room for more.
    pub(in crate::store::value) fn of(elements: &[u8], count: usize) -> Self {
        let end = u32::try_from(elements.len()).expect("chunks are far shorter than 4 GB");
        ListChunk { buffer: elements.into(), start: 0, end, count: count as u32, is_plain: false }
    }

    /// Creates a chunk of a single element of any length.
    pub(in crate::store::value) fn plain(text: &[u8]) -> Self {
        ListChunk { buffer: text.into(), start: 0, end: 0, count: 1, is_plain: true }
    }

    /// Creates a chunk of one element, with room for more at one end, initially `room` bytes.
    pub(super) fn begin(text: &[u8], at: ListEnd, limit: ListLimit, room: usize) -> Self {
        let room = room.min(limit.bytes_max());
        let len = if room < BUFFER_LEN_MIN { 0 } else { allocation_len(room) };
        let start = if at == ListEnd::Head { len as u32 } else { 0 };
        let mut chunk =
            ListChunk { buffer: vec![0; len].into_boxed_slice(), start, end: start, count: 0, is_plain: false };
        chunk.push(text, at, limit);
        chunk
    }

    /// Returns a copy without room.
    pub(super) fn copy(&self) -> Self {
        if self.is_plain { ListChunk::plain(&self.buffer) } else { ListChunk::of(self.elements(), self.len()) }
    }

    #[inline]
    pub(in crate::store::value) fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if there are no elements, so that the chunk is to be removed.
    #[inline]
    pub(in crate::store::value) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the text of the only element of a plain chunk.
    #[inline]
    pub(in crate::store::value) fn plain_text(&self) -> Option<&[u8]> {
        self.is_plain.then_some(&self.buffer)
    }

    /// Returns the bytes of the elements; empty for a plain chunk.
    #[inline]
    pub(in crate::store::value) fn elements(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }

    /// Returns the memory of the buffer.
    #[inline]
    pub(in crate::store::value) fn memory(&self) -> usize {
        allocation_len(self.buffer.len())
    }

    /// Returns the length of the elements' listpack.
    #[inline]
    pub(in crate::store::value) fn listpack_len(&self) -> usize {
        self.used() + FRAME_LEN
    }

    /// Returns true if an element of this length may be added.
    #[inline]
    pub(super) fn admits(&self, len: usize, limit: ListLimit) -> bool {
        !self.is_plain && limit.admits(self.listpack_len() + len + ELEMENT_OVERHEAD, self.len() + 1)
    }

    /// Returns true if this chunk and another one are to be merged: together they use at most half of the limit, so
    /// that the result is not split again soon.
    pub(super) fn merges_with(&self, other: &ListChunk, limit: ListLimit) -> bool {
        !self.is_plain
            && !other.is_plain
            && limit.half_admits(self.listpack_len() + other.used(), self.len() + other.len())
            && limit.admits(self.listpack_len() + other.used(), self.len() + other.len())
    }

    /// Appends the elements of the next chunk.
    pub(super) fn merge(&mut self, other: &ListChunk) {
        let elements = [self.elements(), other.elements()].concat();
        *self = ListChunk::of(&elements, self.len() + other.len());
    }

    /// Adds an element at an end. Returns the growth of the buffer's memory.
    #[inline(always)] // the calls would be a third of the work
    pub(super) fn push(&mut self, text: &[u8], at: ListEnd, limit: ListLimit) -> isize {
        // Most texts are short, and are written without being encoded first.
        if !is_short_text(text) {
            return self.push_encoded(text, at, limit);
        }
        let (place, growth) = self.take_room(text.len() + 2, at, limit);
        write_short_text(text, place);
        growth
    }

    #[inline(never)] // keeps the path of short texts short
    fn push_encoded(&mut self, text: &[u8], at: ListEnd, limit: ListLimit) -> isize {
        let element = Encoded::of(text);
        let (place, growth) = self.take_room(element.len(), at, limit);
        element.write_into(place);
        growth
    }

    /// Returns the space for a new element at an end, and the growth of the buffer's memory.
    #[inline(always)] // see ListChunk::push
    fn take_room(&mut self, len: usize, at: ListEnd, limit: ListLimit) -> (&mut [u8], isize) {
        let mut growth = 0;
        let room = if at == ListEnd::Head { self.start as usize } else { self.buffer.len() - self.end as usize };
        if room < len {
            growth = self.make_room(len, at, limit);
        }
        self.count += 1;
        let from = match at {
            ListEnd::Head => {
                self.start -= len as u32;
                self.start as usize
            }
            ListEnd::Tail => {
                self.end += len as u32;
                self.end as usize - len
            }
        };
        (&mut self.buffer[from..from + len], growth)
    }

    /// Passes the element at an end, one of several, to `read` and removes it.
    #[inline]
    pub(super) fn pop(&mut self, at: ListEnd, read: impl FnOnce(StoredElement<'_>)) {
        self.count -= 1;
        let elements = self.elements();
        match at {
            ListEnd::Head => {
                let (item, len) = first(elements);
                read(item);
                self.start += len as u32;
            }
            ListEnd::Tail => {
                let last = prev(elements, elements.len());
                read(item_at(elements, last));
                self.end = self.start + last as u32;
            }
        }
    }

    /// Returns the offset of an element; for the index after the last, the length of all elements.
    pub(super) fn offset_of(&self, index: usize) -> usize {
        let elements = self.elements();
        if index <= self.len() / 2 {
            (0..index).fold(0, |at, _| next(elements, at))
        } else {
            (index..self.len()).fold(elements.len(), |at, _| prev(elements, at))
        }
    }

    /// Returns the offset of the first element equal to a text.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        match self.plain_text() {
            Some(own) => (own == text).then_some(0),
            None => find(self.elements(), 0, text, 0),
        }
    }

    /// Returns the number of elements before an offset.
    pub(super) fn index_at(&self, offset: usize) -> usize {
        Items::within(self.elements(), 0..offset).count()
    }

    /// Returns the length of the element at an offset.
    pub(super) fn element_len(&self, offset: usize) -> usize {
        next(self.elements(), offset) - offset
    }

    /// Inserts an element at an offset.
    pub(super) fn insert(&mut self, offset: usize, element: &Encoded<'_>, limit: ListLimit) {
        self.splice(offset, 0, Some(element), limit);
        self.count += 1;
    }

    /// Replaces the element at an offset.
    pub(super) fn replace(&mut self, offset: usize, element: &Encoded<'_>, limit: ListLimit) {
        let old_len = self.element_len(offset);
        self.splice(offset, old_len, Some(element), limit);
    }

    /// Removes `count` elements from an index on.
    pub(super) fn remove(&mut self, index: usize, count: usize, limit: ListLimit) {
        if count == self.len() {
            self.clear();
            return;
        }
        let from = self.offset_of(index);
        let to = if index + count == self.len() { self.used() } else { self.offset_of(index + count) };
        self.splice(from, to - from, None, limit);
        self.count -= count as u32;
    }

    /// Removes up to `max_count` elements equal to a text, beginning at an end. Returns their number.
    pub(in crate::store::value) fn remove_equal(&mut self, text: &[u8], max_count: usize, from: ListEnd) -> usize {
        if let Some(own) = self.plain_text() {
            let is_equal = own == text;
            if is_equal {
                self.clear();
            }
            return usize::from(is_equal);
        }
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(start) = find(self.elements(), at, text, 0) {
            at = next(self.elements(), start);
            found.push((start, at));
            if from == ListEnd::Head && found.len() == max_count {
                break;
            }
        }
        let removed = found.len().min(max_count);
        let found = &found[found.len() - removed..];
        let Some((first, _)) = found.first() else { return 0 };
        // The bytes between two removed elements move forward.
        let mut to = self.start as usize + first;
        for (number, (_, end)) in found.iter().enumerate() {
            let next = found.get(number + 1).map_or(self.used(), |(start, _)| *start);
            let kept = self.start as usize + end..self.start as usize + next;
            let len = kept.len();
            self.buffer.copy_within(kept, to);
            to += len;
        }
        self.end = to as u32;
        self.count -= removed as u32;
        removed
    }

    /// Moves the elements from an offset on to a chunk of their own.
    pub(super) fn split_off(&mut self, offset: usize) -> ListChunk {
        let index = self.index_at(offset);
        let behind = ListChunk::of(&self.elements()[offset..], self.len() - index);
        self.end = self.start + offset as u32;
        self.count = index as u32;
        behind
    }

    /// Frees the room if it is more than an eighth of the buffer: nothing will be added any more.
    pub(super) fn seal(&mut self) {
        if !self.is_plain && self.buffer.len() - self.used() > self.buffer.len() / 8 {
            *self = self.copy();
        }
    }

    /// Iterates over the elements.
    #[inline]
    pub(super) fn items(&self) -> ChunkItems<'_> {
        ChunkItems { items: Items::new(self.elements()), plain: self.plain_text() }
    }

    #[inline]
    fn used(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn clear(&mut self) {
        *self = ListChunk { buffer: Box::default(), start: 0, end: 0, count: 0, is_plain: false };
    }

    #[inline]
    fn write(&mut self, at: usize, element: &Encoded<'_>) {
        element.write_into(&mut self.buffer[at..at + element.len()]);
    }

    /// Replaces `old_len` bytes at an offset by an element or nothing; the shorter side moves.
    fn splice(&mut self, offset: usize, old_len: usize, element: Option<&Encoded<'_>>, limit: ListLimit) {
        let new_len = element.map_or(0, Encoded::len);
        let is_front = offset < (self.used() - offset - old_len);
        if new_len > old_len {
            let more = new_len - old_len;
            let room = if is_front { self.start as usize } else { self.buffer.len() - self.end as usize };
            if room < more {
                self.make_room(more, if is_front { ListEnd::Head } else { ListEnd::Tail }, limit);
            }
        }
        let (start, end) = (self.start as usize, self.end as usize);
        let at = if is_front {
            let new_start = start + old_len - new_len;
            self.buffer.copy_within(start..start + offset, new_start);
            self.start = new_start as u32;
            new_start + offset
        } else {
            self.buffer.copy_within(start + offset + old_len..end, start + offset + new_len);
            self.end = (end + new_len - old_len) as u32;
            start + offset
        };
        if let Some(element) = element {
            self.write(at, element);
        }
    }

    /// Makes room for `len` bytes at an end: in the buffer, if an eighth of it is free, else in a larger one. Returns
    /// the growth of its memory.
    #[cold]
    fn make_room(&mut self, len: usize, at: ListEnd, limit: ListLimit) -> isize {
        let (used, old_len) = (self.used(), self.buffer.len());
        let free = old_len - used;
        if free >= len && free >= old_len / 8 {
            // Half of the room stays at the other end, so that elements added at both ends by turns do not move the
            // others each time.
            let spare = (free - len) / 2;
            let start = if at == ListEnd::Head { free - spare } else { spare };
            self.buffer.copy_within(self.start as usize..self.end as usize, start);
            (self.start, self.end) = (start as u32, (start + used) as u32);
            return 0;
        }
        let needed = used + len;
        let grown = (needed * 2).max(BUFFER_LEN_MIN).min(limit.bytes_max()).max(needed);
        let new_len = allocation_len(grown);
        let start = if at == ListEnd::Head { new_len - used } else { 0 };
        let mut buffer = vec![0; new_len].into_boxed_slice();
        buffer[start..start + used].copy_from_slice(self.elements());
        let growth = new_len as isize - self.memory() as isize;
        (self.buffer, self.start, self.end) = (buffer, start as u32, (start + used) as u32);
        growth
    }
}

/// An iterator over the elements of a chunk, from either end.
#[derive(Clone, Debug)]
pub(super) struct ChunkItems<'a> {
    items: Items<'a>,
    plain: Option<&'a [u8]>,
}

impl<'a> ChunkItems<'a> {
    /// Iterates over the elements of a listpack outside a chunk.
    #[inline]
    pub(super) fn new(elements: &'a [u8]) -> Self {
        ChunkItems { items: Items::new(elements), plain: None }
    }

    /// Iterates over the elements of a chunk in a range of offsets.
    #[inline]
    pub(super) fn within(chunk: &'a ListChunk, range: std::ops::Range<usize>) -> Self {
        ChunkItems { items: Items::within(chunk.elements(), range), plain: None }
    }
}

impl<'a> Iterator for ChunkItems<'a> {
    type Item = StoredElement<'a>;

    #[inline]
    fn next(&mut self) -> Option<StoredElement<'a>> {
        self.items.next().or_else(|| self.plain.take().map(StoredElement::Text))
    }
}

impl DoubleEndedIterator for ChunkItems<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.items.next_back().or_else(|| self.plain.take().map(StoredElement::Text))
    }
}

/// Returns the listpack of elements without header and terminator.
pub(in crate::store::value) fn listpack_of(elements: &[u8], count: usize) -> Vec<u8> {
    let header = header(elements.len(), count);
    [&header[..], elements, &[END]].concat()
}
