//! Processes that are killed while they write an append-only file: any change reported to a client survives, whatever
//! `appendfsync` is. (A power cut may lose more; simulated disks show that.)
//!
//! `KEYLATCH_KILLS` is the number of kills of each kind, `KEYLATCH_SEED` the first seed.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::thread::{self, Scope};

use keylatch::internals::resp::Frame;

use crate::harness::{Client, Dice, encode, wait_until};
use crate::log::first_seed;
use crate::process::{Process, binary};

/// Number of kills of each kind, unless set by `KEYLATCH_KILLS`.
const KILLS: u64 = 2;

/// Maximum number of replies to a client before a kill, for each request in flight.
const REPLIES_MAX: u64 = 150;

fn kills() -> u64 {
    std::env::var("KEYLATCH_KILLS").map_or(KILLS, |kills| kills.parse().expect("KEYLATCH_KILLS is a number"))
}

/// Starts a server with an append-only file in a directory; returns it when it has loaded the file.
fn start(dir: &Path, args: &[&str]) -> Process {
    let mut command = Command::new(binary());
    command.current_dir(dir).args(["--port", "0", "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    let mut process = Process::run(command.args(args));
    let mut client = process.client();
    wait_until(|| client.call("PING") == "+PONG");
    process
}

fn kill(mut process: Process) {
    process.signal("KILL");
    process.wait();
}

/// Last number of a counter that was reported to a client.
#[derive(Default)]
struct Told(AtomicI64);

impl Told {
    fn hear(&self, number: i64) {
        self.0.fetch_max(number, SeqCst);
    }
}

/// Connection to a server that may be killed at any time.
struct Caller {
    client: Client,
    writer: TcpStream,
}

impl Caller {
    fn connect(addr: SocketAddr) -> Self {
        let client = Client::connect(addr);
        Caller { writer: client.writer(), client }
    }

    /// Sends commands; returns false once the server is gone.
    fn send(&mut self, commands: &[&[&str]]) -> bool {
        let bytes: Vec<u8> = commands.iter().flat_map(|words| encode(words).to_vec()).collect();
        std::io::Write::write_all(&mut self.writer, &bytes).is_ok()
    }

    /// Returns the last of this many replies, unless the server is gone.
    fn last_of(&mut self, count: usize) -> Option<Frame> {
        (1..count).try_for_each(|_| self.client.read_frame().map(drop))?;
        self.client.read_frame()
    }
}

/// Returns the numbers in a reply, at any depth.
fn numbers(frame: &Frame) -> Vec<i64> {
    match frame {
        Frame::Integer(number) => vec![*number],
        Frame::Bulk(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).into_iter().collect(),
        Frame::Array(frames) => frames.iter().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// Increments a counter, with this many requests in flight.
fn increment(mut caller: Caller, key: &str, in_flight: usize, told: &Told) {
    let incr = ["INCR", key];
    let requests: Vec<&[&str]> = vec![&incr; in_flight];
    while caller.send(&requests) {
        for _ in 0..in_flight {
            match caller.last_of(1) {
                Some(Frame::Integer(number)) => told.hear(number),
                _ => return,
            }
        }
    }
}

/// Increments a counter by repeated calls, and records the number in their last reply.
fn repeat(mut caller: Caller, calls: &[&[&str]], told: &Told) {
    while caller.send(calls) {
        match caller.last_of(calls.len()) {
            Some(frame) => numbers(&frame).first().into_iter().for_each(|number| told.hear(*number)),
            None => return,
        }
    }
}

/// Records the numbers sent to a client that has sent some calls, each of which has a reply.
fn listen(mut caller: Caller, told: &Told) {
    while let Some(frame) = caller.last_of(1) {
        numbers(&frame).last().into_iter().for_each(|number| told.hear(*number));
    }
}

/// Takes numbers from a list. Another client has stored each number before appending it.
fn pop(mut caller: Caller, told: &Told) {
    while caller.send(&[&["BLPOP", "queue", "0"]]) {
        match caller.last_of(1) {
            Some(frame) => numbers(&frame).last().into_iter().for_each(|number| told.hear(*number)),
            None => return,
        }
    }
}

fn append_to_queue(mut caller: Caller) {
    for number in 1.. {
        let number = number.to_string();
        let calls: [&[&str]; 4] = [&["MULTI"], &["SET", "popped", &number], &["RPUSH", "queue", &number], &["EXEC"]];
        if !caller.send(&calls) || caller.last_of(calls.len()).is_none() {
            return;
        }
    }
}

/// Counters of a round, each with the numbers reported in one way.
#[derive(Default)]
struct Round {
    replies: Told,
    transactions: Told,
    scripts: Told,
    messages: Told,
    popped: Told,
}

const SCRIPT: &str = "local n = redis.call('INCR', KEYS[1]) redis.call('PUBLISH', 'numbers', n) return n";

impl Round {
    /// Starts clients that write, for every way in which a client learns of a change.
    fn write<'s>(&'s self, scope: &'s Scope<'s, '_>, addr: SocketAddr, in_flight: usize) {
        // All are connected before one has written enough for the process to be killed.
        let [replies, transactions, scripts, mut subscriber, popper, pusher] =
            std::array::from_fn(|_| Caller::connect(addr));
        scope.spawn(move || increment(replies, "replies", in_flight, &self.replies));
        scope.spawn(move || {
            repeat(transactions, &[&["MULTI"], &["INCR", "transactions"], &["EXEC"]], &self.transactions)
        });
        if cfg!(feature = "lua") {
            scope.spawn(move || repeat(scripts, &[&["EVAL", SCRIPT, "1", "scripts"]], &self.scripts));
            assert!(subscriber.send(&[&["SUBSCRIBE", "numbers"]]) && subscriber.last_of(1).is_some());
            scope.spawn(move || listen(subscriber, &self.messages));
        }
        scope.spawn(move || pop(popper, &self.popped));
        scope.spawn(move || append_to_queue(pusher));
    }

    /// Returns the ways in which a number was reported that a server does not have, with both numbers.
    fn lost(&self, server: &mut Client) -> Vec<(&'static str, i64, i64)> {
        let ways = [
            ("replies", "replies", &self.replies),
            ("transactions", "transactions", &self.transactions),
            ("scripts", "scripts", &self.scripts),
            ("messages", "scripts", &self.messages),
            ("popped", "popped", &self.popped),
        ];
        let lost = ways.into_iter().filter_map(|(way, key, told)| {
            let kept = numbers(&server.frame(&["GET", key])).first().copied().unwrap_or(0);
            let told = told.0.load(SeqCst);
            (kept < told).then_some((way, told, kept))
        });
        lost.collect()
    }
}

/// Kills a server while clients write, and checks that the next one has the reported numbers.
fn kill_and_look(policy: &str, in_flight: usize, seed: u64) {
    let (dir, mut dice) = (tempfile::tempdir().expect("a directory"), Dice::new(seed));
    let args = ["--appendfsync", policy];
    let mut told = 0;
    for life in 0..3 {
        let (process, round) = (start(dir.path(), &args), Round::default());
        let addr = process.known_addr();
        thread::scope(|scope| {
            let mut process = process; // it ends here, and its clients with it, also when this test fails
            round.write(scope, addr, in_flight);
            let replies = 1 + dice.roll(REPLIES_MAX * in_flight as u64) as i64;
            wait_until(|| round.replies.0.load(SeqCst) >= replies);
            process.signal("KILL");
            process.wait();
        });
        let process = start(dir.path(), &args);
        let lost = round.lost(&mut Client::connect(process.known_addr()));
        assert_eq!(lost, [], "{policy}, {in_flight} in flight, seed {seed}, life {life}");
        told += round.replies.0.load(SeqCst);
        Client::connect(process.known_addr()).call("FLUSHALL");
        kill(process);
    }
    assert!(told > 0);
}

#[test]
fn a_killed_process_has_lost_nothing_that_a_client_was_told_with_any_policy() {
    let first = first_seed();
    for seed in first..first + kills().div_ceil(3) {
        for policy in ["always", "everysec", "no"] {
            for in_flight in [1, 100] {
                kill_and_look(policy, in_flight, seed);
            }
        }
    }
}

#[test]
fn a_killed_replica_has_lost_nothing_that_it_has_acknowledged() {
    let first = first_seed();
    for seed in first..first + kills().div_ceil(2) {
        for policy in ["always", "everysec", "no"] {
            let (dir, mut dice, told) = (tempfile::tempdir().expect("a directory"), Dice::new(seed), Told::default());
            let mut primary = Process::start(&["--save", "", "--repl-diskless-sync-delay", "0"]);
            let addr = primary.addr();
            let of = format!("127.0.0.1 {}", addr.port());
            let replica = start(dir.path(), &["--appendfsync", policy, "--replicaof", &of]);
            // Its file is empty until it is rewritten with the primary's data.
            let mut client = Client::connect(replica.known_addr());
            wait_until(|| client.info("master_link_status") == "up" && client.info("aof_rewrite_in_progress") == "0");
            thread::scope(|scope| {
                let mut replica = replica; // as above
                scope.spawn(|| {
                    let mut caller = Caller::connect(addr);
                    while caller.send(&[&["INCR", "n"], &["WAIT", "1", "2000"]]) {
                        let (number, count) = (caller.last_of(1), caller.last_of(1));
                        let (Some(Frame::Integer(number)), Some(Frame::Integer(1))) = (number, count) else { return };
                        told.hear(number);
                    }
                });
                let replies = 1 + dice.roll(REPLIES_MAX) as i64;
                wait_until(|| told.0.load(SeqCst) >= replies);
                replica.signal("KILL");
                replica.wait();
            });
            let alone = start(dir.path(), &[]);
            let kept = Client::connect(alone.known_addr()).frame(&["GET", "n"]);
            let told = told.0.load(SeqCst);
            assert!(numbers(&kept) >= vec![told], "{policy}, seed {seed}: {kept:?} of {told}");
        }
    }
}
