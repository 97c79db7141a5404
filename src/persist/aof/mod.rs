//! The append-only file: the log on a disk, in the form of Redis 7.

mod block;
mod damage;
mod directory;
#[cfg(test)]
mod directory_tests;
mod error;
mod frames;
mod handle;
mod input;
mod manifest;
mod policy;
mod segment;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod simulation_tests;
mod sync;
mod tail;
mod writer;
#[cfg(test)]
mod writer_tests;

pub(crate) use block::{Header, Stamp};
pub(crate) use directory::{AofDir, PartFile};
pub(crate) use error::AofError;
pub(crate) use handle::{AofHandle, AofStatus, Done, NeedsRewrite};
pub(crate) use manifest::{Manifest, ManifestError, Part, PartType};
pub(crate) use policy::{AofOptions, Policy};
pub(crate) use segment::{Piece, SegmentReader, Tail, Verdict};
pub(crate) use tail::{CutTail, cut_tail};
pub(crate) use writer::{AofClock, Start, Step, Writer, spawn};
