//! What goes wrong on a simulated disk.

use std::io;

use crate::persist::disk::simulated::random::Random;

/// What is done on a disk, as far as it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file is created.
    Create,
    /// A file is opened that is there.
    Open,
    /// A file or a directory is read, or measured.
    Read,
    /// Bytes are written.
    Write,
    /// A file is made durable.
    Sync,
    /// A file is cut.
    SetLen,
    /// A name is given, changed or removed.
    Name,
    /// The names of a directory are made durable.
    SyncDir,
}

/// Which operations fail, and how long they take.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How many of a thousand operations fail, and with which error number.
    pub per_thousand: usize,
    /// How many of a thousand writes are short.
    pub short_per_thousand: usize,
    /// The next operations of a kind that fail: after how many, how many, and with which error number.
    pub planned: Vec<Planned>,
    /// How many bytes the files may have together.
    pub capacity: Option<u64>,
    /// How many milliseconds each write, sync and change of a name takes.
    pub slowness_ms: u64,
}

/// Operations that are to fail.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// The kind; any if there is none.
    pub operation: Option<Operation>,
    /// How many of the kind work first.
    pub after: usize,
    /// How many of the kind fail then.
    pub count: usize,
    /// The error that they fail with.
    pub error: Failure,
}

/// An error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no space left (ENOSPC).
    Full,
    /// Input or output has failed (EIO).
    Io,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Full => rustix::io::Errno::NOSPC,
            Failure::Io => rustix::io::Errno::IO,
        };
        error.into()
    }
}

impl Faults {
    /// Returns the error that an operation fails with, if it does.
    pub(super) fn check(&mut self, operation: Operation, random: &mut Random) -> io::Result<()> {
        for planned in self.planned.iter_mut().filter(|plan| plan.operation.is_none_or(|kind| kind == operation)) {
            match planned {
                Planned { after: 0, count: 0, .. } => {}
                Planned { after: 0, count, error, .. } => {
                    *count -= 1;
                    return Err((*error).into());
                }
                Planned { after, .. } => *after -= 1,
            }
        }
        match self.per_thousand > 0 && random.below(1000) < self.per_thousand {
            true if random.below(2) == 0 => Err(Failure::Full.into()),
            true => Err(Failure::Io.into()),
            false => Ok(()),
        }
    }
}
