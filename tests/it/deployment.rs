//! Features for containers and supervisors: environment variables, the health check, systemd notifications.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use crate::harness::{ReservedPort, wait_until};
use crate::process::{Process, binary, text};

fn start_with(variables: &[(&str, &str)]) -> Process {
    Process::run(Command::new(binary()).envs(variables.iter().copied()).args(["--port", "0", "--bind", "127.0.0.1"]))
}

/// Runs the health check with these arguments; returns whether it has found a live server.
fn finds_life(args: &[&str]) -> bool {
    Command::new(binary()).arg("--healthcheck").args(args).output().expect("the binary starts").status.success()
}

#[test]
fn every_setting_may_come_from_the_environment_and_options_win() {
    let mut process = start_with(&[
        ("KEYLATCH_MAXCLIENTS", "321"),
        ("KEYLATCH_PROTECTED_MODE", "no"),
        ("KEYLATCH_PORT", "1"),
        ("KEYLATCH_SERVICE_HOST", "10.0.0.1"),
    ]);
    let mut client = process.client();
    client.expect(&[
        ("CONFIG GET maxclients", "*2 $10 maxclients $3 321"),
        ("CONFIG GET protected-mode", "*2 $14 protected-mode $2 no"),
    ]);
}

#[test]
fn a_password_may_come_from_a_file_that_the_environment_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("password");
    std::fs::write(&secret, "s3cret\n").expect("writable");
    let mut process = start_with(&[("KEYLATCH_REQUIREPASS_FILE", secret.to_str().expect("a plain path"))]);
    let mut client = process.client();
    client.expect(&[("GET k", "-NOAUTH Authentication required."), ("AUTH s3cret", "+OK"), ("GET k", "$-1")]);
}

#[test]
fn a_bad_value_in_the_environment_is_named_and_stops_the_start() {
    let output = Command::new(binary()).env("KEYLATCH_TIMEOUT", "soon").output().expect("the binary starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains(">>> 'timeout \"soon\"'"), "{errors}");
}

#[test]
fn the_health_check_finds_a_server_that_requires_a_password() {
    let mut process = Process::start(&["--requirepass", "secret"]);
    let port = process.addr().port().to_string();
    assert!(finds_life(&["--port", &port]));
}

#[test]
fn the_health_check_finds_a_server_on_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("s");
    let socket = socket.to_str().expect("a plain path");
    let mut process = Process::start(&["--unixsocket", socket]);
    process.read_until("Ready to accept connections unix");
    assert!(finds_life(&["--port", "0", "--unixsocket", socket]));
}

/// Listens for one client, as another kind of server; returns the port and the thread, which ends with the client.
fn stranger(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port().to_string();
    (port, std::thread::spawn(move || serve(listener.accept().expect("the health check").0)))
}

#[test]
fn the_health_check_fails_without_a_listener_or_with_another_one() {
    let (port, speaks_http) =
        stranger(|mut client| client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads"));
    assert!(!finds_life(&["--port", &port]));
    speaks_http.join().expect("no panic");
    assert!(!finds_life(&["--port", &port]));
}

#[test]
fn the_health_check_fails_when_an_answer_takes_too_long_as_a_whole() {
    let (port, drips) = stranger(|mut client| {
        client.set_read_timeout(Some(std::time::Duration::from_millis(10))).expect("a duration");
        // The beginning of a handshake, whose next bytes arrive one by one until the health check has given up.
        let mut part: &[u8] = b"\x16\x03\x03\x3f\x00\x02\x00\x3e\xfc\x03\x03";
        while client.write_all(part).is_ok() && !matches!(client.read(&mut [0; 1000]), Ok(0)) {
            part = b"\0";
        }
    });
    assert!(!finds_life(&["-h", "127.0.0.1", "-p", &port, "--tls"]));
    drips.join().expect("no panic");
}

#[test]
fn a_server_that_fails_to_start_leaves_port_files_as_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("port");
    let shown = path.to_str().expect("a plain path");
    let mut process = Process::start(&["--port-file", shown]);
    let port = process.addr().port().to_string();
    let start = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.env_remove("KEYLATCH_REQUIRE_REDIS").args(["--bind", "127.0.0.1"]).args(args);
        command.output().expect("the binary starts")
    };
    let second = start(&["--port", &port, "--port-file", shown]);
    assert!(!second.status.success());
    assert_eq!(std::fs::read_to_string(&path).expect("the file of the first"), format!("{port}\n"));
    let third = start(&["--port", "0", "--port-file", dir.path().to_str().expect("a plain path")]);
    assert!(!third.status.success() && String::from_utf8_lossy(&third.stderr).contains("Can't write the port file"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    let parent = dir.path().parent().expect("a parent");
    let name = dir.path().file_name().expect("a name").to_str().expect("a plain name");
    let left = std::fs::read_dir(parent).expect("readable").filter_map(Result::ok);
    let left: Vec<_> = left.filter(|file| file.file_name().to_string_lossy().starts_with(name)).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let daemon = start(&["--port", "0", "--daemonize", "yes", "--exit-on-stdin-close"]);
    assert!(!daemon.status.success());
    assert!(String::from_utf8_lossy(&daemon.stderr).contains("exit-on-stdin-close needs a server in the foreground"));
    // The file of a later server, not of an earlier one.
    std::fs::write(&path, "1\n").expect("writable");
    process.signal("TERM");
    assert!(process.wait().success());
    assert_eq!(std::fs::read_to_string(&path).expect("it is left"), "1\n");
}

#[test]
fn the_ready_line_comes_with_a_port_that_was_chosen_if_a_parent_is_watched() {
    let port = ReservedPort::new();
    let args = ["--exit-on-stdin-close", "--bind", "127.0.0.1", "--port", &port.port().to_string()];
    let mut process = Process::run(Command::new(binary()).args(args).stdin(std::process::Stdio::piped()));
    let port = port.port();
    process.read_until(&format!("{{\"ready\":true,\"host\":\"127.0.0.1\",\"port\":{port},\"pid\":"));
    drop(process.child.stdin.take());
    assert!(process.wait().success());
}

#[test]
fn the_health_check_asks_the_host_and_port_that_it_is_given() {
    let mut process = Process::start(&[]);
    let port = process.addr().port().to_string();
    assert!(finds_life(&["-h", "127.0.0.1", "-p", &port]));
    assert!(finds_life(&["-p", &port, "--maxclients", "5"]));
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keylatch.conf");
    std::fs::write(&file, format!("port {port}\n")).expect("writable");
    assert!(finds_life(&[file.to_str().expect("a plain path")]));
    let mut command = Command::new(binary());
    command.env("KEYLATCH_PORT", &port).arg("--healthcheck");
    assert!(command.status().expect("the binary starts").success(), "the port of the environment");
    process.signal("KILL");
    process.wait();
    let mut command = Command::new(binary());
    let output = command.args(["--healthcheck", "-h", "127.0.0.1", "-p", &port]).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("no healthy server at 127.0.0.1:{port}: Connection refused");
    assert!(text(&output.stderr).starts_with(&expected), "{output:?}");
}

#[test]
fn the_health_check_of_an_image_finds_the_server_wherever_it_listens() {
    // Only servers of the very same executable file are found: the test's own, and none of other tests.
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("keylatch");
    // Not by this process: children of concurrent tests would hold the file open for writing until they execute their
    // program, and a file open for writing cannot be executed.
    assert!(Command::new("cp").arg(binary()).arg(&copy).status().expect("cp runs").success());
    let is_healthy = || {
        let output = Command::new(&copy).args(["--healthcheck", "--running"]).output().expect("the binary starts");
        output.status.success()
    };
    assert!(!is_healthy(), "no server listens yet");
    let on = |options: &[&str]| {
        let mut process = Process::run(Command::new(&copy).args(["--bind", "127.0.0.1"]).args(options));
        process.read_until("Ready to accept connections");
        process
    };
    let on_a_port = on(&["--port", "0"]);
    wait_until(is_healthy);
    let socket = dir.path().join("a socket");
    let on_a_socket = on(&["--port", "0", "--unixsocket", socket.to_str().expect("a plain path")]);
    wait_until(is_healthy);
    on_a_port.signal("STOP");
    assert!(!is_healthy(), "one of two does not answer");
    drop(on_a_port);
    wait_until(is_healthy);
    drop(on_a_socket);
    assert!(!is_healthy(), "no server listens any more");
}

#[test]
fn systemd_is_notified_when_the_server_is_ready_and_when_it_stops() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let receive = || {
        let mut word = [0; 64];
        let len = socket.recv(&mut word).expect("a message");
        String::from_utf8_lossy(&word[..len]).into_owned()
    };
    let mut command = Command::new(binary());
    command.env("NOTIFY_SOCKET", &path).args(["--supervised", "systemd", "--port", "0", "--bind", "127.0.0.1"]);
    let mut process = Process::run(&mut command);
    assert_eq!(receive(), "READY=1\n");
    assert_eq!(process.client().info("process_supervised"), "systemd");
    process.signal("TERM");
    assert_eq!(receive(), "STOPPING=1\n");
    assert!(process.wait().success());
}

#[test]
fn the_unit_starts_the_server_with_the_config_file_of_debian_as_it_is() {
    // Only root may read the package's file; elsewhere there is nothing to test.
    let Ok(settings) = std::fs::read_to_string("/etc/redis/redis.conf") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("keylatch.conf"), settings).expect("writable");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/keylatch.service");
    let unit = std::fs::read_to_string(unit).expect("the unit").replace("\\\n", " ");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let path = dir.path().to_str().expect("a plain path");
    let line = line.replace("${CREDENTIALS_DIRECTORY}", path).replace("/var/lib/keylatch", path);
    let words = keylatch::internals::config::split_words(line.as_bytes()).expect("balanced quotes");
    let words: Vec<String> = words.iter().skip(1).map(|word| text(word)).collect();
    // systemd sets this for a unit with `Type=notify`.
    let systemd = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    let mut command = Command::new(binary());
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).args(words).args(["--port", "0", "--bind", "127.0.0.1"]);
    let mut process = Process::run(&mut command);
    process.client().expect(&[("PING", "+PONG"), ("CONFIG GET logfile", "*2 $7 logfile $0 ")]);
    let mut word = [0; 64];
    let len = systemd.recv(&mut word).expect("a message");
    assert_eq!(text(&word[..len]), "READY=1\n");
}
