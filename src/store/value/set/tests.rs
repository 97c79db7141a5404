//! Tests of sets in every encoding against a set of the standard library.

use std::collections::BTreeSet;

use super::*;
use crate::store::usage::Dice;
use crate::store::value::big::form::LargeForm;

type Model = BTreeSet<Vec<u8>>;

fn limits(entries: usize, len: usize, ints: usize) -> ValueLimits {
    ValueLimits { set: PackedLimit { entries, len }, intset_entries: ints, ..ValueLimits::default() }
}

fn text(item: StoredElement<'_>) -> Vec<u8> {
    item.to_cow().into_owned()
}

fn texts(entry: &Entry) -> Vec<Vec<u8>> {
    Set::read(entry).iter().map(text).collect()
}

/// Returns a set to which members were added one by one, as by SADD with one member each.
fn set_of<'a>(members: impl IntoIterator<Item = &'a [u8]>, rules: Rules<'_>) -> Entry {
    let mut entry = Set::create(b"key");
    for member in members {
        let mut set = Set::write(&mut entry);
        if set.as_ref().len() == 0 {
            set.start(StoredElement::of(member), 1, rules);
        }
        assert!(set.add(StoredElement::of(member), rules));
    }
    entry
}

/// Returns texts that are integers of all widths, near-integers, and names of several lengths.
fn member(number: usize) -> Vec<u8> {
    let int = match number % 5 {
        0 => number as i64,
        1 => -(number as i64) << 20,
        2 => i64::MAX - number as i64,
        _ => return if number % 5 == 3 { format!("0{number}") } else { format!("{number:0>40}:") }.into_bytes(),
    };
    int.to_string().into_bytes()
}

fn check(entry: &Entry, model: &Model) {
    let set = Set::read(entry);
    assert_eq!(set.len(), model.len());
    assert_eq!(Set::is_empty(entry), model.is_empty());
    let members = texts(entry);
    assert_eq!(members.len(), model.len());
    assert_eq!(members.into_iter().collect::<Model>(), *model);
    assert!(set.iter().all(|item| StoredElement::of(&text(item)) == item), "integers are given as such");
}

#[test]
fn a_set_behaves_as_a_plain_one_in_every_form() {
    let hasher = Hasher::new();
    let (steps, range) = if cfg!(miri) { (300, 60) } else { (20_000, 900) };
    let mut dice = Dice::new(7);
    for limits in [limits(0, 64, 0), limits(16, 64, 8), limits(10_000, 64, 10_000), limits(40, 20, 700)] {
        let rules = Rules::new(limits, &hasher);
        let (mut entry, mut model) = (Set::create(b"key"), Model::new());
        let mut memory_max = 0;
        for step in 0..steps {
            // The set grows, shrinks to nothing, and grows again.
            let (is_growing, number) = (step / (steps / 4) % 2 == 0, dice.below(range));
            let member = member(number);
            let mut set = Set::write(&mut entry);
            if is_growing {
                assert_eq!(set.add(StoredElement::of(&member), rules), model.insert(member));
            } else {
                assert_eq!(set.remove(StoredElement::of(&member)), model.remove(&member));
            }
            memory_max = memory_max.max(entry.memory());
            if step % 97 == 0 {
                check(&entry, &model);
                let probe = self::member(dice.below(range));
                assert_eq!(Set::read(&entry).contains(StoredElement::of(&probe)), model.contains(&probe));
                check(&entry.copy(b"other"), &model);
            }
        }
        for number in 0..range {
            let member = member(number);
            assert_eq!(Set::write(&mut entry).remove(StoredElement::of(&member)), model.remove(&member));
        }
        check(&entry, &model);
        assert!(entry.memory() * 2 < memory_max, "an emptied set gives its memory back");
    }
}

#[test]
fn the_memory_of_a_table_is_that_of_its_buckets_and_members() {
    let hasher = Hasher::new();
    let rules = Rules::new(limits(0, 0, 0), &hasher);
    let names: Vec<Vec<u8>> = (0..500).map(member).collect();
    let mut entry = set_of(names.iter().map(Vec::as_slice), rules);
    let full = entry.memory();
    assert!(full > 500 * 8 + names.iter().map(Vec::len).sum::<usize>() / 2);
    for name in &names[..499] {
        Set::write(&mut entry).remove(StoredElement::of(name));
    }
    let SetRef::Big(big) = Set::read(&entry) else { panic!("a table stays one") };
    assert_eq!((big.len(), big.effort()), (1, 2));
    assert!(big.memory() < 200, "{}", big.memory());
}

#[test]
fn the_first_member_and_the_limits_decide_the_encoding() {
    let hasher = Hasher::new();
    let rules = Rules::new(limits(4, 6, 8), &hasher);
    let encoding = |members: &[&str]| {
        let entry = set_of(members.iter().map(|member| member.as_bytes()), rules);
        check(&entry, &members.iter().map(|member| member.as_bytes().to_vec()).collect());
        Set::read(&entry).encoding()
    };
    assert_eq!(encoding(&["1", "2", "3", "4", "5", "6", "7", "8"]), "intset");
    assert_eq!(encoding(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]), "hashtable");
    assert_eq!(encoding(&["1", "2", "3", "a"]), "listpack");
    assert_eq!(encoding(&["1", "2", "3", "4", "a"]), "hashtable");
    assert_eq!(encoding(&["1", "1234567", "a"]), "hashtable");
    assert_eq!(encoding(&["1", "-99999", "a"]), "listpack");
    assert_eq!(encoding(&["1", "1234567"]), "intset");
    assert_eq!(encoding(&["a", "1", "2", "3"]), "listpack");
    assert_eq!(encoding(&["a", "1", "2", "3", "4"]), "hashtable");
    assert_eq!(encoding(&["abcdef"]), "listpack");
    assert_eq!(encoding(&["abcdefg"]), "hashtable");
    assert_eq!(encoding(&["a", "1234567"]), "hashtable");
}

#[test]
fn the_number_of_members_announced_decides_too() {
    let hasher = Hasher::new();
    let rules = Rules::new(limits(4, 6, 8), &hasher);
    let started = |first: &[u8], count| {
        let mut entry = Set::create(b"key");
        Set::write(&mut entry).start(StoredElement::of(first), count, rules);
        Set::read(&entry).encoding()
    };
    assert_eq!((started(b"1", 8), started(b"1", 9), started(b"a", 4), started(b"a", 5)), {
        ("intset", "hashtable", "listpack", "hashtable")
    });
    let expecting = |members: &[&str], count| {
        let mut entry = set_of(members.iter().map(|member| member.as_bytes()), rules);
        Set::write(&mut entry).expect(count, rules);
        Set::read(&entry).encoding()
    };
    assert_eq!((expecting(&["1"], 8), expecting(&["1"], 9)), ("intset", "hashtable"));
    assert_eq!((expecting(&["a"], 4), expecting(&["a"], 5)), ("listpack", "hashtable"));
}

#[test]
fn what_holds_only_integers_can_become_an_intset_again() {
    let hasher = Hasher::new();
    for (entries, ints, members, encoding) in [
        (0, 4, &["3", "-1", "99999999999"][..], "intset"),
        (9, 4, &["3", "2"], "intset"),
        (9, 4, &["3", "2", "1", "0", "-1"], "listpack"),
        (0, 4, &["3", "x"], "hashtable"),
        (9, 4, &["3", "01"], "listpack"),
    ] {
        let rules = Rules::new(limits(entries, 9999, ints), &hasher);
        let mut entry = Set::draft(b"key", Packing::Listpack, None);
        let mut set = Set::write(&mut entry);
        members.iter().for_each(|member| assert!(set.add(StoredElement::of(member.as_bytes()), rules)));
        set.shrink_to_ints(rules);
        assert_eq!(set.as_ref().encoding(), encoding, "{members:?}");
        check(&entry, &members.iter().map(|member| member.as_bytes().to_vec()).collect());
    }
}

/// Limits, and a function that returns texts.
type Form = (ValueLimits, fn(usize) -> Vec<u8>);

/// The encodings of a set: intset, listpack, table.
fn forms() -> [Form; 3] {
    let int = |number: usize| (number as i64 * 1000 - 5000).to_string().into_bytes();
    [(limits(500, 64, 500), int), (limits(500, 64, 0), member), (limits(0, 0, 0), member)]
}

#[test]
fn random_members_are_members_and_each_is_chosen_about_as_often() {
    let (hasher, mut dice) = (Hasher::new(), Dice::new(3));
    let (members, rounds) = if cfg!(miri) { (5, 20) } else { (50, 20_000) };
    for (limits, member) in forms() {
        let names: Model = (0..members).map(member).collect();
        let entry = set_of(names.iter().map(Vec::as_slice), Rules::new(limits, &hasher));
        let set = Set::read(&entry);
        for count in [0, 1, 2, members / 2, members - 1, members, members + 1, usize::MAX] {
            let mut chosen = Vec::new();
            set.sample(count, &mut dice, |item| chosen.push(text(item)));
            assert_eq!(chosen.len(), count.min(members));
            assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len(), "all are different");
            assert!(chosen.iter().all(|chosen| names.contains(chosen)));
        }
        let mut times = std::collections::BTreeMap::<Vec<u8>, usize>::new();
        for _ in 0..rounds {
            *times.entry(text(set.random(&mut dice).expect("not empty"))).or_default() += 1;
            set.sample(1, &mut dice, |item| *times.entry(text(item)).or_default() += 1);
        }
        let mean = 2 * rounds / members;
        let few_or_many = |times: &usize| *times < mean * 7 / 10 || *times > mean * 13 / 10;
        assert!(cfg!(miri) || times.len() == members && !times.values().any(few_or_many), "{times:?}");
    }
    assert!(Set::nothing().random(&mut dice).is_none());
}

#[test]
fn popped_members_are_removed_and_the_others_stay() {
    let (hasher, mut dice) = (Hasher::new(), Dice::new(5));
    for (limits, member) in forms() {
        for count in [0, 1, 2, 10, 29, 30, 31, usize::MAX] {
            let mut names: Model = (0..30).map(member).collect();
            let mut entry = set_of(names.iter().map(Vec::as_slice), Rules::new(limits, &hasher));
            let mut popped = 0;
            Set::write(&mut entry).pop(count, &mut dice, |item| {
                assert!(names.remove(&text(item)));
                popped += 1;
            });
            assert_eq!(popped, count.min(30));
            check(&entry, &names);
        }
    }
}

#[test]
fn a_scan_visits_every_member_that_stays_while_others_come_and_go() {
    let hasher = Hasher::new();
    let rules = Rules::new(limits(0, 0, 0), &hasher);
    let names: Vec<Vec<u8>> = (0..300).map(member).collect();
    let mut entry = set_of(names.iter().map(Vec::as_slice), rules);
    let (mut seen, mut position, mut calls) = (Model::new(), Some(0), 0);
    while let Some(at) = position {
        let SetRef::Big(big) = Set::read(&entry) else { panic!("a table stays one") };
        position = big.scan(at, |item| {
            seen.insert(text(item));
        });
        let mut set = Set::write(&mut entry);
        set.remove(StoredElement::of(&names[calls % 100]));
        set.add(StoredElement::of(format!("new {calls}").as_bytes()), rules);
        calls += 1;
    }
    assert!(calls > 10 && names[100..].iter().all(|name| seen.contains(name)));
}
