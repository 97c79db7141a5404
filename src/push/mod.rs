//! What the server sends without being asked: published messages, keyspace events, invalidations of tracked keys.

pub(crate) mod hub;
pub(crate) mod keyspace;
pub(crate) mod tracking;
