//! The slow log: the latest calls that took long, each with who called and what.

use std::collections::VecDeque;

use parking_lot::Mutex;

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

impl SlowLog {
    /// Adds a call, whose number is given here, and forgets the oldest until no more than `most` are left. Where none may
    /// be kept, none gets a number.
    pub fn push(&self, entry: Entry, most: usize) {
        if most == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(Entry { id, ..entry });
        inner.entries.truncate(most);
    }

    /// Returns up to `count` entries, the latest first, of the `most` that may be kept.
    pub fn latest(&self, count: usize, most: usize) -> Vec<Entry> {
        let mut inner = self.inner.lock();
        inner.entries.truncate(most);
        inner.entries.iter().take(count).cloned().collect()
    }

    /// Returns how many entries there are, of the `most` that may be kept.
    pub fn len(&self, most: usize) -> usize {
        let mut inner = self.inner.lock();
        inner.entries.truncate(most);
        inner.entries.len()
    }

    /// Forgets all entries; numbers go on.
    pub fn clear(&self) {
        self.inner.lock().entries = VecDeque::new();
    }
}

/// Cuts a call short, as the log keeps it.
pub fn clip<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
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
