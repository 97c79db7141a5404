//! The walk of a snapshot over the chunks of a list, which are written in their order.
//!
//! The chunks of the cut are numbered. As long as they do not change they lie in *runs*, each of which says where in the
//! list its chunks are now. A chunk that is about to change leaves its run, and is kept as written until its turn comes.

use std::collections::BTreeMap;

use crate::memory::marked::MarkedBytes;
use crate::store::value::big::list::Chunk;
use crate::store::value::big::walk::{Element, Part, Record};

/// The state of a walk.
pub(super) struct ListWalk {
    /// The chunks that are as they were at the cut and have not been visited, in their order.
    runs: Vec<Run>,
    /// Chunks that have changed before they were visited, by their numbers.
    kept: BTreeMap<usize, MarkedBytes>,
    /// The number of the next chunk to visit.
    next: usize,
    /// How many chunks there were at the cut.
    count: usize,
    record: Record,
}

/// Chunks beside each other, then as now.
#[derive(Clone, Copy)]
struct Run {
    /// The number of the first at the cut.
    number: usize,
    /// Its index in the list now.
    index: usize,
    len: usize,
}

/// Returns a chunk as an element of a record.
fn element_of(chunk: &Chunk) -> Element<'_> {
    match chunk.plain_text() {
        Some(text) => Element::Plain(text),
        None => Element::Packed(chunk.elements(), chunk.len()),
    }
}

impl ListWalk {
    /// Begins a walk over a number of chunks.
    pub(super) fn new(count: usize, record: Record) -> Self {
        let all = Run { number: 0, index: 0, len: count };
        ListWalk { runs: vec![all], kept: BTreeMap::new(), next: 0, count, record }
    }

    /// Returns the record.
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Keeps a chunk that is about to change or to go, if it is one of the cut that was not visited.
    pub(super) fn before_change(&mut self, index: usize, chunk: &Chunk) {
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

    /// Follows the chunks behind a new one.
    pub(super) fn inserted(&mut self, index: usize) {
        if let Some(at) = self.runs.iter().position(|run| run.index < index && index < run.index + run.len) {
            let run = self.runs[at];
            let before = index - run.index;
            let behind = Run { number: run.number + before, index, len: run.len - before };
            self.runs.splice(at..=at, [Run { len: before, ..run }, behind]);
        }
        self.runs.iter_mut().filter(|run| run.index >= index).for_each(|run| run.index += 1);
    }

    /// Follows the chunks behind some that have gone, each of which was about to change.
    pub(super) fn removed(&mut self, index: usize, count: usize) {
        self.runs.iter_mut().filter(|run| run.index > index).for_each(|run| run.index -= count);
    }

    /// Follows the chunks after many have gone, each of which was about to change: `places` says where those were that are
    /// left.
    pub(super) fn renumber(&mut self, places: &[usize]) {
        for run in &mut self.runs {
            run.index = places.partition_point(|place| *place < run.index);
        }
    }

    /// Visits chunks until the time is up; `chunk` returns the one with an index.
    pub(super) fn visit<'c>(
        &mut self,
        chunk: impl Fn(usize) -> Option<&'c Chunk>,
        is_time_up: &dyn Fn() -> bool,
    ) -> Part {
        while self.next < self.count {
            match (self.kept.remove(&self.next), self.runs.first_mut()) {
                (Some(written), _) => self.record.add_written(&written),
                (None, Some(run)) => {
                    chunk(run.index).into_iter().for_each(|chunk| self.record.add(element_of(chunk)));
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
