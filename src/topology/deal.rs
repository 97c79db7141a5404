//! Distribution of the slots over nodes of which each can serve every key.
//!
//! Rendezvous hashing: a weight is computed of each node and each part of the slots, and the part belongs to the node with the
//! greatest. So the result depends on the set of nodes alone, and when a node goes, only its slots are dealt again: Thaler and
//! Ravishankar, "Using name-based mappings to increase hit rates", 1998.

use crate::topology::{SLOT_COUNT, Slot};

/// Number of adjacent slots that are dealt together. Fewer would balance better, and lengthen the replies that list all ranges:
/// with 16 they have about a thousand entries at most.
const DEALT_TOGETHER: Slot = 16;

/// Deals the slots to the nodes with these ids; returns the ranges of each, ascending. Without nodes nobody has any slot.
///
/// Every process has to compute the same, of any version: the weights never change.
pub(crate) fn deal(ids: &[&str]) -> Vec<Vec<(Slot, Slot)>> {
    let seeds: Vec<u64> = ids.iter().map(|id| seed(id)).collect();
    let mut dealt: Vec<Vec<(Slot, Slot)>> = vec![Vec::new(); ids.len()];
    for first in (0..SLOT_COUNT).step_by(DEALT_TOGETHER.into()) {
        let part = mix(u64::from(first / DEALT_TOGETHER) + 1);
        // The id decides between equal weights.
        let Some(owner) = (0..ids.len()).max_by_key(|node| (mix(seeds[*node] ^ part), ids[*node])) else { continue };
        let last = first + DEALT_TOGETHER - 1;
        match dealt[owner].last_mut().filter(|(_, before)| *before + 1 == first) {
            Some((_, end)) => *end = last,
            None => dealt[owner].push((first, last)),
        }
    }
    dealt
}

/// Returns the hash of an id: FNV-1a of 64 bits, whose bits are mixed.
fn seed(id: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    mix(id.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
}

/// Makes every bit of the result depend on every bit of a number: the finalizer of MurmurHash3.
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u64) -> Vec<String> {
        (0..count).map(|number| format!("{:016x}{:024x}", mix(number + 1), number)).collect()
    }

    fn dealt(ids: &[String]) -> Vec<Vec<(Slot, Slot)>> {
        deal(&ids.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the owner of each slot.
    fn owners(ids: &[String]) -> Vec<String> {
        let mut owners = vec![None; usize::from(SLOT_COUNT)];
        for (id, ranges) in ids.iter().zip(dealt(ids)) {
            assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ranges:?}");
            for slot in ranges.into_iter().flat_map(|(first, last)| first..=last) {
                assert!(owners[usize::from(slot)].replace(id.clone()).is_none(), "{slot} has two owners");
            }
        }
        owners.into_iter().map(|owner| owner.expect("an owner")).collect()
    }

    #[test]
    fn every_slot_has_one_owner_whatever_the_order_of_the_nodes() {
        for count in [1, 2, 3, 7, 20] {
            let ids = ids(count);
            let reversed: Vec<String> = ids.iter().rev().cloned().collect();
            assert_eq!(owners(&ids), owners(&reversed));
        }
        assert_eq!(dealt(&ids(1)), [[(0, SLOT_COUNT - 1)]]);
        assert!(deal(&[]).is_empty());
    }

    #[test]
    fn only_the_slots_of_a_node_that_is_gone_move() {
        let all = ids(7);
        let before = owners(&all);
        for gone in 0..all.len() {
            let mut rest = all.clone();
            let id = rest.remove(gone);
            for (before, after) in before.iter().zip(owners(&rest)) {
                assert!(*before == id && after != id || *before == after);
            }
        }
    }

    #[test]
    fn slots_are_dealt_in_about_equal_shares() {
        for (count, deviation) in [(2, 0.1), (3, 0.1), (5, 0.15), (10, 0.25)] {
            let fair = f64::from(SLOT_COUNT) / count as f64;
            for ranges in dealt(&ids(count)) {
                let share: u32 = ranges.iter().map(|(first, last)| u32::from(last - first) + 1).sum();
                assert!((f64::from(share) / fair - 1.0).abs() < deviation, "{count} nodes: {share} of {fair}");
            }
        }
    }

    /// Processes of different versions deal alike.
    #[test]
    fn the_weights_stay_what_they_are() {
        assert_eq!(seed("cf94cc81097749666020548dacd2f1742e05a485"), 10_695_939_321_194_858_132);
        let first: Vec<_> = dealt(&ids(3)).iter().map(|ranges| ranges[..3].to_vec()).collect();
        assert_eq!(
            first,
            [[(16, 47), (160, 191), (208, 239)], [(0, 15), (48, 63), (96, 159)], [(64, 95), (192, 207), (288, 303)]]
        );
    }
}
