//! SORT and SORT_RO, without lists, sets and sorted sets: only missing keys can be sorted.
//!
//! The options are parsed and rejected as in Redis. A key that holds a string is an error; a missing one is an empty
//! list.

use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::{ACCESS, Arg, DENY_OOM, EXCLUSIVE, Group, KeyFlags, MOVABLE_KEYS, OW, READ, RO, UPDATE, WRITE};
use crate::spec::{block, integer, key, one_of, pattern, token};
use crate::store::{Lookup, WrongType};

const COST: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of \
returned elements. When the elements are not sorted, complexity is O(N).";

const CATEGORIES: &[&str] = &["set", "sortedset", "list", "dangerous"];

const OF_ELEMENTS: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
content of the key we sort";
const ANYWHERE: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in \
the argument array";

const BY: Arg = pattern("pattern").token("BY").optional().unplaced(RO | ACCESS, OF_ELEMENTS);
const LIMIT: Arg = block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const GET: Arg = pattern("pattern").token("GET").optional().multiple_token().unplaced(RO | ACCESS, OF_ELEMENTS);
const ORDER: Arg = one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const ALPHA: Arg = token("sorting", "ALPHA").optional();
const STORE: Arg = key("destination", OW | UPDATE).token("STORE").optional().unplaced(OW | UPDATE, ANYWHERE);

/// Declares the commands of this file. The key of STORE has no fixed position, so SORT holds the whole store.
#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SORT", sort, WRITE | DENY_OOM | MOVABLE_KEYS | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA, STORE])
        .key_search(sorted_and_stored)
        .categories(CATEGORIES)
        .docs("1.0.0", COST, "Sorts the elements of a list, set or sorted set; these types do not exist yet."),
    Command::new("SORT_RO", sort_ro, READ | MOVABLE_KEYS, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA])
        .categories(CATEGORIES)
        .docs("7.0.0", COST, "Sorts the elements of a list, set or sorted set, read-only; these types do not exist yet."),
];

/// Finds the key that is sorted and that of STORE, of which the last counts, for the check of permissions.
fn sorted_and_stored(request: Request<'_>) -> Vec<(usize, KeyFlags)> {
    let mut stored = None;
    let mut at = 2;
    while at + 1 < request.len() {
        let word = request.arg(at);
        at += match () {
            () if is_word(word, "LIMIT") => 3,
            () if is_word(word, "BY") || is_word(word, "GET") => 2,
            () if is_word(word, "STORE") => {
                stored = Some((at + 1, OW | UPDATE));
                2
            }
            () => 1,
        };
    }
    std::iter::once((1, RO | ACCESS)).chain(stored).collect()
}

fn sort(call: &mut Call<'_>) -> Result<()> {
    sort_nothing(call, true)
}

fn sort_ro(call: &mut Call<'_>) -> Result<()> {
    sort_nothing(call, false)
}

fn sort_nothing(call: &mut Call<'_>, may_store: bool) -> Result<()> {
    let key = call.args.key()?;
    let target = read_options(call, may_store)?;
    if call.view.lookup(key, Lookup::READ).is_some() {
        return Err(WrongType.into());
    }
    match target {
        // An empty result is stored by deleting the target key.
        Some(target) => {
            call.view.discard(call.namespace.store.key(target));
            call.reply.int(0);
        }
        None => call.reply.array(0),
    }
    Ok(())
}

/// Parses the options; returns the target of STORE. The keys that patterns refer to are not known in advance, so
/// patterns need permission to read all keys.
fn read_options<'a>(call: &mut Call<'a>, may_store: bool) -> Result<Option<&'a [u8]>> {
    let mut target = None;
    let reads_all = call.caller.access.reads_all_keys(call.command, call.args.request());
    while let Some(word) = call.args.next_arg() {
        let left = call.args.left();
        if ["ASC", "DESC", "ALPHA"].iter().any(|option| is_word(word, option)) {
            continue;
        }
        match () {
            () if is_word(word, "LIMIT") && left >= 2 => drop((call.args.int()?, call.args.int()?)),
            () if may_store && is_word(word, "STORE") && left >= 1 => target = Some(call.args.bytes()?),
            () if is_word(word, "BY") && left >= 1 => {
                let pattern = call.args.bytes()?.split(|byte| *byte == 0).next().unwrap_or_default();
                if pattern.contains(&b'*') && !reads_all {
                    return Err(Error::other("BY option of SORT denied due to insufficient ACL permissions."));
                }
            }
            () if is_word(word, "GET") && left >= 1 => {
                call.args.bytes()?;
                if !reads_all {
                    return Err(Error::other("GET option of SORT denied due to insufficient ACL permissions."));
                }
            }
            () => return Err(Error::Syntax),
        }
    }
    Ok(target)
}
