//! A reader of the log.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::persist::log::{AwaitedAppends, Flush, Log, LostPlace, Place, ReaderPurpose, Records};

/// A reader of a log. Dropping the reader removes it from the log.
pub struct LogReader {
    pub(super) log: Arc<Log>,
    pub(super) number: usize,
}

impl Log {
    /// Adds a reader that begins at the end. It knows no database, so the next command selects one. Its records belong
    /// to a copy of the present data if the gate is held exclusively.
    pub(crate) fn reader(self: &Arc<Self>, purpose: ReaderPurpose) -> LogReader {
        let mut records = self.records.lock();
        let position = records.cut();
        self.add_reader(&mut records, position, purpose)
    }

    /// Adds a reader for a replica that has read up to a position; `None` if that position is not kept any more, or not
    /// reached.
    pub(crate) fn resume(self: &Arc<Self>, position: u64) -> Option<LogReader> {
        let mut records = self.records.lock();
        let is_kept = records.is_read() && (records.chunks.start()..=records.chunks.end()).contains(&position);
        is_kept.then(|| self.add_reader(&mut records, position, ReaderPurpose::Replicate))
    }

    /// Adds a reader for a replica whose records are not kept any more: the reader begins with the first record that is
    /// kept whole.
    pub(crate) fn resume_late(self: &Arc<Self>) -> LogReader {
        let mut records = self.records.lock();
        let position = records.boundaries.behind(records.chunks.start(), 0);
        self.add_reader(&mut records, position, ReaderPurpose::Replicate)
    }

    fn add_reader(self: &Arc<Self>, records: &mut Records, position: u64, purpose: ReaderPurpose) -> LogReader {
        let confirmed = (purpose == ReaderPurpose::Confirm).then_some(position);
        let place = Place { position, purpose, confirmed, is_lost: false, is_woken: false, has_foreign: false };
        let free = records.readers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            records.readers.push(None);
            records.readers.len() - 1
        });
        records.readers[number] = Some(place);
        self.follow_confirmations(records);
        LogReader { log: self.clone(), number }
    }
}

impl LogReader {
    /// Returns the position of the next byte.
    pub fn position(&self) -> u64 {
        self.log.records.lock().readers[self.number].map_or(0, |place| place.position)
    }

    /// Returns true if the reader was too slow, and the log has not waited for it.
    pub(crate) fn has_lost_place(&self) -> bool {
        self.log.records.lock().readers[self.number].is_none_or(|place| place.is_lost)
    }

    /// Returns the position behind the last record of the log.
    pub(crate) fn end(&self) -> u64 {
        self.log.end()
    }

    /// Reads the next bytes, up to the end of a chunk; none at the end of the log.
    ///
    /// # Errors
    /// [`LostPlace`] if the log has not waited for this reader.
    pub fn read(&self) -> Result<Bytes, LostPlace> {
        self.log.change(self.number, |place, chunks| {
            let Some(place) = place.as_mut().filter(|place| !place.is_lost) else { return Err(LostPlace) };
            let bytes = chunks.read(place.position);
            place.position += bytes.len() as u64;
            Ok(bytes)
        })
    }

    /// Reads to the end of the log.
    ///
    /// # Errors
    /// Errors of [`LogReader::read`].
    pub fn read_all(&self) -> Result<Vec<u8>, LostPlace> {
        let mut all = Vec::new();
        loop {
            match self.read()? {
                bytes if bytes.is_empty() => return Ok(all),
                bytes => all.extend_from_slice(&bytes),
            }
        }
    }

    /// Waits until there are bytes to read, for a task.
    pub(crate) fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        let mut records = self.log.records.lock();
        let place = records.readers[self.number];
        if place.is_none_or(|place| place.is_lost || place.position < records.chunks.end()) {
            return Poll::Ready(());
        }
        if !records.tasks.iter().any(|waker| waker.will_wake(cx.waker())) {
            records.tasks.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns whole records from a position on, in the log's own pieces: at most `limit` bytes, or one group of
    /// records that the log keeps together, which may be longer. Also returns the position of the first piece, which is
    /// behind any commands for replicas alone. Frees nothing: the records can be read again until
    /// [`LogReader::release`] is called.
    ///
    /// # Errors
    /// [`LostPlace`] if the log has not waited for this reader, or the position has been released.
    pub(crate) fn records(&self, from: u64, limit: usize) -> Result<(u64, Vec<Bytes>), LostPlace> {
        let mut records = self.log.records.lock();
        let place = records.readers[self.number].filter(|place| !place.is_lost && place.position <= from);
        if place.is_none() {
            return Err(LostPlace);
        }
        let barriers = records.barriers.iter().filter(|(number, barrier)| *number == self.number && from <= *barrier);
        let barrier = barriers.map(|(_, barrier)| *barrier).min().unwrap_or(u64::MAX);
        let Range { start, end: next } = records.asides.between(from);
        let from = start.min(barrier);
        let end = records.boundaries.behind(from, limit as u64).min(barrier).min(next);
        let (mut at, mut pieces) = (from, Vec::new());
        while at < end {
            let mut piece = records.chunks.read(at);
            piece.truncate((end - at) as usize);
            if piece.is_empty() {
                return Err(LostPlace);
            }
            at += piece.len() as u64;
            pieces.push(piece);
        }
        Ok((from, pieces))
    }

    /// Reads all records in pieces, each with its position: commands for replicas alone lie between them.
    ///
    /// # Errors
    /// [`LostPlace`] if the log has not waited for this reader.
    pub(crate) fn take_records(&self) -> Result<Vec<(u64, Bytes)>, LostPlace> {
        let (mut at, mut taken) = (self.position(), Vec::new());
        loop {
            let (begin, pieces) = self.records(at, usize::MAX)?;
            if pieces.is_empty() && begin == at {
                break;
            }
            at = begin;
            for piece in pieces {
                let len = piece.len() as u64;
                taken.push((at, piece));
                at += len;
            }
        }
        self.release(at);
        Ok(taken)
    }

    /// Advances the reader to a position: bytes before it are not read again.
    pub(crate) fn release(&self, position: u64) {
        self.log.change(self.number, |place, chunks| {
            let position = position.min(chunks.end());
            if let Some(place) = place {
                place.position = position.max(place.position);
            }
        });
    }

    /// Returns the database selected at the end of a copied log, see [`Log::copied_db`].
    pub(crate) fn copied_db(&self) -> Option<usize> {
        self.log.copied_db()
    }

    /// Moves the reader to the end of the log, where the next command selects its database; returns this position. A
    /// reader that had lost its place has one again. Its confirmed position stays the same.
    pub(crate) fn restart(&self) -> u64 {
        let mut records = self.log.records.lock();
        let end = records.cut();
        records.barriers.retain(|(number, _)| *number != self.number);
        if let Some(place) = &mut records.readers[self.number] {
            (place.position, place.is_lost) = (end, false);
        }
        records.free();
        end
    }

    /// Marks the end of the log as the start of another file: no group of records crosses it, and the next command
    /// selects its database. Returns the position. Records behind it belong to a copy of the present data if the gate
    /// is held exclusively. They are not read before [`LogReader::pass`] is called, so that they cannot get into the
    /// former file.
    pub(crate) fn cut(&self) -> u64 {
        let mut records = self.log.records.lock();
        let position = records.cut();
        records.barriers.push((self.number, position));
        position
    }

    /// Allows the reader to read beyond a cut, and beyond all cuts before it.
    pub(crate) fn pass(&self, cut: u64) {
        self.log.records.lock().barriers.retain(|(number, barrier)| *number != self.number || *barrier > cut);
    }

    /// Waits for records behind `position`, if there is one, for a call of [`LogReader::wake`] since the last wait, or
    /// for the timeout; may return earlier. Only a wait for records makes the next append wake the thread, which costs
    /// the appending thread microseconds. Records that the appending threads read themselves do not end the wait.
    pub(crate) fn wait(&self, position: Option<u64>, timeout: Option<Duration>) {
        let mut records = self.log.records.lock();
        let (is_flushed, end) = (records.flushed == Some(self.number), records.chunks.end());
        let has_records = |place: &Place| position.is_some_and(|from| end > from && (!is_flushed || place.has_foreign));
        if !records.readers[self.number].is_none_or(|place| place.is_woken || has_records(&place)) {
            let awaited = if is_flushed { AwaitedAppends::Foreign } else { AwaitedAppends::Every };
            self.log.appended.wait(&mut records, position.map(|_| awaited), timeout);
        }
        if let Some(place) = &mut records.readers[self.number] {
            place.is_woken = false;
            place.has_foreign &= position.is_none();
        }
    }

    /// Sets the function that does this reader's work; it returns false if the reader's own thread does the work.
    pub(crate) fn set_flush(&self, flush: Flush) {
        self.log.appended.set_flush(Some(flush));
    }

    /// Has workers do this reader's work for the records that they append, before they wait for requests, or has the
    /// reader's own thread do all of it.
    pub(crate) fn set_flushed(&self, is_flushed: bool) {
        let mut records = self.log.records.lock();
        if is_flushed {
            let former = records.flushed.replace(self.number).filter(|former| *former != self.number);
            if let Some(place) = former.and_then(|former| records.readers[former].as_mut()) {
                place.is_woken = true; // from now on its thread does all of its work
                self.log.appended.notify();
            }
        } else if records.flushed == Some(self.number) {
            records.flushed = None;
        }
    }

    /// Ends a [`LogReader::wait`], the present one or the next.
    pub(crate) fn wake(&self) {
        if let Some(place) = &mut self.log.records.lock().readers[self.number] {
            place.is_woken = true;
        }
        self.log.appended.notify();
    }

    /// Returns the number of clients that wait for a confirmation.
    pub fn waiting(&self) -> usize {
        self.log.waiting.count()
    }

    /// Confirms everything before a position, if the reader confirms; returns the number of clients that have waited
    /// for a confirmation.
    pub fn confirm(&self, position: u64) -> usize {
        let waiting = self.waiting();
        self.log.change(self.number, |place, _| {
            let confirmed = place.as_mut().and_then(|place| place.confirmed.as_mut());
            if let Some(confirmed) = confirmed {
                *confirmed = position.max(*confirmed);
            }
        });
        waiting
    }

    /// Makes a reader that does not confirm do so from now on, with everything before a position confirmed.
    pub(crate) fn confirm_from(&self, position: u64) {
        self.log.change(self.number, |place, _| {
            let Some(place) = place else { return };
            place.confirmed.get_or_insert(position);
        });
    }

    /// Makes the reader confirm from now on, with everything before `confirmed` confirmed, or with `None` not confirm
    /// any more. Wakes clients that wait for positions which count as confirmed now.
    pub(crate) fn set_confirmed(&self, confirmed: Option<u64>) {
        self.log.change(self.number, |place, _| {
            let Some(place) = place else { return };
            place.confirmed = confirmed;
        });
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.pass(u64::MAX);
        self.set_flushed(false);
        self.log.change(self.number, |place, _| *place = None);
        self.log.records.lock().trim(); // this reader may have been the slowest by far
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Wake, Waker};

    use super::*;
    use crate::persist::Effects;

    /// A waker that counts its wakeups.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Appends a command of about `len` bytes to a log; returns the position behind it.
    fn append(log: &Log, len: usize) -> u64 {
        log.append(&mut Effects::one(0, &[b"DEL", &vec![b'k'; len]]))
    }

    /// Reads records from a position with no commands for replicas alone.
    fn records(reader: &LogReader, from: u64, limit: usize) -> Result<Vec<Bytes>, LostPlace> {
        reader.records(from, limit).map(|(begin, pieces)| {
            assert_eq!(begin, from);
            pieces
        })
    }

    fn len(pieces: &[Bytes]) -> usize {
        pieces.iter().map(Bytes::len).sum()
    }

    #[test]
    fn records_are_read_whole_and_again_until_they_are_released() {
        let log = Arc::new(Log::default());
        let reader = log.reader(ReaderPurpose::Copy);
        let large = append(&log, 300_000);
        let ends: Vec<u64> = (0..1000).map(|number| append(&log, 50 + number % 7)).collect();
        let first = records(&reader, 0, 1000).expect("its place");
        assert_eq!(len(&first) as u64, large, "a record larger than the limit");
        let second = records(&reader, large, 40_000).expect("its place");
        let middle = large + len(&second) as u64;
        assert!(middle > large && len(&second) <= 40_000 && ends.contains(&middle));
        assert_eq!(records(&reader, 0, 1000).expect("its place"), first);
        reader.release(large);
        assert_eq!((records(&reader, 0, 1000), reader.position()), (Err(LostPlace), large));
        assert_eq!(records(&reader, large, 40_000).expect("its place"), second);
        assert_eq!(records(&reader, reader.end(), 40_000), Ok(vec![]));
    }

    #[test]
    fn no_records_are_read_beyond_a_cut_before_it_is_passed_and_the_next_command_selects_its_database() {
        let log = Arc::new(Log::default());
        let (reader, other) = (log.reader(ReaderPurpose::Copy), log.reader(ReaderPurpose::Copy));
        append(&log, 10);
        let cut = reader.cut();
        append(&log, 10);
        let next = reader.cut();
        append(&log, 10);
        let read = |reader: &LogReader, from: u64| from + len(&records(reader, from, 1000).expect("its place")) as u64;
        assert_eq!((read(&reader, 0), read(&reader, cut), read(&other, cut)), (cut, cut, log.end()));
        reader.pass(cut);
        assert_eq!((read(&reader, cut), read(&reader, next)), (next, next));
        reader.pass(next);
        assert_eq!(read(&reader, next), log.end());
        let after = records(&reader, cut, 1000).expect("its place");
        assert!(after[0].starts_with(b"*2\r\n$6\r\nSELECT"));
    }

    #[test]
    fn a_reader_that_has_lost_its_place_begins_again_at_the_end_and_takes_no_confirmation_back() {
        let log = Arc::new(Log::with_limit(10_000));
        let reader = log.reader(ReaderPurpose::Confirm);
        let first = append(&log, 10);
        reader.confirm(first);
        (0..100).for_each(|_| _ = append(&log, 1000));
        assert_eq!(records(&reader, first, 1000), Err(LostPlace));
        let begin = reader.restart();
        assert_eq!((begin, log.confirmed()), (log.end(), first));
        append(&log, 10);
        assert!(records(&reader, begin, 1000).expect("its place")[0].starts_with(b"*2\r\n$6\r\nSELECT"));
    }

    #[test]
    fn a_reader_begins_and_ceases_to_confirm() {
        let log = Arc::new(Log::default());
        let reader = log.reader(ReaderPurpose::Copy);
        let end = append(&log, 10);
        assert!(log.is_confirmed());
        reader.set_confirmed(Some(3));
        assert_eq!(log.confirmed(), 3);
        assert_eq!(log.position_of(&[7]), end, "it is not known whose keys were changed before");
        assert!(log.wake_when_confirmed(end, 1, std::task::Waker::noop()));
        reader.set_confirmed(None);
        assert!(log.is_confirmed() && log.is_copied());
        assert_eq!(log.waiting.count(), 0, "the client was woken");
    }

    #[test]
    fn a_waiting_reader_is_woken_by_a_record_and_by_another_thread() {
        let log = Arc::new(Log::default());
        let reader = Arc::new(log.reader(ReaderPurpose::Copy));
        reader.wake();
        reader.wait(Some(0), None); // woken before
        let other = reader.clone();
        let waits = std::thread::spawn(move || {
            other.wait(Some(0), None);
            other.end()
        });
        let end = append(&log, 10);
        assert_eq!(waits.join().ok(), Some(end));
        let other = reader.clone();
        let waits = std::thread::spawn(move || other.wait(None, None));
        reader.wake();
        assert!(waits.join().is_ok());
        reader.wait(Some(0), None); // there are records
        reader.wait(Some(end), Some(Duration::from_millis(1)));
    }

    #[test]
    fn what_is_for_replicas_alone_is_read_by_them_and_passed_over_by_others() {
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        let log = Arc::new(Log::default());
        let (file, replica) = (log.reader(ReaderPurpose::Copy), log.reader(ReaderPurpose::Replicate));
        log.append_aside(PING);
        let first = append(&log, 10);
        log.append_aside(PING);
        let end = log.append_aside(PING);
        let (begin, pieces) = file.records(0, 1000).expect("its place");
        assert_eq!((begin, begin + len(&pieces) as u64), (PING.len() as u64, first));
        assert_eq!(file.records(first, 1000), Ok((end, vec![])));
        let second = append(&log, 10);
        let (begin, pieces) = file.records(first, 1000).expect("its place");
        assert_eq!((begin, begin + len(&pieces) as u64), (end, second));
        let all = replica.read_all().expect("its place");
        assert_eq!((all.len() as u64, all.starts_with(PING)), (second, true));
        let taken = file.take_records().expect("its place");
        let places: Vec<_> = taken.iter().map(|(begin, piece)| (*begin, *begin + piece.len() as u64)).collect();
        assert_eq!(places, [(PING.len() as u64, first), (end, second)]);
        assert_eq!((file.take_records(), file.position()), (Ok(vec![]), second));
    }

    #[test]
    fn a_replica_goes_on_where_it_was_while_the_backlog_has_that() {
        let log = Arc::new(Log::default());
        append(&log, 10);
        assert!(log.resume(log.end()).is_none(), "nothing is kept");
        log.set_backlog(Some(100_000));
        let begin = log.end();
        let first = append(&log, 1000);
        let reader = log.resume(first).expect("a position in the backlog");
        let second = append(&log, 1000);
        assert_eq!(reader.read_all().map(|read| read.len() as u64), Ok(second - first));
        drop(reader);
        let whole = log.resume(begin).expect("the begin of the backlog").read_all().expect("its place");
        assert_eq!(whole.len() as u64, second - begin);
        (0..300).for_each(|_| _ = append(&log, 1000));
        assert!(log.resume(begin).is_none() && log.resume(log.end() + 1).is_none());
        assert!(log.resume(log.end() - 100_000).is_some() && log.resume(log.end()).is_some());
        let (start, end) = log.kept();
        assert!((100_000..100_000 + 2 * (64 << 10) + 2000).contains(&(end - start)), "{} bytes", end - start);
        log.set_backlog(None);
        assert_eq!(log.kept(), (end, end));
    }

    #[test]
    fn a_task_is_woken_by_the_next_record() {
        let log = Arc::new(Log::default());
        let reader = log.reader(ReaderPurpose::Replicate);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let cx = Context::from_waker(&waker);
        assert!(reader.poll_readable(&cx).is_pending() && reader.poll_readable(&cx).is_pending());
        append(&log, 10);
        assert_eq!(wakes.0.load(Relaxed), 1);
        assert!(reader.poll_readable(&cx).is_ready());
        assert!(reader.read_all().is_ok() && reader.poll_readable(&cx).is_pending());
    }

    #[test]
    fn who_waits_for_a_position_of_a_former_log_is_woken_and_waits_no_more_for_it() {
        let log = Arc::new(Log::default());
        let _file = log.reader(ReaderPurpose::Confirm);
        let (near, far) = (append(&log, 10), append(&log, 10_000));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        assert!(log.wake_when_confirmed(near, 1, &waker) && log.wake_when_confirmed(far, 2, &waker));
        log.continue_at(100, 0);
        assert_eq!((wakes.0.load(Relaxed), log.waiting.count()), (2, 0));
        let waits = [near, far].map(|position| log.wake_when_confirmed(position, 1, &waker));
        assert_eq!(waits, [false; 2], "the present log has not come so far, and may never");
    }

    #[test]
    fn positions_go_on_where_a_former_log_ended() {
        let log = Arc::new(Log::default());
        let former = log.reader(ReaderPurpose::Copy);
        append(&log, 10);
        log.continue_at(5000, 3);
        assert_eq!((former.read(), log.copied_db()), (Err(LostPlace), Some(3)));
        let reader = log.reader(ReaderPurpose::Replicate);
        assert_eq!((reader.position(), log.end(), former.restart()), (5000, 5000, 5000));
        let end = log.append_copy(b"*2\r\n$6\r\nSELECT\r\n$1\r\n4\r\n", 4);
        assert_eq!(reader.read_all().map(|read| read.len() as u64), Ok(end - 5000));
        assert_eq!((former.read_all().map(|read| read.len() as u64), log.copied_db()), (Ok(end - 5000), Some(4)));
        log.end_copy();
        assert_eq!(log.copied_db(), None);
        append(&log, 10);
        assert!(
            reader.read_all().is_ok_and(|read| read.starts_with(b"*2\r\n$6\r\nSELECT")),
            "the copied one is not known"
        );
    }
}
