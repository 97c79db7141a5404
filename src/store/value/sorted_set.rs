//! Sorted sets: small ones packed in their entries, large ones as a table of members beside a tree ordered by score.
//!
//! Members are ordered by score, and by their bytes if scores are equal. All operations on a range of members use
//! ranks: a range of scores or of members is translated into ranks first.

mod packed;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::store::PackedLimit;
use crate::store::entry::Entry;
use crate::store::table::Hasher;
use crate::store::usage::Dice;
use crate::store::value::big::sorted_set::BigElements;
use crate::store::value::listpack::{Encoded, Items, Listpack, ListpackMut, StoredElement};
use crate::store::value::score::{ScoreText, read_score};
use crate::store::value::{DataType, Packing, Type, Value};
use crate::text::bounds::{LexRange, ScoreRange};

pub(crate) use crate::store::value::big::sorted_set::{BigSortedSet, ScoreTable};
pub(crate) use crate::store::value::score::{Score, checked_score};

/// Maximum size of a packed sorted set in bytes, whatever its limits.
const PACKED_LEN_MAX: usize = 1 << 30;

/// Number of elements between the prefetching of a member and its return.
const PREFETCHED: usize = 8;

/// The data type of sorted sets.
pub(crate) enum SortedSet {}

/// A borrowed sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortedSetRef<'e> {
    /// Member and score alternate, in the order of scores.
    Packed(Listpack<'e>),
    /// Above the limits of packed sorted sets.
    Big(&'e BigSortedSet),
}

/// A sorted set borrowed for a change.
pub(crate) struct SortedSetMut<'e>(&'e mut Entry);

/// An iterator over members with their scores, in ascending or in descending order.
#[derive(Clone)]
pub(crate) struct ScoredElements<'e> {
    source: Source<'e>,
    is_reversed: bool,
}

#[derive(Clone)]
enum Source<'e> {
    Packed(Items<'e>),
    Big(BigElements<'e>),
}

impl<'e> Iterator for ScoredElements<'e> {
    type Item = (StoredElement<'e>, Score<'e>);

    #[inline]
    fn next(&mut self) -> Option<(StoredElement<'e>, Score<'e>)> {
        match (&mut self.source, self.is_reversed) {
            (Source::Packed(items), false) => {
                let member = items.next()?;
                Some((member, Score::Packed(items.next()?)))
            }
            (Source::Packed(items), true) => {
                let score = items.next_back()?;
                Some((items.next_back()?, Score::Packed(score)))
            }
            (Source::Big(elements), is_reversed) => {
                // Members are scattered in memory.
                elements.prefetch_ahead(PREFETCHED);
                let next = if is_reversed { elements.next_back() } else { elements.next() };
                next.map(|(member, score)| (StoredElement::Text(member), Score::Number(score)))
            }
        }
    }

    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut visit: F) -> B {
        match (self.source, self.is_reversed) {
            (Source::Big(elements), false) => elements.fold_prefetched(init, PREFETCHED, |result, (member, score)| {
                visit(result, (StoredElement::Text(member), Score::Number(score)))
            }),
            (source, is_reversed) => {
                let mut result = init;
                for element in (ScoredElements { source, is_reversed }) {
                    result = visit(result, element);
                }
                result
            }
        }
    }
}

impl<'e> SortedSetRef<'e> {
    pub(crate) fn len(self) -> usize {
        match self {
            SortedSetRef::Packed(listpack) => listpack.len() / 2,
            SortedSetRef::Big(set) => set.len(),
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            SortedSetRef::Packed(_) => "listpack",
            SortedSetRef::Big(_) => "skiplist",
        }
    }

    /// Returns the score of a member.
    #[inline]
    pub(crate) fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            SortedSetRef::Packed(listpack) => {
                let at = listpack.find(listpack.first()?, member, 1)?;
                Some(read_score(listpack.get(listpack.next(at)?)))
            }
            SortedSetRef::Big(set) => set.score(member),
        }
    }

    /// Returns the rank of a member, which is the number of members before it, and its score.
    pub(crate) fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            SortedSetRef::Packed(listpack) => {
                let at = listpack.find(listpack.first()?, member, 1)?;
                let score = read_score(listpack.get(listpack.next(at)?));
                Some((packed::rank_at(listpack, at), score))
            }
            SortedSetRef::Big(set) => set.rank(member),
        }
    }

    /// Returns the elements at a range of ranks, which exist; from its end to its start if `is_reversed`.
    pub(crate) fn elements(self, ranks: Range<usize>, is_reversed: bool) -> ScoredElements<'e> {
        let source = match self {
            SortedSetRef::Packed(listpack) => Source::Packed(packed::items(listpack, ranks)),
            SortedSetRef::Big(set) => Source::Big(set.range(ranks)),
        };
        ScoredElements { source, is_reversed }
    }

    /// Returns all elements in ascending order.
    pub(crate) fn iter(self) -> ScoredElements<'e> {
        self.elements(0..self.len(), false)
    }

    /// Returns the ranks of the elements whose scores are in a range.
    pub(crate) fn ranks_by_score(self, range: &ScoreRange) -> Range<usize> {
        match self {
            _ if range.is_empty() => 0..0,
            SortedSetRef::Packed(listpack) => packed::ranks_by_score(listpack, range),
            SortedSetRef::Big(set) => set.ranks_by_score(range),
        }
    }

    /// Returns the ranks of the elements whose members are in a range; all scores should be equal.
    ///
    /// If they are not equal, the members are in no order. As in Redis, the first run of members in the range is found
    /// then, or the last one if the search `is_reversed`.
    pub(crate) fn ranks_by_member(self, range: &LexRange<'_>, is_reversed: bool) -> Range<usize> {
        match self {
            _ if range.is_empty() => 0..0,
            SortedSetRef::Packed(listpack) => packed::ranks_by_member(listpack, range, is_reversed),
            SortedSetRef::Big(set) => set.ranks_by_member(range),
        }
    }

    /// Returns a random element, or `None` if there is none.
    pub(crate) fn random(self, dice: &mut Dice) -> Option<(StoredElement<'e>, Score<'e>)> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        let rank = dice.below(len);
        self.elements(rank..rank + 1, false).next()
    }
}

impl SortedSetMut<'_> {
    /// Sets the score of a member to the result of `choose` for the present one, which is `None` for a missing member;
    /// nothing changes if the result is `None`. A sorted set that exceeds the limit of packed ones becomes a big one,
    /// whose members are hashed by `hasher`.
    pub(crate) fn put(
        &mut self,
        member: &[u8],
        (limit, hasher): (PackedLimit, &Hasher),
        choose: impl FnOnce(Option<f64>) -> Option<f64>,
    ) {
        if let Some(Value::SortedSet(set)) = self.0.value_mut() {
            return set.put(member, choose);
        }
        let listpack = self.listpack();
        let found = listpack.first().and_then(|first| listpack.find(first, member, 1));
        let found = found.and_then(|at| Some((at, listpack.next(at)?)));
        match found {
            Some((at, score_at)) => {
                let old = read_score(listpack.get(score_at));
                if let Some(score) = choose(Some(old)).filter(|score| *score != old) {
                    packed::change_score(&mut ListpackMut::new(&mut *self.0), at, score);
                }
            }
            None => {
                let Some(score) = choose(None) else { return };
                let (entries, bytes) = (listpack.len() / 2 + 1, listpack.bytes().len() + member.len());
                if limit.admits(entries, member.len()) && bytes < PACKED_LEN_MAX {
                    packed::insert(&mut ListpackMut::new(&mut *self.0), score, Encoded::of(member), member);
                } else {
                    self.unpack(hasher).put(member, |_| Some(score));
                }
            }
        }
    }

    /// Converts a packed sorted set to a big one if `entries` members exceed the limit of packed ones.
    pub(crate) fn prepare_for(&mut self, entries: usize, (limit, hasher): (PackedLimit, &Hasher)) {
        if self.0.value().is_none_or(|value| !matches!(value, Value::SortedSet(_))) && !limit.admits(entries, 0) {
            self.unpack(hasher);
        }
    }

    /// Removes a member; returns true if it existed.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        if let Some(Value::SortedSet(set)) = self.0.value_mut() {
            return set.remove(member);
        }
        let listpack = self.listpack();
        let found = listpack.first().and_then(|first| listpack.find(first, member, 1));
        if let Some(at) = found {
            ListpackMut::new(&mut *self.0).remove_range(at, 2);
        }
        found.is_some()
    }

    /// Removes the elements at a range of ranks, which exist.
    pub(crate) fn remove_ranks(&mut self, ranks: Range<usize>) {
        if let Some(Value::SortedSet(set)) = self.0.value_mut() {
            return set.remove_ranks(ranks);
        }
        if let Some(at) = self.listpack().seek(2 * ranks.start as isize) {
            ListpackMut::new(&mut *self.0).remove_range(at, 2 * ranks.len());
        }
    }

    fn listpack(&self) -> Listpack<'_> {
        Listpack::new(self.0.packed_bytes().expect("a big one was ruled out"))
    }

    /// Converts a packed sorted set to a big one.
    #[cold]
    fn unpack(&mut self, hasher: &Hasher) -> &mut BigSortedSet {
        let set = BigSortedSet::from_ascending(SortedSetRef::Packed(self.listpack()).iter(), hasher);
        self.0.set_boxed(Value::SortedSet(Box::new(set)));
        match self.0.value_mut() {
            Some(Value::SortedSet(set)) => set,
            _ => unreachable!("it was set on the line above"),
        }
    }
}

impl SortedSet {
    /// Creates an entry of elements that are in ascending order and have different members: packed if the limit admits
    /// it.
    pub(crate) fn entry<'e>(
        key: &[u8],
        elements: impl Iterator<Item = (StoredElement<'e>, Score<'e>)> + Clone,
        (limit, hasher): (PackedLimit, &Hasher),
    ) -> Entry {
        let (mut count, mut longest, mut total) = (0, 0, 0);
        for (member, _) in elements.clone() {
            let len = member.len();
            (count, longest, total) = (count + 1, longest.max(len), total + len);
            if !limit.admits(count, longest) || total >= PACKED_LEN_MAX {
                let set = BigSortedSet::from_ascending(elements, hasher);
                return Self::big_entry(key, set);
            }
        }
        Self::packed_entry(key, elements)
    }

    /// Creates an entry of a set that was combined from others: packed if the limit admits it.
    pub(crate) fn entry_of(key: &[u8], set: BigSortedSet, limit: PackedLimit) -> Entry {
        let elements = SortedSetRef::Big(&set).iter();
        let mut total = 0;
        let is_packed = limit.admits(set.len(), 0)
            && elements.map(|(member, _)| member.len()).all(|len| {
                total += len;
                limit.admits(1, len) && total < PACKED_LEN_MAX
            });
        if is_packed { Self::packed_entry(key, SortedSetRef::Big(&set).iter()) } else { Self::big_entry(key, set) }
    }

    fn packed_entry<'e>(key: &[u8], elements: impl Iterator<Item = (StoredElement<'e>, Score<'e>)>) -> Entry {
        let mut listpack = ListpackMut::new(Listpack::EMPTY.bytes().to_vec());
        for (member, score) in elements {
            listpack.push_back_all(&[member.into(), ScoreText::new(score.get()).encoded()]);
        }
        Entry::packed(key, Type::SortedSet, Packing::Listpack, listpack.as_listpack().bytes(), None)
    }

    fn big_entry(key: &[u8], set: BigSortedSet) -> Entry {
        Entry::boxed(key, Type::SortedSet, Box::new(Value::SortedSet(Box::new(set))), None)
    }
}

impl DataType for SortedSet {
    const TYPE: Type = Type::SortedSet;
    type Ref<'e> = SortedSetRef<'e>;
    type Mut<'e> = SortedSetMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> SortedSetRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => SortedSetRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::SortedSet(big))) => SortedSetRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> SortedSetMut<'_> {
        SortedSetMut(entry)
    }

    fn nothing<'e>() -> SortedSetRef<'e> {
        SortedSetRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::SortedSet, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(entry: &Entry) -> bool {
        match Self::read(entry) {
            SortedSetRef::Packed(listpack) => listpack.is_empty(),
            SortedSetRef::Big(set) => set.len() == 0,
        }
    }
}
