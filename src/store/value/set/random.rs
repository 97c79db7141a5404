//! Random choice of members. Every member of a packed set, and nearly every member of a large set, is equally likely;
//! see [`Table::random`](crate::store::table::Table::random).

use crate::store::usage::{Dice, RandomSelection};
use crate::store::value::intset;
use crate::store::value::listpack::{Listpack, ListpackMut, StoredElement};
use crate::store::value::member::OwnedMember;
use crate::store::value::set::{SetMut, SetRef};

impl<'e> SetRef<'e> {
    /// Returns a random member.
    pub(crate) fn random(self, dice: &mut Dice) -> Option<StoredElement<'e>> {
        match self {
            SetRef::Big(big) => big.random(dice).map(OwnedMember::item),
            SetRef::Timed(timed) => timed.random(dice),
            packed if packed.len() == 0 => None,
            SetRef::Ints(ints) => Some(StoredElement::Int(ints.get(dice.below(ints.len())))),
            SetRef::Packed(listpack) => {
                let index = dice.below(listpack.len());
                listpack.seek(isize::try_from(index).ok()?).map(|at| listpack.get(at))
            }
        }
    }

    /// Visits `count` different random members, or all if there are fewer.
    pub(crate) fn sample(self, count: usize, dice: &mut Dice, mut visit: impl FnMut(StoredElement<'e>)) {
        match self {
            SetRef::Big(big) => big.sample(count, dice).into_iter().for_each(|member| visit(member.item())),
            SetRef::Timed(timed) => timed.sample(count, dice, visit),
            packed => {
                let mut selection = RandomSelection::new(count, packed.len());
                packed.iter().filter(|_| selection.takes(dice)).for_each(visit);
            }
        }
    }
}

impl SetMut<'_> {
    /// Removes `count` random members, or all if there are fewer, and passes each to `take`.
    pub(crate) fn pop(&mut self, count: usize, dice: &mut Dice, mut take: impl FnMut(StoredElement<'_>)) {
        if let Some(big) = self.big_mut() {
            (0..count).map_while(|_| big.pop(dice)).for_each(|member| take(member.item()));
            return;
        }
        if let SetRef::Timed(timed) = self.as_ref() {
            let mut chosen = Vec::new();
            timed.sample(count, dice, |member| chosen.push(OwnedMember::of(member)));
            chosen.iter().map(OwnedMember::item).for_each(|member| {
                self.remove(member);
                take(member);
            });
            return;
        }
        if count == 1 {
            if let Some(popped) = self.as_ref().random(dice).map(OwnedMember::of) {
                self.remove(popped.item());
                take(popped.item());
            }
            return;
        }
        let mut selection = RandomSelection::new(count, self.as_ref().len());
        let rest = match self.as_ref() {
            SetRef::Packed(listpack) => {
                let mut rest = Vec::from(Listpack::EMPTY.bytes());
                let kept = listpack.iter().filter(|item| keep(*item, &mut selection, dice, &mut take));
                let kept: Vec<_> = kept.map(Into::into).collect();
                ListpackMut::new(&mut rest).push_back_all(&kept);
                rest
            }
            packed => {
                let kept = packed.iter().filter(|item| keep(*item, &mut selection, dice, &mut take));
                let kept: Vec<i64> = kept.filter_map(StoredElement::to_int).collect();
                intset::of_sorted(&kept)
            }
        };
        self.0.set_packed(self.0.packing(), &rest);
    }
}

/// Returns true if a member stays; otherwise passes it to `take`.
fn keep(
    item: StoredElement<'_>,
    selection: &mut RandomSelection,
    dice: &mut Dice,
    take: &mut impl FnMut(StoredElement<'_>),
) -> bool {
    let is_taken = selection.takes(dice);
    if is_taken {
        take(item);
    }
    !is_taken
}
