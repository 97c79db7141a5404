//! `CF.*`: cuckoo filters.

use crate::command::probabilistic::{
    UNKNOWN_ARGUMENT, argument, not_found, option_of, reply_fields, value, value_or_nothing, wrong_arity,
};
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::probabilistic::NotAllocated;
use crate::probabilistic::cuckoo::{self, CuckooAdd, CuckooHeader, CuckooShape};
use crate::resp::{Protocol, Reply, parse_int};
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, READ, RO, RW, UPDATE, WRITE, integer, key, string,
    token,
};
use crate::store::shard::Edit;
use crate::store::value::CuckooFilter;
use crate::store::{Event, Key, Lookup, WrongType};

const ADD_COST: &str = "O(k + i), where k is the number of filters and i the maximum number of moved fingerprints";
const EACH_ADD_COST: &str =
    "O(n * (k + i)), where n is the number of items, k that of filters and i the maximum number of moved fingerprints";
const COST: &str = "O(k), where k is the number of filters";
const EACH_COST: &str = "O(k * n), where k is the number of filters and n the number of items";
const DUMP_COST: &str = "O(n), where n is the length of the chunk";
const NOT_CACHED: &[&str] = &["dont_cache"];

const ADDED_KEY: Arg = key("key", RW | INSERT);
const READ_KEY: Arg = key("key", RO | ACCESS);
const ITEM: Arg = string("item");
const INSERT_ARGS: &[Arg] = &[
    ADDED_KEY,
    integer("capacity").token("CAPACITY").optional(),
    token("nocreate", "NOCREATE").optional(),
    token("items", "ITEMS"),
    ITEM.multiple(),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("CF.RESERVE", reserve, WRITE | DENY_OOM | FAST, Group::Cuckoo)
        .args(&[
            ADDED_KEY,
            integer("capacity"),
            integer("bucketsize").token("BUCKETSIZE").optional(),
            integer("maxiterations").token("MAXITERATIONS").optional(),
            integer("expansion").token("EXPANSION").optional(),
        ])
        .effect(Effect::Given)
        .docs("1.0.0", "O(1)", "Creates a cuckoo filter."),
    Command::new("CF.ADD", add, WRITE | DENY_OOM, Group::Cuckoo)
        .args(&[ADDED_KEY, ITEM])
        .docs("1.0.0", ADD_COST, "Adds an item to a cuckoo filter, creating it if necessary."),
    Command::new("CF.ADDNX", addnx, WRITE | DENY_OOM, Group::Cuckoo)
        .args(&[ADDED_KEY, ITEM])
        .docs("1.0.0", ADD_COST, "Adds an item to a cuckoo filter unless it may be there."),
    Command::new("CF.INSERT", insert, WRITE | DENY_OOM, Group::Cuckoo)
        .args(INSERT_ARGS)
        .docs("1.0.0", EACH_ADD_COST, "Adds items to a cuckoo filter, which is created with a given capacity if necessary."),
    Command::new("CF.INSERTNX", insertnx, WRITE | DENY_OOM, Group::Cuckoo)
        .args(INSERT_ARGS)
        .docs("1.0.0", EACH_ADD_COST, "Adds items to a cuckoo filter unless they may be there."),
    Command::new("CF.EXISTS", exists, READ, Group::Cuckoo)
        .args(&[READ_KEY, ITEM])
        .docs("1.0.0", COST, "Tells whether an item may be in a cuckoo filter."),
    Command::new("CF.MEXISTS", mexists, READ, Group::Cuckoo)
        .args(&[READ_KEY, ITEM.multiple()])
        .docs("1.0.0", EACH_COST, "Tells which of several items may be in a cuckoo filter."),
    Command::new("CF.COUNT", count, READ, Group::Cuckoo)
        .args(&[READ_KEY, ITEM])
        .docs("1.0.0", COST, "Estimates how often an item was added to a cuckoo filter."),
    Command::new("CF.DEL", del, WRITE, Group::Cuckoo)
        .args(&[key("key", RW | DELETE), ITEM])
        .docs("1.0.0", COST, "Deletes an item from a cuckoo filter once."),
    Command::new("CF.INFO", info, READ | FAST, Group::Cuckoo)
        .args(&[READ_KEY])
        .tips(NOT_CACHED)
        .docs("1.0.0", "O(1)", "Describes a cuckoo filter."),
    Command::new("CF.SCANDUMP", scandump, READ, Group::Cuckoo)
        .args(&[READ_KEY, integer("iterator")])
        .tips(NOT_CACHED)
        .docs("1.0.0", DUMP_COST, "Returns a part of the dump of a cuckoo filter."),
    Command::new("CF.LOADCHUNK", loadchunk, WRITE | DENY_OOM, Group::Cuckoo)
        .args(&[key("key", RW | UPDATE), integer("iterator"), string("data")])
        .docs("1.0.0", DUMP_COST, "Restores a part of the dump of a cuckoo filter."),
    Command::new("CF.COMPACT", compact, WRITE, Group::Cuckoo)
        .args(&[key("key", RW | UPDATE)])
        .internal()
        .docs("1.0.0", "O(n), where n is the number of buckets", "Moves items to the oldest filters with room."),
    Command::new("CF.DEBUG", debug, READ, Group::Cuckoo)
        .args(&[READ_KEY])
        .tips(NOT_CACHED)
        .internal()
        .docs("1.0.0", "O(1)", "Describes a cuckoo filter in one line."),
];

const CAPACITY_MAX: i64 = 1 << 30;
/// The number of filters from which nothing is added.
const FILTERS_MAX: u64 = 32;

/// Returns the parameters of filters that are created without any.
fn default_shape(call: &Call<'_>) -> CuckooShape {
    let bucket_size = call.config.cf_bucket_size;
    CuckooShape {
        capacity: call.config.cf_initial_size.max(u64::from(bucket_size) * 2),
        bucket_size,
        iterations: call.config.cf_max_iterations,
        expansion: call.config.cf_expansion_factor,
    }
}

/// An addition of items.
#[derive(Clone, Copy)]
struct Addition {
    /// Items that may be there are not added.
    is_new: bool,
    /// The parameters of the filter that is created; `None` if none is.
    shape: Option<CuckooShape>,
}

fn reserve(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let words: Vec<&[u8]> = call.args.rest().collect();
    if words.len().is_multiple_of(2) {
        return Err(wrong_arity(call));
    }
    let default = default_shape(call);
    let capacity = parse_int(words[0]).ok_or(Error::Line("Bad capacity"))?;
    let number = |name, unparsed, range: std::ops::RangeInclusive<i64>, out_of_range, default: u16| match option_of(
        call,
        &words[1..],
        name,
        Error::Line(unparsed),
    )? {
        Some(number) if range.contains(&number) => Ok(number as u16),
        Some(_) => Err(Error::Line(out_of_range)),
        None => Ok(default),
    };
    let iterations = number(
        "MAXITERATIONS",
        "Couldn't parse MAXITERATIONS",
        1..=65535,
        "MAXITERATIONS: value must be in the range [1, 65535]",
        default.iterations,
    )?;
    let bucket_size = number(
        "BUCKETSIZE",
        "Couldn't parse BUCKETSIZE",
        1..=255,
        "BUCKETSIZE: value must be in the range [1, 255]",
        default.bucket_size,
    )?;
    let expansion = number(
        "EXPANSION",
        "Couldn't parse EXPANSION",
        0..=32768,
        "EXPANSION: value must be in the range [0, 32768]",
        default.expansion,
    )?;
    if capacity < i64::from(bucket_size) * 2 || capacity > CAPACITY_MAX {
        return Err(Error::Line("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"));
    }
    let shape = CuckooShape { capacity: capacity as u64, bucket_size, iterations, expansion };
    if call.view.get::<CuckooFilter>(key, Lookup::WRITE)?.is_some() {
        return Err(Error::other("item exists"));
    }
    create(call, key, shape)?;
    call.reply.ok();
    Ok(())
}

/// Creates a missing filter. That is logged with all parameters, because the settings of a server that replays the log
/// may be others.
fn create(call: &mut Call<'_>, key: Key<'_>, shape: CuckooShape) -> Result<()> {
    let bytes = cuckoo::create(shape).map_err(not_created)?;
    call.view.edit::<CuckooFilter>(key, Event::NONE)?.change().set(bytes);
    let numbers = [shape.bucket_size, shape.iterations, shape.expansion].map(|number| number.to_string());
    let [bucket_size, iterations, expansion] = numbers.each_ref().map(|number| number.as_bytes());
    call.log(&[
        b"CF.RESERVE",
        key.bytes,
        itoa::Buffer::new().format(shape.capacity).as_bytes(),
        b"BUCKETSIZE",
        bucket_size,
        b"MAXITERATIONS",
        iterations,
        b"EXPANSION",
        expansion,
    ]);
    Ok(())
}

fn not_created(reason: NotAllocated) -> Error {
    Error::other(match reason {
        NotAllocated::Memory => "Insufficient memory to create filter",
        NotAllocated::Invalid => "Could not create filter",
    })
}

fn add(call: &mut Call<'_>) -> Result<()> {
    add_one(call, Addition { is_new: false, shape: Some(default_shape(call)) })
}

fn addnx(call: &mut Call<'_>) -> Result<()> {
    add_one(call, Addition { is_new: true, shape: Some(default_shape(call)) })
}

fn insert(call: &mut Call<'_>) -> Result<()> {
    add_each(call, false)
}

fn insertnx(call: &mut Call<'_>) -> Result<()> {
    add_each(call, true)
}

fn add_one(call: &mut Call<'_>, addition: Addition) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    let (mut filter, reply) = open(call, key, addition.shape)?;
    let is_added = match add_item(&mut filter, item, addition) {
        Ok(CuckooAdd::Added) => true,
        Ok(CuckooAdd::Present) => false,
        Ok(CuckooAdd::Full | CuckooAdd::NeedsFilter) => return Err(Error::Line("Filter is full")),
        Err(_) => return Err(Error::other("Insufficient memory")),
    };
    drop(filter);
    reply.bool(is_added);
    Ok(())
}

/// Parses options, of which the first letters count, as in Redis, and adds the remaining arguments.
fn add_each(call: &mut Call<'_>, is_new: bool) -> Result<()> {
    let key = call.args.key()?;
    let (mut shape, mut creates) = (default_shape(call), true);
    let capacity_min = i64::from(shape.bucket_size) * 2;
    loop {
        match argument(call)?.first().map(u8::to_ascii_lowercase) {
            Some(b'i') => break,
            Some(b'c') => {
                let capacity = parse_int(argument(call)?).ok_or(Error::Line("Bad capacity"))?;
                if !(capacity_min..=CAPACITY_MAX).contains(&capacity) {
                    return Err(Error::Line("Capacity must be in the range [cf-bucket-size * 2, 1073741824]"));
                }
                shape.capacity = capacity as u64;
            }
            Some(b'n') => creates = false,
            _ => return Err(UNKNOWN_ARGUMENT),
        }
    }
    if call.args.left() == 0 {
        return Err(wrong_arity(call));
    }
    let addition = Addition { is_new, shape: creates.then_some(shape) };
    let items = call.args.rest();
    let (mut filter, reply) = open(call, key, addition.shape)?;
    reply.array(items.len());
    for item in items {
        // In RESP3 a boolean cannot tell that there was no room; CF.INSERTNX has integers in both.
        let has_integers = is_new || reply.protocol() == Protocol::Resp2;
        match add_item(&mut filter, item, addition) {
            Ok(CuckooAdd::Added) if has_integers => reply.int(1),
            Ok(CuckooAdd::Present) if has_integers => reply.int(0),
            Ok(CuckooAdd::Added) => reply.bool(true),
            _ if has_integers => reply.int(-1),
            _ => reply.bool(false),
        }
    }
    Ok(())
}

/// Opens a filter to add items; a missing one is created, if a shape is given.
fn open<'c, 'a>(
    call: &'c mut Call<'a>,
    key: Key<'c>,
    shape: Option<CuckooShape>,
) -> Result<(Edit<'c, 'a, CuckooFilter>, &'c mut Reply<'a>)> {
    if call.view.get::<CuckooFilter>(key, Lookup::PEEK)?.is_none() {
        create(call, key, shape.ok_or_else(not_found)?)?;
    }
    let filter = call.view.edit::<CuckooFilter>(key, Event::NONE)?;
    if CuckooHeader::of(filter.value()).filters >= FILTERS_MAX {
        return Err(Error::Line("Maximum expansions reached"));
    }
    Ok((filter, &mut call.reply))
}

fn add_item(
    filter: &mut Edit<'_, '_, CuckooFilter>,
    item: &[u8],
    addition: Addition,
) -> std::result::Result<CuckooAdd, NotAllocated> {
    let how = if addition.is_new { cuckoo::add_new } else { cuckoo::add };
    loop {
        let mut bytes = filter.annotate().ok_or(NotAllocated::Invalid)?;
        match how(bytes.bytes_mut(), item) {
            // In Redis a single call may add thousands of filters, all of which are searched for each item.
            CuckooAdd::NeedsFilter if CuckooHeader::of(bytes.bytes()).filters >= FILTERS_MAX => {
                return Ok(CuckooAdd::Full);
            }
            CuckooAdd::NeedsFilter => {
                let longer = cuckoo::grown(bytes.bytes())?;
                filter.change_uncounted().set(longer);
            }
            result => {
                filter.count_more(usize::from(result == CuckooAdd::Added));
                return Ok(result);
            }
        }
    }
}

fn exists(call: &mut Call<'_>) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    let is_there = value_or_nothing::<CuckooFilter>(call, key).is_some_and(|bytes| cuckoo::contains(bytes, item));
    call.reply.bool(is_there);
    Ok(())
}

fn mexists(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let items = call.args.rest();
    let bytes = call.view.get::<CuckooFilter>(key, Lookup::READ).ok().flatten();
    call.reply.array(items.len());
    items.for_each(|item| call.reply.bool(bytes.is_some_and(|bytes| cuckoo::contains(bytes, item))));
    Ok(())
}

fn count(call: &mut Call<'_>) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    let count = value_or_nothing::<CuckooFilter>(call, key).map_or(0, |bytes| cuckoo::count(bytes, item));
    call.reply.int(count as i64);
    Ok(())
}

fn del(call: &mut Call<'_>) -> Result<()> {
    let (key, item) = (call.args.key()?, call.args.bytes()?);
    let missing = Error::Line("Not found");
    let mut filter = call.view.edit::<CuckooFilter>(key, Event::NONE).map_err(|WrongType| missing.clone())?;
    let mut bytes = filter.annotate().ok_or(missing)?;
    let is_deleted = cuckoo::delete(bytes.bytes_mut(), item);
    let kept = cuckoo::kept(bytes.bytes());
    if kept < bytes.bytes().len() {
        let shorter = bytes.bytes()[..kept].to_vec();
        bytes.set(shorter);
    }
    filter.count_more(usize::from(is_deleted));
    drop(filter);
    call.reply.bool(is_deleted);
    Ok(())
}

fn compact(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let missing = Error::Line("Cuckoo filter was not found");
    let mut filter = call.view.edit::<CuckooFilter>(key, Event::NONE).map_err(|WrongType| missing.clone())?;
    let mut bytes = filter.annotate().ok_or(missing)?;
    cuckoo::compact(bytes.bytes_mut());
    let shorter = bytes.bytes()[..cuckoo::kept(bytes.bytes())].to_vec();
    bytes.set(shorter);
    filter.count_more(1);
    drop(filter);
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let bytes = value::<CuckooFilter>(call, key, not_found())?;
    let header = CuckooHeader::of(bytes);
    let fields = [
        ("Size", cuckoo::reported_size(bytes)),
        ("Number of buckets", header.buckets),
        ("Number of filters", header.filters),
        ("Number of items inserted", header.items),
        ("Number of items deleted", header.deleted),
        ("Bucket size", u64::from(header.bucket_size)),
        ("Expansion rate", u64::from(header.expansion)),
        ("Max iterations", u64::from(header.iterations)),
    ];
    reply_fields(call, &fields.map(|(name, value)| (name, Some(value as i64))));
    Ok(())
}

fn debug(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let header = CuckooHeader::of(value::<CuckooFilter>(call, key, not_found())?);
    let line = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        header.bucket_size,
        header.buckets,
        header.items,
        header.deleted,
        header.filters,
        header.iterations,
        header.expansion,
    );
    call.reply.bulk(line.as_bytes());
    Ok(())
}

fn scandump(call: &mut Call<'_>) -> Result<()> {
    let (key, iterator) = (call.args.key()?, parse_int(call.args.bytes()?));
    let iterator = iterator.filter(|iterator| *iterator >= 0).ok_or(Error::Line("Invalid position"))?;
    let bytes = call.view.get::<CuckooFilter>(key, Lookup::READ)?.ok_or_else(not_found)?;
    let part = match iterator {
        _ if CuckooHeader::of(bytes).items == 0 => None,
        0 => Some((1, cuckoo::header(bytes))),
        _ => cuckoo::chunk(bytes, iterator),
    };
    call.reply.array(2);
    call.reply.int(part.map_or(0, |(next, _)| next));
    match part {
        Some((_, part)) => call.reply.bulk(part),
        None => call.reply.null(),
    }
    Ok(())
}

fn loadchunk(call: &mut Call<'_>) -> Result<()> {
    let (key, iterator, chunk) = (call.args.key()?, parse_int(call.args.bytes()?), call.args.bytes()?);
    let iterator = iterator.filter(|iterator| *iterator != 0).ok_or(Error::Line("Invalid position"))?;
    let mut filter = call.view.edit::<CuckooFilter>(key, Event::NONE)?;
    match filter.annotate() {
        Some(_) if iterator == 1 => return Err(Error::other("item exists")),
        Some(mut bytes) => {
            let result = cuckoo::load_chunk(bytes.bytes_mut(), iterator, chunk);
            result.map_err(|_| Error::Line("Couldn't load chunk!"))?;
            filter.count_more(1);
        }
        None if iterator != 1 => return Err(not_found()),
        None if chunk.len() != cuckoo::HEADER => return Err(Error::Line("Invalid header")),
        None => {
            let bytes = cuckoo::of_header(chunk).map_err(|_| Error::Line("Couldn't create filter!"))?;
            filter.change().set(bytes);
        }
    }
    drop(filter);
    call.reply.ok();
    Ok(())
}
