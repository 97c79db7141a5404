//! The append-only file: the log on a disk, in the form of Redis 7.

mod block;
mod damage;
mod directory;
#[cfg(test)]
mod directory_tests;
mod error;
mod frames;
mod input;
mod manifest;
mod segment;
#[cfg(test)]
mod segment_tests;
mod tail;
