//! The deletion of hidden keys, whose databases were emptied.

use crate::engine::cluster::{ClusterChange, ClusterTransaction, Test};
use crate::engine::core::{Core, EngineAction};
use crate::engine::names::EtcdName;
use crate::time::clock::Now;

impl Core {
    /// Deletes a range of hidden keys, if that is due.
    pub(super) fn delete_hidden(&mut self, now: Now) {
        let Some((first, last)) = self.mirror.hidden.next_range(now) else { return };
        let before = self.mirror.flushes().at(first.0);
        let from = self.prefix.name(&EtcdName::Key(first));
        let end = [&self.prefix.name(&EtcdName::Key(last))[..], &[0]].concat();
        let tests = vec![Test::Older(from.clone(), end.clone(), before)];
        let changes = vec![ClusterChange::DeleteRange(from, end)];
        self.actions.push(EngineAction::Aside(ClusterTransaction { tests, changes, reads: Vec::new() }));
    }
}
