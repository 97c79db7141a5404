//! A bucket of the hash table: slots, their tags, and the items that do not fit in the slots.

use super::item::Item;
use super::overflow::Overflow;

pub(super) const SLOTS: usize = 6;

/// Six slots and their tags: one cache line.
#[repr(align(64))]
pub(super) struct Bucket<T> {
    /// Tag of each slot, 0 where the slot is empty; the last two bytes are always 0.
    tags: [u8; 8],
    slots: [Option<T>; SLOTS],
    /// Items beyond six; if there are any, no slot is empty.
    overflow: Option<Overflow<T>>,
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Bucket { tags: [0; 8], slots: [const { None }; SLOTS], overflow: None }
    }
}

impl<T: Item> Bucket<T> {
    /// Finds the item of a key, and its position: the few items whose tags match are compared by key.
    #[inline]
    pub(super) fn find(&self, tag: u8, key: T::Key<'_>) -> Option<(usize, &T)> {
        let slot = |slot: usize| self.slots.get(slot)?.as_ref().filter(|item| item.is(key)).map(|item| (slot, item));
        if let Some(found) = self.candidates_in_slots(tag).find_map(slot) {
            return Some(found);
        }
        let overflow = self.overflow.as_ref()?;
        let at = overflow.position(tag, key)?;
        Some((SLOTS + at, &overflow.items()[at]))
    }

    /// Returns the item at a position.
    #[inline]
    pub(super) fn at(&self, position: usize) -> Option<&T> {
        match self.slots.get(position) {
            Some(slot) => slot.as_ref(),
            None => self.overflow.as_ref()?.items().get(position - SLOTS),
        }
    }

    /// Returns the item at a position, to change it.
    #[inline]
    pub(super) fn at_mut(&mut self, position: usize) -> Option<&mut T> {
        match self.slots.get_mut(position) {
            Some(slot) => slot.as_mut(),
            None => self.overflow.as_mut()?.items_mut().get_mut(position - SLOTS),
        }
    }

    /// Returns the items in slots with this tag, without comparing keys.
    #[inline]
    pub(super) fn near(&self, tag: u8) -> impl Iterator<Item = &T> {
        self.candidates_in_slots(tag).filter_map(|slot| self.slots.get(slot)?.as_ref())
    }

    /// Returns an item with this tag, without comparing keys.
    #[inline]
    pub(super) fn candidate(&self, tag: u8) -> Option<&T> {
        self.near(tag).next().or_else(|| self.overflow.as_ref()?.candidates(tag).next())
    }

    /// Finds the slots with this tag, by comparing all tags at once.
    #[inline]
    fn candidates_in_slots(&self, tag: u8) -> impl Iterator<Item = usize> + use<T> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let differing = u64::from_le_bytes(self.tags) ^ (LOW * u64::from(tag));
        // The highest bit of a byte is set where `differing` is zero; a false positive is rejected by the key.
        let mut matches = differing.wrapping_sub(LOW) & !differing & (LOW << 7);
        std::iter::from_fn(move || {
            let slot = (matches != 0).then(|| (matches.trailing_zeros() / 8) as usize)?;
            matches &= matches - 1;
            Some(slot)
        })
    }

    /// Adds an item. Returns the growth of the memory outside the bucket in bytes.
    #[inline]
    pub(super) fn place(&mut self, tag: u8, item: T) -> usize {
        match self.slots.iter().position(Option::is_none) {
            Some(slot) => {
                self.tags[slot] = tag;
                self.slots[slot] = Some(item);
                0
            }
            None => {
                let before = self.outside();
                Overflow::push(&mut self.overflow, tag, item);
                self.outside() - before
            }
        }
    }

    /// Removes the item at a position, and fills its slot with an item from the overflow list. Returns the item, and
    /// the bytes by which the memory outside the bucket has shrunk.
    #[inline]
    pub(super) fn take_at(&mut self, position: usize) -> Option<(T, usize)> {
        let before = self.outside();
        let item = if position < SLOTS {
            let item = self.slots[position].take()?;
            let (tag, last) = Overflow::pop(&mut self.overflow).map_or((0, None), |(tag, last)| (tag, Some(last)));
            (self.tags[position], self.slots[position]) = (tag, last);
            item
        } else {
            Overflow::swap_remove(&mut self.overflow, position - SLOTS)?
        };
        Some((item, before - self.outside()))
    }

    /// Calls `take` with each item.
    pub(super) fn into_each(self, mut take: impl FnMut(T)) {
        self.slots.into_iter().flatten().for_each(&mut take);
        if let Some(overflow) = self.overflow {
            overflow.into_each(take);
        }
    }

    /// Returns the bytes allocated outside the bucket, without memory owned by the items.
    pub(super) fn outside(&self) -> usize {
        self.overflow.as_ref().map_or(0, Overflow::memory)
    }

    /// Visits the items in slots.
    pub(super) fn in_slots(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.in_slots().chain(self.overflow.iter().flat_map(Overflow::items))
    }

    /// Visits all items mutably.
    pub(super) fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().chain(self.overflow.iter_mut().flat_map(Overflow::items_mut))
    }
}

/// Returns eight bits of the hash that do not number buckets; never 0, which marks an empty slot.
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8) | 1
}
