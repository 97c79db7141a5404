//! Waits for a server that is not there yet.

use std::process::Stdio;

use crate::harness::TestServer;
use crate::lock_command::{Running, UNTIL_TOLD, at, lock, run, run_failing, shell};
use crate::process::text;

#[test]
fn a_server_that_comes_within_the_wait_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket").display().to_string();
    let at = ["-s".to_owned(), path.clone()];
    let mut waiting = Running::start(&at, &shell(&["--wait", "1h", "job"], UNTIL_TOLD));
    let complaint = waiting.complaint();
    let expected = format!("keylatch lock: could not connect to {path}: No such file or directory; trying again");
    assert_eq!(complaint, expected);
    let _server = TestServer::start_with(&[("unixsocket", &path)]);
    assert_eq!(waiting.line(), "ready");
    waiting.tell();
    assert_eq!(waiting.end(), (Some(3), String::new()));
}

#[test]
fn a_server_that_does_not_come_within_the_wait_is_missing() {
    let at = ["-s".to_owned(), "/nonexistent/socket".to_owned()];
    let reason = "could not connect to /nonexistent/socket: No such file or directory";
    let complaint = run_failing(&at, &["--wait", "100ms", "job", "--", "echo"], 69);
    assert_eq!(complaint, format!("keylatch lock: {reason}; trying again\nkeylatch lock: {reason}\n"));
    for once in [&["--wait", "0"][..], &["-n"], &[]] {
        let complaint = run_failing(&at, &[once, &["job", "--", "echo"]].concat(), 69);
        assert_eq!(complaint, format!("keylatch lock: {reason}\n"));
    }
    let mut quiet = lock(&at, &["-q", "--wait", "100ms", "job", "--", "echo"]);
    let output = quiet.stdin(Stdio::null()).output().expect("it starts");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(69), format!("keylatch lock: {reason}\n")));
}

#[test]
fn a_replica_that_becomes_the_primary_within_the_wait_is_waited_for() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, at) = (server.client(), at(&server));
    client.call("TEST.FAULT ADD LOCK.ACQUIRE ERROR READONLY COUNT 2");
    let output = run(&at, &["--wait", "1h", "job", "--", "echo", "done"]);
    assert!(output.status.success() && text(&output.stdout) == "done\n", "{output:?}");
    let told = "keylatch lock: the server is a replica: connect to its primary; trying again\n";
    assert_eq!(text(&output.stderr), told);
}

#[test]
fn a_server_without_hello_locks_as_well() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    server.client().call_args(&["TEST.FAULT", "ADD", "HELLO", "ERROR", "ERR unknown command 'HELLO'"]);
    let output = run(&at(&server), &["job", "--", "echo", "done"]);
    assert!(output.status.success() && text(&output.stdout) == "done\n" && output.stderr.is_empty(), "{output:?}");
}
