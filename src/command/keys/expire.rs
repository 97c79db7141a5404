//! TTLs: EXPIRE, TTL, PERSIST and related commands.
//!
//! EXPIRE and PEXPIRE count from now on the monotonic clock, EXPIREAT and PEXPIREAT name a wall-clock time, and
//! [`Deadline`] records the clock. Comparisons and limits are those of Redis, which uses only the wall clock: both
//! kinds are compared as milliseconds since 1970 ([`mod@ttl`]).

use crate::command::condition;
use crate::command::condition::{IFDEQ, IFDNE, IFEQ, IFNE, is_conditional};
use crate::command::ttl::{self, PERSIST, Time, Unit};
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::spec::marks::NAMES_OPTIONS;
use crate::spec::{
    ACCESS, Arg, Effect, FAST, Group, KeyFlags, READ, RO, RW, UPDATE, WRITE, integer, key, one_of, unix_time,
};
use crate::store::entry::Entry;
use crate::store::{Key, Lookup, Str};
use crate::time::clock::{Deadline, Now};

const ONE_MATCH: &str = "IFEQ, IFNE, IFDEQ and IFDNE options at the same time are not compatible";

const MILLISECOND: i64 = 1;
const SECOND: i64 = 1000;

const CHANGED_KEY: Arg = key("key", RW | UPDATE);
const ASKED_KEY: &[Arg] = &[key("key", RO | ACCESS)];
const CONDITION: Arg = ttl::CONDITION.since("7.0.0");
const MATCH: Arg =
    one_of("match", &[IFEQ, IFNE, IFDEQ, IFDNE]).optional().about("Only if the string of the key matches.");

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("EXPIRE", expire, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .marks(NAMES_OPTIONS)
        .args(&[CHANGED_KEY, integer("seconds"), CONDITION, MATCH])
        .key_use(expire_key_use)
        .docs("1.0.0", "O(1)", "Makes a key expire after a number of seconds."),
    Command::new("EXPIREAT", expireat, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .marks(NAMES_OPTIONS)
        .args(&[CHANGED_KEY, unix_time("unix-time-seconds"), CONDITION, MATCH])
        .key_use(expire_key_use)
        .docs("1.2.0", "O(1)", "Makes a key expire at a Unix time in seconds."),
    Command::new("EXPIRETIME", expiretime, READ | FAST, Group::Generic)
        .args(ASKED_KEY)
        .docs("7.0.0", "O(1)", "Returns the Unix time in seconds at which a key expires."),
    Command::new("PERSIST", persist, WRITE | FAST, Group::Generic)
        .args(&[CHANGED_KEY])
        .docs("2.2.0", "O(1)", "Removes the expiration of a key."),
    Command::new("PEXPIRE", pexpire, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .marks(NAMES_OPTIONS)
        .args(&[CHANGED_KEY, integer("milliseconds"), CONDITION, MATCH])
        .key_use(expire_key_use)
        .docs("2.6.0", "O(1)", "Makes a key expire after a number of milliseconds."),
    Command::new("PEXPIREAT", pexpireat, WRITE | FAST, Group::Generic)
        .effect(Effect::Deadlines)
        .marks(NAMES_OPTIONS)
        .args(&[CHANGED_KEY, unix_time("unix-time-milliseconds"), CONDITION, MATCH])
        .key_use(expire_key_use)
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

fn expire(call: &mut Call<'_>) -> Result<()> {
    expire_key(call, Unit::Seconds)
}

fn expireat(call: &mut Call<'_>) -> Result<()> {
    expire_key(call, Unit::UnixSeconds)
}

fn pexpire(call: &mut Call<'_>) -> Result<()> {
    expire_key(call, Unit::Milliseconds)
}

fn pexpireat(call: &mut Call<'_>) -> Result<()> {
    expire_key(call, Unit::UnixMilliseconds)
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

/// Returns the key flags of the EXPIRE family: the key is read only with a condition on its string among the arguments
/// after the time.
fn expire_key_use(request: Request<'_>) -> KeyFlags {
    if is_conditional(request, 3) { RW | ACCESS | UPDATE } else { RW | UPDATE }
}

/// Handles the EXPIRE family. As in Redis, the options are checked before the number, and both before the key.
fn expire_key(call: &mut Call<'_>, unit: Unit) -> Result<()> {
    let key = call.args.key()?;
    let number = call.args.bytes()?;
    let options = Options::read(&mut call.args)?;
    let number = parse_int(number).ok_or(Error::NotInteger)?;
    let time = Time::of_key(call, unit, number)?;

    call.view.lookup(key, Lookup::WRITE);
    let allowed = match call.view.deadline(key) {
        None => false,
        Some(_) if !is_matched(call, key, options.matching)? => false,
        Some(current) => options.condition.allows(time.unix_ms, current.map(|deadline| deadline.wall_ms(time.now))),
    };
    if allowed {
        time.apply(call, key);
    }
    call.reply.int(i64::from(allowed));
    Ok(())
}

/// Returns true if an existing key meets the condition on its string.
fn is_matched(call: &mut Call<'_>, key: Key<'_>, matching: Option<condition::StringCondition<'_>>) -> Result<bool> {
    let Some(matching) = matching else { return Ok(true) };
    call.view.get::<Str>(key, Lookup::PEEK)?.map_or(Ok(false), |text| matching.is_met_by(text.as_slice()))
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
    // Nothing is added to `ms`, which may be the maximum integer.
    ms / unit_ms + i64::from(ms % unit_ms * 2 >= unit_ms)
}

/// The options of the EXPIRE family: conditions under which a deadline is set.
#[derive(Default)]
struct Options<'a> {
    /// The condition on the present deadline.
    condition: ttl::DeadlineCondition,
    /// The condition on the string of the key.
    matching: Option<condition::StringCondition<'a>>,
}

impl<'a> Options<'a> {
    /// Parses options to the end of the request. NX, XX, GT and LT may be repeated, and XX may be combined with GT or
    /// LT; one condition on the string may be combined with any of them.
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = args.next_arg() {
            if options.condition.add(word) {
                continue;
            }
            match condition::StringCondition::read(word, args)? {
                Some(_) if options.matching.is_some() => return Err(Error::other(ONE_MATCH)),
                Some(matching) => options.matching = Some(matching),
                None => return Err(unsupported(word)),
            }
        }
        let ttl::DeadlineCondition { nx, xx, gt, lt } = options.condition;
        if nx && (xx || gt || lt) {
            return Err(Error::other("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if gt && lt {
            return Err(Error::other("GT and LT options at the same time are not compatible"));
        }
        Ok(options)
    }
}

/// Builds the error for an unknown option, quoted as in Redis: up to a zero byte, and without line breaks at the end.
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
}
