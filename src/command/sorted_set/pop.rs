//! Commands that remove and return the elements with the lowest or the highest scores, and their blocking forms.
//!
//! A blocked call is executed again when one of its keys has changed. Inside EXEC and scripts it replies at once, as if
//! its timeout had passed.

use smallvec::SmallVec;

use crate::command::elements::reply_item;
use crate::command::multi_pop::MultiPop;
use crate::command::sorted_set::elements::reply_elements;
use crate::command::sorted_set::range::remove_ranks;
use crate::command::timeout::read_timeout_in_seconds;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::value::SortedSet;
use crate::store::value::sorted_set::ScoredElements;
use crate::store::{Classes, Event, Key, Lookup};

/// The event of removing elements with the lowest scores.
const ZPOPMIN: &Event = &Event::one(Classes::ZSET, "zpopmin");
/// The event of removing elements with the highest scores.
const ZPOPMAX: &Event = &Event::one(Classes::ZSET, "zpopmax");

/// An end of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Min,
    Max,
}

impl End {
    pub(super) fn event(self) -> &'static Event {
        match self {
            End::Min => ZPOPMIN,
            End::Max => ZPOPMAX,
        }
    }

    /// Returns the equivalent command that does not wait.
    fn command(self) -> &'static [u8] {
        match self {
            End::Min => b"ZPOPMIN",
            End::Max => b"ZPOPMAX",
        }
    }
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Result<()> {
    pop(call, End::Min)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Result<()> {
    pop(call, End::Max)
}

fn pop(call: &mut Call<'_>, end: End) -> Result<()> {
    let key = call.args.key()?;
    let count = match call.args.left() {
        0 => None,
        1 => Some(call.args.count()?),
        _ => return Err(Error::Syntax),
    };
    let popped = pop_from(call, key, end, count.unwrap_or(1), |reply, popped, elements| match count {
        Some(_) => reply_elements(reply, popped, elements, true),
        // A single element is a flat pair in both protocols.
        None => {
            reply.array(2);
            reply_pairs(reply, elements);
        }
    })?;
    if popped == 0 {
        call.reply.array(0);
    }
    Ok(())
}

/// Replies with members and scores alternating.
fn reply_pairs(reply: &mut Reply<'_>, elements: ScoredElements<'_>) {
    for (member, score) in elements {
        reply_item(reply, member);
        reply.double(score.get());
    }
}

/// Removes up to `count` elements from a key, and passes them to `write` together with their number. Returns their
/// number.
fn pop_from(
    call: &mut Call<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    write: impl FnOnce(&mut Reply<'_>, usize, ScoredElements<'_>),
) -> Result<usize> {
    let mut edit = call.view.edit::<SortedSet>(key, end.event())?;
    let set = edit.value();
    let len = set.len();
    let count = count.min(len);
    if count == 0 {
        return Ok(0);
    }
    let ranks = if end == End::Min { 0..count } else { len - count..len };
    write(&mut call.reply, count, set.elements(ranks.clone(), end == End::Max));
    remove_ranks(&mut edit, ranks);
    Ok(count)
}

/// Parses an end.
pub(super) fn read_end(args: &mut Args<'_>) -> Result<End> {
    match args.bytes()? {
        word if is_word(word, "MIN") => Ok(End::Min),
        word if is_word(word, "MAX") => Ok(End::Max),
        _ => Err(Error::Syntax),
    }
}

/// Removes elements of the first key that has any, and replies with the key and the elements; returns true if there is
/// one.
fn pop_first_of(call: &mut Call<'_>, request: &MultiPop<'_, End>) -> Result<bool> {
    for key in &request.keys {
        let popped = pop_from(call, *key, request.end, request.count, |reply, popped, elements| {
            reply.array(2);
            reply.bulk(key.bytes);
            reply.array(popped);
            for (member, score) in elements {
                reply.array(2);
                reply_item(reply, member);
                reply.double(score.get());
            }
        })?;
        if popped > 0 {
            call.log(&[request.end.command(), key.bytes, itoa::Buffer::new().format(popped).as_bytes()]);
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Result<()> {
    let request = MultiPop::read(&mut call.args, read_end)?;
    if !pop_first_of(call, &request)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Result<()> {
    let timeout = call.args.bytes()?;
    let request = MultiPop::read(&mut call.args, read_end)?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if is_served(call, &request.keys) && pop_first_of(call, &request)? {
        return Ok(());
    }
    call.block_on_keys::<SortedSet>(until_ms, |reply| reply.null_array());
    Ok(())
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Result<()> {
    blocking_pop(call, End::Min)
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Result<()> {
    blocking_pop(call, End::Max)
}

fn blocking_pop(call: &mut Call<'_>, end: End) -> Result<()> {
    let keys = (1..call.args.left()).map(|_| call.args.key()).collect::<Result<SmallVec<[Key<'_>; 4]>>>()?;
    let timeout = call.args.bytes()?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if is_served(call, &keys) {
        for key in keys {
            let popped = pop_from(call, key, end, 1, |reply, _, elements| {
                reply.array(3);
                reply.bulk(key.bytes);
                reply_pairs(reply, elements);
            })?;
            if popped > 0 {
                call.log(&[end.command(), key.bytes]);
                return Ok(());
            }
        }
    }
    call.block_on_keys::<SortedSet>(until_ms, |reply| reply.null_array());
    Ok(())
}

/// Returns true if a call may look for elements: a blocked call stays blocked until one of its keys has become a sorted
/// set, whatever the other keys hold.
pub(super) fn is_served(call: &mut Call<'_>, keys: &[Key<'_>]) -> bool {
    let is_retry = call.is_retry();
    let is_sorted_set = |key: &Key<'_>| matches!(call.view.get::<SortedSet>(*key, Lookup::PEEK), Ok(Some(_)));
    !is_retry || keys.iter().any(is_sorted_set)
}
