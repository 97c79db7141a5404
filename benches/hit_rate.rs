//! Hit rate of a cache with too little memory, compared with redis-server.
//!
//! ```text
//! cargo bench --bench hit_rate [-- REQUESTS]
//! ```
//!
//! Clients of a cache ask for a key and, when it is missing, fetch the value elsewhere and set it. The keys follow a
//! Zipf distribution, alone or interrupted by scans over keys that are never asked for again. Redis gets a fixed limit;
//! keylatch gets one that lets it keep as many keys as Redis kept, which compares the eviction policy, and then the
//! same limit, which compares the whole. Both get the same requests at the same depth, one connection each. Printed is
//! the share of Zipf requests that were answered, as a Markdown table.

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

/// Number of different keys.
const UNIVERSE: usize = 200_000;
/// Exponent of the Zipf distribution.
const SKEW: f64 = 0.9;
/// Memory that Redis gets beyond its empty size, in bytes.
const DATA_LEN: usize = 2 << 20;
/// Number of requests sent at once.
const DEPTH: usize = 50;
/// Number of Zipf requests between two scans, and number of keys that a scan requests.
const SCAN_EVERY: usize = 20_000;
const SCAN_LEN: usize = 10_000;
/// Length of a value, in bytes.
const VALUE_LEN: usize = 32;

/// Maximum wait for the first answer of an empty server.
const START_MAX: Duration = Duration::from_secs(20);

fn main() {
    let requests = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_200_000);
    println!(
        "| trace | policy | redis, keys | redis | keylatch, as many keys | keylatch, keys | keylatch, same memory |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (trace, scans) in [("Zipf", false), ("Zipf and scans", true)] {
        for policy in ["allkeys-lru", "allkeys-lfu"] {
            let redis = measure("redis-server", policy, requests, scans, |peer| peer.used() + DATA_LEN);
            let keylatch = env!("CARGO_BIN_EXE_keylatch");
            let even = measure(keylatch, policy, requests, scans, |peer| peer.limit_for(redis.keys));
            let whole = measure(keylatch, policy, requests, scans, |_| redis.limit);
            println!(
                "| {trace} | {policy} | {} | {:.2} % | {:.2} % ({} keys) | {} | {:.2} % |",
                redis.keys, redis.hit_rate, even.hit_rate, even.keys, whole.keys, whole.hit_rate
            );
        }
    }
}

/// Result of a trace.
struct Outcome {
    limit: usize,
    keys: usize,
    /// Hit rate in per cent.
    hit_rate: f64,
}

/// Runs a trace; its first third fills the cache and is not counted.
fn measure(
    program: &str,
    policy: &str,
    requests: usize,
    scans: bool,
    limit: impl FnOnce(&mut Peer) -> usize,
) -> Outcome {
    let mut peer = Peer::start(program);
    let limit = limit(&mut peer);
    peer.ask(&["CONFIG", "SET", "maxmemory-policy", policy]);
    peer.ask(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    let (zipf, mut dice) = (Zipf::new(), Dice(0x9E37_79B9_7F4A_7C15));
    let (mut asked, mut hits, mut scanned) = (0, 0, 0);
    for batch in 0..requests / DEPTH {
        let keys: Vec<String> = (0..DEPTH).map(|_| format!("key:{:012}", zipf.roll(&mut dice))).collect();
        let found = peer.use_keys(&keys);
        if batch * DEPTH >= requests / 3 {
            (asked, hits) = (asked + DEPTH, hits + found);
        }
        if scans && (batch * DEPTH).is_multiple_of(SCAN_EVERY) {
            for _ in 0..SCAN_LEN / DEPTH {
                let keys: Vec<String> = (0..DEPTH).map(|at| format!("scan:{:011}", scanned + at)).collect();
                peer.use_keys(&keys);
                scanned += DEPTH;
            }
        }
    }
    let keys = peer.ask(&["DBSIZE"]).trim_start_matches(':').parse().unwrap();
    Outcome { limit, keys, hit_rate: 100.0 * hits as f64 / asked as f64 }
}

/// Zipf distribution over numbers.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Self {
        let mut sum = 0.0;
        let sums = (1..=UNIVERSE).map(|rank| {
            sum += (rank as f64).powf(-SKEW);
            sum
        });
        Zipf(sums.collect())
    }

    fn roll(&self, dice: &mut Dice) -> usize {
        let at = dice.roll() as f64 / u64::MAX as f64 * self.0.last().unwrap();
        self.0.partition_point(|sum| *sum < at)
    }
}

/// Pseudo-random generator, the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Running server with a connection to it. The server ends when this is dropped.
struct Peer {
    process: Child,
    stream: BufReader<TcpStream>,
    _directory: tempfile::TempDir,
}

impl Peer {
    fn start(program: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (addr, started) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now());
        let stream = loop {
            match TcpStream::connect(addr) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < START_MAX, "{program}: {error}"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        stream.set_nodelay(true).unwrap();
        Peer { process, stream: BufReader::new(stream), _directory: directory }
    }

    /// Requests keys and sets the missing ones; returns the number of hits.
    fn use_keys(&mut self, keys: &[String]) -> usize {
        self.send(keys.iter().map(|key| vec!["GET", key]));
        let missing: Vec<&String> = keys.iter().filter(|_| self.reply() == "$-1").collect();
        let value = "v".repeat(VALUE_LEN);
        self.send(missing.iter().map(|key| vec!["SET", key, &value]));
        missing.iter().for_each(|_| assert_eq!(self.reply(), "+OK"));
        keys.len() - missing.len()
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.send([words.to_vec()]);
        self.reply()
    }

    /// Returns the memory that the server reports as used.
    fn used(&mut self) -> usize {
        let text = self.ask(&["INFO", "memory"]);
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.unwrap().parse().unwrap()
    }

    /// Finds the memory limit for this many keys by setting them once.
    fn limit_for(&mut self, keys: usize) -> usize {
        let keys: Vec<String> = (0..keys).map(|number| format!("fill:{number:011}")).collect();
        for portion in keys.chunks(DEPTH) {
            self.use_keys(portion);
        }
        let used = self.used();
        self.ask(&["FLUSHALL"]);
        used
    }

    fn send<'a>(&mut self, commands: impl IntoIterator<Item = Vec<&'a str>>) {
        let mut bytes = Vec::new();
        for words in commands {
            write!(bytes, "*{}\r\n", words.len()).unwrap();
            words.iter().for_each(|word| write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap());
        }
        self.stream.get_mut().write_all(&bytes).unwrap();
    }

    /// Reads a reply: a line, or the bytes of a string.
    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        match line.strip_prefix('$').map(str::parse::<usize>) {
            Some(Ok(len)) => {
                let mut bytes = vec![0; len + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes[..len].to_vec()).unwrap()
            }
            _ => line,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
