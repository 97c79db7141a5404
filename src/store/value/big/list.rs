//! A long list: a deque of chunks.

mod chunk;
mod walk;

use std::collections::VecDeque;
use std::collections::vec_deque;
use std::fmt;

use crate::memory::heap::list_len;
use crate::store::limits::ListLimit;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::text::pages;
use crate::store::value::big::walk::{Record, RecordPart};
use crate::store::value::listpack::{Encoded, StoredElement};

use chunk::ChunkItems;
use walk::ListWalk;

#[cfg(test)]
pub(in crate::store::value) use chunk::FRAME_LEN;
pub(crate) use chunk::ListEnd;
pub(in crate::store::value) use chunk::{ListChunk, listpack_of};

/// A list above the limits of packed lists. No chunk is empty.
#[derive(Default)]
pub(crate) struct BigList {
    chunks: VecDeque<ListChunk>,
    len: usize,
    /// Memory of the chunks' buffers.
    buffers: usize,
    /// Memory of the deque.
    deque: usize,
    /// Walk of a snapshot that visits the chunks.
    walk: Option<Box<ListWalk>>,
}

impl fmt::Debug for BigList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BigList").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Divisor of a list's memory that gives the initial room of a new chunk at one of its ends, so that the chunk is not
/// reallocated with every doubling.
const SPARE_SHARE: usize = 8;

/// Limits of the nodes of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLimit {
    /// The limit of a packed list, and of each node of a longer one.
    pub node: ListLimit,
    /// Length in bytes from which on an element of a long list gets a node of its own; with 0, only elements do that no
    /// node of several elements may hold.
    pub large_min: usize,
}

impl NodeLimit {
    /// Returns true if an element of this length gets a node of its own in a long list.
    #[inline]
    fn is_large(self, len: usize) -> bool {
        match self.large_min {
            0 => len > self.node.bytes_max(),
            least => len >= least,
        }
    }
}

/// Position of an element: the index of its chunk, and its offset there.
pub(in crate::store::value) type Spot = (usize, usize);

impl LargeForm for BigList {
    #[inline]
    fn memory(&self) -> usize {
        self.buffers + self.deque
    }

    fn effort(&self) -> usize {
        self.chunks.len() + pages(self.buffers)
    }

    fn copy(&self) -> Self {
        let chunks: VecDeque<ListChunk> = self.chunks.iter().map(ListChunk::copy).collect();
        let buffers = chunks.iter().map(ListChunk::memory).sum();
        let deque = list_len::<ListChunk>(chunks.capacity());
        BigList { chunks, len: self.len, buffers, deque, walk: None }
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.walk = record.map(|record| Box::new(ListWalk::new(self.chunks.len(), record)));
    }

    fn record(&self) -> Option<&Record> {
        self.walk.as_ref().map(|walk| walk.record())
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let BigList { walk, chunks, .. } = self;
        Some(walk.as_mut()?.visit(|index| chunks.get(index), is_time_up))
    }
}

impl BigList {
    #[inline]
    pub(in crate::store::value) fn len(&self) -> usize {
        self.len
    }

    /// Returns the chunks in their order.
    pub(in crate::store::value) fn chunks(&self) -> &VecDeque<ListChunk> {
        &self.chunks
    }

    /// Returns the only chunk, if there is one and it is not plain.
    pub(in crate::store::value) fn only_chunk(&self) -> Option<&ListChunk> {
        self.chunks.front().filter(|chunk| self.chunks.len() == 1 && chunk.plain_text().is_none())
    }

    /// Appends a chunk.
    pub(in crate::store::value) fn append_chunk(&mut self, chunk: ListChunk) {
        self.insert_chunk(self.chunks.len(), chunk);
    }

    /// Adds an element at an end.
    #[inline(always)] // see ListChunk::push
    pub(in crate::store::value) fn push(&mut self, text: &[u8], at: ListEnd, limit: NodeLimit) {
        if self.walk.is_some() {
            self.before_change_at(at);
        }
        let chunk = match at {
            ListEnd::Head => self.chunks.front_mut(),
            ListEnd::Tail => self.chunks.back_mut(),
        };
        match chunk {
            Some(chunk) if chunk.admits(text.len(), limit.node) && !limit.is_large(text.len()) => {
                self.buffers = self.buffers.wrapping_add_signed(chunk.push(text, at, limit.node));
                self.len += 1;
            }
            _ => self.push_chunk(text, at, limit),
        }
    }

    /// Adds an element at an end, in a new chunk.
    #[cold]
    fn push_chunk(&mut self, text: &[u8], at: ListEnd, limit: NodeLimit) {
        let (index, neighbour) = match at {
            ListEnd::Head => (0, 0),
            ListEnd::Tail => (self.chunks.len(), self.chunks.len().wrapping_sub(1)),
        };
        // The other end of the list will grow.
        if self.chunks.len() > 1 {
            self.edit(neighbour, ListChunk::seal);
        }
        self.insert_chunk(index, new_chunk(text, at, limit, self.buffers / SPARE_SHARE));
    }

    /// Passes the element at an end to `read` and removes it; returns true if there was one.
    #[inline]
    pub(in crate::store::value) fn pop(&mut self, at: ListEnd, read: impl FnOnce(StoredElement<'_>)) -> bool {
        if self.walk.is_some() {
            self.before_change_at(at);
        }
        let chunk = match at {
            ListEnd::Head => self.chunks.front_mut(),
            ListEnd::Tail => self.chunks.back_mut(),
        };
        let Some(chunk) = chunk else { return false };
        if chunk.len() > 1 {
            chunk.pop(at, read);
            self.len -= 1;
            return true;
        }
        if let Some(item) = chunk.items().next() {
            read(item);
        }
        self.remove_chunk(if at == ListEnd::Head { 0 } else { self.chunks.len() - 1 });
        true
    }

    /// Returns the chunk of an element, and its index there.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index <= self.len / 2 {
            let mut left = index;
            for (number, chunk) in self.chunks.iter().enumerate() {
                match left.checked_sub(chunk.len()) {
                    Some(rest) => left = rest,
                    None => return Some((number, left)),
                }
            }
            return None;
        }
        // The number of elements from the wanted one to the end, including the wanted one.
        let mut left = self.len - index;
        for (number, chunk) in self.chunks.iter().enumerate().rev() {
            match left.checked_sub(chunk.len() + 1) {
                Some(rest) => left = rest + 1,
                None => return Some((number, chunk.len() - left)),
            }
        }
        None
    }

    /// Returns the position of an element.
    fn spot(&self, index: usize) -> Option<Spot> {
        let (number, index) = self.locate(index)?;
        let chunk = &self.chunks[number];
        Some((number, if chunk.plain_text().is_some() { 0 } else { chunk.offset_of(index) }))
    }

    /// Returns the position of the first element equal to a text.
    pub(in crate::store::value) fn find(&self, text: &[u8]) -> Option<Spot> {
        self.chunks.iter().enumerate().find_map(|(number, chunk)| Some((number, chunk.find(text)?)))
    }

    /// Iterates over the elements from an index on, from either end.
    pub(in crate::store::value) fn iter_from(&self, index: usize) -> ListItems<'_> {
        let Some((number, offset)) = self.spot(index) else { return ListItems::packed(&[]) };
        let chunk = &self.chunks[number];
        let front = match chunk.plain_text() {
            Some(_) => chunk.items(),
            None => ChunkItems::within(chunk, offset..chunk.elements().len()),
        };
        ListItems { front, chunks: self.chunks.range(number + 1..), back: ChunkItems::new(&[]) }
    }

    /// Iterates over the elements before an index, from either end.
    pub(in crate::store::value) fn iter_to(&self, index: usize) -> ListItems<'_> {
        let Some((number, offset)) = self.spot(index) else { return self.iter() };
        let chunk = &self.chunks[number];
        let back = match chunk.plain_text() {
            Some(_) => ChunkItems::new(&[]),
            None => ChunkItems::within(chunk, 0..offset),
        };
        ListItems { front: ChunkItems::new(&[]), chunks: self.chunks.range(..number), back }
    }

    /// Iterates over all elements, from either end.
    pub(in crate::store::value) fn iter(&self) -> ListItems<'_> {
        ListItems { front: ChunkItems::new(&[]), chunks: self.chunks.iter(), back: ChunkItems::new(&[]) }
    }

    /// Replaces the element at an index, which exists.
    pub(in crate::store::value) fn set(&mut self, index: usize, text: &[u8], limit: NodeLimit) {
        let Some((number, offset)) = self.spot(index) else { return };
        let chunk = &self.chunks[number];
        let is_large = limit.is_large(text.len());
        if chunk.len() == 1 {
            self.remove_chunk(number);
            return self.insert_chunk(number, new_chunk(text, ListEnd::Tail, limit, 0));
        }
        let element = Encoded::of(text);
        let new_len = chunk.listpack_len() - chunk.element_len(offset) + element.len();
        if !is_large && limit.node.admits(new_len, chunk.len()) {
            return self.edit(number, |chunk| chunk.replace(offset, &element, limit.node));
        }
        let within = chunk.index_at(offset);
        self.edit(number, |chunk| chunk.remove(within, 1, limit.node));
        self.insert((number, offset), text, limit);
    }

    /// Inserts an element before or after the element at a position.
    pub(in crate::store::value) fn insert_beside(
        &mut self,
        (number, offset): Spot,
        is_after: bool,
        text: &[u8],
        limit: NodeLimit,
    ) {
        let chunk = &self.chunks[number];
        let spot = match (chunk.plain_text(), is_after) {
            (Some(_), true) => (number + 1, 0),
            (None, true) => (number, offset + chunk.element_len(offset)),
            (_, false) => (number, offset),
        };
        self.insert(spot, text, limit);
    }

    /// Inserts an element at a position: the offset of an element, or the end of a chunk.
    fn insert(&mut self, (number, offset): Spot, text: &[u8], limit: NodeLimit) {
        let is_large = limit.is_large(text.len());
        let admits =
            |chunk: Option<&ListChunk>| !is_large && chunk.is_some_and(|chunk| chunk.admits(text.len(), limit.node));
        let chunk = self.chunks.get(number);
        if admits(chunk) {
            return self.edit(number, |chunk| chunk.insert(offset, &Encoded::of(text), limit.node));
        }
        let end = chunk.map_or(0, |chunk| chunk.elements().len());
        let before = number.wrapping_sub(1);
        match () {
            () if offset == 0 && admits(self.chunks.get(before)) => {
                self.edit(before, |chunk| chunk.push(text, ListEnd::Tail, limit.node));
            }
            () if offset == 0 => self.insert_chunk(number, new_chunk(text, ListEnd::Tail, limit, 0)),
            () if offset == end && admits(self.chunks.get(number + 1)) => {
                self.edit(number + 1, |chunk| chunk.push(text, ListEnd::Head, limit.node));
            }
            () if offset == end => self.insert_chunk(number + 1, new_chunk(text, ListEnd::Tail, limit, 0)),
            () => {
                let behind = self.edit(number, |chunk| chunk.split_off(offset));
                self.insert_chunk(number + 1, behind);
                self.edit(number, ListChunk::seal);
                // The offset is the end of the chunk now, and the chunk has room.
                self.insert((number, offset), text, limit);
            }
        }
    }

    /// Removes `count` elements from an index on; all of them exist.
    pub(in crate::store::value) fn remove(&mut self, index: usize, count: usize, limit: NodeLimit) {
        let Some((first, within)) = self.locate(index) else { return };
        let mut left = count;
        let in_first = left.min(self.chunks[first].len() - within);
        left -= in_first;
        let mut emptied = first..first;
        if in_first == self.chunks[first].len() {
            emptied.end += 1;
        } else {
            self.edit(first, |chunk| chunk.remove(within, in_first, limit.node));
            emptied = first + 1..first + 1;
        }
        while left > 0 && left >= self.chunks[emptied.end].len() {
            left -= self.chunks[emptied.end].len();
            emptied.end += 1;
        }
        if left > 0 {
            self.edit(emptied.end, |chunk| chunk.remove(0, left, limit.node));
        }
        let joint = emptied.start;
        if self.walk.is_some() {
            emptied.clone().for_each(|number| self.before_change(number));
            if let Some(walk) = &mut self.walk {
                walk.removed(joint, emptied.len());
            }
        }
        for chunk in self.chunks.drain(emptied) {
            self.len -= chunk.len();
            self.buffers -= chunk.memory();
        }
        self.merge_around(joint, limit);
        self.fit_capacity();
    }

    /// Removes up to `max_count` elements equal to a text, beginning at an end. Returns their number.
    pub(in crate::store::value) fn remove_equal(
        &mut self,
        text: &[u8],
        max_count: usize,
        from: ListEnd,
        limit: NodeLimit,
    ) -> usize {
        let (mut removed, mut changed, mut last) = (0, 0, 0);
        for step in 0..self.chunks.len() {
            let number = if from == ListEnd::Head { step } else { self.chunks.len() - 1 - step };
            if self.walk.is_some() && self.chunks[number].find(text).is_none() {
                continue; // an edit would count as a change
            }
            let in_chunk = self.edit(number, |chunk| chunk.remove_equal(text, max_count - removed, from));
            if in_chunk > 0 {
                (removed, changed, last) = (removed + in_chunk, changed + 1, number);
            }
            if removed == max_count {
                break;
            }
        }
        match changed {
            0 => {}
            1 if self.chunks[last].is_empty() => self.remove_chunk(last),
            1 => self.merge_around(last, limit),
            _ => self.merge_all(limit),
        }
        removed
    }

    /// Merges a chunk with its neighbours if they have become small.
    fn merge_around(&mut self, number: usize, limit: NodeLimit) {
        for left in [number, number.wrapping_sub(1)] {
            let Some((chunk, next)) = self.chunks.get(left).zip(self.chunks.get(left.wrapping_add(1))) else {
                continue;
            };
            if chunk.merges_with(next, limit.node)
                && let Some(next) = self.take_chunk(left + 1)
            {
                self.edit(left, |chunk| chunk.merge(&next));
            }
        }
    }

    /// Removes empty chunks, and merges small ones.
    fn merge_all(&mut self, limit: NodeLimit) {
        let mut walk = self.walk.take();
        let chunks = std::mem::take(self).chunks;
        // Former indexes of the new chunks, for the walk.
        let mut places = Vec::new();
        for (number, chunk) in chunks.into_iter().enumerate().filter(|(_, chunk)| !chunk.is_empty()) {
            match self.chunks.back() {
                Some(last) if last.merges_with(&chunk, limit.node) => {
                    if let Some(walk) = &mut walk {
                        if let Some(place) = places.last() {
                            walk.before_change(*place, last);
                        }
                        walk.before_change(number, &chunk);
                    }
                    self.edit(self.chunks.len() - 1, |last| last.merge(&chunk));
                }
                _ => {
                    self.append_chunk(chunk);
                    if walk.is_some() {
                        places.push(number);
                    }
                }
            }
        }
        if let Some(walk) = &mut walk {
            walk.renumber(&places);
        }
        self.walk = walk;
    }

    /// Gives a chunk that is about to change to the walk of a snapshot.
    #[cold]
    #[inline(never)] // keeps the paths without a walk short
    fn before_change(&mut self, number: usize) {
        if let (Some(walk), Some(chunk)) = (&mut self.walk, self.chunks.get(number)) {
            walk.before_change(number, chunk);
        }
    }

    #[cold]
    #[inline(never)] // as `before_change`
    fn before_change_at(&mut self, end: ListEnd) {
        self.before_change(if end == ListEnd::Head { 0 } else { self.chunks.len().wrapping_sub(1) });
    }

    /// Changes a chunk, and accounts for the change.
    #[inline]
    fn edit<R>(&mut self, number: usize, change: impl FnOnce(&mut ListChunk) -> R) -> R {
        if self.walk.is_some() {
            self.before_change(number);
        }
        let chunk = &mut self.chunks[number];
        let (len, memory) = (chunk.len(), chunk.memory());
        let result = change(chunk);
        self.len = self.len + chunk.len() - len;
        self.buffers = self.buffers + chunk.memory() - memory;
        result
    }

    fn insert_chunk(&mut self, number: usize, chunk: ListChunk) {
        self.len += chunk.len();
        self.buffers += chunk.memory();
        self.chunks.insert(number, chunk);
        if let Some(walk) = &mut self.walk {
            walk.inserted(number);
        }
        self.deque = list_len::<ListChunk>(self.chunks.capacity());
    }

    #[cold]
    fn remove_chunk(&mut self, number: usize) {
        self.take_chunk(number);
        self.fit_capacity();
    }

    fn take_chunk(&mut self, number: usize) -> Option<ListChunk> {
        if self.walk.is_some() {
            self.before_change(number);
        }
        let chunk = self.chunks.remove(number)?;
        if let Some(walk) = &mut self.walk {
            walk.removed(number, 1);
        }
        self.len -= chunk.len();
        self.buffers -= chunk.memory();
        Some(chunk)
    }

    /// Shrinks the deque when less than an eighth of it is used.
    fn fit_capacity(&mut self) {
        if self.chunks.capacity() > 64 && self.chunks.len() < self.chunks.capacity() / 8 {
            self.chunks.shrink_to(self.chunks.capacity() / 4);
            self.deque = list_len::<ListChunk>(self.chunks.capacity());
        }
    }
}

/// Creates a chunk of one element, with room for more at one end.
fn new_chunk(text: &[u8], at: ListEnd, limit: NodeLimit, room: usize) -> ListChunk {
    if limit.is_large(text.len()) { ListChunk::plain(text) } else { ListChunk::begin(text, at, limit.node, room) }
}

/// An iterator over elements of a list, from either end.
#[derive(Clone, Debug)]
pub(crate) struct ListItems<'a> {
    front: ChunkItems<'a>,
    chunks: vec_deque::Iter<'a, ListChunk>,
    back: ChunkItems<'a>,
}

impl<'a> ListItems<'a> {
    /// Iterates over elements of a listpack.
    #[inline]
    pub(in crate::store::value) fn packed(elements: &'a [u8]) -> Self {
        ListItems { front: ChunkItems::new(elements), chunks: vec_deque::Iter::default(), back: ChunkItems::new(&[]) }
    }
}

impl<'a> Iterator for ListItems<'a> {
    type Item = StoredElement<'a>;

    #[inline]
    fn next(&mut self) -> Option<StoredElement<'a>> {
        loop {
            if let Some(item) = self.front.next() {
                return Some(item);
            }
            match self.chunks.next() {
                Some(chunk) => self.front = chunk.items(),
                None => return self.back.next(),
            }
        }
    }
}

impl DoubleEndedIterator for ListItems<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.back.next_back() {
                return Some(item);
            }
            match self.chunks.next_back() {
                Some(chunk) => self.back = chunk.items(),
                None => return self.front.next_back(),
            }
        }
    }
}
