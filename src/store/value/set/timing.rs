//! Deadlines of the members of a set of any form: read, set and removed, and the changes of the form that they need.

use crate::store::cx::Cx;
use crate::store::value::big::set::{BigSet, TimedSet};
use crate::store::value::hash::packed;
use crate::store::value::listpack::{Encoded, Listpack, ListpackMut, StoredElement};
use crate::store::value::set::{LISTPACK_LEN_MAX, Rules, SetMut, SetRef, TimedMembers};
use crate::store::value::{Packing, Value};

impl SetRef<'_> {
    /// Returns the set without the members that have expired for a call. In the replay of a log no member expires until
    /// the log removes it.
    #[inline]
    pub(crate) fn seen_by(self, cx: &Cx) -> Self {
        match self {
            SetRef::Timed(timed) => SetRef::Timed(timed.seen_by(cx)),
            plain => plain,
        }
    }

    /// Returns a lower bound of the deadlines of the members, in milliseconds since 1970; `None` if there are none.
    #[inline]
    pub(crate) fn nearest_deadline(self) -> Option<i64> {
        match self {
            SetRef::Timed(timed) => timed.nearest_deadline(),
            _ => None,
        }
    }

    /// Returns the deadline of a member in milliseconds since 1970: `Some(None)` for a member without one, `None` for a
    /// missing member.
    pub(crate) fn deadline(self, member: StoredElement<'_>) -> Option<Option<i64>> {
        match self {
            SetRef::Timed(timed) => timed.deadline(member),
            plain => plain.contains(member).then_some(None),
        }
    }
}

impl SetMut<'_> {
    /// Sets or removes the deadline of an existing member, in milliseconds since 1970.
    pub(crate) fn set_deadline(&mut self, member: StoredElement<'_>, deadline: Option<i64>, rules: Rules<'_>) {
        if deadline.is_some() {
            self.make_timed(rules);
        }
        match self.0.value_mut() {
            Some(Value::TimedSet(timed)) => timed.set_deadline(member, deadline),
            _ => {
                if self.0.packing() == Packing::Timed {
                    member.with_text(|text| packed::set_deadline(self.0, text, deadline));
                }
            }
        }
        self.leave_timed();
    }

    /// Removes up to `max_count` members whose deadlines have passed, and returns them.
    pub(in crate::store) fn remove_expired(&mut self, now_ms: i64, max_count: usize) -> Vec<Box<[u8]>> {
        let mut expired = Vec::new();
        match self.0.value_mut() {
            Some(Value::TimedSet(timed)) => timed.remove_expired(now_ms, max_count, &mut expired),
            _ => {
                if self.0.packing() == Packing::Timed {
                    packed::remove_expired(self.0, now_ms, max_count, &mut expired);
                }
            }
        }
        self.leave_timed();
        expired
    }

    /// Converts the set if the `count` members that will be added alone exceed the limit.
    pub(super) fn expect_timed(&mut self, count: usize, rules: Rules<'_>) {
        if self.as_ref().is_packed() && count > rules.packed.entries {
            self.grow_timed(rules);
        }
    }

    /// Adds a member to a packed set; one that exists keeps its deadline. Returns true if it is new.
    pub(super) fn add_timed(&mut self, member: StoredElement<'_>, rules: Rules<'_>) -> bool {
        let set = self.as_ref();
        if set.contains(member) {
            return false;
        }
        let len = self.0.packed_bytes().map_or(0, <[u8]>::len) + member.len();
        if rules.packed.admits(set.len() + 1, member.len()) && len < LISTPACK_LEN_MAX {
            member.with_text(|text| packed::set(self.0, text, b"", true));
        } else {
            self.grow_timed(rules).add(member);
        }
        true
    }

    /// Removes a member of a set in either form. Returns true if it was in the set.
    pub(super) fn remove_timed(&mut self, member: StoredElement<'_>) -> bool {
        let is_removed = match self.0.value_mut() {
            Some(Value::TimedSet(timed)) => timed.remove(member),
            _ => member.with_text(|text| packed::remove(self.0, text)),
        };
        self.leave_timed();
        is_removed
    }

    /// Gives the set a form in which members may have deadlines, if it has none yet.
    fn make_timed(&mut self, rules: Rules<'_>) {
        let longest = match self.as_ref() {
            SetRef::Timed(_) => return,
            SetRef::Ints(ints) => {
                ints.min().into_iter().chain(ints.max()).map(|int| StoredElement::Int(int).len()).max().unwrap_or(0)
            }
            SetRef::Packed(_) | SetRef::Big(_) => 0,
        };
        let set = self.as_ref();
        if set.is_packed() && rules.packed.admits(set.len(), longest) {
            let mut bytes = Listpack::EMPTY.bytes().to_vec();
            let elements: Vec<Encoded<'_>> =
                set.iter().flat_map(|member| [member.into(), Encoded::of(b""), Encoded::of_int(0)]).collect();
            ListpackMut::new(&mut bytes).push_back_all(&elements);
            return self.0.set_packed(Packing::Timed, &bytes);
        }
        if set.is_packed() {
            self.grow_big(rules.hasher);
        }
        self.change_form(|value| match value {
            Value::Set(set) => Value::TimedSet(Box::new(TimedSet::new(*set))),
            other => other,
        });
    }

    /// Gives a large set its plain form if it has lost its last deadline.
    fn leave_timed(&mut self) {
        if let Some(Value::TimedSet(timed)) = self.0.value()
            && timed.is_plain()
        {
            self.change_form(|value| match value {
                Value::TimedSet(timed) => Value::Set(Box::new(timed.into_plain())),
                other => other,
            });
        }
    }

    /// Replaces a large value by another form of it.
    fn change_form(&mut self, change: impl FnOnce(Value) -> Value) {
        if let Some(value) = self.0.value_mut() {
            *value = change(std::mem::replace(value, Value::Packed(Vec::new())));
        }
    }

    /// Converts a packed set to a table.
    #[cold]
    fn grow_timed(&mut self, rules: Rules<'_>) -> &mut TimedSet {
        let mut timed = TimedSet::new(BigSet::new(rules.hasher.clone()));
        TimedMembers::of(self.0).iter().for_each(|(member, deadline)| {
            timed.add(member);
            if deadline.is_some() {
                timed.set_deadline(member, deadline);
            }
        });
        self.0.set_boxed(Value::TimedSet(Box::new(timed)));
        match self.0.value_mut() {
            Some(Value::TimedSet(timed)) => timed,
            _ => unreachable!("it is set in the line above"),
        }
    }
}

#[cfg(test)]
mod tests;
