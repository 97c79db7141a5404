//! What the binary says of the way it was started: options, variables, files that it passes over.

use std::process::Command;

use crate::process::{Process, binary};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn an_environment_variable_that_is_nearly_a_setting_is_refused_and_another_is_named_in_the_log() {
    let output = Command::new(binary()).env("KEYLATCH_MAXMEMROY", "1").output().expect("the binary starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("KEYLATCH_MAXMEMROY") && error.contains("Did you mean KEYLATCH_MAXMEMORY?"), "{error}");
    let mut command = Command::new(binary());
    command.args(["--port", "0", "--bind", "127.0.0.1"]).env("KEYLATCH_SOMETHING_ELSE", "1");
    let seen = Process::run(&mut command).read_until("ready");
    assert!(seen.contains("# the environment variable KEYLATCH_SOMETHING_ELSE is no setting"), "{seen}");
}

#[test]
fn who_starts_it_where_redis_has_saved_data_is_told_that_it_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("dump.rdb"), b"REDIS0010").expect("writable");
    let mut process = Process::start(&["--dir", dir.path().to_str().expect("text"), "--appendonly", "yes"]);
    let seen = process.read_until("ready");
    assert!(seen.contains("/dump.rdb is there, but data is not loaded from files"), "{seen}");
    assert!(seen.contains("# appendonly is on, but nothing is written"), "{seen}");
}
