//! LATENCY: the latency monitor and the latency histograms of commands.

use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::observe::LockStats;
use crate::observe::histogram::Counts;
use crate::observe::latency::{COMMAND, EXPIRE_CYCLE, FAST_COMMAND, Series};
use crate::spec::{ADMIN, CommandSpec, Flags, Group, LOADING, NO_SCRIPT, STALE, string};

const FLAGS: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;
const REPORT_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::container("LATENCY", Group::Server, &[
        Command::new("DOCTOR", doctor, FLAGS, Group::Server).tips(REPORT_TIPS)
            .docs("2.8.13", "O(1)", "Explains the latency spikes in plain text."),
        Command::new("GRAPH", graph, FLAGS, Group::Server).args(&[string("event")]).tips(REPORT_TIPS)
            .docs("2.8.13", "O(1)", "Draws a graph of the latency of an event over time."),
        Command::new("HISTOGRAM", histogram, FLAGS, Group::Server)
            .args(&[string("command").optional().multiple()]).tips(REPORT_TIPS)
            .docs("7.0.0", "O(N) where N is the number of commands with latency information being retrieved.", "Returns the latency histograms of commands."),
        Command::new("HISTORY", history, FLAGS, Group::Server).args(&[string("event")]).tips(REPORT_TIPS)
            .docs("2.8.13", "O(1)", "Returns the recorded latencies of an event with their times."),
        Command::new("LATEST", latest, FLAGS, Group::Server).tips(REPORT_TIPS)
            .docs("2.8.13", "O(1)", "Returns the latest latency of every event."),
        Command::new("RESET", reset, FLAGS, Group::Server)
            .args(&[string("event").optional().multiple()])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .docs("2.8.13", "O(1)", "Deletes the recorded latencies."),
    ])
    .help_since("2.8.13")
    .docs("2.8.13", "Depends on subcommand.", "Contains the latency monitoring subcommands."),
];

fn latest(call: &mut Call<'_>) -> Result<()> {
    let events = call.namespace.observed.latency.all();
    call.reply.array(events.len());
    for (event, series) in events {
        let last = series.samples.last();
        call.reply.array(4);
        call.reply.bulk(event.as_bytes());
        call.reply.int(last.map_or(0, |sample| sample.unix_s));
        call.reply.int(last.map_or(0, |sample| sample.latency_ms as i64));
        call.reply.int(series.max_ms as i64);
    }
    Ok(())
}

fn history(call: &mut Call<'_>) -> Result<()> {
    let series = call.namespace.observed.latency.series(call.args.bytes()?);
    let samples = series.map(|(_, series)| series.samples).unwrap_or_default();
    call.reply.array(samples.len());
    for sample in samples {
        call.reply.array(2);
        call.reply.int(sample.unix_s);
        call.reply.int(sample.latency_ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    let events = &call.namespace.observed.latency;
    let mut count = 0;
    if call.args.left() == 0 {
        count = events.clear(None);
    }
    while let Some(event) = call.args.next_arg() {
        count += events.clear(Some(event));
    }
    call.reply.int(count as i64);
    Ok(())
}

/// The histograms of locks: the waits of clients for locks that they acquired, and the times that locks were held, in
/// microseconds.
const LOCK_HISTOGRAMS: [LockHistogram; 2] = [("lock-wait", LockStats::waits), ("lock-hold", LockStats::holds)];

/// A histogram of locks: its name, and the function that reads it.
type LockHistogram = (&'static str, fn(&LockStats) -> Counts);

/// A histogram to be shown: its name, the number of durations, and their distribution in microseconds.
type Shown<'a> = (&'a str, u64, Vec<(u64, u64)>);

/// The power of two, in nanoseconds, at which the buckets of command durations begin.
const FIRST_STEP_NS: u32 = 10;

/// Replies with the histograms of the commands named, their subcommands included, or of all; unknown names are skipped.
/// The names of lock histograms are not names of commands.
fn histogram(call: &mut Call<'_>) -> Result<()> {
    let mut commands: Vec<&CommandSpec> = Vec::new();
    let (is_of_all, mut locks) = (call.args.left() == 0, Vec::new());
    if call.args.left() == 0 {
        commands.extend(call.namespace.commands.every());
    }
    while let Some(name) = call.args.next_arg() {
        locks.extend(LOCK_HISTOGRAMS.into_iter().filter(|(lock, _)| is_word(name, lock)));
        if let Some(command) = call.names().find_full(name) {
            commands.push(command);
            commands.extend(&command.subcommands);
        }
    }
    let command_stats = &call.namespace.observed.command_stats;
    let tracked = commands.into_iter().filter_map(|command| Some((command, command_stats.durations(command)?)));
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for (command, durations) in tracked {
        let steps = durations.steps(FIRST_STEP_NS).into_iter().map(|(ns, count)| (ns / 1000, count)).collect();
        shown.push((command.shown_name(), durations.total(), steps));
    }
    if is_of_all {
        locks.extend(LOCK_HISTOGRAMS);
    }
    for (name, durations) in locks {
        let durations = durations(&call.namespace.observed.locks);
        shown.push((name, durations.total(), durations.steps(0)));
    }
    shown.retain(|(_, total, _)| *total > 0);
    call.reply.map(shown.len());
    for (name, total, steps) in shown {
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.int(total as i64);
        call.reply.bulk(b"histogram_usec");
        call.reply.map(steps.len());
        for (us, count) in steps {
            call.reply.int(us as i64);
            call.reply.int(count as i64);
        }
    }
    Ok(())
}

/// The width of a graph, in characters.
const COLUMNS: usize = 80;
/// The height of a graph's curve, in lines.
const ROWS: u64 = 4;

fn graph(call: &mut Call<'_>) -> Result<()> {
    let event = call.args.bytes()?;
    let Some((name, series)) = call.namespace.observed.latency.series(event) else {
        let text = [b"No samples available for event '", event, b"'"].concat();
        return Err(Error::other(String::from_utf8_lossy(&text).into_owned()));
    };
    let (low, high) = series.range_ms();
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.max_ms,
        "-".repeat(COLUMNS)
    );
    let now_s = call.namespace.clock.wall_us().div_euclid(1_000_000);
    for portion in series.samples.chunks(COLUMNS) {
        let columns = portion.iter().map(|sample| (sample.latency_ms - low, age(now_s - sample.unix_s)));
        draw(&mut text, &columns.collect::<Vec<_>>(), high - low);
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Draws a column for each value, filled from below, with its label under it, from top to bottom.
fn draw(text: &mut String, columns: &[(u64, String)], highest: u64) {
    const SHADES: [char; 3] = ['_', 'o', '#'];
    let shades = SHADES.len() as u64;
    // The height of a value in shades, three per line.
    let height = |value: u64| value * (shades * ROWS - 1) / highest.max(1) + 1;
    for row in (0..ROWS).rev() {
        let shade = |value: u64| match height(value).saturating_sub(row * shades) {
            0 => ' ',
            above if above > shades => '|',
            above => SHADES[above as usize - 1],
        };
        let line: String = columns.iter().map(|(value, _)| shade(*value)).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    for row in 0..columns.iter().map(|(_, label)| label.len()).max().unwrap_or(0) {
        let letter = |label: &String| label.chars().nth(row).unwrap_or(' ');
        let line: String = columns.iter().map(|(_, label)| letter(label)).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Formats a duration in its largest unit.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(call: &mut Call<'_>) -> Result<()> {
    let events = call.namespace.observed.latency.all();
    let mut text = String::new();
    if call.config.latency_monitor_threshold == 0 {
        text.push_str(
            "Latency monitoring is off: latency-monitor-threshold is 0. Set it to a number of milliseconds, as with \
             CONFIG SET latency-monitor-threshold 100, and repeat the command after a latency spike.\n",
        );
    } else if events.is_empty() {
        text.push_str("No event has reached latency-monitor-threshold since it was set or the events were reset.\n");
    }
    for (number, (event, series)) in (1..).zip(&events) {
        text.push_str(&diagnosis(number, event, series));
    }
    text.extend(events.iter().filter_map(|(event, _)| advice(event)).map(|advice| format!("- {advice}\n")));
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn diagnosis(number: usize, event: &str, series: &Series) -> String {
    let (mean, deviation) = series.mean_ms();
    let count = series.samples.len();
    let span = series.samples.last().map_or(0, |last| last.unix_s - series.samples[0].unix_s);
    let worst = series.max_ms;
    format!(
        "{number}. {event}: in {count} seconds out of the last {}, mean {mean} ms (mean deviation {deviation} \
         ms), worst {worst} ms.\n",
        span + 1
    )
}

fn advice(event: &str) -> Option<&'static str> {
    match event {
        COMMAND => Some("SLOWLOG GET shows which calls were slow; common causes are KEYS and large MGETs."),
        FAST_COMMAND => Some("Fast commands were slow: the machine is overloaded or swapping."),
        EXPIRE_CYCLE => Some("Many keys expire at the same time; spread their TTLs."),
        event if event.starts_with("aof-") => {
            Some("The disk is slow; with appendfsync everysec no client waits for it, and with no nothing does.")
        }
        _ => None,
    }
}
