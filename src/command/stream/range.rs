//! XRANGE and XREVRANGE.

use crate::command::stream::{ids, reply_entry};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{ACCESS, Group, READ, RO, integer, key, string};
use crate::store::{Lookup, Stream, StreamEntry};

const RANGE_COST: &str = "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking \
for the first 10 elements with COUNT), you can consider it O(1).";
const REVERSE_COST: &str = "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for \
the first 10 elements with COUNT), you can consider it O(1).";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XRANGE", xrange, READ, Group::Stream)
        .args(&[key("key", RO | ACCESS), string("start"), string("end"), integer("count").token("COUNT").optional()])
        .docs("5.0.0", RANGE_COST, "Returns the entries in a range of IDs."),
    Command::new("XREVRANGE", xrevrange, READ, Group::Stream)
        .args(&[key("key", RO | ACCESS), string("end"), string("start"), integer("count").token("COUNT").optional()])
        .docs("5.0.0", REVERSE_COST, "Returns the entries in a range of IDs, the last one first."),
];

fn xrange(call: &mut Call<'_>) -> Result<()> {
    range(call, false)
}

fn xrevrange(call: &mut Call<'_>) -> Result<()> {
    range(call, true)
}

fn range(call: &mut Call<'_>, is_reverse: bool) -> Result<()> {
    let key = call.args.key()?;
    let (first, second) = (call.args.bytes()?, call.args.bytes()?);
    let (start, end) = if is_reverse { (second, first) } else { (first, second) };
    let (start, end) = (ids::parse_start(start)?, ids::parse_end(end)?);
    let mut count = None;
    while let Some(word) = call.args.next_arg() {
        if !is_word(word, "COUNT") || call.args.left() == 0 {
            return Err(Error::Syntax);
        }
        count = Some(usize::try_from(call.args.int()?).unwrap_or(0));
    }
    let Some(stream) = call.view.get::<Stream>(key, Lookup::READ)? else {
        call.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    let walk = if is_reverse { stream.range_back(start, end) } else { stream.range(start, end) };
    reply_entries(&mut call.reply, walk, count.unwrap_or(usize::MAX));
    Ok(())
}

/// Writes an array of at most `max_count` entries.
pub(super) fn reply_entries<'e>(reply: &mut Reply<'_>, walk: impl Iterator<Item = StreamEntry<'e>>, max_count: usize) {
    let (start, mut count) = (reply.mark(), 0);
    for entry in walk.take(max_count) {
        reply_entry(reply, entry);
        count += 1;
    }
    reply.announce_at(start, |reply| reply.array(count));
}
