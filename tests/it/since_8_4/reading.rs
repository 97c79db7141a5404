//! MAXCOUNT and MAXSIZE of XREAD and XREADGROUP.

use super::SYNTAX;
use crate::harness::{Client, TestServer};

/// Adds entries `1-1` to `1-n` to streams.
fn fill(client: &mut Client, streams: &[(&str, usize)]) {
    for (key, count) in streams {
        for number in 1..=*count {
            client.call(&format!("XADD {key} 1-{number} f v"));
        }
        client.call(&format!("XGROUP CREATE {key} g 0"));
    }
}

/// Returns the IDs in a reply, each stream's behind its key.
fn ids(shown: &str) -> String {
    let is_meant = |word: &&str| word.contains('-') && !word.starts_with('*') || ["a", "b", "c"].contains(word);
    shown.split(' ').filter(is_meant).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_entries_of_all_streams_together_are_limited_in_the_order_of_the_streams() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, &[("a", 2), ("b", 3), ("c", 1)]);
    for (options, expected) in [
        ("MAXCOUNT 1", "a 1-1"),
        ("MAXCOUNT 2", "a 1-1 1-2"),
        ("maxcount 4", "a 1-1 1-2 b 1-1 1-2"),
        ("MAXCOUNT 9", "a 1-1 1-2 b 1-1 1-2 1-3 c 1-1"),
        ("COUNT 1 MAXCOUNT 2", "a 1-1 b 1-1"),
        ("MAXCOUNT 3 COUNT 2", "a 1-1 1-2 b 1-1"),
        ("COUNT 0 MAXCOUNT 3", "a 1-1 1-2 b 1-1"),
        ("MAXSIZE 1", "a 1-1"),
        ("MAXSIZE 76", "a 1-1"),
        ("MAXSIZE 77", "a 1-1 1-2"),
        ("MAXSIZE 122", "a 1-1 1-2"),
        ("MAXSIZE 123 MAXCOUNT 8", "a 1-1 1-2 b 1-1"),
        ("MAXSIZE 123 MAXCOUNT 2", "a 1-1 1-2"),
        ("MAXSIZE 92 COUNT 1", "a 1-1 b 1-1"),
        ("MAXSIZE 9223372036854775807", "a 1-1 1-2 b 1-1 1-2 1-3 c 1-1"),
    ] {
        let shown = client.call(&format!("XREAD {options} STREAMS a missing b c 0 0 0 0"));
        assert_eq!(ids(&shown), expected, "{options}");
        assert!(shown.starts_with(&format!("*{} ", expected.split(['a', 'b', 'c']).count() - 1)), "{shown}");
        let mut reader = server.client3();
        let shown = reader.call(&format!("XREADGROUP GROUP g {} {options} STREAMS a b c > > >", options.len()));
        assert_eq!(ids(&shown), expected, "{options}");
        let pending = expected.split(' ').filter(|word| word.contains('-')).count() as i64;
        let counted: i64 = ["a", "b", "c"].map(|key| count_pending(&mut client, key)).iter().sum();
        assert_eq!(counted, pending, "only what was returned has been delivered");
        for key in ["a", "b", "c"] {
            client.expect(&[(&format!("XGROUP DESTROY {key} g"), ":1"), (&format!("XGROUP CREATE {key} g 0"), "+OK")]);
        }
    }
}

fn count_pending(client: &mut Client, key: &str) -> i64 {
    let shown = client.call(&format!("XPENDING {key} g"));
    shown.split(' ').nth(1).and_then(|count| count[1..].parse().ok()).expect("a count")
}

#[test]
fn the_history_and_claimed_entries_are_limited_too() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, &[("a", 2), ("b", 2)]);
    client.call("XREADGROUP GROUP g c STREAMS a b > >");
    client.call("XDEL a 1-1");
    for (options, expected) in [("MAXCOUNT 1", "a 1-1"), ("MAXCOUNT 3", "a 1-1 1-2 b 1-1"), ("MAXSIZE 60", "a 1-1")] {
        let shown = client.call(&format!("XREADGROUP GROUP g c {options} STREAMS a b 0 0"));
        assert_eq!(ids(&shown), expected, "{options}");
    }
    fill(&mut client, &[("c", 3)]);
    client.call("XREADGROUP GROUP g c COUNT 2 STREAMS c >");
    server.advance_ms(50);
    let shown = client.call("XREADGROUP GROUP g d MAXCOUNT 1 CLAIM 10 STREAMS c >");
    assert_eq!(shown, "*1 *2 $1 c *1 *4 $3 1-1 *2 $1 f $1 v :50 :1");
    let shown = client.call("XREADGROUP GROUP g d MAXCOUNT 2 CLAIM 10 STREAMS c >");
    assert_eq!(shown, "*1 *2 $1 c *2 *4 $3 1-2 *2 $1 f $1 v :50 :1 *4 $3 1-3 *2 $1 f $1 v :0 :0");
}

#[test]
fn a_blocked_reader_is_limited_when_it_is_served() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut reader = server.block("XREAD MAXCOUNT 1 BLOCK 0 STREAMS a b $ $");
    client.expect(&[
        ("MULTI", "+OK"),
        ("XADD b 1-1 f v", "+QUEUED"),
        ("XADD a 1-1 f v", "+QUEUED"),
        ("XADD a 1-2 f v", "+QUEUED"),
        ("EXEC", "*3 $3 1-1 $3 1-1 $3 1-2"),
    ]);
    assert_eq!(ids(&reader.reply()), "a 1-1");
}

#[test]
fn wrong_limits_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, &[("a", 1)]);
    const COUNT: &str = "-ERR MAXCOUNT must be a positive integer";
    const SIZE: &str = "-ERR MAXSIZE must be a positive integer";
    const LESS: &str = "-ERR MAXCOUNT must be greater than or equal to COUNT";
    for (options, error) in [
        ("MAXCOUNT 0", COUNT),
        ("MAXCOUNT -1", COUNT),
        ("MAXCOUNT x", COUNT),
        ("MAXSIZE 0", SIZE),
        ("MAXSIZE 1.5", SIZE),
        ("COUNT 2 MAXCOUNT 1", LESS),
        ("MAXCOUNT 1 COUNT 2", LESS),
        ("MAXCOUNTS 1", SYNTAX),
    ] {
        for (command, id) in [("XREAD", "0"), ("XREADGROUP GROUP g c", ">")] {
            assert_eq!(client.call(&format!("{command} {options} STREAMS a {id}")), error, "{command} {options}");
        }
    }
    client.expect(&[
        ("XREAD MAXCOUNT", "-ERR wrong number of arguments for 'xread' command"),
        ("XREAD STREAMS a MAXCOUNT", "-ERR Invalid stream ID specified as stream command argument"),
        ("COMMAND GETKEYS XREAD MAXCOUNT 5 MAXSIZE 5 STREAMS a b 0 0", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS XREADGROUP GROUP g c MAXSIZE 5 MAXCOUNT 5 STREAMS a b > >", "*2 $1 a $1 b"),
    ]);
}
