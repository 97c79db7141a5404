//! The readers' view of a hash: an expired field is missing, removed or not.
//!
//! On a primary an expired field is removed before it is read. A replica leaves that to its primary, and nothing is
//! removed while clients are paused.

use crate::store::cx::Cx;
use crate::store::usage::Dice;
use crate::store::usage::RandomSelection;
use crate::store::value::hash::{FieldAndValue, HashRef, HashText};

/// A borrowed hash without its expired fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleHash<'e> {
    hash: HashRef<'e>,
    /// The time, in milliseconds since 1970, if a field may have expired by then.
    now_ms: Option<i64>,
}

impl<'e> VisibleHash<'e> {
    /// Creates the view of a hash for a call. In the replay of a log no field expires until the log removes it.
    #[inline]
    pub(crate) fn new(hash: HashRef<'e>, cx: &Cx) -> Self {
        let is_due = |at_ms: i64| at_ms <= cx.now.wall_ms() && cx.expires_keys();
        let now_ms = hash.nearest_deadline().is_some_and(is_due).then(|| cx.now.wall_ms());
        VisibleHash { hash, now_ms }
    }

    /// Returns true if all fields have expired.
    pub(crate) fn is_empty(self) -> bool {
        self.now_ms.is_some() && !self.hash.any_timed(|deadline| self.shows(deadline))
    }

    /// Returns true if the hash is packed, so that a scan visits all of it at once.
    pub(crate) fn is_packed(self) -> bool {
        matches!(self.hash, HashRef::Packed(_))
    }

    #[inline]
    fn shows(self, deadline: Option<i64>) -> bool {
        match (self.now_ms, deadline) {
            (Some(now_ms), Some(at_ms)) => at_ms > now_ms,
            _ => true,
        }
    }

    /// Returns the number of fields.
    pub(crate) fn len(self) -> usize {
        match self.now_ms {
            None => self.hash.len(),
            Some(_) => {
                let mut len = 0;
                self.for_each(|_, _| len += 1);
                len
            }
        }
    }

    /// Returns the value of a field.
    #[inline]
    pub(crate) fn get(self, field: &[u8]) -> Option<HashText<'e>> {
        match self.now_ms {
            None => self.hash.get(field),
            Some(_) => self.deadline(field).and_then(|_| self.hash.get(field)),
        }
    }

    /// Returns the deadline of a field in milliseconds since 1970: `Some(None)` for a field without one, `None` for a
    /// missing field.
    pub(crate) fn deadline(self, field: &[u8]) -> Option<Option<i64>> {
        self.hash.deadline(field).filter(|deadline| self.shows(*deadline))
    }

    /// Visits all fields with their values.
    #[inline]
    pub(crate) fn for_each(self, mut visit: impl FnMut(HashText<'e>, HashText<'e>)) {
        match self.now_ms {
            None => self.hash.for_each(visit),
            Some(_) => self.hash.for_each_timed(|field, value, deadline| {
                if self.shows(deadline) {
                    visit(field, value);
                }
            }),
        }
    }

    /// Returns all fields with their values.
    fn pairs(self) -> Vec<FieldAndValue<'e>> {
        let mut pairs = Vec::new();
        self.for_each(|field, value| pairs.push((field, value)));
        pairs
    }

    /// Visits the fields at a scan position, see [`HashRef::scan`].
    pub(crate) fn scan(self, position: u64, mut visit: impl FnMut(HashText<'_>, HashText<'_>)) -> Option<u64> {
        self.hash.scan(position, |field, value, deadline| {
            if self.shows(deadline) {
                visit(field, value);
            }
        })
    }

    /// Returns a source of random fields.
    pub(crate) fn draw(self) -> Draw<'e> {
        match self.now_ms {
            None => Draw::Whole(self.hash),
            Some(_) => Draw::Of(self.pairs()),
        }
    }
}

/// Source of random fields of a hash.
pub(crate) enum Draw<'e> {
    /// All fields of the hash.
    Whole(HashRef<'e>),
    /// The fields that have not expired.
    Of(Vec<FieldAndValue<'e>>),
}

impl<'e> Draw<'e> {
    /// Returns a random field with its value, each with the same probability; `None` if there are none.
    pub(crate) fn one(&self, dice: &mut Dice) -> Option<FieldAndValue<'e>> {
        match self {
            Draw::Whole(hash) => hash.random(dice),
            Draw::Of(pairs) if pairs.is_empty() => None,
            Draw::Of(pairs) => Some(pairs[dice.below(pairs.len())]),
        }
    }

    /// Returns `count` different random fields with their values, or all if there are fewer.
    pub(crate) fn several(&self, count: usize, dice: &mut Dice) -> Vec<FieldAndValue<'e>> {
        match self {
            Draw::Whole(hash) => hash.sample(count, dice),
            Draw::Of(pairs) => {
                let mut selection = RandomSelection::new(count, pairs.len());
                pairs.iter().filter(|_| selection.takes(dice)).copied().collect()
            }
        }
    }
}
