//! Bloom filters against figures of RedisBloom, and damaged dumps.

use super::*;
use crate::probabilistic::testing::{Chance, fnv};

fn item(number: usize) -> Vec<u8> {
    format!("item:{number}").into_bytes()
}

/// Adds an item; returns true if it was new, and `None` if there is no place for it.
fn add_to(bytes: &mut Vec<u8>, item: &[u8]) -> Option<bool> {
    loop {
        match add(bytes, item) {
            BloomAdd::Added => return Some(true),
            BloomAdd::Present => return Some(false),
            BloomAdd::Full => return None,
            BloomAdd::NeedsFilter => *bytes = grown(bytes).ok()?,
        }
    }
}

fn filter_of(shape: BloomShape, items: usize) -> Vec<u8> {
    let mut bytes = create(shape).expect("a filter");
    for number in 0..items {
        add_to(&mut bytes, &item(number));
    }
    bytes
}

const SHAPE: BloomShape = BloomShape { capacity: 100, error_rate: 0.01, expansion: 2, is_fixed: false };

#[test]
fn the_bits_are_those_of_redisbloom() {
    let bytes = filter_of(SHAPE, 1000);
    let hex: String = header(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, HEADER_OF_1000);
    let mut at = 1;
    for (next, len, hash) in CHUNKS_OF_1000 {
        let (end, chunk) =
            link_at(&bytes, at).map(|(range, _)| (at + range.len() as i64, &bytes[range])).expect("a part");
        assert_eq!((end, chunk.len(), fnv(chunk)), (*next, *len, *hash));
        at = end;
    }
    assert_eq!(chunk(&bytes, at), None);
}

#[test]
fn filters_of_all_options_grow_as_those_of_redisbloom() {
    for (options, hashes) in BY_OPTIONS {
        let capacity = if options & BITS_GIVEN == 0 { 150 } else { 10 };
        let link = BloomLink::new(capacity, 0.0005, *options).expect("a filter");
        let header = BloomHeader { size: 0, options: *options, expansion: 3 };
        let mut bytes = of_parts(header, &[(link, vec![0; link.bytes as usize])]).expect("a filter");
        for number in 0..2000 {
            add_to(&mut bytes, &item(number));
        }
        let found: Vec<u64> =
            std::iter::once(fnv(super::header(&bytes))).chain(links(&bytes).map(|(_, bits)| fnv(bits))).collect();
        assert_eq!(found, *hashes, "options {options}");
    }
}

#[test]
fn false_positives_are_within_the_rate() {
    for (error_rate, is_fixed) in [(0.1, true), (0.01, true), (0.001, true), (0.01, false), (0.001, false)] {
        let capacity = if is_fixed { 20_000 } else { 500 };
        let bytes = filter_of(BloomShape { capacity, error_rate, expansion: 2, is_fixed }, 20_000);
        assert!((0..20_000).all(|number| contains(&bytes, &item(number))));
        let wrong = (1_000_000..1_100_000).filter(|number| contains(&bytes, &item(*number))).count();
        assert!((wrong as f64) < error_rate * 1.1 * 100_000.0, "{wrong} of 100000 for {error_rate}");
    }
}

#[test]
fn a_dump_in_chunks_is_the_filter() {
    let bytes = filter_of(SHAPE, 1000);
    let mut copy = of_header(header(&bytes)).expect("a header");
    let mut at = 1;
    while let Some((next, part)) = chunk(&bytes, at) {
        load_chunk(&mut copy, next, part).expect("a chunk");
        at = next;
    }
    assert_eq!(copy, bytes);
    let parts: Vec<_> = links(&bytes).map(|(link, bits)| (link, bits.to_vec())).collect();
    assert_eq!(of_parts(BloomHeader::of(&bytes), &parts), Some(bytes));
}

#[test]
fn a_fixed_filter_is_full_and_an_endless_chain_ends() {
    let mut fixed = filter_of(BloomShape { is_fixed: true, capacity: 10, ..SHAPE }, 10);
    let refused = (10..100).filter(|number| add_to(&mut fixed, &item(*number)).is_none()).count();
    assert!(refused > 80 && filters(&fixed) == 1 && items(&fixed) == 10 && expansion(&fixed).is_none());
    let mut chain = create(BloomShape { capacity: 1, expansion: 1, ..SHAPE }).expect("a filter");
    let added = (0..3000).filter(|number| add_to(&mut chain, &item(*number)) == Some(true)).count();
    assert!((1000..1100).contains(&added) && filters(&chain) == added, "{added}");
}

#[test]
fn impossible_filters_are_refused() {
    let shape = |capacity, error_rate| create(BloomShape { capacity, error_rate, ..SHAPE }).err();
    assert_eq!(shape(0, 0.1), Some(NotAllocated::Invalid));
    for rate in [0.0, -1.0, 2.0, f64::NAN, f64::INFINITY] {
        assert_eq!(shape(1, rate), Some(NotAllocated::Invalid), "{rate}");
    }
    assert_eq!(shape(u64::MAX, 0.1), Some(NotAllocated::Memory));
    assert_eq!(shape(1 << 40, 0.1), Some(NotAllocated::Memory));
    assert_eq!(shape(1 << 30, f64::MIN_POSITIVE), Some(NotAllocated::Memory));
}

#[test]
fn damaged_dumps_cause_no_panic() {
    let bytes = filter_of(SHAPE, 300);
    let mut chance = Chance(1);
    for _ in 0..20_000 {
        let damaged = chance.damage(header(&bytes));
        let Ok(mut copy) = of_header(&damaged) else { continue };
        assert!(copy.len() as u64 <= BYTES_MAX);
        let len = chance.below(600);
        let chunk = vec![chance.next() as u8; len];
        let iterator = if chance.below(2) == 0 { chance.below(1200) as i64 } else { chance.next() as i64 };
        let _ = load_chunk(&mut copy, iterator, &chunk);
        for number in 0..5 {
            contains(&copy, &item(number));
            if copy.len() < 1 << 20 {
                add_to(&mut copy, &item(number + 1000));
            }
        }
        super::chunk(&copy, chance.next() as i64);
        super::chunk(&copy, chance.below(1200) as i64);
        capacity(&copy);
        assert!(reported_size(&copy) > 0);
    }
}

const HEADER_OF_1000: &str = "e3030000000000000400000005000000020000009000000000000000800400000000000064000000000000007b14ae47e17a743fe9862fb2350e2640080000006400000000000000003801000000000000c009000000000000c8000000000000007b14ae47e17a643f4af7d49edef0284009000000c80000000000000000b802000000000000c01500000000000090010000000000007b14ae47e17a543faa677a8b87d32b400a0000009001000000000000000006000000000000003000000000000027010000000000007b14ae47e17a443f0bd81f7830b62e400b000000200300000000000000";
const CHUNKS_OF_1000: &[(i64, usize, u64)] = &[
    (145, 144, 0x4e67_6c59_5944_fadc),
    (457, 312, 0xf7c8_eac0_6366_f982),
    (1153, 696, 0x76e5_6c76_3699_78b2),
    (2689, 1536, 0x7666_0185_ac83_dd95),
];
#[rustfmt::skip]
const BY_OPTIONS: &[(u32, &[u64])] = &[
    (0, &[0xa189_0232_b6f2_3764, 0x5b21_9a02_c4d5_7052, 0x4f23_1703_da13_a4c9, 0xfd56_ceed_c0d9_14bd]),
    (1, &[0x8569_9bec_990a_91ef, 0x10fa_3683_b30c_e63b, 0x6e7e_ec99_24ed_930d, 0xd85e_ec48_b309_3a4f, 0x075b_d7f2_ba7a_2f70]),
    (2, &[0x5394_a1b2_3b06_8656, 0xfb16_08e5_7bb6_892c]),
    (3, &[0xa97d_ad5a_03a4_63a1, 0xfb16_08e5_7bb6_892c]),
    (4, &[0xf038_e6e5_5455_00e8, 0x1e57_9862_b90b_f704, 0x6fbe_6c9a_f733_ab3e, 0x6938_b815_0a97_aa90]),
    (5, &[0xf513_5aa6_c437_0a3f, 0x37f4_330b_a0a5_d56c, 0x10f6_7311_4d8f_1d5e, 0x0c3a_1d9c_47eb_89af, 0x40cc_0d96_3b96_fa84]),
    (6, &[0x603e_17bb_9c19_4b3a, 0x95e7_1de5_9c07_4f6b]),
    (7, &[0x2202_c4a1_896f_7285, 0x95e7_1de5_9c07_4f6b]),
];
