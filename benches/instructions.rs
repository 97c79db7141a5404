//! Instructions per request of fixed workloads, compared with the record in `benches/instructions.txt`.
//!
//! ```text
//! cargo bench --bench instructions              compares; fails when a count has left the tolerance
//! cargo bench --bench instructions -- --bless   puts the counts on record
//! ```
//!
//! Time on a shared machine says little about one change; the number of instructions hardly depends on what else runs.
//! Each workload runs under callgrind in a process of its own: a real [`Connection`] on a stream that is a memory area,
//! on one thread, by a clock that stands still. Only what happens inside [`counted`] is counted, so start-up and the
//! loading of keys are not. What is left to chance are the keys of the hash function, hence the tolerance.
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

/// The record; its first lines describe how it was made.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// The allowed deviation from the record, in per cent.
const TOLERANCE: f64 = 3.0;
/// How many requests are counted.
const REQUESTS: usize = 64 * 300;
/// The number of different keys.
const KEYS: usize = 10_000;

struct Workload {
    name: &'static str,
    /// How many requests arrive at once.
    depth: usize,
    /// Returns the requests that set up the workload, one per key.
    load: Option<fn(usize) -> String>,
    /// Returns the request with a number.
    request: fn(usize) -> String,
    /// How many commands a request executes, itself included.
    calls: usize,
}

const WORKLOADS: [Workload; 12] = [
    Workload { name: "GET, one at a time", depth: 1, load: Some(set), request: get, calls: 1 },
    Workload { name: "GET, 64 at a time", depth: 64, load: Some(set), request: get, calls: 1 },
    Workload { name: "GET of 20 KB, one at a time", depth: 1, load: Some(set_large), request: get, calls: 1 },
    Workload { name: "SET, 64 at a time", depth: 64, load: Some(set), request: set_any, calls: 1 },
    Workload { name: "SET with PX, 64 at a time", depth: 64, load: Some(set), request: set_px, calls: 1 },
    Workload { name: "SET of new keys, 64 at a time", depth: 64, load: None, request: set, calls: 1 },
    Workload { name: "INCR, 64 at a time", depth: 64, load: Some(set_number), request: incr, calls: 1 },
    Workload { name: "SETNX and DEL, one at a time", depth: 1, load: Some(set), request: lock_or_release, calls: 1 },
    Workload { name: "GETSET, one at a time", depth: 1, load: Some(set), request: getset, calls: 1 },
    Workload { name: "MGET of 10 keys, 16 at a time", depth: 16, load: Some(set), request: mget, calls: 1 },
    Workload { name: "MSET of 10 keys, 16 at a time", depth: 16, load: Some(set), request: mset, calls: 1 },
    Workload { name: "EVALSHA extends a lock, 16 at a time", depth: 16, load: Some(lock), request: extend, calls: 3 },
];

/// The script by which lock libraries extend a lock that they still hold, and its SHA1.
const EXTEND: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const EXTEND_SHA: &str = "53f2c61c14d7b92a6f44852b306cc8ed3636d4db";

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
            run(&WORKLOADS[index.parse::<usize>().unwrap()]);
            ExitCode::SUCCESS
        }
        _ => panic!("usage: instructions [--bless]"),
    }
}

/// Runs one workload, the counted part inside [`counted`].
fn run(workload: &Workload) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let instance = Arc::new(Instance::new(table(), Config::default()));
    let server = Arc::new(Namespace::new(table(), instance, 1, Clock::manual()));
    let mut sent = 0;
    if let Some(load) = workload.load {
        let keys = if workload.name.contains("20 KB") { KEYS / 100 } else { KEYS };
        serve(&runtime, &server, Tape::new(0..keys, 64, load));
        sent += keys as u64;
    }
    counted(&runtime, &server, Tape::new(0..REQUESTS, workload.depth, workload.request));
    sent += (REQUESTS * workload.calls) as u64;
    let (commands, errors) = (server.observed.command_stats.all_calls().count, server.observed.errors.total());
    assert_eq!((commands, errors), (sent, 0), "not all requests were carried out");
}

/// The function by whose name callgrind starts and stops counting.
#[inline(never)]
fn counted(runtime: &Runtime, server: &Arc<Namespace>, tape: Tape) {
    serve(runtime, server, tape);
}

/// Serves a client that sends the tape and disconnects.
fn serve(runtime: &Runtime, server: &Arc<Namespace>, tape: Tape) {
    let peer = Peer { addr: "tape:0".into(), laddr: "tape:0".into(), fd: -1, is_unix: false };
    let info = server.clients.admit(peer, server.clock.now(), 1).unwrap();
    let session = Client::new(info, &server.acl);
    runtime.block_on(Connection::new(tape, server.clone(), session, Arc::default()).run());
}

/// A stream that yields one batch of requests per read, and discards replies.
struct Tape {
    text: Vec<u8>,
    /// Where the batches end that have not been read yet, the next one last.
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
        Tape { text, ends, at: 0 }
    }
}

impl AsyncRead for Tape {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(&end) = self.ends.last() else { return Poll::Ready(Ok(())) };
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
    println!("{:<40}{:>10}{:>10}{:>10}", "instructions per request", "on record", "now", "change");
    let mut left = 0;
    for (index, workload) in WORKLOADS.iter().enumerate() {
        let now = count(index);
        let (shown, change) = match recorded(&record, workload.name) {
            Some(recorded) => (format!("{recorded:.0}"), (now / recorded - 1.0) * 100.0),
            None => ("-".to_owned(), f64::INFINITY),
        };
        let verdict = if change.abs() <= TOLERANCE { "" } else { "  <--" };
        left += usize::from(change.abs() > TOLERANCE);
        println!("{:<40}{shown:>10}{now:>10.0}{change:>+9.1}%{verdict}", workload.name);
    }
    if left == 0 {
        return ExitCode::SUCCESS;
    }
    println!("\n{left} of {} counts differ by more than {TOLERANCE} % from the record, which begins:", WORKLOADS.len());
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
    for (index, workload) in WORKLOADS.iter().enumerate() {
        let now = count(index);
        println!("{:<40}{now:>10.0}", workload.name);
        writeln!(record, "{:<40}{now:>10.0}", workload.name).unwrap();
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

/// Returns what the counts depend on besides the code: compiler, processor architecture, the C library's routines.
fn environment() -> String {
    let first_line = |program: &str, arg: &str| {
        let output = Command::new(program).arg(arg).output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).lines().next().unwrap_or("an unknown version").to_owned()
    };
    format!("{}, {}, {}", std::env::consts::ARCH, first_line("rustc", "--version"), first_line("ldd", "--version"))
}
