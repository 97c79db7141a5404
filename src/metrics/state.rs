//! Data that a page is sent, as JSON: the history at first, and the state every second.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::command::lock::overview::overview;
use crate::dispatch::Handlers;
use crate::dispatch::plan::find;
use crate::metrics::auth::releaser;
use crate::metrics::escape::{name, short_name};
use crate::metrics::figures::{InfoFigures, PlotPoint, part};
use crate::metrics::locks::{shown_handover, shown_lock};
use crate::namespace::Namespace;
use crate::observe::histogram::Counts;
use crate::observe::slow_log::SlowLogEntry;
use crate::resp::RequestBuffer;

/// Number of locks that a page shows.
const LOCKS_SHOWN: usize = 200;
/// Number of slow calls that a page shows.
const SLOW_SHOWN: usize = 20;
/// Bounds of the plots of durations: powers of two from 64 microseconds to 18 minutes.
const POWERS: std::ops::RangeInclusive<u32> = 6..=30;

/// Figures that a page shows as texts, by their names in INFO.
const TEXTS: &[&str] = &["keylatch_version", "redis_version", "tcp_port", "maxmemory_policy", "durability"];
/// Figures that a page shows as numbers, by their names in INFO.
const NUMBERS: &[&str] = &[
    "uptime_in_seconds",
    "rdb_last_save_age_seconds",
    "rdb_saves",
    "connected_clients",
    "blocked_clients",
    "used_memory",
    "used_memory_rss",
    "maxmemory",
    "instantaneous_ops_per_sec",
    "instantaneous_input_kbps",
    "instantaneous_output_kbps",
    "keyspace_hits",
    "keyspace_misses",
    "evicted_keys",
    "expired_keys",
    "held",
    "waiting",
    "longest_wait_ms",
    "acquired_total",
    "contended_total",
    "timed_out_total",
    "deadlocks_total",
    "expired_while_held_total",
];

/// Figures of an engine that a page shows as texts.
const ENGINE_TEXTS: &[&str] = &["engine", "engine_process", "engine_endpoint", "engine_version", "engine_leader"];
/// Figures of an engine that a page shows as numbers.
const ENGINE_NUMBERS: &[&str] = &[
    "engine_size",
    "engine_revision",
    "engine_revisions_behind",
    "engine_transactions",
    "engine_transactions_per_sec",
    "engine_barriers",
    "engine_barriers_per_sec",
    "engine_conflicts",
    "engine_unknown_outcomes",
    "engine_uncertain_replies",
    "engine_watches",
    "engine_reloads",
];

/// Returns the history, as a list of values for each plot.
pub(super) fn history(points: &VecDeque<PlotPoint>) -> Value {
    let column = |value: fn(&PlotPoint) -> i64| points.iter().map(value).collect::<Vec<i64>>();
    json!({
        "at": column(|point| point.unix_ms),
        "commands": column(|point| point.commands as i64),
        "memory": column(|point| point.memory as i64),
        "held": column(|point| point.held as i64),
        "waiting": column(|point| point.waiting as i64),
        "longest": column(|point| point.longest_wait_ms as i64),
        "transactions": column(|point| point.transactions as i64),
        "barriers": column(|point| point.barriers as i64),
    })
}

pub(super) fn state(namespace: &Namespace, handlers: &'static Handlers, figures: &InfoFigures) -> Value {
    let mut state = shown_figures(figures, TEXTS, NUMBERS);
    let locks = overview(namespace, handlers, LOCKS_SHOWN).unwrap_or_default();
    let may_release = releaser(namespace).is_some();
    let mut put = |field: &str, value: Value| state.insert(field.to_owned(), value);
    put("at", namespace.clock.now().wall_ms().into());
    put("keys", figures.databases().fold(0.0, |sum, (_, value)| sum + part(value, "keys")).into());
    put("release", may_release.into());
    put("locks", locks.iter().map(|lock| shown_lock(lock, &namespace.clients, may_release)).collect());
    put("handovers", namespace.observed.locks.handovers.latest().iter().map(shown_handover).collect());
    put("waits", shown_durations(&namespace.observed.locks.waits()));
    put("holds", shown_durations(&namespace.observed.locks.holds()));
    put("slow", slow_calls(namespace));
    if namespace.engine().is_some() {
        put("engine", shown_engine(namespace, figures));
    }
    state.into()
}

/// Returns figures, by their names in INFO.
fn shown_figures(figures: &InfoFigures, texts: &[&str], numbers: &[&str]) -> Map<String, Value> {
    let texts = texts.iter().map(|field| ((*field).to_owned(), figures.text(field).into_owned().into()));
    let numbers = numbers.iter().map(|field| ((*field).to_owned(), figures.number(field).into()));
    texts.chain(numbers).collect()
}

/// Returns the state of the cluster that the data is in, and figures of the requests to it.
fn shown_engine(namespace: &Namespace, figures: &InfoFigures) -> Value {
    let mut engine = shown_figures(figures, ENGINE_TEXTS, ENGINE_NUMBERS);
    let stats = &namespace.observed.engine;
    let durations = [("transactions", stats.transaction_durations()), ("barriers", stats.barrier_durations())];
    engine.extend(durations.map(|(name, durations)| (name.to_owned(), shown_durations(&durations))));
    engine.into()
}

/// Returns the number of durations in the range up to each bound, with percentiles in microseconds.
fn shown_durations(durations: &Counts) -> Value {
    let bounds: Vec<u64> = POWERS.map(|power| 1 << power).collect();
    json!({
        "total": durations.total(),
        "p50": durations.at_percentile(50.0),
        "p99": durations.at_percentile(99.0),
        "from": bounds[0],
        "counts": durations.between(&bounds),
    })
}

/// Returns the latest slow calls: the command and its first key, but no other argument, because that may be a value.
fn slow_calls(namespace: &Namespace) -> Value {
    let config = namespace.settings.current();
    let entries = namespace.observed.slow_log.latest(SLOW_SHOWN, config.slowlog_max_len);
    let shown = |entry: &SlowLogEntry| {
        let mut words = RequestBuffer::default();
        entry.args.iter().for_each(|word| words.push(word));
        let request = words.as_request();
        let command = request.and_then(|request| find(request, namespace.names(&config)));
        let accepted = command.zip(request).filter(|(command, request)| command.accepts(request.len()));
        let key = accepted.and_then(|(command, request)| {
            let (position, _) = command.keys_of(request).next()?;
            Some(name(request.arg(position), 0))
        });
        json!({
            "id": entry.id,
            "at": entry.unix_s,
            "us": entry.measure,
            "command": command.map_or_else(String::new, |command| command.name.replace('|', " ").to_uppercase()),
            "key": key,
            "addr": entry.addr,
            "name": short_name(entry.name.as_bytes()),
        })
    };
    entries.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::figures::tests::has;

    #[test]
    fn info_has_every_field_that_a_page_shows() {
        for field in [TEXTS, NUMBERS, ENGINE_TEXTS, ENGINE_NUMBERS].into_iter().flatten() {
            assert!(has(field), "{field}");
        }
    }
}
