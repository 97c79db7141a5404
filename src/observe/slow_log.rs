//! The slow log: the latest calls that took long, each with who called and what.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::memory::heap::{allocation_len, list_len};
use crate::store::{MemoryAccount, Share};

/// How many words of a call are kept; the last one then tells how many more there were.
const WORDS_MAX: usize = 32;
/// How many bytes of a word are kept.
const WORD_LEN_MAX: usize = 128;

/// Remembers slow calls, the latest first.
#[derive(Default)]
pub struct SlowLog {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<Entry>,
    next_id: i64,
    /// Bytes taken by the entries, their list aside.
    bytes: usize,
    share: Share,
}

impl Inner {
    /// Forgets the oldest entries until no more than `most` are left.
    fn truncate(&mut self, most: usize) {
        while self.entries.len() > most
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.memory();
        }
        self.share.set(self.bytes + list_len::<Entry>(self.entries.capacity()));
    }
}

/// Remembers one slow call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts entries since the start; none gets the number of another.
    pub id: i64,
    /// When the call ended, in seconds since 1970.
    pub unix_s: i64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// The words of the call, cut short.
    pub words: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: String,
}

impl Entry {
    /// Returns the bytes taken by what it points to.
    fn memory(&self) -> usize {
        let words: usize = self.words.iter().map(|word| allocation_len(word.capacity())).sum();
        words
            + list_len::<Vec<u8>>(self.words.capacity())
            + allocation_len(self.addr.capacity())
            + allocation_len(self.name.capacity())
    }
}

impl SlowLog {
    /// Creates an empty log, which counts as used memory.
    pub fn new(memory_account: &Arc<MemoryAccount>) -> Self {
        let inner = Inner { share: Share::new(memory_account.clone()), ..Inner::default() };
        SlowLog { inner: Mutex::new(inner) }
    }

    /// Adds a call, whose number is given here, and forgets the oldest until no more than `most` are left. Where none may
    /// be kept, none gets a number.
    pub fn push(&self, entry: Entry, most: usize) {
        if most == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.bytes += entry.memory();
        inner.entries.push_front(Entry { id, ..entry });
        inner.truncate(most);
    }

    /// Returns up to `count` entries, the latest first, of the `most` that may be kept.
    pub fn latest(&self, count: usize, most: usize) -> Vec<Entry> {
        let mut inner = self.inner.lock();
        inner.truncate(most);
        inner.entries.iter().take(count).cloned().collect()
    }

    /// Returns how many entries there are, of the `most` that may be kept.
    pub fn len(&self, most: usize) -> usize {
        let mut inner = self.inner.lock();
        inner.truncate(most);
        inner.entries.len()
    }

    /// Forgets all entries; numbers go on.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        (inner.entries, inner.bytes) = (VecDeque::new(), 0);
        inner.truncate(0);
    }
}

/// Cuts a call short, as the log keeps it.
pub(crate) fn clip<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = words.len();
    let kept = if count > WORDS_MAX { WORDS_MAX - 1 } else { count };
    let mut clipped: Vec<Vec<u8>> = words.take(kept).map(clip_word).collect();
    if kept < count {
        clipped.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    clipped
}

fn clip_word(word: &[u8]) -> Vec<u8> {
    match word.split_at_checked(WORD_LEN_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => word.to_vec(),
    }
}
