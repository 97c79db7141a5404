//! The row of JSON documents, and their form in dumps, which is their text.

use crate::json::{self, JsonLayout, JsonNode, JsonNumber};
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_text};
use crate::store::entry::Entry;
use crate::store::value::{DataType, Json, Type};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{PayloadFormat, TypeSpec};

/// The number of module types in digests.
const MODULE: u32 = 5;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Json,
    encoding: |_| "raw",
    module: Some(ModuleId::new(b"ReJSON-RL", 3)),
    numbers: &[],
    payload: PayloadFormat::of_module(
        |out, _, entry, options| write_text(out, &text_of(Json::read(entry)), options.compression),
        read,
    ),
    commands: None, // a document may be deeper than the text of JSON.SET
    digest: |digest, entry| {
        digest.mix_type(MODULE);
        digest.mix(Json::read(entry));
    },
};

fn text_of(document: &[u8]) -> Vec<u8> {
    let layout = JsonLayout { limit: usize::MAX, ..JsonLayout::default() };
    let mut text = Vec::with_capacity(document.len() * 2);
    let _ = json::print(JsonNode::root(document), &layout, 0, &mut text); // without a limit it does not fail
    text
}

/// Reads a document: its text, behind which an older version has what was for an index; the oldest has values.
fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut parts = ModuleReader(reader);
    let text = match version {
        3 => parts.text(options.len_max)?,
        2 => {
            let text = parts.text(options.len_max)?;
            if parts.unsigned()? > 0 {
                parts.text(options.len_max)?;
                parts.text(options.len_max)?;
            }
            text
        }
        0 => {
            let mut text = Vec::new();
            read_value(&mut parts, options.len_max, json::DOCUMENT_DEPTH, &mut text)?;
            text.into()
        }
        _ => return None,
    };
    let document = json::encode(std::str::from_utf8(&text).ok()?, json::DOCUMENT_DEPTH).ok()?;
    Some(Entry::flat::<Json>(target.key, document, target.deadline))
}

/// The types of values in the oldest dumps.
mod old {
    pub(super) const NULL: u64 = 0x01;
    pub(super) const STRING: u64 = 0x02;
    pub(super) const DOUBLE: u64 = 0x04;
    pub(super) const INTEGER: u64 = 0x08;
    pub(super) const BOOL: u64 = 0x10;
    pub(super) const OBJECT: u64 = 0x20;
    pub(super) const ARRAY: u64 = 0x40;
    pub(super) const MEMBER: u64 = 0x80;
}

/// Reads a value of the oldest dumps, with as many containers in each other, and appends its text.
fn read_value(parts: &mut ModuleReader<'_, '_>, len_max: usize, depth: usize, to: &mut Vec<u8>) -> Option<()> {
    match parts.unsigned()? {
        old::NULL => to.extend_from_slice(b"null"),
        old::STRING => json::print_string(&parts.text(len_max)?, to),
        old::DOUBLE => JsonNumber::of_double(parts.double()?)?.print(to),
        old::INTEGER => JsonNumber::Integer(parts.unsigned()? as i64).print(to),
        old::BOOL => to.extend_from_slice(if parts.text(len_max)?.starts_with(b"1") { b"true" } else { b"false" }),
        of @ (old::OBJECT | old::ARRAY) => {
            let depth = depth.checked_sub(1)?;
            to.push(if of == old::OBJECT { b'{' } else { b'[' });
            for at in 0..parts.unsigned()? {
                if at > 0 {
                    to.push(b',');
                }
                if of == old::OBJECT {
                    (parts.unsigned()? == old::MEMBER).then_some(())?;
                    json::print_string(&parts.text(len_max)?, to);
                    to.push(b':');
                }
                read_value(parts, len_max, depth, to)?;
            }
            to.push(if of == old::OBJECT { b'}' } else { b']' });
        }
        _ => return None,
    }
    Some(())
}
