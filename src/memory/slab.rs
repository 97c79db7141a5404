//! Memory for entries of medium length, with sizes 8 bytes apart.
//!
//! jemalloc has four sizes between a power of two and the next, so an entry of 168 bytes takes 192. Entries from
//! [`LEN_MIN`] to [`LEN_MAX`] bytes are therefore placed in chunks of 32 KB, each for one size:
//!
//! ```text
//! +--------------------------------------+-------+-------+-----+------+
//! | header: which places are free        | place | place | ... | rest |
//! | 48 bytes                             | one entry each, of one size |
//! +--------------------------------------+-------+-------+-----+------+
//! ```
//!
//! Chunks come from the allocator and are aligned to their length, so that the address of an entry gives its chunk. A
//! thread uses one of several pools, so that threads rarely wait for each other; an entry is freed to the pool of its
//! chunk, by any thread. A chunk without entries is returned, unless it is the only one with free places.
//!
//! Invariants, which every `unsafe` block below leans on:
//! 1. A chunk in the list of a pool is allocated, its header is initialised, `pool` never changes, and
//!    its marks are accessed only while the pool is locked. A chunk that is in no list has no free place; it is
//!    allocated as long as one of its entries is.
//! 2. A place whose bit is not set belongs to the entry that was placed there.

#![allow(unsafe_code)] // headers found by the addresses of entries; see SAFETY at each block

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::memory::heap;

/// Lengths of the entries. Shorter entries lose at most 8 bytes to the allocator's size classes; a chunk would have too
/// few longer ones.
const LEN_MIN: usize = 136;
const LEN_MAX: usize = 512;
/// Distance between two sizes.
const STEP: usize = 8;
const SIZES: usize = (LEN_MAX - LEN_MIN) / STEP + 1;

const CHUNK_LEN: usize = 32 << 10;
const HEADER_LEN: usize = size_of::<Chunk>();
const CHUNK: Layout = match Layout::from_size_align(CHUNK_LEN, CHUNK_LEN) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = (CHUNK_LEN / LEN_MIN).div_ceil(WORD_BITS);

/// Number of pools, and so of threads that never wait for each other.
const POOLS: usize = 8;

/// Returns true if chunks are used: with other allocators they would lose as much as they save. In unit tests they
/// would hide errors from AddressSanitizer, so there they are used only if `KEYLATCH_SLAB` is set, to test them with
/// entries.
#[inline(always)]
fn is_used() -> bool {
    #[cfg(test)]
    {
        static ASKED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *ASKED.get_or_init(|| std::env::var_os("KEYLATCH_SLAB").is_some())
    }
    #[cfg(not(test))]
    cfg!(feature = "jemalloc")
}

/// The free places of each size.
type Pool = [Mutex<Places>; SIZES];

/// All pools. They are part of the allocator, and so common to all instances in a process.
static ALL: [Pool; POOLS] = [const { [const { Mutex::new(Places::new()) }; SIZES] }; POOLS];

/// Pool of the next thread that needs one.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Allocates memory for an entry; null if there is none.
///
/// # Safety
/// The size of the layout is not 0; its alignment is at most 8.
#[inline]
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    if is_used() && is_medium(layout.size()) {
        alloc_medium(layout.size())
    } else {
        // SAFETY: promised by the caller.
        unsafe { alloc::alloc(layout) }
    }
}

/// Frees the memory of an entry.
///
/// # Safety
/// The memory was allocated by [`alloc()`] with this layout, and is not used again.
#[inline]
pub(crate) unsafe fn dealloc(start: NonNull<u8>, layout: Layout) {
    if is_used() && is_medium(layout.size()) {
        // SAFETY: promised by the caller.
        unsafe { free_medium(start, layout.size()) }
    } else {
        // SAFETY: promised by the caller.
        unsafe { alloc::dealloc(start.as_ptr(), layout) }
    }
}

/// Returns the bytes that an entry of this size takes; the size is a multiple of 8.
#[inline]
pub(crate) const fn allocation_len(size: usize) -> usize {
    if is_medium(size) { size } else { heap::allocation_len(size) }
}

/// Returns the room to leave in an entry of this size that grows: the rest of the allocator's size class, or half of
/// that if the entry takes no more than its size.
pub(crate) const fn room_for_growth(size: usize) -> usize {
    let room = heap::allocation_len(size) - size;
    if is_medium(size) { room / 2 } else { room }
}

/// Returns the bytes in free places.
pub(crate) fn free_bytes() -> usize {
    let free = |(size, places): (usize, &Mutex<Places>)| places.lock().free * (LEN_MIN + size * STEP);
    ALL.iter().flat_map(|pool| pool.iter().enumerate()).map(free).sum()
}

#[inline]
const fn is_medium(size: usize) -> bool {
    LEN_MIN <= size && size <= LEN_MAX
}

#[inline(never)]
fn alloc_medium(size: usize) -> *mut u8 {
    let pool = MINE.get().unwrap_or_else(next_pool);
    ALL[usize::from(pool)][(size - LEN_MIN) / STEP].lock().take(size, pool).map_or(ptr::null_mut(), NonNull::as_ptr)
}

#[cold]
fn next_pool() -> u8 {
    let pool = (NEXT.fetch_add(1, Relaxed) % POOLS) as u8;
    MINE.set(Some(pool));
    pool
}

/// # Safety
/// The place was allocated by [`alloc_medium`] with this size, and is not used again.
#[inline(never)]
unsafe fn free_medium(place: NonNull<u8>, size: usize) {
    // SAFETY: the place lies in a chunk, which starts at the preceding multiple of the chunks' length.
    let chunk: NonNull<Chunk> = unsafe { place.sub(place.addr().get() % CHUNK_LEN) }.cast();
    // SAFETY: the chunk has an entry, so it is allocated, and its pool never changes (invariant 1).
    let pool = unsafe { (&raw const (*chunk.as_ptr()).pool).read() };
    let index = (place.addr().get() % CHUNK_LEN - HEADER_LEN) / size;
    // SAFETY: promised by the caller; this is the list of the chunk's pool and size.
    let empty = unsafe { ALL[usize::from(pool)][(size - LEN_MIN) / STEP].lock().give_back(chunk, index) };
    if let Some(chunk) = empty {
        // SAFETY: the chunk has no entry, and is no longer in a list.
        unsafe { free_chunk(chunk) };
    }
}

/// # Safety
/// The chunk was allocated with the layout of chunks, and is not used again.
#[cold]
unsafe fn free_chunk(chunk: NonNull<Chunk>) {
    // SAFETY: promised by the caller.
    unsafe { alloc::dealloc(chunk.as_ptr().cast(), CHUNK) };
}

/// The header of a chunk.
#[repr(C)]
struct Chunk {
    marks: Marks,
    pool: u8,
}

/// The free places of a chunk.
struct Marks {
    /// Bit set of the free places.
    free: [u64; WORDS],
    /// Index of the chunk in the list of chunks with free places, if it has any.
    at: u32,
    /// Number of free places.
    count: u16,
    /// Number of places.
    places: u16,
}

/// The chunks of one size with free places. The first is filled first; the others lose entries meanwhile.
struct Places {
    chunks: Vec<NonNull<Chunk>>,
    /// Number of free places in these chunks.
    free: usize,
}

// SAFETY: the chunks in the list are accessed only through it (invariant 1).
unsafe impl Send for Places {}

impl Places {
    const fn new() -> Self {
        Places { chunks: Vec::new(), free: 0 }
    }

    /// Takes a free place, from a new chunk if necessary.
    fn take(&mut self, size: usize, pool: u8) -> Option<NonNull<u8>> {
        let chunk = match self.chunks.first() {
            Some(chunk) => *chunk,
            None => self.add_chunk(size, pool)?,
        };
        // SAFETY: a chunk in the list, whose pool is locked (invariant 1).
        let marks = unsafe { &mut (*chunk.as_ptr()).marks };
        let word = marks.free.iter().position(|word| *word != 0).expect("a chunk in the list has a free place");
        let bit = marks.free[word].trailing_zeros() as usize;
        marks.free[word] &= marks.free[word] - 1;
        marks.count -= 1;
        self.free -= 1;
        if marks.count == 0 {
            self.remove(0);
        }
        // SAFETY: the place with this index lies in the chunk.
        Some(unsafe { chunk.cast::<u8>().add(HEADER_LEN + (word * WORD_BITS + bit) * size) })
    }

    /// Frees a place. Returns the chunk if it is empty and to be freed.
    ///
    /// # Safety
    /// The chunk is one of this pool and size, and the entry in the place is not used again.
    unsafe fn give_back(&mut self, chunk: NonNull<Chunk>, index: usize) -> Option<NonNull<Chunk>> {
        // SAFETY: the chunk has an entry, so it is allocated, and its pool is locked (invariant 1).
        let marks = unsafe { &mut (*chunk.as_ptr()).marks };
        marks.free[index / WORD_BITS] |= 1 << (index % WORD_BITS);
        marks.count += 1;
        self.free += 1;
        if marks.count == 1 {
            marks.at = self.chunks.len() as u32;
            self.chunks.push(chunk);
        }
        let is_spare = marks.count == marks.places && self.chunks.len() > 1;
        is_spare.then(|| {
            self.free -= usize::from(marks.places);
            self.remove(marks.at as usize);
            chunk
        })
    }

    /// Removes a chunk from the list, and moves the last one to its index.
    fn remove(&mut self, at: usize) {
        self.chunks.swap_remove(at);
        if let Some(moved) = self.chunks.get(at) {
            // SAFETY: a chunk in the list, whose pool is locked (invariant 1).
            unsafe { (&raw mut (*moved.as_ptr()).marks.at).write(at as u32) };
        }
    }

    #[cold]
    fn add_chunk(&mut self, size: usize, pool: u8) -> Option<NonNull<Chunk>> {
        let places = (CHUNK_LEN - HEADER_LEN) / size;
        let free = std::array::from_fn(|word| match places.saturating_sub(word * WORD_BITS) {
            rest @ ..WORD_BITS => (1 << rest) - 1,
            _ => u64::MAX,
        });
        let marks = Marks { free, at: 0, count: places as u16, places: places as u16 };
        // SAFETY: the layout is not empty.
        let chunk = NonNull::new(unsafe { alloc::alloc(CHUNK) })?.cast::<Chunk>();
        // SAFETY: a chunk is longer than its header, and aligned to more.
        unsafe { chunk.write(Chunk { marks, pool }) };
        self.chunks.push(chunk);
        self.free += places;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of free places of a size in all pools.
    fn free_places(size: usize) -> usize {
        ALL.iter().map(|pool| pool[(size - LEN_MIN) / STEP].lock().free).sum()
    }

    #[test]
    fn places_of_every_size_lie_apart_and_keep_what_is_written() {
        for size in (LEN_MIN..=LEN_MAX).step_by(STEP) {
            let count = 3 * CHUNK_LEN / size;
            let places: Vec<NonNull<u8>> =
                (0..count).map(|_| NonNull::new(alloc_medium(size)).expect("there is memory")).collect();
            for (number, place) in places.iter().enumerate() {
                assert_eq!(place.addr().get() % STEP, 0);
                assert!(place.addr().get() % CHUNK_LEN + size <= CHUNK_LEN, "it ends in its chunk");
                // SAFETY: `size` bytes were allocated.
                unsafe { place.write_bytes(number as u8, size) };
            }
            for (number, place) in places.iter().enumerate() {
                // SAFETY: written above, all `size` bytes.
                let bytes = unsafe { std::slice::from_raw_parts(place.as_ptr(), size) };
                assert!(bytes.iter().all(|byte| *byte == number as u8), "{number} of {size}");
            }
            // SAFETY: allocated with this size, and each is freed once.
            places.into_iter().for_each(|place| unsafe { free_medium(place, size) });
        }
    }

    #[test]
    fn chunks_without_entries_are_returned_but_for_one() {
        const SIZE: usize = 264;
        let (mut random, mut places) = (1_u64, Vec::new());
        let per_chunk = (CHUNK_LEN - HEADER_LEN) / SIZE;
        for step in 0..40_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dice = (random >> 33) as usize;
            // Phases of mostly adding and mostly removing.
            if dice % 10 < if (step / 4_000) % 2 == 0 { 8 } else { 2 } {
                places.push(NonNull::new(alloc_medium(SIZE)).expect("there is memory"));
            } else if !places.is_empty() {
                let place = places.swap_remove(dice / 10 % places.len());
                // SAFETY: allocated with this size, and freed once.
                unsafe { free_medium(place, SIZE) };
            }
        }
        // SAFETY: as above.
        places.into_iter().for_each(|place| unsafe { free_medium(place, SIZE) });
        // Tests on other threads use other pools meanwhile.
        let mine = &ALL[usize::from(MINE.get().expect("it was used"))][(SIZE - LEN_MIN) / STEP];
        assert!(mine.lock().free < 8 * per_chunk);
    }

    #[test]
    fn free_places_are_used_before_a_chunk_is_allocated() {
        const SIZE: usize = 328;
        let mut list = Places::new();
        let per_chunk = (CHUNK_LEN - HEADER_LEN) / SIZE;
        let mut places: Vec<NonNull<u8>> = (0..4 * per_chunk).filter_map(|_| list.take(SIZE, 0)).collect();
        assert_eq!((list.free, list.chunks.len()), (0, 0));
        let free = |list: &mut Places, place: NonNull<u8>| {
            let offset = place.addr().get() % CHUNK_LEN;
            // SAFETY: the start of the chunk in which the place lies, which has this entry.
            unsafe {
                let chunk = place.sub(offset).cast();
                list.give_back(chunk, (offset - HEADER_LEN) / SIZE).map(|chunk| free_chunk(chunk)).is_some()
            }
        };
        // Every second place, and the same number again.
        let rest: Vec<_> = places.iter().skip(1).step_by(2).copied().collect();
        places.iter().step_by(2).for_each(|place| assert!(!free(&mut list, *place)));
        assert_eq!((list.free, list.chunks.len()), (2 * per_chunk, 4));
        places = (0..2 * per_chunk).filter_map(|_| list.take(SIZE, 0)).collect();
        assert_eq!((list.free, list.chunks.len()), (0, 0));
        let returned = places.into_iter().chain(rest).filter(|place| free(&mut list, *place)).count();
        assert_eq!((returned, list.free, list.chunks.len()), (3, per_chunk, 1));
        // SAFETY: the last chunk, which has no entry.
        unsafe { free_chunk(list.chunks[0]) };
    }

    #[test]
    fn what_one_thread_has_allocated_another_one_frees() {
        const SIZE: usize = 152;
        let places: Vec<usize> = (0..1000).map(|_| alloc_medium(SIZE).expose_provenance()).collect();
        let before = free_places(SIZE);
        std::thread::scope(|scope| {
            for part in places.chunks(300) {
                scope.spawn(move || {
                    for place in part {
                        let place = NonNull::new(ptr::with_exposed_provenance_mut(*place)).expect("not null");
                        // SAFETY: allocated with this size, and freed once.
                        unsafe { free_medium(place, SIZE) };
                    }
                });
            }
        });
        // All chunks but one were returned.
        assert!(free_places(SIZE) < before + 3 * CHUNK_LEN / SIZE);
    }
}
