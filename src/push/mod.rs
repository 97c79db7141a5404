//! What the server sends without being asked: published messages, keyspace events, invalidations of tracked keys.

pub mod hub;
pub mod keyspace;
pub mod tracking;
