//! Termination of a server by a signal while a script or a command runs.

use std::net::SocketAddr;

#[cfg(feature = "lua")]
use crate::harness::Client;
use crate::harness::{encode, wait_until};
use crate::process::Process;

#[cfg(feature = "lua")]
#[test]
fn sigterm_ends_a_script_whose_error_handler_does_not_end() {
    for script in [
        "xpcall(function() error('x') end, function() while true do end end)",
        "while true do pcall(string.find, string.rep('a', 20000), string.rep('a-', 8) .. 'b') end",
    ] {
        let mut process = Process::start(&["--busy-reply-threshold", "1"]);
        let addr = process.addr();
        let (mut client, mut other) = (Client::connect(addr), Client::connect(addr));
        client.send(&encode(&["EVAL", script, "0"]));
        wait_until(|| other.call("PING").starts_with("-BUSY"));
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(0), "{script}");
        assert!(process.rest().contains("ready to exit, bye bye"), "{script}");
    }
}

#[cfg(feature = "lua")]
#[test]
fn nothing_half_of_a_script_is_in_the_files_when_sigterm_comes_in_its_middle() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--appendonly", "yes", "--save", "", "--dir", dir.path().to_str().expect("text")];
    let mut process = Process::start(&args);
    let script = "redis.call('SET', 'one', '1') redis.log(redis.LOG_WARNING, 'half done') \
        for n = 1, 3e7 do end redis.call('SET', 'two', '1')";
    process.client().send(&encode(&["EVAL", script, "0"]));
    process.read_until("half done");
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    Process::start(&args).client().expect(&[("EXISTS one two", ":2")]);
}

#[test]
fn sigterm_ends_the_process_even_when_a_command_cannot_be_interrupted() {
    let mut process = Process::start(&["--enable-debug-command", "yes", "--save", ""]);
    let mut client = process.client();
    client.expect(&[("PING", "+PONG")]);
    client.send(&encode(&["DEBUG", "SLEEP", "3600"]));
    wait_until(|| unread_bytes(client.local_addr(), process.known_addr()) == 0);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(1));
    let log = process.rest();
    assert!(log.contains("The shutdown has not finished after 8 seconds. Exit anyway."), "{log}");
}

#[test]
fn a_shutdown_can_be_aborted_while_its_snapshot_is_written_and_a_second_sigint_leaves_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("text");
    let delay = ["--rdb-key-save-delay", "1000000000"];
    let mut process = Process::start(&[&["--dir", path, "--enable-debug-command", "yes"][..], &delay].concat());
    let mut client = process.client();
    client.expect(&[("SET k v", "+OK")]);
    process.signal("TERM");
    process.read_until("Saving the final RDB snapshot before exiting");
    client.expect(&[("SHUTDOWN ABORT", "+OK"), ("SET k w", "+OK")]);
    process.read_until("Shutdown manually aborted");
    let part = dir.path().join(format!("temp-{}.rdb", process.child.id()));
    process.signal("INT");
    process.read_until("Saving the final RDB snapshot before exiting");
    process.signal("INT");
    assert_eq!(process.wait().code(), Some(1));
    assert!(!part.exists());
}

#[test]
fn a_server_that_writes_the_first_base_of_its_append_only_file_stops_only_by_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("text");
    let mut process = Process::start(&["--dir", path, "--rdb-key-save-delay", "1000000000"]);
    let mut client = process.client();
    client.expect(&[("SET k v", "+OK"), ("CONFIG SET appendonly yes", "+OK")]);
    for request in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE"] {
        client.expect(&[(request, "-ERR Errors trying to SHUTDOWN. Check logs.")]);
        process.read_until("Writing initial AOF, can't exit");
    }
    process.signal("TERM");
    process.read_until("Writing initial AOF, can't exit");
    client.expect(&[("GET k", "$1 v")]);
    client.send(&encode(&["SHUTDOWN", "NOSAVE", "FORCE"]));
    assert_eq!(process.wait().code(), Some(0));
}

/// Returns the number of bytes from a client that the server has not read yet, from the kernel.
fn unread_bytes(client: SocketAddr, server: SocketAddr) -> u64 {
    let shown = |addr: SocketAddr| match addr.ip() {
        std::net::IpAddr::V4(ip) => format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), addr.port()),
        std::net::IpAddr::V6(ip) => panic!("{ip} is not in this table"),
    };
    let (client, server) = (shown(client), shown(server));
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("Linux");
    // Local address, remote address, state, and the lengths of the send and receive queues.
    let queues = |local: &str, remote: &str| -> (u64, u64) {
        let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row.len() > 4 && row[1] == local && row[2] == remote);
        let row = row.unwrap_or_else(|| panic!("no connection from {local} to {remote}"));
        let (sent, received) = row[4].split_once(':').expect("two lengths");
        let len = |text| u64::from_str_radix(text, 16).expect("a length");
        (len(sent), len(received))
    };
    queues(&client, &server).0 + queues(&server, &client).1
}
