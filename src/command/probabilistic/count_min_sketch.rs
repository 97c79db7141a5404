//! `CMS.*`: count-min sketches.

use crate::command::probabilistic::{position_of, reply_fields, value, wrong_arity};
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::probabilistic::NotAllocated;
use crate::probabilistic::count_min_sketch as sketch;
use crate::resp::parse_int;
use crate::spec::{
    ACCESS, Arg, DENY_OOM, FAST, Group, INSERT, MOVABLE_KEYS, READ, RO, RW, UPDATE, WRITE, block, double, integer, key,
    string,
};
use crate::store::value::CountMinSketch;
use crate::store::{Event, Key, Lookup};
use crate::text::double::parse_double;

const EACH_COST: &str = "O(n), where n is the number of items";
const MERGE_COST: &str = "O(n), where n is the number of counters of all sketches";

const NEW_KEY: Arg = key("key", RW | INSERT);
const READ_KEY: Arg = key("key", RO | ACCESS);

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("CMS.INITBYDIM", initbydim, WRITE | DENY_OOM | FAST, Group::CountMinSketch)
        .args(&[NEW_KEY, integer("width"), integer("depth")])
        .docs("2.0.0", "O(1)", "Creates a count-min sketch of given dimensions."),
    Command::new("CMS.INITBYPROB", initbyprob, WRITE | DENY_OOM | FAST, Group::CountMinSketch)
        .args(&[NEW_KEY, double("error"), double("probability")])
        .docs("2.0.0", "O(1)", "Creates a count-min sketch for a given error and its probability."),
    Command::new("CMS.INCRBY", incrby, WRITE | DENY_OOM, Group::CountMinSketch)
        .args(&[key("key", RW | UPDATE), block("items", &[string("item"), integer("increment")]).multiple()])
        .docs("2.0.0", EACH_COST, "Adds to the counts of items of a count-min sketch."),
    Command::new("CMS.QUERY", query, READ, Group::CountMinSketch)
        .args(&[READ_KEY, string("item").multiple()])
        .docs("2.0.0", EACH_COST, "Estimates the counts of items of a count-min sketch."),
    Command::new("CMS.MERGE", merge, WRITE | DENY_OOM | MOVABLE_KEYS, Group::CountMinSketch)
        .args(&[
            key("destination", RW | UPDATE),
            integer("numkeys"),
            key("source", RO | ACCESS).multiple(),
            integer("weight").token("WEIGHTS").optional().multiple(),
        ])
        .docs("2.0.0", MERGE_COST, "Stores the sum of count-min sketches in one that exists."),
    Command::new("CMS.INFO", info, READ | FAST, Group::CountMinSketch)
        .args(&[READ_KEY])
        .docs("2.0.0", "O(1)", "Describes a count-min sketch."),
];

const MISSING: Error = Error::Line("CMS: key does not exist");
const NO_MEMORY: Error = Error::Line("CMS: Insufficient memory to create the key");
const INVALID: Error = Error::Line("CMS: invalid init arguments");

fn initbydim(call: &mut Call<'_>) -> Result<()> {
    let key = new_key(call)?;
    let positive = |word| parse_int(word).filter(|number| *number > 0).map(|number| number as u64);
    let width = positive(call.args.bytes()?).ok_or(Error::Line("CMS: invalid width"))?;
    let depth = positive(call.args.bytes()?).ok_or(Error::Line("CMS: invalid depth"))?;
    create(call, key, width, depth)
}

fn initbyprob(call: &mut Call<'_>) -> Result<()> {
    let key = new_key(call)?;
    let fraction = |word| parse_double(word).filter(|number| *number > 0.0 && *number < 1.0);
    let error = fraction(call.args.bytes()?).ok_or(Error::Line("CMS: invalid overestimation value"))?;
    let probability = fraction(call.args.bytes()?).ok_or(Error::Line("CMS: invalid prob value"))?;
    let (width, depth) = sketch::dimensions(error, probability);
    create(call, key, width, depth)
}

fn new_key<'a>(call: &mut Call<'a>) -> Result<Key<'a>> {
    let key = call.args.key()?;
    if call.view.exists(key) { Err(Error::Line("CMS: key already exists")) } else { Ok(key) }
}

fn create(call: &mut Call<'_>, key: Key<'_>, width: u64, depth: u64) -> Result<()> {
    let is_in_range = width.checked_mul(depth).is_some_and(|counters| i64::try_from(counters).is_ok());
    if !is_in_range {
        return Err(INVALID);
    }
    let bytes = sketch::create(width, depth).map_err(|reason| match reason {
        NotAllocated::Invalid => INVALID,
        NotAllocated::Memory => NO_MEMORY,
    })?;
    call.view.edit::<CountMinSketch>(key, Event::NONE)?.change().set(bytes);
    call.reply.ok();
    Ok(())
}

fn incrby(call: &mut Call<'_>) -> Result<()> {
    if call.args.left().is_multiple_of(2) {
        return Err(wrong_arity(call));
    }
    let key = call.args.key()?;
    let mut counts = call.view.edit::<CountMinSketch>(key, Event::NONE)?;
    if !counts.exists() {
        return Err(MISSING);
    }
    let mut items = Vec::with_capacity(call.args.left() / 2);
    while let Some(item) = call.args.next_arg() {
        let by = parse_int(call.args.bytes()?).ok_or(Error::Line("CMS: Cannot parse number"))?;
        items.push((item, u64::try_from(by).map_err(|_| Error::Line("CMS: Number cannot be negative"))?));
    }
    call.reply.array(items.len());
    for (item, by) in items {
        match sketch::increase(counts.change().bytes_mut(), item, by) {
            u32::MAX => call.reply.error(b"CMS: INCRBY overflow"),
            count => call.reply.int(i64::from(count)),
        }
    }
    Ok(())
}

fn query(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let bytes = call.view.get::<CountMinSketch>(key, Lookup::READ)?.ok_or(MISSING)?;
    call.reply.array(items.len());
    items.for_each(|item| call.reply.int(i64::from(sketch::count(bytes, item))));
    Ok(())
}

fn merge(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let target = value::<CountMinSketch>(call, key, MISSING)?;
    let dimensions = (sketch::width(target), sketch::depth(target));
    let count = parse_int(call.args.bytes()?).ok_or(Error::Line("CMS: invalid numkeys"))?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or(Error::Line("CMS: Number of keys must be positive"))?;
    let words: Vec<&[u8]> = call.args.rest().collect();
    match position_of(&words, "WEIGHTS") {
        None if words.len() != count => return Err(Error::Line("CMS: wrong number of keys")),
        Some(at) if at != count || words.len() != at * 2 + 1 => {
            return Err(Error::Line("CMS: wrong number of keys/weights"));
        }
        _ => {}
    }
    let mut sources = Vec::with_capacity(count);
    for at in 0..count {
        let weight = words.get(count + 1 + at).map_or(Some(1), |word| parse_int(word));
        let weight = weight.ok_or(Error::Line("CMS: invalid weight value"))?;
        let source = call.args.key()?;
        let bytes = value::<CountMinSketch>(call, source, MISSING)?;
        if (sketch::width(bytes), sketch::depth(bytes)) != dimensions {
            return Err(Error::Line("CMS: width/depth is not equal"));
        }
        sources.push((source, weight));
    }
    let names: Vec<Key<'_>> = sources.iter().map(|(source, _)| *source).collect();
    let entries = call.view.peek_all(&names);
    let weighted: Vec<(&[u8], i64)> = entries
        .iter()
        .zip(&sources)
        .filter_map(|(entry, (_, weight))| Some((entry.as_ref()?.get::<CountMinSketch>().ok()?, *weight)))
        .collect();
    let sum = sketch::merged(&weighted).map_err(|_| NO_MEMORY)?.ok_or(Error::Line("CMS: MERGE overflow"))?;
    drop(entries);
    call.view.edit::<CountMinSketch>(key, Event::NONE)?.change().set(sum);
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = value::<CountMinSketch>(call, key, MISSING)?;
    let (width, depth) = (sketch::width(bytes) as i64, sketch::depth(bytes) as i64);
    let total = sketch::total(bytes);
    reply_fields(call, &[("width", Some(width)), ("depth", Some(depth)), ("count", Some(total))]);
    Ok(())
}
