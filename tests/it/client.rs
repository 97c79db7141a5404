//! CLIENT: information about connections, and operations on other clients.

use crate::harness::{Client, TestServer, wait_until};

/// Connects a client of a user without password.
fn client_of(server: &TestServer, user: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.call(&format!("AUTH {user} x")), "+OK");
    client
}

#[test]
fn killing_by_user_closes_the_clients_of_that_user_only() {
    let server = TestServer::start();
    let mut admin = server.client();
    admin.expect(&[("ACL SETUSER bob on nopass +@all ~*", "+OK"), ("ACL SETUSER eve on nopass +@all ~*", "+OK")]);
    let (mut bob, mut other_bob, mut eve) =
        (client_of(&server, "bob"), client_of(&server, "bob"), client_of(&server, "eve"));
    let mut stranger = server.client();
    stranger.expect(&[("PING", "+PONG")]);
    admin.expect(&[("CLIENT KILL USER bob LADDR 1.2.3.4:5", ":0"), ("CLIENT KILL USER bob", ":2")]);
    assert!(bob.read_raw().is_none() && other_bob.read_raw().is_none());
    admin.expect(&[("CLIENT KILL USER default", ":1"), ("CLIENT KILL USER bob", ":0")]);
    assert!(stranger.read_raw().is_none());
    eve.expect(&[("PING", "+PONG"), ("CLIENT KILL USER default SKIPME no", ":1")]);
    assert!(admin.read_raw().is_none());
    eve.expect(&[("CLIENT KILL USER nobody", "-ERR No such user 'nobody'"), ("ACL DELUSER bob", ":1")]);
    eve.expect(&[("CLIENT KILL USER bob", "-ERR No such user 'bob'"), ("CLIENT KILL USER eve", ":0")]);
}

#[test]
fn a_user_of_the_same_name_as_one_that_is_gone_is_another() {
    let server = TestServer::start();
    let mut admin = server.client();
    admin.expect(&[("ACL SETUSER bob on nopass +@all", "+OK")]);
    let mut bob = client_of(&server, "bob");
    admin.expect(&[("ACL DELUSER bob", ":1"), ("ACL SETUSER bob on nopass +@all", "+OK")]);
    assert!(bob.read_raw().is_none());
    wait_until(|| admin.info("connected_clients") == "1");
    admin.expect(&[("CLIENT KILL USER bob", ":0")]);
}

#[test]
fn a_client_is_shown_with_its_bytes_and_commands() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let number = |line: &str, field: &str| -> u64 {
        let value =
            line.split(' ').find_map(|part| part.strip_prefix(field)).unwrap_or_else(|| panic!("{field} in {line}"));
        value.trim_end().parse().expect("a number")
    };
    let id = client.int("CLIENT ID");
    client.send(b"SET k v\r\nGET\r\nMULTI\r\nGET k\r\nGET k\r\nEXEC\r\n");
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!(replies[5], "*2 $1 v $1 v");
    let shown = |other: &mut Client| other.call(&format!("CLIENT LIST ID {id}"));
    // Rejected and queued commands do not count as executed. CLIENT ID, SET, MULTI, EXEC, and its two GETs do.
    wait_until(|| number(&shown(&mut other), "tot-cmds=") == 6);
    let got = format!(":{id}  ").len() + replies.iter().map(|reply| reply.len() + 2).sum::<usize>();
    // The line ends of multi-line replies count twice. Output is counted once it is written.
    wait_until(|| number(&shown(&mut other), "tot-net-out=") == (got + 4) as u64);
    let line = shown(&mut other);
    let sent = b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n".len() + "SET k v  GET  MULTI  GET k  GET k  EXEC  ".len();
    assert_eq!(number(&line, "tot-net-in="), sent as u64);
    let order = ["multi=-1 watch=0 qbuf=", " resp=2 lib-name= lib-ver= io-thread=0 tot-net-in="];
    assert!(order.iter().all(|fields| line.contains(fields)), "{line}");
    // The line does not count the command being executed.
    let before = number(&client.call("CLIENT INFO"), "tot-cmds=");
    assert_eq!((before, number(&client.call("CLIENT INFO"), "tot-cmds=")), (6, 7));
}

/// Commands affected by NO-TOUCH: all that look up a key, also inside EXEC and scripts.
const UNCOUNTED: [&str; 7] =
    ["GET k", "APPEND k x", "EXISTS k", "MGET k k", "EXPIRE k 1000", "COPY k l REPLACE", "STRLEN k"];

#[test]
fn a_client_that_does_not_touch_leaves_idle_times_alone() {
    let server = TestServer::start();
    let (mut silent, mut other) = (server.client(), server.client());
    silent.expect(&[("SET k v", "+OK"), ("CLIENT NO-TOUCH ON", "+OK")]);
    server.advance_ms(100_000);
    for command in UNCOUNTED {
        silent.call(command);
        other.expect(&[("OBJECT IDLETIME k", ":100")]);
    }
    silent.expect(&[("MULTI", "+OK"), ("GET k", "+QUEUED"), ("EXEC", "*1 $2 vx")]);
    #[cfg(feature = "lua")]
    assert_eq!(silent.call_args(&["EVAL", "return redis.call('get', 'k')", "0"]), "$2 vx");
    // A batch, which takes another code path.
    silent.pipeline(&vec!["GET k".to_owned(); 8]);
    other.expect(&[("OBJECT IDLETIME k", ":100")]);
    silent.expect(&[("TOUCH k nosuch", ":1")]);
    other.expect(&[("OBJECT IDLETIME k", ":0")]);
    server.advance_ms(50_000);
    silent.expect(&[("CLIENT NO-TOUCH OFF", "+OK"), ("GET k", "$2 vx")]);
    other.expect(&[("OBJECT IDLETIME k", ":0")]);
}

#[test]
fn a_client_that_does_not_touch_is_not_counted_by_lfu_but_other_clients_are() {
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lfu"), ("lfu-log-factor", "0")]);
    let (mut silent, mut other) = (server.client(), server.client());
    silent.expect(&[("SET k v", "+OK"), ("OBJECT FREQ k", ":5"), ("CLIENT NO-TOUCH ON", "+OK")]);
    UNCOUNTED.iter().for_each(|command| drop(silent.call(command)));
    silent.expect(&[("SET k w", "+OK"), ("OBJECT FREQ k", ":5"), ("SET k wx", "+OK"), ("TOUCH k", ":1")]);
    silent.expect(&[("OBJECT FREQ k", ":6")]);
    other.expect(&[("GET k", "$2 wx"), ("OBJECT FREQ k", ":7"), ("SET k w", "+OK"), ("OBJECT FREQ k", ":8")]);
}

#[test]
fn resetting_a_connection_lets_it_touch_again() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v", "+OK"), ("CLIENT NO-TOUCH ON", "+OK")]);
    server.advance_ms(100_000);
    client.expect(&[("GET k", "$1 v"), ("OBJECT IDLETIME k", ":100"), ("RESET", "+RESET"), ("GET k", "$1 v")]);
    client.expect(&[("OBJECT IDLETIME k", ":0")]);
    // Inside EXEC it takes effect from the next command on.
    server.advance_ms(100_000);
    client.expect(&[
        ("MULTI", "+OK"),
        ("CLIENT NO-TOUCH ON", "+QUEUED"),
        ("GET k", "+QUEUED"),
        ("EXEC", "*2 +OK $1 v"),
    ]);
    client.expect(&[("OBJECT IDLETIME k", ":100")]);
}

#[test]
fn the_arguments_of_a_request_are_shown_until_it_is_complete() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let shown = format!("CLIENT LIST ID {}", client.int("CLIENT ID"));
    let value = "x".repeat(1000);
    client.send(format!("*3\r\n$3\r\nSET\r\n$1000\r\n{value}\r\n").as_bytes());
    wait_until(|| other.call(&shown).contains(" argv-mem=10"));
    client.send(b"$1\r\nv\r\n");
    assert_eq!(client.reply(), "+OK");
    wait_until(|| other.call(&shown).contains(" argv-mem=0 "));
}

#[test]
fn a_client_that_a_pause_holds_back_is_not_unblocked() {
    let server = TestServer::start();
    let mut other = server.client();
    other.expect(&[("CLIENT PAUSE 1000 WRITE", "+OK")]);
    let mut client = server.client();
    let id = client.int("CLIENT ID");
    let mut held = server.block_as(client, "SET k v");
    other.expect(&[(&format!("CLIENT UNBLOCK {id}"), ":0"), (&format!("CLIENT UNBLOCK {id} ERROR"), ":0")]);
    other.expect(&[("EXISTS k", ":0"), ("CLIENT UNPAUSE", "+OK")]);
    assert_eq!(held.reply(), "+OK");
}
