//! Tests of intsets against a `BTreeSet`, against bytes made by Redis, and against damaged bytes.

use std::collections::BTreeSet;

use super::{IntSet, IntSetMut};
use crate::random::Random;

/// Checks every way to read a set.
fn assert_same(set: IntSet<'_>, model: &BTreeSet<i64>) {
    assert!(set.iter().eq(model.iter().copied()), "{set:?}");
    assert!(set.iter().rev().eq(model.iter().rev().copied()), "{set:?}");
    assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
    assert_eq!((set.min(), set.max()), (model.first().copied(), model.last().copied()));
    assert_eq!(IntSet::validate(set.bytes()).is_some(), !model.is_empty(), "{set:?}");
}

#[test]
fn random_edits_agree_with_a_tree() {
    for (seed, bits) in [(1, 6), (2, 15), (3, 16), (4, 17), (5, 31), (6, 32), (7, 33), (8, 63), (9, 9), (10, 12)] {
        let mut random = Random::new(seed);
        let mut set = IntSetMut::new(IntSet::EMPTY.bytes().to_vec());
        let mut model = BTreeSet::new();
        for round in 0..1500 {
            // The width grows in the course of the edits.
            let bits = if round < 500 { bits.min(9) } else { bits };
            let int = random.next().cast_signed() >> (63 - bits);
            if random.below(3) > 0 {
                assert_eq!(set.add(int), model.insert(int), "{int}");
            } else {
                assert_eq!(set.remove(int), model.remove(&int), "{int}");
            }
            let other = int.wrapping_add(1);
            assert_eq!(set.as_set().contains(other), model.contains(&other), "{other}");
            assert_same(set.as_set(), &model);
        }
    }
}

#[test]
fn the_width_grows_at_the_limits_of_integers_and_stays() {
    let limits = [
        (2, i64::from(i16::MIN), i64::from(i16::MAX)),
        (4, i64::from(i32::MIN), i64::from(i32::MAX)),
        (8, i64::MIN, i64::MAX),
    ];
    for negative_first in [false, true] {
        let mut set = IntSetMut::new(IntSet::EMPTY.bytes().to_vec());
        let mut model = BTreeSet::new();
        for (width, min, max) in limits {
            for int in if negative_first { [min, max] } else { [max, min] } {
                assert!(set.add(int) && model.insert(int));
                assert_eq!(set.as_set().bytes()[..4], [width, 0, 0, 0]);
                assert_same(set.as_set(), &model);
            }
        }
        for int in model.clone() {
            assert!(set.remove(int) && model.remove(&int));
            assert_same(set.as_set(), &model);
            assert!(!set.remove(int));
        }
        assert_eq!(set.as_set().bytes(), [8, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn the_bytes_are_those_of_redis() {
    let mut set = IntSetMut::new(IntSet::EMPTY.bytes().to_vec());
    assert!([1, 2, 3, -5].iter().all(|int| set.add(*int)));
    assert_eq!(set.as_set().bytes(), b"\x02\0\0\0\x04\0\0\0\xfb\xff\x01\0\x02\0\x03\0");
    set.add(100_000);
    let four = b"\x04\0\0\0\x05\0\0\0\xfb\xff\xff\xff\x01\0\0\0\x02\0\0\0\x03\0\0\0\xa0\x86\x01\0";
    assert_eq!(set.as_set().bytes(), four);
    set.add(-5_000_000_000);
    let eight = b"\x08\0\0\0\x06\0\0\0\0\x0e\xfa\xd5\xfe\xff\xff\xff\xfb\xff\xff\xff\xff\xff\xff\xff\
        \x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\xa0\x86\x01\0\0\0\0\0";
    assert_eq!(set.as_set().bytes(), eight);
}

#[test]
fn damaged_bytes_are_refused() {
    for bytes in [
        &b""[..],
        b"\x02\0\0\0\x01\0\0",
        b"\x02\0\0\0\0\0\0\0",               // empty
        b"\x02\0\0\0\x01\0\0\0\x01",         // too short
        b"\x02\0\0\0\x01\0\0\0\x01\0\0",     // too long
        b"\x03\0\0\0\x01\0\0\0\x01\0\0",     // no such width
        b"\0\0\0\0\x01\0\0\0",               // no such width
        b"\x02\x01\0\0\x01\0\0\0\x01\0",     // no such width
        b"\x02\0\0\0\x02\0\0\0\x02\0\x01\0", // descending
        b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0", // twice the same
        b"\x02\0\0\0\x02\0\0\0\0\0\xff\xff", // signed
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x08\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
    ] {
        assert!(IntSet::validate(bytes).is_none(), "{bytes:?}");
    }
    assert!(IntSet::validate(b"\x02\0\0\0\x02\0\0\0\xff\xff\0\0").is_some());
    // Integers that would fit into a smaller width are valid.
    assert!(IntSet::validate(b"\x04\0\0\0\x01\0\0\0\x01\0\0\0").is_some());
}

#[test]
fn whatever_is_accepted_is_a_set() {
    let mut random = Random::new(77);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut set = IntSetMut::new(IntSet::EMPTY.bytes().to_vec());
        let bits = [8, 20, 40][random.below(3)];
        for _ in 0..random.below(8) {
            set.add(random.next().cast_signed() >> (63 - bits));
        }
        let mut bytes = set.as_set().bytes().to_vec();
        for _ in 0..=random.below(2) {
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() + 1)),
                1 => bytes.push(random.next() as u8),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            }
        }
        if let Some(set) = IntSet::validate(&bytes) {
            accepted += 1;
            assert_same(set, &set.iter().collect());
            assert!(set.iter().all(|int| set.contains(int)));
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
