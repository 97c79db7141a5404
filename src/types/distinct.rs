//! A check of packed collections that are read: no element may occur twice.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::store::Hasher;
use crate::store::value::listpack::StoredElement;

/// The number of hashes that are kept on the stack.
const INLINE: usize = 64;

/// Returns true if no two items have the same text. The hashes are compared, and the texts only where two hashes are
/// equal, which almost always means a repetition.
pub(super) fn are_distinct<'p>(items: impl Iterator<Item = StoredElement<'p>> + Clone, hasher: &Hasher) -> bool {
    let hash = |item: StoredElement<'_>| item.with_text(|text| hasher.hash_one(text));
    let mut hashes: SmallVec<[u64; INLINE]> = items.clone().map(hash).collect();
    hashes.sort_unstable();
    let mut seen = HashSet::new();
    hashes.is_sorted_by(|low, high| low < high) || items.map(StoredElement::to_cow).all(|text| seen.insert(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_found_however_it_is_stored() {
        let are_distinct = |items: &[StoredElement<'_>]| are_distinct(items.iter().copied(), &Hasher::new());
        assert!(are_distinct(&[]));
        assert!(are_distinct(&[
            StoredElement::Text(b"1"),
            StoredElement::Int(2),
            StoredElement::Text(b""),
            StoredElement::Text(b"01")
        ]));
        assert!(!are_distinct(&[StoredElement::Text(b"1"), StoredElement::Int(2), StoredElement::Int(1)]));
        assert!(!are_distinct(&[StoredElement::Text(b"a"), StoredElement::Text(b"b"), StoredElement::Text(b"a")]));
        let many: Vec<StoredElement<'_>> = (0..1000).map(StoredElement::Int).collect();
        assert!(are_distinct(&many));
        assert!(!are_distinct(&[&many[..], &[StoredElement::Text(b"999")]].concat()));
    }
}
