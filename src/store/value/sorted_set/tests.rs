//! Tests of sorted sets against a sorted vector: packed ones, big ones, and ones that grow from one to the other.

use super::*;
use crate::store::value::big::form::LargeForm;
use crate::text::bounds::{LexBound, ScoreBound};

const KEY: &[u8] = b"key";
const ALWAYS_PACKED: PackedLimit = PackedLimit { entries: usize::MAX, len: usize::MAX };
const ALWAYS_BIG: PackedLimit = PackedLimit { entries: 0, len: 0 };
const SCORES: [f64; 9] = [f64::NEG_INFINITY, -1e300, -1.5, 0.0, 5e-324, 1.0, 3.25, 4e18, f64::INFINITY];

/// Expected content of a sorted set: scores and members in ascending order.
#[derive(Default)]
struct Model(Vec<(f64, Vec<u8>)>);

impl Model {
    fn put(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        let at = self.0.partition_point(|(other, name)| *other < score || *other == score && &name[..] < member);
        self.0.insert(at, (score, member.to_vec()));
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let found = self.0.iter().position(|(_, name)| name == member);
        found.map(|at| self.0.remove(at)).is_some()
    }

    fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let rank = self.0.iter().position(|(_, name)| name == member)?;
        Some((rank, self.0[rank].0))
    }

    /// Returns the ranks of the elements for which a predicate holds, which are adjacent.
    fn ranks(&self, holds: impl Fn(&(f64, Vec<u8>)) -> bool) -> Range<usize> {
        let start = self.0.iter().position(&holds).unwrap_or(0);
        start..start + self.0.iter().filter(|element| holds(element)).count()
    }
}

fn members(elements: ScoredElements<'_>) -> Vec<(f64, Vec<u8>)> {
    elements.map(|(member, score)| (score.get(), member.to_cow().into_owned())).collect()
}

/// Compares an entry with the model: by look-ups, ranges, ranks and scans, and the reported memory.
fn check(entry: &Entry, model: &Model, dice: &mut Dice) {
    let set = SortedSet::read(entry);
    let len = model.0.len();
    assert_eq!((set.len(), SortedSet::is_empty(entry)), (len, len == 0));
    assert_eq!(members(set.iter()), model.0);
    let (start, end) = (dice.below(len + 1), dice.below(len + 1));
    let ranks = start.min(end)..start.max(end);
    assert_eq!(members(set.elements(ranks.clone(), false)), model.0[ranks.clone()]);
    let reversed: Vec<_> = model.0[ranks.clone()].iter().rev().cloned().collect();
    assert_eq!(members(set.elements(ranks, true)), reversed);
    for number in 0..60 {
        let member = name(number);
        let found = model.rank(&member);
        assert_eq!(set.rank(&member), found);
        assert_eq!(set.score(&member), found.map(|(_, score)| score));
    }
    let bound = |dice: &mut Dice| ScoreBound { score: SCORES[dice.below(9)], is_excluded: dice.below(2) == 0 };
    let range = ScoreRange { min: bound(dice), max: bound(dice) };
    let (found, expected) = (
        set.ranks_by_score(&range),
        model.ranks(|(score, _)| range.admits_above(*score) && range.admits_below(*score)),
    );
    assert!(found == expected || found.is_empty() && expected.is_empty(), "{range:?}: {found:?} {expected:?}");
    match (len, set.random(dice)) {
        (0, random) => assert!(random.is_none()),
        (_, random) => assert!(model.rank(&random.expect("there are some").0.to_cow()).is_some()),
    }
    if let SortedSetRef::Big(big) = set {
        let (mut position, mut seen) = (Some(0), Vec::new());
        while let Some(at) = position {
            position = big.scan(at, |member, score| seen.push((score, member.to_vec())));
        }
        seen.sort_by(|one, other| one.partial_cmp(other).expect("scores are numbers"));
        assert_eq!(seen, model.0);
        let entries: usize = model.0.iter().map(|(_, member)| Entry::text(member, &[0; 8], None).own_memory()).sum();
        assert!(big.memory() >= entries && big.memory() <= entries + 200 * len + 3000, "{}", big.memory());
    }
}

/// Returns one of a few members: integers, names, a long member, and the empty one.
fn name(number: usize) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1..20 => number.to_string().into_bytes(),
        59 => vec![b'x'; 300],
        _ => format!("member:{number}").into_bytes(),
    }
}

fn run(limit: PackedLimit, seed: u64, steps: usize) -> (Entry, Model) {
    let (hasher, mut dice) = (Hasher::new(), Dice::new(seed));
    let (mut entry, mut model) = (SortedSet::create(KEY), Model::default());
    for step in 0..steps {
        let member = name(dice.below(60));
        let mut set = SortedSet::write(&mut entry);
        match dice.below(12) {
            0..6 => {
                let score = SCORES[dice.below(9)];
                set.put(&member, (limit, &hasher), |_| Some(score));
                model.put(&member, score);
            }
            6 | 7 => {
                let before = model.rank(&member).map(|(_, score)| score);
                set.put(&member, (limit, &hasher), |old| {
                    assert_eq!(old, before);
                    None
                });
            }
            8 => {
                set.put(&member, (limit, &hasher), |old| old.map(|score| (score + 1.0).max(-3.0)));
                if let Some((_, score)) = model.rank(&member) {
                    model.put(&member, (score + 1.0).max(-3.0));
                }
            }
            9 => assert_eq!(set.remove(&member), model.remove(&member)),
            10 if model.0.len() > 1 => {
                let start = dice.below(model.0.len());
                let end = start + dice.below(model.0.len() - start).min(5);
                set.remove_ranks(start..end);
                model.0.drain(start..end);
            }
            _ => {}
        }
        if step % 7 == 0 {
            check(&entry, &model, &mut dice);
        }
    }
    check(&entry, &model, &mut dice);
    (entry, model)
}

#[test]
fn packed_ones_are_those_of_the_model() {
    for seed in 1..6 {
        let (entry, _) = run(ALWAYS_PACKED, seed, 2000);
        assert_eq!(SortedSet::read(&entry).encoding(), "listpack");
        assert!(Listpack::validate(entry.packed_bytes().expect("it is packed")).is_some());
    }
}

#[test]
fn big_ones_are_those_of_the_model() {
    for seed in 1..6 {
        let (entry, model) = run(ALWAYS_BIG, seed, 2000);
        assert_eq!(SortedSet::read(&entry).encoding(), "skiplist");
        let copy = entry.copy(b"other");
        drop(entry);
        check(&copy, &model, &mut Dice::new(seed));
    }
}

#[test]
fn those_that_grow_become_big_and_stay_so() {
    for limit in [PackedLimit { entries: 10, len: 64 }, PackedLimit { entries: 100, len: 10 }] {
        let (entry, _) = run(limit, 9, 2000);
        assert_eq!(SortedSet::read(&entry).encoding(), "skiplist");
    }
}

#[test]
fn members_are_found_in_ranges_of_members_where_scores_are_equal() {
    let (hasher, mut dice) = (Hasher::new(), Dice::new(5));
    for limit in [ALWAYS_PACKED, ALWAYS_BIG] {
        let (mut entry, mut model) = (SortedSet::create(KEY), Model::default());
        for number in (0..60).step_by(3) {
            SortedSet::write(&mut entry).put(&name(number), (limit, &hasher), |_| Some(2.0));
            model.put(&name(number), 2.0);
        }
        for _ in 0..500 {
            let names = [name(dice.below(60)), name(dice.below(60))];
            let bound = |name| [LexBound::First, LexBound::Included(name), LexBound::Excluded(name), LexBound::Last];
            let range = LexRange { min: bound(&names[0][..])[dice.below(4)], max: bound(&names[1][..])[dice.below(4)] };
            let expected = model.ranks(|(_, member)| range.admits_above(member) && range.admits_below(member));
            for is_reversed in [false, true] {
                let found = SortedSet::read(&entry).ranks_by_member(&range, is_reversed);
                assert!(found == expected || found.is_empty() && expected.is_empty(), "{range:?}: {found:?}");
            }
        }
    }
}

#[test]
fn without_all_of_its_elements_a_set_is_empty() {
    for limit in [ALWAYS_PACKED, ALWAYS_BIG] {
        let (mut entry, model) = run(limit, 3, 500);
        let memory = entry.memory();
        SortedSet::write(&mut entry).remove_ranks(0..model.0.len());
        let set = SortedSet::read(&entry);
        assert!(set.len() == 0 && SortedSet::is_empty(&entry));
        assert!(entry.memory() <= memory);
    }
}

#[test]
fn scores_are_stored_as_integers_where_they_are_some() {
    let hasher = Hasher::new();
    let mut entry = SortedSet::create(KEY);
    for (member, score) in [("a", 1.0), ("b", -0.0), ("c", 0.1), ("d", 1e19), ("e", 4e18), ("f", f64::INFINITY)] {
        SortedSet::write(&mut entry).put(member.as_bytes(), (ALWAYS_PACKED, &hasher), |_| Some(score));
    }
    let items: Vec<StoredElement<'_>> = Listpack::new(entry.packed_bytes().expect("it is packed")).iter().collect();
    let text = |text: &'static str| StoredElement::Text(text.as_bytes());
    let expected = [
        [text("b"), StoredElement::Int(0)],
        [text("c"), text("0.1")],
        [text("a"), StoredElement::Int(1)],
        [text("e"), StoredElement::Int(4_000_000_000_000_000_000)],
        [text("d"), text("1e+19")],
        [text("f"), text("inf")],
    ];
    assert_eq!(items, expected.concat());
}

#[test]
fn combinations_are_packed_if_the_limit_admits_them() {
    let hasher = Hasher::new();
    for (count, len, encoding) in [(3, 5, "listpack"), (4, 5, "skiplist"), (3, 6, "skiplist")] {
        let mut combination = ScoreTable::new(&hasher);
        let mut model = Model::default();
        for number in 0..count {
            let member = vec![b'a' + number; if number == 0 { len } else { 1 }];
            combination.add(&member, 1.0, |_, _| unreachable!("members are different"));
            combination.add(&member, f64::from(number), |one, other| one + other);
            model.put(&member, 1.0 + f64::from(number));
        }
        let limit = PackedLimit { entries: 3, len: 5 };
        let set = combination.finish();
        let direct = SortedSet::entry(KEY, SortedSetRef::Big(&set).iter(), (limit, &hasher));
        let entry = SortedSet::entry_of(KEY, set, limit);
        for entry in [direct, entry] {
            assert_eq!(SortedSet::read(&entry).encoding(), encoding);
            check(&entry, &model, &mut Dice::new(1));
        }
    }
}

#[test]
fn a_million_members_take_less_than_48_bytes_each_besides_their_payload() {
    let hasher = Hasher::new();
    let mut set = BigSortedSet::from_ascending(std::iter::empty(), &hasher);
    const COUNT: usize = 100_000;
    for number in 0..COUNT {
        let member = format!("member:{:09}", number * 7919 % COUNT);
        set.put(member.as_bytes(), |_| Some(number as f64));
    }
    let overhead = set.memory() / COUNT - 24;
    assert!(overhead <= 48, "{overhead}");
}
