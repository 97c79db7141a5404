//! Stories about HyperLogLogs, and their bytes after long sequences of random elements and random damage.

use std::fmt::Write;

use super::oracle::{Arena, Pair, Replies};
use super::script::{Differences, spell, tell};
use crate::harness::{Dice, encode};

#[test]
fn elements_are_added_counted_and_merged_as_redis_does() {
    tell("stories", STORIES);
}

#[test]
fn strings_that_are_no_sketches_are_refused_as_redis_does() {
    tell("strangers", STRANGERS);
}

#[test]
fn changes_of_sketches_are_noticed_by_the_transactions_that_redis_stops() {
    tell("watches", WATCHES);
}

/// Sends a call to both servers, and records differing replies.
fn compare(pair: &mut Pair, args: &[Vec<u8>], found: &mut Differences, about: &str) {
    check(&pair.call(args), args, found, about);
}

/// Records the replies to a call if they differ.
fn check(replies: &Replies, args: &[Vec<u8>], found: &mut Differences, about: &str) {
    if !replies.agree() {
        let mut call = spell(args);
        call.truncate(2_000);
        found.add(&format!("{about}\n{call}"), replies);
    }
}

fn call(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn the_bytes_of_a_growing_sketch_are_those_of_redis_at_every_limit_of_the_sparse_form() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut dice = Dice::new(14);
    let mut pair = arena.pair();
    for limit in ["0", "18", "20", "21", "100", "500", "3000", "8000", "20000"] {
        arena.flush();
        compare(&mut pair, &call(&["CONFIG", "SET", "hll-sparse-max-bytes", limit]), &mut found, "");
        for round in 0..150 {
            let key = ["a", "b", "c"][dice.roll(3) as usize];
            let mut add = call(&["PFADD", key]);
            for _ in 0..dice.roll(1 + 20 * (round / 30)) {
                let len = dice.roll(20);
                add.push((0..len).map(|_| dice.roll(256) as u8).collect());
            }
            let about = format!("round {round} with hll-sparse-max-bytes {limit}");
            compare(&mut pair, &add, &mut found, &about);
            if dice.roll(3) == 0 {
                compare(&mut pair, &call(&["PFCOUNT", key]), &mut found, &about);
            }
            if dice.roll(8) == 0 {
                compare(&mut pair, &call(&["PFMERGE", "d", "a", key]), &mut found, &about);
                compare(&mut pair, &call(&["GET", "d"]), &mut found, &about);
                compare(&mut pair, &call(&["PFCOUNT", "d"]), &mut found, &about);
                compare(&mut pair, &call(&["PFCOUNT", "a", "d", key]), &mut found, &about);
            }
            compare(&mut pair, &call(&["GET", key]), &mut found, &about);
        }
        for key in ["a", "b", "c", "d"] {
            for words in [["PFDEBUG", "DECODE", key], ["PFDEBUG", "ENCODING", key], ["PFDEBUG", "GETREG", key]] {
                compare(&mut pair, &call(&words), &mut found, limit);
            }
        }
    }
    found.report();
}

#[test]
fn estimates_are_those_of_redis_up_to_a_million_elements() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut pair = arena.pair();
    for batch in 0..1_000 {
        let mut add = call(&["PFADD", "k"]);
        add.extend((0..1_000).map(|at| (batch * 1_000 + at).to_string().into_bytes()));
        compare(&mut pair, &add, &mut found, "");
        if batch % 10 == 0 {
            compare(&mut pair, &call(&["PFCOUNT", "k"]), &mut found, &format!("after {batch} thousand"));
        }
    }
    compare(&mut pair, &call(&["GET", "k"]), &mut found, "at the end");
    found.report();
}

/// Calls on every damaged sketch, each followed by a check of the result.
const CALLS: &[&[&str]] = &[
    &["PFDEBUG", "ENCODING", "k"],
    &["PFDEBUG", "DECODE", "k"],
    &["PFCOUNT", "k"],
    &["PFCOUNT", "k", "good"],
    &["PFADD", "k"],
    &["PFADD", "k", "a"],
    &["GET", "k"],
    &["PFADD", "k", "b", "c", "d", "e", "f", "g", "h", "i", "j"],
    &["GET", "k"],
    &["PFCOUNT", "k"],
    &["PFMERGE", "m", "k"],
    &["PFMERGE", "m", "good", "k"],
    &["GET", "m"],
    &["PFMERGE", "k", "good"],
    &["GET", "k"],
    &["PFCOUNT", "k", "m"],
    &["PFDEBUG", "TODENSE", "k"],
    &["GET", "k"],
    &["PFDEBUG", "GETREG", "k"],
    &["GET", "k"],
];

#[test]
fn damaged_sketches_are_refused_or_used_as_redis_does() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut dice = Dice::new(1_702);
    let mut pair = arena.pair();
    pair.speak(3);
    for round in 0..3_000 {
        let sketch = damaged(&mut dice);
        let mut about = format!("round {round}: ");
        let _ = write!(about, "{}", sketch[..sketch.len().min(100)].escape_ascii());
        let mut calls = vec![call(&["DEL", "m"]), call(&["PFADD", "good", "x", &(round % 50).to_string()])];
        calls.push(vec![b"SET".to_vec(), b"k".to_vec(), sketch]);
        calls.extend(CALLS.iter().map(|words| call(words)));
        pair.send(&calls.iter().flat_map(|args| encode(args)).collect::<Vec<u8>>());
        for args in &calls {
            check(&pair.replies(), args, &mut found, &about);
        }
    }
    found.report();
}

/// Generates a damaged sketch: random runs that nearly add up, a dense sketch of random bytes, or a wrong header.
fn damaged(dice: &mut Dice) -> Vec<u8> {
    let mut sketch = b"HYLL\x01\0\0\0".to_vec();
    sketch.extend([dice.roll(3) as u8, 0, 0, 0, 0, 0, 0, [0, 0x80, 0x81, 0x7f][dice.roll(4) as usize]]);
    if dice.roll(20) == 0 {
        sketch[4] = 0;
        let mask = [0xff, 0x11, 0x00, 0xdb][dice.roll(4) as usize];
        sketch.extend((0..12_288).map(|_| dice.roll(256) as u8 & mask));
        if dice.roll(4) == 0 {
            sketch[16..].fill([0xff, 0x00, 0xcf, 0x33][dice.roll(4) as usize]);
        }
    } else {
        let mut left = 16_384;
        while left > 0 && dice.roll(60) > 0 {
            let run = match dice.roll(4) {
                0 => 1 + dice.roll(64).min(left - 1),
                1 => 1 + dice.roll(5_000).min(left - 1),
                _ => 1 + dice.roll(4).min(left - 1),
            };
            let short = run <= 4 && dice.roll(5) > 0;
            match run - 1 {
                last if short => sketch.push(0x80 | (dice.roll(32) as u8) << 2 | last as u8),
                last if run <= 64 => sketch.push(last as u8),
                last => sketch.extend([0x40 | (last >> 8) as u8, last as u8]),
            }
            left -= run;
        }
        if left > 0 && dice.roll(4) > 0 {
            sketch.extend([0x40 | ((left - 1) >> 8) as u8, (left - 1) as u8]);
        }
        if dice.roll(6) == 0 {
            sketch.push([0x80, 0xff, 0x00, 0x3f][dice.roll(4) as usize]);
        }
    }
    for _ in 0..[0, 0, 0, 1, 2][dice.roll(5) as usize] {
        let at = dice.roll(sketch.len() as u64) as usize;
        sketch[at] = dice.roll(256) as u8;
    }
    if dice.roll(30) == 0 {
        sketch.truncate(dice.roll(sketch.len() as u64) as usize);
    }
    if ends_in_half_a_run(&sketch) {
        sketch.push(0); // see the table of deviations
    }
    sketch
}

fn ends_in_half_a_run(sketch: &[u8]) -> bool {
    let mut at = 16;
    while at < sketch.len() {
        at += if sketch[at] >> 6 == 1 { 2 } else { 1 };
    }
    at > sketch.len().max(16)
}

const STORIES: &str = r#"
    PFADD k
    GET k
    TYPE k
    STRLEN k
    PFADD k
    PFADD k a b c
    PFADD k a b c
    PFADD k c d
    GET k
    PFCOUNT k
    GET k
    PFCOUNT k
    PFADD k a
    GET k
    PFADD k e
    GET k
    PFADD k ""
    PFADD k "" "\x00" "\r\n\xff" 12345678 123456789 1234567 "sixteen bytes ok"
    GET k
    PFCOUNT k

    PFADD a 1 2 3
    PFADD b 3 4 5
    PFCOUNT a b
    PFCOUNT a b missing
    PFCOUNT a a
    PFCOUNT missing
    PFCOUNT missing missing2
    GET a
    PFMERGE d a b
    GET d
    PFCOUNT d
    PFMERGE d
    GET d
    PFMERGE d d
    PFMERGE new
    GET new
    PFMERGE new2 missing
    GET new2
    PFMERGE a b missing
    GET a
    SET t v PXAT 4102444800000
    DEL t
    PFADD t 1
    PEXPIREAT t 4102444800000
    PFADD t 2
    PFCOUNT t
    PFMERGE t a
    PFMERGE t missing
    PFDEBUG TODENSE t
    PFADD t c d
    PEXPIRETIME t

    PFADD k 1 2 3
    PFDEBUG ENCODING k
    PFDEBUG encoding k
    PFDEBUG DECODE k
    PFDEBUG TODENSE k
    PFDEBUG TODENSE k
    PFDEBUG ENCODING k
    PFDEBUG DECODE k
    GET k
    PFADD k 1 2 3
    PFADD k 4 5
    PFCOUNT k
    GET k
    PFADD k 4 5
    GET k
    PFADD l 1 9
    PFMERGE l k
    PFDEBUG ENCODING l
    GET l
    PFADD m 1
    PFDEBUG GETREG m
    PFDEBUG ENCODING m
    GET m
    PFADD n 7
    PFMERGE k n
    PFDEBUG ENCODING n
    PFCOUNT k n l
    PFDEBUG FOO k
    PFDEBUG "FOO\x00BAR" k
    PFDEBUG "a\r\nb" k
    PFDEBUG "" k
    PFDEBUG GETREG missing
    PFDEBUG FOO missing
    PFDEBUG GETREG k x
    PFDEBUG GETREG
    PFDEBUG
    PFSELFTEST
    PFSELFTEST x
    PFADD
    PFCOUNT
    PFMERGE

    CONFIG GET hll-sparse-max-bytes
    CONFIG SET hll-sparse-max-bytes -1
    CONFIG SET hll-sparse-max-bytes x
    CONFIG SET hll-sparse-max-bytes 1kb
    CONFIG GET hll-sparse-max-bytes
    CONFIG SET hll-sparse-max-bytes 9223372036854775807
    CONFIG SET hll-sparse-max-bytes 9223372036854775808
    CONFIG SET hll-sparse-max-bytes 0
    PFADD k a
    PFDEBUG ENCODING k
    PFADD l
    PFDEBUG ENCODING l
    PFMERGE m k l
    PFDEBUG ENCODING m
    CONFIG SET hll-sparse-max-bytes 3000

    PFADD k a b c
    GET k
    SET travelled "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x60\xf3\x80\x50\xb1\x84\x4b\xfb\x80\x42\x5a"
    PFCOUNT travelled
    PFADD travelled a c
    PFCOUNT travelled k

    CONFIG SET hll-sparse-max-bytes 20
    PFADD k
    PFDEBUG ENCODING k
    PFADD k a
    PFDEBUG ENCODING k
    STRLEN k
    CONFIG SET hll-sparse-max-bytes 3000
    PFADD l a
    PFDEBUG ENCODING l
    STRLEN l
"#;

const STRANGERS: &str = r#"
    SET k ""
    PFADD k
    PFADD k a
    PFCOUNT k
    PFCOUNT k missing
    PFMERGE k
    PFMERGE x k
    PFDEBUG ENCODING k
    PFDEBUG FOO k
    SET n 12345
    PFADD n a
    PFCOUNT n
    PFCOUNT missing n
    PFMERGE n
    PFDEBUG GETREG n
    EXISTS x
    SET k "a string that is long enough to have a header"
    PFADD k a
    PFCOUNT k k
    PFMERGE x missing k

    SET k HYLL
    PFADD k a
    SET k "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    PFADD k a
    PFCOUNT k
    SET k "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    PFADD k
    PFCOUNT k
    PFADD k a
    PFCOUNT k k
    PFMERGE k
    PFMERGE x k
    PFDEBUG DECODE k
    PFDEBUG TODENSE k
    PFDEBUG GETREG k
    PFDEBUG ENCODING k
    EXISTS x
    SET k "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"
    PFCOUNT k
    SET k "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFCOUNT k
    SET k "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFCOUNT k
    SET k "hyll\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFCOUNT k
    SET k "HYLL\x01\x01\x02\x03\x07\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFCOUNT k
    PFADD k a
    PFDEBUG TODENSE k
    GET k

    # Runs behind the last register. Redis refuses them all since CVE-2025-32023 was mended, which Debian's 7.0.15 has.
    SET k "HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x80\x7f\xff\x80"
    PFCOUNT k
    PFCOUNT k k
    PFADD k a
    GET k
    PFMERGE x k
    GET x
    PFDEBUG DECODE k
    PFDEBUG TODENSE k
    PFCOUNT k
    SET k "HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x80\x7f\xff\x00"
    PFCOUNT k
    PFCOUNT k k
    PFADD k a
    PFMERGE x k
    PFDEBUG TODENSE k

    # What is added before the damage is met stays.
    SET k "HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x5f\xff"
    PFADD k a b c d e f g h
    GET k
    PFADD k a
    PFDEBUG DECODE k

    # A run cut in half.
    SET k "HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x80\x3f\x3f\x3f\x3e\x7f"
    PFCOUNT k
    PFCOUNT k k
    PFMERGE x k
    GET x
    PFDEBUG DECODE k
    PFDEBUG GETREG k
"#;

const WATCHES: &str = r#"
    PFADD k a
    PFCOUNT k
    WATCH k
    b: PFADD k a
    b: PFADD k
    b: PFCOUNT k
    b: PFCOUNT k k
    b: PFMERGE other k
    b: PFDEBUG ENCODING k
    b: PFDEBUG DECODE k
    MULTI
    EXEC

    PFADD k a
    WATCH k
    b: PFCOUNT k
    MULTI
    EXEC

    PFADD k a
    WATCH k
    b: PFMERGE k
    MULTI
    EXEC

    PFADD k a
    WATCH k
    b: PFADD k b
    MULTI
    EXEC

    WATCH k
    b: PFADD k
    MULTI
    EXEC
"#;
