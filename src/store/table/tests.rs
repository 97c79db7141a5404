//! Tests of the hash table against the maps of the standard library.

use super::*;
use crate::random::Random;
use std::collections::{HashMap, HashSet};

/// A key and a value.
#[derive(Debug)]
struct Pair(Box<(Vec<u8>, Vec<u8>)>);

impl Pair {
    fn new(key: &[u8], value: &[u8]) -> Self {
        Pair(Box::new((key.to_vec(), value.to_vec())))
    }

    fn key(&self) -> &[u8] {
        &self.0.0
    }

    fn value(&self) -> &[u8] {
        &self.0.1
    }
}

impl Item for Pair {
    type Key<'k> = &'k [u8];

    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }

    fn hash(&self, hasher: &Hasher) -> u64 {
        hasher.hash_one(self.key())
    }

    fn address(&self) -> Option<*const u8> {
        Some(std::ptr::from_ref(&*self.0).cast())
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn filled(count: u32) -> (Table<Pair>, Hasher) {
    let hasher = Hasher::new();
    let mut table: Table<Pair> = Table::new(hasher.clone());
    for number in 0..count {
        table.insert(hasher.hash_one(&key(number)[..]), Pair::new(&key(number), b""));
    }
    (table, hasher)
}

#[test]
fn a_bucket_is_one_cache_line() {
    assert_eq!((size_of::<Bucket<Pair>>(), align_of::<Bucket<Pair>>()), (64, 64));
}

#[test]
fn in_a_table_with_room_for_all_items_no_bucket_is_split_and_they_are_found() {
    let hasher = Hasher::new();
    for count in [0, 1, 5, 6, 1000, 12_345] {
        let mut table: Table<Pair> = Table::new(hasher.clone());
        table.reserve(count as usize);
        let buckets = table.buckets();
        for number in 0..count {
            assert_eq!(table.insert(hasher.hash_one(&key(number)[..]), Pair::new(&key(number), b"")), None);
        }
        assert_eq!((table.buckets(), table.count()), (buckets, count as usize));
        let (grown, _) = filled(count);
        assert_eq!(table.buckets(), grown.buckets(), "no more than it would have grown to");
        assert!((0..count).all(|number| table.find(hasher.hash_one(&key(number)[..]), &key(number)).is_some()));
        if count > 0 {
            table.reserve(1_000_000); // it has items
            assert_eq!(table.buckets(), buckets);
        }
    }
}

#[test]
fn it_behaves_as_a_plain_map_while_it_grows_and_shrinks() {
    let hasher = Hasher::new();
    let mut table: Table<Pair> = Table::new(hasher.clone());
    let mut model = HashMap::new();
    let mut random = Random::new(1);
    for step in 0..200_000u32 {
        let key = key(random.below(5_000) as u32);
        let hash = hasher.hash_one(&key[..]);
        // Phases of mostly adding and mostly removing, so that buckets split and merge many times.
        let adding = (step / 20_000) % 2 == 0;
        if (random.below(10) < 8) == adding {
            if table.find(hash, &key).is_none() {
                table.insert(hash, Pair::new(&key, &step.to_le_bytes()));
                model.insert(key, step);
            }
        } else {
            assert_eq!(table.remove(hash, &key).is_some(), model.remove(&key).is_some());
        }
        assert_eq!(table.count(), model.len());
    }
    for (key, step) in &model {
        let entry = table.find(hasher.hash_one(&key[..]), key).expect("present");
        assert_eq!(entry.value(), step.to_le_bytes());
    }
}

#[test]
fn a_scan_returns_every_key_that_stays_while_the_table_grows_and_shrinks() {
    for (added, removed) in [(0, 0), (20_000, 0), (0, 1_900), (5_000, 1_000)] {
        let (mut table, hasher) = filled(2_000);
        let staying: Vec<_> = (removed..2_000).map(key).collect();
        let (mut seen, mut position, mut steps) = (HashSet::new(), Some(0), 0);
        while let Some(at) = position {
            position = table.scan(at, |entry| {
                seen.insert(entry.key().to_vec());
            });
            steps += 1;
            if steps == 100 {
                for number in 0..added {
                    let key = key(1_000_000 + number);
                    table.insert(hasher.hash_one(&key[..]), Pair::new(&key, b""));
                }
                for key in (0..removed).map(key) {
                    table.remove(hasher.hash_one(&key[..]), &key).expect("present");
                }
            }
        }
        assert!(staying.iter().all(|key| seen.contains(key)), "added {added}, removed {removed}");
    }
}

#[test]
fn the_memory_of_overflow_lists_is_counted() {
    let (mut table, hasher) = filled(50_000);
    let outside = |table: &Table<Pair>| table.chunks.iter().flatten().map(Bucket::outside).sum::<usize>();
    assert!(table.overflow > 10_000);
    assert_eq!(table.overflow, outside(&table));
    for key in (0..49_000).map(key) {
        table.remove(hasher.hash_one(&key[..]), &key).expect("present");
    }
    assert_eq!(table.overflow, outside(&table));
}

#[test]
fn keys_that_come_and_go_take_no_more_room_than_those_that_stay() {
    let (mut table, hasher) = filled(20_000);
    let filled = table.memory();
    for number in 0..200_000 {
        let (old, new) = (key(number), key(20_000 + number));
        table.remove(hasher.hash_one(&old[..]), &old).expect("present");
        table.insert(hasher.hash_one(&new[..]), Pair::new(&new, b""));
    }
    assert_eq!(table.count(), 20_000);
    assert!(table.memory() < filled * 102 / 100, "{} instead of {filled}", table.memory());
}

#[test]
fn an_emptied_table_gives_its_buckets_back() {
    let (mut table, hasher) = filled(100_000);
    let full = table.memory();
    for key in (0..100_000).map(key) {
        table.remove(hasher.hash_one(&key[..]), &key).expect("present");
    }
    assert_eq!(table.count(), 0);
    assert!(table.memory() < full / 50);
}

#[test]
fn a_small_table_has_no_more_buckets_than_it_needs() {
    let (mut table, hasher) = filled(0);
    let bucket = size_of::<Bucket<Pair>>();
    let mut allocated = Vec::new();
    for number in 0..2_000 {
        table.insert(hasher.hash_one(&key(number)[..]), Pair::new(&key(number), b""));
        let capacity = table.capacity();
        assert_eq!(capacity, table.chunks.iter().map(|chunk| chunk.len()).sum::<usize>());
        assert!(capacity < CHUNK.min(table.buckets()) + table.buckets(), "{capacity} for {}", table.buckets());
        assert!(table.memory() >= capacity * bucket + table.overflow);
        if allocated.last() != Some(&capacity) {
            allocated.push(capacity);
        }
    }
    assert_eq!(allocated[..9], [1, 2, 4, 8, 16, 32, 64, 128, 192]);
    for number in (0..2_000).rev() {
        assert!(table.find(hasher.hash_one(&key(number)[..]), &key(number)).is_some());
        table.remove(hasher.hash_one(&key(number)[..]), &key(number)).expect("present");
        assert!(table.capacity() < CHUNK.min(table.buckets()) + table.buckets());
    }
    assert_eq!((table.capacity(), table.memory()), (1, 0));
}

#[test]
fn a_scan_of_a_few_buckets_returns_every_key_that_stays() {
    for (before, after) in [(1, 300), (300, 1), (0, 0), (5, 6), (40, 20), (700, 30)] {
        for steps in 0..8 {
            let (mut table, hasher) = filled(before);
            let (mut seen, mut position) = (HashSet::new(), Some(0));
            for _ in 0..steps {
                position = position.and_then(|at| table.scan(at, |entry| assert!(seen.insert(entry.key().to_vec()))));
            }
            for key in (before..after).map(key) {
                table.insert(hasher.hash_one(&key[..]), Pair::new(&key, b""));
            }
            for key in (after..before).map(key) {
                table.remove(hasher.hash_one(&key[..]), &key).expect("present");
            }
            while let Some(at) = position {
                position = table.scan(at, |entry| assert!(seen.insert(entry.key().to_vec())));
            }
            assert!((0..before.min(after)).map(key).all(|key| seen.contains(&key)), "{before} to {after}");
        }
    }
}

#[test]
fn all_items_are_visited_once() {
    for count in [0, 1, 6, 1_000] {
        let (table, _) = filled(count);
        let expected: HashSet<Vec<u8>> = (0..count).map(key).collect();
        assert_eq!(table.iter().count(), count as usize);
        assert_eq!(table.iter().map(|entry| entry.key().to_vec()).collect::<HashSet<_>>(), expected);
    }
}

#[test]
fn every_item_is_as_likely_to_be_chosen_as_any_other() {
    const DRAWS: u32 = 200;
    let mut dice = Dice::new(99);
    assert!(filled(0).0.random(&mut dice).is_none());
    // The last count was reached from above, so the buckets are emptier.
    for (count, max) in [(1, 1), (7, 7), (64, 64), (1_000, 1_000), (400, 1_000)] {
        let (mut table, hasher) = filled(max);
        for key in (count..max).map(key) {
            table.remove(hasher.hash_one(&key[..]), &key).expect("present");
        }
        let mut chosen = HashMap::new();
        for _ in 0..DRAWS * count {
            *chosen.entry(table.random(&mut dice).expect("one").key().to_vec()).or_insert(0_u32) += 1;
        }
        let deviation = |key| f64::from(chosen.get(&key).copied().unwrap_or(0)) - f64::from(DRAWS);
        let chi_square: f64 = (0..count).map(|number| deviation(key(number)).powi(2) / f64::from(DRAWS)).sum();
        let freedom = f64::from(count - 1);
        // Six standard deviations above the mean.
        assert!(chi_square <= freedom + 6.0 * (2.0 * freedom).sqrt(), "{chi_square} for {count}");
    }
}
