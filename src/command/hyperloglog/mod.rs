//! HyperLogLogs: strings that count distinct elements, in Redis' own representation, so that values can be exchanged.
//!
//! `sketch.rs` reads and writes the bytes, `bulk.rs` adds many elements at once, and `selftest.rs` implements
//! PFSELFTEST.
//!
//! Invariant: a string may come from anywhere, so it is checked before use, and a damaged string is rejected.

mod bulk;
mod selftest;
pub(super) mod sketch;

use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{ACCESS, ADMIN, DENY_OOM, FAST, Group, INSERT, MAY_REPLICATE, READ, RO, RW, WRITE, key, string};
use crate::store::{Classes, Event, Key, Lookup, Str, StringHint, Ttl};
use bulk::Bulk;
use sketch::{CARDINALITY_AT, Encoding, Registers, Sketch};

const COUNT_COST: &str = "\
    O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, \
    and much bigger constant times, when called with multiple keys.";
const COUNT_NOTES: &str = "RW because it may change the internal representation of the key, and propagate to replicas";
const MERGE_COST: &str = "O(N) to merge N HyperLogLogs, but with high constant times.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("PFADD", pfadd, WRITE | DENY_OOM | FAST, Group::HyperLogLog)
        .args(&[key("key", RW | INSERT), string("element").optional().multiple()])
        .docs("2.8.9", "O(1) to add every element.", "Adds elements to a HyperLogLog, creating it if necessary."),
    Command::new("PFCOUNT", pfcount, READ | MAY_REPLICATE, Group::HyperLogLog)
        .args(&[key("key", RW | ACCESS).key_notes(COUNT_NOTES).multiple()])
        .docs("2.8.9", COUNT_COST, "Estimates the number of distinct elements in the union of HyperLogLogs."),
    Command::new("PFDEBUG", pfdebug, WRITE | DENY_OOM | ADMIN, Group::HyperLogLog)
        .args(&[string("subcommand"), key("key", RW | ACCESS)])
        .internal()
        .docs("2.8.9", "N/A", "Shows or converts the internal representation of a HyperLogLog."),
    Command::new("PFMERGE", pfmerge, WRITE | DENY_OOM, Group::HyperLogLog)
        .args(&[key("destkey", RW | ACCESS | INSERT), key("sourcekey", RO | ACCESS).multiple()])
        .arity(-2)
        .docs("2.8.9", MERGE_COST, "Merges HyperLogLogs into one."),
    Command::new("PFSELFTEST", selftest::pfselftest, ADMIN, Group::HyperLogLog)
        .internal()
        .docs("2.8.9", "N/A", "Runs a self-test of the HyperLogLog implementation."),
];

/// The event of adding elements to a HyperLogLog.
const PFADD: &Event = &Event::one(Classes::STRING, "pfadd");

/// Returns the bytes of a HyperLogLog as [`lookup`] does, and marks the string as prepared for editing.
fn lookup_to_edit<'v>(call: &'v mut Call<'_>, key: Key<'_>) -> Result<Option<&'v [u8]>> {
    if lookup(call, key)?.is_some() {
        call.view.set_hint(key, StringHint::Raw);
    }
    lookup(call, key)
}

/// Returns the bytes of a HyperLogLog, or `None` for a missing key.
fn lookup<'v>(call: &'v mut Call<'_>, key: Key<'_>) -> Result<Option<&'v [u8]>> {
    match call.view.get::<Str>(key, Lookup::WRITE)?.map(Str::as_slice) {
        Some(bytes) => sketch::encoding(bytes).map(|_| Some(bytes)),
        None => Ok(None),
    }
}

fn pfadd(call: &mut Call<'_>) -> Result<()> {
    let (key, sparse_max) = (call.args.key()?, call.config.hll_sparse_max_bytes);
    let (sketch, mut is_changed) = match lookup_to_edit(call, key)? {
        Some(bytes) if sketch::encoding(bytes)? == Encoding::Dense => return pfadd_dense(call, key),
        Some(bytes) => (Sketch::from(bytes), false),
        None => (Sketch::empty(), true),
    };
    let mut sketch = Bulk::new(sketch, sparse_max, call.args.left())?;
    let mut outcome = Ok(());
    while let Some(element) = call.args.next_arg() {
        match sketch.add(element) {
            Ok(is_new) => is_changed |= is_new,
            // Elements added before the damage was found are kept.
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if is_changed {
        let mut sketch = sketch.finish();
        sketch.forget_cardinality();
        call.view.set_bytes(key, sketch.into_bytes(), Ttl::Keep, PFADD);
    }
    call.reply.int(i64::from(is_changed));
    outcome
}

/// Adds elements in place: a dense sketch is long, and an element changes at most two bytes of it.
fn pfadd_dense(call: &mut Call<'_>, key: Key<'_>) -> Result<()> {
    let mut text = call.view.edit::<Str>(key, PFADD)?;
    while let Some(element) = call.args.next_arg() {
        if let Some((at, bytes)) = sketch::dense_patch(text.value().as_slice(), element) {
            text.change().write_range(at, bytes.as_slice());
        }
    }
    let is_changed = text.is_changed();
    if is_changed && let Some((at, byte)) = sketch::forgetting_patch(text.value().as_slice()) {
        text.change().write_range(at, &[byte]);
    }
    drop(text);
    call.reply.int(i64::from(is_changed));
    Ok(())
}

fn pfcount(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() > 1 {
        let (registers, _) = merge(call)?;
        call.reply.int(registers.count() as i64);
        return Ok(());
    }
    let key = call.args.key()?;
    call.view.lookup(key, Lookup::ABOUT);
    let Some(bytes) = lookup_to_edit(call, key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let cardinality = match sketch::known_cardinality(bytes) {
        Some(cardinality) => cardinality,
        None => {
            let cardinality = sketch::count(bytes)?;
            call.view.edit::<Str>(key, Event::NONE)?.change().write_range(CARDINALITY_AT, &cardinality.to_le_bytes());
            cardinality
        }
    };
    call.reply.int(cardinality as i64);
    Ok(())
}

/// Merges all given HyperLogLogs; also returns true if one of them is dense.
fn merge(call: &mut Call<'_>) -> Result<(Registers, bool)> {
    let (mut registers, mut any_dense) = (Registers::new(), false);
    while call.args.left() > 0 {
        let key = call.args.key()?;
        call.view.lookup(key, Lookup::ABOUT);
        if let Some(bytes) = lookup(call, key)? {
            any_dense |= sketch::encoding(bytes)? == Encoding::Dense;
            registers.merge(bytes)?;
        }
    }
    Ok((registers, any_dense))
}

fn pfmerge(call: &mut Call<'_>) -> Result<()> {
    let sparse_max = call.config.hll_sparse_max_bytes;
    let target = call.namespace.store.key(call.args.request().arg(1));
    let (registers, any_dense) = merge(call)?;
    let mut sketch = lookup(call, target)?.map_or_else(Sketch::empty, Sketch::from);
    if any_dense {
        sketch.make_dense()?;
    }
    let mut bulk = Bulk::new(sketch, sparse_max, sketch::REGISTERS)?;
    bulk.raise_all(&registers);
    let mut sketch = bulk.finish();
    sketch.forget_cardinality();
    call.view.set_bytes(target, sketch.into_bytes(), Ttl::Keep, PFADD);
    call.reply.ok();
    Ok(())
}

fn pfdebug(call: &mut Call<'_>) -> Result<()> {
    let (word, key) = (call.args.bytes()?, call.args.key()?);
    let Some(bytes) = lookup_to_edit(call, key)? else {
        return Err(Error::other("The specified key does not exist"));
    };
    let encoding = sketch::encoding(bytes)?;
    if is_word(word, "GETREG") {
        make_dense(call, key)?;
        let registers: Vec<u8> = lookup(call, key)?.map(sketch::dense_registers).into_iter().flatten().collect();
        call.reply.array(registers.len());
        registers.iter().for_each(|register| call.reply.int(i64::from(*register)));
    } else if is_word(word, "DECODE") {
        let decoded = sketch::decode(bytes).ok_or_else(|| Error::other("HLL encoding is not sparse"))?;
        call.reply.bulk(decoded.as_bytes());
    } else if is_word(word, "ENCODING") {
        call.reply.simple(encoding.name());
    } else if is_word(word, "TODENSE") {
        let converted = make_dense(call, key)?;
        call.reply.int(i64::from(converted));
    } else {
        return Err(Error::PfdebugSubcommand(word.into()));
    }
    Ok(())
}

/// Makes a sparse HyperLogLog dense; returns true if it was sparse.
fn make_dense(call: &mut Call<'_>, key: Key<'_>) -> Result<bool> {
    let Some(bytes) = lookup(call, key)? else { return Ok(false) };
    if sketch::encoding(bytes)? == Encoding::Dense {
        return Ok(false);
    }
    let mut sketch = Sketch::from(bytes);
    sketch.make_dense()?;
    call.view.set_bytes(key, sketch.into_bytes(), Ttl::Keep, Event::NONE);
    Ok(true)
}
