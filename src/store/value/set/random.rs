//! Random choice of members. Every member of a packed set, and nearly every one of a large set, is equally likely; see
//! [`Table::random`](crate::store::table::Table::random).

use std::collections::HashSet;
use std::ptr;

use crate::store::usage::Dice;
use crate::store::value::intset;
use crate::store::value::listpack::{Item, Listpack, ListpackMut};
use crate::store::value::member::Member;
use crate::store::value::set::{BigSet, SetMut, SetRef};

/// Members of a large set are drawn one by one, until there are enough different ones, where at most one in so many is
/// chosen; more are chosen in one pass over all.
const DRAWN_SHARE: usize = 3;

impl<'e> SetRef<'e> {
    /// Returns a random member.
    pub(crate) fn random(self, dice: &mut Dice) -> Option<Item<'e>> {
        match self {
            SetRef::Big(big) => big.random(dice).map(Member::item),
            packed if packed.len() == 0 => None,
            SetRef::Ints(ints) => Some(Item::Int(ints.get(dice.below(ints.len())))),
            SetRef::Packed(listpack) => {
                let index = dice.below(listpack.len());
                listpack.seek(isize::try_from(index).ok()?).map(|at| listpack.get(at))
            }
        }
    }

    /// Visits `count` different random members, or all if there are fewer.
    pub(crate) fn sample(self, count: usize, dice: &mut Dice, mut visit: impl FnMut(Item<'e>)) {
        match self {
            SetRef::Big(big) if count < big.len() / DRAWN_SHARE => draw(big, count, dice, visit),
            _ => {
                let mut choice = Choice::new(count, self.len());
                self.iter().filter(|_| choice.takes(dice)).for_each(&mut visit);
            }
        }
    }
}

/// Draws members until so many are different.
fn draw<'e>(big: &'e BigSet, count: usize, dice: &mut Dice, mut visit: impl FnMut(Item<'e>)) {
    let mut drawn: HashSet<*const Member> = HashSet::with_capacity(count);
    while drawn.len() < count {
        let Some(member) = big.random(dice) else { return };
        if drawn.insert(ptr::from_ref(member)) {
            visit(member.item());
        }
    }
}

/// Chooses some of several things that pass one by one, every subset with the same probability.
struct Choice {
    wanted: usize,
    left: usize,
}

impl Choice {
    fn new(wanted: usize, of: usize) -> Self {
        Choice { wanted: wanted.min(of), left: of }
    }

    /// Returns whether the next one is chosen.
    fn takes(&mut self, dice: &mut Dice) -> bool {
        let is_taken = self.wanted > 0 && dice.below(self.left.max(1)) < self.wanted;
        self.wanted -= usize::from(is_taken);
        self.left = self.left.saturating_sub(1);
        is_taken
    }
}

impl SetMut<'_> {
    /// Removes random members, all of them if there are not more than `count`, and passes each to `take`.
    pub(crate) fn pop(&mut self, count: usize, dice: &mut Dice, mut take: impl FnMut(Item<'_>)) {
        if let Some(big) = self.big_mut() {
            (0..count).map_while(|_| big.pop(dice)).for_each(|member| take(member.item()));
            return;
        }
        if count == 1 {
            if let Some(popped) = self.as_ref().random(dice).map(Member::of) {
                self.remove(popped.item());
                take(popped.item());
            }
            return;
        }
        let mut choice = Choice::new(count, self.as_ref().len());
        let rest = match self.as_ref() {
            SetRef::Packed(listpack) => {
                let mut rest = Vec::from(Listpack::EMPTY.bytes());
                let kept = listpack.iter().filter(|item| keep(*item, &mut choice, dice, &mut take));
                let kept: Vec<_> = kept.map(Into::into).collect();
                ListpackMut::new(&mut rest).push_back_all(&kept);
                rest
            }
            packed => {
                let kept = packed.iter().filter(|item| keep(*item, &mut choice, dice, &mut take));
                let kept: Vec<i64> = kept.filter_map(Item::to_int).collect();
                intset::of_sorted(&kept)
            }
        };
        self.0.set_packed(self.0.packing(), &rest);
    }
}

/// Returns whether a member stays; otherwise it is taken.
fn keep(item: Item<'_>, choice: &mut Choice, dice: &mut Dice, take: &mut impl FnMut(Item<'_>)) -> bool {
    let is_taken = choice.takes(dice);
    if is_taken {
        take(item);
    }
    !is_taken
}
