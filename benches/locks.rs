//! Cost of locks: the delay until the next client has a released lock, the CPU time of an uncontended lock, the memory
//! of a held lock, and the waits of other clients while 10,000 clients are queued for one lock.
//!
//! ```text
//! cargo bench --bench locks [-- hand-over|cpu|memory|stalls]
//! ```
//!
//! A hand-over is timed from the write of `LOCK.RELEASE` until the next client has read its reply, alternating with
//! round trips of `PING`, both by one thread with blocking sockets. The redis-server on the `PATH` is measured with the
//! commands that its clients use instead: `BLPOP` and `RPUSH` of a token, `SET NX PX` and a script that releases.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use peer::Server;
use probe::{beside, connect};
use process::{cpu_us, memory as memory_of};

mod peer;
#[allow(dead_code, reason = "other benchmarks use more of it")]
mod probe;
mod process;

/// Numbers of queued clients.
const QUEUES: [usize; 3] = [1, 100, 10_000];
/// Number of timed hand-overs of each queue, and of round trips of PING.
const HAND_OVERS: usize = 10_000;
/// Number of cycles of an uncontended lock that are timed at once.
const CYCLES: usize = 100_000;
/// Number of rounds, of which the median counts.
const ROUNDS: usize = 5;
/// Number of locks that are held for the figure of memory.
const HELD: usize = 100_000;
/// Number of clients that are queued while others are timed.
const CROWD: usize = 10_000;
/// Time in which the whole crowd is served, before its replies are read.
const AFTER: Duration = Duration::from_millis(300);
/// Number of times that each stall is provoked. The smallest counts, because delays by the server occur every time.
const REPETITIONS: usize = 5;

const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

fn main() {
    let section = std::env::args().skip(1).find(|arg| arg != "--bench");
    let runs = |name: &str| section.as_ref().is_none_or(|section| section == name);
    if runs("hand-over") {
        hand_over();
    }
    if runs("cpu") {
        cpu();
    }
    if runs("memory") {
        memory();
    }
    if runs("stalls") {
        stalls();
    }
}

type Start = fn() -> Server;
/// Request of one of many clients, by its number.
type RequestOf = fn(usize) -> String;

fn keylatch() -> Server {
    Server::start(env!("CARGO_BIN_EXE_keylatch"), &["--worker-threads", "1", "--maxclients", "20000"])
}

fn redis() -> Server {
    Server::start("redis-server", &["--maxclients", "20000"])
}

/// Connection that waits for each reply.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects, and waits until the server knows the client, so that requests are executed in the order of sending.
    fn new(server: &Server) -> Self {
        let mut client = Client(BufReader::with_capacity(1024, connect(server.addr)));
        client.call("PING\r\n");
        client
    }

    fn send(&mut self, request: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// Reads one line, which is a whole reply unless it is an array or a bulk string.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the server has closed the connection");
        line
    }

    fn call(&mut self, request: &str) -> String {
        self.send(request);
        self.line()
    }

    /// Returns a field of a section of INFO.
    fn info(&mut self, section: &str, field: &str) -> u64 {
        self.send(&format!("INFO {section}\r\n"));
        let len: usize = self.line()[1..].trim().parse().unwrap();
        let mut text = vec![0; len + 2];
        std::io::Read::read_exact(&mut self.0, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap_or("0");
        line.trim().parse().unwrap()
    }
}

/// Commands of waiting for and handing over a lock.
struct Pattern {
    name: &'static str,
    start: Start,
    /// Request of the first holder and of the waiting clients.
    acquire: RequestOf,
    release: RequestOf,
    /// Number of lines in the reply to a waiting client.
    lines: usize,
}

const PATTERNS: [Pattern; 2] = [
    Pattern {
        name: "keylatch, LOCK.ACQUIRE",
        start: keylatch,
        acquire: |client| format!("LOCK.ACQUIRE l t{client} PX 600000 BLOCK 0\r\n"),
        release: |client| format!("LOCK.RELEASE l t{client}\r\n"),
        lines: 1,
    },
    Pattern {
        name: "redis-server, BLPOP of a token",
        start: redis,
        acquire: |_| "BLPOP l 0\r\n".to_owned(),
        release: |_| "RPUSH l t\r\n".to_owned(),
        lines: 5,
    },
];

fn hand_over() {
    println!("| hand-over of a lock | queued | `PING` p50 us | hand-over p50 us | / `PING` | p99 us | / `PING` p50 |");
    println!("|---|---|---|---|---|---|---|");
    for pattern in &PATTERNS {
        for queued in QUEUES {
            let [ping, hand_over] = time_hand_overs(pattern, queued);
            let (ping, p50, p99) = (at(&ping, 0.5), at(&hand_over, 0.5), at(&hand_over, 0.99));
            println!(
                "| {} | {queued} | {:.1} | {:.1} | {:.2} | {:.1} | {:.2} |",
                pattern.name,
                ping * 1e6,
                p50 * 1e6,
                p50 / ping,
                p99 * 1e6,
                p99 / ping
            );
        }
    }
}

/// Returns the times of round trips of PING and of hand-overs, in seconds, sorted.
fn time_hand_overs(pattern: &Pattern, queued: usize) -> [Vec<f64>; 2] {
    let server = (pattern.start)();
    let mut watch = Client::new(&server);
    let mut clients: Vec<Client> = (0..=queued).map(|_| Client::new(&server)).collect();
    watch.call("DEL l\r\n");
    if pattern.lines > 1 {
        watch.call(&(pattern.release)(0)); // the token is there
    }
    clients[0].send(&(pattern.acquire)(0));
    (0..pattern.lines).for_each(|_| drop(clients[0].line()));
    for (at, client) in clients.iter_mut().enumerate().skip(1) {
        client.send(&(pattern.acquire)(at));
    }
    let mut times = [Vec::with_capacity(HAND_OVERS), Vec::with_capacity(HAND_OVERS)];
    for turn in 0..HAND_OVERS {
        watch.call("PING\r\n"); // requests are executed as they arrive: now the last holder is queued again
        let (holder, next) = (turn % clients.len(), (turn + 1) % clients.len());
        let began = Instant::now();
        let pong = clients[holder].call("PING\r\n");
        times[0].push(began.elapsed().as_secs_f64());
        assert_eq!(pong, "+PONG\r\n");
        let release = (pattern.release)(holder);
        let began = Instant::now();
        clients[holder].send(&release);
        let granted = clients[next].line();
        times[1].push(began.elapsed().as_secs_f64());
        assert!(granted.starts_with([':', '*']), "{granted}");
        (1..pattern.lines).for_each(|_| drop(clients[next].line()));
        assert_eq!(clients[holder].line(), ":1\r\n");
        clients[holder].send(&(pattern.acquire)(holder));
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Compares the CPU time of uncontended locks.
fn cpu() {
    let sha = "SHA";
    let cycles: [(&str, Start, &str); 3] = [
        ("keylatch, `LOCK.ACQUIRE`, `LOCK.RELEASE`", keylatch, "LOCK.ACQUIRE l t PX 30000\r\nLOCK.RELEASE l t\r\n"),
        ("keylatch, `SET NX PX`, `EVALSHA`", keylatch, "SET l t NX PX 30000\r\nEVALSHA SHA 1 l t\r\n"),
        ("redis-server, `SET NX PX`, `EVALSHA`", redis, "SET l t NX PX 30000\r\nEVALSHA SHA 1 l t\r\n"),
    ];
    println!("\n| uncontended lock, CPU us per cycle | P=1 | P=64 |\n|---|---|---|");
    let mut running: Vec<_> = cycles
        .iter()
        .map(|(name, start, cycle)| {
            let server = start();
            let mut client = Client::new(&server);
            client.send(&format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{RELEASE}\r\n", RELEASE.len()));
            client.line();
            let cycle = encoded(&cycle.replace(sha, client.line().trim()));
            (*name, server, client, cycle, [Vec::new(), Vec::new()])
        })
        .collect();
    for _ in 0..ROUNDS {
        for (_, server, client, cycle, times) in &mut running {
            times[0].push(cycle_us(server, client, cycle, 1));
            times[1].push(cycle_us(server, client, cycle, 32));
        }
    }
    for (name, _, _, _, mut times) in running {
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        println!("| {name} | {:.2} | {:.2} |", at(&times[0], 0.5), at(&times[1], 0.5));
    }
}

/// Encodes requests as clients send them.
fn encoded(requests: &str) -> Vec<String> {
    let encode = |request: &str| {
        let words: Vec<&str> = request.split(' ').collect();
        let args: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{args}", words.len())
    };
    requests.lines().map(encode).collect()
}

/// Returns the server's CPU time per cycle, in microseconds, with one request at a time or with some cycles per
/// pipeline.
fn cycle_us(server: &Server, client: &mut Client, cycle: &[String], cycles: usize) -> f64 {
    let count = if cycles == 1 { CYCLES / 20 } else { CYCLES };
    let pipeline = cycle.concat().repeat(cycles);
    let began = cpu_us(server.pid()).unwrap();
    for _ in 0..count / cycles {
        if cycles == 1 {
            cycle.iter().for_each(|request| drop(client.call(request)));
        } else {
            client.send(&pipeline);
            (0..cycles * cycle.len()).for_each(|_| drop(client.line()));
        }
    }
    (cpu_us(server.pid()).unwrap() - began) / count as f64
}

/// Compares the memory of held locks.
fn memory() {
    println!("\n| {HELD} locks held | bytes each, name and token of 16 bytes included |\n|---|---|");
    let rows: [(&str, Start, RequestOf); 4] = [
        ("keylatch, `LOCK.ACQUIRE`", keylatch, |at| format!("LOCK.ACQUIRE lock:{at:011} {at:016} PX 600000\r\n")),
        ("keylatch, `LOCK.ACQUIRE` with `SESSION`", keylatch, |at| {
            format!("LOCK.ACQUIRE lock:{at:011} {at:016} PX 600000 SESSION\r\n")
        }),
        ("keylatch, `SET NX PX`", keylatch, |at| format!("SET lock:{at:011} {at:016} NX PX 600000\r\n")),
        ("redis-server, `SET NX PX`", redis, |at| format!("SET lock:{at:011} {at:016} NX PX 600000\r\n")),
    ];
    for (name, start, request) in rows {
        let server = start();
        let mut client = Client::new(&server);
        let empty = settled_memory(&server);
        for first in (0..HELD).step_by(1_000) {
            client.send(&(first..first + 1_000).map(request).collect::<String>());
            (0..1_000).for_each(|_| drop(client.line()));
        }
        println!("| {name} | {:.0} |", (settled_memory(&server) - empty) / HELD as f64);
    }
}

/// Measures the waits of other clients while a crowd is queued for one lock, and while a crowd is blocked in BLPOP.
fn stalls() {
    println!(
        "\n| worst wait of another client, ms; {CROWD} clients are queued for a lock | keylatch | redis-server, `BLPOP` |"
    );
    println!("|---|---|---|");
    let exclusive = |at| format!("LOCK.ACQUIRE l t{at} PX 600000 BLOCK 0\r\n");
    let shared = |at| format!("LOCK.ACQUIRE l t{at} SHARED PX 600000 BLOCK 0\r\n");
    let permits = |at| format!("LOCK.ACQUIRE l t{at} PERMITS 1 OF {CROWD} PX 600000 BLOCK 0\r\n");
    let element = |_| "BLPOP l 0\r\n".to_owned();
    let first = "LOCK.ACQUIRE l t PX 600000\r\n";
    let all_permits = format!("LOCK.ACQUIRE l t PERMITS {CROWD} OF {CROWD} PX 600000\r\n");
    let elements = format!("RPUSH l{}\r\n", " x".repeat(CROWD));
    let nothing = |_: &mut Client, _: &mut Vec<Client>| thread::park_timeout(Duration::from_millis(100));
    let give_to_all = |request: String, lines: usize| {
        move |holder: &mut Client, waiters: &mut Vec<Client>| {
            holder.call(&request);
            thread::park_timeout(AFTER); // the threads that read the replies use a processor, too
            waiters.iter_mut().for_each(|waiter| (0..lines).for_each(|_| drop(waiter.line())));
        }
    };
    let release = || give_to_all("LOCK.RELEASE l t\r\n".to_owned(), 1);
    let close = |holder: &mut Client, waiters: &mut Vec<Client>| {
        waiters.clear();
        while holder.info("clients", "blocked_clients") != 0 {}
    };
    let pass_on = |holder: &mut Client, waiters: &mut Vec<Client>| {
        holder.call("LOCK.RELEASE l t\r\n");
        for (at, waiter) in waiters.iter_mut().enumerate().take(1_000) {
            waiter.line();
            waiter.call(&format!("LOCK.RELEASE l t{at}\r\n"));
        }
    };
    let show = |holder: &mut Client, _: &mut Vec<Client>| {
        probe::ask(holder.0.get_ref().peer_addr().unwrap(), "LOCK.INFO l");
    };
    let row = |name: &str, keylatch: f64, redis: Option<f64>| {
        println!("| {name} | {keylatch:.2} | {} |", redis.map_or_else(String::new, |redis| format!("{redis:.2}")));
    };
    let of_redis = |work: &dyn Fn(&mut Client, &mut Vec<Client>)| Some(stall(redis, "PING\r\n", element, work));
    row("nothing happens", stall(keylatch, first, exclusive, nothing), of_redis(&nothing));
    row("the lock goes from one to the next, 1,000 times", stall(keylatch, first, exclusive, pass_on), None);
    row("`LOCK.INFO`", stall(keylatch, first, exclusive, show), None);
    let all = of_redis(&give_to_all(elements, 5));
    row("a writer releases it, all get it as readers", stall(keylatch, first, shared, release()), all);
    row("all its permits are released, each gets one", stall(keylatch, &all_permits, permits, release()), None);
    row("all close their connections at once", stall(keylatch, first, exclusive, close), of_redis(&close));
}

/// Returns the worst wait during some work.
fn stall(
    start: Start,
    first: &str,
    request: impl Fn(usize) -> String,
    work: impl Fn(&mut Client, &mut Vec<Client>),
) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let server = start();
        let mut holder = Client::new(&server);
        let mut waiters: Vec<Client> = (0..CROWD).map(|_| Client::new(&server)).collect();
        assert!(!holder.call(first).starts_with('-'));
        waiters.iter_mut().enumerate().for_each(|(at, waiter)| waiter.send(&request(at)));
        while holder.info("clients", "blocked_clients") != CROWD as u64 {}
        least = least.min(beside(server.addr, || work(&mut holder, &mut waiters)).worst_ms());
    }
    least
}

/// Returns the memory of a server, in bytes, once it does not change any more.
fn settled_memory(server: &Server) -> f64 {
    let mut before = -1.0;
    loop {
        let bytes = memory_of(server.pid()).unwrap();
        if bytes == before {
            return bytes;
        }
        before = bytes;
        thread::park_timeout(AFTER);
    }
}
