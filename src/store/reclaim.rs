//! Lazy freeing: frees large values on a background thread, so that no client waits for it.
//!
//! All removals of values (commands, expiry, eviction, overwriting, FLUSHALL) pass them here, and so do temporary
//! values of any size. Small values are freed at once; large ones are queued for a thread that exists only while the
//! queue is not empty. The effort decides, not the number of keys: many values of medium size that are removed in a
//! row, as by one DEL, are queued as soon as their sum is too large. Until they are freed, queued values count as used
//! memory.
//!
//! A client that creates and deletes large values in a loop may outrun the thread, and a client that changes keys may
//! outrun a snapshot that has to write their former values. No client can be made to wait here, where shards are
//! locked, so the [connection](crate::net::connection) waits between two requests while [`Reclaimer::is_behind`] is
//! true.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use crate::store::entry::Entry;
use crate::store::expire::DeadlineTree;
use crate::store::fences::Fences;
use crate::store::memory_account::MemoryAccount;
use crate::store::table::Table;
use crate::store::tail_work::TailWork;
use crate::store::value::EFFORT_COUNTED;
use crate::store::walk::{Entries, TableWalk};

/// Limit of the effort, in allocations and pages, that is freed at once, counted until the queue is empty again: about
/// a millisecond's work. Starting a thread takes a twentieth of that.
const EFFORT_MAX: usize = 10_000;

/// Minimum size of an element of a large collection, with its slot in a table, in bytes: with it, the number of
/// allocations is estimated from a number of bytes.
const BYTES_PER_ALLOCATION: usize = 32;

/// Number of bytes queued or unwritten beyond which clients that add more have to wait.
const QUEUED_MAX: usize = 64 << 20;

/// Increase of the thread's niceness: beside a busy thread it gets a tenth of a processor.
const NICENESS: i32 = 10;

/// Memory to free.
pub(super) enum ToFree {
    /// A key with its value.
    Entry(Entry),
    /// All keys of some shards.
    Shards(Vec<Contents>),
    /// Anything else that may be large.
    Other(#[expect(dead_code, reason = "it is kept only to be dropped")] Box<dyn Send>),
}

impl ToFree {
    /// Returns the number of keys; anything else counts as one.
    fn objects(&self) -> usize {
        match self {
            ToFree::Entry(_) => 1,
            ToFree::Shards(shards) => shards.iter().map(Contents::keys).sum(),
            ToFree::Other(_) => 1,
        }
    }

    /// Returns the allocated bytes, if they are known.
    fn bytes(&self) -> usize {
        match self {
            ToFree::Entry(entry) => entry.memory(),
            ToFree::Shards(shards) => shards.iter().map(|contents| contents.memory + contents.table.memory()).sum(),
            ToFree::Other(_) => 0,
        }
    }

    /// Returns the bytes that count for [`Reclaimer::is_behind`]: no client outruns the thread by deleting all keys.
    fn limited_bytes(&self) -> usize {
        if matches!(self, ToFree::Entry(_)) { self.bytes() } else { 0 }
    }
}

/// The contents of a shard before it was cleared.
pub(crate) struct Contents {
    pub(super) table: Table<Entry>,
    /// Bytes of entries.
    pub(super) memory: usize,
    #[expect(dead_code, reason = "it is kept only to be dropped")]
    pub(super) deadlines: DeadlineTree,
    #[expect(dead_code, reason = "it is kept only to be dropped")]
    pub(super) field_deadlines: Option<DeadlineTree>,
    pub(super) fences: Fences,
    /// The walk of a snapshot that has not visited all keys.
    pub(super) walk: Option<Box<TableWalk>>,
}

impl Contents {
    pub(super) fn keys(&self) -> usize {
        self.table.count()
    }
}

impl Entries for Contents {
    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.table.find_mut(self.table.hash(key), key)
    }
}

/// Starts a thread that runs a closure.
type Start = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// Frees values at once or in the background. Shared by a store and its shards.
pub struct Reclaimer {
    queue: Mutex<Queue>,
    pending: AtomicUsize,
    /// Bytes of the queued values.
    pending_bytes: AtomicUsize,
    /// Bytes that a snapshot has to write.
    unwritten: AtomicUsize,
    /// True while a snapshot is being written.
    has_snapshot: AtomicBool,
    /// Number of writes of all snapshots.
    written: AtomicU64,
    /// True once the last snapshot was given up.
    has_given_up: AtomicBool,
    /// Number of values queued, and of reports of unwritten bytes beyond the limit.
    queued: AtomicU64,
    freed: AtomicU64,
    /// Effort that was freed at once since the queue was emptied.
    spent: AtomicUsize,
    start: Start,
    /// Removed data that a snapshot has not visited yet.
    unvisited: Mutex<Unvisited>,
    memory_account: Arc<MemoryAccount>,
    /// Tail work of calls, which gets the flag that the thread is behind.
    tail_work: Arc<TailWork>,
}

/// Removed data that commands no longer see, but a snapshot does.
#[derive(Default)]
pub(super) struct Unvisited {
    pub(super) shards: Vec<Contents>,
    /// Keys with a large value, some elements of which were not visited, each with its memory.
    pub(super) entries: Vec<(Entry, usize)>,
}

#[derive(Default)]
struct Queue {
    garbage: VecDeque<ToFree>,
    /// True while the thread is running.
    is_running: bool,
}

impl Reclaimer {
    /// Creates a reclaimer that reports queued values as used memory.
    pub(super) fn new(memory_account: Arc<MemoryAccount>, tail_work: Arc<TailWork>) -> Self {
        let start: Start = |work| {
            let work = || {
                lower_priority();
                work();
            };
            std::thread::Builder::new().name("free".into()).spawn(work).map(drop)
        };
        Self::starting(start, memory_account, tail_work)
    }

    fn starting(start: Start, memory_account: Arc<MemoryAccount>, tail_work: Arc<TailWork>) -> Self {
        Reclaimer {
            queue: Mutex::default(),
            pending: AtomicUsize::new(0),
            pending_bytes: AtomicUsize::new(0),
            unwritten: AtomicUsize::new(0),
            has_snapshot: AtomicBool::new(false),
            written: AtomicU64::new(0),
            has_given_up: AtomicBool::new(false),
            queued: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            spent: AtomicUsize::new(0),
            start,
            unvisited: Mutex::default(),
            memory_account,
            tail_work,
        }
    }

    /// Returns true if so much is queued to be freed, or to be written by a snapshot, that clients which add more
    /// should wait.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.pending_bytes.load(Relaxed) + self.unwritten.load(Relaxed) > QUEUED_MAX
    }

    /// Sets the number of bytes that a snapshot has to write: data read, and former values of keys changed meanwhile.
    pub(crate) fn set_unwritten(&self, len: usize) {
        let was_behind = self.is_behind();
        self.unwritten.store(len, Relaxed);
        let is_behind = self.is_behind();
        if is_behind {
            self.queued.fetch_add(1, Relaxed);
        }
        if is_behind || was_behind {
            self.publish_behind();
        }
    }

    /// Begins a snapshot.
    pub(crate) fn begin_snapshot(&self) {
        self.has_given_up.store(false, Relaxed);
        self.has_snapshot.store(true, Relaxed);
    }

    /// Ends the snapshot. No command adds to its data any more.
    pub(crate) fn end_snapshot(&self) {
        self.has_snapshot.store(false, Relaxed);
        self.set_unwritten(0);
    }

    /// Notes that a snapshot has written something.
    pub(crate) fn note_written(&self) {
        self.written.fetch_add(1, Relaxed);
    }

    /// Returns the number of writes of all snapshots so far, while one is being written.
    pub(crate) fn written(&self) -> Option<u64> {
        self.has_snapshot.load(Relaxed).then(|| self.written.load(Relaxed))
    }

    /// Gives up the snapshot: no client waits for its data any more.
    pub(crate) fn give_up_snapshot(&self) {
        self.has_given_up.store(true, Relaxed);
        self.set_unwritten(0);
    }

    /// Returns true if the last snapshot was given up.
    pub(crate) fn has_given_up(&self) -> bool {
        self.has_given_up.load(Relaxed)
    }

    /// Publishes the flag that too much is queued. Under the lock, so that the last thread to set it has seen all
    /// changes.
    fn publish_behind(&self) {
        let _queue = self.queue.lock();
        self.tail_work.set_behind(self.is_behind());
    }

    /// Returns the number of values queued, and of reports of unwritten bytes beyond the limit.
    pub fn queued(&self) -> u64 {
        self.queued.load(Relaxed)
    }

    /// Returns the number of keys and other objects queued to be freed.
    pub fn pending(&self) -> usize {
        self.pending.load(Relaxed)
    }

    /// Returns the number of keys and other objects freed in the background.
    pub fn freed(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// Resets the counter of freed keys.
    pub fn reset_freed(&self) {
        self.freed.store(0, Relaxed);
    }

    /// Frees an entry; later, if a snapshot has not visited all of its value, see [`Reclaimer::unvisited`].
    #[inline]
    pub(crate) fn free(self: &Arc<Self>, entry: Entry) {
        let effort = entry.effort();
        if effort >= EFFORT_COUNTED && (self.is_too_much(effort) || entry.record().is_some()) {
            self.free_large(entry);
        }
    }

    #[cold]
    #[inline(never)] // as Reclaimer::queue
    fn free_large(self: &Arc<Self>, entry: Entry) {
        match entry.record() {
            Some(_) => {
                let memory = entry.memory();
                self.pending_bytes.fetch_add(memory, Relaxed);
                self.queued.fetch_add(1, Relaxed);
                self.unvisited.lock().entries.push((entry, memory));
                self.publish_behind();
            }
            None => self.queue(ToFree::Entry(entry)),
        }
    }

    /// Frees all keys of some shards; later, if a snapshot has not visited them, see [`Reclaimer::unvisited`].
    pub(super) fn free_shards(self: &Arc<Self>, mut shards: Vec<Contents>) {
        self.unvisited.lock().shards.extend(shards.extract_if(.., |contents| contents.walk.is_some()));
        let allocations = |contents: &Contents| contents.keys().max(contents.memory / BYTES_PER_ALLOCATION);
        if self.is_too_much(shards.iter().map(allocations).sum()) {
            self.queue(ToFree::Shards(shards));
        }
    }

    /// Frees an entry that a snapshot has visited at last, or need not visit.
    pub(super) fn free_visited(self: &Arc<Self>, (mut entry, memory): (Entry, usize)) {
        entry.end_record();
        self.pending_bytes.fetch_sub(memory, Relaxed);
        self.publish_behind();
        self.free(entry);
    }

    /// Locks the removed data that a snapshot must visit before it is freed.
    pub(super) fn unvisited(&self) -> MutexGuard<'_, Unvisited> {
        self.unvisited.lock()
    }

    /// Frees an object that may be large in the background.
    pub(crate) fn free_later(self: &Arc<Self>, thing: impl Send + 'static) {
        self.queue(ToFree::Other(Box::new(thing)));
    }

    /// Adds to the effort freed at once; returns true if the sum is too large, so that the value is left to the thread.
    #[cold]
    #[inline(never)] // as Reclaimer::queue
    fn is_too_much(&self, effort: usize) -> bool {
        self.spent.fetch_add(effort, Relaxed).saturating_add(effort) >= EFFORT_MAX
    }

    #[cold]
    #[inline(never)] // keeps the path of every removal short
    fn queue(self: &Arc<Self>, garbage: ToFree) {
        self.pending.fetch_add(garbage.objects(), Relaxed);
        self.pending_bytes.fetch_add(garbage.limited_bytes(), Relaxed);
        self.queued.fetch_add(1, Relaxed);
        self.memory_account.report_garbage(0, garbage.bytes());
        let mut queue = self.queue.lock();
        self.tail_work.set_behind(self.is_behind());
        queue.garbage.push_back(garbage);
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        drop(queue);
        let reclaimer = self.clone();
        if (self.start)(Box::new(move || reclaimer.run())).is_err() {
            self.run(); // no thread could be started: the caller frees
        }
    }

    /// Frees queued values until the queue is empty.
    fn run(&self) {
        while let Some(garbage) = self.next() {
            let (objects, bytes, limited) = (garbage.objects(), garbage.bytes(), garbage.limited_bytes());
            drop(garbage);
            self.memory_account.report_garbage(bytes, 0);
            self.pending_bytes.fetch_sub(limited, Relaxed);
            self.pending.fetch_sub(objects, Relaxed);
            self.freed.fetch_add(objects as u64, Relaxed);
        }
    }

    fn next(&self) -> Option<ToFree> {
        let mut queue = self.queue.lock();
        self.tail_work.set_behind(self.is_behind());
        let next = queue.garbage.pop_front();
        queue.is_running = next.is_some();
        if next.is_none() {
            self.spent.store(0, Relaxed);
        }
        next
    }
}

/// Lowers the priority of the calling thread, so that threads which serve clients preempt it: with equal priority they
/// would wait for the end of its time slice, which is milliseconds. On Linux only; elsewhere the priority is that of
/// the whole process.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "memory is freed with the priority of commands");
    }
}

#[cfg(test)]
mod tests {
    use crate::store::table::Hasher;

    use super::*;

    fn long_text() -> Entry {
        Entry::text(b"key", &vec![0; EFFORT_MAX * 4096], None)
    }

    /// Returns a reclaimer whose thread is never scheduled: the test gets its closure.
    fn reclaimer_without_time() -> Arc<Reclaimer> {
        Arc::new(Reclaimer::starting(|_| Ok(()), Arc::default(), Arc::default()))
    }

    /// Returns the contents of an empty shard whose entries take this many bytes.
    fn of_memory(memory: usize) -> Vec<Contents> {
        let table = Table::new(Hasher::new());
        let (deadlines, field_deadlines, fences) = (DeadlineTree::default(), None, Fences::default());
        vec![Contents { table, memory, deadlines, field_deadlines, fences, walk: None }]
    }

    #[test]
    fn only_what_takes_long_is_queued() {
        let reclaimer = reclaimer_without_time();
        reclaimer.free(Entry::text(b"key", &[0; 100_000], None));
        reclaimer.free_shards(Vec::new());
        assert_eq!(reclaimer.pending(), 0);
        reclaimer.free(long_text());
        reclaimer.free(long_text());
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (2, 0));
        reclaimer.run();
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (0, 2));
    }

    #[test]
    fn values_of_medium_size_are_queued_once_they_are_too_much_together() {
        let medium = || Entry::text(b"key", &vec![0; EFFORT_MAX / 10 * 4096], None);
        let reclaimer = reclaimer_without_time();
        for _ in 0..2 {
            (0..9).for_each(|_| reclaimer.free(medium()));
            assert_eq!(reclaimer.pending(), 0);
            (0..5).for_each(|_| reclaimer.free(medium()));
            assert_eq!(reclaimer.pending(), 5);
            reclaimer.run();
        }
        assert_eq!(reclaimer.freed(), 10);
    }

    #[test]
    fn shards_are_freed_at_once_only_if_they_have_few_keys_and_bytes() {
        let reclaimer = reclaimer_without_time();
        reclaimer.free_shards(of_memory(100_000));
        assert!(!reclaimer.queue.lock().is_running);
        reclaimer.free_shards(of_memory(1_000_000));
        assert!(reclaimer.queue.lock().is_running);
    }

    #[test]
    fn what_is_queued_is_used_memory_that_evicts_nothing_and_too_much_of_it_makes_others_wait() {
        let (reclaimer, len) = (reclaimer_without_time(), long_text().memory());
        let (account, count) = (reclaimer.memory_account.clone(), QUEUED_MAX / len);
        (0..count).for_each(|_| reclaimer.free(long_text()));
        assert_eq!((account.used(), account.exempt()), (count * len, count * len));
        assert!(!reclaimer.is_behind());
        let empty_table = Table::<Entry>::new(Hasher::new()).memory();
        // All keys of a database were there before, and were not made in a loop.
        reclaimer.queue(ToFree::Shards(of_memory(QUEUED_MAX)));
        assert!(!reclaimer.is_behind() && account.used() == count * len + QUEUED_MAX + empty_table);
        (0..2).for_each(|_| reclaimer.free(long_text()));
        assert!(reclaimer.is_behind());
        assert_eq!(reclaimer.queued(), count as u64 + 3);
        reclaimer.run();
        assert!(!reclaimer.is_behind());
        assert_eq!((account.used(), account.exempt()), (0, 0));
    }

    #[test]
    fn a_thread_is_started_for_what_is_queued_after_the_last_one_has_ended() {
        let reclaimer = reclaimer_without_time();
        reclaimer.free(long_text());
        assert!(reclaimer.queue.lock().is_running);
        reclaimer.run();
        assert!(!reclaimer.queue.lock().is_running);
        reclaimer.free(long_text());
        assert!(reclaimer.queue.lock().is_running);
    }

    #[test]
    fn where_no_thread_can_be_started_it_is_freed_in_place() {
        let fails: Start = |_| Err(io::ErrorKind::OutOfMemory.into());
        let reclaimer = Arc::new(Reclaimer::starting(fails, Arc::default(), Arc::default()));
        reclaimer.free(long_text());
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (0, 1));
        assert!(!reclaimer.queue.lock().is_running);
    }
}
