//! LMOVEM and BLMOVEM.

use super::SYNTAX;
use crate::harness::{Client, Dice, TestServer};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// The ends of both lists, with which elements may be moved.
const WAYS: [&str; 4] = ["LEFT LEFT", "LEFT RIGHT", "RIGHT LEFT", "RIGHT RIGHT"];

fn list(client: &mut Client, key: &str) -> Vec<String> {
    let shown = client.call(&format!("LRANGE {key} 0 -1"));
    shown.split(' ').skip(2).step_by(2).map(str::to_owned).collect()
}

#[test]
fn several_elements_are_moved_at_once_and_returned_in_their_new_order() {
    let server = TestServer::start();
    server.client().expect(&[
        ("RPUSH a 1 2 3 4 5", ":5"),
        ("LMOVEM a b LEFT LEFT", "*1 $1 1"),
        ("LMOVEM a b LEFT LEFT COUNT 2 OBO", "*2 $1 3 $1 2"),
        ("LRANGE b 0 -1", "*3 $1 3 $1 2 $1 1"),
        ("LMOVEM b a LEFT LEFT EXACTLY 3 BULK", "*3 $1 3 $1 2 $1 1"),
        ("EXISTS b", ":0"),
        ("LRANGE a 0 -1", "*5 $1 3 $1 2 $1 1 $1 4 $1 5"),
        ("lmovem a b right right count 2 obo", "*2 $1 5 $1 4"),
        ("LMOVEM a b RIGHT RIGHT COUNT 9 BULK", "*3 $1 3 $1 2 $1 1"),
        ("LRANGE b 0 -1", "*5 $1 5 $1 4 $1 3 $1 2 $1 1"),
        ("LMOVEM b a LEFT RIGHT EXACTLY 6 OBO", "*-1"),
        ("LMOVEM missing a LEFT RIGHT EXACTLY 1 OBO", "*-1"),
        ("LMOVEM missing a LEFT RIGHT COUNT 1 OBO", "*-1"),
        ("LMOVEM missing a LEFT RIGHT", "*-1"),
        ("EXISTS a", ":0"),
        ("LMOVEM b a LEFT RIGHT COUNT 9223372036854775807 OBO", "*5 $1 5 $1 4 $1 3 $1 2 $1 1"),
    ]);
    server.client3().expect(&[
        ("LMOVEM a a LEFT RIGHT EXACTLY 6 BULK", "_"),
        ("LMOVEM missing a LEFT RIGHT", "_"),
        ("LMOVEM a b LEFT RIGHT COUNT 2 BULK", "*2 $1 5 $1 4"),
    ]);
}

#[test]
fn within_a_list_a_block_is_rotated_or_at_the_same_end_reversed() {
    let server = TestServer::start();
    server.client().expect(&[
        ("RPUSH k a b c d", ":4"),
        ("EXPIRE k 100", ":1"),
        ("LMOVEM k k LEFT LEFT EXACTLY 2 OBO", "*2 $1 b $1 a"),
        ("LRANGE k 0 -1", "*4 $1 b $1 a $1 c $1 d"),
        ("LMOVEM k k RIGHT RIGHT COUNT 3 OBO", "*3 $1 d $1 c $1 a"),
        ("LRANGE k 0 -1", "*4 $1 b $1 d $1 c $1 a"),
        ("LMOVEM k k RIGHT RIGHT COUNT 3 BULK", "*3 $1 d $1 c $1 a"),
        ("LMOVEM k k LEFT RIGHT COUNT 3 BULK", "*3 $1 b $1 d $1 c"),
        ("LRANGE k 0 -1", "*4 $1 a $1 b $1 d $1 c"),
        ("LMOVEM k k RIGHT LEFT COUNT 1 OBO", "*1 $1 c"),
        ("LMOVEM k k LEFT RIGHT COUNT 9 OBO", "*4 $1 c $1 a $1 b $1 d"),
        ("LMOVEM k k RIGHT RIGHT COUNT 9 OBO", "*4 $1 d $1 b $1 a $1 c"),
        ("LRANGE k 0 -1", "*4 $1 d $1 b $1 a $1 c"),
        ("TTL k", ":100"),
    ]);
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_moved() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("RPUSH a 1 2 3", ":3"), ("SET s v", "+OK")]);
    const COUNT: &str = "-ERR count should be greater than 0";
    for (command, timeout) in [("LMOVEM", ""), ("BLMOVEM", " 0")] {
        for (ends, rest, error) in [
            ("LEFT RIGHT", " COUNT 0 BULK", COUNT),
            ("LEFT RIGHT", " EXACTLY 0 OBO", COUNT),
            ("LEFT RIGHT", " COUNT -1 OBO", COUNT),
            ("LEFT RIGHT", " COUNT x OBO", COUNT),
            ("LEFT RIGHT", " COUNT 9223372036854775808 OBO", COUNT),
            ("LEFT RIGHT", " COUNT 2", SYNTAX),
            ("LEFT RIGHT", " COUNT", SYNTAX),
            ("LEFT RIGHT", " COUNT 2 OBO more", SYNTAX),
            ("LEFT RIGHT", " COUNT 2 OBO EXACTLY 2 OBO", SYNTAX),
            ("LEFT RIGHT", " MANY 2 OBO", SYNTAX),
            ("LEFT RIGHT", " COUNT 2 ALL", SYNTAX),
            ("LEFT MIDDLE", " COUNT 2 OBO", SYNTAX),
            ("HEAD RIGHT", " COUNT 2 OBO", SYNTAX),
        ] {
            let request = format!("{command} a b {ends}{timeout}{rest}");
            assert_eq!(client.call(&request), error, "{request}");
        }
        for (keys, error) in [("s b", WRONG_TYPE), ("a s", WRONG_TYPE)] {
            let request = format!("{command} {keys} LEFT RIGHT{timeout} COUNT 2 BULK");
            assert_eq!(client.call(&request), error, "{request}");
        }
        assert_eq!(client.call(&format!("COMMAND GETKEYS {command} a b LEFT RIGHT{timeout}")), "*2 $1 a $1 b");
    }
    client.expect(&[
        ("LMOVEM a b LEFT", "-ERR wrong number of arguments for 'lmovem' command"),
        ("BLMOVEM a b LEFT LEFT", "-ERR wrong number of arguments for 'blmovem' command"),
        ("BLMOVEM a b LEFT LEFT x", "-ERR timeout is not a float or out of range"),
        ("BLMOVEM a b LEFT LEFT -1", "-ERR timeout is negative"),
        ("LMOVEM missing s LEFT RIGHT", "*-1"),
        ("LRANGE a 0 -1", "*3 $1 1 $1 2 $1 3"),
        ("EXISTS b", ":0"),
    ]);
}

#[test]
fn moves_in_lists_of_any_encoding_are_those_of_a_vector() {
    for size in ["-2", "3"] {
        let server = TestServer::start_with(&[("list-max-listpack-size", size)]);
        let (mut client, mut dice) = (server.client(), Dice::new(11));
        let mut lists: [Vec<String>; 2] = Default::default();
        for round in 0..1500 {
            if lists[0].len() + lists[1].len() < 6 {
                client.call(&format!("RPUSH l0 {round} e{round}"));
                lists[0].extend([round.to_string(), format!("e{round}")]);
            }
            let (from, to) = (dice.roll(2) as usize, dice.roll(2) as usize);
            let (way, count) = (WAYS[dice.roll(4) as usize], 1 + dice.roll(5) as usize);
            let (selector, order) =
                ([" COUNT", " EXACTLY"][dice.roll(2) as usize], ["OBO", "BULK"][dice.roll(2) as usize]);
            let request = format!("LMOVEM l{from} l{to} {way}{selector} {count} {order}");
            let moved = client.call(&request);
            if lists[from].is_empty() || lists[from].len() < count && selector == " EXACTLY" {
                assert_eq!(moved, "*-1", "{request}");
                continue;
            }
            let count = count.min(lists[from].len());
            let start = if way.starts_with('L') { 0 } else { lists[from].len() - count };
            let mut block: Vec<String> = lists[from].drain(start..start + count).collect();
            if order == "OBO" && (way == WAYS[0] || way == WAYS[3]) {
                block.reverse();
            }
            let shown: String = block.iter().map(|text| format!(" ${} {text}", text.len())).collect();
            assert_eq!(moved, format!("*{count}{shown}"), "{request}");
            let at = if way.ends_with("LEFT") { 0 } else { lists[to].len() };
            lists[to].splice(at..at, block);
            for (number, expected) in lists.iter().enumerate() {
                assert_eq!(&list(&mut client, &format!("l{number}")), expected, "{request}");
            }
        }
    }
}

#[test]
fn the_events_and_the_log_are_those_of_older_commands() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEA")]);
    let (mut client, mut listener) = (server.client(), server.client());
    client.call("RPUSH a 1 2 3 4");
    listener.call("PSUBSCRIBE __keyevent*");
    server.begin_log();
    for (request, events, log) in [
        ("LMOVEM a b LEFT LEFT COUNT 2 BULK", &["lpush b", "lpop a"][..], &["LPUSH b 2 1", "LPOP a 2"][..]),
        ("LMOVEM a b LEFT RIGHT", &["rpush b", "lpop a"], &["LMOVE a b LEFT RIGHT"]),
        ("LMOVEM b b LEFT LEFT EXACTLY 2 OBO", &["lpush b", "lpop b"], &["LSET b 0 2", "LSET b 1 1"]),
        ("LMOVEM b b LEFT RIGHT EXACTLY 2 OBO", &["rpush b", "lpop b"], &["RPUSH b 2 1", "LPOP b 2"]),
        ("LMOVEM b b RIGHT RIGHT EXACTLY 2 BULK", &["rpush b", "rpop b"], &["LMOVE b b RIGHT RIGHT"]),
        ("BLMOVEM a b RIGHT RIGHT 0 COUNT 5 OBO", &["rpush b", "rpop a", "del a"], &["LMOVE a b RIGHT RIGHT"]),
        ("BLMOVEM b a LEFT RIGHT 0 COUNT 5 OBO", &["rpush a", "lpop b", "del b"], &["RPUSH a 3 2 1 4", "LPOP b 4"]),
        ("LMOVEM b a LEFT RIGHT COUNT 5 OBO", &[], &[]),
    ] {
        client.call(request);
        for event in events {
            let shown = listener.reply();
            let words: Vec<&str> = shown.split(' ').collect();
            assert_eq!(format!("{} {}", &words[6][15..], words[8]), *event, "{request}: {shown}");
        }
        let logged = crate::harness::show(&server.take_log());
        let words: Vec<&str> = logged.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
        let shown = words.join(" ").replace("MULTI ", "").replace(" EXEC", "").replace("SELECT 0 ", "");
        assert_eq!(shown, log.join(" "), "{request}");
    }
}

#[test]
fn a_blocked_client_gets_its_elements_once_there_are_enough() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("RPUSH k 1");
    let mut exact = server.block("BLMOVEM k d LEFT RIGHT 0 EXACTLY 3 BULK");
    for growth in ["RPUSH k 3", "LPUSHX k 0", "LINSERT k BEFORE 3 2"] {
        client.call(growth);
        if growth.starts_with("LPUSHX") {
            assert_eq!(exact.reply(), "*3 $1 0 $1 1 $1 3", "{growth}");
            exact = server.block("BLMOVEM k d LEFT RIGHT 0 EXACTLY 1 BULK");
        }
    }
    client.expect(&[("EXISTS k", ":0"), ("RPUSH k 9", ":1")]);
    assert_eq!(exact.reply(), "*1 $1 9");
    for (before, growth) in [
        ("RPUSH k 1 3", "LINSERT k BEFORE 3 2"),
        ("RPUSH k 2 3", "LMOVE source k RIGHT LEFT"),
        ("RPUSH k 9", "SORT numbers STORE k"),
        ("RPUSH k 9", "RENAME numbers k"),
        ("RPUSH k 2 3", "LMOVEM source k RIGHT LEFT"),
    ] {
        client.expect(&[("FLUSHALL", "+OK"), ("RPUSH source 1", ":1"), ("RPUSH numbers 1 2 3", ":3")]);
        client.call(before);
        let mut waiting = server.block("BLMOVEM k d LEFT RIGHT 0 EXACTLY 3 BULK");
        client.call(growth);
        assert_eq!(waiting.reply(), "*3 $1 1 $1 2 $1 3", "{growth}");
        client.expect(&[("LRANGE d 0 -1", "*3 $1 1 $1 2 $1 3"), ("EXISTS k", ":0")]);
    }
}

#[test]
fn those_that_wait_for_fewer_elements_are_served_before_one_that_waits_for_more() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut three = server.block("BLMOVEM k d LEFT RIGHT 0 EXACTLY 3 BULK");
    let mut popping = server.block("BLPOP k 0");
    let mut any = server.block("BLMOVEM k e LEFT LEFT 0 COUNT 3 OBO");
    client.expect(&[("RPUSH k 1 2", ":2")]);
    assert_eq!([popping.reply(), any.reply()], ["*2 $1 k $1 1", "*1 $1 2"]);
    let mut next = server.block("BLMOVEM d f RIGHT RIGHT 0 COUNT 2 OBO");
    client.expect(&[("RPUSH k 3 4 5 6", ":4")]);
    assert_eq!([three.reply(), next.reply()], ["*3 $1 3 $1 4 $1 5", "*2 $1 5 $1 4"]);
    client.expect(&[("LRANGE k 0 -1", "*1 $1 6"), ("LRANGE d 0 -1", "*1 $1 3")]);
}

#[test]
fn a_wait_for_elements_ends_by_its_timeout_and_is_none_in_a_transaction_or_a_script() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("RPUSH k 1 2");
    let mut waiting = server.block("BLMOVEM k d LEFT RIGHT 1 EXACTLY 3 BULK");
    server.advance_ms(1100);
    assert_eq!(waiting.reply(), "*-1");
    let mut waiting = server.block_as(server.client3(), "BLMOVEM missing d LEFT RIGHT 1");
    server.advance_ms(1100);
    assert_eq!(waiting.reply(), "_");
    client.expect(&[
        ("MULTI", "+OK"),
        ("BLMOVEM k d LEFT RIGHT 0 EXACTLY 3 BULK", "+QUEUED"),
        ("BLMOVEM missing d LEFT RIGHT 0", "+QUEUED"),
        ("BLMOVEM k d LEFT RIGHT 0 COUNT 3 BULK", "+QUEUED"),
        ("EXEC", "*3 *-1 *-1 *2 $1 1 $1 2"),
    ]);
    #[cfg(feature = "lua")]
    client.expect(&[("EVAL return(redis.call('blmovem',KEYS[1],KEYS[2],'LEFT','LEFT',0)) 2 k d", "$-1")]);
}
