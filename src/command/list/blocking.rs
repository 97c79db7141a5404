//! Commands that wait for an element of a list.
//!
//! A call that finds no element is executed again when one of its keys has become a list. Inside EXEC and scripts it
//! replies at once, as if its timeout had passed.

use crate::command::elements::reply_item;
use crate::command::list::ends::{end_word, move_element, pop_command, pop_first_of, popped, read_end};
use crate::command::list::node_limit;
use crate::command::multi_pop::MultiPop;
use crate::command::timeout::read_timeout_in_seconds;
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::{Key, List, ListEnd};

pub(super) fn blpop(call: &mut Call<'_>) -> Result<()> {
    blocking_pop(call, ListEnd::Head)
}

pub(super) fn brpop(call: &mut Call<'_>) -> Result<()> {
    blocking_pop(call, ListEnd::Tail)
}

fn blocking_pop(call: &mut Call<'_>, at: ListEnd) -> Result<()> {
    let request = call.args.request();
    let until_ms = read_timeout_in_seconds(call, request.arg(request.len() - 1))?;
    let limit = node_limit(call);
    while call.args.left() > 1 {
        let key = call.args.key()?;
        let mut list = call.view.edit::<List>(key, popped(at))?;
        if !list.exists() {
            continue;
        }
        call.reply.array(2);
        call.reply.bulk(key.bytes);
        list.change().pop(at, limit, |item| reply_item(&mut call.reply, item));
        drop(list);
        call.log(&[pop_command(at), key.bytes]);
        return Ok(());
    }
    call.block_on_keys::<List>(until_ms, |reply| reply.null_array());
    Ok(())
}

pub(super) fn blmpop(call: &mut Call<'_>) -> Result<()> {
    let timeout = call.args.bytes()?;
    let request = MultiPop::read(&mut call.args, read_end)?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if !pop_first_of(call, &request)? {
        call.block_on_keys::<List>(until_ms, |reply| reply.null_array());
    }
    Ok(())
}

pub(super) fn blmove(call: &mut Call<'_>) -> Result<()> {
    let keys = (call.args.key()?, call.args.key()?);
    let ends = (read_end(&mut call.args)?, read_end(&mut call.args)?);
    let timeout = call.args.bytes()?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if move_or_block(call, keys, ends, until_ms)? {
        let ((source, target), (from, to)) = (keys, ends);
        call.log(&[b"LMOVE", source.bytes, target.bytes, end_word(from), end_word(to)]);
    }
    Ok(())
}

pub(super) fn brpoplpush(call: &mut Call<'_>) -> Result<()> {
    let keys = (call.args.key()?, call.args.key()?);
    let timeout = call.args.bytes()?;
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if move_or_block(call, keys, (ListEnd::Tail, ListEnd::Head), until_ms)? {
        call.log(&[b"RPOPLPUSH", keys.0.bytes, keys.1.bytes]);
    }
    Ok(())
}

/// Moves an element, or blocks until there is one; returns true if an element was moved.
fn move_or_block(
    call: &mut Call<'_>,
    keys: (Key<'_>, Key<'_>),
    ends: (ListEnd, ListEnd),
    until_ms: u64,
) -> Result<bool> {
    if move_element(call, keys, ends)? {
        return Ok(true);
    }
    // A call that must not block replies as LMOVE does; a timeout is replied as for several keys.
    if call.is_nested() {
        call.reply.null()
    } else {
        call.block_on_keys::<List>(until_ms, |reply| reply.null_array())
    }
    Ok(false)
}
