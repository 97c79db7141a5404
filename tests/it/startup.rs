//! Warnings of the binary at startup, about options, variables and files without effect.

use std::net::TcpStream;
use std::process::Command;

use keylatch::Clock;

use crate::harness::{Client, ReservedPort, encode, wait_until};
use crate::process::{Process, binary};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn an_environment_variable_that_is_nearly_a_setting_is_refused_and_another_is_named_in_the_log() {
    let output = Command::new(binary()).env("KEYLATCH_MAXMEMROY", "1").output().expect("the binary starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("KEYLATCH_MAXMEMROY") && error.contains("Did you mean KEYLATCH_MAXMEMORY?"), "{error}");
    let mut command = Command::new(binary());
    command.args(["--port", "0", "--bind", "127.0.0.1"]).env("KEYLATCH_SOMETHING_ELSE", "1");
    let seen = Process::run(&mut command).read_until("ready");
    assert!(seen.contains("# the environment variable KEYLATCH_SOMETHING_ELSE names no setting"), "{seen}");
}

#[test]
fn a_verbose_log_has_connections_failed_logins_unknown_commands_and_changed_settings() {
    let mut process = Process::start(&["--loglevel", "verbose"]);
    let mut client = process.client();
    let addr = client.local_addr();
    client.call("CONFIG SET requirepass s3cret timeout 77");
    assert!(client.call("AUTH wrong").starts_with("-WRONGPASS"));
    for _ in 0..3 {
        assert!(client.call("NOSUCH h f v").starts_with("-ERR unknown command"));
        assert!(client.call("client nosuch").starts_with("-ERR unknown subcommand"));
        #[cfg(feature = "lua")]
        client.call_args(&["EVAL", "return redis.pcall('MISSING', 'l', '1')", "0"]);
    }
    drop(client);
    let seen = process.read_until("Client closed connection");
    for expected in [
        format!("- Accepted {addr} as client 1\n"),
        format!("- CONFIG SET by {addr}: requirepass \"(redacted)\", timeout \"77\"\n"),
        format!("- Authentication failed for a client at {addr}\n"),
        format!("- unknown command 'NOSUCH' from {addr};"),
        format!("- unknown command 'client|nosuch' from {addr};"),
        format!("- Client closed connection id=1 addr={addr} laddr="),
    ] {
        assert_eq!(seen.matches(&expected).count(), 1, "{expected} in {seen}");
    }
    assert_eq!(seen.matches("unknown command 'MISSING'").count(), usize::from(cfg!(feature = "lua")), "{seen}");
    assert!(!seen.contains("s3cret") && !seen.contains("wrong"), "{seen}");
}

#[test]
fn a_log_at_level_notice_has_no_connections() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    client.call("NOSUCH h f v");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(process.wait().success());
    let rest = process.rest();
    assert!(!rest.contains("Accepted") && !rest.contains("unknown command") && !rest.contains("closed"), "{rest}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_oom_score_is_adjusted() {
    // A higher probability of being killed needs no privilege.
    let mut process = Process::start(&["--oom-score-adj", "yes", "--oom-score-adj-values", "10", "20", "30"]);
    let mut client = process.client();
    let path = format!("/proc/{}/oom_score_adj", client.info("process_id"));
    let score = || -> i32 { std::fs::read_to_string(&path).expect("a number").trim().parse().expect("a number") };
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").expect("a number");
    let base: i32 = own.trim().parse().expect("a number");
    assert_eq!(score(), base + 10);
    assert_eq!(client.call_args(&["CONFIG", "SET", "oom-score-adj-values", "15 20 30"]), "+OK");
    assert_eq!(score(), base + 15);
    assert_eq!(client.call("CONFIG SET oom-score-adj no"), "+OK");
    assert_eq!(score(), base);
    assert_eq!(client.call_args(&["CONFIG", "SET", "oom-score-adj-values", "990 990 990"]), "+OK");
    assert_eq!(score(), base);
    assert_eq!(client.call("CONFIG SET oom-score-adj absolute"), "+OK");
    assert_eq!(score(), 990);
    assert_eq!(client.call("CONFIG GET oom-score-adj"), "*2 $13 oom-score-adj $8 absolute");
}

#[test]
fn the_log_says_of_files_what_tools_look_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("text");
    let parts = dir.path().join("appendonlydir");
    let set = encode(&["SET", "k", "v"]);
    std::fs::create_dir(&parts).expect("writable");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(parts.join("appendonly.aof.manifest"), manifest).expect("writable");
    std::fs::write(parts.join("appendonly.aof.1.incr.aof"), [&set[..], &set[..9]].concat()).expect("writable");
    let args = ["--dir", path, "--loglevel", "verbose", "--save", "", "--appendonly"];
    {
        let mut process = Process::start(&[&args[..], &["yes"]].concat());
        let log = process.read_until("Ready to accept connections");
        for line in [
            "Short read while loading the AOF file ",
            "loaded anyway because aof-load-truncated is enabled",
            "DB loaded from incr file appendonly.aof.1.incr.aof: ",
            "DB loaded from append only file: ",
        ] {
            assert!(log.contains(line), "{line}: {log}");
        }
        let mut client = process.client();
        client.expect(&[("GET k", "$1 v"), ("SAVE", "+OK")]);
        assert!(!process.read_until("DB saved on disk").contains("Background"));
        client.expect(&[("BGSAVE", "+Background saving started")]);
        let log = process.read_until("Background saving terminated with success");
        assert!(log.contains("Background saving started") && log.contains("DB saved on disk"), "{log}");
    }
    let mut process = Process::start(&[&args[..], &["no"]].concat());
    let log = process.read_until("Ready to accept connections");
    let loaded = "Done loading RDB, keys loaded: 1, keys expired: 0, empty keys skipped: 0.";
    assert!(log.contains(loaded) && log.contains("DB loaded from disk: "), "{log}");
    drop(process);
    let file = dir.path().join("dump.rdb");
    let mut bytes = std::fs::read(&file).expect("it is there");
    *bytes.last_mut().expect("a checksum") ^= 1;
    std::fs::write(&file, bytes).expect("writable");
    let output = Command::new(binary()).args(args).args(["no", "--port", "0"]).output().expect("the binary starts");
    let log = text(&output.stderr);
    let last = log.lines().last().expect("a line");
    assert!(last.contains("Fatal error loading the DB: ") && last.contains("CRC error"), "{log}");
}

#[test]
fn a_verbose_log_names_the_kind_of_a_value_that_is_refused() {
    let mut process = Process::start(&["--loglevel", "verbose", "--enable-debug-command", "yes"]);
    let mut client = process.client();
    client.expect(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK")]);
    // A hash in a ziplist without even a header.
    let payload = b"\x0d\x01\x00\x0a\0\0\0\0\0\0\0\0\0";
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"h", b"0", payload]), "-ERR Bad data format");
    process.read_until("Hash ziplist integrity check failed: RESTORE of the key 'h' is refused");
}

#[test]
fn who_connects_first_to_a_server_that_has_nothing_to_load_is_served() {
    for args in [["--save", ""], ["--appendonly", "yes"]] {
        for _ in 0..5 {
            let port = ReservedPort::new();
            let mut command = Command::new(binary());
            command.args(["--bind", "127.0.0.1", "--port", &port.port().to_string()]).args(args);
            let _process = Process::run(&mut command);
            let mut stream = None;
            wait_until(|| {
                stream = TcpStream::connect(port.addr()).ok();
                stream.is_some()
            });
            assert_eq!(Client::over(stream.expect("a connection")).call("SET k v"), "+OK", "{args:?}");
        }
    }
}

#[test]
fn who_connects_while_little_is_loaded_is_served_once_it_is_there() {
    for settings in [&["--save", "3600 1"][..], &["--save", "", "--appendonly", "yes"]] {
        let dir = tempfile::tempdir().expect("a directory");
        let start = |port: &ReservedPort| {
            let mut command = Command::new(binary());
            command.args(["--bind", "127.0.0.1", "--port", &port.port().to_string(), "--dir"]).arg(dir.path());
            Process::run(command.args(settings))
        };
        let port = ReservedPort::new();
        let mut first = start(&port);
        first.read_until("Ready to accept connections");
        Client::connect(port.addr()).expect(&[("SET k v", "+OK")]);
        first.signal("TERM");
        assert!(first.wait().success());
        let clock = Clock::system();
        for _ in 0..5 {
            let port = ReservedPort::new();
            let _process = start(&port);
            let begun_ms = clock.now().mono_ms();
            let mut stream = None;
            wait_until(|| {
                stream = TcpStream::connect(port.addr()).ok();
                stream.is_some()
            });
            let reply = Client::over(stream.expect("a connection")).call("GET k");
            // A machine on which that takes longer than a tenth of a second may get the error.
            let is_late = clock.now().mono_ms() - begun_ms >= 100;
            assert!(reply == "$1 v" || is_late && reply.starts_with("-LOADING"), "{reply} with {settings:?}");
        }
    }
}
