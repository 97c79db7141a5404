//! Faults that strike no call: of new connections (TEST.FAULT ADD CONNECT) and of pushed messages (PUSH).

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use keylatch::Clock;

use crate::harness::{Client, PATIENCE, TestServer, wait_until};

fn start() -> (TestServer, Client) {
    let server = TestServer::start_on(Clock::system(), &[("test-mode", "yes")]);
    let control = server.client();
    (server, control)
}

/// Returns a subscriber of the channel `c`, with this name.
fn subscriber(server: &TestServer, name: &str) -> Client {
    let mut client = server.client3();
    client.expect(&[(&format!("CLIENT SETNAME {name}"), "+OK"), ("SUBSCRIBE c", ">3 $9 subscribe $1 c :1")]);
    client
}

#[test]
fn a_connection_is_reset_refused_with_an_error_or_not_answered() {
    let (server, mut control) = start();
    let mut before = server.client();
    before.expect(&[("PING", "+PONG")]); // the server has accepted it, too
    control.expect(&[("TEST.FAULT ADD CONNECT DROP COUNT 2", ":1")]);
    for _ in 0..2 {
        let mut refused = TcpStream::connect(server.addr()).expect("the system accepts it");
        refused.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let error = refused.read(&mut [0; 1]).expect_err("nothing comes");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    server.client().expect(&[("PING", "+PONG")]);
    control.call_args(&["TEST.FAULT", "ADD", "CONNECT", "ERROR", "LOADING not yet", "COUNT", "1", "AFTER", "1"]);
    server.client().expect(&[("PING", "+PONG")]);
    assert_eq!(server.client().read_to_end(), b"-LOADING not yet\r\n");
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000 COUNT 1", ":3")]);
    let mut silent = server.client();
    silent.send(b"INCR k\r\n");
    let mut next = server.client();
    next.expect(&[("PING", "+PONG")]);
    before.expect(&[("GET k", "$-1")]);
    control.expect(&[("TEST.FAULT CLEAR", "+OK"), ("TEST.FAULT ADD CONNECT DELAY 1", ":4")]);
    server.client().expect(&[("PING", "+PONG")]);
}

#[test]
fn a_connection_that_is_not_answered_ends_like_all_others() {
    let (server, mut control) = start();
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000", ":1"), ("CONFIG SET maxclients 3", "+OK")]);
    let mut silent = server.client();
    silent.send(b"PING\r\n");
    wait_until(|| control.info("connected_clients") == "2");
    let mut cut = server.client();
    wait_until(|| control.info("connected_clients") == "3");
    assert_eq!(server.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    control.expect(&[("CLIENT KILL SKIPME yes", ":2")]);
    assert_eq!((silent.read_to_end(), cut.read_to_end()), (vec![], vec![]));
}

#[test]
fn a_connection_that_is_not_answered_ends_when_its_client_leaves() {
    let (server, mut control) = start();
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000", ":1")]);
    let (idle, mut sending, mut half) = (server.client(), server.client(), server.client());
    sending.send(b"INCR k\r\n");
    half.send(b"INCR k\r\nINC");
    wait_until(|| control.info("connected_clients") == "4");
    half.shut_write();
    wait_until(|| control.info("connected_clients") == "3");
    assert_eq!(half.read_to_end(), b"");
    drop((idle, sending));
    wait_until(|| control.info("connected_clients") == "1");
    control.expect(&[("GET k", "$-1")]);
}

#[test]
fn requests_that_were_sent_before_are_answered_after_the_delay() {
    let (server, mut control) = start();
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 100", ":1")]);
    let (mut first, mut late) = (server.client(), server.client());
    first.send(b"INCR a\r\nINCR a\r\nINC");
    wait_until(|| control.info("connected_clients") == "3");
    first.send(b"R a\r\n");
    assert_eq!([first.reply(), first.reply(), first.reply()], [":1", ":2", ":3"]);
    first.expect(&[("GET a", "$1 3")]);
    late.expect(&[("GET a", "$1 3")]);
    let value = "x".repeat(300_000);
    let mut large = server.client();
    assert_eq!(large.call_args(&["ECHO", &value]), format!("$300000 {value}"));
}

#[test]
fn a_server_stops_while_it_leaves_a_connection_without_answer() {
    let (server, mut control) = start();
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000", ":1")]);
    let mut silent = server.client();
    silent.send(b"PING\r\n");
    server.end();
    assert_eq!(silent.read_to_end(), b"");
}

#[test]
fn faults_of_connecting_strike_clients_that_enter_a_private_instance() {
    let (server, mut control) = start();
    control.expect(&[("CLIENT SETNAME keylatch-control", "+OK"), ("AUTH ns-a x", "+OK")]);
    control.expect(&[("TEST.FAULT ADD CONNECT DROP COUNT 1", ":1"), ("SET k a", "+OK")]);
    let mut dropped = server.client();
    dropped.send(b"AUTH ns-a x\r\nGET k\r\n");
    assert_eq!(dropped.read_to_end(), b"");
    let mut client = server.client();
    client.expect(&[("AUTH ns-b x", "+OK"), ("AUTH ns-a x", "+OK"), ("GET k", "$1 a")]);
    control.call_args(&["TEST.FAULT", "ADD", "CONNECT", "ERROR", "ERR max number of clients reached", "COUNT", "2"]);
    let mut refused = server.client();
    refused.expect(&[("AUTH ns-a x", "-ERR max number of clients reached"), ("GET k", "$-1")]);
    refused.expect(&[("CLIENT SETNAME first", "+OK")]);
    refused.expect(&[("HELLO 3 AUTH ns-a x SETNAME second", "-ERR max number of clients reached")]);
    refused.expect(&[("CLIENT GETNAME", "$5 first"), ("GET k", "$-1"), ("AUTH ns-a x", "+OK"), ("GET k", "$1 a")]);
    let mut named = server.client();
    assert!(named.call("HELLO 3 AUTH ns-a x SETNAME second").contains(" $5 proto :3 "));
    named.expect(&[("CLIENT GETNAME", "$6 second"), ("GET none", "_")]);
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000 COUNT 1", ":3")]);
    let mut silent = server.client();
    silent.send(b"HELLO 3 AUTH ns-a x SETNAME silent\r\n");
    wait_until(|| control.call("CLIENT LIST").contains("name=silent"));
    control.expect(&[("TEST.FAULT ADD CONNECT DROP", ":4")]);
    // The test itself comes in whatever it has injected.
    let mut observer = server.client();
    assert!(observer.call("HELLO 3 AUTH ns-a x SETNAME keylatch-control").starts_with('%'));
    observer.expect(&[("TEST.FAULT CLEAR", "+OK")]);
}

#[test]
fn a_message_is_lost_or_cuts_the_connection_before_it_or_within_it() {
    let (server, mut control) = start();
    let mut kept = subscriber(&server, "kept");
    let mut one = subscriber(&server, "one");
    control.expect(&[
        ("TEST.FAULT ADD PUSH CLIENT one LOSE COUNT 1", ":1"),
        ("TEST.FAULT ADD PUSH|Message CLIENT one KEY c* AFTER 1 DROP", ":2"),
        ("PUBLISH c 1", ":2"),
        ("PUBLISH c 2", ":2"),
        ("PUBLISH c 3", ":2"),
    ]);
    assert_eq!(one.read_to_end(), b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n");
    let mut other = subscriber(&server, "other");
    control.expect(&[("TEST.FAULT ADD PUSH CLIENT other PARTIAL 9", ":3"), ("PUBLISH c 4", ":2")]);
    assert_eq!(other.read_to_end(), b">3\r\n$7\r\nm");
    let received: Vec<String> = (0..4).map(|_| kept.reply()).collect();
    assert_eq!(received, [1, 2, 3, 4].map(|number| format!(">3 $7 message $1 c $1 {number}")));
    let list = control.call("TEST.FAULT LIST");
    assert!(
        list.contains(" $12 PUSH|message ") && list.contains(" $4 PUSH ") && list.contains(" $9 PARTIAL 9 "),
        "{list}"
    );
}

#[test]
fn messages_wait_for_a_late_one_and_keep_their_order() {
    let (server, mut control) = start();
    let mut slow = subscriber(&server, "slow");
    let mut quick = subscriber(&server, "quick");
    control.expect(&[("TEST.FAULT ADD PUSH CLIENT slow DELAY 86400000 AFTER 1 COUNT 1", ":1")]);
    control.expect(&[("PUBLISH c 1", ":2"), ("PUBLISH c 2", ":2"), ("PUBLISH c 3", ":2")]);
    assert_eq!([1, 2, 3].map(|_| quick.reply()), [1, 2, 3].map(|number| format!(">3 $7 message $1 c $1 {number}")));
    assert_eq!(slow.reply(), ">3 $7 message $1 c $1 1");
    slow.expect(&[("PING", "+PONG")]); // replies do not wait
    assert!(control.call("CLIENT LIST").contains("name=slow"));
    control.expect(&[("TEST.FAULT CLEAR", "+OK"), ("TEST.FAULT ADD PUSH CLIENT late DELAY 20 COUNT 2", ":2")]);
    let mut late = subscriber(&server, "late");
    for number in 1..=4 {
        control.expect(&[(&format!("PUBLISH c {number}"), ":3")]);
    }
    let received: Vec<String> = (0..4).map(|_| late.reply()).collect();
    assert_eq!(received, [1, 2, 3, 4].map(|number| format!(">3 $7 message $1 c $1 {number}")));
}

/// Sends a delayed message to the subscriber.
fn delay_message(control: &mut Client) {
    control.int("TEST.FAULT ADD PUSH DELAY 86400000 COUNT 1");
    control.expect(&[("PUBLISH c late", ":1")]);
}

const LATE: &str = ">3 $7 message $1 c $4 late";

#[test]
fn a_late_message_comes_before_what_it_would_be_wrong_behind() {
    let (server, mut control) = start();
    let confirmed = [("UNSUBSCRIBE c", "*3 $11 unsubscribe $1 c :0"), ("RESET", "+RESET"), ("QUIT", "+OK")];
    for (request, reply) in confirmed {
        let mut client = server.client();
        client.expect(&[("SUBSCRIBE c", "*3 $9 subscribe $1 c :1")]);
        delay_message(&mut control);
        client.send(format!("{request}\r\n").as_bytes());
        assert_eq!([client.reply(), client.reply()], [LATE.replace('>', "*"), reply.to_owned()], "{request}");
    }
    let mut client = subscriber(&server, "changing");
    delay_message(&mut control);
    client.send(b"HELLO 2\r\n");
    assert_eq!(client.reply(), LATE);
    assert!(client.reply().starts_with('*'));
    client.expect(&[("UNSUBSCRIBE c", "*3 $11 unsubscribe $1 c :0")]);
    let mut client = subscriber(&server, "entering");
    delay_message(&mut control);
    client.send(b"AUTH ns-a x\r\nPING\r\n");
    assert_eq!([client.reply(), client.reply(), client.reply()], [LATE, "+OK", "+PONG"]);
    let mut reader = server.client3();
    reader.expect(&[("CLIENT TRACKING ON", "+OK"), ("GET k", "_")]);
    control.int("TEST.FAULT ADD PUSH DELAY 86400000 COUNT 1");
    control.expect(&[("SET k v", "+OK")]);
    reader.expect(&[("CLIENT TRACKING OFF", ">2 $10 invalidate *1 $1 k"), ("PING", "+OK")]);
}

#[test]
fn a_late_message_comes_before_the_reply_of_exec_that_ends_it() {
    let (server, mut control) = start();
    let mut client = subscriber(&server, "ending");
    delay_message(&mut control);
    client.send(b"MULTI\r\nSET k v\r\nUNSUBSCRIBE c\r\nEXEC\r\n");
    let ended = "*2 +OK >3 $11 unsubscribe $1 c :0";
    assert_eq!([(); 5].map(|()| client.reply()), ["+OK", "+QUEUED", "+QUEUED", LATE, ended]);
    let mut client = subscriber(&server, "changing");
    delay_message(&mut control);
    client.send(b"MULTI\r\nPUBLISH c own\r\nHELLO 2\r\nEXEC\r\nECHO after\r\n");
    assert_eq!([(); 4].map(|()| client.reply()), ["+OK", "+QUEUED", "+QUEUED", LATE]);
    let executed = client.reply();
    assert!(executed.starts_with("*2 :1 *14 $6 server "), "{executed}");
    assert_eq!(client.reply(), ">3 $7 message $1 c $3 own");
}

#[test]
fn a_late_message_is_not_lost_with_a_reply_that_is_suppressed() {
    let (server, mut control) = start();
    let mut client = subscriber(&server, "off");
    delay_message(&mut control);
    client.send(b"CLIENT REPLY OFF\r\nUNSUBSCRIBE c\r\nCLIENT REPLY ON\r\n");
    assert_eq!([(); 3].map(|()| client.reply()), [LATE, ">3 $11 unsubscribe $1 c :0", "+OK"]);
    for (request, reply) in [("HELLO 2", "*2 $4 pong $0 "), ("CLIENT TRACKING OFF", "+PONG")] {
        let mut client = subscriber(&server, "skip");
        delay_message(&mut control);
        client.send(format!("CLIENT REPLY SKIP\r\n{request}\r\nPING\r\n").as_bytes());
        assert_eq!([client.reply(), client.reply()], [LATE, reply], "{request}");
        drop(client);
        wait_until(|| control.call("PUBSUB NUMSUB c").ends_with(":0"));
    }
}

#[test]
fn a_connection_that_is_cut_loses_its_late_messages() {
    let (server, mut control) = start();
    let mut killed = subscriber(&server, "killed");
    delay_message(&mut control);
    control.expect(&[("CLIENT KILL TYPE pubsub", ":1")]);
    assert_eq!(killed.read_to_end(), b"");
    let mut cut = subscriber(&server, "cut");
    control.expect(&[("PUBLISH c first", ":1")]);
    delay_message(&mut control);
    control.int("TEST.FAULT ADD PUSH CLIENT cut PARTIAL 3");
    control.expect(&[("PUBLISH c cut", ":1")]);
    assert_eq!(cut.read_to_end(), b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nfirst\r\n");
}

#[test]
fn an_invalidation_that_is_lost_leaves_a_stale_copy() {
    let (server, mut control) = start();
    let mut reader = server.client3();
    reader.expect(&[("CLIENT TRACKING ON", "+OK"), ("SET a 1", "+OK"), ("GET a", "$1 1"), ("GET b", "_")]);
    control.expect(&[("TEST.FAULT ADD PUSH|invalidate KEY a LOSE", ":1"), ("SET a 2", "+OK"), ("SET b 2", "+OK")]);
    reader.expect(&[("PING", ">2 $10 invalidate *1 $1 b")]);
    assert_eq!(reader.reply(), "+PONG");
}

#[test]
fn patterns_shards_lost_locks_and_maintenance_are_pushes_of_their_kinds() {
    let (server, mut control) = start();
    let mut client = server.client3();
    client.expect(&[
        ("PSUBSCRIBE n*", ">3 $10 psubscribe $2 n* :1"),
        ("SSUBSCRIBE s", ">3 $10 ssubscribe $1 s :1"),
        ("CLIENT MAINT_NOTIFICATIONS ON", "+OK"),
    ]);
    client.int("LOCK.ACQUIRE lock t PX 1000 NOTIFY");
    control.expect(&[
        ("TEST.FAULT ADD PUSH|pmessage KEY news LOSE", ":1"),
        ("TEST.FAULT ADD PUSH|smessage LOSE", ":2"),
        ("TEST.FAULT ADD PUSH|lock-lost KEY lock LOSE", ":3"),
        ("TEST.FAULT ADD PUSH|MIGRATING LOSE", ":4"),
        ("PUBLISH news 1", ":1"),
        ("SPUBLISH s 1", ":1"),
        ("DEL lock", ":1"),
        ("TEST.MAINT MIGRATING 3 1", ":1"),
        ("PUBLISH note 1", ":1"),
    ]);
    assert_eq!(client.reply(), ">4 $8 pmessage $2 n* $4 note $1 1");
    let list = control.call("TEST.FAULT LIST");
    assert_eq!(list.matches(" $5 fired :1 ").count(), 4, "{list}");
}

#[test]
fn faults_that_could_never_fire_are_refused() {
    let (_server, mut control) = start();
    let connect = "-ERR a fault of CONNECT is ERROR, DELAY or DROP, without KEY, CLIENT and QUEUED";
    let push = "-ERR a fault of PUSH is DELAY, DROP, PARTIAL or LOSE, without QUEUED";
    let keys = "-ERR a fault with KEY would never fire here: there are no keys";
    let never = "-ERR a fault with COUNT 0 or PROB 0 would never fire";
    control.expect(&[
        ("TEST.FAULT ADD GET DROP COUNT 0", never),
        ("TEST.FAULT ADD GET DROP PROB 0", never),
        ("TEST.FAULT ADD CONNECT DROP COUNT 0", never),
        ("TEST.FAULT ADD PING KEY k DROP", keys),
        ("TEST.FAULT ADD CLIENT KEY k DROP", keys),
        ("TEST.FAULT ADD PUBLISH KEY k DROP", keys),
        ("TEST.FAULT ADD PUSH|moving KEY k DROP", keys),
        ("TEST.FAULT ADD GET LOSE", "-ERR LOSE is for PUSH: what is lost of a call is its reply, by LOSEREPLY"),
        ("TEST.FAULT ADD CONNECT LOSEREPLY", connect),
        ("TEST.FAULT ADD CONNECT CLIENT a DROP", connect),
        ("TEST.FAULT ADD CONNECT KEY a DROP", connect),
        ("TEST.FAULT ADD PUSH ERROR no", push),
        ("TEST.FAULT ADD PUSH QUEUED DROP", push),
        ("TEST.FAULT ADD PUSH|nosuch DROP", "-ERR there is no such kind of pushed messages"),
        ("TEST.FAULT ADD LINK DROP COUNT 1", "-ERR a fault of LINK is DELAY or DROP, without options"),
    ]);
    let name = "-ERR a fault of this CLIENT would never fire: names of clients are printable characters without spaces";
    assert_eq!(control.call_args(&["TEST.FAULT", "ADD", "GET", "CLIENT", "my worker", "DROP"]), name);
    let of_scripts: &[&str] = if cfg!(feature = "lua") { &["EVAL", "EVALSHA", "FCALL"] } else { &[] };
    for command in ["XREAD", "XINFO", "OBJECT", "MIGRATE", "SORT", "MEMORY", "MSET", "*"].iter().chain(of_scripts) {
        control.int(&format!("TEST.FAULT ADD {command} KEY k DROP"));
    }
}
