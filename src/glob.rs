//! Glob patterns as Redis reads them: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET`, ACL rules.
//!
//! Not a path matcher: `/` and a leading dot have no special meaning. The quirks of Redis' own matcher are reproduced
//! to the byte (an unterminated class ends with the pattern, ranges compare signed bytes, nothing but the empty pattern
//! matches the empty text), because a client may depend on any of them.
//!
//! A pattern is compiled once, and may be matched often: a class that is longer than a set of bytes is converted to
//! such a set. No other element needs that, so a pattern takes at most twice the memory of its text, and short ones
//! cost no allocation.
//!
//! Invariant: matching takes time that is linear in the lengths of pattern and text, except for a part between two `*`
//! that is long and contains `?` or classes: there it takes at most a step for each 16 bytes of the part and each byte
//! of the text. A [`Comparison`] can be interrupted at such a part.

mod comparison;
mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use comparison::Comparison;
pub(crate) use pattern::Pattern;
