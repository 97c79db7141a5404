//! The append-only file: the log on a disk, in the form of Redis 7.

mod block;
mod damage;
mod frames;
mod input;
mod segment;
#[cfg(test)]
mod segment_tests;
