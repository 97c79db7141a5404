//! TTLs as commands give them: the options EX, PX, EXAT, PXAT, KEEPTTL and PERSIST, the times of the EXPIRE family and
//! of RESTORE, and the conditions NX, XX, GT and LT, parsed, checked and applied, for keys and for fields.
//!
//! Conditions on a key's existence or string, and options for a timeout, are elsewhere.
//!
//! Invariant: parsing an option never fails for its amount; the handler checks the amount when Redis would.

use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{Arg, integer, one_of, token, unix_time};
use crate::store::{Classes, Event, Key, Ttl};
use crate::time::clock::{Deadline, Now};

/// The event of a key that got a deadline.
pub(crate) const EXPIRE: &Event = &Event::one(Classes::GENERIC, "expire").of_deadline();
/// The event of a key that lost its deadline.
pub(crate) const PERSIST: &Event = &Event::one(Classes::GENERIC, "persist").of_deadline();

const SECONDS: Arg = integer("seconds").token("EX");
const MILLISECONDS: Arg = integer("milliseconds").token("PX");
const UNIX_SECONDS: Arg = unix_time("unix-time-seconds").token("EXAT");
const UNIX_MILLISECONDS: Arg = unix_time("unix-time-milliseconds").token("PXAT");

/// The grammar of the options of commands that have KEEPTTL.
pub(crate) const EXPIRATION_OR_KEEPTTL: Arg =
    one_of("expiration", &[SECONDS, MILLISECONDS, UNIX_SECONDS, UNIX_MILLISECONDS, token("keepttl", "KEEPTTL")])
        .optional();

/// The grammar of the options of SET, which were added in different versions.
pub(crate) const SET_EXPIRATION: Arg = one_of(
    "expiration",
    &[
        SECONDS.since("2.6.12"),
        MILLISECONDS.since("2.6.12"),
        UNIX_SECONDS.since("6.2.0"),
        UNIX_MILLISECONDS.since("6.2.0"),
        token("keepttl", "KEEPTTL").since("6.0.0"),
    ],
)
.optional();

/// The grammar of the options of commands that have PERSIST.
pub(crate) const EXPIRATION_OR_PERSIST: Arg =
    one_of("expiration", &[SECONDS, MILLISECONDS, UNIX_SECONDS, UNIX_MILLISECONDS, token("persist", "PERSIST")])
        .optional();

/// The grammar of the options that only count from now on.
pub(crate) const RELATIVE_EXPIRATION: Arg = one_of("expiration", &[SECONDS, MILLISECONDS]).optional();

/// The grammar of [`DeadlineCondition`].
pub(crate) const CONDITION: Arg =
    one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")]).optional();

/// The unit and origin of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// From now on, as by EX.
    Seconds,
    /// From now on, as by PX.
    Milliseconds,
    /// Since 1970, as by EXAT.
    UnixSeconds,
    /// Since 1970, as by PXAT.
    UnixMilliseconds,
}

impl Unit {
    const OPTIONS: [(&str, Unit); 4] = [
        ("EX", Unit::Seconds),
        ("PX", Unit::Milliseconds),
        ("EXAT", Unit::UnixSeconds),
        ("PXAT", Unit::UnixMilliseconds),
    ];

    /// Returns the unit of an option; `None` if the word is not one of these options.
    pub(crate) fn of_option(word: &[u8]) -> Option<Unit> {
        Unit::OPTIONS.into_iter().find(|(option, _)| is_word(word, option)).map(|(_, unit)| unit)
    }

    /// Returns true if the unit counts from 1970 instead of from now.
    pub(crate) fn is_absolute(self) -> bool {
        matches!(self, Unit::UnixSeconds | Unit::UnixMilliseconds)
    }

    fn in_ms(self, number: i64) -> Option<i64> {
        match self {
            Unit::Seconds | Unit::UnixSeconds => number.checked_mul(1000),
            Unit::Milliseconds | Unit::UnixMilliseconds => Some(number),
        }
    }

    /// Returns the time from which a call counts, or with which it compares a time.
    fn base(self, call: &Call<'_>) -> Now {
        if self.is_absolute() { call.now() } else { call.present() }
    }

    /// Converts a number to a time; `None` when it overflows 64 bits, as given or since 1970.
    fn time(self, number: i64, now: Now) -> Option<Time> {
        let given_ms = self.in_ms(number)?;
        let unix_ms = if self.is_absolute() { given_ms } else { given_ms.checked_add(now.wall_ms())? };
        Some(Time { unit: self, given_ms, unix_ms, now })
    }
}

/// A time given by a client, which does not overflow in any representation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    unit: Unit,
    /// The milliseconds, as given.
    given_ms: i64,
    /// The milliseconds since 1970.
    pub(crate) unix_ms: i64,
    /// The time from which this time counts, or with which it is compared.
    pub(crate) now: Now,
}

impl Time {
    /// Returns the time for a number of the EXPIRE family: any number except those that overflow.
    pub(crate) fn of_key(call: &Call<'_>, unit: Unit, number: i64) -> Result<Self> {
        unit.time(number, unit.base(call)).ok_or(Error::InvalidExpire(call.name()))
    }

    /// Returns the deadline of fields for a number that must not be negative, in milliseconds since 1970. The deadline
    /// must not be after [`FIELD_DEADLINE_MAX_MS`].
    pub(crate) fn of_field(call: &Call<'_>, unit: Unit, number: &[u8]) -> Result<i64> {
        let number = parse_int(number).ok_or(Error::NotInteger)?;
        if number < 0 {
            return Err(Error::other("invalid expire time, must be >= 0"));
        }
        let end_ms = unit.time(number, unit.base(call)).map(|time| time.unix_ms);
        end_ms.filter(|end_ms| *end_ms <= FIELD_DEADLINE_MAX_MS).ok_or(Error::InvalidExpire(call.name()))
    }

    /// Returns the deadline of a restored key for a non-negative number of RESTORE: `Some(None)` when the key has none,
    /// and `None` when it has passed. As in Redis, a time that overflows is in the past.
    pub(crate) fn of_restored_key(call: &Call<'_>, unit: Unit, number: i64) -> Option<Option<Deadline>> {
        if number == 0 {
            return Some(None);
        }
        let time = unit.time(number, unit.base(call))?;
        (!time.has_passed(call)).then(|| Some(time.deadline()))
    }

    /// Returns true if a key or field with this deadline is to be deleted at once; never in the replay of a log.
    pub(crate) fn has_passed(&self, call: &Call<'_>) -> bool {
        self.unix_ms <= self.now.wall_ms() && call.view.cx().expires_keys()
    }

    /// Returns the deadline: on the monotonic clock if it counts from now on.
    fn deadline(&self) -> Deadline {
        if self.unit.is_absolute() || self.given_ms <= 0 {
            Deadline::at_wall_ms(self.unix_ms)
        } else {
            Deadline::after(self.now, self.given_ms.unsigned_abs())
        }
    }

    /// Sets this deadline of an existing key; deletes the key if the deadline has passed.
    pub(crate) fn apply(&self, call: &mut Call<'_>, key: Key<'_>) {
        if self.has_passed(call) {
            _ = call.view.remove(key)
        } else {
            call.view.set_deadline(key, Some(self.deadline()), EXPIRE)
        }
    }
}

/// The latest deadline of a field.
const FIELD_DEADLINE_MAX_MS: i64 = (1 << 46) - 1;

/// A number given by an option, which is parsed after the other options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount<'a> {
    pub(crate) unit: Unit,
    pub(crate) number: &'a [u8],
}

impl Amount<'_> {
    /// Parses the time of a key, which must be positive.
    fn time(self, call: &Call<'_>) -> Result<Time> {
        let number = parse_int(self.number).ok_or(Error::NotInteger)?;
        if number > 0 { Time::of_key(call, self.unit, number) } else { Err(Error::InvalidExpire(call.name())) }
    }

    /// Parses the deadline of a key, from a time that must be positive.
    pub(crate) fn deadline(self, call: &Call<'_>) -> Result<Deadline> {
        Ok(self.time(call)?.deadline())
    }
}

/// The change of the TTL of a key or of fields that a command requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TtlOption<T> {
    /// The default of the command.
    #[default]
    Absent,
    /// KEEPTTL: the deadline stays.
    Keep,
    /// PERSIST: the deadline is removed.
    Persist,
    /// EX, PX, EXAT or PXAT.
    Expire(T),
}

/// The option that a command has besides EX, PX, EXAT and PXAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherTtlOption {
    KeepTtl,
    Persist,
}

impl TtlOption<Unit> {
    /// Returns the option that a word names; `None` if the command has no such option.
    pub(crate) fn of_word(word: &[u8], other: OtherTtlOption) -> Option<Self> {
        let (name, option) = match other {
            OtherTtlOption::KeepTtl => ("KEEPTTL", TtlOption::Keep),
            OtherTtlOption::Persist => ("PERSIST", TtlOption::Persist),
        };
        if is_word(word, name) {
            return Some(option);
        }
        Unit::of_option(word).map(TtlOption::Expire)
    }

    /// Reads the time of the option, if it has one.
    pub(crate) fn with_time<T>(self, read: impl FnOnce(Unit) -> Result<T>) -> Result<TtlOption<T>> {
        Ok(match self {
            TtlOption::Absent => TtlOption::Absent,
            TtlOption::Keep => TtlOption::Keep,
            TtlOption::Persist => TtlOption::Persist,
            TtlOption::Expire(unit) => TtlOption::Expire(read(unit)?),
        })
    }
}

impl<'a> TtlOption<Amount<'a>> {
    /// Parses one option of a command on keys, whose keyword was already taken from `args`.
    ///
    /// # Errors
    /// [`Error::Syntax`] when the word is not an option, or lacks its amount.
    pub(crate) fn read(word: &[u8], other: OtherTtlOption, args: &mut Args<'a>) -> Result<Self> {
        let option = TtlOption::of_word(word, other).ok_or(Error::Syntax)?;
        option.with_time(|unit| Ok(Amount { unit, number: args.bytes()? }))
    }

    /// Adds an option. The same option may be repeated, and the last one counts; two different ones are an error.
    pub(crate) fn choose(&mut self, new: Self) -> Result<()> {
        let fits = match (*self, new) {
            (TtlOption::Absent, _) => true,
            (TtlOption::Expire(old), TtlOption::Expire(new)) => old.unit == new.unit,
            (old, new) => old == new,
        };
        if !fits {
            return Err(Error::Syntax);
        }
        *self = new;
        Ok(())
    }

    /// Returns the TTL of a key that is written; `default` without an option.
    pub(crate) fn of_written_key(self, call: &Call<'_>, default: Ttl) -> Result<Ttl> {
        Ok(match self {
            TtlOption::Absent => default,
            TtlOption::Keep => Ttl::Keep,
            TtlOption::Persist => Ttl::Clear,
            TtlOption::Expire(amount) => Ttl::At(amount.deadline(call)?),
        })
    }

    /// Changes the TTL of a key that is not written. For a missing key, not even the amount is parsed.
    pub(crate) fn apply(self, call: &mut Call<'_>, key: Key<'_>) -> Result<()> {
        match (call.view.deadline(key), self) {
            (Some(_), TtlOption::Expire(amount)) => amount.time(call)?.apply(call, key),
            (Some(Some(_)), TtlOption::Persist) => call.view.set_deadline(key, None, PERSIST),
            _ => {}
        }
        Ok(())
    }
}

/// The conditions for setting the deadline of a key or field, on its present deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadlineCondition {
    /// Only without a deadline.
    pub(crate) nx: bool,
    /// Only with a deadline.
    pub(crate) xx: bool,
    /// Only if the new deadline is later.
    pub(crate) gt: bool,
    /// Only if the new deadline is earlier.
    pub(crate) lt: bool,
}

impl DeadlineCondition {
    /// Adds the condition that a word names; returns false if the word names none.
    pub(crate) fn add(&mut self, word: &[u8]) -> bool {
        let flag = match word {
            word if is_word(word, "NX") => &mut self.nx,
            word if is_word(word, "XX") => &mut self.xx,
            word if is_word(word, "GT") => &mut self.gt,
            word if is_word(word, "LT") => &mut self.lt,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Returns the number of different conditions.
    pub(crate) fn count(self) -> usize {
        [self.nx, self.xx, self.gt, self.lt].into_iter().filter(|flag| *flag).count()
    }

    /// Returns true if a key or field with the deadline `current_ms` may get `end_ms`; without a deadline, it never
    /// expires.
    pub(crate) fn allows(self, end_ms: i64, current_ms: Option<i64>) -> bool {
        let refused = match current_ms {
            None => self.xx || self.gt,
            Some(current_ms) => self.nx || self.gt && end_ms <= current_ms || self.lt && end_ms >= current_ms,
        };
        !refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_leaves_64_bits_is_refused_in_either_step() {
        let ends = |unit: Unit, number| {
            let time = unit.time(number, Now::at_ms(0, 10))?;
            Some((time.given_ms, time.unix_ms))
        };
        assert_eq!(ends(Unit::UnixSeconds, i64::MAX / 1000 + 1), None);
        assert_eq!(ends(Unit::UnixSeconds, i64::MIN / 1000 - 1), None);
        assert_eq!(ends(Unit::Milliseconds, i64::MAX - 9), None);
        assert_eq!(ends(Unit::Milliseconds, i64::MAX - 10), Some((i64::MAX - 10, i64::MAX)));
        assert_eq!(ends(Unit::Milliseconds, i64::MIN), Some((i64::MIN, i64::MIN + 10)));
    }

    #[test]
    fn a_key_without_deadline_counts_as_one_that_never_ends() {
        let gt = DeadlineCondition { gt: true, ..DeadlineCondition::default() };
        let lt = DeadlineCondition { lt: true, ..DeadlineCondition::default() };
        assert!(!gt.allows(i64::MAX, None) && lt.allows(i64::MAX, None));
        assert!(gt.allows(11, Some(10)) && !gt.allows(10, Some(10)));
        assert!(lt.allows(9, Some(10)) && !lt.allows(10, Some(10)));
    }
}
