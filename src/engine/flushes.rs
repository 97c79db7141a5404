//! The databases that were emptied, and when. Keys that were last changed before that are missing to all processes,
//! although the cluster still has them: deleting a million names in one transaction would hold up the cluster. The queue
//! for a lock outlives its key, and still stands in the hidden value. Every transaction tests that no database was
//! emptied since; hidden keys are deleted in [the background](crate::engine::core).

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use tracing::warn;

use crate::engine::cluster::{NamedValue, Revision};
use crate::engine::stored::{StoredFlush, StoredFlushes};
use crate::store::KeyName;
use crate::time::clock::Now;

/// Databases that were emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Cleared {
    #[default]
    Nothing,
    Databases(Vec<usize>),
    All,
}

impl Cleared {
    /// Returns true if the keys of a database were deleted.
    pub(super) fn has(&self, db: usize) -> bool {
        match self {
            Cleared::Nothing => false,
            Cleared::Databases(databases) => databases.contains(&db),
            Cleared::All => true,
        }
    }
}

/// The revisions at which databases were emptied last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushes {
    /// Revision of the last change of this; 0 if no database was ever emptied.
    pub(super) changed: Revision,
    all: Revision,
    databases: BTreeMap<usize, Revision>,
}

impl Flushes {
    /// Reads the state in the cluster.
    pub(super) fn of(pair: &NamedValue) -> Self {
        let stored = StoredFlushes::decode(&pair.value[..]).inspect_err(|error| warn!("{error}")).unwrap_or_default();
        let of_this = |revision: Revision| if revision == 0 { pair.mod_revision } else { revision };
        let database = |flush: &StoredFlush| Some((usize::try_from(flush.db).ok()?, of_this(flush.revision)));
        Flushes {
            changed: pair.mod_revision,
            all: stored.all.map_or(0, |flush| of_this(flush.revision)),
            databases: stored.databases.iter().filter_map(database).collect(),
        }
    }

    /// Returns the state in the cluster after a transaction that has emptied databases.
    pub(super) fn after(&self, cleared: &Cleared) -> StoredFlushes {
        let flush = |db: usize, revision| StoredFlush { db: db as u64, revision };
        if *cleared == Cleared::All {
            return StoredFlushes { all: Some(flush(0, 0)), databases: Vec::new() };
        }
        let mut databases = self.databases.clone();
        if let Cleared::Databases(emptied) = cleared {
            databases.extend(emptied.iter().map(|db| (*db, 0)));
        }
        StoredFlushes {
            all: (self.all > 0).then(|| flush(0, self.all)),
            databases: databases.into_iter().map(|(db, revision)| flush(db, revision)).collect(),
        }
    }

    /// Returns the revision at which a database was emptied last, or 0: keys with an earlier revision are missing.
    pub(super) fn at(&self, db: usize) -> Revision {
        self.databases.get(&db).copied().unwrap_or(0).max(self.all)
    }

    /// Returns the databases that were emptied since a former state.
    pub(super) fn since(&self, former: &Flushes) -> Cleared {
        if self.all > former.all {
            return Cleared::All;
        }
        let is_new = |(db, revision): &(&usize, &Revision)| **revision > former.at(**db);
        let databases: Vec<usize> = self.databases.iter().filter(is_new).map(|(db, _)| *db).collect();
        if databases.is_empty() { Cleared::Nothing } else { Cleared::Databases(databases) }
    }
}

/// Largest number of keys that one transaction deletes.
const DELETED_MAX: usize = 2048;
/// Time between two such transactions, in milliseconds.
const DELETION_PAUSE_MS: u64 = 50;

/// Keys of databases that were emptied, as long as the cluster has them.
#[derive(Default)]
pub(super) struct HiddenKeys {
    /// The keys to delete.
    keys: BTreeSet<KeyName>,
    /// The locks that clients are queued for.
    awaited: BTreeSet<KeyName>,
    /// Time of the next deletion, in monotonic milliseconds.
    due_ms: u64,
    /// The first key of the last deletion, and the largest number of its keys.
    last: Option<(KeyName, usize)>,
}

impl HiddenKeys {
    /// Adds a key, whose queue for a lock has to stay if it is `awaited`.
    pub(super) fn add(&mut self, key: KeyName, is_awaited: bool) {
        self.remove(&key);
        if is_awaited { &mut self.awaited } else { &mut self.keys }.insert(key);
    }

    pub(super) fn remove(&mut self, key: &KeyName) {
        self.keys.remove(key);
        self.awaited.remove(key);
    }

    /// Deletes keys from a time on, in monotonic milliseconds.
    pub(super) fn delete_from(&mut self, at_ms: u64) {
        self.due_ms = at_ms;
    }

    /// Returns the time of the next deletion, in monotonic milliseconds, if there is one.
    pub(super) fn due_ms(&self) -> Option<u64> {
        (!self.keys.is_empty()).then_some(self.due_ms)
    }

    /// Returns the first and the last key of a range to delete now, of one database and without queues. The range may have
    /// keys of later: then it is not deleted, and the next one is half as long.
    pub(super) fn next_range(&mut self, now: Now) -> Option<(KeyName, KeyName)> {
        let first = self.keys.first().filter(|_| self.due_ms <= now.mono_ms())?.clone();
        let size_max = match &self.last {
            Some((last, size)) if *last == first => (size / 2).max(1),
            Some((_, size)) => (size * 2).min(DELETED_MAX),
            None => DELETED_MAX,
        };
        let queue = self.awaited.range(&first..).next();
        let is_in = |key: &&KeyName| key.0 == first.0 && queue.is_none_or(|queue| *key < queue);
        let last = self.keys.range(&first..).take(size_max).take_while(is_in).last()?.clone();
        self.last = Some((first.clone(), size_max));
        self.due_ms = now.ms_later(DELETION_PAUSE_MS);
        Some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::clock::Clock;

    /// Empties databases at a revision.
    fn flush(before: &Flushes, cleared: &Cleared, revision: Revision) -> Flushes {
        let value = before.after(cleared).encode_to_vec();
        Flushes::of(&NamedValue { name: Vec::new(), value, mod_revision: revision, version: 1 })
    }

    #[test]
    fn the_revision_at_which_a_database_was_emptied_last_is_known_until_all_are_emptied() {
        let none = Flushes::default();
        let one = flush(&none, &Cleared::Databases(vec![3]), 10);
        assert_eq!((one.changed, one.at(3), one.at(0)), (10, 10, 0));
        assert_eq!(one.since(&none), Cleared::Databases(vec![3]));
        let other = flush(&one, &Cleared::Databases(vec![0]), 20);
        assert_eq!((other.changed, other.at(3), other.at(0)), (20, 10, 20));
        assert_eq!(other.since(&one), Cleared::Databases(vec![0]));
        let all = flush(&other, &Cleared::All, 30);
        assert_eq!((all.at(3), all.at(0), all.at(7)), (30, 30, 30));
        assert_eq!((all.since(&other), all.since(&none)), (Cleared::All, Cleared::All));
        let last = flush(&all, &Cleared::Databases(vec![3]), 40);
        assert_eq!((last.at(3), last.at(0), last.since(&all)), (40, 30, Cleared::Databases(vec![3])));
        assert_eq!(last.since(&last), Cleared::Nothing);
    }

    #[test]
    fn hidden_keys_are_deleted_in_ranges_without_queues_that_become_shorter_while_later_keys_lie_between() {
        let clock = Clock::manual();
        let mut hidden = HiddenKeys::default();
        let key = |db, name: &str| (db, Box::from(name.as_bytes()));
        ["a", "b", "c", "e", "f"].iter().for_each(|name| hidden.add(key(0, name), false));
        hidden.add(key(0, "d"), true);
        hidden.add(key(1, "a"), false);
        hidden.delete_from(clock.now().ms_later(100));
        assert_eq!(hidden.next_range(clock.now()), None);
        clock.advance(Duration::from_millis(100));
        assert_eq!(hidden.next_range(clock.now()), Some((key(0, "a"), key(0, "c"))));
        assert_eq!(hidden.next_range(clock.now()), None, "before the pause is over");
        hidden.last = Some((key(0, "a"), 3));
        clock.advance(Duration::from_millis(DELETION_PAUSE_MS));
        assert_eq!(hidden.next_range(clock.now()), Some((key(0, "a"), key(0, "a"))), "it was not deleted");
        ["a", "b", "c"].iter().for_each(|name| hidden.remove(&key(0, name)));
        clock.advance(Duration::from_millis(DELETION_PAUSE_MS));
        assert_eq!(hidden.next_range(clock.now()), Some((key(0, "e"), key(0, "f"))), "twice as many");
        ["e", "f"].iter().for_each(|name| hidden.remove(&key(0, name)));
        clock.advance(Duration::from_millis(DELETION_PAUSE_MS));
        assert_eq!(hidden.next_range(clock.now()), Some((key(1, "a"), key(1, "a"))));
        hidden.remove(&key(1, "a"));
        assert_eq!((hidden.due_ms(), hidden.next_range(clock.now())), (None, None), "the queue stays");
    }
}
