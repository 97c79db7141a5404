//! One key and its value in one allocation, behind one pointer.
//!
//! ```text
//!   header, 8 bytes                 deadline   long key's   key       value     slack
//! +------+-------+--------+-----+------+----------+------------+---------+---------+-------+
//! | kind | slack | value  | key | usage| 0 or 8   | length,    | key len | val len | slack |
//! | u8   | u8    | len u16| u8  | 3 B  | bytes    | 0 or 8 B   | bytes   | bytes   | bytes |
//! +------+-------+--------+-----+------+----------+------------+---------+---------+-------+
//! ```
//!
//! A key of 256 bytes or more has its length in a field of its own. The usage, 24 bits that the shard interprets
//! (`usage.rs`), is written through `&Entry` while other threads may read: it shares an atomic word with the key's
//! short length.
//!
//! The kind byte holds the data type of the value in its upper three bits and the encoding of the value in two more:
//! for strings the [`StringHint`], for packed collections the [`Packing`](crate::store::value::Packing). Types with flat
//! values share one number there, see `entry/flat.rs`.
//!
//! A string or a packed collection shorter than [`SHARED_MIN`] lies in the value area; anything else is a boxed
//! [`Value`] whose pointer lies there. Slack is the spare room left by rounding and growth: a new value that fits is
//! written in place.
//!
//! Invariants, which every `unsafe` block below leans on:
//! 1. `self.0` points to an allocation of exactly `self.size()` bytes, aligned to 8, whose header
//!    describes the areas as drawn; it is owned by this entry alone.
//! 2. All bytes of header, deadline, key and value are initialised; slack bytes need not be.
//! 3. With the `BOXED` bit set the value area is 8 bytes: a pointer from `Box::into_raw`.

#![allow(unsafe_code)] // the packed layout above; see SAFETY at each block

mod flat;
mod packed;

use std::alloc::{Layout, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::slab::{self, allocation_len};
use crate::store::table::{Hasher, Item};
use crate::store::value::listpack::Blob;
use crate::store::value::{LongText, SHARED_MIN, Str, StringHint, Type, Value};
use crate::time::clock::Deadline;

const HEADER: usize = 8;
const DEADLINE: usize = TIMED as usize;
const POINTER: usize = size_of::<*mut Value>();
const ALIGN: usize = 8;
/// The largest slack the one-byte field can hold; with more, the entry is reallocated.
const SLACK_MAX: usize = u8::MAX as usize;

/// Set if the value area holds a pointer to a [`Value`].
const BOXED: u8 = 1;
/// The bits of the value's encoding; none is set for a string with [`StringHint::Plain`] and for a listpack.
const ENCODING: u8 = NOT_INT | RAW;
/// The encoding of a packed collection other than a plain listpack, see
/// [`Packing::Other`](crate::store::value::Packing::Other).
const OTHER_PACKING: u8 = 1 << 1;
/// The encoding of a string with [`StringHint::NotInt`].
const NOT_INT: u8 = 1 << 1;
/// The encoding of a string with [`StringHint::Raw`].
const RAW: u8 = 1 << 2;
/// Set if a deadline lies between header and key. The bit's value equals the deadline's length.
const TIMED: u8 = 1 << 3;
/// Set if the key's length lies before the key.
const LONG_KEY: u8 = 1 << 4;
/// Position of the data type in the kind byte.
const TYPE_SHIFT: u32 = 5;

/// The type bits of every type with flat values; types with smaller discriminants have these in their type bits.
const FLAT: u8 = Type::Stream as u8 + 1 + cfg!(feature = "vectors") as u8;

/// Assertion that the upper bits of the kind byte hold the type bits.
const _: () = assert!(FLAT < 1 << (u8::BITS - TYPE_SHIFT));

/// Bits that describe the layout, not the value.
const STRUCTURE: u8 = BOXED | TIMED | LONG_KEY;

/// Number of bits of the header's last word that hold the key's length; the other bits hold the usage.
const KEY_LEN_BITS: u32 = 8;
const SHORT_KEY_MAX: usize = (1 << KEY_LEN_BITS) - 1;
const KEY_LEN: usize = size_of::<u64>();

#[repr(C)]
struct Header {
    kind: u8,
    slack: u8,
    value_len: u16,
    /// The length of a short key in the lowest byte, the usage above.
    key_len_and_usage: AtomicU32,
}

/// One key, its value and its optional deadline, in one owned allocation.
#[repr(transparent)] // a member of a set is borrowed as one
pub struct Entry(NonNull<Header>);

/// Assertion that a boxed value may move to another thread with its entry, and be read by several threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Value>();
};

// SAFETY: an entry owns its allocation and the boxed value alone (invariants 1 and 3); both are plain
// memory that may move to another thread, as asserted above.
unsafe impl Send for Entry {}
// SAFETY: through `&Entry` nothing is changed but an atomic word.
unsafe impl Sync for Entry {}

impl Entry {
    /// Creates an entry that holds a string; long shared bytes are not copied.
    pub fn text<'v>(key: &[u8], value: impl Into<Str<'v>>, deadline: Option<Deadline>) -> Self {
        let value = value.into();
        if value.len() < SHARED_MIN {
            return Self::build(key, value.as_slice(), deadline, 0, 0);
        }
        let text = match value {
            Str::Inline(bytes) => LongText::new(bytes),
            Str::Shared(bytes) => LongText::shared(bytes.clone()),
        };
        Self::boxed(key, Type::String, Box::new(Value::Text(text)), deadline)
    }

    /// Creates an entry whose value lives in a box of its own.
    pub(crate) fn boxed(key: &[u8], of: Type, value: Box<Value>, deadline: Option<Deadline>) -> Self {
        Self::boxed_as(type_bits(of), key, value, deadline)
    }

    /// Creates an entry whose value lives in a box of its own, with these bits of type and encoding.
    fn boxed_as(kind: u8, key: &[u8], value: Box<Value>, deadline: Option<Deadline>) -> Self {
        let pointer = Box::into_raw(value);
        // SAFETY: these are the bytes of `pointer`. They are copied as memory, so they stay a pointer to the box.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const pointer).cast::<u8>(), POINTER) };
        Self::build(key, bytes, deadline, BOXED | kind, 0)
    }

    /// Allocates and fills an entry; `value` is the content of the value area, `spare` the room for growth.
    #[inline]
    fn build(key: &[u8], value: &[u8], deadline: Option<Deadline>, kind: u8, spare: usize) -> Self {
        Self::build_of_parts(key, &[value], deadline, kind, spare)
    }

    /// Builds an entry as [`Entry::build`] does, with the content of the value area in parts.
    #[inline(always)] // so that the loop over a single part is none
    fn build_of_parts(key: &[u8], value: &[&[u8]], deadline: Option<Deadline>, mut kind: u8, spare: usize) -> Self {
        let len = value.iter().map(|part| part.len()).sum::<usize>();
        let value_len = u16::try_from(len).expect("the value area is shorter than SHARED_MIN");
        kind &= !(TIMED | LONG_KEY);
        if deadline.is_some() {
            kind |= TIMED;
        }
        if key.len() > SHORT_KEY_MAX {
            kind |= LONG_KEY;
        }
        let before_key = HEADER + usize::from(kind & TIMED) + if kind & LONG_KEY == 0 { 0 } else { KEY_LEN };
        let used = before_key + key.len() + len;
        let size = (used + spare.min(SLACK_MAX - ALIGN)).next_multiple_of(ALIGN);
        let layout = Self::layout(size);
        // SAFETY: `size` is at least HEADER, so the layout is not empty.
        let Some(pointer) = NonNull::new(unsafe { slab::alloc(layout) }) else { handle_alloc_error(layout) };
        let key_len = if key.len() > SHORT_KEY_MAX { 0 } else { key.len() as u32 };
        let header = Header { kind, slack: (size - used) as u8, value_len, key_len_and_usage: AtomicU32::new(key_len) };
        // SAFETY: the allocation is aligned to 8 and at least HEADER bytes long; the areas are written
        // one after the other and end at `used <= size`.
        unsafe {
            pointer.cast::<Header>().write(header);
            let mut at = pointer.as_ptr().add(HEADER);
            if let Some(deadline) = deadline {
                at.cast::<u64>().write(deadline.to_bits());
                at = at.add(DEADLINE);
            }
            if kind & LONG_KEY != 0 {
                at.cast::<u64>().write(key.len() as u64);
                at = at.add(KEY_LEN);
            }
            at.copy_from_nonoverlapping(key.as_ptr(), key.len());
            at = at.add(key.len());
            for part in value {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
        Entry(pointer.cast())
    }

    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let (at, len) = self.key_area();
        self.area(at, len)
    }

    /// Returns the recorded usage of the key; 0 for a new entry.
    #[inline]
    pub fn usage(&self) -> u32 {
        self.header().key_len_and_usage.load(Relaxed) >> KEY_LEN_BITS
    }

    /// Records the usage of the key in 24 bits. The caller holds the shard, so there is no concurrent write.
    #[inline]
    pub fn set_usage(&self, usage: u32) {
        let word = &self.header().key_len_and_usage;
        word.store(word.load(Relaxed) & SHORT_KEY_MAX as u32 | usage << KEY_LEN_BITS, Relaxed);
    }

    /// Takes over the usage of another entry.
    fn used_as(self, other: u32) -> Self {
        self.set_usage(other);
        self
    }

    /// Returns the data type of the value.
    #[inline]
    pub fn kind(&self) -> Type {
        match self.header().kind >> TYPE_SHIFT {
            FLAT.. => self.flat_kind(),
            number => Type::ALL[usize::from(number)],
        }
    }

    /// Returns true if the value is of the given data type.
    #[inline]
    pub fn is_of(&self, kind: Type) -> bool {
        self.header().kind >> TYPE_SHIFT == type_bits(kind) >> TYPE_SHIFT
            && ((kind as u8) < FLAT || self.flat_kind() == kind)
    }

    /// Returns the string; the caller has checked that the value is one.
    #[inline]
    pub fn string(&self) -> Str<'_> {
        match self.value() {
            None => Str::Inline(self.area(self.value_at(), self.header().value_len as usize)),
            Some(Value::Text(text)) => Str::Shared(text.bytes()),
            Some(_) => unreachable!("the type of the value was checked"),
        }
    }

    /// Replaces the value by a boxed one of the same type.
    pub(crate) fn set_boxed(&mut self, value: Value) {
        let new = Self::boxed(self.key(), self.kind(), Box::new(value), self.deadline());
        *self = new.used_as(self.usage());
    }

    /// Returns the deadline of the key.
    pub fn deadline(&self) -> Option<Deadline> {
        if self.header().kind & TIMED == 0 {
            return None;
        }
        // SAFETY: with TIMED set, 8 initialised bytes, aligned to 8, follow the header (invariants 1 and 2).
        Some(Deadline::from_bits(unsafe { self.at(HEADER).cast::<u64>().read() }))
    }

    /// Sets or removes the deadline; the value stays.
    pub fn set_deadline(&mut self, deadline: Option<Deadline>) {
        match (self.deadline(), deadline) {
            (None, None) => {}
            // SAFETY: the deadline area exists, see `deadline`; `&mut self` makes the write exclusive.
            (Some(_), Some(new)) => unsafe { self.at_mut(HEADER).cast::<u64>().write(new.to_bits()) },
            _ => {
                let value = self.area(self.value_at(), self.header().value_len as usize);
                let rebuilt = Self::build(self.key(), value, deadline, self.header().kind, 0);
                self.replace_moved(rebuilt);
            }
        }
    }

    /// Replaces the value with a string and sets the deadline, in place if the string fits. Otherwise passes the old
    /// entry to `free`. Returns the growth of the entry's memory in bytes.
    #[inline(always)] // the call would be a fiftieth of a SET
    pub fn set_text<'v>(
        &mut self,
        value: impl Into<Str<'v>>,
        deadline: Option<Deadline>,
        free: impl FnOnce(Entry),
    ) -> isize {
        let value = value.into();
        let fits = value.len() < SHARED_MIN
            && self.header().kind & BOXED == 0
            && self.deadline().is_some() == deadline.is_some()
            && (value.len()..=value.len() + SLACK_MAX).contains(&self.room());
        if !fits {
            return self.replace(value, deadline, free);
        }
        let value = value.as_slice();
        let (value_at, slack) = (self.value_at(), (self.room() - value.len()) as u8);
        if let Some(deadline) = deadline {
            self.set_deadline(Some(deadline));
        }
        let header = self.header_mut();
        header.kind &= STRUCTURE; // a string with a plain hint, whatever it was before
        header.slack = slack;
        header.value_len = value.len() as u16;
        // SAFETY: `room` bytes from `value_at` belong to the allocation and value.len() <= room; `value`
        // is borrowed from elsewhere, because `&mut self` is exclusive.
        unsafe { self.at_mut(value_at).copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        0
    }

    /// Replaces the entry by another one with the same key and usage; returns the growth of its memory in bytes.
    #[inline(never)] // keeps the path where the value fits short
    fn replace(&mut self, value: Str<'_>, deadline: Option<Deadline>, free: impl FnOnce(Entry)) -> isize {
        let new = Self::text(self.key(), value, deadline).used_as(self.usage());
        let old = std::mem::replace(self, new);
        let growth = self.memory() as isize - old.memory() as isize;
        free(old);
        growth
    }

    /// Overwrites part of the string from `offset` on, padding it with zero bytes if it is too short.
    ///
    /// The caller has checked that the value is a string.
    pub fn write_range(&mut self, offset: usize, patch: &[u8]) {
        let old_len = self.string().len();
        let new_len = old_len.max(offset + patch.len());
        if self.header().kind & BOXED == 0 && new_len < SHARED_MIN {
            self.write_range_short(offset, patch, old_len, new_len);
        } else {
            self.write_range_long(offset, patch, new_len);
        }
        self.set_hint(StringHint::Raw);
    }

    fn write_range_short(&mut self, offset: usize, patch: &[u8], old_len: usize, new_len: usize) {
        let room = self.room();
        if new_len > room {
            let mut value = Vec::with_capacity(new_len);
            value.extend_from_slice(self.area(self.value_at(), old_len));
            value.resize(new_len, 0);
            value[offset..offset + patch.len()].copy_from_slice(patch);
            let rebuilt = Self::build(self.key(), &value, self.deadline(), self.header().kind, new_len);
            self.replace_moved(rebuilt);
            return;
        }
        let value_at = self.value_at();
        // SAFETY: old_len, offset + patch.len() <= new_len <= room, and `room` bytes from `value_at`
        // belong to the allocation; the gap is filled with zeros before the patch is written.
        unsafe {
            let value = self.at_mut(value_at);
            value.add(old_len).write_bytes(0, new_len - old_len);
            value.add(offset).copy_from_nonoverlapping(patch.as_ptr(), patch.len());
        }
        let header = self.header_mut();
        header.slack = (room - new_len) as u8;
        header.value_len = new_len as u16;
    }

    fn write_range_long(&mut self, offset: usize, patch: &[u8], new_len: usize) {
        if let Some(Value::Text(text)) = self.value_mut() {
            return text.write_range(offset, patch);
        }
        let short = self.area(self.value_at(), self.header().value_len as usize);
        let mut text = LongText::with_room(short, new_len);
        text.write_range(offset, patch);
        let boxed = Self::boxed(self.key(), Type::String, Box::new(Value::Text(text)), self.deadline());
        *self = boxed.used_as(self.usage());
    }

    /// Returns the hint about the string's encoding.
    pub fn hint(&self) -> StringHint {
        match self.header().kind {
            kind if kind & RAW != 0 => StringHint::Raw,
            kind if kind & NOT_INT != 0 => StringHint::NotInt,
            _ => StringHint::Plain,
        }
    }

    /// Sets the hint about the string's encoding.
    pub fn set_hint(&mut self, hint: StringHint) {
        let header = self.header_mut();
        header.kind &= !ENCODING;
        header.kind |= match hint {
            StringHint::Plain => 0,
            StringHint::NotInt => NOT_INT,
            StringHint::Raw => RAW,
        };
    }

    /// Returns a copy of an entry whose value lies inside it, under another key.
    pub(super) fn copy_inline(&self, key: &[u8]) -> Self {
        self.assert_not_boxed();
        let value = self.area(self.value_at(), self.header().value_len as usize);
        Self::build(key, value, self.deadline(), self.header().kind, 0)
    }

    /// Returns an entry of the same type, encoding and deadline with another key and a boxed value.
    pub(super) fn with_value(&self, key: &[u8], value: Value) -> Self {
        Self::boxed_as(self.header().kind, key, Box::new(value), self.deadline())
    }

    /// Returns the same value, deadline and usage under another key.
    pub fn with_key(mut self, key: &[u8]) -> Self {
        let value = self.area(self.value_at(), self.header().value_len as usize);
        let renamed = Self::build(key, value, self.deadline(), self.header().kind, 0);
        self.header_mut().kind &= !BOXED; // the box, if any, has moved
        renamed.used_as(self.usage())
    }

    /// Reallocates the entry. Returns the old allocation, which no longer owns anything.
    pub fn relocate(&mut self) -> Self {
        let Header { kind, slack, value_len, .. } = *self.header();
        let value = self.area(self.value_at(), value_len as usize);
        let moved = Self::build(self.key(), value, self.deadline(), kind, slack as usize).used_as(self.usage());
        self.header_mut().kind &= !BOXED; // the box, if any, has moved
        std::mem::replace(self, moved)
    }

    /// Returns the bytes that the entry takes from the allocator, boxed value included.
    #[inline]
    pub fn memory(&self) -> usize {
        allocation_len(self.size()) + self.value().map_or(0, Value::boxed_memory)
    }

    /// Frees the room that a packed collection has for growth.
    pub(crate) fn fit(&mut self) {
        let Header { kind, slack, .. } = *self.header();
        let fitted_size = (self.size() - usize::from(slack)).next_multiple_of(ALIGN);
        if kind & BOXED == 0 && allocation_len(fitted_size) < allocation_len(self.size()) {
            let fitted = self.copy_inline(self.key());
            self.replace_moved(fitted);
        }
    }

    /// Returns the cost of freeing the entry, in units of one allocation.
    #[inline]
    pub fn effort(&self) -> usize {
        self.value().map_or(1, Value::effort)
    }

    /// Returns the bytes of the entry's own allocation, which holds the key.
    pub fn own_memory(&self) -> usize {
        allocation_len(self.size())
    }

    /// Returns the entry's address, for prefetching only.
    pub fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Returns the entry as a pointer, whose lowest bits are 0 because of its alignment.
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).0.cast()
    }

    /// Returns the entry behind a pointer.
    ///
    /// # Safety
    /// The pointer came from [`Entry::into_raw`] and is used this once.
    pub(crate) unsafe fn from_raw(pointer: NonNull<u8>) -> Self {
        Entry(pointer.cast())
    }

    /// Replaces `self` with an entry that has taken over its boxed value, if any.
    fn replace_moved(&mut self, rebuilt: Entry) {
        rebuilt.set_usage(self.usage());
        self.header_mut().kind &= !BOXED;
        *self = rebuilt;
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<&Value> {
        // SAFETY: the pointer came from Box::into_raw and is owned by this entry (invariant 3).
        self.value_pointer().map(|pointer| unsafe { &*pointer })
    }

    /// Returns the boxed value, if there is one, to change it. The value must keep its type.
    #[inline]
    pub(crate) fn value_mut(&mut self) -> Option<&mut Value> {
        // SAFETY: as in `value`, and `&mut self` makes the borrow exclusive.
        self.value_pointer().map(|pointer| unsafe { &mut *pointer })
    }

    fn value_pointer(&self) -> Option<*mut Value> {
        if self.header().kind & BOXED == 0 {
            return None;
        }
        // SAFETY: the value area lies inside the allocation and is a pointer (invariant 3), aligned to nothing.
        Some(unsafe { self.at(self.value_at()).cast::<*mut Value>().read_unaligned() })
    }

    /// Returns the value area, which must not be a pointer, to change its bytes.
    fn value_area_mut(&mut self) -> &mut [u8] {
        self.assert_not_boxed();
        let (at, len) = (self.value_at(), self.header().value_len as usize);
        // SAFETY: the value area lies inside the allocation and is initialised (invariants 1 and 2); `&mut self` makes the
        // borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at_mut(at), len) }
    }

    /// Panics if the value area is a pointer, which must be neither overwritten nor copied as if it were the value.
    #[inline]
    fn assert_not_boxed(&self) {
        assert!(self.header().kind & BOXED == 0, "the value lies in the entry");
    }

    /// Bytes available for the value without allocating.
    fn room(&self) -> usize {
        self.header().value_len as usize + self.header().slack as usize
    }

    /// Returns the offset and the length of the key.
    #[inline]
    fn key_area(&self) -> (usize, usize) {
        let Header { kind, key_len_and_usage, .. } = self.header();
        match kind & LONG_KEY {
            0 => (HEADER + usize::from(kind & TIMED), key_len_and_usage.load(Relaxed) as usize & SHORT_KEY_MAX),
            _ => self.long_key_area(),
        }
    }

    #[cold]
    fn long_key_area(&self) -> (usize, usize) {
        let len_at = HEADER + usize::from(self.header().kind & TIMED);
        // SAFETY: with LONG_KEY set, 8 initialised bytes, aligned to 8, come before the key (invariants 1 and 2).
        let len = unsafe { self.at(len_at).cast::<u64>().read() };
        (len_at + KEY_LEN, len as usize)
    }

    #[inline]
    fn value_at(&self) -> usize {
        let (at, len) = self.key_area();
        at + len
    }

    fn size(&self) -> usize {
        self.value_at() + self.room()
    }

    fn header(&self) -> &Header {
        // SAFETY: invariants 1 and 2.
        unsafe { self.0.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: invariants 1 and 2; `&mut self` is exclusive.
        unsafe { self.0.as_mut() }
    }

    fn area(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.size());
        // SAFETY: callers pass the key or value area, which lie inside the allocation and are initialised.
        unsafe { std::slice::from_raw_parts(self.at(at), len) }
    }

    /// # Safety
    /// `offset` must not pass the end of the allocation.
    unsafe fn at(&self, offset: usize) -> *const u8 {
        // SAFETY: promised by the caller.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset) }
    }

    /// # Safety
    /// `offset` must not pass the end of the allocation.
    unsafe fn at_mut(&mut self, offset: usize) -> *mut u8 {
        // SAFETY: promised by the caller.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset) }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, ALIGN).expect("an entry is far smaller than isize::MAX")
    }
}

/// Address of an entry with another owner, for a structure that only reads the key. It is copied freely.
#[derive(Clone, Copy)]
pub(crate) struct EntryHandle(NonNull<Header>);

// SAFETY: a handle is an address; the entry behind it is only read, as through `&Entry`, which may be shared.
unsafe impl Send for EntryHandle {}
// SAFETY: as above.
unsafe impl Sync for EntryHandle {}

impl Entry {
    /// Returns a handle to the entry.
    pub(crate) fn handle(&self) -> EntryHandle {
        EntryHandle(self.0)
    }
}

impl EntryHandle {
    /// Returns the entry's address, for prefetching only.
    pub(crate) fn address(self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Returns the key of the entry.
    ///
    /// # Safety
    /// For the lifetime of the result, the entry must be neither dropped nor reallocated.
    #[inline]
    pub(crate) unsafe fn key<'e>(self) -> &'e [u8] {
        let entry = ManuallyDrop::new(Entry(self.0)); // not freed here
        let key: *const [u8] = entry.key();
        // SAFETY: the caller promises that the allocation stays, and a key never changes.
        unsafe { &*key }
    }
}

/// Byte access to a packed collection, inside the entry or in a box of its own; the bytes move to a box when they grow
/// too long.
impl Blob for Entry {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.packed_bytes().expect("the caller has found a packed collection")
    }

    fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        if let Some(Value::Packed(bytes)) = self.value_mut() {
            return Blob::splice(bytes, range, parts);
        }
        self.assert_not_boxed();
        let old_len = self.header().value_len as usize;
        assert!(range.start <= range.end && range.end <= old_len);
        let added = parts.iter().map(|part| part.len()).sum::<usize>();
        let (new_len, room) = (old_len - range.len() + added, self.room());
        if new_len > room || room - new_len > SLACK_MAX {
            return self.splice_elsewhere(range, parts, new_len);
        }
        let value_at = self.value_at();
        // SAFETY: `range` lies inside the old value (asserted); the old value and the `new_len` bytes of the new one,
        // from `value_at` on, belong to the allocation. `parts` are borrowed from elsewhere, because `&mut self` is
        // exclusive.
        unsafe {
            let value = self.at_mut(value_at);
            std::ptr::copy(value.add(range.end), value.add(range.start + added), old_len - range.end);
            let mut at = value.add(range.start);
            for part in parts {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
        let header = self.header_mut();
        header.slack = (room - new_len) as u8;
        header.value_len = new_len as u16;
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Some(Value::Packed(own)) = self.value_mut() {
            return own[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.assert_not_boxed();
        assert!(at + bytes.len() <= self.header().value_len as usize);
        let value_at = self.value_at();
        // SAFETY: the bytes lie inside the value (asserted), and `bytes` is borrowed from elsewhere, because `&mut
        // self` is exclusive.
        unsafe { self.at_mut(value_at + at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// Returns the bits of a data type in the kind byte.
#[inline]
const fn type_bits(of: Type) -> u8 {
    let number = if (of as u8) < FLAT { of as u8 } else { FLAT };
    number << TYPE_SHIFT
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.value_pointer() {
            // SAFETY: the pointer came from Box::into_raw, and is not used after the entry (invariant 3).
            unsafe { drop_value(value) };
        }
        let layout = Self::layout(self.size());
        // SAFETY: allocated in `build` with this very size and alignment (invariant 1).
        unsafe { slab::dealloc(self.0.cast(), layout) };
    }
}

/// Frees a boxed value. A function of its own, because there are many types of values and most entries have none.
///
/// # Safety
/// The pointer came from [`Box::into_raw`] and is not used again.
#[cold]
#[inline(never)]
unsafe fn drop_value(value: *mut Value) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(value) });
}

impl Item for Entry {
    type Key<'k> = &'k [u8];

    #[inline]
    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }

    #[inline]
    fn hash(&self, hasher: &Hasher) -> u64 {
        hasher.hash_one(self.key())
    }

    #[inline]
    fn address(&self) -> Option<*const u8> {
        Some(Entry::address(self))
    }
}

#[cfg(test)]
mod tests;
