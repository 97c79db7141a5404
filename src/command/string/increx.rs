//! INCREX: increments a number within bounds and with a TTL, atomically, as rate limiters do.
//!
//! Invariant: a sum out of bounds changes neither the number nor its TTL, unless SATURATE clamps it.

use rustc_apfloat::Float;

use crate::command::string::events::{INCRBY, INCRBYFLOAT};
use crate::command::ttl::{Amount, EXPIRATION_OR_PERSIST, EXPIRE, OtherTtlOption, PERSIST, TtlOption};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{ACCESS, Arg, RW, UPDATE, double, integer, key, one_of, string, token};
use crate::store::{Event, Key, Lookup, Str, StringHint, Ttl};
use crate::text::long_double::{self, LongDouble};

pub(crate) const ARGS: &[Arg] = &[
    key("key", RW | ACCESS | UPDATE),
    one_of("increment", &[double("float").token("BYFLOAT"), integer("integer").token("BYINT")]).optional(),
    token("saturate", "SATURATE").optional(),
    string("lowerbound").token("LBOUND").optional(),
    string("upperbound").token("UBOUND").optional(),
    EXPIRATION_OR_PERSIST,
    token("enx", "ENX").optional(),
];

pub(crate) fn increx(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let options = Options::read(&mut call.args)?;
    match options.float {
        Some(increment) => add_float(call, key, increment, &options),
        None => add_int(call, key, &options),
    }
}

/// The options as given by the client; numbers are parsed once all options are known.
#[derive(Default)]
struct Options<'a> {
    /// The increment of BYINT, if given.
    int: Option<&'a [u8]>,
    /// The increment of BYFLOAT, if given.
    float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    ttl: TtlOption<Amount<'a>>,
    /// True if a key that has a TTL keeps it.
    only_without: bool,
}

impl<'a> Options<'a> {
    /// Parses options to the end of the request; none may be repeated.
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = args.next_arg() {
            let is = |name| is_word(word, name);
            let is_new = if is("SATURATE") {
                !std::mem::replace(&mut options.saturates, true)
            } else if is("ENX") {
                !std::mem::replace(&mut options.only_without, true)
            } else if is("BYINT") {
                options.int.replace(args.bytes()?).or(options.float).is_none()
            } else if is("BYFLOAT") {
                options.float.replace(args.bytes()?).or(options.int).is_none()
            } else if is("LBOUND") {
                options.lower.replace(args.bytes()?).is_none()
            } else if is("UBOUND") {
                options.upper.replace(args.bytes()?).is_none()
            } else {
                std::mem::replace(&mut options.ttl, TtlOption::read(word, OtherTtlOption::Persist, args)?)
                    == TtlOption::Absent
            };
            if !is_new {
                return Err(Error::Syntax);
            }
        }
        match (options.ttl, options.only_without) {
            (TtlOption::Persist, true) => Err(Error::Syntax),
            (TtlOption::Absent, true) => Err(Error::other("ENX flag requires an expiration")),
            _ => Ok(options),
        }
    }

    /// Returns the new TTL of the key.
    fn ttl(&self, call: &mut Call<'_>, key: Key<'_>) -> Result<Ttl> {
        let ttl = self.ttl.of_written_key(call, Ttl::Keep)?;
        let keeps = self.only_without && matches!(call.view.deadline(key), Some(Some(_)));
        Ok(if keeps { Ttl::Keep } else { ttl })
    }

    /// Parses both bounds, and checks that the range is not empty.
    fn bounds<N: PartialOrd>(&self, read: impl Fn(&str, &[u8]) -> Result<N>, min: N, max: N) -> Result<(N, N)> {
        let lower = self.lower.map_or(Ok(min), |text| read("LBOUND", text))?;
        let upper = self.upper.map_or(Ok(max), |text| read("UBOUND", text))?;
        if lower > upper {
            return Err(Error::other("LBOUND can't be greater than UBOUND"));
        }
        Ok((lower, upper))
    }
}

fn add_int(call: &mut Call<'_>, key: Key<'_>, options: &Options<'_>) -> Result<()> {
    let increment = options.int.map_or(Ok(1), |text| read_int("Increment", text))?;
    let bounds = options.bounds(read_int, i64::MIN, i64::MAX)?;
    let ttl = options.ttl(call, key)?;
    let old = match call.view.get::<Str>(key, Lookup::WRITE)? {
        Some(text) => parse_int(text.as_slice()).ok_or(Error::NotInteger)?,
        None => 0,
    };
    let step = int_step(old, increment, bounds, options.saturates)?;
    if let Some((new, _)) = step {
        store(call, key, itoa::Buffer::new().format(new).as_bytes(), ttl, (StringHint::Plain, INCRBY));
    }
    let (new, applied) = step.unwrap_or((old, 0));
    call.reply.array(2);
    call.reply.int(new);
    call.reply.int(applied);
    Ok(())
}

fn add_float(call: &mut Call<'_>, key: Key<'_>, increment: &[u8], options: &Options<'_>) -> Result<()> {
    let increment = read_float("Increment", increment)?;
    if !increment.is_finite() {
        return Err(Error::other("BYFLOAT increment cannot be Infinity"));
    }
    let bounds = options.bounds(read_float, -LongDouble::largest(), LongDouble::largest())?;
    let ttl = options.ttl(call, key)?;
    let old = match call.view.get::<Str>(key, Lookup::WRITE)? {
        Some(text) => long_double::parse(text.as_slice()).ok_or(Error::NotFloat)?,
        None => LongDouble::default(),
    };
    if !old.is_finite() {
        return Err(Error::other("value cannot be Infinity"));
    }
    let step = float_step(old, increment, bounds, options.saturates)?;
    if let Some((new, _)) = step {
        store(call, key, &long_double::format(new), ttl, (StringHint::NotInt, INCRBYFLOAT));
    }
    let (new, applied) = step.unwrap_or((old, LongDouble::default()));
    call.reply.array(2);
    call.reply.double_digits(&long_double::format(new));
    call.reply.double_digits(&long_double::format(applied));
    Ok(())
}

/// Sets a key to its new number and TTL. A deadline in the past deletes the key, except in a replay, where the log does
/// so.
fn store(call: &mut Call<'_>, key: Key<'_>, number: &[u8], ttl: Ttl, (hint, event): (StringHint, &'static Event)) {
    if let Ttl::At(deadline) = ttl
        && call.view.cx().has_expired(deadline)
    {
        call.view.remove(key);
        return;
    }
    let had_deadline = matches!(call.view.deadline(key), Some(Some(_)));
    call.view.set(key, number, ttl, event);
    if hint != StringHint::Plain {
        call.view.set_hint(key, hint);
    }
    match ttl {
        Ttl::At(_) => call.view.emit(key, EXPIRE),
        Ttl::Clear if had_deadline => call.view.emit(key, PERSIST),
        _ => {}
    }
}

fn read_int(what: &str, text: &[u8]) -> Result<i64> {
    parse_int(text).ok_or_else(|| Error::other(format!("{what} is not an integer or out of range")))
}

fn read_float(what: &str, text: &[u8]) -> Result<LongDouble> {
    long_double::parse(text).ok_or_else(|| Error::other(format!("{what} is not a valid float")))
}

/// Returns the new number and the increment applied; `None` when the sum is out of bounds and is not clamped.
fn int_step(old: i64, increment: i64, (lower, upper): (i64, i64), saturates: bool) -> Result<Option<(i64, i64)>> {
    let sum = i128::from(old) + i128::from(increment);
    let bounded = sum.clamp(lower.into(), upper.into()) as i64;
    if i128::from(bounded) == sum {
        return Ok(Some((bounded, increment)));
    }
    if !saturates {
        return Ok(None);
    }
    let applied = bounded.checked_sub(old).ok_or(APPLIED_OVERFLOW)?;
    Ok(Some((bounded, applied)))
}

/// Returns the sum, bounded; for finite numbers and possibly infinite bounds, see [`int_step`].
fn float_step(
    old: LongDouble,
    increment: LongDouble,
    (lower, upper): (LongDouble, LongDouble),
    saturates: bool,
) -> Result<Option<(LongDouble, LongDouble)>> {
    let largest = LongDouble::largest();
    let sum = (old + increment).value;
    let max = if upper > largest { largest } else { upper };
    let min = if lower < -largest { -largest } else { lower };
    if sum >= min && sum <= max {
        return Ok(Some((sum, increment)));
    }
    if !saturates {
        return Ok(None);
    }
    let bounded = if sum > max { max } else { min };
    let applied = (bounded - old).value;
    if bounded.is_finite() && applied.is_finite() { Ok(Some((bounded, applied))) } else { Err(APPLIED_OVERFLOW) }
}

const APPLIED_OVERFLOW: Error = Error::Other(std::borrow::Cow::Borrowed("applied increment would overflow"));
