//! Types, lengths, names, positions and memory of values.

use crate::command::json::args::{
    MISSING_KEY, arity, document, encode_with_code, missing, missing_or, next_int, next_path, next_text, optional_path,
    unexpected,
};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::json::{self, JsonKind, JsonNode};
use crate::resp::{Protocol, Reply};

/// Replies with an integer for each value that a path names and that has one, and null for others.
fn reply_ints(reply: &mut Reply<'_>, nodes: &[JsonNode<'_>], int: impl Fn(JsonNode<'_>) -> Option<i64>) {
    reply.array(nodes.len());
    for node in nodes {
        match int(*node) {
            Some(int) => reply.int(int),
            None => reply.null(),
        }
    }
}

pub(super) fn type_of(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let document = document(&mut call.view, key)?;
    if call.reply.protocol() == Protocol::Resp3 {
        call.reply.array(1);
    }
    let Some(document) = document else {
        call.reply.null();
        return Ok(());
    };
    if path.is_legacy {
        match path.find_first(document) {
            Ok(node) => call.reply.bulk(node.kind().name().as_bytes()),
            Err(_) => call.reply.null(),
        }
        return Ok(());
    }
    let nodes = path.find(document)?;
    call.reply.array(nodes.len());
    nodes.into_iter().for_each(|node| call.reply.bulk(node.kind().name().as_bytes()));
    Ok(())
}

fn string_length(node: JsonNode<'_>) -> Option<i64> {
    match node.kind() {
        JsonKind::String(text) => Some(text.len() as i64),
        _ => None,
    }
}

fn array_length(node: JsonNode<'_>) -> Option<i64> {
    match node.kind() {
        JsonKind::Array(count) => Some(count as i64),
        _ => None,
    }
}

fn object_length(node: JsonNode<'_>) -> Option<i64> {
    match node.kind() {
        JsonKind::Object(count) => Some(count as i64),
        _ => None,
    }
}

pub(super) fn strlen(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    match document(&mut call.view, key)? {
        Some(document) if path.is_legacy => {
            let node = path.find_first(document)?;
            let length = string_length(node).ok_or_else(|| unexpected("string", node.kind().name()))?;
            call.reply.int(length);
        }
        Some(document) => reply_ints(&mut call.reply, &path.find(document)?, string_length),
        None if path.is_legacy => call.reply.null(),
        None => return Err(MISSING_KEY),
    }
    Ok(())
}

pub(super) fn arrlen(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    match document(&mut call.view, key)? {
        Some(document) if path.is_legacy => {
            let node = *path.find(document)?.first().ok_or_else(|| missing(path.given))?;
            call.reply.int(array_length(node).ok_or_else(|| missing_or(path.given, "not an array"))?);
        }
        Some(document) => reply_ints(&mut call.reply, &path.find(document)?, array_length),
        None if path.is_legacy => call.reply.null(),
        None => return Err(MISSING_KEY),
    }
    Ok(())
}

pub(super) fn objlen(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    match document(&mut call.view, key)? {
        Some(document) if path.is_legacy => match path.find_first(document) {
            Ok(node) => {
                let length = object_length(node).ok_or_else(|| unexpected("object", node.kind().name()))?;
                call.reply.int(length);
            }
            Err(_) => call.reply.null(),
        },
        Some(document) => reply_ints(&mut call.reply, &path.find(document)?, object_length),
        None if path.is_legacy => call.reply.null(),
        None => return Err(missing_or(&path.path, "not an object")),
    }
    Ok(())
}

pub(super) fn objkeys(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let document = match document(&mut call.view, key)? {
        Some(document) => document,
        None if path.is_legacy => {
            call.reply.null();
            return Ok(());
        }
        None => return Err(MISSING_KEY),
    };
    if path.is_legacy {
        match path.find_first(document) {
            Ok(node) if object_length(node).is_some() => write_names(&mut call.reply, node),
            Ok(_) => return Err(missing_or(&path.path, "not an object")),
            Err(_) => call.reply.null(),
        }
        return Ok(());
    }
    let nodes = path.find(document)?;
    call.reply.array(nodes.len());
    nodes.into_iter().for_each(|node| write_names(&mut call.reply, node));
    Ok(())
}

/// Writes the names of the members of an object; null for another value.
fn write_names(reply: &mut Reply<'_>, node: JsonNode<'_>) {
    match node.kind() {
        JsonKind::Object(count) => {
            reply.array(count);
            node.children().for_each(|child| reply.bulk(child.name.unwrap_or_default()));
        }
        _ => reply.null(),
    }
}

pub(super) fn arrindex(call: &mut Call<'_>) -> Result<()> {
    let (key, path, text) = (call.args.key()?, next_path(call)?, next_text(call)?);
    let start = if call.args.left() > 0 { next_int(call)? } else { 0 };
    let stop = if call.args.left() > 0 { next_int(call)? } else { 0 };
    if call.args.left() > 0 {
        return Err(arity(call));
    }
    let document = document(&mut call.view, key)?;
    let wanted = encode_with_code(text)?;
    let wanted = JsonNode::root(&wanted);
    let document = document.ok_or_else(|| missing(path.given))?;
    let index_in = |array: JsonNode<'_>| array_length(array).map(|count| index_of(array, wanted, (start, stop), count));
    if path.is_legacy {
        let node = path.find_first(document)?;
        call.reply.int(index_in(node).ok_or_else(|| unexpected("array", node.kind().name()))?);
    } else {
        reply_ints(&mut call.reply, &path.find(document)?, index_in);
    }
    Ok(())
}

/// Returns the index of the first element of an array that equals a value, in a range whose end is not part of it; -1 if there
/// is none.
fn index_of(array: JsonNode<'_>, wanted: JsonNode<'_>, (start, stop): (i64, i64), count: i64) -> i64 {
    let start = if start < 0 { count.saturating_add(start).max(0) } else { start.min(count - 1) };
    let stop = match stop {
        0 => count,
        _ if stop < 0 => count.saturating_add(stop).max(0),
        _ => stop.min(count),
    };
    let elements = array.children().zip(0..).take(usize::try_from(stop).unwrap_or(0));
    let mut elements = elements.skip(usize::try_from(start).unwrap_or(0));
    elements.find(|(child, _)| json::is_equal(child.node, wanted)).map_or(-1, |(_, index)| index)
}

pub(super) fn debug(call: &mut Call<'_>) -> Result<()> {
    let subcommand = call.args.bytes()?;
    if is_word(subcommand, "HELP") {
        call.reply.array(2);
        call.reply.bulk(b"MEMORY <key> [path] - reports memory usage");
        call.reply.bulk(b"HELP                - this message");
        return Ok(());
    }
    if !is_word(subcommand, "MEMORY") {
        return Err(Error::other("unknown subcommand - try `JSON.DEBUG HELP`"));
    }
    if call.args.left() == 0 {
        return Err(arity(call));
    }
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let memory = |node: JsonNode<'_>| node.bytes().len() as i64;
    match document(&mut call.view, key)? {
        Some(document) if path.is_legacy => call.reply.int(memory(path.find_first(document)?)),
        Some(document) => reply_ints(&mut call.reply, &path.find(document)?, |node| Some(memory(node))),
        None if path.is_legacy => call.reply.int(0),
        None => call.reply.array(0),
    }
    Ok(())
}
