//! The walk of a snapshot over the elements of a large value: it takes many short steps, between which commands change
//! the value.
//!
//! The walk begins when the walk over the keys reaches the value or when the value is about to change, whichever comes
//! first. From then on a [`Record`] collects the elements as they were at that time: elements that a step visits, and
//! elements that a command is about to change before a step has visited them. The record is part of the value, so that
//! it moves with the value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::memory::marked::MarkedBytes;
use crate::store::value::listpack::StoredElement;
#[cfg(feature = "vectors")]
use crate::vectors::{KeptVector, VectorRow};

/// An element of a large value, as it is written to a snapshot.
pub(crate) enum WalkedElement<'e> {
    /// A field of a hash, its value, and its deadline in milliseconds since 1970.
    Field(&'e [u8], &'e [u8], Option<i64>),
    /// A member of a set.
    Member(StoredElement<'e>),
    /// A member of a set some of whose members have deadlines, and its deadline in milliseconds since 1970.
    TimedMember(StoredElement<'e>, Option<i64>),
    /// A member of a sorted set, and its score.
    Scored(&'e [u8], f64),
    /// Consecutive bytes of a string.
    Piece(&'e [u8]),
    /// A node of a list that is a single element.
    Plain(&'e [u8]),
    /// The elements of any other node of a list, and their number.
    Packed(&'e [u8], usize),
    /// A node of a stream: the ID of its first entry, and the listpack.
    Chunk([u8; 16], &'e [u8]),
    /// An element of a vector set: its number, its name and attributes, and its vector.
    #[cfg(feature = "vectors")]
    Vector(usize, &'e VectorRow, &'e KeptVector),
}

/// Function that appends an element in the format of a snapshot.
pub(crate) type WriteElement = Box<dyn Fn(WalkedElement<'_>, &mut MarkedBytes) + Send + Sync>;

/// State shared by the walks of one snapshot.
#[derive(Default)]
pub(crate) struct WalkProgress {
    /// Number of records that have begun and are not finished.
    unfinished: AtomicUsize,
    /// Number of the last record.
    last: AtomicU64,
    /// True once something was dropped before it was visited.
    is_lost: AtomicBool,
}

impl WalkProgress {
    /// Returns true if there are records that have begun and are not finished.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.unfinished.load(Relaxed) > 0
    }

    /// Notes that something was dropped before it was visited, so that the snapshot is incomplete.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Returns true if something was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }
}

/// The snapshot record of a large value, as far as it is collected and not yet taken.
pub(crate) struct Record {
    progress: Arc<WalkProgress>,
    number: u64,
    bytes: MarkedBytes,
    /// Number of elements that are not in the record yet.
    left: usize,
    body: RecordBody,
}

/// The elements of a record, and the function that writes them.
pub(crate) struct RecordBody {
    /// Number of elements.
    pub(crate) elements: usize,
    pub(crate) write: WriteElement,
    /// Bytes after the elements.
    pub(crate) tail: MarkedBytes,
}

impl RecordBody {
    /// Returns a body with nothing behind its elements.
    pub(crate) fn new(
        elements: usize,
        write: impl Fn(WalkedElement<'_>, &mut MarkedBytes) + Send + Sync + 'static,
    ) -> Self {
        RecordBody { elements, write: Box::new(write), tail: MarkedBytes::default() }
    }
}

impl Record {
    /// Begins a record with the bytes before the elements.
    pub(crate) fn new(progress: &Arc<WalkProgress>, head: MarkedBytes, body: RecordBody) -> Self {
        progress.unfinished.fetch_add(1, Relaxed);
        let number = progress.last.fetch_add(1, Relaxed) + 1;
        Record { progress: progress.clone(), number, bytes: head, left: body.elements, body }
    }

    /// Returns the number of the record, which is unique in the snapshot.
    pub(in crate::store) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn add(&mut self, element: WalkedElement<'_>) {
        (self.body.write)(element, &mut self.bytes);
        self.left = self.left.wrapping_sub(1);
    }

    /// Adds an element in the form returned by [`Record::written`].
    pub(super) fn add_written(&mut self, bytes: &MarkedBytes) {
        self.bytes.append(bytes);
        self.left = self.left.wrapping_sub(1);
    }

    /// Returns an element in its written form, to be added when its turn comes.
    pub(super) fn written(&self, element: WalkedElement<'_>) -> MarkedBytes {
        let mut bytes = MarkedBytes::default();
        (self.body.write)(element, &mut bytes);
        bytes.shrink();
        bytes
    }

    /// Takes the bytes collected so far; `is_last` ends the record, to which all elements were added.
    pub(super) fn take(&mut self, is_last: bool) -> RecordPart {
        if is_last {
            self.bytes.append(&self.body.tail);
        }
        RecordPart { number: self.number, bytes: std::mem::take(&mut self.bytes), is_last }
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

/// A part of a record; the parts are written without anything between them.
pub(crate) struct RecordPart {
    pub(crate) number: u64,
    pub(crate) bytes: MarkedBytes,
    /// True if the record ends with this part.
    pub(crate) is_last: bool,
}
