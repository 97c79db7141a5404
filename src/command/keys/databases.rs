//! Commands that involve two databases: COPY, MOVE, SWAPDB.
//!
//! These commands hold the whole store, because a call locks shards of one database only.

use crate::command::element_expiry::unexpired_key;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::spec::{
    ACCESS, DENY_OOM, EXCLUSIVE, FAST, Group, NO_ENGINE, OW, RO, RW, UPDATE, WRITE, integer, key, token,
};
use crate::store::{Classes, Event, Lookup, Removal};

const COPY_COST: &str = "\
    O(N) worst case for collections, where N is the number of nested items. O(1) for string values.";
const SWAP_COST: &str = "O(N) where N is the count of clients watching or blocking on keys from both databases.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("COPY", copy, WRITE | DENY_OOM | EXCLUSIVE, Group::Generic)
        .args(&[
            key("source", RO | ACCESS),
            key("destination", OW | UPDATE),
            integer("destination-db").token("DB").optional(),
            token("replace", "REPLACE").optional(),
        ])
        .keys_elsewhere(destination_elsewhere)
        .docs("6.2.0", COPY_COST, "Copies the value of a key to another key, optionally in another database."),
    Command::new("MOVE", move_key, WRITE | FAST | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RW | ACCESS | UPDATE), integer("db")])
        .keys_elsewhere(moved_elsewhere)
        .docs("1.0.0", "O(1)", "Moves a key to another database, unless it exists there."),
    Command::new("SWAPDB", swapdb, WRITE | FAST | EXCLUSIVE | NO_ENGINE, Group::Server)
        .args(&[integer("index1"), integer("index2")])
        .categories(&["keyspace", "dangerous"])
        .docs("4.0.0", SWAP_COST, "Swaps two databases."),
];

/// The event of the copy of a key.
const COPY_TO: &Event = &Event::one(Classes::GENERIC, "copy_to");
/// The event of a moved key in its old database.
const MOVE_FROM: &Event = &Event::one(Classes::GENERIC, "move_from");
/// The event of a moved key in its new database.
const MOVE_TO: &Event = &Event::one(Classes::GENERIC, "move_to");

/// Finds the destination of COPY in the database that it names.
fn destination_elsewhere(request: Request<'_>) -> Vec<(usize, usize)> {
    let places = (3..request.len().saturating_sub(1)).filter(|at| is_word(request.arg(*at), "DB"));
    places.filter_map(|at| Some((named_db(request, at + 1)?, 2))).collect()
}

/// Finds the key of MOVE in the database that it names.
fn moved_elsewhere(request: Request<'_>) -> Vec<(usize, usize)> {
    let db = (request.len() > 2).then(|| named_db(request, 2)).flatten();
    db.map(|db| (db, 1)).into_iter().collect()
}

/// Returns the number of a database in an argument, whether there is such a database or not.
fn named_db(request: Request<'_>, at: usize) -> Option<usize> {
    parse_int(request.arg(at)).and_then(|number| usize::try_from(number).ok())
}

/// Parses a database number.
pub(crate) fn read_database(call: &mut Call<'_>) -> Result<usize> {
    let index = call.args.int()?;
    in_range(call, index)
}

/// Parses the number of the database to be selected.
pub(crate) fn read_selected(call: &mut Call<'_>) -> Result<usize> {
    let index = call.args.int()?;
    if index != 0 {
        call.require_standalone("SELECT is not allowed in cluster mode")?;
    }
    in_range(call, index)
}

fn in_range(call: &Call<'_>, index: i64) -> Result<usize> {
    if i32::try_from(index).is_err() {
        return Err(Error::other("value is out of range, value must between -2147483648 and 2147483647"));
    }
    existing(call, index)
}

/// Checks that a client may use a database; a cluster has one.
fn existing(call: &Call<'_>, index: i64) -> Result<usize> {
    let may_use = |db: &usize| call.namespace.store.may_use(*db) && (*db == 0 || !call.is_in_cluster());
    usize::try_from(index).ok().filter(may_use).ok_or(Error::DbOutOfRange)
}

fn copy(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = (unexpired_key(call)?, call.args.key()?);
    let (db, mut target_db, mut replaces) = (call.caller.db, call.caller.db, false);
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "REPLACE") {
            replaces = true;
        } else if is_word(word, "DB") && call.args.left() > 0 {
            target_db = read_database(call)?;
        } else {
            return Err(Error::Syntax);
        }
    }
    if db == target_db && from.bytes == to.bytes {
        return Err(Error::SameObject);
    }
    let copy = call.view.lookup(from, Lookup::READ).map(|entry| entry.copy(to.bytes));
    let copied = call.view.in_db(target_db, |target| match copy {
        Some(entry) if replaces || !target.exists(to) => {
            target.put(to, entry, COPY_TO);
            true
        }
        _ => false,
    });
    call.reply.int(i64::from(copied));
    Ok(())
}

fn move_key(call: &mut Call<'_>) -> Result<()> {
    call.require_standalone("MOVE is not allowed in cluster mode")?;
    let key = unexpired_key(call)?;
    let target_db = read_database(call)?;
    if target_db == call.caller.db {
        return Err(Error::SameObject);
    }
    let is_free = !call.view.in_db(target_db, |target| target.exists(key));
    let entry = if is_free { call.view.take_for_move(key, Removal::Moved) } else { None };
    call.reply.int(i64::from(entry.is_some()));
    if let Some(entry) = entry {
        call.view.in_db(target_db, |target| target.put(key, entry, Event::NONE));
        call.view.emit(key, MOVE_FROM);
        call.view.in_db(target_db, |target| target.emit(key, MOVE_TO));
    }
    Ok(())
}

fn swapdb(call: &mut Call<'_>) -> Result<()> {
    call.require_standalone("SWAPDB is not allowed in cluster mode")?;
    let read = |word: &[u8], refusal| {
        let index = parse_int(word).and_then(|index| i32::try_from(index).ok());
        index.ok_or_else(|| Error::other(refusal))
    };
    let one = read(call.args.bytes()?, "invalid first DB index")?;
    let other = read(call.args.bytes()?, "invalid second DB index")?;
    let (one, other) = (existing(call, one.into())?, existing(call, other.into())?);
    if call.is_nested() {
        [one, other].into_iter().for_each(|db| call.view.expire_all(db));
    }
    call.view.swap(one, other);
    call.reply.ok();
    Ok(())
}
