//! Cost of `engine etcd` compared with etcd itself: the same cluster, used by keylatch's clients and by a client of
//! etcd's API.
//!
//!     cargo bench --bench cluster [-- PART-OF-A-NAME...]
//!
//! Needs `etcd` 3.5.13 or later in PATH (tests/etcd/install.sh) and an idle machine: three members with fsync, three
//! keylatch processes, and the load, all on the loopback interface. The sides take turns: keylatch, and etcd's client
//! at the leader, and at all members in turn, as etcd's own clients do. Figures are medians of the rounds.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures real time and prints its results"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::messages::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, OpRequest, PutRequest, RangeRequest,
    RequestOp, Response, TargetUnion, TxnRequest,
};
use api::{MemberAccess, MemberClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[allow(dead_code, unused_imports, reason = "the engine uses the rest")]
#[path = "../src/engine/api/mod.rs"]
mod api;

/// Number of rounds in which both sides take their turns.
const ROUNDS: usize = 5;
/// Duration of each measurement.
const ROUND: Duration = Duration::from_secs(3);
/// Number of clients in the measurements with many.
const CLIENTS: usize = 50;
/// Time after which a client that waits for a lock is in the queue.
const QUEUED_AFTER: Duration = Duration::from_millis(10);
/// Number of keylatch processes.
const PROCESSES: usize = 3;
/// Port of the first member; the others have the next ones.
const ETCD_PORT: u16 = 23_600;
/// Port of the first keylatch process; the others have the next ones.
const KEYLATCH_PORT: u16 = 23_650;
/// Script by which redis-py's Lock is released, in short, and its SHA-1.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const RELEASE_SHA1: &str = "2e47b373b4dbd63ee966d2eb9fe24ed6a138ad4e";

/// Child process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it ends");
    }
}

/// Request for the lock of etcd's own recipe.
#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

/// Response to a [`LockRequest`].
#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

/// Request to release a lock.
#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// Response to an [`UnlockRequest`].
#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

/// Work that a client repeats, `CLIENTS` of them at once or one.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// Acquires a lock of its own and releases it, two transactions: SETNX and DEL.
    SetnxCycle,
    /// The same as redis-py's Lock: SET NX PX, and a script.
    ScriptCycle,
    /// The same by LOCK.ACQUIRE and LOCK.RELEASE.
    LockCycle,
    /// Writes a key of its own: one transaction.
    Write,
    /// Reads a key, linearizable.
    Read,
    /// Increments the same key as all other clients; etcd's side has to compare, and to retry.
    Count,
    /// Waits for the same lock as all other clients, and releases it: LOCK.ACQUIRE, or etcd's own recipe, which a
    /// member executes for its clients. Only the wait is measured.
    Contend,
    /// Releases a lock for which a client of another process waits, until that has it: one transaction, as etcd's
    /// client makes it as often.
    HandOver,
}

/// Measurements: the work, the number of clients, and of the processes that serve them.
const CASES: [(&str, Work, usize, usize); 12] = [
    ("cycle by SETNX", Work::SetnxCycle, 1, 1),
    ("cycle by SET NX and a script", Work::ScriptCycle, 1, 1),
    ("cycle by LOCK.ACQUIRE", Work::LockCycle, 1, 1),
    ("cycle by SETNX", Work::SetnxCycle, CLIENTS, PROCESSES),
    ("cycle by SET NX and a script", Work::ScriptCycle, CLIENTS, PROCESSES),
    ("cycle by LOCK.ACQUIRE", Work::LockCycle, CLIENTS, PROCESSES),
    ("writes", Work::Write, CLIENTS, 1),
    ("reads", Work::Read, CLIENTS, 1),
    ("increments of one key", Work::Count, CLIENTS, 1),
    ("one lock", Work::Contend, CLIENTS, 1),
    ("one lock", Work::Contend, CLIENTS, PROCESSES),
    ("hand-over", Work::HandOver, 1, PROCESSES),
];

/// The processes that are measured.
struct Processes {
    /// The members of etcd, and their clients, the leader first.
    etcd: Vec<u32>,
    clients: Vec<MemberClient>,
    /// The processes of keylatch, and their ports.
    keylatch: Vec<u32>,
    ports: Vec<u16>,
}

/// Durations in microseconds, sorted, and the throughput.
struct Measured {
    latencies_us: Vec<u64>,
    per_s: f64,
    /// Number of entries in the cluster's log for each repetition.
    entries: f64,
    /// CPU time for each repetition, in microseconds: of keylatch, and of etcd.
    cpu_us: [f64; 2],
}

impl Measured {
    fn at(&self, percent: usize) -> u64 {
        self.latencies_us[(self.latencies_us.len() - 1) * percent / 100]
    }
}

#[tokio::main]
async fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // cargo test builds and starts it, too
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (nodes, urls) = start_etcd(dir.path());
    let clients = connect_etcd(&urls).await;
    let servers: Vec<Killed> = (0..PROCESSES).map(|number| start_keylatch(&urls, port(number))).collect();
    let ids = |children: &[Killed]| children.iter().map(|child| child.0.id()).collect();
    let (etcd, keylatch) = (ids(&nodes), ids(&servers));
    let all = Processes { etcd, clients, keylatch, ports: (0..PROCESSES).map(port).collect() };
    all.clients[0]
        .txn(TxnRequest { success: vec![put("read", "v")], ..TxnRequest::default() })
        .await
        .expect("it writes");
    for port in &all.ports {
        let load = format!("SCRIPT LOAD \"{RELEASE}\"\r\n");
        ask_once(*port, load.as_bytes(), format!("$40\r\n{RELEASE_SHA1}\r\n").as_bytes()).await;
    }
    ask_once(all.ports[0], b"SET read v\r\n", b"+OK\r\n").await;
    println!("| | keylatch | at the leader | ratio | at all members | ratio |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, work, clients, processes) in CASES {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part)) {
            continue;
        }
        let rounds = measure(&all, work, clients, processes).await;
        let name = format!("{name}, {clients} clients, {processes} processes");
        row(&format!("{name}, a second"), &rounds, |measured| measured.per_s, 0);
        row("p50, us", &rounds, |measured| measured.at(50) as f64, 0);
        row("p99, us", &rounds, |measured| measured.at(99) as f64, 0);
        row("CPU of etcd, us", &rounds, |measured| measured.cpu_us[1], 0);
        row("CPU of keylatch, us", &rounds, |measured| measured.cpu_us[0], 0);
        row("entries of the log", &rounds, |measured| measured.entries, 2);
    }
}

/// Returns the port of a keylatch process.
fn port(number: usize) -> u16 {
    KEYLATCH_PORT + number as u16
}

/// Writes a row of the table: the medians of all sides, and the ratios of keylatch to the others.
fn row(name: &str, rounds: &[[Measured; 3]], figure: impl Fn(&Measured) -> f64, digits: usize) {
    let [ours, leader, all] = [0, 1, 2].map(|side| {
        let mut figures: Vec<f64> = rounds.iter().map(|round| figure(&round[side])).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    });
    let [of_leader, of_all] = [leader, all].map(|theirs| ours / theirs);
    println!("| {name} | {ours:.digits$} | {leader:.digits$} | {of_leader:.2} | {all:.digits$} | {of_all:.2} |");
}

/// Measures all sides in turn; keylatch has its clients at so many processes.
async fn measure(all: &Processes, work: Work, clients: usize, processes: usize) -> Vec<[Measured; 3]> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let ours = counted(all, of_keylatch(&all.ports[..processes], work, clients, round)).await;
        let at_leader = counted(all, of_etcd(&all.clients[..1], work, clients, round)).await;
        let at_all = counted(all, of_etcd(&all.clients, work, clients, round + ROUNDS)).await;
        rounds.push([ours, at_leader, at_all]);
    }
    rounds
}

/// Measures a side, with what it costs.
async fn counted(all: &Processes, side: impl Future<Output = Measured>) -> Measured {
    let cpu = || [&all.keylatch, &all.etcd].map(|processes| processes.iter().map(|id| cpu_us(*id)).sum::<f64>());
    let (entries_before, cpu_before) = (entries().await, cpu());
    let mut measured = side.await;
    let count = measured.latencies_us.len() as f64;
    let cpu_after = cpu();
    measured.entries = (entries().await - entries_before) / count;
    measured.cpu_us = [0, 1].map(|of| (cpu_after[of] - cpu_before[of]) / count);
    measured
}

/// Returns the CPU time of a process so far, in microseconds.
fn cpu_us(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields = stat.rsplit(')').next().expect("a name").split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum();
    ticks * 10_000.0 // a hundred ticks a second
}

async fn of_keylatch(ports: &[u16], work: Work, clients: usize, round: usize) -> Measured {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let port = ports[client % ports.len()];
        if work == Work::HandOver {
            tasks.spawn(hand_over([port, ports[1]], round));
            continue;
        }
        tasks.spawn(async move {
            let mut stream = connect(port).await;
            let requests = requests(work, client, round);
            let (mut latencies, begun) = (Vec::new(), Instant::now());
            while begun.elapsed() < ROUND {
                let asked = Instant::now();
                let mut took = Duration::ZERO;
                for (at, (request, reply)) in requests.iter().enumerate() {
                    ask(&mut stream, request.as_bytes(), reply.as_bytes()).await;
                    if at == 0 || !matches!(work, Work::Contend) {
                        took = asked.elapsed();
                    }
                }
                latencies.push(took.as_micros() as u64);
            }
            latencies
        });
    }
    collect(tasks).await
}

/// Returns what a client of keylatch repeats: requests with their replies.
fn requests(work: Work, client: usize, round: usize) -> Vec<(String, &'static str)> {
    let own = format!("key:{client}:{round}");
    match work {
        Work::SetnxCycle => {
            vec![(format!("SETNX {own} v\r\n"), ":1\r\n"), (format!("DEL {own}\r\n"), ":1\r\n")]
        }
        Work::ScriptCycle => vec![
            (format!("SET {own} v NX PX 60000\r\n"), "+OK\r\n"),
            (format!("EVALSHA {RELEASE_SHA1} 1 {own} v\r\n"), ":1\r\n"),
        ],
        Work::LockCycle => {
            vec![(format!("LOCK.ACQUIRE {own} v PX 60000\r\n"), ""), (format!("LOCK.RELEASE {own} v\r\n"), ":1\r\n")]
        }
        Work::Write => vec![(format!("SET {own} v\r\n"), "+OK\r\n")],
        Work::Read => vec![("GET read\r\n".into(), "$1\r\nv\r\n")],
        Work::Count => vec![(format!("INCR count:{round}\r\n"), "")],
        Work::Contend | Work::HandOver => vec![
            (format!("LOCK.ACQUIRE lock:{round} {client} PX 60000 BLOCK 0\r\n"), ""),
            (format!("LOCK.RELEASE lock:{round} {client}\r\n"), ":1\r\n"),
        ],
    }
}

/// Hands a lock over between two clients at different processes, and returns how long each hand-over takes.
async fn hand_over(ports: [u16; 2], round: usize) -> Vec<u64> {
    let [mut holder, mut waiting] = [("a", connect(ports[0]).await), ("b", connect(ports[1]).await)];
    let acquire = |token: &str| format!("LOCK.ACQUIRE handed:{round} {token} PX 60000 BLOCK 0\r\n");
    ask(&mut holder.1, acquire(holder.0).as_bytes(), b"").await;
    let (mut latencies, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < ROUND {
        waiting.1.write_all(acquire(waiting.0).as_bytes()).await.expect("it reads");
        tokio::time::sleep(QUEUED_AFTER).await;
        let release = format!("LOCK.RELEASE handed:{round} {}\r\n", holder.0);
        let asked = Instant::now();
        holder.1.write_all(release.as_bytes()).await.expect("it reads");
        read_reply(&mut waiting.1, b"").await;
        latencies.push(asked.elapsed().as_micros() as u64);
        read_reply(&mut holder.1, b":1\r\n").await;
        std::mem::swap(&mut holder, &mut waiting);
    }
    latencies
}

async fn of_etcd(members: &[MemberClient], work: Work, clients: usize, round: usize) -> Measured {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let members = members.to_vec();
        tasks.spawn(async move {
            let (own, shared) = (format!("raw/{client}:{round}"), format!("raw/count:{round}"));
            let lease = match work {
                Work::Contend => members[0].lease_grant(60).await.expect("etcd answers").id,
                _ => 0,
            };
            let (mut latencies, begun) = (Vec::new(), Instant::now());
            while begun.elapsed() < ROUND {
                let etcd = &members[(client + latencies.len()) % members.len()];
                if work == Work::HandOver {
                    tokio::time::sleep(QUEUED_AFTER).await; // as often as a hand-over
                }
                let asked = Instant::now();
                match work {
                    Work::Contend => {
                        let name = format!("raw/lock:{round}").into_bytes();
                        let held = etcd.unary("/v3lockpb.Lock/Lock", LockRequest { name, lease }).await;
                        let LockResponse { key } = held.expect("etcd answers");
                        latencies.push(asked.elapsed().as_micros() as u64);
                        let released = etcd.unary("/v3lockpb.Lock/Unlock", UnlockRequest { key }).await;
                        let UnlockResponse {} = released.expect("etcd answers");
                        continue;
                    }
                    Work::SetnxCycle | Work::ScriptCycle | Work::LockCycle => cycle(etcd, &own).await,
                    Work::Write | Work::HandOver => {
                        let write = TxnRequest { success: vec![put(&own, "v")], ..TxnRequest::default() };
                        etcd.txn(write).await.expect("etcd answers");
                    }
                    Work::Read => _ = etcd.range(range("read")).await.expect("etcd answers"),
                    Work::Count => increment(etcd, &shared).await,
                }
                latencies.push(asked.elapsed().as_micros() as u64);
            }
            latencies
        });
    }
    collect(tasks).await
}

fn put(key: &str, value: &str) -> RequestOp {
    let put = PutRequest { key: key.into(), value: value.into(), lease: 0 };
    RequestOp { request: Some(OpRequest::Put(put)) }
}

fn range(key: &str) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

fn compare(key: &str, target: CompareTarget, value: TargetUnion) -> Compare {
    let result = CompareResult::Equal.into();
    Compare { result, target: target.into(), key: key.into(), target_union: Some(value), range_end: Vec::new() }
}

/// Acquires a lock and releases it.
async fn cycle(etcd: &MemberClient, key: &str) {
    let free = compare(key, CompareTarget::Mod, TargetUnion::ModRevision(0));
    let take = TxnRequest { compare: vec![free], success: vec![put(key, "v")], failure: Vec::new() };
    assert!(etcd.txn(take).await.expect("etcd answers").succeeded);
    let held = compare(key, CompareTarget::Value, TargetUnion::Value(b"v".to_vec()));
    let delete = DeleteRangeRequest { key: key.into(), range_end: Vec::new() };
    let delete = RequestOp { request: Some(OpRequest::DeleteRange(delete)) };
    let release = TxnRequest { compare: vec![held], success: vec![delete], failure: Vec::new() };
    assert!(etcd.txn(release).await.expect("etcd answers").succeeded);
}

/// Increments a number as a client of etcd does: it reads, and writes if no other client has written meanwhile.
async fn increment(etcd: &MemberClient, key: &str) {
    let mut found: Option<KeyValue> = etcd.range(range(key)).await.expect("etcd answers").kvs.pop();
    loop {
        let text = found.as_ref().map_or("0", |found| std::str::from_utf8(&found.value).expect("text"));
        let number: u64 = text.parse().expect("a number");
        let at = found.as_ref().map_or(0, |found| found.mod_revision);
        let same = compare(key, CompareTarget::Mod, TargetUnion::ModRevision(at));
        let read = RequestOp { request: Some(OpRequest::Range(range(key))) };
        let success = vec![put(key, &(number + 1).to_string())];
        let answer = etcd.txn(TxnRequest { compare: vec![same], success, failure: vec![read] }).await;
        let answer = answer.expect("etcd answers");
        if answer.succeeded {
            return;
        }
        found = answer.responses.into_iter().find_map(|answer| match answer.response {
            Some(Response::Range(mut found)) => found.kvs.pop(),
            _ => None,
        });
    }
}

/// Collects the clients' measurements.
async fn collect(mut tasks: JoinSet<Vec<u64>>) -> Measured {
    let mut latencies_us = Vec::new();
    while let Some(of_one) = tasks.join_next().await {
        latencies_us.extend(of_one.expect("no client panics"));
    }
    latencies_us.sort_unstable();
    let per_s = latencies_us.len() as f64 / ROUND.as_secs_f64();
    Measured { latencies_us, per_s, entries: 0.0, cpu_us: [0.0; 2] }
}

/// Returns the number of entries of the cluster's log that the first member has applied.
async fn entries() -> f64 {
    let mut stream = TcpStream::connect(("127.0.0.1", ETCD_PORT)).await.expect("it listens");
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it replies");
    let line = answer.lines().find_map(|line| line.strip_prefix("etcd_server_proposals_applied_total "));
    line.and_then(|number| number.parse().ok()).expect("the metric is there")
}

/// Sends a request and reads its reply, which is one line if `reply` is empty.
async fn ask(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).await.expect("it reads");
    read_reply(stream, reply).await;
}

/// Reads a reply, which is one line if `reply` is empty.
async fn read_reply(stream: &mut TcpStream, reply: &[u8]) {
    let mut read = Vec::new();
    while read.len() < reply.len() || !read.ends_with(b"\r\n") {
        assert!(stream.read_buf(&mut read).await.expect("it replies") > 0, "it has closed the connection");
    }
    assert!(reply.is_empty() || read == reply, "{}", read.escape_ascii());
}

async fn ask_once(port: u16, request: &[u8], reply: &[u8]) {
    ask(&mut connect(port).await, request, reply).await;
}

async fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    stream
}

/// Starts three members with their data in a directory; returns them and their addresses.
fn start_etcd(dir: &Path) -> (Vec<Killed>, Vec<String>) {
    let port = |number: usize, is_peer: bool| ETCD_PORT + 2 * number as u16 + u16::from(is_peer);
    let members: Vec<String> =
        (0..3).map(|number| format!("n{number}=http://127.0.0.1:{}", port(number, true))).collect();
    let nodes = (0..3).map(|number| {
        let [client, peer] = [false, true].map(|is_peer| format!("http://127.0.0.1:{}", port(number, is_peer)));
        let mut command = Command::new("etcd");
        command.args([
            "--name",
            &format!("n{number}"),
            "--initial-cluster",
            &members.join(","),
            "--log-level",
            "error",
        ]);
        command.arg("--data-dir").arg(dir.join(number.to_string()));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        Killed(command.stdin(Stdio::null()).spawn().expect("etcd is in PATH"))
    });
    (nodes.collect(), (0..3).map(|number| format!("http://127.0.0.1:{}", port(number, false))).collect())
}

/// Returns clients of the members, the leader first.
async fn connect_etcd(urls: &[String]) -> Vec<MemberClient> {
    let access = MemberAccess { connect_timeout: Duration::from_secs(2), ..MemberAccess::default() };
    let mut clients = Vec::new();
    for url in urls {
        clients.push(MemberClient::connect(url, &access).await.expect("a URL"));
    }
    for _ in 0..300 {
        for member in 0..clients.len() {
            let status = clients[member].status().await.ok();
            if status.is_some_and(|status| status.header.is_some_and(|header| header.member_id == status.leader)) {
                clients.swap(0, member);
                return clients;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("etcd does not answer");
}

/// Starts a server on the cluster.
fn start_keylatch(urls: &[String], port: u16) -> Killed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keylatch"));
    command.args(["--port", &port.to_string(), "--engine", "etcd", "--etcd-endpoints", &urls.join(",")]);
    let server = Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"));
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    std::thread::park_timeout(Duration::from_secs(1)); // until it has loaded the mirror
    server
}
