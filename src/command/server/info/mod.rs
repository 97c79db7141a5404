//! INFO: the state of the server, by section.
//!
//! INFO is a table: each section has rows, each row is a field and the source of its value. INFO's text is written from
//! the table, and the figures of the metrics port are its values. It has every field of Redis 8.4, in Redis' order; a
//! field of a feature that does not exist is zero.

mod clients;
mod engine;
mod field;
mod keyspace;
mod memory;
mod memory_report;
mod persistence;
mod reading;
mod replication;
mod server;
mod statistics;

use std::fmt::Write;

use crate::command::server::info::field::InfoField;
use crate::command::server::info::reading::Reading;
use crate::dispatch::Call;

#[cfg(feature = "metrics")]
pub(crate) use field::{FieldName, InfoValue};
pub(crate) use memory::{difference, ratio};
pub(crate) use memory_report::MemoryReport;
pub(crate) use reading::cpu_seconds;

/// A section of INFO.
struct Section {
    /// The names that request the section.
    names: &'static [&'static str],
    title: &'static str,
    shown: Shown,
    fields: &'static [InfoField],
}

/// The condition for showing a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By default.
    Unasked,
    /// On request, or with `all`.
    ForAll,
    /// On request only.
    ByName,
}
use Shown::{ByName, ForAll, Unasked};

const fn section(
    names: &'static [&'static str],
    title: &'static str,
    shown: Shown,
    fields: &'static [InfoField],
) -> Section {
    Section { names, title, shown, fields }
}

/// The sections in order.
const SECTIONS: &[Section] = &[
    section(&["server"], "Server", Unasked, server::SERVER),
    section(&["clients"], "Clients", Unasked, clients::CLIENTS),
    section(&["memory"], "Memory", Unasked, memory::MEMORY),
    section(&["persistence"], "Persistence", Unasked, persistence::PERSISTENCE),
    section(&["threads"], "Threads", Unasked, clients::THREADS),
    section(&["stats"], "Stats", Unasked, statistics::STATS),
    section(&["replication"], "Replication", Unasked, replication::REPLICATION),
    section(&["cpu"], "CPU", Unasked, server::CPU),
    section(&["modules", "module_list"], "Modules", Unasked, server::MODULES),
    section(&["commandstats"], "Commandstats", ForAll, statistics::COMMAND_STATS),
    section(&["errorstats"], "Errorstats", Unasked, statistics::ERROR_STATS),
    section(&["latencystats"], "Latencystats", ForAll, statistics::LATENCY_STATS),
    section(&["cluster"], "Cluster", Unasked, server::CLUSTER),
    section(&["keyspace"], "Keyspace", Unasked, keyspace::KEYSPACE),
    // Keys are not counted by size: the section exists and is empty.
    section(&["keysizes"], "Keysizes", Unasked, &[]),
    section(&["locks"], "Locks", ForAll, keyspace::LOCKS),
    section(&["engine"], "Engine", ForAll, engine::ENGINE),
    section(&["debug"], "Debug", ByName, statistics::DEBUG),
];

/// The sections that a sentinel has besides its own.
const OF_SENTINELS: [&str; 4] = ["server", "clients", "stats", "cpu"];

/// Names that request every section.
const ALL: &[&str] = &["all", "everything"];

/// Returns the requested sections, by lower-case names; without any names, the default sections.
pub(crate) fn text(call: &mut Call<'_>, wanted: &[Vec<u8>]) -> String {
    let is_wanted = |name: &&str| wanted.iter().any(|word| word == name.as_bytes());
    let by_default = wanted.is_empty() || is_wanted(&"default");
    let everything = ALL.iter().any(is_wanted);
    let sentinel = call.namespace.member().filter(|_| call.namespace.restrictions.is_sentinel());
    let profile = call.config.profile;
    let (mut text, mut reading) = (String::new(), Reading::new(call));
    for Section { names, title, shown, fields } in SECTIONS {
        let is_hidden = profile.is_some_and(|profile| !profile.has_section(names));
        if is_hidden || sentinel.is_some() && !names.iter().any(|name| OF_SENTINELS.contains(name)) {
            continue;
        }
        let is_implied = everything && *shown != ByName || by_default && *shown == Unasked;
        if is_implied || names.iter().any(is_wanted) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "# {title}\r\n");
            for field in *fields {
                field.read(&mut reading, |name, value| _ = write!(text, "{name}:{value}\r\n"));
            }
        }
    }
    let is_asked = everything || by_default || is_wanted(&"sentinel");
    if let Some(sentinel) = sentinel.filter(|_| is_asked) {
        let shown = sentinel.topology().and_then(|topology| topology.sentinel_info(sentinel.number));
        text.push_str(if text.is_empty() { "" } else { "\r\n" });
        text.push_str(&shown.unwrap_or_default());
    }
    text
}

/// Returns the fields of a section.
#[cfg(feature = "metrics")]
pub(crate) fn fields(call: &mut Call<'_>, section: &str) -> Vec<(FieldName, InfoValue)> {
    let (mut found, mut reading) = (Vec::new(), Reading::new(call));
    let rows = SECTIONS.iter().filter(|row| row.names.contains(&section)).flat_map(|row| row.fields);
    rows.for_each(|field| field.read(&mut reading, |name, value| found.push((name, value))));
    found
}

/// Returns the names of a section's rows.
#[cfg(all(test, feature = "metrics"))]
pub(crate) fn names(section: &str) -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().filter(move |row| row.names.contains(&section)).flat_map(|row| row.fields).map(InfoField::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_and_no_two_sections_have_the_same_name() {
        let mut titles = std::collections::HashSet::new();
        assert!(SECTIONS.iter().flat_map(|section| section.names).all(|name| titles.insert(*name)));
        assert!(ALL.iter().chain(&["default"]).all(|name| titles.insert(*name)));
    }
}
