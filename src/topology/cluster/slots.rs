//! A set of slots, as a map of bits.

use crate::topology::{SLOT_COUNT, Slot};

const BITS: Slot = 64;
const WORDS: usize = (SLOT_COUNT / BITS) as usize;

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotSet {
    words: [u64; WORDS],
    len: u32,
}

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet { words: [0; WORDS], len: 0 }
    }
}

impl SlotSet {
    /// Returns the set of the slots from one to another, both included.
    pub(super) fn range(first: Slot, last: Slot) -> Self {
        (first..=last).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.len == u32::from(SLOT_COUNT)
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.words.get(usize::from(slot / BITS)).is_some_and(|word| word >> (slot % BITS) & 1 == 1)
    }

    /// Adds a slot; returns true if it was not in the set.
    pub(super) fn insert(&mut self, slot: Slot) -> bool {
        let is_new = slot < SLOT_COUNT && !self.contains(slot);
        if is_new && let Some(word) = self.words.get_mut(usize::from(slot / BITS)) {
            *word |= 1 << (slot % BITS);
            self.len += 1;
        }
        is_new
    }

    /// Removes a slot; returns true if it was in the set.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let was_there = self.contains(slot);
        if was_there && let Some(word) = self.words.get_mut(usize::from(slot / BITS)) {
            *word &= !(1 << (slot % BITS));
            self.len -= 1;
        }
        was_there
    }

    /// Returns the slots that are in both sets.
    pub(super) fn and(&self, other: &SlotSet) -> SlotSet {
        self.combined(other, |own, other| own & other)
    }

    /// Returns the slots that are in this set, but not in another one.
    pub(super) fn without(&self, other: &SlotSet) -> SlotSet {
        self.combined(other, |own, other| own & !other)
    }

    /// Returns the slots that are in one of the sets.
    pub(super) fn or(&self, other: &SlotSet) -> SlotSet {
        self.combined(other, |own, other| own | other)
    }

    fn combined(&self, other: &SlotSet, combine: impl Fn(u64, u64) -> u64) -> SlotSet {
        let mut set = self.clone();
        for (word, other) in set.words.iter_mut().zip(&other.words) {
            *word = combine(*word, *other);
        }
        set.len = set.words.iter().map(|word| word.count_ones()).sum();
        set
    }

    /// Returns the lowest slot.
    pub(super) fn first(&self) -> Option<Slot> {
        self.next(0, true)
    }

    /// Returns the slots in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        std::iter::successors(self.first(), |slot| self.next(slot + 1, true))
    }

    /// Returns the slots in ranges of first and last.
    pub(super) fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges = Vec::new();
        let mut next = self.first();
        while let Some(first) = next {
            let end = self.next(first, false).unwrap_or(SLOT_COUNT);
            ranges.push((first, end - 1));
            next = self.next(end, true);
        }
        ranges
    }

    /// Returns the lowest slot, from a number on, that is in the set, or that is not in it.
    fn next(&self, from: Slot, is_in: bool) -> Option<Slot> {
        let mut slot = from;
        while let Some(word) = self.words.get(usize::from(slot / BITS)) {
            let sought = if is_in { *word } else { !*word };
            let rest = sought >> (slot % BITS);
            if rest != 0 {
                return Some(slot + Slot::try_from(rest.trailing_zeros()).unwrap_or(0));
            }
            slot += BITS - slot % BITS;
        }
        None
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = SlotSet::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_slots_is_a_set() {
        let mut set = SlotSet::range(60, 130);
        assert!(set.insert(0) && !set.insert(0) && set.insert(16383) && !set.insert(SLOT_COUNT));
        assert_eq!(set.ranges(), [(0, 0), (60, 130), (16383, 16383)]);
        assert!(set.remove(64) && !set.remove(64) && !set.contains(64) && set.contains(63));
        assert_eq!((set.len(), set.first()), (72, Some(0)));
        assert_eq!(set.iter().count(), set.len());
        assert!(SlotSet::default().is_empty() && SlotSet::range(0, SLOT_COUNT - 1).is_full());
    }

    #[test]
    fn sets_are_combined_slot_by_slot() {
        let (low, high) = (SlotSet::range(0, 99), SlotSet::range(50, 149));
        assert_eq!(low.and(&high).ranges(), [(50, 99)]);
        assert_eq!(low.or(&high).ranges(), [(0, 149)]);
        assert_eq!(low.without(&high).ranges(), [(0, 49)]);
        assert_eq!(low.without(&high).len(), 50);
    }
}
