//! The library as a test double: direct inspection, faults and the journal of calls, from blocking and asynchronous
//! tests.

use std::sync::{LazyLock, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use keylatch::{Clock, Fault, LoggedCall, Server};

use crate::harness::{Client, wait_until};

const SECOND: Duration = Duration::from_secs(1);

fn start() -> (Server, Client) {
    let server = Server::builder().test_mode().clock(Clock::manual()).start_blocking().expect("a free port");
    let client = Client::connect(server.addr());
    (server, client)
}

fn texts(calls: &[LoggedCall]) -> Vec<String> {
    calls.iter().map(LoggedCall::to_string).collect()
}

#[test]
fn keys_are_read_without_a_client() {
    let (server, mut client) = start();
    let big = "x".repeat(100_000);
    client.expect(&[("MSET user:2 b user:1 a", "+OK"), ("EXPIRE user:2 90", ":1"), ("RPUSH list 1", ":1")]);
    client.call(&format!("SET big {big} PX 1500"));
    client.expect(&[("SELECT 1", "+OK"), ("SET other 1", "+OK")]);
    assert_eq!(server.get("user:1"), Ok(Some(b"a".to_vec())));
    assert_eq!(server.get("big"), Ok(Some(big.into_bytes())));
    assert_eq!((server.get("nosuch"), server.get("other"), server.get(b"\0")), (Ok(None), Ok(None), Ok(None)));
    assert_eq!(server.ttl("user:2"), Ok(Some(90 * SECOND)));
    assert_eq!((server.ttl("user:1"), server.ttl("nosuch"), server.ttl("list")), (Ok(None), Ok(None), Ok(None)));
    assert_eq!(server.keys("user:*").expect("not busy"), [b"user:1", b"user:2"]);
    assert_eq!(server.keys("nosuch*"), Ok(Vec::new()));
    let error = server.get("list").expect_err("a list");
    assert_eq!(error.code(), "WRONGTYPE");
    assert_eq!(error.to_string(), "WRONGTYPE Operation against a key holding the wrong kind of value");
    server.advance(Duration::from_millis(1499));
    assert_eq!(server.ttl("big"), Ok(Some(Duration::from_millis(1))));
    server.advance(Duration::from_millis(1));
    assert_eq!((server.get("big"), server.ttl("big")), (Ok(None), Ok(None)));
    server.flush();
    assert_eq!(server.keys("*"), Ok(Vec::new()));
}

#[test]
fn inspection_leaves_no_trace() {
    let (server, mut client) = start();
    client.expect(&[("CONFIG SET notify-keyspace-events KEAm", "+OK"), ("SET k v PX 5000", "+OK")]);
    client.expect(&[("PSUBSCRIBE *", "*3 $10 psubscribe $1 * :1")]);
    let mut other = Client::connect(server.addr());
    server.advance(2 * SECOND);
    let figures =
        |client: &mut Client| ["keyspace_hits", "keyspace_misses", "evicted_keys"].map(|field| client.info(field));
    let before = figures(&mut other);
    for _ in 0..3 {
        assert_eq!((server.get("k").map(|value| value.is_some()), server.get("nosuch")), (Ok(true), Ok(None)));
        assert_eq!((server.ttl("k"), server.keys("*").map(|keys| keys.len())), (Ok(Some(3 * SECOND)), Ok(1)));
    }
    assert_eq!(figures(&mut other), before);
    other.expect(&[("OBJECT IDLETIME k", ":2"), ("PUBLISH done 1", ":1")]);
    assert_eq!(client.reply(), "*4 $8 pmessage $1 * $4 done $1 1");
    let seen = server.command_log().expect("test mode");
    assert!(seen.iter().all(|call| !matches!(&*call.name(), "GET" | "PTTL" | "KEYS")), "{seen:?}");
}

#[test]
fn an_expired_key_is_invisible_and_deleted_like_one_that_a_client_finds() {
    let builder = Server::builder().set("enable-debug-command", "yes").clock(Clock::manual());
    let server = builder.start_blocking().expect("a free port");
    let mut client = Client::connect(server.addr());
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k v PX 1", "+OK"), ("DBSIZE", ":1")]);
    server.advance(SECOND);
    assert_eq!(server.get("k"), Ok(None));
    client.expect(&[("DBSIZE", ":0")]);
    assert_eq!(client.info("expired_keys"), "1");
}

#[cfg(feature = "lua")]
#[test]
fn a_busy_script_is_an_error_of_an_inspection() {
    let server = Server::builder().set("busy-reply-threshold", 1).start_blocking().expect("a free port");
    let mut client = Client::connect(server.addr());
    client.expect(&[("SET k v", "+OK")]);
    client.send(b"EVAL 'while true do end' 0\r\n");
    wait_until(|| server.get("k").is_err());
    assert_eq!(server.get("k").expect_err("busy").code(), "BUSY");
    assert_eq!(server.keys("*").expect_err("busy").code(), "BUSY");
    Client::connect(server.addr()).expect(&[("SCRIPT KILL", "+OK")]);
    assert!(client.reply().contains("killed"));
    assert_eq!(server.get("k"), Ok(Some(b"v".to_vec())));
}

#[test]
fn each_kind_of_fault_is_injected_into_the_calls_that_it_matches() {
    let (server, mut client) = start();
    let broken = |fault: Fault, request: &str| {
        server.inject(fault.times(1)).expect("a fault");
        let mut client = Client::connect(server.addr());
        client.expect(&[("CLIENT SETNAME worker", "+OK")]);
        client.send(request.as_bytes());
        String::from_utf8_lossy(&client.read_to_end()).replace("\r\n", " ")
    };
    client.expect(&[("SET n 5", "+OK")]);
    assert_eq!(broken(Fault::on("incr").drop(), "INCR n\r\n"), "");
    client.expect(&[("GET n", "$1 5")]);
    assert_eq!(broken(Fault::on("INCR").key("n*").lose_reply(), "INCR n\r\n"), "");
    client.expect(&[("GET n", "$1 6")]);
    assert_eq!(broken(Fault::on("*").client("worker").partial(2), "GET n\r\n"), "$1");
    server.inject(Fault::on("GET").key("user:*").error("LOADING not yet").after(1).times(1)).expect("a fault");
    client.expect(&[
        ("GET n", "$1 6"),
        ("GET user:1", "$-1"),
        ("GET user:1", "-LOADING not yet"),
        ("GET user:1", "$-1"),
    ]);
    server.inject(Fault::on("PING").delay(Duration::from_millis(1))).expect("a fault");
    client.expect(&[("PING", "+PONG"), ("TEST.FAULT CLEAR", "+OK")]);
    let mut pattern = || {
        server.inject(Fault::on("PING").error("no").probability(0.5).seed(7)).expect("a fault");
        let replies: Vec<String> = (0..32).map(|_| client.call("PING")).collect();
        server.clear_faults();
        replies
    };
    let first = pattern();
    assert!(first.contains(&"-no".to_owned()) && first.contains(&"+PONG".to_owned()), "{first:?}");
    assert_eq!(pattern(), first);
}

#[test]
fn faults_of_the_program_and_of_clients_are_in_one_list() {
    let (server, mut client) = start();
    let id = server.inject(Fault::on("client|getname").error("no").seed(3).after(4)).expect("a fault");
    client.expect(&[("TEST.FAULT ADD PING ERROR no", &format!(":{}", id + 1))]);
    let list = client.call("TEST.FAULT LIST");
    assert!(list.contains("$14 client|getname") && list.contains("$4 seed :3") && list.contains("$4 ping"), "{list}");
    assert!(server.remove_fault(id + 1) && !server.remove_fault(id + 1));
    client.expect(&[("PING", "+PONG"), (&format!("TEST.FAULT DEL {id}"), ":1"), ("TEST.FAULT LIST", "*0")]);
}

#[test]
fn a_fault_that_makes_no_sense_is_refused() {
    let (server, mut client) = start();
    let why = |fault: Fault| server.inject(fault).expect_err("refused").to_string();
    assert_eq!(why(Fault::on("GTE").drop()), "ERR Command 'GTE' not found");
    assert_eq!(why(Fault::on("GET")), "ERR a fault needs an effect, such as an error or a delay");
    assert_eq!(why(Fault::on("GET").drop().probability(1.1)), "ERR PROB must be from 0 to 1");
    assert_eq!(why(Fault::on("GET").drop().probability(f64::NAN)), "ERR PROB must be from 0 to 1");
    assert_eq!(why(Fault::on("GET").delay(Duration::MAX)), "ERR DELAY must be at most a day");
    client.expect(&[("TEST.FAULT LIST", "*0")]);
}

#[test]
fn the_log_of_commands_has_what_clients_have_sent() {
    let (server, mut client) = start();
    client.expect(&[
        ("CLIENT SETNAME web", "+OK"),
        ("SET k v", "+OK"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
    ]);
    server.advance(SECOND);
    server.inject(Fault::on("GET").error("no").times(1)).expect("a fault");
    client.expect(&[
        ("get k", "-no"),
        ("AUTH name secret", "-WRONGPASS invalid username-password pair or user is disabled."),
    ]);
    let calls = server.command_log().expect("test mode");
    assert_eq!(texts(&calls), ["CLIENT SETNAME web", "SET k v", "NOSUCH", "get k", "AUTH (redacted) (redacted)"]);
    let (set, get) = (&calls[1], &calls[3]);
    assert_eq!((&*set.client_name, set.client_id, set.fault), ("web", 1, None));
    assert_eq!((&*get.name(), get.fault, get.unix_ms - set.unix_ms), ("GET", Some("ERROR"), 1000));
    assert_eq!(set.args, [b"SET".to_vec(), b"k".to_vec(), b"v".to_vec()]);
    assert!(format!("{:?}", calls[0]).contains("args: [\""), "{:?}", calls[0]);
    server.clear_command_log();
    assert_eq!(server.command_log(), Ok(Vec::new()));
}

#[test]
fn a_server_out_of_test_mode_says_that_it_takes_no_faults_and_keeps_no_calls() {
    let server = Server::builder().clock(Clock::manual()).start_blocking().expect("a free port");
    let reason = "ERR the server is not in test mode: it needs the setting test-mode";
    assert_eq!(server.command_log().expect_err("not kept").to_string(), reason);
    assert_eq!(server.inject(Fault::on("GET").drop()).expect_err("not taken").to_string(), reason);
    server.clear_faults();
    server.clear_command_log();
    assert!(!server.remove_fault(1));
}

/// Server shared by all tests of a process.
static SHARED: LazyLock<Server> =
    LazyLock::new(|| Server::builder().test_mode().clock(Clock::manual()).start_blocking().expect("a free port"));

#[test]
fn threads_share_a_server_in_a_lazy_lock() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert!(Client::connect(SHARED.addr()).int("INCR shared") > 0)));
        }
    });
    assert_eq!(SHARED.get("shared"), Ok(Some(b"400".to_vec())));
}

/// Calls every method that a test may use on a server.
fn ask_everything(server: &Server) {
    let mut client = Client::connect(server.addr());
    client.expect(&[("SET asked 1 PX 10", "+OK")]);
    assert_eq!(server.ttl("asked"), Ok(Some(Duration::from_millis(10))));
    server.advance(Duration::from_millis(10));
    assert_eq!((server.get("asked"), server.keys("asked")), (Ok(None), Ok(Vec::new())));
    server.inject(Fault::on("ECHO").error("no")).expect("a fault");
    client.expect(&[("ECHO x", "-no")]);
    server.clear_faults();
    assert!(texts(&server.command_log().expect("test mode")).contains(&"ECHO x".to_owned()));
    server.clear_command_log();
    server.flush();
}

#[tokio::test]
async fn a_test_on_a_current_thread_runtime_may_block_it() {
    static CELL: OnceLock<Server> = OnceLock::new();
    let server = Server::builder().test_mode().clock(Clock::manual()).start().await.expect("a free port");
    let server = CELL.get_or_init(|| server);
    // A request in flight on the same thread, which is answered as time passes.
    let pending = tokio::spawn(tokio::net::TcpStream::connect(server.addr()));
    let mut stream = pending.await.expect("a task").expect("it listens");
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"BLPOP queue 5\r\n").await.expect("it reads");
    let mut client = Client::connect(server.addr());
    wait_until(|| client.info("blocked_clients") == "1");
    ask_everything(server);
    server.advance(5 * SECOND);
    let mut reply = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut reply).await.expect("it answers");
    assert_eq!(&reply, b"*-1\r\n");
    let other = Server::builder().start().await.expect("a free port");
    let closed = Client::connect(other.addr());
    other.shutdown().await;
    assert_eq!({ closed }.read_to_end(), b"");
}

#[tokio::test]
async fn a_server_that_is_dropped_in_a_task_stops() {
    let server = Server::builder().test_mode().clock(Clock::manual()).start_blocking().expect("a free port");
    let mut client = Client::connect(server.addr());
    client.expect(&[("PING", "+PONG")]);
    tokio::spawn(async move { ask_everything(&server) }).await.expect("a task");
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn a_subscribers_callback_may_ask_while_time_is_moved() {
    let (server, mut client) = start();
    let addr = server.addr();
    client.expect(&[("CONFIG SET notify-keyspace-events Ex", "+OK"), ("MSET a 1 b 2", "+OK")]);
    client.expect(&[("PEXPIRE a 1000", ":1"), ("PEXPIRE b 3000", ":1")]);
    let (listening, is_listening) = mpsc::channel();
    thread::scope(|scope| {
        let server = &server;
        let subscriber = scope.spawn(move || {
            let mut subscriber = Client::connect(addr);
            subscriber.expect(&[("SUBSCRIBE __keyevent@0__:expired", "*3 $9 subscribe $22 __keyevent@0__:expired :1")]);
            listening.send(()).expect("the test waits");
            assert!(subscriber.reply().ends_with("$1 a"));
            ask_everything(server);
            server.advance(2 * SECOND);
        });
        is_listening.recv().expect("a subscriber");
        server.advance(SECOND);
        subscriber.join().expect("the callback returns");
    });
    assert_eq!(server.keys("*"), Ok(Vec::new()));
}

#[test]
fn a_server_is_shut_down_from_blocking_code() {
    let (server, mut client) = start();
    client.expect(&[("SET k v", "+OK")]);
    let addr = server.addr();
    server.shutdown_blocking();
    assert_eq!(client.read_to_end(), b"");
    assert!(std::net::TcpStream::connect(addr).is_err());
}
