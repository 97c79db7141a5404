//! Filters of paths, as they are written.

use super::PathStep;

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

/// How two terms are compared.
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
