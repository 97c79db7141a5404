//! `BF.*`: scalable Bloom filters.

use crate::command::probabilistic::{
    UNKNOWN_ARGUMENT, argument, not_found, position_of, reply_field, reply_fields, value, value_or_nothing, wrong_arity,
};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::probabilistic::bloom::{self, BloomAdd, BloomShape};
use crate::probabilistic::{BadChunk, NotAllocated};
use crate::resp::{format_general, parse_int};
use crate::spec::{
    ACCESS, Arg, DENY_OOM, Effect, FAST, Group, INSERT, READ, RO, RW, UPDATE, WRITE, double, integer, key, one_of,
    string, token,
};
use crate::store::shard::Edit;
use crate::store::value::BloomFilter;
use crate::store::{Event, Key, Lookup};
use crate::text::double::{parse_double, write_double};

const ADD_COST: &str = "O(k), where k is the number of hash functions of the newest filter";
const EXISTS_COST: &str = "O(k), where k is the number of hash functions of all filters";
const EACH_COST: &str = "O(k * n), where k is the number of hash functions and n the number of items";
const DUMP_COST: &str = "O(n), where n is the length of the chunk";
const NOT_CACHED: &[&str] = &["dont_cache"];

const ADDED_KEY: Arg = key("key", RW | INSERT);
const READ_KEY: Arg = key("key", RO | ACCESS);
const ITEM: Arg = string("item");
const EXPANSION: Arg = integer("expansion").token("EXPANSION").optional();
const NONSCALING: Arg = token("nonscaling", "NONSCALING").optional();
const FIELDS: &[Arg] = &[
    token("capacity", "CAPACITY"),
    token("size", "SIZE"),
    token("filters", "FILTERS"),
    token("items", "ITEMS"),
    token("expansion", "EXPANSION"),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BF.RESERVE", reserve, WRITE | DENY_OOM | FAST, Group::Bloom)
        .args(&[ADDED_KEY, double("error_rate"), integer("capacity"), EXPANSION, NONSCALING])
        .effect(Effect::Given)
        .docs("1.0.0", "O(1)", "Creates a Bloom filter."),
    Command::new("BF.ADD", add, WRITE | DENY_OOM, Group::Bloom)
        .args(&[ADDED_KEY, ITEM])
        .docs("1.0.0", ADD_COST, "Adds an item to a Bloom filter, creating it if necessary."),
    Command::new("BF.MADD", madd, WRITE | DENY_OOM, Group::Bloom)
        .args(&[ADDED_KEY, ITEM.multiple()])
        .docs("1.0.0", EACH_COST, "Adds items to a Bloom filter, creating it if necessary."),
    Command::new("BF.INSERT", insert, WRITE | DENY_OOM, Group::Bloom)
        .args(&[
            ADDED_KEY,
            integer("capacity").token("CAPACITY").optional(),
            double("error").token("ERROR").optional(),
            EXPANSION,
            token("nocreate", "NOCREATE").optional(),
            NONSCALING,
            token("items", "ITEMS"),
            ITEM.multiple(),
        ])
        .docs("1.0.0", EACH_COST, "Adds items to a Bloom filter, which is created with given parameters if necessary."),
    Command::new("BF.EXISTS", exists, READ, Group::Bloom)
        .args(&[READ_KEY, ITEM])
        .docs("1.0.0", EXISTS_COST, "Tells whether an item may have been added to a Bloom filter."),
    Command::new("BF.MEXISTS", mexists, READ, Group::Bloom)
        .args(&[READ_KEY, ITEM.multiple()])
        .docs("1.0.0", EACH_COST, "Tells which of several items may have been added to a Bloom filter."),
    Command::new("BF.INFO", info, READ | FAST, Group::Bloom)
        .args(&[READ_KEY, one_of("single_value", FIELDS).optional()])
        .tips(NOT_CACHED)
        .docs("1.0.0", "O(1)", "Describes a Bloom filter."),
    Command::new("BF.CARD", card, READ | FAST, Group::Bloom)
        .args(&[READ_KEY])
        .docs("2.4.4", "O(1)", "Returns the number of items added to a Bloom filter."),
    Command::new("BF.SCANDUMP", scandump, READ, Group::Bloom)
        .args(&[READ_KEY, integer("iterator")])
        .tips(NOT_CACHED)
        .docs("1.0.0", DUMP_COST, "Returns a part of the dump of a Bloom filter."),
    Command::new("BF.LOADCHUNK", loadchunk, WRITE | DENY_OOM, Group::Bloom)
        .args(&[key("key", RW | UPDATE), integer("iterator"), string("data")])
        .docs("1.0.0", DUMP_COST, "Restores a part of the dump of a Bloom filter."),
    Command::new("BF.DEBUG", debug, READ, Group::Bloom)
        .args(&[READ_KEY])
        .tips(NOT_CACHED)
        .internal()
        .docs("1.0.0", "O(n), where n is the number of filters", "Describes each filter of a Bloom filter."),
];

/// The expansion that filters record which do not expand, unless it is 0.
const UNUSED_EXPANSION: u32 = 2;
const CAPACITY_MAX: i64 = 1 << 30;
const EXPANSION_MAX: i64 = 32768;
/// Error rates above this are lowered to it.
const ERROR_RATE_MAX: f64 = 0.25;

/// Returns the parameters of filters that are created without any.
fn default_shape(call: &Call<'_>) -> BloomShape {
    let (capacity, expansion) = (call.config.bf_initial_size, call.config.bf_expansion_factor);
    BloomShape { capacity, error_rate: call.config.bf_error_rate, expansion, is_fixed: expansion == 0 }
}

/// Parses an error rate; `None` if it is out of range.
fn error_rate(rate: f64) -> Option<f64> {
    (rate > 0.0 && rate < 1.0).then(|| rate.min(ERROR_RATE_MAX))
}

fn capacity(capacity: i64) -> Option<u64> {
    (1..=CAPACITY_MAX).contains(&capacity).then_some(capacity as u64)
}

fn expansion(expansion: i64) -> Option<u32> {
    (0..=EXPANSION_MAX).contains(&expansion).then_some(expansion as u32)
}

fn reserve(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let words: Vec<&[u8]> = call.args.rest().collect();
    if words.len() > 5 {
        return Err(wrong_arity(call));
    }
    let rate = parse_double(words[0]).ok_or(Error::other("bad error rate"))?;
    let rate = error_rate(rate).ok_or(Error::other("error rate must be in the range (0.000000, 1.000000)"))?;
    let size = parse_int(words[1]).ok_or(Error::other("bad capacity"))?;
    let size =
        capacity(size).ok_or_else(|| Error::other(format!("capacity must be in the range [1, {CAPACITY_MAX}]")))?;
    let options = &words[2..];
    let mut shape = BloomShape { capacity: size, error_rate: rate, ..default_shape(call) };
    shape.is_fixed |= position_of(options, "NONSCALING").is_some();
    if let Some(at) = position_of(options, "EXPANSION") {
        let word = options.get(at + 1).ok_or(Error::other("no expansion"))?;
        let factor = parse_int(word).ok_or(Error::other("bad expansion"))?;
        if factor != 0 && shape.is_fixed {
            return Err(Error::Line("Nonscaling filters cannot expand"));
        }
        shape.is_fixed |= factor == 0;
        shape.expansion = expansion(factor)
            .ok_or_else(|| Error::other(format!("expansion must be in the range [0, {EXPANSION_MAX}]")))?;
    }
    if call.view.get::<BloomFilter>(key, Lookup::WRITE)?.is_some() {
        return Err(Error::other("item exists"));
    }
    create(call, key, shape)?;
    call.reply.ok();
    Ok(())
}

/// Creates a missing filter. That is logged with all parameters, because the settings of a server that replays the log
/// may be others.
fn create(call: &mut Call<'_>, key: Key<'_>, mut shape: BloomShape) -> Result<()> {
    if shape.is_fixed && shape.expansion != 0 {
        shape.expansion = UNUSED_EXPANSION;
    }
    let bytes = bloom::create(shape).map_err(not_created)?;
    call.view.edit::<BloomFilter>(key, Event::NONE)?.change().set(bytes);
    let (mut capacity, mut factor) = (itoa::Buffer::new(), itoa::Buffer::new());
    let words = [
        &b"BF.RESERVE"[..],
        key.bytes,
        &write_double(shape.error_rate),
        capacity.format(shape.capacity).as_bytes(),
        b"EXPANSION",
        factor.format(shape.expansion).as_bytes(),
    ];
    if shape.is_fixed && shape.expansion != 0 {
        call.log(&[words[0], words[1], words[2], words[3], b"NONSCALING"]);
    } else {
        call.log(&words);
    }
    Ok(())
}

/// Creates a missing filter to add items, if a shape is given.
fn create_missing(call: &mut Call<'_>, key: Key<'_>, shape: Option<BloomShape>) -> Result<()> {
    if call.view.get::<BloomFilter>(key, Lookup::PEEK)?.is_some() {
        return Ok(());
    }
    create(call, key, shape.ok_or_else(not_found)?)
}

fn not_created(reason: NotAllocated) -> Error {
    Error::other(match reason {
        NotAllocated::Memory => "Insufficient memory to create filter",
        NotAllocated::Invalid => "could not create filter",
    })
}

fn add(call: &mut Call<'_>) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    create_missing(call, key, Some(default_shape(call)))?;
    let is_new = add_item(&mut call.view.edit::<BloomFilter>(key, Event::NONE)?, item)?;
    call.reply.bool(is_new);
    Ok(())
}

fn madd(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    add_items(call, key, Some(default_shape(call)))
}

/// Parses options, of which the first letters count, as in Redis.
fn insert(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut shape, mut creates) = (default_shape(call), true);
    loop {
        let word = call.args.next_arg().ok_or_else(|| wrong_arity(call))?;
        let letter = |at: usize| word.get(at).map_or(0, u8::to_ascii_lowercase);
        match (letter(0), letter(1), letter(2)) {
            (b'i', ..) => break,
            (b'e', b'r', _) => {
                let rate = parse_double(argument(call)?).and_then(error_rate);
                shape.error_rate = rate.ok_or(Error::Line("Bad error rate"))?;
            }
            (b'e', ..) => {
                let factor = parse_int(argument(call)?).and_then(expansion);
                shape.expansion = factor.ok_or(Error::Line("Bad expansion"))?;
            }
            (b'c', ..) => {
                let size = parse_int(argument(call)?).and_then(capacity);
                shape.capacity = size.ok_or(Error::Line("Bad capacity"))?;
            }
            (b'n', _, b'c') => creates = false,
            (b'n', ..) => shape.is_fixed = true,
            _ => return Err(UNKNOWN_ARGUMENT),
        }
    }
    shape.is_fixed |= shape.expansion == 0;
    if call.args.left() == 0 {
        return Err(wrong_arity(call));
    }
    add_items(call, key, creates.then_some(shape))
}

/// Adds an item; returns true if it is new.
fn add_item(filter: &mut Edit<'_, '_, BloomFilter>, item: &[u8]) -> Result<bool> {
    loop {
        let Some(mut bytes) = filter.annotate() else { return Err(not_found()) };
        match bloom::add(bytes.bytes_mut(), item) {
            BloomAdd::Present => return Ok(false),
            BloomAdd::Added => {
                filter.count_more(1);
                return Ok(true);
            }
            BloomAdd::Full => return Err(Error::other("non scaling filter is full")),
            BloomAdd::NeedsFilter => {
                let longer = bloom::grown(bytes.bytes());
                let longer = longer.map_err(|_| Error::other("problem inserting into filter"))?;
                filter.change_uncounted().set(longer);
            }
        }
    }
}

/// Adds the remaining arguments, and writes an array with the result of each; a full filter ends it.
fn add_items(call: &mut Call<'_>, key: Key<'_>, shape: Option<BloomShape>) -> Result<()> {
    let items = call.args.rest();
    create_missing(call, key, shape)?;
    let mut filter = call.view.edit::<BloomFilter>(key, Event::NONE)?;
    let mark = call.reply.mark();
    let mut len = 0;
    for item in items {
        let result = add_item(&mut filter, item);
        let is_fixed = bloom::expansion(filter.value()).is_none();
        len += 1;
        match result {
            Ok(is_new) => call.reply.bool(is_new),
            Err(error) => {
                call.reply.error(&error.wire_text());
                if is_fixed {
                    break;
                }
            }
        }
    }
    call.reply.announce_at(mark, |reply| reply.array(len));
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    let is_there = value_or_nothing::<BloomFilter>(call, key).is_some_and(|bytes| bloom::contains(bytes, item));
    call.reply.bool(is_there);
    Ok(())
}

fn mexists(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let bytes = call.view.get::<BloomFilter>(key, Lookup::READ).ok().flatten();
    call.reply.array(items.len());
    items.for_each(|item| call.reply.bool(bytes.is_some_and(|bytes| bloom::contains(bytes, item))));
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let field = call.args.next_arg();
    if call.args.left() > 0 {
        return Err(wrong_arity(call));
    }
    let bytes = value::<BloomFilter>(call, key, not_found())?;
    let fields = [
        ("Capacity", Some(bloom::capacity(bytes) as i64)),
        ("Size", Some(bloom::reported_size(bytes) as i64)),
        ("Number of filters", Some(bloom::filters(bytes) as i64)),
        ("Number of items inserted", Some(bloom::items(bytes) as i64)),
        ("Expansion rate", bloom::expansion(bytes).map(i64::from)),
    ];
    let Some(field) = field else {
        reply_fields(call, &fields);
        return Ok(());
    };
    let at = FIELDS.iter().position(|name| is_word(field, name.name));
    reply_field(call, fields[at.ok_or(Error::Line("Invalid information value"))?]);
    Ok(())
}

fn card(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.view.get::<BloomFilter>(key, Lookup::READ)?.map_or(0, bloom::items);
    call.reply.int(items as i64);
    Ok(())
}

fn scandump(call: &mut Call<'_>) -> Result<()> {
    let (key, iterator) = (call.args.key()?, parse_int(call.args.bytes()?));
    let bytes = call.view.get::<BloomFilter>(key, Lookup::READ)?.ok_or_else(not_found)?;
    let iterator = iterator.ok_or(Error::Line("Second argument must be numeric"))?;
    let (next, part) = match iterator {
        0 => (1, bloom::header(bytes)),
        _ => bloom::chunk(bytes, iterator).unwrap_or((0, b"")),
    };
    call.reply.array(2);
    call.reply.int(next);
    call.reply.bulk(part);
    Ok(())
}

fn loadchunk(call: &mut Call<'_>) -> Result<()> {
    let (key, iterator, chunk) = (call.args.key()?, parse_int(call.args.bytes()?), call.args.bytes()?);
    let iterator = iterator.ok_or(Error::other("Second argument must be numeric"))?;
    let bad_data = || Error::other("received bad data");
    let mut filter = call.view.edit::<BloomFilter>(key, Event::NONE)?;
    if let Some(mut bytes) = filter.annotate() {
        bloom::load_chunk(bytes.bytes_mut(), iterator, chunk).map_err(|fault| match fault {
            BadChunk::Position => bad_data(),
            BadChunk::Offset => Error::other("invalid offset - no link found"),
            BadChunk::Length => Error::other("invalid chunk - Too big for current filter"),
        })?;
        filter.count_more(1);
    } else if iterator == 1 {
        let bytes = bloom::of_header(chunk).map_err(|_| bad_data())?;
        filter.change().set(bytes);
    } else {
        return Err(not_found());
    }
    drop(filter);
    call.reply.ok();
    Ok(())
}

fn debug(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = call.view.get::<BloomFilter>(key, Lookup::READ)?.ok_or_else(not_found)?;
    let width = bloom::hash_width(bytes);
    call.reply.array(1 + bloom::filters(bytes));
    call.reply.bulk(format!("size:{}", bloom::items(bytes)).as_bytes());
    for (link, _) in bloom::links(bytes) {
        let line = format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{width} capacity:{} size:{} ratio:{}",
            link.bytes,
            link.bits,
            link.hashes,
            link.capacity,
            link.size,
            format_general(link.error, 6),
        );
        call.reply.bulk(line.as_bytes());
    }
    Ok(())
}
