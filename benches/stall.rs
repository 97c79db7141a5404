//! Waits of other clients during expensive commands: KEYS, SCAN with a huge COUNT, and FLUSHALL on ten million keys,
//! and while those keys are loaded; in keylatch, and in the redis-server on the PATH.
//!
//! ```text
//! cargo bench --bench stall [-- KEYS]
//! ```
//!
//! keylatch runs on one worker thread, so no other client can be served unless the command yields. A probe sends `GET`
//! on its own connection without pause; printed are its median, 99.9th percentile and worst round trip in milliseconds,
//! and the worst round trip of an idle server, which is the machine's own noise.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use peer::Server;
use probe::{Waits, ask, beside, load};

mod peer;
mod probe;

fn main() {
    let keys = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(10_000_000);
    let keylatch = (env!("CARGO_BIN_EXE_keylatch"), &["--worker-threads", "1"][..]);
    for (program, options) in [keylatch, ("redis-server", &[])] {
        let name = program.rsplit('/').next().unwrap_or(program);
        println!("{:<28}{}", format!("{name}, {keys} keys"), Waits::HEAD);
        let server = Server::start(program, options);
        measure(server.addr, keys);
    }
}

fn measure(addr: SocketAddr, keys: usize) {
    row(addr, "idle", || thread::park_timeout(Duration::from_secs(2)));
    row(addr, "load", || load(addr, 0..keys, 5, set));
    for command in ["KEYS nosuchkey*", "KEYS *", "SCAN 0 COUNT 100000000"] {
        row(addr, command, || drop(ask(addr, command)));
    }
    row(addr, "FLUSHALL and a second after", || {
        ask(addr, "FLUSHALL");
        thread::park_timeout(Duration::from_secs(1)); // the memory is freed during the next requests
    });
}

fn row(addr: SocketAddr, name: &str, work: impl FnOnce()) {
    println!("{name:<28}{}", beside(addr, work));
}

fn set(key: usize) -> String {
    format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$3\r\nxxx\r\n")
}
