//! `TOPK.*`: the most frequent items.

use crate::command::probabilistic::wrong_arity;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::probabilistic::NotAllocated;
use crate::probabilistic::top_k::{self, TopKShape};
use crate::resp::{Reply, parse_int};
use crate::spec::{
    ACCESS, Arg, DENY_OOM, FAST, Group, INSERT, READ, RO, RW, UPDATE, WRITE, block, double, integer, key, string, token,
};
use crate::store::shard::Edit;
use crate::store::value::TopK;
use crate::store::{Event, Lookup};
use crate::text::double::parse_double;

const ADD_COST: &str = "O(n * (k + d)), where n is the number of items, k that of top items and d the depth";
const INCRBY_COST: &str =
    "O(n * (k + d * i)), where n is the number of items, k that of top items, d the depth and i the increment";
const EACH_COST: &str = "O(n * k), where n is the number of items and k that of top items";
const LIST_COST: &str = "O(k * log(k)), where k is the number of top items";
const READ_KEY: Arg = key("key", RO | ACCESS);

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("TOPK.RESERVE", reserve, WRITE | DENY_OOM | FAST, Group::TopK)
        .args(&[
            key("key", RW | INSERT),
            integer("topk"),
            block("params", &[integer("width"), integer("depth"), double("decay")]).optional(),
        ])
        .docs("2.0.0", "O(1)", "Creates a sketch of the most frequent items."),
    Command::new("TOPK.ADD", add, WRITE | DENY_OOM, Group::TopK)
        .args(&[key("key", RW | UPDATE), string("items").multiple()])
        .docs("2.0.0", ADD_COST, "Counts items once, and returns those that are no longer among the most frequent."),
    Command::new("TOPK.INCRBY", incrby, WRITE | DENY_OOM, Group::TopK)
        .args(&[key("key", RW | UPDATE), block("items", &[string("item"), integer("increment")]).multiple()])
        .docs("2.0.0", INCRBY_COST, "Adds to the counts of items, and returns those that are no longer among the most frequent."),
    Command::new("TOPK.QUERY", query, READ, Group::TopK)
        .args(&[READ_KEY, string("item").multiple()])
        .docs("2.0.0", EACH_COST, "Tells which items are among the most frequent."),
    Command::new("TOPK.COUNT", count, READ, Group::TopK)
        .args(&[READ_KEY, string("item").multiple()])
        .deprecated("2.4.0", "")
        .docs("2.0.0", EACH_COST, "Estimates the counts of items."),
    Command::new("TOPK.LIST", list, READ, Group::TopK)
        .args(&[READ_KEY, token("withcount", "WITHCOUNT").optional()])
        .docs("2.0.0", LIST_COST, "Returns the most frequent items."),
    Command::new("TOPK.INFO", info, READ | FAST, Group::TopK)
        .args(&[READ_KEY])
        .docs("2.0.0", "O(1)", "Describes a sketch of the most frequent items."),
];

const MISSING: Error = Error::Line("TopK: key does not exist");
/// The error for an increment; its blanks are those of Redis.
const BAD_INCREMENT: &[u8] =
    b"TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";
const INCREMENT_MAX: u32 = 100_000;

fn reserve(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    if ![1, 4].contains(&call.args.left()) {
        return Err(wrong_arity(call));
    }
    if call.view.exists(key) {
        return Err(Error::Line("TopK: key already exists"));
    }
    let mut shape = TopKShape { k: positive(call, "TopK: invalid k")?, width: 8, depth: 7, decay: 0.9 };
    if call.args.left() > 0 {
        shape.width = positive(call, "TopK: invalid width")?;
        shape.depth = positive(call, "TopK: invalid depth")?;
        let decay = parse_double(call.args.bytes()?).filter(|decay| *decay > 0.0 && *decay <= 1.0);
        shape.decay = decay.ok_or(Error::Line("TopK: invalid decay value. must be '<= 1' & '> 0'"))?;
    }
    let bytes = top_k::create(shape);
    let bytes = bytes.map_err(|_| Error::other("Insufficient memory to create topk data structure"))?;
    call.view.edit::<TopK>(key, Event::NONE)?.change().set(bytes);
    call.reply.ok();
    Ok(())
}

fn positive(call: &mut Call<'_>, error: &'static str) -> Result<u32> {
    let number = parse_int(call.args.bytes()?).and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(Error::Line(error))
}

fn add(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let mut counts = call.view.edit::<TopK>(key, Event::NONE)?;
    if !counts.exists() {
        return Err(MISSING);
    }
    call.reply.array(items.len());
    items.for_each(|item| add_item(&mut counts, &mut call.reply, item, 1));
    Ok(())
}

/// Adds the increments up to the first that is not one; from there on each has the error.
fn incrby(call: &mut Call<'_>) -> Result<()> {
    if call.args.left().is_multiple_of(2) {
        return Err(wrong_arity(call));
    }
    let key = call.args.key()?;
    let mut counts = call.view.edit::<TopK>(key, Event::NONE)?;
    if !counts.exists() {
        return Err(MISSING);
    }
    call.reply.array(call.args.left() / 2);
    let mut is_valid = true;
    while let Some(item) = call.args.next_arg() {
        let by = parse_int(call.args.bytes()?).and_then(|by| u32::try_from(by).ok());
        match by.filter(|by| is_valid && *by <= INCREMENT_MAX) {
            Some(by) => add_item(&mut counts, &mut call.reply, item, by),
            None => {
                is_valid = false;
                call.reply.error(BAD_INCREMENT);
            }
        }
    }
    Ok(())
}

/// Counts an item, and writes the item that has made room for it.
fn add_item(counts: &mut Edit<'_, '_, TopK>, reply: &mut Reply<'_>, item: &[u8], by: u32) {
    let mut bytes = counts.change();
    if !top_k::has_room(bytes.bytes(), item) {
        match top_k::with_room(bytes.bytes(), item.len()) {
            Ok(longer) => bytes.set(longer),
            Err(NotAllocated::Memory | NotAllocated::Invalid) => return reply.error(b"ERR Insufficient memory"),
        }
    }
    match top_k::add(bytes.bytes_mut(), item, by) {
        Some(expelled) => reply.bulk(&expelled),
        None => reply.null(),
    }
}

fn query(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let bytes = call.view.get::<TopK>(key, Lookup::READ)?.ok_or(MISSING)?;
    call.reply.array(items.len());
    items.for_each(|item| call.reply.bool(top_k::contains(bytes, item)));
    Ok(())
}

fn count(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let bytes = call.view.get::<TopK>(key, Lookup::READ)?.ok_or(MISSING)?;
    call.reply.array(items.len());
    items.for_each(|item| call.reply.int(i64::from(top_k::count(bytes, item))));
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let (key, option) = (call.args.key()?, call.args.next_arg());
    if call.args.left() > 0 {
        return Err(wrong_arity(call));
    }
    // A part of the keyword will do, as in Redis.
    let keyword = |word: &[u8]| b"WITHCOUNT".get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word));
    if option.is_some_and(|word| !keyword(word)) {
        return Err(Error::Line("WITHCOUNT keyword expected"));
    }
    let items = top_k::list(call.view.get::<TopK>(key, Lookup::READ)?.ok_or(MISSING)?);
    call.reply.array(items.len() * if option.is_some() { 2 } else { 1 });
    for (item, count) in items {
        call.reply.bulk(item);
        if option.is_some() {
            call.reply.int(i64::from(count));
        }
    }
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let shape = top_k::shape(call.view.get::<TopK>(key, Lookup::READ)?.ok_or(MISSING)?);
    call.reply.map(4);
    for (name, number) in [("k", shape.k), ("width", shape.width), ("depth", shape.depth)] {
        call.reply.simple(name);
        call.reply.int(i64::from(number));
    }
    call.reply.simple("decay");
    call.reply.double(shape.decay);
    Ok(())
}
