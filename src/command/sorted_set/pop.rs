//! Commands that remove and return the elements with the lowest or the highest scores, and those that wait for one.
//!
//! A blocked call is executed again when one of its keys has changed. Inside EXEC and scripts it replies at once, as if
//! its timeout had passed.

use smallvec::SmallVec;

use crate::command::elements::reply_item;
use crate::command::keys::wait::read_timeout_in_seconds;
use crate::command::sorted_set::{ZPOPMAX, ZPOPMIN, reply_elements};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::{Reply, parse_int};
use crate::store::value::SortedSet;
use crate::store::value::sorted_set::Elements;
use crate::store::{Event, Key, Lookup};

/// An end of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn event(self) -> &'static Event {
        match self {
            End::Min => ZPOPMIN,
            End::Max => ZPOPMAX,
        }
    }

    /// Returns the command that does the same without waiting.
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
        1 => {
            let count = parse_int(call.args.bytes()?).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(Error::NotPositive)?)
        }
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

/// Replies with members and scores in turn.
fn reply_pairs(reply: &mut Reply<'_>, elements: Elements<'_>) {
    for (member, score) in elements {
        reply_item(reply, member);
        reply.double(score.get());
    }
}

/// Removes up to `count` elements from a key, and passes those to `write` together with their number. Returns how many
/// there were.
fn pop_from(
    call: &mut Call<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    write: impl FnOnce(&mut Reply<'_>, usize, Elements<'_>),
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
    edit.change().remove_ranks(ranks);
    edit.count_more(count - 1);
    Ok(count)
}

/// The request of ZMPOP and BZMPOP, after the timeout.
struct MultiPop<'a> {
    keys: SmallVec<[Key<'a>; 4]>,
    end: End,
    count: usize,
}

impl<'a> MultiPop<'a> {
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let numkeys = read_positive(args, "numkeys should be greater than 0")?;
        if numkeys >= args.left() {
            return Err(Error::Syntax);
        }
        let keys = (0..numkeys).map(|_| args.key()).collect::<Result<_>>()?;
        let end = match args.bytes()? {
            word if is_word(word, "MIN") => End::Min,
            word if is_word(word, "MAX") => End::Max,
            _ => return Err(Error::Syntax),
        };
        let mut count = None;
        while let Some(word) = args.next_arg() {
            if count.is_some() || !is_word(word, "COUNT") {
                return Err(Error::Syntax);
            }
            count = Some(read_positive(args, "count should be greater than 0")?);
        }
        Ok(MultiPop { keys, end, count: count.unwrap_or(1) })
    }

    /// Pops from the first key that has elements; returns whether there is one.
    fn pop(&self, call: &mut Call<'_>) -> Result<bool> {
        for key in &self.keys {
            let popped = pop_from(call, *key, self.end, self.count, |reply, popped, elements| {
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
                let count = itoa::Buffer::new().format(popped).to_owned();
                call.log(&[self.end.command(), key.bytes, count.as_bytes()]);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn read_positive(args: &mut Args<'_>, otherwise: &'static str) -> Result<usize> {
    let number = parse_int(args.bytes()?).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(Error::other(otherwise))
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Result<()> {
    let request = MultiPop::read(&mut call.args)?;
    if !request.pop(call)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Result<()> {
    let timeout = call.args.bytes()?;
    let request = MultiPop::read(&mut call.args)?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if is_served(call, &request.keys) && request.pop(call)? {
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

/// Returns whether a call is to look for elements: a blocked one stays blocked until one of its keys has become a
/// sorted set, whatever else they hold.
fn is_served(call: &mut Call<'_>, keys: &[Key<'_>]) -> bool {
    let is_retry = call.is_retry();
    let is_sorted_set = |key: &Key<'_>| matches!(call.view.get::<SortedSet>(*key, Lookup::PEEK), Ok(Some(_)));
    !is_retry || keys.iter().any(is_sorted_set)
}
