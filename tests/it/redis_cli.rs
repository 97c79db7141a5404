//! The binary under the name redis-cli, compared with the real one: the same arguments, the same output.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::harness::{ReservedPort, TestServer};
use crate::process::{binary, text};
use crate::skipped;

mod modes;
mod prompt;
mod terminal;

/// Directory with a link of the name redis-cli to the binary.
struct Cli {
    folder: TempDir,
}

impl Cli {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(binary(), folder.path().join("redis-cli")).expect("a link");
        Cli { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("redis-cli")
    }

    /// Runs it with a server and this standard input.
    fn run(&self, server: &TestServer, args: &[&str], stdin: &str) -> Output {
        run(&self.path(), server, args, stdin).expect("the binary starts")
    }

    /// Asserts that its output and exit status equal redis-cli's.
    #[track_caller]
    fn compare(&self, server: &TestServer, args: &[&str], stdin: &str) {
        let theirs = match run(Path::new("redis-cli"), server, args, stdin) {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => return skipped::without("redis-cli"),
            Err(error) => panic!("redis-cli does not start: {error}"),
        };
        let ours = self.run(server, args, stdin);
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{args:?} {stdin}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{args:?} {stdin}");
        assert_eq!(text(&ours.stderr), text(&theirs.stderr), "{args:?} {stdin}");
    }
}

fn run(program: &Path, server: &TestServer, args: &[&str], stdin: &str) -> std::io::Result<Output> {
    let mut child = Command::new(program)
        .args(["-p", &server.addr().port().to_string()])
        .args(args)
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdin.take().expect("a pipe");
    // A program that does not read standard input may have exited by now.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    child.wait_with_output()
}

#[test]
fn replies_are_printed_as_redis_cli_prints_them() {
    let (cli, server) = (Cli::new(), TestServer::start_with(&[("enable-debug-command", "yes")]));
    let mut list = vec!["mget"];
    list.extend(["nosuch", "k", "n"].repeat(4));
    let commands: [&[&str]; 26] = [
        &["ping"],
        &["SET", "k", "a \"b\"\n\u{e9}"],
        &["set", "n", "41"],
        &["get", "k"],
        &["get", "nosuch"],
        &["strlen", "n"],
        &["mget", "k", "nosuch", "n"],
        &list,
        &["nosuchcmd", "x"],
        &["-e", "nosuchcmd", "x"],
        &["-e", "ping"],
        &["config", "get", "databases"],
        &["-3", "config", "get", "databases"],
        &["-3", "client", "trackinginfo"],
        &["eval", "return {1,{2,'x',{},{'y','z'}},false,'last'}", "0"],
        &["eval", "return {}", "0"],
        &["-3", "eval", "redis.setresp(3) return {true, {double=1.5}, {map={a=1}}, {set={b=true}}}", "0"],
        &["-3", "zrange", "z", "0", "-1", "withscores"],
        &["-3", "debug", "protocol", "double"],
        &["eval", "return redis.error_reply('MY own')", "0"],
        &["-n", "3", "dbsize"],
        &["-n", "99", "ping"],
        &["info", "cluster"],
        &["memory", "doctor"],
        &["-3", "debug", "protocol", "push"],
        &["-u", "redis://127.0.0.1/2", "client", "getname"],
    ];
    server.client().expect(&[("ZADD z 0.1 a -inf b 1e300 c 3 d", ":4")]);
    for command in commands {
        for form in ["--raw", "--no-raw", "--csv", "--json", "--quoted-json"] {
            cli.compare(&server, &[&[form], command].concat(), "");
        }
    }
}

#[test]
fn commands_come_from_standard_input_one_in_a_line() {
    let (cli, server) = (Cli::new(), TestServer::start());
    let output = cli.run(&server, &[], "SET k \"a b\"\n\nget k\nget 'unbalanced\nINCR n\nquit\nINCR n\n");
    assert_eq!(text(&output.stdout), "OK\na b\nInvalid argument(s)\n1\n");
    assert!(output.status.success() && output.stderr.is_empty());
    let output = cli.run(&server, &["-x", "set", "k"], "the last\nargument");
    assert_eq!(text(&output.stdout), "OK\n");
    assert_eq!(text(&cli.run(&server, &["get", "k"], "").stdout), "the last\nargument\n");
}

#[test]
fn passwords_and_users_are_those_of_the_options() {
    let (cli, server) = (Cli::new(), TestServer::start_with(&[("requirepass", "secret")]));
    server.client().expect(&[("AUTH secret", "+OK"), ("ACL SETUSER bob on >pw +@all ~*", "+OK")]);
    for login in [&["-a", "secret"][..], &["--pass", "secret"], &["--user", "bob", "-a", "pw"]] {
        assert_eq!(text(&cli.run(&server, &[login, &["ping"]].concat(), "").stdout), "PONG\n", "{login:?}");
    }
    let output = cli.run(&server, &["-a", "wrong", "ping"], "");
    assert_eq!(text(&output.stdout), "NOAUTH Authentication required.\n\n");
    assert!(text(&output.stderr).starts_with("AUTH failed: WRONGPASS "), "{output:?}");
}

#[test]
fn a_server_that_is_not_there_is_a_status_of_1_and_what_is_not_understood_is_named() {
    let cli = Cli::new();
    let free = ReservedPort::on([127, 0, 0, 6]);
    let port = free.port().to_string();
    let run = |args: &[&str]| Command::new(cli.path()).args(args).stdin(Stdio::null()).output().expect("it starts");
    let output = run(&["-h", "127.0.0.6", "-p", &port, "ping"]);
    assert_eq!(text(&output.stderr), format!("Could not connect to Redis at {}: Connection refused\n", free.addr()));
    assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()));
    let unknown = text(&run(&["-h", "no host", "ping"]).stderr);
    assert_eq!(unknown, "Could not connect to Redis at no host:6379: Name or service not known\n");
    let output = run(&["--hotkeys"]);
    assert!(text(&output.stderr).contains("'--hotkeys'") && output.status.code() == Some(1), "{output:?}");
    let output = run(&["--version"]);
    assert!(text(&output.stdout).starts_with("redis-cli "), "{output:?}");
    // An entry point of a container may put the server's name first.
    let output = Command::new(binary()).args(["redis-cli", "--help"]).output().expect("it starts");
    assert!(text(&output.stdout).contains("it is interactive on a terminal"), "{output:?}");
}

#[test]
fn messages_are_printed_until_the_connection_ends_and_shutdown_is_no_failure() {
    let (cli, server) = (Cli::new(), TestServer::start());
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| cli.run(&server, &["subscribe", "ch"], ""));
        let mut client = server.client();
        crate::harness::wait_until(|| client.call("PUBLISH ch hello") == ":1");
        client.call("CLIENT KILL TYPE pubsub");
        let output = listener.join().expect("no panic");
        assert!(text(&output.stdout).starts_with("subscribe\nch\n1\nmessage\nch\nhello\n"), "{output:?}");
        assert_eq!(output.status.code(), Some(1));
    });
    let output = cli.run(&server, &["shutdown", "nosave"], "");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}
