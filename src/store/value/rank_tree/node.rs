//! The nodes of a [`RankTree`](super::RankTree): searching within one, moving elements between neighbours, splitting
//! and merging.
//!
//! Nodes are boxed and hold their elements inline. The unused end of an array of handles contains copies of some
//! handle that are never read.

use std::ops::Range;

use crate::store::table::prefetch;

/// Number of elements that fit in a leaf: with 8-byte handles, a leaf takes 1024 bytes.
pub(super) const LEAF_MAX: usize = 63;
/// Number of children that fit in an inner node, which then takes as much memory as a leaf.
pub(super) const INNER_MAX: usize = 31;

const CACHE_LINE: usize = 64;
/// Length of the start of a node that contains the scores.
const SCORES_LEN: usize = 8 * (LEAF_MAX + 1);

/// A handle to the bytes of a member. It is copied freely: the tree neither owns nor frees the bytes, and after a
/// handle has been removed from the tree its bytes are never read again.
pub(crate) trait MemberHandle: Copy {
    fn bytes(&self) -> &[u8];
}

/// A leaf, or a node with children. All leaves are at the same depth.
#[repr(C, align(64))] // the scores lie at the start
#[expect(
    clippy::large_enum_variant,
    reason = "with 8-byte handles both take 1 KB; a box of its own would cost a pointer"
)]
pub(super) enum TreeNode<M> {
    Leaf(Leaf<M>),
    Inner(Inner<M>),
}

/// The elements of a leaf.
pub(super) type Leaf<M> = SortedKeys<M, LEAF_MAX>;

/// Scores and members in ascending order.
#[repr(C)]
pub(super) struct SortedKeys<M, const N: usize> {
    len: u16,
    scores: [f64; N],
    members: [M; N],
}

/// A node with children.
#[repr(C)]
pub(super) struct Inner<M> {
    /// First element of each child.
    keys: SortedKeys<M, INNER_MAX>,
    /// Number of elements below each child.
    counts: [usize; INNER_MAX],
    /// Children; `None` beyond the number of keys.
    children: [Option<Box<TreeNode<M>>>; INNER_MAX],
}

/// The edges of the tree at which a node lies. Nodes at an edge may hold less than the minimum.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    left: bool,
    right: bool,
}

impl Edge {
    pub(super) const ROOT: Edge = Edge { left: true, right: true };

    /// Returns the edges of child `at` of `len`.
    fn of_child(self, at: usize, len: usize) -> Edge {
        Edge { left: self.left && at == 0, right: self.right && at + 1 == len }
    }

    fn any(self) -> bool {
        self.left || self.right
    }
}

/// Strategy to find one element.
pub(super) trait Seek<M> {
    /// Returns the index of the child that has the element, if the tree contains it.
    fn child(&mut self, inner: &Inner<M>) -> usize;
    fn position(&mut self, leaf: &Leaf<M>) -> Option<usize>;
}

/// Strategy that finds an element by score and member.
pub(super) struct ByScoreAndMember<'a> {
    pub(super) score: f64,
    pub(super) bytes: &'a [u8],
}

impl<M: MemberHandle> Seek<M> for ByScoreAndMember<'_> {
    fn child(&mut self, inner: &Inner<M>) -> usize {
        inner.child_of(self.score, self.bytes)
    }

    fn position(&mut self, leaf: &Leaf<M>) -> Option<usize> {
        leaf.find(self.score, self.bytes).ok()
    }
}

/// A found element, for a change.
pub(super) struct ElementPosition<'a, M> {
    pub(super) leaf: &'a mut Leaf<M>,
    pub(super) at: usize,
    edge: Edge,
    /// First element of the next leaf.
    above: Option<(f64, M)>,
}

impl<M: MemberHandle> ElementPosition<'_, M> {
    /// Returns true if an element with this key belongs in this leaf.
    pub(super) fn covers(&self, score: f64, bytes: &[u8]) -> bool {
        let precedes = |(other, member): (f64, M)| other < score || other == score && member.bytes() <= bytes;
        (self.edge.left || precedes(self.leaf.first())) && !self.above.is_some_and(precedes)
    }
}

/// Returns the first position below `len` for which `precedes` is false.
pub(super) fn partition(len: usize, mut precedes: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if precedes(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl<M: MemberHandle, const N: usize> SortedKeys<M, N> {
    /// Creates an empty array; the handle fills the unused slots.
    pub(super) fn new(filler: M) -> Self {
        SortedKeys { len: 0, scores: [0.0; N], members: [filler; N] }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn scores(&self) -> &[f64] {
        &self.scores[..self.len()]
    }

    pub(super) fn members(&self) -> &[M] {
        &self.members[..self.len()]
    }

    fn first(&self) -> (f64, M) {
        (self.scores[0], self.members[0])
    }

    fn set_len(&mut self, len: usize) {
        debug_assert!(len <= N, "elements fit");
        self.len = len as u16;
    }

    /// Returns the position of a key, or as an error the position to insert it at. Members are read only if scores are
    /// equal.
    #[inline]
    pub(super) fn find(&self, score: f64, bytes: &[u8]) -> Result<usize, usize> {
        let scores = self.scores();
        // Comparing all scores takes less time than a binary search, each step of which waits for the one before.
        let low = scores.iter().map(|other| usize::from(*other < score)).sum::<usize>();
        if scores.get(low).is_none_or(|other| *other != score) {
            return Err(low);
        }
        let ties = scores[low..].partition_point(|other| *other == score);
        let found = self.members()[low..low + ties].binary_search_by(|member| member.bytes().cmp(bytes));
        found.map(|at| low + at).map_err(|at| low + at)
    }

    pub(super) fn insert(&mut self, at: usize, score: f64, member: M) {
        let len = self.len();
        self.scores.copy_within(at..len, at + 1);
        self.members.copy_within(at..len, at + 1);
        self.set(at, score, member);
        self.set_len(len + 1);
    }

    pub(super) fn remove(&mut self, at: usize) -> M {
        let member = self.members[at];
        self.drain(at..at + 1);
        member
    }

    fn drain(&mut self, range: Range<usize>) {
        let len = self.len();
        self.scores.copy_within(range.end..len, range.start);
        self.members.copy_within(range.end..len, range.start);
        self.set_len(len - range.len());
    }

    fn set(&mut self, at: usize, score: f64, member: M) {
        self.scores[at] = score;
        self.members[at] = member;
    }

    /// Changes the score of an element and moves it to its new position; returns its handle.
    pub(super) fn rescore(&mut self, at: usize, score: f64) -> M {
        let member = self.members[at];
        let (Ok(to) | Err(to)) = self.find(score, member.bytes());
        if to > at {
            // The position was counted with the element still before it.
            self.scores[at..to].rotate_left(1);
            self.members[at..to].rotate_left(1);
            self.scores[to - 1] = score;
        } else {
            self.scores[to..=at].rotate_right(1);
            self.members[to..=at].rotate_right(1);
            self.scores[to] = score;
        }
        member
    }

    /// Moves the last `count` elements to the front of the right neighbour.
    fn give_tail(&mut self, count: usize, right: &mut Self) {
        let (keep, len) = (self.len() - count, right.len());
        right.scores.copy_within(..len, count);
        right.members.copy_within(..len, count);
        right.scores[..count].copy_from_slice(&self.scores[keep..keep + count]);
        right.members[..count].copy_from_slice(&self.members[keep..keep + count]);
        right.set_len(len + count);
        self.set_len(keep);
    }

    /// Moves the first `count` elements to the end of the left neighbour.
    fn give_head(&mut self, count: usize, left: &mut Self) {
        let len = left.len();
        left.scores[len..len + count].copy_from_slice(&self.scores[..count]);
        left.members[len..len + count].copy_from_slice(&self.members[..count]);
        left.set_len(len + count);
        self.drain(0..count);
    }
}

impl<M: MemberHandle> TreeNode<M> {
    /// Prefetches the scores: a binary search alone would wait for one cache line after the other.
    #[inline]
    pub(super) fn prefetch_scores(&self) {
        let start: *const u8 = std::ptr::from_ref(self).cast();
        (0..SCORES_LEN).step_by(CACHE_LINE).for_each(|at| prefetch(start.wrapping_add(at)));
    }

    pub(super) fn len(&self) -> usize {
        match self {
            TreeNode::Leaf(leaf) => leaf.len(),
            TreeNode::Inner(inner) => inner.len(),
        }
    }

    /// Returns the number of elements or children that fit.
    pub(super) fn max(&self) -> usize {
        match self {
            TreeNode::Leaf(_) => LEAF_MAX,
            TreeNode::Inner(_) => INNER_MAX,
        }
    }

    /// Returns the number of elements or children below which a node is merged or filled up.
    pub(super) fn min(&self) -> usize {
        self.max() * 2 / 5
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == self.max()
    }

    /// Returns the first element; the node is not empty.
    pub(super) fn first(&self) -> (f64, M) {
        match self {
            TreeNode::Leaf(leaf) => leaf.first(),
            TreeNode::Inner(inner) => inner.keys.first(),
        }
    }

    /// Returns the number of elements below the node.
    pub(super) fn count(&self) -> usize {
        match self {
            TreeNode::Leaf(leaf) => leaf.len(),
            TreeNode::Inner(inner) => inner.count_before(inner.len()),
        }
    }

    /// Returns the leaf of a rank, which must exist, and the position within the leaf.
    pub(super) fn leaf_at(&self, mut rank: usize) -> (&Leaf<M>, usize) {
        let mut node = self;
        loop {
            match node {
                TreeNode::Leaf(leaf) => return (leaf, rank),
                TreeNode::Inner(inner) => {
                    let (at, rest) = inner.child_at(rank);
                    (node, rank) = (inner.child(at), rest);
                }
            }
        }
    }

    /// Passes every element to a function; returns the number of nodes.
    pub(super) fn for_each(&self, pass: &mut impl FnMut(M)) -> usize {
        match self {
            TreeNode::Leaf(leaf) => {
                leaf.members().iter().for_each(|member| pass(*member));
                1
            }
            TreeNode::Inner(inner) => 1 + (0..inner.len()).map(|at| inner.child(at).for_each(pass)).sum::<usize>(),
        }
    }

    /// Inserts an element below a root that is not full. Room is made on the way down, so there is no way back.
    pub(super) fn insert(&mut self, score: f64, member: M, nodes: &mut usize) {
        let (mut node, mut edge) = (self, Edge::ROOT);
        loop {
            match node {
                TreeNode::Leaf(leaf) => {
                    let (Ok(at) | Err(at)) = leaf.find(score, member.bytes());
                    return leaf.insert(at, score, member);
                }
                TreeNode::Inner(inner) => {
                    let mut found = inner.keys.find(score, member.bytes());
                    if inner.child(found.unwrap_or_else(|at| at.saturating_sub(1))).is_full() {
                        *nodes += inner.make_room(found.unwrap_or_else(|at| at.saturating_sub(1)), edge, score, member);
                        found = inner.keys.find(score, member.bytes());
                    }
                    if found == Err(0) {
                        inner.keys.set(0, score, member);
                    }
                    let at = found.unwrap_or_else(|at| at.saturating_sub(1));
                    inner.counts[at] += 1;
                    edge = edge.of_child(at, inner.len());
                    node = inner.child_mut(at);
                    node.prefetch_scores();
                }
            }
        }
    }

    /// Finds an element and changes or removes it. `act` returns a result, and true if it removed the element; `above`
    /// is the first element after this node.
    pub(super) fn change<R>(
        &mut self,
        seek: &mut impl Seek<M>,
        edge: Edge,
        above: Option<(f64, M)>,
        nodes: &mut usize,
        act: &mut impl FnMut(ElementPosition<'_, M>) -> (R, bool),
    ) -> Option<(R, bool)> {
        let inner = match self {
            TreeNode::Leaf(leaf) => {
                let at = seek.position(leaf)?;
                return Some(act(ElementPosition { leaf, at, edge, above }));
            }
            TreeNode::Inner(inner) => inner,
        };
        let at = seek.child(inner);
        let above = if at + 1 < inner.len() { Some(inner.key(at + 1)) } else { above };
        let below = edge.of_child(at, inner.len());
        let child = inner.child_mut(at);
        child.prefetch_scores();
        let (result, removed) = child.change(seek, below, above, nodes, act)?;
        let (len, min) = (child.len(), child.min());
        if len > 0 {
            inner.refresh(at);
        }
        if removed {
            inner.counts[at] -= 1;
            if len < min {
                inner.rebalance(at, edge, nodes);
            }
        }
        Some((result, removed))
    }

    /// Removes some of the elements, but not all, and may leave nodes too empty.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>, nodes: &mut usize, removed: &mut impl FnMut(M)) {
        match self {
            TreeNode::Leaf(leaf) => {
                leaf.members()[ranks.clone()].iter().for_each(|member| removed(*member));
                leaf.drain(ranks);
            }
            TreeNode::Inner(inner) => inner.remove_range(ranks, nodes, removed),
        }
    }

    /// Merges or fills up nodes that are too empty on the way to a rank.
    pub(super) fn mend(&mut self, rank: usize, edge: Edge, nodes: &mut usize) {
        let TreeNode::Inner(inner) = self else { return };
        inner.rebalance(inner.child_at(rank).0, edge, nodes);
        let (at, rest) = inner.child_at(rank);
        let below = edge.of_child(at, inner.len());
        inner.child_mut(at).mend(rest, below, nodes);
        inner.rebalance(at, edge, nodes);
    }

    /// Returns the ends of the node, start and end, at which a key belongs.
    fn ends_of(&self, score: f64, bytes: &[u8]) -> Edge {
        match self {
            TreeNode::Leaf(leaf) => {
                let (Ok(at) | Err(at)) = leaf.find(score, bytes);
                Edge { left: at == 0, right: at == leaf.len() }
            }
            TreeNode::Inner(inner) => Edge::ROOT.of_child(inner.child_of(score, bytes), inner.len()),
        }
    }

    /// Creates an empty node of the same kind.
    fn sibling(&self, filler: M) -> Box<Self> {
        Box::new(match self {
            TreeNode::Leaf(_) => TreeNode::Leaf(Leaf::new(filler)),
            TreeNode::Inner(_) => TreeNode::Inner(Inner::empty(filler)),
        })
    }

    /// Moves the last `count` elements or children to the right neighbour; returns the number of elements moved.
    fn give_tail(&mut self, count: usize, right: &mut Self) -> usize {
        match (self, right) {
            (TreeNode::Leaf(left), TreeNode::Leaf(right)) => {
                left.give_tail(count, right);
                count
            }
            (TreeNode::Inner(left), TreeNode::Inner(right)) => left.give_tail(count, right),
            _ => unreachable!("neighbours are of one kind"),
        }
    }

    /// Moves the first `count` elements or children to the left neighbour; returns the number of elements moved.
    fn give_head(&mut self, count: usize, left: &mut Self) -> usize {
        match (left, self) {
            (TreeNode::Leaf(left), TreeNode::Leaf(right)) => {
                right.give_head(count, left);
                count
            }
            (TreeNode::Inner(left), TreeNode::Inner(right)) => right.give_head(count, left),
            _ => unreachable!("neighbours are of one kind"),
        }
    }
}

impl<M: MemberHandle> Inner<M> {
    /// Creates a node with one child, which is not empty.
    pub(super) fn new(child: Box<TreeNode<M>>) -> Self {
        let mut inner = Inner::empty(child.first().1);
        inner.push(child);
        inner
    }

    fn empty(filler: M) -> Self {
        Inner { keys: SortedKeys::new(filler), counts: [0; INNER_MAX], children: [const { None }; INNER_MAX] }
    }

    /// Appends a child, which is not empty.
    pub(super) fn push(&mut self, child: Box<TreeNode<M>>) {
        self.add(self.len(), child.first(), child.count(), child);
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn keys(&self) -> &SortedKeys<M, INNER_MAX> {
        &self.keys
    }

    fn key(&self, at: usize) -> (f64, M) {
        (self.keys.scores[at], self.keys.members[at])
    }

    #[inline]
    pub(super) fn child(&self, at: usize) -> &TreeNode<M> {
        self.children[at].as_deref().expect("every key has a child")
    }

    #[inline]
    fn child_mut(&mut self, at: usize) -> &mut TreeNode<M> {
        self.children[at].as_deref_mut().expect("every key has a child")
    }

    pub(super) fn take_only_child(&mut self) -> Option<Box<TreeNode<M>>> {
        self.children[0].take()
    }

    /// Returns the index of the child in which a key belongs.
    #[inline]
    pub(super) fn child_of(&self, score: f64, bytes: &[u8]) -> usize {
        self.keys.find(score, bytes).unwrap_or_else(|at| at.saturating_sub(1))
    }

    /// Returns the index of the child of a rank, and the rank within that child.
    fn child_at(&self, mut rank: usize) -> (usize, usize) {
        let mut at = 0;
        while at + 1 < self.len() && rank >= self.counts[at] {
            rank -= self.counts[at];
            at += 1;
        }
        (at, rank)
    }

    /// Returns the number of elements before a child.
    #[inline]
    pub(super) fn count_before(&self, at: usize) -> usize {
        self.counts[..at].iter().sum()
    }

    /// Sets the key of a child to its first element.
    fn refresh(&mut self, at: usize) {
        let (score, member) = self.child(at).first();
        self.keys.set(at, score, member);
    }

    fn add(&mut self, at: usize, key: (f64, M), count: usize, child: Box<TreeNode<M>>) {
        let len = self.len();
        self.keys.insert(at, key.0, key.1);
        self.counts.copy_within(at..len, at + 1);
        self.counts[at] = count;
        self.children[at..=len].rotate_right(1);
        self.children[at] = Some(child);
    }

    /// Drops the children of a range.
    fn drain(&mut self, range: Range<usize>) {
        let len = self.len();
        self.children[range.clone()].fill_with(|| None);
        self.children[range.start..len].rotate_left(range.len());
        self.counts.copy_within(range.end..len, range.start);
        self.keys.drain(range);
    }

    fn give_tail(&mut self, count: usize, right: &mut Self) -> usize {
        let (keep, len) = (self.len() - count, right.len());
        right.children[..len + count].rotate_right(count);
        right.children[..count].swap_with_slice(&mut self.children[keep..keep + count]);
        right.counts.copy_within(..len, count);
        right.counts[..count].copy_from_slice(&self.counts[keep..keep + count]);
        self.keys.give_tail(count, &mut right.keys);
        right.count_before(count)
    }

    fn give_head(&mut self, count: usize, left: &mut Self) -> usize {
        let (len, old) = (left.len(), self.len());
        let moved = self.count_before(count);
        left.children[len..len + count].swap_with_slice(&mut self.children[..count]);
        self.children[..old].rotate_left(count);
        left.counts[len..len + count].copy_from_slice(&self.counts[..count]);
        self.counts.copy_within(count..old, 0);
        self.keys.give_head(count, &mut left.keys);
        moved
    }

    /// Moves elements or children between child `at` and the one after it.
    fn shift(&mut self, at: usize, count: usize, rightwards: bool) {
        let [Some(left), Some(right)] = &mut self.children[at..at + 2] else { unreachable!("every key has a child") };
        if rightwards {
            let moved = left.give_tail(count, right);
            self.counts[at] -= moved;
            self.counts[at + 1] += moved;
        } else {
            let moved = right.give_head(count, left);
            self.counts[at] += moved;
            self.counts[at + 1] -= moved;
        }
        if self.child(at + 1).len() > 0 {
            self.refresh(at + 1);
        }
    }

    /// Returns the less filled neighbour of a child.
    fn neighbour(&self, at: usize) -> Option<usize> {
        let after = Some(at + 1).filter(|after| *after < self.len());
        [at.checked_sub(1), after].into_iter().flatten().min_by_key(|beside| self.child(*beside).len())
    }

    /// Makes room for a key in a full child; this node is not full. Returns the number of nodes added.
    fn make_room(&mut self, at: usize, edge: Edge, score: f64, member: M) -> usize {
        let child = self.child(at);
        let max = child.max();
        let edge = edge.of_child(at, self.len());
        let ends = child.ends_of(score, member.bytes());
        let least = usize::from(matches!(child, TreeNode::Inner(_)));
        if edge.right && ends.right {
            self.split(at, least, (score, member));
            return 1;
        }
        if edge.left && ends.left {
            self.split(at, max - least, (score, member));
            if least == 0 {
                // The left child is now empty, and the key will be its first.
                self.keys.set(at, score, member);
            }
            return 1;
        }
        let Some(beside) = self.neighbour(at) else {
            self.split(at, max / 2, (score, member));
            return 1;
        };
        let (left, free) = (at.min(beside), max - self.child(beside).len());
        if free >= max / 8 {
            self.shift(left, free.div_ceil(2), beside > at);
            return 0;
        }
        let third = (2 * max - free) / 3;
        self.split(left, self.child(left).len() - third, (score, member));
        self.shift(left + 1, self.child(left + 2).len() - third, false);
        1
    }

    /// Adds a node after a child and moves the last `count` elements or children of the child into it. If none move,
    /// `key` will be the first element.
    fn split(&mut self, at: usize, count: usize, key: (f64, M)) {
        let child = self.child_mut(at);
        let mut added = child.sibling(key.1);
        let moved = child.give_tail(count, &mut added);
        let key = if moved == 0 { key } else { added.first() };
        self.counts[at] -= moved;
        self.add(at + 1, key, moved, added);
    }

    /// Drops an empty child; merges a child that is too empty with a neighbour, or fills it up. At an edge of the tree
    /// a child is not filled up.
    fn rebalance(&mut self, mut at: usize, edge: Edge, nodes: &mut usize) {
        while at < self.len() {
            let child = self.child(at);
            let (len, min, max) = (child.len(), child.min(), child.max());
            if len == 0 {
                self.drain(at..at + 1);
                *nodes -= 1;
                return;
            }
            if len >= min {
                return;
            }
            let Some(beside) = self.neighbour(at) else { return };
            let (left, other) = (at.min(beside), self.child(beside).len());
            if len + other <= max * 7 / 8 {
                self.shift(left, self.child(left + 1).len(), false);
                self.drain(left + 1..left + 2);
                *nodes -= 1;
                at = left;
            } else {
                if !edge.of_child(at, self.len()).any() {
                    self.shift(left, (other - len) / 2, beside < at);
                }
                return;
            }
        }
    }

    fn remove_range(&mut self, ranks: Range<usize>, nodes: &mut usize, removed: &mut impl FnMut(M)) {
        let mut before = 0;
        let mut whole = 0..0;
        for at in 0..self.len() {
            let count = self.counts[at];
            let part = ranks.start.max(before).min(before + count) - before
                ..ranks.end.max(before).min(before + count) - before;
            before += count;
            if part.len() == count {
                *nodes -= self.child(at).for_each(removed);
                whole = if whole.is_empty() { at..at + 1 } else { whole.start..at + 1 };
            } else if !part.is_empty() {
                self.counts[at] -= part.len();
                self.child_mut(at).remove_range(part, nodes, removed);
                self.refresh(at);
            }
        }
        self.drain(whole);
    }
}
