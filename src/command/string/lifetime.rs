//! The TTL options of SET, GETEX, SETEX and PSETEX, and the units of time of these and of fields' deadlines.
//!
//! EXPIRE and related commands have other conditions and accept times in the past; they are elsewhere.
//!
//! Invariant: parsing an option never fails for its amount; the handler checks that when Redis would.

use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::time::clock::{Deadline, Now};

/// What SET or GETEX does with the TTL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime<'a> {
    /// The default of the command.
    Unsaid,
    /// KEEPTTL: the key keeps its deadline.
    Keep,
    /// PERSIST: the deadline is removed.
    Persist,
    /// EX, PX, EXAT or PXAT.
    Ends(Expiry<'a>),
}

impl<'a> Lifetime<'a> {
    /// Parses one option, whose keyword was already taken from `args`.
    pub(crate) fn read(word: &[u8], args: &mut Args<'a>) -> Result<Self> {
        if is_word(word, "KEEPTTL") {
            return Ok(Lifetime::Keep);
        }
        if is_word(word, "PERSIST") {
            return Ok(Lifetime::Persist);
        }
        let unit = Unit::of_option(word).ok_or(Error::Syntax)?;
        Ok(Lifetime::Ends(Expiry { unit, amount: args.bytes()? }))
    }

    /// Adds one more option. The same option may be repeated, the last one counts; two different ones are an error.
    pub(crate) fn choose(&mut self, new: Self) -> Result<()> {
        let fits = match (*self, new) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Ends(old), Lifetime::Ends(new)) => old.unit == new.unit,
            (old, new) => old == new,
        };
        if !fits {
            return Err(Error::Syntax);
        }
        *self = new;
        Ok(())
    }
}

/// How an option counts time.
#[derive(PartialEq, Eq)]
pub(crate) struct Unit {
    word: &'static str,
    /// The length of one.
    pub(crate) milliseconds: i64,
    /// Whether it counts from 1970 instead of from now.
    pub(crate) is_absolute: bool,
}

pub(crate) static EX: Unit = Unit { word: "EX", milliseconds: 1000, is_absolute: false };
pub(crate) static PX: Unit = Unit { word: "PX", milliseconds: 1, is_absolute: false };
pub(crate) static EXAT: Unit = Unit { word: "EXAT", milliseconds: 1000, is_absolute: true };
pub(crate) static PXAT: Unit = Unit { word: "PXAT", milliseconds: 1, is_absolute: true };
static UNITS: [&Unit; 4] = [&EX, &PX, &EXAT, &PXAT];

impl Unit {
    /// Returns the unit of an option; `None` if the word is no such option.
    pub(crate) fn of_option(word: &[u8]) -> Option<&'static Unit> {
        UNITS.into_iter().find(|unit| is_word(word, unit.word))
    }
}

/// A TTL as given by the client; it is validated after the other options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry<'a> {
    pub(crate) unit: &'static Unit,
    pub(crate) amount: &'a [u8],
}

impl Expiry<'_> {
    /// Returns the deadline for `command` to set.
    pub(crate) fn deadline(self, command: &'static str, now: Now) -> Result<Deadline> {
        let amount = parse_int(self.amount).ok_or(Error::NotInteger)?;
        let time_ms = amount.checked_mul(self.unit.milliseconds).filter(|time_ms| *time_ms > 0);
        let time_ms = time_ms.ok_or(Error::InvalidExpire(command))?;
        if self.unit.is_absolute {
            return Ok(Deadline::at_wall_ms(time_ms));
        }
        // Redis counts from 1970 throughout, and rejects what overflows then; here there would be no overflow.
        if time_ms > i64::MAX / 2 {
            now.wall_ms().checked_add(time_ms).ok_or(Error::InvalidExpire(command))?;
        }
        Ok(Deadline::after(now, time_ms.unsigned_abs()))
    }
}
