//! The order of a large sorted set: a counted B+tree over (score, member).
//!
//! ```text
//!                    +-- inner node, 1 KB -----------------------------------+
//!                    | up to 31 of: first score, first member, count, child  |
//!                    +-------------------------------------------------------+
//!                      |                           |
//!   +-- leaf, 1 KB ----------------+   +-- leaf, 1 KB ----------------+
//!   | up to 63 scores | 63 members |   | up to 63 scores | 63 members |
//!   +------------------------------+   +------------------------------+
//! ```
//!
//! Elements are ordered by score and, if scores are equal, by the bytes of the member. The tree holds a copied handle
//! of each member ([`MemberHandle`]); the bytes stay in the hash table of the sorted set, and are read only if two scores are
//! equal. An inner node knows the first element of each child exactly and the number of elements below it, so a rank
//! costs one descent.
//!
//! A full node first gives elements to a neighbour; two full neighbours become three nodes. Random insertion therefore
//! fills nodes to four fifths. At both edges of the tree a full node stays full and a new one begins, so ascending and
//! descending insertion fill nodes completely. A node that becomes too empty is merged with a neighbour; a node at an
//! edge may stay small, so a queue (add at one end, remove at the other) moves almost nothing.

mod node;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

use node::{ByScoreAndMember, Edge, ElementPosition, INNER_MAX, Inner, LEAF_MAX, Leaf, TreeNode};

pub(crate) use node::MemberHandle;

/// Elements in order, addressed by key or by rank. Scores are never NaN.
pub(crate) struct RankTree<M> {
    root: Option<Box<TreeNode<M>>>,
    len: usize,
    nodes: usize,
}

impl<M: MemberHandle> RankTree<M> {
    /// Creates an empty tree, which allocates nothing until it is used.
    pub(crate) fn new() -> Self {
        RankTree { root: None, len: 0, nodes: 0 }
    }

    /// Builds a tree of full nodes from elements that are in ascending order and without duplicates.
    pub(crate) fn from_ascending(elements: impl IntoIterator<Item = (f64, M)>) -> Self {
        let mut tree = RankTree::new();
        let mut level: Vec<Box<TreeNode<M>>> = Vec::new();
        let mut leaf: Option<Leaf<M>> = None;
        for (score, member) in elements {
            let open = leaf.get_or_insert_with(|| Leaf::new(member));
            debug_assert!(open.find(score, member.bytes()) == Err(open.len()), "elements ascend");
            open.insert(open.len(), score, member);
            tree.len += 1;
            if open.len() == LEAF_MAX {
                level.extend(leaf.take().map(|full| Box::new(TreeNode::Leaf(full))));
            }
        }
        level.extend(leaf.map(|rest| Box::new(TreeNode::Leaf(rest))));
        tree.nodes = level.len();
        while level.len() > 1 {
            let mut above = Vec::with_capacity(level.len().div_ceil(INNER_MAX));
            let mut nodes = level.into_iter().peekable();
            while let Some(first) = nodes.next() {
                let mut inner = Inner::new(first);
                while inner.len() < INNER_MAX
                    && let Some(next) = nodes.next()
                {
                    inner.push(next);
                }
                above.push(Box::new(TreeNode::Inner(inner)));
            }
            tree.nodes += above.len();
            level = above;
        }
        tree.root = level.pop();
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes allocated, without the members.
    pub(crate) fn memory(&self) -> usize {
        self.nodes * size_of::<TreeNode<M>>()
    }

    /// Returns the cost of freeing the tree, in units of one allocation.
    pub(crate) fn effort(&self) -> usize {
        self.nodes
    }

    pub(crate) fn clear(&mut self) {
        *self = RankTree::new();
    }

    /// Inserts an element. The caller guarantees that the tree does not contain it.
    pub(crate) fn insert(&mut self, score: f64, member: M) {
        debug_assert!(!score.is_nan(), "a score is a number");
        self.len += 1;
        let nodes = &mut self.nodes;
        let root = self.root.get_or_insert_with(|| {
            *nodes += 1;
            Box::new(TreeNode::Leaf(Leaf::new(member)))
        });
        if root.is_full() {
            let empty = Box::new(TreeNode::Leaf(Leaf::new(member)));
            let child = std::mem::replace(root, empty);
            **root = TreeNode::Inner(Inner::new(child));
            *nodes += 1;
        }
        root.insert(score, member, nodes);
    }

    /// Removes an element and returns its handle.
    pub(crate) fn remove(&mut self, score: f64, bytes: &[u8]) -> Option<M> {
        self.remove_found(&mut ByScoreAndMember { score, bytes })
    }

    /// Changes the score of an element; returns true if it exists. The element stays in its leaf if the order allows
    /// it.
    pub(crate) fn update(&mut self, score: f64, bytes: &[u8], new_score: f64) -> bool {
        debug_assert!(!new_score.is_nan(), "a score is a number");
        let Some(root) = self.root.as_deref_mut() else { return false };
        let found =
            root.change(&mut ByScoreAndMember { score, bytes }, Edge::ROOT, None, &mut self.nodes, &mut |place| {
                if place.covers(new_score, bytes) {
                    (place.leaf.rescore(place.at, new_score), false)
                } else {
                    (place.leaf.remove(place.at), true)
                }
            });
        let Some((member, removed)) = found else { return false };
        if removed {
            self.len -= 1;
            self.shrink();
            self.insert(new_score, member);
        }
        true
    }

    /// Removes the elements at the given ranks and passes each handle to `removed`, in order. Ranks beyond the end are
    /// ignored.
    pub(crate) fn remove_range(&mut self, ranks: impl RangeBounds<usize>, mut removed: impl FnMut(M)) {
        let ranks = self.clamp(ranks);
        let Some(root) = self.root.as_deref_mut() else { return };
        if ranks.is_empty() {
            return;
        }
        if ranks.len() == self.len {
            root.for_each(&mut removed);
            return self.clear();
        }
        root.remove_range(ranks.clone(), &mut self.nodes, &mut removed);
        self.len -= ranks.len();
        self.shrink();
        // The nodes on both sides of the gap may be too empty.
        for rank in [ranks.start.checked_sub(1), Some(ranks.start).filter(|start| *start < self.len)] {
            if let (Some(rank), Some(root)) = (rank, self.root.as_deref_mut()) {
                root.mend(rank, Edge::ROOT, &mut self.nodes);
                self.shrink();
            }
        }
    }

    /// Returns the rank of an element: the number of elements before it.
    pub(crate) fn rank_of(&self, score: f64, bytes: &[u8]) -> Option<usize> {
        let mut node = self.root.as_deref()?;
        let mut rank = 0;
        loop {
            match node {
                TreeNode::Leaf(leaf) => return Some(rank + leaf.find(score, bytes).ok()?),
                TreeNode::Inner(inner) => {
                    let at = inner.child_of(score, bytes);
                    node = inner.child(at);
                    node.prefetch_scores();
                    rank += inner.count_before(at);
                }
            }
        }
    }

    /// Returns the rank of the first element whose score is not less than `score`: the number of elements below it.
    pub(crate) fn rank_not_less(&self, score: f64) -> usize {
        self.descend(|scores, _| scores.partition_point(|other| *other < score))
    }

    /// Returns the rank of the first element whose score is greater than `score`.
    pub(crate) fn rank_greater(&self, score: f64) -> usize {
        self.descend(|scores, _| scores.partition_point(|other| *other <= score))
    }

    /// Returns the rank of the first element for which `precedes` is false; `precedes` must be true for all elements
    /// before that element and false for all after it.
    pub(crate) fn partition_point(&self, mut precedes: impl FnMut(f64, &[u8]) -> bool) -> usize {
        self.descend(|scores, members| node::partition(scores.len(), |at| precedes(scores[at], members[at].bytes())))
    }

    /// Iterates over the elements at the given ranks, from either end. Ranks beyond the end are ignored.
    pub(crate) fn range(&self, ranks: impl RangeBounds<usize>) -> Iter<'_, M> {
        let none: (&[f64], &[M]) = (&[], &[]);
        Iter { root: self.root.as_deref(), ranks: self.clamp(ranks), front: none, back: none }
    }

    /// Finds the rank that divides the elements; `divide` divides the keys of each node.
    fn descend(&self, mut divide: impl FnMut(&[f64], &[M]) -> usize) -> usize {
        let Some(mut node) = self.root.as_deref() else { return 0 };
        let mut rank = 0;
        loop {
            match node {
                TreeNode::Leaf(leaf) => return rank + divide(leaf.scores(), leaf.members()),
                TreeNode::Inner(inner) => {
                    let at = divide(inner.keys().scores(), inner.keys().members()).saturating_sub(1);
                    node = inner.child(at);
                    node.prefetch_scores();
                    rank += inner.count_before(at);
                }
            }
        }
    }

    fn remove_found(&mut self, seek: &mut impl node::Seek<M>) -> Option<M> {
        let root = self.root.as_deref_mut()?;
        let mut act = |place: ElementPosition<'_, M>| (place.leaf.remove(place.at), true);
        let (member, _) = root.change(seek, Edge::ROOT, None, &mut self.nodes, &mut act)?;
        self.len -= 1;
        self.shrink();
        Some(member)
    }

    /// Removes roots that are empty or have one child.
    fn shrink(&mut self) {
        if self.len == 0 {
            return self.clear();
        }
        while let Some(TreeNode::Inner(root)) = self.root.as_deref_mut()
            && root.len() == 1
        {
            self.root = root.take_only_child();
            self.nodes -= 1;
        }
    }

    fn clamp(&self, ranks: impl RangeBounds<usize>) -> Range<usize> {
        let start = match ranks.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match ranks.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        start.min(self.len)..end.min(self.len)
    }
}

impl<M: MemberHandle> fmt::Debug for RankTree<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankTree").field("len", &self.len).field("nodes", &self.nodes).finish()
    }
}

/// An iterator over the elements at a range of ranks. It reads a leaf at a time and finds the next leaf by its rank, so
/// it needs no links between leaves.
#[derive(Clone)]
pub(crate) struct Iter<'a, M> {
    root: Option<&'a TreeNode<M>>,
    /// Ranks still to be returned.
    ranks: Range<usize>,
    /// Elements from `ranks.start` to the end of their leaf, or nothing if that leaf is still to be found.
    front: (&'a [f64], &'a [M]),
    /// Elements from the start of their leaf to `ranks.end`, or nothing.
    back: (&'a [f64], &'a [M]),
}

impl<M: MemberHandle> Iter<'_, M> {
    /// Returns the handle of the element that comes `count` after the next one, if it is in the same leaf and that leaf
    /// has been reached.
    #[inline]
    pub(crate) fn ahead(&self, count: usize) -> Option<M> {
        self.front.1.get(count).copied()
    }

    /// Folds all elements, a leaf at a time; `prepare` gets each handle `ahead` elements earlier if both are in the
    /// same leaf.
    pub(crate) fn fold_prepared<B>(
        mut self,
        init: B,
        ahead: usize,
        prepare: impl Fn(M),
        mut visit: impl FnMut(B, (f64, M)) -> B,
    ) -> B {
        let mut result = init;
        while let Some(first) = self.next() {
            result = visit(result, first);
            let count = self.front.0.len().min(self.ranks.len());
            let (scores, members) = (&self.front.0[..count], &self.front.1[..count]);
            members.iter().take(ahead).for_each(|member| prepare(*member));
            for (at, (score, member)) in scores.iter().zip(members).enumerate() {
                if let Some(member) = members.get(at + ahead) {
                    prepare(*member);
                }
                result = visit(result, (*score, *member));
            }
            self.ranks.start += count;
            self.front = (&self.front.0[count..], &self.front.1[count..]);
        }
        result
    }
}

impl<M: MemberHandle> Iterator for Iter<'_, M> {
    type Item = (f64, M);

    #[inline]
    fn next(&mut self) -> Option<(f64, M)> {
        if self.ranks.is_empty() {
            return None;
        }
        if self.front.0.is_empty() {
            let (leaf, at) = self.root?.leaf_at(self.ranks.start);
            self.front = (&leaf.scores()[at..], &leaf.members()[at..]);
        }
        self.ranks.start += 1;
        let (score, scores) = self.front.0.split_first()?;
        let (member, members) = self.front.1.split_first()?;
        self.front = (scores, members);
        Some((*score, *member))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ranks.len(), Some(self.ranks.len()))
    }
}

impl<M: MemberHandle> DoubleEndedIterator for Iter<'_, M> {
    #[inline]
    fn next_back(&mut self) -> Option<(f64, M)> {
        if self.ranks.is_empty() {
            return None;
        }
        if self.back.0.is_empty() {
            let (leaf, at) = self.root?.leaf_at(self.ranks.end - 1);
            self.back = (&leaf.scores()[..=at], &leaf.members()[..=at]);
        }
        self.ranks.end -= 1;
        let (score, scores) = self.back.0.split_last()?;
        let (member, members) = self.back.1.split_last()?;
        self.back = (scores, members);
        Some((*score, *member))
    }
}

impl<M: MemberHandle> ExactSizeIterator for Iter<'_, M> {}
