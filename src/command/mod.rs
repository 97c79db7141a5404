//! The commands, one directory per group of Redis' documentation.
//!
//! A family's file begins with its table, one row per command (see [`Command`]), followed by the handlers.

use std::sync::LazyLock;

use crate::dispatch::{Command, Handlers};
use crate::spec::CommandTable;

pub(crate) mod bitmap;
#[cfg(test)]
mod checks_tests;
pub(crate) mod cluster;
mod condition;
pub(crate) mod connection;
mod element_expiry;
mod elements;
#[cfg(test)]
mod file_tests;
pub(crate) mod geo;
pub(crate) mod hash;
pub(crate) mod hyperloglog;
#[cfg(feature = "json")]
pub(crate) mod json;
pub(crate) mod keys;
#[cfg(test)]
mod late_lock_tests;
pub(crate) mod list;
pub(crate) mod lock;
mod multi_pop;
#[cfg(test)]
mod played_client;
#[cfg(feature = "probabilistic")]
pub(crate) mod probabilistic;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod scan_elements;
#[cfg(feature = "lua")]
pub(crate) mod scripting;
pub(crate) mod sentinel;
pub(crate) mod server;
pub(crate) mod set;
mod set_difference;
pub(crate) mod sorted_set;
pub(crate) mod stream;
pub(crate) mod string;
pub(crate) mod test_mode;
#[cfg(feature = "internals")]
pub(crate) mod testing;
mod timeout;
pub(crate) mod topology;
pub(crate) mod transactions;
mod ttl;
#[cfg(feature = "vectors")]
pub(crate) mod vector_set;

#[cfg(feature = "internals")]
pub(crate) use server::debug::image;

/// Every family's table.
pub const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    string::fence::COMMANDS,
    bitmap::COMMANDS,
    hyperloglog::COMMANDS,
    list::COMMANDS,
    hash::COMMANDS,
    sorted_set::COMMANDS,
    set::COMMANDS,
    stream::add::COMMANDS,
    stream::delete::COMMANDS,
    stream::range::COMMANDS,
    stream::read::COMMANDS,
    stream::group::COMMANDS,
    stream::ack::COMMANDS,
    stream::claim::COMMANDS,
    stream::info::COMMANDS,
    stream::nack::COMMANDS,
    stream::producers::COMMANDS,
    geo::COMMANDS,
    #[cfg(feature = "json")]
    json::COMMANDS,
    #[cfg(feature = "probabilistic")]
    probabilistic::bloom::COMMANDS,
    #[cfg(feature = "probabilistic")]
    probabilistic::cuckoo::COMMANDS,
    #[cfg(feature = "probabilistic")]
    probabilistic::count_min_sketch::COMMANDS,
    #[cfg(feature = "probabilistic")]
    probabilistic::top_k::COMMANDS,
    #[cfg(feature = "probabilistic")]
    probabilistic::t_digest::COMMANDS,
    #[cfg(feature = "vectors")]
    vector_set::COMMANDS,
    keys::COMMANDS,
    keys::databases::COMMANDS,
    keys::dump::COMMANDS,
    keys::migrate::COMMANDS,
    keys::sort::COMMANDS,
    server::memory::COMMANDS,
    keys::object::COMMANDS,
    keys::expire::COMMANDS,
    keys::scan::COMMANDS,
    lock::COMMANDS,
    lock::INSPECTION,
    transactions::COMMANDS,
    pubsub::COMMANDS,
    #[cfg(feature = "lua")]
    scripting::COMMANDS,
    #[cfg(feature = "lua")]
    scripting::function::COMMANDS,
    connection::COMMANDS,
    connection::client::COMMANDS,
    cluster::COMMANDS,
    server::COMMANDS,
    server::acl::COMMANDS,
    keys::wait::COMMANDS,
    server::modules::COMMANDS,
    server::persistence::COMMANDS,
    replication::COMMANDS,
    replication::role::COMMANDS,
    server::slowlog::COMMANDS,
    server::command_log::COMMANDS,
    server::hot_keys::COMMANDS,
    server::latency::COMMANDS,
    server::monitor::COMMANDS,
    server::debug::COMMANDS,
    server::introspect::COMMANDS,
];

/// Returns the table of all commands.
pub fn table() -> &'static CommandTable {
    &handlers().commands
}

/// Returns all commands and their handlers. The table is constant and passed down to the modules that need it; none of
/// them accesses it as a global.
pub(crate) fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| Handlers::new(FAMILIES, server::help::row));
    &HANDLERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::known;

    #[test]
    fn every_row_has_a_handler_docs_and_a_name_of_its_own() {
        let mut names = std::collections::HashSet::new();
        for row in FAMILIES.iter().copied().flatten().flat_map(|row| std::iter::once(row).chain(row.subcommands)) {
            let (name, is_container) = (row.declaration.name, !row.subcommands.is_empty());
            assert!(row.handler.is_some() != (is_container && row.declaration.arity == Some(-2)), "{name}");
            assert!(row.declaration.since.is_some() && !row.declaration.summary.is_empty(), "{name} lacks docs");
            assert_eq!(name, name.to_uppercase());
        }
        for command in table().every() {
            let name = &command.name;
            assert!(names.insert(name), "{name} is declared twice");
            assert!(table().find_full(name.as_bytes()).is_some_and(|found| found.number == command.number), "{name}");
            assert_eq!(command.name_args, name.split('|').count(), "{name}");
        }
    }

    #[test]
    fn arity_and_key_positions_follow_from_the_grammar() {
        let facts = |name: &[u8]| table().find(name).map(|found| (found.arity, found.keys.clone())).expect("known");
        assert_eq!(facts(b"get").0, 2);
        let (arity, keys) = facts(b"mset");
        assert_eq!((arity, keys[0].first, keys[0].last, keys[0].step), (-3, 1, -1, 2));
        let (arity, keys) = facts(b"lcs");
        assert_eq!((arity, keys.len(), keys[0].last), (-3, 1, 1));
        assert_eq!(facts(b"rename").1.len(), 2);
    }

    #[test]
    fn numbers_count_commands_and_subcommands_without_gaps() {
        assert!(table().every().map(|command| command.number).eq(0..table().count()));
    }

    #[test]
    fn the_commands_that_are_here_have_known_names_but_for_our_own_and_those_of_other_versions() {
        let newer: Vec<&str> = table()
            .every()
            .map(|command| command.name.as_str())
            .filter(|name| !known::is_known(name.as_bytes()) && !name.starts_with("lock."))
            .collect();
        assert_eq!(newer, ["client|maint_notifications", "delifgreater", "increx", "setifgreater"]);
    }
}
