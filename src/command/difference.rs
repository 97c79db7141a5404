//! How a difference of sets is found: SDIFF, ZDIFF and their like.

use crate::store::entry::Entry;
use crate::store::value::{Item, Kind, Packing, Set, SetRules};

/// Returns true if a difference is found faster by asking the first set for every member of the others than by asking
/// the others for every member of the first, half of them on average: Redis' estimate.
pub(crate) fn others_cost_less(first: usize, others: impl ExactSizeIterator<Item = usize>) -> bool {
    let by_first = first.saturating_mul(others.len() + 1) / 2;
    by_first > first + others.sum::<usize>()
}

/// The members of the first set that others have, too.
pub(crate) struct Removed(Entry);

impl Removed {
    /// Collects them from the members of the others.
    pub(crate) fn from<'e>(
        others: impl Iterator<Item = Item<'e>>,
        rules: SetRules<'_>,
        is_in_first: impl Fn(Item<'e>) -> bool,
    ) -> Self {
        let mut removed = Set::draft(b"", Packing::Other, None);
        let mut draft = Set::write(&mut removed);
        draft.expect(usize::MAX, rules); // a table, where members are found fastest
        for member in others.filter(|member| is_in_first(*member)) {
            draft.add(canonical(member), rules);
        }
        Removed(removed)
    }

    /// Returns true if a member is among them.
    pub(crate) fn has(&self, member: Item<'_>) -> bool {
        Set::read(&self.0).contains(canonical(member))
    }

    /// Returns what they take, to be freed.
    pub(crate) fn into_entry(self) -> Entry {
        self.0
    }
}

/// Returns a member as sets have it: a sorted set may have a number as text.
fn canonical(member: Item<'_>) -> Item<'_> {
    member.to_int().map_or(member, Item::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_are_asked_where_redis_asks_them() {
        let cost_less = |first, others: &[usize]| others_cost_less(first, others.iter().copied());
        assert!(!cost_less(200_000, &[1]));
        assert!(!cost_less(200_000, &[200_000]));
        assert!(!cost_less(10, &[1_000, 1_000, 1_000]));
        assert!(cost_less(200_000, &[1; 1_000]));
        assert!(cost_less(2_000_000, &[1, 1, 1]));
        assert!(!cost_less(0, &[]));
    }
}
