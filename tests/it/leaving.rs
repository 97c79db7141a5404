//! Blocked clients that leave or are closed: a client that is known to be gone gets nothing.

#[cfg(feature = "lua")]
use keylatch::Clock;

use crate::harness::{Client, TestServer, wait_until};

/// Blocking call, with a check that it was not served.
struct Case {
    prepare: &'static str,
    call: &'static str,
    /// Change that would serve it.
    change: &'static str,
    shown_by: &'static str,
    unserved: &'static str,
}

const CASES: [Case; 5] = [
    Case {
        prepare: "SET k x",
        call: "LOCK.ACQUIRE k gone PX 3600000 BLOCK 0",
        change: "DEL k",
        shown_by: "EXISTS k",
        unserved: ":0",
    },
    Case { prepare: "PING", call: "BLPOP k 0", change: "RPUSH k v", shown_by: "LRANGE k 0 -1", unserved: "*1 $1 v" },
    Case {
        prepare: "PING",
        call: "BLMOVE k l LEFT RIGHT 0",
        change: "RPUSH k v",
        shown_by: "EXISTS k l",
        unserved: ":1",
    },
    Case { prepare: "PING", call: "BZPOPMIN k 0", change: "ZADD k 1 v", shown_by: "ZCARD k", unserved: ":1" },
    Case {
        prepare: "XGROUP CREATE k g $ MKSTREAM",
        call: "XREADGROUP GROUP g c BLOCK 0 STREAMS k >",
        change: "XADD k 1-1 f v",
        shown_by: "XPENDING k g",
        unserved: "*4 :0 $-1 $-1 *-1",
    },
];

/// Closes a blocked client by one command of a transaction, makes its key ready by the next one, and asserts that the
/// client is not served.
fn expect_nothing_served(server: &TestServer, open: impl Fn() -> Client, close: impl Fn(i64) -> String) {
    let mut client = server.client();
    for case in &CASES {
        client.call("FLUSHALL");
        client.call(case.prepare);
        let mut waiting = open();
        let id = waiting.int("CLIENT ID");
        let mut closed = server.block_as(waiting, case.call);
        let close = close(id);
        client.expect(&[("MULTI", "+OK"), (&close, "+QUEUED"), (case.change, "+QUEUED")]);
        let replies = client.call("EXEC");
        assert!(replies.starts_with("*2 ") && !replies.contains(" -"), "{replies}");
        assert_eq!(client.call(case.shown_by), case.unserved, "{} after {close:.30}", case.call);
        closed.read_to_end();
        wait_until(|| client.info("blocked_clients") == "0");
        assert_eq!(client.info("total_blocking_keys"), "0");
    }
}

#[test]
fn a_client_is_not_served_once_it_was_killed() {
    let server = TestServer::start();
    expect_nothing_served(&server, || server.client(), |id| format!("CLIENT KILL ID {id}"));
}

#[test]
fn a_client_is_not_served_once_its_user_was_deleted() {
    let server = TestServer::start();
    let open = || {
        let mut bob = server.client();
        bob.expect(&[("ACL SETUSER bob on nopass ~* &* +@all", "+OK"), ("AUTH bob x", "+OK")]);
        bob
    };
    expect_nothing_served(&server, open, |_| "ACL DELUSER bob".to_owned());
}

#[test]
fn a_client_is_not_served_once_it_is_closed_for_what_it_does_not_read() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "pubsub 1000 0 0")]);
    let open = || {
        let mut subscriber = server.client3();
        subscriber.send(b"SUBSCRIBE news\r\n");
        assert!(subscriber.reply().starts_with(">3 $9 subscribe"));
        subscriber
    };
    expect_nothing_served(&server, open, |_| format!("PUBLISH news {}", "x".repeat(100_000)));
}

#[test]
fn a_lock_goes_to_the_first_in_line_that_is_still_there() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k x", "+OK")]);
    let mut killed = server.client();
    let id = killed.int("CLIENT ID");
    let _killed = server.block_as(killed, "LOCK.ACQUIRE k killed PX 1000 BLOCK 0");
    let mut next = server.block("LOCK.ACQUIRE k next PX 1000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {id}");
    client.expect(&[("MULTI", "+OK"), (&kill, "+QUEUED"), ("DEL k", "+QUEUED"), ("EXEC", "*2 :1 :1")]);
    client.expect(&[("GET k", "$4 next")]);
    assert!(next.reply().starts_with(':'));
}

/// Script that waits until no client is blocked any more, and then executes its arguments. Its limit of rounds is not
/// reached.
#[cfg(feature = "lua")]
const BUSY: &str = "for i = 1, 300000 do \
    if redis.call('INFO', 'clients'):find('blocked_clients:0', 1, true) then break end end \
    return redis.call(unpack(ARGV))";

#[cfg(feature = "lua")]
#[test]
fn a_client_is_not_served_once_its_connection_has_ended_while_a_script_is_busy() {
    let server = TestServer::start_on(Clock::system(), &[("busy-reply-threshold", "1")]);
    let (mut client, mut other) = (server.client(), server.client());
    for case in &CASES {
        client.call("FLUSHALL");
        client.call(case.prepare);
        let leaving = server.block(case.call);
        let request = ["EVAL", BUSY, "2", "k", "l"].into_iter().chain(case.change.split(' '));
        client.send(&crate::harness::encode(&request.collect::<Vec<_>>()));
        wait_until(|| other.call("PING").starts_with("-BUSY"));
        drop(leaving);
        let reply = client.reply();
        assert!(!reply.starts_with('-'), "{reply}");
        assert_eq!(client.call(case.shown_by), case.unserved, "{}", case.call);
    }
}
