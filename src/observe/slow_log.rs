//! The slow log: the latest slow calls, each with its client and arguments. Logs of the same form have the latest calls
//! with large requests, and with large replies.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::memory::heap::{allocation_len, list_len};
use crate::store::{MemoryAccount, ReportedMemory};

/// Maximum number of arguments kept; if a call has more, the last one kept states how many are left out.
const ARGS_MAX: usize = 32;
/// Maximum number of bytes of an argument kept.
const ARG_LEN_MAX: usize = 128;

/// The slow calls, or those with large requests or replies, latest first.
#[derive(Default)]
pub struct SlowLog {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<SlowLogEntry>,
    next_id: i64,
    /// Memory of the entries, without their list.
    bytes: usize,
    share: ReportedMemory,
}

impl Inner {
    /// Removes the oldest entries until at most `max_len` are left.
    fn truncate(&mut self, max_len: usize) {
        while self.entries.len() > max_len
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.memory();
        }
        self.share.set(self.bytes + list_len::<SlowLogEntry>(self.entries.capacity()));
    }
}

/// One call in such a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowLogEntry {
    /// The id: entries are numbered from the start, without reuse.
    pub id: i64,
    /// Time at which the call ended, in seconds since 1970.
    pub unix_s: i64,
    /// Duration of the call, in microseconds; of a large request or reply, its bytes.
    pub measure: u64,
    /// The arguments of the call, truncated.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: String,
}

impl SlowLogEntry {
    /// Returns the heap memory of the entry.
    fn memory(&self) -> usize {
        let args: usize = self.args.iter().map(|word| allocation_len(word.capacity())).sum();
        args + list_len::<Vec<u8>>(self.args.capacity())
            + allocation_len(self.addr.capacity())
            + allocation_len(self.name.capacity())
    }
}

impl SlowLog {
    /// Creates an empty log that reports its memory.
    pub fn new(memory_account: &Arc<MemoryAccount>) -> Self {
        let inner = Inner { share: ReportedMemory::new(memory_account.clone()), ..Inner::default() };
        SlowLog { inner: Mutex::new(inner) }
    }

    /// Adds a call, assigns its id, and removes the oldest until at most `max_len` are left. With a `max_len` of 0 it
    /// assigns no id.
    pub fn push(&self, entry: SlowLogEntry, max_len: usize) {
        if max_len == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.bytes += entry.memory();
        inner.entries.push_front(SlowLogEntry { id, ..entry });
        inner.truncate(max_len);
    }

    /// Returns up to `count` of the latest `max_len` entries, latest first.
    pub fn latest(&self, count: usize, max_len: usize) -> Vec<SlowLogEntry> {
        let mut inner = self.inner.lock();
        inner.truncate(max_len);
        inner.entries.iter().take(count).cloned().collect()
    }

    /// Returns the number of entries, at most `max_len`.
    pub fn len(&self, max_len: usize) -> usize {
        let mut inner = self.inner.lock();
        inner.truncate(max_len);
        inner.entries.len()
    }

    /// Removes all entries; ids continue.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        (inner.entries, inner.bytes) = (VecDeque::new(), 0);
        inner.truncate(0);
    }
}

/// Truncates the arguments of a call for the log.
pub(crate) fn clip<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut clipped: Vec<Vec<u8>> = args.take(kept).map(clip_arg).collect();
    if kept < count {
        clipped.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    clipped
}

fn clip_arg(word: &[u8]) -> Vec<u8> {
    match word.split_at_checked(ARG_LEN_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => word.to_vec(),
    }
}
