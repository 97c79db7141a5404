//! The figures of INFO, by their names there.

use std::collections::BTreeMap;

use crate::command::server::info;
use crate::dispatch::Handlers;
use crate::dispatch::inquiry::inquire;
use crate::namespace::Namespace;

/// The sections that the metrics of Prometheus are made from.
const OF_METRICS: &[&str] =
    &["server", "clients", "memory", "stats", "replication", "cpu", "commandstats", "errorstats", "keyspace", "locks"];
/// The sections that a page shows figures from.
const OF_PAGE: &[&str] = &["server", "clients", "memory", "stats", "keyspace", "locks"];

/// The fields of INFO at one time.
#[derive(Debug)]
pub(super) struct Figures(BTreeMap<String, String>);

/// What the plots of a page show of one second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) unix_ms: i64,
    pub(super) commands: u64,
    pub(super) memory: u64,
    pub(super) held: u64,
    pub(super) waiting: u64,
    pub(super) longest_wait_ms: u64,
}

impl Figures {
    /// Returns what the metrics of Prometheus are made from; `None` while a script keeps the store busy.
    pub(super) fn of_metrics(namespace: &Namespace, handlers: &'static Handlers) -> Option<Self> {
        Self::of(namespace, handlers, OF_METRICS)
    }

    /// Returns what a page shows; `None` while a script keeps the store busy.
    pub(super) fn of_page(namespace: &Namespace, handlers: &'static Handlers) -> Option<Self> {
        Self::of(namespace, handlers, OF_PAGE)
    }

    /// One section after the other, so that no call waits for all of them.
    fn of(namespace: &Namespace, handlers: &'static Handlers, sections: &[&str]) -> Option<Self> {
        let mut fields = BTreeMap::new();
        for section in sections {
            let wanted = [section.as_bytes().to_vec()];
            let text = inquire(namespace, handlers, "info", |call| info::text(call, &wanted))?;
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            fields
                .extend(lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())));
        }
        Some(Figures(fields))
    }

    /// Returns a field; an empty text if INFO does not have it.
    pub(super) fn text(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    /// Returns a field that is a number; 0 if it is not.
    pub(super) fn number(&self, field: &str) -> f64 {
        self.text(field).parse().unwrap_or(0.0)
    }

    /// Returns a field that is a count; 0 if it is not.
    pub(super) fn count(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or(0)
    }

    /// Returns the fields whose names begin with `prefix`: the rest of the name, and the parts `name=value` of the value.
    pub(super) fn parts<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, Parts<'a>)> {
        let from_prefix = self.0.range(prefix.to_owned()..);
        let named = from_prefix.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value)));
        named.map(|(name, value)| (name, Parts(value)))
    }

    /// Returns the databases that have keys: the number, and the parts of its line.
    pub(super) fn databases(&self) -> impl Iterator<Item = (u32, Parts<'_>)> {
        self.parts("db").filter_map(|(number, parts)| Some((number.parse().ok()?, parts)))
    }

    /// Returns what the plots show.
    pub(super) fn point(&self, namespace: &Namespace) -> Point {
        Point {
            unix_ms: namespace.clock.now().wall_ms(),
            commands: self.count("instantaneous_ops_per_sec"),
            memory: self.count("used_memory"),
            held: self.count("held"),
            waiting: self.count("waiting"),
            longest_wait_ms: self.count("longest_wait_ms"),
        }
    }
}

/// The value of a field that has several parts.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a>(&'a str);

impl Parts<'_> {
    /// Returns a part that is a number; 0 if it is missing.
    pub(super) fn number(self, name: &str) -> f64 {
        let of_name = |part: &str| part.split_once('=').filter(|(other, _)| *other == name)?.1.parse().ok();
        self.0.split(',').find_map(of_name).unwrap_or(0.0)
    }
}
