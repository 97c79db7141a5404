//! Tests of sets whose members have deadlines, against a map of the standard library.

use std::collections::BTreeMap;

use super::*;
use crate::random::Random;
use crate::store::entry::Entry;
use crate::store::limits::{PackedLimit, ValueLimits};
use crate::store::table::Hasher;
use crate::store::value::{DataType, Set};

type Model = BTreeMap<Vec<u8>, Option<i64>>;

fn check(entry: &Entry, model: &Model) {
    let set = Set::read(entry);
    assert_eq!((set.len(), set.iter().count()), (model.len(), model.len()));
    for (text, deadline) in model {
        assert_eq!(set.deadline(StoredElement::of(text)), Some(*deadline), "{}", text.escape_ascii());
    }
    assert!(set.iter().all(|item| StoredElement::of(&item.to_cow()) == item), "integers are given as such");
    let nearest = model.values().flatten().min().copied();
    match (set.nearest_deadline(), nearest) {
        (Some(bound), Some(nearest)) => assert!(bound <= nearest),
        (bound, nearest) => assert_eq!(bound, nearest),
    }
}

#[test]
fn members_have_the_deadlines_that_they_were_given_in_every_form() {
    let hasher = Hasher::new();
    for entries in [0, 30, 100_000] {
        let limits =
            ValueLimits { set: PackedLimit { entries, len: 64 }, intset_entries: 20, ..ValueLimits::default() };
        let rules = Rules::new(limits, &hasher);
        let (mut entry, mut model, mut random) = (Set::create(b"key"), Model::new(), Random::new(7));
        let (steps, range) = if cfg!(miri) { (300, 20) } else { (20_000, 90) };
        let mut now_ms = 1;
        for step in 0..steps {
            let number = random.next() % range;
            let text = if number % 2 == 0 { number.to_string() } else { format!("m{number}") }.into_bytes();
            let (member, mut set) = (StoredElement::of(&text), Set::write(&mut entry));
            match random.next() % 8 {
                0..3 => {
                    let is_new = !model.contains_key(&text);
                    assert_eq!(set.add(member, rules), is_new);
                    model.entry(text).or_default();
                }
                3 => assert_eq!(set.remove(member), model.remove(&text).is_some()),
                4..6 if model.contains_key(&text) => {
                    let deadline = now_ms + 1 + (random.next() % 50) as i64;
                    set.set_deadline(member, Some(deadline), rules);
                    model.insert(text, Some(deadline));
                }
                6 if model.contains_key(&text) => {
                    set.set_deadline(member, None, rules);
                    model.insert(text, None);
                }
                _ => {
                    now_ms += (random.next() % 6) as i64;
                    let expired = set.remove_expired(now_ms, usize::MAX);
                    let is_due = |deadline: &Option<i64>| deadline.is_some_and(|at_ms| at_ms <= now_ms);
                    assert_eq!(expired.len(), model.values().filter(|deadline| is_due(deadline)).count());
                    model.retain(|_, deadline| !is_due(deadline));
                }
            }
            if step % 100 == 0 {
                check(&entry, &model);
                check(&entry.copy(b"copy"), &model);
            }
        }
        Set::write(&mut entry).remove_expired(i64::MAX, usize::MAX);
        model.retain(|_, deadline| deadline.is_none());
        check(&entry, &model);
        assert_eq!(Set::read(&entry).encoding(), if entries > 1000 { "listpackex" } else { "hashtable" });
        assert_eq!(matches!(Set::read(&entry), SetRef::Timed(_)), entries > 1000, "a large set has left the form");
    }
}
