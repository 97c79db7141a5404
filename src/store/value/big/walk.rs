//! The walk of a snapshot over the elements of a large value: it takes many short steps, between which commands change the
//! value.
//!
//! The walk begins when that of the keys reaches the value or when the value is about to change, whichever comes first.
//! From then on a [`Record`] collects the elements as they were: those that a step visits, and those that a command is
//! about to change before a step has visited them. It lies in the value, so that it goes wherever the value goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::memory::marked::MarkedBytes;
use crate::store::value::listpack::Item;

/// An element of a large value, as it is written.
pub(crate) enum Element<'e> {
    /// A field of a hash, its value, and its deadline in milliseconds since 1970.
    Field(&'e [u8], &'e [u8], Option<i64>),
    /// A member of a set.
    Member(Item<'e>),
    /// A member of a sorted set, and its score.
    Scored(&'e [u8], f64),
    /// Consecutive bytes of a string.
    Piece(&'e [u8]),
    /// A node of a list that is a single element.
    Plain(&'e [u8]),
    /// The elements of another node of a list, and how many these are.
    Packed(&'e [u8], usize),
    /// A node of a stream: the ID of its first entry, and the listpack.
    Chunk([u8; 16], &'e [u8]),
}

/// Appends an element as a snapshot has it.
pub(crate) type WriteElement = Box<dyn Fn(Element<'_>, &mut MarkedBytes) + Send + Sync>;

/// What the walks of one snapshot have in common.
#[derive(Default)]
pub(crate) struct Progress {
    /// How many records have begun and are not finished.
    unfinished: AtomicUsize,
    /// The number of the last record.
    last: AtomicU64,
    /// Whether something was dropped before it was visited.
    is_lost: AtomicBool,
}

impl Progress {
    /// Returns whether there are records that have begun and are not finished.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.unfinished.load(Relaxed) > 0
    }

    /// Notes that something was dropped before it was visited, so that the snapshot is not whole.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Returns whether something was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }
}

/// What a snapshot writes of a large value, as far as it is known and not yet taken.
pub(crate) struct Record {
    progress: Arc<Progress>,
    number: u64,
    bytes: MarkedBytes,
    /// How many elements are not in the record yet.
    left: usize,
    body: RecordBody,
}

/// How the elements of a record are written.
pub(crate) struct RecordBody {
    /// How many there are.
    pub(crate) elements: usize,
    pub(crate) write: WriteElement,
    /// What comes behind them.
    pub(crate) tail: MarkedBytes,
}

impl Record {
    /// Begins a record with what comes before the elements.
    pub(crate) fn new(progress: &Arc<Progress>, head: MarkedBytes, body: RecordBody) -> Self {
        progress.unfinished.fetch_add(1, Relaxed);
        let number = progress.last.fetch_add(1, Relaxed) + 1;
        Record { progress: progress.clone(), number, bytes: head, left: body.elements, body }
    }

    /// Returns the number of the record, which no other of the snapshot has.
    pub(in crate::store) fn number(&self) -> u64 {
        self.number
    }

    /// Adds an element.
    pub(super) fn add(&mut self, element: Element<'_>) {
        (self.body.write)(element, &mut self.bytes);
        self.left = self.left.wrapping_sub(1);
    }

    /// Adds an element that was written before, see [`Record::written`].
    pub(super) fn add_written(&mut self, bytes: &MarkedBytes) {
        self.bytes.append(bytes);
        self.left = self.left.wrapping_sub(1);
    }

    /// Returns an element as it is written, to be added when its turn comes.
    pub(super) fn written(&self, element: Element<'_>) -> MarkedBytes {
        let mut bytes = MarkedBytes::default();
        (self.body.write)(element, &mut bytes);
        bytes.shrink();
        bytes
    }

    /// Takes what there is. `is_last` if all elements were added.
    pub(super) fn take(&mut self, is_last: bool) -> Part {
        if is_last {
            self.bytes.append(&self.body.tail);
        }
        Part { number: self.number, bytes: std::mem::take(&mut self.bytes), is_last }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.left != 0 || !self.bytes.is_empty() {
            self.progress.lose();
        }
        self.progress.unfinished.fetch_sub(1, Relaxed);
    }
}

/// A part of a record; the parts follow each other without anything between them.
pub(crate) struct Part {
    /// The number of the record.
    pub(crate) number: u64,
    pub(crate) bytes: MarkedBytes,
    /// Whether the record ends with it.
    pub(crate) is_last: bool,
}
