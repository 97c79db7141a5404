//! A member of a large set: one word, which is an integer or owns an entry with the member's text.
//!
//! ```text
//!   63 bits                                     lowest bit
//! +-------------------------------------------+-----------+
//! | the integer                               | 1         |
//! | the address of an entry, whose key it is  | 0         |
//! +-------------------------------------------+-----------+
//! ```
//!
//! A text that is a canonical integer of 63 bits is stored as an integer, unless it has a deadline: that is the
//! deadline of its entry. Such an entry has the name, and so the hash, of the integer.
//!
//! Invariant, which every `unsafe` block below leans on: a word with the lowest bit 0 came from [`Entry::into_raw`],
//! and this member alone owns that entry.

#![allow(unsafe_code)] // the tagged pointer above; see SAFETY at each block

use std::hash::{Hash, Hasher as State};
use std::ptr::{self, NonNull};

use crate::store::entry::Entry;
use crate::store::table::{Hasher, Item};
use crate::store::value::listpack;
use crate::time::clock::Deadline;

/// The lowest bit of a word that holds an integer.
const INT: usize = 1;
/// Range of the integers that fit in a word beside that bit.
const MIN: i64 = (isize::MIN >> 1) as i64;
const MAX: i64 = (isize::MAX >> 1) as i64;
/// Minimum length of an integer outside of this range.
const LONG_INT_LEN: usize = 10;

/// A member of a set.
#[repr(transparent)]
pub(crate) struct OwnedMember(NonNull<u8>);

// SAFETY: an entry may move to another thread and be read by several, and an integer is only a number.
unsafe impl Send for OwnedMember {}
// SAFETY: as above.
unsafe impl Sync for OwnedMember {}

/// Key of a member in a table: its text, parsed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberName<'k>(Form<'k>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form<'k> {
    /// Canonical integer within [`MIN`] and [`MAX`].
    Int(i64),
    /// Any other text, including larger canonical integers.
    Text(&'k [u8]),
}

impl<'k> MemberName<'k> {
    /// Returns the name of a member, which is given as an integer if it is a canonical one; `buffer` is used for an
    /// integer that is stored as text.
    #[inline]
    pub(crate) fn of_item(item: listpack::StoredElement<'k>, buffer: &'k mut itoa::Buffer) -> Self {
        match item {
            listpack::StoredElement::Int(int @ MIN..=MAX) => MemberName(Form::Int(int)),
            listpack::StoredElement::Int(int) => MemberName(Form::Text(buffer.format(int).as_bytes())),
            listpack::StoredElement::Text(text) => MemberName(Form::Text(text)),
        }
    }
}

impl MemberName<'_> {
    /// Passes the text of the member to `read`.
    pub(super) fn with_bytes<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self.0 {
            Form::Int(int) => read(itoa::Buffer::new().format(int).as_bytes()),
            Form::Text(text) => read(text),
        }
    }
}

/// An integer is hashed as eight bytes. It never equals a text, so the hashes of integers and texts need not differ.
impl Hash for MemberName<'_> {
    #[inline]
    fn hash<S: State>(&self, state: &mut S) {
        match self.0 {
            Form::Int(int) => int.hash(state),
            Form::Text(text) => text.hash(state),
        }
    }
}

impl OwnedMember {
    pub(crate) fn new(name: MemberName<'_>) -> Self {
        let word = match name.0 {
            Form::Int(int) => {
                let word = ptr::without_provenance_mut((int as usize) << 1 | INT);
                NonNull::new(word).expect("the lowest bit is set")
            }
            Form::Text(text) => Entry::text(text, b"", None).into_raw(),
        };
        OwnedMember(word)
    }

    /// Creates a member, which is given as an integer if it is a canonical one.
    pub(crate) fn of(item: listpack::StoredElement<'_>) -> Self {
        OwnedMember::new(MemberName::of_item(item, &mut itoa::Buffer::new()))
    }

    /// Returns the integer, if it is stored as one.
    #[inline]
    pub(crate) fn to_int(&self) -> Option<i64> {
        let word = self.0.addr().get();
        (word & INT != 0).then_some((word as isize >> 1) as i64)
    }

    /// Returns the member as an integer, even if it is stored as text, or as a text.
    #[inline]
    pub(crate) fn item(&self) -> listpack::StoredElement<'_> {
        match self.entry().map(Entry::key) {
            None => listpack::StoredElement::Int(self.to_int().unwrap_or(0)),
            Some(text) if text.len() < LONG_INT_LEN && self.deadline().is_none() => listpack::StoredElement::Text(text),
            Some(text) => listpack::StoredElement::of(text),
        }
    }

    /// Returns the deadline.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.entry()?.deadline()
    }

    /// Sets or removes the deadline.
    pub(super) fn set_deadline(&mut self, deadline: Option<Deadline>) {
        *self = match deadline {
            None => OwnedMember::new(self.name()),
            Some(_) => self.name().with_bytes(|text| OwnedMember(Entry::text(text, b"", deadline).into_raw())),
        };
    }

    /// Returns a copy without a deadline, which shares no memory with the original.
    pub(crate) fn copy(&self) -> Self {
        OwnedMember::new(self.name())
    }

    /// Returns the key of the member in a table.
    #[inline]
    pub(super) fn name(&self) -> MemberName<'_> {
        match self.entry() {
            Some(entry) => MemberName(timed_int(entry).map_or(Form::Text(entry.key()), Form::Int)),
            None => MemberName(Form::Int(self.to_int().unwrap_or(0))),
        }
    }

    /// Returns the bytes allocated for the member besides its slot.
    pub(crate) fn memory(&self) -> usize {
        self.entry().map_or(0, Entry::memory)
    }

    /// Returns the entry, if the member is stored as one.
    #[inline]
    fn entry(&self) -> Option<&Entry> {
        if self.0.addr().get() & INT != 0 {
            return None;
        }
        // SAFETY: the word came from `Entry::into_raw`, an entry has the layout of that pointer, and the borrow of the
        // member keeps the entry alive.
        Some(unsafe { &*ptr::from_ref(&self.0).cast::<Entry>() })
    }
}

/// Returns the integer that a member stored as an entry is; only one with a deadline is.
#[inline]
fn timed_int(entry: &Entry) -> Option<i64> {
    entry.deadline()?;
    listpack::StoredElement::of(entry.key()).to_int().filter(|int| (MIN..=MAX).contains(int))
}

impl Drop for OwnedMember {
    #[inline]
    fn drop(&mut self) {
        if self.0.addr().get() & INT == 0 {
            // SAFETY: the word came from `Entry::into_raw`, this member owns the entry and is not used again.
            drop(unsafe { Entry::from_raw(self.0) });
        }
    }
}

impl Item for OwnedMember {
    type Key<'k> = MemberName<'k>;

    #[inline]
    fn is(&self, name: MemberName<'_>) -> bool {
        match name.0 {
            Form::Int(int) => match self.entry() {
                None => self.to_int() == Some(int),
                Some(entry) => timed_int(entry) == Some(int),
            },
            Form::Text(text) => self.entry().is_some_and(|entry| entry.key() == text),
        }
    }

    #[inline]
    fn hash(&self, hasher: &Hasher) -> u64 {
        hasher.hash_one(self.name())
    }

    #[inline]
    fn address(&self) -> Option<*const u8> {
        self.entry().map(Entry::address)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::random::Random;
    use crate::store::table::Table;

    impl<'k> MemberName<'k> {
        /// Returns the name of the member with a text.
        fn of(text: &'k [u8]) -> Self {
            match listpack::StoredElement::of(text) {
                listpack::StoredElement::Int(int @ MIN..=MAX) => MemberName(Form::Int(int)),
                _ => MemberName(Form::Text(text)),
            }
        }
    }

    fn text(member: &OwnedMember) -> Vec<u8> {
        member.item().to_cow().into_owned()
    }

    fn samples() -> Vec<Vec<u8>> {
        let texts =
            ["", "0", "-0", "-1", "1", "01", "+1", " 1", "1 ", "1.0", "-", "abc", "1e3", "\0", "9223372036854775808"];
        let ints = [MIN - 1, MIN, MIN + 1, MAX - 1, MAX, MAX + 1, i64::MIN, i64::MAX, 1 << 32, -(1 << 40), 127, -128];
        let texts = texts.iter().map(|text| text.as_bytes().to_vec());
        let long = [vec![b'1'; 20], vec![b'x'; 300], vec![b'y'; 70_000]];
        texts.chain(ints.iter().map(|int| int.to_string().into_bytes())).chain(long).collect()
    }

    #[test]
    fn a_slot_with_a_member_is_one_word() {
        assert_eq!(size_of::<Option<OwnedMember>>(), size_of::<usize>());
    }

    #[test]
    fn a_member_is_the_one_whose_text_it_has_and_no_other() {
        let (hasher, samples) = (Hasher::new(), samples());
        for one in &samples {
            let member = OwnedMember::new(MemberName::of(one));
            assert_eq!(&text(&member), one);
            assert_eq!(Item::hash(&member, &hasher), hasher.hash_one(MemberName::of(one)));
            for other in &samples {
                assert_eq!(member.is(MemberName::of(other)), one == other, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn integers_of_63_bits_take_no_memory_and_others_are_entries() {
        for (int, is_word) in [(0, true), (-1, true), (MIN, true), (MAX, true), (MIN - 1, false), (i64::MAX, false)] {
            let (mut buffer, written) = (itoa::Buffer::new(), int.to_string());
            let by_int = MemberName::of_item(listpack::StoredElement::Int(int), &mut buffer);
            let by_text = MemberName::of(written.as_bytes());
            assert_eq!(by_int, by_text);
            let member = OwnedMember::new(by_int);
            assert_eq!((member.to_int(), member.memory() == 0), (is_word.then_some(int), is_word));
            assert_eq!(text(&member), written.as_bytes());
            assert_eq!(member.item().to_int(), Some(int));
        }
    }

    #[test]
    fn a_table_of_members_behaves_as_a_plain_set() {
        // Fewer steps under Miri, where each takes a thousand times as long.
        let steps = if cfg!(miri) { 2_000 } else { 100_000 };
        let (mut table, mut model) = (Table::<OwnedMember>::new(Hasher::new()), HashSet::new());
        let mut random = Random::new(1);
        for step in 0..steps {
            let number = random.next() % (steps / 20);
            let text =
                if number.is_multiple_of(3) { format!("member {number}") } else { number.to_string() }.into_bytes();
            let name = MemberName::of(&text);
            let hash = table.hash(name);
            if (step / (steps / 10)) % 2 == 0 {
                let is_new = table.find(hash, name).is_none();
                if is_new {
                    table.insert(hash, OwnedMember::new(name));
                }
                assert_eq!(is_new, model.insert(text));
            } else {
                assert_eq!(table.remove(hash, name).is_some(), model.remove(&text));
            }
            assert_eq!(table.count(), model.len());
        }
        assert_eq!(table.iter().map(text).collect::<HashSet<_>>(), model);
    }
}
