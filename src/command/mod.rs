//! The commands, one folder for each group of Redis' documentation.
//!
//! A family's file opens with its table: a row per command, see [`Command`], and then the handlers.

use crate::spec::Command;

pub mod bitmap;
mod condition;
pub mod connection;
pub mod hyperloglog;
pub mod keys;
pub mod pubsub;
#[cfg(feature = "lua")]
pub mod scripting;
pub mod server;
pub mod string;
pub mod transactions;

/// Every family's table.
pub const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    bitmap::COMMANDS,
    hyperloglog::COMMANDS,
    keys::generic::COMMANDS,
    keys::databases::COMMANDS,
    keys::dump::COMMANDS,
    keys::migrate::COMMANDS,
    keys::sort::COMMANDS,
    server::memory::COMMANDS,
    keys::object::COMMANDS,
    keys::expire::COMMANDS,
    keys::scan::COMMANDS,
    transactions::COMMANDS,
    pubsub::COMMANDS,
    #[cfg(feature = "lua")]
    scripting::COMMANDS,
    #[cfg(feature = "lua")]
    scripting::function::COMMANDS,
    connection::COMMANDS,
    connection::client::COMMANDS,
    connection::cluster::COMMANDS,
    server::COMMANDS,
    server::acl::COMMANDS,
    keys::wait::COMMANDS,
    server::modules::COMMANDS,
    server::slowlog::COMMANDS,
    server::latency::COMMANDS,
    server::monitor::COMMANDS,
    server::debug::COMMANDS,
    server::introspect::COMMANDS,
];
