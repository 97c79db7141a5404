//! MIGRATE: moves of keys to another server, and failures of that server. Replies and errors are compared with Redis in
//! `differential/migrations.rs`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::harness::{Client, TestServer, encode, wait_until};

/// Timeout for a target in tests that do not wait for it, in milliseconds.
const PATIENCE_MS: u64 = 60_000;

/// Migrates keys to a server, and returns the reply; see [`words`].
#[track_caller]
fn migrate(client: &mut Client, target: &TestServer, rest: &str) -> String {
    client.call_args(&words(target.addr().port(), PATIENCE_MS, rest))
}

/// Builds a command: `rest` is the database's number, the key (`-` for none), and options.
fn words(port: u16, timeout_ms: u64, rest: &str) -> Vec<String> {
    let mut rest = rest.split(' ').map(|word| if word == "-" { "" } else { word }.to_owned());
    let (db, key) = (rest.next().expect("a database"), rest.next().expect("a key, or none"));
    let fixed = ["MIGRATE".into(), "127.0.0.1".into(), port.to_string(), key, db, timeout_ms.to_string()];
    fixed.into_iter().chain(rest).collect()
}

/// Simulated target that sends arbitrary bytes.
struct Stranger {
    listener: TcpListener,
}

impl Stranger {
    fn new() -> Self {
        Stranger { listener: TcpListener::bind("127.0.0.1:0").expect("a free port") }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().expect("the migration connects");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a read timeout");
        stream
    }
}

/// Reads the request of a migration up to these bytes.
fn read_up_to(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(end) {
        stream.read_exact(&mut byte).expect("more to come");
        seen.push(byte[0]);
    }
    seen
}

/// Confirms the database, and reads up to the end of the first RESTORE, which has no options.
fn take_first_key(stream: &mut TcpStream) {
    assert_eq!(read_up_to(stream, b"0\r\n"), b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n");
    stream.write_all(b"+OK\r\n").expect("still connected");
    read_up_to(stream, b"RESTORE\r\n");
}

#[test]
fn a_key_moves_with_its_value_and_its_remaining_ttl() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let (mut from, mut to) = (source.client(), target.client());
    from.expect(&[("SET k v PX 1000", "+OK"), ("SET l w", "+OK")]);
    source.advance_ms(400);
    assert_eq!(migrate(&mut from, &target, "0 k"), "+OK");
    assert_eq!(migrate(&mut from, &target, "0 l"), "+OK");
    to.expect(&[("GET k", "$1 v"), ("PTTL k", ":600"), ("GET l", "$1 w"), ("PTTL l", ":-1")]);
    from.expect(&[("DBSIZE", ":0"), ("PING", "+PONG")]);
}

#[test]
fn values_of_any_size_arrive_as_they_were() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let (mut from, mut to) = (source.client(), target.client());
    let lens = [0, 1, 21, 16_384, 70_000, 3_000_000];
    let names: Vec<String> = lens.iter().map(|len| format!("k{len}")).collect();
    let value = |len: usize| (0..len).map(|at| (at * at % 251) as u8).collect::<Vec<u8>>();
    for (len, name) in lens.iter().zip(&names) {
        assert_eq!(from.call_args(&[b"SET", name.as_bytes(), &value(*len)]), "+OK");
    }
    assert_eq!(migrate(&mut from, &target, &format!("0 - KEYS {}", names.join(" "))), "+OK");
    for (len, name) in lens.iter().zip(&names) {
        assert_eq!(to.frame(&["GET", name]).as_bytes(), Some(&value(*len)[..]));
    }
    assert_eq!(from.call("DBSIZE"), ":0");
}

#[test]
fn copy_leaves_the_key_and_replace_takes_the_place_of_another() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let (mut from, mut to) = (source.client(), target.client());
    from.call("SET k v");
    assert_eq!(migrate(&mut from, &target, "0 k COPY"), "+OK");
    let busy = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    assert_eq!(migrate(&mut from, &target, "0 k"), busy);
    from.expect(&[("GET k", "$1 v"), ("SET k w", "+OK")]);
    assert_eq!(migrate(&mut from, &target, "0 k REPLACE"), "+OK");
    assert_eq!(from.call("EXISTS k"), ":0");
    assert_eq!(to.call("GET k"), "$1 w");
    assert!(from.call("INFO errorstats").contains("errorstat_ERR:count=1"));
    assert!(from.call("INFO commandstats").contains("cmdstat_migrate:calls=3,"));
}

#[test]
fn of_several_keys_those_go_that_the_target_has_accepted() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let (mut from, mut to) = (source.client(), target.client());
    from.call("MSET a 1 b 2 c 3 d 4");
    to.call("SET b other");
    let reply = migrate(&mut from, &target, "0 - KEYS a missing b c d");
    assert_eq!(reply, "-ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    from.expect(&[("DBSIZE", ":1"), ("GET b", "$1 2")]);
    to.expect(&[("MGET a b c d", "*4 $1 1 $5 other $1 3 $1 4")]);
    assert_eq!(migrate(&mut from, &target, "0 - KEYS a c"), "+NOKEY");
}

#[test]
fn a_migrated_key_emits_del() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let (mut from, mut watcher, mut listener) = (source.client(), source.client(), source.client());
    let mut tracker = source.client3();
    from.expect(&[("CONFIG SET notify-keyspace-events Eg", "+OK"), ("SET k v", "+OK")]);
    listener.call("SUBSCRIBE __keyevent@0__:del");
    watcher.expect(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("GET k", "+QUEUED")]);
    tracker.expect(&[("CLIENT TRACKING ON BCAST", "+OK")]);
    assert_eq!(migrate(&mut from, &target, "0 k"), "+OK");
    assert_eq!(listener.reply(), "*3 $7 message $18 __keyevent@0__:del $1 k");
    assert_eq!(watcher.call("EXEC"), "*-1");
    assert_eq!(tracker.reply(), ">2 $10 invalidate *1 $1 k");
}

#[test]
fn a_key_that_is_changed_on_its_way_stays_and_others_are_served_meanwhile() {
    let (source, target) = (TestServer::start(), Stranger::new());
    let (mut from, mut other) = (source.client(), source.client());
    from.call("MSET k v l w");
    from.send(&encode(&words(target.port(), PATIENCE_MS, "0 - KEYS k l")));
    let mut stream = target.accept();
    take_first_key(&mut stream);
    other.expect(&[("SET k v", "+OK"), ("GET l", "$1 w")]);
    stream.write_all(b"+OK\r\n+OK\r\n").expect("still connected");
    assert_eq!(from.reply(), "+OK");
    other.expect(&[("GET k", "$1 v"), ("EXISTS l", ":0")]);
}

#[test]
fn a_target_that_says_nothing_is_given_up() {
    let (source, target) = (TestServer::start(), Stranger::new());
    let mut from = source.client();
    from.call("SET k v");
    let silence = "-IOERR error or timeout reading to target instance";
    assert_eq!(from.call_args(&words(target.port(), 20, "0 k")), silence);
    assert_eq!(from.call("GET k"), "$1 v");
}

#[test]
fn what_was_accepted_before_the_target_went_away_is_gone() {
    let (source, target) = (TestServer::start(), Stranger::new());
    let mut from = source.client();
    from.call("MSET a 1 b 2");
    from.send(&encode(&words(target.port(), PATIENCE_MS, "0 - KEYS a b")));
    let mut stream = target.accept();
    take_first_key(&mut stream);
    stream.write_all(b"+OK\r\n").expect("still connected");
    stream.shutdown(std::net::Shutdown::Write).expect("still connected");
    assert_eq!(from.reply(), "-IOERR error or timeout reading to target instance");
    from.expect(&[("EXISTS a", ":0"), ("GET b", "$1 2")]);
}

#[test]
fn a_target_that_speaks_no_resp_has_accepted_nothing() {
    let source = TestServer::start();
    let mut from = source.client();
    from.call("SET k v");
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"+OK\r\n:1\r\n", b"+OK\r\n+OK", b"\n", &[b'x'; 5000]] {
        let target = Stranger::new();
        from.send(&encode(&words(target.port(), PATIENCE_MS, "0 k")));
        let mut stream = target.accept();
        stream.write_all(answer).expect("still connected");
        // The server may have read enough already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert_eq!(from.reply(), "-IOERR error or timeout reading to target instance", "{}", answer.escape_ascii());
        assert_eq!(from.call("GET k"), "$1 v");
    }
}

#[test]
fn no_key_is_sent_before_the_login_and_the_database_are_granted() {
    let source = TestServer::start();
    let target = TestServer::start_with(&[("requirepass", "right")]);
    let (mut from, mut to) = (source.client(), target.client());
    assert_eq!(to.call("AUTH right"), "+OK");
    from.call("SET k v");
    let replied = "-ERR Target instance replied with error:";
    let expect = |from: &mut Client, options: &str, error: &str| {
        assert_eq!(migrate(from, &target, &format!("0 k {options}")), format!("{replied} {error}"));
    };
    expect(&mut from, "COPY", "NOAUTH Authentication required.");
    expect(&mut from, "AUTH wrong", "WRONGPASS invalid username-password pair or user is disabled.");
    expect(&mut from, "AUTH2 nobody right", "WRONGPASS invalid username-password pair or user is disabled.");
    let elsewhere = migrate(&mut from, &target, "99 k AUTH right");
    assert_eq!(elsewhere, format!("{replied} ERR DB index is out of range"));
    to.expect(&[("DBSIZE", ":0")]);
    assert_eq!(migrate(&mut from, &target, "0 k AUTH2 default right"), "+OK");
    to.expect(&[("GET k", "$1 v")]);
}

#[test]
fn a_key_is_not_lost_when_the_target_is_the_server_itself() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("SET k v");
    assert_eq!(migrate(&mut client, &server, "0 k REPLACE"), "+OK");
    assert_eq!(client.call("GET k"), "$1 v");
    assert_eq!(migrate(&mut client, &server, "1 k"), "+OK");
    client.expect(&[("EXISTS k", ":0"), ("SELECT 1", "+OK"), ("GET k", "$1 v")]);
}

#[test]
fn a_client_that_disconnects_aborts_its_migration() {
    let (source, target) = (TestServer::start(), Stranger::new());
    let (mut from, mut other) = (source.client(), source.client());
    from.call("SET k v");
    from.send(&encode(&words(target.port(), PATIENCE_MS, "0 k")));
    let mut stream = target.accept();
    take_first_key(&mut stream);
    drop(from);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the end, and not the end of patience");
    assert_eq!(other.call("GET k"), "$1 v");
    wait_until(|| other.info("connected_clients") == "1");
}

#[test]
fn a_client_that_leaves_takes_away_only_what_was_accepted_of_its_own_database() {
    let source = TestServer::start();
    let mut other = source.client();
    other.call("MSET a here b here");
    // The kernel decides whether the reply is read before the client disconnects; in some of the rounds it is.
    for _ in 0..20 {
        let (mut from, target) = (source.client(), Stranger::new());
        from.expect(&[("SELECT 1", "+OK"), ("MSET a 1 b 2", "+OK")]);
        from.send(&encode(&words(target.port(), PATIENCE_MS, "0 - KEYS a b")));
        let mut stream = target.accept();
        take_first_key(&mut stream);
        stream.write_all(b"+OK\r\n").expect("still connected");
        assert_eq!(other.call("PING"), "+PONG");
        drop(from);
        wait_until(|| other.info("connected_clients") == "1");
        other.expect(&[
            ("MGET a b", "*2 $4 here $4 here"),
            ("SELECT 1", "+OK"),
            ("GET b", "$1 2"),
            ("SELECT 0", "+OK"),
        ]);
    }
}

#[test]
fn exec_and_scripts_do_not_wait_for_another_server() {
    let (server, target) = (TestServer::start(), TestServer::start());
    let mut client = server.client();
    client.call("SET k v");
    let refusal = "-ERR MIGRATE waits for another server, so it cannot be called by EXEC or a script";
    client.expect(&[("MULTI", "+OK")]);
    assert_eq!(migrate(&mut client, &target, "0 k"), "+QUEUED");
    assert_eq!(migrate(&mut client, &target, "0 missing"), "+QUEUED");
    assert_eq!(client.call("EXEC"), format!("*2 {refusal} +NOKEY"));
    #[cfg(feature = "lua")]
    {
        let script = b"return redis.pcall('MIGRATE', '127.0.0.1', '1', 'k', '0', '10')";
        let reply = client.call_args(&[&b"EVAL"[..], script, b"0"]);
        assert_eq!(reply, refusal);
    }
    assert_eq!(client.call("GET k"), "$1 v");
}

#[test]
fn replies_of_a_client_that_wants_none_are_kept_from_it() {
    let (source, target) = (TestServer::start(), TestServer::start());
    let mut from = source.client();
    from.call("SET k v");
    from.send(b"CLIENT REPLY SKIP\r\n");
    from.send(&encode(&words(target.addr().port(), PATIENCE_MS, "0 k")));
    from.expect(&[("PING", "+PONG"), ("EXISTS k", ":0")]);
}

#[test]
fn passwords_are_not_shown() {
    let server = TestServer::start_with(&[("slowlog-log-slower-than", "0")]);
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    let begin = "MIGRATE h 1 missing 0 10";
    for (options, shown) in [
        ("COPY AUTH secret", r#""COPY" "AUTH" "(redacted)""#),
        ("AUTH2 user secret REPLACE", r#""AUTH2" "(redacted)" "(redacted)" "REPLACE""#),
        ("AUTH AUTH AUTH2 AUTH KEYS", r#""AUTH" "(redacted)" "AUTH2" "(redacted)" "(redacted)""#),
    ] {
        assert_eq!(client.call(&format!("{begin} {options}")), "+NOKEY");
        let line = monitor.reply();
        assert!(line.ends_with(&format!(r#""10" {shown}"#)), "{line}");
    }
    let log = client.call("SLOWLOG GET");
    assert!(!log.contains("secret") && log.contains("$4 AUTH $10 (redacted)"), "{log}");
}
