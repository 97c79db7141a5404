//! Conditions of a transaction besides its keys.

use crate::engine::cluster::{Revision, Test};
use crate::engine::names::{EtcdName, NamePrefix};

/// A condition of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Guard {
    /// The process is alive; a lock is handed over to its client.
    Lives(u64),
    /// The process is dead; its session is ended.
    IsGone(u64),
    /// No database was emptied since.
    Flushes(Revision),
    /// The libraries of functions were not changed since.
    Libraries(Revision),
    /// The fence base was not changed since.
    FenceBase(Revision),
}

impl Guard {
    /// Returns the name that the condition is about.
    pub(super) fn name(self, prefix: &NamePrefix) -> Vec<u8> {
        prefix.name(&match self {
            Guard::Lives(process) | Guard::IsGone(process) => EtcdName::Process(process),
            Guard::Flushes(_) => EtcdName::Flushes,
            Guard::Libraries(_) => EtcdName::Libraries,
            Guard::FenceBase(_) => EtcdName::Fence,
        })
    }

    pub(super) fn test(self, prefix: &NamePrefix) -> Test {
        let name = self.name(prefix);
        match self {
            Guard::Lives(_) => Test::Exists(name),
            Guard::IsGone(_) => Test::Unchanged(name, 0),
            Guard::Flushes(revision) | Guard::Libraries(revision) | Guard::FenceBase(revision) => {
                Test::Unchanged(name, revision)
            }
        }
    }
}
