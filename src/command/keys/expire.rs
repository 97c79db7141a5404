//! TTLs: EXPIRE, TTL, PERSIST and related commands.
//!
//! EXPIRE and PEXPIRE count from now on the monotonic clock, EXPIREAT and PEXPIREAT name a wall-clock time, and
//! [`Deadline`] records which. Comparisons and limits are those of Redis, which uses only the wall clock: both kinds
//! are compared as milliseconds since 1970.

use crate::command::condition;
use crate::command::condition::{IFDEQ, IFDNE, IFEQ, IFNE, is_conditional};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::spec::{
    ACCESS, Arg, Effect, FAST, Group, KeyFlags, READ, RO, RW, UPDATE, WRITE, integer, key, one_of, token, unix_time,
};
use crate::store::entry::Entry;
use crate::store::{Classes, Event, Key, Lookup, Str};
use crate::time::clock::{Deadline, Now};

const ONE_MATCH: &str = "IFEQ, IFNE, IFDEQ and IFDNE options at the same time are not compatible";

const MILLISECOND: i64 = 1;
const SECOND: i64 = 1000;

const CHANGED_KEY: Arg = key("key", RW | UPDATE);
const ASKED_KEY: &[Arg] = &[key("key", RO | ACCESS)];
const CONDITION: Arg =
    one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
        .optional()
        .since("7.0.0");
const MATCH: Arg = one_of("match", &[IFEQ, IFNE, IFDEQ, IFDNE]).optional();

/// The commands of this file.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("EXPIRE", expire, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .args(&[CHANGED_KEY, integer("seconds"), CONDITION, MATCH])
        .key_use(limit_key_use)
        .docs("1.0.0", "O(1)", "Makes a key expire after a number of seconds."),
    Command::new("EXPIREAT", expireat, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .args(&[CHANGED_KEY, unix_time("unix-time-seconds"), CONDITION, MATCH])
        .key_use(limit_key_use)
        .docs("1.2.0", "O(1)", "Makes a key expire at a Unix time in seconds."),
    Command::new("EXPIRETIME", expiretime, READ | FAST, Group::Generic)
        .args(ASKED_KEY)
        .docs("7.0.0", "O(1)", "Returns the Unix time in seconds at which a key expires."),
    Command::new("PERSIST", persist, WRITE | FAST, Group::Generic)
        .args(&[CHANGED_KEY])
        .docs("2.2.0", "O(1)", "Removes the expiration of a key."),
    Command::new("PEXPIRE", pexpire, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .args(&[CHANGED_KEY, integer("milliseconds"), CONDITION, MATCH])
        .key_use(limit_key_use)
        .docs("2.6.0", "O(1)", "Makes a key expire after a number of milliseconds."),
    Command::new("PEXPIREAT", pexpireat, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .args(&[CHANGED_KEY, unix_time("unix-time-milliseconds"), CONDITION, MATCH])
        .key_use(limit_key_use)
        .docs("2.6.0", "O(1)", "Makes a key expire at a Unix time in milliseconds."),
    Command::new("PEXPIRETIME", pexpiretime, READ | FAST, Group::Generic)
        .args(ASKED_KEY)
        .docs("7.0.0", "O(1)", "Returns the Unix time in milliseconds at which a key expires."),
    Command::new("PTTL", pttl, READ | FAST, Group::Generic)
        .args(ASKED_KEY)
        .tips(&["nondeterministic_output"])
        .docs("2.6.0", "O(1)", "Returns the time to live of a key in milliseconds."),
    Command::new("TTL", ttl, READ | FAST, Group::Generic)
        .args(ASKED_KEY)
        .tips(&["nondeterministic_output"])
        .docs("1.0.0", "O(1)", "Returns the time to live of a key in seconds."),
];

/// A key got a deadline.
pub(crate) const EXPIRE: &Event = &Event::one(Classes::GENERIC, "expire");
/// A key lost its deadline.
pub(crate) const PERSIST: &Event = &Event::one(Classes::GENERIC, "persist");

fn expire(call: &mut Call<'_>) -> Result<()> {
    limit_life(call, Since::Now, SECOND)
}

fn expireat(call: &mut Call<'_>) -> Result<()> {
    limit_life(call, Since::Epoch, SECOND)
}

fn pexpire(call: &mut Call<'_>) -> Result<()> {
    limit_life(call, Since::Now, MILLISECOND)
}

fn pexpireat(call: &mut Call<'_>) -> Result<()> {
    limit_life(call, Since::Epoch, MILLISECOND)
}

fn ttl(call: &mut Call<'_>) -> Result<()> {
    reply_time(call, Deadline::remaining_ms, SECOND)
}

fn pttl(call: &mut Call<'_>) -> Result<()> {
    reply_time(call, Deadline::remaining_ms, MILLISECOND)
}

fn expiretime(call: &mut Call<'_>) -> Result<()> {
    reply_time(call, Deadline::wall_ms, SECOND)
}

fn pexpiretime(call: &mut Call<'_>) -> Result<()> {
    reply_time(call, Deadline::wall_ms, MILLISECOND)
}

fn persist(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    call.view.lookup(key, Lookup::WRITE);
    let is_timed = matches!(call.view.deadline(key), Some(Some(_)));
    if is_timed {
        call.view.set_deadline(key, None, PERSIST);
    }
    call.reply.int(i64::from(is_timed));
    Ok(())
}

/// The origin from which a time counts.
#[derive(Clone, Copy)]
enum Since {
    Now,
    Epoch,
}

/// The EXPIRE family reads the key only with a condition on its string among the arguments after the time.
fn limit_key_use(request: Request<'_>) -> KeyFlags {
    if is_conditional(request, 3) { RW | ACCESS | UPDATE } else { RW | UPDATE }
}

/// Executes the EXPIRE family. As in Redis, the options are checked before the number, and both before the key.
fn limit_life(call: &mut Call<'_>, since: Since, unit_ms: i64) -> Result<()> {
    let key = call.args.key()?;
    let number = call.args.bytes()?;
    let condition = Condition::read(&mut call.args)?;
    let number = parse_int(number).ok_or(Error::NotInteger)?;
    let now = match since {
        Since::Now => call.present(),
        Since::Epoch => call.now(),
    };
    let (span_ms, end_ms) = span_and_end(number, unit_ms, since, now).ok_or(Error::InvalidExpire(call.name()))?;

    call.view.lookup(key, Lookup::WRITE);
    let allowed = match call.view.deadline(key) {
        None => false,
        Some(_) if !is_matched(call, key, condition.matching)? => false,
        Some(current) => condition.allows(end_ms, current.map(|deadline| deadline.wall_ms(now))),
    };
    if allowed {
        if end_ms <= now.wall_ms() && call.view.cx().expires_keys() {
            call.view.remove(key);
        } else {
            let deadline = match since {
                Since::Now => Deadline::after(now, span_ms.unsigned_abs()),
                Since::Epoch => Deadline::at_wall_ms(end_ms),
            };
            call.view.set_deadline(key, Some(deadline), EXPIRE);
        }
    }
    call.reply.int(i64::from(allowed));
    Ok(())
}

/// Returns whether an existing key meets the condition on its string.
fn is_matched(call: &mut Call<'_>, key: Key<'_>, matching: Option<condition::Condition<'_>>) -> Result<bool> {
    let Some(matching) = matching else { return Ok(true) };
    call.view.get::<Str>(key, Lookup::PEEK)?.map_or(Ok(false), |text| matching.is_met_by(text.as_slice()))
}

/// Returns the given time in milliseconds, as given and since 1970; `None` when either overflows 64 bits.
fn span_and_end(number: i64, unit_ms: i64, since: Since, now: Now) -> Option<(i64, i64)> {
    let span_ms = number.checked_mul(unit_ms)?;
    let end_ms = match since {
        Since::Now => span_ms.checked_add(now.wall_ms())?,
        Since::Epoch => span_ms,
    };
    Some((span_ms, end_ms))
}

/// Replies with a time of a key: -2 without a key, -1 without a TTL, otherwise the result of `read` for its deadline.
fn reply_time(call: &mut Call<'_>, read: fn(Deadline, Now) -> i64, unit_ms: i64) -> Result<()> {
    let key = call.args.key()?;
    let deadline = call.view.lookup(key, Lookup::ABOUT).map(Entry::deadline);
    let time = match deadline {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => rounded(read(deadline, call.present()).max(0), unit_ms),
    };
    call.reply.int(time);
    Ok(())
}

/// Converts milliseconds to a unit, halves rounded up.
fn rounded(ms: i64, unit_ms: i64) -> i64 {
    // Without adding to `ms`, which may be the maximum integer.
    ms / unit_ms + i64::from(ms % unit_ms * 2 >= unit_ms)
}

/// The options of the EXPIRE family: when a deadline may be set.
#[derive(Default)]
struct Condition<'a> {
    /// Only when the key has none.
    nx: bool,
    /// Only when the key has one.
    xx: bool,
    /// Only when it is later than the key's.
    gt: bool,
    /// Only when it is earlier than the key's.
    lt: bool,
    /// Only when its string meets a condition.
    matching: Option<condition::Condition<'a>>,
}

impl<'a> Condition<'a> {
    /// Parses options to the end of the request. NX, XX, GT and LT may be repeated, and XX may be combined with GT or
    /// LT; one condition on the string may be combined with any of them.
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let mut condition = Condition::default();
        while let Some(word) = args.next_arg() {
            match word {
                word if is_word(word, "NX") => condition.nx = true,
                word if is_word(word, "XX") => condition.xx = true,
                word if is_word(word, "GT") => condition.gt = true,
                word if is_word(word, "LT") => condition.lt = true,
                word => match condition::Condition::read(word, args)? {
                    Some(_) if condition.matching.is_some() => return Err(Error::other(ONE_MATCH)),
                    Some(matching) => condition.matching = Some(matching),
                    None => return Err(unsupported(word)),
                },
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(Error::other("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if condition.gt && condition.lt {
            return Err(Error::other("GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// Returns whether a key with the deadline `current_ms` may get `end_ms`; without a deadline, a key never expires.
    fn allows(&self, end_ms: i64, current_ms: Option<i64>) -> bool {
        let refused = match current_ms {
            None => self.xx || self.gt,
            Some(current_ms) => self.nx || self.gt && end_ms <= current_ms || self.lt && end_ms >= current_ms,
        };
        !refused
    }
}

/// Quotes an option as Redis does: up to a zero byte, and without line breaks at the end.
fn unsupported(word: &[u8]) -> Error {
    let text = word.split(|byte| *byte == 0).next().unwrap_or_default();
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    Error::UnsupportedOption(text[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_the_nearest_up_to_the_largest_number() {
        let cases = [(0, 0), (499, 0), (500, 1), (1499, 1), (1500, 2), (i64::MAX, 9_223_372_036_854_776)];
        for (ms, seconds) in cases {
            assert_eq!(rounded(ms, SECOND), seconds, "{ms}");
        }
        assert_eq!(rounded(i64::MAX, MILLISECOND), i64::MAX);
    }

    #[test]
    fn a_time_that_leaves_64_bits_is_refused_in_either_step() {
        let now = Now::at_ms(0, 10);
        assert_eq!(span_and_end(i64::MAX / 1000 + 1, SECOND, Since::Epoch, now), None);
        assert_eq!(span_and_end(i64::MIN / 1000 - 1, SECOND, Since::Epoch, now), None);
        assert_eq!(span_and_end(i64::MAX - 9, MILLISECOND, Since::Now, now), None);
        assert_eq!(span_and_end(i64::MAX - 10, MILLISECOND, Since::Now, now), Some((i64::MAX - 10, i64::MAX)));
        assert_eq!(span_and_end(i64::MIN, MILLISECOND, Since::Now, now), Some((i64::MIN, i64::MIN + 10)));
    }

    #[test]
    fn a_key_without_deadline_counts_as_one_that_never_ends() {
        let gt = Condition { gt: true, ..Condition::default() };
        let lt = Condition { lt: true, ..Condition::default() };
        assert!(!gt.allows(i64::MAX, None) && lt.allows(i64::MAX, None));
        assert!(gt.allows(11, Some(10)) && !gt.allows(10, Some(10)));
        assert!(lt.allows(9, Some(10)) && !lt.allows(10, Some(10)));
    }
}
