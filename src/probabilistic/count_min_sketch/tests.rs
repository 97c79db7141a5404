//! Count-min sketches against figures of RedisBloom.

use super::*;
use crate::probabilistic::testing::fnv;

#[test]
fn the_counters_are_those_of_redisbloom() {
    let mut bytes = create(50, 5).expect("a sketch");
    for number in 0..300u64 {
        increase(&mut bytes, format!("item:{}", number % 70).as_bytes(), number);
    }
    assert_eq!((total(&bytes), fnv(counters(&bytes))), (44850, 0x3ed0_6a76_25d0_7015));
    assert_eq!(of_parts(50, 5, total(&bytes) as u64, counters(&bytes)), Some(bytes));
}

#[test]
fn dimensions_are_those_of_redisbloom() {
    for (error, probability, width, depth) in DIMENSIONS {
        assert_eq!(dimensions(*error, *probability), (*width, *depth), "{error} {probability}");
    }
}

#[test]
fn counts_are_within_the_error() {
    let (width, depth) = dimensions(0.01, 0.01);
    let mut bytes = create(width, depth).expect("a sketch");
    for number in 0..2000u64 {
        increase(&mut bytes, format!("item:{number}").as_bytes(), number % 10);
    }
    let most = total(&bytes) as f64 * 0.01;
    let count_of = |number| u64::from(count(&bytes, format!("item:{number}").as_bytes()));
    assert!((0..2000).all(|number| count_of(number) >= number % 10));
    let wrong = (0..2000).filter(|number| count_of(*number) as f64 > (number % 10) as f64 + most).count();
    assert!(wrong <= 20, "{wrong} of 2000");
}

#[test]
fn counters_stop_at_their_maximum() {
    let mut bytes = create(5, 2).expect("a sketch");
    assert_eq!(increase(&mut bytes, b"a", u64::from(u32::MAX) - 1), u32::MAX - 1);
    assert_eq!(increase(&mut bytes, b"a", 5), u32::MAX);
    assert_eq!(increase(&mut bytes, b"a", i64::MAX as u64), u32::MAX);
    assert!(total(&bytes) < 0);
}

#[test]
fn sums_are_weighted_and_do_not_overflow() {
    let mut one = create(20, 3).expect("a sketch");
    let mut other = one.clone();
    increase(&mut one, b"a", 3);
    increase(&mut other, b"a", 4);
    let merged_with = |weight, other_weight| merged(&[(&one, weight), (&other, other_weight)]).expect("memory");
    let sum = merged_with(2, -1).expect("a sum");
    assert_eq!((count(&sum, b"a"), total(&sum)), (2, 2));
    for (weight, other_weight) in [(-1, 0), (1, -1), (i64::MAX, 1), (i64::MIN, i64::MIN), (1 << 40, 0)] {
        assert_eq!(merged_with(weight, other_weight), None, "{weight} {other_weight}");
    }
}

#[test]
fn impossible_sketches_are_refused() {
    for (width, depth) in [(0, 1), (1, 0)] {
        assert_eq!(create(width, depth), Err(NotAllocated::Invalid));
    }
    for (width, depth) in [(u64::MAX, 2), (1 << 40, 1), (1, 1 << 40), (u64::MAX, u64::MAX)] {
        assert_eq!(create(width, depth), Err(NotAllocated::Memory));
        assert_eq!(of_parts(width, depth, 0, &[0; 8]), None);
    }
    assert_eq!(of_parts(2, 2, 0, &[0; 12]), None);
    assert_eq!(of_parts(0, 0, 0, &[]), None);
}

#[rustfmt::skip]
const DIMENSIONS: &[(f64, f64, u64, u64)] = &[
    (0.1, 0.1, 20, 4), (0.1, 0.01, 20, 7), (0.1, 0.001, 20, 10), (0.1, 0.3, 20, 2), (0.1, 0.0002, 20, 13), (0.01, 0.1, 200, 4), (0.01, 0.01, 200, 7), (0.01, 0.001, 200, 10), (0.01, 0.3, 200, 2), (0.01, 0.0002, 200, 13), (0.001, 0.1, 2000, 4), (0.001, 0.01, 2000, 7), (0.001, 0.001, 2000, 10), (0.001, 0.3, 2000, 2), (0.001, 0.0002, 2000, 13), (0.3, 0.1, 7, 4), (0.3, 0.01, 7, 7), (0.3, 0.001, 7, 10), (0.3, 0.3, 7, 2), (0.3, 0.0002, 7, 13), (0.0002, 0.1, 10000, 4), (0.0002, 0.01, 10000, 7), (0.0002, 0.001, 10000, 10), (0.0002, 0.3, 10000, 2), (0.0002, 0.0002, 10000, 13),
];
