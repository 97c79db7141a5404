//! Commands on keys of any type. Here are the generic ones: EXISTS, TYPE, RENAME, DEL and related commands.

pub(crate) mod databases;
pub(crate) mod dump;
pub(crate) mod expire;
pub(crate) mod migrate;
pub(crate) mod object;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod wait;

use crate::command::element_expiry::unexpired_key;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{ACCESS, Arg, DELETE, FAST, Group, INSERT, OW, READ, RM, RO, RW, UPDATE, WRITE, key};
use crate::store::entry::Entry;
use crate::store::value::Type;
use crate::store::{Classes, Event, Key, Lookup};

const REMOVED_KEYS: &[Arg] = &[key("key", RM | DELETE).multiple()];

/// The command tips for a cluster proxy: it must send the command to every shard and sum up the replies.
const SUM_OF_SHARDS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const DEL_COMPLEXITY: &str = "O(N) where N is the number of keys that will be removed. When a key to remove holds a \
value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the \
list, set, sorted set or hash. Removing a single key that holds a string value is O(1).";

const TOUCH_COMPLEXITY: &str = "O(N) where N is the number of keys that will be touched.";

const UNLINK_COMPLEXITY: &str = "O(1) for each key removed regardless of its size. Then the command does O(N) work in \
a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where \
composed of.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("DEL", del, WRITE, Group::Generic)
        .args(REMOVED_KEYS)
        .tips(SUM_OF_SHARDS)
        .docs("1.0.0", DEL_COMPLEXITY, "Deletes keys and returns how many existed."),
    Command::new("EXISTS", exists, READ | FAST, Group::Generic)
        .args(&[key("key", RO).multiple()])
        .tips(SUM_OF_SHARDS)
        .docs("1.0.0", "O(N) where N is the number of keys to check.", "Returns how many of the given keys exist."),
    Command::new("RENAME", rename, WRITE, Group::Generic)
        .args(&[key("key", RW | ACCESS | DELETE), key("newkey", OW | UPDATE)])
        .docs("1.0.0", "O(1)", "Renames a key, overwriting the key that has the new name."),
    Command::new("RENAMENX", renamenx, WRITE | FAST, Group::Generic)
        .args(&[key("key", RW | ACCESS | DELETE), key("newkey", OW | INSERT)])
        .docs("1.0.0", "O(1)", "Renames a key unless a key has the new name."),
    Command::new("TOUCH", touch, READ | FAST, Group::Generic)
        .args(&[key("key", RO).multiple()])
        .tips(SUM_OF_SHARDS)
        .docs("3.2.1", TOUCH_COMPLEXITY, "Returns how many of the given keys exist, and updates their last access."),
    Command::new("TYPE", kind, READ | FAST, Group::Generic)
        .args(&[key("key", RO)])
        .docs("1.0.0", "O(1)", "Returns the data type of a value."),
    // Strings are freed cheaply, so UNLINK is DEL under another name.
    Command::new("UNLINK", del, WRITE | FAST, Group::Generic)
        .args(REMOVED_KEYS)
        .tips(SUM_OF_SHARDS)
        .docs("4.0.0", UNLINK_COMPLEXITY, "Deletes keys and frees their memory in the background."),
];

/// The events of renaming a key: of its old name, and of its new one.
const RENAMED: [&Event; 2] = [&Event::one(Classes::GENERIC, "rename_from"), &Event::one(Classes::GENERIC, "rename_to")];

fn del(call: &mut Call<'_>) -> Result<()> {
    let mut removed = 0;
    while call.args.left() > 0 {
        let key = call.args.key()?;
        removed += i64::from(call.view.remove(key));
    }
    call.reply.int(removed);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Result<()> {
    count_keys(call, Lookup::ABOUT)
}

fn touch(call: &mut Call<'_>) -> Result<()> {
    count_keys(call, Lookup::TOUCH)
}

/// Replies with how many of the keys exist.
fn count_keys(call: &mut Call<'_>, how: Lookup) -> Result<()> {
    let mut found = 0;
    while call.args.left() > 0 {
        let key = call.args.key()?;
        found += i64::from(call.view.lookup(key, how).is_some());
    }
    call.reply.int(found);
    Ok(())
}

fn rename(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = source_and_target(call)?;
    // A key renamed to itself has not changed: a transaction that watches the key is not aborted.
    if from.bytes != to.bytes {
        call.view.rename((from, to), RENAMED);
    }
    call.reply.ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = source_and_target(call)?;
    let renamed = !call.view.exists(to) && call.view.rename((from, to), RENAMED);
    call.reply.int(i64::from(renamed));
    Ok(())
}

fn kind(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let kind = call.view.lookup(key, Lookup::ABOUT).map(Entry::kind);
    call.reply.simple(kind.map_or("none", Type::name));
    Ok(())
}

/// Parses the two keys of a RENAME, of which the first must exist.
fn source_and_target<'a>(call: &mut Call<'a>) -> Result<(Key<'a>, Key<'a>)> {
    let (from, to) = (unexpired_key(call)?, call.args.key()?);
    if call.view.lookup(from, Lookup::WRITE).is_none() {
        return Err(Error::NoSuchKey);
    }
    Ok((from, to))
}
