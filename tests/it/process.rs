//! The binary as a process: its command line, its output, its exit.

mod ready;
mod stop;

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};

use tempfile::TempDir;

use crate::harness::{Client, PATIENCE, ReservedPort, encode, give_up, wait_for_exit, wait_until};
use crate::signals::send_to;

/// Running server, killed when the test ends.
pub(crate) struct Process {
    pub child: Child,
    /// Address of the server, once it has reported it.
    known_addr: Option<SocketAddr>,
    /// Lines of standard output, read by a thread, so that waiting for the next one can time out.
    stdout: Receiver<String>,
    /// Working directory for its files, if it has its own.
    _dir: Option<TempDir>,
}

impl Process {
    /// Starts the binary on a free port of the loopback interface, in a directory of its own, with additional arguments
    /// in front.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::run(Command::new(binary()).args(args).args(["--port", "0", "--bind", "127.0.0.1"]))
    }

    /// Starts it; standard output and standard error are read as one.
    pub(crate) fn run(command: &mut Command) -> Self {
        // Environment variables of the tests are removed, because the server would report them as unknown.
        command.env_remove("KEYLATCH_REQUIRE_REDIS").env_remove("KEYLATCH_BLESS").env_remove("KEYLATCH_REDIS8");
        // The server saves into the working directory, and loads the files there.
        let dir = command.get_current_dir().is_none().then(|| tempfile::tempdir().expect("a directory"));
        dir.iter().for_each(|dir| _ = command.current_dir(dir.path()));
        let (output, input) = std::io::pipe().expect("a pipe");
        let child = command.stdout(input.try_clone().expect("a pipe")).stderr(input).spawn();
        command.stdout(Stdio::null()).stderr(Stdio::null()); // keeps the given outputs
        let (child, lines, mut output) = (child.expect("the binary starts"), mpsc::channel(), BufReader::new(output));
        std::thread::spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|len| len > 0) {
                // The test may have ended already.
                let _ = lines.0.send(std::mem::take(&mut line));
            }
        });
        Process { child, known_addr: None, stdout: lines.1, _dir: dir }
    }

    /// Reads the output up to a line that contains `text`; returns all of it so far.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.lines().last().is_some_and(|line| line.contains(text)) {
            let line = self.stdout.recv_timeout(PATIENCE);
            seen.push_str(&line.unwrap_or_else(|error| give_up(&format!("{error}: no {text:?} in {seen}"))));
        }
        seen
    }

    /// Waits for the JSON line, and connects.
    pub(crate) fn client(&mut self) -> Client {
        Client::connect(self.addr())
    }

    pub(crate) fn addr(&mut self) -> SocketAddr {
        let seen = self.read_until(r#"{"ready":true,"#);
        let line = seen.lines().last().expect("a line");
        let field = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":")).expect("the field");
            rest.split([',', '}']).next().expect("a value").trim_matches('"').to_owned()
        };
        assert_eq!(field("pid"), self.child.id().to_string());
        let addr = format!("{}:{}", field("host"), field("port")).parse().expect("an address");
        self.known_addr = Some(addr);
        addr
    }

    /// Returns the reported address.
    pub(crate) fn known_addr(&self) -> SocketAddr {
        self.known_addr.expect("it was asked before")
    }

    /// Sends a signal. When this returns after STOP, the process is stopped.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id();
        send_to(name, id);
        if name == "STOP" {
            stop::wait_until_stopped(id);
        }
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for_exit(&mut self.child)
    }

    /// Returns the rest of the output after the process has exited.
    pub(crate) fn rest(&mut self) -> String {
        self.stdout.iter().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_keylatch"))
}

/// Runs the binary until it exits.
fn run(args: &[&str]) -> Output {
    Command::new(binary()).args(args).stdin(Stdio::null()).output().expect("the binary starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn port_0_takes_a_free_port_and_prints_it_as_json() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    client.expect(&[("SETNX mykey Hello", ":1"), ("SETNX mykey World", ":0"), ("GET mykey", "$5 Hello")]);
    assert_eq!(client.info("process_id"), process.child.id().to_string());
}

#[test]
fn the_log_says_what_tools_wait_for_in_that_order() {
    let mut process = Process::start(&[]);
    let log = process.read_until("Ready to accept connections tcp");
    let pid = log.find(&format!(" PID: {}", process.child.id())).expect("the process id");
    let initialized = log.find("Server initialized").expect("Server initialized");
    assert!(pid < initialized);
}

#[test]
fn the_log_says_that_the_server_is_initialized_before_the_data_is_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--dir", dir.path().to_str().expect("a plain path")];
    let mut process = Process::start(&args);
    process.client().expect(&[("SET k v", "+OK"), ("SAVE", "+OK")]);
    process.signal("TERM");
    assert!(process.wait().success());
    let log = Process::start(&args).read_until("Ready to accept connections tcp");
    let initialized = log.find("Server initialized").expect("Server initialized");
    assert!(log.find("DB loaded from disk").is_some_and(|loaded| initialized < loaded), "{log}");
}

#[test]
fn the_log_says_that_an_append_only_file_is_to_begin() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut process = Process::start(&["--dir", dir.path().to_str().expect("a plain path")]);
    process.client().expect(&[("CONFIG SET appendonly yes", "+OK")]);
    process.read_until("AOF background was scheduled");
}

#[test]
fn sigterm_and_sigint_end_it_with_status_0() {
    for name in ["TERM", "INT"] {
        let mut process = Process::start(&[]);
        let mut client = process.client();
        client.expect(&[("PING", "+PONG")]);
        process.signal(name);
        assert_eq!(process.wait().code(), Some(0), "SIG{name}");
        assert_eq!(client.read_to_end(), b"");
        assert!(process.rest().contains("ready to exit, bye bye"));
    }
}

#[test]
fn replies_in_flight_are_written_before_it_ends() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    client.call(&format!("SET k {}", "x".repeat(1_000_000)));
    client.send(&encode(&["GET", "k"]).repeat(10));
    let first = client.take_bytes(10);
    process.signal("TERM");
    let rest = client.read_to_end();
    assert_eq!(process.wait().code(), Some(0));
    assert_eq!(first, b"$1000000\r\n");
    assert_eq!((rest.len() + first.len()) % 1_000_012, 0, "a reply was cut");
}

#[test]
fn a_client_that_sits_idle_does_not_keep_it_from_ending() {
    let mut process = Process::start(&[]);
    let addr = process.addr();
    let idle: Vec<Client> = (0..50).map(|_| Client::connect(addr)).collect();
    let mut half = Client::connect(addr);
    half.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk");
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    drop(idle);
}

#[test]
fn the_closing_of_its_terminal_does_not_end_it() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    client.expect(&[("SET k v", "+OK")]);
    process.signal("HUP");
    let log = process.read_until("Received SIGHUP");
    assert!(!log.contains("certificate"), "{log}");
    client.expect(&[("GET k", "$1 v")]);
}

#[test]
fn port_0_beside_a_unix_socket_opens_no_tcp_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keylatch.sock");
    let mut process = Process::start(&["--unixsocket", path.to_str().expect("a plain path")]);
    let log = process.read_until("Ready to accept connections unix");
    assert!(!log.contains("connections tcp"), "{log}");
    let mut client = Client::connect_unix(&path);
    assert_eq!(client.info("tcp_port"), "0");
    assert_eq!(listening_ports(&process), 0);
    process.signal("TERM");
    assert!(process.wait().success());
    let rest = process.rest();
    assert!(!rest.contains("ready\":true"), "it has no port to tell: {rest}");
}

#[test]
fn a_port_that_config_set_has_closed_stays_closed_when_addresses_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keylatch.sock");
    let mut process = Process::start(&["--unixsocket", path.to_str().expect("a plain path")]);
    process.read_until("Ready to accept connections unix");
    let mut client = Client::connect_unix(&path);
    let mut set = |name: &str, value: &str| client.call_args(&["CONFIG", "SET", name, value]);
    let free = ReservedPort::on([127, 0, 0, 5]);
    assert_eq!(set("bind", "127.0.0.5"), "+OK");
    assert_eq!(set("port", &free.port().to_string()), "+OK");
    assert_eq!(listening_ports(&process), 1);
    Client::connect(free.addr()).expect(&[("PING", "+PONG")]);
    assert_eq!(set("port", "0"), "+OK");
    wait_until(|| listening_ports(&process) == 0);
    for addresses in ["", "127.0.0.5", "127.0.0.1"] {
        assert_eq!(set("bind", addresses), "+OK");
        assert_eq!(listening_ports(&process), 0, "bind {addresses:?}");
    }
}

/// Counts the listening TCP sockets of a process, from the kernel.
fn listening_ports(process: &Process) -> usize {
    let proc = |name: &str| std::path::PathBuf::from(format!("/proc/{}/{name}", process.child.id()));
    let links = std::fs::read_dir(proc("fd")).expect("Linux").filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let inodes: Vec<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let listening = |table: &str| {
        let text = std::fs::read_to_string(proc("net").join(table)).unwrap_or_default();
        let fields = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let ours = |fields: &Vec<&str>| fields[3] == "0A" && inodes.iter().any(|inode| inode == fields[9]);
        fields.filter(|fields| fields.len() > 9).filter(ours).count()
    };
    listening("tcp") + listening("tcp6")
}

#[test]
fn options_come_after_the_file_and_win() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keylatch.conf");
    std::fs::write(&file, "# a comment\nport 1\ntimeout 77\nmaxclients 50\nrequirepass 'from file'\n")
        .expect("writable");
    let mut process = Process::start(&[file.to_str().expect("a plain path"), "--maxclients", "60"]);
    let mut client = process.client();
    assert_eq!(client.call_args(&["AUTH", "from file"]), "+OK");
    client
        .expect(&[("CONFIG GET timeout", "*2 $7 timeout $2 77"), ("CONFIG GET maxclients", "*2 $10 maxclients $2 60")]);
    assert_eq!(client.info("config_file"), file.display().to_string());
}

#[test]
fn the_configuration_may_come_from_standard_input() {
    let mut command = Command::new(binary());
    let mut process = Process::run(command.args(["-", "--timeout", "5"]).stdin(Stdio::piped()));
    let mut stdin = process.child.stdin.take().expect("a pipe");
    stdin.write_all(b"port 0\nbind 127.0.0.1\ndatabases 3\n").expect("it reads");
    drop(stdin);
    let mut client = process.client();
    client.expect(&[("SELECT 2", "+OK"), ("SELECT 3", "-ERR DB index is out of range")]);
    client.expect(&[("CONFIG GET timeout", "*2 $7 timeout $1 5")]);
}

#[test]
fn a_bad_directive_is_quoted_on_standard_error_and_ends_it_with_status_1() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bad.conf");
    std::fs::write(&file, "port 0\nnosuch directive\n").expect("writable");
    let output = run(&[file.to_str().expect("a plain path")]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("*** FATAL CONFIG FILE ERROR"), "{error}");
    assert!(error.contains("at line 2\n>>> 'nosuch directive'\nBad directive or wrong number of arguments"), "{error}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

#[test]
fn bad_options_and_missing_files_end_it_with_status_1() {
    for (args, expected) in [
        (&["--port", "abc"][..], "argument couldn't be parsed into an integer"),
        (&["--nosuch", "1"], ">>> 'nosuch \"1\"'\nBad directive or wrong number of arguments"),
        (&["--port"], "wrong number of arguments"),
        (&["--prot", "7000"], "Reading the option --prot\n>>> 'prot \"7000\"'\n"),
        (&["--prot", "7000"], "Did you mean 'port'?"),
        (&["--dir", "/no/such/dir"], ">>> 'dir \"/no/such/dir\"'\nNo such file or directory"),
        (&["/no/such/file.conf"], "can't open config file '/no/such/file.conf': No such file or directory"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn version_and_help_are_printed_and_end_it_with_status_0() {
    for flag in ["--version", "-v"] {
        let output = run(&[flag]);
        assert!(output.status.success() && output.stderr.is_empty());
        assert!(text(&output.stdout).starts_with("Redis server v=8."), "{output:?}");
    }
    for flag in ["--help", "-h", "--help-all"] {
        let output = run(&[flag]);
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty());
        assert!(help.contains("Usage") && help.contains("--maxclients") && help.contains("--requirepass"), "{help}");
    }
}

#[test]
fn a_start_that_fails_is_reported_once_with_its_cause() {
    let mut first = Process::start(&[]);
    let addr = first.addr();
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let port = addr.port().to_string();
    let in_use = ["--port", &port, "--bind", "127.0.0.1"];
    let no_users = ["--port", "0", "--bind", "127.0.0.1", "--aclfile", "/no/such/file"];
    // Test suites look for the text about the port.
    for (args, expected) in [
        (&in_use[..], format!("Failed listening on port {port} (tcp), aborting: could not listen on {addr}: Address")),
        (&no_users, " # Aborting Redis startup because of ACL errors: ".to_owned()),
    ] {
        let output = run(args);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!((output.status.code(), printed.matches(&expected).count()), (Some(1), 1), "{printed}");
        assert_eq!(printed.contains("Failed listening"), args[1] == port, "{printed}");
        // With a log file the reason is printed on the terminal as well.
        let output = run(&[args, &["--logfile", log.to_str().expect("a plain path")]].concat());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(out.is_empty() && err.lines().count() == 1 && expected.contains(&err[..20]), "{out}{err}");
        assert!(std::fs::read_to_string(&log).expect("a log").contains(&expected));
    }
    Client::connect(addr).expect(&[("PING", "+PONG")]);
}

#[test]
fn the_log_goes_to_the_file_that_logfile_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keylatch.log");
    let mut process = Process::start(&["--logfile", file.to_str().expect("a plain path")]);
    let addr = process.addr();
    Client::connect(addr).expect(&[("PING", "+PONG")]);
    process.signal("TERM");
    assert!(process.wait().success());
    assert_eq!(process.rest(), "");
    let log = std::fs::read_to_string(&file).expect("a log");
    for text in
        [&format!(" PID: {}", process.child.id()), "Server initialized", "Ready to accept connections tcp", "bye bye"]
    {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn settings_without_effect_are_named_in_the_log_unless_they_prevent_the_start() {
    let refused = run(&["--repl-disable-tcp-nodelay", "yes", "--unsupported-settings", "refuse", "--port", "0"]);
    assert!(!refused.status.success() && !text(&refused.stdout).contains("is accepted"), "{refused:?}");
    let mut process =
        Process::start(&["--repl-disable-tcp-nodelay", "yes", "--activerehashing", "no", "--appendfsync", "no"]);
    let log = process.read_until("Ready to accept");
    assert!(log.contains("'repl-disable-tcp-nodelay'") && log.contains("'activerehashing'"), "{log}");
    assert!(!log.contains("'maxclients'") && !log.contains("'appendfsync'"), "{log}");
}

#[test]
fn a_loglevel_of_warning_keeps_the_log_silent() {
    let mut process = Process::start(&["--loglevel", "warning", "--test-mode"]);
    let seen = process.read_until(r#"{"ready":true,"#);
    assert_eq!(seen.lines().count(), 1, "{seen}");
}

#[test]
fn an_idle_server_with_keys_that_will_expire_uses_no_processor_time() {
    let mut process = Process::start(&["--timeout", "1"]);
    let addr = process.addr();
    let mut client = Client::connect(addr);
    let sets: Vec<String> = (0..1000).map(|n| format!("SET k:{n} v EX {}", 1000 + n)).collect();
    client.pipeline(&sets);
    let before = processor_seconds(&mut client);
    // The server closes this client after one to three idle seconds: a wait that is neither a sleep nor a guess.
    assert_eq!(client.read_to_end(), b"");
    let used = processor_seconds(&mut Client::connect(addr)) - before;
    assert!(used < 0.3, "{used} s of processor time for nothing");
}

fn processor_seconds(client: &mut Client) -> f64 {
    let read = |text: String| text.parse::<f64>().expect("seconds");
    read(client.info("used_cpu_user")) + read(client.info("used_cpu_sys"))
}

#[test]
fn every_worker_thread_serves_and_all_see_the_same_data() {
    let mut process = Process::start(&["--worker-threads", "3"]);
    let addr = process.addr();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| Client::connect(addr).pipeline(&vec!["INCR n".to_owned(); 1000]));
        }
    });
    Client::connect(addr).expect(&[("GET n", "$4 6000")]);
}

#[cfg(feature = "jemalloc")]
#[test]
fn the_memory_it_counts_is_what_the_allocator_holds() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    let allocated = |client: &mut Client| client.info("allocator_allocated").parse::<f64>().expect("a number");
    let dataset = |client: &mut Client| client.info("used_memory_dataset").parse::<f64>().expect("a number");
    // A shard allocates its first buckets with its first key; they belong to no key.
    client.pipeline(&(0..2000).map(|n| format!("SET warm:{n} 1")).collect::<Vec<_>>());
    let (held_before, counted_before) = (allocated(&mut client), dataset(&mut client));
    let mut names = Vec::new();
    for (len, ttl) in [(1, ""), (32, ""), (32, " EX 1000"), (180, ""), (500, ""), (3000, " EX 1000")] {
        let first = names.len();
        names.extend((first..first + 20_000).map(|n| format!("key:{n}")));
        let sets = names[first..].iter().map(|name| format!("SET {name} {}{ttl}", "v".repeat(len))).collect::<Vec<_>>();
        sets.chunks(1000).for_each(|chunk| drop(client.pipeline(chunk)));
    }
    let (held, counted) = (allocated(&mut client) - held_before, dataset(&mut client) - counted_before);
    let usages: Vec<String> = names.iter().map(|name| format!("MEMORY USAGE {name}")).collect();
    let replies = usages.chunks(1000).flat_map(|chunk| client.pipeline(chunk));
    let summed: f64 = replies.map(|reply| reply.trim_start_matches(':').parse::<f64>().expect("an integer")).sum();
    assert!((counted / held - 1.0).abs() < 0.05, "counted {counted} of {held} bytes");
    assert!((summed / held - 1.0).abs() < 0.05, "the keys sum up to {summed} of {held} bytes");
}

#[test]
fn log_lines_have_the_form_of_redis() {
    let mut process = Process::start(&["--always-show-logo", "yes"]);
    let log = process.read_until("Ready to accept");
    for line in log.lines() {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        assert_eq!(words[0], format!("{}:M", process.child.id()), "{line}");
        let is_shaped = |word: &str, shape: &str| {
            word.len() == shape.len()
                && word.chars().zip(shape.chars()).all(|(c, s)| if s == '0' { c.is_ascii_digit() } else { c == s })
        };
        assert!(
            is_shaped(words[1], "00") && is_shaped(words[3], "0000") && is_shaped(words[4], "00:00:00.000"),
            "{line}"
        );
        assert!(words[2].len() == 3 && [".", "-", "*", "#"].contains(&words[5]) && !words[6].is_empty(), "{line}");
    }
}

#[test]
fn shutdown_ends_it_with_status_0_and_without_a_reply() {
    for options in ["SHUTDOWN", "SHUTDOWN NOSAVE NOW FORCE", "SHUTDOWN SAVE FORCE"] {
        let mut process = Process::start(&[]);
        let (mut client, mut other) = (process.client(), Client::connect(process.known_addr()));
        other.expect(&[("PING", "+PONG")]);
        client.send(format!("{options}\r\n").as_bytes());
        assert_eq!(client.read_to_end(), b"", "{options}");
        let refused = TcpStream::connect(process.known_addr()).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused), "{options}: closed before the port is");
        assert_eq!(other.read_to_end(), b"", "{options}");
        assert_eq!(process.wait().code(), Some(0), "{options}");
        assert!(process.rest().contains("ready to exit, bye bye"));
    }
}

#[test]
fn a_shutdown_that_is_to_save_fails_and_keeps_the_data() {
    let mut process = Process::start(&["--shutdown-on-sigterm", "save", "--dbfilename", ""]);
    let mut client = process.client();
    client.expect(&[("SET k v", "+OK"), ("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs.")]);
    process.read_until("Errors trying to shut down");
    process.signal("TERM");
    let log = process.read_until("Errors trying to shut down");
    assert!(log.contains("Received SIGTERM") && log.contains("Error trying to save the DB, can't exit"), "{log}");
    client.expect(&[("GET k", "$1 v")]);
    assert_eq!(client.call_args(&["CONFIG", "SET", "shutdown-on-sigterm", "save force"]), "+OK");
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn a_shutdown_that_loses_what_was_to_be_saved_says_so() {
    let mut process = Process::start(&["--save", "900", "1", "--dbfilename", ""]);
    let log = process.read_until("Ready to accept");
    assert!(log.contains("Data is kept in memory only") && !log.contains("'save'"), "{log}");
    process.client().expect(&[("SET k v", "+OK"), ("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs.")]);
    process.signal("TERM");
    assert!(process.wait().success());
    let log = process.rest();
    assert!(
        log.contains("there is no snapshot file: 'dbfilename' is empty") && log.contains("the data is lost"),
        "{log}"
    );
}

#[test]
fn the_program_has_the_files_of_redis_unless_it_is_in_test_mode() {
    let saved = "*4 $4 save $23 3600 1 300 100 60 10000 $10 dbfilename $8 dump.rdb";
    Process::start(&[]).client().expect(&[("CONFIG GET save dbfilename", saved)]);
    let none = "*4 $4 save $0  $10 dbfilename $0 ";
    let mut process = Process::start(&["--test-mode"]);
    process.client().expect(&[
        ("CONFIG GET save dbfilename", none),
        ("SAVE", "-ERR there is no snapshot file: the setting 'dbfilename' is empty"),
    ]);
}

#[test]
fn other_signals_are_logged() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    process.signal("ALRM");
    process.read_until("Received SIGALRM");
    client.expect(&[("PING", "+PONG")]);
    process.signal("ABRT");
    process.read_until("crashed by signal: 6");
    assert_eq!(process.wait().code(), None);
}

#[test]
fn the_directory_and_the_level_of_the_log_change_while_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().canonicalize().expect("it exists");
    let mut process = Process::start(&["--enable-protected-configs", "local"]);
    let mut client = process.client();
    client.expect(&[("CONFIG SET loglevel debug", "+OK"), (&format!("CONFIG SET dir {}", path.display()), "+OK")]);
    let cwd = std::fs::read_link(format!("/proc/{}/cwd", process.child.id())).expect("Linux");
    assert_eq!(cwd, path);
    Client::connect(process.known_addr()).send(b"*1\r\n$x\r\n");
    process.read_until("closing a client after a protocol error");
    let refused = client.call("CONFIG SET loglevel warning maxclients 4000000000");
    assert!(refused.contains("'maxclients') - The operating system is not able to handle"), "{refused}");
    client.expect(&[("CONFIG GET loglevel", "*2 $8 loglevel $5 debug")]);
    // Changes before a setting that fails are undone.
    let refused = client.call("CONFIG SET dir / maxclients 4000000000");
    assert!(refused.contains("'maxclients')"), "{refused}");
    assert_eq!(std::fs::read_link(format!("/proc/{}/cwd", process.child.id())).expect("Linux"), path);
    client
        .expect(&[("CONFIG GET dir", &format!("*2 $3 dir ${} {}", path.display().to_string().len(), path.display()))]);
}

#[test]
fn a_module_is_a_reason_not_to_start() {
    let output = run(&["--loadmodule", "/x.so"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Can't load module from /x.so: server aborting"));
}

#[test]
fn a_log_file_that_was_rotated_away_is_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, rotated) = (dir.path().join("log"), dir.path().join("log.1"));
    let mut process = Process::start(&["--logfile", file.to_str().expect("a plain path")]);
    process.addr();
    let has_alarm = || std::fs::read_to_string(&file).is_ok_and(|log| log.contains("Received SIGALRM"));
    std::fs::rename(&file, &rotated).expect("ours");
    process.signal("ALRM");
    wait_until(has_alarm);
    std::fs::remove_file(&file).expect("ours");
    process.signal("ALRM");
    wait_until(has_alarm);
    let old = std::fs::read_to_string(&rotated).expect("it stays");
    assert!(old.contains("Ready to accept connections") && !old.contains("SIGALRM"), "{old}");
}

#[test]
fn a_rewritten_file_keeps_its_mode_and_one_that_cannot_be_written_is_left_as_it_was() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keylatch.conf");
    std::fs::write(&file, "# mine\ntimeout 7\n").expect("writable");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("ours");
    let mut process = Process::start(&[file.to_str().expect("a plain path")]);
    let mut client = process.client();
    client.expect(&[("CONFIG SET timeout 8", "+OK"), ("CONFIG REWRITE", "+OK")]);
    let written = std::fs::read_to_string(&file).expect("it is there");
    assert!(
        written.starts_with("# mine\ntimeout 8\n\n# Generated by CONFIG REWRITE\nport 0\nbind 127.0.0.1\n"),
        "{written}"
    );
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1, "no temporary file is left");
    std::fs::remove_file(&file).expect("ours");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    client.expect(&[("CONFIG REWRITE", "-ERR Rewriting config file: Not a regular file"), ("PING", "+PONG")]);
    std::fs::remove_dir_all(dir.path()).expect("ours");
    client.expect(&[("CONFIG REWRITE", "-ERR Rewriting config file: No such file or directory"), ("PING", "+PONG")]);
}

#[test]
fn a_server_whose_output_nobody_reads_starts_all_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("port");
    let mut command = Command::new(binary());
    command.args(["--port", "0", "--bind", "127.0.0.1", "--port-file", path.to_str().expect("text")]);
    command.current_dir(dir.path());
    command.env_remove("KEYLATCH_REQUIRE_REDIS").env_remove("KEYLATCH_BLESS").env_remove("KEYLATCH_REDIS8");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    let mut process = Process { child, known_addr: None, stdout: mpsc::channel().1, _dir: None };
    wait_until(|| path.exists());
    let port = std::fs::read_to_string(&path).expect("a port");
    let mut client = Client::connect(([127, 0, 0, 1], port.trim().parse().expect("a number")).into());
    client.expect(&[("PING", "+PONG")]);
    client.send(b"SHUTDOWN\r\n");
    assert!(process.wait().success());
}

#[test]
fn test_mode_is_a_switch_of_the_command_line_and_in_the_log() {
    let mut process = Process::start(&["--test-mode"]);
    assert!(process.client().int("TEST.TIME GET") > 0);
    let mut process = Process::start(&["--test-mode"]);
    assert!(process.read_until("Ready to accept").contains("as a user ns-* with any password"));
}

#[cfg(feature = "jemalloc")]
#[test]
fn info_tells_that_the_size_classes_are_those_of_a_checkout() {
    let mut process = Process::start(&[]);
    assert_eq!(process.client().info("mem_allocator_quantum"), "8");
}
