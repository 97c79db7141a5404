//! How many random elements HRANDFIELD, SRANDMEMBER and ZRANDMEMBER return, and which ones.

use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};

/// How many elements, with repetitions, are returned at most: a larger number is a mistake, and its reply would not fit
/// into memory.
const REPEATED_MAX: u64 = 10_000_000;

/// The choice of several random elements.
#[derive(Clone, Copy)]
pub(super) enum Sample {
    /// Different ones, as many as there are at most.
    Different(usize),
    /// As many, each chosen among all.
    Repeated(u64),
}

impl Sample {
    /// Returns the sample for a count, which is negative if elements may be repeated.
    pub(super) fn of(count: i64) -> Self {
        match usize::try_from(count) {
            Ok(count) => Sample::Different(count),
            Err(_) => Sample::Repeated(count.unsigned_abs()),
        }
    }

    /// Reads a count and the option to return values or scores, too; `None` without any, where a single element is the
    /// reply.
    pub(super) fn read(args: &mut Args<'_>, option: &str) -> Result<Option<(Self, bool)>> {
        if args.left() == 0 {
            return Ok(None);
        }
        let count = args.symmetric_int()?;
        let has_option = match (args.next_arg(), args.left()) {
            (None, _) => false,
            (Some(word), 0) if is_word(word, option) => true,
            _ => return Err(Error::Syntax),
        };
        if has_option && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(out_of_range());
        }
        Ok(Some((Self::of(count), has_option)))
    }
}

/// Checks the number of elements that may be repeated.
///
/// # Errors
/// When there are too many.
pub(super) fn check_repeated(count: u64) -> Result<usize> {
    match count {
        ..=REPEATED_MAX => Ok(count as usize),
        _ => Err(out_of_range()),
    }
}

fn out_of_range() -> Error {
    Error::other("value is out of range")
}
