//! Paths as they are written: steps and filters.

use std::borrow::Cow;

/// A path, parsed.
#[derive(Debug)]
pub(crate) struct JsonPath {
    pub(super) steps: Vec<PathStep>,
    /// The number of terms in its filters that begin at the document.
    pub(super) root_terms: usize,
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
pub(super) enum PathStep {
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
    /// Values in a value that pass a filter.
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
}

/// A condition on a value.
#[derive(Debug)]
pub(super) enum PathFilter {
    /// One of some groups holds, a group being conditions that all hold.
    Any(Vec<Vec<PathFilter>>),
    /// A comparison holds.
    Compare(PathTerm, PathComparison, PathTerm),
    /// A term has a value.
    Exists(PathTerm),
}

/// A comparison of two terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathComparison {
    AtLeast,
    Greater,
    AtMost,
    Less,
    Equal,
    Different,
    /// The left text matches the regular expression on the right.
    Matches,
}

/// One side of a comparison.
#[derive(Debug)]
pub(super) enum PathTerm {
    /// A path from the value that is tested.
    Current(Vec<PathStep>),
    /// A path from the whole document, with its number among these.
    Root(Vec<PathStep>, usize),
    Text(String),
    Integer(i64),
    Double(f64),
    Bool(bool),
    Null,
}
