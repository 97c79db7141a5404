//! The formats of strings, and their row in the table of data types.
//!
//! keylatch has its own encodings of strings. It records the way in which a string was stored, on which Redis' encodings
//! depend besides the bytes.

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::Str as StrPart;
use crate::rdb::{kind, write_length, write_string};
use crate::resp::{begin_word, parse_int, write_word, write_words};
use crate::store::StringHint;
use crate::store::entry::Entry;
use crate::store::value::{RecordBody, Str, Type, WalkedElement};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::String,
    encoding: |entry| StringEncoding::of(entry).map_or("", StringEncoding::name),
    module: None,
    numbers: &[TypeNumber::new(kind::STRING, &[StrPart])],
    payload: PayloadFormat {
        number: |_, _| kind::STRING,
        write: |out, _, entry, options| write_string(out, entry.string().as_slice(), options.compression),
        begin: |out, _, entry, _| {
            let text = entry.long_text()?;
            write_length(out, text.bytes().len());
            Some(RecordBody::new(text.pieces(), write_piece))
        },
        read: |_, reader, target, options| {
            let text = reader.string(options.len_max)?;
            Some(Entry::text(target.key, &text, target.deadline))
        },
    },
    commands: Some(CommandFormat { write: write_command, begin: begin_large_command }),
    digest: |digest, entry| {
        digest.mix_type(0);
        digest.mix(entry.string().as_slice());
    },
};

/// The longest string that Redis embeds in its object.
const EMBEDDED_MAX: usize = 44;

/// Encoding of a string in Redis.
pub(crate) enum StringEncoding {
    Integer(i64),
    Embedded,
    Raw,
}

impl StringEncoding {
    /// Returns the encoding of a string; `None` for a value of another type.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let text = entry.get::<Str>().ok()?.as_slice();
        Some(match (entry.hint(), parse_int(text)) {
            (StringHint::Plain, Some(number)) => StringEncoding::Integer(number),
            (StringHint::Plain | StringHint::NotInt, _) if text.len() <= EMBEDDED_MAX => StringEncoding::Embedded,
            _ => StringEncoding::Raw,
        })
    }

    fn name(self) -> &'static str {
        match self {
            StringEncoding::Integer(_) => "int",
            StringEncoding::Embedded => "embstr",
            StringEncoding::Raw => "raw",
        }
    }
}

/// Returns the length of an uncompressed string in a snapshot; `None` for a value of another type.
pub(crate) fn saved_len(entry: &Entry) -> Option<usize> {
    let len = entry.get::<Str>().ok()?.len();
    let as_text = match len {
        len @ ..64 => 1 + len,
        len @ 64..16_384 => 2 + len,
        len => 5 + len,
    };
    Some(match StringEncoding::of(entry)? {
        StringEncoding::Integer(number) if i8::try_from(number).is_ok() => 2,
        StringEncoding::Integer(number) if i16::try_from(number).is_ok() => 3,
        StringEncoding::Integer(number) if i32::try_from(number).is_ok() => 5,
        _ => as_text,
    })
}

/// Appends a piece of a long string.
fn write_piece(element: WalkedElement<'_>, out: &mut MarkedBytes) {
    if let WalkedElement::Piece(bytes) = element {
        out.extend_from_slice(bytes);
    }
}

/// Appends the command that sets a string.
fn write_command(out: &mut Vec<u8>, entry: &Entry, fence: i64) {
    let text = entry.string();
    begin_command(out, entry.key(), text.len(), fence);
    out.extend_from_slice(text.as_slice());
    end_command(out, fence);
}

/// Appends the command that sets a long string, up to its pieces.
fn begin_large_command(out: &mut Vec<u8>, entry: &Entry, fence: i64) -> Option<RecordBody> {
    let text = entry.long_text()?;
    begin_command(out, entry.key(), text.bytes().len(), fence);
    let mut body = RecordBody::new(text.pieces(), write_piece);
    end_command(&mut body.tail, fence);
    Some(body)
}

/// Appends the command that sets a string, up to its bytes. A key with a fence is written with a command that sets
/// both.
pub(crate) fn begin_command(out: &mut Vec<u8>, key: &[u8], len: usize, fence: i64) {
    match fence {
        0 => write_words(out, 3, &[b"SET", key]),
        _ => write_words(out, 4, &[b"SETIFGREATER", key]),
    }
    begin_word(out, len);
}

/// Appends the rest of the command behind the bytes of a string.
pub(crate) fn end_command(out: &mut Vec<u8>, fence: i64) {
    out.extend_from_slice(b"\r\n");
    if fence != 0 {
        write_word(out, itoa::Buffer::new().format(fence).as_bytes());
    }
}
