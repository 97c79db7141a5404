//! ZMOVE, BZMOVE and ZMOVEMEMBER.

use std::collections::BTreeMap;

use super::SYNTAX;
use crate::harness::{Client, Dice, TestServer};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn members_with_the_lowest_or_highest_scores_are_moved_with_their_scores() {
    let server = TestServer::start();
    server.client().expect(&[
        ("ZADD a 1 x 2 y 3 z 4 w 5 v", ":5"),
        ("EXPIRE a 100", ":1"),
        ("ZADD b 9 y", ":1"),
        ("EXPIRE b 200", ":1"),
        ("ZMOVE a b MIN", "*1 *2 $1 x $1 1"),
        ("zmove a b min count 1", "*1 *2 $1 y $1 2"),
        ("ZRANGE b 0 -1 WITHSCORES", "*4 $1 x $1 1 $1 y $1 2"),
        ("ZMOVE a new MAX COUNT 2", "*2 *2 $1 v $1 5 *2 $1 w $1 4"),
        ("TTL new", ":-1"),
        ("TTL a", ":100"),
        ("ZMOVE a b MAX COUNT 9", "*1 *2 $1 z $1 3"),
        ("EXISTS a", ":0"),
        ("TTL b", ":200"),
        ("ZMOVE a b MAX COUNT 9", "*-1"),
        ("ZMOVE b b MAX", "*-1"),
        ("ZCARD b", ":3"),
    ]);
    server.client3().expect(&[
        ("ZMOVE b c MIN", "*1 *2 $1 x ,1"),
        ("ZMOVE missing c MIN", "_"),
        ("ZMOVE b b MIN", "_"),
    ]);
}

#[test]
fn members_with_scores_in_a_range_are_moved_from_the_lowest_on() {
    let server = TestServer::start();
    server.client().expect(&[
        ("ZADD a 1 a 2 b 3 c 4 d inf e", ":5"),
        ("ZMOVE a b BYSCORE (1 3", "*2 *2 $1 b $1 2 *2 $1 c $1 3"),
        ("ZMOVE a b byscore 2 3", "*-1"),
        ("ZMOVE a b BYSCORE 3 2", "*-1"),
        ("ZMOVE a b BYSCORE -inf +inf COUNT 2", "*2 *2 $1 a $1 1 *2 $1 d $1 4"),
        ("ZMOVE a b BYSCORE -inf +inf COUNT 9223372036854775807", "*1 *2 $1 e $3 inf"),
        ("EXISTS a", ":0"),
        ("ZRANGE b 0 -1", "*5 $1 a $1 b $1 c $1 d $1 e"),
    ]);
}

#[test]
fn named_members_are_moved_once_each_if_the_destination_has_them_or_not() {
    let server = TestServer::start();
    server.client().expect(&[
        ("ZADD a 1 a 2 b 3 c 4 d 5 e", ":5"),
        ("ZADD b 9 b 9 c", ":2"),
        ("ZMOVEMEMBER a b MEMBERS 4 c none a c", "*2 *2 $1 c $1 3 *2 $1 a $1 1"),
        ("ZRANGE b 0 -1 WITHSCORES", "*6 $1 a $1 1 $1 c $1 3 $1 b $1 9"),
        ("ZMOVEMEMBER a b NX MEMBERS 2 b d", "*1 *2 $1 d $1 4"),
        ("ZMOVEMEMBER a b xx members 2 b e", "*1 *2 $1 b $1 2"),
        ("ZMOVEMEMBER a b XX MEMBERS 1 e", "*-1"),
        ("ZMOVEMEMBER a new XX MEMBERS 1 e", "*-1"),
        ("EXISTS new", ":0"),
        ("ZMOVEMEMBER a a MEMBERS 1 e", "*-1"),
        ("ZMOVEMEMBER a new NX MEMBERS 1 e", "*1 *2 $1 e $1 5"),
        ("EXISTS a", ":0"),
        ("ZMOVEMEMBER a new MEMBERS 1 e", "*-1"),
    ]);
    server
        .client3()
        .expect(&[("ZMOVEMEMBER new a MEMBERS 1 e", "*1 *2 $1 e ,5"), ("ZMOVEMEMBER a b MEMBERS 1 no", "_")]);
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_moved() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("ZADD a 1 x", ":1"), ("SET s v", "+OK")]);
    const COUNT: &str = "-ERR count should be greater than 0";
    const MEMBERS: &str = "-ERR num-members should be greater than 0";
    const NUMBER: &str = "-ERR The `num-members` parameter must match the number of arguments";
    for (request, error) in [
        ("ZMOVE a b", "-ERR wrong number of arguments for 'zmove' command"),
        ("ZMOVE a b MIDDLE", SYNTAX),
        ("ZMOVE a b MIN COUNT", SYNTAX),
        ("ZMOVE a b MIN 1", SYNTAX),
        ("ZMOVE a b MIN COUNT 1 more", SYNTAX),
        ("ZMOVE a b MIN COUNT 0", COUNT),
        ("ZMOVE a b MIN COUNT -1", COUNT),
        ("ZMOVE a b MIN COUNT x", COUNT),
        ("ZMOVE a b BYSCORE 1", SYNTAX),
        ("ZMOVE a b BYSCORE 1 x", "-ERR min or max is not a float"),
        ("ZMOVE a b BYSCORE 1 2 COUNT 0", COUNT),
        ("ZMOVE a b BYSCORE 1 2 MIN", SYNTAX),
        ("ZMOVE s b MIN", WRONG_TYPE),
        ("ZMOVE s s MIN", WRONG_TYPE),
        ("ZMOVE a s MIN", WRONG_TYPE),
        ("ZMOVE a s BYSCORE 5 6", WRONG_TYPE),
        ("ZMOVE missing s MIN", "*-1"),
        ("BZMOVE a b MIN", "-ERR wrong number of arguments for 'bzmove' command"),
        ("BZMOVE a b BYSCORE 1 2", SYNTAX),
        ("BZMOVE a b MIN x", "-ERR timeout is not a float or out of range"),
        ("BZMOVE a b MIN -1", "-ERR timeout is negative"),
        ("BZMOVE a b MIN 0 COUNT 0", COUNT),
        ("BZMOVE a b MIN 0 COUNT", SYNTAX),
        ("BZMOVE s b MIN 0", WRONG_TYPE),
        ("BZMOVE a s MIN 0", WRONG_TYPE),
        ("BZMOVE s s MIN 0", WRONG_TYPE),
        ("ZMOVEMEMBER a b MEMBERS 1", "-ERR wrong number of arguments for 'zmovemember' command"),
        ("ZMOVEMEMBER a b MEMBERS 0 x", MEMBERS),
        ("ZMOVEMEMBER a b MEMBERS -1 x", MEMBERS),
        ("ZMOVEMEMBER a b MEMBERS y x", MEMBERS),
        ("ZMOVEMEMBER a b MEMBERS 2 x", NUMBER),
        ("ZMOVEMEMBER a b MEMBERS 1 x y", NUMBER),
        ("ZMOVEMEMBER a b MEMBERS 9223372036854775807 x", NUMBER),
        ("ZMOVEMEMBER a b NX XX MEMBERS 1 x", SYNTAX),
        ("ZMOVEMEMBER a b GT MEMBERS 1 x", SYNTAX),
        ("ZMOVEMEMBER s b MEMBERS 1 x", WRONG_TYPE),
        ("ZMOVEMEMBER a s MEMBERS 1 x", WRONG_TYPE),
        ("ZMOVEMEMBER a s MEMBERS 1 none", WRONG_TYPE),
        ("ZMOVEMEMBER missing s MEMBERS 1 x", "*-1"),
        ("COMMAND GETKEYS ZMOVE a b MIN", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS BZMOVE a b MIN 0", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS ZMOVEMEMBER a b MEMBERS 1 x", "*2 $1 a $1 b"),
        ("ZRANGE a 0 -1 WITHSCORES", "*2 $1 x $1 1"),
        ("EXISTS b", ":0"),
    ] {
        assert_eq!(client.call(request), error, "{request}");
    }
}

/// Returns the scores of the members of a key.
fn scores(client: &mut Client, key: &str) -> BTreeMap<String, i64> {
    let shown = client.call(&format!("ZRANGE {key} 0 -1 WITHSCORES"));
    let words: Vec<&str> = shown.split(' ').skip(2).step_by(2).collect();
    words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a score"))).collect()
}

#[test]
fn moves_between_sorted_sets_of_any_encoding_are_those_of_maps() {
    for entries in ["128", "3"] {
        let server = TestServer::start_with(&[("zset-max-listpack-entries", entries)]);
        let (mut client, mut dice) = (server.client(), Dice::new(31));
        let mut sets: [BTreeMap<String, i64>; 2] = Default::default();
        for _ in 0..800 {
            let (member, score) = (format!("m{}", dice.roll(12)), dice.roll(6) as i64);
            client.call(&format!("ZADD z0 {score} {member}"));
            sets[0].insert(member, score);
            let (from, to) = [(0, 1), (1, 0)][dice.roll(2) as usize];
            let mut sorted: Vec<(i64, String)> =
                sets[from].iter().map(|(member, score)| (*score, member.clone())).collect();
            sorted.sort();
            let count = 1 + dice.roll(4) as usize;
            let (low, high) = (dice.roll(6) as i64, dice.roll(6) as i64);
            let (words, moved): (String, Vec<_>) = match dice.roll(5) {
                0 => (format!("ZMOVE z{from} z{to} MIN COUNT {count}"), sorted.into_iter().take(count).collect()),
                1 => (format!("ZMOVE z{from} z{to} MAX COUNT {count}"), sorted.into_iter().rev().take(count).collect()),
                2 => {
                    let within = sorted.into_iter().filter(|(score, _)| (low..=high).contains(score));
                    (format!("ZMOVE z{from} z{to} BYSCORE {low} {high} COUNT {count}"), within.take(count).collect())
                }
                kind => {
                    let names = [format!("m{low}"), format!("m{high}"), format!("m{low}")];
                    let condition = ["NX ", "XX "][kind as usize - 3];
                    let mut found: Vec<(i64, String)> = names
                        .iter()
                        .take(if low == high { 1 } else { 2 })
                        .filter(|name| sets[to].contains_key(*name) == (kind == 4))
                        .filter_map(|name| sets[from].get(name).map(|score| (*score, name.clone())))
                        .collect();
                    found.dedup();
                    (format!("ZMOVEMEMBER z{from} z{to} {condition}MEMBERS 3 {}", names.join(" ")), found)
                }
            };
            let shown: String =
                moved.iter().map(|(score, name)| format!(" *2 ${} {name} $1 {score}", name.len())).collect();
            let expected = if moved.is_empty() { "*-1".to_owned() } else { format!("*{}{shown}", moved.len()) };
            assert_eq!(client.call(&words), expected, "{words}");
            for (score, member) in moved {
                sets[from].remove(&member);
                sets[to].insert(member, score);
            }
            for (number, expected) in sets.iter().enumerate() {
                assert_eq!(&scores(&mut client, &format!("z{number}")), expected, "{words}");
            }
        }
    }
}

#[test]
fn the_events_and_the_log_are_those_of_older_commands() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEA")]);
    let (mut client, mut listener) = (server.client(), server.client());
    client.call("ZADD a 1 a 2 b 3 c 4 d 5 e");
    listener.call("PSUBSCRIBE __keyevent*");
    server.begin_log();
    for (request, events, log) in [
        ("ZMOVE a b MIN COUNT 2", &["zpopmin a", "zadd b"][..], &["ZREMRANGEBYRANK a 0 1", "ZADD b 1 a 2 b"][..]),
        ("ZMOVE a b MAX", &["zpopmax a", "zadd b"], &["ZREMRANGEBYRANK a 2 2", "ZADD b 5 e"]),
        ("ZMOVE a b BYSCORE 3 3", &["zrem a", "zadd b"], &["ZREMRANGEBYRANK a 0 0", "ZADD b 3 c"]),
        ("ZMOVE a b BYSCORE 3 3", &[], &[]),
        ("BZMOVE a b MIN 0", &["zpopmin a", "del a", "zadd b"], &["ZREMRANGEBYRANK a 0 0", "ZADD b 4 d"]),
        ("ZMOVEMEMBER b a MEMBERS 3 a none e", &["zrem b", "zadd a"], &["ZREM b a e", "ZADD a 1 a 5 e"]),
        ("ZMOVEMEMBER b a XX MEMBERS 1 b", &[], &[]),
        ("set c v", &["set c"], &["set c v"]),
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
fn a_blocked_client_gets_members_of_the_source_alone() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut first = server.block("BZMOVE a b MIN 0 COUNT 2");
    let mut second = server.block("BZMOVE a c MAX 0");
    client.expect(&[("ZADD b 9 x", ":1"), ("SET a v", "+OK"), ("DEL a", ":1"), ("INFO none", "$0 ")]);
    client.expect(&[("ZADD a 1 x 2 y 3 z", ":3")]);
    assert_eq!([first.reply(), second.reply()], ["*2 *2 $1 x $1 1 *2 $1 y $1 2", "*1 *2 $1 z $1 3"]);
    client.expect(&[("EXISTS a", ":0"), ("ZRANGE b 0 -1 WITHSCORES", "*4 $1 x $1 1 $1 y $1 2")]);
    // What a client is given may serve the next one.
    let mut next = server.block("BZMOVE d e MIN 0");
    let mut before = server.block("BZMOVE a d MIN 0");
    client.expect(&[("ZADD a 7 m", ":1")]);
    assert_eq!([before.reply(), next.reply()], ["*1 *2 $1 m $1 7", "*1 *2 $1 m $1 7"]);
    let mut refused = server.block("BZMOVE a s MIN 0");
    client.expect(&[("SET s v", "+OK"), ("ZADD a 7 m", ":1")]);
    assert_eq!(refused.reply(), WRONG_TYPE);
    client.expect(&[("ZCARD a", ":1"), ("ZCARD e", ":1")]);
}

#[test]
fn a_wait_for_members_ends_by_its_timeout_and_is_none_in_a_transaction_a_script_or_for_one_key() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut waiting = server.block("BZMOVE a b MIN 1");
    server.advance_ms(1100);
    assert_eq!(waiting.reply(), "*-1");
    let mut waiting = server.block_as(server.client3(), "BZMOVE a b MIN 1");
    server.advance_ms(1100);
    assert_eq!(waiting.reply(), "_");
    client.expect(&[
        ("BZMOVE a a MIN 0", "*-1"),
        ("ZADD k 1 x", ":1"),
        ("BZMOVE k k MIN 0", "*-1"),
        ("MULTI", "+OK"),
        ("BZMOVE a b MIN 0", "+QUEUED"),
        ("BZMOVE k b MIN 0", "+QUEUED"),
        ("EXEC", "*2 *-1 *1 *2 $1 x $1 1"),
    ]);
    #[cfg(feature = "lua")]
    client.expect(&[
        ("EVAL return(redis.call('bzmove',KEYS[1],KEYS[2],'MIN',0)) 2 a b", "$-1"),
        ("EVAL return(redis.call('zmove',KEYS[1],KEYS[2],'MIN')) 2 b a", "*1 *2 $1 x $1 1"),
    ]);
}

#[test]
fn both_keys_need_permission() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("ACL SETUSER u on nopass +@all %RW~a %W~b %R~c", "+OK"),
        ("ZADD a 1 x 2 y", ":2"),
        ("ZADD b 1 z", ":1"),
        ("AUTH u any", "+OK"),
        ("ZMOVE a b MIN", "*1 *2 $1 x $1 1"),
    ]);
    for request in ["ZMOVE a c MIN", "ZMOVE b a MIN", "BZMOVE c a MIN 0", "ZMOVEMEMBER c a MEMBERS 1 x"] {
        assert!(client.call(request).starts_with("-NOPERM"), "{request}");
    }
}
