//! The holders of a lock that several clients can hold at once: a shared lock, or a semaphore.
//!
//! The key of such a lock is a string, too, whose value is only the kind of lock; the holders are stored here, each
//! with a deadline. The key's own deadline is the latest deadline of a holder.

use hashbrown::HashTable;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::expire::NEVER;
use crate::store::lock::LockRecord;
use crate::time::clock::{Deadline, us_between};

/// The value of the key of a shared lock.
const SHARED: &[u8] = b"shared:";
/// Prefix of the value of the key of a semaphore; the semaphore's size follows.
const PERMITS: &[u8] = b"permits:";

/// Returns true if a value is the value of the key of a shared lock or a semaphore. No client may use it as a token,
/// even where no lock is held.
pub(crate) fn is_shared_value(value: &[u8]) -> bool {
    value.starts_with(SHARED) || value.starts_with(PERMITS)
}

/// Kind of sharing of a lock, with its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Any number of readers, which have the same fencing token: the token of the first of them.
    Readers { fence: i64 },
    /// Clients with one or more permits each, `size` permits in all.
    Permits { size: u32 },
}

impl Sharing {
    /// Returns the value of the key of such a lock.
    pub(crate) fn value(self) -> Vec<u8> {
        match self {
            Sharing::Readers { .. } => SHARED.to_vec(),
            Sharing::Permits { size } => [PERMITS, size.to_string().as_bytes()].concat(),
        }
    }
}

/// One holder of a shared lock or a semaphore.
pub(crate) struct Holder {
    pub(crate) record: LockRecord,
    /// Number of permits; 0 for a shared lock.
    pub(crate) permits: u32,
    /// End of the hold, in monotonic milliseconds, or [`NEVER`].
    pub(crate) until_ms: u64,
    /// Hash of the token.
    token: u64,
}

impl Holder {
    /// Creates a holder whose token has this hash.
    pub(crate) fn new(record: LockRecord, token: u64, permits: u32, until_ms: u64) -> Self {
        Holder { record, permits, until_ms, token }
    }

    /// Returns the holder's deadline, if there is one.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        deadline_at(self.until_ms)
    }

    /// Returns the number of permits, if the lock is a semaphore.
    pub(crate) fn count(&self) -> Option<u32> {
        Some(self.permits).filter(|permits| *permits > 0)
    }
}

/// The holders of a shared lock or a semaphore, in the order in which they have acquired it.
pub struct Holders {
    sharing: Sharing,
    /// Time since which there has always been a holder, in monotonic microseconds, negative if before the start of the
    /// server.
    pub(crate) since_us: i64,
    by_number: OrderedMap<u64, Holder>,
    /// Numbers of the holders, by the hashes of their tokens.
    by_token: HashTable<(u64, u64)>,
    /// Numbers of the holders that are bound to connections, by the ids of the clients.
    by_session: HashTable<(u64, u64)>,
    /// Deadlines of the holders, with their numbers.
    deadlines: OrderedMap<(u64, u64), ()>,
    /// Number of the last holder added.
    last: u64,
    /// Number of permits taken.
    taken: u64,
    /// Set once the semaphore has become smaller: there may be fewer permits than queued clients ask for.
    is_reduced: bool,
    /// True if a deadline does not pass by itself, but only when it is set to 0, as in the mirror of an engine.
    is_kept: bool,
    /// Heap memory of the records.
    bytes: usize,
}

impl Holders {
    /// Creates a lock without holders.
    pub(crate) fn new(sharing: Sharing, since_us: i64) -> Self {
        Holders {
            is_kept: false,
            sharing,
            since_us,
            by_number: OrderedMap::EMPTY,
            by_token: HashTable::new(),
            by_session: HashTable::new(),
            deadlines: OrderedMap::EMPTY,
            last: 0,
            taken: 0,
            is_reduced: false,
            bytes: 0,
        }
    }

    /// Returns the lock with deadlines that do not pass by themselves, like those of [`Deadline::kept`]: a holder ends
    /// when its deadline is set to 0.
    pub(crate) fn kept(self) -> Self {
        Holders { is_kept: true, ..self }
    }

    /// Returns the time for which there has always been a holder, at `at_us` (monotonic microseconds).
    pub(crate) fn held_us(&self, at_us: u64) -> u64 {
        us_between(self.since_us, at_us)
    }

    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Sets the size of a semaphore; permits that are taken stay taken.
    pub(crate) fn resize(&mut self, size: u32) {
        self.is_reduced |= self.permits().is_some_and(|(before, _)| size < before);
        self.sharing = Sharing::Permits { size };
    }

    /// Returns true if the semaphore has become smaller since [`Holders::forget_reduction`].
    pub(crate) fn is_reduced(&self) -> bool {
        self.is_reduced
    }

    /// Forgets that the semaphore has become smaller.
    pub(crate) fn forget_reduction(&mut self) {
        self.is_reduced = false;
    }

    /// Returns the size of a semaphore, and the number of its free permits.
    pub(crate) fn permits(&self) -> Option<(u32, u32)> {
        let Sharing::Permits { size } = self.sharing else { return None };
        Some((size, u64::from(size).saturating_sub(self.taken) as u32))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// Iterates over the holders, each with its number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Holder)> {
        self.by_number.iter().map(|(number, holder)| (*number, holder))
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Holder> {
        self.by_number.get(&number)
    }

    /// Returns the number of the holder with a token and the token's hash.
    pub(crate) fn find(&self, hash: u64, token: &[u8]) -> Option<u64> {
        let is_same = |(_, number): &(u64, u64)| self.get(*number).is_some_and(|holder| *holder.record.token == *token);
        self.by_token.find(hash, is_same).map(|(_, number)| *number)
    }

    /// Returns true if a holder's token has this hash.
    pub(crate) fn has_token(&self, hash: u64) -> bool {
        self.by_token.find(hash, |(other, _)| *other == hash).is_some()
    }

    /// Returns the numbers of the holders that are bound to the connection of a client.
    pub(crate) fn of_session(&self, client: u64) -> Vec<u64> {
        let bound = self.by_session.iter_hash(session_hash(client)).filter(|(other, _)| *other == client);
        let mut numbers: Vec<u64> = bound.map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Adds a holder, whose token differs from the tokens of the others.
    pub(crate) fn add(&mut self, holder: Holder) {
        self.last += 1;
        self.bytes += holder.record.heap_len();
        self.taken += u64::from(holder.permits);
        self.deadlines.insert((holder.until_ms, self.last), ());
        self.by_token.insert_unique(holder.token, (holder.token, self.last), |(hash, _)| *hash);
        self.bind(self.last, session_of(&holder.record));
        self.by_number.insert(self.last, holder);
    }

    /// Removes a holder, by its number.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Holder> {
        let holder = self.by_number.remove(&number)?;
        self.bytes -= holder.record.heap_len();
        self.taken -= u64::from(holder.permits);
        self.deadlines.remove(&(holder.until_ms, number));
        self.unbind(number, session_of(&holder.record));
        if let Ok(slot) = self.by_token.find_entry(holder.token, |(_, other)| *other == number) {
            slot.remove();
        }
        shrink(&mut self.by_token, |(hash, _)| *hash);
        Some(holder)
    }

    /// Changes the record of a holder, except for its token.
    pub(crate) fn change<T>(&mut self, number: u64, change: impl FnOnce(&mut LockRecord) -> T) -> Option<T> {
        let holder = self.by_number.get_mut(&number)?;
        let (before, len) = (session_of(&holder.record), holder.record.heap_len());
        let result = change(&mut holder.record);
        let after = session_of(&holder.record);
        self.bytes = self.bytes + holder.record.heap_len() - len;
        if before != after {
            self.unbind(number, before);
            self.bind(number, after);
        }
        Some(result)
    }

    fn bind(&mut self, number: u64, session: Option<u64>) {
        if let Some(client) = session {
            self.by_session.insert_unique(session_hash(client), (client, number), |(client, _)| session_hash(*client));
        }
    }

    fn unbind(&mut self, number: u64, session: Option<u64>) {
        let Some(client) = session else { return };
        if let Ok(slot) = self.by_session.find_entry(session_hash(client), |(_, other)| *other == number) {
            slot.remove();
        }
        shrink(&mut self.by_session, |(client, _)| session_hash(*client));
    }

    /// Sets the deadline of a holder.
    pub(crate) fn set_until(&mut self, number: u64, until_ms: u64) {
        let Some(holder) = self.by_number.get_mut(&number) else { return };
        self.deadlines.remove(&(holder.until_ms, number));
        self.deadlines.insert((until_ms, number), ());
        holder.until_ms = until_ms;
    }

    /// Sets the deadline of all holders.
    pub(crate) fn set_all_until(&mut self, until_ms: u64) {
        self.deadlines = OrderedMap::EMPTY;
        self.by_number.keys().for_each(|number| _ = self.deadlines.insert((until_ms, *number), ()));
        self.by_number.iter_mut().for_each(|(_, holder)| holder.until_ms = until_ms);
    }

    /// Moves the deadlines of all holders by `by_ms` milliseconds.
    pub(crate) fn move_all(&mut self, by_ms: i64) {
        let numbers: Vec<(u64, u64)> =
            self.deadlines.keys().copied().filter(|(until_ms, _)| *until_ms != NEVER).collect();
        for (until_ms, number) in numbers {
            self.set_until(number, until_ms.saturating_add_signed(by_ms).min(NEVER - 1));
        }
    }

    /// Returns the earliest deadline of a holder, in monotonic milliseconds, and the number of the holder.
    pub(crate) fn first_to_end(&self) -> Option<(u64, u64)> {
        let (until_ms, number) = self.deadlines.keys().next()?;
        let has_end = if self.is_kept { *until_ms == 0 } else { *until_ms != NEVER };
        has_end.then_some((*until_ms, *number))
    }

    pub(crate) fn into_holders(self) -> impl Iterator<Item = Holder> {
        self.by_number.into_values()
    }

    /// Returns the latest deadline of a holder.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let latest = self.deadlines.keys().next_back().and_then(|(until_ms, _)| deadline_at(*until_ms));
        latest.map(|latest| if self.is_kept { latest.kept() } else { latest })
    }

    /// Returns the memory of the lock's holders.
    pub(crate) fn memory(&self) -> usize {
        let tables = self.by_token.allocation_size() + self.by_session.allocation_size();
        let maps = self.by_number.memory() + self.deadlines.memory() + tables;
        allocation_len(size_of::<Holders>()) + maps + self.bytes
    }
}

/// Returns the deadline at `until_ms` (monotonic milliseconds), unless it is [`NEVER`].
fn deadline_at(until_ms: u64) -> Option<Deadline> {
    (until_ms != NEVER).then(|| Deadline::at_mono_ms(until_ms))
}

/// Returns the client to whose session a holder is bound.
fn session_of(record: &LockRecord) -> Option<u64> {
    record.session.as_ref().map(|session| session.id())
}

/// Returns the hash of a client's id, which is a small number.
fn session_hash(client: u64) -> u64 {
    client.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Frees memory that a table no longer needs.
fn shrink(table: &mut HashTable<(u64, u64)>, hash: fn(&(u64, u64)) -> u64) {
    if table.capacity() > 8 * table.len() {
        table.shrink_to(2 * table.len(), hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(token: &str, permits: u32, until_ms: u64) -> Holder {
        let record = LockRecord {
            token: token.as_bytes().into(),
            fence: 1,
            since_us: 0,
            hold: None,
            session: None,
            is_announced: false,
            meta: None,
        };
        Holder::new(record, u64::from(token.as_bytes()[0]), permits, until_ms)
    }

    #[test]
    fn a_lock_lasts_as_long_as_the_holder_that_lasts_longest() {
        let mut holders = Holders::new(Sharing::Readers { fence: 1 }, 0);
        assert_eq!((holders.first_to_end(), holders.deadline()), (None, None));
        // Tokens with the same hash.
        for (token, until_ms) in [("a1", 30), ("a2", 10), ("b", 20)] {
            holders.add(holder(token, 0, until_ms));
        }
        let until = |ms| Some(Deadline::at_mono_ms(ms));
        assert_eq!((holders.first_to_end(), holders.deadline()), (Some((10, 2)), until(30)));
        assert_eq!(holders.find(u64::from(b'a'), b"a2"), Some(2));
        holders.set_until(2, 40);
        assert_eq!((holders.first_to_end(), holders.deadline()), (Some((20, 3)), until(40)));
        assert!(holders.remove(2).is_some() && holders.remove(2).is_none());
        assert_eq!(holders.deadline(), until(30));
        assert_eq!((holders.find(u64::from(b'a'), b"a2"), holders.find(u64::from(b'a'), b"a1")), (None, Some(1)));
        holders.set_until(1, NEVER);
        assert_eq!((holders.first_to_end(), holders.deadline()), (Some((20, 3)), None));
        holders.set_all_until(50);
        assert_eq!((holders.first_to_end(), holders.deadline()), (Some((50, 1)), until(50)));
        assert_eq!(holders.permits(), None);
    }

    #[test]
    fn permits_that_were_taken_stay_taken_when_there_are_fewer() {
        let mut holders = Holders::new(Sharing::Permits { size: 5 }, 0);
        let empty = holders.memory();
        holders.add(holder("a", 2, 10));
        holders.add(holder("b", 2, 10));
        assert_eq!((holders.permits(), holders.sharing().value()), (Some((5, 1)), b"permits:5".to_vec()));
        holders.resize(3);
        assert_eq!(holders.permits(), Some((3, 0)));
        holders.change(1, |record| record.meta = Some(vec![0; 100].into()));
        assert!(holders.memory() > empty + 100);
        holders.remove(1);
        assert_eq!(holders.permits(), Some((3, 1)));
        holders.remove(2);
        assert_eq!((holders.permits(), holders.is_empty(), holders.bytes), (Some((3, 3)), true, 0));
    }
}
