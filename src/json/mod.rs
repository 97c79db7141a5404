//! JSON documents as flat values: their form in memory, text in and out, paths, and changes.
//!
//! A document is one byte string without pointers ([`form`]). [`encode()`] makes it of a text, [`JsonNode`] reads it,
//! [`JsonPath`] finds places in it, and [`edit()`] makes the next document of it. Documents come from [`encode()`] and [`edit()`]
//! only; bytes that are neither read as null, and nothing here panics on them.
//!
//! The module is pure. Texts of a peer are limited in depth by [`TEXT_DEPTH`], documents by [`DOCUMENT_DEPTH`], and the
//! work of a path by the size of the document ([`JsonPath::find`]).

mod edit;
mod encode;
pub(crate) mod form;
mod merge;
mod node;
mod number;
mod path;
mod print;
#[cfg(test)]
mod tests;

pub(crate) use edit::{JsonChange, JsonTargets, edit, sliced, spliced, with_member};
pub(crate) use encode::{JsonTextError, encode};
pub(crate) use form::{depth_of, document_of_bool, document_of_string, empty_array, empty_object};
pub(crate) use merge::merge;
pub(crate) use node::{JsonKind, JsonNode, is_equal};
pub(crate) use number::JsonNumber;
pub(crate) use path::{JsonPath, JsonPathError, JsonTail};
pub(crate) use print::{JsonLayout, JsonShown, JsonTextTooLong, print, print_list, print_members, print_string};

/// The most containers in each other in a text, one less than where Redis' parser gives up.
pub(crate) const TEXT_DEPTH: usize = 127;

/// The most containers in each other in a document, which grows by changes below its top.
pub(crate) const DOCUMENT_DEPTH: usize = 1024;

/// The longest document, in its own form and as text.
pub(crate) const DOCUMENT_BYTES: usize = 512 << 20;

/// A document would be longer than [`DOCUMENT_BYTES`].
#[derive(Debug)]
pub(crate) struct JsonTooLong;
