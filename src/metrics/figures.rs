//! Fields of INFO, by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::command::server::info::{self, InfoValue};
use crate::dispatch::Handlers;
use crate::dispatch::introspection::describe;
use crate::namespace::Namespace;

/// Sections of INFO from which the metrics of Prometheus are made.
const OF_METRICS: &[&str] = &[
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "commandstats",
    "errorstats",
    "keyspace",
    "locks",
    "engine",
];
/// Sections of INFO from which a page shows figures.
const OF_PAGE: &[&str] = &["server", "clients", "memory", "persistence", "stats", "keyspace", "locks", "engine"];

/// The fields of INFO at one time.
#[derive(Debug, Default)]
pub(super) struct InfoFigures {
    fields: BTreeMap<&'static str, InfoValue>,
    /// Fields whose names begin alike, by the rest of the name.
    families: BTreeMap<&'static str, BTreeMap<String, InfoValue>>,
}

/// Values of a page's plots for one second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlotPoint {
    pub(super) unix_ms: i64,
    pub(super) commands: u64,
    pub(super) memory: u64,
    pub(super) held: u64,
    pub(super) waiting: u64,
    pub(super) longest_wait_ms: u64,
    pub(super) transactions: u64,
    pub(super) barriers: u64,
}

impl InfoFigures {
    /// Returns the figures of the metrics of Prometheus; `None` while a script keeps the store busy.
    pub(super) fn of_metrics(namespace: &Namespace, handlers: &'static Handlers) -> Option<Self> {
        Self::of(namespace, handlers, OF_METRICS)
    }

    /// Returns the figures of a page; `None` while a script keeps the store busy.
    pub(super) fn of_page(namespace: &Namespace, handlers: &'static Handlers) -> Option<Self> {
        Self::of(namespace, handlers, OF_PAGE)
    }

    /// Reads one section after the other, so that no call waits for all of them.
    fn of(namespace: &Namespace, handlers: &'static Handlers, sections: &[&str]) -> Option<Self> {
        let mut figures = InfoFigures::default();
        for section in sections {
            for (name, value) in describe(namespace, handlers, "info", |call| info::fields(call, section))? {
                match name.label {
                    None => figures.fields.insert(name.row, value),
                    Some(label) => figures.families.entry(name.row).or_default().insert(label, value),
                };
            }
        }
        Some(figures)
    }

    /// Returns a field as INFO shows it; an empty text if it is absent.
    pub(super) fn text(&self, field: &str) -> Cow<'_, str> {
        match self.fields.get(field) {
            None => Cow::Borrowed(""),
            Some(InfoValue::Text(text)) => Cow::Borrowed(text),
            Some(value) => Cow::Owned(value.to_string()),
        }
    }

    /// Returns the value of a numeric field; 0 if there is none.
    pub(super) fn number(&self, field: &str) -> f64 {
        self.fields.get(field).and_then(InfoValue::number).unwrap_or(0.0)
    }

    /// Returns the value of a field that is a count; 0 if there is none.
    pub(super) fn count(&self, field: &str) -> u64 {
        match self.fields.get(field) {
            Some(InfoValue::Count(count)) => *count,
            _ => 0,
        }
    }

    /// Returns a family of fields: the rest of each name, and the value.
    pub(super) fn family(&self, prefix: &str) -> impl Iterator<Item = (&str, &InfoValue)> {
        self.families.get(prefix).into_iter().flatten().map(|(label, value)| (label.as_str(), value))
    }

    /// Returns the databases that have keys: the number, and the value of its field.
    pub(super) fn databases(&self) -> impl Iterator<Item = (&str, &InfoValue)> {
        self.family("db")
    }

    /// Returns the present values of the plots.
    pub(super) fn point(&self, namespace: &Namespace) -> PlotPoint {
        PlotPoint {
            unix_ms: namespace.clock.now().wall_ms(),
            commands: self.count("instantaneous_ops_per_sec"),
            memory: self.count("used_memory"),
            held: self.count("held"),
            waiting: self.count("waiting"),
            longest_wait_ms: self.count("longest_wait_ms"),
            transactions: self.count("engine_transactions_per_sec"),
            barriers: self.count("engine_barriers_per_sec"),
        }
    }
}

/// Returns a part of a value that is a number; 0 if it is missing.
pub(super) fn part(value: &InfoValue, name: &str) -> f64 {
    value.part(name).and_then(InfoValue::number).unwrap_or(0.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns true if a section for the metrics or for a page has a field.
    pub(in crate::metrics) fn has(field: &str) -> bool {
        OF_METRICS.iter().chain(OF_PAGE).any(|section| info::names(section).any(|name| name == field))
    }
}
