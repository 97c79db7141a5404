//! Glob patterns as Redis reads them: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET`, ACL rules.
//!
//! Not a path matcher: `/` and a leading dot have no special meaning. The quirks of Redis' own matcher are kept to the
//! byte (an unterminated class ends with the pattern, ranges compare signed bytes, nothing but the empty pattern
//! matches the empty text), because a client may depend on any of them.
//!
//! A pattern is compiled once, and may be matched often: a class that is longer than a set of bytes becomes such a set.
//! Nothing else needs it, so a pattern takes at most twice the memory of its text, and short ones cost no allocation.
//!
//! Invariant: to match takes time that is linear in the lengths of pattern and text, but for a part between two `*` that is
//! long and contains `?` or classes: it takes a step for each 16 bytes of it and each byte of the text, at most. A
//! [`Comparison`] can be interrupted there.

mod comparison;
mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use comparison::Comparison;
pub(crate) use pattern::Pattern;
