//! What a page is sent, as JSON: the past at first, and the state every second.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::client::registry::ClientInfo;
use crate::command::lock::overview::{ShownLock, overview};
use crate::dispatch::Handlers;
use crate::dispatch::plan::find;
use crate::metrics::figures::{Figures, Point};
use crate::metrics::json;
use crate::namespace::Namespace;
use crate::observe::histogram::Counts;
use crate::resp::RequestBuffer;

/// How many locks a page shows.
const LOCKS_SHOWN: usize = 200;
/// How many slow calls a page shows.
const SLOW_SHOWN: usize = 20;
/// The bounds of the plots of durations: powers of two from 64 microseconds to 18 minutes.
const POWERS: std::ops::RangeInclusive<u32> = 6..=30;

/// The figures that a page shows, by their names in INFO, which are numbers.
const NUMBERS: &[&str] = &[
    "uptime_in_seconds",
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
    "expired_while_held_total",
];

/// Returns the past, as a list of values for each plot.
pub(super) fn history(points: &VecDeque<Point>) -> String {
    let mut text = String::from("{");
    let mut column = |name: &str, value: fn(&Point) -> i64| {
        let is_first = text.len() == 1;
        key(&mut text, name, is_first);
        json::list(&mut text, points, |text, point| json::number(text, value(point)));
    };
    column("at", |point| point.unix_ms);
    column("commands", |point| point.commands as i64);
    column("memory", |point| point.memory as i64);
    column("held", |point| point.held as i64);
    column("waiting", |point| point.waiting as i64);
    column("longest", |point| point.longest_wait_ms as i64);
    text.push('}');
    text
}

/// Returns the state.
pub(super) fn state(namespace: &Namespace, handlers: &'static Handlers, figures: &Figures) -> String {
    let mut text = String::from("{");
    key(&mut text, "at", true);
    json::number(&mut text, namespace.clock.now().wall_ms());
    for field in ["keylatch_version", "redis_version", "tcp_port", "maxmemory_policy"] {
        key(&mut text, field, false);
        json::text(&mut text, figures.text(field));
    }
    for field in NUMBERS {
        key(&mut text, field, false);
        json::number(&mut text, figures.number(field));
    }
    key(&mut text, "keys", false);
    json::number(&mut text, figures.databases().fold(0.0, |sum, (_, parts)| sum + parts.number("keys")));
    key(&mut text, "locks", false);
    let locks = overview(namespace, handlers, LOCKS_SHOWN).unwrap_or_default();
    json::list(&mut text, &locks, |text, lock| write_lock(text, lock, namespace));
    for (name, durations) in [("waits", namespace.observed.locks.waits()), ("holds", namespace.observed.locks.holds())]
    {
        key(&mut text, name, false);
        write_durations(&mut text, &durations);
    }
    key(&mut text, "slow", false);
    write_slow_calls(&mut text, namespace);
    text.push('}');
    text
}

/// Writes the name of a field of an object.
fn key(text: &mut String, name: &str, is_first: bool) {
    if !is_first {
        text.push(',');
    }
    json::text(text, name);
    text.push(':');
}

fn write_lock(text: &mut String, lock: &ShownLock, namespace: &Namespace) {
    let clients = &namespace.instance.clients;
    text.push('{');
    key(text, "key", true);
    json::name(text, &lock.key, lock.key_rest);
    // Writing to a string cannot fail.
    let _ = write!(text, ",\"db\":{},\"ttl\":{},\"line\":{}", lock.db, lock.pttl_ms, lock.in_line);
    let optional = [
        ("wait", lock.wait_ms.map(|wait_ms| wait_ms as i64)),
        ("age", lock.age_ms.map(|age_ms| age_ms as i64)),
        ("fence", lock.fence),
    ];
    for (name, number) in optional.iter().filter_map(|(name, number)| Some((name, (*number)?))) {
        let _ = write!(text, ",\"{name}\":{number}");
    }
    if let Some(holder) = lock.holder(clients) {
        key(text, "holder", false);
        write_client(text, &holder, None);
    }
    key(text, "first", false);
    json::list(text, lock.first_in_line(clients), |text, (client, wait_ms)| write_client(text, &client, Some(wait_ms)));
    text.push('}');
}

fn write_client(text: &mut String, client: &ClientInfo, wait_ms: Option<u64>) {
    let _ = write!(text, "{{\"id\":{},\"name\":", client.id);
    json::short_name(text, client.names().name.as_bytes());
    key(text, "addr", false);
    json::text(text, &client.caller());
    if let Some(wait_ms) = wait_ms {
        let _ = write!(text, ",\"wait\":{wait_ms}");
    }
    text.push('}');
}

/// Writes how many durations there are up to each bound, with percentiles in microseconds.
fn write_durations(text: &mut String, durations: &Counts) {
    let bounds: Vec<u64> = POWERS.map(|power| 1 << power).collect();
    let [p50, p99] = [50.0, 99.0].map(|percent| durations.at_percentile(percent));
    let _ = write!(
        text,
        "{{\"total\":{},\"p50\":{p50},\"p99\":{p99},\"from\":{},\"counts\":",
        durations.total(),
        bounds[0]
    );
    json::list(text, durations.between(&bounds), json::number);
    text.push('}');
}

/// Writes the latest slow calls: the command and its first key, but no other argument, because that may be a value.
fn write_slow_calls(text: &mut String, namespace: &Namespace) {
    let config = namespace.instance.settings.current();
    let entries = namespace.observed.slow_log.latest(SLOW_SHOWN, config.slowlog_max_len);
    json::list(text, &entries, |text, entry| {
        let mut words = RequestBuffer::default();
        entry.args.iter().for_each(|word| words.push(word));
        let request = words.as_request();
        let command = request.and_then(|request| find(request, namespace.names(&config)));
        let _ = write!(text, "{{\"id\":{},\"at\":{},\"us\":{}", entry.id, entry.unix_s, entry.duration_us);
        key(text, "command", false);
        json::text(text, &command.map_or_else(String::new, |command| command.name.replace('|', " ").to_uppercase()));
        if let Some((command, request)) =
            command.zip(request).filter(|(command, request)| command.accepts(request.len()))
            && let Some((position, _)) = command.keys_of(request).next()
        {
            key(text, "key", false);
            json::name(text, request.arg(position), 0);
        }
        key(text, "addr", false);
        json::text(text, &entry.addr);
        key(text, "name", false);
        json::short_name(text, entry.name.as_bytes());
        text.push('}');
    });
}
