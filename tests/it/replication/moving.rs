//! The commands of REPLICATION.md, executed as they are.

use std::process::Command;

use super::nodes::{Kind, Node};
use super::snapshots::fill;
use crate::harness::wait_until;

/// Returns a block of the page.
fn block(name: &str) -> &'static str {
    let page = include_str!("../../../docs/REPLICATION.md");
    let begin = format!("<!-- {name} -->\n```sh\n");
    page.split(&begin).nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands")
}

/// Runs a block in a shell, with the function that the first block defines, and with a password if there is one;
/// returns its output, and whether it has succeeded.
fn run(name: &str, old: &Node, new: &Node, password: &str) -> (String, bool) {
    let function = block("moving").split_once("\n}\n").expect("a function").0;
    let commands = format!("{function}\n}}\n{}", block(name));
    let mut shell = Command::new("timeout");
    shell.args(["60", "bash", "-c", &commands]).env("REDISCLI_AUTH", password);
    shell.env("OLD", old.port().to_string()).env("NEW", new.port().to_string());
    let output = shell.output().expect("bash starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (said, output.status.success())
}

#[test]
fn data_moves_from_redis_to_keylatch_and_back_without_downtime() {
    let Some(old) = Node::start(Kind::Redis, &[]) else { return };
    let new = Node::keylatch(&[]);
    fill(&mut old.client());
    let (said, is_done) = run("moving", &old, &new, "");
    assert!(is_done, "{said}");
    assert_eq!(said.matches("db7:keys=1,").count(), 2, "{said}");
    old.assert_same(&new);
    new.client().expect(&[("SET written here", "+OK")]);
    old.assert_same(&new);
    let (said, is_done) = run("back", &old, &new, "");
    assert!(is_done, "{said}");
    new.assert_same(&old);
    assert_eq!(old.client().call("GET written"), "$4 here");
    wait_until(|| old.info("connected_slaves") == "1");
    assert_eq!((old.info("sync_full"), new.info("sync_full")), ("1".into(), "0".into()));
}

#[test]
fn data_moves_between_servers_with_a_password_and_not_without_it() {
    let Some(old) = Node::start(Kind::Redis, &[]) else { return };
    let new = Node::keylatch(&[]);
    let (mut at_old, mut at_new) = (old.client(), new.client());
    at_old.expect(&[("SET key value", "+OK"), ("CONFIG SET requirepass secret", "+OK")]);
    at_new.expect(&[("CONFIG SET requirepass secret", "+OK")]);
    let (said, is_done) = run("moving", &old, &new, "");
    assert!(!is_done && said.contains("NOAUTH"), "{said}");
    for (name, primary) in [("moving", &mut at_new), ("back", &mut at_old)] {
        let (said, is_done) = run(name, &old, &new, "secret");
        assert!(is_done, "{said}");
        primary.expect(&[("GET key", "$5 value")]);
        assert!(primary.call("ROLE").contains("master"));
    }
}
