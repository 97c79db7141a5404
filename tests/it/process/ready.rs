//! Readiness of a started server, and its end, from the view of the program that has started it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::harness::wait_for_exit;
use crate::process::{Process, binary};
use crate::signals::send_to;

#[test]
fn standard_output_has_one_line_of_json_and_the_log_goes_elsewhere_where_a_program_waits_for_it() {
    for (args, is_told) in [
        (&["--port", "0"][..], true),
        (&["--port", "0", "--test-mode", "yes"], true),
        (&["--port", "0", "--always-show-logo", "yes", "--loglevel", "debug"], true),
        (&["--port", "0", "--unixsocket", "s", "--exit-on-stdin-close", "yes"], true),
        (&["--port", "0", "--unixsocket", "s"], false),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(binary());
        command.args(args).args(["--save", "", "--dir"]).arg(dir.path()).env_remove("KEYLATCH_REQUIRE_REDIS");
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        out.read_line(&mut first).expect("text");
        assert_eq!(first.starts_with(r#"{"ready":true,"host":"127.0.0.1","port":"#), is_told, "{args:?}: {first}");
        while !is_told && !first.contains("Ready to accept connections unix") {
            assert!(out.read_line(&mut first).expect("text") > 0, "{first}");
        }
        send_to("TERM", child.id());
        let (mut rest, mut log) = (String::new(), String::new());
        out.read_to_string(&mut rest).expect("text");
        child.stderr.take().expect("a pipe").read_to_string(&mut log).expect("text");
        assert!(wait_for_exit(&mut child).success());
        let (logged, silent) = if is_told { (log, rest) } else { (rest, log) };
        assert!(logged.contains("Received SIGTERM") && silent.is_empty(), "{args:?}: {logged}, {silent}");
    }
}

#[test]
fn the_port_file_names_the_port_while_the_server_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("port");
    let mut process = Process::start(&["--port-file", path.to_str().expect("text")]);
    let mut client = process.client();
    let written = std::fs::read_to_string(&path).expect("it is there once the server is ready");
    assert_eq!(written, format!("{}\n", process.known_addr().port()));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing else is left there");
    client.send(b"SHUTDOWN\r\n");
    assert!(process.wait().success());
    assert!(!path.exists());
}

#[test]
fn a_server_that_watches_standard_input_ends_when_that_is_closed() {
    for switch in [&["--exit-on-stdin-close"][..], &["--exit-on-stdin-close", "yes"]] {
        let args = [switch, &["--port", "0", "--bind", "127.0.0.1"]].concat();
        let mut process = Process::run(Command::new(binary()).args(args).stdin(Stdio::piped()));
        let mut client = process.client();
        process.child.stdin.iter_mut().for_each(|input| input.write_all(b"ignored\n").expect("it is read"));
        client.expect(&[("SET k v", "+OK")]);
        drop(process.child.stdin.take());
        assert!(process.wait().success());
        assert_eq!(client.read_to_end(), b"");
    }
}
