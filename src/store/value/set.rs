//! Sets: small ones packed in their entries, as an intset or a listpack; large ones as a table of members.
//!
//! The first member decides: an integer creates an intset, anything else a listpack. Beyond the limits, which the
//! caller passes, a set becomes a table, and stays one. Once a member gets a deadline, the set takes a form of its own,
//! packed or not, see `set/timed.rs`.

mod members;
mod random;
#[cfg(test)]
mod tests;
mod timed;
mod timing;

use crate::store::entry::Entry;
use crate::store::limits::{PackedLimit, ValueLimits};
use crate::store::table::Hasher;
use crate::store::value::intset::{IntSet, IntSetMut};
use crate::store::value::listpack::{Encoded, HEADER_LEN, Listpack, ListpackMut, StoredElement};
use crate::store::value::{DataType, Packing, Type, Value, intset};
use crate::time::clock::Deadline;

pub(crate) use crate::store::value::big::set::BigSet;
pub(crate) use members::Members;
pub(crate) use timed::TimedMembers;

/// Length in bytes beyond which nothing is added to a listpack, whatever the limits are.
const LISTPACK_LEN_MAX: usize = 1 << 30;

/// The data type of sets.
pub(crate) enum Set {}

/// A borrowed set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SetRef<'e> {
    /// Integers in ascending order.
    Ints(IntSet<'e>),
    /// The members in the order of insertion.
    Packed(Listpack<'e>),
    /// Above the limits of packed sets.
    Big(&'e BigSet),
    /// In either form in which members may have deadlines.
    Timed(TimedMembers<'e>),
}

/// A set borrowed for a change.
pub(crate) struct SetMut<'e>(&'e mut Entry);

/// Parameters that decide the encoding of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// Limit of a listpack.
    packed: PackedLimit,
    /// Maximum number of members of an intset.
    ints: usize,
    /// Hasher of the members of a large set.
    hasher: &'a Hasher,
}

impl<'a> Rules<'a> {
    /// Returns the rules by the settings.
    #[inline]
    pub(crate) fn new(limits: ValueLimits, hasher: &'a Hasher) -> Self {
        Rules { packed: limits.set, ints: limits.intset_entries, hasher }
    }

    /// Returns the maximum number of members of a packed set, whose limit depends on the members.
    pub(crate) fn packed_max(self) -> usize {
        self.packed.entries.max(self.ints)
    }
}

impl<'e> SetRef<'e> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            SetRef::Ints(ints) => ints.len(),
            SetRef::Packed(listpack) => listpack.len(),
            SetRef::Big(big) => big.len(),
            SetRef::Timed(timed) => timed.len(),
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            SetRef::Ints(_) => "intset",
            SetRef::Packed(_) => "listpack",
            SetRef::Big(_) => "hashtable",
            SetRef::Timed(timed) => timed.encoding(),
        }
    }

    /// Returns true if a member is in the set; an integer must be given as one.
    #[inline]
    pub(crate) fn contains(self, member: StoredElement<'_>) -> bool {
        match (self, member) {
            (SetRef::Big(big), member) => big.contains(member),
            (SetRef::Ints(ints), StoredElement::Int(int)) => ints.contains(int),
            (SetRef::Ints(_), StoredElement::Text(_)) => false,
            (SetRef::Packed(listpack), member) => position(listpack, member).is_some(),
            (SetRef::Timed(timed), member) => timed.deadline(member).is_some(),
        }
    }

    /// Returns an iterator over the members: of an intset in ascending order, of a listpack in the order of insertion,
    /// or of deadlines where members have them, of a table in no particular order. Integers are returned as integers.
    pub(crate) fn iter(self) -> Members<'e> {
        match self {
            SetRef::Ints(ints) => Members::of_ints(ints),
            SetRef::Packed(listpack) => Members::of_listpack(listpack),
            SetRef::Big(big) => Members::of_big(big),
            SetRef::Timed(timed) => Members::of_timed(timed),
        }
    }

    /// Visits the members at a scan position, all members of a packed set; see
    /// [`Table::scan`](crate::store::table::Table::scan).
    pub(crate) fn scan(self, position: u64, visit: impl FnMut(StoredElement<'_>)) -> Option<u64> {
        match self {
            SetRef::Big(big) => big.scan(position, visit),
            SetRef::Timed(timed) => timed.scan(position, visit),
            packed => {
                packed.iter().for_each(visit);
                None
            }
        }
    }

    /// Returns true if the set is packed, so that a scan visits all of it at once.
    pub(crate) fn is_packed(self) -> bool {
        match self {
            SetRef::Ints(_) | SetRef::Packed(_) => true,
            SetRef::Big(_) => false,
            SetRef::Timed(timed) => timed.is_packed(),
        }
    }
}

impl Set {
    /// Creates an entry with an empty intset or listpack, for a result to be stored.
    pub(crate) fn draft(key: &[u8], packing: Packing, deadline: Option<Deadline>) -> Entry {
        let empty = match packing {
            Packing::Listpack | Packing::Timed => Listpack::EMPTY.bytes(),
            Packing::Other => IntSet::EMPTY.bytes(),
        };
        Entry::packed(key, Type::Set, packing, empty, deadline)
    }
}

impl SetMut<'_> {
    /// Borrows the set for reading.
    #[inline]
    pub(crate) fn as_ref(&self) -> SetRef<'_> {
        Set::read(self.0)
    }

    /// Chooses the encoding of an empty set to which `count` members will be added, beginning with `first`.
    pub(crate) fn start(&mut self, first: StoredElement<'_>, count: usize, rules: Rules<'_>) {
        match first {
            StoredElement::Int(_) if count <= rules.ints => self.0.set_packed(Packing::Other, IntSet::EMPTY.bytes()),
            _ if count <= rules.packed.entries => {}
            _ => drop(self.grow_big(rules.hasher)),
        }
    }

    /// Converts a packed set if the `count` members that will be added alone exceed the limit.
    #[inline]
    pub(crate) fn expect(&mut self, count: usize, rules: Rules<'_>) {
        let max = match self.as_ref() {
            SetRef::Big(_) => return,
            SetRef::Ints(_) => rules.ints,
            SetRef::Packed(_) => rules.packed.entries,
            SetRef::Timed(_) => return self.expect_timed(count, rules),
        };
        if count > max {
            self.grow_big(rules.hasher);
        }
    }

    /// Adds a member; an integer must be given as one. Returns true if it is new.
    #[inline]
    pub(crate) fn add(&mut self, member: StoredElement<'_>, rules: Rules<'_>) -> bool {
        match self.0.value_mut() {
            Some(Value::Set(big)) => big.add(member),
            Some(Value::TimedSet(timed)) => timed.add(member),
            _ => self.add_packed(member, rules),
        }
    }

    fn add_packed(&mut self, member: StoredElement<'_>, rules: Rules<'_>) -> bool {
        match (self.0.packing(), member) {
            (Packing::Other, StoredElement::Int(int)) => {
                let mut ints = IntSetMut::new(&mut *self.0);
                let is_new = ints.add(int);
                if is_new && ints.as_set().len() > rules.ints {
                    self.grow_big(rules.hasher);
                }
                is_new
            }
            (Packing::Other, StoredElement::Text(text)) => {
                if self.ints_fit_beside(text, rules.packed) {
                    self.convert_to_listpack();
                    ListpackMut::new(&mut *self.0).push_back(member.into());
                } else {
                    self.grow_big(rules.hasher).add_new(member);
                }
                true
            }
            (Packing::Listpack, member) => {
                let listpack = Listpack::new(self.0.packed_bytes().unwrap_or_default());
                if position(listpack, member).is_some() {
                    return false;
                }
                if rules.packed.admits(listpack.len() + 1, member.len())
                    && listpack.bytes().len() + member.len() < LISTPACK_LEN_MAX
                {
                    ListpackMut::new(&mut *self.0).push_back(member.into());
                } else {
                    self.grow_big(rules.hasher).add_new(member);
                }
                true
            }
            (Packing::Timed, member) => self.add_timed(member, rules),
        }
    }

    /// Returns true if an intset may become a listpack to which a text is added.
    fn ints_fit_beside(&self, text: &[u8], limit: PackedLimit) -> bool {
        let SetRef::Ints(ints) = self.as_ref() else { return false };
        let longest = ints.min().into_iter().chain(ints.max()).map(|int| StoredElement::Int(int).len()).max();
        limit.admits(ints.len() + 1, text.len().max(longest.unwrap_or(0)))
            && ints.len() * Encoded::of_int(i64::MAX).len() + text.len() < LISTPACK_LEN_MAX
    }

    fn convert_to_listpack(&mut self) {
        let SetRef::Ints(ints) = self.as_ref() else { return };
        let mut bytes = Vec::from(Listpack::EMPTY.bytes());
        let mut listpack = ListpackMut::new(&mut bytes);
        let elements: Vec<Encoded<'_>> = ints.iter().map(Encoded::of_int).collect();
        listpack.push_back_all(&elements);
        self.0.set_packed(Packing::Listpack, &bytes);
    }

    /// Converts a set in any encoding to an intset, if it holds only integers and not too many.
    pub(crate) fn shrink_to_ints(&mut self, rules: Rules<'_>) {
        let set = self.as_ref();
        if set.len() > rules.ints || !set.iter().all(|member| matches!(member, StoredElement::Int(_))) {
            return;
        }
        let mut sorted: Vec<i64> = set.iter().filter_map(StoredElement::to_int).collect();
        sorted.sort_unstable();
        self.0.set_packed(Packing::Other, &intset::of_sorted(&sorted));
    }

    /// Removes a member; an integer must be given as one. Returns true if it was in the set.
    pub(crate) fn remove(&mut self, member: StoredElement<'_>) -> bool {
        if let Some(big) = self.big_mut() {
            return big.remove(member);
        }
        match (self.as_ref(), member) {
            (SetRef::Ints(_), StoredElement::Int(int)) => IntSetMut::new(&mut *self.0).remove(int),
            (SetRef::Packed(listpack), member) => {
                let Some(at) = position(listpack, member) else { return false };
                ListpackMut::new(&mut *self.0).remove(at);
                true
            }
            (SetRef::Timed(_), member) => self.remove_timed(member),
            _ => false,
        }
    }

    #[inline]
    fn big_mut(&mut self) -> Option<&mut BigSet> {
        match self.0.value_mut() {
            Some(Value::Set(big)) => Some(big),
            _ => None,
        }
    }

    /// Converts a packed set to a table.
    #[cold]
    fn grow_big(&mut self, hasher: &Hasher) -> &mut BigSet {
        let mut big = BigSet::new(hasher.clone());
        self.as_ref().iter().for_each(|member| big.add_new(member));
        self.0.set_boxed(Value::Set(Box::new(big)));
        self.big_mut().expect("it is set in the line above")
    }
}

#[inline]
fn position(listpack: Listpack<'_>, member: StoredElement<'_>) -> Option<usize> {
    member.with_text(|text| listpack.find(HEADER_LEN, text, 0))
}

impl DataType for Set {
    const TYPE: Type = Type::Set;
    type Ref<'e> = SetRef<'e>;
    type Mut<'e> = SetMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> SetRef<'_> {
        match (entry.packed_bytes(), entry.packing(), entry.value()) {
            (Some(bytes), Packing::Listpack, _) => SetRef::Packed(Listpack::new(bytes)),
            (Some(bytes), Packing::Other, _) => SetRef::Ints(IntSet::new(bytes)),
            (None, _, Some(Value::Set(big))) => SetRef::Big(big),
            (Some(_), Packing::Timed, _) | (None, _, Some(Value::TimedSet(_))) => {
                SetRef::Timed(TimedMembers::of(entry))
            }
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> SetMut<'_> {
        SetMut(entry)
    }

    fn nothing<'e>() -> SetRef<'e> {
        SetRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Set::draft(key, Packing::Listpack, None)
    }

    fn is_empty(entry: &Entry) -> bool {
        match Self::read(entry) {
            SetRef::Packed(listpack) => listpack.is_empty(),
            other => other.len() == 0,
        }
    }

    #[inline]
    fn nearest_deadline(entry: &Entry) -> Option<i64> {
        Self::read(entry).nearest_deadline()
    }
}
