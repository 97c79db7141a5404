//! The commands, one folder for each group of Redis' documentation.
//!
//! A family's file opens with its table: a row per command, see [`Command`], and then the handlers.

use crate::spec::Command;

pub(crate) mod bitmap;
mod condition;
pub(crate) mod connection;
pub(crate) mod hyperloglog;
pub(crate) mod keys;
pub(crate) mod pubsub;
#[cfg(feature = "lua")]
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod string;
pub(crate) mod transactions;

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
