//! The log of the binary when its output accepts no more.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::harness::{Client, wait_until};
use crate::process::binary;

/// Logs more than a pipe and the queue before it can hold.
fn log_too_much(client: &mut Client) {
    let line = "x".repeat(10_000);
    for _ in 0..300 {
        assert_eq!(client.call_args(&["DEBUG", "LOG", &line]), "+OK");
    }
    (0..1000).for_each(|_| assert!(client.call("AUTH nobody wrong").starts_with("-WRONGPASS")));
    client.expect(&[("PING", "+PONG"), ("SET k v", "+OK")]);
    assert_ne!(client.info("dropped_log_lines"), "0");
}

#[test]
fn a_log_that_nobody_reads_stops_nobody_and_says_what_it_has_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (pipe, port_file) = (dir.path().join("log"), dir.path().join("port"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let paths = [pipe.to_str().expect("a plain path"), port_file.to_str().expect("a plain path")];
    let args = ["--enable-debug-command", "yes", "--port-file", paths[1]];
    for names_file in [true, false] {
        let mut command = Command::new(binary());
        command.args(args).args(["--port", "0", "--bind", "127.0.0.1"]);
        if names_file {
            command.args(["--logfile", paths[0]]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        wait_until(|| fs::read_to_string(&port_file).is_ok_and(|text| text.ends_with('\n')));
        let port = fs::read_to_string(&port_file).expect("it is there").trim().parse().expect("a port");
        log_too_much(&mut Client::connect(SocketAddr::from(([127, 0, 0, 1], port))));
        let mut lines: Box<dyn BufRead> = if names_file {
            Box::new(BufReader::new(File::open(&pipe).expect("the server has opened it")))
        } else {
            Box::new(BufReader::new(child.stderr.take().expect("a pipe")))
        };
        let (mut line, mut is_told) = (String::new(), false);
        while !is_told && lines.read_line(&mut line).is_ok_and(|len| len > 0) {
            is_told = line.contains("log lines were dropped");
            line.clear();
        }
        assert!(is_told);
        child.kill().expect("ours");
        child.wait().expect("ours");
        fs::remove_file(&port_file).expect("ours");
    }
}

/// Covers the longest line: a longer one would not fit into the log's queue.
#[test]
fn a_script_logs_the_beginning_of_a_line_that_is_too_long() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, port_file) = (dir.path().join("log"), dir.path().join("port"));
    let mut command = Command::new(binary());
    command.args(["--port", "0", "--bind", "127.0.0.1"]);
    command.arg("--port-file").arg(&port_file).arg("--logfile").arg(&log);
    let mut child = command.spawn().expect("the binary starts");
    wait_until(|| fs::read_to_string(&port_file).is_ok_and(|text| text.ends_with('\n')));
    let port = fs::read_to_string(&port_file).expect("it is there").trim().parse().expect("a port");
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
    let script = "redis.log(redis.LOG_WARNING, string.rep('x', 5000)) \
        redis.log(redis.LOG_WARNING, 'long', string.rep('x', 4e6), 'y')";
    assert_eq!(client.call_args(&["EVAL", script, "0"]), "$-1");
    let mut lens = Vec::new();
    wait_until(|| {
        let text = fs::read_to_string(&log).expect("a log");
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with("x\n"));
        lens = lines.map(|line| line.bytes().filter(|byte| *byte == b'x').count()).collect();
        lens.len() == 2
    });
    assert_eq!(lens, [5000, 65_536 - "long ".len()]);
    child.kill().expect("ours");
    child.wait().expect("ours");
}
