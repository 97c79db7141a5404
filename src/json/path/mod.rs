//! Paths to values of a document, in RedisJSON's dialect of JSONPath and in its older one.
//!
//! A path that begins with `$`, `$.` or `$[` is JSONPath; any other is of the older dialect, whose commands answer with
//! one value, and becomes JSONPath by a `$` or `$.` in front.

mod compare;
mod filter;
mod find;
mod parse;

use std::borrow::Cow;

use super::JsonNode;
use filter::PathFilter;

/// A path, parsed.
#[derive(Debug)]
pub(crate) struct JsonPath {
    steps: Vec<PathStep>,
    /// How many terms of its filters begin at the document.
    root_terms: usize,
}

/// The reason why a path finds nothing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonPathError {
    /// It is no path; holds the reply.
    Malformed(String),
    /// It would find too much, or take too long.
    TooMuch,
}

/// A part of a path.
#[derive(Debug)]
enum PathStep {
    /// The value, and all below it.
    Descend,
    /// All that a value contains.
    All,
    /// Members with one of some names.
    Names(Vec<String>),
    /// Elements at some indexes, negative ones from the end.
    Indexes(Vec<i64>),
    /// Elements from an index up to another, each so many.
    Range(Option<i64>, Option<i64>, usize),
    /// What a value contains that passes a filter.
    Filter(PathFilter),
}

/// The last part of a path that has one value at most.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonTail<'p> {
    /// The path is the whole document.
    Whole,
    /// A member by its name.
    Name(&'p str),
    /// An element by its index.
    Index,
}

impl JsonPath {
    /// Returns a path of either dialect as JSONPath, and whether it is of the older one.
    pub(crate) fn modern(path: &str) -> (Cow<'_, str>, bool) {
        match path.as_bytes() {
            [b'$'] | [b'$', b'.' | b'[', ..] => (path.into(), false),
            [b'.'] => ("$".into(), true),
            [b'.', ..] => (format!("${path}").into(), true),
            _ => (format!("$.{path}").into(), true),
        }
    }

    /// Parses a path of JSONPath.
    pub(crate) fn parse(path: &str) -> Result<Self, JsonPathError> {
        parse::parse(path)
    }

    /// Returns the last part, if the path names one value at most.
    pub(crate) fn tail(&self) -> Option<JsonTail<'_>> {
        let is_single = |step: &PathStep| match step {
            PathStep::Names(names) => names.len() == 1,
            PathStep::Indexes(indexes) => indexes.len() == 1,
            _ => false,
        };
        if !self.steps.iter().all(is_single) {
            return None;
        }
        Some(match self.steps.last() {
            Some(PathStep::Names(names)) => JsonTail::Name(&names[0]),
            Some(_) => JsonTail::Index,
            None => JsonTail::Whole,
        })
    }

    /// Returns the values of a document that the path names, in the order in which Redis finds them.
    ///
    /// What is looked at is limited to a multiple of the document's length, and so is what is found.
    pub(crate) fn find<'d>(&self, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        find::find(self, self.steps.len(), document)
    }

    /// Returns the values that the path names without its last part.
    pub(crate) fn find_parents<'d>(&self, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        find::find(self, self.steps.len().saturating_sub(1), document)
    }
}
