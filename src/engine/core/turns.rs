//! The turns of keys that several processes change, see [`Turns`](crate::engine::turns::KeyTurns).

use crate::engine::cluster::{ClusterChange, ClusterTransaction};
use crate::engine::core::{Core, EngineAction};
use crate::engine::group::CallGroup;
use crate::engine::names::EtcdName;
use crate::engine::pending::PendingWork;
use crate::store::KeyName;
use crate::time::clock::Now;

/// Number of repetitions of a call after which its process requests a turn of its keys.
const CONFLICTS_MAX: u32 = 2;
/// Largest number of a call's keys for which turns are requested, and ended by a transaction.
const KEYS_MAX: usize = 16;
/// Time after which a turn that is not in the mirror is requested again, in milliseconds.
const ASK_AGAIN_MS: u64 = 1000;

impl Core {
    fn process(&self) -> u64 {
        self.mirror.locks.holders.process
    }

    /// Takes the calls to execute next, and requests turns of the keys that are left to other processes.
    pub(super) fn take_calls(&mut self) -> Vec<PendingWork> {
        let has_room = self.has_room();
        if self.mirror.turns.is_empty() {
            return self.queue.take(has_room, |_| false);
        }
        let (turns, process, now_ms) = (&self.mirror.turns, self.process(), self.now().mono_ms());
        let mut wanted: Vec<KeyName> = Vec::new();
        let calls = self.queue.take(has_room, |key| {
            let is_of_another = turns.is_of_another(key, process, now_ms);
            if is_of_another && !wanted.contains(key) {
                wanted.push(key.clone());
            }
            is_of_another
        });
        wanted.into_iter().for_each(|key| self.ask_turn(key));
        calls
    }

    /// Notes that calls are executed again, because other processes have changed their keys.
    pub(super) fn note_conflict(&mut self, calls: &mut [PendingWork]) {
        let until_ms = self.until_ms(); // the cluster has answered
        for call in calls {
            (call.until_ms, call.conflicts) = (until_ms, call.conflicts + 1);
            if call.conflicts >= CONFLICTS_MAX {
                call.keys.iter().take(KEYS_MAX).for_each(|key| self.ask_turn(key.clone()));
            }
        }
    }

    /// Returns true if calls are to be deferred, because it is the turn of another process.
    pub(super) fn is_turn_of_another(&self, calls: &[PendingWork]) -> bool {
        let (process, now_ms) = (self.process(), self.now().mono_ms());
        let mut keys = calls.iter().flat_map(|call| &*call.keys);
        !self.mirror.turns.is_empty() && keys.any(|key| self.mirror.turns.is_of_another(key, process, now_ms))
    }

    fn ask_turn(&mut self, key: KeyName) {
        let (now_ms, process) = (self.now().mono_ms(), self.process());
        let is_asking = self.asking.get(&key).is_some_and(|asked_ms| now_ms < asked_ms.saturating_add(ASK_AGAIN_MS));
        if self.lanes.is_none() || is_asking || self.mirror.turns.has(&key, process) {
            return;
        }
        let name = self.prefix.name(&EtcdName::Turn(process, key.clone()));
        self.asking.insert(key, now_ms);
        let changes = vec![ClusterChange::PutLeased(name, Vec::new())];
        self.actions.push(EngineAction::Aside(ClusterTransaction { changes, ..ClusterTransaction::default() }));
    }

    /// Returns the changes that end the turns of this process which a group uses.
    pub(super) fn ended_turns(&self, group: &CallGroup) -> Vec<ClusterChange> {
        if self.mirror.turns.is_empty() {
            return Vec::new();
        }
        let process = self.process();
        let used = group.tests.iter().filter(|(key, _)| self.mirror.turns.has(key, process));
        let room = KEYS_MAX.min(crate::client::engine::KEYS_MAX.saturating_sub(group.changed.len()));
        used.take(room)
            .map(|(key, _)| ClusterChange::Delete(self.prefix.name(&EtcdName::Turn(process, key.clone()))))
            .collect()
    }

    /// Ends the turns of this process that no call waits for, and skips the unused turns of other processes.
    pub(super) fn end_unused_turns(&mut self, now: Now) {
        if self.mirror.turns.is_empty() {
            return self.asking.retain(|_, asked_ms| now.mono_ms() < asked_ms.saturating_add(ASK_AGAIN_MS));
        }
        let process = self.process();
        let own = self.mirror.turns.of(process);
        own.iter().for_each(|key| _ = self.asking.remove(key));
        let unused = self.mirror.turns.unused(now.mono_ms());
        for (of, key) in &unused {
            self.mirror.turns.remove(*of, key, now.mono_ms());
        }
        let mut ended: Vec<KeyName> = own.into_iter().filter(|key| !self.queue.has(key)).collect();
        ended.extend(unused.into_iter().filter(|(of, _)| *of == process).map(|(_, key)| key));
        for key in ended {
            self.mirror.turns.remove(process, &key, now.mono_ms());
            let changes = vec![ClusterChange::Delete(self.prefix.name(&EtcdName::Turn(process, key)))];
            self.actions.push(EngineAction::Aside(ClusterTransaction { changes, ..ClusterTransaction::default() }));
        }
    }
}
