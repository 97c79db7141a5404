//! OBJECT: the encoding, idle time and use frequency of values, as Redis would report them.
//!
//! keylatch has its own encodings of strings and of large collections. It records the way in which a string was stored,
//! on which Redis' encodings depend besides the bytes.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{Arg, Group, READ, RO, key};
use crate::store::entry::Entry;
use crate::store::{Lookup, StringHint, ValueRef, usage};

const TIPS: &[&str] = &["nondeterministic_output"];
const KEY: &[Arg] = &[key("key", RO)];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::container("OBJECT", Group::Generic, &[
        Command::new("ENCODING", encoding, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Returns the encoding of a value."),
        Command::new("FREQ", freq, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("4.0.0", "O(1)", "Returns the logarithmic frequency of use of a key."),
        Command::new("IDLETIME", idletime, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Returns the seconds since a key was last used."),
        Command::new("REFCOUNT", refcount, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Returns the reference count of a value."),
    ])
    .help_since("6.2.0")
    .docs("2.2.3", "Depends on subcommand.", "Contains the subcommands about the internals of values."),
];

/// The longest string that Redis embeds in its object.
const EMBEDDED_MAX: usize = 44;

/// The end of the range of integers, from 0, that Redis shares among all keys.
const SHARED_INTEGERS: i64 = 10_000;

/// The reference count that Redis reports for a shared integer.
const SHARED_COUNT: i64 = i32::MAX as i64;

const NO_FREQUENCY: &str = "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
    when switching between policies at runtime LRU and LFU data will take some time to adjust.";

const NO_IDLE_TIME: &str = "An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
    between policies at runtime LRU and LFU data will take some time to adjust.";

fn encoding(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match call.view.lookup(key, Lookup::INSPECT).map(|entry| encoding_of(entry.contents())) {
        Some(name) => call.reply.bulk(name.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

/// Handles OBJECT REFCOUNT. Redis shares small integers among keys, unless the eviction policy needs the usage of each
/// key.
fn refcount(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let config = call.namespace.settings.current();
    let policy = config.maxmemory_policy;
    let shares = config.maxmemory == 0 || !policy.is_lru() && !policy.is_lfu();
    match call.view.lookup(key, Lookup::INSPECT).map(Entry::contents) {
        Some(ValueRef::String(text, hint)) if shares => match encoded_as(hint, text.as_slice()) {
            Encoding::Integer(0..SHARED_INTEGERS) => call.reply.int(SHARED_COUNT),
            _ => call.reply.int(1),
        },
        Some(_) => call.reply.int(1),
        None => call.reply.null(),
    }
    Ok(())
}

fn idletime(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let usage = call.view.lookup(key, Lookup::INSPECT).map(Entry::usage);
    match usage {
        Some(_) if call.namespace.store.memory_account().rule().counts() => return Err(Error::other(NO_IDLE_TIME)),
        Some(usage) => call.reply.int(usage::idle_s(usage, call.now()) as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn freq(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let rule = call.namespace.store.memory_account().rule();
    let usage = call.view.lookup(key, Lookup::INSPECT).map(Entry::usage);
    match usage {
        Some(_) if !rule.counts() => return Err(Error::other(NO_FREQUENCY)),
        Some(usage) => call.reply.int(i64::from(rule.count(usage, call.now()))),
        None => call.reply.null(),
    }
    Ok(())
}

/// The encodings of strings in Redis.
enum Encoding {
    Integer(i64),
    Embedded,
    Raw,
}

impl Encoding {
    fn name(&self) -> &'static str {
        match self {
            Encoding::Integer(_) => "int",
            Encoding::Embedded => "embstr",
            Encoding::Raw => "raw",
        }
    }
}

/// Returns the name of a value's encoding.
pub(crate) fn encoding_of(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::String(text, hint) => encoded_as(hint, text.as_slice()).name(),
        ValueRef::List(list) => list.encoding(),
        ValueRef::Set(set) => set.encoding(),
        ValueRef::SortedSet(set) => set.encoding(),
        ValueRef::Hash(hash) => hash.encoding(),
        ValueRef::Stream(_) => "stream",
    }
}

/// Returns the length of an uncompressed string in a snapshot.
pub(crate) fn saved_len(hint: StringHint, text: &[u8]) -> usize {
    let as_text = match text.len() {
        len @ ..64 => 1 + len,
        len @ 64..16_384 => 2 + len,
        len => 5 + len,
    };
    match encoded_as(hint, text) {
        Encoding::Integer(number) if i8::try_from(number).is_ok() => 2,
        Encoding::Integer(number) if i16::try_from(number).is_ok() => 3,
        Encoding::Integer(number) if i32::try_from(number).is_ok() => 5,
        _ => as_text,
    }
}

fn encoded_as(hint: StringHint, text: &[u8]) -> Encoding {
    match (hint, parse_int(text)) {
        (StringHint::Plain, Some(number)) => Encoding::Integer(number),
        (StringHint::Plain | StringHint::NotInt, _) if text.len() <= EMBEDDED_MAX => Encoding::Embedded,
        _ => Encoding::Raw,
    }
}
