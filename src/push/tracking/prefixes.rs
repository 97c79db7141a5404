//! Prefixes of clients in broadcasting mode. The prefixes of one client do not overlap.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;

/// Prefixes of all clients.
#[derive(Default)]
pub(super) struct Prefixes {
    by_name: OrderedMap<Box<[u8]>, BroadcastPrefix>,
    /// Number of prefixes of each length: a key is looked up once per length, not once per prefix.
    lengths: BTreeMap<usize, usize>,
    /// Memory of the names and of their clients.
    held: usize,
}

/// The broadcast state of one prefix.
#[derive(Default)]
pub(super) struct BroadcastPrefix {
    /// Clients with this prefix, by id.
    pub(super) clients: OrderedMap<u64, Arc<ClientInfo>>,
    /// Keys that have changed since the last broadcast, each with the client that changed it last, if a client did.
    pub(super) changed: BTreeMap<Box<[u8]>, Option<u64>>,
}

impl Prefixes {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the memory of all prefixes, without the keys that wait to be broadcast.
    pub(super) fn memory(&self) -> usize {
        self.held + self.by_name.memory()
    }

    /// Adds a prefix to a client.
    pub(super) fn join(&mut self, name: &[u8], client: &Arc<ClientInfo>) {
        if !self.by_name.contains_key(name) {
            *self.lengths.entry(name.len()).or_default() += 1;
            self.held += allocation_len(name.len());
        }
        let clients = &mut self.by_name.get_or_insert_default(name.into()).clients;
        self.held -= clients.memory();
        if clients.insert(client.id, client.clone()).is_none() {
            client.buffers.add_kept_len(name_len(name));
        }
        self.held += clients.memory();
    }

    /// Removes all prefixes of a client.
    pub(super) fn leave(&mut self, client: &ClientInfo) {
        let (lengths, held) = (&mut self.lengths, &mut self.held);
        self.by_name.retain(|name, prefix| {
            *held -= prefix.clients.memory();
            if prefix.clients.remove(&client.id).is_some() {
                client.buffers.add_kept_len(-name_len(name));
            }
            *held += prefix.clients.memory();
            let stays = !prefix.clients.is_empty();
            if !stays && let Some(count) = lengths.get_mut(&name.len()) {
                *count -= 1;
                *held -= allocation_len(name.len());
            }
            stays
        });
        lengths.retain(|_, count| *count > 0);
    }

    /// Returns the prefixes of a client, in order.
    pub(super) fn of(&self, client: u64) -> Vec<Box<[u8]>> {
        let of_client = self.by_name.iter().filter(|(_, prefix)| prefix.clients.contains_key(&client));
        of_client.map(|(name, _)| name.clone()).collect()
    }

    /// Records that a key has changed; returns whether a prefix matches.
    pub(super) fn note(&mut self, key: &[u8], author: Option<u64>) -> bool {
        let mut is_wanted = false;
        for (&len, _) in self.lengths.range(..=key.len()) {
            if let Some(prefix) = self.by_name.get_mut(&key[..len]) {
                prefix.changed.insert(key.into(), author);
                is_wanted = true;
            }
        }
        is_wanted
    }

    /// Iterates over the prefixes in order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut BroadcastPrefix> {
        self.by_name.iter_mut().map(|(_, prefix)| prefix)
    }
}

/// Returns the memory charged to a client for a prefix: the name, and its entry in the map.
fn name_len(name: &[u8]) -> isize {
    const PLACE_LEN: usize = 256;
    (allocation_len(name.len()) + PLACE_LEN) as isize
}

/// Two overlapping prefixes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Overlap<'a> {
    /// A new prefix, and one that the client has.
    Existing(&'a [u8], &'a [u8]),
    /// Two new prefixes.
    Provided(&'a [u8], &'a [u8]),
}

/// Finds the first overlap of new prefixes, in their order, with the sorted prefixes of the client or with each other.
pub(crate) fn find_overlap<'a>(existing: &'a [Box<[u8]>], provided: &[&'a [u8]]) -> Option<Overlap<'a>> {
    let mut sorted: Vec<(&[u8], usize)> = provided.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut is_involved = vec![false; provided.len()];
    // The names that begin with a prefix follow it directly; the open ones are prefixes of one another.
    let mut open: Vec<(&[u8], usize)> = Vec::new();
    for &(prefix, at) in &sorted {
        while open.last().is_some_and(|(shorter, _)| !prefix.starts_with(shorter)) {
            open.pop();
        }
        if let Some((_, shorter)) = open.last() {
            (is_involved[*shorter], is_involved[at]) = (true, true);
        }
        open.push((prefix, at));
    }
    for (at, prefix) in provided.iter().enumerate() {
        if let Some(other) = find_existing(existing, prefix) {
            return Some(Overlap::Existing(prefix, other));
        }
        // An overlap with an earlier prefix was found in the turn of that prefix.
        let overlaps = |other: &&&[u8]| other.starts_with(prefix) || prefix.starts_with(other);
        if is_involved[at]
            && let Some(other) = provided[at + 1..].iter().find(overlaps)
        {
            return Some(Overlap::Provided(prefix, other));
        }
    }
    None
}

/// Finds the first existing prefix that overlaps with a new one. Of existing prefixes, only the empty one may be a
/// prefix of others.
fn find_existing<'a>(existing: &'a [Box<[u8]>], prefix: &[u8]) -> Option<&'a [u8]> {
    let after = existing.partition_point(|other| &other[..] < prefix);
    let before = after.checked_sub(1).map(|at| &existing[at]);
    let shorter = existing.first().into_iter().chain(before).find(|other| prefix.starts_with(other));
    shorter.or_else(|| existing.get(after).filter(|other| other.starts_with(prefix))).map(|found| &found[..])
}

#[cfg(test)]
mod tests {
    use super::{Overlap, find_overlap};

    /// Compares every pair, as Redis does.
    fn slowly<'a>(existing: &'a [Box<[u8]>], provided: &[&'a [u8]]) -> Option<Overlap<'a>> {
        let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
        for (at, prefix) in provided.iter().enumerate() {
            if let Some(other) = existing.iter().find(|other| overlap(other, prefix)) {
                return Some(Overlap::Existing(prefix, other));
            }
            if let Some(other) = provided[at + 1..].iter().find(|other| overlap(other, prefix)) {
                return Some(Overlap::Provided(prefix, other));
            }
        }
        None
    }

    #[test]
    fn the_first_overlap_is_that_of_comparing_every_pair() {
        let words: [&[u8]; 9] = [b"", b"a", b"b", b"ab", b"aba", b"abb", b"bb", b"c", b"ca"];
        let free: [&[&[u8]]; 5] = [&[], &[b""], &[b"", b"ab", b"c"], &[b"aba", b"abb"], &[b"b"]];
        for existing in free {
            let existing: Vec<Box<[u8]>> = existing.iter().map(|prefix| (*prefix).into()).collect();
            for choice in 0..words.len().pow(4) {
                let provided: Vec<&[u8]> = (0..4).map(|at| words[choice / words.len().pow(at) % words.len()]).collect();
                for count in 0..=4 {
                    let provided = &provided[..count];
                    assert_eq!(find_overlap(&existing, provided), slowly(&existing, provided), "{provided:?}");
                }
            }
        }
    }
}
