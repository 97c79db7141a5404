//! COMMANDLOG, as in Valkey 8.1.

use crate::harness::TestServer;

/// The types of logs.
const TYPES: [&str; 3] = ["slow", "large-request", "large-reply"];

#[test]
fn large_requests_and_replies_are_logged_from_a_size_on() {
    let server = TestServer::start_with(&[
        ("commandlog-execution-slower-than", "-1"),
        ("commandlog-request-larger-than", "1024"),
        ("commandlog-reply-larger-than", "1024"),
    ]);
    let mut client = server.client();
    client.call("CLIENT SETNAME me");
    let value = "A".repeat(1024);
    client.expect(&[
        ("PING", "+PONG"),
        (&format!("SET k {value}"), "+OK"),
        ("COMMANDLOG LEN large-request", ":1"),
        ("COMMANDLOG LEN LARGE-REPLY", ":0"),
        ("GET k", &format!("$1024 {value}")),
        ("commandlog len large-reply", ":1"),
        ("COMMANDLOG LEN slow", ":0"),
        ("COMMANDLOG GET -1 slow", "*0"),
        ("COMMANDLOG GET 0 large-reply", "*0"),
    ]);
    let shown = client.call("COMMANDLOG GET -1 large-request");
    assert!(shown.starts_with("*1 *6 :0 :"), "{shown}");
    assert!(shown.contains(&format!(" :1053 *3 $3 SET $1 k $148 {}... (896 more bytes) ", "A".repeat(128))), "{shown}");
    assert!(shown.ends_with(" $2 me"), "{shown}");
    let shown = client.call("COMMANDLOG GET 5 large-reply");
    assert!(shown.contains(" :1033 *2 $3 GET $1 k "), "{shown}");
    client.expect(&[
        ("COMMANDLOG RESET large-request", "+OK"),
        ("COMMANDLOG LEN large-request", ":0"),
        ("COMMANDLOG LEN large-reply", ":1"),
        ("MULTI", "+OK"),
        ("GET k", "+QUEUED"),
        ("EXEC", &format!("*1 $1024 {value}")),
        ("COMMANDLOG LEN large-reply", ":2"),
        ("CONFIG SET commandlog-large-reply-max-len 1", "+OK"),
        ("COMMANDLOG LEN large-reply", ":1"),
        ("CONFIG SET commandlog-reply-larger-than -1", "+OK"),
        ("GET k", &format!("$1024 {value}")),
        ("COMMANDLOG LEN large-reply", ":1"),
    ]);
}

#[test]
fn each_log_keeps_as_many_entries_as_its_setting_says() {
    let server = TestServer::start();
    let mut client = server.client();
    for (size, len) in [
        ("execution-slower-than", "slow-execution"),
        ("request-larger-than", "large-request"),
        ("reply-larger-than", "large-reply"),
    ] {
        client.call(&format!("CONFIG SET commandlog-{len}-max-len 10"));
        client.call(&format!("CONFIG SET commandlog-{size} 0"));
    }
    (0..20).for_each(|_| drop(client.call("PING")));
    for kind in TYPES {
        client.expect(&[(&format!("COMMANDLOG LEN {kind}"), ":10")]);
        for (count, shown) in [("5", "*5 "), ("-1", "*10 "), ("20", "*10 ")] {
            assert!(client.call(&format!("COMMANDLOG GET {count} {kind}")).starts_with(shown), "{kind} {count}");
        }
    }
    client.expect(&[("SLOWLOG LEN", ":10"), ("COMMANDLOG RESET slow", "+OK")]);
    assert!(client.call("SLOWLOG GET").contains("$10 COMMANDLOG $5 RESET $4 slow"));
}

#[test]
fn wrong_arguments_of_commandlog_are_refused() {
    let server = TestServer::start();
    const TYPE: &str = "-ERR type should be one of the following: slow, large-request, large-reply";
    const COUNT: &str = "-ERR count should be greater than or equal to -1";
    server.client().expect(&[
        ("COMMANDLOG GET -2 slow", COUNT),
        ("COMMANDLOG GET x slow", COUNT),
        ("COMMANDLOG GET 1 fast", TYPE),
        ("COMMANDLOG LEN fast", TYPE),
        ("COMMANDLOG RESET fast", TYPE),
        ("COMMANDLOG GET 1", "-ERR wrong number of arguments for 'commandlog|get' command"),
        ("COMMANDLOG LEN", "-ERR wrong number of arguments for 'commandlog|len' command"),
        ("COMMANDLOG COUNT slow", "-ERR unknown subcommand 'COUNT'. Try COMMANDLOG HELP."),
    ]);
    let help = server.client().call("COMMANDLOG HELP");
    assert!(help.contains("+GET <count> (SLOW|LARGE-REQUEST|LARGE-REPLY)"), "{help}");
}
