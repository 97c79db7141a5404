//! Medians of several readings of servers.

use std::borrow::Borrow;
use std::fs;

use crate::Result;
pub use crate::process::{cpu_us, memory};
use crate::server::Server;

/// Returns the maximum number of files that this process may have open.
pub fn open_files_max() -> usize {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}

/// Returns the maximum resident memory of a process since [`reset_peak`], in bytes.
///
/// # Errors
/// An error when the process does not exist any more.
pub fn peak(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("the status has no VmHWM")?;
    Ok(line.trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}

/// Resets the kernel's peak of a process, and returns its present resident memory, in bytes.
///
/// # Errors
/// An error when the process does not exist any more, or the kernel keeps no peak.
pub fn reset_peak(pid: u32) -> Result<f64> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    peak(pid)
}

/// Returns the median of some values; NaN if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the median of each figure by itself.
pub fn medians<const N: usize>(rounds: &[[f64; N]]) -> [f64; N] {
    std::array::from_fn(|figure| median(rounds.iter().map(|round| round[figure])))
}

/// Measures every server once per round, in turn, and returns the readings by server.
///
/// The first server changes from round to round, so that no server always follows the same one.
///
/// # Errors
/// The first error of `measure`, with the name of the server.
pub fn interleaved<T, S: Borrow<Server>>(
    servers: &[S],
    rounds: usize,
    mut measure: impl FnMut(&Server) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut readings: Vec<Vec<T>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..servers.len() {
            let at = (round + turn) % servers.len();
            let server = servers[at].borrow();
            let reading = measure(server).map_err(|error| format!("{}: {error}", server.kind.name()))?;
            readings[at].push(reading);
        }
    }
    Ok(readings)
}

/// Figures of one row.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub per_second: f64,
    /// CPU time of the server per request.
    pub cpu_us: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
}

impl Sample {
    /// Sample of a server that lacks the command.
    pub const NONE: Sample =
        Sample { per_second: f64::NAN, cpu_us: f64::NAN, p50_ms: f64::NAN, p99_ms: f64::NAN, p999_ms: f64::NAN };

    /// Takes the median of each figure by itself.
    pub fn median(samples: &[Sample]) -> Sample {
        let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
        Sample {
            per_second: of(|sample| sample.per_second),
            cpu_us: of(|sample| sample.cpu_us),
            p50_ms: of(|sample| sample.p50_ms),
            p99_ms: of(|sample| sample.p99_ms),
            p999_ms: of(|sample| sample.p999_ms),
        }
    }
}
