//! Values of documents in replies: JSON.GET, JSON.MGET, JSON.RESP.

use std::borrow::Cow;

use bytes::Bytes;

use crate::command::json::args::{DocumentPath, document, missing, next_text, optional_path, text};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::json::{self, JsonKind, JsonLayout, JsonNode, JsonShown, JsonTextTooLong};
use crate::resp::{Protocol, Reply};
use crate::store::Key;

/// The form in which values are replied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonReplyFormat {
    /// All values in one text.
    String,
    /// A text for each value.
    Strings,
    /// Values that contain no others in the types of the protocol, others as text.
    Expand1,
    /// All in the types of the protocol.
    Expand,
}

impl JsonReplyFormat {
    pub(super) const UNKNOWN: Error = Error::Other(Cow::Borrowed("wrong reply format"));
    pub(super) const NEEDS_RESP3: Error = Error::Other(Cow::Borrowed("FORMAT argument is not supported on RESP2"));

    pub(super) fn parse(name: &[u8]) -> Result<Self> {
        Ok(match name {
            b"STRING" => JsonReplyFormat::String,
            b"STRINGS" => JsonReplyFormat::Strings,
            b"EXPAND1" => JsonReplyFormat::Expand1,
            b"EXPAND" => JsonReplyFormat::Expand,
            _ => return Err(Self::UNKNOWN),
        })
    }

    fn is_text(self) -> bool {
        matches!(self, JsonReplyFormat::String | JsonReplyFormat::Strings)
    }
}

/// Replies with a value.
pub(super) fn reply_value(
    call: &mut Call<'_>,
    node: JsonNode<'_>,
    format: JsonReplyFormat,
    layout: &JsonLayout<'_>,
) -> Result<()> {
    write_value(&mut call.reply, node, format, layout)
}

fn write_value(
    reply: &mut Reply<'_>,
    node: JsonNode<'_>,
    format: JsonReplyFormat,
    layout: &JsonLayout<'_>,
) -> Result<()> {
    match node.kind() {
        _ if format.is_text() => return write_text(reply, |to| json::print(node, layout, 0, to)),
        JsonKind::Null => reply.null(),
        JsonKind::Bool(value) => reply.bool(value),
        JsonKind::Number(number) => write_number(reply, number),
        JsonKind::String(text) if format == JsonReplyFormat::Expand => reply.bulk(text),
        JsonKind::Array(count) if format == JsonReplyFormat::Expand => {
            reply.array(count);
            return node.children().try_for_each(|child| write_value(reply, child.node, format, layout));
        }
        JsonKind::Object(count) if format == JsonReplyFormat::Expand => {
            reply.map(count);
            for child in node.children() {
                reply.bulk(child.name.unwrap_or_default());
                write_value(reply, child.node, format, layout)?;
            }
        }
        _ => return write_text(reply, |to| json::print(node, layout, 0, to)),
    }
    Ok(())
}

fn write_number(reply: &mut Reply<'_>, number: json::JsonNumber) {
    match number {
        json::JsonNumber::Integer(integer) => reply.int(integer),
        number => reply.double(number.as_double()),
    }
}

fn write_text(
    reply: &mut Reply<'_>,
    print: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), JsonTextTooLong>,
) -> Result<()> {
    let mut text = Vec::new();
    print(&mut text)?;
    reply.bulk_shared(Bytes::from(text));
    Ok(())
}

/// The arguments of JSON.GET behind the key.
struct GetOptions<'a> {
    format: JsonReplyFormat,
    layout: JsonLayout<'a>,
    paths: Vec<DocumentPath<'a>>,
}

impl<'a> GetOptions<'a> {
    fn parse(call: &mut Call<'a>) -> Result<Self> {
        let mut options =
            GetOptions { format: JsonReplyFormat::String, layout: JsonLayout::default(), paths: Vec::with_capacity(1) };
        while let Some(argument) = call.args.next_arg() {
            if is_word(argument, "FORMAT") {
                if call.reply.protocol() == Protocol::Resp2 && options.paths.is_empty() {
                    return Err(JsonReplyFormat::NEEDS_RESP3);
                }
                options.format = match JsonReplyFormat::parse(next_text(call)?.as_bytes())? {
                    JsonReplyFormat::Strings => return Err(JsonReplyFormat::UNKNOWN),
                    format => format,
                };
            } else if is_word(argument, "INDENT") {
                options.layout.indent = next_text(call)?.as_bytes();
            } else if is_word(argument, "NEWLINE") {
                options.layout.newline = next_text(call)?.as_bytes();
            } else if is_word(argument, "SPACE") {
                options.layout.space = next_text(call)?.as_bytes();
            } else if !is_word(argument, "NOESCAPE") {
                options.paths.push(DocumentPath::new(text(argument)?));
            }
        }
        if options.paths.is_empty() {
            options.paths.push(DocumentPath::whole());
        }
        if call.reply.protocol() == Protocol::Resp2 {
            options.format = JsonReplyFormat::String;
        }
        Ok(options)
    }
}

pub(super) fn get(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let options = GetOptions::parse(call)?;
    let Some(document) = document(&mut call.view, key)? else {
        call.reply.null();
        return Ok(());
    };
    let (reply, layout, paths) = (&mut call.reply, &options.layout, &options.paths);
    if !options.format.is_text() {
        reply.array(paths.len());
        for path in paths {
            let nodes = found_by(path, document)?.unwrap_or_default();
            reply.array(nodes.len());
            nodes.into_iter().try_for_each(|node| write_value(reply, node, options.format, layout))?;
        }
        return Ok(());
    }
    match &paths[..] {
        [path] if path.is_legacy => {
            let node = path.find_first(document)?;
            write_text(reply, |to| json::print(node, layout, 0, to))
        }
        [path] => {
            let nodes = path.find(document)?;
            write_text(reply, |to| json::print_list(nodes.into_iter(), layout, 0, to))
        }
        _ => {
            let members = members(paths, document)?;
            write_text(reply, |to| json::print_members(&members, layout, to))
        }
    }
}

/// Returns the values that a path names; `None` if it is no path, as one of several paths may be.
fn found_by<'d>(path: &DocumentPath<'_>, document: &'d [u8]) -> Result<Option<Vec<JsonNode<'d>>>> {
    match path.parse() {
        Ok(path) => Ok(Some(path.find(document)?)),
        Err(_) => Ok(None),
    }
}

/// Returns the members of the object that shows what several paths name: each a list, or a value if all are of the older
/// dialect.
fn members<'p, 'd>(paths: &'p [DocumentPath<'_>], document: &'d [u8]) -> Result<Vec<(&'p [u8], JsonShown<'d>)>> {
    let is_legacy = paths.iter().all(|path| path.is_legacy);
    let mut members: Vec<(&[u8], JsonShown<'_>)> = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.given.as_bytes();
        let Some(nodes) = found_by(path, document)? else { continue };
        let shown = match nodes.first() {
            Some(first) if is_legacy => JsonShown::One(*first),
            None if is_legacy => return Err(missing(path.given)),
            _ => JsonShown::All(nodes),
        };
        if !members.iter().any(|member| member.0 == name) {
            members.push((name, shown));
        }
    }
    Ok(members)
}

pub(super) fn mget(call: &mut Call<'_>) -> Result<()> {
    let request = call.args.request();
    let path = DocumentPath::new(text(request.arg(request.len() - 1))?);
    call.reply.array(call.args.left() - 1);
    while call.args.left() > 1 {
        let key = call.args.key()?;
        match text_of(call, key, &path) {
            Ok(Some(text)) => call.reply.bulk_shared(Bytes::from(text)),
            _ => call.reply.null(),
        }
    }
    Ok(())
}

/// Returns the text of what a path names in the document of a key, if there is one.
fn text_of(call: &mut Call<'_>, key: Key<'_>, path: &DocumentPath<'_>) -> Result<Option<Vec<u8>>> {
    let Some(document) = document(&mut call.view, key)? else { return Ok(None) };
    let (mut text, layout) = (Vec::new(), JsonLayout::default());
    if path.is_legacy {
        json::print(path.find_first(document)?, &layout, 0, &mut text)?;
    } else {
        json::print_list(path.find(document)?.into_iter(), &layout, 0, &mut text)?;
    }
    Ok(Some(text))
}

pub(super) fn resp(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let Some(document) = document(&mut call.view, key)? else {
        call.reply.null();
        return Ok(());
    };
    if path.is_legacy {
        write_resp(&mut call.reply, path.find_first(document)?);
        return Ok(());
    }
    let nodes = path.find(document)?;
    call.reply.array(nodes.len());
    nodes.into_iter().for_each(|node| write_resp(&mut call.reply, node));
    Ok(())
}

/// Writes a value in the types of RESP2; an array begins with `[`, an object with `{`.
fn write_resp(reply: &mut Reply<'_>, node: JsonNode<'_>) {
    match node.kind() {
        JsonKind::Null => reply.null(),
        JsonKind::Bool(value) => reply.simple(if value { "true" } else { "false" }),
        JsonKind::Number(number) => write_number(reply, number),
        JsonKind::String(text) => reply.bulk(text),
        JsonKind::Array(count) => {
            reply.array(count + 1);
            reply.simple("[");
            node.children().for_each(|child| write_resp(reply, child.node));
        }
        JsonKind::Object(count) => {
            reply.array(2 * count + 1);
            reply.simple("{");
            for child in node.children() {
                reply.bulk(child.name.unwrap_or_default());
                write_resp(reply, child.node);
            }
        }
    }
}
