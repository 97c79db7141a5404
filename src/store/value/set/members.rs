//! The iterator over the members of a set.

use std::ops::Range;

use crate::store::value::intset::IntSet;
use crate::store::value::listpack::{Item, Items};
use crate::store::value::member::Member;
use crate::store::value::set::SetRef;

/// An iterator over the members of a set.
pub(crate) struct Members<'e> {
    form: Form<'e>,
    left: usize,
}

enum Form<'e> {
    Ints(IntSet<'e>, Range<usize>),
    Packed(Items<'e>),
    Big(Box<dyn Iterator<Item = &'e Member> + 'e>),
}

impl<'e> Members<'e> {
    #[inline]
    pub(super) fn new(set: SetRef<'e>) -> Self {
        let left = set.len();
        let form = match set {
            SetRef::Ints(ints) => Form::Ints(ints, 0..left),
            SetRef::Packed(listpack) => Form::Packed(listpack.iter()),
            SetRef::Big(big) => Form::Big(Box::new(big.iter())),
        };
        Members { form, left }
    }
}

impl<'e> Iterator for Members<'e> {
    type Item = Item<'e>;

    #[inline]
    fn next(&mut self) -> Option<Item<'e>> {
        self.left = self.left.saturating_sub(1);
        match &mut self.form {
            Form::Ints(ints, indexes) => indexes.next().map(|index| Item::Int(ints.get(index))),
            Form::Packed(items) => items.next(),
            Form::Big(members) => members.next().map(Member::item),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Members<'_> {}
