//! Streams: an ordered map of packed chunks of entries, and the consumer groups.
//!
//! The chunks have the format of Redis' nodes, so a dump copies them. `chunk.rs` reads and writes a chunk, `walk.rs`
//! iterates over the entries, `trim.rs` deletes them, `group.rs` has the consumer groups.

mod chunk;
mod group;
mod id;
mod producers;
mod radix;
mod steps;
#[cfg(test)]
mod tests;
mod trim;
mod walk;

use std::fmt;

use crate::memory::ordered_map::OrderedMap;
use crate::store::limits::StreamLimit;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart};

pub(crate) use chunk::StreamChunk;
pub(crate) use group::{Consumer, ConsumerGroup, ConsumerNumber, GroupMut, PendingEntry};
pub(crate) use id::StreamId;
pub(crate) use producers::{Producers, Remembrance};
pub(crate) use trim::{Bound, References, Trim, Trimmed};
pub(crate) use walk::{EntryWalk, StreamEntry, entries_of};

use group::{COUNT_MAX, Groups};
use steps::StreamWalk;

/// Maximum length of a chunk, even without a limit: 1 GB.
const CHUNK_LEN_MAX: usize = 1 << 30;

/// Expected final size of a chunk with a larger limit.
const ROOM_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct BigStream {
    /// Chunks by the IDs of their first entries, including deleted ones.
    chunks: OrderedMap<StreamId, StreamChunk>,
    /// Bytes allocated by the chunks.
    chunks_len: usize,
    /// Number of nodes of the radix tree that Redis would have for the chunks, without its root.
    tree_nodes: usize,
    /// Number of entries.
    len: usize,
    /// ID of the first entry; [`StreamId::MIN`] without entries.
    first: StreamId,
    /// Largest ID so far.
    last: StreamId,
    /// Largest ID of a deleted entry.
    max_deleted: StreamId,
    /// Number of entries ever added.
    added: u64,
    groups: Groups,
    /// The producers that have named their entries, if there were any.
    producers: Option<Box<Producers>>,
    /// Walk of a snapshot that visits the chunks.
    walk: Option<Box<StreamWalk>>,
}

impl fmt::Debug for BigStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BigStream").field("len", &self.len).finish_non_exhaustive()
    }
}

impl LargeForm for BigStream {
    fn memory(&self) -> usize {
        let producers = self.producers.as_ref().map_or(0, |producers| producers.memory());
        self.chunks.memory() + self.chunks_len + self.groups.memory() + producers
    }

    fn effort(&self) -> usize {
        /// The length of an allocation of average groups.
        const PIECE: usize = 256;
        1 + self.chunks.len() + self.groups.memory() / PIECE
    }

    fn copy(&self) -> Self {
        let chunks: OrderedMap<_, _> = self.chunks.iter().map(|(id, chunk)| (*id, chunk.copy())).collect();
        let chunks_len = chunks.values().map(StreamChunk::memory).sum();
        let (groups, producers) = (self.groups.copy(), self.producers.clone());
        BigStream { chunks, chunks_len, groups, producers, walk: None, ..*self }
    }

    fn set_record(&mut self, record: Option<Record>) {
        let last = self.chunks.keys().next_back().copied();
        self.walk = record.map(|record| Box::new(StreamWalk::new(last, record)));
    }

    fn record(&self) -> Option<&Record> {
        self.walk.as_ref().map(|walk| walk.record())
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        Some(self.walk.as_mut()?.visit(&self.chunks, is_time_up))
    }
}

impl BigStream {
    /// The largest count of entries or deliveries: replies have signed integers of 64 bits.
    pub(crate) const COUNT_MAX: u64 = COUNT_MAX;

    /// Empty stream, which a missing key reads as.
    pub(in crate::store::value) const EMPTY: BigStream = BigStream {
        chunks: OrderedMap::EMPTY,
        chunks_len: 0,
        tree_nodes: 0,
        len: 0,
        first: StreamId::MIN,
        last: StreamId::MIN,
        max_deleted: StreamId::MIN,
        added: 0,
        groups: Groups::EMPTY,
        producers: None,
        walk: None,
    };

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the ID of the first entry; [`StreamId::MIN`] without entries.
    pub(crate) fn first(&self) -> StreamId {
        self.first
    }

    /// Returns the largest ID that was ever given to an entry, or was set.
    pub(crate) fn last(&self) -> StreamId {
        self.last
    }

    /// Returns the ID of the last entry that is not deleted.
    pub(crate) fn last_entry(&self) -> Option<StreamId> {
        self.range_back(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id)
    }

    /// Returns the largest ID of a deleted entry.
    pub(crate) fn max_deleted(&self) -> StreamId {
        self.max_deleted
    }

    /// Returns the number of entries ever added.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Sets the largest ID, and the counters that are given.
    pub(crate) fn set_last(&mut self, last: StreamId, added: Option<u64>, max_deleted: Option<StreamId>) {
        self.last = last;
        self.added = added.unwrap_or(self.added);
        self.max_deleted = max_deleted.unwrap_or(self.max_deleted);
    }

    /// Iterates over the entries from `start` to `end`, both included.
    pub(crate) fn range(&self, start: StreamId, end: StreamId) -> EntryWalk<'_> {
        EntryWalk::new(&self.chunks, start, end, false)
    }

    /// Iterates over the entries from `end` down to `start`, both included.
    pub(crate) fn range_back(&self, start: StreamId, end: StreamId) -> EntryWalk<'_> {
        EntryWalk::new(&self.chunks, start, end, true)
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.range(id, id).next()
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Iterates over the chunks with the IDs of their first entries.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (StreamId, &StreamChunk)> {
        self.chunks.iter().map(|(id, chunk)| (*id, chunk))
    }

    /// Returns the number of nodes that the radix tree of the chunks would have in Redis.
    pub(crate) fn tree_nodes(&self) -> usize {
        self.tree_nodes + 1
    }

    /// Appends an entry, whose ID is larger than all IDs before; `pairs` are alternating fields and values.
    pub(crate) fn append(&mut self, id: StreamId, pairs: &[&[u8]], limit: StreamLimit) {
        debug_assert!(id > self.last);
        let max_len = if limit.bytes == 0 { CHUNK_LEN_MAX } else { limit.bytes.min(CHUNK_LEN_MAX) };
        let limit = StreamLimit { bytes: max_len, ..limit };
        let room = max_len.min(ROOM_MAX);
        let added_len = pairs.iter().map(|part| part.len()).sum();
        let is_first = self.chunks.is_empty();
        if self.walk.is_some() {
            let last = self.chunks.keys().next_back().copied();
            if let Some(last) = last {
                self.before_change(last);
            }
        }
        match self.chunks.last_mut() {
            Some((&master_id, chunk)) if chunk.has_room(limit, added_len) => {
                let growth = chunk.append(id, master_id, pairs, room);
                self.chunks_len = self.chunks_len.wrapping_add_signed(growth);
            }
            last => {
                if let Some((_, full)) = last {
                    let before = full.memory();
                    full.seal();
                    self.chunks_len = self.chunks_len + full.memory() - before;
                }
                let mut chunk = StreamChunk::new(pairs, if is_first { 0 } else { room });
                chunk.append(id, id, pairs, room);
                self.insert_chunk(id, chunk);
            }
        }
        self.len += 1;
        self.added = (self.added + 1).min(Self::COUNT_MAX);
        self.last = id;
        if self.len == 1 {
            self.first = id;
        }
    }

    /// Adds a chunk after all others, a checked listpack with `live` entries that are not deleted; for values that are
    /// read from a dump.
    pub(crate) fn push_chunk(&mut self, id: StreamId, listpack: &[u8], live: usize) {
        self.insert_chunk(id, StreamChunk::from_checked(listpack, live));
        self.len += live;
    }

    /// Sets the ID of the first entry from the chunks; for values that are read from a dump.
    pub(crate) fn restore_first(&mut self) {
        self.find_first();
    }

    fn insert_chunk(&mut self, id: StreamId, chunk: StreamChunk) {
        self.chunks_len += chunk.memory();
        self.tree_nodes += radix::nodes_of(id, &self.chunks);
        self.chunks.insert(id, chunk);
    }

    fn drop_chunk(&mut self, id: StreamId) {
        self.before_change(id);
        if let Some(chunk) = self.chunks.remove(&id) {
            self.chunks_len -= chunk.memory();
            self.tree_nodes -= radix::nodes_of(id, &self.chunks);
        }
    }

    fn change_chunk(&mut self, id: StreamId, change: impl FnOnce(&mut StreamChunk)) {
        self.before_change(id);
        if let Some(chunk) = self.chunks.get_mut(&id) {
            let before = chunk.memory();
            change(chunk);
            self.chunks_len = self.chunks_len + chunk.memory() - before;
        }
    }

    /// Gives a chunk that is about to change to the walk of a snapshot.
    fn before_change(&mut self, id: StreamId) {
        if let (Some(walk), Some(chunk)) = (&mut self.walk, self.chunks.get(&id)) {
            walk.before_change(id, chunk);
        }
    }

    /// Returns the producers that have named their entries, if there were any.
    pub(crate) fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// Borrows the producers for a change.
    pub(crate) fn producers_mut(&mut self) -> &mut Option<Box<Producers>> {
        &mut self.producers
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.groups.get(name)
    }

    /// Borrows a group for a change.
    pub(crate) fn group_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        self.groups.get_mut(name)
    }

    /// Iterates over the groups in the order of their names.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&[u8], &ConsumerGroup)> {
        self.groups.iter()
    }

    /// Adds a group; returns false if its name is used.
    pub(crate) fn add_group(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        self.groups.insert(name, group)
    }

    /// Removes a group; returns true if it existed.
    pub(crate) fn remove_group(&mut self, name: &[u8]) -> bool {
        self.groups.remove(name)
    }

    /// Returns true if any group has still to read or to acknowledge an entry.
    pub(crate) fn is_referred_to(&self, id: StreamId) -> bool {
        self.groups.refer_to(id)
    }

    /// Returns true if entries after an ID may have been deleted.
    pub(crate) fn has_gaps_from(&self, id: StreamId) -> bool {
        self.len > 0 && self.max_deleted != StreamId::MIN && id <= self.max_deleted
    }

    /// Returns the number of entries ever added up to an ID, if it can be known.
    pub(crate) fn added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last {
            return Some(self.added);
        }
        if id != StreamId::MIN && id < self.max_deleted {
            return None;
        }
        if id == self.last {
            return Some(self.added);
        }
        let is_known = id < self.last && (self.max_deleted == StreamId::MIN || self.max_deleted < self.first);
        let before_first = self.added.saturating_sub(self.len as u64);
        match id.cmp(&self.first) {
            _ if !is_known => None,
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Returns the number of entries that a group has still to read, if it can be known.
    pub(crate) fn lag(&self, group: &ConsumerGroup) -> Option<i64> {
        let left = |read: u64| (self.added as i64).wrapping_sub(read as i64);
        if self.added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last < self.first && self.max_deleted < self.first {
            return Some(self.len as i64);
        }
        match group.read {
            Some(read) if !self.has_gaps_from(group.last) => Some(left(read)),
            _ => self.added_up_to(group.last).map(left),
        }
    }

    /// Returns the number of entries read by a group after the entry `id`, given the last ID `last` and the number
    /// `read` before.
    pub(crate) fn read_after(&self, (last, read): (StreamId, Option<u64>), id: StreamId) -> Option<u64> {
        match read {
            Some(read) if last >= self.first && !self.has_gaps_from(last) => Some(read + 1),
            read if self.added == 0 => read,
            _ => self.added_up_to(id),
        }
    }
}
