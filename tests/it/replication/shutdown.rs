//! A primary that shuts down waits for its replicas.

use keylatch::Clock;

use super::parties::{Primary, RawReplica};
use crate::harness::{Client, encode, wait_until};
use crate::process::Process;

const FAILED: &str = "-ERR Errors trying to SHUTDOWN. Check logs.";

/// Starts the program as a primary whose replica lacks a write.
fn start_with_lag(timeout_s: &str) -> (Process, RawReplica) {
    let settings = ["--repl-diskless-sync-delay", "0", "--save", "", "--shutdown-timeout", timeout_s];
    let mut process = Process::start(&settings);
    let mut client = process.client();
    let raw = RawReplica::synchronized(process.known_addr());
    client.expect(&[("SET k v", "+OK")]);
    (process, raw)
}

/// Acknowledges everything up to a write.
fn catch_up(raw: &mut RawReplica) {
    raw.changes_before("set k v");
    raw.acknowledge();
}

#[test]
fn a_shutdown_waits_until_the_replicas_have_acknowledged_what_they_lack() {
    for how in ["SHUTDOWN", "SIGTERM"] {
        let (mut process, mut raw) = start_with_lag("300");
        let addr = process.known_addr();
        let [mut client, mut writer, mut other] = [(); 3].map(|()| Client::connect(addr));
        match how {
            "SHUTDOWN" => client.send(b"SHUTDOWN\r\n"),
            _ => process.signal("TERM"),
        }
        process.read_until("Waiting for replicas before shutting down.");
        let left_ms: u64 = other.info("shutdown_in_milliseconds").parse().expect("a number");
        assert!((1..=300_000).contains(&left_ms), "{left_ms}");
        let blocked = if how == "SHUTDOWN" { "1" } else { "0" };
        assert_eq!(other.info("blocked_clients"), blocked);
        writer.send(&encode(&["SET", "late", "v"]));
        wait_until(|| other.info("blocked_clients") != blocked);
        other.expect(&[("GET late", "$-1"), ("GET k", "$1 v")]);
        catch_up(&mut raw);
        assert_eq!(process.wait().code(), Some(0), "{how}");
        let log = process.rest();
        assert!(log.contains("1 of 1 replicas are in sync when shutting down."), "{log}");
        assert!(!log.contains("Lagging replica"), "{log}");
        assert!(!String::from_utf8_lossy(&raw.read_to_end()).contains("late"));
        assert!(client.read_to_end().is_empty());
    }
}

#[test]
fn a_shutdown_whose_replicas_have_everything_does_not_wait() {
    let (mut process, mut raw) = start_with_lag("300");
    catch_up(&mut raw);
    let mut client = Client::connect(process.known_addr());
    wait_until(|| client.call("INFO replication").contains(&format!("offset={},", raw.offset)));
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    let log = process.rest();
    assert!(log.contains("1 of 1 replicas are in sync") && !log.contains("Waiting for replicas"), "{log}");
}

#[test]
fn a_shutdown_that_is_not_to_wait_says_who_lacks_what() {
    for (timeout_s, request) in [("300", "SHUTDOWN NOW"), ("0", "SHUTDOWN"), ("1", "SHUTDOWN NOSAVE")] {
        let (mut process, raw) = start_with_lag(timeout_s);
        let mut client = Client::connect(process.known_addr());
        client.send(&encode(&request.split(' ').collect::<Vec<_>>()));
        assert_eq!(process.wait().code(), Some(0), "{request}");
        let log = process.rest();
        assert_eq!(log.contains("Waiting for replicas before shutting down."), timeout_s == "1", "{log}");
        // SELECT and SET.
        let lagging = "Lagging replica 127.0.0.1:<unknown-replica-port> reported offset 50 behind master, lag=";
        assert!(log.contains(lagging) && log.contains(", state=online."), "{log}");
        assert!(log.contains("0 of 1 replicas are in sync when shutting down."), "{log}");
        drop(raw);
    }
}

#[test]
fn the_wait_of_a_shutdown_lasts_as_long_as_a_steered_clock_says() {
    // The replica must not be disconnected meanwhile.
    let primary = Primary::start_on(Clock::manual(), &[("shutdown-timeout", "700"), ("repl-timeout", "1000")]);
    let _raw = RawReplica::synchronized(primary.addr());
    let (mut client, mut other) = (primary.client(), primary.client());
    client.expect(&[("SET k v", "+OK")]);
    client.send(b"SHUTDOWN NOSAVE\r\n");
    wait_until(|| other.call("INFO server").contains("shutdown_in_milliseconds:700000"));
    primary.server.advance_ms(699_999);
    other.expect(&[("GET k", "$1 v")]);
    assert_eq!(other.info("shutdown_in_milliseconds"), "1");
    primary.server.advance_ms(1);
    assert!(client.read_to_end().is_empty());
}

#[test]
fn a_shutdown_that_waits_for_replicas_can_be_joined_and_aborted() {
    let (mut process, mut raw) = start_with_lag("300");
    let addr = process.known_addr();
    let [mut first, mut second, mut other] = [(); 3].map(|()| Client::connect(addr));
    other.expect(&[("SHUTDOWN ABORT", "-ERR No shutdown in progress.")]);
    first.send(b"SHUTDOWN\r\n");
    wait_until(|| other.info("blocked_clients") == "1");
    second.send(b"SHUTDOWN NOW\r\n");
    wait_until(|| other.info("blocked_clients") == "2");
    assert_eq!(other.info("connected_clients"), "3", "a replica is none");
    other.expect(&[("SHUTDOWN ABORT", "+OK"), ("SHUTDOWN ABORT", "-ERR No shutdown in progress.")]);
    assert_eq!([first.reply(), second.reply()], [FAILED; 2]);
    process.read_until("Shutdown manually aborted.");
    other.expect(&[("SET late v", "+OK")]);
    assert!(!other.call("INFO server").contains("shutdown_in_milliseconds"));
    raw.changes_before("set late v");
}

#[test]
fn a_shutdown_that_fails_after_its_wait_for_replicas_replies_so() {
    let (mut process, mut raw) = start_with_lag("300");
    let addr = process.known_addr();
    let [mut client, mut other] = [(); 2].map(|()| Client::connect(addr));
    client.send(b"SHUTDOWN\r\n");
    process.read_until("Waiting for replicas before shutting down.");
    other.expect(&[("CONFIG SET rdb-key-save-delay 1000000000", "+OK"), ("CONFIG SET appendonly yes", "+OK")]);
    catch_up(&mut raw);
    assert_eq!(client.reply(), FAILED);
    process.read_until("1 of 1 replicas are in sync when shutting down.");
    process.read_until("Writing initial AOF, can't exit.");
    process.read_until("Errors trying to shut down the server. Check the logs for more information.");
    other.expect(&[("SET late v", "+OK"), ("SHUTDOWN ABORT", "-ERR No shutdown in progress.")]);
}

#[test]
fn a_clock_that_stands_still_keeps_no_server_from_stopping() {
    let mut process = Process::start(&["--test-mode", "--repl-diskless-sync-delay", "0", "--shutdown-timeout", "1"]);
    let mut client = process.client();
    let _raw = RawReplica::synchronized(process.known_addr());
    client.call("TEST.TIME FREEZE");
    client.expect(&[("SET k v", "+OK")]);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    // The server does not wait for a replica in the same process: it ends with it.
    let mut process = Process::start(&["--test-mode", "--shutdown-timeout", "300"]);
    let mut client = process.client();
    client.expect(&[("TEST.INSTANCE REPLICA ns-b", "+OK")]);
    assert_eq!(client.info("connected_clients"), "1");
    let mut replica = Client::connect(process.known_addr());
    replica.expect(&[("AUTH ns-b any", "+OK"), ("TEST.FAULT ADD LINK DELAY 100000", ":1")]);
    client.expect(&[("SET k v", "+OK")]);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
}
