//! The walk of a snapshot over the chunks of a stream, which are written in their order.

use std::collections::BTreeMap;

use crate::memory::marked::MarkedBytes;
use crate::memory::ordered_map::OrderedMap;
use crate::store::value::big::stream::chunk::StreamChunk;
use crate::store::value::big::stream::id::StreamId;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};

/// The state of a walk.
pub(super) struct StreamWalk {
    /// ID from which on chunks have not been visited; `None` if all were.
    next: Option<StreamId>,
    /// ID of the last chunk of the cut.
    last: StreamId,
    /// Chunks that have changed before they were visited.
    kept: BTreeMap<StreamId, MarkedBytes>,
    record: Record,
}

impl StreamWalk {
    /// Begins a walk; `last` is the last chunk, if there is one.
    pub(super) fn new(last: Option<StreamId>, record: Record) -> Self {
        let (next, last) = (last.map(|_| StreamId::MIN), last.unwrap_or(StreamId::MIN));
        StreamWalk { next, last, kept: BTreeMap::new(), record }
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Saves a chunk that is about to change, if it is a chunk of the cut that was not visited.
    pub(super) fn before_change(&mut self, id: StreamId, chunk: &StreamChunk) {
        if self.next.is_some_and(|next| next <= id) && id <= self.last && !self.kept.contains_key(&id) {
            let written = self.record.written(WalkedElement::Chunk(id.to_bytes(), &chunk.to_listpack()));
            self.kept.insert(id, written);
        }
    }

    /// Visits chunks until the time is up.
    pub(super) fn visit(
        &mut self,
        chunks: &OrderedMap<StreamId, StreamChunk>,
        is_time_up: &dyn Fn() -> bool,
    ) -> RecordPart {
        let StreamWalk { next, last, kept, record } = self;
        while let Some(from) = *next {
            let present = chunks.range(from..=*last).find(|(id, _)| !kept.contains_key(id));
            let id = match (kept.first_entry(), present) {
                (Some(first), present) if present.is_none_or(|(id, _)| first.key() < id) => {
                    let (id, written) = first.remove_entry();
                    record.add_written(&written);
                    id
                }
                (_, Some((id, chunk))) => {
                    record.add(WalkedElement::Chunk(id.to_bytes(), &chunk.to_listpack()));
                    *id
                }
                (_, None) => *last,
            };
            *next = id.next().filter(|_| id < *last);
            if is_time_up() {
                break;
            }
        }
        record.take(next.is_none())
    }
}
