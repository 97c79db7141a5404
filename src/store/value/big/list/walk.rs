//! The walk of a snapshot over the chunks of a list, which are written in their order.
//!
//! The chunks of the cut are numbered. Unchanged chunks are in *runs*, each of which records the present position of
//! its chunks in the list. A chunk that is about to change leaves its run, and is kept as written until its turn comes.

use std::collections::BTreeMap;

use crate::memory::marked::MarkedBytes;
use crate::store::value::big::list::ListChunk;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};

/// The state of a walk.
pub(super) struct ListWalk {
    /// Runs of chunks that have neither changed since the cut nor been visited, in their order.
    runs: Vec<Run>,
    /// Chunks that have changed before they were visited, by their numbers.
    kept: BTreeMap<usize, MarkedBytes>,
    /// Number of the next chunk to visit.
    next: usize,
    /// Number of chunks at the cut.
    count: usize,
    record: Record,
}

/// Chunks that are adjacent in the list, at the cut and now.
#[derive(Clone, Copy)]
struct Run {
    /// Number of the first chunk at the cut.
    number: usize,
    /// Present index of the first chunk in the list.
    index: usize,
    len: usize,
}

/// Returns a chunk as an element of a record.
fn element_of(chunk: &ListChunk) -> WalkedElement<'_> {
    match chunk.plain_text() {
        Some(text) => WalkedElement::Plain(text),
        None => WalkedElement::Packed(chunk.elements(), chunk.len()),
    }
}

impl ListWalk {
    /// Begins a walk over `count` chunks.
    pub(super) fn new(count: usize, record: Record) -> Self {
        let all = Run { number: 0, index: 0, len: count };
        ListWalk { runs: vec![all], kept: BTreeMap::new(), next: 0, count, record }
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Saves a chunk that is about to be changed or removed, if it is a chunk of the cut that was not visited.
    pub(super) fn before_change(&mut self, index: usize, chunk: &ListChunk) {
        let Some(at) = self.runs.iter().position(|run| (run.index..run.index + run.len).contains(&index)) else {
            return;
        };
        let run = self.runs[at];
        let before = index - run.index;
        self.kept.insert(run.number + before, self.record.written(element_of(chunk)));
        let behind = Run { number: run.number + before + 1, index: index + 1, len: run.len - before - 1 };
        let parts = [Run { len: before, ..run }, behind];
        self.runs.splice(at..=at, parts.into_iter().filter(|run| run.len > 0));
    }

    /// Updates the positions of the chunks behind a new one.
    pub(super) fn inserted(&mut self, index: usize) {
        if let Some(at) = self.runs.iter().position(|run| run.index < index && index < run.index + run.len) {
            let run = self.runs[at];
            let before = index - run.index;
            let behind = Run { number: run.number + before, index, len: run.len - before };
            self.runs.splice(at..=at, [Run { len: before, ..run }, behind]);
        }
        self.runs.iter_mut().filter(|run| run.index >= index).for_each(|run| run.index += 1);
    }

    /// Updates the positions of the chunks behind removed ones, for each of which [`ListWalk::before_change`] was
    /// called.
    pub(super) fn removed(&mut self, index: usize, count: usize) {
        self.runs.iter_mut().filter(|run| run.index > index).for_each(|run| run.index -= count);
    }

    /// Updates the positions after the removal of many chunks, for each of which [`ListWalk::before_change`] was
    /// called: `places` are the former indexes of the chunks that are left.
    pub(super) fn renumber(&mut self, places: &[usize]) {
        for run in &mut self.runs {
            run.index = places.partition_point(|place| *place < run.index);
        }
    }

    /// Visits chunks until the time is up; `chunk` returns the chunk with an index.
    pub(super) fn visit<'c>(
        &mut self,
        chunk: impl Fn(usize) -> Option<&'c ListChunk>,
        is_time_up: &dyn Fn() -> bool,
    ) -> RecordPart {
        while self.next < self.count {
            match (self.kept.remove(&self.next), self.runs.first_mut()) {
                (Some(written), _) => self.record.add_written(&written),
                (None, Some(run)) => {
                    if let Some(chunk) = chunk(run.index) {
                        self.record.add(element_of(chunk));
                    }
                    *run = Run { number: run.number + 1, index: run.index + 1, len: run.len - 1 };
                    if run.len == 0 {
                        self.runs.remove(0);
                    }
                }
                (None, None) => {}
            }
            self.next += 1;
            if is_time_up() {
                break;
            }
        }
        self.record.take(self.next == self.count)
    }
}
