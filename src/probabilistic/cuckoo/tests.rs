//! Cuckoo filters against figures of RedisBloom, and damaged dumps.

use super::*;
use crate::probabilistic::testing::{Chance, fnv};

fn item(number: usize) -> Vec<u8> {
    format!("item:{number}").into_bytes()
}

fn add_to(bytes: &mut Vec<u8>, item: &[u8], how: fn(&mut [u8], &[u8]) -> CuckooAdd) -> CuckooAdd {
    loop {
        match how(bytes, item) {
            CuckooAdd::NeedsFilter => *bytes = grown(bytes).expect("memory"),
            result => return result,
        }
    }
}

fn delete_from(bytes: &mut Vec<u8>, item: &[u8]) -> bool {
    let found = delete(bytes, item);
    bytes.truncate(kept(bytes));
    found
}

fn shape(capacity: u64, expansion: u16) -> CuckooShape {
    CuckooShape { capacity, bucket_size: 2, iterations: 20, expansion }
}

fn history(expansion: u16) -> Vec<u8> {
    let mut bytes = create(shape(64, expansion)).expect("a filter");
    for number in 0..500 {
        add_to(&mut bytes, &item(number), add);
    }
    for number in (0..500).step_by(3) {
        delete_from(&mut bytes, &item(number));
    }
    for number in 400..700 {
        add_to(&mut bytes, &item(number), add_new);
    }
    bytes
}

#[test]
fn the_fingerprints_are_those_of_redisbloom() {
    for (expansion, head, hashes) in HISTORIES {
        let bytes = history(*expansion);
        let hex: String = header(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, *head);
        let found: Vec<u64> = parts(&bytes).map(|(_, slots)| fnv(slots)).collect();
        assert_eq!(found, *hashes, "expansion {expansion}");
    }
}

#[test]
fn counts_are_never_too_small_and_deleted_items_leave() {
    let mut bytes = create(shape(1000, 2)).expect("a filter");
    for number in 0..300 {
        for _ in 0..=number % 3 {
            assert_eq!(add_to(&mut bytes, &item(number), add), CuckooAdd::Added);
        }
    }
    assert!((0..300).all(|number| count(&bytes, &item(number)) >= (number % 3 + 1) as u64));
    for number in 0..300 {
        for _ in 0..=number % 3 {
            assert!(delete_from(&mut bytes, &item(number)));
        }
    }
    assert_eq!((CuckooHeader::of(&bytes).items, parts(&bytes).count()), (0, 1));
    assert!((0..300).all(|number| !contains(&bytes, &item(number)) && !delete(&mut bytes, &item(number))));
}

#[test]
fn a_full_filter_is_not_changed() {
    let mut bytes = create(shape(16, 0)).expect("a filter");
    let mut full = 0;
    for number in 0..100 {
        let before = bytes.clone();
        if add(&mut bytes, &item(number)) == CuckooAdd::Full {
            full += 1;
            assert_eq!(bytes, before);
        }
    }
    assert!(full > 80);
}

#[test]
fn false_positives_are_within_the_rate() {
    let mut bytes = create(shape(1 << 14, 1)).expect("a filter");
    for number in 0..10_000 {
        add_to(&mut bytes, &item(number), add);
    }
    let filters = parts(&bytes).count();
    let wrong = (1_000_000..1_100_000).filter(|number| contains(&bytes, &item(*number))).count();
    // In each filter two buckets of two fingerprints, each one of 255.
    assert!((wrong as f64) < filters as f64 * 4.0 / 255.0 * 100_000.0, "{wrong} of 100000");
}

#[test]
fn a_dump_in_chunks_is_the_filter() {
    let bytes = history(2);
    let mut copy = of_header(header(&bytes)).expect("a header");
    let mut at = 1;
    while let Some((next, part)) = chunk(&bytes, at) {
        load_chunk(&mut copy, next, part).expect("a chunk");
        at = next;
    }
    assert_eq!(copy, bytes);
    let filters: Vec<_> = parts(&bytes).map(|(_, slots)| slots.to_vec()).collect();
    assert_eq!(of_parts(CuckooHeader::of(&bytes), &filters), Some(bytes));
}

#[test]
fn damaged_dumps_cause_no_panic() {
    let bytes = history(2);
    let mut chance = Chance(2);
    for _ in 0..20_000 {
        let damaged = chance.damage(header(&bytes));
        let Ok(mut copy) = of_header(&damaged) else { continue };
        let len = chance.below(600);
        let chunk = vec![chance.next() as u8; len];
        let iterator = if chance.below(2) == 0 { chance.below(1200) as i64 } else { chance.next() as i64 };
        let _ = load_chunk(&mut copy, iterator, &chunk);
        for number in 0..5 {
            assert!(contains(&copy, &item(number)) == (count(&copy, &item(number)) > 0));
            if copy.len() < 1 << 20 && CuckooHeader::of(&copy).filters < 40 {
                delete_from(&mut copy, &item(number));
                if add(&mut copy, &item(number)) == CuckooAdd::NeedsFilter
                    && let Ok(longer) = grown(&copy)
                {
                    copy = longer;
                }
            }
        }
        super::chunk(&copy, chance.next() as i64);
        super::chunk(&copy, chance.below(1200) as i64);
        reported_size(&copy);
    }
}

#[rustfmt::skip]
const HISTORIES: &[(u16, &str, &[u64])] = &[
    (1, "1e02000000000000200000000000000006000000000000000900000000000000020014000100", &[0x9488_bcd6_f692_e7b1, 0x5013_4ff3_6d62_3cd0, 0xaea5_847b_b38d_de4f, 0x1ca6_1270_71ad_2909, 0x0f28_522e_b039_b2b7, 0x5aac_063e_9cf8_0e46, 0x2c10_9e34_4d90_fad8, 0x62e5_bba1_4496_decd, 0x088d_6ef7_498c_3a49]),
    (2, "2d02000000000000200000000000000006000000000000000400000000000000020014000200", &[0x6efa_a10a_8d0b_699e, 0x4fd5_236f_5d69_f839, 0xcd79_c9f2_3f0f_ba12, 0xb425_4bbf_7267_a41b]),
    (4, "2e02000000000000200000000000000006000000000000000300000000000000020014000400", &[0xecc6_7d3e_0d47_fc58, 0x7465_d10a_f773_caa8, 0x1cdd_1e10_a83d_a020]),
];
