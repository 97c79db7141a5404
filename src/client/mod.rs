//! One client: its session, what others may see of it, and what they leave for it.

pub(crate) mod backlog;

pub(crate) mod caller;
pub(crate) mod outbox;
pub(crate) mod pause;
pub(crate) mod pending;
pub(crate) mod registry;
pub(crate) mod session;
pub(crate) mod subscriptions;
mod sync;
pub(crate) mod ticket;
pub(crate) mod tracking;
