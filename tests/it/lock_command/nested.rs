//! `keylatch lock` in the command of another one.

use std::os::unix::net::UnixStream;

use crate::harness::{Client, TestServer, wait_until};
use crate::lock_command::connections::plain_servers;
use crate::lock_command::{Running, UNTIL_TOLD, at, run, run_failing, shell};
use crate::process::{binary, text};

/// Returns a script that runs `keylatch lock` with these arguments.
fn inner(at: &[String], args: &str) -> String {
    format!("{} lock {} {args}", binary().display(), at.join(" "))
}

#[test]
fn a_lock_in_itself_is_held_with_the_same_token_and_stays_with_the_outer_command() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    let told = "sh -c 'echo $KEYLATCH_LOCK $KEYLATCH_FENCE $KEYLATCH_TOKEN'";
    for mode in ["job", "--shared job", "--permits 2 --of 3 job"] {
        let again = inner(&at, &format!("-n --ttl 1s --at-least 1ms {mode} -- {told}"));
        let script =
            format!("{told}; {}; {again} && echo left; read _; exit 3", inner(&at, &format!("-n {mode} -- {told}")));
        let mut outer = Running::start(&at, &shell(&mode.split(' ').collect::<Vec<_>>(), &script));
        let expected = outer.line();
        assert!(expected.starts_with("job "), "{expected}");
        assert_eq!((outer.line(), outer.line(), outer.line()), (expected.clone(), expected, "left".to_owned()));
        assert_eq!(client.call("PTTL job"), ":30000");
        outer.tell();
        assert_eq!(outer.end(), (Some(3), String::new()), "{mode}");
        client.expect(&[("EXISTS job", ":0")]);
    }
    let part = inner(&at, "-n b -- sh -c 'echo $KEYLATCH_LOCK'");
    let output = run(&at, &shell(&["a", "b"], &part));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("b\n".to_owned(), String::new()));
}

#[test]
fn a_nested_lock_that_the_outer_command_does_not_hold_so_is_refused() {
    let server = TestServer::start();
    let at = at(&server);
    for (outer, nested) in [
        (&["--shared", "a"][..], "a"),
        (&["a"], "a b"),
        (&["--permits", "1", "--of", "3", "a"], "--permits 2 a"),
        (&["--permits", "1", "--of", "3", "a"], "a"),
    ] {
        let complaint = run_failing(&at, &shell(outer, &inner(&at, &format!("{nested} -- echo"))), 75);
        let reason = "DEADLOCK the enclosing keylatch lock holds a part of it, or in another mode";
        let name = if nested == "a b" { "a b" } else { "a" };
        assert_eq!(complaint, format!("keylatch lock: to wait for {name} would never end: {reason}\n"));
    }
}

#[test]
fn an_environment_that_holds_no_lock_here_is_that_of_anybody() {
    let (server, other) = (TestServer::start(), TestServer::start());
    let mut client = other.client();
    let there = inner(&at(&other), &format!("job -- sh -c 'echo $KEYLATCH_TOKEN; {UNTIL_TOLD}'"));
    let mut running = Running::start(&at(&server), &shell(&["job"], &format!("echo $KEYLATCH_TOKEN; {there}")));
    let (outer, inner) = (running.line(), running.line());
    assert_ne!(outer, inner);
    client.expect(&[("GET job", &format!("$32 {inner}"))]);
    running.tell();
    assert_eq!(running.line(), "ready");
    assert_eq!(running.end(), (Some(3), String::new()));
    client.expect(&[("EXISTS job", ":0")]);
}

#[test]
fn a_nested_command_ends_when_the_lock_is_lost_that_the_outer_one_only_warns_of() {
    let server = TestServer::start();
    let at = at(&server);
    let nested = inner(&at, "--ttl 1s job -- sh -c 'echo ready; exec sleep 1000'");
    let running = Running::start(&at, &shell(&["--on-lost", "warn", "job"], &nested));
    assert_eq!(running.line(), "ready");
    server.client().call("DEL job");
    let (status, complaint) = running.end();
    assert_eq!(status, Some(79));
    assert!(complaint.contains("job was lost (deleted): the command goes on without it"), "{complaint}");
    assert!(complaint.contains("job was lost (it has expired, or was taken): ending the command"), "{complaint}");
}

#[test]
fn a_nested_lock_on_redis_is_that_of_the_outer_command_too() {
    for (oracle, at, _dir) in plain_servers() {
        let mut client: Client<UnixStream> = Client::connect_unix(oracle.socket());
        let nested = inner(&at, "-nq --ttl 1s job -- sh -c 'echo $KEYLATCH_TOKEN'");
        let script = format!("echo $KEYLATCH_TOKEN; {nested}; read _; exit 3");
        let mut outer = Running::start(&at, &shell(&["--quiet", "job"], &script));
        assert_eq!(outer.line(), outer.line());
        wait_until(|| client.int("PTTL job") > 1000);
        outer.tell();
        assert_eq!(outer.end(), (Some(3), String::new()));
        client.expect(&[("EXISTS job", ":0")]);
    }
}
