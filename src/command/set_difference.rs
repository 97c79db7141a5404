//! Parts of the set difference, for SDIFF, ZDIFF and related commands.

use crate::store::entry::Entry;
use crate::store::value::{DataType, Packing, Set, SetRules, StoredElement};

/// Returns true if a difference is found faster by looking up every member of the other sets in the first than by
/// looking up every member of the first in half of the others on average: Redis' estimate.
pub(crate) fn others_cost_less(first: usize, others: impl ExactSizeIterator<Item = usize>) -> bool {
    let by_first = first.saturating_mul(others.len() + 1) / 2;
    by_first > first + others.sum::<usize>()
}

/// The members of the first set that are also in other sets.
pub(crate) struct RemovedMembers(Entry);

impl RemovedMembers {
    /// Collects the members from those of the other sets.
    pub(crate) fn from<'e>(
        others: impl Iterator<Item = StoredElement<'e>>,
        rules: SetRules<'_>,
        is_in_first: impl Fn(StoredElement<'e>) -> bool,
    ) -> Self {
        let mut removed = Set::draft(b"", Packing::Other, None);
        let mut draft = Set::write(&mut removed);
        draft.expect(usize::MAX, rules); // a table, where members are found fastest
        for member in others.filter(|member| is_in_first(*member)) {
            draft.add(canonical(member), rules);
        }
        RemovedMembers(removed)
    }

    pub(crate) fn has(&self, member: StoredElement<'_>) -> bool {
        Set::read(&self.0).contains(canonical(member))
    }

    /// Returns the set of members, to be freed.
    pub(crate) fn into_entry(self) -> Entry {
        self.0
    }
}

/// Returns a member in the form in which sets store it: a sorted set may store a number as text.
fn canonical(member: StoredElement<'_>) -> StoredElement<'_> {
    member.to_int().map_or(member, StoredElement::Int)
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
