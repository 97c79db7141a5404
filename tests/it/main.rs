//! Behaviour, tested through the socket. Each module covers one subject; each test's name is the claim it proves.
//!
//! Most modules start a server inside the test process and need no feature of the crate. Modules that start the binary,
//! run scripts or speak TLS are built with the feature that they need; `.ci/run` runs both suites.

#![allow(unreachable_pub, reason = "the harness reads better with plain pub")]

mod acl;
mod append_only;
mod barriers;
mod bitmap;
mod blocked;
mod blocked_calls;
mod blocking;
#[cfg(all(feature = "binary", feature = "tls"))]
mod certificates;
mod client;
mod cluster_mode;
mod command_bases;
mod conditions;
mod config;
mod connection;
mod connection_faults;
#[cfg(feature = "binary")]
mod copy;
mod corpus;
mod crashes;
#[cfg(feature = "binary")]
mod daemon;
mod damaged_dumps;
mod damaged_logs;
#[cfg(feature = "binary")]
mod deployment;
mod dialect;
mod differential;
mod double;
mod dump;
mod embed;
#[cfg(feature = "etcd")]
mod engine;
mod eviction;
mod expiry;
mod explore;
mod failover;
mod faults;
mod fences;
mod fields_model;
#[cfg(feature = "lua")]
mod figures;
mod files;
mod floors;
mod harness;
mod hash_fields;
mod hyperloglog;
mod increx;
#[cfg(feature = "json")]
mod json;
mod keys;
#[cfg(feature = "binary")]
mod killed_writers;
mod large;
mod leaving;
mod limits;
mod linearizable;
mod list;
#[cfg(feature = "binary")]
mod lock_command;
mod lock_pattern;
mod locks;
#[cfg(feature = "binary")]
mod locks_page;
mod log;
#[cfg(feature = "binary")]
mod logging;
mod maintenance;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod migrate;
mod monitor;
mod notifications;
mod observe;
mod order;
#[cfg(feature = "lua")]
mod pages;
mod panics;
#[cfg(feature = "binary")]
mod private_instances;
mod probabilistic;
mod process;
mod profiles;
mod protocol;
mod pubsub;
#[cfg(feature = "binary")]
mod redis_cli;
mod reference;
mod replication;
mod restart;
mod scan;
#[cfg(feature = "lua")]
mod script;
#[cfg(feature = "lua")]
mod script_limits;
#[cfg(feature = "lua")]
mod script_memory;
#[cfg(feature = "binary")]
mod secrets;
mod sentinel;
mod signals;
mod since_8_4;
mod skipped;
mod snapshots;
#[cfg(feature = "binary")]
mod startup;
mod streams;
mod string;
#[cfg(feature = "binary")]
mod termination;
mod tidy;
mod time;
mod time_travel;
#[cfg(feature = "tls")]
mod tls;
mod topologies;
mod topology_tools;
mod tracking;
mod transaction;
mod transcripts;
#[cfg(all(feature = "binary", feature = "jemalloc"))]
mod used_memory;
#[cfg(feature = "vectors")]
mod vector_sets;
mod words;
