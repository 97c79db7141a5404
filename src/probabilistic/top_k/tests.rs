//! Top-K against figures of RedisBloom, and damaged dumps.

use super::*;
use crate::probabilistic::testing::{Chance, Congruence, fnv};

fn add_to(bytes: &mut Vec<u8>, item: &[u8], by: u32) -> Option<Vec<u8>> {
    if !has_room(bytes, item) {
        *bytes = with_room(bytes, item.len()).expect("memory");
    }
    add(bytes, item, by)
}

fn listed(bytes: &[u8]) -> Vec<(String, u32)> {
    list(bytes).into_iter().map(|(item, count)| (String::from_utf8_lossy(item).into_owned(), count)).collect()
}

fn parts_of(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
    let items = heap_items(bytes).map(|item| [item.unwrap_or_default(), b"\0"].concat()).collect();
    (buckets(bytes).to_vec(), dumped_heap(bytes), items)
}

#[test]
fn buckets_heap_and_expelled_items_are_those_of_redisbloom() {
    // Every unit decays, so that no random number matters.
    let mut bytes = create(TopKShape { k: 5, width: 100, depth: 5, decay: 1.0 }).expect("a structure");
    let mut numbers = Congruence(42);
    let expelled: Vec<String> = (0..400)
        .map(|at| {
            let item = format!("item:{}", numbers.next() % (1 + at % 40));
            let expelled = add_to(&mut bytes, item.as_bytes(), 1 + at as u32 % 3);
            expelled.map_or("-".to_owned(), |item| String::from_utf8(item).expect("text"))
        })
        .collect();
    assert_eq!(expelled.join(","), EXPELLED);
    assert_eq!(fnv(buckets(&bytes)), 0x9dfc_ac41_06f5_ffb5);
    assert_eq!(listed(&bytes), LISTED.map(|(item, count)| (item.to_owned(), count)));
}

#[test]
fn the_most_frequent_items_are_found() {
    let mut bytes = create(TopKShape { k: 10, width: 100, depth: 5, decay: 0.9 }).expect("a structure");
    let mut chance = Chance(3);
    for _ in 0..50_000 {
        let item = if chance.below(3) == 0 { chance.below(10) } else { 10 + chance.below(5000) };
        add_to(&mut bytes, format!("item:{item}").as_bytes(), 1);
    }
    for item in 0..10 {
        let name = format!("item:{item}");
        assert!(contains(&bytes, name.as_bytes()), "{name}");
        assert!((1500..1900).contains(&count(&bytes, name.as_bytes())), "{}", count(&bytes, name.as_bytes()));
    }
}

#[test]
fn the_same_calls_have_the_same_results_after_a_dump() {
    let mut bytes = create(TopKShape { k: 4, width: 3, depth: 2, decay: 0.9 }).expect("a structure");
    let mut chance = Chance(4);
    let add_any = |bytes: &mut Vec<u8>, chance: &mut Chance| {
        let len = chance.below(30);
        let item = format!("{:len$}", chance.below(40));
        add_to(bytes, item.as_bytes(), chance.below(20) as u32)
    };
    for _ in 0..200 {
        add_any(&mut bytes, &mut chance);
    }
    let (buckets, heap, items) = parts_of(&bytes);
    let mut copy = of_parts(shape(&bytes), &buckets, &heap, &items).expect("a dump");
    for _ in 0..500 {
        let mut same = Chance(chance.0);
        assert_eq!(add_any(&mut bytes, &mut chance), add_any(&mut copy, &mut same));
    }
    assert_eq!(parts_of(&bytes), parts_of(&copy));
}

#[test]
fn items_may_be_empty_binary_and_long() {
    let mut bytes = create(TopKShape { k: 3, width: 8, depth: 7, decay: 0.9 }).expect("a structure");
    let long = vec![7; 100_000];
    for item in [&b""[..], b"a\0b", &long] {
        assert!(!contains(&bytes, item));
        assert_eq!(add_to(&mut bytes, item, 3), None);
        assert!(contains(&bytes, item) && count(&bytes, item) == 3);
    }
    let (buckets, heap, items) = parts_of(&bytes);
    let copy = of_parts(shape(&bytes), &buckets, &heap, &items).expect("a dump");
    assert_eq!(list(&copy), list(&bytes));
    // Room of items that have left is used again.
    for number in 0..100_000 {
        add_to(&mut bytes, format!("other:{number}").as_bytes(), 1000);
    }
    assert!(bytes.len() < 1_000_000);
}

#[test]
fn impossible_structures_are_refused() {
    let made = |k, width, depth| create(TopKShape { k, width, depth, decay: 0.9 }).err();
    for (k, width, depth) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
        assert_eq!(made(k, width, depth), Some(NotAllocated::Invalid));
    }
    for (k, width, depth) in [(u32::MAX, 1, 1), (1, u32::MAX, 2), (1, 1, u32::MAX), (u32::MAX, u32::MAX, u32::MAX)] {
        assert_eq!(made(k, width, depth), Some(NotAllocated::Memory));
    }
}

#[test]
fn damaged_dumps_cause_no_panic() {
    let mut bytes = create(TopKShape { k: 4, width: 3, depth: 2, decay: 0.9 }).expect("a structure");
    for number in 0..100 {
        add_to(&mut bytes, format!("{number}").as_bytes(), 5);
    }
    let (buckets, heap, items) = parts_of(&bytes);
    let mut chance = Chance(5);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut shape = shape(&bytes);
        match chance.below(6) {
            0 => shape.k = chance.next() as u32 % 9,
            1 => shape.width = chance.next() as u32 % 9,
            2 => shape.decay = f64::from_bits(chance.next()),
            _ => {}
        }
        let (buckets, heap) = (chance.damage(&buckets), chance.damage(&heap));
        let items: Vec<_> = items.iter().map(|item| chance.damage(item)).collect();
        let Some(mut copy) = of_parts(shape, &buckets, &heap, &items) else { continue };
        read += 1;
        for number in 0..5 {
            let item = format!("{number}");
            contains(&copy, item.as_bytes());
            count(&copy, item.as_bytes());
            add_to(&mut copy, item.as_bytes(), 100_000);
        }
        list(&copy);
    }
    assert!(read > 100, "{read}");
}

const EXPELLED: &str = "-,-,-,-,-,-,-,item:3,item:5,item:6,-,item:8,item:0,-,item:2,-,-,item:6,-,-,item:13,item:11,-,item:17,item:1,item:23,item:10,-,-,item:25,-,item:19,-,item:15,item:8,-,item:10,item:0,-,-,item:31,-,-,-,item:6,-,-,-,-,-,item:1,-,-,-,item:2,-,-,-,-,item:13,-,-,-,-,item:8,item:9,-,-,-,-,-,-,-,-,item:17,-,-,-,item:6,item:8,-,-,item:3,item:2,-,-,-,-,-,-,-,-,-,-,-,-,-,item:3,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,item:2,item:1,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,item:6,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,item:13,-,-,-,-,item:1,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,item:6,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,item:2,-,-,-,-,-,-,-,-,-,-,-,item:6,-,-,-,-,item:4,-,-,-,item:6,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-";
const LISTED: [(&str, u32); 5] = [("item:0", 73), ("item:2", 60), ("item:1", 58), ("item:5", 57), ("item:4", 54)];
