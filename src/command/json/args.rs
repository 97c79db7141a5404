//! Arguments of JSON commands, and the errors that several of them have.

use std::borrow::Cow;

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::json::{self, JsonNode, JsonPath, JsonPathError, JsonTextError, JsonTextTooLong, JsonTooLong};
use crate::resp::parse_int;
use crate::store::value::{Json, WrongType};
use crate::store::{Key, Lookup, View};

const NOT_UTF_8: Error = Error::Line("Couldn't parse as UTF-8 string");
const NOT_INTEGER: Error = Error::Line("Couldn't parse as integer");
const TOO_MUCH: &str = "the path names too many values";
pub(super) const TOO_DEEP: Error = Error::Other(Cow::Borrowed("recursion limit exceeded"));
pub(super) const MISSING_KEY: Error =
    Error::Other(Cow::Borrowed("could not perform this operation on a key that doesn't exist"));

/// A path as a client has given it.
pub(super) struct DocumentPath<'a> {
    /// The argument.
    pub(super) given: &'a str,
    /// The path as JSONPath, which errors show.
    pub(super) path: Cow<'a, str>,
    /// True if it is of the older dialect.
    pub(super) is_legacy: bool,
}

impl<'a> DocumentPath<'a> {
    pub(super) fn new(given: &'a str) -> Self {
        let (path, is_legacy) = JsonPath::modern(given);
        DocumentPath { given, path, is_legacy }
    }

    /// Returns the path of commands that are given none: the whole document, in the older dialect.
    pub(super) fn whole() -> Self {
        Self::new(".")
    }

    /// Returns true if the path is the whole document.
    pub(super) fn is_whole(&self) -> bool {
        self.path == "$"
    }

    pub(super) fn parse(&self) -> Result<JsonPath> {
        JsonPath::parse(&self.path).map_err(Error::from)
    }

    /// Returns the values of a document that the path names.
    pub(super) fn find<'d>(&self, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>> {
        if self.is_whole() {
            return Ok(vec![JsonNode::root(document)]);
        }
        Ok(self.parse()?.find(document)?)
    }

    /// Returns the first of these values.
    ///
    /// # Errors
    /// An error when there is none.
    pub(super) fn find_first<'d>(&self, document: &'d [u8]) -> Result<JsonNode<'d>> {
        self.find(document)?.first().copied().ok_or_else(|| missing(&self.path))
    }
}

/// Returns the error for a path that names nothing.
pub(super) fn missing(path: &str) -> Error {
    Error::Other(format!("Path '{path}' does not exist").into())
}

/// Returns the error for a path that names nothing, or nothing of a type.
pub(super) fn missing_or(path: &str, or: &str) -> Error {
    Error::Other(format!("Path '{path}' does not exist or {or}").into())
}

/// Returns the error for a value of another type than the expected one.
pub(super) fn unexpected(expected: &str, found: &str) -> Error {
    Error::ComposedLine(format!("WRONGTYPE wrong type of path value - expected {expected} but found {found}"))
}

impl From<JsonPathError> for Error {
    fn from(error: JsonPathError) -> Self {
        match error {
            JsonPathError::Malformed(reply) => Error::ComposedLine(reply),
            JsonPathError::TooMuch => Error::other(TOO_MUCH),
        }
    }
}

impl From<JsonTextError> for Error {
    fn from(error: JsonTextError) -> Self {
        Error::ComposedLine(error.to_string())
    }
}

impl From<JsonTooLong> for Error {
    fn from(_: JsonTooLong) -> Self {
        Error::StringTooLong
    }
}

impl From<JsonTextTooLong> for Error {
    fn from(_: JsonTextTooLong) -> Self {
        Error::StringTooLong
    }
}

/// Returns an argument as text.
pub(super) fn text(argument: &[u8]) -> Result<&str> {
    std::str::from_utf8(argument).map_err(|_| NOT_UTF_8)
}

/// Returns the error for missing or superfluous arguments.
pub(super) fn arity(call: &Call<'_>) -> Error {
    Error::WrongArity(call.name().into())
}

/// Takes an argument as text.
pub(super) fn next_text<'a>(call: &mut Call<'a>) -> Result<&'a str> {
    match call.args.next_arg() {
        Some(argument) => text(argument),
        None => Err(arity(call)),
    }
}

/// Takes a path.
pub(super) fn next_path<'a>(call: &mut Call<'a>) -> Result<DocumentPath<'a>> {
    next_text(call).map(DocumentPath::new)
}

/// Takes a path, if there is one.
pub(super) fn optional_path<'a>(call: &mut Call<'a>) -> Result<DocumentPath<'a>> {
    match call.args.next_arg() {
        Some(argument) => text(argument).map(DocumentPath::new),
        None => Ok(DocumentPath::whole()),
    }
}

/// Takes an integer.
pub(super) fn next_int(call: &mut Call<'_>) -> Result<i64> {
    match call.args.next_arg() {
        Some(argument) => parse_int(argument).ok_or(NOT_INTEGER),
        None => Err(arity(call)),
    }
}

/// Returns the document of a text that a client has sent.
pub(super) fn encode(text: &str) -> Result<Vec<u8>> {
    Ok(json::encode(text, json::TEXT_DEPTH)?)
}

/// Returns the document of a text, for commands whose errors begin with a code word.
pub(super) fn encode_with_code(text: &str) -> Result<Vec<u8>> {
    json::encode(text, json::TEXT_DEPTH).map_err(|error| Error::Other(error.to_string().into()))
}

/// Takes the values at the end of a request, at least one.
pub(super) fn rest_encoded(call: &mut Call<'_>) -> Result<Vec<Vec<u8>>> {
    if call.args.left() == 0 {
        return Err(arity(call));
    }
    let mut values = Vec::with_capacity(call.args.left());
    while let Some(argument) = call.args.next_arg() {
        values.push(encode(text(argument)?)?);
    }
    Ok(values)
}

/// Returns the error for a key of another type.
pub(super) fn wrong_type(_: WrongType) -> Error {
    Error::Line("Existing key has wrong Redis type")
}

/// Returns the document of a key that a call changes, if there is one.
pub(super) fn document_to_change<'v>(view: &'v mut View<'_>, key: Key<'_>) -> Result<Option<&'v [u8]>> {
    view.get::<Json>(key, Lookup::WRITE).map_err(wrong_type)
}

/// Returns the document of a key that a call reads, if there is one.
pub(super) fn document<'v>(view: &'v mut View<'_>, key: Key<'_>) -> Result<Option<&'v [u8]>> {
    view.get::<Json>(key, Lookup::READ).map_err(wrong_type)
}
