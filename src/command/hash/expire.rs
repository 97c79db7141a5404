//! Deadlines of fields: HEXPIRE, HTTL, HPERSIST and related commands.
//!
//! Deadlines are wall-clock times in milliseconds, whatever the unit of the command. As in Redis, the type of the key
//! is checked before the arguments.

use crate::command::hash::fields::{HDEL, hash_key};
use crate::command::ttl::{DeadlineCondition, Time, Unit};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::value::Hash;
use crate::store::{Classes, Event, Key, Lookup};

/// The event of fields that got a deadline.
pub(super) const HEXPIRE: &Event = &Event::one(Classes::HASH, "hexpire");
/// The event of fields that lost their deadlines.
pub(super) const HPERSIST: &Event = &Event::one(Classes::HASH, "hpersist");

const NO_FIELDS: &str = "Mandatory argument FIELDS is missing or not at the right position";
const NO_SUCH_NUMBER: &str = "The `numfields` parameter must match the number of arguments";
const NOT_GREATER: &str = "Parameter `numFields` should be greater than 0";
pub(super) const NOT_POSITIVE: &str = "Number of fields must be a positive integer";
const TWO_CONDITIONS: &str = "Multiple condition flags specified";
const NO_COUNT: &str = "FIELDS requires at least numfields and one field argument";
const TOO_FEW: &str = "wrong number of arguments";
pub(super) const TWO_FIELDS: &str = "FIELDS keyword specified multiple times";
pub(super) const MISSING_FIELDS: &str = "missing FIELDS argument";

// The replies for a field.
const MISSING: i64 = -2;
const WITHOUT: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// Parses `FIELDS numfields`, which must be the number of arguments that follow.
pub(super) fn read_fields(call: &mut Call<'_>, refusal: &'static str) -> Result<usize> {
    if !call.args.next_arg().is_some_and(|word| is_word(word, "FIELDS")) {
        return Err(Error::other(NO_FIELDS));
    }
    let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
    let count = count.ok_or(Error::other(refusal))?;
    match usize::try_from(count) {
        Ok(count) if count == call.args.left() => Ok(count),
        _ => Err(Error::other(NO_SUCH_NUMBER)),
    }
}

pub(super) fn hexpire(call: &mut Call<'_>) -> Result<()> {
    expire_fields(call, Unit::Seconds)
}

pub(super) fn hpexpire(call: &mut Call<'_>) -> Result<()> {
    expire_fields(call, Unit::Milliseconds)
}

pub(super) fn hexpireat(call: &mut Call<'_>) -> Result<()> {
    expire_fields(call, Unit::UnixSeconds)
}

pub(super) fn hpexpireat(call: &mut Call<'_>) -> Result<()> {
    expire_fields(call, Unit::UnixMilliseconds)
}

fn expire_fields(call: &mut Call<'_>, unit: Unit) -> Result<()> {
    let key = hash_key(call)?;
    call.view.get::<Hash>(key, Lookup::WRITE)?;
    let time = call.args.bytes()?;
    let end_ms = Time::of_field(call, unit, time)?;
    let (condition, fields) = read_condition_and_fields(call)?;
    let outcomes = set_deadlines(call, key, end_ms, condition, &fields)?;
    call.reply.array(outcomes.len());
    outcomes.into_iter().for_each(|outcome| call.reply.int(outcome));
    Ok(())
}

/// Parses `FIELDS numfields field ..`, with the condition before or after it.
fn read_condition_and_fields<'a>(call: &mut Call<'a>) -> Result<(DeadlineCondition, Vec<&'a [u8]>)> {
    let (mut condition, mut fields) = (DeadlineCondition::default(), Vec::new());
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "FIELDS") {
            if !fields.is_empty() {
                return Err(Error::other(TWO_FIELDS));
            }
            if call.args.left() < 2 {
                return Err(Error::other(NO_COUNT));
            }
            let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
            let count = count.ok_or(Error::other(NOT_GREATER))?;
            fields = take_words(call, count).ok_or(Error::other(TOO_FEW))?;
        } else if !condition.add(word) {
            return Err(Error::UnknownArgument(word.to_vec()));
        }
    }
    if fields.is_empty() {
        return Err(Error::other(MISSING_FIELDS));
    }
    match condition.count() {
        0 | 1 => Ok((condition, fields)),
        _ => Err(Error::other(TWO_CONDITIONS)),
    }
}

/// Takes `count` arguments, if there are as many.
pub(super) fn take_words<'a>(call: &mut Call<'a>, count: i64) -> Option<Vec<&'a [u8]>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= call.args.left())?;
    Some(std::iter::from_fn(|| call.args.next_arg()).take(count).collect())
}

/// Sets the deadline of the fields that exist and meet the condition, or deletes the fields if the deadline has passed.
/// Returns the reply for each field.
pub(super) fn set_deadlines(
    call: &mut Call<'_>,
    key: Key<'_>,
    end_ms: i64,
    condition: DeadlineCondition,
    fields: &[&[u8]],
) -> Result<Vec<i64>> {
    let is_past = end_ms <= call.now().wall_ms() && call.view.cx().expires_keys();
    let mut edit = call.view.edit::<Hash>(key, if is_past { HDEL } else { HEXPIRE })?;
    let (mut outcomes, mut changed) = (Vec::with_capacity(fields.len()), Vec::new());
    for field in fields.iter().copied() {
        outcomes.push(match edit.value().deadline(field) {
            None => MISSING,
            Some(current) if !condition.allows(end_ms, current) => REFUSED,
            Some(_) => {
                if let Some(mut hash) = edit.annotate() {
                    if is_past { _ = hash.remove(field) } else { hash.set_deadline(field, Some(end_ms)) }
                }
                changed.push(field);
                if is_past { DELETED } else { DONE }
            }
        });
    }
    edit.count_more(changed.len());
    drop(edit);
    log_deadline(call, key, (!is_past).then_some(end_ms), &changed);
    Ok(outcomes)
}

/// Logs that fields got a deadline; without a deadline, that they were deleted.
pub(super) fn log_deadline(call: &mut Call<'_>, key: Key<'_>, end_ms: Option<i64>, fields: &[&[u8]]) {
    match end_ms {
        _ if fields.is_empty() => {}
        None => fields.iter().for_each(|field| call.log(&[b"HDEL", key.bytes, field])),
        Some(end_ms) => {
            let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
            let head: [&[u8]; 5] = [
                b"HPEXPIREAT",
                key.bytes,
                time.format(end_ms).as_bytes(),
                b"FIELDS",
                count.format(fields.len()).as_bytes(),
            ];
            call.log(&[&head[..], fields].concat());
        }
    }
}

pub(super) fn httl(call: &mut Call<'_>) -> Result<()> {
    reply_times(call, |end_ms, now_ms| in_seconds((end_ms - now_ms).max(0)))
}

pub(super) fn hpttl(call: &mut Call<'_>) -> Result<()> {
    reply_times(call, |end_ms, now_ms| (end_ms - now_ms).max(0))
}

pub(super) fn hexpiretime(call: &mut Call<'_>) -> Result<()> {
    reply_times(call, |end_ms, _| in_seconds(end_ms))
}

pub(super) fn hpexpiretime(call: &mut Call<'_>) -> Result<()> {
    reply_times(call, |end_ms, _| end_ms)
}

/// Converts milliseconds to seconds, rounded up.
fn in_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 > 0)
}

/// Replies with a time for each field, computed from its deadline and the present time.
fn reply_times(call: &mut Call<'_>, read: fn(i64, i64) -> i64) -> Result<()> {
    let key = hash_key(call)?;
    call.view.get_hash(key, Lookup::READ)?;
    let count = read_fields(call, NOT_POSITIVE)?;
    let now_ms = call.now().wall_ms();
    let hash = call.view.get_hash(key, Lookup::PEEK)?;
    call.reply.array(count);
    while let Some(field) = call.args.next_arg() {
        call.reply.int(match hash.and_then(|hash| hash.deadline(field)) {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(end_ms)) => read(end_ms, now_ms),
        });
    }
    Ok(())
}

pub(super) fn hpersist(call: &mut Call<'_>) -> Result<()> {
    let key = hash_key(call)?;
    call.view.get::<Hash>(key, Lookup::WRITE)?;
    let count = read_fields(call, NOT_POSITIVE)?;
    let mut edit = call.view.edit::<Hash>(key, HPERSIST)?;
    call.reply.array(count);
    while let Some(field) = call.args.next_arg() {
        call.reply.int(match edit.value().deadline(field) {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(_)) => {
                edit.change().set_deadline(field, None);
                DONE
            }
        });
    }
    Ok(())
}
