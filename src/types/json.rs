//! The row of JSON documents, and their form in dumps, which is their text.

use crate::json::{self, JsonLayout, JsonNode};
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

/// Reads a document: its text, behind which older versions have what was for an index.
fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut parts = ModuleReader(reader);
    let text = parts.text(options.len_max)?;
    match version {
        3 => {}
        2 if parts.unsigned()? > 0 => {
            parts.text(options.len_max)?;
            parts.text(options.len_max)?;
        }
        2 => {}
        _ => return None,
    }
    let document = json::encode(std::str::from_utf8(&text).ok()?, json::DOCUMENT_DEPTH).ok()?;
    Some(Entry::flat::<Json>(target.key, document, target.deadline))
}
