//! Formatting of replies as in redis-cli: raw for programs, with types and numbers for people.

use std::io::{self, IsTerminal};

use crate::app::redis_cli::json;
use crate::resp::Frame;
use crate::text::double::write_double;
use crate::text::quote;

/// Form of printed replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyForm {
    /// Without types.
    Raw,
    /// With types and numbers.
    Typed,
    /// CSV.
    Csv,
    /// JSON.
    Json,
    /// JSON in ASCII.
    QuotedJson,
}

/// Format of printed replies: their form, and the separators.
#[derive(Clone, Debug)]
pub(super) struct ReplyFormat {
    pub form: ReplyForm,
    /// Separator of the items of a raw reply.
    pub between_items: Vec<u8>,
    /// Terminator of a raw reply.
    pub after_reply: Vec<u8>,
}

impl Default for ReplyFormat {
    /// Returns the format for standard output: types are for people only.
    fn default() -> Self {
        let form = if io::stdout().is_terminal() { ReplyForm::Typed } else { ReplyForm::Raw };
        ReplyFormat { form, between_items: b"\n".to_vec(), after_reply: b"\n".to_vec() }
    }
}

impl ReplyFormat {
    /// Formats a reply for printing; `is_text` is true for human-readable text.
    pub(super) fn show(&self, frame: &Frame, is_text: bool) -> Vec<u8> {
        match self.form {
            _ if is_text => raw(frame, &self.between_items),
            ReplyForm::Typed => typed(frame, 0),
            ReplyForm::Raw => [&raw(frame, &self.between_items)[..], &self.after_reply].concat(),
            ReplyForm::Csv => [&json::csv(frame)[..], b"\n"].concat(),
            ReplyForm::Json => [&json::json(frame, json::escape)[..], b"\n"].concat(),
            ReplyForm::QuotedJson => [&json::json(frame, json::quote_ascii)[..], b"\n"].concat(),
        }
    }

    /// Formats a push message as it is printed between replies.
    pub(super) fn show_push(&self, frame: &Frame) -> Vec<u8> {
        match frame {
            Frame::Push(items) if self.form == ReplyForm::Typed => match &items[..] {
                [Frame::Bulk(kind), Frame::Array(keys)] if **kind == *b"invalidate" => {
                    let keys = keys.iter().filter_map(Frame::as_bytes).map(|key| [b"'", key, b"'"].concat());
                    [b"-> invalidate: ", &keys.collect::<Vec<_>>().join(&b", "[..])[..], b"\n"].concat()
                }
                _ => self.show(frame, false),
            },
            _ => self.show(frame, false),
        }
    }
}

/// Formats a reply as printed without a terminal, without the last line end.
fn raw(frame: &Frame, delimiter: &[u8]) -> Vec<u8> {
    let all = |items: &[Frame]| items.iter().map(|item| raw(item, delimiter)).collect::<Vec<_>>().join(delimiter);
    match frame {
        Frame::Null | Frame::NullArray => Vec::new(),
        // An error is followed by a blank line.
        Frame::Error(text) => [text, &b"\n"[..]].concat(),
        Frame::Simple(text)
        | Frame::Bulk(text)
        | Frame::BigNumber(text)
        | Frame::SentDouble(text)
        | Frame::Verbatim(_, text) => text.to_vec(),
        Frame::Integer(value) => value.to_string().into_bytes(),
        Frame::Double(value) => write_double(*value).to_vec(),
        Frame::Boolean(value) => format!("({value})").into_bytes(),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => all(items),
        Frame::Map(pairs) => {
            let shown = pairs.iter().map(|(key, value)| [raw(key, delimiter), raw(value, delimiter)].join(&b" "[..]));
            shown.collect::<Vec<_>>().join(delimiter)
        }
    }
}

/// Formats a reply as printed on a terminal, with its last line end. `indent` is the indentation of its lines after the
/// first.
fn typed(frame: &Frame, indent: usize) -> Vec<u8> {
    match frame {
        Frame::Null | Frame::NullArray => b"(nil)\n".to_vec(),
        Frame::Error(text) => [b"(error) ", &text[..], b"\n"].concat(),
        Frame::Simple(text) | Frame::Verbatim(_, text) => [text, &b"\n"[..]].concat(),
        Frame::Bulk(text) => format!("{}\n", quote(text)).into_bytes(),
        Frame::BigNumber(digits) => [b"(big number) ", &digits[..], b"\n"].concat(),
        Frame::Integer(value) => format!("(integer) {value}\n").into_bytes(),
        Frame::SentDouble(text) => [b"(double) ", &text[..], b"\n"].concat(),
        Frame::Double(value) => [b"(double) ", &write_double(*value)[..], b"\n"].concat(),
        Frame::Boolean(value) => format!("({value})\n").into_bytes(),
        Frame::Array(items) => list(items, ')', "(empty array)\n", indent),
        Frame::Set(items) => list(items, '~', "(empty set)\n", indent),
        Frame::Push(items) => list(items, ')', "(empty push)\n", indent),
        Frame::Map(pairs) => map(pairs, indent),
    }
}

fn list(items: &[Frame], mark: char, empty: &str, indent: usize) -> Vec<u8> {
    if items.is_empty() {
        return empty.into();
    }
    let width = items.len().to_string().len();
    let mut shown = Vec::new();
    for (at, item) in items.iter().enumerate() {
        shown.extend(number(at, mark, width, indent));
        shown.extend(typed(item, indent + width + 2));
    }
    shown
}

fn map(pairs: &[(Frame, Frame)], indent: usize) -> Vec<u8> {
    if pairs.is_empty() {
        return b"(empty hash)\n".to_vec();
    }
    let width = pairs.len().to_string().len();
    let mut shown = Vec::new();
    for (at, (key, value)) in pairs.iter().enumerate() {
        shown.extend(number(at, '#', width, indent));
        shown.extend(typed(key, indent + width + 2).trim_ascii_end());
        shown.extend(b" => ");
        if has_items(value) {
            shown.extend(format!("\n{:1$}", "", indent + width + 2).bytes());
        }
        shown.extend(typed(value, indent + width + 2));
    }
    shown
}

/// Returns true if a value is printed in lines of its own.
fn has_items(value: &Frame) -> bool {
    match value {
        Frame::Array(items) => !items.is_empty(),
        Frame::Map(pairs) => !pairs.is_empty(),
        // Sets begin in the same line, as redis-cli has it.
        _ => false,
    }
}

/// Returns the prefix of an element, such as `12) `, padded and indented.
fn number(at: usize, mark: char, width: usize, indent: usize) -> Vec<u8> {
    let indent = if at == 0 { 0 } else { indent };
    format!("{:indent$}{:width$}{mark} ", "", at + 1).into_bytes()
}
