//! `keylatch lock`: a command runs while a lock is held. Its environment, its waits, and the effects of its end.

mod absent;
mod at_least;
mod connections;
mod loss;
mod modes;
mod nested;
mod primary;
mod shown;
mod signals;
mod streams;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};

use crate::harness::{PATIENCE, TestServer, give_up, wait_for_exit, wait_until};
use crate::process::{binary, text};
use crate::signals::send_to;

/// Script that reports that it runs, and ends with status 3 when it is told to.
const UNTIL_TOLD: &str = "echo ready; read _; exit 3";

/// Script that runs until a signal ends it; the shell does not report what ends its programs.
const FOREVER: &str = "echo ready; exec 2>/dev/null; while :; do sleep 0.01; done";

/// Option of `env` that resets the signals that shells ignore for jobs in the background, and `perf record` for all.
const DEFAULT_SIGNALS: &str = "--default-signal=INT,QUIT,HUP,USR2";

/// Returns the options for a server.
fn at(server: &TestServer) -> [String; 2] {
    ["-p".to_owned(), server.addr().port().to_string()]
}

/// Returns `keylatch lock` with these arguments, in a process group of its own: a terminal of the tests sends it
/// nothing, so signals are passed on.
fn lock(at: &[String], args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .arg(DEFAULT_SIGNALS)
        .arg(binary())
        .arg("lock")
        .args(at)
        .args(args)
        .env_remove("REDISCLI_AUTH")
        .env("USER", "tester");
    command.process_group(0);
    command
}

/// Runs it to its end, with empty standard input.
fn run(at: &[String], args: &[&str]) -> Output {
    lock(at, args).stdin(Stdio::null()).output().expect("the binary starts")
}

/// Runs it to its end; asserts its exit status, and returns standard error.
#[track_caller]
fn run_failing(at: &[String], args: &[&str], status: i32) -> String {
    let output = run(at, args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    text(&output.stderr)
}

/// Returns arguments for running a shell script.
fn shell<'a>(args: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [args, &["--", "sh", "-c", script]].concat()
}

/// Command that runs with a lock, or waits for one; killed when the test ends.
struct Running {
    child: Child,
    output: Receiver<String>,
    complaints: Receiver<String>,
}

impl Running {
    fn start(at: &[String], args: &[&str]) -> Self {
        Self::of(&mut lock(at, args))
    }

    fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let output = lines(child.stdout.take().expect("a pipe"));
        let complaints = lines(child.stderr.take().expect("a pipe"));
        Running { child, output, complaints }
    }

    /// Starts one, and waits until its command runs.
    fn ready(at: &[String], args: &[&str], script: &str) -> Self {
        let running = Self::start(at, &shell(args, script));
        assert_eq!(running.line(), "ready");
        running
    }

    /// Returns the next line of standard output.
    #[track_caller]
    fn line(&self) -> String {
        next(&self.output)
    }

    /// Returns the next line of standard error.
    #[track_caller]
    fn complaint(&self) -> String {
        next(&self.complaints)
    }

    /// Sends a line to standard input.
    fn tell(&mut self) {
        self.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    }

    /// Sends a signal.
    fn signal(&self, name: &str) {
        send_to(name, self.child.id());
    }

    /// Waits for its end, and the end of all processes that write to its standard output; returns the exit status, and
    /// the rest of standard error.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let status = wait_for_exit(&mut self.child);
        let rest = |lines: &Receiver<String>| {
            let mut rest = String::new();
            loop {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => rest.push_str(&format!("{line}\n")),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return rest,
                    Err(error) => give_up(&format!("{error}: something still runs")),
                }
            }
        };
        let _ = rest(&self.output);
        // In the form of a shell's status.
        (status.code().or(status.signal().map(|signal| 128 + signal)), rest(&self.complaints))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on a thread, so that waiting for one can time out.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // The test may have ended already.
            let _ = sender.send(line);
        }
    });
    lines
}

#[track_caller]
fn next(lines: &Receiver<String>) -> String {
    lines.recv_timeout(PATIENCE).unwrap_or_else(|error| give_up(&format!("{error}: no line")))
}

/// Waits until this many clients are in the queue.
fn wait_for_queue(server: &TestServer, count: usize) {
    let mut client = server.client();
    wait_until(|| client.call("INFO locks").contains(&format!(" waiting:{count} ")));
}

#[test]
fn the_command_is_told_name_fence_and_token_and_its_status_is_passed_back() {
    let server = TestServer::start();
    let mut client = server.client();
    let script = "echo $KEYLATCH_LOCK $KEYLATCH_FENCE $KEYLATCH_TOKEN; read _; exit 3";
    let mut running = Running::start(&at(&server), &shell(&["job"], script));
    let told = running.line();
    let [name, fence, token] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!((name, token.len()), ("job", 32));
    client.expect(&[("GET job", &format!("$32 {token}")), (&format!("LOCK.FENCE job {token}"), &format!(":{fence}"))]);
    assert_eq!(client.call("PTTL job"), ":30000");
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    assert_eq!(client.call("EXISTS job"), ":0");
}

#[test]
fn standard_streams_are_those_of_the_command() {
    let server = TestServer::start();
    let mut child = lock(&at(&server), &shell(&["job"], "cat; echo aside >&2"));
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"\0raw\r\nbytes").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"\0raw\r\nbytes"[..], &b"aside\n"[..]));
    assert!(output.status.success());
}

#[test]
fn the_lock_is_released_however_the_command_ends() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    for (command, status) in [
        (&["false"][..], 1),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "kill -USR1 $$"], 138),
        (&["/nonexistent/command"], 127),
        (&["/etc/passwd"], 126),
        (&["/"], 126),
    ] {
        let complaint = run_failing(&at, &[&["job", "--"], command].concat(), status);
        assert_eq!(complaint.starts_with(&format!("keylatch lock: {}: ", command[0])), status / 2 == 63, "{complaint}");
        assert_eq!(client.call("EXISTS job"), ":0", "{command:?}");
    }
    client.expect(&[("DEL job", ":0")]);
    assert!(client.call("INFO locks").contains(" acquired_total:6 "));
}

#[test]
fn a_lock_that_another_holds_is_not_waited_for_if_that_is_not_wanted() {
    let server = TestServer::start();
    let (mut holder, at) = (server.client(), at(&server));
    holder.expect(&[("CLIENT SETNAME ann", "+OK")]);
    holder.int("LOCK.ACQUIRE job token PX 60000 META nightly");
    let addr = holder.local_addr();
    server.advance_ms(83_000 - 60_000);
    for args in [&["-n"][..], &["--nonblock"], &["--wait", "0"], &["-w", "0ms"], &["--timeout", "0"]] {
        let complaint = run_failing(&at, &[args, &["job", "--", "echo"]].concat(), 75);
        assert_eq!(complaint, format!("keylatch lock: job is held by ann, nightly ({addr}) for 23s\n"));
    }
    assert_eq!(run_failing(&at, &["-n", "-E", "9", "--quiet", "job", "--", "echo"], 9), "");
    assert_eq!(run_failing(&at, &["-n", "--conflict-exit-code", "0", "-q", "job", "--", "echo"], 0), "");
}

#[test]
fn a_wait_ends_in_time() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE job token PX 60000");
    let waiting = Running::start(&at(&server), &["--wait", "5s", "job", "--", "echo", "never"]);
    wait_for_queue(&server, 1);
    server.advance_ms(5000);
    let (status, complaint) = waiting.end();
    assert!(status == Some(75) && complaint.contains("job is held by "), "{status:?}: {complaint}");
}

#[test]
fn who_waits_gets_the_lock_in_the_order_of_arrival() {
    let server = TestServer::start();
    let (mut holder, at) = (server.client(), at(&server));
    holder.int("LOCK.ACQUIRE job token PX 60000");
    let script = "echo $KEYLATCH_FENCE; read _";
    let mut waiting: Vec<Running> = Vec::new();
    for count in 1..=3 {
        waiting.push(Running::start(&at, &shell(&["job"], script)));
        wait_for_queue(&server, count);
    }
    assert_eq!(holder.call("LOCK.RELEASE job token"), ":1");
    let mut fences: Vec<i64> = Vec::new();
    for mut running in waiting {
        fences.push(running.line().parse().expect("a fence"));
        running.tell();
        assert_eq!(running.end(), (Some(0), String::new()));
    }
    assert!(fences.is_sorted() && fences[0] > 0, "{fences:?}");
}

#[test]
fn a_wait_is_told_without_a_terminal_only_on_request() {
    let server = TestServer::start();
    let (mut holder, at) = (server.client(), at(&server));
    holder.expect(&[("CLIENT SETNAME ann", "+OK")]);
    holder.int("LOCK.ACQUIRE job token PX 60000");
    let mut silent = Running::start(&at, &shell(&["job"], UNTIL_TOLD));
    wait_for_queue(&server, 1);
    let mut told = Running::start(&at, &shell(&["--verbose", "job"], UNTIL_TOLD));
    let (addr, name) = (holder.local_addr(), format!("tester@{}:", hostname()));
    let expected = format!("keylatch lock: waiting for job: held by ann ({addr}), place 2 of 2");
    assert_eq!(told.complaint(), expected);
    assert_eq!(holder.call("LOCK.RELEASE job token"), ":1");
    let next = told.complaint();
    assert!(
        next.starts_with(&format!("keylatch lock: waiting for job: held by {name}{} (", silent.child.id())),
        "{next}"
    );
    assert!(next.ends_with("), place 1 of 1"), "{next}");
    for running in [&mut silent, &mut told] {
        assert_eq!(running.line(), "ready");
        running.tell();
        wait_until(|| running.child.try_wait().expect("a child of ours").is_some());
    }
    assert_eq!((silent.end().1, told.end().1), (String::new(), String::new()));
}

/// Returns the name of this machine in the form that clients report.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    for name in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"] {
        let script = format!("trap 'echo got {name}; exit 5' {name}; {FOREVER}");
        let running = Running::ready(&at, &["job"], &script);
        running.signal(name);
        assert_eq!(running.line(), format!("got {name}"));
        assert_eq!(running.end(), (Some(5), String::new()), "{name}");
        assert_eq!(client.call("EXISTS job"), ":0");
    }
    let running = Running::ready(&at, &["job"], "echo ready; exec sleep 1000");
    running.signal("TERM");
    assert_eq!(running.end(), (Some(128 + 15), String::new()));
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored_by_the_command_too() {
    let server = TestServer::start();
    let at = at(&server);
    let command = format!("trap '' HUP; exec {} lock {} job -- sh -c '{UNTIL_TOLD}'", binary().display(), at.join(" "));
    let mut child = Command::new("sh");
    child.args(["-c", &command]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = child.spawn().expect("a shell");
    let output = lines(child.stdout.take().expect("a pipe"));
    assert_eq!(next(&output), "ready");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask").trim();
    assert_eq!(u64::from_str_radix(mask, 16).expect("a number") & 1, 1, "HUP is number 1");
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert_eq!(wait_for_exit(&mut child).code(), Some(3));
}

#[test]
fn a_signal_ends_a_wait() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE job token PX 60000");
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        let waiting = Running::start(&at(&server), &["job", "--", "echo", "never"]);
        wait_for_queue(&server, 1);
        waiting.signal(name);
        assert_eq!(waiting.end(), (Some(128 + number), String::new()));
        wait_for_queue(&server, 0);
    }
    assert_eq!(holder.call("LOCK.RELEASE job token"), ":1");
    assert_eq!(holder.call("EXISTS job"), ":0");
}

#[test]
fn a_loop_of_a_shell_ends_by_ctrl_c_during_a_wait_and_during_a_command() {
    let server = TestServer::start();
    let mut holder = server.client();
    for is_held in [true, false] {
        if is_held {
            holder.int("LOCK.ACQUIRE job token PX 60000");
        }
        let mut running = Running::start(&at(&server), &shell(&["job"], "echo ready; exec sleep 1000"));
        if is_held {
            wait_for_queue(&server, 1)
        } else {
            assert_eq!(running.line(), "ready")
        }
        running.signal("INT");
        // Not by an exit status, which would tell a shell that the program has handled the signal.
        wait_until(|| running.child.try_wait().expect("a child of ours").is_some());
        assert_eq!(running.child.wait().expect("it has ended").signal(), Some(2));
        holder.call("DEL job");
        assert_eq!(holder.call("EXISTS job"), ":0");
    }
}

#[test]
fn a_wrapper_that_is_killed_takes_its_command_along_and_leaves_the_lock_to_its_ttl() {
    let server = TestServer::start();
    let mut client = server.client();
    let running = Running::ready(&at(&server), &["job"], &format!("trap 'echo termed; exit' TERM; {FOREVER}"));
    running.signal("KILL");
    assert_eq!(running.line(), "termed");
    assert_eq!(client.call("EXISTS job"), ":1");
    server.advance_ms(30_000);
    assert_eq!(client.call("EXISTS job"), ":0");
}

#[test]
fn locks_in_locks_have_variables_of_their_own() {
    let server = TestServer::start();
    let at = at(&server);
    let inner = format!(
        "echo $KEYLATCH_LOCK $KEYLATCH_FENCE; {} lock {} inner -- sh -c 'echo $KEYLATCH_LOCK $KEYLATCH_FENCE'",
        binary().display(),
        at.join(" ")
    );
    let output = run(&at, &shell(&["outer"], &inner));
    let told = text(&output.stdout);
    let told: Vec<(&str, i64)> = told
        .lines()
        .map(|line| line.split_once(' ').expect("two words"))
        .map(|(name, fence)| (name, fence.parse().expect("a fence")))
        .collect();
    let [("outer", first), ("inner", second)] = told[..] else { panic!("{output:?}") };
    assert!(first < second && output.status.success());
}
