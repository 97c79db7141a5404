//! Instructions per request of fixed workloads, compared with the record in `benches/instructions.txt`.
//!
//! ```text
//! cargo bench --bench instructions              compares; fails when a count has left the tolerance
//! cargo bench --bench instructions -- --bless   puts the counts on record
//! ```
//!
//! Time on a shared machine says little about one change; the number of instructions hardly depends on other processes.
//! Each workload runs under callgrind in a process of its own: a real [`Connection`] on a stream that is a memory area,
//! on one thread, with a stopped clock. Only instructions inside [`counted`] are counted, so start-up and the loading
//! of keys are excluded. The keys of the hash function are random, hence the tolerance.
//!
//! A lower count fails, too: with a record that is too high, the next change could lose the gain unnoticed.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark measures and prints")]

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::task::{Context, Poll};

use keylatch::internals::Client;
use keylatch::internals::Connection;
use keylatch::internals::Instance;
use keylatch::internals::Namespace;
use keylatch::internals::Peer;
use keylatch::internals::table;

use keylatch::Clock;
use keylatch::internals::config::Config;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;

mod allocator;

/// Path of the record; its first lines describe how it was made.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// Allowed deviation from the record, in per cent.
const TOLERANCE: f64 = 3.0;
/// Number of counted requests.
const REQUESTS: usize = 64 * 300;
/// Number of different keys.
const KEYS: usize = 10_000;

struct Workload {
    name: &'static str,
    /// Numbers of requests that arrive at once; each is counted.
    depths: &'static [usize],
    /// Returns the requests that set up the workload, one per key.
    load: Option<fn(usize) -> String>,
    /// Returns the request with a number.
    request: fn(usize) -> String,
    /// Number of commands that two requests execute, themselves included.
    calls_of_two: usize,
    /// True if another client is queued for a lock meanwhile.
    has_queue: bool,
    /// True if changes are logged, although nobody reads the log.
    is_logged: bool,
}

impl Workload {
    const fn new(name: &'static str, depths: &'static [usize], request: fn(usize) -> String) -> Self {
        Workload { name, depths, load: Some(set), request, calls_of_two: 2, has_queue: false, is_logged: false }
    }

    const fn load(self, load: Option<fn(usize) -> String>) -> Self {
        Workload { load, ..self }
    }

    const fn calls_of_two(self, calls_of_two: usize) -> Self {
        Workload { calls_of_two, ..self }
    }

    /// Returns the name with a depth.
    fn name_at(&self, depth: usize) -> String {
        if depth == 1 { format!("{}, one at a time", self.name) } else { format!("{}, {depth} at a time", self.name) }
    }
}

/// Depths of the most frequent commands of most programs.
const DEPTHS: &[usize] = &[1, 16, 64];

#[rustfmt::skip] // a table
const WORKLOADS: &[Workload] = &[
    Workload::new("GET", DEPTHS, get),
    Workload::new("GET of 20 KB", &[1], get).load(Some(set_large)),
    Workload::new("SET", DEPTHS, set_any),
    Workload { has_queue: true, ..Workload::new("SET beside a queue for a lock", &[64], set_any) },
    Workload::new("SET with PX", &[64], set_px),
    Workload { is_logged: true, ..Workload::new("SET, logged", &[1, 64], set_any) },
    Workload { is_logged: true, ..Workload::new("SET with PX, logged", &[1, 64], set_px) },
    Workload::new("SET of new keys", &[64], set).load(None),
    Workload::new("INCR", DEPTHS, incr).load(Some(set_number)),
    Workload::new("SETNX and DEL", DEPTHS, lock_or_release),
    Workload::new("GETSET", &[1], getset),
    Workload::new("HSET", DEPTHS, hset).load(None),
    Workload::new("ZADD", DEPTHS, zadd).load(None),
    Workload::new("LPUSH", DEPTHS, lpush).load(None),
    Workload::new("MGET of 10 keys", &[16], mget),
    Workload::new("MSET of 10 keys", &[16], mset),
    Workload::new("EVALSHA extends a lock", &[16], extend).load(Some(lock)).calls_of_two(6),
    Workload::new("SET NX PX and EVALSHA that releases", DEPTHS, acquire_or_release).load(Some(release)).calls_of_two(4),
];

/// Returns every workload with every depth.
fn runs() -> Vec<(&'static Workload, usize)> {
    WORKLOADS.iter().flat_map(|workload| workload.depths.iter().map(move |depth| (workload, *depth))).collect()
}

/// Script with which lock libraries extend a lock that they still hold, and its SHA1.
const EXTEND: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const EXTEND_SHA: &str = "53f2c61c14d7b92a6f44852b306cc8ed3636d4db";

/// Script with which they release a lock that they still hold, and its SHA1.
const RELEASE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const RELEASE_SHA: &str = "b998f9dfb154cdbea8cda65ad5177aadf0e945a2";

fn set(number: usize) -> String {
    request(&["SET", &key(number), VALUE])
}

fn set_large(number: usize) -> String {
    request(&["SET", &key(number), &"x".repeat(20_000)])
}

fn set_number(number: usize) -> String {
    request(&["SET", &key(number), "1000"])
}

fn get(number: usize) -> String {
    request(&["GET", &any_key(number)])
}

fn set_any(number: usize) -> String {
    request(&["SET", &any_key(number), VALUE])
}

fn set_px(number: usize) -> String {
    request(&["SET", &any_key(number), VALUE, "PX", &(100_000 + number).to_string()])
}

fn incr(number: usize) -> String {
    request(&["INCR", &any_key(number)])
}

fn lock_or_release(number: usize) -> String {
    let lock = format!("lock:{:011}", number / 2);
    if number.is_multiple_of(2) { request(&["SETNX", &lock, VALUE]) } else { request(&["DEL", &lock]) }
}

fn getset(number: usize) -> String {
    request(&["GETSET", &any_key(number), VALUE])
}

fn mget(number: usize) -> String {
    let keys: Vec<String> = (0..10).map(|at| any_key(10 * number + at)).collect();
    let words: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
    request(&words)
}

fn mset(number: usize) -> String {
    let keys: Vec<String> = (0..10).map(|at| any_key(10 * number + at)).collect();
    let words: Vec<&str> = std::iter::once("MSET").chain(keys.iter().flat_map(|key| [key, VALUE])).collect();
    request(&words)
}

fn lock(number: usize) -> String {
    if number == 0 { request(&["SCRIPT", "LOAD", EXTEND]) } else { set(number) }
}

fn extend(number: usize) -> String {
    request(&["EVALSHA", EXTEND_SHA, "1", &key(1 + number % (KEYS - 1)), VALUE, "30000"])
}

fn release(number: usize) -> String {
    if number == 0 { request(&["SCRIPT", "LOAD", RELEASE]) } else { set(number) }
}

fn acquire_or_release(number: usize) -> String {
    let lock = format!("lock:{:011}", number / 2);
    if number.is_multiple_of(2) {
        request(&["SET", &lock, VALUE, "NX", "PX", "30000"])
    } else {
        request(&["EVALSHA", RELEASE_SHA, "1", &lock, VALUE])
    }
}

fn collection(number: usize) -> String {
    format!("collection:{:05}", number * 7 % 100)
}

fn member(number: usize) -> String {
    format!("member:{:05}", number * 13 % 200)
}

fn hset(number: usize) -> String {
    request(&["HSET", &collection(number), &member(number), VALUE])
}

fn zadd(number: usize) -> String {
    request(&["ZADD", &collection(number), &(number % 1000).to_string(), &member(number)])
}

fn lpush(number: usize) -> String {
    request(&["LPUSH", &collection(number), VALUE])
}

const VALUE: &str = "a value of thirty-two characters";

fn key(number: usize) -> String {
    format!("key:{number:012}")
}

/// Picks a key in an order without a pattern, the same one in every run.
fn any_key(number: usize) -> String {
    let scrambled = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    key((scrambled >> 33) as usize % KEYS)
}

fn request(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| write!(text, "${}\r\n{word}\r\n", word.len()).unwrap());
    text
}

fn main() -> ExitCode {
    // cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["--bless"] => bless(),
        ["--run", index] => {
            let (workload, depth) = runs()[index.parse::<usize>().unwrap()];
            run(workload, depth);
            ExitCode::SUCCESS
        }
        _ => panic!("usage: instructions [--bless]"),
    }
}

/// Runs one workload, the counted part inside [`counted`].
fn run(workload: &Workload, depth: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let instance = Arc::new(Instance::new(table(), Config::default()));
    let server = Arc::new(Namespace::new(table(), instance, 1, Clock::manual()));
    let mut sent = 0;
    if let Some(load) = workload.load {
        let keys = if workload.name.contains("20 KB") { KEYS / 100 } else { KEYS };
        serve(&runtime, &server, Tape::new(0..keys, 64, load));
        sent += keys as u64;
    }
    server.store.set_logged(workload.is_logged);
    if workload.has_queue {
        sent += queue_up(&runtime, &server);
    }
    counted(&runtime, &server, Tape::new(0..REQUESTS, depth, workload.request));
    sent += (REQUESTS / 2 * workload.calls_of_two) as u64;
    let (commands, errors) = (server.observed.command_stats.all_calls().count, server.observed.errors.total());
    assert_eq!((commands, errors), (sent, 0), "not all requests were carried out");
}

/// The function that callgrind counts, by its name.
#[inline(never)]
fn counted(runtime: &Runtime, server: &Arc<Namespace>, tape: Tape) {
    serve(runtime, server, tape);
}

/// Serves a client that sends the tape and disconnects.
fn serve(runtime: &Runtime, server: &Arc<Namespace>, tape: Tape) {
    runtime.block_on(connection(server, tape).run());
}

fn connection(server: &Arc<Namespace>, tape: Tape) -> Connection<Tape> {
    let peer = Peer { addr: "tape:0".into(), laddr: "tape:0".into(), fd: -1, is_unix: false };
    let info = server.clients.admit(peer, server.clock.now(), 2).unwrap();
    let session = Client::new(info, &server.acl);
    Connection::new(tape, server.clone(), session, Arc::default())
}

/// Queues a client for a lock; returns the number of commands that this takes.
fn queue_up(runtime: &Runtime, server: &Arc<Namespace>) -> u64 {
    let acquire =
        |number: usize| request(&["LOCK.ACQUIRE", "lock", &number.to_string(), "PX", "100000", "BLOCK", "100000"]);
    serve(runtime, server, Tape::new(0..1, 1, acquire));
    let mut waiting = connection(server, Tape { stays: true, ..Tape::new(1..2, 1, acquire) });
    runtime.spawn(async move { waiting.run().await });
    runtime.block_on(async {
        while !server.store.has_lock_queues() {
            tokio::task::yield_now().await;
        }
    });
    1 // a call that is blocked does not count yet
}

/// Stream that yields one batch of requests per read, and discards replies.
struct Tape {
    /// True if the client stays connected at the end.
    stays: bool,
    text: Vec<u8>,
    /// Ends of the batches that are not read yet, the next one last.
    ends: Vec<usize>,
    at: usize,
}

impl Tape {
    fn new(numbers: std::ops::Range<usize>, depth: usize, request: fn(usize) -> String) -> Self {
        let (mut text, mut ends, last) = (Vec::new(), Vec::new(), numbers.end);
        for number in numbers {
            text.extend_from_slice(request(number).as_bytes());
            if (number + 1).is_multiple_of(depth) || number + 1 == last {
                ends.push(text.len());
            }
        }
        ends.reverse();
        Tape { stays: false, text, ends, at: 0 }
    }
}

impl AsyncRead for Tape {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(&end) = self.ends.last() else {
            return if self.stays { Poll::Pending } else { Poll::Ready(Ok(())) };
        };
        let next = end.min(self.at + buf.remaining());
        buf.put_slice(&self.text[self.at..next]);
        self.at = next;
        if next == end {
            self.ends.pop();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn compare() -> ExitCode {
    let record = std::fs::read_to_string(RECORD).unwrap_or_default();
    println!("{:<56}{:>10}{:>10}{:>10}", "instructions per request", "on record", "now", "change");
    let mut left = 0;
    for (index, (workload, depth)) in runs().into_iter().enumerate() {
        let (name, now) = (workload.name_at(depth), count(index));
        let (shown, change) = match recorded(&record, &name) {
            Some(recorded) => (format!("{recorded:.0}"), (now / recorded - 1.0) * 100.0),
            None => ("-".to_owned(), f64::INFINITY),
        };
        let verdict = if change.abs() <= TOLERANCE { "" } else { "  <--" };
        left += usize::from(change.abs() > TOLERANCE);
        println!("{name:<56}{shown:>10}{now:>10.0}{change:>+9.1}%{verdict}");
    }
    if left == 0 {
        return ExitCode::SUCCESS;
    }
    println!("\n{left} of {} counts differ by more than {TOLERANCE} % from the record, which begins:", runs().len());
    record.lines().filter(|line| line.starts_with('#')).for_each(|line| println!("  {line}"));
    println!("Here it is {}.", environment());
    println!("If the change is worth it, or a gain: cargo bench --bench instructions -- --bless");
    ExitCode::FAILURE
}

fn bless() -> ExitCode {
    let mut record = format!(
        "# Instructions per request; benches/instructions.rs counts them, compares within {TOLERANCE} % and, with --bless,\n\
         # writes this file. Counted with {}.\n",
        environment()
    );
    for (index, (workload, depth)) in runs().into_iter().enumerate() {
        let (name, now) = (workload.name_at(depth), count(index));
        println!("{name:<56}{now:>10.0}");
        writeln!(record, "{name:<56}{now:>10.0}").unwrap();
    }
    std::fs::write(RECORD, record).unwrap();
    ExitCode::SUCCESS
}

fn recorded(record: &str, name: &str) -> Option<f64> {
    record.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Runs a workload under callgrind; returns the instructions per request.
fn count(index: usize) -> f64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=instructions::counted*"]);
    valgrind.arg(std::env::current_exe().unwrap()).args(["--run", &index.to_string()]);
    let output = valgrind.output().expect("valgrind, which this benchmark needs, cannot be run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed:\n{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let instructions: f64 = collected.unwrap_or_else(|| panic!("no count:\n{text}"));
    assert!(instructions > REQUESTS as f64, "nothing was counted: has `counted` lost its name?\n{text}");
    instructions / REQUESTS as f64
}

/// Returns the factors of the counts besides the code: compiler, processor architecture, the C library's routines.
fn environment() -> String {
    let first_line = |program: &str, arg: &str| {
        let output = Command::new(program).arg(arg).output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).lines().next().unwrap_or("an unknown version").to_owned()
    };
    format!("{}, {}, {}", std::env::consts::ARCH, first_line("rustc", "--version"), first_line("ldd", "--version"))
}
