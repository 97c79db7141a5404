//! Deletion of old entries.

use crate::store::value::big::stream::{BigStream, StreamChunk, StreamId};

/// The entries that a trim deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The oldest entries, until this many are left.
    Len(usize),
    /// Entries with smaller IDs.
    MinId(StreamId),
}

/// Treatment of a deleted entry in groups that have not acknowledged it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum References {
    /// The entry stays among their pending entries.
    #[default]
    Keep,
    /// The entry is removed from their pending entries.
    Delete,
    /// The entry is not deleted until all groups have read and acknowledged it.
    Acknowledged,
}

/// A trim of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trim {
    pub(crate) bound: Bound,
    /// True if only whole chunks are deleted.
    pub(crate) is_approximate: bool,
    /// Maximum number of entries to delete; 0 is no limit.
    pub(crate) limit: usize,
    /// Treatment of references by groups.
    pub(crate) references: References,
}

/// The outcome of a trim.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trimmed {
    /// Number of deleted entries.
    pub(crate) deleted: usize,
    /// True if references were removed, including references to entries that had been deleted before.
    pub(crate) has_forgotten: bool,
    /// ID of the first chunk that was left alone.
    pub(crate) rest: Option<StreamId>,
}

impl BigStream {
    /// Deletes the oldest entries.
    pub(crate) fn trim(&mut self, trim: &Trim) -> Trimmed {
        let (mut trimmed, mut from) = (Trimmed::default(), StreamId::MIN);
        while let Some((&id, chunk)) = self.chunks.range(from..).next() {
            trimmed.rest = Some(id);
            if trim.bound == Bound::Len(self.len) || matches!(trim.bound, Bound::Len(max_len) if self.len < max_len) {
                break;
            }
            let live = chunk.master().live;
            if trim.limit > 0 && trimmed.deleted + live > trim.limit {
                break;
            }
            let is_covered = match trim.bound {
                Bound::Len(max_len) => self.len - live >= max_len,
                Bound::MinId(min) => last_of(id, chunk) < min,
            };
            if is_covered && (trim.references == References::Keep || self.groups.len() == 0) {
                self.drop_chunk(id);
                self.len -= live;
                trimmed.deleted += live;
                trimmed.rest = None;
                continue;
            }
            if trim.is_approximate && !is_covered {
                break;
            }
            self.trim_inside(id, trim, &mut trimmed);
            if !is_covered {
                break;
            }
            trimmed.rest = None;
            let Some(next) = id.next() else { break };
            from = next;
        }
        if trimmed.deleted > 0 {
            self.find_first();
        }
        trimmed
    }

    /// Deletes entries of one chunk, and removes references to them and to entries of the chunk deleted before.
    fn trim_inside(&mut self, id: StreamId, trim: &Trim, trimmed: &mut Trimmed) {
        self.before_change(id);
        let BigStream { chunks, groups, len, .. } = self;
        let Some(chunk) = chunks.get_mut(&id) else { return };
        let (master, mut deleted) = (chunk.master(), 0);
        let mut at = master.entries_at;
        while !chunk.is_end(at) {
            let place = chunk.entry_at(id, &master, at);
            let is_kept = match trim.bound {
                Bound::Len(max_len) => *len <= max_len,
                Bound::MinId(min) => place.id >= min,
            };
            if is_kept {
                break;
            }
            at = chunk.after(&place);
            let is_needed = trim.references == References::Acknowledged && groups.refer_to(place.id);
            if trim.references == References::Delete {
                trimmed.has_forgotten |= !groups.forget(place.id).is_empty();
            }
            if place.is_deleted() || is_needed {
                continue;
            }
            chunk.mark_deleted(&place);
            deleted += 1;
            *len -= 1;
        }
        if deleted == master.live {
            self.drop_chunk(id);
        } else {
            self.change_chunk(id, |chunk| chunk.count_deleted(deleted));
        }
        trimmed.deleted += deleted;
    }

    /// Deletes an entry; returns true if it existed. Updates the largest deleted ID.
    pub(crate) fn delete(&mut self, id: StreamId) -> bool {
        let Some((&master_id, chunk)) = self.chunks.floor_mut(&id) else { return false };
        let master = chunk.master();
        let mut at = master.entries_at;
        let place = loop {
            if chunk.is_end(at) {
                return false;
            }
            let place = chunk.entry_at(master_id, &master, at);
            if place.id == id {
                break place;
            }
            if place.id > id {
                return false;
            }
            at = chunk.after(&place);
        };
        if place.is_deleted() {
            return false;
        }
        match master.live {
            1 => self.drop_chunk(master_id),
            _ => self.change_chunk(master_id, |chunk| {
                chunk.mark_deleted(&place);
                chunk.count_deleted(1);
            }),
        }
        self.len -= 1;
        self.max_deleted = self.max_deleted.max(id);
        if self.len == 0 || id == self.first {
            self.find_first();
        }
        true
    }

    /// Removes an entry from the pending entries of all groups; returns the names of those that had it.
    pub(crate) fn forget(&mut self, id: StreamId) -> Vec<Box<[u8]>> {
        self.groups.forget(id)
    }

    /// Updates the ID of the first entry.
    pub(super) fn find_first(&mut self) {
        self.first = self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id);
    }
}

/// Returns the last ID of a chunk, including deleted entries.
fn last_of(id: StreamId, chunk: &StreamChunk) -> StreamId {
    chunk.entry_at(id, &chunk.master(), chunk.before(chunk.end())).id
}
