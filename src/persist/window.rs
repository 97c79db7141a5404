//! The latest writes, each as the commands that repeat it, and the names of the keys that have changed with them: what
//! test mode needs to set a namespace back.
//!
//! A window begins at a cut, when every change is in the store and the images of all keys are known. The next cut takes
//! what is in it.

use crate::persist::Effects;
use crate::resp::Output;
use crate::store::{ByKey, LockImage, LockRecord};
use crate::time::clock::Now;

/// The most writes between two cuts.
const WRITES_MAX: usize = 1000;
/// The number of changed keys from which on a cut is due: each costs it about a microsecond, and nobody else is served.
const KEYS_DUE: usize = 1000;
/// The most bytes of writes between two cuts.
const BYTES_MAX: usize = 16 << 20;
/// The most keys whose names are noted; with more, any key may have changed.
const KEYS_MAX: usize = 1 << 20;

/// What one call has changed.
#[derive(Clone)]
pub(crate) struct Write {
    /// When.
    pub(crate) at: Now,
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

/// What has happened since the last cut.
#[derive(Default)]
pub(crate) struct Past {
    /// The writes, oldest first.
    pub(crate) writes: Vec<Write>,
    /// The keys that have changed.
    pub(crate) touched: Touched,
}

/// What happens until the next cut.
#[derive(Default)]
pub(super) struct Window {
    past: Past,
    bytes: usize,
    /// The commands of the next write so far, and the database that the last of them is for.
    pending: Output,
    db: Option<usize>,
    locks: ByKey<Option<LockImage>>,
    /// How many writes are remembered in all.
    most: usize,
    /// Whether changed keys are noted even if no writes are remembered.
    has_snapshots: bool,
    /// Whether it has missed changes, so that it is of no use before the next cut.
    is_torn: bool,
    /// Whether writes are remembered only from the next cut on.
    is_waiting: bool,
}

impl Window {
    /// Sets how many writes are remembered in all.
    pub(super) fn set_most(&mut self, most: usize) {
        self.is_waiting |= self.most == 0;
        self.most = most;
        self.follow_settings();
    }

    /// Sets whether changed keys are noted even if no writes are remembered.
    pub(super) fn set_snapshots(&mut self, has_snapshots: bool) {
        self.has_snapshots = has_snapshots;
        self.follow_settings();
    }

    fn follow_settings(&mut self) {
        if self.most == 0 {
            self.forget_writes();
            self.is_torn |= !self.has_snapshots;
        }
    }

    fn forget_writes(&mut self) {
        (self.past.writes, self.bytes) = (Vec::new(), 0);
        self.forget_pending();
    }

    fn forget_pending(&mut self) {
        (self.pending, self.db, self.locks) = (Output::new(), None, ByKey::default());
    }

    fn remembers_writes(&self) -> bool {
        self.most > 0 && !self.is_torn && !self.is_waiting
    }

    /// Returns whether a cut is needed before more is written.
    pub(super) fn is_cut_due(&self) -> bool {
        let is_full = self.past.writes.len() >= self.most.min(WRITES_MAX) || self.bytes >= BYTES_MAX;
        self.most > 0 && (self.is_torn || self.is_waiting || is_full) || self.has_many_keys()
    }

    /// Returns whether so many keys have changed that a cut is due for that alone.
    pub(super) fn has_many_keys(&self) -> bool {
        let has_many = matches!(&self.past.touched, Touched::Keys(keys) if keys.len() >= KEYS_DUE);
        has_many && (self.most > 0 || self.has_snapshots)
    }

    /// Takes what has happened since the last cut; the store is locked.
    pub(super) fn cut(&mut self) -> Past {
        let mut past = std::mem::take(&mut self.past);
        (self.bytes, self.is_waiting) = (0, false);
        if std::mem::take(&mut self.is_torn) {
            past = Past { writes: Vec::new(), touched: Touched::All };
        }
        self.is_torn = self.most == 0 && !self.has_snapshots;
        past
    }

    /// Makes a cut without looking at what has happened.
    pub(super) fn discard(&mut self) {
        self.cut();
        self.forget_pending();
    }

    /// Adds changes to the next write.
    pub(super) fn prepare(&mut self, effects: &mut Effects) {
        if self.remembers_writes() {
            effects.move_to(&mut self.pending, &mut self.db);
            self.pending.shrink(); // as the log
        }
    }

    /// Adds a write, which has changed this and what was prepared.
    pub(super) fn append(&mut self, effects: &mut Effects, at: Now) {
        if !self.remembers_writes() {
            return;
        }
        self.prepare(effects);
        let (pending, locks) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.locks));
        self.db = None;
        let effects = pending.as_slice().map(Box::from);
        let write = Write { at, effects: effects.unwrap_or_else(|| pending.into_bytes().to_vec().into()), locks };
        self.bytes += write.bytes();
        self.past.writes.push(write);
    }

    /// Notes that a key has changed.
    pub(super) fn note_change(&mut self, db: usize, key: &[u8]) {
        if self.is_torn {
            return;
        }
        if let Touched::Keys(keys) = &mut self.past.touched
            && keys.get(db, key).is_none()
        {
            keys.insert(db, key.into(), ());
            if keys.len() > KEYS_MAX {
                self.note_all();
            }
        }
    }

    /// Notes that any key may have changed.
    pub(super) fn note_all(&mut self) {
        self.past.touched = Touched::All;
    }

    /// Notes what is known of a lock now.
    pub(super) fn note_lock(&mut self, db: usize, key: &[u8], lock: Option<&LockRecord>) {
        self.note_change(db, key);
        if self.remembers_writes() {
            self.locks.insert(db, key.into(), lock.map(LockImage::of));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_due_when_many_keys_have_changed_even_if_no_call_has_written() {
        let mut window = Window::default();
        window.set_most(10);
        window.discard();
        let change = |window: &mut Window| (0..KEYS_DUE).for_each(|key| window.note_change(0, &key.to_le_bytes()));
        (0..2 * KEYS_DUE).for_each(|_| window.note_change(0, b"the same"));
        assert!(!window.is_cut_due());
        change(&mut window);
        assert!(window.is_cut_due() && window.has_many_keys());
        window.cut();
        assert!(!window.is_cut_due());
        window.set_most(0);
        change(&mut window);
        assert!(!window.is_cut_due(), "nobody needs their images");
    }
}
