//! `--stat`: prints a line with statistics of the server in each interval.

use std::time::Duration;

use crate::app::redis_cli::output::{pause, say};
use crate::app::redis_cli::session::CliSession;
use crate::resp::Frame;

/// The interval without `-i`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of lines after which the titles are printed again.
const LINES_PER_TITLE: u64 = 20;

/// Number of databases whose keys are counted.
const DATABASES: u32 = 20;

const TITLE: &str = "\
------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          
";

/// Prints lines until the program is ended.
///
/// # Errors
/// If the connection or standard output fails.
pub(super) fn run(session: &mut CliSession) -> Result<bool, String> {
    let interval = session.options.interval;
    let interval = if interval == Duration::ZERO { INTERVAL } else { interval };
    let (mut lines, mut before) = (0, 0);
    loop {
        let info = match session.ask(&[b"INFO".to_vec()])? {
            Frame::Error(text) => return Err(format!("ERROR: {}", String::from_utf8_lossy(&text))),
            reply => String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned(),
        };
        if lines % LINES_PER_TITLE == 0 {
            say(TITLE)?;
        }
        lines += 1;
        let requests = number(&info, "total_commands_processed");
        say(&line(&info, requests, if before == 0 { 0 } else { requests - before }))?;
        before = requests;
        pause(interval);
    }
}

fn line(info: &str, requests: i64, more: i64) -> String {
    let keys: i64 = (0..DATABASES).map(|database| keys(info, database)).sum();
    let memory = human(number(info, "used_memory"));
    let requests = format!("{requests} (+{more})");
    let [clients, blocked, connections] =
        ["connected_clients", "blocked_clients", "total_connections_received"].map(|name| number(info, name));
    format!("{keys:<11}{memory:<8} {clients:<8}{blocked:<8}{requests:<19} {connections:<12}{}\n", child(info))
}

/// Returns the background work of the server.
fn child(info: &str) -> &'static str {
    let is = |name| number(info, name) != 0;
    match (is("loading"), is("rdb_bgsave_in_progress"), is("aof_rewrite_in_progress")) {
        (true, ..) => "LOAD",
        (_, true, true) => "SAVE+AOF",
        (_, true, _) => "SAVE",
        (_, _, true) => "AOF",
        _ => "",
    }
}

/// Returns a field of INFO; 0 if it is not there.
fn number(info: &str, name: &str) -> i64 {
    let values = info.lines().filter_map(|line| line.split_once(':'));
    values.into_iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Returns the number of keys of a database, from `db0:keys=5,expires=0`.
fn keys(info: &str, database: u32) -> i64 {
    let prefix = format!("db{database}:keys=");
    let counts = info.lines().filter_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    counts.filter_map(|count| count.parse::<i64>().ok()).sum()
}

/// Formats a number of bytes.
fn human(bytes: i64) -> String {
    let scaled = bytes as f64;
    match bytes {
        ..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", scaled / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", scaled / 1_048_576.0),
        _ => format!("{:.2}G", scaled / 1_073_741_824.0),
    }
}
