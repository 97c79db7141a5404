//! Commands and options that Redis has since a version after 8.4. The expected replies are those of the pages of their
//! commands.

mod command_log;
mod hot_keys;
mod import;
mod lists;
mod moves;
mod nack;
mod payloads;
mod polygon;
mod producers;
mod reading;
mod set_members;

use crate::harness::{Dice, TestServer};

const SYNTAX: &str = "-ERR syntax error";

#[test]
fn members_of_a_union_and_of_a_difference_are_counted_up_to_a_limit() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SADD a 1 2 3 x", ":4"),
        ("SADD b 2 y", ":2"),
        ("SUNIONCARD 2 a b", ":5"),
        ("SUNIONCARD 1 a", ":4"),
        ("SUNIONCARD 3 a missing a", ":4"),
        ("SUNIONCARD 1 missing", ":0"),
        ("SUNIONCARD 2 a b LIMIT 0", ":5"),
        ("SUNIONCARD 2 a b limit 3", ":3"),
        ("SUNIONCARD 1 a LIMIT 3", ":3"),
        ("SUNIONCARD 2 a b LIMIT 6", ":5"),
        ("SUNIONCARD 2 a b APPROX", ":5"),
        ("SUNIONCARD 2 a b LIMIT 3 APPROX", ":3"),
        ("SUNIONCARD 2 a b approx limit 9", ":5"),
        ("SUNIONCARD 1 missing APPROX", ":0"),
        ("SDIFFCARD 2 a b", ":3"),
        ("SDIFFCARD 2 b a", ":1"),
        ("SDIFFCARD 1 a", ":4"),
        ("SDIFFCARD 2 a a", ":0"),
        ("SDIFFCARD 3 a missing b", ":3"),
        ("SDIFFCARD 2 missing a", ":0"),
        ("SDIFFCARD 2 a b LIMIT 0", ":3"),
        ("SDIFFCARD 2 a b LIMIT 2", ":2"),
        ("SDIFFCARD 2 a b LIMIT 4", ":3"),
    ]);
}

#[test]
fn wrong_arguments_of_counting_commands_are_refused_as_those_of_sintercard_are() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SADD a 1", ":1"), ("SET s v", "+OK")]);
    for command in ["SUNIONCARD", "SDIFFCARD", "SINTERCARD"] {
        let name = command.to_lowercase();
        for (rest, error) in [
            ("0 a", "-ERR numkeys should be greater than 0"),
            ("x a", "-ERR numkeys should be greater than 0"),
            ("2 a", "-ERR Number of keys can't be greater than number of args"),
            ("1 a LIMIT", SYNTAX),
            ("1 a LIMIT -1", "-ERR LIMIT can't be negative"),
            ("1 a LIMIT x", "-ERR LIMIT can't be negative"),
            ("1 a b", SYNTAX),
            ("1 s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("2 missing s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("1", &format!("-ERR wrong number of arguments for '{name}' command")),
        ] {
            assert_eq!(client.call(&format!("{command} {rest}")), error, "{command} {rest}");
        }
        let keys = client.call(&format!("COMMAND GETKEYS {command} 2 a b LIMIT 1"));
        assert_eq!(keys, "*2 $1 a $1 b", "{command}");
    }
    client.expect(&[("SDIFFCARD 1 a APPROX", SYNTAX), ("SINTERCARD 1 a APPROX", SYNTAX)]);
}

#[test]
fn the_count_of_a_combination_is_that_of_its_members_for_sets_of_any_encoding() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(8));
    for _ in 0..300 {
        client.call("DEL a b c d");
        for key in ["a", "b", "c", "d"] {
            for _ in 0..dice.roll(4) * dice.roll(60) {
                let member = dice.roll(100);
                let member = if dice.roll(3) == 0 { format!("m{member}") } else { member.to_string() };
                client.call(&format!("SADD {key} {member}"));
            }
        }
        for (count, members) in [("SUNIONCARD", "SUNION"), ("SDIFFCARD", "SDIFF"), ("SINTERCARD", "SINTER")] {
            let keys = 1 + dice.roll(4) as usize;
            let names = &["b", "a", "d", "c"][..keys].join(" ");
            let shown = client.call(&format!("{members} {names}"));
            let len: i64 = shown.split(' ').next().and_then(|len| len[1..].parse().ok()).expect("a length");
            assert_eq!(client.int(&format!("{count} {keys} {names}")), len, "{count} {keys} {names}: {shown}");
            let limit = dice.roll(30) as i64 + 1;
            assert_eq!(client.int(&format!("{count} {keys} {names} LIMIT {limit}")), len.min(limit), "{count} {shown}");
        }
    }
}

#[test]
fn an_estimated_union_is_counted_as_a_hyperloglog_counts_its_members() {
    let server = TestServer::start();
    let mut client = server.client();
    for (key, from) in [("a", 0), ("b", 6_000), ("c", 9_000)] {
        let members: Vec<String> = (from..from + 10_000).map(|number| format!("member:{number}")).collect();
        client.call(&format!("SADD {key} {}", members.join(" ")));
        client.call(&format!("PFADD h {}", members.join(" ")));
    }
    let estimate = client.int("PFCOUNT h");
    assert_eq!(client.int("SUNIONCARD 3 a b c"), 19_000);
    assert_eq!(client.int("SUNIONCARD 3 a b c APPROX"), estimate);
    assert_eq!(client.int("SUNIONCARD 3 a b c APPROX LIMIT 100"), 100);
}

#[test]
fn aggregate_count_scores_a_member_by_the_weights_of_the_sources_that_have_it() {
    let server = TestServer::start();
    server.client().expect(&[
        ("ZADD a 5 x 7 y", ":2"),
        ("ZADD b 9 y -inf z", ":2"),
        ("SADD s y w", ":2"),
        ("ZUNION 3 a b s AGGREGATE COUNT WITHSCORES", "*8 $1 w $1 1 $1 x $1 1 $1 z $1 1 $1 y $1 3"),
        ("ZINTER 2 a b aggregate count WITHSCORES", "*2 $1 y $1 2"),
        ("ZINTER 3 a b s WEIGHTS 2 3 0.5 AGGREGATE COUNT WITHSCORES", "*2 $1 y $3 5.5"),
        ("ZUNION 2 a b WEIGHTS 2 -3 AGGREGATE COUNT WITHSCORES", "*6 $1 z $2 -3 $1 y $2 -1 $1 x $1 2"),
        ("ZUNION 2 a a WEIGHTS inf -inf AGGREGATE COUNT WITHSCORES", "*4 $1 x $1 0 $1 y $1 0"),
        ("ZUNIONSTORE u 2 a b AGGREGATE COUNT", ":3"),
        ("ZRANGE u 0 -1 WITHSCORES", "*6 $1 x $1 1 $1 z $1 1 $1 y $1 2"),
        ("ZINTERSTORE u 2 a b WEIGHTS 1 1 AGGREGATE COUNT", ":1"),
        ("ZSCORE u y", "$1 2"),
        ("ZUNION 1 missing AGGREGATE COUNT", "*0"),
        ("ZDIFF 2 a b AGGREGATE COUNT", SYNTAX),
        ("ZUNION 2 a b AGGREGATE COUNTS", SYNTAX),
    ]);
}

#[test]
fn what_older_servers_do_not_know_is_logged_as_the_values_that_it_leaves() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("ZADD a 5 x", ":1"), ("SET gone v", "+OK")]);
    server.begin_log();
    let mut logged = |request: &str| {
        client.call(request);
        server.take_log().escape_ascii().to_string()
    };
    assert!(logged("ZUNIONSTORE u 1 a AGGREGATE COUNT").contains("RESTORE"));
    assert!(logged("ZINTERSTORE gone 1 missing AGGREGATE COUNT").contains("DEL"));
    let plain = logged("ZUNIONSTORE u 1 a AGGREGATE SUM");
    assert!(plain.contains("zunionstore") && !plain.contains("RESTORE"), "{plain}");
}
