//! Servers of all kinds: ways to reach them, missing servers, refusals, and servers without `LOCK.*`.

use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::differential::oracle::Oracle;
use crate::harness::{Client, ReservedPort, TestServer, wait_until};
use crate::lock_command::{Running, UNTIL_TOLD, at, lock, run, run_failing, shell, wait_for_queue};
use crate::process::text;

#[test]
fn without_a_server_the_status_is_69() {
    let free = ReservedPort::on([127, 0, 0, 8]);
    let port = free.port().to_string();
    for args in [&["job", "--", "echo"][..], &["--list"], &["--watch"], &["--release", "job", "--force"]] {
        let args = [&["-h", "127.0.0.8", "-p", &port], args].concat();
        let expected = format!("keylatch lock: could not connect to {}: Connection refused\n", free.addr());
        assert_eq!(run_failing(&[], &args, 69), expected);
    }
    let complaint = run_failing(&[], &["-s", "/nonexistent/socket", "job", "--", "echo"], 69);
    assert!(complaint.ends_with("/nonexistent/socket: No such file or directory\n"), "{complaint}");
}

#[test]
fn wrong_options_have_the_status_64() {
    for (args, part) in [
        (&["job"][..], "the command is missing"),
        (&["job", "make"], "The command follows '--'"),
        (&["--ttl", "1x", "job", "--", "make"], "'1x'"),
    ] {
        assert!(run_failing(&[], args, 64).contains(part), "{args:?}");
    }
    let output = run(&[], &["--help"]);
    let help = text(&output.stdout);
    assert!(output.status.success() && help.lines().all(|line| line.chars().count() <= 105), "{help}");
    for part in ["Usage: keylatch lock [options] NAME... -- COMMAND", "--on-lost <HOW>", "KEYLATCH_FENCE", "  79   "] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn users_passwords_and_databases_are_those_of_redis_cli() {
    let server = TestServer::start_with(&[("requirepass", "secret")]);
    let (mut client, at) = (server.client(), at(&server));
    client.expect(&[("AUTH secret", "+OK"), ("ACL SETUSER bob on >pw +@all ~job", "+OK"), ("SELECT 3", "+OK")]);
    let addr = server.addr();
    let held = ["--db", "3", "job", "--", "sh", "-c", UNTIL_TOLD];
    for login in [&["-a", "secret"][..], &["--pass", "secret"], &["--user", "bob", "-a", "pw"]] {
        let mut running = Running::start(&at, &[login, &held].concat());
        assert_eq!(running.line(), "ready");
        assert_eq!(client.call("EXISTS job"), ":1");
        running.tell();
        assert_eq!(running.end(), (Some(3), String::new()));
    }
    for (url, db) in [(format!("redis://bob:pw@{addr}/3"), ":1"), (format!("redis://:secret@{addr}"), ":0")] {
        let mut running = Running::ready(&[], &["-u", &url, "job"], UNTIL_TOLD);
        assert_eq!(client.call("EXISTS job"), db);
        running.tell();
        assert_eq!(running.end(), (Some(3), String::new()));
    }
    let mut command = lock(&at, &["job", "--", "printenv", "REDISCLI_AUTH"]);
    let output = command.env("REDISCLI_AUTH", "secret").stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success() && text(&output.stdout) == "secret\n", "{output:?}");
    let wanted = "keylatch lock: the server wants a password: --pass, or REDISCLI_AUTH\n";
    assert_eq!(run_failing(&at, &["job", "--", "echo"], 77), wanted);
    let complaint = run_failing(&at, &["-a", "wrong", "job", "--", "echo"], 77);
    assert!(complaint.starts_with("keylatch lock: wrong user or password: WRONGPASS "), "{complaint}");
    let complaint = run_failing(&at, &["--user", "bob", "-a", "pw", "other", "--", "echo"], 77);
    assert!(complaint.starts_with("keylatch lock: the user may not do this: NOPERM "), "{complaint}");
    let complaint = run_failing(&at, &["-a", "secret", "--db", "99", "job", "--", "echo"], 77);
    assert_eq!(complaint, "keylatch lock: the server refuses: ERR DB index is out of range\n");
}

#[test]
#[cfg(feature = "tls")]
fn a_lock_travels_over_tls() {
    let authority = crate::tls::Authority::new();
    let server = authority.start("");
    let path = |name: &str| authority.path(name).display().to_string();
    let port = server.server.addr().port().to_string();
    let (ca, cert, key) = (path("ca.crt"), path("client.crt"), path("client.key"));
    let identity = ["-p", &port, "--tls", "--cert", &cert, "--key", &key];
    for trust in [&["--cacert", &ca][..], &["--insecure"]] {
        let output = run(&[], &[&identity, trust, &["job", "--", "echo", "done"]].concat());
        assert!(output.status.success() && text(&output.stdout) == "done\n", "{output:?}");
    }
    let complaint = run_failing(&[], &[&identity, &["job", "--", "echo"][..]].concat(), 69);
    assert!(complaint.contains("could not connect to 127.0.0.1:"), "{complaint}");
}

#[test]
fn errors_of_the_server_are_told_in_plain_words() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, at) = (server.client(), at(&server));
    for (error, status, told) in [
        ("MOVED 3999 10.0.0.7:6381", 69, "job belongs to another server of the cluster: 10.0.0.7:6381"),
        ("READONLY You can't write", 69, "the server is a replica: connect to its primary"),
        ("DEADLOCK job held by client 1", 75, "to wait for job would never end: DEADLOCK job held by client 1"),
        ("LOADING not yet", 69, "LOADING not yet"),
        ("ERR what\u{1b}[2J", 77, "the server refuses: ERR what\\u{1b}[2J"),
    ] {
        client.call_args(&["TEST.FAULT", "ADD", "LOCK.ACQUIRE", "ERROR", error]);
        assert_eq!(run_failing(&at, &["-n", "job", "--", "echo"], status), format!("keylatch lock: {told}\n"));
        client.expect(&[("TEST.FAULT CLEAR", "+OK")]);
    }
    client.expect(&[("RPUSH job x", ":1")]);
    let complaint = run_failing(&at, &["job", "--", "echo"], 77);
    assert_eq!(complaint, "keylatch lock: job is no lock: the key holds data of another type\n");
}

#[test]
fn a_server_that_loads_or_breaks_connections_is_asked_again() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, at) = (server.client(), at(&server));
    for (fault, told) in [
        ("ERROR LOADING COUNT 2", "LOADING"),
        ("DROP COUNT 1", "lost the connection: Server closed the connection"),
        ("LOSEREPLY COUNT 1", "lost the connection: Server closed the connection"),
    ] {
        client.call(&format!("TEST.FAULT ADD LOCK.ACQUIRE {fault}"));
        let output = run(&at, &["job", "--", "echo", "done"]);
        assert!(output.status.success() && text(&output.stdout) == "done\n", "{output:?}");
        assert_eq!(text(&output.stderr), format!("keylatch lock: {told}; trying again\n"));
        client.expect(&[("TEST.FAULT CLEAR", "+OK"), ("EXISTS job", ":0")]);
    }
    client.call("TEST.FAULT ADD LOCK.ACQUIRE LOSEREPLY");
    let complaint = run_failing(&at, &["-n", "job", "--", "echo"], 69);
    assert_eq!(complaint, "keylatch lock: lost the connection: Server closed the connection\n");
    client.expect(&[("TEST.FAULT CLEAR", "+OK"), ("EXISTS job", ":0")]);
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE job token PX 60000");
    let mut waiting = Running::start(&at, &shell(&["job"], UNTIL_TOLD));
    wait_for_queue(&server, 1);
    client.call("CLIENT KILL TYPE normal SKIPME yes");
    assert!(waiting.complaint().contains("trying again"));
    wait_for_queue(&server, 1);
    client.expect(&[("DEL job", ":1")]);
    assert_eq!(waiting.line(), "ready");
    waiting.tell();
    assert_eq!(waiting.end(), (Some(3), String::new()));
}

/// Message about a server without `LOCK.*`, printed once.
const PLAIN: &str = "keylatch lock: the server has no LOCK commands: no queue, no fence\n";

/// Starts redis-server and valkey-server; none of those that are not installed.
pub(super) fn plain_servers() -> Vec<(Oracle, [String; 2], tempfile::TempDir)> {
    let start = |start: fn(&std::path::Path, &[&str]) -> Option<Oracle>| {
        let dir = tempfile::tempdir().expect("a directory");
        let oracle = start(dir.path(), &["--appendonly", "no"])?;
        let at = ["-s".to_owned(), oracle.socket().display().to_string()];
        Some((oracle, at, dir))
    };
    [start(Oracle::start_in), start(Oracle::start_valkey_in)].into_iter().flatten().collect()
}

#[test]
fn redis_and_valkey_lock_as_well_without_queue_and_fence() {
    for (oracle, at, _dir) in plain_servers() {
        let mut client: Client<UnixStream> = Client::connect_unix(oracle.socket());
        let script = "echo ${KEYLATCH_FENCE-none} $KEYLATCH_TOKEN; read _; exit 3";
        let mut command = lock(&at, &shell(&["job"], script));
        command.env("KEYLATCH_FENCE", "7"); // of an outer lock
        let mut holder = Running::of(&mut command);
        let told = holder.line();
        let (fence, token) = told.split_once(' ').expect("two words");
        assert_eq!(fence, "none");
        client.expect(&[("GET job", &format!("$32 {token}"))]);
        assert!((1..=30_000).contains(&client.int("PTTL job")));
        let complaint = run_failing(&at, &["-n", "job", "--", "echo"], 75);
        assert_eq!(complaint, format!("{PLAIN}keylatch lock: job is held by another\n"));
        assert_eq!(run_failing(&at, &["-nq", "job", "--", "echo"], 75), "");
        let mut waiting = Running::start(&at, &shell(&["--verbose", "job"], UNTIL_TOLD));
        assert_eq!(format!("{}\n", waiting.complaint()), PLAIN);
        assert_eq!(waiting.complaint(), "keylatch lock: waiting for job");
        holder.tell();
        assert_eq!(holder.end(), (Some(3), PLAIN.to_owned()));
        assert_eq!(waiting.line(), "ready");
        waiting.tell();
        assert_eq!(waiting.end(), (Some(3), String::new()));
        client.expect(&[("EXISTS job", ":0")]);
    }
}

#[test]
fn on_redis_a_loss_is_found_by_the_next_renewal() {
    for (oracle, at, _dir) in plain_servers() {
        let mut client: Client<UnixStream> = Client::connect_unix(oracle.socket());
        let args = ["--ttl", "3s", "job"];
        let running = Running::ready(&at, &args, "echo ready; exec sleep 1000");
        client.call("CONFIG RESETSTAT");
        wait_until(|| client.call("INFO commandstats").contains("cmdstat_eval:calls=2"));
        client.expect(&[("SET job other", "+OK")]);
        let (status, complaint) = running.end();
        assert_eq!(status, Some(79), "{complaint}");
        let lost = "keylatch lock: job was lost (it has expired, or was taken): ending the command\n";
        assert_eq!(complaint, format!("{PLAIN}{lost}"));
        client.expect(&[("GET job", "$5 other")]);
    }
}

#[test]
fn on_redis_what_needs_lock_commands_says_so() {
    for (oracle, at, _dir) in plain_servers() {
        let mut client: Client<UnixStream> = Client::connect_unix(oracle.socket());
        client.expect(&[("SET job token", "+OK"), ("RPUSH list x", ":1")]);
        for args in [&["--list"][..], &["--watch"], &["--watch", "job"]] {
            let expected = "keylatch lock: the server has no LOCK commands: it cannot show its locks\n";
            assert_eq!(run_failing(&at, args, 77), expected);
        }
        let complaint = run_failing(&at, &["list", "--", "echo"], 77);
        assert_eq!(complaint, format!("{PLAIN}keylatch lock: list is no lock: the key holds data of another type\n"));
        assert_eq!(run_failing(&at, &["--release", "job", "--force"], 0), "");
        assert_eq!(run_failing(&at, &["--release", "job", "--force"], 1), "keylatch lock: job is not held\n");
        let denied = "ACL SETUSER bob on >pw +@all -lock.acquire ~*";
        assert!(client.call(denied).starts_with("-ERR"), "a command that the server does not have");
        client.expect(&[("ACL SETUSER bob on >pw ~* +@all -eval -set", "+OK")]);
        let complaint = run_failing(&at, &["--user", "bob", "-a", "pw", "job", "--", "echo"], 77);
        assert!(complaint.contains("the user may not do this: NOPERM "), "{complaint}");
    }
}

#[test]
fn a_lock_whose_reply_is_lost_is_given_back_when_the_wait_ends_without_a_connection() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut client = server.client();
    client.expect(&[("TEST.FAULT ADD LOCK.ACQUIRE LOSEREPLY COUNT 1", ":1")]);
    let refusal = ["TEST.FAULT", "ADD", "HELLO", "ERROR", "NOAUTH later", "COUNT", "1", "AFTER", "1"];
    assert_eq!(client.call_args(&refusal), ":2");
    run_failing(&at(&server), &["job", "--", "echo"], 77);
    client.expect(&[("EXISTS job", ":0")]);
}

#[cfg(feature = "lua")]
#[test]
fn without_lock_commands_a_lock_whose_reply_is_lost_is_known_again() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut client = server.client();
    let unknown = ["TEST.FAULT", "ADD", "LOCK.ACQUIRE", "ERROR", "ERR unknown command 'LOCK.ACQUIRE'"];
    assert_eq!(client.call_args(&unknown), ":1");
    client.expect(&[("TEST.FAULT ADD SET LOSEREPLY COUNT 1", ":2")]);
    let output = run(&at(&server), &["--wait", "5s", "job", "--", "echo", "done"]);
    assert!(output.status.success() && text(&output.stdout) == "done\n", "{output:?}");
    client.expect(&[("EXISTS job", ":0")]);
}
