//! Commands on large collections choose the cheapest algorithm; the replies are the same with each.

use std::collections::BTreeSet;

use crate::harness::{Client, Dice, TestServer};

/// Returns the elements of an array in order.
fn elements(client: &mut Client, words: &str) -> Vec<String> {
    let reply = client.call(words);
    let bulks = reply.split('$').skip(1).map(|bulk| bulk.trim_matches([' ', ',', '[', ']']));
    bulks.map(|bulk| bulk.split_once(' ').map_or(bulk, |(_, text)| text).to_owned()).collect()
}

fn members(client: &mut Client, words: &str) -> Vec<String> {
    let mut members = elements(client, words);
    members.sort();
    members
}

/// Covers differences with few large sets, looked up for every member of the first one, and with many small ones, whose
/// members are looked up in it.
#[test]
fn a_difference_is_the_same_whichever_set_is_asked() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(7));
    let name = |number: u64| if number.is_multiple_of(3) { format!("{number}") } else { format!("member:{number}") };
    let add = |client: &mut Client, key: &str, numbers: &[u64]| {
        let members: Vec<String> = numbers.iter().map(|number| name(*number)).collect();
        let scored: Vec<String> = members.iter().map(|member| format!("1 {member}")).collect();
        client.call(&format!("SADD s{key} {}", members.join(" ")));
        client.call(&format!("ZADD z{key} {}", scored.join(" ")));
    };
    for (first, others, size) in [(2_000, 3, 1_500), (2_000, 200, 2), (200, 1, 2_000), (50, 60, 1), (5, 9, 1)] {
        client.call("FLUSHALL");
        let mut left: BTreeSet<u64> = (0..first).collect();
        add(&mut client, "0", &left.iter().copied().collect::<Vec<_>>());
        for other in 1..=others {
            let numbers: Vec<u64> = (0..size).map(|_| dice.roll(2 * first)).collect();
            add(&mut client, &other.to_string(), &numbers);
            numbers.iter().for_each(|number| _ = left.remove(number));
        }
        let mut expected: Vec<String> = left.into_iter().map(name).collect();
        expected.sort();
        let keys = |kind: &str| (0..=others).map(|key| format!("{kind}{key}")).collect::<Vec<_>>().join(" ");
        let (sets, sorted_sets, count) = (keys("s"), keys("z"), others + 1);
        assert_eq!(members(&mut client, &format!("SDIFF {sets}")), expected);
        assert_eq!(members(&mut client, &format!("ZDIFF {count} {sorted_sets}")), expected);
        assert_eq!(members(&mut client, &format!("ZDIFF {count} z0 {}", &sets[3..])), expected);
        client.call(&format!("SDIFFSTORE result {sets}"));
        assert_eq!(members(&mut client, "SMEMBERS result"), expected);
        client.call(&format!("ZDIFFSTORE result {count} {sorted_sets}"));
        assert_eq!(members(&mut client, "ZRANGE result 0 -1"), expected);
    }
}

#[test]
fn sort_with_a_limit_returns_that_part_of_all() {
    let server = TestServer::start();
    let (mut client, mut dice) = (server.client(), Dice::new(11));
    for len in [1, 2, 150, 1_000] {
        let numbers: Vec<String> = (0..len).map(|_| dice.roll(300).to_string()).collect();
        client.call(&format!("RPUSH list {}", numbers.join(" ")));
        client.call(&format!("SADD set {}", numbers.join(" ")));
        for key in ["list", "set"] {
            for options in ["", "DESC", "ALPHA", "ALPHA DESC", "BY missing_*", "ALPHA BY missing_*", "GET #"] {
                let sorted = elements(&mut client, &format!("SORT {key} {options}"));
                for (offset, count) in [(0, 1), (0, 10), (0, len), (5, 3), (60, 200), (len - 1, 5), (len, 1), (3, 0)] {
                    let part: Vec<_> = sorted.iter().skip(offset).take(count).cloned().collect();
                    let words = format!("SORT_RO {key} LIMIT {offset} {count} {options}");
                    assert_eq!(elements(&mut client, &words), part, "{words} of {len}");
                }
            }
        }
        client.call("DEL list set");
    }
}
