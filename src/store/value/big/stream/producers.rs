//! The producers that name their entries: a stream remembers the names, so that it recognizes an entry that is added again.

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::value::big::stream::group::COUNT_MAX;
use crate::store::value::big::stream::id::StreamId;

/// For how long, and how many names of each producer a stream remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembrance {
    pub(crate) duration_s: u64,
    pub(crate) max_size: usize,
}

impl Remembrance {
    /// The most seconds.
    pub(crate) const DURATION_MAX: u64 = 86_400;
    /// The most names of a producer.
    pub(crate) const SIZE_MAX: usize = 10_000;
    /// Limits of a stream by the default settings.
    pub(crate) const DEFAULT: Remembrance = Remembrance { duration_s: 100, max_size: 100 };

    /// Returns the limits that two numbers are, if they are allowed.
    pub(crate) fn new(duration_s: u64, max_size: u64) -> Option<Self> {
        let max_size = usize::try_from(max_size).ok()?;
        let is_allowed = (1..=Self::DURATION_MAX).contains(&duration_s) && (1..=Self::SIZE_MAX).contains(&max_size);
        is_allowed.then_some(Remembrance { duration_s, max_size })
    }
}

/// The producers of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Producers {
    limits: Remembrance,
    by_name: OrderedMap<Box<[u8]>, Producer>,
    /// The entries of all producers by age, each with its producer.
    by_age: OrderedMap<(StreamId, Box<[u8]>), ()>,
    /// Number of names.
    count: usize,
    /// Bytes allocated for names.
    names_len: usize,
    /// Number of entries ever added with a name.
    added: u64,
    /// Number of times that an entry was added again.
    duplicates: u64,
}

/// The entries of a producer.
#[derive(Clone, Debug, Default)]
struct Producer {
    by_name: OrderedMap<Box<[u8]>, StreamId>,
    by_id: OrderedMap<(StreamId, Box<[u8]>), ()>,
}

impl Producer {
    fn memory(&self) -> usize {
        self.by_name.memory() + self.by_id.memory()
    }

    /// Removes the oldest entry; returns its ID and the bytes of its name.
    fn pop(&mut self) -> Option<(StreamId, usize)> {
        let (id, name) = self.by_id.keys().next().cloned()?;
        self.by_name.remove(&name);
        self.by_id.remove(&(id, name.clone()));
        Some((id, allocation_len(name.len())))
    }
}

impl Producers {
    pub(crate) fn new(limits: Remembrance) -> Self {
        Producers {
            limits,
            by_name: OrderedMap::EMPTY,
            by_age: OrderedMap::EMPTY,
            count: 0,
            names_len: 0,
            added: 0,
            duplicates: 0,
        }
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.by_name.memory() + self.by_age.memory() + self.names_len
    }

    pub(crate) fn limits(&self) -> Remembrance {
        self.limits
    }

    /// Returns the numbers of producers and of names.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_name.len(), self.count)
    }

    /// Returns the numbers of entries ever added with a name, and of those that were added again.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.added, self.duplicates)
    }

    /// Sets the limits. Others than before make the stream forget all producers.
    pub(crate) fn set_limits(&mut self, limits: Remembrance) {
        if limits != self.limits {
            *self = Producers { added: self.added, duplicates: self.duplicates, ..Producers::new(limits) };
        }
    }

    /// Returns the entry that a producer has added with a name, if it is remembered at a time; it counts as added again.
    pub(crate) fn find_again(&mut self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        let id = self.find(producer, name, now_ms)?;
        self.duplicates = (self.duplicates + 1).min(COUNT_MAX);
        Some(id)
    }

    /// Remembers an entry of a producer, and forgets the producer's oldest above the limit.
    pub(crate) fn add(&mut self, producer: &[u8], name: &[u8], id: StreamId) {
        self.added = (self.added + 1).min(COUNT_MAX);
        self.insert(producer, name, id);
    }

    /// Returns the entry that a producer has added with a name, if it is remembered at a time.
    pub(crate) fn find(&mut self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        self.expire(now_ms);
        self.by_name.get(producer)?.by_name.get(name).copied()
    }

    /// Sets the totals; returns false if they are not allowed.
    pub(crate) fn set_totals(&mut self, added: u64, duplicates: u64) -> bool {
        (self.added, self.duplicates) = (added, duplicates);
        added <= COUNT_MAX && duplicates <= COUNT_MAX
    }

    /// Remembers an entry that a dump has; returns false if the producer has another of that name.
    pub(crate) fn restore(&mut self, producer: &[u8], name: &[u8], id: StreamId) -> bool {
        let is_new = self.by_name.get(producer).is_none_or(|of| !of.by_name.contains_key(name));
        self.insert(producer, name, id);
        is_new
    }

    /// Iterates over the producers by name, each with the number of its entries, and these by age.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], usize, impl Iterator<Item = (&[u8], StreamId)>)> {
        self.by_name
            .iter()
            .map(|(producer, of)| (&**producer, of.by_id.len(), of.by_id.keys().map(|(id, name)| (&**name, *id))))
    }

    fn insert(&mut self, producer: &[u8], name: &[u8], id: StreamId) {
        if !self.by_name.contains_key(producer) {
            self.by_name.insert(producer.into(), Producer::default());
            self.names_len += allocation_len(producer.len());
        }
        let max_size = self.limits.max_size;
        self.change(producer, |of| {
            let (mut grown, mut gone, mut left) = (0, 0, Vec::new());
            if let Some(old) = of.by_name.insert(name.into(), id) {
                of.by_id.remove(&(old, name.into()));
                left.push(old);
            } else {
                grown = 2 * allocation_len(name.len());
            }
            of.by_id.insert((id, name.into()), ());
            while of.by_id.len() > max_size
                && let Some((old, len)) = of.pop()
            {
                gone += 2 * len;
                left.push(old);
            }
            (grown, gone, left)
        });
        if self.by_age.insert((id, producer.into()), ()).is_none() {
            self.names_len += allocation_len(producer.len());
        }
    }

    /// Changes the entries of a producer; `change` returns the bytes of new names and of old ones, and the IDs of
    /// entries that the producer may have no more.
    fn change(&mut self, producer: &[u8], change: impl FnOnce(&mut Producer) -> (usize, usize, Vec<StreamId>)) {
        let Some(of) = self.by_name.get_mut(producer) else { return };
        let (before, len) = (of.memory(), of.by_name.len());
        let (grown, gone, left) = change(of);
        let is_empty = of.by_name.is_empty();
        self.names_len = self.names_len + of.memory() + grown - before - gone;
        self.count = self.count + of.by_name.len() - len;
        for id in left {
            let has_more = of.by_id.range((id, Box::default())..).next().is_some_and(|((next, _), ())| *next == id);
            if !has_more && self.by_age.remove(&(id, producer.into())).is_some() {
                self.names_len -= allocation_len(producer.len());
            }
        }
        if is_empty {
            self.by_name.remove(producer);
            self.names_len -= allocation_len(producer.len());
        }
    }

    /// Forgets the entries that are too old at a time.
    fn expire(&mut self, now_ms: i64) {
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        let is_old = |id: StreamId| id.ms.saturating_add(self.limits.duration_s.saturating_mul(1000)) <= now_ms;
        let old: Vec<_> = self.by_age.keys().take_while(|(id, _)| is_old(*id)).cloned().collect();
        for (id, producer) in old {
            self.change(&producer, |of| {
                let (mut gone, mut left) = (0, Vec::new());
                while of.by_id.keys().next().is_some_and(|(oldest, _)| *oldest <= id)
                    && let Some((old, len)) = of.pop()
                {
                    gone += 2 * len;
                    left.push(old);
                }
                (0, gone, left)
            });
        }
    }

    /// Returns the limits and totals as text, with the entry of a producer, if one is given, or without any. A stream
    /// that [adopts](Producers::adopt) the text adds the entry to those that it remembers.
    pub(crate) fn text(&self, entry: Option<(&[u8], &[u8], StreamId)>) -> Vec<u8> {
        let Remembrance { duration_s, max_size } = self.limits;
        let mut text = format!("{duration_s} {max_size} {} {} ", self.added, self.duplicates).into_bytes();
        if let Some((producer, name, id)) = entry {
            push_entry(&mut text, producer, name, id);
        }
        text
    }

    /// Returns everything as text.
    pub(crate) fn whole_text(&self) -> Vec<u8> {
        let mut text = self.text(None);
        for (producer, _, entries) in self.iter() {
            entries.for_each(|(name, id)| push_entry(&mut text, producer, name, id));
        }
        text
    }

    /// Adopts what a text says; returns false if it is malformed.
    pub(crate) fn adopt(producers: &mut Option<Box<Producers>>, text: &[u8]) -> bool {
        let mut rest = text;
        let mut number = || split_number(&mut rest);
        let (Some(duration_s), Some(max_size), Some(added), Some(duplicates)) =
            (number(), number(), number(), number())
        else {
            return false;
        };
        let Some(limits) = Remembrance::new(duration_s, max_size) else { return false };
        if added.max(duplicates) > COUNT_MAX {
            return false;
        }
        let producers = producers.get_or_insert_with(|| Box::new(Producers::new(limits)));
        producers.set_limits(limits);
        producers.set_totals(added, duplicates);
        while !rest.is_empty() {
            let Some((producer, name, id)) = split_entry(&mut rest) else { return false };
            producers.insert(producer, name, id);
        }
        true
    }
}

fn push_entry(text: &mut Vec<u8>, producer: &[u8], name: &[u8], StreamId { ms, seq }: StreamId) {
    text.extend_from_slice(format!("{ms} {seq} {} {} ", producer.len(), name.len()).as_bytes());
    text.extend_from_slice(producer);
    text.extend_from_slice(name);
}

fn split_entry<'t>(rest: &mut &'t [u8]) -> Option<(&'t [u8], &'t [u8], StreamId)> {
    let id = StreamId::new(split_number(rest)?, split_number(rest)?);
    let lens = [split_number(rest)?, split_number(rest)?];
    let [producer, name] = lens.map(|len| {
        let (part, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        *rest = behind;
        Some(part)
    });
    Some((producer?, name?, id))
}

/// Splits a number off, and the space behind it.
fn split_number(rest: &mut &[u8]) -> Option<u64> {
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
    *rest = &rest[blank + 1..];
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId::new(ms, 0)
    }

    #[test]
    fn what_is_too_old_or_too_much_is_forgotten_and_takes_no_memory() {
        let mut producers = Producers::new(Remembrance { duration_s: 1, max_size: 3 });
        let empty = producers.memory();
        for ms in 1..=10 {
            producers.add(b"p", format!("n{ms}").as_bytes(), id(ms));
            producers.add(b"q", format!("n{}", ms % 2).as_bytes(), id(ms));
        }
        assert_eq!((producers.counts(), producers.totals()), ((2, 5), (20, 0)));
        assert_eq!(producers.find_again(b"p", b"n8", 0), Some(id(8)));
        assert_eq!(producers.find_again(b"p", b"n7", 0), None);
        assert_eq!(producers.find_again(b"q", b"n1", 0), Some(id(9)));
        assert_eq!(producers.find_again(b"p", b"n9", 1009), None);
        assert_eq!((producers.counts(), producers.totals()), ((2, 2), (20, 2)));
        assert_eq!(producers.find_again(b"p", b"n9", 1010), None);
        assert_eq!((producers.counts(), producers.by_age.len()), ((0, 0), 0));
        let spare = producers.by_name.memory() + producers.by_age.memory();
        assert_eq!(producers.memory() - spare, empty);
    }

    #[test]
    fn a_text_has_everything_and_a_malformed_one_ends_no_process() {
        let mut producers = Producers::new(Remembrance { duration_s: 5, max_size: 9 });
        for (producer, name, ms) in [("p", "a b", 1), ("p", "", 2), ("", "x", 2), ("q 1", "a", 3)] {
            producers.add(producer.as_bytes(), name.as_bytes(), id(ms));
        }
        let text = producers.whole_text();
        let mut copy = None;
        assert!(Producers::adopt(&mut copy, &text));
        assert_eq!(copy.as_ref().map(|copy| copy.whole_text()), Some(text.clone()));
        assert!(Producers::adopt(&mut copy, &text), "once more");
        assert_eq!(copy.as_ref().map(|copy| copy.whole_text()), Some(text.clone()));
        for end in 0..text.len() {
            Producers::adopt(&mut copy, &text[..end]);
        }
        assert!(!Producers::adopt(&mut copy, b"0 1 1 1 ") && !Producers::adopt(&mut copy, b"1 10001 1 1 "));
    }
}
