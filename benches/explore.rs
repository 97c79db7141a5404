//! Points a second of an exploration: `cargo bench --bench explore`.
//!
//! The scenario makes ten calls over one connection, and goes on without it when that is cut: what a client of the smallest cost
//! would do. Prints the number of points, and how many are tried a second.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark measures and prints")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use keylatch::{Explore, TestInstance};

fn main() {
    let kinds = ["lost-reply", "not-executed", "cut-all", "late", "expired", "evicted", "readonly", "loading"];
    for _ in 0..3 {
        let report = Explore::new().kinds(kinds).report(ten_calls);
        let rate = report.points as f64 / report.time.as_secs_f64();
        println!("{} points in {:.2} s: {rate:.0} a second", report.points, report.time.as_secs_f64());
        assert!(report.is_passed(), "{report}");
    }
}

/// Makes ten calls, of which any may fail.
fn ten_calls(instance: &TestInstance) {
    let url = instance.url();
    let (user, addr) = url.trim_start_matches("redis://").trim_end_matches("/0").split_once('@').unwrap();
    let mut stream = BufReader::new(TcpStream::connect(addr).unwrap());
    stream.get_ref().set_nodelay(true).unwrap();
    let user = user.split(':').next().unwrap();
    let calls = ["SET lock a NX PX 30000", "GET lock", "INCR n", "EXPIRE n 60", "TTL n", "GET n", "TYPE n", "EXISTS n"];
    let auth = format!("AUTH {user} any");
    for call in [&*auth].into_iter().chain(calls).chain(["DEL lock", "PING"]) {
        let is_sent = stream.get_mut().write_all(format!("{call}\r\n").as_bytes()).is_ok();
        let mut line = String::new();
        if !is_sent || stream.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.starts_with('$') && !line.starts_with("$-1") {
            stream.read_line(&mut line).unwrap();
        }
    }
}
