//! Intersection, union and difference of sets, returned, counted or stored.
//!
//! A result to be stored is built as a new value, which then replaces the value of the destination: that may be one of
//! the combined sets.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::command::elements::{reply_item, store_result};
use crate::command::hyperloglog::sketch::{Registers, place};
use crate::command::multi_pop::read_numkeys;
use crate::command::set::members::{reply_set, rules};
use crate::command::set_difference::{RemovedMembers, others_cost_less};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::WRITE;
use crate::store::entry::Entry;
use crate::store::value::listpack::StoredElement;
use crate::store::value::{DataType, Packing, Set, SetMut, SetRef, SetRules};
use crate::store::{Classes, Cx, Event, Key, Lookup};

/// The event of storing an intersection.
const SINTERSTORE: &Event = &Event::one(Classes::SET, "sinterstore");
/// The event of storing a union.
const SUNIONSTORE: &Event = &Event::one(Classes::SET, "sunionstore");
/// The event of storing a difference.
const SDIFFSTORE: &Event = &Event::one(Classes::SET, "sdiffstore");

type Keys<'a> = SmallVec<[Key<'a>; 8]>;
type Sets<'e> = SmallVec<[SetRef<'e>; 8]>;

pub(super) fn sinter(call: &mut Call<'_>) -> Result<()> {
    let keys = read_keys(call)?;
    let cx = call.view.cx();
    let entries = call.view.peek_all(&keys);
    let (start, mut count) = (call.reply.mark(), 0);
    intersect(&from_smallest(&entries, &cx), |member| {
        reply_item(&mut call.reply, member);
        count += 1;
        true
    });
    call.reply.announce_at(start, |reply| reply.set(count));
    Ok(())
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Result<()> {
    let Counting { keys, mut counter, .. } = Counting::read(call, false)?;
    let cx = call.view.cx();
    intersect(&from_smallest(&call.view.peek_all(&keys), &cx), |_| counter.count());
    call.reply.int(counter.found as i64);
    Ok(())
}

pub(super) fn sdiffcard(call: &mut Call<'_>) -> Result<()> {
    let Counting { keys, mut counter, .. } = Counting::read(call, false)?;
    let (rules, cx) = (rules(call), call.view.cx());
    let removed = subtract(&call.view.peek_all(&keys), (rules, &cx), |_| counter.count());
    if let Some(removed) = removed {
        call.namespace.store.reclaimer().free(removed);
    }
    call.reply.int(counter.found as i64);
    Ok(())
}

pub(super) fn sunioncard(call: &mut Call<'_>) -> Result<()> {
    let Counting { keys, mut counter, is_estimated } = Counting::read(call, true)?;
    let (rules, cx) = (rules(call), call.view.cx());
    let sets = present(&call.view.peek_all(&keys), &cx);
    let mut members = sets.iter().flat_map(|set| set.iter());
    if is_estimated {
        let mut registers = Registers::new();
        members.for_each(|member| {
            let (index, rank) = member.with_text(place);
            registers.raise(index, rank);
        });
        counter.found = counter.limited(registers.count());
    } else if let [only] = sets[..] {
        counter.found = counter.limited(only.len() as u64);
    } else {
        let mut union = Set::draft(b"", Packing::Other, None);
        let mut draft = Set::write(&mut union);
        members.all(|member| !draft.add(member, rules) || counter.count());
        drop(sets);
        call.namespace.store.reclaimer().free(union);
    }
    call.reply.int(counter.found as i64);
    Ok(())
}

/// The arguments of a command that counts the members of a combination of sets.
struct Counting<'a> {
    keys: Keys<'a>,
    counter: Counter,
    /// True if the number is to be estimated by a HyperLogLog.
    is_estimated: bool,
}

/// Counter up to a limit; 0 is none.
struct Counter {
    found: u64,
    limit: u64,
}

impl Counter {
    /// Counts a member; returns false when the limit is reached.
    fn count(&mut self) -> bool {
        self.found += 1;
        self.found != self.limit
    }

    fn limited(&self, count: u64) -> u64 {
        if self.limit == 0 { count } else { count.min(self.limit) }
    }
}

impl<'a> Counting<'a> {
    /// Parses the number of keys, the keys, and `LIMIT`; with `may_estimate`, also `APPROX`.
    fn read(call: &mut Call<'a>, may_estimate: bool) -> Result<Self> {
        let count = read_numkeys(&mut call.args)?;
        if count > call.args.left() {
            return Err(Error::other("Number of keys can't be greater than number of args"));
        }
        let keys: Keys<'_> = (0..count).map(|_| call.args.key()).collect::<Result<_>>()?;
        let (mut limit, mut is_estimated) = (0, false);
        while let Some(word) = call.args.next_arg() {
            if may_estimate && is_word(word, "APPROX") {
                is_estimated = true;
            } else if is_word(word, "LIMIT") {
                let given = parse_int(call.args.bytes()?).and_then(|limit| u64::try_from(limit).ok());
                limit = given.ok_or(Error::other("LIMIT can't be negative"))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        check_types(call, &keys)?;
        Ok(Counting { keys, counter: Counter { found: 0, limit }, is_estimated })
    }
}

/// Handles SINTERSTORE. As in Redis, the result of sets that are not all intsets is built as a listpack, and converted
/// in the end.
pub(super) fn sinterstore(call: &mut Call<'_>) -> Result<()> {
    let destination = call.args.key()?;
    let (keys, rules) = (read_keys(call)?, rules(call));
    let cx = call.view.cx();
    let entries = call.view.peek_all(&keys);
    let sets = from_smallest(&entries, &cx);
    let packing = if matches!(sets[..], [SetRef::Ints(_), ..]) { Packing::Other } else { Packing::Listpack };
    let mut result = Set::draft(destination.bytes, packing, None);
    let mut draft = Set::write(&mut result);
    intersect(&sets, |member| draft.add(member, rules));
    draft.shrink_to_ints(rules);
    take_deadlines(&mut draft, &sets, rules);
    drop((entries, sets));
    store(call, destination, result, SINTERSTORE);
    Ok(())
}

pub(super) fn sunion(call: &mut Call<'_>) -> Result<()> {
    let (keys, rules, cx) = (read_keys(call)?, rules(call), call.view.cx());
    let sets = present(&call.view.peek_all(&keys), &cx);
    if let [only] = sets[..] {
        reply_set(&mut call.reply, only);
        return Ok(());
    }
    let mut union = Set::draft(b"", Packing::Other, None);
    let mut draft = Set::write(&mut union);
    if !sets.iter().all(|set| matches!(set, SetRef::Ints(_))) {
        draft.expect(usize::MAX, rules); // a table, for the fastest look-ups
    }
    for member in sets.iter().flat_map(|set| set.iter()) {
        draft.add(member, rules);
    }
    reply_set(&mut call.reply, draft.as_ref());
    call.namespace.store.reclaimer().free(union);
    Ok(())
}

pub(super) fn sunionstore(call: &mut Call<'_>) -> Result<()> {
    let destination = call.args.key()?;
    let (keys, rules) = (read_keys(call)?, rules(call));
    let mut result = Set::draft(destination.bytes, Packing::Other, None);
    let mut draft = Set::write(&mut result);
    let cx = call.view.cx();
    let sets = present(&call.view.peek_all(&keys), &cx);
    for member in sets.iter().flat_map(|set| set.iter()) {
        draft.add(member, rules);
    }
    take_deadlines(&mut draft, &sets, rules);
    drop(sets);
    store(call, destination, result, SUNIONSTORE);
    Ok(())
}

pub(super) fn sdiff(call: &mut Call<'_>) -> Result<()> {
    let (keys, rules) = (read_keys(call)?, rules(call));
    let cx = call.view.cx();
    let entries = call.view.peek_all(&keys);
    let (start, mut count) = (call.reply.mark(), 0);
    let removed = subtract(&entries, (rules, &cx), |member| {
        reply_item(&mut call.reply, member);
        count += 1;
        true
    });
    if let Some(removed) = removed {
        call.namespace.store.reclaimer().free(removed);
    }
    call.reply.announce_at(start, |reply| reply.set(count));
    Ok(())
}

pub(super) fn sdiffstore(call: &mut Call<'_>) -> Result<()> {
    let destination = call.args.key()?;
    let (keys, rules) = (read_keys(call)?, rules(call));
    let mut result = Set::draft(destination.bytes, Packing::Other, None);
    let mut draft = Set::write(&mut result);
    let cx = call.view.cx();
    let entries = call.view.peek_all(&keys);
    let removed = subtract(&entries, (rules, &cx), |member| {
        draft.add(member, rules);
        true
    });
    take_deadlines(&mut draft, &present(&entries[..entries.len().min(1)], &cx), rules);
    drop(entries);
    if let Some(removed) = removed {
        call.namespace.store.reclaimer().free(removed);
    }
    store(call, destination, result, SDIFFSTORE);
    Ok(())
}

/// Returns the keys of the sets, to the end of the request.
fn read_keys<'a>(call: &mut Call<'a>) -> Result<Keys<'a>> {
    let keys: Keys<'a> = (0..call.args.left()).map(|_| call.args.key()).collect::<Result<_>>()?;
    check_types(call, &keys)?;
    Ok(keys)
}

/// Looks the keys up, without members that have expired, and rejects values other than sets.
fn check_types(call: &mut Call<'_>, keys: &[Key<'_>]) -> Result<()> {
    for key in keys {
        call.view.expire_fields(*key, call.command.flags & WRITE != 0);
        call.view.get::<Set>(*key, Lookup::READ)?;
    }
    Ok(())
}

/// Returns the sets of the keys that exist, as a call sees them.
fn present<'e>(entries: &[Option<&'e Entry>], cx: &Cx) -> Sets<'e> {
    entries.iter().flatten().map(|entry| Set::read(entry).seen_by(cx)).collect()
}

/// Gives the members of a result the earliest deadlines that they have in any of the sets.
fn take_deadlines(draft: &mut SetMut<'_>, sets: &[SetRef<'_>], rules: SetRules<'_>) {
    for set in sets {
        let SetRef::Timed(timed) = set else { continue };
        for (member, deadline) in timed.iter() {
            let Some(at_ms) = deadline else { continue };
            let present = draft.as_ref().deadline(member);
            if present.is_some_and(|present| present.is_none_or(|present_ms| at_ms < present_ms)) {
                draft.set_deadline(member, deadline, rules);
            }
        }
    }
}

/// Returns the sets, the smallest first; none if one of them is missing, because the intersection is empty then.
fn from_smallest<'e>(entries: &[Option<&'e Entry>], cx: &Cx) -> Sets<'e> {
    let mut sets = if entries.iter().all(Option::is_some) { present(entries, cx) } else { Sets::new() };
    sets.sort_by_key(|set| set.len());
    sets
}

/// Visits the members common to all sets, until `visit` returns false.
fn intersect(sets: &[SetRef<'_>], mut visit: impl FnMut(StoredElement<'_>) -> bool) {
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.iter() {
        if others.iter().all(|other| other.contains(member)) && !visit(member) {
            return;
        }
    }
}

/// Visits the members of the first set that no other set has, until `visit` returns false. Returns the intermediate set,
/// if any, to be freed.
fn subtract(
    entries: &[Option<&Entry>],
    (rules, cx): (SetRules<'_>, &Cx),
    mut visit: impl FnMut(StoredElement<'_>) -> bool,
) -> Option<Entry> {
    let (Some(first), others) = entries.split_first()? else { return None };
    let first = Set::read(first).seen_by(cx);
    let mut others = present(others, cx);
    if others_cost_less(first.len(), others.iter().map(|other| other.len())) {
        let removed =
            RemovedMembers::from(others.iter().flat_map(|other| other.iter()), rules, |member| first.contains(member));
        first.iter().filter(|member| !removed.has(*member)).all(visit);
        return Some(removed.into_entry());
    }
    others.sort_by_key(|other| Reverse(other.len())); // large sets are asked first, since they have more members
    for member in first.iter() {
        if !others.iter().any(|other| other.contains(member)) && !visit(member) {
            break;
        }
    }
    None
}

fn store(call: &mut Call<'_>, destination: Key<'_>, result: Entry, event: &'static Event) {
    let len = Set::read(&result).len();
    store_result(call, destination, (len > 0).then_some((result, len)), event);
}
