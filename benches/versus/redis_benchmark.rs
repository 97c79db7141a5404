//! The other load generator: redis-benchmark, which is widely available and for which the goals were defined.

use std::process::Command;

use crate::Result;
use crate::measure::Sample;
use crate::server::Server;
use crate::workload::Workload;

/// Connections and keys, as in the goals.
pub const CLIENTS: usize = 50;
pub const KEYS: u64 = 100_000;

/// Loads a server with `requests` requests; returns the measurements of redis-benchmark, and the server's CPU time.
///
/// # Errors
/// An error when redis-benchmark is missing or fails.
pub fn load(server: &Server, workload: &Workload, depth: usize, requests: usize) -> Result<Sample> {
    load_among(server, workload, depth, requests, KEYS)
}

/// Loads a server like [`load`], with random numbers below `keys`.
///
/// # Errors
/// The errors of [`load`].
pub fn load_among(server: &Server, workload: &Workload, depth: usize, requests: usize, keys: u64) -> Result<Sample> {
    let with_key = |step: String, (name, prefix)| step.replace(name, &format!("{prefix}:__rand_int__"));
    let words = [("{key}", "key"), ("{counter}", "ctr"), ("{missing}", "mis")];
    let words = words.into_iter().fold(workload.steps[0].replace("{value}", "xxx"), with_key);
    let mut command = Command::new("redis-benchmark");
    let (host, port) = (server.addr.ip().to_string(), server.addr.port().to_string());
    command.args(["-h", &host, "-p", &port, "-n", &requests.to_string()]);
    command.args(["-P", &depth.to_string(), "-c", &CLIENTS.to_string(), "-r", &keys.to_string(), "--csv"]);
    let cpu = server.cpu_us()?;
    let output = command.args(words.split(' ')).output().map_err(|error| format!("redis-benchmark: {error}"))?;
    let cpu_us = (server.cpu_us()? - cpu) / requests as f64;
    let text = String::from_utf8_lossy(&output.stdout);
    // "test","rps","avg","min","p50","p95","p99","max"; the test may contain commas itself.
    let last = text.lines().last().unwrap_or_default();
    let row: Vec<f64> = last.rsplit(',').map_while(|value| value.trim_matches('"').parse().ok()).collect();
    match row[..] {
        [_, p99_ms, _, p50_ms, _, _, per_second] => {
            Ok(Sample { per_second, cpu_us, p50_ms, p99_ms, p999_ms: f64::NAN })
        }
        _ => Err(format!("redis-benchmark printed {last:?} {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
