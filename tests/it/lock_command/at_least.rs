//! Locks that stay for a time although their command has ended.

use std::os::unix::net::UnixStream;

use crate::harness::{Client, TestServer};
use crate::lock_command::connections::plain_servers;
use crate::lock_command::{Running, UNTIL_TOLD, at, run, run_failing, shell};
use crate::process::text;

#[test]
fn a_lock_stays_for_the_rest_of_the_time_that_it_is_kept_at_least() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    let output = run(&at, &shell(&["--at-least", "5m", "job"], "exit 4"));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), String::new()));
    let rest = client.int("PTTL job");
    assert!((1..=300_000).contains(&rest), "{rest}");
    let complaint = run_failing(&at, &["-n", "job", "--", "echo"], 75);
    assert!(complaint.starts_with("keylatch lock: job is held by tester@"), "{complaint}");
    server.advance_ms(300_000);
    client.expect(&[("EXISTS job", ":0")]);
    for mode in [&["--shared", "job"][..], &["--permits", "1", "--of", "2", "job"], &["job", "more"]] {
        let output = run(&at, &[&["--at-least", "1h"], mode, &["--", "true"]].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(client.int("PTTL job") > 30_000);
        client.call("DEL job more");
    }
}

#[test]
fn a_lock_that_was_held_for_longer_than_it_is_kept_at_least_is_released() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    let mut running = Running::ready(&at, &["--at-least", "1ms", "job"], &format!("sleep 0.01; {UNTIL_TOLD}"));
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    client.expect(&[("EXISTS job", ":0")]);
}

#[test]
fn the_rest_of_the_time_is_set_also_if_its_reply_is_lost() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, at) = (server.client(), at(&server));
    for fault in ["LOSEREPLY", "DROP"] {
        client.call(&format!("TEST.FAULT ADD LOCK.RENEW {fault} COUNT 1"));
        let output = run(&at, &shell(&["--at-least", "1h", "job"], "exit 3"));
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()), "{fault}");
        assert!(client.int("PTTL job") > 30_000);
        client.expect(&[("DEL job", ":1")]);
    }
    client.call("TEST.FAULT ADD LOCK.RENEW ERROR LOADING");
    let complaint = run_failing(&at, &shell(&["--at-least", "1h", "job"], "exit 3"), 3);
    assert_eq!(complaint, "keylatch lock: job was not kept for --at-least (LOADING): it ends within 30s\n");
}

#[test]
fn a_lock_on_redis_is_kept_at_least_as_well() {
    for (oracle, at, _dir) in plain_servers() {
        let mut client: Client<UnixStream> = Client::connect_unix(oracle.socket());
        let output = run(&at, &shell(&["--at-least", "5m", "job"], "exit 4"));
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let rest = client.int("PTTL job");
        assert!((30_001..=300_000).contains(&rest), "{rest}");
    }
}
