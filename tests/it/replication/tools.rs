//! redis-cli as a replica, and redis-server with a user of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::parties::Primary;
use super::snapshots::fill;
use crate::harness::wait_until;
use crate::skipped;

/// Starts redis-cli; `None` if it is not installed.
fn redis_cli(primary: &Primary, args: &[&str]) -> Option<Child> {
    let port = primary.addr().port().to_string();
    let mut command = Command::new("redis-cli");
    let command =
        command.args(["-p", &port]).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().ok();
    if child.is_none() {
        skipped::without("redis-cli");
    }
    child
}

/// Makes redis-cli write a file, which Redis' checker accepts; returns the checker's output.
fn file(primary: &Primary, option: &str, path: &Path) -> Option<String> {
    let saved = redis_cli(primary, &[option, path.to_str().expect("text")])?.wait_with_output().expect("it runs");
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let checked = Command::new("redis-check-rdb").arg(path).output().expect("it is installed with redis-server");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{said}");
    Some(said)
}

#[test]
fn redis_cli_saves_a_snapshot_and_the_functions_alone() {
    for setting in ["yes", "no"] {
        let primary = Primary::start(&[("repl-diskless-sync", setting)]);
        fill(&mut primary.client());
        let keys = primary.client().int("DBSIZE") + 1;
        let Some(said) = file(&primary, "--rdb", &primary.dir.path().join("all.rdb")) else { return };
        assert!(said.contains(&format!("[info] {keys} keys read")), "{said}");
        let functions = primary.dir.path().join("functions.rdb");
        let said = file(&primary, "--functions-rdb", &functions).expect("it was there");
        assert!(said.contains("[info] 0 keys read"), "{said}");
        if cfg!(feature = "lua") {
            let bytes = std::fs::read(&functions).expect("a file");
            assert!(bytes.windows(5).any(|window| window == b"mylib"));
        }
        wait_until(|| primary.info("connected_slaves") == "0");
    }
}

#[test]
fn redis_cli_shows_the_stream() {
    let primary = Primary::start(&[]);
    fill(&mut primary.client());
    let Some(mut child) = redis_cli(&primary, &["--replica"]) else { return };
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    wait_until(|| primary.info("connected_slaves") == "1" && primary.shows("state=online"));
    let mut client = primary.client();
    // redis-cli mistakes the first command for the reply to its REPLCONF ACK, and does not show it.
    client.expect(&[("SET key v", "+OK"), ("SELECT 3", "+OK"), ("SET shown v", "+OK")]);
    let seen: Vec<String> = lines.by_ref().take_while(|line| !line.contains("shown")).collect();
    assert!(seen.iter().any(|line| line == "\"SELECT\",\"3\""), "{seen:?}");
    child.kill().expect("it runs");
    child.wait().expect("it has run");
}

#[test]
fn a_user_who_may_only_replicate_is_enough_for_a_redis_server() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    fill(&mut client);
    client.call("ACL SETUSER replica on >secret +psync +replconf +ping");
    let Some(replica) = primary.replica(&["--masteruser", "replica", "--masterauth", "secret"]) else { return };
    primary.assert_same(&replica);
    client.call("SET k v");
    primary.assert_same(&replica);
    let line = client.call("CLIENT LIST TYPE replica");
    assert!(line.contains(" user=replica "), "{line}");
    let other = primary.replica(&["--masteruser", "replica", "--masterauth", "wrong"]).expect("it was there");
    wait_until(|| primary.info("acl_access_denied_auth") != "0");
    assert_eq!(other.info("master_link_status"), "down");
}
