//! Reading and changing lists by index or by value.

use crate::command::elements::{reply_item, resolve_range};
use crate::command::list::node_limit;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::{Classes, Event, List, ListEnd, Lookup};

/// The event of inserting an element.
const LINSERT: &Event = &Event::one(Classes::LIST, "linsert");
/// The event of replacing an element.
const LSET: &Event = &Event::one(Classes::LIST, "lset");
/// The event of removing elements with a value.
const LREM: &Event = &Event::one(Classes::LIST, "lrem");
/// The event of removing the elements outside of a range.
const LTRIM: &Event = &Event::one(Classes::LIST, "ltrim");

pub(super) fn llen(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = call.view.get::<List>(key, Lookup::READ)?.map_or(0, |list| list.len());
    call.reply.int(len as i64);
    Ok(())
}

pub(super) fn lrange(call: &mut Call<'_>) -> Result<()> {
    let (key, start, end) = (call.args.key()?, call.args.int()?, call.args.int()?);
    let Some(list) = call.view.get::<List>(key, Lookup::READ)? else {
        call.reply.array(0);
        return Ok(());
    };
    let range = resolve_range(start, end, list.len());
    call.reply.array(range.len());
    for item in list.iter_from(range.start).take(range.len()) {
        reply_item(&mut call.reply, item);
    }
    Ok(())
}

/// Resolves an index, a negative one counted from the end.
fn resolve_index(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { len as i64 + index } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

pub(super) fn lindex(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let Some(list) = call.view.get::<List>(key, Lookup::READ)? else {
        call.reply.null();
        return Ok(());
    };
    match resolve_index(call.args.int()?, list.len()).and_then(|index| list.get(index)) {
        Some(item) => reply_item(&mut call.reply, item),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn lset(call: &mut Call<'_>) -> Result<()> {
    let (key, limit) = (call.args.key()?, node_limit(call));
    let mut list = call.view.edit::<List>(key, LSET)?;
    if !list.exists() {
        return Err(Error::NoSuchKey);
    }
    let index = resolve_index(call.args.int()?, list.value().len()).ok_or(Error::other("index out of range"))?;
    list.change().set(index, call.args.bytes()?, limit);
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call<'_>) -> Result<()> {
    let (key, limit) = (call.args.key()?, node_limit(call));
    let is_after = match call.args.bytes()? {
        word if is_word(word, "AFTER") => true,
        word if is_word(word, "BEFORE") => false,
        _ => return Err(Error::Syntax),
    };
    let (pivot, text) = (call.args.bytes()?, call.args.bytes()?);
    let mut list = call.view.edit::<List>(key, LINSERT)?;
    let is_inserted = list.annotate().map(|mut list| list.insert_beside(pivot, is_after, text, limit));
    let reply = match is_inserted {
        None => 0,
        Some(false) => -1,
        Some(true) => {
            list.count_more(1);
            list.value().len() as i64
        }
    };
    call.reply.int(reply);
    Ok(())
}

pub(super) fn lrem(call: &mut Call<'_>) -> Result<()> {
    let (key, count, text) = (call.args.key()?, call.args.symmetric_int()?, call.args.bytes()?);
    let limit = node_limit(call);
    let (from, max_count) = match (if count < 0 { ListEnd::Tail } else { ListEnd::Head }, count.unsigned_abs()) {
        (from, 0) => (from, usize::MAX),
        (from, max_count) => (from, usize::try_from(max_count).unwrap_or(usize::MAX)),
    };
    let mut list = call.view.edit::<List>(key, LREM)?;
    let removed = list.annotate().map_or(0, |mut list| list.remove_equal(text, max_count, from, limit));
    list.count_more(removed);
    call.reply.int(removed as i64);
    Ok(())
}

pub(super) fn ltrim(call: &mut Call<'_>) -> Result<()> {
    let (key, start, end) = (call.args.key()?, call.args.int()?, call.args.int()?);
    let limit = node_limit(call);
    let mut list = call.view.edit::<List>(key, LTRIM)?;
    if list.exists() {
        let len = list.value().len();
        let kept = resolve_range(start, end, len);
        list.touch();
        if kept.is_empty() {
            list.empty(len);
        } else {
            let behind = len - kept.end;
            if behind > 0 {
                list.change_uncounted().remove(kept.end, behind, limit);
            }
            if kept.start > 0 {
                list.change_uncounted().remove(0, kept.start, limit);
            }
            list.count_more(kept.start + behind);
        }
    }
    call.reply.ok();
    Ok(())
}

struct Search {
    /// The number of the first match to be returned; counted from the end if negative. Never 0.
    rank: i64,
    /// The number of matches to be returned, 0 for all; `None` for a single match that is not in an array.
    count: Option<usize>,
    /// The number of elements to be compared, 0 for all.
    compared_max: usize,
}

impl Search {
    fn read(call: &mut Call<'_>) -> Result<Self> {
        let mut search = Search { rank: 1, count: None, compared_max: 0 };
        let count = |word: &[u8], error: &'static str| {
            parse_int(word).and_then(|count| usize::try_from(count).ok()).ok_or(Error::other(error))
        };
        while let Some(word) = call.args.next_arg() {
            match () {
                () if call.args.left() == 0 => return Err(Error::Syntax),
                () if is_word(word, "RANK") => search.rank = call.args.symmetric_int()?,
                () if is_word(word, "COUNT") => {
                    search.count = Some(count(call.args.bytes()?, "COUNT can't be negative")?);
                }
                () if is_word(word, "MAXLEN") => {
                    search.compared_max = count(call.args.bytes()?, "MAXLEN can't be negative")?;
                }
                () => return Err(Error::Syntax),
            }
            if search.rank == 0 {
                return Err(Error::other(
                    "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                     start from the end of the list",
                ));
            }
        }
        Ok(search)
    }
}

pub(super) fn lpos(call: &mut Call<'_>) -> Result<()> {
    let (key, text) = (call.args.key()?, call.args.bytes()?);
    let search = Search::read(call)?;
    let list = call.view.get::<List>(key, Lookup::READ)?;
    let (start, mut found) = (call.reply.mark(), 0);
    let max_count = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    if let Some(list) = list {
        let compared = if search.compared_max == 0 { usize::MAX } else { search.compared_max };
        let skipped = usize::try_from(search.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let mut reply = |index: usize| {
            found += 1;
            call.reply.int(index as i64);
        };
        if search.rank > 0 {
            let equal = list.iter().take(compared).enumerate().filter(|(_, item)| item.is(text));
            equal.skip(skipped).take(max_count).for_each(|(index, _)| reply(index));
        } else {
            let equal = list.iter().rev().take(compared).enumerate().filter(|(_, item)| item.is(text));
            equal.skip(skipped).take(max_count).for_each(|(index, _)| reply(list.len() - 1 - index));
        }
    }
    match search.count {
        Some(_) => call.reply.announce_at(start, |reply| reply.array(found)),
        None if found == 0 => call.reply.null(),
        None => {}
    }
    Ok(())
}
