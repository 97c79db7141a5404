//! Pushed messages: pub/sub, keyspace notifications, invalidation of tracked keys.

pub(crate) mod hub;
pub(crate) mod keyspace;
pub(crate) mod tracking;
