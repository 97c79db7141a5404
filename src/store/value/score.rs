//! Scores of sorted sets: integers or texts in a listpack, numbers everywhere else.
//!
//! A score that is an integer is stored as an integer, and any other as its shortest text, as in Redis.

use crate::store::value::listpack::{Encoded, StoredElement};
use crate::text::double::{DoubleText, as_integer, parse_double, write_double};

/// A score in its stored form.
pub(super) enum ScoreText {
    Int(i64),
    Text(DoubleText),
}

impl ScoreText {
    #[inline]
    pub(super) fn new(score: f64) -> Self {
        match as_integer(score) {
            Some(integer) => ScoreText::Int(integer),
            None => ScoreText::Text(write_double(score)),
        }
    }

    #[inline]
    pub(super) fn encoded(&self) -> Encoded<'_> {
        match self {
            ScoreText::Int(score) => Encoded::of_int(*score),
            ScoreText::Text(text) => Encoded::of(text),
        }
    }
}

/// Reads a stored score.
#[inline]
pub(super) fn read_score(item: StoredElement<'_>) -> f64 {
    checked_score(item).expect("scores are written here, or were checked")
}

/// Reads a score from elsewhere; `None` if it is not a number.
#[inline]
pub(crate) fn checked_score(item: StoredElement<'_>) -> Option<f64> {
    match item {
        StoredElement::Int(score) => Some(score as f64),
        StoredElement::Text(text) => parse_double(text),
    }
}

/// The score of an element. A packed score is decoded only where it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Score<'e> {
    /// A number.
    Number(f64),
    /// An element of a listpack.
    Packed(StoredElement<'e>),
}

impl Score<'_> {
    /// Returns the score as a number.
    #[inline]
    pub(crate) fn get(self) -> f64 {
        match self {
            Score::Number(score) => score,
            Score::Packed(item) => read_score(item),
        }
    }
}
