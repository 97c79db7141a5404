//! keylatch beside redis-server: the same load on both in one run, interleaved.
//!
//! ```text
//! cargo bench --bench versus [-- ROUNDS]
//! ```
//!
//! Needs `redis-server` and `redis-benchmark` on the PATH. Both servers run with their defaults (without snapshots) and are
//! loaded in turn by `redis-benchmark` with 50 clients over 100,000 keys. A row shows medians over the rounds: requests
//! per second, CPU time of the server process per request from the kernel's accounting, 50th and 99th percentile of the
//! latency, and the ratios to redis-server. On a shared machine only the ratios mean something, CPU time most.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Commands with the pipeline depths they are measured at.
const TESTS: &[(&str, &[usize])] = &[
    ("SET key:__rand_int__ xxx", &[1, 16, 64]),
    ("GET key:__rand_int__", &[1, 16, 64]),
    ("INCR counter:__rand_int__", &[1, 64]),
    ("SETNX key:__rand_int__ xxx", &[1, 64]),
    ("GETSET key:__rand_int__ xxx", &[1, 64]),
    ("DEL key:__rand_int__", &[1, 64]),
    ("SET key:__rand_int__ xxx PX 100000", &[1, 64]),
    ("MSET k0:__rand_int__ x k1:__rand_int__ x k2:__rand_int__ x k3:__rand_int__ x k4:__rand_int__ x", &[1, 64]),
    ("MGET k0:__rand_int__ k1:__rand_int__ k2:__rand_int__ k3:__rand_int__ k4:__rand_int__", &[1, 64]),
];

/// Runs one server; it is stopped when this is dropped.
struct Peer {
    name: &'static str,
    port: u16,
    process: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    cpu_us: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(5);
    let peers = [
        start("redis", "redis-server", &["--save", "", "--appendonly", "no"]),
        start("keylatch", env!("CARGO_BIN_EXE_keylatch"), &[]),
    ];
    println!(
        "| {:<34} | {:>2} | {:<8} | {:>9} | {:>5} | {:>10} | {:>5} | {:>6} | {:>6} |",
        "test", "P", "server", "req/s", "ratio", "cpu us/req", "ratio", "p50 ms", "p99 ms"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (test, depths) in TESTS {
        for depth in *depths {
            let mut samples = peers.each_ref().map(|_| Vec::new());
            for _ in 0..rounds {
                for (peer, samples) in peers.iter().zip(&mut samples) {
                    samples.push(load(peer, test, *depth));
                }
            }
            report(test, *depth, &peers, &samples);
        }
    }
}

fn start(name: &'static str, program: &str, options: &[&str]) -> Peer {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]).args(options);
    let process = command.stdout(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::yield_now();
    }
    Peer { name, port, process }
}

fn load(peer: &Peer, test: &str, depth: usize) -> Sample {
    let requests = 200_000 * depth.min(8);
    let cpu = cpu_seconds(peer.process.id());
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &peer.port.to_string(), "-n", &requests.to_string(), "-P", &depth.to_string()]);
    let output = command.args(["-c", "50", "-r", "100000", "--csv"]).args(test.split(' ')).output().unwrap();
    let cpu_us = (cpu_seconds(peer.process.id()) - cpu) * 1e6 / requests as f64;
    let text = String::from_utf8(output.stdout).unwrap();
    // "test","rps","avg","min","p50","p95","p99","max", of which the test may hold commas itself.
    let row: Vec<f64> =
        text.lines().last().unwrap().rsplit(',').map_while(|v| v.trim_matches('"').parse().ok()).collect();
    Sample { per_second: row[6], cpu_us, p50_ms: row[3], p99_ms: row[1] }
}

fn report(test: &str, depth: usize, peers: &[Peer], samples: &[Vec<Sample>]) {
    let medians: Vec<Sample> = samples
        .iter()
        .map(|samples| {
            let median = |of: fn(&Sample) -> f64| {
                let mut values: Vec<f64> = samples.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            Sample {
                per_second: median(|s| s.per_second),
                cpu_us: median(|s| s.cpu_us),
                p50_ms: median(|s| s.p50_ms),
                p99_ms: median(|s| s.p99_ms),
            }
        })
        .collect();
    let name: String = test.replace("__rand_int__", "N").chars().take(34).collect();
    for (peer, median) in peers.iter().zip(&medians) {
        println!(
            "| {name:<34} | {depth:>2} | {:<8} | {:>9.0} | {:>5.2} | {:>10.3} | {:>5.2} | {:>6.3} | {:>6.3} |",
            peer.name,
            median.per_second,
            median.per_second / medians[0].per_second,
            median.cpu_us,
            median.cpu_us / medians[0].cpu_us,
            median.p50_ms,
            median.p99_ms
        );
    }
}

/// Returns the CPU time that all threads of a process have used, in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanoseconds = tasks.filter_map(|task| {
        let schedstat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}
