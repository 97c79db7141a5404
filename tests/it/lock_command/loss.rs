//! Loss of the lock while its command runs, and locks that survive disturbances.

use std::process::Command;

use crate::harness::{Client, TestServer, wait_until};
use crate::lock_command::{FOREVER, Running, UNTIL_TOLD, at, run, shell};
use crate::process::{binary, text};

/// Starts a server on a Unix socket, whose address no other process takes when it ends.
fn on_socket() -> (TestServer, [String; 2], tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket").display().to_string();
    let server = TestServer::start_with(&[("unixsocket", &path)]);
    (server, ["-s".to_owned(), path], dir)
}

#[test]
fn a_lost_lock_ends_the_command_by_term() {
    let server = TestServer::start();
    let mut client = server.client();
    for (request, reason) in [("DEL job", "deleted"), ("SET job other", "overwritten"), ("FLUSHALL", "flushed")] {
        let running = Running::ready(&at(&server), &["job"], &format!("trap 'echo termed; exit 4' TERM; {FOREVER}"));
        client.call(request);
        assert_eq!(running.line(), "termed");
        let expected = format!("keylatch lock: job was lost ({reason}): ending the command\n");
        assert_eq!(running.end(), (Some(79), expected));
        client.call("DEL job");
    }
}

#[test]
fn a_command_that_stays_is_killed() {
    let server = TestServer::start();
    let script = format!("trap '' TERM; {FOREVER}");
    let running = Running::ready(&at(&server), &["--kill-after", "10ms", "job"], &script);
    server.client().call("DEL job");
    assert_eq!(running.end().0, Some(79));
    let script = format!("trap 'echo termed' TERM; {FOREVER}");
    let running = Running::ready(&at(&server), &["--on-lost", "kill", "job"], &script);
    server.client().call("DEL job");
    assert!(running.output.recv().is_err(), "it was sent TERM");
    assert_eq!(running.end().0, Some(79));
}

#[test]
fn what_the_command_has_started_ends_with_it() {
    let server = TestServer::start();
    for how in ["term", "kill"] {
        // It is unknown whether each of them has begun, and the last one ignores TERM.
        let script = "sleep 1000 & sh -c 'sleep 1000; echo next' & (trap '' TERM; exec sleep 1000) & echo ready; wait";
        let running = Running::ready(&at(&server), &["--on-lost", how, "-k", "100ms", "job"], script);
        server.client().call("DEL job");
        // Returns when no process has standard output open any more.
        assert_eq!(running.end().0, Some(79));
    }
}

#[test]
fn what_the_caller_has_started_does_not_end_with_the_command() {
    let server = TestServer::start();
    let lock =
        format!("{} lock {} job -- sh -c 'echo ready; exec sleep 1000'", binary().display(), at(&server).join(" "));
    let script = format!("exec 3<&0; (echo other; read _ <&3; echo told) & exec {lock}");
    let mut running = Running::of(Command::new("sh").args(["-c", &script]));
    let mut begun = [running.line(), running.line()];
    begun.sort();
    assert_eq!(begun, ["other", "ready"]);
    server.client().call("DEL job");
    wait_until(|| running.child.try_wait().expect("a child of ours").is_some());
    running.tell();
    assert_eq!(running.line(), "told");
    assert_eq!(running.end().0, Some(79));
}

#[test]
fn a_command_that_shall_go_on_without_the_lock_does() {
    let server = TestServer::start();
    let mut running = Running::ready(&at(&server), &["--on-lost", "warn", "job"], UNTIL_TOLD);
    server.client().call("DEL job");
    assert_eq!(running.complaint(), "keylatch lock: job was lost (deleted): the command goes on without it");
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
}

#[test]
fn a_command_whose_lock_has_gone_when_it_ends_does_not_succeed() {
    let server = TestServer::start();
    let script = format!("{} redis-cli {} DEL job", binary().display(), at(&server).join(" "));
    let output = run(&at(&server), &shell(&["job"], &script));
    assert_eq!(output.status.code(), Some(79), "{output:?}");
    assert!(text(&output.stderr).starts_with("keylatch lock: job was lost "), "{output:?}");
}

#[test]
fn the_lock_is_renewed_for_as_long_as_the_command_runs() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut running = Running::ready(&at(&server), &["--ttl", "3s", "job"], UNTIL_TOLD);
    for _ in 0..2 {
        server.advance_ms(2000);
        wait_until(|| client.int("PTTL job") == 3000);
    }
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
}

#[test]
fn a_connection_that_breaks_within_the_ttl_does_no_harm() {
    let server = TestServer::start();
    let mut client = server.client();
    let running = Running::ready(&at(&server), &["--ttl", "3s", "job"], &format!("trap 'exit 4' TERM; {FOREVER}"));
    // The new connection asks for notifications of a loss, so it is shown as the holder.
    let mut holder = || {
        let info = client.call("LOCK.INFO job");
        info.split(" client-id :").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok())
    };
    let before = holder().expect("a number");
    server.client().call(&format!("CLIENT KILL ID {before}"));
    wait_until(|| holder().is_some_and(|holder| holder > before));
    client.call("DEL job");
    let (status, complaint) = running.end();
    assert_eq!((status, complaint.as_str()), (Some(79), "keylatch lock: job was lost (deleted): ending the command\n"));
}

#[test]
fn a_server_that_is_away_for_the_ttl_loses_the_lock() {
    let (server, at, _dir) = on_socket();
    let running = Running::ready(&at, &["--ttl", "1s", "job"], &format!("trap 'exit 4' TERM; {FOREVER}"));
    server.end();
    let (status, complaint) = running.end();
    assert_eq!(status, Some(79));
    let lines: Vec<&str> = complaint.lines().collect();
    let [first, last] = lines[..] else { panic!("{complaint}") };
    assert!(first.starts_with("keylatch lock: the lock could not be renewed: "), "{first}");
    let reason = "the server was not reachable for its TTL";
    assert_eq!(last, format!("keylatch lock: job was lost ({reason}): ending the command"));
}

#[test]
fn a_server_that_is_away_at_the_end_is_not_waited_for() {
    let (server, at, _dir) = on_socket();
    let mut running = Running::ready(&at, &["job"], UNTIL_TOLD);
    server.end();
    running.tell();
    let (status, complaint) = running.end();
    assert_eq!(status, Some(3));
    assert!(complaint.starts_with("keylatch lock: job was not released (could not connect to "), "{complaint}");
    assert!(complaint.ends_with("): it ends within 30s\n"), "{complaint}");
}

#[test]
fn the_end_of_a_command_does_not_wait_for_a_renewal() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut client = server.client();
    client.expect(&[("TEST.FAULT ADD LOCK.RENEW DELAY 86400000", ":1")]);
    let mut running = Running::ready(&at(&server), &["--ttl", "60s", "job"], UNTIL_TOLD);
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    let mut running = Running::ready(&at(&server), &["--ttl", "4500ms", "job"], UNTIL_TOLD);
    wait_until(|| client.call("TEST.FAULT LIST").contains("$5 fired :1"));
    running.tell();
    assert_eq!(running.end().0, Some(3));
    client.expect(&[("TEST.FAULT CLEAR", "+OK")]);
}

/// Returns the connection that holds the lock, from LOCK.INFO.
fn holder(client: &mut Client) -> Option<String> {
    let info = client.call("LOCK.INFO job");
    let id = info.split("client-id :").nth(1)?.split(' ').next()?;
    Some(id.to_owned())
}

#[test]
fn a_broken_connection_is_made_again_long_before_the_next_renewal() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut running = Running::ready(&at(&server), &["--ttl", "1h", "job"], UNTIL_TOLD);
    let first = holder(&mut client);
    assert!(first.is_some());
    client.call("CLIENT KILL TYPE normal SKIPME yes");
    wait_until(|| holder(&mut client).is_some_and(|id| Some(id) != first));
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
}

#[test]
fn a_lock_that_goes_with_its_connection_is_known_to_be_lost_long_before_the_next_renewal() {
    let server = TestServer::start();
    let running = Running::ready(&at(&server), &["--ttl", "1h", "job"], "echo ready; exec sleep 1000");
    let mut client = server.client();
    let requests = ["MULTI", "CLIENT KILL TYPE normal SKIPME yes", "DEL job", "EXEC"];
    requests.iter().for_each(|request| _ = client.call(request));
    let expected = "keylatch lock: job was lost (it has expired, or was taken): ending the command\n";
    assert_eq!(running.end(), (Some(79), expected.to_owned()));
}

#[test]
fn a_release_whose_reply_is_lost_or_that_does_not_arrive_is_no_loss() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let (mut client, at) = (server.client(), at(&server));
    for fault in ["LOSEREPLY", "DROP"] {
        client.call(&format!("TEST.FAULT ADD LOCK.RELEASE {fault} COUNT 1"));
        let output = run(&at, &["job", "--", "sh", "-c", "exit 3"]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()), "{fault}");
        client.expect(&[("EXISTS job", ":0")]);
    }
}

#[test]
fn a_lock_that_is_granted_after_a_wait_longer_than_its_ttl_is_renewed_before_the_command_runs() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    client.int("LOCK.ACQUIRE job other PX 3500");
    client.call("TEST.FAULT ADD LOCK.RENEW DELAY 50");
    let output = run(&at(&server), &["--ttl", "3s", "--wait", "1h", "job", "--", "echo", "next"]);
    let (out, complaint) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), out.as_str(), complaint.as_str()), (Some(0), "next\n", ""));
}
