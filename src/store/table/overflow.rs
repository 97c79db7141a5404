//! The items that do not fit in a bucket's slots: a list with their tags, in one allocation of exactly the length it
//! needs.
//!
//! ```text
//! +-------+----------------+--------+------+------+-----+
//! | count | a tag for each | unused | item | item | ... |
//! | u16   | u8             |        | one word each     |
//! +-------+----------------+--------+------+------+-----+
//!   a multiple of 8 bytes: 8 for up to six items
//! ```
//!
//! Invariant, which every `unsafe` block below leans on: the pointer points to an allocation with the layout of its
//! count, which is not 0; it is owned by this list alone, and the count, the tags and the items in it are initialised.

#![allow(unsafe_code)] // the list above behind one word; see SAFETY at each block

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;

use super::item::Item;
use crate::memory::heap::allocation_len;

const ALIGN: usize = 8;
const COUNT_LEN: usize = size_of::<u16>();

/// List of one item or more.
pub(super) struct Overflow<T> {
    start: NonNull<u8>,
    items: PhantomData<T>,
}

// SAFETY: a list owns its items.
unsafe impl<T: Send> Send for Overflow<T> {}
// SAFETY: through `&Overflow` the items are only borrowed.
unsafe impl<T: Sync> Sync for Overflow<T> {}

impl<T> Overflow<T> {
    /// Returns the bytes allocated for the list, without memory owned by the items.
    pub(super) fn memory(&self) -> usize {
        allocation_len(Self::layout(self.count()).size())
    }

    #[inline]
    pub(super) fn items(&self) -> &[T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.first(), self.count()) }
    }

    #[inline]
    pub(super) fn items_mut(&mut self) -> &mut [T] {
        // SAFETY: the invariant; `&mut self` makes the borrow exclusive.
        unsafe { slice::from_raw_parts_mut(self.first(), self.count()) }
    }

    /// Finds the items with this tag.
    #[inline]
    pub(super) fn candidates(&self, tag: u8) -> impl Iterator<Item = &T> {
        self.tags().iter().zip(self.items()).filter(move |(own, _)| **own == tag).map(|(_, item)| item)
    }

    /// Adds an item at the end of a list, or creates the list.
    pub(super) fn push(list: &mut Option<Self>, tag: u8, item: T) {
        let old = list.take();
        let last = old.as_ref().map_or(0, Self::count);
        // SAFETY: the only new item and its tag are written before anything else is done with the list.
        unsafe {
            let new = Self::resized(old, last + 1);
            new.tag_at(last).write(tag);
            new.first().add(last).write(item);
            *list = Some(new);
        }
    }

    /// Removes the last item of a list, and with the only item the list.
    #[inline] // most buckets have no list
    pub(super) fn pop(list: &mut Option<Self>) -> Option<(u8, T)> {
        let old = list.take()?;
        Some(Self::pop_last(old, list))
    }

    /// Removes the last item of a list; puts back the list that is left, if any.
    #[cold]
    fn pop_last(old: Self, left: &mut Option<Self>) -> (u8, T) {
        let last = old.count() - 1;
        // SAFETY: `last` is within the list. The item is moved out, and the list is then shortened by it or, if it was
        // the only one, freed without the item.
        unsafe {
            let popped = (old.tag_at(last).read(), old.first().add(last).read());
            match last {
                0 => ManuallyDrop::new(old).free(),
                _ => *left = Some(Self::resized(Some(old), last)),
            }
            popped
        }
    }

    /// Removes an item and moves the last one to its place.
    pub(super) fn swap_remove(list: &mut Option<Self>, at: usize) -> Option<T> {
        let own = list.as_mut()?;
        let last = own.count() - 1;
        own.items_mut().swap(at, last);
        own.tags_mut().swap(at, last);
        Self::pop(list).map(|(_, item)| item)
    }

    /// Calls `take` with each item.
    pub(super) fn into_each(self, mut take: impl FnMut(T)) {
        let own = ManuallyDrop::new(self);
        for at in 0..own.count() {
            // SAFETY: each item is moved out once, because the list is not dropped.
            take(unsafe { own.first().add(at).read() });
        }
        // SAFETY: the items have moved, and the list is not used again.
        unsafe { own.free() };
    }

    #[inline]
    fn count(&self) -> usize {
        // SAFETY: the invariant; the allocation is aligned to more than two bytes.
        unsafe { usize::from(self.start.cast::<u16>().read()) }
    }

    fn tags(&self) -> &[u8] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.tag_at(0), self.count()) }
    }

    fn tags_mut(&mut self) -> &mut [u8] {
        // SAFETY: the invariant; `&mut self` makes the borrow exclusive.
        unsafe { slice::from_raw_parts_mut(self.tag_at(0), self.count()) }
    }

    fn tag_at(&self, at: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(COUNT_LEN + at)
    }

    fn first(&self) -> *mut T {
        self.start.as_ptr().wrapping_add(head_len(self.count())).cast()
    }

    /// Moves a list to an allocation for another number of items.
    ///
    /// # Safety
    /// The items and tags beyond the old number are not initialised: the caller writes them at once. Items beyond the
    /// new number are not dropped: the caller has moved them out.
    unsafe fn resized(old: Option<Self>, count: usize) -> Self {
        let layout = Self::layout(count);
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the count lies at the start, and the allocation is aligned to more than two bytes.
        unsafe { start.cast::<u16>().write(u16::try_from(count).expect("few keys have the same bucket")) };
        let new: Self = Overflow { start, items: PhantomData };
        if let Some(old) = old.map(ManuallyDrop::new) {
            let kept = old.count().min(count);
            // SAFETY: both allocations have room for `kept` tags and items; the old one is freed without its items, which
            // have moved.
            unsafe {
                new.tag_at(0).copy_from_nonoverlapping(old.tag_at(0), kept);
                new.first().copy_from_nonoverlapping(old.first(), kept);
                old.free();
            }
        }
        new
    }

    /// Frees the allocation, but not the items.
    ///
    /// # Safety
    /// The list is not used again, not even by `drop`.
    unsafe fn free(&self) {
        // SAFETY: allocated with the layout of its count, which never changes; the rest is promised by the caller.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.count())) };
    }

    fn layout(count: usize) -> Layout {
        const { assert!(align_of::<T>() <= ALIGN && size_of::<T>() <= ALIGN, "an item is one word") };
        Layout::from_size_align(head_len(count) + count * size_of::<T>(), ALIGN).expect("a list is short")
    }
}

impl<T: Item> Overflow<T> {
    /// Finds the position of a key: the few items whose tags match are compared by key.
    #[inline]
    pub(super) fn position(&self, tag: u8, key: T::Key<'_>) -> Option<usize> {
        let is = |(own, item): (&u8, &T)| *own == tag && item.is(key);
        self.tags().iter().zip(self.items()).position(is)
    }
}

impl<T> Drop for Overflow<T> {
    fn drop(&mut self) {
        // SAFETY: the items are initialised and owned (the invariant), and the list is not used again.
        unsafe {
            std::ptr::drop_in_place(self.items_mut());
            self.free();
        }
    }
}

/// Returns the bytes of the count and the tags.
#[inline]
fn head_len(count: usize) -> usize {
    (COUNT_LEN + count).next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Items that own memory and are counted.
    type List = Overflow<Box<(u8, Rc<()>)>>;

    #[test]
    fn it_behaves_as_a_plain_list_and_drops_each_item_once() {
        let shared = Rc::new(());
        // Longer than the tags of one word, twice.
        for max in [1, 2, 6, 7, 14, 15, 40] {
            let (mut list, mut model) = (None, Vec::new());
            for number in 0..max {
                Overflow::push(&mut list, number, Box::new((number, shared.clone())));
                model.push(number);
            }
            let items = |list: &Option<List>| {
                list.iter().flat_map(|list| list.items().iter().map(|item| item.0)).collect::<Vec<_>>()
            };
            assert_eq!(items(&list), model);
            let own = list.as_ref().expect("not empty");
            assert!(model.iter().all(|tag| own.candidates(*tag).map(|item| item.0).eq([*tag])));
            assert_eq!(
                own.memory(),
                allocation_len(own.items().len() * 8 + (own.items().len() + 2).next_multiple_of(8))
            );
            let removed = Overflow::swap_remove(&mut list, model.len() / 2).expect("one");
            assert_eq!(removed.0, model.swap_remove(model.len() / 2));
            assert_eq!((items(&list), list.is_none()), (model.clone(), model.is_empty()));
            if max % 2 == 0 {
                let mut taken = Vec::new();
                list.take().expect("not empty").into_each(|item| taken.push(item.0));
                assert_eq!(taken, model);
            } else if max > 7 {
                drop(list.take());
            }
            while let Some((tag, item)) = Overflow::pop(&mut list) {
                assert_eq!((Some(tag), Some(item.0)), (model.last().copied(), model.pop()));
            }
            drop(removed);
            assert_eq!(Rc::strong_count(&shared), 1);
        }
    }
}
