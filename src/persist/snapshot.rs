//! Snapshots: the data as they were at one moment, as the records of an RDB file or as commands, written while commands
//! change them.
//!
//! The moment is [`Snapshot::cut`], with the gate held exclusively. Then one thread walks over the keys
//! ([`store::walk`](crate::store::walk)) and writes records into a queue; a command that changes a key not yet visited
//! puts the record of its former value into the same queue; and the thread that called [`Snapshot::write`] takes the
//! records out. The walk stops while the queue is full.
//!
//! Every key is written, even one that had expired at the cut and was not deleted yet: its `DEL` comes later in the
//! log, or, on a replica, the primary may have given it another deadline in a command that has not arrived yet. The
//! server that loads the snapshot hides such a key until the owner of expiry deletes it.

mod commands;
mod form;
mod queue;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::{self, KeyMeta, Usage};
use crate::persist::snapshot::queue::RecordQueue;
use crate::rdb;
use crate::rdb::checksum::Checksum;
use crate::store::entry::Entry;
use crate::store::fences::Retired;
use crate::store::reclaim::Reclaimer;
use crate::store::usage::{self, UsageRule};
use crate::store::value::{Record, RecordPart, WalkProgress};
use crate::store::walk::{Beside, Visitor, WalkSink};
use crate::store::walking::{WalkCursor, Walked};
use crate::store::{ExclusiveHold, Store, Str};
use crate::time::clock::{Clock, Now};

pub(crate) use form::SnapshotForm;

/// Time for which the walk keeps a shard locked, in nanoseconds.
const SLICE_NS: u64 = 250_000;

/// Number of bytes of records that the walk collects before it passes them on.
const SLICE_LEN: usize = 256 << 10;

/// Number of further attempts at a large value that a command is moving, and the pause between them: commands take
/// microseconds.
const MOVING_MAX: usize = 5000;
const MOVING_PAUSE: Duration = Duration::from_millis(1);

/// Least length of strings that are written while no shard is locked, in bytes.
const SHARED_TEXT_MIN: usize = 64 << 10;

#[derive(Clone, Copy)]
pub(crate) struct SnapshotOptions {
    pub(crate) form: SnapshotForm,
    /// Set if the usage of keys is written, which only matters with an eviction policy that uses it.
    pub(crate) has_usage: bool,
    /// Delay after each key, for tests.
    pub(crate) delay: Duration,
}

/// A snapshot that was cut and is to be written. Dropping it ends the snapshot.
pub(crate) struct Snapshot<'s> {
    store: &'s Store,
    records: Arc<Records>,
    /// Number of keys at the cut, with expired ones.
    pub(crate) keys: usize,
}

/// Writes a file without keys that begins with `head`.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write_without_keys(
    head: MarkedBytes,
    form: SnapshotForm,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<WrittenSnapshot> {
    let mut bytes = rdb::compressed(head).to_vec();
    rdb_file::end(&mut bytes);
    let mut sum = Checksum::new();
    if form.has_checksum() {
        sum.update(&bytes);
    }
    bytes.extend_from_slice(&sum.value().to_le_bytes());
    out(&bytes)?;
    Ok(WrittenSnapshot { len: bytes.len() as u64, former_len: 0, version: form.version() })
}

/// Writer of the records of keys, including keys that commands are about to change.
struct Records {
    options: SnapshotOptions,
    /// Time of the cut.
    at: Now,
    rule: UsageRule,
    queue: RecordQueue,
    /// Number of bytes written because commands had changed keys.
    former_len: AtomicU64,
    /// The lowest version of the format that supports all records.
    version: AtomicU16,
    /// Throttle of clients that change keys faster than these are written.
    reclaimer: Arc<Reclaimer>,
    /// Keys with long strings that are to be written.
    texts: Mutex<Vec<SharedText>>,
    /// Total length of these strings.
    texts_len: AtomicUsize,
    progress: Arc<WalkProgress>,
}

/// Size and version of a written snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrittenSnapshot {
    /// Number of bytes of the file.
    pub(crate) len: u64,
    /// Number of bytes of records of keys that were changed during the snapshot.
    pub(crate) former_len: u64,
    /// The version that the file must have, and that its checksum is made for; 0 for commands.
    pub(crate) version: u16,
}

impl<'s> Snapshot<'s> {
    /// Cuts a snapshot: the present content of the store will be written. The caller does nothing else before it
    /// releases the gate, which the end of the snapshot takes again.
    pub(crate) fn cut(store: &'s Store, held: &mut ExclusiveHold<'_>, options: SnapshotOptions, at: Now) -> Self {
        let rule = store.memory_account().rule();
        let (former_len, version) = (AtomicU64::new(0), AtomicU16::new(options.form.version()));
        let records = Arc::new(Records {
            options,
            at,
            rule,
            queue: RecordQueue::default(),
            former_len,
            version,
            reclaimer: store.reclaimer().clone(),
            texts: Mutex::default(),
            texts_len: AtomicUsize::new(0),
            progress: Arc::default(),
        });
        store.reclaimer().begin_snapshot();
        let sink: Arc<dyn WalkSink> = records.clone();
        let keys = store.begin_walk(held, &sink);
        Snapshot { store, records, keys }
    }

    /// Writes the snapshot as a file that begins with `head`, everything before the first key. `report` is called with
    /// the number of keys written.
    ///
    /// # Errors
    /// Errors of `out`; [`io::ErrorKind::Interrupted`] when `is_cancelled` was set.
    pub(crate) fn write(
        self,
        head: MarkedBytes,
        clock: &Clock,
        is_cancelled: &AtomicBool,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        report: &dyn Fn(u64),
    ) -> io::Result<WrittenSnapshot> {
        let records = self.records.clone();
        let (queue, form) = (&records.queue, records.options.form);
        let (mut sum, mut len) = (Checksum::new(), 0);
        let mut emit = |bytes: &[u8]| {
            if form.has_checksum() {
                sum.update(bytes);
            }
            len += bytes.len() as u64;
            out(bytes)
        };
        let written = thread::scope(|scope| {
            let walk = thread::Builder::new().name("snapshot".into());
            walk.spawn_scoped(scope, || self.walk(clock, is_cancelled))?;
            let written = emit(&rdb::compressed(head)).and_then(|()| {
                while let Some((bytes, keys)) = queue.take(is_cancelled) {
                    emit(&rdb::compressed(bytes))?;
                    records.reclaimer.note_written();
                    thread::yield_now(); // as in the walk
                    report(keys);
                    records.report_unwritten(queue.len());
                }
                Ok(())
            });
            queue.close(); // ends the walk, if it is still running
            written
        });
        drop(self);
        written?;
        if is_cancelled.load(Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if records.progress.is_lost() && records.reclaimer.has_given_up() {
            let reason = "keys have changed while nothing could be written for too long";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        if records.progress.is_lost() {
            return Err(io::Error::other("keys were lost before they were written, which is a bug"));
        }
        let (version, former_len) = (records.version.load(Relaxed), records.former_len.load(Relaxed));
        if let SnapshotForm::Commands = form {
            return Ok(WrittenSnapshot { len, former_len, version });
        }
        let mut end = Vec::new();
        rdb_file::end(&mut end);
        emit(&end)?;
        let mut value = 0;
        if form.has_checksum() {
            rdb_file::replace_version(&mut sum, form.version(), version);
            value = sum.value();
        }
        out(&value.to_le_bytes())?;
        Ok(WrittenSnapshot { len: len + 8, former_len, version })
    }

    /// Walks over all keys, and puts their records into the queue.
    fn walk(&self, clock: &Clock, is_cancelled: &AtomicBool) {
        let (records, store) = (&*self.records, self.store);
        let (mut cursor, mut moving) = (WalkCursor::new(&records.progress), 0);
        let is_given_up = || is_cancelled.load(Relaxed) || records.progress.is_lost();
        while !is_given_up() && records.queue.wait_for_room() {
            let (begun, len) = (clock.ticks(), Cell::new(0));
            let mut slice = Slice { records, bytes: MarkedBytes::default(), db: None, keys: 0, len: &len };
            let is_slow = !records.options.delay.is_zero();
            let is_time_up = || {
                let ns = clock.tick_rate().ns(clock.ticks().saturating_sub(begun));
                ns >= SLICE_NS || len.get() >= SLICE_LEN || is_slow && len.get() > 0
            };
            let walked = store.walk(&mut cursor, &is_time_up, &mut slice);
            let (bytes, keys) = (rdb::compressed(slice.bytes), slice.keys); // no shard is locked
            records.queue.push_walked(bytes.into(), keys, cursor.is_in_record());
            // On two busy cores the worst waits of clients were a third to a half shorter with this yield than without.
            thread::yield_now();
            if !cursor.is_in_record() {
                records.write_texts();
            }
            records.wait_after(keys);
            moving = if walked == Walked::Moving { moving + 1 } else { 0 };
            match walked {
                Walked::More => {}
                Walked::Moving if moving < MOVING_MAX => records.queue.pause(MOVING_PAUSE),
                Walked::Moving => records.progress.lose(),
                Walked::Blocked => store.busy_flag().wait_until_free(),
                Walked::All => break,
            }
        }
        records.queue.finish();
    }
}

impl Drop for Snapshot<'_> {
    /// Ends the walk, even of a snapshot that is not written: keys that are deleted before a walk has visited them are
    /// kept for it, and the walk of the next snapshot would take them for its own.
    fn drop(&mut self) {
        self.store.end_walk();
        self.records.reclaimer.end_snapshot();
    }
}

/// Consecutive records of the walk.
struct Slice<'s> {
    records: &'s Records,
    bytes: MarkedBytes,
    db: Option<usize>,
    keys: u64,
    /// Length of `bytes`, shared with the function that stops the walk.
    len: &'s Cell<usize>,
}

impl Visitor for Slice<'_> {
    fn visit(&mut self, db: usize, entry: &Entry, beside: Beside<'_>) {
        if self.records.keep_text(db, entry, beside) {
            return;
        }
        if self.db != Some(db) {
            self.records.options.form.select(&mut self.bytes, db);
            self.db = Some(db);
        }
        self.records.write(&mut self.bytes, entry, beside);
        self.keys += 1;
        self.len.set(self.bytes.len());
    }

    fn visit_retired(&mut self, db: usize, key: &[u8], retired: Retired) {
        self.records.write_retired(&mut self.bytes, db, key, retired);
        self.db = None; // as above
        self.len.set(self.bytes.len());
    }

    fn add_part(&mut self, part: RecordPart) {
        if self.bytes.is_empty() {
            self.bytes = part.bytes;
        } else {
            self.bytes.append(&part.bytes);
        }
        self.keys += u64::from(part.is_last);
        self.db = None; // as above
        self.len.set(self.bytes.len());
    }
}

/// A key with a long string, which the entry shares with the snapshot.
struct SharedText {
    /// The record up to the string.
    head: MarkedBytes,
    text: Bytes,
    /// The record behind the string.
    tail: Vec<u8>,
}

impl Records {
    fn write(&self, out: &mut MarkedBytes, entry: &Entry, beside: Beside<'_>) {
        let version = self.with_meta(entry, beside, |meta| self.options.form.entry(out, entry, meta));
        self.require(version);
    }

    /// Appends the fence of a key that was removed before the cut.
    fn write_retired(&self, out: &mut MarkedBytes, db: usize, key: &[u8], Retired { fence, at_ms }: Retired) {
        let age_ms = self.at.mono_ms().cast_signed().saturating_sub(at_ms);
        let removed_ms = self.at.wall_ms().saturating_sub(age_ms);
        self.options.form.retired_fence(out, &rdb_file::RetiredFence { db: db as u64, fence, removed_ms, key });
    }

    /// Calls `write` with the properties of a key besides its value.
    fn with_meta<T>(&self, entry: &Entry, beside: Beside<'_>, write: impl FnOnce(KeyMeta<'_>) -> T) -> T {
        let deadline = entry.deadline();
        let usage = self.options.has_usage.then(|| {
            if self.rule.counts() {
                Usage::Frequency(self.rule.count(entry.usage(), self.at) as u8)
            } else {
                Usage::Idle(usage::idle_s(entry.usage(), self.at))
            }
        });
        let (expires_ms, fence) = (deadline.map(|deadline| deadline.wall_ms(self.at)), beside.fence);
        let lock = beside.lock_text(self.at);
        write(KeyMeta { expires_ms, usage, fence, lock: lock.as_deref() })
    }

    /// Notes that the file needs at least this version.
    fn require(&self, version: u16) {
        if version > self.options.form.version() {
            self.version.fetch_max(version, Relaxed);
        }
    }

    /// Sets aside a key with a long string, to be written while no shard is locked; returns false for any other key.
    fn keep_text(&self, db: usize, entry: &Entry, beside: Beside<'_>) -> bool {
        let Ok(Str::Shared(text)) = entry.get::<Str>() else { return false };
        if text.len() < SHARED_TEXT_MIN {
            return false;
        }
        let mut head = MarkedBytes::default();
        self.options.form.select(&mut head, db);
        let write = |meta: KeyMeta<'_>| self.options.form.text_entry(&mut head, entry, text.len(), meta);
        let tail = self.with_meta(entry, beside, write);
        self.texts_len.fetch_add(text.len(), Relaxed);
        self.texts.lock().push(SharedText { head, text: text.clone(), tail });
        true
    }

    /// Tells the reclaimer the number of unwritten bytes, in the queue and in kept strings, so that clients wait while
    /// it is large.
    fn report_unwritten(&self, queue_len: usize) {
        if self.is_given_up() {
            return;
        }
        self.reclaimer.set_unwritten(queue_len + self.texts_len.load(Relaxed));
    }

    /// Returns true if the snapshot was given up in favour of clients that change keys; it takes no more keys then.
    fn is_given_up(&self) -> bool {
        let is_given_up = self.reclaimer.has_given_up();
        if is_given_up {
            self.progress.lose();
            self.queue.close();
            self.texts.lock().clear();
        }
        is_given_up
    }

    /// Writes the kept keys with long strings.
    fn write_texts(&self) {
        while let Some(SharedText { mut head, text, tail }) = { self.texts.lock().pop() } {
            self.options.form.string(&mut head, &text);
            head.extend_from_slice(&tail);
            self.queue.push_walked(rdb::compressed(head).into(), 1, false);
            self.texts_len.fetch_sub(text.len(), Relaxed);
            self.wait_after(1);
        }
    }

    /// Waits for the delay of the options after each of `keys` keys, for tests.
    fn wait_after(&self, keys: u64) {
        if keys > 0 && !self.options.delay.is_zero() {
            self.queue.pause(self.options.delay * u32::try_from(keys).unwrap_or(u32::MAX));
        }
    }
}

impl WalkSink for Records {
    fn add_former(&self, db: usize, entry: &Entry, beside: Beside<'_>) {
        if self.is_given_up() {
            return;
        }
        if self.keep_text(db, entry, beside) {
            return self.report_unwritten(self.queue.len());
        }
        let mut record = MarkedBytes::default();
        self.options.form.select(&mut record, db);
        self.write(&mut record, entry, beside);
        self.former_len.fetch_add(record.len() as u64, Relaxed);
        self.report_unwritten(self.queue.push(record, 1));
    }

    fn add_retired(&self, db: usize, key: &[u8], retired: Retired) {
        let mut record = MarkedBytes::default();
        self.write_retired(&mut record, db, key, retired);
        self.former_len.fetch_add(record.len() as u64, Relaxed);
        self.report_unwritten(self.queue.push(record, 0));
    }

    fn begin_record(&self, db: usize, entry: &Entry, beside: Beside<'_>) -> Option<Record> {
        let mut head = MarkedBytes::default();
        let begin = |meta: KeyMeta<'_>| {
            self.options.form.select(&mut head, db);
            self.options.form.large_entry(&mut head, entry, meta)
        };
        let (version, body) = self.with_meta(entry, beside, begin)?;
        self.require(version);
        Some(Record::new(&self.progress, head, body))
    }

    fn lose(&self) {
        self.progress.lose();
    }
}
