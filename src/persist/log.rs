//! The log in memory: the changes of calls in the order in which they were made, for any number of readers.
//!
//! A record is appended while its shards are locked, so the order of the log is a valid sequential order of execution.
//! A *position* is the number of bytes appended before. A reader begins at the end, and reads from its own position on,
//! at its own speed; bytes that the slowest reader has read are freed. Without readers nothing is kept. A reader that
//! falls behind by more than the limit loses its place: clients do not wait for it, and it must begin again from the
//! data. The append-only file never loses its place: when it is so far behind, clients that write wait.
//!
//! A reader may also *confirm* the position up to which it has done its work, such as writing to a disk. Clients whose
//! replies must not be seen before that wait for it.
//!
//! The log is the replication stream, and a position in it is a replication offset. So it also contains commands for
//! replicas alone (`asides`), which other readers skip. The *backlog* is the part kept for replicas that reconnect,
//! though no reader needs it any more.

mod appended;
mod asides;
mod boundaries;
mod changed;
mod chunks;
pub(super) mod reader;
mod waiting;

pub(crate) use appended::Flush;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::persist::Effects;
use crate::persist::log::appended::{Appended, AwaitedAppends};
use crate::persist::log::asides::Asides;
use crate::persist::log::boundaries::Boundaries;
use crate::persist::log::changed::LastChanges;
use crate::persist::log::chunks::Chunks;
use crate::persist::log::waiting::ConfirmationWaiters;
use crate::resp::write_command;
use crate::runtime::batched_notify::{self, Deferred};
use crate::store::{ChangeLog, HeldLock, SideRecord};

/// Number of bytes that a reader may be behind before it loses its place, or clients wait for it.
const KEPT_MAX: usize = 256 << 20;

/// Number of bytes kept beyond the backlog, so that not every record frees some.
const BACKLOG_SLACK: u64 = 64 << 10;

/// The log of a namespace.
pub(crate) struct Log {
    records: Mutex<Records>,
    /// True while there is a backlog: a cheap check.
    has_backlog: AtomicBool,
    /// True while the append-only file is so far behind that clients which write have to wait.
    is_behind: AtomicBool,
    /// Wakeups of threads that wait for records.
    appended: Arc<Appended>,
    /// The position up to which every reader that confirms has done so; `u64::MAX` if none confirms.
    confirmed: AtomicU64,
    /// Positions that replies depend on; kept while a reader confirms.
    changed: LastChanges,
    /// Clients that wait for a confirmation.
    waiting: ConfirmationWaiters,
}

#[derive(Default)]
struct Records {
    chunks: Chunks,
    boundaries: Boundaries,
    /// Ranges with commands for replicas alone.
    asides: Asides,
    /// Number of last bytes kept for replicas that reconnect; `None` while none is expected.
    backlog: Option<u64>,
    /// Tasks that wait for records.
    tasks: Vec<Waker>,
    /// Number of the reader whose work the workers do themselves, see
    /// [`LogReader::set_flushed`](reader::LogReader::set_flushed).
    flushed: Option<usize>,
    /// The database selected by the last command; `None` if a reader does not know it.
    db: Option<usize>,
    /// The database selected by the last command of the other server's log, while this log is a copy of that.
    copied_db: Option<usize>,
    /// The readers by number; `None` where a reader has left.
    readers: Vec<Option<Place>>,
    /// Positions beyond which a reader must not read until it is told, see [`LogReader::cut`](reader::LogReader::cut).
    barriers: Vec<(usize, u64)>,
    kept_max: usize,
}

/// Position and state of a reader.
#[derive(Clone, Copy)]
struct Place {
    position: u64,
    purpose: ReaderPurpose,
    /// The position up to which the reader has confirmed, if it confirms.
    confirmed: Option<u64>,
    /// Set once records that the reader has not read were freed.
    is_lost: bool,
    /// Set when the reader's thread is to stop waiting.
    is_woken: bool,
    /// Set when records were appended by threads that do not do the reader's work.
    has_foreign: bool,
}

/// Purpose of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderPurpose {
    /// A copy of the records.
    Copy,
    /// A copy of the records, which the reader confirms.
    Confirm,
    /// Writing the append-only file. The reader never loses its place unless the log begins again.
    File,
    /// Repetition of each write by a clock that says when it was made, so that the deadlines in a record may count from
    /// that time.
    Repeat,
    /// Sending to a replica. The reader gets the commands for replicas alone, too.
    Replicate,
}

impl ReaderPurpose {
    /// Returns true if the log does not wait for a reader of this purpose.
    fn may_lose_place(self) -> bool {
        self != ReaderPurpose::File
    }
}

/// Error of a reader that was too slow: records that it has not read were freed.
#[derive(Debug, PartialEq, Eq)]
pub struct LostPlace;

impl Default for Log {
    fn default() -> Self {
        Log::with_limit(KEPT_MAX)
    }
}

impl Log {
    /// Creates an empty log that keeps at most `kept_max` bytes for its slowest reader.
    pub(in crate::persist) fn with_limit(kept_max: usize) -> Self {
        let records = Mutex::new(Records { kept_max, ..Records::default() });
        Log {
            records,
            has_backlog: AtomicBool::new(false),
            is_behind: AtomicBool::new(false),
            appended: Arc::default(),
            confirmed: AtomicU64::new(u64::MAX),
            changed: LastChanges::default(),
            waiting: ConfirmationWaiters::default(),
        }
    }

    /// Appends the effects of a call, and clears them; returns the position behind them. Must be called while the
    /// changed shards are locked.
    pub(crate) fn append(&self, effects: &mut Effects) -> u64 {
        let mut records = self.records.lock();
        let end = records.append(effects);
        self.follow_file(&records);
        self.wake(&mut records);
        end
    }

    /// Appends a command for replicas alone; returns the position behind it.
    pub(crate) fn append_aside(&self, command: &[u8]) -> u64 {
        let mut records = self.records.lock();
        let end = records.add_aside(command);
        self.follow_file(&records);
        self.wake(&mut records);
        end
    }

    /// Appends whole commands of another server's log, of which this one is a copy; `db` is the database selected at
    /// their end. Returns the position behind them. Commands for replicas alone were cut out, and are to be appended in
    /// their place.
    pub(crate) fn append_copy(&self, commands: &[u8], db: usize) -> u64 {
        let mut records = self.records.lock();
        records.copied_db = Some(db);
        let end = records.add(commands);
        self.follow_file(&records);
        self.wake(&mut records);
        end
    }

    /// Returns the database selected at the end, if this log is a copy: no SELECT is added for a new reader then.
    pub(crate) fn copied_db(&self) -> Option<usize> {
        self.records.lock().copied_db
    }

    /// Returns the database selected by the last command, or 0 if none was selected since a reader needed a SELECT.
    pub(crate) fn selected_db(&self) -> usize {
        let records = self.records.lock();
        records.copied_db.or(records.db).unwrap_or(0)
    }

    /// Ends the copy of another server's log: the next command is this server's own.
    pub(crate) fn end_copy(&self) {
        let mut records = self.records.lock();
        (records.copied_db, records.db) = (None, None);
        let end = records.chunks.end();
        records.boundaries.fix(end);
    }

    /// Wakes the readers that wait for records. With a reader that confirms, a worker does so when it has executed all
    /// ready tasks, as its replies wait for the same confirmation.
    fn wake(&self, records: &mut Records) {
        if records.flushed.is_some() || self.appended.has_sleeping() {
            let is_deferred = !self.is_confirmed() && batched_notify::defer(&self.appended);
            if !is_deferred {
                let flushed = records.flushed.and_then(|number| records.readers[number].as_mut());
                if let Some(place) = flushed {
                    place.has_foreign = true;
                }
                if self.appended.has_sleeping_for_foreign() {
                    self.appended.notify();
                }
            }
        }
        records.tasks.drain(..).for_each(Waker::wake);
    }

    /// Returns true if the append-only file is so far behind that clients which write have to wait.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }

    /// Returns true if a client has to wait until the append-only file has taken its last write, which ends at
    /// `written`.
    #[cold]
    pub(crate) fn holds_up(&self, written: u64) -> bool {
        self.is_behind() && self.records.lock().files().any(|file| file.position < written)
    }

    /// Runs the reader whose work the calling thread may do, if there is one, for the records so far.
    pub(crate) fn flush(&self) {
        if !self.is_confirmed() {
            self.appended.run();
        }
    }

    /// Sets the number of last bytes kept for replicas that reconnect.
    pub(crate) fn set_backlog(&self, len: Option<u64>) {
        let mut records = self.records.lock();
        if records.backlog.is_none() && len.is_some() && !records.is_read() {
            records.cut(); // records are kept from here on
        }
        records.backlog = len;
        self.has_backlog.store(len.is_some(), Relaxed);
        records.free();
    }

    /// Returns true if changes are kept for replicas that reconnect.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog.load(Relaxed)
    }

    /// Returns the position of the first byte that is kept, and the one behind the last.
    pub(crate) fn kept(&self) -> (u64, u64) {
        let records = self.records.lock();
        (records.chunks.start(), records.chunks.end())
    }

    pub(crate) fn kept_len(&self) -> usize {
        self.records.lock().chunks.len()
    }

    /// Continues the log at the position of the primary whose data was taken over, with `db` selected. All readers lose
    /// their places. Must be called while the gate is held exclusively.
    pub(crate) fn continue_at(&self, position: u64, db: usize) {
        let mut records = self.records.lock();
        records.chunks = Chunks::begin_at(position);
        records.boundaries.clear(position);
        records.asides = Asides::default();
        records.barriers.clear();
        (records.copied_db, records.db) = (Some(db), None);
        for place in records.readers.iter_mut().flatten() {
            (place.position, place.is_lost) = (position, true);
            place.confirmed = place.confirmed.map(|_| position);
        }
        self.changed.restart(position);
        self.waiting.wake_all();
        self.follow_file(&records);
        self.follow_confirmations(&records);
        self.wake(&mut records);
    }

    /// Returns true if the log is copied, or may be later, so that every change needs a record, with dates in place of
    /// relative times.
    pub(crate) fn is_copied(&self) -> bool {
        let records = self.records.lock();
        records.backlog.is_some()
            || records.readers.iter().flatten().any(|place| place.purpose != ReaderPurpose::Repeat)
    }

    /// Returns true if there are readers, or replicas may reconnect, so that changes must be logged.
    pub(crate) fn is_wanted(&self) -> bool {
        let records = self.records.lock();
        records.backlog.is_some() || records.readers.iter().any(Option::is_some)
    }

    /// Returns true if no reader confirms, so that the whole log counts as confirmed.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed() == u64::MAX
    }

    /// Returns the position up to which every reader that confirms has done so; `u64::MAX` if none confirms.
    #[inline]
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.load(Relaxed)
    }

    /// Returns the position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.records.lock().chunks.end()
    }

    /// Notes that a record which ends at `position` changes keys of the given shards, which are locked, or of any
    /// shard.
    pub(crate) fn note_change(&self, shards: Option<&[usize]>, position: u64) {
        if !self.is_confirmed() {
            self.changed.raise(shards, position);
        }
    }

    /// Returns the position that a reply depends on which shows keys of the given, locked shards. Removals of keys
    /// because their deadline had passed, or to free memory, do not count: their absence is not the write of a client.
    pub(crate) fn position_of(&self, shards: &[usize]) -> u64 {
        self.changed.of(shards)
    }

    /// Wakes the task of a client once everything before `position` is confirmed; returns false if it is confirmed now.
    /// A client waits for one position at a time.
    pub(crate) fn wake_when_confirmed(&self, position: u64, client: u64, waker: &Waker) -> bool {
        let is_there = position <= self.end(); // otherwise it was in a former log
        is_there && self.waiting.add(client, position, waker, &self.confirmed) || self.waiting.remove(client)
    }

    /// Waits until everything in the log now is confirmed; for tasks that are no clients.
    pub(crate) async fn confirmation(&self) {
        let (position, ticket) = (self.end(), self.waiting.ticket());
        let poll = |cx: &mut Context<'_>| {
            let is_early = self.wake_when_confirmed(position, ticket.number, cx.waker());
            if is_early { Poll::Pending } else { Poll::Ready(()) }
        };
        poll_fn(poll).await;
    }

    /// Returns the clients that have waited for longer than `patience_ms` since the first call of this function during
    /// their wait. To be called from time to time while the file cannot be written.
    pub(crate) fn overdue(&self, now_ms: u64, patience_ms: u64) -> Vec<u64> {
        self.waiting.overdue(now_ms, patience_ms)
    }

    /// Removes a client whose connection has ended from the waiting ones.
    pub(crate) fn stop_waiting(&self, client: u64) {
        self.waiting.remove(client);
    }

    /// Updates the flag that says if the append-only file is too far behind.
    fn follow_file(&self, records: &Records) {
        let is_behind = records.chunks.len() > records.kept_max && records.has_slow_file();
        if is_behind != self.is_behind() {
            self.is_behind.store(is_behind, Relaxed);
        }
    }

    /// Computes again the position that every reader has confirmed.
    fn follow_confirmations(&self, records: &Records) {
        let confirmed = records.readers.iter().flatten().filter_map(|place| place.confirmed).min();
        let confirmed = confirmed.unwrap_or(u64::MAX);
        if confirmed == self.confirmed() {
            return;
        }
        if self.is_confirmed() {
            self.changed.raise(None, records.chunks.end()); // until now it was not noted
        }
        self.waiting.confirm(confirmed, &self.confirmed);
    }

    /// Changes the place of a reader by `change`, and updates everything that depends on it.
    fn change<T>(&self, number: usize, change: impl FnOnce(&mut Option<Place>, &mut Chunks) -> T) -> T {
        let mut records = self.records.lock();
        let Records { readers, chunks, .. } = &mut *records;
        let result = change(&mut readers[number], chunks);
        records.free();
        self.follow_file(&records);
        self.follow_confirmations(&records);
        result
    }
}

impl ChangeLog for Log {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.append(&mut Effects::one(db, &[b"DEL", key]));
    }

    fn append_deadline(&self, db: usize, key: &[u8], unix_ms: Option<i64>) {
        let mut number = itoa::Buffer::new();
        let mut effects = match unix_ms {
            Some(unix_ms) => Effects::one(db, &[b"PEXPIREAT", key, number.format(unix_ms).as_bytes()]),
            None => Effects::one(db, &[b"PERSIST", key]),
        };
        self.append(&mut effects);
    }

    fn append_side_record(&self, db: usize, record: SideRecord<'_>) {
        self.append(&mut Effects::one(db, &[b"PING", &record.word()]));
    }

    fn append_message(&self, channel: &[u8], payload: &[u8]) {
        let mut command = Vec::new();
        write_command(&mut command, &[b"PUBLISH", channel, payload]);
        self.append_aside(&command);
    }

    fn append_field_removal(&self, db: usize, removal: [&[u8]; 3]) {
        self.append(&mut Effects::one(db, &removal));
    }

    fn record_change(&self, _: usize, _: &[u8]) {}

    fn record_all(&self, _: Option<usize>) {}

    fn record_lock(&self, _: usize, _: &[u8], _: Option<HeldLock<'_>>) {}
}

impl Records {
    fn append(&mut self, effects: &mut Effects) -> u64 {
        let begin = self.chunks.end();
        let (before, after) = effects.frame(&mut self.db);
        let commands = effects.commands();
        if self.is_read() {
            self.chunks.extend(&before);
            self.chunks.append(commands);
            self.chunks.extend(after);
            self.boundaries.add(self.chunks.end());
        } else {
            self.chunks.skip(before.len() + commands.len() + after.len());
            self.boundaries.clear(self.chunks.end());
        }
        if !effects.asides().is_empty() {
            self.add_aside(effects.asides());
        }
        effects.clear();
        self.keep_to_the_limits(begin);
        self.chunks.end()
    }

    #[cold]
    fn add_aside(&mut self, commands: &[u8]) -> u64 {
        let begin = self.chunks.end();
        self.boundaries.fix(begin);
        let end = self.add(commands);
        self.asides.add(begin, end);
        self.boundaries.fix(end);
        end
    }

    /// Adds the bytes of one record.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let begin = self.chunks.end();
        if self.is_read() {
            self.chunks.extend(bytes);
            self.boundaries.add(self.chunks.end());
        } else {
            self.chunks.skip(bytes.len());
            self.boundaries.clear(self.chunks.end());
        }
        self.keep_to_the_limits(begin);
        self.chunks.end()
    }

    /// Returns true if appended records must be kept.
    fn is_read(&self) -> bool {
        self.backlog.is_some() || self.readers.iter().flatten().any(|place| !place.is_lost)
    }

    /// Frees the excess over the backlog, and has readers that are too slow lose their places. The last record begins
    /// at `last`: however long it is, it makes no reader slow.
    fn keep_to_the_limits(&mut self, last: u64) {
        let kept = self.chunks.len() as u64;
        if self.backlog.is_some_and(|len| kept > len + BACKLOG_SLACK) {
            self.free();
        }
        if kept > self.behind_max() {
            self.give_up_the_slow(last);
        }
    }

    /// Returns the number of bytes that a reader which may lose its place can be behind. It may be at the start of the
    /// backlog.
    fn behind_max(&self) -> u64 {
        (self.kept_max as u64).max(self.backlog.unwrap_or(0) + BACKLOG_SLACK)
    }

    /// Returns the readers that clients wait for.
    fn files(&self) -> impl Iterator<Item = &Place> {
        self.readers.iter().flatten().filter(|place| !place.is_lost && !place.purpose.may_lose_place())
    }

    /// Returns true if clients have to wait for a reader.
    fn has_slow_file(&self) -> bool {
        let end = self.chunks.end();
        self.files().any(|file| end.saturating_sub(file.position) > self.kept_max as u64)
    }

    /// Has the next command select its database, and keeps its start as a boundary; returns that position.
    fn cut(&mut self) -> u64 {
        let end = self.chunks.end();
        self.db = None;
        self.boundaries.fix(end);
        end
    }

    /// Frees the records that all readers have read.
    fn free(&mut self) {
        let begin = self.needed_from();
        self.chunks.free_before(begin);
        self.boundaries.free_before(begin);
        self.asides.free_before(begin);
    }

    /// Frees the records that all readers have read to the byte, where that is worth a copy.
    fn trim(&mut self) {
        self.free();
        self.chunks.trim(self.needed_from());
    }

    /// Returns the position before which no record is needed any more.
    fn needed_from(&self) -> u64 {
        let read = self.readers.iter().flatten().filter(|place| !place.is_lost).map(|place| place.position);
        let end = self.chunks.end();
        read.min().unwrap_or(end).min(self.backlog.map_or(end, |len| end.saturating_sub(len)))
    }

    /// Has readers lose their places that are too far behind the start of the last record.
    #[cold]
    fn give_up_the_slow(&mut self, last: u64) {
        let max = self.behind_max();
        for place in self.readers.iter_mut().flatten().filter(|place| place.purpose.may_lose_place()) {
            place.is_lost |= last.saturating_sub(place.position) > max;
        }
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &Log, key: &str) -> u64 {
        let mut effects = Effects::default();
        effects.push(0, &[b"DEL", key.as_bytes()]);
        log.append(&mut effects)
    }

    /// Returns the keys in the bytes of a log.
    fn keys(bytes: &[u8]) -> Vec<String> {
        let words: Vec<&str> = std::str::from_utf8(bytes).expect("text").split("\r\n").collect();
        words.windows(3).filter(|words| words[0] == "DEL").map(|words| words[2].to_owned()).collect()
    }

    fn kept(log: &Log) -> usize {
        log.records.lock().chunks.len()
    }

    #[test]
    fn three_readers_read_at_their_own_speeds_and_the_slowest_is_waited_for() {
        let log = Arc::new(Log::default());
        let (fast, slow) = (log.reader(ReaderPurpose::Copy), log.reader(ReaderPurpose::Copy));
        let names: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
        let (mut read, mut cut) = (Vec::new(), None);
        for (number, name) in names.iter().enumerate() {
            append(&log, name);
            read.extend(keys(&fast.read_all().expect("its place")));
            if number == 9_999 {
                cut = Some(log.reader(ReaderPurpose::Copy));
            }
        }
        assert_eq!(read, names);
        let cut = cut.expect("a reader");
        assert_eq!(keys(&cut.read_all().expect("its place")), names[10_000..]);
        assert_eq!(kept(&log) as u64, log.records.lock().chunks.end(), "nothing was freed before the slowest");
        let first = keys(&slow.read().expect("its place"));
        assert!(first.len() < 10_000 && kept(&log) < log.records.lock().chunks.end() as usize);
        let rest = keys(&slow.read_all().expect("its place"));
        assert!(first.len() + rest.len() >= names.len() - 1);
        assert_eq!((rest.last(), kept(&log)), (names.last(), 0));
        assert_eq!(slow.position(), fast.position());
    }

    #[test]
    fn a_reader_that_begins_in_the_middle_is_told_the_database_and_no_earlier_command() {
        let log = Arc::new(Log::default());
        let before = append(&log, "unread");
        assert_eq!((kept(&log), log.is_copied()), (0, false));
        let reader = log.reader(ReaderPurpose::Copy);
        assert_eq!(reader.position(), before);
        append(&log, "read");
        let bytes = reader.read_all().expect("its place");
        assert_eq!(bytes, b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$4\r\nread\r\n");
        drop(reader);
        assert!(!log.is_copied());
    }

    #[test]
    fn a_reader_too_far_behind_loses_its_place_and_the_others_do_not() {
        let log = Arc::new(Log::with_limit(200_000));
        let (reading, idle) = (log.reader(ReaderPurpose::Copy), log.reader(ReaderPurpose::Copy));
        let mut read = 0;
        for number in 0..20_000 {
            append(&log, &format!("key:{number}"));
            read += keys(&reading.read_all().expect("its place")).len();
            assert!(kept(&log) <= 300_000);
        }
        assert_eq!((read, idle.read()), (20_000, Err(LostPlace)));
    }

    #[test]
    fn a_backlog_longer_than_the_limit_keeps_the_places_of_those_in_it_and_no_others() {
        let log = Arc::new(Log::with_limit(100_000));
        log.set_backlog(Some(500_000));
        let (stopped, near) = (log.reader(ReaderPurpose::Replicate), log.reader(ReaderPurpose::Replicate));
        let large = "k".repeat(BACKLOG_SLACK as usize);
        while log.end() < 480_000 {
            append(&log, &large);
        }
        (0..5).for_each(|_| assert!(near.read().is_ok()));
        assert!(!stopped.has_lost_place());
        // One record across the boundary, and some more.
        for _ in 0..12 {
            append(&log, &large);
            assert!(near.read_all().is_ok() && kept(&log) < 500_000 + 3 * BACKLOG_SLACK as usize);
        }
        assert!(stopped.has_lost_place() && !near.has_lost_place());
        // However long a record is, a reader that had read everything before it is not slow.
        append(&log, &"k".repeat(2_000_000));
        assert!(!near.has_lost_place() && near.read_all().is_ok());
    }

    #[test]
    fn the_file_never_loses_its_place_and_clients_that_have_written_wait_for_it() {
        let log = Arc::new(Log::with_limit(100_000));
        let (file, replica) = (log.reader(ReaderPurpose::File), log.reader(ReaderPurpose::Replicate));
        let first = append(&log, "first");
        let large = append(&log, &"k".repeat(300_000));
        assert!(log.is_behind() && log.holds_up(first) && log.holds_up(large));
        file.release(first);
        assert!(log.is_behind() && !log.holds_up(first), "only those who wrote what it has not taken");
        (0..1000).for_each(|_| _ = append(&log, &"k".repeat(1000)));
        assert_eq!((file.has_lost_place(), replica.has_lost_place()), (false, true));
        assert!(file.read_all().is_ok_and(|read| read.len() > 1_300_000));
        assert!(!log.is_behind() && !log.holds_up(log.end()));
        (0..1000).for_each(|_| _ = append(&log, &"k".repeat(1000)));
        assert!(log.is_behind());
        drop(file);
        assert!(!log.is_behind(), "nobody waits for a file that has ended");
    }

    #[test]
    fn what_is_confirmed_is_what_the_slowest_of_those_who_confirm_has() {
        let log = Arc::new(Log::default());
        assert_eq!(log.confirmed(), u64::MAX);
        let (one, other, _reader) =
            (log.reader(ReaderPurpose::Confirm), log.reader(ReaderPurpose::Confirm), log.reader(ReaderPurpose::Copy));
        let end = append(&log, "key");
        assert_eq!(log.confirmed(), 0);
        one.confirm(end);
        assert_eq!(log.confirmed(), 0);
        other.confirm(end);
        other.confirm(3); // a confirmation is not taken back
        assert_eq!(log.confirmed(), end);
        drop((one, other));
        assert_eq!(log.confirmed(), u64::MAX);
    }
}
