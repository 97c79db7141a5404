//! HGETDEL, HGETEX and HSETEX: values and deadlines of fields in one call.

use crate::command::element_expiry::{
    Expiring, ExpiryOptions, ExpirySyntax, has_passed, log_block, log_deadline, read_block, set_deadlines,
    unexpired_key,
};
use crate::command::hash::expire::WORDS;
use crate::command::hash::fields::{HDEL, HSET, growth, reply_text};
use crate::command::ttl::{DeadlineCondition, OtherTtlOption, TtlOption};
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::value::Hash;
use crate::store::{Classes, Event, Key, Lookup};

/// The event of fields that were set and got a deadline.
const HSET_HEXPIRE: &Event = &Event::one(Classes::HASH, "hset").then(Classes::HASH, "hexpire");
/// The event of fields that were set with a deadline in the past.
const HSET_HDEL: &Event = &Event::one(Classes::HASH, "hset").then(Classes::HASH, "hdel");

const INVALID_COUNT: &str = "invalid number of fields";

/// Replies with the values of fields.
fn reply_values(call: &mut Call<'_>, key: Key<'_>, fields: &[&[u8]]) -> Result<()> {
    let hash = call.view.get::<Hash>(key, Lookup::READ)?;
    call.reply.array(fields.len());
    for field in fields {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => reply_text(&mut call.reply, value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hgetdel(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    call.view.get::<Hash>(key, Lookup::PEEK)?;
    read_block(call, WORDS)?;
    let fields: Vec<&[u8]> = call.args.rest().collect();
    call.view.get::<Hash>(key, Lookup::READ)?; // counts the look-up, and removes an expired key
    let mut edit = call.view.edit::<Hash>(key, HDEL)?;
    call.reply.array(fields.len());
    let mut removed = Vec::new();
    // The fields are removed one by one: a field that is named twice is gone the second time.
    for field in fields {
        match edit.value().get(field) {
            Some(value) => reply_text(&mut call.reply, value),
            None => call.reply.null(),
        }
        if edit.annotate().is_some_and(|mut hash| hash.remove(field)) {
            removed.push(field);
        }
    }
    edit.count_more(removed.len());
    drop(edit);
    if !removed.is_empty() {
        // Servers before Redis 8.0 know HDEL, too.
        call.log(&[&[b"HDEL", key.bytes], &removed[..]].concat());
    }
    Ok(())
}

pub(super) fn hgetex(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    call.view.get::<Hash>(key, Lookup::PEEK)?;
    let ExpiryOptions { ttl, words: fields, .. } = ExpiryOptions::read(call, &HGETEX)?;
    reply_values(call, key, &fields)?;
    match ttl {
        TtlOption::Expire(end_ms) => {
            _ = set_deadlines::<Hash>(call, key, end_ms, DeadlineCondition::default(), &fields)?
        }
        TtlOption::Persist => persist(call, key, &fields)?,
        TtlOption::Absent | TtlOption::Keep => {}
    }
    Ok(())
}

/// Removes the deadlines of fields.
fn persist(call: &mut Call<'_>, key: Key<'_>, fields: &[&[u8]]) -> Result<()> {
    let mut edit = call.view.edit::<Hash>(key, Hash::PERSISTED)?;
    for field in fields {
        if edit.value().deadline(field).flatten().is_some() {
            edit.change().set_deadline(field, None);
        }
    }
    let is_changed = edit.is_changed();
    drop(edit);
    if is_changed {
        log_block(call, &[b"HPERSIST", key.bytes], WORDS.block, fields);
    }
    Ok(())
}

const HGETEX: ExpirySyntax = ExpirySyntax {
    words: WORDS,
    other: OtherTtlOption::Persist,
    two_times: "Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    conditions: None,
    invalid_count: INVALID_COUNT,
    each: 1,
    too_few: None,
};
const HSETEX: ExpirySyntax = ExpirySyntax {
    words: WORDS,
    other: OtherTtlOption::KeepTtl,
    two_times: "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    conditions: Some((["FNX", "FXX"], "Only one of FXX or FNX arguments can be specified")),
    invalid_count: INVALID_COUNT,
    each: 2,
    too_few: None,
};

/// Returns the fields of HSETEX with their values.
fn pairs<'a>(options: &ExpiryOptions<'a>) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone {
    options.words.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

pub(super) fn hsetex(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let options = ExpiryOptions::read(call, &HSETEX)?;
    let growth = growth(call);
    let end_ms = if let TtlOption::Expire(end_ms) = options.ttl { Some(end_ms) } else { None };
    let is_past = end_ms.is_some_and(|end_ms| has_passed(call, end_ms));
    let event = match (end_ms, is_past) {
        (None, _) => HSET,
        (Some(_), false) => HSET_HEXPIRE,
        (Some(_), true) => HSET_HDEL,
    };
    let mut edit = call.view.edit::<Hash>(key, event)?;
    let meets = |must_exist| pairs(&options).all(|(field, _)| edit.value().contains(field) == must_exist);
    if !options.must_exist.is_none_or(meets) {
        drop(edit);
        call.reply.int(0);
        return Ok(());
    }
    let has_deadlines = edit.value().nearest_deadline().is_some();
    let mut hash = edit.change();
    for (field, value) in pairs(&options) {
        match options.ttl {
            TtlOption::Keep => hash.set_keeping_deadline(field, value, growth),
            TtlOption::Absent | TtlOption::Persist | TtlOption::Expire(_) => hash.set(field, value, growth),
        };
        if is_past {
            hash.remove(field);
        } else if end_ms.is_some() {
            hash.set_deadline(field, end_ms);
        }
    }
    edit.count_more(pairs(&options).len() - 1);
    // A missing key that gets only fields which have expired exists for a moment.
    edit.show_passing();
    drop(edit);
    log_set(call, key, &options, (is_past, has_deadlines));
    call.reply.int(1);
    Ok(())
}

/// Logs the fields that HSETEX has set, with its time as an absolute one, without its condition, and where no time is
/// concerned as HSET, which servers before Redis 8.0 know.
fn log_set(call: &mut Call<'_>, key: Key<'_>, options: &ExpiryOptions<'_>, (is_past, has_deadlines): (bool, bool)) {
    if is_past {
        let fields: Vec<&[u8]> = pairs(options).map(|(field, _)| field).collect();
        return log_deadline::<Hash>(call, key, None, &fields);
    }
    let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    let count = count.format(pairs(options).len()).as_bytes();
    let mut args: Vec<&[u8]> = match options.ttl {
        TtlOption::Expire(end_ms) => {
            vec![b"HSETEX", key.bytes, b"PXAT", time.format(end_ms).as_bytes(), b"FIELDS", count]
        }
        TtlOption::Keep if has_deadlines => vec![b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", count],
        TtlOption::Keep | TtlOption::Absent | TtlOption::Persist => vec![b"HSET", key.bytes],
    };
    args.extend(&options.words);
    call.log(&args);
}
