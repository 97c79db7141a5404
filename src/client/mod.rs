//! One client: its session, its entry in the registry, and its outbox.

pub(crate) mod backlog;

pub(crate) mod caller;
pub(crate) mod engine;
pub(crate) mod fieldsets;
pub(crate) mod info;
pub(crate) mod outbox;
pub(crate) mod pause;
pub(crate) mod registry;
pub(crate) mod replica;
pub(crate) mod session;
pub(crate) mod staged;
pub(crate) mod subscriptions;
mod sync;
pub(crate) mod ticket;
pub(crate) mod tracking;
