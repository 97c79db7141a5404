//! Hashes: HSET, HGET and related commands.
//!
//! Other files have the handlers of HRANDFIELD and HSCAN, and those of deadlines of fields.

mod expire;
mod fields;
pub(crate) mod import;
mod lifetime;
mod random;
mod scan;

use crate::command::element_expiry::unexpired_key;
use crate::command::hash::fields::{HDEL, HSET, growth, reply_text};
use crate::command::ttl::{CONDITION, EXPIRATION_OR_KEEPTTL, EXPIRATION_OR_PERSIST};
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, READ, RO, RW, UPDATE, WRITE, block, double, element,
    integer, key, one_of, pattern, string, token, unix_time,
};
use crate::store::value::{Hash, HashText};
use crate::store::{Classes, Event, Lookup};
use crate::text::long_double;

const HSET_COST: &str = "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is \
    called with multiple field/value pairs.";
const HMSET_COST: &str = "O(N) where N is the number of fields being set.";
const HMGET_COST: &str = "O(N) where N is the number of fields being requested.";
const HDEL_COST: &str = "O(N) where N is the number of fields to be removed.";
const HRANDFIELD_COST: &str = "O(N) where N is the number of fields returned";
const HSCAN_COST: &str = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
    cursor to return back to 0. N is the number of elements inside the collection..";
const FIELDS_COST: &str = "O(N) where N is the number of specified fields";
const WHOLE_COST: &str = "O(N) where N is the size of the hash.";

const READ_KEY: Arg = key("key", RO | ACCESS);
const ASKED_KEY: Arg = key("key", RO);
const COUNTED_KEY: Arg = key("key", RW | ACCESS | UPDATE);
const FIELD: Arg = element("field");
const PAIRS: Arg = block("field_value", &[FIELD, string("value")]).multiple();
const CHANGED_KEY: Arg = key("key", RW | UPDATE);
const FIELDS: Arg = block("fields", &[integer("numfields"), FIELD.multiple()]).token("FIELDS");
const FIELD_VALUES: Arg =
    block("fields", &[integer("numfields"), block("data", &[FIELD, string("value")]).multiple()]).token("FIELDS");
const HSETEX_CONDITION: Arg = one_of("condition", &[token("fnx", "FNX"), token("fxx", "FXX")]).optional();
const UNORDERED: &[&str] = &["nondeterministic_output_order"];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("HDEL", hdel, WRITE | FAST, Group::Hash)
        .args(&[key("key", RW | DELETE), FIELD.multiple()])
        .docs("2.0.0", HDEL_COST, "Removes fields from a hash."),
    Command::new("HEXISTS", hexists, READ | FAST, Group::Hash)
        .args(&[ASKED_KEY, FIELD])
        .docs("2.0.0", "O(1)", "Tells whether a hash has a field."),
    Command::new("HEXPIRE", expire::hexpire, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, integer("seconds"), CONDITION, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Makes fields expire after a number of seconds."),
    Command::new("HEXPIREAT", expire::hexpireat, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, unix_time("unix-time-seconds"), CONDITION, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Makes fields expire at a Unix time in seconds."),
    Command::new("HEXPIRETIME", expire::hexpiretime, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Returns the Unix times in seconds at which fields expire."),
    Command::new("HGET", hget, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELD])
        .docs("2.0.0", "O(1)", "Returns the value of a field."),
    Command::new("HGETALL", hgetall, READ, Group::Hash)
        .args(&[READ_KEY])
        .tips(UNORDERED)
        .docs("2.0.0", WHOLE_COST, "Returns all fields of a hash with their values."),
    Command::new("HGETDEL", lifetime::hgetdel, WRITE | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[key("key", RW | ACCESS | DELETE), FIELDS])
        .valkey("9.1.0")
        .docs("8.0.0", FIELDS_COST, "Returns the values of fields and removes them."),
    Command::new("HGETEX", lifetime::hgetex, WRITE | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[COUNTED_KEY, EXPIRATION_OR_PERSIST, FIELDS])
        .valkey("9.0.0")
        .docs("8.0.0", FIELDS_COST, "Returns the values of fields, optionally setting or removing their expirations."),
    Command::container("HIMPORT", Group::Hash, import::SUBCOMMANDS)
        .docs("8.10.0", "Depends on subcommand.", "Contains the subcommands that store hashes with the same fields."),
    Command::new("HINCRBY", hincrby, WRITE | DENY_OOM | FAST, Group::Hash)
        .args(&[COUNTED_KEY, FIELD, integer("increment")])
        .docs("2.0.0", "O(1)", "Adds a number to the integer of a field; a missing field counts as 0."),
    Command::new("HINCRBYFLOAT", hincrbyfloat, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[COUNTED_KEY, FIELD, double("increment")])
        .docs("2.6.0", "O(1)", "Adds a number to the floating-point number of a field; a missing field counts as 0."),
    Command::new("HKEYS", hkeys, READ, Group::Hash)
        .args(&[READ_KEY])
        .tips(UNORDERED)
        .docs("2.0.0", WHOLE_COST, "Returns all fields of a hash."),
    Command::new("HLEN", hlen, READ | FAST, Group::Hash)
        .args(&[ASKED_KEY])
        .docs("2.0.0", "O(1)", "Returns the number of fields of a hash."),
    Command::new("HMGET", hmget, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELD.multiple()])
        .docs("2.0.0", HMGET_COST, "Returns the values of several fields."),
    Command::new("HMSET", hmset, WRITE | DENY_OOM | FAST, Group::Hash)
        .args(&[key("key", RW | UPDATE), PAIRS])
        .docs("2.0.0", HMSET_COST, "Sets several fields of a hash.")
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    Command::new("HPERSIST", expire::hpersist, WRITE | FAST, Group::Hash)
        .args(&[CHANGED_KEY, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Removes the expirations of fields."),
    Command::new("HPEXPIRE", expire::hpexpire, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, integer("milliseconds"), CONDITION, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Makes fields expire after a number of milliseconds."),
    Command::new("HPEXPIREAT", expire::hpexpireat, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, unix_time("unix-time-milliseconds"), CONDITION, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Makes fields expire at a Unix time in milliseconds."),
    Command::new("HPEXPIRETIME", expire::hpexpiretime, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELDS])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Returns the Unix times in milliseconds at which fields expire."),
    Command::new("HPTTL", expire::hpttl, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELDS])
        .tips(&["nondeterministic_output"])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Returns the times to live of fields in milliseconds."),
    Command::new("HRANDFIELD", random::hrandfield, READ, Group::Hash)
        .args(&[
            READ_KEY,
            block("options", &[integer("count"), token("withvalues", "WITHVALUES").optional()]).optional(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("6.2.0", HRANDFIELD_COST, "Returns random fields of a hash."),
    Command::new("HSCAN", scan::hscan, READ, Group::Hash)
        .args(&[
            READ_KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
            token("novalues", "NOVALUES").optional().since("7.4.0").valkey("8.0.0"),
        ])
        .tips(&["nondeterministic_output"])
        .docs("2.8.0", HSCAN_COST, "Iterates over the fields of a hash and their values."),
    Command::new("HSET", hset, WRITE | DENY_OOM | FAST, Group::Hash)
        .args(&[key("key", RW | UPDATE), PAIRS])
        .docs("2.0.0", HSET_COST, "Sets fields of a hash, creating it if needed."),
    Command::new("HSETEX", lifetime::hsetex, WRITE | DENY_OOM | FAST, Group::Hash)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, HSETEX_CONDITION, EXPIRATION_OR_KEEPTTL, FIELD_VALUES])
        .valkey("9.0.0")
        .docs("8.0.0", FIELDS_COST, "Sets fields, optionally under a condition and with an expiration."),
    Command::new("HSETNX", hsetnx, WRITE | DENY_OOM | FAST, Group::Hash)
        .args(&[key("key", RW | INSERT), FIELD, string("value")])
        .docs("2.0.0", "O(1)", "Sets a field unless it exists."),
    Command::new("HSTRLEN", hstrlen, READ | FAST, Group::Hash)
        .args(&[ASKED_KEY, FIELD])
        .docs("3.2.0", "O(1)", "Returns the length of the value of a field."),
    Command::new("HTTL", expire::httl, READ | FAST, Group::Hash)
        .args(&[READ_KEY, FIELDS])
        .tips(&["nondeterministic_output"])
        .valkey("9.0.0")
        .docs("7.4.0", FIELDS_COST, "Returns the times to live of fields in seconds."),
    Command::new("HVALS", hvals, READ, Group::Hash)
        .args(&[READ_KEY])
        .tips(UNORDERED)
        .docs("2.0.0", WHOLE_COST, "Returns all values of a hash."),
];

/// The event of adding a number to the integer of a field.
const HINCRBY: &Event = &Event::one(Classes::HASH, "hincrby");
/// The event of adding a number to the floating-point number of a field.
const HINCRBYFLOAT: &Event = &Event::one(Classes::HASH, "hincrbyfloat");

const NOT_INTEGER: &str = "hash value is not an integer";
const NOT_FLOAT: &str = "hash value is not a float";
const NOT_FINITE: &str = "value is NaN or Infinity";

fn hget(call: &mut Call<'_>) -> Result<()> {
    let (key, field) = (unexpired_key(call)?, call.args.bytes()?);
    match call.view.get_hash(key, Lookup::READ)?.and_then(|hash| hash.get(field)) {
        Some(value) => reply_text(&mut call.reply, value),
        None => call.reply.null(),
    }
    Ok(())
}

fn hmget(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let hash = call.view.get_hash(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(field) = call.args.next_arg() {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => reply_text(&mut call.reply, value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn hexists(call: &mut Call<'_>) -> Result<()> {
    let (key, field) = (unexpired_key(call)?, call.args.bytes()?);
    let exists = call.view.get_hash(key, Lookup::READ)?.is_some_and(|hash| hash.get(field).is_some());
    call.reply.int(i64::from(exists));
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Result<()> {
    let (key, field) = (unexpired_key(call)?, call.args.bytes()?);
    let value = call.view.get_hash(key, Lookup::READ)?.and_then(|hash| hash.get(field));
    call.reply.int(value.map_or(0, HashText::len) as i64);
    Ok(())
}

fn hlen(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let len = call.view.get_hash(key, Lookup::READ)?.map_or(0, |hash| hash.len());
    call.reply.int(len as i64);
    Ok(())
}

fn hgetall(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let Some(hash) = call.view.get_hash(key, Lookup::READ)? else {
        call.reply.map(0);
        return Ok(());
    };
    call.reply.map(hash.len());
    hash.for_each(|field, value| {
        reply_text(&mut call.reply, field);
        reply_text(&mut call.reply, value);
    });
    Ok(())
}

fn hkeys(call: &mut Call<'_>) -> Result<()> {
    list(call, |field, _| field)
}

fn hvals(call: &mut Call<'_>) -> Result<()> {
    list(call, |_, value| value)
}

/// Replies with the fields or the values of all pairs, as `half` selects.
fn list(call: &mut Call<'_>, half: for<'e> fn(HashText<'e>, HashText<'e>) -> HashText<'e>) -> Result<()> {
    let key = unexpired_key(call)?;
    let Some(hash) = call.view.get_hash(key, Lookup::READ)? else {
        call.reply.array(0);
        return Ok(());
    };
    call.reply.array(hash.len());
    hash.for_each(|field, value| reply_text(&mut call.reply, half(field, value)));
    Ok(())
}

fn hset(call: &mut Call<'_>) -> Result<()> {
    let added = set_pairs(call)?;
    call.reply.int(added as i64);
    Ok(())
}

fn hmset(call: &mut Call<'_>) -> Result<()> {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

/// Sets the fields of the request; returns the number of new fields.
fn set_pairs(call: &mut Call<'_>) -> Result<usize> {
    if call.args.left().is_multiple_of(2) {
        return Err(Error::WrongArity(call.name().into()));
    }
    let key = unexpired_key(call)?;
    let (growth, count) = (growth(call), call.args.left() / 2);
    let mut edit = call.view.edit::<Hash>(key, HSET)?;
    let (mut hash, mut added) = (edit.change(), 0);
    hash.expect_fields(count, growth);
    while let (Some(field), Some(value)) = (call.args.next_arg(), call.args.next_arg()) {
        added += usize::from(hash.set(field, value, growth));
    }
    edit.count_more(count - 1);
    Ok(added)
}

fn hsetnx(call: &mut Call<'_>) -> Result<()> {
    let (key, field, value) = (unexpired_key(call)?, call.args.bytes()?, call.args.bytes()?);
    let growth = growth(call);
    let mut edit = call.view.edit::<Hash>(key, HSET)?;
    let is_set = !edit.value().contains(field);
    if is_set {
        edit.change().set(field, value, growth);
    }
    drop(edit);
    call.reply.int(i64::from(is_set));
    Ok(())
}

fn hdel(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let (mut edit, mut removed) = (call.view.edit::<Hash>(key, HDEL)?, 0);
    if let Some(mut hash) = edit.annotate() {
        while let Some(field) = call.args.next_arg() {
            removed += usize::from(hash.remove(field));
        }
    }
    edit.count_more(removed);
    drop(edit);
    call.reply.int(removed as i64);
    Ok(())
}

fn hincrby(call: &mut Call<'_>) -> Result<()> {
    let (key, field, increment) = (unexpired_key(call)?, call.args.bytes()?, call.args.int()?);
    let growth = growth(call);
    let mut edit = call.view.edit::<Hash>(key, HINCRBY)?;
    let old = match edit.value().get(field) {
        Some(text) => text.to_int().ok_or(Error::other(NOT_INTEGER))?,
        None => 0,
    };
    let new = old.checked_add(increment).ok_or(Error::Overflow)?;
    edit.change().set_keeping_deadline(field, itoa::Buffer::new().format(new).as_bytes(), growth);
    drop(edit);
    call.reply.int(new);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>) -> Result<()> {
    let (key, field, increment) = (unexpired_key(call)?, call.args.bytes()?, call.args.long_double()?);
    if !long_double::is_finite(increment) {
        return Err(Error::other(NOT_FINITE));
    }
    let growth = growth(call);
    let mut edit = call.view.edit::<Hash>(key, HINCRBYFLOAT)?;
    let old = match edit.value().get(field) {
        Some(text) => text.with(long_double::parse).ok_or(Error::other(NOT_FLOAT))?,
        None => long_double::LongDouble::default(),
    };
    let new = long_double::format(long_double::add(old, increment).ok_or(Error::NotFinite)?);
    let is_timed = edit.value().deadline(field).flatten().is_some();
    edit.change().set_keeping_deadline(field, &new, growth);
    drop(edit);
    if is_timed {
        call.log(&[b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", b"1", field, &new])
    } else {
        call.log(&[b"HSET", key.bytes, field, &new])
    }
    call.reply.bulk(&new);
    Ok(())
}
