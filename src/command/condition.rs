//! The conditions IFEQ, IFNE, IFDEQ and IFDNE: a command acts only if a key's string matches. SET, DELEX, EXPIRE and
//! EXEC accept them.
//!
//! NX and XX, which only check if a key exists, are elsewhere, as is the effect of a missing key on a command.
//!
//! Invariant: strings are compared byte by byte, digests as the hexadecimal digits that DIGEST shows.

use std::io::Write;

use twox_hash::XxHash3_64;

use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::{Arg, string};

/// The grammar of IFEQ, a condition by value.
pub(crate) const IFEQ: Arg = string("ifeq-value").token("IFEQ");
/// The grammar of IFNE, the opposite of [`IFEQ`].
pub(crate) const IFNE: Arg = string("ifne-value").token("IFNE");
/// The grammar of IFDEQ, a condition by digest.
pub(crate) const IFDEQ: Arg = string("ifdeq-digest").token("IFDEQ");
/// The grammar of IFDNE, the opposite of [`IFDEQ`].
pub(crate) const IFDNE: Arg = string("ifdne-digest").token("IFDNE");

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// A condition on the string of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringCondition<'a> {
    verb: Verb,
    operand: &'a [u8],
}

/// The comparison that a condition makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Equal,
    NotEqual,
    DigestEqual,
    DigestNotEqual,
}

const VERBS: [(&str, Verb); 4] =
    [("IFEQ", Verb::Equal), ("IFNE", Verb::NotEqual), ("IFDEQ", Verb::DigestEqual), ("IFDNE", Verb::DigestNotEqual)];

impl<'a> StringCondition<'a> {
    /// Parses a condition whose keyword was already taken from `args`; `None` if it is not a condition.
    ///
    /// # Errors
    /// [`Error::Syntax`] when the operand is missing.
    pub(crate) fn read(word: &[u8], args: &mut Args<'a>) -> Result<Option<Self>> {
        let Some(verb) = Verb::of(word) else { return Ok(None) };
        Ok(Some(StringCondition { verb, operand: args.bytes()? }))
    }

    /// Builds a condition from its keyword and its operand; `None` if its keyword is not IFEQ or IFNE.
    pub(crate) fn by_value(word: &[u8], operand: &'a [u8]) -> Option<Self> {
        let verb = Verb::of(word).filter(|verb| matches!(verb, Verb::Equal | Verb::NotEqual))?;
        Some(StringCondition { verb, operand })
    }

    /// Returns true if a string meets the condition.
    ///
    /// # Errors
    /// The operand cannot be a digest, which is decided by its length alone.
    pub(crate) fn is_met_by(&self, text: &[u8]) -> Result<bool> {
        Ok(match self.verb {
            Verb::Equal => text == self.operand,
            Verb::NotEqual => text != self.operand,
            Verb::DigestEqual => self.has_digest(text)?,
            Verb::DigestNotEqual => !self.has_digest(text)?,
        })
    }

    /// Returns true if a missing key meets the condition: it is not equal to any value.
    pub(crate) fn is_met_by_nothing(&self) -> bool {
        matches!(self.verb, Verb::NotEqual | Verb::DigestNotEqual)
    }

    fn has_digest(&self, text: &[u8]) -> Result<bool> {
        if self.operand.len() != DIGITS {
            return Err(Error::other("must be exactly 16 hexadecimal characters"));
        }
        Ok(digest(text).eq_ignore_ascii_case(self.operand))
    }
}

impl Verb {
    fn of(word: &[u8]) -> Option<Self> {
        // Most arguments are other options, and each of them is checked here.
        if !matches!(word, [b'i' | b'I', ..]) {
            return None;
        }
        VERBS.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, verb)| verb)
    }
}

/// Returns the XXH3 of a string as DIGEST shows it: hexadecimal, lower-case, with leading zeros.
pub(crate) fn digest(text: &[u8]) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    write!(&mut digits[..], "{:016x}", XxHash3_64::oneshot(text)).expect("64 bits are sixteen digits");
    digits
}

/// Returns true if any argument of a request from position `first` on is a condition's keyword, so that the command
/// reads its key. Arguments that are values count as well: as in Redis, only the command itself distinguishes them.
pub(crate) fn is_conditional(request: Request<'_>, first: usize) -> bool {
    request.args().skip(first).any(|word| Verb::of(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests are test vectors from Redis' own tests and documentation.
    #[test]
    fn digests_are_those_of_redis() {
        let long = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
        let cases = [
            ("", "2d06800538d394c2"),
            ("hello", "9555e8555c62dcfd"),
            ("123", "404a763b3f4c8c9a"),
            ("v8", "0cc76dbb41381419"),
            ("Hello world", "b6acb9d84a38ff74"),
            (long, "00006c38adf31777"),
        ];
        for (text, expected) in cases {
            assert_eq!(digest(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
