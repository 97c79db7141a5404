//! A document becomes a text.

use super::form::Container;
use super::{DOCUMENT_BYTES, JsonKind, JsonNode};

/// Texts between the parts of a text; by default, none.
#[derive(Clone, Copy)]
pub(crate) struct JsonLayout<'l> {
    /// Before each element and member, and the end of each container that is not empty, once for each level.
    pub(crate) indent: &'l [u8],
    /// At the end of each line.
    pub(crate) newline: &'l [u8],
    /// Behind the colon.
    pub(crate) space: &'l [u8],
    /// The length that a text may have.
    pub(crate) limit: usize,
}

impl Default for JsonLayout<'_> {
    fn default() -> Self {
        JsonLayout { indent: b"", newline: b"", space: b"", limit: DOCUMENT_BYTES }
    }
}

impl JsonLayout<'_> {
    fn line(&self, level: usize, to: &mut Vec<u8>) -> Result<(), JsonTextTooLong> {
        let length = self.indent.len().saturating_mul(level).saturating_add(self.newline.len());
        if to.len().saturating_add(length) > self.limit {
            return Err(JsonTextTooLong);
        }
        to.extend_from_slice(self.newline);
        for _ in 0..level {
            to.extend_from_slice(self.indent);
        }
        Ok(())
    }
}

/// The text would be longer than a reply may be.
#[derive(Debug)]
pub(crate) struct JsonTextTooLong;

/// Appends the text of some values as one array.
pub(crate) fn print_list<'d>(
    nodes: impl Iterator<Item = JsonNode<'d>>,
    layout: &JsonLayout<'_>,
    level: usize,
    to: &mut Vec<u8>,
) -> Result<(), JsonTextTooLong> {
    to.push(b'[');
    let mut count = 0;
    for node in nodes {
        if count > 0 {
            to.push(b',');
        }
        layout.line(level + 1, to)?;
        print(node, layout, level + 1, to)?;
        count += 1;
    }
    if count > 0 {
        layout.line(level, to)?;
    }
    to.push(b']');
    Ok(())
}

/// Appends the text of a value, which is itself at a level.
pub(crate) fn print(
    node: JsonNode<'_>,
    layout: &JsonLayout<'_>,
    level: usize,
    to: &mut Vec<u8>,
) -> Result<(), JsonTextTooLong> {
    let mut open = Vec::new();
    let mut next = Some(node);
    loop {
        if let Some(node) = next.take() {
            if to.len() > layout.limit {
                return Err(JsonTextTooLong);
            }
            match node.head().container {
                None => print_scalar(node, to),
                Some(container) => {
                    to.push(if container == Container::Array { b'[' } else { b'{' });
                    open.push((container, node.children(), true));
                }
            }
        }
        let level = level + open.len();
        let Some((container, children, first)) = open.last_mut() else { return Ok(()) };
        match children.next() {
            Some(child) => {
                if !*first {
                    to.push(b',');
                }
                *first = false;
                layout.line(level, to)?;
                if let Some(name) = child.name {
                    print_string(name, to);
                    to.push(b':');
                    to.extend_from_slice(layout.space);
                }
                next = Some(child.node);
            }
            None => {
                if !*first {
                    layout.line(level - 1, to)?;
                }
                to.push(if *container == Container::Array { b']' } else { b'}' });
                open.pop();
            }
        }
    }
}

fn print_scalar(node: JsonNode<'_>, to: &mut Vec<u8>) {
    match node.kind() {
        JsonKind::Bool(value) => to.extend_from_slice(if value { b"true" } else { b"false" }),
        JsonKind::Number(number) => number.print(to),
        JsonKind::String(text) => print_string(text, to),
        _ => to.extend_from_slice(b"null"),
    }
}

/// Appends a string in quotes.
pub(crate) fn print_string(text: &[u8], to: &mut Vec<u8>) {
    to.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        to.extend_from_slice(&rest[..at]);
        let short = match rest[at] {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            byte @ (b'"' | b'\\') => byte,
            byte => {
                to.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                rest = &rest[at + 1..];
                continue;
            }
        };
        to.extend_from_slice(&[b'\\', short]);
        rest = &rest[at + 1..];
    }
    to.extend_from_slice(rest);
    to.push(b'"');
}

/// The value of a member of [`print_members`].
pub(crate) enum JsonShown<'d> {
    /// A value.
    One(JsonNode<'d>),
    /// A list of values.
    All(Vec<JsonNode<'d>>),
}

/// Appends the text of an object that is not part of a document.
pub(crate) fn print_members(
    members: &[(&[u8], JsonShown<'_>)],
    layout: &JsonLayout<'_>,
    to: &mut Vec<u8>,
) -> Result<(), JsonTextTooLong> {
    to.push(b'{');
    for (at, (name, shown)) in members.iter().enumerate() {
        if at > 0 {
            to.push(b',');
        }
        layout.line(1, to)?;
        print_string(name, to);
        to.push(b':');
        to.extend_from_slice(layout.space);
        match shown {
            JsonShown::One(node) => print(*node, layout, 1, to)?,
            JsonShown::All(nodes) => print_list(nodes.iter().copied(), layout, 1, to)?,
        }
    }
    if !members.is_empty() {
        layout.line(0, to)?;
    }
    to.push(b'}');
    Ok(())
}
