//! The whole server over loopback TCP, in one process with its load: a comparison of runtime layouts.
//!
//! ```text
//! cargo bench --bench end_to_end
//! ```
//!
//! Fifty connections each send a batch of requests and then read the replies, in closed loop, from one
//! thread. A cell shows the median of interleaved rounds: requests per second, and CPU time of the
//! server's threads per request from the kernel's own accounting, which hardly depends on what else the
//! machine does. Takes about two minutes.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use keylatch::Server;
use keylatch::internals::worker;
use tokio::runtime::{Builder, Handle, Runtime};

mod allocator;

const CONNECTIONS: usize = 50;
const KEYS: u64 = 100_000;
const ROUNDS: usize = 5;
/// Requests per round and connection.
const REQUESTS: usize = 4_096;

/// Assignment of the server to threads, whose names begin with `threads`.
struct Layout {
    name: &'static str,
    threads: &'static str,
    server: Server,
}

#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    cpu_us: f64,
}

fn main() {
    let acceptor = Builder::new_multi_thread().worker_threads(1).thread_name("acceptor").enable_all().build().unwrap();
    let (mt1, mt2) = (multi_thread(1, "pool-of-1"), multi_thread(2, "pool-of-2"));
    let layouts = [
        layout(&acceptor, "1 worker runtime", "worker-", worker::start(1).unwrap()),
        layout(&acceptor, "2 worker runtimes", "worker-", worker::start(2).unwrap()),
        layout(&acceptor, "multi-thread, 1", "pool-of-1", vec![mt1.handle().clone()]),
        layout(&acceptor, "multi-thread, 2", "pool-of-2", vec![mt2.handle().clone()]),
    ];
    println!(
        "{:<6}{:>4}  {:<20}{:>12}{:>7}{:>12}{:>7}",
        "test", "P", "layout", "req/s", "ratio", "cpu us/req", "ratio"
    );
    for test in ["SET", "GET"] {
        for depth in [1, 16, 64] {
            let mut samples: Vec<Vec<Sample>> = layouts.iter().map(|_| Vec::new()).collect();
            for _ in 0..ROUNDS {
                for (layout, samples) in layouts.iter().zip(&mut samples) {
                    samples.push(run(layout, test, depth));
                }
            }
            report(test, depth, &layouts, &samples);
        }
    }
}

fn multi_thread(threads: usize, name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build().unwrap()
}

fn layout(acceptor: &Runtime, name: &'static str, threads: &'static str, workers: Vec<Handle>) -> Layout {
    let server = acceptor.block_on(Server::builder().workers(workers).start()).unwrap();
    Layout { name, threads, server }
}

fn report(test: &str, depth: usize, layouts: &[Layout], samples: &[Vec<Sample>]) {
    let median = |samples: &[Sample], of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians: Vec<_> =
        samples.iter().map(|samples| (median(samples, |s| s.per_second), median(samples, |s| s.cpu_us))).collect();
    for (layout, (per_second, cpu_us)) in layouts.iter().zip(&medians) {
        println!(
            "{test:<6}{depth:>4}  {:<20}{per_second:>12.0}{:>7.2}{cpu_us:>12.3}{:>7.2}",
            layout.name,
            per_second / medians[0].0,
            cpu_us / medians[0].1
        );
    }
}

/// Sends `REQUESTS` requests on every connection, `depth` at a time.
fn run(layout: &Layout, test: &str, depth: usize) -> Sample {
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(layout.server.addr())).collect();
    let rounds = REQUESTS.div_ceil(depth) / if depth == 1 { 8 } else { 1 };
    let mut random = 1u64;
    let batches: Vec<String> = (0..CONNECTIONS).map(|_| batch(test, depth, &mut random)).collect();
    // GET of a key that was SET by the test before it: a bulk of three bytes; SET: +OK.
    let reply_len = depth * if test == "SET" { 5 } else { 9 };
    let mut reply = vec![0; reply_len];
    let (started, cpu) = (Instant::now(), cpu_seconds(layout.threads));
    for _ in 0..rounds {
        for (connection, batch) in connections.iter_mut().zip(&batches) {
            connection.write_all(batch.as_bytes()).unwrap();
        }
        for connection in &mut connections {
            connection.read_exact(&mut reply).unwrap();
        }
    }
    let requests = (rounds * CONNECTIONS * depth) as f64;
    Sample {
        per_second: requests / started.elapsed().as_secs_f64(),
        cpu_us: (cpu_seconds(layout.threads) - cpu) * 1e6 / requests,
    }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Encodes requests for random keys; the same seed gives GET the keys that SET wrote.
fn batch(test: &str, depth: usize, random: &mut u64) -> String {
    let mut text = String::new();
    for _ in 0..depth {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (*random >> 33) % KEYS;
        match test {
            "SET" => write!(text, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$3\r\nxxx\r\n").unwrap(),
            _ => write!(text, "*2\r\n$3\r\nGET\r\n$16\r\nkey:{key:012}\r\n").unwrap(),
        }
    }
    text
}

/// Sums the CPU time of this process' threads whose names begin with `prefix`, in seconds.
fn cpu_seconds(prefix: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = tasks.filter_map(|task| {
        let path = task.ok()?.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let schedstat = std::fs::read_to_string(path.join("schedstat")).ok()?;
        name.starts_with(prefix).then(|| schedstat.split_whitespace().next()?.parse::<f64>().ok()).flatten()
    });
    nanoseconds.sum::<f64>() / 1e9
}
