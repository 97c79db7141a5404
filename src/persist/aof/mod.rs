//! The append-only file: the log on a disk, in the form of Redis 7.

mod block;
mod damage;
mod directory;
#[cfg(test)]
mod directory_tests;
mod error;
mod frames;
mod handle;
mod manifest;
mod policy;
mod range;
#[cfg(test)]
mod range_tests;
mod reader;
mod segment;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod simulation_tests;
mod sync;
mod timestamp;
mod truncate;
mod writer;
#[cfg(test)]
mod writer_tests;

#[cfg(test)]
pub(crate) use block::NO_BOOT;
pub(crate) use block::{BlockStamp, HistoryId};
pub(crate) use directory::{AofDir, PartFile};
pub(crate) use error::AofError;
pub(crate) use handle::AofHandle;
#[cfg(test)]
pub(crate) use handle::NeedsRewrite;
#[cfg(feature = "internals")]
pub(crate) use manifest::Manifest;
pub(crate) use manifest::PartType;
pub(crate) use policy::{Annotations, AofOptions, FsyncPolicy};
pub(crate) use range::{LogRange, WrittenFiles, read_range};
#[cfg(test)]
pub(crate) use segment::Piece;
pub(crate) use segment::{SegmentReader, Tail, Verdict};
pub(crate) use timestamp::{Timestamp, read_clocks};
pub(crate) use truncate::cut_tail;
#[cfg(test)]
pub(crate) use writer::WriterStep;
pub(crate) use writer::{Start, Writer, spawn};
