//! The registry of connected clients, and the waits of those that are blocked.

mod blocked;
mod clients;
mod mirrored;
mod queued;
mod suspended;
mod wait;

pub(crate) use blocked::Blocked;
pub(crate) use clients::{Admissions, Clients};
pub(crate) use suspended::{BlockedOn, OnTimeout, QueuePlace, Suspended};
pub(crate) use wait::{BlockedCall, Blocking, ClientWait, Grant, Unblocked};
