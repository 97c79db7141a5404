//! Adding and removing at the ends of lists.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use crate::command::elements::reply_item;
use crate::command::multi_pop::MultiPop;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::shard::Edit;
use crate::store::{Classes, Event, Key, List, ListEnd, ListRef, Lookup, NodeLimit};

/// The event of adding elements at the head.
const LPUSH: &Event = &Event::one(Classes::LIST, "lpush");
/// The event of adding elements at the tail.
const RPUSH: &Event = &Event::one(Classes::LIST, "rpush");
/// The event of removing elements from the head.
const LPOP: &Event = &Event::one(Classes::LIST, "lpop");
/// The event of removing elements from the tail.
const RPOP: &Event = &Event::one(Classes::LIST, "rpop");

/// Parses an end of a list.
pub(super) fn read_end(args: &mut Args<'_>) -> Result<ListEnd> {
    match args.bytes()? {
        word if is_word(word, "LEFT") => Ok(ListEnd::Head),
        word if is_word(word, "RIGHT") => Ok(ListEnd::Tail),
        _ => Err(Error::Syntax),
    }
}

/// Returns the event of adding elements at an end.
pub(super) fn pushed(at: ListEnd) -> &'static Event {
    if at == ListEnd::Head { LPUSH } else { RPUSH }
}

/// Returns the event of removing elements from an end.
pub(super) fn popped(at: ListEnd) -> &'static Event {
    if at == ListEnd::Head { LPOP } else { RPOP }
}

/// Returns the command that removes elements from an end.
pub(super) fn pop_command(at: ListEnd) -> &'static [u8] {
    if at == ListEnd::Head { b"LPOP" } else { b"RPOP" }
}

/// Returns the command that adds elements at an end.
pub(super) fn push_command(at: ListEnd) -> &'static [u8] {
    if at == ListEnd::Head { b"LPUSH" } else { b"RPUSH" }
}

/// Returns the word for an end.
pub(super) fn end_word(at: ListEnd) -> &'static [u8] {
    if at == ListEnd::Head { b"LEFT" } else { b"RIGHT" }
}

pub(super) fn lpush(call: &mut Call<'_>) -> Result<()> {
    push(call, ListEnd::Head, LPUSH, false)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Result<()> {
    push(call, ListEnd::Tail, RPUSH, false)
}

pub(super) fn lpushx(call: &mut Call<'_>) -> Result<()> {
    push(call, ListEnd::Head, LPUSH, true)
}

pub(super) fn rpushx(call: &mut Call<'_>) -> Result<()> {
    push(call, ListEnd::Tail, RPUSH, true)
}

#[inline]
fn push(call: &mut Call<'_>, at: ListEnd, event: &'static Event, must_exist: bool) -> Result<()> {
    let (key, limit) = (call.args.key()?, node_limit(call));
    let mut list = call.view.edit::<List>(key, event)?;
    let mut len = 0;
    if !must_exist || list.exists() {
        let texts = call.args.rest();
        list.count_more(texts.len() - 1);
        len = list.change().push(texts, at, limit);
    }
    drop(list);
    call.reply.int(len as i64);
    Ok(())
}

pub(super) fn lpop(call: &mut Call<'_>) -> Result<()> {
    pop(call, ListEnd::Head, LPOP)
}

pub(super) fn rpop(call: &mut Call<'_>) -> Result<()> {
    pop(call, ListEnd::Tail, RPOP)
}

#[inline]
fn pop(call: &mut Call<'_>, at: ListEnd, event: &'static Event) -> Result<()> {
    if call.args.left() > 1 {
        return pop_several(call, at, event);
    }
    let (key, limit) = (call.args.key()?, node_limit(call));
    let mut list = call.view.edit::<List>(key, event)?;
    let is_popped = list.exists() && list.change().pop(at, limit, |item| reply_item(&mut call.reply, item));
    if !is_popped {
        call.reply.null();
    }
    Ok(())
}

fn pop_several(call: &mut Call<'_>, at: ListEnd, event: &'static Event) -> Result<()> {
    let key = call.args.key()?;
    if call.args.left() > 1 {
        return Err(Error::WrongArity(call.name().into()));
    }
    let (count, limit) = (call.args.count()?, node_limit(call));
    let mut list = call.view.edit::<List>(key, event)?;
    if !list.exists() {
        call.reply.null_array();
        return Ok(());
    }
    reply_and_remove(&mut call.reply, &mut list, at, count, limit);
    Ok(())
}

/// Replies with up to `count` elements from an end on, and removes them; returns their number. A list that loses all
/// its elements is freed as a whole.
fn reply_and_remove(
    reply: &mut Reply<'_>,
    list: &mut Edit<'_, '_, List>,
    at: ListEnd,
    count: usize,
    limit: NodeLimit,
) -> usize {
    let (value, len) = (list.value(), list.value().len());
    let count = count.min(len);
    reply.array(count);
    match at {
        ListEnd::Head => value.iter().take(count).for_each(|item| reply_item(reply, item)),
        ListEnd::Tail => value.iter().rev().take(count).for_each(|item| reply_item(reply, item)),
    }
    match count {
        0 => {}
        all if all == len => list.empty(all),
        some => {
            list.change().remove(if at == ListEnd::Head { 0 } else { len - some }, some, limit);
            list.count_more(some - 1);
        }
    }
    count
}

pub(super) fn lmpop(call: &mut Call<'_>) -> Result<()> {
    let request = MultiPop::read(&mut call.args, read_end)?;
    if !pop_first_of(call, &request)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Removes elements of the first list that has any, and replies with its key and the elements; returns true if there
/// was one.
pub(super) fn pop_first_of(call: &mut Call<'_>, request: &MultiPop<'_, ListEnd>) -> Result<bool> {
    let (at, limit) = (request.end, node_limit(call));
    for key in &request.keys {
        let mut list = call.view.edit::<List>(*key, popped(at))?;
        if !list.exists() {
            continue;
        }
        call.reply.array(2);
        call.reply.bulk(key.bytes);
        let count = reply_and_remove(&mut call.reply, &mut list, at, request.count, limit);
        drop(list);
        call.log(&[pop_command(at), key.bytes, itoa::Buffer::new().format(count).as_bytes()]);
        return Ok(true);
    }
    Ok(false)
}

pub(super) fn lmove(call: &mut Call<'_>) -> Result<()> {
    let keys = (call.args.key()?, call.args.key()?);
    let ends = (read_end(&mut call.args)?, read_end(&mut call.args)?);
    move_or_null(call, keys, ends)
}

pub(super) fn rpoplpush(call: &mut Call<'_>) -> Result<()> {
    let keys = (call.args.key()?, call.args.key()?);
    move_or_null(call, keys, (ListEnd::Tail, ListEnd::Head))
}

fn move_or_null(call: &mut Call<'_>, keys: (Key<'_>, Key<'_>), ends: (ListEnd, ListEnd)) -> Result<()> {
    if !move_element(call, keys, ends)? {
        call.reply.null();
    }
    Ok(())
}

/// Moves an element from an end of one list to an end of another, and replies with it; returns true if there was one.
pub(super) fn move_element(
    call: &mut Call<'_>,
    keys: (Key<'_>, Key<'_>),
    (from, to): (ListEnd, ListEnd),
) -> Result<bool> {
    let (source, target) = keys;
    let limit = node_limit(call);
    let mut buffer: SmallVec<[u8; 128]> = SmallVec::new();
    match call.view.get::<List>(source, Lookup::WRITE)?.and_then(|list| list.end(from)) {
        Some(item) => item.with_text(|text| buffer.extend_from_slice(text)),
        None => return Ok(false),
    }
    if source.bytes == target.bytes {
        rotate(call, source, (from, to), &buffer)?;
    } else {
        let mut list = call.view.edit::<List>(target, pushed(to))?;
        list.change_uncounted().push(std::iter::once(&buffer[..]), to, limit);
        drop(list);
        call.view.edit::<List>(source, popped(from))?.change().pop(from, limit, |_| {});
    }
    call.reply.bulk(&buffer);
    Ok(true)
}

/// Moves the element at one end of a list, whose text is given, to the other end or to the same.
fn rotate(call: &mut Call<'_>, key: Key<'_>, (from, to): (ListEnd, ListEnd), text: &[u8]) -> Result<()> {
    let limit = node_limit(call);
    let mut list = call.view.edit::<List>(key, rotation(from, to))?;
    let text = std::iter::once(text);
    // The operations are in the order in which the list does not change its encoding in between.
    if matches!(list.value(), ListRef::Packed(_)) {
        list.change().pop(from, limit, |_| {});
        list.change_uncounted().push(text, to, limit);
    } else {
        list.change().push(text, to, limit);
        list.change_uncounted().pop(from, limit, |_| {});
    }
    Ok(())
}

/// Returns the events of moving elements from one end of a list to the other, or to the same.
pub(super) fn rotation(from: ListEnd, to: ListEnd) -> &'static Event {
    const EVENTS: [&Event; 4] = [
        &Event::one(Classes::LIST, "lpush").then(Classes::LIST, "lpop"),
        &Event::one(Classes::LIST, "lpush").then(Classes::LIST, "rpop"),
        &Event::one(Classes::LIST, "rpush").then(Classes::LIST, "lpop"),
        &Event::one(Classes::LIST, "rpush").then(Classes::LIST, "rpop"),
    ];
    EVENTS[usize::from(to == ListEnd::Tail) * 2 + usize::from(from == ListEnd::Tail)]
}

/// Returns the limits of a list's nodes, by the settings and DEBUG.
#[inline]
pub(crate) fn node_limit(call: &Call<'_>) -> NodeLimit {
    NodeLimit { node: call.config.limits().list, large_min: call.namespace.debug.large_element_min.load(Relaxed) }
}
