//! Arrays of documents.

use crate::command::json::args::{DocumentPath, missing_or, next_int, next_path, rest_encoded, text};
use crate::command::json::change::{ValueChange, change_values, check_depth, last_reply, reply_all};
use crate::command::json::get::{JsonReplyFormat, reply_value};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::json::{self, JsonKind, JsonLayout, JsonNode};
use crate::resp::{Protocol, parse_int};
use crate::store::{Classes, Event};

const ARRAPPEND: &Event = &Event::one(Classes::MODULE, "json.arrappend");
const ARRINSERT: &Event = &Event::one(Classes::MODULE, "json.arrinsert");
const ARRPOP: &Event = &Event::one(Classes::MODULE, "json.arrpop");
const ARRTRIM: &Event = &Event::one(Classes::MODULE, "json.arrtrim");

const NOT_AN_ARRAY: &str = "not an array";

fn is_array(node: JsonNode<'_>) -> bool {
    matches!(node.kind(), JsonKind::Array(_))
}

/// Returns the number of elements.
fn count_of(array: JsonNode<'_>) -> usize {
    match array.kind() {
        JsonKind::Array(count) => count,
        _ => 0,
    }
}

/// Replies with the new number of elements of each array, or of the last.
fn reply_counts(call: &mut Call<'_>, replies: Vec<Option<usize>>, path: &DocumentPath<'_>, shown: &str) -> Result<()> {
    if path.is_legacy {
        let count = last_reply(replies, || missing_or(shown, NOT_AN_ARRAY))?;
        call.reply.int(count as i64);
    } else {
        reply_all(call, replies, |call, count| call.reply.int(count as i64));
    }
    Ok(())
}

/// Inserts values into an array.
fn inserted(array: JsonNode<'_>, at: usize, values: &[Vec<u8>], room: usize) -> Result<ValueChange<usize>> {
    let depth = values.iter().map(|value| json::depth_of(value)).max().unwrap_or(0);
    check_depth(depth + 1, room)?;
    Ok(ValueChange { value: json::spliced(array, at, 0, values), reply: count_of(array) + values.len() })
}

pub(super) fn append(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, next_path(call)?);
    let values = rest_encoded(call)?;
    let replies = change_values(call, key, &path, ARRAPPEND, is_array, |array, room| {
        inserted(array, count_of(array), &values, room)
    })?;
    reply_counts(call, replies, &path, path.given)
}

pub(super) fn insert(call: &mut Call<'_>) -> Result<()> {
    let (key, path, index) = (call.args.key()?, next_path(call)?, next_int(call)?);
    let values = rest_encoded(call)?;
    let replies = change_values(call, key, &path, ARRINSERT, is_array, |array, room| {
        let count = count_of(array) as i64;
        let at = if index < 0 { count.saturating_add(index) } else { index };
        if !(0..=count).contains(&at) {
            return Err(Error::other("index out of bounds"));
        }
        inserted(array, at as usize, &values, room)
    })?;
    reply_counts(call, replies, &path, &path.path)
}

pub(super) fn trim(call: &mut Call<'_>) -> Result<()> {
    let (key, path, start, stop) = (call.args.key()?, next_path(call)?, next_int(call)?, next_int(call)?);
    let replies = change_values(call, key, &path, ARRTRIM, is_array, |array, _| {
        let count = count_of(array);
        let stop = within(stop, count);
        let start = if start < count as i64 { within(start, count) } else { stop + 1 };
        let end = if start > stop || count == 0 { start } else { stop + 1 };
        Ok(ValueChange { value: json::sliced(array, start, end), reply: end - start })
    })?;
    reply_counts(call, replies, &path, &path.path)
}

/// Returns an index of an array as one from the start, that of the nearest element for one outside.
fn within(index: i64, count: usize) -> usize {
    if index < 0 {
        count.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(index).unwrap_or(usize::MAX).min(count.saturating_sub(1))
    }
}

pub(super) fn pop(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut given, mut format) = (call.args.next_arg(), JsonReplyFormat::Strings);
    if given.is_some_and(|word| is_word(word, "FORMAT"))
        && let Some(name) = call.args.next_arg()
    {
        format = JsonReplyFormat::parse(name)?;
        if format == JsonReplyFormat::String {
            return Err(JsonReplyFormat::UNKNOWN);
        }
        if call.reply.protocol() == Protocol::Resp2 {
            return Err(JsonReplyFormat::NEEDS_RESP3);
        }
        given = call.args.next_arg();
    }
    let path = match given {
        Some(path) => DocumentPath::new(text(path)?),
        None => DocumentPath::whole(),
    };
    let index = call.args.next_arg().and_then(parse_int).unwrap_or(-1);
    if path.is_legacy && format != JsonReplyFormat::Strings {
        return Err(Error::Line("Legacy paths are supported only with FORMAT STRINGS"));
    }
    let replies = change_values(call, key, &path, ARRPOP, is_array, |array, _| {
        let Some(popped) = array.element(within(index, count_of(array))) else {
            return Ok(ValueChange { value: None, reply: None });
        };
        let value = json::spliced(array, within(index, count_of(array)), 1, &[]);
        Ok(ValueChange { value, reply: Some(popped.bytes().to_vec()) })
    })?;
    if path.is_legacy {
        let popped = last_reply(replies, || missing_or(&path.path, NOT_AN_ARRAY))?;
        return reply_popped(call, popped, format);
    }
    call.reply.array(replies.len());
    replies.into_iter().try_for_each(|popped| reply_popped(call, popped.flatten(), format))
}

/// Replies with an element that was removed, if there is one.
fn reply_popped(call: &mut Call<'_>, popped: Option<Vec<u8>>, format: JsonReplyFormat) -> Result<()> {
    match popped {
        Some(popped) => reply_value(call, JsonNode::root(&popped), format, &JsonLayout::default()),
        None => {
            call.reply.null();
            Ok(())
        }
    }
}
