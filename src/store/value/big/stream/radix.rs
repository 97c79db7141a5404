//! The number of nodes that the radix tree of a stream's chunks would have in Redis, as XINFO STREAM reports it.
//!
//! A key of the tree is an ID of 16 bytes. A node is a run of bytes that keys have in common, a branch, or the end of a
//! key. The number is updated when chunks come and go, because counting takes a pass over all of them: only the
//! neighbours of a key decide how many nodes it adds.

use crate::memory::ordered_map::OrderedMap;
use crate::store::value::big::stream::StreamId;

/// Length of a key in bytes.
const LEN: usize = size_of::<u128>();

/// Returns the number of nodes that a key adds to the tree of the other keys; its removal removes as many.
pub(super) fn nodes_of<V>(key: StreamId, others: &OrderedMap<StreamId, V>) -> usize {
    let neighbours = [before(key, others), others.range(key..).next().map(|(id, _)| *id)];
    // Depth at which the key branches off the most similar keys.
    let Some(depth) = neighbours.into_iter().flatten().map(|other| common(key, other)).max() else { return 1 };
    let own = 1 + usize::from(depth + 1 < LEN);
    let rest = u128::MAX >> (8 * depth.min(LEN - 1));
    let (lowest, highest) = (StreamId::from_bits(key.bits() & !rest), StreamId::from_bits(key.bits() | rest));
    let mut similar = others.range(lowest..=highest).map(|(id, _)| *id);
    let Some(first) = similar.next() else { return own };
    let last = similar.next_back().unwrap_or(first);
    let end = common(first, last);
    if end == depth {
        return own; // the others branch there already
    }
    // The similar keys have a run of bytes in common that reaches deeper: a branch cuts it in two, if there are bytes
    // left on both sides of the branch.
    let outer = [before(first, others), last.next().and_then(|next| others.range(next..).next()).map(|(id, _)| *id)];
    let start = outer.into_iter().flatten().map(|other| common(key, other) + 1).max().unwrap_or(0);
    own + usize::from(depth > start) + usize::from(end > depth + 1)
}

fn before<V>(key: StreamId, others: &OrderedMap<StreamId, V>) -> Option<StreamId> {
    others.range(..key).next_back().map(|(id, _)| *id)
}

/// Returns the length of the common prefix of two keys in bytes.
fn common(one: StreamId, other: StreamId) -> usize {
    (one.bits() ^ other.bits()).leading_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::usage::Dice;

    /// Counts the nodes of the subtree of sorted keys that agree in their first `depth` bytes.
    fn count(keys: &[[u8; LEN]], depth: usize) -> usize {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
        let common = first.iter().zip(last).skip(depth).take_while(|(one, other)| one == other).count();
        let (branch, run) = (depth + common, usize::from(common > 0));
        match keys {
            [_] => run + 1,
            _ => {
                let children = keys.chunk_by(|one, other| one[branch] == other[branch]);
                run + 1 + children.map(|keys| count(keys, branch + 1)).sum::<usize>()
            }
        }
    }

    #[test]
    fn a_key_adds_the_nodes_that_a_count_of_all_finds() {
        let mut dice = Dice::new(11);
        // Few different bytes at few places, so that keys have starts of every length in common.
        let mut random = || {
            let bytes = std::array::from_fn(|_| if dice.below(3) == 0 { dice.below(4) as u8 } else { 0 });
            StreamId::from_bytes(bytes)
        };
        let (mut keys, mut nodes) = (OrderedMap::EMPTY, 0);
        for round in 0..4000 {
            let key = random();
            let is_removed = keys.remove(&key).is_some();
            let own = nodes_of(key, &keys);
            nodes = if is_removed { nodes - own } else { nodes + own };
            if !is_removed {
                keys.insert(key, ());
            }
            if round % 3 == 0 {
                // The number stays small enough that neighbours of keys are missing.
                let victim = keys.keys().copied().nth(round % keys.len().max(1));
                victim.iter().for_each(|victim| {
                    keys.remove(victim);
                    nodes -= nodes_of(*victim, &keys);
                });
            }
            let all: Vec<[u8; LEN]> = keys.keys().map(|id| id.to_bytes()).collect();
            let expected = if all.is_empty() { 0 } else { count(&all, 0) - 1 };
            assert_eq!(nodes, expected, "{all:?}");
        }
    }
}
