//! Parts shared by the commands of several collections: elements in replies, random elements, and stored results.

use std::ops::Range;

use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::entry::Entry;
use crate::store::value::StoredElement;
use crate::store::{Event, Key};

/// The maximum number of elements that may be repeated.
const REPEATED_MAX: u64 = 10_000_000;

/// The maximum length of a reply with elements that may be repeated, in bytes: a few long elements could fill the
/// memory otherwise.
const REPEATED_BYTES_MAX: usize = 512 << 20;

/// Resolves a first and a last index, negative ones counted from the end, to a range within `len` elements.
pub(super) fn resolve_range(first: i64, last: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let resolve = |index: i64| if index < 0 { len + index } else { index };
    let (first, last) = (resolve(first).max(0), resolve(last).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

/// Announces a number of elements, or of pairs: fields with values, members with scores.
pub(super) fn announce(reply: &mut Reply<'_>, count: usize, are_pairs: bool) {
    if are_pairs { reply.pairs(count) } else { reply.array(count) }
}

#[inline]
pub(super) fn reply_item(reply: &mut Reply<'_>, item: StoredElement<'_>) {
    match item {
        StoredElement::Text(text) => reply.bulk(text),
        StoredElement::Int(int) => reply.bulk_int(int),
    }
}

/// Stores a result, an entry with the number of its elements, whatever the key held before; without a result, the key
/// is deleted. Replies with the number.
pub(super) fn store_result(
    call: &mut Call<'_>,
    target: Key<'_>,
    result: Option<(Entry, usize)>,
    event: &'static Event,
) {
    store_as(call, target, result, event, 1);
}

/// Stores a result as [`store_result`] does, counted as `changes` changes.
pub(super) fn store_as(
    call: &mut Call<'_>,
    target: Key<'_>,
    result: Option<(Entry, usize)>,
    event: &'static Event,
    changes: usize,
) {
    let count = match result {
        Some((entry, count)) => {
            call.view.overwrite(target, entry, event, changes as u64);
            count
        }
        None => {
            call.view.discard(target);
            0
        }
    };
    call.reply.int(count as i64);
}

/// The number of random elements, and if they may repeat.
#[derive(Clone, Copy)]
pub(super) enum RandomSample {
    /// Up to this many different elements.
    Different(usize),
    /// This many elements, each chosen among all.
    Repeated(u64),
}

impl RandomSample {
    /// Returns the sample for a count, which is negative if elements may be repeated.
    pub(super) fn of(count: i64) -> Self {
        match usize::try_from(count) {
            Ok(count) => RandomSample::Different(count),
            Err(_) => RandomSample::Repeated(count.unsigned_abs()),
        }
    }

    /// Reads a count and the option to return values or scores, too; `None` without a count: the reply is a single
    /// element then.
    pub(super) fn read(args: &mut Args<'_>, option: &str) -> Result<Option<(Self, bool)>> {
        if args.left() == 0 {
            return Ok(None);
        }
        let count = args.symmetric_int()?;
        let has_option = match (args.next_arg(), args.left()) {
            (None, _) => false,
            (Some(word), 0) if is_word(word, option) => true,
            _ => return Err(Error::Syntax),
        };
        if has_option && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(out_of_range());
        }
        Ok(Some((Self::of(count), has_option)))
    }
}

/// Replies with a number of elements that may be repeated: `announce` writes the number, `each` one element.
///
/// # Errors
/// There are too many elements, or their reply is too long.
pub(super) fn reply_repeated(
    reply: &mut Reply<'_>,
    count: u64,
    announce: impl FnOnce(&mut Reply<'_>, usize),
    mut each: impl FnMut(&mut Reply<'_>),
) -> Result<()> {
    if count > REPEATED_MAX {
        return Err(out_of_range());
    }
    let before = reply.output().len();
    announce(reply, count as usize);
    for _ in 0..count {
        each(reply);
        if reply.output().len() - before > REPEATED_BYTES_MAX {
            return Err(out_of_range());
        }
    }
    Ok(())
}

fn out_of_range() -> Error {
    Error::other("value is out of range")
}
