//! Common parts of the stall benchmarks: a client that sends `GET` without pause, and clients that load and query.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

/// Number of requests that a loading client sends at once.
pub const BATCH: usize = 1_000;

/// Waits of other clients during some work.
pub struct Waits {
    took_s: f64,
    /// Round trips of the probe in seconds, sorted.
    probe_s: Vec<f64>,
}

impl Waits {
    /// Column titles.
    pub const HEAD: &str = "    took s   median ms  p99.9 ms  worst ms";

    /// Returns the longest wait in milliseconds.
    #[allow(dead_code, reason = "some benchmarks print them all")]
    pub fn worst_ms(&self) -> f64 {
        self.at_ms(1.0)
    }

    fn at_ms(&self, share: f64) -> f64 {
        self.probe_s[((self.probe_s.len() - 1) as f64 * share) as usize] * 1e3
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, high, worst) = (self.at_ms(0.5), self.at_ms(0.999), self.at_ms(1.0));
        write!(f, "{:>10.2}{median:>12.3}{high:>10.3}{worst:>10.3}", self.took_s)
    }
}

/// Calls `work` while a probe measures the round trips of GET.
pub fn beside(addr: SocketAddr, work: impl FnOnce()) -> Waits {
    let (done, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let probe = thread::spawn({
        let (done, begun) = (done.clone(), begun.clone());
        move || probe(addr, &done, &begun)
    });
    begun.wait();
    let started = Instant::now();
    work();
    let took_s = started.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    Waits { took_s, probe_s: probe.join().unwrap() }
}

/// Sends GET repeatedly, each time for a key in another shard, until stopped.
fn probe(addr: SocketAddr, done: &AtomicBool, begun: &Barrier) -> Vec<f64> {
    let mut stream = connect(addr);
    let mut waits = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let request = format!("GET nosuchkey{}\r\n", waits.len());
        let started = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        waits.push(started.elapsed().as_secs_f64());
        if waits.len() == 1 {
            begun.wait();
        }
    }
    waits.sort_by(f64::total_cmp);
    waits
}

/// Connects with Nagle's algorithm disabled.
pub fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends one request per key, a batch at a time; each reply is `reply_len` bytes long.
pub fn load(addr: SocketAddr, keys: Range<usize>, reply_len: usize, request: impl Fn(usize) -> String) {
    let mut stream = connect(addr);
    for first in keys.clone().step_by(BATCH) {
        let last = keys.end.min(first + BATCH);
        let batch: String = (first..last).map(&request).collect();
        stream.write_all(batch.as_bytes()).unwrap();
        stream.read_exact(&mut vec![0; reply_len * (last - first)]).unwrap();
    }
}

/// Sends one command on a connection of its own and reads the whole reply, whatever its size; returns the first line.
pub fn ask(addr: SocketAddr, command: &str) -> String {
    let mut stream = BufReader::with_capacity(1 << 20, connect(addr));
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    read_reply(&mut stream)
}

fn read_reply(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    // Null has a length of -1 and nothing after it.
    match (line.as_bytes()[0], line[1..].trim_end().parse::<usize>()) {
        (b'$', Ok(len)) => stream.read_exact(&mut vec![0; len + 2]).unwrap(),
        (b'*', Ok(len)) => (0..len).for_each(|_| drop(read_reply(stream))),
        _ => {}
    }
    line
}
