//! Values of documents that are set: JSON.SET, JSON.MSET, JSON.MERGE.

use std::borrow::Cow;

use crate::command::json::args::{DocumentPath, arity, document_to_change, encode, next_path, next_text, wrong_type};
use crate::command::json::change::check_depth;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::json::{self, JsonChange, JsonNode, JsonPath, JsonTail, JsonTargets};
use crate::store::value::Json;
use crate::store::{Classes, Event, Key};

const SET: &Event = &Event::one(Classes::MODULE, "json.set");
const MSET: &Event = &Event::one(Classes::MODULE, "json.mset");
const MERGE: &Event = &Event::one(Classes::MODULE, "json.merge");

const NOT_AT_ROOT: Error = Error::Other(Cow::Borrowed("new objects must be created at the root"));
const OUT_OF_RANGE: Error = Error::Other(Cow::Borrowed("array index out of range"));
const NOT_STATIC: Error = Error::Line("Err wrong static path");
const NO_MEMBER: Error = Error::Line("Err path must end with object key to set");
const UNKNOWN_FORMAT: Error = Error::Other(Cow::Borrowed("wrong format"));

/// The condition on which JSON.SET sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetCondition {
    None,
    Missing,
    Existing,
}

/// The way in which values that a path names get a new one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Replace,
    Merge,
}

pub(super) fn set(call: &mut Call<'_>) -> Result<()> {
    let (key, path, text) = (call.args.key()?, next_path(call)?, next_text(call)?);
    let mut condition = SetCondition::None;
    while let Some(option) = call.args.next_arg() {
        if condition == SetCondition::None && is_word(option, "NX") {
            condition = SetCondition::Missing;
        } else if condition == SetCondition::None && is_word(option, "XX") {
            condition = SetCondition::Existing;
        } else if is_word(option, "FORMAT") {
            check_format(call)?;
        } else {
            return Err(Error::Syntax);
        }
    }
    let before = document_to_change(&mut call.view, key)?;
    let value = encode(text)?;
    let next = next_document(before, &path, &value, condition, Means::Replace)?;
    reply_set(call, key, next, SET)
}

pub(super) fn merge(call: &mut Call<'_>) -> Result<()> {
    let (key, path, text) = (call.args.key()?, next_path(call)?, next_text(call)?);
    while let Some(option) = call.args.next_arg() {
        if !is_word(option, "FORMAT") {
            return Err(Error::Syntax);
        }
        check_format(call)?;
    }
    let before = document_to_change(&mut call.view, key)?;
    let value = encode(text)?;
    let next = next_document(before, &path, &value, SetCondition::None, Means::Merge)?;
    reply_set(call, key, next, MERGE)
}

/// Takes the name of a format of texts, all of which are JSON.
fn check_format(call: &mut Call<'_>) -> Result<()> {
    match next_text(call)? {
        "JSON" | "STRING" => Ok(()),
        _ => Err(UNKNOWN_FORMAT),
    }
}

/// Sets a key to its next document, if there is one, and replies.
fn reply_set(call: &mut Call<'_>, key: Key<'_>, next: Option<Vec<u8>>, event: &'static Event) -> Result<()> {
    match next {
        Some(next) => {
            store(call, key, next, event)?;
            call.reply.ok();
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// Sets a key to a document; a deadline stays.
fn store(call: &mut Call<'_>, key: Key<'_>, document: Vec<u8>, event: &'static Event) -> Result<()> {
    call.view.edit::<Json>(key, event).map_err(wrong_type)?.change().set(document);
    Ok(())
}

/// Sets the values of all keys, or none if one of them is refused at first.
pub(super) fn mset(call: &mut Call<'_>) -> Result<()> {
    if !call.args.left().is_multiple_of(3) {
        return Err(arity(call));
    }
    let mut triplets = Vec::with_capacity(call.args.left() / 3);
    while call.args.left() > 0 {
        let (key, path) = (call.args.key()?, next_path(call)?);
        let before = document_to_change(&mut call.view, key)?;
        // Errors of the path are reported before errors of the text, as in Redis.
        let value = &[][..];
        if !path.is_whole() {
            next_document(before, &path, value, SetCondition::None, Means::Replace)?;
        }
        triplets.push((key, path, encode(next_text(call)?)?));
    }
    for (key, path, value) in triplets {
        let before = document_to_change(&mut call.view, key)?;
        // An earlier value may have taken the place away: then only this one is not set.
        if let Ok(Some(next)) = next_document(before, &path, &value, SetCondition::None, Means::Replace) {
            store(call, key, next, MSET)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Returns what becomes of a document, or of a missing one, when the values that a path names are set; `None` if there is
/// nothing to set.
fn next_document(
    before: Option<&[u8]>,
    path: &DocumentPath<'_>,
    value: &[u8],
    condition: SetCondition,
    means: Means,
) -> Result<Option<Vec<u8>>> {
    let Some(before) = before else {
        return match (condition, path.is_whole()) {
            (SetCondition::Existing, _) => Ok(None),
            (_, true) => Ok(Some(value.to_vec())),
            (_, false) => Err(NOT_AT_ROOT),
        };
    };
    if path.is_whole() && condition == SetCondition::Missing {
        return Ok(None);
    }
    let steps = path.parse()?;
    if condition != SetCondition::Missing {
        let nodes = steps.find(before)?;
        if !nodes.is_empty() {
            return replaced(before, &nodes, value, means);
        }
        if condition == SetCondition::Existing {
            return Ok(None);
        }
    }
    with_new_members(before, &steps, value)
}

/// Returns a document in which values are replaced, or merged with another.
fn replaced(before: &[u8], nodes: &[JsonNode<'_>], value: &[u8], means: Means) -> Result<Option<Vec<u8>>> {
    let offsets: Vec<usize> = nodes.iter().map(|node| node.offset()).collect();
    let targets = match means {
        Means::Replace => JsonTargets::outermost(before, &offsets),
        Means::Merge => JsonTargets::all(&offsets),
    };
    let depth = json::depth_of(value);
    json::edit::<Error>(before, &targets, &mut |node, _, room| {
        check_depth(depth, room)?;
        Ok(JsonChange::Replace(match means {
            Means::Replace => Cow::Borrowed(value),
            Means::Merge => Cow::Owned(json::merge(Some(node), JsonNode::root(value))),
        }))
    })
}

/// Returns a document in which objects have a further member, as the last part of a path names it; `None` if no object lacks
/// it.
fn with_new_members(before: &[u8], steps: &JsonPath, value: &[u8]) -> Result<Option<Vec<u8>>> {
    let name = match steps.tail().ok_or(NOT_STATIC)? {
        JsonTail::Whole => return Err(NO_MEMBER),
        JsonTail::Name(name) => name.as_bytes(),
        JsonTail::Index if steps.find(before)?.is_empty() => return Err(OUT_OF_RANGE),
        JsonTail::Index => return Ok(None),
    };
    let offsets: Vec<usize> = steps.find_parents(before)?.iter().map(|node| node.offset()).collect();
    let (depth, mut is_changed) = (json::depth_of(value), false);
    let next = json::edit::<Error>(before, &JsonTargets::all(&offsets), &mut |node, _, room| {
        check_depth(depth + 1, room)?;
        let grown = json::with_member(node, name, value);
        is_changed |= grown.is_some();
        Ok(grown.map_or(JsonChange::Keep, |grown| JsonChange::Replace(Cow::Owned(grown))))
    })?;
    Ok(next.filter(|_| is_changed))
}
