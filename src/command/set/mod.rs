//! The commands on sets.
//!
//! SADD and other basic commands are here, SPOP and SRANDMEMBER in `random.rs`, and in `combine.rs` intersection, union
//! and difference.

mod combine;
mod members;
mod random;

use crate::command::elements::reply_item;
use crate::command::scan_elements::{ElementScan, read_cursor, reply_nothing};
use crate::command::set::members::{reply_set, rules};
use crate::dispatch::{Call, Command};
use crate::error::Result;
use crate::resp::Reply;
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, MOVABLE_KEYS, OW, READ, RO, RW, UPDATE, WRITE, element,
    integer, key, pattern, token,
};
use crate::store::value::listpack::StoredElement;
use crate::store::value::{Set, SetRef};
use crate::store::{Classes, Event, Lookup};

const SADD_COST: &str = "O(1) for each element added, so O(N) to add N elements when the command is called with \
    multiple arguments.";
const SREM_COST: &str = "O(N) where N is the number of members to be removed.";
const SMISMEMBER_COST: &str = "O(N) where N is the number of elements being checked for membership";
const SPOP_COST: &str = "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.";
const SRANDMEMBER_COST: &str =
    "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.";
const SINTER_COST: &str =
    "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.";
const SSCAN_COST: &str = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
    cursor to return back to 0. N is the number of elements inside the collection..";
const TOTAL_COST: &str = "O(N) where N is the total number of elements in all given sets.";

const READ_KEY: Arg = key("key", RO | ACCESS);
const COUNT: Arg = integer("count").optional();
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SADD", sadd, WRITE | DENY_OOM | FAST, Group::Set)
        .args(&[key("key", RW | INSERT), element("member").multiple()])
        .docs("1.0.0", SADD_COST, "Adds members to a set, creating it if necessary."),
    Command::new("SREM", srem, WRITE | FAST, Group::Set)
        .args(&[key("key", RW | DELETE), element("member").multiple()])
        .docs("1.0.0", SREM_COST, "Removes members from a set."),
    Command::new("SCARD", scard, READ | FAST, Group::Set)
        .args(&[key("key", RO)])
        .docs("1.0.0", "O(1)", "Returns the number of members of a set."),
    Command::new("SISMEMBER", sismember, READ | FAST, Group::Set)
        .args(&[key("key", RO), element("member")])
        .docs("1.0.0", "O(1)", "Tells whether a set has a member."),
    Command::new("SMISMEMBER", smismember, READ | FAST, Group::Set)
        .args(&[READ_KEY, element("member").multiple()])
        .docs("6.2.0", SMISMEMBER_COST, "Tells which of several members a set has."),
    Command::new("SMEMBERS", smembers, READ, Group::Set)
        .args(&[READ_KEY])
        .tips(UNORDERED)
        .docs("1.0.0", "O(N) where N is the set cardinality.", "Returns all members of a set."),
    Command::new("SPOP", random::spop, WRITE | FAST, Group::Set)
        .args(&[key("key", RW | ACCESS | DELETE), COUNT.since("3.2.0")])
        .tips(RANDOM)
        .effect(Effect::Given)
        .docs("1.0.0", SPOP_COST, "Removes random members from a set and returns them."),
    Command::new("SRANDMEMBER", random::srandmember, READ, Group::Set)
        .args(&[READ_KEY, COUNT.since("2.6.0")])
        .tips(RANDOM)
        .docs("1.0.0", SRANDMEMBER_COST, "Returns random members of a set."),
    Command::new("SMOVE", smove, WRITE | FAST, Group::Set)
        .args(&[key("source", RW | ACCESS | DELETE), key("destination", RW | INSERT), element("member")])
        .docs("1.0.0", "O(1)", "Moves a member from one set to another."),
    Command::new("SINTER", combine::sinter, READ, Group::Set)
        .args(&[READ_KEY.multiple()])
        .tips(UNORDERED)
        .docs("1.0.0", SINTER_COST, "Returns the members that several sets have in common."),
    Command::new("SINTERCARD", combine::sintercard, READ | MOVABLE_KEYS, Group::Set)
        .args(&[integer("numkeys"), READ_KEY.multiple(), integer("limit").token("LIMIT").optional()])
        .docs("7.0.0", SINTER_COST, "Counts the members that several sets have in common."),
    Command::new("SUNIONCARD", combine::sunioncard, READ | MOVABLE_KEYS, Group::Set)
        .args(&[
            integer("numkeys"),
            READ_KEY.multiple(),
            token("approx", "APPROX").optional(),
            integer("limit").token("LIMIT").optional(),
        ])
        .docs("8.10.0", TOTAL_COST, "Counts the members of several sets."),
    Command::new("SDIFFCARD", combine::sdiffcard, READ | MOVABLE_KEYS, Group::Set)
        .args(&[integer("numkeys"), READ_KEY.multiple(), integer("limit").token("LIMIT").optional()])
        .docs("8.10.0", TOTAL_COST, "Counts the members of a set that no other given set has."),
    Command::new("SINTERSTORE", combine::sinterstore, WRITE | DENY_OOM, Group::Set)
        .args(&[key("destination", OW | UPDATE), READ_KEY.multiple()])
        .docs("1.0.0", SINTER_COST, "Stores the members that several sets have in common."),
    Command::new("SUNION", combine::sunion, READ, Group::Set)
        .args(&[READ_KEY.multiple()])
        .tips(UNORDERED)
        .docs("1.0.0", TOTAL_COST, "Returns the members of several sets."),
    Command::new("SUNIONSTORE", combine::sunionstore, WRITE | DENY_OOM, Group::Set)
        .args(&[key("destination", OW | UPDATE), READ_KEY.multiple()])
        .docs("1.0.0", TOTAL_COST, "Stores the members of several sets."),
    Command::new("SDIFF", combine::sdiff, READ, Group::Set)
        .args(&[READ_KEY.multiple()])
        .tips(UNORDERED)
        .docs("1.0.0", TOTAL_COST, "Returns the members of a set that no other given set has."),
    Command::new("SDIFFSTORE", combine::sdiffstore, WRITE | DENY_OOM, Group::Set)
        .args(&[key("destination", OW | UPDATE), READ_KEY.multiple()])
        .docs("1.0.0", TOTAL_COST, "Stores the members of a set that no other given set has."),
    Command::new("SSCAN", sscan, READ, Group::Set)
        .args(&[
            READ_KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
        ])
        .tips(RANDOM)
        .docs("2.8.0", SSCAN_COST, "Iterates over the members of a set."),
];

/// The event of adding members to a set.
const SADD: &Event = &Event::one(Classes::SET, "sadd");
/// The event of removing members from a set.
const SREM: &Event = &Event::one(Classes::SET, "srem");

fn sadd(call: &mut Call<'_>) -> Result<()> {
    let (key, count, rules) = (call.args.key()?, call.args.left(), rules(call));
    let mut edit = call.view.edit::<Set>(key, SADD)?;
    let (is_new, mut first) = (!edit.exists(), Some(StoredElement::of(call.args.bytes()?)));
    let mut set = match edit.annotate() {
        Some(set) => set,
        None => edit.change(),
    };
    match first {
        Some(first) if is_new => set.start(first, count, rules),
        _ => set.expect(count, rules),
    }
    let mut added = 0;
    while let Some(member) = first.take().or_else(|| call.args.next_arg().map(StoredElement::of)) {
        added += usize::from(set.add(member, rules));
    }
    edit.count_more(added - usize::from(is_new));
    drop(edit);
    call.reply.int(added as i64);
    Ok(())
}

fn srem(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut edit, mut removed) = (call.view.edit::<Set>(key, SREM)?, 0);
    if let Some(mut set) = edit.annotate() {
        while let Some(member) = call.args.next_arg() {
            removed += usize::from(set.remove(StoredElement::of(member)));
        }
    }
    edit.count_more(removed);
    drop(edit);
    call.reply.int(removed as i64);
    Ok(())
}

fn scard(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = call.view.get::<Set>(key, Lookup::READ)?.map_or(0, SetRef::len);
    call.reply.int(len as i64);
    Ok(())
}

fn sismember(call: &mut Call<'_>) -> Result<()> {
    let (key, member) = (call.args.key()?, StoredElement::of(call.args.bytes()?));
    let is_member = call.view.get::<Set>(key, Lookup::READ)?.is_some_and(|set| set.contains(member));
    call.reply.int(i64::from(is_member));
    Ok(())
}

fn smismember(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let set = call.view.get::<Set>(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(member) = call.args.next_arg() {
        let is_member = set.is_some_and(|set| set.contains(StoredElement::of(member)));
        call.reply.int(i64::from(is_member));
    }
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match call.view.get::<Set>(key, Lookup::READ)? {
        Some(set) => reply_set(&mut call.reply, set),
        None => call.reply.set(0),
    }
    Ok(())
}

/// Handles SMOVE. As in Redis, a missing source is noticed before a destination of another type, and the member is
/// removed only after the type of the destination is checked.
fn smove(call: &mut Call<'_>) -> Result<()> {
    let (source, destination) = (call.args.key()?, call.args.key()?);
    let (text, rules) = (call.args.bytes()?, rules(call));
    let member = StoredElement::of(text);
    let is_member = match call.view.get::<Set>(source, Lookup::WRITE)? {
        Some(set) => set.contains(member),
        None => {
            call.view.lookup(destination, Lookup::WRITE);
            call.reply.int(0);
            return Ok(());
        }
    };
    call.view.get::<Set>(destination, Lookup::WRITE)?;
    if is_member && source.bytes != destination.bytes {
        call.view.edit::<Set>(source, SREM)?.change().remove(member);
        let mut edit = call.view.edit::<Set>(destination, SADD)?;
        if !edit.exists() {
            edit.change().start(member, 1, rules);
            edit.change().add(member, rules);
        } else if !edit.value().contains(member) {
            edit.change().add(member, rules);
        }
    }
    call.reply.int(i64::from(is_member));
    Ok(())
}

fn sscan(call: &mut Call<'_>) -> Result<()> {
    let (key, cursor) = (call.args.key()?, read_cursor(&mut call.args)?);
    let Some(set) = call.view.get::<Set>(key, Lookup::READ)? else {
        reply_nothing(&mut call.reply);
        return Ok(());
    };
    let scan = ElementScan::read(cursor, &mut call.args, None)?;
    let write = |reply: &mut Reply<'_>, member: StoredElement<'_>| {
        let is_admitted = member.with_text(|text| scan.admits(text));
        if is_admitted {
            reply_item(reply, member);
        }
        usize::from(is_admitted)
    };
    match set {
        SetRef::Big(big) => scan.reply_table(&mut call.reply, |reply, position| {
            let (mut visited, mut written) = (0, 0);
            let next = big.scan(position, |member| {
                visited += 1;
                written += write(reply, member);
            });
            (visited, written, next)
        }),
        packed => scan.reply_packed(&mut call.reply, |reply| packed.iter().map(|member| write(reply, member)).sum()),
    }
    Ok(())
}
