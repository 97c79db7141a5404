//! Patterns and names that are long, or made of characters that are special in patterns.

use super::oracle::Arena;
use crate::harness::Dice;

/// Number of names, and number of patterns that each is compared with.
const NAMES: usize = 40;
const PATTERNS: usize = 25;

/// Components of long patterns: nearly all of them match most of the bytes of a name of `a`.
const NEAR_MISSES: &[&[u8]] = &[
    b"a",
    b"aaaa",
    b"?",
    b"??",
    b"[a-c]",
    b"[^b]",
    b"[^^-`]",
    b"\\a",
    b"[\\a]",
    b"b",
    b"[b-cd-ef-gh-ij-kl-mn-op-qr-st-uv-wx-ya-a]",
];

fn some_of(dice: &mut Dice, words: &[&[u8]], count: u64) -> Vec<u8> {
    (0..count).flat_map(|_| words[dice.roll(words.len() as u64) as usize].to_vec()).collect()
}

#[test]
fn names_match_patterns_as_in_redis_whatever_their_length() {
    let Some(arena) = Arena::open() else { return };
    let (mut pair, mut dice) = (arena.pair(), Dice::new(1));
    let special: Vec<&[u8]> = b"[]^-\\***???aAbB\x80\xff\0".chunks(1).collect();
    let mut matched = [0; 2];
    for number in 0..NAMES {
        let is_long = number % 2 == 1;
        let mut name =
            if is_long { b"a".repeat(1 + dice.roll(3000) as usize) } else { some_of(&mut dice, &special, 6) };
        for _ in 0..dice.roll(4) {
            let at = dice.roll(name.len() as u64) as usize;
            name[at] = b'b';
        }
        pair.call(&[b"FLUSHALL"]);
        pair.call(&[&b"SET"[..], &name, b"v"]);
        for _ in 0..PATTERNS {
            let pattern = if is_long {
                let (len, ending) = (1 + dice.roll(60), 1 + dice.roll(4));
                let ending = [b"*", &some_of(&mut dice, NEAR_MISSES, ending)[..]].concat();
                let ending = [&ending[..], b"*", b"*b*", b""][dice.roll(4) as usize];
                [b"*", &some_of(&mut dice, NEAR_MISSES, len)[..], ending].concat()
            } else {
                let len = 1 + dice.roll(8);
                some_of(&mut dice, &special, len)
            };
            let replies = pair.call(&[&b"KEYS"[..], &pattern]);
            assert_eq!(replies.keylatch, replies.redis, "{} on {}", pattern.escape_ascii(), name.escape_ascii());
            matched[usize::from(is_long)] += usize::from(replies.redis.is_some_and(|reply| !reply.starts_with(b"*0")));
        }
    }
    assert!(matched.iter().all(|count| *count >= 20), "{matched:?}");
}
