//! A panic is a bug that ends one connection or one round of a task: the server keeps running and reports it.

use std::time::Duration;

use keylatch::{Clock, Server};

use crate::harness::{TestServer, wait_until};

fn start() -> TestServer {
    TestServer::start_on(Clock::system(), &[("enable-debug-command", "yes")])
}

#[test]
fn a_handler_that_panics_costs_its_client_the_connection_and_leaves_nothing_of_it_behind() {
    let server = start();
    let (mut client, mut other) = (server.client3(), server.client());
    client.expect(&[("WATCH k", "+OK"), ("CLIENT TRACKING ON", "+OK")]);
    client.call("SUBSCRIBE news");
    client.call("PSUBSCRIBE n*");
    other.expect(&[("PUBSUB NUMSUB news", "*2 $4 news :1"), ("PUBSUB NUMPAT", ":1")]);
    assert_eq!(other.info("watching_clients"), "1");
    client.send(b"DEBUG INJECT-PANIC handler\r\n");
    assert_eq!(client.read_to_end(), b"");
    wait_until(|| other.info("connected_clients") == "1");
    other.expect(&[("PUBSUB NUMSUB news", "*2 $4 news :0"), ("PUBSUB NUMPAT", ":0"), ("SET k v", "+OK")]);
    for (field, value) in [("watching_clients", "0"), ("tracking_clients", "0")] {
        assert_eq!(other.info(field), value, "{field}");
    }
    wait_until(|| other.info("caught_panics") == "1");
}

#[test]
fn a_handler_that_panics_inside_a_transaction_or_a_pipeline_leaves_the_store_usable() {
    let server = start();
    let mut other = server.client();
    for lines in
        ["MULTI\r\nSET a 1\r\nDEBUG INJECT-PANIC handler\r\nEXEC\r\n", "SET b 1\r\nDEBUG INJECT-PANIC handler\r\n"]
    {
        let mut client = server.client();
        client.send(lines.as_bytes());
        client.read_to_end();
    }
    other.expect(&[("SET c 1", "+OK"), ("MGET a b c", "*3 $1 1 $1 1 $1 1"), ("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
    // A connection is closed while the panic unwinds, and counted after that.
    wait_until(|| other.info("caught_panics") == "2");
}

#[cfg(feature = "lua")]
#[test]
fn a_command_that_panics_inside_a_script_ends_it_and_costs_its_client_the_connection() {
    let server = start();
    let mut other = server.client();
    other.expect(&[("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK")]);
    let scripts = [
        "redis.call('SET', 'before', 1) redis.call('DEBUG', 'INJECT-PANIC', 'handler')",
        "while true do pcall(redis.call, 'DEBUG', 'INJECT-PANIC', 'handler') end",
        "while true do redis.pcall('DEBUG', 'INJECT-PANIC', 'handler') end",
        "coroutine.wrap(function() redis.call('DEBUG', 'INJECT-PANIC', 'handler') end)()",
        "xpcall(function() redis.call('DEBUG', 'INJECT-PANIC', 'handler') end, function() while true do end end)",
    ];
    for (panics, script) in scripts.iter().enumerate() {
        let mut client = server.client();
        client.send(&crate::harness::encode(&["EVAL", script, "0"]));
        assert_eq!(client.read_to_end(), b"", "{script}");
        wait_until(|| other.info("caught_panics") == (panics + 1).to_string());
        let next = "for i = 1, 1000 do end return redis.call('GET', 'before')";
        assert_eq!(other.call_args(&["EVAL", next, "0"]), "$1 1", "after {script}");
    }
}

#[cfg(feature = "lua")]
#[test]
fn a_busy_script_that_ends_by_a_panic_is_not_busy_any_more() {
    let settings = [("enable-debug-command", "yes"), ("busy-reply-threshold", "50")];
    let server = TestServer::start_on(Clock::manual(), &settings);
    let mut other = server.client();
    other.expect(&[("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK")]);
    let mut client = server.client();
    let turns_busy = "redis.call('DEBUG', 'SLEEP', '1') for i = 1, 300000 do end ";
    let script = format!("{turns_busy} redis.call('DEBUG', 'INJECT-PANIC', 'handler')");
    client.send(&crate::harness::encode(&["EVAL", &script, "0"]));
    assert_eq!(client.read_to_end(), b"");
    wait_until(|| other.info("caught_panics") == "1");
    other.expect(&[("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")]);
    assert_eq!(other.call_args(&["EVAL", "for i = 1, 300000 do end return 1", "0"]), ":1");
    other.expect(&[("SET k v", "+OK")]);
}

#[test]
fn keys_expire_although_the_task_that_removes_them_has_panicked() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG INJECT-PANIC sweep", "+OK")]);
    wait_until(|| client.info("caught_panics") == "1");
    client.expect(&[("SET k v PX 1", "+OK")]);
    wait_until(|| client.info("expired_keys") == "1");
}

#[test]
fn connections_are_accepted_although_a_task_that_accepts_them_has_panicked() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG INJECT-PANIC accept", "+OK")]);
    assert_eq!(server.client().read_to_end(), b"", "the one that came in between is lost");
    server.client().expect(&[("PING", "+PONG")]);
    wait_until(|| client.info("caught_panics") == "1");
}

#[test]
fn the_housekeeping_continues_after_a_panic() {
    let server = start();
    let mut client = server.client();
    for count in ["1", "2"] {
        client.expect(&[("DEBUG INJECT-PANIC housekeeping", "+OK")]);
        wait_until(|| client.info("caught_panics") == count);
    }
    client.expect(&[("DEBUG INJECT-PANIC nowhere", "-ERR syntax error")]);
}

#[test]
fn a_server_that_is_dropped_in_an_asynchronous_context_takes_its_thread_along() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::builder().clock(Clock::manual()).start().await.expect("a free port");
        // Blocks the only thread of the caller's runtime, which the server does not need.
        let mut client = crate::harness::Client::connect(server.addr());
        client.expect(&[("SET k v PX 60000", "+OK")]);
        server.advance(Duration::from_millis(1));
        drop(server);
        assert_eq!(client.read_to_end(), b"");
    });
}
