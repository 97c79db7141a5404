//! Formatting of replies as JSON and CSV.

use crate::resp::Frame;
use crate::text::double::write_double;
use crate::text::quote;

/// Formats a reply as CSV: the items of nested replies follow each other.
pub(super) fn csv(frame: &Frame) -> Vec<u8> {
    let all = |items: &[Frame]| items.iter().map(csv).collect::<Vec<_>>().join(&b","[..]);
    match frame {
        Frame::Null | Frame::NullArray => b"NULL".to_vec(),
        Frame::Error(text) => format!("ERROR,{}", quote(text)).into_bytes(),
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Verbatim(_, text) => quote(text).into_bytes(),
        Frame::BigNumber(digits) | Frame::SentDouble(digits) => digits.to_vec(),
        Frame::Integer(value) => value.to_string().into_bytes(),
        Frame::Double(value) => write_double(*value).to_vec(),
        Frame::Boolean(value) => value.to_string().into_bytes(),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => all(items),
        Frame::Map(pairs) => {
            let shown = pairs.iter().map(|(key, value)| [csv(key), csv(value)].join(&b","[..]));
            shown.collect::<Vec<_>>().join(&b","[..])
        }
    }
}

/// Formats a reply as JSON, with strings as `string` writes them.
pub(super) fn json(frame: &Frame, string: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    match frame {
        Frame::Null | Frame::NullArray => b"null".to_vec(),
        Frame::Error(text) => [b"error:", &string(text)[..]].concat(),
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Verbatim(_, text) => string(text),
        Frame::BigNumber(digits) | Frame::SentDouble(digits) => digits.to_vec(),
        Frame::Integer(value) => value.to_string().into_bytes(),
        Frame::Double(value) => write_double(*value).to_vec(),
        Frame::Boolean(value) => value.to_string().into_bytes(),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => {
            let shown = items.iter().map(|item| json(item, string));
            [b"[", &shown.collect::<Vec<_>>().join(&b","[..])[..], b"]"].concat()
        }
        Frame::Map(pairs) => {
            let shown = pairs.iter().map(|(key, value)| [name(key, string), json(value, string)].join(&b":"[..]));
            [b"{", &shown.collect::<Vec<_>>().join(&b","[..])[..], b"}"].concat()
        }
    }
}

/// Formats a key of a map, which must be a string.
fn name(key: &Frame, string: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let shown = json(key, string);
    match key {
        Frame::Error(_) | Frame::Simple(_) | Frame::Bulk(_) | Frame::Verbatim(..) => shown,
        _ => string(&shown),
    }
}

/// Writes a string of JSON; bytes that are no control characters stay as they are.
pub(super) fn escape(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for &byte in text {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            0x08 => quoted.extend(b"\\b"),
            0x0c => quoted.extend(b"\\f"),
            0..0x20 => quoted.extend(format!("\\u{byte:04x}").bytes()),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Writes a string in ASCII: quoted as for redis-cli, and its backslashes once more.
pub(super) fn quote_ascii(text: &[u8]) -> Vec<u8> {
    quote(text).replace('\\', "\\\\").into_bytes()
}
