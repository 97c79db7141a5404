//! The delay of `expired` events after the deadline: of keylatch, and of the redis-server on the PATH.
//!
//! ```text
//! cargo bench --bench expired [-- PROBES]
//! ```
//!
//! A client is subscribed to `__keyevent@0__:expired` while others set probes, keys whose deadlines (`PXAT`) are spread
//! evenly over ten seconds. The delay of an event is the wall clock at the arrival of its message minus the deadline.
//! It is measured with the probes alone, with a million other keys that expire after an hour, and with these and four
//! clients that send `SET` with a TTL of an hour and `GET`, sixteen at a time, without pause. An event that has not
//! arrived half a minute after the last deadline counts as lost, and is left out of the other columns. The first row is
//! a thread that only sleeps until each deadline: its delay is caused by the machine, and is part of the other rows.

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
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use peer::Server;
use probe::{connect, load};

mod peer;
#[allow(dead_code, reason = "only part of it is needed here")]
mod probe;

/// Time over which the deadlines are spread, in milliseconds.
const SPREAD_MS: usize = 10_000;
/// Time between setting the probes and the first deadline, in milliseconds.
const LEAD_MS: u64 = 2_000;
/// Maximum wait for events after the last deadline.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of other keys.
const CROWD: usize = 1_000_000;
/// Number of load clients.
const CLIENTS: usize = 4;

fn main() {
    let probes = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(2_000);
    println!("| server | beside the {probes} probes | p50 ms | p99 ms | worst ms | lost |\n|---|---|---|---|---|---|");
    print("none", "a thread that sleeps until each deadline", &sleep(probes), 0);
    for (name, program) in [("keylatch", env!("CARGO_BIN_EXE_keylatch")), ("redis-server", "redis-server")] {
        let server = Server::start(program, &["--notify-keyspace-events", "Ex"]);
        row(name, "nothing", &server, probes);
        load(server.addr, 0..CROWD, 5, set_crowd);
        row(name, "a million keys", &server, probes);
        let done = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (addr, done) = (server.addr, done.clone());
                thread::spawn(move || work(addr, client, &done))
            })
            .collect();
        row(name, "these and four busy clients", &server, probes);
        done.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

fn row(name: &str, beside: &str, server: &Server, probes: usize) {
    let (late_us, lost) = measure(server.addr, probes);
    print(name, beside, &late_us, lost);
}

/// Returns the delay of a thread that only sleeps until the deadlines: the machine's share of all delays.
fn sleep(probes: usize) -> Histogram<u64> {
    let (first_us, mut late_us) = (wall_us(), Histogram::new(3).unwrap());
    for probe in 0..probes {
        let at_us = first_us + (probe * SPREAD_MS * 1000 / probes) as u64;
        while wall_us() < at_us {
            thread::park_timeout(Duration::from_micros(at_us.saturating_sub(wall_us())));
        }
        late_us.record(wall_us() - at_us).unwrap();
    }
    late_us
}

fn print(name: &str, beside: &str, late_us: &Histogram<u64>, lost: usize) {
    let ms = |us: u64| us as f64 / 1e3;
    println!(
        "| {name} | {beside} | {:.2} | {:.2} | {:.2} | {lost} |",
        ms(late_us.value_at_quantile(0.5)),
        ms(late_us.value_at_quantile(0.99)),
        ms(late_us.max())
    );
}

/// Sets probes and waits for their events; returns the delays in microseconds, and the number of lost events.
fn measure(addr: SocketAddr, probes: usize) -> (Histogram<u64>, usize) {
    let mut listener = BufReader::new(connect(addr));
    listener.get_mut().write_all(b"SUBSCRIBE __keyevent@0__:expired\r\n").unwrap();
    read_message(&mut listener).unwrap();
    listener.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let first_ms = wall_us() / 1000 + LEAD_MS;
    let deadline_ms = |probe: usize| first_ms + (probe * SPREAD_MS / probes) as u64;
    load(addr, 0..probes, 5, |probe| {
        let at_ms = deadline_ms(probe);
        format!("*5\r\n$3\r\nSET\r\n$19\r\n{at_ms}:{probe:05}\r\n$1\r\nx\r\n$4\r\nPXAT\r\n$13\r\n{at_ms}\r\n")
    });
    assert!(wall_us() / 1000 < first_ms, "the probes are set too slowly");
    let end_us = (deadline_ms(probes) + PATIENCE.as_millis() as u64) * 1000;
    let (mut late_us, mut heard) = (Histogram::new(3).unwrap(), 0);
    while heard < probes
        && wall_us() < end_us
        && let Some(key) = read_message(&mut listener)
    {
        let now_us = wall_us();
        // The keys of the load do not expire during the measurement.
        let (at_ms, _) = key.split_once(':').unwrap();
        late_us.record(now_us.saturating_sub(at_ms.parse::<u64>().unwrap() * 1000)).unwrap();
        heard += 1;
    }
    (late_us, probes - heard)
}

/// Reads a message of three parts and returns the last, or nothing on timeout.
fn read_message(listener: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    // The head, then head and text of two strings, then the head and text of a string, or a number.
    for _ in 0..6 {
        line.clear();
        listener.read_line(&mut line).ok()?;
    }
    if !line.starts_with(':') {
        line.clear();
        listener.read_line(&mut line).ok()?;
    }
    Some(line.trim_end().to_owned())
}

fn set_crowd(key: usize) -> String {
    format!("*5\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$3\r\nxxx\r\n$2\r\nPX\r\n$7\r\n3600000\r\n")
}

/// Sends sixteen requests at a time, half of them SET, until told to stop.
fn work(addr: SocketAddr, client: usize, done: &AtomicBool) {
    let mut stream = connect(addr);
    for round in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let key = |at: usize| (client + (round * 16 + at) * 7919) % CROWD;
        let sets: String = (0..8).map(|at| set_crowd(key(at))).collect();
        let gets: String = (8..16).map(|at| format!("*2\r\n$3\r\nGET\r\n$16\r\nkey:{:012}\r\n", key(at))).collect();
        stream.write_all((sets + &gets).as_bytes()).unwrap();
        stream.read_exact(&mut [0; 8 * 5 + 8 * 9]).unwrap();
    }
}

fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}
