//! The commands on sets.
//!
//! SADD and other basic commands are here, SPOP and SRANDMEMBER in `random.rs`, in `combine.rs` intersection, union
//! and difference, and in `expire.rs` the deadlines of members.

mod combine;
mod expire;
mod members;
mod random;

use crate::command::element_expiry::{Expiring, unexpired_key};
use crate::command::elements::reply_item;
use crate::command::scan_elements::{ElementScan, read_cursor, reply_nothing};
use crate::command::set::expire::SADD_SEXPIRE;
use crate::command::set::members::{SADD, SREM, reply_set, rules};
use crate::command::ttl::{CONDITION, EXPIRATION_OR_KEEPTTL};
use crate::dispatch::{Call, Command};
use crate::error::Result;
use crate::resp::Reply;
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, MOVABLE_KEYS, OW, READ, RO, RW, UPDATE, WRITE, block,
    element, integer, key, one_of, pattern, token, unix_time,
};
use crate::store::value::listpack::StoredElement;
use crate::store::value::{Set, SetRef};
use crate::store::{Key, Lookup};

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

const MEMBERS_COST: &str = "O(N) where N is the number of specified members";
const SADDEX_COST: &str = "O(N) where N is the number of members being added.";

const CHANGED_KEY: Arg = key("key", RW | UPDATE);
const MEMBERS: Arg = block("members", &[integer("nummembers"), element("member").multiple()]).token("MEMBERS");
const SADDEX_CONDITION: Arg = one_of("condition", &[token("mnx", "MNX"), token("mxx", "MXX")]).optional();
const READ_KEY: Arg = key("key", RO | ACCESS);
const COUNT: Arg = integer("count").optional();
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SADD", sadd, WRITE | DENY_OOM | FAST, Group::Set)
        .args(&[key("key", RW | INSERT), element("member").multiple()])
        .docs("1.0.0", SADD_COST, "Adds members to a set, creating it if necessary."),
    Command::new("SADDEX", expire::saddex, WRITE | DENY_OOM | FAST, Group::Set)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, SADDEX_CONDITION, EXPIRATION_OR_KEEPTTL, MEMBERS])
        .docs("8.12.0", SADDEX_COST, "Adds members to a set, optionally under a condition and with an expiration."),
    Command::new("SEXPIRE", expire::sexpire, WRITE | FAST, Group::Set)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, integer("seconds"), CONDITION, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Makes members expire after a number of seconds."),
    Command::new("SEXPIREAT", expire::sexpireat, WRITE | FAST, Group::Set)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, unix_time("unix-time-seconds"), CONDITION, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Makes members expire at a Unix time in seconds."),
    Command::new("SEXPIRETIME", expire::sexpiretime, READ | FAST, Group::Set)
        .args(&[READ_KEY, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Returns the Unix times in seconds at which members expire."),
    Command::new("SPERSIST", expire::spersist, WRITE | FAST, Group::Set)
        .args(&[CHANGED_KEY, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Removes the expirations of members."),
    Command::new("SPEXPIRE", expire::spexpire, WRITE | FAST, Group::Set)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, integer("milliseconds"), CONDITION, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Makes members expire after a number of milliseconds."),
    Command::new("SPEXPIREAT", expire::spexpireat, WRITE | FAST, Group::Set)
        .effect(Effect::Given)
        .args(&[CHANGED_KEY, unix_time("unix-time-milliseconds"), CONDITION, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Makes members expire at a Unix time in milliseconds."),
    Command::new("SPEXPIRETIME", expire::spexpiretime, READ | FAST, Group::Set)
        .args(&[READ_KEY, MEMBERS])
        .docs("8.12.0", MEMBERS_COST, "Returns the Unix times in milliseconds at which members expire."),
    Command::new("SPTTL", expire::spttl, READ | FAST, Group::Set)
        .args(&[READ_KEY, MEMBERS])
        .tips(RANDOM)
        .docs("8.12.0", MEMBERS_COST, "Returns the times to live of members in milliseconds."),
    Command::new("STTL", expire::sttl, READ | FAST, Group::Set)
        .args(&[READ_KEY, MEMBERS])
        .tips(RANDOM)
        .docs("8.12.0", MEMBERS_COST, "Returns the times to live of members in seconds."),
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

fn sadd(call: &mut Call<'_>) -> Result<()> {
    let (key, rules) = (unexpired_key(call)?, rules(call));
    let count = call.args.left();
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
    let key = unexpired_key(call)?;
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
    let key = unexpired_key(call)?;
    let len = call.view.get_set(key, Lookup::READ)?.map_or(0, SetRef::len);
    call.reply.int(len as i64);
    Ok(())
}

fn sismember(call: &mut Call<'_>) -> Result<()> {
    let (key, member) = (unexpired_key(call)?, StoredElement::of(call.args.bytes()?));
    let is_member = call.view.get_set(key, Lookup::READ)?.is_some_and(|set| set.contains(member));
    call.reply.int(i64::from(is_member));
    Ok(())
}

fn smismember(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let set = call.view.get_set(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(member) = call.args.next_arg() {
        let is_member = set.is_some_and(|set| set.contains(StoredElement::of(member)));
        call.reply.int(i64::from(is_member));
    }
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    match call.view.get_set(key, Lookup::READ)? {
        Some(set) => reply_set(&mut call.reply, set),
        None => call.reply.set(0),
    }
    Ok(())
}

/// Handles SMOVE. As in Redis, a missing source is noticed before a destination of another type, and the member is
/// removed only after the type of the destination is checked.
fn smove(call: &mut Call<'_>) -> Result<()> {
    let (source, destination) = (unexpired_key(call)?, unexpired_key(call)?);
    let member = StoredElement::of(call.args.bytes()?);
    let deadline = match call.view.get::<Set>(source, Lookup::WRITE)? {
        Some(set) => set.deadline(member),
        None => {
            call.view.lookup(destination, Lookup::WRITE);
            call.reply.int(0);
            return Ok(());
        }
    };
    call.view.get::<Set>(destination, Lookup::WRITE)?;
    if let Some(deadline) = deadline
        && source.bytes != destination.bytes
    {
        call.view.edit::<Set>(source, SREM)?.change().remove(member);
        take_in(call, destination, member, deadline)?;
    }
    call.reply.int(i64::from(deadline.is_some()));
    Ok(())
}

/// Adds a member that was removed from another set, with the deadline that it had there, if any.
fn take_in(call: &mut Call<'_>, key: Key<'_>, member: StoredElement<'_>, deadline: Option<i64>) -> Result<()> {
    let rules = rules(call);
    let mut edit = call.view.edit::<Set>(key, SADD)?;
    let (is_new, present) = (!edit.exists(), edit.value().deadline(member));
    edit.set_event(match (present, deadline) {
        (None, None) => SADD,
        (None, Some(_)) => SADD_SEXPIRE,
        (Some(_), Some(_)) => Set::EXPIRES,
        (Some(_), None) => Set::PERSISTED,
    });
    if is_new {
        edit.change_uncounted().start(member, 1, rules);
    }
    if present.is_none() {
        edit.change().add(member, rules);
    }
    if deadline.is_some() || present.flatten().is_some() {
        edit.change().set_deadline(member, deadline, rules);
    }
    Ok(())
}

fn sscan(call: &mut Call<'_>) -> Result<()> {
    let (key, cursor) = (unexpired_key(call)?, read_cursor(&mut call.args)?);
    let Some(set) = call.view.get_set(key, Lookup::READ)? else {
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
    if set.is_packed() {
        scan.reply_packed(&mut call.reply, |reply| set.iter().map(|member| write(reply, member)).sum());
        return Ok(());
    }
    scan.reply_table(&mut call.reply, |reply, position| {
        let (mut visited, mut written) = (0, 0);
        let next = set.scan(position, |member| {
            visited += 1;
            written += write(reply, member);
        });
        (visited, written, next)
    });
    Ok(())
}
