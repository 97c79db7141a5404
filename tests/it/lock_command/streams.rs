//! Standard streams that fail: no program of the binary panics, and each completes its task.

use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::harness::{ReservedPort, TestServer, wait_for_exit, wait_until};
use crate::lock_command::{UNTIL_TOLD, at, lines, lock, next, shell};
use crate::process::binary;

/// Failure of a standard stream.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// The device is full.
    Full,
    /// The reader has gone.
    Unread,
    /// The stream was closed before the program began.
    Closed,
}

/// Runs the binary with a broken standard output (1) or standard error (2); returns its exit status.
fn status_with(args: &[String], stream: u8, broken: Broken) -> Option<i32> {
    let mut command = match broken {
        Broken::Closed => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec \"$@\" {stream}>&-"), "sh"]).arg(binary());
            command
        }
        Broken::Full | Broken::Unread => Command::new(binary()),
    };
    command.args(args).env_remove("REDISCLI_AUTH").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let end = || match broken {
        Broken::Full => Stdio::from(File::options().write(true).open("/dev/full").expect("a device")),
        Broken::Unread => Stdio::from(io::pipe().expect("a pipe").1),
        Broken::Closed => Stdio::null(),
    };
    if stream == 1 {
        command.stdout(end());
    } else {
        command.stderr(end());
    }
    wait_for_exit(&mut command.spawn().expect("the binary starts")).code()
}

#[test]
fn no_program_panics_where_a_standard_stream_fails_and_its_status_is_the_same() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE held token PX 600000");
    let free = ReservedPort::on([127, 0, 0, 9]);
    let (port, nobody) = (server.addr().port().to_string(), free.port().to_string());
    let (here, away) = (["-p", &port], ["-h", "127.0.0.9", "-p", &nobody]);
    let program = |name: &str, at: &[&str], rest: &[&str]| -> Vec<String> {
        [&[name], at, rest].concat().into_iter().map(str::to_owned).collect()
    };
    for (args, status) in [
        (program("lock", &here, &["-n", "held", "--", "true"]), 75),
        (program("lock", &here, &["free", "--", "sh", "-c", "exit 3"]), 3),
        (program("lock", &here, &["free", "--", "/nonexistent/command"]), 127),
        (program("lock", &away, &["free", "--", "true"]), 69),
        (program("lock", &here, &["--no-such-option"]), 64),
        (program("lock", &here, &["--release", "free", "--force"]), 1),
        (program("redis-cli", &away, &["PING"]), 1),
        (program("copy", &[], &["redis://127.0.0.9:1", "redis://127.0.0.9:2"]), 2),
        (program("--healthcheck", &away, &[]), 1),
        (program("--no-such-option", &[], &[]), 1),
    ] {
        for broken in [Broken::Full, Broken::Unread, Broken::Closed] {
            assert_eq!(status_with(&args, 2, broken), Some(status), "{args:?}, standard error: {broken:?}");
            let with_broken_output = status_with(&args, 1, broken);
            assert_eq!(with_broken_output, Some(status), "{args:?}, standard output: {broken:?}");
        }
    }
}

#[test]
fn a_list_that_cannot_be_written_fails_and_one_that_nobody_reads_does_not() {
    let server = TestServer::start();
    server.client().int("LOCK.ACQUIRE held token PX 600000");
    for option in ["--list", "--list --json", "--watch held"] {
        let port = server.addr().port().to_string();
        let args: Vec<String> = ["lock", "-p", &port].into_iter().chain(option.split(' ')).map(str::to_owned).collect();
        for (broken, status) in [(Broken::Full, 71), (Broken::Unread, 0)] {
            assert_eq!(status_with(&args, 1, broken), Some(status), "{option}: {broken:?}");
        }
    }
}

#[test]
fn a_job_keeps_its_lock_while_nobody_reads_standard_error() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut client = server.client();
    client.call("TEST.FAULT ADD LOCK.RENEW ERROR ERR COUNT 1");
    let (_reader, mut writer) = io::pipe().expect("a pipe");
    writer.write_all(&[b'x'; 64 << 10]).expect("as much as a pipe takes");
    let mut job = lock(&at(&server), &shell(&["--ttl", "3s", "job"], UNTIL_TOLD));
    let mut job = job.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer).spawn().expect("it starts");
    assert_eq!(next(&lines(job.stdout.take().expect("a pipe"))), "ready");
    // The first is refused, which is reported.
    wait_until(|| client.call("TEST.CALLS MATCH LOCK.RENEW").matches("LOCK.RENEW").count() >= 3);
    job.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert_eq!(wait_for_exit(&mut job).code(), Some(3));
    client.expect(&[("EXISTS job", ":0")]);
}
