//! Resource use of an idle server, compared with the limits in `benches/budget.tsv`.
//!
//! ```text
//! cargo bench --bench budget       fails when a limit is exceeded
//! ```
//!
//! A limit that could be lower is lowered by hand, together with its reason. No limit is a time: the start time is
//! compared with redis-server's by `cargo bench --bench versus -- --only footprint`. Needs Linux, and valgrind for the
//! instructions of a start.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use peer::Server;
use process::memory;

mod peer;
#[allow(dead_code, reason = "only part of it is needed here")]
mod process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_keylatch");
const BUDGET: &str = include_str!("budget.tsv");
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// Number of idle connections before the measured ones, and number of the measured ones: together below the usual limit
/// of 1,024 open files.
const FIRST_CONNECTIONS: usize = 100;
const CONNECTIONS: usize = 800;
/// Time for which a server is left alone before it is measured.
const SETTLE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let server = Server::start(PROGRAM, &["--worker-threads", "1"]); // whatever the machine has
    thread::sleep(SETTLE);
    let measured = [
        ("binary, MB", fs::metadata(PROGRAM).unwrap().len() as f64 / 1e6),
        ("packages in Cargo.lock", LOCK_FILE.matches("[[package]]").count() as f64),
        ("instructions of a start, millions", start_instructions() / 1e6),
        ("resident memory when idle, MB", status(server.pid(), "VmRSS:") * 1024.0 / 1e6),
        ("of it the process's own, MB", status(server.pid(), "RssAnon:") * 1024.0 / 1e6),
        ("threads when idle", status(server.pid(), "Threads:")),
        ("memory of an idle connection, bytes", per_connection(&server)),
    ];
    let lines = BUDGET.lines().filter(|line| !line.starts_with('#')).skip(1);
    let limits: Vec<(&str, f64)> = lines.map(limit).collect();
    assert_eq!(limits.len(), measured.len(), "budget.tsv has other lines");
    println!("{:38}{:>10}{:>10}", "", "measured", "limit");
    let mut is_exceeded = false;
    for (name, value) in measured {
        let (_, limit) =
            limits.iter().find(|line| line.0 == name).unwrap_or_else(|| panic!("budget.tsv lacks {name:?}"));
        is_exceeded |= value > *limit;
        println!("{name:38}{value:>10.2}{limit:>10}{}", if value > *limit { "   exceeded" } else { "" });
    }
    ExitCode::from(u8::from(is_exceeded))
}

/// Reads the name and the limit of a line.
fn limit(line: &str) -> (&str, f64) {
    let mut columns = line.split('\t');
    let name = columns.next().unwrap_or_default();
    (name, columns.next().and_then(|limit| limit.parse().ok()).unwrap_or_else(|| panic!("no limit: {line:?}")))
}

/// Returns a numeric field of the status of a process.
fn status(pid: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns the memory of an idle connection that has sent one request, in bytes.
fn per_connection(server: &Server) -> f64 {
    let connect = |_| {
        let mut client = TcpStream::connect(server.addr).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
        client
    };
    let settled = || {
        thread::sleep(SETTLE * 2);
        memory(server.pid()).unwrap()
    };
    let _first: Vec<TcpStream> = (0..FIRST_CONNECTIONS).map(connect).collect();
    let before = settled();
    let clients: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    (settled() - before) / clients.len() as f64
}

/// Returns the number of instructions of a server that starts, answers one request and ends.
fn start_instructions() -> f64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        PROGRAM,
        "--port",
        "0",
        "--bind",
        "127.0.0.1",
    ]);
    // No snapshot is loaded that lies in the current directory.
    valgrind.args(["--dbfilename", "no-snapshot.rdb"]);
    valgrind.args(["--save", "", "--worker-threads", "1", "--exit-on-stdin-close", "yes"]);
    let process = valgrind.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = process.expect("valgrind, which this benchmark needs, cannot be run");
    let mut line = String::new();
    let mut output = process.stdout.take().unwrap();
    while !line.ends_with('\n') {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("the server starts");
        line.push(char::from(byte[0]));
    }
    let port = line.split_once("\"port\":").and_then(|(_, rest)| rest.split(',').next()?.parse::<u16>().ok());
    let mut client = TcpStream::connect(("127.0.0.1", port.expect("a port"))).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    client.read_exact(&mut [0; 7]).unwrap();
    drop(process.stdin.take());
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected.unwrap_or_else(|| panic!("no count:\n{text}"))
}
