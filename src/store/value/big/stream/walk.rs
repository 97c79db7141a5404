//! Iteration over the entries of a stream, from either end.

use crate::memory::ordered_map::{self, OrderedMap};
use crate::store::value::big::stream::chunk::{Fields, Master, StreamChunk};
use crate::store::value::big::stream::id::StreamId;

/// An entry of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamEntry<'a> {
    pub(crate) id: StreamId,
    /// Fields and values.
    pub(crate) fields: Fields<'a>,
}

/// An iterator over entries in a range of IDs, in one direction.
pub(crate) struct EntryWalk<'a> {
    chunks: ordered_map::Range<'a, StreamId, StreamChunk>,
    current: Option<Position<'a>>,
    start: StreamId,
    end: StreamId,
    backwards: bool,
}

struct Position<'a> {
    id: StreamId,
    chunk: &'a StreamChunk,
    master: Master,
    /// Offset of the next entry, or backwards its end.
    at: usize,
}

impl<'a> EntryWalk<'a> {
    /// Creates an iterator over entries of chunks that are ordered by the IDs of their first entries.
    pub(super) fn new(
        chunks: &'a OrderedMap<StreamId, StreamChunk>,
        start: StreamId,
        end: StreamId,
        backwards: bool,
    ) -> Self {
        // The first entry may lie in the chunk that begins before it.
        let first = match chunks.range(..=start).next_back() {
            Some((id, _)) => *id,
            None => start,
        };
        let chunks = if start <= end { chunks.range(first..=end) } else { chunks.range(StreamId::MIN..StreamId::MIN) };
        let mut walk = EntryWalk { chunks, current: None, start, end, backwards };
        walk.enter();
        walk
    }

    /// Goes to the next chunk.
    fn enter(&mut self) {
        let next = if self.backwards { self.chunks.next_back() } else { self.chunks.next() };
        self.current = next.map(|(id, chunk)| {
            let master = chunk.master();
            let at = if self.backwards { chunk.end() } else { master.entries_at };
            Position { id: *id, chunk, master, at }
        });
    }
}

impl<'a> Iterator for EntryWalk<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Position { id, chunk, master, at } = self.current.as_mut()?;
            let is_over = if self.backwards { *at <= master.entries_at } else { chunk.is_end(*at) };
            if is_over {
                self.enter();
                continue;
            }
            let place = if self.backwards {
                *at = chunk.before(*at);
                chunk.entry_at(*id, master, *at)
            } else {
                let place = chunk.entry_at(*id, master, *at);
                *at = chunk.after(&place);
                place
            };
            let is_beyond = if self.backwards { place.id < self.start } else { place.id > self.end };
            if is_beyond {
                self.current = None;
                return None;
            }
            if place.is_deleted() || place.id < self.start || place.id > self.end {
                continue;
            }
            return Some(StreamEntry { id: place.id, fields: chunk.fields(master, &place) });
        }
    }
}

/// Calls `visit` with the entries of a node, given as a listpack made from a chunk, and the ID of its first entry.
pub(crate) fn entries_of(first: StreamId, listpack: &[u8], mut visit: impl FnMut(StreamEntry<'_>)) {
    let chunk = StreamChunk::from_checked(listpack, 0);
    let master = chunk.master();
    let mut at = master.entries_at;
    while !chunk.is_end(at) {
        let place = chunk.entry_at(first, &master, at);
        at = chunk.after(&place);
        if !place.is_deleted() {
            visit(StreamEntry { id: place.id, fields: chunk.fields(&master, &place) });
        }
    }
}
