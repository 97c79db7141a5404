//! Formats replies as redis-cli does: raw for programs, with types and numbers for people.

use crate::resp::{Frame, format_general};
use crate::text::quote;

/// The significant digits of a double.
const DIGITS: i32 = 17;

/// Formats a reply as printed without a terminal, without the last line end.
pub(super) fn raw(frame: &Frame) -> Vec<u8> {
    match frame {
        Frame::Null | Frame::NullArray => Vec::new(),
        // An error is followed by a blank line.
        Frame::Error(text) => [text, &b"\n"[..]].concat(),
        Frame::Simple(text) | Frame::Bulk(text) | Frame::BigNumber(text) | Frame::Verbatim(_, text) => text.to_vec(),
        Frame::Integer(value) => value.to_string().into_bytes(),
        Frame::Double(value) => format_general(*value, DIGITS).into_bytes(),
        Frame::Boolean(value) => format!("({value})").into_bytes(),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => {
            items.iter().map(raw).collect::<Vec<_>>().join(&b"\n"[..])
        }
        Frame::Map(pairs) => {
            let shown = pairs.iter().map(|(key, value)| [raw(key), raw(value)].join(&b" "[..]));
            shown.collect::<Vec<_>>().join(&b"\n"[..])
        }
    }
}

/// Formats a reply as printed on a terminal, with its last line end. `indent` is the indentation of its lines after the
/// first.
pub(super) fn typed(frame: &Frame, indent: usize) -> Vec<u8> {
    match frame {
        Frame::Null | Frame::NullArray => b"(nil)\n".to_vec(),
        Frame::Error(text) => [b"(error) ", &text[..], b"\n"].concat(),
        Frame::Simple(text) | Frame::Verbatim(_, text) => [text, &b"\n"[..]].concat(),
        Frame::Bulk(text) => format!("{}\n", quote(text)).into_bytes(),
        Frame::BigNumber(digits) => [b"(big number) ", &digits[..], b"\n"].concat(),
        Frame::Integer(value) => format!("(integer) {value}\n").into_bytes(),
        Frame::Double(value) => format!("(double) {}\n", format_general(*value, DIGITS)).into_bytes(),
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
        shown.extend(typed(value, indent + width + 2));
    }
    shown
}

/// Returns the prefix of an element, such as `12) `, padded and indented.
fn number(at: usize, mark: char, width: usize, indent: usize) -> Vec<u8> {
    let indent = if at == 0 { 0 } else { indent };
    format!("{:indent$}{:width$}{mark} ", "", at + 1).into_bytes()
}
