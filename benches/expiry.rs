//! Waits of other clients while a million keys expire at once, and ten million, and the memory returned afterwards.
//!
//! ```text
//! cargo bench --bench expiry [-- KEYS]
//! ```
//!
//! All keys have a TTL. A tenth of them expires in the same millisecond, a tenth spread over one second, and finally
//! all others in the same millisecond. Meanwhile a probe sends `GET` on its own connection without pause, and every few
//! milliseconds a new client connects and sends a command; `DBSIZE`, which counts keys that are not deleted yet, shows
//! when the last key is gone. Columns: round trips of the probe in milliseconds, the slowest new client, how long after
//! the last deadline the last key was gone, and the resident memory of this process, which is the server's but for a
//! few megabytes.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keylatch::Server;
use keylatch::internals::worker;

use probe::{Waits, ask, beside, load};

mod allocator;
mod probe;

/// Interval of DBSIZE, and of new clients.
const PAUSE: Duration = Duration::from_millis(5);
/// Rate of setting deadlines per second that even a busy machine achieves.
const ARMED_PER_S: usize = 250_000;

fn main() {
    let keys = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(10_000_000);
    // As in the binary: one thread serves, another one accepts and sweeps.
    let acceptor = worker::start(1).unwrap().remove(0);
    let server = acceptor.block_on(Server::builder().workers(worker::start(1).unwrap()).start()).unwrap();
    let addr = server.addr();
    println!("{:<28}{}{:>14}{:>10}{:>10}", format!("{keys} keys"), Waits::HEAD, "newcomer ms", "gone ms", "MB");
    let rest = || thread::park_timeout(Duration::from_secs(2));
    row(addr, "idle, empty", rest, None);
    row(addr, "load", || load(addr, 0..keys, 5, set), None);
    row(addr, "idle, full", rest, None);
    let tenth = keys / 10;
    burst(addr, "a tenth in one millisecond", 0..tenth, 1);
    row(addr, "idle, after it", rest, None);
    burst(addr, "a tenth within one second", tenth..2 * tenth, 1_000);
    row(addr, "idle, after it", rest, None);
    burst(addr, "the rest in one millisecond", 2 * tenth..keys, 1);
    // jemalloc gives pages back to the operating system over ten seconds.
    row(addr, "idle, 15 s", || thread::park_timeout(Duration::from_secs(15)), None);
}

/// Expires `keys`, spread evenly over `spread_ms` milliseconds, and prints the delays meanwhile.
fn burst(addr: SocketAddr, name: &str, keys: std::ops::Range<usize>, spread_ms: usize) {
    let left = dbsize(addr) - keys.len();
    let first_ms = wall_ms() + 2_000 + (keys.len() * 1_000 / ARMED_PER_S) as u64;
    load(addr, keys, 4, |key| {
        let at_ms = first_ms + (key % spread_ms) as u64;
        format!("*3\r\n$9\r\nPEXPIREAT\r\n$16\r\nkey:{key:012}\r\n$13\r\n{at_ms}\r\n")
    });
    let lead_ms = first_ms.checked_sub(wall_ms()).expect("a machine fast enough to set the deadlines in time");
    thread::park_timeout(Duration::from_millis(lead_ms.saturating_sub(100)));
    let last_ms = first_ms + spread_ms as u64 - 1;
    let mut gone_ms = 0;
    let wait = || {
        while dbsize(addr) > left {
            thread::park_timeout(PAUSE);
        }
        gone_ms = wall_ms().saturating_sub(last_ms);
    };
    let waits = beside_newcomers(addr, wait);
    print(name, &waits, Some(gone_ms));
}

fn row(addr: SocketAddr, name: &str, work: impl FnOnce(), gone_ms: Option<u64>) {
    let waits = beside_newcomers(addr, work);
    print(name, &waits, gone_ms);
}

fn print(name: &str, (waits, newcomer_s): &(Waits, f64), gone_ms: Option<u64>) {
    let gone = gone_ms.map_or("-".to_owned(), |ms| ms.to_string());
    println!("{name:<28}{waits}{:>14.3}{gone:>10}{:>10.0}", newcomer_s * 1e3, resident_mb());
}

/// Calls `work` while the probe runs and new clients connect; also returns the time of the slowest new client.
fn beside_newcomers(addr: SocketAddr, work: impl FnOnce()) -> (Waits, f64) {
    let done = Arc::new(AtomicBool::new(false));
    let newcomers = thread::spawn({
        let done = done.clone();
        move || {
            let mut worst_s = 0.0f64;
            while !done.load(Ordering::Relaxed) {
                let started = Instant::now();
                ask(addr, "GET nosuchkey");
                worst_s = worst_s.max(started.elapsed().as_secs_f64());
                thread::park_timeout(PAUSE);
            }
            worst_s
        }
    });
    let waits = beside(addr, work);
    done.store(true, Ordering::Relaxed);
    (waits, newcomers.join().unwrap())
}

fn set(key: usize) -> String {
    format!("*5\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$3\r\nxxx\r\n$2\r\nPX\r\n$7\r\n3600000\r\n")
}

fn dbsize(addr: SocketAddr) -> usize {
    ask(addr, "DBSIZE")[1..].trim_end().parse().unwrap()
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / 1e6
}
