//! Turns: fairness between processes that change the same key all the time.
//!
//! A call that was executed again twice, because other processes have changed its keys, would lose that race for ever
//! if it takes longer than their calls. So its process requests a turn of these keys, by a name in the cluster. The
//! others leave it the next transaction, which ends the turn, and request turns of their own for calls that wait
//! meanwhile: turns come in the order of their revisions. A turn is advice: the tests of a transaction still decide,
//! and an unused turn is skipped.

use std::collections::HashMap;

use crate::engine::cluster::Revision;
use crate::store::KeyName;

/// Time after which an unused turn is skipped, in milliseconds.
const TURN_MS: u64 = 1000;

/// A process that has requested a turn of a key.
struct Asker {
    process: u64,
    revision: Revision,
}

/// The turns of a key.
struct Line {
    /// The requests, in order.
    askers: Vec<Asker>,
    /// Start of the first one's turn, in monotonic milliseconds.
    since_ms: u64,
}

/// The turns of all keys.
#[derive(Default)]
pub(super) struct KeyTurns(HashMap<KeyName, Line, ahash::RandomState>);

impl KeyTurns {
    /// Adds the request of a process for a turn of a key, with its revision.
    pub(super) fn add(&mut self, process: u64, key: KeyName, (revision, now_ms): (Revision, u64)) {
        let line = self.0.entry(key).or_insert(Line { askers: Vec::new(), since_ms: now_ms });
        if line.askers.iter().all(|asker| asker.process != process) {
            let at = line.askers.partition_point(|asker| asker.revision < revision);
            line.askers.insert(at, Asker { process, revision });
        }
    }

    /// Removes a process that has had its turn.
    pub(super) fn remove(&mut self, process: u64, key: &KeyName, now_ms: u64) {
        let Some(line) = self.0.get_mut(key) else { return };
        if line.askers.first().is_some_and(|asker| asker.process == process) {
            line.since_ms = now_ms;
        }
        line.askers.retain(|asker| asker.process != process);
        if line.askers.is_empty() {
            self.0.remove(key);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns true if it is the turn of another process.
    pub(super) fn is_of_another(&self, key: &KeyName, process: u64, now_ms: u64) -> bool {
        let Some(line) = self.0.get(key) else { return false };
        let is_over = now_ms >= line.since_ms.saturating_add(TURN_MS);
        !is_over && line.askers.first().is_some_and(|asker| asker.process != process)
    }

    /// Returns true if a process has requested a turn of a key.
    pub(super) fn has(&self, key: &KeyName, process: u64) -> bool {
        self.0.get(key).is_some_and(|line| line.askers.iter().any(|asker| asker.process == process))
    }

    /// Returns the keys for which a process has requested a turn.
    pub(super) fn of(&self, process: u64) -> Vec<KeyName> {
        self.0.keys().filter(|key| self.has(key, process)).cloned().collect()
    }

    /// Returns the unused turns, each with its process and key.
    pub(super) fn unused(&self, now_ms: u64) -> Vec<(u64, KeyName)> {
        let over = self.0.iter().filter(|(_, line)| now_ms >= line.since_ms.saturating_add(TURN_MS));
        over.filter_map(|(key, line)| Some((line.askers.first()?.process, key.clone()))).collect()
    }

    /// Returns true if there are no requests.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_the_order_of_asking_and_who_does_not_use_its_own_is_passed_over() {
        let (mut turns, key) = (KeyTurns::default(), (0, Box::from(&b"k"[..])));
        assert!(!turns.is_of_another(&key, 1, 0));
        turns.add(2, key.clone(), (8, 0));
        turns.add(1, key.clone(), (7, 0));
        turns.add(2, key.clone(), (9, 0));
        assert_eq!([1, 2, 3].map(|process| turns.is_of_another(&key, process, 0)), [false, true, true]);
        turns.remove(1, &key, 500);
        assert_eq!([1, 2].map(|process| turns.is_of_another(&key, process, 1000)), [true, false]);
        assert_eq!(turns.unused(1499), []);
        assert_eq!(turns.unused(1500), [(2, key.clone())]);
        assert!(!turns.is_of_another(&key, 1, 1500));
        turns.remove(2, &key, 1500);
        assert!(turns.is_empty());
    }
}
