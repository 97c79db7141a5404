//! Hashes: small ones packed in their entries, large ones as a table of entries whose keys are the fields.
//!
//! A packed hash is a listpack in which field and value alternate, or field, value and deadline. It becomes a
//! [`BigHash`] when it exceeds a limit of the settings, and is never converted back. In a big hash a field is the key
//! of an [`Entry`] and its value the entry's string, so that a long value is shared with replies as the value of a key
//! is; the field's deadline is the entry's.
//!
//! Deadlines of fields are wall-clock times, as in the format of Redis that packed hashes are stored and dumped in.

pub(in crate::store::value) mod packed;
#[cfg(test)]
mod tests;
mod text;
mod visible;

use crate::store::entry::Entry;
use crate::store::limits::PackedLimit;
use crate::store::table::Hasher;
use crate::store::usage::{Dice, RandomSelection};
use crate::store::value::big::hash::deadline_of;
use crate::store::value::listpack::Listpack;
use crate::store::value::{DataType, Packing, Type, Value};

pub(crate) use crate::store::value::big::hash::BigHash;
pub(crate) use packed::PackedHash;
pub(crate) use text::{FieldAndValue, HashText};
pub(crate) use visible::VisibleHash;

/// Maximum length of a listpack, whatever the settings allow, as in Redis.
const PACKED_LEN_MAX: usize = 1 << 30;

/// The data type of hashes.
pub(crate) enum Hash {}

/// A borrowed hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HashRef<'e> {
    /// In a listpack.
    Packed(PackedHash<'e>),
    /// Above the limits of packed hashes.
    Big(&'e BigHash),
}

impl<'e> HashRef<'e> {
    /// Returns a lower bound of the deadlines of the fields, in milliseconds since 1970; `None` if there are none.
    #[inline]
    pub(crate) fn nearest_deadline(self) -> Option<i64> {
        match self {
            HashRef::Packed(packed) => packed.nearest_deadline(),
            HashRef::Big(big) => big.nearest_deadline(),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            HashRef::Packed(packed) => packed.len(),
            HashRef::Big(big) => big.len(),
        }
    }

    /// Returns the value of a field.
    #[inline]
    pub(crate) fn get(self, field: &[u8]) -> Option<HashText<'e>> {
        match self {
            HashRef::Packed(packed) => Some(packed.listpack().get(packed.value_at(packed.find(field)?)).into()),
            HashRef::Big(big) => Some(big.get(field)?.string().into()),
        }
    }

    /// Returns the deadline of a field in milliseconds since 1970: `Some(None)` for a field without one, `None` for a
    /// missing field.
    pub(crate) fn deadline(self, field: &[u8]) -> Option<Option<i64>> {
        match self {
            HashRef::Packed(packed) => packed.find(field).map(|at| packed.deadline_at(at)),
            HashRef::Big(big) => big.get(field).map(deadline_of),
        }
    }

    /// Visits all fields with their values and deadlines.
    pub(crate) fn for_each_timed(self, mut visit: impl FnMut(HashText<'e>, HashText<'e>, Option<i64>)) {
        match self {
            HashRef::Packed(packed) => {
                packed.timed().for_each(|(field, value, deadline)| visit(field, value, deadline))
            }
            HashRef::Big(big) => big.entries().for_each(|entry| {
                let (field, value) = pair_of(entry);
                visit(field, value, deadline_of(entry));
            }),
        }
    }

    /// Returns true if the field exists.
    pub(crate) fn contains(self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// Visits all fields; the fields of a packed hash in the order of their addition.
    #[inline]
    pub(crate) fn for_each(self, mut visit: impl FnMut(HashText<'e>, HashText<'e>)) {
        match self {
            HashRef::Packed(packed) => packed.pairs().for_each(|(field, value)| visit(field, value)),
            HashRef::Big(big) => big.entries().for_each(|entry| {
                let (field, value) = pair_of(entry);
                visit(field, value);
            }),
        }
    }

    /// Returns true if `holds` for the deadline of any field, or for `None` if there is a field without one.
    pub(crate) fn any_timed(self, mut holds: impl FnMut(Option<i64>) -> bool) -> bool {
        match self {
            HashRef::Packed(packed) => packed.timed().any(|(_, _, deadline)| holds(deadline)),
            HashRef::Big(big) => big.entries().any(|entry| holds(deadline_of(entry))),
        }
    }

    /// Visits the fields at a scan position, all fields of a packed hash, with their deadlines; see
    /// [`Table::scan`](crate::store::table::Table::scan).
    pub(crate) fn scan(
        self,
        position: u64,
        mut visit: impl FnMut(HashText<'_>, HashText<'_>, Option<i64>),
    ) -> Option<u64> {
        match self {
            HashRef::Packed(_) => {
                self.for_each_timed(visit);
                None
            }
            HashRef::Big(big) => big.scan(position, |entry| {
                let (field, value) = pair_of(entry);
                visit(field, value, deadline_of(entry));
            }),
        }
    }

    /// Returns a random field with its value, each with the same probability; `None` for an empty hash.
    pub(crate) fn random(self, dice: &mut Dice) -> Option<FieldAndValue<'e>> {
        match self {
            HashRef::Packed(packed) if packed.is_empty() => None,
            HashRef::Packed(packed) => Some(packed.pair_at(packed.seek(dice.below(packed.len()))?)),
            HashRef::Big(big) => big.random(dice).map(pair_of),
        }
    }

    /// Returns `count` different random fields with their values, or all if there are fewer.
    pub(crate) fn sample(self, count: usize, dice: &mut Dice) -> Vec<FieldAndValue<'e>> {
        match self {
            HashRef::Packed(packed) => {
                let mut selection = RandomSelection::new(count, packed.len());
                packed.pairs().filter(|_| selection.takes(dice)).collect()
            }
            HashRef::Big(big) => big.sample(count, dice).into_iter().map(pair_of).collect(),
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            HashRef::Packed(packed) if packed.has_deadlines() => "listpackex",
            HashRef::Packed(_) => "listpack",
            HashRef::Big(_) => "hashtable",
        }
    }
}

/// Returns field and value of an entry of a big hash.
#[inline]
fn pair_of(entry: &Entry) -> FieldAndValue<'_> {
    (HashText::Inline(entry.key()), entry.string().into())
}

/// Parameters that decide the encoding of a hash to which something is added.
#[derive(Clone, Copy)]
pub(crate) struct HashGrowth<'a> {
    /// Limit of a packed hash.
    pub limit: PackedLimit,
    /// Hasher of the fields of a large hash.
    pub hasher: &'a Hasher,
}

/// A hash borrowed for a change.
pub(crate) struct HashMut<'e>(&'e mut Entry);

impl HashMut<'_> {
    /// Sets a field, which loses its deadline; returns true if it is new.
    #[inline]
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], growth: HashGrowth<'_>) -> bool {
        self.set_with(field, value, false, growth)
    }

    /// Sets a field, which keeps its deadline; returns true if it is new.
    pub(crate) fn set_keeping_deadline(&mut self, field: &[u8], value: &[u8], growth: HashGrowth<'_>) -> bool {
        self.set_with(field, value, true, growth)
    }

    #[inline]
    fn set_with(&mut self, field: &[u8], value: &[u8], keeps: bool, growth: HashGrowth<'_>) -> bool {
        if let Some(big) = self.big() {
            return big.set(field, value, keeps);
        }
        let may_stay = growth.limit.admits(0, field.len().max(value.len()));
        if !may_stay || self.packed_len() + field.len() + value.len() > PACKED_LEN_MAX {
            return self.enlarged(growth.hasher).set(field, value, keeps);
        }
        let is_new = packed::set(self.0, field, value, keeps);
        if is_new && !growth.limit.admits(Hash::read(self.0).len(), 0) {
            self.enlarged(growth.hasher);
        }
        is_new
    }

    /// Prepares for setting `count` fields, new or not.
    pub(crate) fn expect_fields(&mut self, count: usize, growth: HashGrowth<'_>) {
        if !growth.limit.admits(count, 0) {
            self.enlarged(growth.hasher);
        }
    }

    /// Removes a field; returns true if it existed.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self.big() {
            Some(big) => big.remove(field),
            None => packed::remove(self.0, field),
        }
    }

    /// Sets or removes the deadline of an existing field, in milliseconds since 1970.
    pub(crate) fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) {
        match self.big() {
            Some(big) => big.set_deadline(field, deadline),
            None => packed::set_deadline(self.0, field, deadline),
        }
    }

    /// Removes up to `max_count` fields whose deadlines have passed, and returns them.
    pub(in crate::store) fn remove_expired(&mut self, now_ms: i64, max_count: usize) -> Vec<Box<[u8]>> {
        let mut expired = Vec::new();
        match self.big() {
            Some(big) => big.remove_expired(now_ms, max_count, &mut expired),
            None => packed::remove_expired(self.0, now_ms, max_count, &mut expired),
        }
        expired
    }

    #[inline]
    fn big(&mut self) -> Option<&mut BigHash> {
        match self.0.value_mut() {
            Some(Value::Hash(big)) => Some(big),
            _ => None,
        }
    }

    fn packed_len(&self) -> usize {
        self.0.packed_bytes().map_or(0, <[u8]>::len)
    }

    /// Converts the hash to a big one, if it is not yet.
    #[cold]
    #[inline(never)]
    fn enlarged(&mut self, hasher: &Hasher) -> &mut BigHash {
        if self.0.packed_bytes().is_some() {
            let mut big = BigHash::new(hasher.clone());
            Hash::read(self.0).for_each_timed(|field, value, deadline| {
                field.with(|field| {
                    value.with(|value| big.set(field, value, false));
                    big.set_deadline(field, deadline);
                });
            });
            self.0.set_boxed(Value::Hash(Box::new(big)));
        }
        self.big().expect("it is big now")
    }
}

impl DataType for Hash {
    const TYPE: Type = Type::Hash;
    type Ref<'e> = HashRef<'e>;
    type Mut<'e> = HashMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> HashRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => HashRef::Packed(PackedHash::new(Listpack::new(bytes), entry.packing())),
            (None, Some(Value::Hash(big))) => HashRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    #[inline]
    fn write(entry: &mut Entry) -> HashMut<'_> {
        HashMut(entry)
    }

    fn nothing<'e>() -> HashRef<'e> {
        HashRef::Packed(PackedHash::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::Hash, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(entry: &Entry) -> bool {
        match Self::read(entry) {
            HashRef::Packed(packed) => packed.is_empty(),
            HashRef::Big(big) => big.len() == 0,
        }
    }

    fn nearest_deadline(entry: &Entry) -> Option<i64> {
        Self::read(entry).nearest_deadline()
    }
}
