//! `daemonize`: the server in the background, and the reports of the parent process.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::harness::{Client, ReservedPort, wait_until};
use crate::process::{Process, binary, text};
use crate::signals::send;

/// Server in the background with its own directory, killed when the test ends.
struct Daemon {
    dir: TempDir,
    pid: u32,
    addr: SocketAddr,
    output: Output,
}

impl Daemon {
    /// Runs the command on a free port and waits until the parent process has exited.
    fn start(command: &mut Command, stdin: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let output = run(command.args(places(dir.path())).args(["--port", "0", "--bind", "127.0.0.1"]), stdin);
        let said = text(&output.stdout);
        let field = |name: &str| {
            let (_, rest) = said.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {output:?}"));
            rest.split([',', '}']).next().expect("a value").parse::<u32>().expect("a number")
        };
        let port = u16::try_from(field("port")).expect("a port");
        Daemon { dir, pid: field("pid"), addr: ([127, 0, 0, 1], port).into(), output }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may have exited already.
        send("KILL", self.pid.cast_signed());
    }
}

/// Returns options that put all files of a server in the test's directory.
fn places(dir: &Path) -> Vec<String> {
    let path = |name: &str| dir.join(name).display().to_string();
    let options = [("dir", dir.display().to_string()), ("pidfile", path("pid")), ("logfile", path("log"))];
    options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect()
}

/// Runs a command until it exits.
fn run(command: &mut Command, stdin: &str) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("the binary starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // A server that reads no standard input may have closed it.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("a child of ours")
}

fn daemonized() -> Command {
    let mut command = Command::new(binary());
    command.args(["--daemonize", "yes"]);
    command
}

#[test]
fn the_process_that_was_started_ends_with_status_0_when_the_server_in_the_background_can_be_used() {
    let daemon = Daemon::start(&mut daemonized(), "");
    assert!(daemon.output.status.success() && daemon.output.stderr.is_empty(), "{:?}", daemon.output);
    let mut client = Client::connect(daemon.addr);
    client.expect(&[("PING", "+PONG"), ("CONFIG GET daemonize", "*2 $9 daemonize $3 yes")]);
    assert_eq!(client.info("process_id"), daemon.pid.to_string());
    assert_eq!(fs::read_to_string(daemon.file("pid")).expect("the pid file"), format!("{}\n", daemon.pid));
    let log = fs::read_to_string(daemon.file("log")).expect("the log");
    assert!(log.contains(&format!(" PID: {}", daemon.pid)) && !log.contains("'daemonize'"), "{log}");
    client.send(b"SHUTDOWN\r\n");
    assert_eq!(client.read_to_end(), b"");
    wait_until(|| !daemon.file("pid").exists());
}

#[test]
fn a_server_in_the_background_has_a_session_of_its_own_and_no_terminal() {
    let daemon = Daemon::start(&mut daemonized(), "");
    let stat = fs::read_to_string(daemon.proc("stat")).expect("Linux");
    let (_, fields) = stat.rsplit_once(") ").expect("the name stands in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    let (group, session, terminal) = (fields[2], fields[3], fields[4]);
    assert_eq!((group, session, terminal), (&*daemon.pid.to_string(), &*daemon.pid.to_string(), "0"));
    for fd in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(fs::read_link(daemon.proc(fd)).expect("open"), Path::new("/dev/null"), "{fd}");
    }
}

#[cfg(feature = "jemalloc")]
#[test]
fn the_allocators_threads_run_in_the_background_too() {
    let daemon = Daemon::start(&mut daemonized(), "");
    let is_allocators =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.contains("jemalloc"));
    wait_until(|| fs::read_dir(daemon.proc("task")).expect("Linux").flatten().any(is_allocators));
}

#[test]
fn settings_from_standard_input_reach_the_background() {
    let mut command = Command::new(binary());
    let daemon = Daemon::start(command.arg("-"), "daemonize yes\ndatabases 3\n");
    Client::connect(daemon.addr).expect(&[("CONFIG GET databases", "*2 $9 databases $1 3")]);
}

#[test]
fn a_start_that_fails_in_the_background_is_reported_to_the_parent_process() {
    let mut other = Process::start(&[]);
    let taken = other.addr();
    let dir = tempfile::tempdir().expect("a directory");
    let port = taken.port().to_string();
    let output = run(daemonized().args(places(dir.path())).args(["--port", &port, "--bind", "127.0.0.1"]), "");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("could not listen on {taken}: Address already in use\n");
    assert_eq!((text(&output.stderr), text(&output.stdout)), (expected, String::new()));
    let log = fs::read_to_string(dir.path().join("log")).expect("the log");
    assert!(log.contains(&format!("Failed listening on port {port}")), "{log}");
    // Also if no log exists yet.
    let nowhere = dir.path().join("nowhere");
    let output = run(daemonized().args(places(dir.path())).arg("--logfile").arg(nowhere.join("log")), "");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("Can't open the log file '{}': No such file or directory", nowhere.join("log").display());
    assert!(text(&output.stderr).contains(&expected), "{output:?}");
}

#[test]
fn a_second_start_that_fails_leaves_the_files_of_the_running_server_alone() {
    let (dir, reserved) = (tempfile::tempdir().expect("a directory"), ReservedPort::new());
    let (file, port) = (|name: &str| dir.path().join(name), reserved.port().to_string());
    let mark = format!("keylatch-{port}.running");
    let start = |more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(places(dir.path())).args(["--port-file", "port"]).args(more);
        command
    };
    let here = ["--bind", "127.0.0.1", "--port", &port];
    let all = [&here[..], &["--unixsocket", "socket", "--restart-grace-ms", "1000"]].concat();
    let mut process = Process::run(&mut start(&all));
    wait_until(|| file("port").exists());
    let state = || {
        assert!(UnixStream::connect(file("socket")).is_ok(), "it listens");
        ["pid", "port", &mark].map(|name| fs::read_to_string(file(name)).expect(name))
    };
    let before = state();
    for background in [&["--daemonize", "yes"][..], &["--exit-on-stdin-close", "yes"]] {
        // First the port is taken, then the Unix socket, and the mark.
        for taken in [
            &here[..],
            &["--port", "0", "--unixsocket", "socket"],
            &["--bind", "127.0.0.2", "--port", &port, "--restart-grace-ms", "1"],
        ] {
            let output = run(start(taken).args(background), "");
            assert_eq!(output.status.code(), Some(1), "{taken:?}: {output:?}");
            assert_eq!(state(), before, "{taken:?}");
        }
    }
    process.signal("TERM");
    assert!(process.wait().success());
    assert!(["pid", "port", "socket", &mark].iter().all(|name| !file(name).exists()));
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced_and_another_file_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (socket, notes) = (dir.path().join("socket"), dir.path().join("notes"));
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let _process = Process::start(&["--unixsocket", socket.to_str().expect("text")]);
    wait_until(|| UnixStream::connect(&socket).is_ok());
    fs::write(&notes, "precious").expect("writable");
    let mut command = Command::new(binary());
    let output = run(command.args(["--port", "0", "--exit-on-stdin-close", "yes", "--unixsocket"]).arg(&notes), "");
    assert_eq!((output.status.code(), fs::read_to_string(&notes).expect("there")), (Some(1), "precious".into()));
}

#[test]
fn a_server_that_a_supervisor_has_started_stays_in_the_foreground() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("notify");
    let _systemd = std::os::unix::net::UnixDatagram::bind(&socket).expect("a socket");
    let mut command = daemonized();
    command.env("NOTIFY_SOCKET", &socket).args(["--supervised", "auto", "--port", "0", "--bind", "127.0.0.1"]);
    // The address is read from the child, whose process id is in the report.
    let mut process = Process::run(&mut command);
    assert_eq!(process.client().info("process_supervised"), "systemd");
    let mut command = Command::new(binary());
    command.env_remove("NOTIFY_SOCKET").args(["--supervised", "systemd", "--port", "0", "--bind", "127.0.0.1"]);
    let mut process = Process::run(&mut command);
    assert_eq!(process.client().info("process_supervised"), "no", "no socket was named");
}

#[test]
fn the_config_file_of_debian_starts_it_in_the_background() {
    // Only root may read the package's file; elsewhere there is nothing to test.
    let Ok(settings) = fs::read_to_string("/etc/redis/redis.conf") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("redis.conf");
    fs::write(&file, settings).expect("writable");
    let daemon = Daemon::start(Command::new(binary()).arg(&file), "");
    assert!(daemon.output.status.success() && daemon.output.stderr.is_empty(), "{:?}", daemon.output);
    let mut client = Client::connect(daemon.addr);
    client.expect(&[
        ("CONFIG GET appendfilename", "*2 $14 appendfilename $14 appendonly.aof"),
        ("CONFIG GET daemonize", "*2 $9 daemonize $3 yes"),
        ("CONFIG REWRITE", "+OK"),
    ]);
    assert_eq!(client.info("config_file"), file.display().to_string());
}
