//! Tests of hashes against an ordered map of the standard library.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::store::value::Str;
use crate::store::value::big::form::LargeForm;

const LIMIT: PackedLimit = PackedLimit { entries: 8, len: 16 };

fn growth(hasher: &Hasher) -> HashGrowth<'_> {
    HashGrowth { limit: LIMIT, hasher }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The fields that have a deadline.
type Timed = BTreeMap<Vec<u8>, i64>;

fn contents(entry: &Entry) -> Model {
    let mut found = Model::new();
    Hash::read(entry).for_each(|field, value| {
        let pair = field.with(|field| value.with(|value| (field.to_vec(), value.to_vec())));
        assert!(found.insert(pair.0, pair.1).is_none(), "a field is visited once");
    });
    found
}

#[track_caller]
fn assert_is(entry: &Entry, model: &Model) {
    let hash = Hash::read(entry);
    assert_eq!(hash.len(), model.len());
    assert_eq!(Hash::is_empty(entry), model.is_empty());
    assert_eq!(contents(entry), *model);
    for (field, value) in model {
        assert_eq!(hash.get(field).map(|text| text.with(<[u8]>::to_vec)), Some(value.clone()));
    }
    if let Some(Value::Hash(big)) = entry.value() {
        assert_eq!(big.entries_memory(), big.entries().map(Entry::memory).sum::<usize>());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>),
    Keep(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Limit(Vec<u8>, Option<i64>),
    Expire(i64),
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..20_u32).prop_map(|number| format!("f{number}").into_bytes()),
        2 => (-9..9_i64).prop_map(|number| number.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..16),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        1 => (0..40_usize).prop_map(|len| vec![b'x'; len]),
        1 => Just(vec![b'y'; crate::store::value::SHARED_MIN]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (field(), value()).prop_map(|(field, value)| Step::Set(field, value)),
        1 => (field(), value()).prop_map(|(field, value)| Step::Keep(field, value)),
        1 => field().prop_map(Step::Remove),
        2 => (field(), prop::option::of(1..100_i64)).prop_map(|(field, at_ms)| Step::Limit(field, at_ms)),
        1 => (0..50_i64).prop_map(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn a_hash_is_a_map_of_strings_packed_or_not(steps in prop::collection::vec(step(), 0..60)) {
        let hasher = Hasher::new();
        let (mut entry, mut model, mut is_big) = (Hash::create(b"key"), Model::new(), false);
        let mut timed = Timed::new();
        for step in steps {
            let mut hash = Hash::write(&mut entry);
            match step {
                Step::Set(field, value) => {
                    is_big |= field.len().max(value.len()) > LIMIT.len;
                    let is_new = hash.set(&field, &value, growth(&hasher));
                    timed.remove(&field);
                    prop_assert_eq!(is_new, model.insert(field, value).is_none());
                }
                Step::Keep(field, value) => {
                    is_big |= field.len().max(value.len()) > LIMIT.len;
                    let is_new = hash.set_keeping_deadline(&field, &value, growth(&hasher));
                    prop_assert_eq!(is_new, model.insert(field, value).is_none());
                }
                Step::Remove(field) => {
                    prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                    timed.remove(&field);
                }
                Step::Limit(field, deadline) => {
                    hash.set_deadline(&field, deadline);
                    match deadline.filter(|_| model.contains_key(&field)) {
                        Some(at_ms) => drop(timed.insert(field, at_ms)),
                        None => drop(timed.remove(&field)),
                    }
                }
                Step::Expire(now_ms) => {
                    let mut expired: Vec<Vec<u8>> =
                        hash.remove_expired(now_ms, usize::MAX).into_iter().map(Vec::from).collect();
                    expired.sort();
                    let due = timed.iter().filter(|(_, at_ms)| **at_ms <= now_ms).map(|(field, _)| field.clone());
                    let due: Vec<Vec<u8>> = due.collect();
                    prop_assert_eq!(expired, due.clone());
                    for field in due {
                        model.remove(&field);
                        timed.remove(&field);
                    }
                }
            }
            for field in model.keys() {
                prop_assert_eq!(Hash::read(&entry).deadline(field), Some(timed.get(field).copied()));
            }
            let nearest = Hash::nearest_deadline(&entry);
            prop_assert_eq!(nearest.is_some(), !timed.is_empty());
            prop_assert!(nearest.is_none_or(|bound| timed.values().all(|at_ms| bound <= *at_ms)));
            is_big |= model.len() > LIMIT.entries;
            assert_is(&entry, &model);
            prop_assert_eq!(matches!(Hash::read(&entry), HashRef::Big(_)), is_big);
            prop_assert_eq!(entry.key(), b"key");
        }
        let copy = entry.copy(b"other");
        for field in model.keys() {
            prop_assert_eq!(Hash::read(&copy).deadline(field), Some(timed.get(field).copied()));
        }
        assert_is(&copy, &model);
        prop_assert_eq!(Hash::read(&copy).encoding(), Hash::read(&entry).encoding());
    }
}

fn of_size(count: usize, hasher: &Hasher) -> Entry {
    let mut entry = Hash::create(b"key");
    let mut hash = Hash::write(&mut entry);
    for number in 0..count {
        hash.set(format!("field:{number}").as_bytes(), number.to_string().as_bytes(), growth(hasher));
    }
    entry
}

#[test]
fn every_field_is_visited_by_a_scan_while_the_hash_grows_and_shrinks() {
    let hasher = Hasher::new();
    let mut entry = of_size(1000, &hasher);
    let (mut seen, mut cursor, mut added) = (std::collections::BTreeSet::new(), 0, 1000);
    loop {
        let next = Hash::read(&entry).scan(cursor, |field, _, _| {
            seen.insert(field.with(<[u8]>::to_vec));
        });
        let mut hash = Hash::write(&mut entry);
        for number in added..added + 10 {
            hash.set(format!("field:{number}").as_bytes(), b"v", growth(&hasher));
        }
        if added % 30 == 0 {
            for number in 1000..added {
                hash.remove(format!("field:{number}").as_bytes());
            }
        }
        added += 10;
        match next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    for number in 0..1000 {
        assert!(seen.contains(format!("field:{number}").as_bytes()), "{number}");
    }
}

#[test]
fn random_fields_are_equally_likely_and_samples_have_each_once() {
    let (hasher, mut dice) = (Hasher::new(), Dice::new(7));
    for count in [5, 8, 60] {
        let entry = of_size(count, &hasher);
        let hash = Hash::read(&entry);
        let mut drawn = BTreeMap::new();
        for _ in 0..count * 200 {
            let (field, value) = hash.random(&mut dice).expect("it has fields");
            assert_eq!(field.with(|field| field[6..].to_vec()), value.with(<[u8]>::to_vec));
            *drawn.entry(field.with(<[u8]>::to_vec)).or_insert(0_usize) += 1;
        }
        assert_eq!(drawn.len(), count);
        assert!(drawn.values().all(|times| (100..400).contains(times)), "{drawn:?}");
        for wanted in [0, 1, count / 4, count / 2, count] {
            let sample = hash.sample(wanted, &mut dice);
            let distinct: std::collections::BTreeSet<_> =
                sample.iter().map(|(field, _)| field.with(<[u8]>::to_vec)).collect();
            assert_eq!((sample.len(), distinct.len()), (wanted, wanted));
        }
    }
    assert!(Hash::nothing().random(&mut dice).is_none());
}

#[test]
fn a_packed_hash_keeps_the_order_of_insertion_and_a_sample_does_too() {
    let hasher = Hasher::new();
    let entry = of_size(8, &hasher);
    let mut fields = Vec::new();
    Hash::read(&entry).for_each(|field, _| fields.push(field.with(<[u8]>::to_vec)));
    assert_eq!(fields, (0..8).map(|number| format!("field:{number}").into_bytes()).collect::<Vec<_>>());
    let sample = Hash::read(&entry).sample(4, &mut Dice::new(3));
    let values: Vec<i64> = sample.iter().filter_map(|(_, value)| value.to_int()).collect();
    assert!(values.len() == 4 && values.is_sorted(), "{values:?}");
}

#[test]
fn a_big_hash_knows_its_memory_and_the_effort_of_freeing_it() {
    let hasher = Hasher::new();
    let mut entry = of_size(5000, &hasher);
    let Some(Value::Hash(big)) = entry.value() else { panic!("it is big") };
    let (empty, effort) = (big.memory() - big.entries_memory(), big.effort());
    assert!((5000 * 8..5000 * 24).contains(&empty), "{empty} bytes of table");
    assert!((5000..6000).contains(&effort), "{effort}");
    let mut hash = Hash::write(&mut entry);
    hash.set(b"long", &vec![b'x'; 1 << 20], growth(&hasher));
    (0..5000).for_each(|number| assert!(hash.remove(format!("field:{number}").as_bytes())));
    let Some(Value::Hash(big)) = entry.value() else { panic!("it stays big") };
    assert!(big.effort() >= 256 && big.memory() > 1 << 20);
    assert!(matches!(big.get(b"long").map(|entry| entry.string()), Some(Str::Shared(_))));
}
