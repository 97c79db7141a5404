//! The journal: the log in memory, until its readers take it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::persist::Effects;
use crate::persist::window::{Past, Window};
use crate::resp::Output;
use crate::store::{ChangeLog, LockRecord};
use crate::time::clock::Now;

/// Logged and not yet taken commands. Nothing is logged unless the store is told to, see
/// [`Store::set_logged`](crate::store::Store::set_logged); then the journal grows until it is taken. In test mode it also
/// remembers the latest writes.
#[derive(Default)]
pub(crate) struct Journal {
    log: Mutex<Log>,
    /// Whether a [cut](Journal::cut) is needed before more is written.
    is_cut_due: AtomicBool,
}

#[derive(Default)]
struct Log {
    commands: Output,
    /// The database selected by the last command; `None` when a reader does not know it.
    db: Option<usize>,
    /// The number of bytes taken so far.
    taken: u64,
    /// Whether there is a reader that takes the commands.
    is_read: bool,
    /// The latest writes; `None` without test mode.
    window: Option<Box<Window>>,
}

impl Log {
    /// Adds the changes of a call at a time, or those that no call has made.
    fn append(&mut self, effects: &mut Effects, written: Option<Now>) -> u64 {
        if let Some(window) = &mut self.window {
            let mut again = if self.is_read { effects.again() } else { std::mem::take(effects) };
            match written {
                Some(at) => window.append(&mut again, at),
                None => window.prepare(&mut again),
            }
        }
        effects.move_to(&mut self.commands, &mut self.db);
        self.commands.shrink(); // ends a long tail, which would be copied repeatedly while it grows
        self.taken + self.commands.len() as u64
    }
}

impl Journal {
    /// Appends the effects of a call at a time, and clears them; returns the position in the log after them, in bytes.
    /// Must be called while the changed shards are locked.
    pub(crate) fn append(&self, effects: &mut Effects, at: Now) -> u64 {
        self.append_all(effects, Some(at))
    }

    fn append_all(&self, effects: &mut Effects, written: Option<Now>) -> u64 {
        let mut log = self.log.lock();
        let position = log.append(effects, written);
        self.note_due(&log);
        position
    }

    /// Appends one command in a database at a time, which is a write of its own.
    pub(crate) fn append_command(&self, db: usize, args: &[&[u8]], at: Now) {
        self.append_one(db, args, Some(at));
    }

    fn append_one(&self, db: usize, args: &[&[u8]], written: Option<Now>) {
        let mut effects = Effects::default();
        effects.push(db, args.iter().copied());
        self.append_all(&mut effects, written);
    }

    /// Returns whether each write is repeated by a clock that says when it was made, so that what is relative to the
    /// present may be logged as that: if nobody takes the log.
    pub(crate) fn keeps_time(&self) -> bool {
        !self.log.lock().is_read
    }

    /// Takes what was logged since the last call.
    pub(crate) fn take(&self) -> Output {
        let mut log = self.log.lock();
        let taken = std::mem::take(&mut log.commands);
        log.taken += taken.len() as u64;
        taken
    }

    /// Begins a log for a new reader: pending commands are dropped, and the first command selects its database.
    pub(crate) fn begin(&self) {
        self.take();
        let mut log = self.log.lock();
        (log.db, log.is_read) = (None, true);
    }

    /// Sets how many of the latest writes are remembered; in test mode only.
    pub(crate) fn remember(&self, most: usize) {
        self.with_window(|window| window.set_most(most), true);
    }

    /// Sets whether changed keys are noted even if no writes are remembered; in test mode only.
    pub(crate) fn set_snapshots(&self, has_snapshots: bool) {
        self.with_window(|window| window.set_snapshots(has_snapshots), true);
    }

    /// Returns whether a cut is needed before more is written.
    #[inline]
    pub(crate) fn is_cut_due(&self) -> bool {
        self.is_cut_due.load(Relaxed)
    }

    /// Returns whether a cut is needed because many keys have changed, by calls or without.
    pub(crate) fn has_many_keys(&self) -> bool {
        self.is_cut_due() && self.log.lock().window.as_ref().is_some_and(|window| window.has_many_keys())
    }

    /// Takes what has happened since the last cut, which begins the next window. Must be called with the gate held
    /// exclusively.
    pub(crate) fn cut(&self) -> Past {
        self.with_window(Window::cut, false).unwrap_or_default()
    }

    /// Begins the next window without looking at the last one, whose changes are undone or known.
    pub(crate) fn discard(&self) {
        self.with_window(Window::discard, false);
    }

    /// Acts on the window, which is created if `creates`.
    fn with_window<T>(&self, act: impl FnOnce(&mut Window) -> T, creates: bool) -> Option<T> {
        let mut log = self.log.lock();
        if creates {
            log.window.get_or_insert_default();
        }
        let result = log.window.as_deref_mut().map(act);
        self.note_due(&log);
        result
    }

    fn note_due(&self, log: &Log) {
        let is_due = log.window.as_ref().is_some_and(|window| window.is_cut_due());
        self.is_cut_due.store(is_due, Relaxed);
    }
}

impl ChangeLog for Journal {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.append_one(db, &[b"DEL", key], None);
    }

    fn append_field_removal(&self, db: usize, key: &[u8], field: &[u8]) {
        self.append_one(db, &[b"HDEL", key, field], None);
    }

    fn note_change(&self, db: usize, key: &[u8]) {
        self.with_window(|window| window.note_change(db, key), false);
    }

    fn note_all(&self) {
        self.with_window(Window::note_all, false);
    }

    fn note_lock(&self, db: usize, key: &[u8], lock: Option<&LockRecord>) {
        self.with_window(|window| window.note_lock(db, key, lock), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_counts_what_was_taken_too() {
        let (journal, mut effects) = (Journal::default(), Effects::default());
        effects.push(0, [&b"DEL"[..], b"k"].into_iter());
        let first = journal.append(&mut effects, Now::at_ms(0, 0));
        assert_eq!(first, journal.take().len() as u64);
        journal.append_removal(0, b"k");
        effects.push(0, [&b"DEL"[..], b"k"].into_iter());
        assert_eq!(
            journal.append(&mut effects, Now::at_ms(0, 0)),
            first + 2 * "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n".len() as u64
        );
    }

    #[test]
    fn a_new_reader_gets_a_select_of_the_database() {
        let journal = Journal::default();
        journal.append_removal(2, b"k");
        journal.begin();
        journal.append_removal(2, b"l");
        assert!(journal.take().into_bytes().starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n"));
    }
}
