//! The commands of REPLICATION.md, run as they stand there.

use std::process::Command;

use super::nodes::{Kind, Node};
use super::snapshots::fill;
use crate::harness::wait_until;

/// Runs a block of the page in a shell; returns what it says, and whether it has ended well.
fn run(block: &str, old: &Node, new: &Node) -> (String, bool) {
    let page = include_str!("../../../docs/REPLICATION.md");
    let begin = format!("<!-- {block} -->\n```sh\n");
    let commands = page.split(&begin).nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands");
    let mut shell = Command::new("timeout");
    shell.args(["30", "bash", "-c", commands]).env("OLD", old.port().to_string()).env("NEW", new.port().to_string());
    let output = shell.output().expect("bash starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (said, output.status.success())
}

#[test]
fn data_moves_from_redis_to_keylatch_and_back_without_downtime() {
    let Some(old) = Node::start(Kind::Redis, &[]) else { return };
    let new = Node::keylatch(&[]);
    fill(&mut old.client());
    let (said, is_done) = run("moving", &old, &new);
    assert!(is_done, "{said}");
    assert_eq!(said.matches("db7:keys=1,").count(), 2, "{said}");
    old.assert_same(&new);
    new.client().expect(&[("SET written here", "+OK")]);
    old.assert_same(&new);
    let (said, is_done) = run("back", &old, &new);
    assert!(is_done, "{said}");
    new.assert_same(&old);
    assert_eq!(old.client().call("GET written"), "$4 here");
    wait_until(|| old.info("connected_slaves") == "1");
    assert_eq!((old.info("sync_full"), new.info("sync_full")), ("1".into(), "0".into()));
}
