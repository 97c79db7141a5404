//! MONITOR: every call is shown as it was executed, and secrets are not.

use crate::harness::{Client, TestServer, wait_until};

/// Returns the next line without its time, and with the client's port masked.
#[track_caller]
fn shown(monitor: &mut Client, caller: &Client) -> String {
    let line = monitor.reply();
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.starts_with('+') && time.split('.').nth(1).is_some_and(|micros| micros.len() == 6), "{line}");
    rest.replace(&caller.local_addr().to_string(), "ADDR")
}

#[test]
fn calls_are_shown_with_their_database_and_their_caller() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    client.call("SET k v");
    client.call("SELECT 3");
    client.call_args(&["ECHO", "a \"b\" \\ \r\n\t\x07\x08\x01 é"]);
    client.call("NOSUCH");
    client.call("GET");
    client.call("INCR k");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"SET\" \"k\" \"v\"");
    assert_eq!(shown(&mut monitor, &client), "[3 ADDR] \"SELECT\" \"3\"");
    // The harness escapes its output once more, backslashes included.
    let echo = shown(&mut monitor, &client).replace(r"\\", r"\");
    assert_eq!(echo, r#"[3 ADDR] "ECHO" "a \"b\" \\ \r\n\t\a\b\x01 \xc3\xa9""#);
    assert_eq!(shown(&mut monitor, &client), "[3 ADDR] \"INCR\" \"k\"");
}

#[test]
fn secrets_and_administration_are_not_shown() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    client.call("AUTH secret");
    client.call("AUTH name secret");
    client.call("HELLO 2 AUTH name secret");
    client.call("CONFIG GET port");
    client.call("CONFIG SET requirepass secret");
    client.call("AUTH secret");
    client.call("SLOWLOG LEN");
    client.call("PING");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"AUTH\" \"(redacted)\"");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"AUTH\" \"(redacted)\" \"(redacted)\"");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\"");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"AUTH\" \"(redacted)\"");
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"PING\"");
}

#[test]
fn a_transaction_is_shown_when_it_is_carried_out() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    for words in ["MULTI", "SET k v", "MONITOR", "EXEC", "MULTI", "NOSUCH", "EXEC"] {
        client.call(words);
    }
    for expected in ["\"MULTI\"", "\"SET\" \"k\" \"v\"", "\"EXEC\"", "\"MULTI\"", "\"EXEC\""] {
        assert_eq!(shown(&mut monitor, &client), format!("[0 ADDR] {expected}"));
    }
}

#[test]
fn a_monitor_sees_its_own_calls_but_may_not_touch_keys_until_reset() {
    let server = TestServer::start();
    let mut monitor = server.client();
    let addr = monitor.local_addr().to_string();
    assert_eq!(monitor.call("MONITOR"), "+OK");
    assert!(monitor.call("CLIENT INFO").contains(" flags=O "));
    monitor.send(b"MONITOR\r\nPING\r\n"); // the first has no reply
    assert_eq!(
        monitor.reply().replace(&addr, "ADDR").split_once(' ').expect("a time").1,
        "[0 ADDR] \"CLIENT\" \"INFO\""
    );
    assert_eq!(monitor.reply(), "+PONG");
    assert!(monitor.reply().ends_with("] \"PING\""));
    assert_eq!(monitor.call("GET k"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.call("SET k v"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.call("RESET"), "+RESET");
    monitor.expect(&[("GET k", "$-1"), ("SET k v", "+OK")]);
    assert!(monitor.call("CLIENT INFO").contains(" flags=N "));
}

#[test]
fn all_monitors_see_the_calls_of_many_clients_in_one_order() {
    let server = TestServer::start_on_workers(2);
    let mut monitors = [server.client(), server.client()];
    monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.call("MONITOR"), "+OK"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let incrs: Vec<String> = (0..50).map(|_| "INCR k".to_owned()).collect();
                client.pipeline(&incrs);
            });
        }
    });
    let seen = monitors.map(|mut monitor| (0..200).map(|_| monitor.reply()).collect::<Vec<_>>());
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_monitor_that_is_gone_costs_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut monitor = server.client();
    monitor.call("MONITOR");
    monitor.call("QUIT");
    monitor.read_to_end();
    wait_until(|| {
        client.call("PING");
        server.server().namespace().observed.monitors.is_empty()
    });
    assert_eq!(server.server().namespace().observed.monitors.len(), 0);
}

#[cfg(feature = "lua")]
#[test]
fn a_script_is_shown_before_the_calls_it_makes() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("MONITOR"), "+OK");
    client.call_args(&["EVAL", "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])", "1", "k", "v"]);
    client.call_args(&["EVALSHA", &"0".repeat(40), "0"]);
    client.call("PING");
    assert!(shown(&mut monitor, &client).starts_with("[0 ADDR] \"EVAL\" \"redis.call("));
    assert_eq!(shown(&mut monitor, &client), "[0 lua] \"set\" \"k\" \"v\"");
    assert_eq!(shown(&mut monitor, &client), "[0 lua] \"get\" \"k\"");
    assert!(shown(&mut monitor, &client).starts_with("[0 ADDR] \"EVALSHA\" "));
    assert_eq!(shown(&mut monitor, &client), "[0 ADDR] \"PING\"");
    assert_eq!(monitor.call("EVAL return{1} 0"), "-ERR Replica can't interact with the keyspace");
}
