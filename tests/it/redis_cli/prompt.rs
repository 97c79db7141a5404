//! The prompt on a terminal, compared with redis-cli's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::Cli;
use super::terminal::Terminal;
use crate::harness::{TestServer, wait_until};
use crate::skipped;

/// The way to a server: what the prompt shows, and the options.
struct Road {
    prompt: String,
    options: Vec<String>,
}

impl Road {
    /// Returns the way to a server by its port.
    fn to(server: &TestServer) -> Self {
        let addr = server.addr();
        Road { prompt: addr.to_string(), options: vec!["-p".into(), addr.port().to_string()] }
    }
}

/// Presses keys in both programs, and compares the screens once they end with the text next to the keys, or, after `=`,
/// equal that text; `HERE` is the place of the server. Returns the exit statuses and the histories.
fn compare(server: &TestServer, steps: &[(&str, &str)]) -> (Option<i32>, String) {
    compare_by(&Road::to(server), steps, || drop(server.client().call("FLUSHALL")))
}

/// Compares as [`compare`] does, by any way to a server, and calls `between` between the programs.
fn compare_by(road: &Road, steps: &[(&str, &str)], between: impl Fn()) -> (Option<i32>, String) {
    let cli = Cli::new();
    let ours = play(road, &cli.path(), &cli.folder.path().join("ours"), steps);
    if Command::new("redis-cli").arg("--version").output().is_err() {
        skipped::without("redis-cli");
        return (ours.1, ours.2);
    }
    between();
    let theirs = play(road, Path::new("redis-cli"), &cli.folder.path().join("theirs"), steps);
    for ((ours, theirs), step) in ours.0.iter().zip(&theirs.0).zip(steps) {
        // Where the terminal echoes Ctrl-C, the prompt overwrites it or follows it.
        assert_eq!(ours.replace("^C", ""), theirs.replace("^C", ""), "{step:?}");
    }
    assert_eq!((ours.1, &ours.2), (theirs.1, &theirs.2));
    (ours.1, ours.2)
}

/// Returns the screens, the exit status and the history.
fn play(road: &Road, program: &Path, history: &Path, steps: &[(&str, &str)]) -> (Vec<String>, Option<i32>, String) {
    let options: Vec<&str> = road.options.iter().map(String::as_str).collect();
    let mut terminal = Terminal::start(program, &options, history);
    terminal.enter("", &format!("{}>", road.prompt));
    let mut screens = Vec::new();
    for (keys, end) in steps {
        screens.push(terminal.enter(keys, &end.replace("HERE", &road.prompt)));
    }
    terminal.press("\x15\x04");
    let status = terminal.status();
    (screens, status, fs::read_to_string(history).unwrap_or_default())
}

#[test]
fn the_prompt_shows_database_transaction_and_replies_as_redis_cli_does() {
    let server = TestServer::start();
    let (status, history) = compare(
        &server,
        &[
            ("PING\r", "PONG\nHERE>"),
            ("select 3\r", "OK\nHERE[3]>"),
            ("multi\r", "OK\nHERE[3](TX)>"),
            ("select 4\r", "QUEUED\nHERE[4](TX)>"),
            ("discard\r", "OK\nHERE[3]>"),
            ("set k 'a b'\r", "OK\nHERE[3]>"),
            ("mget k nosuch\r", "1) \"a b\"\n2) (nil)\nHERE[3]>"),
            ("2 incr n\r", "(integer) 1\n(integer) 2\nHERE[3]>"),
            ("0 ping\r", "option value.\nHERE[3]>"),
            ("\"unbalanced\r", "Invalid argument(s)\nHERE[3]>"),
            ("nosuch\r", "beginning with:\nHERE[3]>"),
            ("help @transactions\r", "\n  since: 2.2.0\n\nHERE[3]>"),
            ("reset\r", "RESET\nHERE>"),
            ("auth secret\r", " is correct?\nHERE>"),
            ("config set requirepass ''\r", "OK\nHERE>"),
            ("\x1b[A", "HERE> reset"),
            ("\x1b[A", "HERE> help @transactions"),
            ("\x15clear\r", "=HERE>"),
        ],
    );
    assert_eq!(status, Some(0));
    assert!(history.contains("mget k nosuch\n") && !history.contains("secret") && !history.contains("requirepass"));
}

#[test]
fn names_are_completed_and_the_arguments_that_are_missing_shown() {
    let steps = [
        ("get", "HERE> get key"),
        (
            "ex",
            "HERE> getex key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]",
        ),
        ("\x15mget a ", "HERE> mget a [key ...]"),
        ("\x15nosuch", "HERE> nosuch"),
        ("\x15lock.rel\t", "HERE> LOCK.RELEASE key token"),
        ("\x15config g\t", "HERE> CONFIG GET parameter [parameter ...]"),
        ("\x15help @con\t", "HERE> help @connection"),
        ("\x15:set nohints\r", "HERE> :set nohints\nHERE>"),
        ("mget a", "HERE> mget a"),
    ];
    compare(&TestServer::start(), &steps);
}

#[test]
fn messages_end_with_control_c_and_the_prompt_goes_on() {
    let steps = [
        ("select 2\r", "OK\nHERE[2]>"),
        ("monitor\r", "OK\n"),
        ("\x03", "HERE[2]>"),
        ("subscribe ch\r", "3) (integer) 1\n"),
        ("\x03", "HERE[2]>"),
        ("psubscribe c*\r", "3) (integer) 1\n"),
        ("\x03", "HERE[2]>"),
        ("ping\r", "PONG\nHERE[2]>"),
    ];
    assert_eq!(compare(&TestServer::start(), &steps).0, Some(0));
}

/// Compares a session by a road other than a port without TLS.
fn compare_session(prompt: String, options: &[&str]) {
    let road = Road { prompt, options: options.iter().map(|option| (*option).to_owned()).collect() };
    let steps = [
        ("ping\r", "PONG\nHERE>"),
        ("select 2\r", "OK\nHERE[2]>"),
        ("subscribe ch\r", "3) (integer) 1\n"),
        ("\x03", "HERE[2]>"),
        ("\x1b[A", "HERE[2]> subscribe ch [channel ...]"),
        ("\x15config g\t", "HERE[2]> CONFIG GET parameter [parameter ...]"),
        ("\x15ping\r", "PONG\nHERE[2]>"),
    ];
    let (status, history) = compare_by(&road, &steps, || {});
    assert_eq!((status, &history[..]), (Some(0), "ping\nselect 2\nsubscribe ch\nping\n"));
}

#[test]
fn the_prompt_is_the_same_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("socket").display().to_string();
    let _server = TestServer::start_with(&[("unixsocket", &socket)]);
    compare_session(format!("redis {socket}"), &["-s", &socket]);
}

#[cfg(feature = "tls")]
#[test]
fn the_prompt_is_the_same_over_tls_and_messages_end_with_control_c() {
    let authority = crate::tls::Authority::new();
    let server = authority.start("");
    let port = server.server.addr().port().to_string();
    let file = |name| authority.path(name).display().to_string();
    let (ca, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let identity = ["--cacert", &ca, "--cert", &certificate, "--key", &key];
    let options = [&["-h", "localhost", "-p", &port, "--tls"][..], &identity].concat();
    compare_session(format!("localhost:{port}"), &options);
}

#[test]
fn control_c_ends_the_program_while_a_command_waits() {
    let (server, cli) = (TestServer::start(), Cli::new());
    let place = server.addr().to_string();
    let history = cli.folder.path().join("history");
    let mut terminal = Terminal::start(&cli.path(), &["-p", &server.addr().port().to_string()], &history);
    terminal.enter("", &format!("{place}>"));
    terminal.press("blpop nosuch 0\r");
    let mut client = server.client();
    wait_until(|| client.call("INFO clients").contains("blocked_clients:1"));
    terminal.press("\x03");
    assert_eq!(terminal.status(), Some(1));
}

#[test]
fn push_messages_are_shown_between_replies() {
    let steps = [
        ("hello 3\r", "(empty array)\nHERE>"),
        ("client tracking on\r", "OK\nHERE>"),
        ("get k\r", "(nil)\nHERE>"),
        ("set k v\r", "set k v\nOK\nHERE>"),
        ("ping\r", "PONG\nHERE>"),
    ];
    // The reply to HELLO differs in the client's id.
    let server = TestServer::start();
    let cli = Cli::new();
    let (screens, ..) = play(&Road::to(&server), &cli.path(), &cli.folder.path().join("ours"), &steps);
    assert!(screens.last().is_some_and(|screen| screen.contains("-> invalidate: 'k'\n")), "{screens:?}");
}

#[test]
fn a_lost_connection_is_made_again_with_its_database() {
    let server = TestServer::start();
    let lost = [
        ("client kill type normal skipme no\r", "(integer) 1\nHERE>"),
        ("ping\r", "Error: Server closed the connection\nnot connected>"),
        ("ping\r", "PONG\nHERE>"),
    ];
    compare(&server, &lost);
    // redis-cli shows the former database, but uses the first one.
    let cli = Cli::new();
    let history = cli.folder.path().join("history");
    let steps = [
        ("select 5\r", "OK\nHERE[5]>"),
        ("set k v\r", "OK\nHERE[5]>"),
        ("client kill type normal skipme no\r", "(integer) 1\nHERE[5]>"),
        ("ping\r", "not connected>"),
        ("get k\r", "\"v\"\nHERE[5]>"),
        ("exi", "HERE[5]> exi"),
    ];
    play(&Road::to(&server), &cli.path(), &history, &steps);
    let mode = fs::metadata(&history).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
