//! How long other clients wait while one asks for everything: KEYS, SCAN with a huge COUNT, and FLUSHALL on ten million
//! keys, and while those keys are loaded.
//!
//! ```text
//! cargo bench --bench stall [-- KEYS]
//! ```
//!
//! The server runs on one worker thread, so nothing can be served beside the command unless it makes room. A probe sends
//! `GET` on its own connection without pause; printed are its median, 99.9th percentile and worst round trip in
//! milliseconds, and beside them the worst one of an idle server, which is the machine's own noise.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keylatch::{Server, worker};

const BATCH: usize = 1_000;

fn main() {
    let keys = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(10_000_000);
    let acceptor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = acceptor.block_on(Server::builder().workers(worker::start(1).unwrap()).start()).unwrap();
    let addr = server.addr();
    println!("{:<28}{:>10}{:>12}{:>10}{:>10}", format!("{keys} keys"), "took s", "median ms", "p99.9 ms", "worst ms");
    beside(addr, "idle", || thread::park_timeout(Duration::from_secs(2)));
    beside(addr, "load", || load(addr, keys));
    beside(addr, "KEYS nosuchkey*", || ask(addr, "KEYS nosuchkey*"));
    beside(addr, "KEYS *", || ask(addr, "KEYS *"));
    beside(addr, "SCAN 0 COUNT 100000000", || ask(addr, "SCAN 0 COUNT 100000000"));
    beside(addr, "FLUSHALL and a second after", || {
        ask(addr, "FLUSHALL");
        thread::park_timeout(Duration::from_secs(1)); // the memory is freed beside the next requests
    });
}

/// Does `work` while a probe measures how long a GET takes, and prints the outcome.
fn beside(addr: SocketAddr, name: &str, work: impl FnOnce()) {
    let done = Arc::new(AtomicBool::new(false));
    let probe = thread::spawn({
        let done = done.clone();
        move || probe(addr, &done)
    });
    let started = Instant::now();
    work();
    let took = started.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    let waits = probe.join().unwrap();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] * 1e3;
    println!("{name:<28}{took:>10.2}{:>12.3}{:>10.3}{:>10.3}", at(0.5), at(0.999), at(1.0));
}

/// Sends GET again and again until told to stop; returns the round trips in seconds, sorted.
fn probe(addr: SocketAddr, done: &AtomicBool) -> Vec<f64> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut waits = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let started = Instant::now();
        stream.write_all(b"GET nosuchkey\r\n").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        waits.push(started.elapsed().as_secs_f64());
    }
    waits.sort_by(f64::total_cmp);
    waits
}

fn load(addr: SocketAddr, keys: usize) {
    let mut stream = TcpStream::connect(addr).unwrap();
    let mut replies = vec![0; 5 * BATCH];
    for first in (0..keys).step_by(BATCH) {
        let batch: String = (first..first + BATCH)
            .map(|key| format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$3\r\nxxx\r\n"))
            .collect();
        stream.write_all(batch.as_bytes()).unwrap();
        stream.read_exact(&mut replies).unwrap();
    }
}

/// Sends one command and reads its whole reply, whatever its size.
fn ask(addr: SocketAddr, command: &str) {
    let mut stream = BufReader::with_capacity(1 << 20, TcpStream::connect(addr).unwrap());
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    skip_reply(&mut stream);
}

fn skip_reply(stream: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let len = line[1..].trim_end().parse::<usize>().unwrap_or(0);
    match line.as_bytes()[0] {
        b'$' => stream.read_exact(&mut vec![0; len + 2]).unwrap(),
        b'*' => (0..len).for_each(|_| skip_reply(stream)),
        _ => {}
    }
}
