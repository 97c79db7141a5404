//! The journal: the log in memory, until its readers take it.

use parking_lot::Mutex;

use crate::persist::Effects;
use crate::resp::Output;
use crate::store::RemovalLog;

/// Logged and not yet taken commands. Nothing is logged unless the store is told to, see
/// [`Store::set_logged`](crate::store::Store::set_logged); then the journal grows until it is taken.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Log>);

#[derive(Default)]
struct Log {
    commands: Output,
    /// The database selected by the last command; `None` when a reader does not know it.
    db: Option<usize>,
    /// The number of bytes taken so far.
    taken: u64,
}

impl Log {
    fn append(&mut self, effects: &mut Effects) -> u64 {
        effects.move_to(&mut self.commands, &mut self.db);
        self.commands.shrink(); // ends a long tail, which would be copied repeatedly while it grows
        self.taken + self.commands.len() as u64
    }
}

impl Journal {
    /// Appends the effects of a call, and clears them; returns the position in the log after them, in bytes. Must be
    /// called while the changed shards are locked.
    pub(crate) fn append(&self, effects: &mut Effects) -> u64 {
        self.0.lock().append(effects)
    }

    /// Appends one command in a database.
    pub(crate) fn append_command(&self, db: usize, args: &[&[u8]]) {
        let mut effects = Effects::default();
        effects.push(db, args.iter().copied());
        self.append(&mut effects);
    }

    /// Takes what was logged since the last call.
    pub(crate) fn take(&self) -> Output {
        let mut log = self.0.lock();
        let taken = std::mem::take(&mut log.commands);
        log.taken += taken.len() as u64;
        taken
    }

    /// Begins a log for a new reader: pending commands are dropped, and the first command selects its database.
    pub(crate) fn begin(&self) {
        self.take();
        self.0.lock().db = None;
    }
}

impl RemovalLog for Journal {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.append_command(db, &[b"DEL", key]);
    }

    fn append_field_removal(&self, db: usize, key: &[u8], field: &[u8]) {
        self.append_command(db, &[b"HDEL", key, field]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_counts_what_was_taken_too() {
        let (journal, mut effects) = (Journal::default(), Effects::default());
        effects.push(0, [&b"DEL"[..], b"k"].into_iter());
        let first = journal.append(&mut effects);
        assert_eq!(first, journal.take().len() as u64);
        journal.append_removal(0, b"k");
        effects.push(0, [&b"DEL"[..], b"k"].into_iter());
        assert_eq!(journal.append(&mut effects), first + 2 * "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n".len() as u64);
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
