//! Resident memory of a server with a limit, compared with redis-server.
//!
//! ```text
//! cargo bench --bench memory [-- MEGABYTES]
//! ```
//!
//! Each policy gets a server of its own with `maxmemory 100mb`, and one load after the other, so that every load finds
//! what the one before has left: values of about 10 bytes to 1 MB, four fifths of the commands `SET` with a TTL and one
//! fifth `APPEND` of an eighth to the key just set, on random keys of which a quarter fits. So many megabytes are
//! written for each size. Printed is the largest resident set seen during each load, as a multiple of `maxmemory`, as a
//! Markdown table.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const POLICIES: [&str; 7] =
    ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"];
/// Shortest and longest value of each load, in bytes; the last load repeats the first one after all others.
const SIZES: [(usize, usize); 8] = [
    (5, 15),
    (25, 100),
    (250, 1_000),
    (2_500, 10_000),
    (17_000, 60_000),
    (250_000, 1_000_000),
    (25, 100),
    (17_000, 60_000),
];
const LIMIT: usize = 100 << 20;
/// Approximate memory of a key besides its value, in bytes.
const KEY_LEN: usize = 60;
const PAGE_LEN: usize = 4096;
/// Number of bytes sent before replies are read.
const PORTION: usize = 1 << 20;
/// Maximum wait for the first answer of an empty server.
const START_MAX: Duration = Duration::from_secs(20);

fn main() {
    let megabytes = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(400);
    let heads: Vec<String> = SIZES.iter().map(|(least, most)| format!("{least} to {most} B")).collect();
    println!("| policy | server | {} |", heads.join(" | "));
    println!("|---|---|{}", "---|".repeat(SIZES.len()));
    for policy in POLICIES {
        for program in ["redis-server", env!("CARGO_BIN_EXE_keylatch")] {
            let mut peer = Peer::start(program, policy);
            let peaks: Vec<String> = SIZES
                .iter()
                .map(|sizes| format!("{:.2}", peer.load(*sizes, megabytes << 20) as f64 / LIMIT as f64))
                .collect();
            let name = if program == "redis-server" { "Redis" } else { "keylatch" };
            println!("| {policy} | {name} | {} |", peaks.join(" | "));
        }
    }
}

/// Server with a connection to it, killed when it is dropped.
struct Peer {
    child: Child,
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    dice: u64,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn start(program: &str, policy: &str) -> Self {
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap().port();
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
            .args(["--maxmemory", &LIMIT.to_string(), "--maxmemory-policy", policy])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (addr, begun) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now());
        let stream = loop {
            match TcpStream::connect(addr) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < START_MAX, "{program} does not start: {error}"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let replies = BufReader::new(stream.try_clone().unwrap());
        Peer { child, stream, replies, dice: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Writes `bytes` bytes in values of these sizes; returns the largest resident set, in bytes.
    fn load(&mut self, (least, most): (usize, usize), bytes: usize) -> usize {
        let mean = (least + most) / 2 + KEY_LEN;
        let keys = 4 * LIMIT / mean;
        let value = vec![b'x'; most];
        let (mut left, mut peak) = (bytes / mean, 0);
        while left > 0 {
            let calls = (PORTION / mean).clamp(1, left);
            let (mut request, mut key) = (Vec::new(), String::new());
            for _ in 0..calls {
                let len = least + self.roll(most - least + 1);
                let ttl = (10_000 + self.roll(1_000_000)).to_string();
                match self.roll(5) {
                    // To the key set before: a key created by APPEND has no TTL, and would never be evicted.
                    0 if !key.is_empty() => push(&mut request, &[b"APPEND", key.as_bytes(), &value[..1 + len / 8]]),
                    _ => {
                        key = format!("key:{least}:{}", self.roll(keys));
                        push(&mut request, &[b"SET", key.as_bytes(), &value[..len], b"EX", ttl.as_bytes()]);
                    }
                }
            }
            self.stream.write_all(&request).unwrap();
            (0..calls).for_each(|_| self.expect_success());
            peak = peak.max(self.resident());
            left -= calls;
        }
        peak
    }

    fn expect_success(&mut self) {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        assert!(line.starts_with(['+', ':']), "{line}");
    }

    fn resident(&self) -> usize {
        let mut statm = String::new();
        let path = format!("/proc/{}/statm", self.child.id());
        std::fs::File::open(path).unwrap().read_to_string(&mut statm).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_LEN
    }

    fn roll(&mut self, below: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 16) as usize % below
    }
}

fn push(request: &mut Vec<u8>, args: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}
