//! The commands on the probabilistic types of Redis 8: Bloom and cuckoo filters, count-min sketches, Top-K and t-digests.
//!
//! Values are flat bytes, which the functions of [`probabilistic`](crate::probabilistic) read and change in place.

pub(crate) mod bloom;
pub(crate) mod count_min_sketch;
pub(crate) mod cuckoo;
pub(crate) mod t_digest;
pub(crate) mod top_k;

use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::{Protocol, parse_int};
use crate::store::value::FlatType;
use crate::store::{Key, Lookup};

const UNKNOWN_ARGUMENT: Error = Error::Line("Unknown argument received");

/// Looks a value up to read it, or fails with the error for a missing key.
fn value<'c, K: FlatType>(call: &'c mut Call<'_>, key: Key<'_>, missing: Error) -> Result<&'c [u8]> {
    call.view.get::<K>(key, Lookup::READ)?.ok_or(missing)
}

/// Looks a value up to read it. A key of another type reads as a missing one, which this type's look-ups of items do not
/// tell apart.
fn value_or_nothing<'c, K: FlatType>(call: &'c mut Call<'_>, key: Key<'_>) -> Option<&'c [u8]> {
    call.view.get::<K>(key, Lookup::READ).ok().flatten()
}

/// Finds a keyword among words; returns its position.
fn position_of(words: &[&[u8]], keyword: &str) -> Option<usize> {
    words.iter().position(|word| is_word(word, keyword))
}

/// Parses the number behind a keyword, if the keyword is among some options.
fn option_of(call: &Call<'_>, options: &[&[u8]], keyword: &str, error: Error) -> Result<Option<i64>> {
    let Some(at) = position_of(options, keyword) else { return Ok(None) };
    let word = options.get(at + 1).ok_or_else(|| wrong_arity(call))?;
    parse_int(word).map(Some).ok_or(error)
}

/// Returns the argument of an option.
fn argument<'a>(call: &mut Call<'a>) -> Result<&'a [u8]> {
    call.args.next_arg().ok_or_else(|| wrong_arity(call))
}

/// Returns the error for a missing filter.
fn not_found() -> Error {
    Error::other("not found")
}

fn wrong_arity(call: &Call<'_>) -> Error {
    Error::WrongArity(call.name().into())
}

/// Writes named fields, of which `None` is absent.
fn reply_fields(call: &mut Call<'_>, fields: &[(&str, Option<i64>)]) {
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.simple(name);
        reply_optional(call, *value);
    }
}

/// Writes one of the fields: in RESP3 a map, in RESP2 an array without the name.
fn reply_field(call: &mut Call<'_>, (name, value): (&str, Option<i64>)) {
    if call.reply.protocol() == Protocol::Resp3 {
        return reply_fields(call, &[(name, value)]);
    }
    call.reply.array(1);
    reply_optional(call, value);
}

fn reply_optional(call: &mut Call<'_>, value: Option<i64>) {
    match value {
        Some(value) => call.reply.int(value),
        None => call.reply.null(),
    }
}
