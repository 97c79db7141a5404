//! OBJECT: the encoding, idle time and use frequency of values, as Redis would report them.
//!
//! keylatch has its own encodings of strings and of large collections. It records the way in which a string was stored,
//! on which Redis' encodings depend besides the bytes.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{Arg, Group, READ, RO, key};
use crate::store::entry::Entry;
use crate::store::{Lookup, usage};
use crate::types;
use crate::types::string::StringEncoding;

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
    match call.view.lookup(key, Lookup::INSPECT).map(types::encoding_of) {
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
    let shares = config.maxmemory == 0 || !policy.needs_usage();
    match call.view.lookup(key, Lookup::INSPECT).map(StringEncoding::of) {
        Some(Some(StringEncoding::Integer(0..SHARED_INTEGERS))) if shares => call.reply.int(SHARED_COUNT),
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
