//! Pushed messages: pub/sub, keyspace notifications, invalidation of tracked keys, notices of
//! maintenance.

pub(crate) mod hub;
pub(crate) mod keyspace;
pub(crate) mod maintenance;
pub(crate) mod tracking;
