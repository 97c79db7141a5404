//! Behaviour, seen through the socket. Each module is one subject; each test's name is the claim it proves.

#![allow(unreachable_pub, reason = "the harness reads better with plain pub")]

mod acl;
#[cfg(feature = "lua")]
mod advisories;
mod bitmap;
mod client;
mod conditions;
mod config;
mod connection;
mod corpus;
mod daemon;
mod deployment;
mod dialect;
mod differential;
mod dump;
mod embed;
mod eviction;
mod expiry;
mod harness;
mod hyperloglog;
mod increx;
mod keys;
mod limits;
mod linearizable;
mod lock_pattern;
mod memory;
mod migrate;
mod monitor;
mod notifications;
mod observe;
mod order;
mod panics;
mod process;
mod protocol;
mod pubsub;
mod redis_cli;
mod scan;
#[cfg(feature = "lua")]
mod script;
#[cfg(feature = "lua")]
mod script_limits;
#[cfg(feature = "lua")]
mod script_memory;
mod startup;
mod string;
mod tidy;
mod time;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod transaction;
