//! Cursor over the arguments of one call, with typed getters.

use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::store::{Key, Str};
use crate::text::bounds::{LexRange, ScoreRange};
use crate::text::double::parse_double;
use crate::text::long_double;
use crate::text::long_double::LongDouble;

/// Cursor over the arguments after the command's name.
pub struct Args<'a> {
    request: Request<'a>,
    at: usize,
    /// Hashes of the call's declared keys, in the order of the grammar.
    hashes: &'a [u64],
}

impl<'a> Args<'a> {
    /// Creates a cursor at argument `at`.
    pub fn new(request: Request<'a>, at: usize, hashes: &'a [u64]) -> Self {
        Args { request, at, hashes }
    }

    /// Returns the hashes of the declared keys that were not taken yet.
    pub(super) fn hashes(&self) -> &'a [u64] {
        self.hashes
    }

    /// Returns the number of remaining arguments.
    pub fn left(&self) -> usize {
        self.request.len() - self.at
    }

    /// Returns the whole request, with the command's name.
    pub fn request(&self) -> Request<'a> {
        self.request
    }

    /// Iterates over the remaining arguments, without consuming them.
    pub fn rest(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        self.request.skip(self.at).args()
    }

    /// Returns the next argument, if there is one.
    pub fn next_arg(&mut self) -> Option<&'a [u8]> {
        (self.at < self.request.len()).then(|| {
            self.at += 1;
            self.request.arg(self.at - 1)
        })
    }

    /// Returns an argument of arbitrary bytes.
    ///
    /// # Errors
    /// [`Error::Syntax`] when no argument remains, here and in the other getters.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        // Not `ok_or`, which would create and drop the error: this runs for every argument.
        let Some(word) = self.next_arg() else { return Err(Error::Syntax) };
        Ok(word)
    }

    /// Returns an argument that becomes a string value; a large one is shared instead of copied.
    ///
    /// # Errors
    /// [`Error::Syntax`] when no argument remains.
    pub fn text(&mut self) -> Result<Str<'a>> {
        let (at, bytes) = (self.at, self.bytes()?);
        Ok(self.request.shared(at).map_or(Str::Inline(bytes), Str::Shared))
    }

    /// Returns a key that the command's row declares.
    ///
    /// # Errors
    /// [`Error::Syntax`] when no argument, or no declared key, remains.
    pub fn key(&mut self) -> Result<Key<'a>> {
        let Some((hash, rest)) = self.hashes.split_first() else { return Err(Error::Syntax) };
        self.hashes = rest;
        Ok(Key { bytes: self.bytes()?, hash: *hash })
    }

    /// Parses an integer that can be negated.
    ///
    /// # Errors
    /// [`Error::NotInteger`]; another error for the smallest integer of 64 bits.
    pub fn symmetric_int(&mut self) -> Result<i64> {
        match self.int()? {
            i64::MIN => {
                Err(Error::other(format!("value is out of range, value must between {} and {}", -i64::MAX, i64::MAX)))
            }
            int => Ok(int),
        }
    }

    /// Parses an integer that must not be negative.
    ///
    /// # Errors
    /// [`Error::NotPositive`], also when the argument is no integer.
    pub fn count(&mut self) -> Result<usize> {
        let count = parse_int(self.bytes()?).and_then(|count| usize::try_from(count).ok());
        count.ok_or(Error::NotPositive)
    }

    /// Parses a signed 64-bit integer.
    ///
    /// # Errors
    /// [`Error::NotInteger`].
    pub fn int(&mut self) -> Result<i64> {
        parse_int(self.bytes()?).ok_or(Error::NotInteger)
    }

    /// Parses an integer that is 0 or 1.
    ///
    /// # Errors
    /// [`Error::NotInteger`]; another error for any other integer.
    pub fn zero_or_one(&mut self) -> Result<bool> {
        match self.int()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::other("value is out of range, value must between 0 and 1")), // as in Redis, to the letter
        }
    }

    /// Parses a floating-point number with the precision of C's `long double`.
    ///
    /// # Errors
    /// [`Error::NotFloat`].
    pub fn long_double(&mut self) -> Result<LongDouble> {
        long_double::parse(self.bytes()?).ok_or(Error::NotFloat)
    }

    /// Parses a number greater than 0.
    ///
    /// # Errors
    /// An error with the text `otherwise`.
    pub(crate) fn positive(&mut self, otherwise: &'static str) -> Result<usize> {
        let number = parse_int(self.bytes()?).and_then(|number| usize::try_from(number).ok());
        number.filter(|number| *number > 0).ok_or(Error::other(otherwise))
    }

    /// Parses a double: a score, a weight, a coordinate.
    ///
    /// # Errors
    /// [`Error::NotFloat`].
    pub(crate) fn double(&mut self) -> Result<f64> {
        parse_double(self.bytes()?).ok_or(Error::NotFloat)
    }

    /// Parses the two ends of a range of scores, the lower one first.
    ///
    /// # Errors
    /// An error when one of them is not a number.
    pub(crate) fn score_range(&mut self) -> Result<ScoreRange> {
        let (min, max) = (self.bytes()?, self.bytes()?);
        ScoreRange::parse(min, max).ok_or_else(|| Error::other("min or max is not a float"))
    }

    /// Parses the two ends of a range of members, the lower one first.
    ///
    /// # Errors
    /// An error when one of them begins with none of `[`, `(`, `-` and `+`.
    pub(crate) fn lex_range(&mut self) -> Result<LexRange<'a>> {
        let (min, max) = (self.bytes()?, self.bytes()?);
        LexRange::parse(min, max).ok_or_else(|| Error::other("min or max not valid string range item"))
    }
}

/// Returns whether an argument is the keyword `expected`, case-insensitive. As in Redis, an argument ends at its first
/// NUL.
pub(crate) fn is_word(word: &[u8], expected: &str) -> bool {
    match word.split_at_checked(expected.len()) {
        Some((start, rest)) => {
            rest.first().is_none_or(|next| *next == 0) && start.eq_ignore_ascii_case(expected.as_bytes())
        }
        None => false,
    }
}
