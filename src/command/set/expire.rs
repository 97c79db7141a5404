//! Deadlines of members: SEXPIRE, STTL, SPERSIST and related commands, and SADDEX.

use crate::command::element_expiry::{
    self, Expiring, ExpiryOptions, ExpirySyntax, ExpiryWords, has_passed, in_seconds, log_deadline, unexpired_key,
};
use crate::command::set::members::{SADD, SREM, rules};
use crate::command::ttl::{OtherTtlOption, TtlOption, Unit};
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::value::listpack::StoredElement;
use crate::store::value::{Set, SetMut, SetRef, SetRules};
use crate::store::{Classes, Event, Key, SideRecord};
use crate::types::set_deadlines;

/// The words of the commands on members, and their errors.
const WORDS: &ExpiryWords = &ExpiryWords {
    block: "MEMBERS",
    not_in_place: "Mandatory argument MEMBERS is missing or not at the right position",
    no_such_number: "The `nummembers` parameter must match the number of arguments",
    not_greater: "Parameter `numMembers` should be greater than 0",
    not_positive: "Number of members must be a positive integer",
    no_count: "MEMBERS requires at least nummembers and one member argument",
    two_blocks: "MEMBERS keyword specified multiple times",
    no_block: "missing MEMBERS argument",
    remove: "SREM",
    expire_at: "SPEXPIREAT",
};

/// The event of members that were added with a deadline.
pub(super) const SADD_SEXPIRE: &Event = &Event::one(Classes::SET, "sadd").then(Classes::SET, "sexpire");

impl Expiring for Set {
    const WORDS: &'static ExpiryWords = WORDS;
    const REMOVED: &'static Event = SREM;
    const EXPIRES: &'static Event = &Event::one(Classes::SET, "sexpire");
    const PERSISTED: &'static Event = &Event::one(Classes::SET, "spersist");

    fn deadline(set: &SetRef<'_>, member: &[u8]) -> Option<Option<i64>> {
        set.deadline(StoredElement::of(member))
    }

    fn set_deadline(set: &mut SetMut<'_>, member: &[u8], deadline: Option<i64>, rules: SetRules<'_>) {
        set.set_deadline(StoredElement::of(member), deadline, rules);
    }

    fn remove(set: &mut SetMut<'_>, member: &[u8]) -> bool {
        set.remove(StoredElement::of(member))
    }
}

pub(super) fn sexpire(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Set>(call, Unit::Seconds)
}

pub(super) fn spexpire(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Set>(call, Unit::Milliseconds)
}

pub(super) fn sexpireat(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Set>(call, Unit::UnixSeconds)
}

pub(super) fn spexpireat(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Set>(call, Unit::UnixMilliseconds)
}

pub(super) fn sttl(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Set>(call, |end_ms, now_ms| in_seconds((end_ms - now_ms).max(0)))
}

pub(super) fn spttl(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Set>(call, |end_ms, now_ms| (end_ms - now_ms).max(0))
}

pub(super) fn sexpiretime(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Set>(call, |end_ms, _| in_seconds(end_ms))
}

pub(super) fn spexpiretime(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Set>(call, |end_ms, _| end_ms)
}

pub(super) fn spersist(call: &mut Call<'_>) -> Result<()> {
    element_expiry::persist::<Set>(call)
}

const SADDEX: ExpirySyntax = ExpirySyntax {
    words: WORDS,
    other: OtherTtlOption::KeepTtl,
    two_times: "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    conditions: Some((["MNX", "MXX"], "Only one of MXX or MNX arguments can be specified")),
    invalid_count: "invalid number of members",
    each: 1,
    too_few: Some("wrong number of arguments"),
};

/// Handles SADDEX. As in Redis, a deadline in the past removes the members that exist, and adds none.
pub(super) fn saddex(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let options = ExpiryOptions::read(call, &SADDEX)?;
    let end_ms = if let TtlOption::Expire(end_ms) = options.ttl { Some(end_ms) } else { None };
    let is_past = end_ms.is_some_and(|end_ms| has_passed(call, end_ms));
    let event = match end_ms {
        _ if is_past => SREM,
        Some(_) => SADD_SEXPIRE,
        None => SADD,
    };
    let edit = call.view.edit::<Set>(key, event)?;
    let meets =
        |must_exist| options.words.iter().all(|member| edit.value().contains(StoredElement::of(member)) == must_exist);
    let is_met = options.must_exist.is_none_or(meets);
    drop(edit);
    if is_met && is_past {
        remove(call, key, &options.words)?;
    } else if is_met {
        add(call, key, event, (end_ms, options.ttl == TtlOption::Keep), &options.words)?;
    }
    call.reply.int(i64::from(is_met));
    Ok(())
}

/// Removes members, each of which is logged.
fn remove(call: &mut Call<'_>, key: Key<'_>, members: &[&[u8]]) -> Result<()> {
    let (mut edit, mut removed) = (call.view.edit::<Set>(key, SREM)?, Vec::new());
    if let Some(mut set) = edit.annotate() {
        removed.extend(members.iter().copied().filter(|member| set.remove(StoredElement::of(member))));
    }
    edit.count_more(removed.len());
    drop(edit);
    log_deadline::<Set>(call, key, None, &removed);
    Ok(())
}

/// Adds members, with a deadline or without; those that exist lose theirs, unless they `keep` them. The deadlines are
/// logged beside an SADD, so that servers before Redis 8.12 have the members.
fn add(
    call: &mut Call<'_>,
    key: Key<'_>,
    event: &'static Event,
    (end_ms, keeps): (Option<i64>, bool),
    members: &[&[u8]],
) -> Result<()> {
    let rules = rules(call);
    let (mut edit, mut persisted) = (call.view.edit::<Set>(key, event)?, Vec::new());
    let (is_new, first) =
        (!edit.exists(), members.first().map_or(StoredElement::Int(0), |first| StoredElement::of(first)));
    let mut set = edit.change();
    if is_new {
        set.start(first, members.len(), rules);
    } else {
        set.expect(members.len(), rules);
    }
    for text in members.iter().copied() {
        let member = StoredElement::of(text);
        let is_added = set.add(member, rules);
        if end_ms.is_some() {
            set.set_deadline(member, end_ms, rules);
        } else if !is_added && !keeps && set.as_ref().deadline(member).flatten().is_some() {
            set.set_deadline(member, None, rules);
            persisted.push(text);
        }
    }
    edit.count_more(members.len() - 1);
    drop(edit);
    call.log(&[&[b"SADD", key.bytes], members].concat());
    let timed = if end_ms.is_some() { members } else { &persisted };
    if !timed.is_empty() {
        let text = set_deadlines::text_of(timed, end_ms);
        call.log(&[b"PING", &SideRecord::Members { key: key.bytes, text: &text }.word()]);
    }
    Ok(())
}
