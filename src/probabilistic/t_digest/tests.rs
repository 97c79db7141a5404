//! t-digests against figures of RedisBloom's library, and damaged dumps.

use super::*;
use crate::probabilistic::testing::{Chance, Congruence};

struct Figures {
    compression: f64,
    capacity: u32,
    compressions: i64,
    merged: u32,
    unmerged: u32,
    smallest: f64,
    largest: f64,
    quantiles: [f64; 11],
    fractions: [f64; 11],
    trimmed: [f64; 2],
    clusters: usize,
}

fn add_to(bytes: &mut Vec<u8>, mean: f64, weight: i64) -> bool {
    loop {
        match add(bytes, mean, weight) {
            DigestAdd::Added => return true,
            DigestAdd::Overflow => return false,
            DigestAdd::NeedsRoom => *bytes = with_room(bytes).expect("memory"),
        }
    }
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(1.0)
}

#[test]
fn estimates_are_those_of_redisbloom() {
    for figures in FIGURES {
        let mut bytes = create(figures.compression).expect("a digest");
        let mut numbers = Congruence(7);
        for _ in 0..5000 {
            assert!(add_to(&mut bytes, (numbers.next() % 1_000_003) as f64 / 7.0, 1));
        }
        let header = DigestHeader::of(&bytes);
        assert_eq!((header.capacity, header.compressions), (figures.capacity, figures.compressions));
        assert_eq!((header.merged, header.unmerged), (figures.merged, figures.unmerged));
        assert_eq!((header.smallest, header.largest), (figures.smallest, figures.largest));
        let clusters = Clusters::of(&bytes);
        assert_eq!(clusters.nodes.len(), figures.clusters);
        let mut walk = clusters.walk();
        for (at, quantile) in [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0].into_iter().enumerate() {
            let found = clusters.quantile(&mut walk, quantile);
            assert!(is_close(found, figures.quantiles[at]), "{quantile}: {found} {}", figures.quantiles[at]);
            let found = clusters.by_rank(quantile * 5000.0);
            assert!(is_close(found, figures.quantiles[at]), "{quantile}: {found} {}", figures.quantiles[at]);
            let found = clusters.fraction_below(quantile * 150_000.0 - 100.0);
            assert!(is_close(found, figures.fractions[at]), "{quantile}: {found} {}", figures.fractions[at]);
        }
        assert!(is_close(clusters.trimmed_mean(0.1, 0.9), figures.trimmed[0]));
        assert!(is_close(clusters.trimmed_mean(0.3, 0.35), figures.trimmed[1]));
    }
}

#[test]
fn a_digest_read_from_its_sorted_nodes_goes_on_alike() {
    let mut chance = Chance(6);
    for _ in 0..50 {
        let mut bytes = create(20.0).expect("a digest");
        for _ in 0..chance.below(400) {
            add_to(&mut bytes, chance.below(50) as f64, 1 + chance.below(3) as i64);
        }
        let mut copy = of_parts(DigestHeader::of(&bytes), &sorted_nodes(&bytes)).expect("parts");
        for _ in 0..500 {
            let mean = chance.below(50) as f64;
            add_to(&mut bytes, mean, 1);
            add_to(&mut copy, mean, 1);
        }
        assert_eq!(sorted_nodes(&bytes), sorted_nodes(&copy));
        assert_eq!(DigestHeader::of(&bytes), DigestHeader::of(&copy));
    }
}

#[test]
fn merging_and_resetting_digests() {
    let mut one = create(100.0).expect("a digest");
    let mut other = create(200.0).expect("a digest");
    for number in 0..1000 {
        add_to(&mut one, f64::from(number), 1);
        add_to(&mut other, f64::from(number + 1000), 1);
    }
    let all = merged(200.0, [&one[..], &other].into_iter()).expect("memory");
    let clusters = Clusters::of(&all);
    assert_eq!(DigestHeader::of(&all).weight(), 2000);
    assert!((clusters.by_rank(1000.0) - 1000.0).abs() < 20.0);
    reset(&mut one);
    assert_eq!(DigestHeader::of(&one), DigestHeader::of(&create(100.0).expect("a digest")));
    assert!(Clusters::of(&one).by_rank(1.0).is_nan());
}

#[test]
fn the_smallest_digests_and_extreme_values() {
    let mut bytes = create(1.0).expect("a digest");
    for number in 0..1000 {
        let mean = if number % 2 == 0 { f64::MAX } else { -f64::MAX };
        assert!(add_to(&mut bytes, mean, 1));
    }
    let clusters = Clusters::of(&bytes);
    for at in 0..=10 {
        clusters.quantile(&mut clusters.walk(), f64::from(at) / 10.0);
        clusters.fraction_below(f64::from(at));
    }
    assert!(of_parts(DigestHeader::of(&bytes), &sorted_nodes(&bytes)).is_some());
    assert!(add_to(&mut bytes, 1.0, i64::MAX - 1000));
    assert!(!add_to(&mut bytes, 1.0, 1));
    for compression in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e17] {
        assert_eq!(create(compression), Err(NotAllocated::Invalid));
    }
    assert_eq!(create(3e8), Err(NotAllocated::Memory));
}

#[test]
fn damaged_dumps_cause_no_panic() {
    let mut bytes = create(20.0).expect("a digest");
    for number in 0..300 {
        add_to(&mut bytes, f64::from(number), 1);
    }
    let mut chance = Chance(7);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut header = DigestHeader::of(&bytes);
        match chance.below(8) {
            0 => header.compression = f64::from_bits(chance.next()),
            1 => header.merged = chance.next() as u32,
            2 => header.unmerged = chance.below(50) as u32,
            3 => header.unmerged_weight = chance.next() as i64,
            4 => header.smallest = f64::from_bits(chance.next()),
            _ => {}
        }
        let mut nodes = sorted_nodes(&bytes);
        let at = chance.below(nodes.len());
        nodes[at] = (f64::from_bits(chance.next()), if chance.below(2) == 0 { chance.next() as i64 } else { 1 });
        let Some(mut copy) = of_parts(header, &nodes) else { continue };
        read += 1;
        for number in 0..300 {
            add_to(&mut copy, f64::from(number), 1);
        }
        let clusters = Clusters::of(&copy);
        clusters.fraction_below(3.0);
        clusters.trimmed_mean(0.1, 0.5);
        clusters.by_rank(5.0);
        clusters.quantile(&mut clusters.walk(), 0.5);
        let _ = merged(100.0, [&copy[..], &bytes].into_iter());
    }
    assert!(read > 1000, "{read}");
}

#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "as C prints them")]
const FIGURES: &[Figures] = &[
    Figures {
        compression: 20.0,
        capacity: 130, compressions: 45, merged: 20, unmerged: 6,
        smallest: 58.0, largest: 142842.42857142858,
        quantiles: [58.0, 361.97551020408162, 2061.7243292362145, 17848.64532166081, 37958.978468089786, 69092.994063609571, 103853.74626551641, 127232.71396984412, 141157.22835427517, 142628.1462585034, 142842.42857142858],
        fractions: [0.0, 0.0, 0.0056632504639074271, 0.082226806690265025, 0.24520279391815566, 0.54485682841512195, 0.8078421144071255, 0.94868642141241966, 1.0, 1.0, 1.0],
        trimmed: [70196.431883439203, 49040.189366351064],
        clusters: 20,
    },
    Figures {
        compression: 100.0,
        capacity: 610, compressions: 8, merged: 50, unmerged: 448,
        smallest: 58.0, largest: 142842.42857142858,
        quantiles: [58.0, 184.85714285714286, 1706.6749271137026, 14396.348788039804, 35059.404066245348, 69884.509509081981, 106085.51601956622, 127649.9797264448, 141203.42740998836, 142653.42857142858, 142842.42857142858],
        fractions: [0.0, 0.0, 0.0082620487401900058, 0.10369688110550712, 0.2664394442682001, 0.5338628486907927, 0.79678921370895828, 0.94465095073812955, 1.0, 1.0, 1.0],
        trimmed: [70336.869877080695, 44708.178916682984],
        clusters: 51,
    },
    Figures {
        compression: 500.0,
        capacity: 3010, compressions: 1, merged: 150, unmerged: 1991,
        smallest: 58.0, largest: 142842.42857142858,
        quantiles: [58.0, 207.71428571428572, 1595.054761904762, 14033.275185125884, 34949.030250958182, 69889.971954096458, 106261.09380531717, 127635.32574664016, 141212.55833333332, 142722.14285714287, 142842.42857142858],
        fractions: [0.0, 0.0, 0.0081157245974458631, 0.10694797939905759, 0.26742791922599096, 0.53508290262018721, 0.79354234084091368, 0.94384767863222352, 1.0, 1.0, 1.0],
        trimmed: [70353.948169553871, 45075.739204204481],
        clusters: 162,
    },
];
