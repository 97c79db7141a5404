//! A bucket of the hash table: slots, their tags and a chain of overflow buckets.

use super::Item;

pub(super) const SLOTS: usize = 6;

/// Six slots and their tags: one cache line.
#[repr(align(64))]
pub(super) struct Bucket<T> {
    /// Tag of each slot, 0 where the slot is empty; the last two bytes are always 0.
    pub(super) tags: [u8; 8],
    pub(super) slots: [Option<T>; SLOTS],
    pub(super) overflow: Option<Box<Bucket<T>>>,
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Bucket { tags: [0; 8], slots: [const { None }; SLOTS], overflow: None }
    }
}

impl<T: Item> Bucket<T> {
    /// Finds the slot of a key: the few whose tags match are compared by key.
    #[inline]
    pub(super) fn position(&self, tag: u8, key: T::Key<'_>) -> Option<usize> {
        self.candidates(tag)
            .find(|slot| self.slots.get(*slot).is_some_and(|slot| slot.as_ref().is_some_and(|item| item.is(key))))
    }

    /// Finds the slots with a tag, by comparing all tags at once.
    #[inline]
    pub(super) fn candidates(&self, tag: u8) -> impl Iterator<Item = usize> + use<T> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let differing = u64::from_le_bytes(self.tags) ^ (LOW * u64::from(tag));
        // The highest bit of a byte is set where `differing` is zero; a false positive is settled by the key.
        let mut matches = differing.wrapping_sub(LOW) & !differing & (LOW << 7);
        std::iter::from_fn(move || {
            let slot = (matches != 0).then(|| (matches.trailing_zeros() / 8) as usize)?;
            matches &= matches - 1;
            Some(slot)
        })
    }

    /// Removes a key's item from the chain and drops overflow buckets that become empty; returns how many.
    pub(super) fn take(&mut self, tag: u8, key: T::Key<'_>) -> Option<(T, usize)> {
        if let Some(slot) = self.position(tag, key) {
            let item = self.slots[slot].take()?;
            self.tags[slot] = 0;
            return Some((item, self.refill(slot)));
        }
        let overflow = self.overflow.as_deref_mut()?;
        let (item, dropped) = overflow.take(tag, key)?;
        Some((item, dropped + self.drop_empty()))
    }

    /// Fills an empty slot from the overflow bucket, so that churn leaves no chains of half-empty buckets; returns how
    /// many buckets were dropped.
    fn refill(&mut self, slot: usize) -> usize {
        let Some(overflow) = self.overflow.as_deref_mut() else { return 0 };
        let Some(last) = overflow.slots.iter().rposition(Option::is_some) else { return 0 };
        self.slots[slot] = overflow.slots[last].take();
        self.tags[slot] = std::mem::take(&mut overflow.tags[last]);
        overflow.refill(last) + self.drop_empty()
    }

    fn drop_empty(&mut self) -> usize {
        let next = self.overflow.take_if(|overflow| overflow.slots.iter().all(Option::is_none));
        let was_empty = next.is_some();
        if let Some(mut empty) = next {
            self.overflow = empty.overflow.take();
        }
        usize::from(was_empty)
    }

    /// Visits the items of this bucket and of its overflow buckets.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(Some(self), |bucket| bucket.overflow.as_deref())
            .flat_map(|bucket| bucket.slots.iter().flatten())
    }
}

/// Returns eight bits of the hash that are not used to number buckets; never 0, which marks an empty slot.
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8) | 1
}
