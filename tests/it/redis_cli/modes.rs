//! Repetitions, scans, statistics and transfers, compared with redis-cli.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cli, run};
use crate::harness::{TestServer, wait_for_exit};
use crate::process::text;
use crate::skipped;

/// Starts a server with keys of each type.
fn filled() -> TestServer {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET q\"k a\"b\\c", "+OK"),
        ("SET n 41", "+OK"),
        ("RPUSH l a b c", ":3"),
        ("HSET h a 1 b 2", ":2"),
        ("SADD s 1 2 3 4", ":4"),
        ("ZADD z 1 a 2.5 b", ":2"),
        ("XADD x 1-1 f v", "$3 1-1"),
    ]);
    server
}

#[test]
fn a_scan_whose_output_nobody_reads_ends_without_a_word() {
    let (cli, server) = (Cli::new(), filled());
    for option in ["--scan", "--bigkeys"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut scan = Command::new(cli.path());
        scan.args(["-p", &server.addr().port().to_string(), option]).stdout(writer).stderr(Stdio::piped());
        let mut scan = scan.spawn().expect("it starts");
        let status = wait_for_exit(&mut scan);
        let said = std::io::read_to_string(scan.stderr.take().expect("a pipe")).expect("text");
        assert_eq!((status.code(), &*said), (Some(1), ""), "{option}");
    }
}

#[test]
fn commands_are_repeated_and_raw_replies_have_the_delimiters_of_the_options() {
    let (cli, server) = (Cli::new(), filled());
    for args in [
        &["-r", "3", "ping"][..],
        &["-r", "0", "ping"],
        &["-r", "2", "-i", "0.001", "get", "n"],
        &["-r", "2", "-e", "nosuch"],
        &["-d", ", ", "-D", ";", "mget", "n", "q\"k", "nosuch"],
        &["-d", ", ", "-r", "2", "hgetall", "h"],
        &["--json", "-2", "hgetall", "h"],
        &["--json", "hgetall", "h"],
        &["--csv", "-3", "hgetall", "h"],
        &["-3", "--no-raw", "command", "docs", "getex"],
        &["help", "get"],
    ] {
        cli.compare(&server, args, "");
    }
}

#[test]
fn lines_repeat_commands_and_contain_some_of_redis_cli_itself() {
    let (cli, server) = (Cli::new(), filled());
    let port = server.addr().port();
    let lines = format!(
        "3 ping\n0 ping\n-1 ping\n5\n:set nosuch\n:nosuch\nrestart\nclear\n\"unbalanced\n\n  \nselect 5\nget n\n\
         connect 127.0.0.1 1\nping\nconnect 127.0.0.1 {port}\nmulti\nstrlen n\nexec\nnosuch\nhelp @connection\n\
         2 clear\n1 connect a b\n1 :set hints\n1 quit\nping\nping"
    );
    for args in [&[][..], &["--no-raw"], &["--json"], &["-e"]] {
        cli.compare(&server, args, &lines);
    }
}

#[test]
fn all_keys_are_listed_and_the_largest_are_found() {
    let (cli, server) = (Cli::new(), filled());
    for args in [
        &["--scan"][..],
        &["--scan", "--no-raw"],
        &["--scan", "--json"],
        &["--scan", "--pattern", "?"],
        &["--scan", "--quoted-pattern", "'q\"k'"],
        &["--scan", "-i", "0.001"],
        &["--scan", "-n", "99"],
    ] {
        cli.compare(&server, args, "");
    }
    // redis-cli prints the types in a random order.
    let sorted = |program: &Path, args: &[&str]| {
        let output = run(program, &server, args, "").ok()?;
        let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        Some(lines)
    };
    for args in [&["--bigkeys"][..], &["--bigkeys", "--pattern", "[hn]"], &["--bigkeys", "-n", "5"]] {
        let Some(theirs) = sorted(Path::new("redis-cli"), args) else { return skipped::without("redis-cli") };
        assert_eq!(sorted(&cli.path(), args), Some(theirs), "{args:?}");
    }
    // Options that redis-cli 7.0 does not have.
    let listed = cli.run(&server, &["--scan", "--type", "list", "--count", "1"], "");
    assert_eq!(text(&listed.stdout), "l\n");
}

#[test]
fn raw_requests_are_transferred_and_errors_counted() {
    let (cli, server) = (Cli::new(), filled());
    for input in ["", "*1\r\n$4\r\nPING\r\n", "SET a b\r\nNOSUCH\r\nget a", "LRANGE l 0 -1\r\n"] {
        cli.compare(&server, &["--pipe"], input);
    }
    // More than the buffers of both sides hold.
    cli.compare(&server, &["--pipe"], &"LRANGE l 0 -1\r\n".repeat(100_000));
    cli.compare(&server, &["--pipe", "-n", "99"], "");
}

#[test]
fn statistics_are_printed_in_each_interval() {
    let (cli, server) = (Cli::new(), filled());
    let mut child = Command::new(cli.path())
        .args(["-p", &server.addr().port().to_string(), "--stat", "-i", "0.001"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let lines: Vec<String> = output.lines().take(23).collect::<Result<_, _>>().expect("text");
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert_eq!(lines[..2], lines[22..].iter().chain(&lines[1..2]).cloned().collect::<Vec<_>>());
    assert!(lines[0].starts_with("------- data ------ ----") && lines[2].starts_with("7          "), "{lines:?}");
    assert!(lines[2].contains(" (+0) ") && lines[3].contains(" (+1) "), "{lines:?}");
}

#[test]
fn the_latency_of_a_server_is_measured() {
    let (cli, server) = (Cli::new(), TestServer::start());
    let output = text(&cli.run(&server, &["--latency", "-i", "0.05"], "").stdout);
    assert_eq!(output.split(' ').count(), 4, "{output}");
    let output = text(&cli.run(&server, &["--latency", "--csv", "-i", "0.05"], "").stdout);
    assert_eq!(output.split(',').count(), 4, "{output}");
}
