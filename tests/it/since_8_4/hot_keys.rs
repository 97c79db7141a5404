//! HOTKEYS: the keys that cost most.

use super::SYNTAX;
use crate::harness::{Client, TestServer};

/// Returns the keys that HOTKEYS GET lists under a name.
fn listed(client: &mut Client, name: &str) -> Vec<String> {
    let shown = client.call("HOTKEYS GET");
    let (_, rest) = shown.split_once(&format!(" {name} *")).unwrap_or_else(|| panic!("no {name} in {shown}"));
    let mut words = rest.split(' ');
    let count: usize = words.next().and_then(|count| count.parse().ok()).expect("a length");
    // A key is its length and its name, a count is one word.
    words.collect::<Vec<_>>().chunks(3).take(count / 2).map(|entry| entry[1].to_owned()).collect()
}

#[test]
fn the_keys_whose_commands_cost_most_are_listed_in_order() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("HOTKEYS GET", "*-1"), ("HOTKEYS START METRICS 2 CPU NET COUNT 3", "+OK")]);
    let mut other = server.client();
    for (key, count) in [("hot", 30), ("warm", 20), ("mild", 10), ("cold", 1)] {
        (0..count).for_each(|_| drop(other.call(&format!("SET {key} 0123456789"))));
    }
    assert_eq!(listed(&mut client, "by-net-bytes"), ["hot", "warm", "mild"]);
    assert_eq!(listed(&mut client, "by-cpu-time-us").len(), 3);
    other.call(&format!("SET cold {}", "x".repeat(5000)));
    assert_eq!(listed(&mut client, "by-net-bytes"), ["cold", "hot", "warm"]);
    client.expect(&[("HOTKEYS STOP", "+OK")]);
    (0..99).for_each(|_| drop(other.call("GET mild")));
    assert_eq!(listed(&mut client, "by-net-bytes"), ["cold", "hot", "warm"], "after the end");
    client.expect(&[("HOTKEYS RESET", "+OK"), ("HOTKEYS GET", "*-1"), ("HOTKEYS RESET", "+OK")]);
}

#[test]
fn the_bytes_are_those_of_requests_and_replies() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("HOTKEYS START METRICS 1 NET", "+OK"), ("SET k v", "+OK"), ("MGET k other", "*2 $1 v $-1")]);
    // 27 and 5 bytes of SET; 32 and 16 of MGET.
    let shown = client.call("HOTKEYS GET");
    assert!(shown.starts_with("*1 *18 $15 tracking-active :1 $12 sample-ratio :1 $14 selected-slots *0 "), "{shown}");
    assert!(shown.ends_with(" $12 by-net-bytes *4 $1 k :80 $5 other :48"), "{shown}");
    assert!(!shown.contains("cpu"), "{shown}");
    let shown = server.client3().call("HOTKEYS GET");
    assert!(shown.starts_with("*1 %9 $15 tracking-active :1 "), "{shown}");
}

#[test]
fn calls_in_transactions_and_scripts_are_counted_once() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("HOTKEYS START METRICS 1 NET", "+OK"),
        ("MULTI", "+OK"),
        ("GET t", "+QUEUED"),
        ("EXEC", "*1 $-1"),
    ]);
    #[cfg(feature = "lua")]
    client.call("EVAL return(redis.call('GET',KEYS[1])) 1 s");
    let shown = client.call("HOTKEYS GET");
    assert!(shown.contains(" $1 t :25"), "{shown}");
    #[cfg(feature = "lua")]
    assert!(shown.contains(" $1 s :25"), "{shown}");
}

#[test]
fn a_session_ends_by_itself_after_its_duration() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("HOTKEYS START METRICS 1 CPU DURATION 2", "+OK")]);
    server.advance_ms(1999);
    assert!(client.call("HOTKEYS GET").starts_with("*1 *20 $15 tracking-active :1 "));
    client.expect(&[("HOTKEYS RESET", "-ERR hotkey tracking session in progress, stop tracking first")]);
    server.advance_ms(1);
    let shown = client.call("HOTKEYS GET");
    assert!(shown.starts_with("*1 *20 $15 tracking-active :0 "), "{shown}");
    assert!(shown.contains(" $22 collection-duration-ms :2000 "), "{shown}");
    client.expect(&[
        ("HOTKEYS STOP", "-ERR no hotkey tracking session in progress"),
        ("HOTKEYS START METRICS 1 NET SAMPLE 5", "+OK"),
        ("HOTKEYS STOP", "+OK"),
    ]);
    assert!(client.call("HOTKEYS GET").contains(" $12 sample-ratio :5 "));
}

#[test]
fn one_of_several_keys_is_sampled() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("HOTKEYS START METRICS 1 NET SAMPLE 10 COUNT 64", "+OK")]);
    for number in 0..60 {
        client.call(&format!("SET k{number} v"));
    }
    let count = listed(&mut client, "by-net-bytes").len();
    assert!((1..30).contains(&count), "{count}");
}

#[test]
fn wrong_options_of_a_session_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    const POSITIVE: &str = "-ERR METRICS count must be positive";
    const MISMATCH: &str = "-ERR METRICS count does not match number of metric types provided";
    const COUNT: &str = "-ERR COUNT must be between 1 and 64";
    for (options, error) in [
        ("", "-ERR METRICS parameter is required"),
        ("COUNT 5", "-ERR METRICS parameter is required"),
        ("METRICS 0", POSITIVE),
        ("METRICS -1", POSITIVE),
        ("METRICS 2 CPU", MISMATCH),
        ("METRICS 3 CPU NET", MISMATCH),
        ("METRICS 1 CPU NET", SYNTAX),
        ("METRICS 1 GPU", "-ERR METRICS no valid metrics passed"),
        ("METRICS 2 GPU NYET", "-ERR METRICS no valid metrics passed"),
        ("METRICS 2 CPU CPU", "-ERR METRICS CPU defined more than once"),
        ("METRICS 2 net net", "-ERR METRICS NET defined more than once"),
        ("METRICS 1 CPU COUNT 0", COUNT),
        ("METRICS 1 CPU COUNT 65", COUNT),
        ("METRICS 1 CPU SAMPLE 0", "-ERR SAMPLE ratio must be positive"),
        ("METRICS 1 CPU SLOTS 2 0 5", "-ERR SLOTS parameter cannot be used in non-cluster mode"),
        ("METRICS 1 CPU METRICS 1 CPU", SYNTAX),
        ("METRICS 1 CPU COUNT", SYNTAX),
    ] {
        assert_eq!(client.call(format!("HOTKEYS START {options}").trim_end()), error, "{options}");
    }
    client.expect(&[
        ("HOTKEYS STOP", "-ERR no hotkey tracking session in progress"),
        ("HOTKEYS START METRICS 2 GPU cpu", "+OK"),
        ("HOTKEYS START METRICS 1 NET", "-ERR hotkey tracking session already in progress"),
    ]);
}
