//! Tests of the tree against a sorted vector, of its invariants, and of its size.

use std::cmp::Ordering;

use super::*;
use crate::random::Random;

/// A member of up to five bytes; the last byte distinguishes handles of equal members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name([u8; 8]);

impl Name {
    fn new(number: u64, generation: u8) -> Self {
        let digits = number.to_string();
        let mut name = [0; 8];
        name[0] = digits.len() as u8;
        name[1..=digits.len()].copy_from_slice(digits.as_bytes());
        name[7] = generation;
        Name(name)
    }
}

impl MemberHandle for Name {
    fn bytes(&self) -> &[u8] {
        &self.0[1..=usize::from(self.0[0])]
    }
}

/// An eight-byte member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id([u8; 8]);

impl MemberHandle for Id {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns an integer below 2^53.
fn spread(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64
}

/// Distribution of the scores in a run.
#[derive(Clone, Copy, Debug)]
enum Scores {
    Few,
    Equal,
    Spread,
    Ascending,
    Descending,
}

impl Scores {
    fn pick(self, random: &mut Random, step: usize) -> f64 {
        const FEW: [f64; 8] = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        match self {
            Scores::Few => FEW[random.below(FEW.len())],
            Scores::Equal => 0.0,
            Scores::Spread => spread(random),
            Scores::Ascending => step as f64,
            Scores::Descending => -(step as f64),
        }
    }
}

fn order(left: &(f64, impl MemberHandle), right: (f64, &[u8])) -> Ordering {
    left.0.partial_cmp(&right.0).expect("scores are numbers").then_with(|| left.1.bytes().cmp(right.1))
}

/// Result of a walk over a subtree.
struct Found {
    count: usize,
    depth: usize,
    nodes: usize,
}

fn check_node<M: MemberHandle + fmt::Debug + PartialEq>(
    node: &TreeNode<M>,
    root: bool,
    left: bool,
    right: bool,
) -> Found {
    let least = match node {
        TreeNode::Inner(_) if root => 2,
        _ if left || right => 1,
        _ => node.min(),
    };
    assert!((least..=node.max()).contains(&node.len()), "{} in a node of {least}..={}", node.len(), node.max());
    let inner = match node {
        TreeNode::Leaf(leaf) => return Found { count: leaf.len(), depth: 1, nodes: 1 },
        TreeNode::Inner(inner) => inner,
    };
    let mut all = Found { count: 0, depth: 0, nodes: 1 };
    for at in 0..inner.len() {
        let found = check_node(inner.child(at), false, left && at == 0, right && at + 1 == inner.len());
        let (score, member) = inner.child(at).first();
        assert_eq!(inner.keys().scores()[at].to_bits(), score.to_bits());
        assert_eq!(inner.keys().members()[at], member);
        all.count += found.count;
        all.nodes += found.nodes;
        assert_eq!(inner.count_before(at + 1), all.count);
        assert!(at == 0 || all.depth == found.depth, "all leaves are equally deep");
        all.depth = found.depth;
    }
    all.depth += 1;
    all
}

fn check<M: MemberHandle + fmt::Debug + PartialEq>(tree: &RankTree<M>) {
    let Some(root) = tree.root.as_deref() else {
        return assert_eq!((tree.len, tree.nodes), (0, 0));
    };
    let found = check_node(root, true, true, true);
    assert_eq!((found.count, found.nodes), (tree.len(), tree.effort()));
    assert_eq!(tree.memory(), found.nodes * size_of::<TreeNode<M>>());
    assert!(found.depth <= 7);
}

fn same(tree: &RankTree<Name>, model: &[(f64, Name)]) {
    check(tree);
    let bits = |(score, name): (f64, Name)| (score.to_bits(), name);
    assert!(tree.range(..).map(bits).eq(model.iter().copied().map(bits)), "elements differ");
    assert!(tree.range(..).rev().eq(model.iter().rev().copied()), "elements differ backwards");
}

/// A tree and a sorted vector with the same operations applied.
struct Pair {
    tree: RankTree<Name>,
    model: Vec<(f64, Name)>,
    random: Random,
    scores: Scores,
    /// Number of different members.
    names: usize,
    steps: usize,
}

impl Pair {
    fn new(seed: u64, scores: Scores, names: usize) -> Self {
        Pair { tree: RankTree::new(), model: Vec::new(), random: Random::new(seed), scores, names, steps: 0 }
    }

    fn score(&mut self) -> f64 {
        self.steps += 1;
        self.scores.pick(&mut self.random, self.steps)
    }

    fn place(&self, score: f64, bytes: &[u8]) -> Result<usize, usize> {
        self.model.binary_search_by(|element| order(element, (score, bytes)))
    }

    /// Returns an element of the set, or an element that usually is not in it.
    fn choose(&mut self) -> (f64, Name) {
        if self.model.is_empty() || self.random.below(8) == 0 {
            return (self.score(), Name::new(self.random.below(self.names) as u64, 0));
        }
        self.model[self.random.below(self.model.len())]
    }

    fn insert(&mut self) {
        let (score, name) = (self.score(), Name::new(self.random.below(self.names) as u64, 0));
        if let Err(at) = self.place(score, name.bytes()) {
            self.model.insert(at, (score, name));
            self.tree.insert(score, name);
        }
    }

    fn remove(&mut self) {
        let (score, name) = self.choose();
        let expected = self.place(score, name.bytes()).ok().map(|at| self.model.remove(at).1);
        assert_eq!(self.tree.remove(score, name.bytes()), expected);
    }

    fn pop(&mut self) {
        let Some(last) = self.model.len().checked_sub(1) else { return };
        let at = if self.random.below(2) == 0 { 0 } else { last };
        let mut popped = None;
        self.tree.remove_range(at..=at, |name| popped = Some(name));
        assert_eq!(popped, Some(self.model.remove(at).1));
    }

    fn update(&mut self) {
        let (score, name) = self.choose();
        let near = self.random.below(2) == 0;
        let fresh = if near && score.is_finite() { score + self.random.below(5) as f64 - 2.0 } else { self.score() };
        let found = self.place(score, name.bytes());
        if self.place(fresh, name.bytes()).is_ok_and(|at| found != Ok(at)) {
            return;
        }
        assert_eq!(self.tree.update(score, name.bytes(), fresh), found.is_ok());
        if let Ok(at) = found {
            let (_, handle) = self.model.remove(at);
            let at = self.place(fresh, name.bytes()).expect_err("the element was removed");
            self.model.insert(at, (fresh, handle));
        }
    }

    fn look(&mut self) {
        let (score, name) = self.choose();
        assert_eq!(self.tree.rank_of(score, name.bytes()), self.place(score, name.bytes()).ok());
        assert_eq!(self.tree.rank_not_less(score), self.model.partition_point(|element| element.0 < score));
        assert_eq!(self.tree.rank_greater(score), self.model.partition_point(|element| element.0 <= score));
        let expected = self.model.partition_point(|element| order(element, (score, name.bytes())).is_lt());
        let precedes = |other, bytes: &[u8]| order(&(other, name), (score, name.bytes())).then(bytes.cmp(name.bytes()));
        assert_eq!(self.tree.partition_point(|other, bytes| precedes(other, bytes).is_lt()), expected);
        let rank = self.random.below(self.model.len() + 2);
        assert_eq!(self.tree.range(..).next(), self.model.first().copied());
        assert_eq!(self.tree.range(..).next_back(), self.model.last().copied());
        assert_eq!(self.tree.len(), self.model.len());
        let taken: Vec<_> = self.tree.range(rank..).take(3).collect();
        assert_eq!(taken, self.model.iter().skip(rank).take(3).copied().collect::<Vec<_>>());
    }

    fn ranks(&mut self) -> Range<usize> {
        let start = self.random.below(self.model.len() + 1);
        let longest = [3, 100, self.model.len()][self.random.below(3)];
        start..(start + self.random.below(longest + 1)).min(self.model.len())
    }

    /// Iterates over a range from both ends at once.
    fn walk(&mut self) {
        let ranks = self.ranks();
        let (mut elements, mut expected) = (self.tree.range(ranks.clone()), self.model[ranks].iter().copied());
        loop {
            assert_eq!(elements.len(), expected.len());
            let (one, other) = if self.random.below(2) == 0 {
                (elements.next(), expected.next())
            } else {
                (elements.next_back(), expected.next_back())
            };
            assert_eq!(one, other);
            if one.is_none() {
                return;
            }
        }
    }

    fn remove_range(&mut self) {
        let ranks = self.ranks();
        let mut removed = Vec::new();
        self.tree.remove_range(ranks.clone(), |name| removed.push(name));
        assert_eq!(removed, self.model.drain(ranks).map(|(_, name)| name).collect::<Vec<_>>());
    }

    /// Performs operations, mostly insertions to `grow` the set, otherwise mostly removals.
    fn batch(&mut self, operations: usize, grow: bool) {
        for _ in 0..operations {
            match self.random.below(100) {
                0..40 if grow => self.insert(),
                0..40 => self.remove(),
                40..50 => self.insert(),
                50..58 => self.remove(),
                58..62 => self.pop(),
                62..80 => self.update(),
                80..99 => self.look(),
                _ => self.walk(),
            }
        }
        self.remove_range();
        same(&self.tree, &self.model);
    }
}

#[test]
fn behaves_as_a_sorted_vector_does() {
    let kinds = [Scores::Few, Scores::Equal, Scores::Spread, Scores::Ascending, Scores::Descending];
    for (seed, scores) in kinds.into_iter().enumerate() {
        for names in [30, 2_000, 90_000] {
            let mut pair = Pair::new(seed as u64, scores, names);
            for round in 0..30 {
                pair.batch(1_000, round % 10 < 7);
            }
            while !pair.model.is_empty() {
                pair.batch(300, false);
                pair.remove_range();
            }
            same(&pair.tree, &[]);
        }
    }
}

#[test]
fn removes_ranges_from_a_deep_tree() {
    let mut random = Random::new(11);
    for round in 0..40 {
        let mut model: Vec<_> = (0..60_000).map(|number| (f64::from(number), Name::new(number as u64, 0))).collect();
        let mut tree = RankTree::from_ascending(model.iter().copied());
        same(&tree, &model);
        while !model.is_empty() {
            let start = random.below(model.len());
            let longest = [50, 3_000, model.len()][(round + random.below(2)) % 3];
            let end = (start + 1 + random.below(longest)).min(model.len());
            let mut count = 0;
            tree.remove_range(start..end, |_| count += 1);
            assert_eq!(count, end - start);
            model.drain(start..end);
            check(&tree);
            if random.below(8) == 0 {
                same(&tree, &model);
            }
            if longest == 50 && random.below(20) == 0 {
                break;
            }
        }
        same(&tree, &model);
    }
}

#[test]
fn short_ranges_thin_a_deep_tree_out() {
    let mut random = Random::new(12);
    for longest in [40, 70, 400] {
        let mut model: Vec<_> = (0..70_000).map(|number| (f64::from(number), Name::new(number as u64, 0))).collect();
        let mut tree = RankTree::from_ascending(model.iter().copied());
        while !model.is_empty() {
            let start = random.below(model.len());
            let end = (start + 1 + random.below(longest)).min(model.len());
            tree.remove_range(start..end, |_| {});
            model.drain(start..end);
            check(&tree);
        }
    }
}

#[test]
fn ranges_beyond_the_end_are_cut() {
    let element = |number| (number as f64, Name::new(number, 0));
    let mut tree = RankTree::from_ascending((0..100).map(element));
    assert_eq!(tree.range(98..usize::MAX).collect::<Vec<_>>(), [element(98), element(99)]);
    assert_eq!(tree.range(..=usize::MAX).len(), 100);
    for ranks in [0..100, 3..3, 3..4, 60..70, 99..100] {
        let folded = tree.range(ranks.clone()).fold_prepared(
            Vec::new(),
            2,
            |_| {},
            |mut all, next| {
                all.push(next);
                all
            },
        );
        assert_eq!(folded, tree.range(ranks).collect::<Vec<_>>());
    }
    assert_eq!(tree.range(usize::MAX..).next(), None);
    let (start, end) = (50, 40);
    assert_eq!(tree.range(start..end).next_back(), None);
    tree.remove_range(start..end, |_| panic!("nothing is removed"));
    tree.remove_range(usize::MAX.., |_| panic!("nothing is removed"));
    tree.remove_range(1..=usize::MAX, |_| {});
    assert_eq!(tree.range(..).collect::<Vec<_>>(), [element(0)]);
    tree.clear();
    check(&tree);
    assert_eq!((tree.len(), tree.memory(), tree.range(..).next(), tree.remove(0.0, b"0")), (0, 0, None, None));
    assert_eq!((tree.rank_not_less(0.0), tree.partition_point(|_, _| true), tree.rank_of(0.0, b"")), (0, 0, None));
}

#[test]
fn zeros_of_both_signs_are_equal_scores() {
    let mut tree = RankTree::new();
    tree.insert(0.0, Name::new(1, 0));
    tree.insert(-0.0, Name::new(2, 0));
    tree.insert(0.0, Name::new(3, 0));
    assert_eq!((tree.rank_of(0.0, b"2"), tree.rank_of(-0.0, b"3")), (Some(1), Some(2)));
    assert_eq!((tree.rank_not_less(-0.0), tree.rank_greater(-0.0)), (0, 3));
    assert!(tree.update(-0.0, b"1", -0.0));
    assert!(tree.range(..).next().expect("there are three").0.is_sign_negative());
}

fn id(number: u64) -> Id {
    Id(number.to_be_bytes())
}

fn bytes_per_element(tree: &RankTree<Id>) -> f64 {
    check(tree);
    tree.memory() as f64 / tree.len() as f64
}

#[test]
fn nodes_are_well_filled() {
    assert_eq!(size_of::<TreeNode<Id>>(), 1024);
    let count = 100_000;
    let mut random = Random::new(5);
    let mut scattered = RankTree::new();
    (0..count).for_each(|number| scattered.insert(spread(&mut random), id(number)));
    let scattered = bytes_per_element(&scattered);
    assert!(scattered <= 21.0, "{scattered} bytes per element in random order");

    let mut lexical = RankTree::new();
    (0..count).for_each(|_| lexical.insert(0.0, id(random.next())));
    let lexical = bytes_per_element(&lexical);
    assert!(lexical <= 21.0, "{lexical} bytes per element of equal score in random order");

    let (mut ascending, mut descending) = (RankTree::new(), RankTree::new());
    for number in 0..count {
        ascending.insert(number as f64, id(number));
        descending.insert(-(number as f64), id(number));
    }
    let built = RankTree::from_ascending(ascending.range(..));
    assert!(built.range(..).eq(ascending.range(..)));
    for tree in [ascending, descending, built] {
        let size = bytes_per_element(&tree);
        assert!(size <= 17.5, "{size} bytes per element in order");
    }
}

#[test]
fn removals_give_memory_back() {
    let count = 100_000;
    let mut random = Random::new(6);
    let mut scores: Vec<f64> = (0..count).map(|_| spread(&mut random)).collect();
    let mut tree = RankTree::new();
    (0..count).for_each(|number| tree.insert(scores[number], id(number as u64)));
    let mut live: Vec<usize> = (0..count).collect();
    while live.len() > 1_000 {
        let number = live.swap_remove(random.below(live.len()));
        assert_eq!(tree.remove(scores[number], id(number as u64).bytes()), Some(id(number as u64)));
    }
    let size = bytes_per_element(&tree);
    assert!(size <= 36.0, "{size} bytes per element after removals");

    // A queue, and scores that rise forever: neither leaves gaps.
    for number in 0..count {
        tree.insert(1e18 + number as f64, id((count + number) as u64));
        tree.remove_range(..1, |_| {});
    }
    let size = bytes_per_element(&tree);
    assert!(size <= 22.0, "{size} bytes per element of a queue");
    tree.clear();
    (0..1_000).for_each(|number| tree.insert(scores[number], id(number as u64)));
    for _ in 0..count {
        let number = random.below(1_000);
        let next = scores[number] + spread(&mut random) / 8.0;
        assert!(tree.update(scores[number], id(number as u64).bytes(), next));
        scores[number] = next;
    }
    let size = bytes_per_element(&tree);
    assert!(size <= 30.0, "{size} bytes per element after updates");
}
