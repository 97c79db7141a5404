//! Signals: those that are passed on to the command, each of them once.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use crate::harness::{TestServer, wait_for_exit};
use crate::lock_command::{DEFAULT_SIGNALS, FOREVER, Running, at, lines, next};
use crate::process::binary;
use crate::signals::send;

/// Number of times that a signal is sent whose second delivery would show only now and then.
const ROUNDS: usize = 10;

/// Sends a signal to the process group of the program.
fn send_to_group(signal: &str, running: &Running) {
    assert!(send(signal, -running.child.id().cast_signed()), "{signal}");
}

#[test]
fn a_signal_to_the_process_group_reaches_the_command_once() {
    let server = TestServer::start();
    let script = format!("trap 'echo term' TERM; trap 'echo usr' USR1; trap 'echo hup; exit 5' HUP; {FOREVER}");
    let running = Running::ready(&at(&server), &["job"], &script);
    for _ in 0..ROUNDS {
        send_to_group("TERM", &running);
        assert_eq!(running.line(), "term");
        // The passed signal comes after the decision on the signal before it.
        running.signal("USR1");
        assert_eq!(running.line(), "usr");
    }
    send_to_group("HUP", &running);
    assert_eq!(running.line(), "hup");
    assert_eq!(running.end(), (Some(5), String::new()));
}

/// Runs a script under the lock `job` on a terminal of its own; returns the terminal, the output, and the process that
/// holds the lock. The script writes `at`, the number of that process, and `ready`.
fn on_terminal(server: &TestServer, script: &str) -> (Child, Receiver<String>, i32) {
    let (binary, at) = (binary().display(), at(server).join(" "));
    // Replaced by the program: a shell between it and the terminal would get Ctrl-C, too, and end by it.
    let command = format!("exec env {} {binary} lock {at} job -- sh -c '{script}'", DEFAULT_SIGNALS);
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().expect("a terminal");
    let output = lines(terminal.stdout.take().expect("a pipe"));
    let told = next(&output);
    let program = told.trim_end().strip_prefix("at ").map(str::parse).expect("the process that holds the lock");
    assert_eq!(next(&output).trim_end(), "ready");
    (terminal, output, program.expect("the number of a process"))
}

#[test]
fn a_signal_to_the_program_alone_reaches_a_command_on_a_terminal() {
    let server = TestServer::start();
    for name in ["INT", "QUIT", "TERM"] {
        let script = format!("trap \"echo got {name}; exit 5\" {name}; echo at $PPID; {FOREVER}");
        let (mut terminal, output, program) = on_terminal(&server, &script);
        assert!(send(name, program));
        assert_eq!(next(&output).trim_end(), format!("got {name}"));
        assert_eq!(wait_for_exit(&mut terminal).code(), Some(5));
    }
}

#[test]
fn ctrl_c_on_a_terminal_reaches_the_command_once() {
    let server = TestServer::start();
    let script = format!("trap \"echo got INT\" INT; trap \"echo usr; exit 5\" USR1; echo at $PPID; {FOREVER}");
    let (mut terminal, output, program) = on_terminal(&server, &script);
    terminal.stdin.as_mut().expect("a pipe").write_all(b"\x03").expect("it reads");
    assert!(next(&output).trim_end().ends_with("got INT"));
    // The passed signal comes after the decision on the signal before it.
    assert!(send("USR1", program));
    assert_eq!(next(&output).trim_end(), "usr");
    assert_eq!(wait_for_exit(&mut terminal).code(), Some(5));
}

#[test]
fn a_command_in_a_group_of_its_own_is_passed_what_the_group_of_the_program_gets() {
    let server = TestServer::start();
    let script = format!("setsid -w sh -c \"trap 'echo term; exit 5' TERM; {FOREVER}\"");
    let running = Running::start(&at(&server), &["job", "--", "sh", "-c", &format!("exec {script}")]);
    assert_eq!(running.line(), "ready");
    send_to_group("TERM", &running);
    assert_eq!(running.end().0, Some(5));
}
