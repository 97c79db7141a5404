//! The command and all processes that it has started, which have to end together when the lock is lost: a shell that is
//! ended leaves its children behind, which would go on without the lock.

use std::collections::BTreeSet;
use std::fs;
use std::process;

use rustix::process::{Signal, getpid, set_child_subreaper};

use crate::app::lock::command::send;

/// The processes below this one.
pub(super) struct Tree {
    /// Children that this process had before: it may have been a shell that has become this program.
    foreign: BTreeSet<u32>,
    /// Processes that were sent the present signal.
    reached: BTreeSet<u32>,
}

impl Tree {
    /// Records the present children of this process; to be called before the command starts.
    pub(super) fn new() -> Self {
        let id = process::id();
        let children = fs::read_to_string(format!("/proc/self/task/{id}/children")).unwrap_or_default();
        let foreign = children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect();
        Tree { foreign, reached: BTreeSet::new() }
    }

    /// Makes this process the parent of orphans from now on. Processes that have left the command before, as daemons
    /// do, do not belong to the tree.
    pub(super) fn adopt(&self) {
        // On a kernel without this request, orphans are not adopted.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Sends a signal to all processes, the oldest first: a shell whose program ends before the shell does would start
    /// the next program. Processes that were started just before their parent was reached are found in another round.
    pub(super) fn send(&mut self, signal: Signal) {
        self.reached.clear();
        loop {
            let mut fresh = self.descendants();
            fresh.retain(|process| self.reached.insert(*process));
            if fresh.is_empty() {
                return;
            }
            fresh.into_iter().for_each(|process| send(process, signal));
        }
    }

    /// Returns true if all processes have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.descendants().is_empty()
    }

    /// Returns the processes below this one that have not ended, parents before children.
    fn descendants(&self) -> Vec<u32> {
        let pairs = processes();
        let mut tree = vec![process::id()];
        let mut at = 0;
        while let Some(parent) = tree.get(at).copied() {
            let children = pairs.iter().filter(|(child, of)| *of == parent && !self.foreign.contains(child));
            tree.extend(children.map(|(child, _)| *child));
            at += 1;
        }
        tree.split_off(1)
    }
}

/// Returns all processes that have not ended, each with its parent; none where the system does not report them.
fn processes() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let parent = |id: u32| {
        // The process may have ended just now. The name before the state is in parentheses and may contain parentheses.
        let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let has_ended = matches!(fields.next(), Some("Z" | "X"));
        fields.next()?.parse().ok().filter(|_| !has_ended)
    };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| parent(id).map(|parent| (id, parent))).collect()
}
