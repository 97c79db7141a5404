//! The changes between two checkpoints: the latest writes, each as the commands that repeat it, and the names of the keys
//! that have changed with them. Test mode sets a namespace back with these.
//!
//! At a checkpoint the store is locked, every change is in it, and the images of all keys are known. The writes come from
//! the log, of which this is a reader; what the log does not have, when each write was made and what it has done to locks,
//! is recorded beside it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::persist::{Effects, Log, LogReader, Purpose};
use crate::resp::write_select;
use crate::store::{ByKey, ChangeLog, HeldLock, LockImage};
use crate::time::clock::Now;

/// The maximum number of writes between two checkpoints.
const WRITES_MAX: usize = 1000;
/// The number of changed keys from which on a checkpoint is due: each costs it about a microsecond, and nobody else is
/// served.
const KEYS_DUE: usize = 1000;
/// The number of bytes of writes from which on a checkpoint is due.
const BYTES_DUE: u64 = 16 << 20;
/// The maximum number of changed keys whose names are kept; with more, any key may have changed.
const KEYS_MAX: usize = 1 << 20;

/// What one call has changed.
#[derive(Clone)]
pub(crate) struct Write {
    /// When.
    pub(crate) at: Now,
    /// The position in the log behind it.
    pub(crate) end: u64,
    /// The commands that repeat it, with times from then on; before them those for what no call has changed since the
    /// write before.
    pub(crate) effects: Box<[u8]>,
    /// What was known afterwards of the locks that it has changed; `None` of a key that is no lock any more.
    pub(crate) locks: ByKey<Option<LockImage>>,
}

impl Write {
    /// Returns the bytes that it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Write>() + self.effects.len() + self.locks.len() * 2 * size_of::<LockImage>()
    }
}

/// The keys that have changed.
pub(crate) enum Touched {
    /// These.
    Keys(ByKey<()>),
    /// Any.
    All,
}

impl Default for Touched {
    fn default() -> Self {
        Touched::Keys(ByKey::default())
    }
}

/// The changes since the last checkpoint.
#[derive(Default)]
pub(crate) struct Changes {
    /// The writes, oldest first.
    pub(crate) writes: Vec<Write>,
    /// The keys that have changed.
    pub(crate) touched: Touched,
    /// The position in the log of this checkpoint.
    pub(crate) end: u64,
    /// Whether `writes` has all of them.
    pub(crate) has_all: bool,
}

/// Records changes, and passes on to the log what is logged.
pub(crate) struct Recorder {
    log: Arc<Log>,
    state: Mutex<State>,
    /// Whether a [checkpoint](Recorder::checkpoint) is needed before more is written.
    is_checkpoint_due: AtomicBool,
}

/// What is recorded until the next checkpoint.
#[derive(Default)]
struct State {
    /// Reads the writes; `None` while none are remembered.
    reader: Option<LogReader>,
    /// Where it was at the last checkpoint.
    begin: u64,
    /// The database of the next command that it reads.
    db: usize,
    /// What it has read of the write after the last one, in pieces, each with its position in the log.
    unfinished: VecDeque<(u64, Bytes)>,
    /// The writes since the last checkpoint.
    ends: Vec<End>,
    touched: Touched,
    /// What is known of the locks that the next write has changed.
    locks: ByKey<Option<LockImage>>,
    /// How many writes are remembered in all.
    max_writes: usize,
    /// Whether changed keys are recorded even if no writes are remembered.
    has_snapshots: bool,
    /// Whether changes were missed, so that nothing is known up to the next checkpoint.
    has_missed: bool,
}

/// The end of a write in the log.
struct End {
    position: u64,
    at: Now,
    /// The database of the last command.
    db: usize,
    locks: ByKey<Option<LockImage>>,
}

impl Recorder {
    /// Creates a recorder of a log.
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Recorder { log, state: Mutex::default(), is_checkpoint_due: AtomicBool::new(false) }
    }

    /// Appends the effects of a call at a time to the log, and clears them; returns the position behind them. Must be
    /// called while the changed shards are locked.
    pub(crate) fn append(&self, effects: &mut Effects, at: Now) -> u64 {
        self.change(|state| {
            let (db, is_write) = (effects.last_db(), effects.count() > 0);
            let position = self.log.append(effects);
            if state.reader.is_some() && is_write {
                let locks = std::mem::take(&mut state.locks);
                state.ends.push(End { position, at, db, locks });
            }
            position
        })
    }

    /// Sets how many of the latest writes are remembered.
    pub(crate) fn remember(&self, max_writes: usize) {
        self.change(|state| {
            state.max_writes = max_writes;
            state.follow_settings();
        });
    }

    /// Sets whether changed keys are recorded even if no writes are remembered.
    pub(crate) fn set_snapshots(&self, has_snapshots: bool) {
        self.change(|state| {
            state.has_snapshots = has_snapshots;
            state.follow_settings();
        });
    }

    /// Returns whether a checkpoint is needed before more is written.
    #[inline]
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.is_checkpoint_due.load(Relaxed)
    }

    /// Returns whether a checkpoint is needed because many keys have changed, by calls or without.
    pub(crate) fn has_many_keys(&self) -> bool {
        self.is_checkpoint_due() && self.state.lock().has_many_keys()
    }

    /// Takes the changes since the last checkpoint. Must be called with the gate held exclusively.
    pub(crate) fn checkpoint(&self) -> Changes {
        self.change(|state| state.checkpoint(&self.log))
    }

    /// Makes a checkpoint without looking at the changes, which were undone or are known.
    pub(crate) fn discard(&self) {
        self.change(|state| {
            // A new reader: which database the next command is for may have been said in what is discarded.
            state.forget_writes();
            state.checkpoint(&self.log);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.is_checkpoint_due.store(state.is_checkpoint_due(), Relaxed);
        result
    }
}

impl ChangeLog for Recorder {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.log.append_removal(db, key);
    }

    fn append_deadline(&self, db: usize, key: &[u8], unix_ms: Option<i64>) {
        self.log.append_deadline(db, key, unix_ms);
    }

    fn append_lock(&self, db: usize, key: &[u8], text: &[u8]) {
        self.log.append_lock(db, key, text);
    }

    fn append_field_removal(&self, db: usize, key: &[u8], field: &[u8]) {
        self.log.append_field_removal(db, key, field);
    }

    fn record_change(&self, db: usize, key: &[u8]) {
        self.change(|state| state.record_change(db, key));
    }

    fn record_all(&self, _: Option<usize>) {
        self.change(|state| state.touched = Touched::All);
    }

    fn record_lock(&self, db: usize, key: &[u8], lock: Option<HeldLock<'_>>) {
        self.change(|state| {
            state.record_change(db, key);
            if state.reader.is_some() {
                state.locks.insert(db, key.into(), lock.map(LockImage::of));
            }
        });
    }
}

impl State {
    fn follow_settings(&mut self) {
        if self.max_writes == 0 {
            self.forget_writes();
            self.has_missed |= !self.has_snapshots;
        }
    }

    fn forget_writes(&mut self) {
        (self.reader, self.ends, self.unfinished, self.locks) = (None, Vec::new(), VecDeque::new(), ByKey::default());
    }

    fn is_checkpoint_due(&self) -> bool {
        let unread = self.ends.last().map_or(0, |last| last.position - self.begin);
        let is_full = self.ends.len() >= self.max_writes.min(WRITES_MAX) || unread >= BYTES_DUE;
        self.max_writes > 0 && (self.has_missed || self.reader.is_none() || is_full) || self.has_many_keys()
    }

    /// Returns whether so many keys have changed that a checkpoint is due for that alone.
    fn has_many_keys(&self) -> bool {
        let has_many = matches!(&self.touched, Touched::Keys(keys) if keys.len() >= KEYS_DUE);
        has_many && (self.max_writes > 0 || self.has_snapshots)
    }

    fn checkpoint(&mut self, log: &Arc<Log>) -> Changes {
        let writes = self.take_writes();
        let (has_all, end) = (writes.is_some(), log.end());
        let touched = std::mem::take(&mut self.touched);
        let mut changes = Changes { writes: writes.unwrap_or_default(), touched, end, has_all };
        if std::mem::take(&mut self.has_missed) {
            changes = Changes { writes: Vec::new(), touched: Touched::All, end, has_all: false };
        }
        self.has_missed = self.max_writes == 0 && !self.has_snapshots;
        if self.max_writes > 0 {
            self.begin = self.reader.get_or_insert_with(|| log.reader(Purpose::Repeat)).position();
        }
        changes
    }

    /// Reads the writes since the last checkpoint from the log; `None` if it has not kept them.
    fn take_writes(&mut self) -> Option<Vec<Write>> {
        let Ok(read) = self.reader.as_ref()?.take_records() else {
            self.forget_writes();
            self.has_missed = true;
            return None;
        };
        self.unfinished.extend(read);
        let mut writes = Vec::with_capacity(self.ends.len());
        for End { position, at, db, locks } in std::mem::take(&mut self.ends) {
            let mut effects = Vec::new();
            write_select(&mut effects, self.db);
            self.take_unfinished(position, &mut effects);
            writes.push(Write { at, end: position, effects: effects.into(), locks });
            self.db = db;
        }
        Some(writes)
    }

    /// Moves what lies before a position out of the records that no write has.
    fn take_unfinished(&mut self, position: u64, out: &mut Vec<u8>) {
        while let Some((begin, piece)) = self.unfinished.front_mut().filter(|(begin, _)| *begin < position) {
            let len = piece.len().min((position - *begin) as usize);
            out.extend_from_slice(&piece.split_to(len));
            *begin += len as u64;
            if piece.is_empty() {
                self.unfinished.pop_front();
            }
        }
    }

    /// Records that a key has changed.
    fn record_change(&mut self, db: usize, key: &[u8]) {
        if self.has_missed {
            return;
        }
        if let Touched::Keys(keys) = &mut self.touched
            && keys.get(db, key).is_none()
        {
            keys.insert(db, key.into(), ());
            if keys.len() > KEYS_MAX {
                self.touched = Touched::All;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_due_when_many_keys_have_changed_even_if_no_call_has_written() {
        let recorder = Recorder::new(Arc::default());
        recorder.remember(10);
        recorder.discard();
        let change = || (0..KEYS_DUE).for_each(|key| recorder.record_change(0, &key.to_le_bytes()));
        (0..2 * KEYS_DUE).for_each(|_| recorder.record_change(0, b"the same"));
        assert!(!recorder.is_checkpoint_due());
        change();
        assert!(recorder.is_checkpoint_due() && recorder.has_many_keys());
        recorder.checkpoint();
        assert!(!recorder.is_checkpoint_due());
        recorder.remember(0);
        change();
        assert!(!recorder.is_checkpoint_due(), "nobody needs their images");
    }

    #[test]
    fn each_write_has_its_database_and_what_no_call_has_changed_before_it() {
        let recorder = Recorder::new(Arc::default());
        recorder.remember(10);
        recorder.discard();
        let (mut effects, at) = (Effects::default(), Now::at_ms(0, 0));
        let mut written = |db, key: &str| {
            effects.push(db, &[b"DEL", key.as_bytes()]);
            recorder.append(&mut effects, at);
        };
        written(2, "a");
        recorder.append_removal(2, b"b");
        written(2, "c");
        recorder.append_removal(2, b"d");
        let shown = |changes: Changes| {
            let text = |write: &Write| String::from_utf8_lossy(&write.effects).replace("\r\n", " ");
            changes.writes.iter().map(text).collect::<Vec<_>>()
        };
        let del = |key: &str| format!("*2 $3 DEL $1 {key} ");
        let select = |db: usize| format!("*2 $6 SELECT $1 {db} ");
        let first = select(0) + &select(2) + &del("a");
        assert_eq!(shown(recorder.checkpoint()), [first, select(2) + &del("b") + &del("c")]);
        written(2, "e");
        assert_eq!(shown(recorder.checkpoint()), [select(2) + &del("d") + &del("e")]);
    }

    #[test]
    fn what_is_for_replicas_alone_is_no_write_and_in_none() {
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        let log = Arc::<Log>::default();
        let recorder = Recorder::new(log.clone());
        recorder.remember(10);
        recorder.discard();
        let (mut effects, at) = (Effects::default(), Now::at_ms(0, 0));
        log.append_aside(PING);
        for key in [b"a", b"b"] {
            effects.push(0, &[b"DEL", key]);
            effects.begin_aside().extend_from_slice(PING);
            recorder.append(&mut effects, at);
            effects.begin_aside().extend_from_slice(PING);
            recorder.append(&mut effects, at);
            recorder.append_removal(0, b"c");
            log.append_aside(PING);
        }
        let changes = recorder.checkpoint();
        let text = |write: &Write| String::from_utf8_lossy(&write.effects).replace("\r\n", " ");
        let (select, [a, b, c]) = ("*2 $6 SELECT $1 0 ", ["a", "b", "c"].map(|key| format!("*2 $3 DEL $1 {key} ")));
        let texts: Vec<_> = changes.writes.iter().map(text).collect();
        assert_eq!(texts, [format!("{select}{select}{a}"), format!("{select}{c}{b}")]);
    }
}
