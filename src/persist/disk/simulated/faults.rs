//! Faults of a simulated disk.

use std::io;

use crate::random::Random;

/// Kind of a disk operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Creation of a file.
    Create,
    /// Opening of an existing file.
    Open,
    /// Reading of a file or a directory, or of its length.
    Read,
    /// Writing of bytes.
    Write,
    /// Sync of a file.
    Sync,
    /// Change of a file's length.
    SetLen,
    /// Change or removal of a name.
    Name,
    /// Sync of the names in a directory.
    SyncDir,
}

/// Rates and plans of failing operations, and their duration.
#[derive(Clone, Debug, Default)]
pub struct DiskFaults {
    /// Number of operations in a thousand that fail, with a random error.
    pub per_thousand: usize,
    /// Number of writes in a thousand that are short.
    pub short_per_thousand: usize,
    /// Planned failures of the next operations.
    pub planned: Vec<PlannedFaults>,
    /// Limit for the total length of the files, in bytes.
    pub capacity: Option<u64>,
    /// Duration of each operation that changes something, in milliseconds.
    pub slowness_ms: u64,
}

/// Operations that are planned to fail.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFaults {
    /// The kind of operation; any if `None`.
    pub operation: Option<DiskOperation>,
    /// Part of the name of the open file that the operation is on; any operation if `None`.
    pub file: Option<&'static str>,
    /// Number of operations of the kind that work first.
    pub after: usize,
    /// Number of operations of the kind that fail then.
    pub count: usize,
    /// The error of these operations.
    pub error: DiskFailure,
}

/// An error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// No space is left (ENOSPC).
    Full,
    /// Input or output has failed (EIO).
    Io,
}

impl From<DiskFailure> for io::Error {
    fn from(failure: DiskFailure) -> Self {
        let error = match failure {
            DiskFailure::Full => rustix::io::Errno::NOSPC,
            DiskFailure::Io => rustix::io::Errno::IO,
        };
        error.into()
    }
}

impl DiskFaults {
    /// Fails if the operation is to fail; `file` is the name of the open file that it is on.
    pub(super) fn check(
        &mut self,
        operation: DiskOperation,
        file: Option<&str>,
        random: &mut Random,
    ) -> io::Result<()> {
        let is_planned = |plan: &&mut PlannedFaults| {
            plan.operation.is_none_or(|kind| kind == operation)
                && plan.file.is_none_or(|part| file.is_some_and(|name| name.contains(part)))
        };
        for planned in self.planned.iter_mut().filter(is_planned) {
            match planned {
                PlannedFaults { after: 0, count: 0, .. } => {}
                PlannedFaults { after: 0, count, error, .. } => {
                    *count -= 1;
                    return Err((*error).into());
                }
                PlannedFaults { after, .. } => *after -= 1,
            }
        }
        if self.per_thousand == 0 || random.below(1000) >= self.per_thousand {
            Ok(())
        } else if random.below(2) == 0 {
            Err(DiskFailure::Full.into())
        } else {
            Err(DiskFailure::Io.into())
        }
    }
}
