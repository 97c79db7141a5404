//! The metrics of Prometheus, in the text of OpenMetrics or in Prometheus' own older one.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::command::server::info::InfoValue;
use crate::dispatch::Handlers;
use crate::metrics::figures::{self, InfoFigures};
use crate::metrics::names::{METRICS, Metric, MetricKind};
use crate::namespace::Namespace;
use crate::observe::histogram::Counts;

/// The bounds of histograms, in seconds.
const BOUNDS_S: &[f64] =
    &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const US_PER_S: f64 = 1e6;
const MS_PER_S: f64 = 1e3;

/// The labels of `redis_instance_info`, which are fields of INFO.
const IDENTITY: &[&str] = &[
    "role",
    "redis_version",
    "redis_build_id",
    "redis_mode",
    "os",
    "maxmemory_policy",
    "tcp_port",
    "run_id",
    "process_id",
    "master_replid",
];

/// Fields of INFO that are `ok` or `err`, and the metrics that are 1 for `ok`.
const STATUSES: &[(&str, &str, &str)] = &[
    ("rdb_last_bgsave_status", "redis_rdb_last_bgsave_status", "Whether the last snapshot was saved"),
    (
        "aof_last_bgrewrite_status",
        "redis_aof_last_bgrewrite_status",
        "Whether the append-only file was rewritten the last time",
    ),
    ("aof_last_write_status", "redis_aof_last_write_status", "Whether the append-only file can be written"),
];

/// Text format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpositionFormat {
    OpenMetrics,
    Prometheus,
}

impl ExpositionFormat {
    /// Returns the format that a peer prefers, by its `Accept` header.
    pub(super) fn preferred(accept: &str) -> Self {
        let weight_of = |name: &str| {
            let range = accept.split(',').find(|range| range.trim_start().starts_with(name))?;
            let weight = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
            Some(weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0)))
        };
        let (new, old) = (weight_of("application/openmetrics-text"), weight_of("text/plain"));
        let prefers_new = new.unwrap_or(0.0) > 0.0_f64 && new >= old;
        if prefers_new { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Prometheus }
    }

    /// Returns the content type of the format.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ExpositionFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns the metrics; `None` while a script keeps the store busy.
pub(super) fn metrics(namespace: &Namespace, handlers: &'static Handlers, format: ExpositionFormat) -> Option<String> {
    let figures = InfoFigures::of_metrics(namespace, handlers)?;
    let config = namespace.settings.current();
    let (log, kept) = (&namespace.observed.slow_log, config.slowlog_max_len);
    let locks = &namespace.observed.locks;
    let scrape = Scrape {
        figures,
        slow_calls: log.len(kept),
        last_slow_us: log.latest(1, kept).first().map_or(0, |entry| entry.measure),
        waits: Durations::of(&locks.waits()),
        holds: Durations::of(&locks.holds()),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry).ok()?;
    Some(if format == ExpositionFormat::OpenMetrics { text } else { in_older_form(&text) })
}

/// Turns OpenMetrics into Prometheus' older format, in which counters and information are named with their suffixes.
fn in_older_form(text: &str) -> String {
    let suffix_of = |kind: &str| match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    let mut older = String::with_capacity(text.len());
    let mut description = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            description = rest.split_once(' '); // its suffix is known with the next line
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, help) = (suffix_of(kind), description.map_or("", |(_, help)| help));
            let kind = if kind == "info" { "gauge" } else { kind };
            older.extend(["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            older.extend([line, "\n"]);
        }
    }
    older
}

/// Values of one scrape.
#[derive(Debug)]
struct Scrape {
    figures: InfoFigures,
    slow_calls: usize,
    last_slow_us: u64,
    waits: Durations,
    holds: Durations,
}

/// Histogram of durations, in seconds.
#[derive(Debug)]
struct Durations {
    sum_s: f64,
    count: u64,
    /// The upper bound and the count of each range.
    ranges: Vec<(f64, u64)>,
}

impl Durations {
    /// Converts durations in microseconds.
    fn of(counts: &Counts) -> Self {
        let bounds: Vec<u64> = BOUNDS_S.iter().map(|bound| (bound * US_PER_S) as u64).collect();
        let bounds_s = BOUNDS_S.iter().copied().chain([f64::INFINITY]);
        let ranges = bounds_s.zip(counts.between(&bounds)).collect();
        Durations { sum_s: counts.sum() / US_PER_S, count: counts.total(), ranges }
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let unlabelled = |name, help| Metric { field: "", name, kind: MetricKind::Gauge, divisor: 1.0, help };
        one(out, &unlabelled("redis_up", "Whether the server answers"), 1.0)?;
        self.identity(out)?;
        for (field, name, help) in STATUSES {
            let is_ok = self.figures.text(field) == "ok";
            one(out, &unlabelled(name, help), f64::from(u8::from(is_ok)))?;
        }
        for metric in METRICS {
            one(out, metric, self.figures.number(metric.field) / metric.divisor)?;
        }
        let started_s = self.figures.number("server_time_usec") / US_PER_S - self.figures.number("uptime_in_seconds");
        one(
            out,
            &unlabelled("redis_start_time_seconds", "When the server was started, since 1970"),
            started_s.floor(),
        )?;
        one(out, &unlabelled("redis_slowlog_length", "Entries of the slow log"), self.slow_calls as f64)?;
        let last_slow_s = self.last_slow_us as f64 / US_PER_S;
        let help = "How long the latest entry of the slow log took";
        one(out, &unlabelled("redis_last_slow_execution_duration_seconds", help), last_slow_s)?;
        self.commands(out)?;
        self.databases(out)?;
        self.replicas(out)?;
        durations(out, "keylatch_lock_wait_seconds", "How long acquired locks were waited for", &self.waits)?;
        durations(out, "keylatch_lock_hold_seconds", "How long locks were held", &self.holds)
    }
}

impl Scrape {
    fn identity(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = &self.figures;
        let labels: Vec<(&str, Cow<'_, str>)> = IDENTITY.iter().map(|field| (*field, figures.text(field))).collect();
        out.encode_descriptor("redis_instance", "Which server this is", None, MetricType::Info)?
            .encode_info(&labels[..].to_vec())?;
        let version = vec![("version", figures.text("keylatch_version"))];
        out.encode_descriptor("keylatch_build", "Which keylatch this is", None, MetricType::Info)?.encode_info(&version)
    }

    fn commands(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let calls = |part: &'static str, divisor: f64| {
            let of_all = self.figures.family("cmdstat_");
            of_all.map(move |(command, value)| (command, figures::part(value, part) / divisor))
        };
        counters(out, "redis_commands", "Calls of each command", "cmd", calls("calls", 1.0))?;
        let help = "Time that the calls of each command took";
        counters(out, "redis_commands_duration_seconds", help, "cmd", calls("usec", US_PER_S))?;
        let help = "Calls of each command that were rejected before they were executed";
        counters(out, "redis_commands_rejected_calls", help, "cmd", calls("rejected_calls", 1.0))?;
        let help = "Calls of each command that failed";
        counters(out, "redis_commands_failed_calls", help, "cmd", calls("failed_calls", 1.0))?;
        let errors = self.figures.family("errorstat_").map(|(error, value)| (error, figures::part(value, "count")));
        counters(out, "redis_errors", "Errors by their first words", "err", errors)
    }

    fn replicas(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut of_each = |name, help, part: &str| {
            let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (_, value) in self.figures.family("slave") {
                let label = |part: &str| value.part(part).map(InfoValue::to_string).unwrap_or_default();
                let labels =
                    [("slave_ip", label("ip")), ("slave_port", label("port")), ("slave_state", label("state"))];
                family.encode_family(&labels)?.encode_gauge(&figures::part(value, part))?;
            }
            Ok(())
        };
        let help = "Offset up to which each replica has acknowledged the replication stream";
        of_each("redis_connected_slave_offset_bytes", help, "offset")?;
        let help = "Time since each replica has acknowledged something";
        of_each("redis_connected_slave_lag_seconds", help, "lag")
    }

    fn databases(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut of_each = |name, help, read: fn(&InfoValue) -> f64| {
            let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (number, value) in self.figures.databases() {
                family.encode_family(&[("db", format!("db{number}"))])?.encode_gauge(&read(value))?;
            }
            Ok(())
        };
        of_each("redis_db_keys", "Keys of each database", |value| figures::part(value, "keys"))?;
        of_each("redis_db_keys_expiring", "Keys of each database with a TTL", |value| figures::part(value, "expires"))?;
        let help = "Mean TTL of the keys of each database that have one";
        of_each("redis_db_avg_ttl_seconds", help, |value| figures::part(value, "avg_ttl") / MS_PER_S)
    }
}

/// Writes a metric without labels.
fn one(out: &mut DescriptorEncoder<'_>, metric: &Metric, value: f64) -> fmt::Result {
    match metric.kind {
        MetricKind::Gauge => {
            out.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?.encode_gauge(&value)
        }
        MetricKind::Counter => out
            .encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None),
    }
}

/// Writes a counter that has a value for each value of a label.
fn counters<'a>(
    out: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &str,
    label: &'static str,
    values: impl Iterator<Item = (&'a str, f64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (named, value) in values {
        family.encode_family(&[(label, named)])?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
    }
    Ok(())
}

fn durations(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, durations: &Durations) -> fmt::Result {
    let Durations { sum_s, count, ranges } = durations;
    out.encode_descriptor(name, help, None, MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(*sum_s, *count, ranges, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::figures::tests::has;

    #[test]
    fn info_has_every_field_that_is_a_metric_or_a_label() {
        let of_metrics = METRICS.iter().map(|metric| metric.field);
        for field in of_metrics.chain(IDENTITY.iter().copied()).chain(STATUSES.iter().map(|(field, ..)| *field)) {
            assert!(has(field), "{field}");
        }
    }

    #[test]
    fn openmetrics_is_sent_to_those_that_prefer_it() {
        use ExpositionFormat::{OpenMetrics, Prometheus};
        let cases = [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/plain", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", OpenMetrics),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.1", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=NaN", Prometheus),
        ];
        for (accept, expected) in cases {
            assert_eq!(ExpositionFormat::preferred(accept), expected, "{accept}");
        }
    }

    #[test]
    fn the_older_form_names_counters_and_information_with_their_suffixes() {
        let new = "# HELP a Some help\n# TYPE a counter\na_total 1\n# HELP b More\n# TYPE b gauge\nb 2.0\n\
                   # HELP c Who\n# TYPE c info\nc_info{x=\"y\"} 1\n# EOF\n";
        let old = "# HELP a_total Some help\n# TYPE a_total counter\na_total 1\n# HELP b More\n# TYPE b gauge\nb 2.0\n\
                   # HELP c_info Who\n# TYPE c_info gauge\nc_info{x=\"y\"} 1\n";
        assert_eq!(in_older_form(new), old);
    }
}
