//! All combinations of options, where testing them all is cheap.

use super::oracle::Arena;
use super::script::{Differences, spell, words};

/// States of the key before each combination.
const STATES: &[&str] = &["DEL k", "SET k old", "SET k old PXAT 4102444800000", "SET k old PXAT 1"];

/// Commands that check the key after each combination.
const LOOKS: &[&str] = &["GET k", "PTTL k"];

#[test]
fn set_takes_and_refuses_the_options_that_redis_does_in_any_order() {
    let options = [
        "NX",
        "XX",
        "GET",
        "KEEPTTL",
        "EX 77000000",
        "PX 77000000000",
        "EXAT 4102444800",
        "PXAT 4102444800001",
        "PXAT 1",
        "EX 0",
        "EX x",
        "EX",
        "PERSIST",
        "FOO",
    ];
    compare(sequences(&options, 3).map(|options| format!("SET k new {options}")));
}

#[test]
fn getex_takes_and_refuses_the_options_that_redis_does_in_any_order() {
    let options = [
        "PERSIST",
        "EX 77000000",
        "PX 77000000000",
        "EXAT 4102444800",
        "PXAT 4102444800001",
        "PXAT 1",
        "PX -1",
        "EX x",
        "PX",
        "KEEPTTL",
        "NX",
        "GET",
        "FOO",
    ];
    compare(sequences(&options, 2).map(|options| format!("GETEX k {options}")));
}

#[test]
fn the_expire_family_takes_and_refuses_the_options_that_redis_does_in_any_order() {
    let options = ["NX", "XX", "GT", "LT", "gt", "FOO"];
    let calls = ["EXPIRE k 77000000", "PEXPIRE k 99000000000", "EXPIREAT k 4102444800", "PEXPIREAT k 4102444800001"];
    let odd_calls =
        ["EXPIREAT k 4102444799", "EXPIRE k -1", "PEXPIREAT k 1", "EXPIRE k x", "EXPIRE k 9223372036854775807"];
    let all = calls.into_iter().chain(odd_calls);
    compare(all.flat_map(|call| sequences(&options, 3).map(move |options| format!("{call} {options}"))));
}

#[test]
fn lcs_takes_and_refuses_the_options_that_redis_does_in_any_order() {
    let options =
        ["LEN", "IDX", "MINMATCHLEN 2", "MINMATCHLEN -1", "MINMATCHLEN x", "MINMATCHLEN", "WITHMATCHLEN", "FOO"];
    compare(sequences(&options, 3).map(|options| format!("LCS k k {options}")));
}

#[test]
fn scan_takes_and_refuses_the_options_that_redis_does_in_any_order() {
    let options = ["MATCH k", "MATCH x*", "COUNT 100", "COUNT 0", "COUNT x", "TYPE string", "TYPE hash", "FOO"];
    let truncated = ["SCAN 0 TYPE", "SCAN 0 COUNT 5 TYPE", "SCAN 0 MATCH", "SCAN 0 COUNT"].map(str::to_owned);
    compare(sequences(&options, 3).map(|options| format!("SCAN 0 {options}")).chain(truncated));
}

#[test]
fn parts_of_strings_are_cut_as_redis_cuts_them_at_every_boundary() {
    let starts = ["-9223372036854775808", "-5", "-4", "-3", "-2", "-1", "0", "1", "2", "3", "4", "9223372036854775807"];
    // An end before the string's first byte is handled differently since Redis 8.
    let ends = &starts[3..];
    let calls = starts.iter().flat_map(|start| ends.iter().map(move |end| format!("GETRANGE k {start} {end}")));
    compare(calls);
}

#[test]
fn bits_are_counted_and_found_between_all_the_boundaries_that_redis_knows() {
    let ends = ["-9223372036854775808", "-25", "-24", "-9", "-3", "-1", "0", "2", "3", "7", "8", "23", "24", "99", "x"];
    let mut calls = vec!["BITCOUNT k 0 1 FOO".to_owned(), "BITPOS k 1 0 1 FOO".to_owned()];
    for call in ["BITCOUNT k", "BITPOS k 0", "BITPOS k 1", "BITPOS k 2"] {
        for start in ends {
            calls.push(format!("{call} {start}"));
            for end in ends {
                calls.extend(["", "BYTE", "BIT"].map(|unit| format!("{call} {start} {end} {unit}")));
            }
        }
    }
    // Since Redis 7.2, arguments are checked before a missing key is looked up.
    compare_in(&["SET k old", "SET k old PXAT 4102444800000"], calls.into_iter());
}

#[test]
fn fields_of_every_kind_take_the_numbers_that_those_of_redis_take() {
    let kinds = ["i1", "i2", "i8", "i33", "i62", "i63", "i64", "u1", "u2", "u8", "u33", "u62", "u63"];
    let offsets = ["0", "3", "#1", "21"];
    let numbers = [
        "0",
        "1",
        "-1",
        "2",
        "127",
        "128",
        "-128",
        "-129",
        "256",
        "4611686018427387904",
        "-4611686018427387905",
        "9223372036854775807",
        "-9223372036854775808",
    ];
    let mut calls = Vec::new();
    for kind in kinds {
        for offset in offsets {
            for number in numbers {
                for overflow in ["WRAP", "SAT", "FAIL"] {
                    let field = format!("{kind} {offset}");
                    calls.push(format!(
                        "BITFIELD k OVERFLOW {overflow} INCRBY {field} {number} GET {field} SET {field} {number} \
                         GET {field} INCRBY {field} {number} GET u63 0"
                    ));
                }
            }
        }
    }
    compare(calls.into_iter());
}

/// Returns every sequence of up to `len` options, including repetitions.
fn sequences(options: &[&str], len: usize) -> impl Iterator<Item = String> {
    let mut all = vec![String::new()];
    let mut longest = all.clone();
    for _ in 0..len {
        longest = longest
            .iter()
            .flat_map(|start| options.iter().map(move |option| format!("{start} {option}").trim_start().to_owned()))
            .collect();
        all.extend(longest.iter().cloned());
    }
    all.into_iter()
}

/// Makes each call in each state, in RESP2 and RESP3, and compares its effect.
#[track_caller]
fn compare(calls: impl Iterator<Item = String>) {
    compare_in(STATES, calls);
}

#[track_caller]
fn compare_in(states: &[&str], calls: impl Iterator<Item = String>) {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut pairs = [arena.pair(), arena.pair()];
    pairs[1].speak(3);
    for (number, call) in calls.enumerate() {
        let pair = &mut pairs[number % 2];
        for state in states {
            let lines: Vec<&str> = [*state, &call].into_iter().chain(LOOKS.iter().copied()).collect();
            let batch: Vec<Vec<Vec<u8>>> = lines.iter().map(|line| words(line)).collect();
            let bytes: Vec<u8> = batch.iter().flat_map(|args| crate::harness::encode(args)).collect();
            pair.send(&bytes);
            for at in 0..batch.len() {
                let replies = pair.replies();
                if !replies.agree() {
                    let told: Vec<String> = batch[..=at].iter().map(|args| spell(args)).collect();
                    found.add(&told.join("\n"), &replies);
                }
            }
        }
    }
    found.report();
}
