//! The arguments of a command, as COMMAND DOCS describes them, in a line.

use crate::resp::Frame;

/// Returns the value of a field; RESP2 sends maps as arrays.
pub(super) fn field<'a>(map: &'a Frame, name: &[u8]) -> Option<&'a Frame> {
    pairs(map).into_iter().find(|(key, _)| key.as_bytes() == Some(name)).map(|(_, value)| value)
}

/// Returns the fields of a map, in the order sent.
pub(super) fn pairs(map: &Frame) -> Vec<(&Frame, &Frame)> {
    match map {
        Frame::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        Frame::Array(items) => items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

/// Returns a field that is text; the empty text without one.
pub(super) fn text(map: &Frame, name: &[u8]) -> String {
    let found = field(map, name).and_then(Frame::as_bytes);
    found.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
}

/// Formats arguments, such as `key [NX | XX]`.
pub(super) fn arguments(list: &Frame, separator: &str) -> String {
    let Frame::Array(items) = list else { return String::new() };
    items.iter().map(argument).collect::<Vec<_>>().join(separator)
}

fn argument(argument: &Frame) -> String {
    let kind = text(argument, b"type");
    let nested = |separator| field(argument, b"arguments").map_or_else(String::new, |list| arguments(list, separator));
    let value = match kind.as_str() {
        "oneof" => nested("|"),
        "block" => nested(" "),
        "pure-token" => String::new(),
        _ => text(argument, b"name"),
    };
    let token = field(argument, b"token").map(|_| text(argument, b"token"));
    let token = match token.as_deref() {
        None => String::new(),
        // A token may be the empty string.
        Some("") => "\"\"".into(),
        Some(token) => token.into(),
    };
    let gap = if token.is_empty() || value.is_empty() { "" } else { " " };
    let mut shown = format!("{token}{gap}{value}");
    if has_flag(argument, b"multiple") {
        let again = if has_flag(argument, b"multiple_token") { shown.clone() } else { value };
        shown = format!("{shown} [{again} ...]");
    }
    if has_flag(argument, b"optional") { format!("[{shown}]") } else { shown }
}

fn has_flag(argument: &Frame, flag: &[u8]) -> bool {
    let (Some(Frame::Array(flags)) | Some(Frame::Set(flags))) = field(argument, b"flags") else { return false };
    flags.iter().any(|found| found.as_bytes() == Some(flag))
}
