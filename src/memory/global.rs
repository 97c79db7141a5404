//! The allocator of the binary: jemalloc, for size classes 8 or 16 bytes apart.
//!
//! With size classes 8 bytes apart, an allocation of 24, 40 or 56 bytes begins at a multiple of 8 only, so every
//! alignment above 8 is requested explicitly. With size classes 16 bytes apart the same requests are correct, too.

#![allow(unsafe_code)] // the calls of jemalloc; see SAFETY at each block

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;

use tikv_jemalloc_sys as jemalloc;

/// The alignment of every allocation: size classes are multiples of at least 8 bytes.
const SMALL_ALIGN: usize = 8;
/// Alignment of allocations whose size is a multiple of it: size classes of 16 bytes and more that are chosen for such
/// a size are themselves multiples of 16.
const MIDDLE_ALIGN: usize = 16;

/// The global allocator jemalloc.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

/// Returns the size to request, and the flags for the alignment. Most allocations need no flags, and jemalloc serves
/// requests without flags by a shorter path.
#[inline]
const fn request(size: usize, align: usize) -> (usize, c_int) {
    if align <= SMALL_ALIGN {
        (size, 0)
    } else if align == MIDDLE_ALIGN {
        // No overflow for any layout: its size, rounded up to its alignment, is at most isize::MAX.
        (size.next_multiple_of(MIDDLE_ALIGN), 0)
    } else {
        (size, jemalloc::MALLOCX_ALIGN(align))
    }
}

// SAFETY: jemalloc never unwinds. Its allocations have at least the requested size. They have the alignment of the
// layout: `request` rounds sizes up so that a size class without a flag is a multiple of the alignment, and jemalloc
// places the allocations of a class one after the other from the beginning of a page. Allocation and deallocation
// compute the same request from the same layout.
unsafe impl GlobalAlloc for Jemalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, flags) = request(layout.size(), layout.align());
        // SAFETY: `size` is not 0, which the caller promises of the layout.
        unsafe { if flags == 0 { jemalloc::malloc(size) } else { jemalloc::mallocx(size, flags) } }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, flags) = request(layout.size(), layout.align());
        let zeroed = flags | jemalloc::MALLOCX_ZERO;
        // SAFETY: as in `alloc`.
        unsafe { if flags == 0 { jemalloc::calloc(1, size) } else { jemalloc::mallocx(size, zeroed) } }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let (size, flags) = request(layout.size(), layout.align());
        // SAFETY: the caller promises that `pointer` was allocated with this layout, so with this size and these flags.
        unsafe { jemalloc::sdallocx(pointer.cast(), size, flags) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (size, flags) = request(new_size, layout.align());
        let old = pointer.cast();
        // SAFETY: the caller promises that `pointer` was allocated here and that `new_size`, and so `size`, is not 0.
        unsafe { if flags == 0 { jemalloc::realloc(old, size) } else { jemalloc::rallocx(old, size, flags) } }.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::heap::allocation_len;

    #[test]
    fn sizes_are_those_of_jemallocs_own_table() {
        for size in 1..=64 << 10 {
            // SAFETY: the size is not 0.
            let class = unsafe { jemalloc::nallocx(size, 0) };
            assert_eq!(allocation_len(size), class, "{size}");
        }
    }

    #[test]
    fn every_allocation_has_the_alignment_of_its_layout() {
        for align in (0..=12).map(|bits| 1 << bits) {
            for size in (1..=300).chain([1000, 4096, 5000, 16_384, 20_000]) {
                let layout = Layout::from_size_align(size, align).expect("valid");
                // Several, because a single one may be aligned by chance.
                let all: Vec<*mut u8> = (0..5)
                    .map(|number| {
                        // SAFETY: the size is not 0.
                        let first = unsafe {
                            if number % 2 == 0 { Jemalloc.alloc(layout) } else { Jemalloc.alloc_zeroed(layout) }
                        };
                        assert!(!first.is_null() && first.addr() % align == 0, "{size} at {align}");
                        // SAFETY: `size` bytes were allocated.
                        unsafe { first.write_bytes(7, size) };
                        first
                    })
                    .collect();
                for pointer in all {
                    // SAFETY: allocated with this layout, and each is used once.
                    let grown = unsafe { Jemalloc.realloc(pointer, layout, size + 9) };
                    assert!(!grown.is_null() && grown.addr() % align == 0, "{size} at {align}, grown");
                    // SAFETY: `size` bytes were written before the reallocation, which keeps them.
                    assert!((0..size).all(|at| unsafe { *grown.add(at) } == 7));
                    // SAFETY: the layout is that of the reallocation.
                    unsafe { Jemalloc.dealloc(grown, Layout::from_size_align(size + 9, align).expect("valid")) };
                }
            }
        }
    }
}
