//! The options of HSCAN, SSCAN and ZSCAN, and their reply.

use std::cell::Cell;

use crate::command::keys::scan::{COUNT_DEFAULT, SLICE_STEPS, parse_cursor, read_count};
use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::resp::Reply;
use crate::store::SCAN_POSITIONS;

/// The maximum number of buckets visited per element of COUNT, so that a sparse table costs no more than a full one.
const BUCKETS_PER_ELEMENT: usize = 10;

/// The steps from which a comparison with a pattern counts as long. No more comparisons are begun once the long ones
/// have taken as long as a slice of SCAN, whatever COUNT says.
const LONG_COMPARISON: usize = SLICE_STEPS / 256;

/// The arguments of HSCAN, SSCAN or ZSCAN after the key.
pub(crate) struct ElementScan<'a> {
    cursor: u64,
    /// The pattern of the fields or members; `None` matches all.
    pattern: Option<Pattern<&'a [u8]>>,
    count: usize,
    /// The number of steps of long comparisons left.
    steps_left: Cell<usize>,
    /// True if the reply contains only the fields of a hash, or the members of a sorted set.
    pub is_bare: bool,
}

/// The options that leave out values of a hash and, in Valkey, scores of a sorted set.
pub(crate) const NO_VALUES: &str = "NOVALUES";
pub(crate) const NO_SCORES: &str = "NOSCORES";

/// Parses the cursor, which is checked before the key is looked up.
///
/// # Errors
/// [`Error::InvalidCursor`].
pub(crate) fn read_cursor(args: &mut Args<'_>) -> Result<u64> {
    parse_cursor(args.bytes()?).ok_or(Error::InvalidCursor)
}

/// Replies as for a missing key, whose options are not even parsed.
pub(crate) fn reply_nothing(reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}

impl<'a> ElementScan<'a> {
    /// Parses the options to the end of the request; of a repeated option the last occurrence counts. `bare` is the
    /// option that leaves values out, where there is one.
    ///
    /// # Errors
    /// An option is unknown, or its value is invalid.
    pub(crate) fn read(cursor: u64, args: &mut Args<'a>, bare: Option<&str>) -> Result<Self> {
        let steps_left = Cell::new(SLICE_STEPS);
        let mut scan = ElementScan { cursor, pattern: None, count: COUNT_DEFAULT, steps_left, is_bare: false };
        while let Some(word) = args.next_arg() {
            match word {
                word if is_word(word, "COUNT") => scan.count = read_count(args)?,
                word if is_word(word, "MATCH") => {
                    scan.pattern = Some(args.bytes()?).filter(|all| *all != b"*").map(Pattern::new);
                }
                word if bare.is_some_and(|bare| is_word(word, bare)) => scan.is_bare = true,
                word if is_word(word, NO_VALUES) => {
                    return Err(Error::other("NOVALUES option can only be used in HSCAN"));
                }
                _ => return Err(Error::Syntax),
            }
        }
        Ok(scan)
    }

    /// Returns true if a field or member matches the pattern.
    pub(crate) fn admits(&self, element: &[u8]) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let (matched, steps) = pattern.matches_counted(element);
        if steps >= LONG_COMPARISON {
            self.steps_left.set(self.steps_left.get().saturating_sub(steps));
        }
        matched
    }

    /// Replies with the elements of a packed collection, all of them at once. `write_all` writes the matching elements,
    /// and returns the number of values written.
    pub(crate) fn reply_packed(&self, reply: &mut Reply<'_>, write_all: impl FnOnce(&mut Reply<'_>) -> usize) {
        reply.array(2);
        reply.bulk(b"0");
        let start = reply.mark();
        let written = write_all(reply);
        reply.announce_at(start, |reply| reply.array(written));
    }

    /// Replies with some elements of a table. `visit` writes the matching elements at a position; it returns the number
    /// of elements visited, the number of values written, and the next position.
    pub(crate) fn reply_table(
        &self,
        reply: &mut Reply<'_>,
        mut visit: impl FnMut(&mut Reply<'_>, u64) -> (usize, usize, Option<u64>),
    ) {
        reply.array(2);
        let start = reply.mark();
        let (mut position, mut visited, mut written) = (Some(self.cursor), 0, 0);
        let mut buckets_left = self.count.saturating_mul(BUCKETS_PER_ELEMENT);
        while let Some(at) = position.filter(|at| *at < SCAN_POSITIONS)
            && visited < self.count
            && self.steps_left.get() > 0
            && buckets_left > 0
        {
            let (more_visited, more_written, next) = visit(reply, at);
            (visited, written, position) = (visited + more_visited, written + more_written, next);
            buckets_left -= 1;
        }
        let next = position.filter(|at| *at < SCAN_POSITIONS).unwrap_or(0);
        reply.announce_at(start, |reply| {
            reply.bulk(itoa::Buffer::new().format(next).as_bytes());
            reply.array(written);
        });
    }
}
