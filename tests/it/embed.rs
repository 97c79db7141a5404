//! The library: servers inside a test process, any number of them, each with its own data and clock.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use keylatch::internals::config::Config;
use keylatch::{Clock, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::harness::{Client, PATIENCE, TestServer, wait_until};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Returns whether a process listens at the address.
fn answers(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok()
}

#[test]
fn a_hundred_servers_share_a_process_and_nothing_else() {
    let runtime = runtime();
    let servers: Vec<Server> = (0..100)
        .map(|_| runtime.block_on(Server::builder().clock(Clock::manual()).start()).expect("a free port"))
        .collect();
    let mut clients: Vec<Client> = servers.iter().map(|server| Client::connect(server.addr())).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.expect(&[("DBSIZE", ":0"), (&format!("SET k {n} PX {}", 100 + n), "+OK"), ("CLIENT ID", ":1")]);
    }
    for (n, server) in servers.iter().enumerate() {
        if n % 2 == 0 {
            server.advance(Duration::from_millis(100 + n as u64));
        }
    }
    for (n, client) in clients.iter_mut().enumerate() {
        let expected = if n % 2 == 0 { ":0".to_owned() } else { ":1".to_owned() };
        assert_eq!(client.call("EXISTS k"), expected, "server {n}");
        client.expect(&[(&format!("CONFIG SET maxclients {}", n + 1), "+OK")]);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.info("maxclients"), (n + 1).to_string());
    }
    let mut run_ids: Vec<String> = clients.iter_mut().map(|client| client.info("run_id")).collect();
    run_ids.sort();
    run_ids.dedup();
    assert_eq!(run_ids.len(), 100);
}

#[test]
fn dropping_a_server_stops_it() {
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().start()).expect("a free port");
    let addr = server.addr();
    let mut client = Client::connect(addr);
    client.expect(&[("SET k v", "+OK")]);
    drop(server);
    assert_eq!(client.read_to_end(), b"");
    wait_until(|| !answers(addr));
    assert!(!answers(addr));
}

#[test]
fn a_port_is_free_again_after_its_server_was_shut_down() {
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().start()).expect("a free port");
    let addr = server.addr();
    let mut client = Client::connect(addr);
    client.expect(&[("SET k v", "+OK")]);
    runtime.block_on(server.shutdown());
    assert!(!answers(addr));
    assert_eq!(client.read_to_end(), b"");
    let server = runtime.block_on(Server::builder().port(addr.port()).start()).expect("the same port again");
    assert_eq!(server.addr(), addr);
    Client::connect(addr).expect(&[("GET k", "$-1")]);
}

#[test]
fn a_shutdown_writes_the_replies_in_flight() {
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().start()).expect("a free port");
    let mut client = Client::connect(server.addr());
    client.call(&format!("SET k {}", "x".repeat(1_000_000)));
    client.send(&b"GET k\r\n".repeat(20));
    // Once the first byte has arrived, the requests have been read and executed.
    let first = client.take_bytes(1);
    let rest = std::thread::spawn(move || client.read_to_end());
    runtime.block_on(server.shutdown());
    let rest = rest.join().expect("the reader");
    let reply = b"$1000000\r\n".len() + 1_000_000 + 2;
    assert_eq!(first, b"$");
    assert_eq!((rest.len() + 1) % reply, 0, "a reply was cut");
}

#[test]
fn the_url_names_the_address() {
    let server = TestServer::start();
    let addr = server.addr();
    assert_eq!(server.server().url(), format!("redis://127.0.0.1:{}", addr.port()));
    assert!(addr.ip().is_loopback() && addr.port() != 0);
}

#[test]
fn flush_empties_every_database_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("MSET a 1 b 2", "+OK"), ("SELECT 9", "+OK"), ("SET c 3 EX 5", "+OK")]);
    server.server().flush();
    client.expect(&[("DBSIZE", ":0"), ("SELECT 0", "+OK"), ("DBSIZE", ":0"), ("SET a 1", "+OK"), ("GET a", "$1 1")]);
}

#[test]
fn advance_moves_both_clocks_and_set_wall_ms_only_one() {
    let server = TestServer::start();
    let now = || server.server().namespace().clock.now();
    let before = now();
    server.advance_ms(1234);
    assert_eq!((now().mono_ms() - before.mono_ms(), now().wall_ms() - before.wall_ms()), (1234, 1234));
    server.server().set_wall_ms(5000);
    assert_eq!((now().mono_ms() - before.mono_ms(), now().wall_ms()), (1234, 5000));
}

#[test]
fn advance_counts_fractions_of_a_millisecond() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 1", "+OK")]);
    for _ in 0..3 {
        server.server().advance(Duration::from_micros(250));
        client.expect(&[("EXISTS k", ":1")]);
    }
    server.server().advance(Duration::from_micros(250));
    client.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn a_manual_clock_does_not_advance_by_itself() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 1", "+OK")]);
    let time = client.call("TIME");
    for _ in 0..2000 {
        assert_eq!(client.call("PTTL k"), ":1");
    }
    assert_eq!(client.call("TIME"), time);
    assert_eq!(client.info("uptime_in_seconds"), "0");
    server.advance_ms(90_000_000);
    assert_eq!((client.info("uptime_in_seconds"), client.info("uptime_in_days")), ("90000".into(), "1".into()));
}

#[test]
#[should_panic(expected = "only the time of a server with Clock::manual() can be moved")]
fn a_server_on_the_systems_clock_refuses_to_be_advanced() {
    TestServer::start_in_real_time().advance_ms(1);
}

#[test]
fn settings_are_given_as_lines_of_a_config_file_and_leave_it_on_a_free_loopback_port() {
    let builder = Server::builder().settings("# a comment\nmaxmemory 10mb\n\nrequirepass p@ss:word\n");
    let server = builder.start_blocking().expect("a free port");
    assert!(server.addr().ip().is_loopback() && !matches!(server.addr().port(), 0 | 6379));
    assert_eq!(server.url(), format!("redis://:p%40ss%3Aword@{}", server.addr()));
    let mut client = Client::connect(server.addr());
    client.expect(&[("AUTH p@ss:word", "+OK"), ("CONFIG GET maxmemory", "*2 $9 maxmemory $8 10485760")]);
}

/// Returns the error with which a server fails to start.
fn why_not(builder: keylatch::Builder) -> String {
    let error = builder.start_blocking().err().expect("invalid settings");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    error.to_string()
}

#[test]
fn settings_the_port_and_the_clock_are_given_in_any_order() {
    type Step = fn(keylatch::Builder) -> keylatch::Builder;
    let steps: [Step; 5] = [
        |builder| builder.set("requirepass", "a secret"),
        |builder| builder.set("latency-tracking-info-percentiles", "50 99.9").set("maxclients", 7),
        |builder| builder.settings("maxmemory 10mb\nuser alice on nopass +@all ~*"),
        |builder| builder.port(0),
        |builder| builder.clock(Clock::manual()),
    ];
    for first in 0..steps.len() {
        let builder = (0..steps.len()).fold(Server::builder(), |builder, n| steps[(first + n) % steps.len()](builder));
        let server = builder.start_blocking().expect("a free port");
        assert_eq!(server.url(), format!("redis://:a%20secret@{}", server.addr()));
        let mut client = Client::connect(server.addr());
        client.expect(&[("AUTH alice x", "+OK"), ("CONFIG GET maxmemory", "*2 $9 maxmemory $8 10485760")]);
        client.expect(&[("CONFIG GET save", "*2 $4 save $0 "), ("SET k v PX 1", "+OK")]);
        server.advance(Duration::from_millis(1));
        client.expect(&[("GET k", "$-1"), ("CONFIG GET maxclients", "*2 $10 maxclients $1 7")]);
    }
}

#[test]
fn the_later_of_two_settings_counts_and_the_first_invalid_one_is_reported() {
    let server = Server::builder().set("timeout", 1).settings("timeout 2\nport 0").set("TimeOut", 3);
    let server = server.start_blocking().expect("a free port");
    Client::connect(server.addr()).expect(&[("CONFIG GET timeout", "*2 $7 timeout $1 3")]);
    let set = |name: &str, value: &str| why_not(Server::builder().set(name, value).set("nosuch", 1));
    assert_eq!(set("maxmemroy", "1"), "there is no setting 'maxmemroy'; did you mean 'maxmemory'?");
    assert_eq!(set("", ""), "there is no setting ''");
    assert_eq!(set("a\nport 1", "x"), "there is no setting 'a\nport 1'");
    let reason = "argument couldn't be parsed into an integer";
    assert_eq!(set("maxclients", "many"), format!("the setting 'maxclients' cannot be 'many': {reason}"));
    let reason = "Bad directive or wrong number of arguments";
    assert_eq!(set("rename-command", "GET"), format!("the setting 'rename-command' cannot be 'GET': {reason}"));
    assert_eq!(
        why_not(Server::builder().settings("timeout 1\nmaxmemroy 10mb")),
        "the line 'maxmemroy 10mb' is not a valid setting: Bad directive or wrong number of arguments\n\
         Did you mean 'maxmemory'?"
    );
}

#[test]
fn test_mode_is_a_setting_and_leaves_the_clock_that_was_chosen() {
    for builder in [Server::builder().set("test-mode", "yes"), Server::builder().test_mode()] {
        let server = builder.start_blocking().expect("a free port");
        let mut client = Client::connect(server.addr());
        client.expect(&[("SET k v PX 1000", "+OK")]);
        client.int("TEST.TIME ADVANCE 600");
        server.advance(Duration::from_millis(400));
        client.expect(&[("GET k", "$-1"), ("TEST.FAULT CLEAR", "+OK")]);
    }
    let server = Server::builder().test_mode().clock(Clock::manual()).start_blocking().expect("a free port");
    let mut client = Client::connect(server.addr());
    let time = client.int("TEST.TIME GET");
    client.expect(&[("SET k v PX 1", "+OK")]);
    server.advance(Duration::from_millis(1));
    client.expect(&[("GET k", "$-1"), ("TEST.TIME GET", &format!(":{}", time + 1))]);
}

#[test]
fn a_server_runs_on_a_current_thread_runtime() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::builder().clock(Clock::manual()).start().await.expect("a free port");
        let mut stream = tokio::net::TcpStream::connect(server.addr()).await.expect("it listens");
        stream.write_all(b"SET k v PX 10\r\nGET k\r\n").await.expect("it reads");
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).await.expect("it answers");
        assert_eq!(&reply, b"+OK\r\n$1\r\nv\r\n");
        server.advance(Duration::from_millis(10));
        stream.write_all(b"GET k\r\n").await.expect("it reads");
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).await.expect("it answers");
        assert_eq!(&reply, b"$-1\r\n");
    });
}

#[test]
fn a_dropped_runtime_takes_along_the_servers_that_were_given_it() {
    let runtime = runtime();
    let builder = Server::builder().workers(vec![runtime.handle().clone()]);
    let server = runtime.block_on(builder.start()).expect("a free port");
    let addr = server.addr();
    let mut client = Client::connect(addr);
    client.expect(&[("SET k v", "+OK")]);
    drop(runtime);
    assert_eq!(client.read_to_end(), b"");
    assert!(!answers(addr));
}

#[test]
fn a_server_outlives_the_runtime_that_it_was_started_on() {
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().start()).expect("a free port");
    drop(runtime);
    Client::connect(server.addr()).expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
}

#[test]
fn connections_are_handed_out_to_the_workers_it_was_given() {
    let workers = keylatch::internals::worker::start(3).expect("threads");
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().workers(workers).start()).expect("a free port");
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(server.addr())).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.int("INCR n"), n as i64 + 1);
    }
    runtime.block_on(server.shutdown());
    clients.iter_mut().for_each(|client| assert_eq!(client.read_to_end(), b""));
}

#[test]
fn an_address_that_is_taken_is_named_in_the_error() {
    let server = TestServer::start();
    let runtime = runtime();
    let error = runtime.block_on(Server::builder().port(server.addr().port()).start()).err().expect("it is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
}

#[test]
fn an_address_of_another_machine_is_refused_unless_it_may_be_missing() {
    let runtime = runtime();
    let start = |bind: &[&str]| {
        let mut config = Config::default();
        (config.port, config.bind) = (0, bind.iter().map(|address| (*address).to_owned()).collect());
        runtime.block_on(Server::builder().config(config).start())
    };
    // 192.0.2.0/24 is reserved for documentation.
    let error = start(&["192.0.2.1"]).err().expect("not an address of this machine");
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
    assert!(start(&["-192.0.2.1"]).is_err());
    let server = start(&["127.0.0.1", "-192.0.2.1"]).expect("the second may be missing");
    Client::connect(server.addr()).expect(&[("PING", "+PONG")]);
}

#[test]
fn bad_settings_are_errors_and_not_panics() {
    let load = |text: &str| {
        keylatch::internals::config::load(None, Some(text.as_bytes()), b"").map(drop).map_err(|error| error.to_string())
    };
    assert!(load("port 70000").expect_err("too large").contains("argument must be between 0 and 65535 inclusive"));
    assert!(load("nosuch 1").expect_err("unknown").contains("Bad directive or wrong number of arguments"));
    assert!(load("timeout \"1").expect_err("unbalanced").contains("Unbalanced quotes"));
    assert_eq!(load("timeout 1\n# a comment\n\nmaxclients 5"), Ok(()));
}

#[test]
fn a_unix_socket_with_port_0_is_the_only_way_in_and_removed_at_shutdown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keylatch.sock");
    let text = format!("unixsocket {}\nunixsocketperm 700\nport 0\nbind 127.0.0.1\n", path.display());
    let config = keylatch::internals::config::load(None, None, text.as_bytes()).expect("valid");
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().config(config).start()).expect("it listens");
    assert_eq!(server.addr().port(), 0);
    let mut unix = Client::connect_unix(&path);
    unix.expect(&[("SET k unix", "+OK"), ("GET k", "$4 unix")]);
    let line = unix.call("CLIENT INFO");
    assert!(line.contains(&format!("addr={}:0", path.display())) && line.contains(" flags=U "), "{line}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("the socket").permissions());
    assert_eq!(mode & 0o777, 0o700);
    runtime.block_on(server.shutdown());
    assert!(!path.exists());
    assert_eq!(unix.read_to_end(), b"");
}

#[test]
fn a_client_that_never_stops_sending_does_not_keep_the_server_from_stopping() {
    let runtime = runtime();
    let server = runtime.block_on(Server::builder().start()).expect("a free port");
    let mut client = Client::connect(server.addr());
    client.expect(&[("PING", "+PONG")]);
    let mut writer = client.writer();
    let flood = b"PING\r\n".repeat(10_000);
    let flood = std::thread::spawn(move || while std::io::Write::write_all(&mut writer, &flood).is_ok() {});
    client.take_bytes(100_000); // the flood is over
    let reader = std::thread::spawn(move || client.read_to_end());
    runtime.block_on(async {
        let stopped = tokio::time::timeout(PATIENCE, server.shutdown());
        stopped.await.expect("the server stops");
    });
    flood.join().expect("the writer");
    reader.join().expect("the reader");
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_refuses_a_start_that_asks_for_it() {
    for (name, value) in [("test-tls", "yes"), ("tls-port", "1")] {
        let error = Server::builder().test_mode().set(name, value).start_blocking().err().expect("refused");
        assert!(error.to_string().ends_with("keylatch was built without the feature tls"), "{error}");
    }
}
