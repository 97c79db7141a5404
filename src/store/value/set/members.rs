//! The iterator over the members of a set.

use std::ops::Range;

use crate::store::value::big::set::BigSet;
use crate::store::value::intset::IntSet;
use crate::store::value::listpack::{Items, Listpack, StoredElement};
use crate::store::value::member::OwnedMember;
use crate::store::value::set::TimedMembers;

/// An iterator over the members of a set.
pub(crate) struct Members<'e> {
    form: Form<'e>,
    left: usize,
}

enum Form<'e> {
    Ints(IntSet<'e>, Range<usize>),
    Packed(Items<'e>),
    Big(Box<dyn Iterator<Item = &'e OwnedMember> + 'e>),
    Timed(Box<dyn Iterator<Item = StoredElement<'e>> + 'e>),
}

impl<'e> Members<'e> {
    /// Iterates over the members of an intset.
    #[inline]
    pub(super) fn of_ints(ints: IntSet<'e>) -> Self {
        let left = ints.len();
        Members { form: Form::Ints(ints, 0..left), left }
    }

    /// Iterates over the members of a listpack.
    #[inline]
    pub(super) fn of_listpack(listpack: Listpack<'e>) -> Self {
        Members { form: Form::Packed(listpack.iter()), left: listpack.len() }
    }

    /// Iterates over the members of a large set.
    #[inline]
    pub(super) fn of_big(big: &'e BigSet) -> Self {
        Members { form: Form::Big(Box::new(big.iter())), left: big.len() }
    }

    /// Iterates over the members of a set in which they may have deadlines.
    pub(super) fn of_timed(timed: TimedMembers<'e>) -> Self {
        let members = timed.iter().map(|(member, _)| member);
        Members { form: Form::Timed(Box::new(members)), left: timed.len() }
    }
}

impl<'e> Iterator for Members<'e> {
    type Item = StoredElement<'e>;

    #[inline]
    fn next(&mut self) -> Option<StoredElement<'e>> {
        self.left = self.left.saturating_sub(1);
        match &mut self.form {
            Form::Ints(ints, indexes) => indexes.next().map(|index| StoredElement::Int(ints.get(index))),
            Form::Packed(items) => items.next(),
            Form::Big(members) => members.next().map(OwnedMember::item),
            Form::Timed(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Members<'_> {}
