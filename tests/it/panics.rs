//! A panic is a bug that ends one connection or one round of a task: the server keeps running and reports it.

use std::time::Duration;

use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer, encode, wait_until};

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
        client.send(&encode(&["EVAL", script, "0"]));
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
    client.send(&encode(&["EVAL", &script, "0"]));
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

/// Size of a value that dominates the memory usage of the server.
const LARGE: usize = 1_000_000;

/// Starts a server that rejects writes if its memory usage has wrapped around.
fn start_with_little_memory() -> TestServer {
    TestServer::start_on(
        Clock::manual(),
        &[("enable-debug-command", "yes"), ("maxmemory", "50mb"), ("test-mode", "yes")],
    )
}

/// Asserts that the counters agree with the keys after some changes have panicked half-way, and that the memory usage
/// has not wrapped around.
fn assert_counters_hold(server: &TestServer, panics: &str) {
    let mut client = server.client();
    wait_until(|| client.info("caught_panics") == panics);
    client.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK")]);
    let counted = |client: &mut Client, field: &str| client.info(field).parse::<usize>().expect("a number");
    assert!(counted(&mut client, "used_memory") < 40 << 20);
    let keys = counted_keys(&mut client);
    let listed = client.call("KEYS *").matches('$').count();
    assert_eq!(keys.0, listed, "keys");
    // An empty collection is deleted already.
    assert!(client.int("DEL k d") <= 1);
    client.expect(&[("DBSIZE", ":0"), ("SET other v PX 100000", "+OK")]);
    assert_eq!(counted_keys(&mut client), (1, 1));
    assert!(counted(&mut client, "used_memory") < 40 << 20);
    client.expect(&[("FLUSHALL", "+OK"), ("SET other v", "+OK")]);
    assert_eq!(counted_keys(&mut client), (1, 0));
}

/// Returns the number of keys, and the number of keys with a TTL, from INFO.
fn counted_keys(client: &mut Client) -> (usize, usize) {
    let text = client.call("INFO keyspace");
    let number = |name: &str| {
        let field = text.split([',', ':']).find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        field.map_or(0, |number| number.parse().expect("a number"))
    };
    (number("keys"), number("expires"))
}

#[test]
fn counters_hold_after_a_change_has_panicked_half_way_in_a_call_or_a_transaction() {
    let large = "x".repeat(LARGE);
    let set = format!("SET k {large} PX 100000");
    for requests in [
        vec![set.clone()],
        vec!["SET k v".to_owned(), "DEBUG INJECT-PANIC CHANGE k".to_owned(), set.clone()],
        vec!["MULTI".to_owned(), set, "EXEC".to_owned()],
        vec![format!("RPUSH k {large} b")],
        vec![format!("SADD k {large} b")],
    ] {
        let server = start_with_little_memory();
        let mut client = server.client();
        if requests.len() != 3 || requests[0] == "MULTI" {
            client.expect(&[("DEBUG INJECT-PANIC CHANGE k", "+OK")]);
        }
        let send = |request: &String| client.send(&encode(&request.split(' ').collect::<Vec<_>>()));
        requests.iter().for_each(send);
        client.read_to_end();
        assert_counters_hold(&server, "1");
    }
}

#[cfg(feature = "lua")]
#[test]
fn counters_hold_after_a_change_has_panicked_half_way_in_a_script() {
    let server = start_with_little_memory();
    let mut client = server.client();
    client.expect(&[("DEBUG INJECT-PANIC CHANGE k", "+OK")]);
    let script = format!("redis.call('SET', 'k', string.rep('x', {LARGE}), 'PX', 100000)");
    client.send(&encode(&["EVAL", &script, "1", "k"]));
    assert_eq!(client.read_to_end(), b"");
    assert_counters_hold(&server, "1");
}

#[test]
fn a_blocked_call_that_panics_costs_its_own_client_the_connection_and_nobody_else() {
    let large = "x".repeat(LARGE);
    // Its keys are locked by the call that serves it, or not.
    for wake in [&[format!("RPUSH k {large} b")][..], &["MULTI".into(), format!("RPUSH k {large} b"), "EXEC".into()]] {
        let server = start_with_little_memory();
        let mut first = server.block("BLMOVE k d LEFT RIGHT 0");
        let mut second = server.block("BLMOVE k e LEFT RIGHT 0");
        let mut waker = server.client();
        waker.expect(&[("DEBUG INJECT-PANIC CHANGE d", "+OK")]);
        let replies: Vec<String> = wake.iter().map(|request| waker.call(request)).collect();
        assert!(replies.last().is_some_and(|reply| reply.ends_with(":2")), "{replies:?}");
        assert!(second.reply().starts_with('$'));
        assert!(first.reply().starts_with("-ERR internal error"));
        assert_eq!(first.read_to_end(), b"");
        waker.expect(&[("PING", "+PONG"), ("LLEN e", ":1"), ("DEL e", ":1")]);
        wait_until(|| waker.info("blocked_clients") == "0");
        assert_eq!(waker.info("total_blocking_keys"), "0");
        assert_counters_hold(&server, "1");
    }
}

#[test]
fn a_lock_goes_to_the_next_in_line_when_the_call_of_the_first_panics() {
    let server = start_with_little_memory();
    let mut holder = server.client();
    assert!(holder.call("LOCK.ACQUIRE l one PX 100").starts_with(':'));
    let mut first = server.block("LOCK.ACQUIRE l two PX 100 BLOCK 0");
    let mut second = server.block("LOCK.ACQUIRE l three PX 100 BLOCK 0");
    holder.expect(&[("DEBUG INJECT-PANIC CREATION l", "+OK")]);
    server.advance_ms(100);
    assert!(first.reply().starts_with("-ERR internal error"));
    assert_eq!(first.read_to_end(), b"");
    // The lock left by its call has no holder, and ends by its TTL.
    server.advance_ms(100);
    assert!(second.reply().starts_with(':'));
    holder.expect(&[("GET l", "$5 three"), ("PING", "+PONG")]);
    assert_eq!(holder.info("caught_panics"), "1");
}

#[test]
fn those_that_a_call_has_made_ready_are_served_although_it_panics_afterwards() {
    let server = start();
    let mut blocked = server.block("BLPOP k 0");
    let mut client = server.client();
    client.send(b"MULTI\r\nRPUSH k v\r\nDEBUG INJECT-PANIC HANDLER\r\nEXEC\r\n");
    client.read_to_end();
    assert_eq!(blocked.reply(), "*2 $1 k $1 v");
}

#[test]
fn a_key_whose_expiry_panics_keeps_no_other_from_expiring_and_is_tried_again_later() {
    for by_command in [false, true] {
        let server = start_with_little_memory();
        let mut client = server.client();
        (0..300).for_each(|key| assert_eq!(client.call(&format!("SET {key} v PX 10")), "+OK"));
        client.expect(&[("DEBUG INJECT-PANIC CHANGE 7", "+OK")]);
        if by_command {
            assert!(client.int("TEST.TIME ADVANCE 10") > 0);
        } else {
            server.advance_ms(10)
        }
        assert_eq!((client.info("expired_keys"), client.info("caught_panics")), ("299".into(), "1".into()));
        // Not repeated with each key that expires meanwhile.
        (300..600).for_each(|key| assert_eq!(client.call(&format!("SET {key} v PX 10")), "+OK"));
        server.advance_ms(1000);
        assert_eq!((client.info("expired_keys"), client.info("caught_panics")), ("599".into(), "1".into()));
        client.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK"), ("SET other v PX 10", "+OK")]);
        // A key that expires meanwhile postpones it again, once.
        server.advance_ms(120_000);
        assert_eq!((client.info("expired_keys"), client.info("caught_panics")), ("601".into(), "1".into()));
        client.expect(&[("DBSIZE", ":0")]);
    }
}

#[test]
fn a_field_whose_expiry_panics_leaves_the_counters_right() {
    let server = start_with_little_memory();
    let mut client = server.client();
    client.expect(&[
        (&format!("HSET k {} v b v", "x".repeat(LARGE)), ":2"),
        (&format!("HPEXPIRE k 10 FIELDS 1 {}", "x".repeat(LARGE)), "*1 :1"),
        ("DEBUG INJECT-PANIC CHANGE k", "+OK"),
    ]);
    server.advance_ms(10);
    assert_eq!(client.info("caught_panics"), "1");
    client.expect(&[("HLEN k", ":1")]);
    assert_counters_hold(&server, "1");
}

#[test]
fn keys_expire_in_real_time_although_the_expiry_of_one_panics() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG INJECT-PANIC CHANGE 7", "+OK")]);
    client.send(b"SET 7 v PX 1\r\n");
    client.read_to_end();
    let mut client = server.client();
    (0..100).filter(|key| *key != 7).for_each(|key| assert_eq!(client.call(&format!("SET {key} v PX 1")), "+OK"));
    wait_until(|| client.info("expired_keys") == "99");
    assert_eq!(client.info("caught_panics"), "2");
}

#[test]
fn a_key_whose_eviction_panics_closes_no_client_that_needs_room() {
    let server = start_with_little_memory();
    let mut client = server.client();
    client.expect(&[
        ("CONFIG SET maxmemory-policy allkeys-lru", "+OK"),
        (&format!("SET k {}", "x".repeat(LARGE)), "+OK"),
    ]);
    client.expect(&[("DEBUG INJECT-PANIC CHANGE k", "+OK"), ("CONFIG SET maxmemory 1kb", "+OK")]);
    wait_until(|| client.info("caught_panics") != "0");
    assert!(client.call("SET other v").starts_with("-OOM"));
    client.expect(&[("PING", "+PONG"), ("DEBUG INJECT-PANIC CHANGE", "+OK")]);
}

#[test]
fn a_connection_whose_end_panics_leaves_nothing_else_behind() {
    let server = start_with_little_memory();
    let (mut other, mut client) = (server.client(), server.client());
    client.call("SUBSCRIBE news");
    let mut holder = server.client();
    assert!(holder.call("LOCK.ACQUIRE l token PX 1000 SESSION").starts_with(':'));
    holder.expect(&[("WATCH w", "+OK")]);
    other.expect(&[("DEBUG INJECT-PANIC CHANGE l", "+OK")]);
    drop(holder);
    wait_until(|| other.info("connected_clients") == "2");
    assert_eq!(other.info("watching_clients"), "0");
    wait_until(|| other.info("caught_panics") != "0");
    other.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK"), ("PUBSUB NUMSUB news", "*2 $4 news :1")]);
    server.advance_ms(61_000);
    other.expect(&[("EXISTS l", ":0")]);
}

#[test]
fn a_lock_that_a_panic_has_left_overwritten_is_lost() {
    let server = start();
    let (mut holder, mut client, mut other) = (server.client3(), server.client(), server.client());
    assert!(holder.int("LOCK.ACQUIRE k mine PX 60000 NOTIFY") > 0);
    other.expect(&[("DEBUG INJECT-PANIC CHANGE k", "+OK")]);
    client.send(b"SET k other\r\n");
    assert_eq!(client.read_to_end(), b"");
    other.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK"), ("GET k", "$5 other"), ("LOCK.LIST 0", "*2 $1 0 *0")]);
    let told = holder.reply();
    assert!(told.contains("overwritten"), "{told}");
    assert!(holder.call("CLIENT INFO").contains(" locks=0 "));
}
