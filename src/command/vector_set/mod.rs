//! The commands on vector sets.
//!
//! VADD is in `add.rs`, the commands that search in `search.rs`, and in `vector.rs` the vectors that requests contain.

mod add;
mod search;
mod vector;

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::command::elements::{RandomSample, reply_repeated};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Reply, parse_int};
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, FAST, Group, INSERT, READ, RO, RW, UPDATE, WRITE, block, double, element, integer,
    key, one_of, string, token,
};
use crate::store::usage::Dice;
use crate::store::value::VectorSet;
use crate::store::value::vector_set::BigVectorSet;
use crate::store::{Event, Lookup};

const SEARCH_COST: &str = "O(N*D) where N is the number of elements and D the number of dimensions.";
const RANDOM_COST: &str = "O(N) where N is the absolute value of the passed count.";
const RANGE_COST: &str = "O(log(N)+M) where N is the number of elements and M the number of those returned.";

const READ_KEY: Arg = key("key", RO | ACCESS);
const ELEMENT: Arg = element("element");
const FORMAT: Arg = one_of("format", &[token("fp32", "FP32"), token("values", "VALUES")]);
const QUANTISATION: Arg =
    one_of("quant_type", &[token("noquant", "NOQUANT"), token("bin", "BIN"), token("q8", "Q8")]).optional();
const QUERY: Arg = one_of("format", &[token("ele", "ELE"), token("fp32", "FP32"), token("values", "VALUES")]);
const WITH_SCORES: Arg = token("withscores", "WITHSCORES").optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("VADD", add::vadd, WRITE | DENY_OOM, Group::VectorSet)
        .args(&[
            key("key", RW | INSERT | UPDATE),
            block("reduce", &[integer("dim")]).token("REDUCE").optional(),
            FORMAT,
            string("vector"),
            string("element"),
            token("cas", "CAS").optional(),
            QUANTISATION,
            integer("build-exploration-factor").token("EF").optional(),
            string("attributes").token("SETATTR").optional(),
            integer("numlinks").token("M").optional(),
        ])
        .docs("8.0.0", "O(D) where D is the number of dimensions.", "Adds an element to a vector set, or replaces its vector."),
    Command::new("VREM", vrem, WRITE, Group::VectorSet)
        .args(&[key("key", RW | DELETE), ELEMENT])
        .docs("8.0.0", "O(log(N)) where N is the number of elements.", "Removes an element from a vector set."),
    Command::new("VSIM", search::vsim, READ, Group::VectorSet)
        .args(&[
            READ_KEY,
            QUERY,
            string("vector_or_element"),
            WITH_SCORES,
            token("withattribs", "WITHATTRIBS").optional(),
            integer("count").token("COUNT").optional(),
            double("max_distance").token("EPSILON").optional(),
            integer("search-exploration-factor").token("EF").optional(),
            string("expression").token("FILTER").optional(),
            integer("max-filtering-effort").token("FILTER-EF").optional(),
            token("truth", "TRUTH").optional(),
            token("nothread", "NOTHREAD").optional(),
        ])
        .docs("8.0.0", SEARCH_COST, "Returns the elements whose vectors are the most similar to another."),
    Command::new("VDIM", vdim, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY])
        .docs("8.0.0", "O(1)", "Returns the number of dimensions of the vectors."),
    Command::new("VCARD", vcard, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY])
        .docs("8.0.0", "O(1)", "Returns the number of elements of a vector set."),
    Command::new("VEMB", vemb, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY, ELEMENT, token("raw", "RAW").optional()])
        .docs("8.0.0", "O(D) where D is the number of dimensions.", "Returns the vector of an element."),
    Command::new("VLINKS", search::vlinks, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY, ELEMENT, WITH_SCORES])
        .arity(-3)
        .docs("8.0.0", SEARCH_COST, "Returns the neighbours of an element."),
    Command::new("VINFO", vinfo, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY])
        .docs("8.0.0", "O(1)", "Describes a vector set."),
    Command::new("VSETATTR", vsetattr, WRITE | FAST, Group::VectorSet)
        .args(&[key("key", RW | UPDATE), ELEMENT, string("json")])
        .docs("8.0.0", "O(1)", "Sets or removes the attributes of an element."),
    Command::new("VGETATTR", vgetattr, READ | FAST, Group::VectorSet)
        .args(&[READ_KEY, ELEMENT])
        .docs("8.0.0", "O(1)", "Returns the attributes of an element."),
    Command::new("VRANDMEMBER", vrandmember, READ, Group::VectorSet)
        .args(&[READ_KEY, integer("count").optional()])
        .tips(&["nondeterministic_output"])
        .docs("8.0.0", RANDOM_COST, "Returns random elements of a vector set."),
    Command::new("VISMEMBER", vismember, READ, Group::VectorSet)
        .args(&[READ_KEY, ELEMENT])
        .docs("8.2.0", "O(log(N)) where N is the number of elements.", "Tells whether a vector set has an element."),
    Command::new("VRANGE", vrange, READ, Group::VectorSet)
        .args(&[READ_KEY, string("start"), string("end"), integer("count").optional()])
        .docs("8.4.0", RANGE_COST, "Returns elements in a range of names, in order."),
];

fn vrem(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let mut edit = call.view.edit::<VectorSet>(key, Event::NONE)?;
    let number = edit.value().find(name);
    if let Some(number) = number {
        edit.change().remove(number);
    }
    drop(edit);
    call.reply.bool(number.is_some());
    Ok(())
}

fn vdim(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let set = call.view.get::<VectorSet>(key, Lookup::READ)?.ok_or(Error::other("key does not exist"))?;
    call.reply.int(set.rows().dimensions() as i64);
    Ok(())
}

fn vcard(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = call.view.get::<VectorSet>(key, Lookup::READ)?.map_or(0, BigVectorSet::len);
    call.reply.int(len as i64);
    Ok(())
}

fn vemb(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let is_raw = call.args.left() > 0;
    if !call.args.rest().all(|option| is_word(option, "RAW")) {
        return Err(Error::other("invalid option"));
    }
    let (set, reply) = (call.view.get::<VectorSet>(key, Lookup::READ)?, &mut call.reply);
    let Some((set, number)) = set.and_then(|set| Some((set, set.find(name)?))) else {
        reply.null();
        return Ok(());
    };
    let (vector, form) = (set.rows().vector(number), set.rows().form());
    if is_raw {
        let has_range = form.has_range();
        reply.array(3 + usize::from(has_range));
        reply.simple(form.name());
        reply.bulk(&vector.bytes());
        reply.double(f64::from(vector.norm));
        if has_range {
            reply.double(f64::from(vector.range));
        }
    } else {
        let values = vector.decode(set.rows().dimensions());
        reply.array(values.len());
        values.into_iter().for_each(|value| reply.double(f64::from(value)));
    }
    Ok(())
}

fn vinfo(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (set, reply) = (call.view.get::<VectorSet>(key, Lookup::READ)?, &mut call.reply);
    let Some(set) = set else {
        reply.null_array();
        return Ok(());
    };
    let projected = set.form().projection.as_ref().map_or(0, |projection| projection.input);
    reply.map(9);
    reply.simple("quant-type");
    reply.simple(set.rows().form().name());
    for (field, value) in [
        ("hnsw-m", i64::from(set.form().links)),
        ("vector-dim", set.rows().dimensions() as i64),
        ("projection-input-dim", projected as i64),
        ("size", set.len() as i64),
        // That of the graph which Redis has for so many elements, on average: a fourth of each level is in the next one.
        ("max-level", i64::from(set.len().checked_ilog2().unwrap_or(0) / 2)),
        ("attributes-count", set.with_attributes() as i64),
        ("vset-uid", (key.hash >> 1) as i64),
        ("hnsw-max-node-uid", set.last() as i64),
    ] {
        reply.simple(field);
        reply.int(value);
    }
    Ok(())
}

fn vsetattr(call: &mut Call<'_>) -> Result<()> {
    let (key, name, attributes) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    let mut edit = call.view.edit::<VectorSet>(key, Event::NONE)?;
    let number = edit.value().find(name);
    if let Some(number) = number {
        edit.change().put_attributes(number, Some(attributes).filter(|attributes| !attributes.is_empty()));
    }
    drop(edit);
    call.reply.bool(number.is_some());
    Ok(())
}

fn vgetattr(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let set = call.view.get::<VectorSet>(key, Lookup::READ)?;
    let row = set.and_then(|set| Some(set.rows().row(set.find(name)?)));
    match row.and_then(|row| row.attributes.as_deref()) {
        Some(attributes) => call.reply.bulk(attributes),
        None => call.reply.null(),
    }
    Ok(())
}

fn vismember(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let is_member = call.view.get::<VectorSet>(key, Lookup::READ)?.is_some_and(|set| set.find(name).is_some());
    call.reply.bool(is_member);
    Ok(())
}

fn vrandmember(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let count = call.args.next_arg();
    if call.args.left() > 0 {
        return Err(Error::WrongArity(call.command.shown_name().into()));
    }
    let count = match count {
        Some(count) => Some(parse_int(count).ok_or(Error::other("COUNT value is not an integer"))?),
        None => None,
    };
    if count == Some(0) {
        call.reply.array(0);
        return Ok(());
    }
    let mut dice = call.view.dice(key);
    let (set, reply) = (call.view.get::<VectorSet>(key, Lookup::READ)?, &mut call.reply);
    match (set, count.map(RandomSample::of)) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => reply.bulk(&set.rows().row(dice.below(set.len())).name),
        (Some(set), Some(RandomSample::Repeated(count))) => {
            let each = |reply: &mut Reply<'_>| reply.bulk(&set.rows().row(dice.below(set.len())).name);
            reply_repeated(reply, count, |reply, count| reply.array(count), each)?;
        }
        (Some(set), Some(RandomSample::Different(count))) => {
            let numbers = different(set.len(), count.min(set.len()), &mut dice);
            reply.array(numbers.len());
            numbers.into_iter().for_each(|number| reply.bulk(&set.rows().row(number).name));
        }
    }
    Ok(())
}

/// Returns `count` different random numbers below `len`. If these are many, they are consecutive from a random one on, as in
/// Redis.
fn different(len: usize, count: usize, dice: &mut Dice) -> Vec<usize> {
    if count > len / 5 {
        let start = dice.below(len);
        return (start..start + count).map(|number| number % len).collect();
    }
    let mut chosen = BTreeSet::new();
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let number = dice.below(len);
        if chosen.insert(number) {
            numbers.push(number);
        }
    }
    numbers
}

fn vrange(call: &mut Call<'_>) -> Result<()> {
    let (key, start, end) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    let count = call.args.next_arg();
    if call.args.left() > 0 {
        return Err(Error::WrongArity(call.command.shown_name().into()));
    }
    let count = match count {
        Some(count) => parse_int(count).ok_or(Error::other("invalid COUNT value"))?,
        None => -1,
    };
    let from = RangeEnd::parse(start).ok_or(Error::other("invalid start range format"))?;
    let to = RangeEnd::parse(end).ok_or(Error::other("invalid end range format"))?;
    let (RangeEnd::Minimum | RangeEnd::At(_), RangeEnd::Maximum | RangeEnd::At(_)) = (&from, &to) else {
        return Err(Error::other("'-' can only be used as first argument, '+' only as second"));
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let set = call.view.get::<VectorSet>(key, Lookup::READ)?;
    let names: Vec<_> = set.into_iter().flat_map(|set| set.names(from.bound(), to.bound())).take(count).collect();
    call.reply.array(names.len());
    names.into_iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

/// An end of a range of names.
enum RangeEnd<'a> {
    Minimum,
    Maximum,
    At(Bound<&'a [u8]>),
}

impl<'a> RangeEnd<'a> {
    fn parse(word: &'a [u8]) -> Option<Self> {
        match word {
            b"-" => Some(RangeEnd::Minimum),
            b"+" => Some(RangeEnd::Maximum),
            [b'[', name @ ..] if !name.is_empty() => Some(RangeEnd::At(Bound::Included(name))),
            [b'(', name @ ..] if !name.is_empty() => Some(RangeEnd::At(Bound::Excluded(name))),
            _ => None,
        }
    }

    fn bound(&self) -> Bound<&'a [u8]> {
        match self {
            RangeEnd::Minimum | RangeEnd::Maximum => Bound::Unbounded,
            RangeEnd::At(bound) => *bound,
        }
    }
}
