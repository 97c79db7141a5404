//! Sets whose members may have deadlines. A small one is packed as a hash with deadlines is, with empty values
//! (`hash/packed.rs`); a large one is the table that it was before, with bounds of the deadlines beside it
//! (`big/set/timed.rs`). A packed set keeps this form, as in Redis; a large one leaves it with its last deadline.
//!
//! Deadlines are wall-clock times, and an expired member is hidden from readers, as those of fields of hashes are.

use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::usage::{Dice, RandomSelection};
use crate::store::value::big::set::TimedSet;
use crate::store::value::hash::packed::PackedHash;
use crate::store::value::listpack::{Listpack, StoredElement};
use crate::store::value::member::OwnedMember;
use crate::store::value::{Packing, Value};

/// A borrowed set in either form in which members may have deadlines.
#[derive(Clone, Copy)]
pub(crate) struct TimedMembers<'e> {
    entry: &'e Entry,
    /// The time, in milliseconds since 1970, up to which members have expired, or [`ALL`].
    now_ms: i64,
}

/// The time by which no member has expired.
const ALL: i64 = i64::MIN;

#[derive(Clone, Copy)]
enum TimedForm<'e> {
    Packed(PackedHash<'e>),
    Big(&'e TimedSet),
}

impl<'e> TimedMembers<'e> {
    /// Borrows the set of an entry, with expired members.
    pub(super) fn of(entry: &'e Entry) -> Self {
        TimedMembers { entry, now_ms: ALL }
    }

    fn form(self) -> TimedForm<'e> {
        match (self.entry.packed_bytes(), self.entry.value()) {
            (Some(bytes), _) => TimedForm::Packed(PackedHash::new(Listpack::new(bytes), Packing::Timed)),
            (None, Some(Value::TimedSet(big))) => TimedForm::Big(big),
            _ => unreachable!("the form was checked"),
        }
    }

    /// Returns the set without the members that have expired for a call.
    #[cold]
    pub(super) fn seen_by(self, cx: &Cx) -> Self {
        let now_ms = cx.now.wall_ms();
        let hides = cx.expires_keys() && self.nearest_deadline().is_some_and(|at_ms| at_ms <= now_ms);
        TimedMembers { now_ms: if hides { now_ms } else { ALL }, ..self }
    }

    fn shows(self, deadline: Option<i64>) -> bool {
        deadline.is_none_or(|at_ms| at_ms > self.now_ms)
    }

    /// Returns a lower bound of the deadlines; `None` if there are none.
    pub(super) fn nearest_deadline(self) -> Option<i64> {
        match self.form() {
            TimedForm::Packed(packed) => packed.nearest_deadline(),
            TimedForm::Big(big) => big.nearest_deadline(),
        }
    }

    pub(super) fn is_packed(self) -> bool {
        matches!(self.form(), TimedForm::Packed(_))
    }

    pub(super) fn encoding(self) -> &'static str {
        if self.is_packed() { "listpackex" } else { "hashtable" }
    }

    pub(super) fn len(self) -> usize {
        match self.form() {
            _ if self.now_ms != ALL => self.iter().count(),
            TimedForm::Packed(packed) => packed.len(),
            TimedForm::Big(big) => big.set().len(),
        }
    }

    /// Returns the deadline of a member in milliseconds since 1970: `Some(None)` for a member without one, `None` for a
    /// missing member.
    pub(super) fn deadline(self, member: StoredElement<'_>) -> Option<Option<i64>> {
        let deadline = match self.form() {
            TimedForm::Packed(packed) => {
                let at = member.with_text(|text| packed.find(text))?;
                packed.deadline_at(at)
            }
            TimedForm::Big(big) => big.deadline(member)?,
        };
        self.shows(deadline).then_some(deadline)
    }

    /// Returns the members with their deadlines in milliseconds since 1970.
    pub(crate) fn iter(self) -> Box<dyn Iterator<Item = (StoredElement<'e>, Option<i64>)> + 'e> {
        match self.form() {
            TimedForm::Packed(packed) => Box::new(packed.members().filter(move |(_, deadline)| self.shows(*deadline))),
            TimedForm::Big(big) => Box::new(big.iter().filter(move |(_, deadline)| self.shows(*deadline))),
        }
    }

    pub(super) fn scan(self, position: u64, mut visit: impl FnMut(StoredElement<'_>)) -> Option<u64> {
        match self.form() {
            TimedForm::Packed(_) => {
                self.iter().for_each(|(member, _)| visit(member));
                None
            }
            TimedForm::Big(big) => big.scan(position, |member, deadline| {
                if self.shows(deadline) {
                    visit(member);
                }
            }),
        }
    }

    pub(super) fn random(self, dice: &mut Dice) -> Option<StoredElement<'e>> {
        let len = self.len();
        match self.form() {
            _ if len == 0 => None,
            TimedForm::Big(big) if self.now_ms == ALL => big.set().random(dice).map(OwnedMember::item),
            _ => self.iter().nth(dice.below(len)).map(|(member, _)| member),
        }
    }

    pub(super) fn sample(self, count: usize, dice: &mut Dice, mut visit: impl FnMut(StoredElement<'e>)) {
        match self.form() {
            TimedForm::Big(big) if self.now_ms == ALL => {
                big.set().sample(count, dice).into_iter().for_each(|member| visit(member.item()));
            }
            _ => {
                let mut selection = RandomSelection::new(count, self.len());
                self.iter().filter(|_| selection.takes(dice)).for_each(|(member, _)| visit(member));
            }
        }
    }
}

impl std::fmt::Debug for TimedMembers<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TimedMembers").field("len", &self.len()).finish_non_exhaustive()
    }
}
