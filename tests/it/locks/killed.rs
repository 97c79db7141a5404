//! Histories of locks under `kill -9`: clients acquire exclusive and shared locks, permits and both locks at once,
//! while the server, a process with an append-only file and `appendfsync always`, is killed and restarted again and
//! again. One order explains all replies: acknowledged changes survive each start, and calls in flight were executed
//! once or never.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories of each kind. The seed determines
//! the requests, but not the time at which the server dies.

mod object;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use keylatch::Clock;

use self::object::{KEYS, Mode, PX_MS, Request, Span, TOKENS, described, is_linearizable};
use crate::harness::{Client, Dice, PATIENCE, ReservedPort, encode, show, wait_until};
use crate::log::first_seed;
use crate::process::{Process, binary};

/// Number of histories of each kind, unless set by `KEYLATCH_HISTORIES`.
const HISTORIES: u64 = 2;
const CLIENTS: u64 = 5;
/// Number of starts of the server before the last one.
const LIVES: u64 = 4;
/// Tolerated difference between the date and the time since the boot, over all starts.
const DRIFT_MS: i64 = 2000;

/// Parameters of a history.
#[derive(Clone, Copy)]
struct Plan {
    /// True if all acquisitions are queued; otherwise none is.
    waits: bool,
    /// True if the locks of a session stay until it is resumed.
    has_grace: bool,
}

/// State shared by the clients of a history.
struct Run {
    plan: Plan,
    addr: SocketAddr,
    /// Number of times that the server has died.
    life: AtomicU64,
    ticks: AtomicU64,
    connections: AtomicU64,
    is_over: AtomicBool,
    spans: Mutex<Vec<Span>>,
    clock: Clock,
}

/// Guard that ends the clients, also when the test fails.
struct Ending<'r>(&'r Run);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

/// Connection to one life of the server.
struct Connection {
    life: u64,
    number: u64,
    /// The server's id for it.
    id: String,
    client: Client,
    writer: TcpStream,
}

impl Connection {
    /// Returns the reply to a request, unless the connection ends before it.
    fn call(&mut self, words: &str) -> Option<String> {
        let words: Vec<&str> = words.split(' ').collect();
        self.writer.write_all(&encode(&words)).ok()?;
        self.client.read_raw().map(|reply| show(&reply))
    }
}

impl Run {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, SeqCst)
    }

    /// Connects to the server; `None` if it is down, loading, or dies meanwhile.
    fn connect(&self) -> Option<Connection> {
        let life = self.life.load(SeqCst);
        let stream = TcpStream::connect(self.addr).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let (writer, number) = (stream.try_clone().ok()?, self.connections.fetch_add(1, SeqCst));
        let mut connection = Connection { life, number, id: String::new(), client: Client::over(stream), writer };
        connection.id = connection.call("CLIENT ID")?.strip_prefix(':')?.to_owned();
        // While the server loads its file it executes nothing.
        let is_ready = connection.call("PING")? == "+PONG";
        (is_ready && self.life.load(SeqCst) == life).then_some(connection)
    }

    /// Executes and records a request; returns the connection if it survives.
    fn execute(&self, mut connection: Connection, request: Request) -> Option<Connection> {
        let (life, number, called) = (connection.life, connection.number, self.tick());
        let (reply, connection) = match &request {
            Request::Close => (self.close(connection), None),
            request => (connection.call(&words(request)), Some(connection)),
        };
        let connection = connection.filter(|_| reply.is_some());
        if let Some(reply) = reply.as_ref().filter(|_| matches!(request, Request::Info(_))) {
            let (lived_ms, (_, _, ttls)) = (self.clock.now().mono_ms() as i64, described(reply));
            let least_ms = PX_MS as i64 - lived_ms - DRIFT_MS;
            assert!(ttls.iter().all(|ttl| (least_ms..=PX_MS as i64).contains(ttl)), "{lived_ms} ms: {reply}");
        }
        let reply = reply.map(|reply| (self.tick(), reply));
        self.spans.lock().expect("no poison").push(Span { life, connection: number, called, request, reply });
        connection
    }

    /// Closes a connection, and returns when the server has noticed; `None` if it dies before that.
    fn close(&self, connection: Connection) -> Option<String> {
        let (life, shown) = (connection.life, format!("CLIENT LIST ID {}", connection.id));
        drop(connection);
        let mut other = self.connect().filter(|other| other.life == life)?;
        let mut is_there = Some(true);
        wait_until(|| {
            is_there = other.call(&shown).map(|listed| listed.contains("id="));
            is_there != Some(true)
        });
        is_there.map(|_| String::new())
    }

    /// Makes random requests until the history is over.
    fn work(&self, seed: u64) {
        let (mut dice, mut connection) = (Dice::new(seed), None);
        dice.roll(2);
        while !self.is_over.load(SeqCst) {
            let Some(connected) = connection.take().or_else(|| self.connect()) else {
                thread::yield_now();
                continue;
            };
            let request = self.request(&mut dice);
            connection = self.execute(connected, request);
        }
    }

    fn request(&self, dice: &mut Dice) -> Request {
        let (key, token) = (dice.roll(KEYS.len() as u64) as usize, dice.roll(TOKENS.len() as u64) as usize);
        match dice.roll(32) {
            0..=12 => self.acquire((key, token), dice),
            13..=19 => Request::Release(key, token),
            20 => Request::Renew(key, token),
            21 => Request::Fence(key, token),
            22..=23 => Request::Resize(key, 1 + dice.roll(4)),
            24 => Request::Delete(key),
            25 => Request::Get(key),
            26..=28 => Request::Info(key),
            29..=30 => Request::Resume(token),
            // The session of a connection that closes with a grace is resumed, or not.
            _ if self.plan.has_grace => Request::Get(key),
            _ => Request::Close,
        }
    }

    fn acquire(&self, (key, token): (usize, usize), dice: &mut Dice) -> Request {
        let mode = match dice.roll(8) {
            0..=1 => Mode::Exclusive,
            2 => Mode::Several,
            3..=4 => Mode::Shared,
            _ => {
                let of = 2 + dice.roll(2);
                Mode::Permits { count: 1 + dice.roll(of), of }
            }
        };
        let block_ms = self.plan.waits.then(|| 1 + dice.roll(30));
        Request::Acquire { key, token, mode, is_session: dice.roll(3) == 0, block_ms }
    }

    /// Kills the server, and records that.
    fn kill(&self, mut process: Process) {
        let (life, called) = (self.life.load(SeqCst), self.tick());
        process.signal("KILL");
        process.wait();
        let (request, reply) = (Request::Kill { has_grace: self.plan.has_grace }, Some((self.tick(), String::new())));
        self.spans.lock().expect("no poison").push(Span { life, connection: 0, called, request, reply });
        self.life.store(life + 1, SeqCst);
    }

    /// Counts the answered operations.
    fn answered(&self) -> usize {
        self.spans.lock().expect("no poison").iter().filter(|span| span.reply.is_some()).count()
    }
}

/// Returns the text of a request.
fn words(request: &Request) -> String {
    match *request {
        Request::Acquire { key, token, mode, is_session, block_ms } => {
            let (name, token) = (KEYS[key], TOKENS[token]);
            let mut text = match mode {
                Mode::Exclusive => format!("LOCK.ACQUIRE {name} {token}"),
                Mode::Several => format!("LOCK.ACQUIREMULTI 2 {name} {} {token}", KEYS[1 - key]),
                Mode::Shared => format!("LOCK.ACQUIRE {name} {token} SHARED"),
                Mode::Permits { count, of } => format!("LOCK.ACQUIRE {name} {token} PERMITS {count} OF {of}"),
            };
            text.push_str(&format!(" PX {PX_MS}"));
            text.extend(block_ms.map(|ms| format!(" BLOCK {ms}")));
            text.push_str(if is_session { " SESSION" } else { "" });
            text
        }
        Request::Release(key, token) => format!("LOCK.RELEASE {} {}", KEYS[key], TOKENS[token]),
        Request::Renew(key, token) => format!("LOCK.RENEW {} {} PX {PX_MS}", KEYS[key], TOKENS[token]),
        Request::Fence(key, token) => format!("LOCK.FENCE {} {}", KEYS[key], TOKENS[token]),
        Request::Resize(key, size) => format!("LOCK.RESIZE {} {size}", KEYS[key]),
        Request::Delete(key) => format!("DEL {}", KEYS[key]),
        Request::Get(key) => format!("GET {}", KEYS[key]),
        Request::Info(key) => format!("LOCK.INFO {}", KEYS[key]),
        Request::Resume(token) => format!("LOCK.RESUME {}", TOKENS[token]),
        Request::Close | Request::Kill { .. } => unreachable!("it is not sent"),
    }
}

fn start(dir: &Path, port: &ReservedPort, plan: Plan) -> Process {
    let mut command = Command::new(binary());
    command.current_dir(dir).args(["--port", &port.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    command.args(["--session-grace-ms", if plan.has_grace { "3600000" } else { "0" }]);
    let mut process = Process::run(&mut command);
    process.read_until("Ready to accept connections");
    process
}

/// Runs a history; returns its operations.
fn run(seed: u64, plan: Plan) -> Vec<Span> {
    let (dir, port) = (tempfile::tempdir().expect("a temporary directory"), ReservedPort::new());
    let run = Run {
        plan,
        addr: port.addr(),
        life: AtomicU64::new(0),
        ticks: AtomicU64::new(0),
        connections: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        spans: Mutex::default(),
        clock: Clock::system(),
    };
    let mut dice = Dice::new(seed);
    dice.roll(2);
    thread::scope(|scope| {
        let (_ending, run) = (Ending(&run), &run);
        (0..CLIENTS).for_each(|client| _ = scope.spawn(move || run.work(seed * CLIENTS + client)));
        for _ in 0..LIVES {
            let process = start(dir.path(), &port, plan);
            let rewrites = dice.roll(2) == 0;
            let enough = run.answered() + 10 + dice.roll(50) as usize;
            wait_until(|| run.answered() >= enough);
            if rewrites {
                run.connect().expect("it runs").call("BGREWRITEAOF");
                let enough = run.answered() + dice.roll(10) as usize;
                wait_until(|| run.answered() >= enough);
            }
            run.kill(process);
        }
    });
    let _last = start(dir.path(), &port, plan);
    let mut connection = run.connect();
    for key in 0..KEYS.len() {
        connection = run.execute(connection.expect("it runs"), Request::Info(key));
    }
    let mut spans = run.spans.into_inner().expect("no poison");
    spans.sort_by_key(|span| span.called);
    spans
}

/// Runs histories of a kind, and prints counts if a number of histories was requested.
fn run_all(plan: Plan) {
    let asked = std::env::var("KEYLATCH_HISTORIES").ok();
    let count = asked.as_ref().map_or(HISTORIES, |text| text.parse().expect("a number"));
    let (mut operations, mut acquired, mut uncertain) = (0, 0, 0);
    for seed in first_seed()..first_seed() + count {
        let spans = run(seed, plan);
        if !is_linearizable(&spans) {
            let (before, first) = (shown(&spans), first_unexplained(&spans));
            panic!("no order explains the history of KEYLATCH_SEED={seed}:{before}\nfrom this reply on: {first:?}");
        }
        let is_granted = |span: &&Span| {
            let reply = span.reply.as_ref().map_or("", |(_, reply)| reply);
            matches!(span.request, Request::Acquire { .. }) && (reply.starts_with(':') || reply.starts_with("*2 "))
        };
        operations += spans.len();
        acquired += spans.iter().filter(is_granted).count();
        uncertain += spans.iter().filter(|span| span.reply.is_none()).count();
    }
    assert!(acquired as u64 > 10 * count, "{acquired} locks in {count} histories");
    if asked.is_some() {
        let text = format!("{count} histories, {operations} operations, {acquired} acquired, {uncertain} uncertain\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Returns the first operation whose reply has no explanation, if later replies are ignored.
fn first_unexplained(spans: &[Span]) -> Option<Span> {
    let mut answered: Vec<&Span> = spans.iter().filter(|span| span.reply.is_some()).collect();
    answered.sort_by_key(|span| span.reply.as_ref().map(|(tick, _)| *tick));
    let explains = |last: &&Span| {
        let until = last.reply.as_ref().map_or(0, |(tick, _)| *tick);
        let begun = spans.iter().filter(|span| span.called <= until || matches!(span.request, Request::Kill { .. }));
        let known = |span: &Span| {
            let is_known = matches!(span.request, Request::Kill { .. });
            Span { reply: span.reply.clone().filter(|(tick, _)| is_known || *tick <= until), ..span.clone() }
        };
        is_linearizable(&begun.map(known).collect::<Vec<_>>())
    };
    answered.into_iter().find(|last| !explains(last)).cloned()
}

/// Formats a history, with an operation on each line.
fn shown(spans: &[Span]) -> String {
    spans.iter().map(|span| format!("\n{span:?}")).collect()
}

#[test]
fn one_order_explains_what_clients_of_locks_are_told_though_the_server_is_killed() {
    run_all(Plan { waits: false, has_grace: false });
}

#[test]
fn one_order_explains_it_also_where_clients_wait_in_the_queue() {
    run_all(Plan { waits: true, has_grace: false });
}

#[test]
fn one_order_explains_it_also_where_sessions_survive_the_kill() {
    run_all(Plan { waits: false, has_grace: true });
}

/// Converts operations of the first life and the next one, each `(called, replied, request, reply)`, into spans; one
/// with the reply `?` is uncertain. The server dies at 100.
fn spans(operations: &[(u64, u64, Request, &str)]) -> Vec<Span> {
    let span = |(called, replied, request, reply): &(u64, u64, Request, &str)| {
        let (life, reply) = (u64::from(*called > 100), (*reply != "?").then(|| (*replied, (*reply).to_owned())));
        Span { life, connection: 1, called: *called, request: request.clone(), reply }
    };
    let kill = Span {
        life: 0,
        connection: 0,
        called: 100,
        request: Request::Kill { has_grace: false },
        reply: Some((101, String::new())),
    };
    operations.iter().map(span).chain([kill]).collect()
}

#[test]
fn the_checker_rejects_what_no_lock_does() {
    let acquire = |called, token, mode, reply| {
        let request = Request::Acquire { key: 0, token, mode, is_session: false, block_ms: None };
        (called, called + 1, request, reply)
    };
    let release = |called, token, reply| (called, called + 1, Request::Release(0, token), reply);
    let two = |count| Mode::Permits { count, of: 2 };
    let held = acquire(0, 0, Mode::Exclusive, ":10");
    for (says, operations, is_right) in [
        ("a lock that is held", vec![held.clone(), acquire(2, 1, Mode::Exclusive, "$-1")], true),
        ("a writer beside another one", vec![held.clone(), acquire(2, 1, Mode::Exclusive, ":11")], false),
        ("a reader beside a writer", vec![held.clone(), acquire(2, 1, Mode::Shared, ":11")], false),
        ("lost by a kill", vec![held.clone(), acquire(102, 1, Mode::Exclusive, ":11")], false),
        ("kept over a kill", vec![held.clone(), acquire(102, 0, Mode::Exclusive, ":10")], true),
        ("with another fence", vec![held.clone(), acquire(102, 0, Mode::Exclusive, ":11")], false),
        ("back after its release", vec![held.clone(), release(2, 0, ":1"), release(102, 0, ":1")], false),
        (
            "a fence that does not increase",
            vec![held.clone(), release(2, 0, ":1"), acquire(102, 0, Mode::Exclusive, ":9")],
            false,
        ),
        ("an uncertain release was done", vec![held.clone(), release(2, 0, "?"), release(102, 0, ":0")], true),
        ("an uncertain release was not done", vec![held.clone(), release(2, 0, "?"), release(102, 0, ":1")], true),
        (
            "an uncertain release was done after the start",
            vec![held, release(2, 0, "?"), release(102, 0, ":1"), acquire(104, 0, Mode::Exclusive, ":9")],
            false,
        ),
        ("two readers", vec![acquire(0, 0, Mode::Shared, ":10"), acquire(2, 1, Mode::Shared, ":10")], true),
        (
            "two fences in a period of readers",
            vec![acquire(0, 0, Mode::Shared, ":10"), acquire(102, 1, Mode::Shared, ":11")],
            false,
        ),
        ("two of two permits", vec![acquire(0, 0, two(1), ":10"), acquire(102, 1, two(1), ":11")], true),
        ("three of two permits", vec![acquire(0, 0, two(1), ":10"), acquire(102, 1, two(2), ":11")], false),
    ] {
        assert_eq!(is_linearizable(&spans(&operations)), is_right, "{says}");
    }
}
