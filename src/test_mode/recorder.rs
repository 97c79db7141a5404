//! Changes between two checkpoints: the latest writes, each as the commands that repeat it, and the names of the
//! changed keys. Test mode restores former states of a namespace with these.
//!
//! At a checkpoint the store is locked, every change is in it, and the images of all keys are known. The recorder reads
//! the writes from the log. Data that the log lacks, the time of each write and its effects on locks, is recorded
//! separately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::persist::{Effects, Log, LogReader, ReaderPurpose};
use crate::resp::write_select;
use crate::store::{ByKey, ChangeLog, HeldLock, LockImage, SideRecord};
use crate::time::clock::Now;

/// Maximum number of writes between two checkpoints.
const WRITES_MAX: usize = 1000;
/// Number of changed keys from which on a checkpoint is due: each key takes it about a microsecond, in which no client
/// is served.
const KEYS_DUE: usize = 1000;
/// Size of the writes from which on a checkpoint is due, in bytes.
const BYTES_DUE: u64 = 16 << 20;
/// Maximum number of changed keys whose names are kept; beyond it, any key may have changed.
const KEYS_MAX: usize = 1 << 20;

/// Changes by one call.
#[derive(Clone)]
pub(crate) struct Write {
    /// Time of the call.
    pub(crate) at: Now,
    /// Position in the log after the write.
    pub(crate) end: u64,
    /// Commands that repeat the write, with times relative to `at`, preceded by the changes outside of calls since the
    /// previous write.
    pub(crate) effects: Box<[u8]>,
    /// Records of the changed locks after the write; `None` for a key that is no lock any more.
    pub(crate) locks: ByKey<Option<LockImage>>,
}

impl Write {
    /// Returns the approximate memory of the write, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Write>() + self.effects.len() + self.locks.len() * 2 * size_of::<LockImage>()
    }
}

/// Changed keys.
pub(crate) enum ChangedKeys {
    /// These keys.
    Keys(ByKey<()>),
    /// Any key.
    All,
}

impl Default for ChangedKeys {
    fn default() -> Self {
        ChangedKeys::Keys(ByKey::default())
    }
}

/// Changes since the last checkpoint.
#[derive(Default)]
pub(crate) struct Changes {
    /// Writes, oldest first.
    pub(crate) writes: Vec<Write>,
    pub(crate) touched: ChangedKeys,
    /// Position of this checkpoint in the log.
    pub(crate) end: u64,
    /// True if `writes` is complete.
    pub(crate) has_all: bool,
}

/// Recorder of changes, which also passes logged effects on to the log.
pub(crate) struct Recorder {
    log: Arc<Log>,
    state: Mutex<State>,
    /// True if a [checkpoint](Recorder::checkpoint) is needed before the next write.
    is_checkpoint_due: AtomicBool,
}

/// Records since the last checkpoint.
#[derive(Default)]
struct State {
    /// Reader of the writes in the log; `None` while none are remembered.
    reader: Option<LogReader>,
    /// Position of the reader at the last checkpoint.
    begin: u64,
    /// Database of the next command that it reads.
    db: usize,
    /// Pieces that it has read beyond the last write, each with its position in the log.
    unfinished: VecDeque<(u64, Bytes)>,
    /// Ends of the writes since the last checkpoint.
    ends: Vec<End>,
    touched: ChangedKeys,
    /// Records of the locks changed by the next write.
    locks: ByKey<Option<LockImage>>,
    /// Maximum number of writes that the history remembers.
    max_writes: usize,
    /// True if changed keys are recorded even if no writes are remembered.
    has_snapshots: bool,
    /// True if changes were missed, so that nothing is known up to the next checkpoint.
    has_missed: bool,
}

/// End of a write in the log.
struct End {
    position: u64,
    at: Now,
    /// Database of the last command.
    db: usize,
    locks: ByKey<Option<LockImage>>,
}

impl Recorder {
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Recorder { log, state: Mutex::default(), is_checkpoint_due: AtomicBool::new(false) }
    }

    /// Appends the effects of a call, made at a time, to the log, and clears them; returns the position after them.
    /// Must be called while the changed shards are locked.
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

    /// Sets the number of latest writes to be remembered.
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

    /// Returns whether a checkpoint is needed before the next write.
    #[inline]
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.is_checkpoint_due.load(Relaxed)
    }

    /// Returns whether a checkpoint is needed because many keys have changed, in calls or outside of them.
    pub(crate) fn has_many_keys(&self) -> bool {
        self.is_checkpoint_due() && self.state.lock().has_many_keys()
    }

    /// Takes the changes since the last checkpoint. Must be called with the gate held exclusively.
    pub(crate) fn checkpoint(&self) -> Changes {
        self.change(|state| state.checkpoint(&self.log))
    }

    /// Makes a checkpoint that ignores the changes, which were undone or are known.
    pub(crate) fn discard(&self) {
        self.change(|state| {
            // A new reader, because the SELECT for the next command may be in the discarded part.
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

    fn append_side_record(&self, db: usize, record: SideRecord<'_>) {
        self.log.append_side_record(db, record);
    }

    fn append_message(&self, channel: &[u8], payload: &[u8]) {
        self.log.append_message(channel, payload);
    }

    fn append_field_removal(&self, db: usize, removal: [&[u8]; 3]) {
        self.log.append_field_removal(db, removal);
    }

    fn record_change(&self, db: usize, key: &[u8]) {
        self.change(|state| state.record_change(db, key));
    }

    fn record_all(&self, _: Option<usize>) {
        self.change(|state| state.touched = ChangedKeys::All);
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

    /// Returns whether the number of changed keys alone makes a checkpoint due.
    fn has_many_keys(&self) -> bool {
        let has_many = matches!(&self.touched, ChangedKeys::Keys(keys) if keys.len() >= KEYS_DUE);
        has_many && (self.max_writes > 0 || self.has_snapshots)
    }

    fn checkpoint(&mut self, log: &Arc<Log>) -> Changes {
        let writes = self.take_writes();
        let (has_all, end) = (writes.is_some(), log.end());
        let touched = std::mem::take(&mut self.touched);
        let mut changes = Changes { writes: writes.unwrap_or_default(), touched, end, has_all };
        if std::mem::take(&mut self.has_missed) {
            changes = Changes { writes: Vec::new(), touched: ChangedKeys::All, end, has_all: false };
        }
        self.has_missed = self.max_writes == 0 && !self.has_snapshots;
        if self.max_writes > 0 {
            self.begin = self.reader.get_or_insert_with(|| log.reader(ReaderPurpose::Repeat)).position();
        }
        changes
    }

    /// Reads the writes since the last checkpoint from the log. Returns `None` if the log has not kept them.
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

    /// Moves the pieces before a position from `unfinished` to `out`.
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

    fn record_change(&mut self, db: usize, key: &[u8]) {
        if self.has_missed {
            return;
        }
        if let ChangedKeys::Keys(keys) = &mut self.touched
            && keys.get(db, key).is_none()
        {
            keys.insert(db, key.into(), ());
            if keys.len() > KEYS_MAX {
                self.touched = ChangedKeys::All;
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
