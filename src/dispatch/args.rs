//! A cursor over the arguments of one call, with typed getters.

use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::store::Key;
use crate::text::long_double;
use crate::text::long_double::LongDouble;

/// Walks through the words after the command's name.
pub struct Args<'a> {
    request: Request<'a>,
    at: usize,
    /// What dispatch made of the call's declared keys, in the order of the grammar.
    hashes: &'a [u64],
}

impl<'a> Args<'a> {
    /// Creates a cursor that stands at word `at`.
    pub fn new(request: Request<'a>, at: usize, hashes: &'a [u64]) -> Self {
        Args { request, at, hashes }
    }

    /// Returns how many words are left.
    pub fn left(&self) -> usize {
        self.request.len() - self.at
    }

    /// Returns the whole request, with the command's name.
    pub fn request(&self) -> Request<'a> {
        self.request
    }

    /// Reads the next word, if there is one.
    pub fn next_word(&mut self) -> Option<&'a [u8]> {
        (self.at < self.request.len()).then(|| {
            self.at += 1;
            self.request.arg(self.at - 1)
        })
    }

    /// Reads any bytes.
    ///
    /// # Errors
    /// [`Error::Syntax`] when no word is left, here and in the other getters.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        // Not `ok_or`, which would make the error first and drop it again: this runs for every argument.
        let Some(word) = self.next_word() else { return Err(Error::Syntax) };
        Ok(word)
    }

    /// Reads a key that the command's row declares.
    ///
    /// # Errors
    /// [`Error::Syntax`] when no word, or no declared key, is left.
    pub fn key(&mut self) -> Result<Key<'a>> {
        let Some((hash, rest)) = self.hashes.split_first() else { return Err(Error::Syntax) };
        self.hashes = rest;
        Ok(Key { bytes: self.bytes()?, hash: *hash })
    }

    /// Reads a signed 64-bit integer.
    ///
    /// # Errors
    /// [`Error::NotInteger`].
    pub fn int(&mut self) -> Result<i64> {
        parse_int(self.bytes()?).ok_or(Error::NotInteger)
    }

    /// Reads a floating-point number with the precision of C's `long double`.
    ///
    /// # Errors
    /// [`Error::NotFloat`].
    pub fn long_double(&mut self) -> Result<LongDouble> {
        long_double::parse(self.bytes()?).ok_or(Error::NotFloat)
    }
}

/// Returns whether a word is `expected`, whatever its case. As in Redis, a word ends at its first NUL.
pub(crate) fn is_word(word: &[u8], expected: &str) -> bool {
    match word.split_at_checked(expected.len()) {
        Some((start, rest)) => {
            rest.first().is_none_or(|next| *next == 0) && start.eq_ignore_ascii_case(expected.as_bytes())
        }
        None => false,
    }
}
