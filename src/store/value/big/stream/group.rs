//! Consumer groups: the last entry that a group has read, and the entries that its consumers have not acknowledged.

use std::ops::{Deref, DerefMut};

use crate::memory::heap::{allocation_len, list_len};
use crate::memory::ordered_map::OrderedMap;
use crate::store::value::big::stream::id::StreamId;

/// The largest count of entries or deliveries: replies have signed integers of 64 bits.
pub(super) const COUNT_MAX: u64 = i64::MAX as u64;

/// The number of a consumer in its group.
pub(crate) type ConsumerNumber = u32;

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsumerGroup {
    /// ID of the last entry that was delivered.
    pub(crate) last: StreamId,
    /// Number of entries read, if it is known.
    pub(crate) read: Option<u64>,
    /// Entries that were delivered and not acknowledged.
    pending: OrderedMap<StreamId, PendingEntry>,
    /// Pending entries by the times of their deliveries.
    by_time: OrderedMap<(i64, StreamId), ()>,
    /// Numbers of the consumers by their names.
    numbers: OrderedMap<Box<[u8]>, ConsumerNumber>,
    /// Consumers by their numbers.
    consumers: Vec<Option<Consumer>>,
    /// Numbers without a consumer.
    free: Vec<ConsumerNumber>,
    /// Number of times that an entry was left without a consumer.
    disowned: i64,
    /// Bytes of the consumers' names.
    names_len: usize,
    /// Bytes allocated for the consumers' pending entries.
    consumers_len: usize,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingEntry {
    /// Time of the last delivery, in wall-clock milliseconds; of an entry without a consumer, a number that places it
    /// before all that have one.
    pub(crate) time: i64,
    /// Number of deliveries.
    pub(crate) count: u64,
    /// Consumer of the last delivery, unless the entry was taken from it.
    pub(crate) consumer: Option<ConsumerNumber>,
}

impl PendingEntry {
    /// Returns the time of the last delivery; 0 for an entry without a consumer.
    pub(crate) fn delivery_time(&self) -> i64 {
        if self.consumer.is_some() { self.time } else { 0 }
    }

    /// Returns the count of deliveries after one more.
    pub(crate) fn next_count(count: u64) -> u64 {
        count.saturating_add(1).min(COUNT_MAX)
    }
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) name: Box<[u8]>,
    /// Time of the last attempt to read or claim, in wall-clock milliseconds.
    pub(crate) seen: i64,
    /// Time of the last successful read or claim, in wall-clock milliseconds; -1 for never.
    pub(crate) active: i64,
    /// Entries that the consumer has to acknowledge.
    pub(crate) pending: OrderedMap<StreamId, ()>,
}

impl ConsumerGroup {
    /// Creates a group that has read up to an ID.
    pub(crate) fn new(last: StreamId, read: Option<u64>) -> Self {
        ConsumerGroup { last, read, ..ConsumerGroup::default() }
    }

    fn memory(&self) -> usize {
        self.pending.memory()
            + self.by_time.memory()
            + self.numbers.memory()
            + self.consumers_len
            + list_len::<Option<Consumer>>(self.consumers.capacity())
            + list_len::<ConsumerNumber>(self.free.capacity())
            + 2 * self.names_len
    }

    /// Returns a copy without spare room in its lists.
    fn copy(&self) -> Self {
        let mut copy = self.clone();
        copy.consumers_len = copy.consumers().map(|consumer| consumer.pending.memory()).sum();
        copy
    }

    /// Changes the pending entries of a consumer.
    fn change_pending(&mut self, number: Option<ConsumerNumber>, change: impl FnOnce(&mut OrderedMap<StreamId, ()>)) {
        let Some(number) = number else { return };
        let pending = &mut self.consumer_mut(number).pending;
        let before = pending.memory();
        change(pending);
        let after = pending.memory();
        self.consumers_len = self.consumers_len + after - before;
    }

    /// Returns the entries that were delivered and not acknowledged.
    pub(crate) fn pending(&self) -> &OrderedMap<StreamId, PendingEntry> {
        &self.pending
    }

    /// Iterates over the pending entries in the order of their deliveries, each with its time.
    pub(crate) fn pending_by_time(&self) -> impl Iterator<Item = (i64, StreamId)> {
        self.by_time.keys().copied()
    }

    /// Iterates over the pending entries without a consumer, in the order in which they were taken from theirs.
    pub(crate) fn disowned(&self) -> impl Iterator<Item = (StreamId, &PendingEntry)> {
        let is_left = self.disowned_count() > 0;
        let by_time = self.by_time.keys().take(if is_left { usize::MAX } else { 0 });
        by_time
            .filter_map(|(_, id)| Some((*id, self.pending.get(id)?)))
            .filter(|(_, pending)| pending.consumer.is_none())
    }

    /// Returns the number of pending entries without a consumer.
    pub(crate) fn disowned_count(&self) -> usize {
        self.pending.len() - self.consumers().map(|consumer| consumer.pending.len()).sum::<usize>()
    }

    /// Returns the name of the consumer of a pending entry; empty for none.
    pub(crate) fn owner(&self, pending: &PendingEntry) -> &[u8] {
        pending.consumer.map_or(b"", |number| &self.consumer(number).name)
    }

    /// Returns the number of consumers.
    pub(crate) fn consumer_count(&self) -> usize {
        self.numbers.len()
    }

    /// Iterates over the consumers in the order of their names.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.numbers.values().map(|number| self.consumer(*number))
    }

    /// Returns the number of a consumer.
    pub(crate) fn find_consumer(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn consumer(&self, number: ConsumerNumber) -> &Consumer {
        self.consumers[number as usize].as_ref().expect("numbers in use have consumers")
    }

    /// Returns a consumer, to set its times.
    pub(crate) fn consumer_mut(&mut self, number: ConsumerNumber) -> &mut Consumer {
        self.consumers[number as usize].as_mut().expect("numbers in use have consumers")
    }

    /// Creates a consumer, unless it exists; returns its number, and true if it was created.
    pub(crate) fn create_consumer(&mut self, name: &[u8], now: i64) -> (ConsumerNumber, bool) {
        if let Some(number) = self.find_consumer(name) {
            return (number, false);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.consumers.push(None);
            self.consumers.len() as ConsumerNumber - 1
        });
        let consumer = Consumer { name: name.into(), seen: now, active: -1, pending: OrderedMap::EMPTY };
        self.consumers[number as usize] = Some(consumer);
        self.numbers.insert(name.into(), number);
        self.names_len += allocation_len(name.len());
        (number, true)
    }

    /// Deletes a consumer with its pending entries; returns the number of these.
    pub(crate) fn delete_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.numbers.remove(name)?;
        let consumer = self.consumers[number as usize].take()?;
        self.names_len -= allocation_len(name.len());
        self.consumers_len -= consumer.pending.memory();
        for id in consumer.pending.keys() {
            if let Some(pending) = self.pending.remove(id) {
                self.by_time.remove(&(pending.time, *id));
            }
        }
        self.free.push(number);
        if self.numbers.is_empty() {
            (self.consumers, self.free) = (Vec::new(), Vec::new());
        }
        Some(consumer.pending.len())
    }

    /// Makes an entry pending for a consumer, or none, and no longer for another one.
    pub(crate) fn assign(&mut self, id: StreamId, pending: PendingEntry) {
        let old = self.pending.insert(id, pending);
        if let Some(old) = old {
            self.by_time.remove(&(old.time, id));
        }
        self.by_time.insert((pending.time, id), ());
        match old {
            Some(old) if old.consumer == pending.consumer => return,
            Some(old) => self.change_pending(old.consumer, |pending| _ = pending.remove(&id)),
            None => {}
        }
        self.change_pending(pending.consumer, |pending| _ = pending.insert(id, ()));
    }

    /// Makes an entry pending for no consumer, behind others for which this was done and before the rest.
    pub(crate) fn disown(&mut self, id: StreamId, count: u64) {
        self.disowned += 1;
        self.assign(id, PendingEntry { time: i64::MIN.saturating_add(self.disowned), count, consumer: None });
    }

    /// Removes a pending entry and returns it.
    pub(crate) fn release(&mut self, id: StreamId) -> Option<PendingEntry> {
        let pending = self.pending.remove(&id)?;
        self.by_time.remove(&(pending.time, id));
        self.change_pending(pending.consumer, |pending| _ = pending.remove(&id));
        Some(pending)
    }

    /// Returns true if the group has still to read or to acknowledge an entry.
    pub(super) fn refers_to(&self, id: StreamId) -> bool {
        id > self.last || self.pending.contains_key(&id)
    }
}

/// The groups of a stream, by name.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_name: OrderedMap<Box<[u8]>, ConsumerGroup>,
    /// Bytes allocated by the groups and their names.
    memory: usize,
}

impl Groups {
    pub(super) const EMPTY: Groups = Groups { by_name: OrderedMap::EMPTY, memory: 0 };

    pub(super) fn memory(&self) -> usize {
        self.by_name.memory() + self.memory
    }

    /// Returns a copy without spare room in its lists.
    pub(super) fn copy(&self) -> Self {
        let by_name: OrderedMap<_, _> = self.by_name.iter().map(|(name, group)| (name.clone(), group.copy())).collect();
        let memory = by_name.iter().map(|(name, group)| allocation_len(name.len()) + group.memory()).sum();
        Groups { by_name, memory }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &ConsumerGroup)> {
        self.by_name.iter().map(|(name, group)| (&**name, group))
    }

    /// Borrows a group for a change.
    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        let group = self.by_name.get_mut(name)?;
        Some(GroupMut { before: group.memory(), group, total: &mut self.memory })
    }

    /// Adds a group; returns false if the name is used.
    pub(super) fn insert(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.memory += allocation_len(name.len()) + group.memory();
        self.by_name.insert(name.into(), group);
        true
    }

    /// Removes a group; returns true if it existed.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.by_name.remove(name) else { return false };
        self.memory -= allocation_len(name.len()) + group.memory();
        true
    }

    /// Returns true if any group has still to read or to acknowledge an entry.
    pub(super) fn refer_to(&self, id: StreamId) -> bool {
        self.by_name.values().any(|group| group.refers_to(id))
    }

    /// Removes an entry from the pending entries of all groups; returns the names of those that had it.
    pub(super) fn forget(&mut self, id: StreamId) -> Vec<Box<[u8]>> {
        let Groups { by_name, memory } = self;
        let mut found = Vec::new();
        for (name, group) in by_name.iter_mut() {
            let mut group = GroupMut { before: group.memory(), group, total: memory };
            if group.release(id).is_some() {
                found.push(name.clone());
            }
        }
        found
    }
}

/// Guard of a group that is being changed; its memory is counted at the end.
pub(crate) struct GroupMut<'a> {
    group: &'a mut ConsumerGroup,
    total: &'a mut usize,
    before: usize,
}

impl Deref for GroupMut<'_> {
    type Target = ConsumerGroup;

    fn deref(&self) -> &ConsumerGroup {
        self.group
    }
}

impl DerefMut for GroupMut<'_> {
    fn deref_mut(&mut self) -> &mut ConsumerGroup {
        self.group
    }
}

impl Drop for GroupMut<'_> {
    fn drop(&mut self) {
        *self.total = *self.total + self.group.memory() - self.before;
    }
}
