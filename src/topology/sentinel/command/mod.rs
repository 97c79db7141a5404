//! Commands of a sentinel, with the replies and errors of Redis 7.0 as values.
//!
//! Replies show the state at the last [`tick`](crate::topology::sentinel::Sentinels::tick).

mod change;
mod error;
mod help;
mod report;
mod set;
mod view;

pub(crate) use change::{DownRequest, MonitorRequest};
pub(crate) use error::SentinelError;
pub(crate) use help::{FAILURE_NAMES, HELP};
#[cfg(test)]
pub(super) use view::{CachedGroup, SentinelView};
pub(crate) use view::{CachedInfo, ReplyFields};
