//! The arguments of LMPOP, ZMPOP and their blocking forms, and the number of keys with which they and SINTERCARD begin.

use smallvec::SmallVec;

use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::store::Key;

/// The elements to be removed: some at an end of the first key that has any.
pub(super) struct MultiPop<'a, E> {
    pub keys: SmallVec<[Key<'a>; 4]>,
    pub end: E,
    /// The maximum number of elements.
    pub count: usize,
}

impl<'a, E> MultiPop<'a, E> {
    /// Parses the number of keys, the keys, the end by `read_end`, and the number of elements, which is 1 by default.
    pub(super) fn read(args: &mut Args<'a>, read_end: fn(&mut Args<'a>) -> Result<E>) -> Result<Self> {
        let numkeys = read_numkeys(args)?;
        if numkeys >= args.left() {
            return Err(Error::Syntax);
        }
        let keys = (0..numkeys).map(|_| args.key()).collect::<Result<_>>()?;
        let end = read_end(args)?;
        let mut count = None;
        while let Some(word) = args.next_arg() {
            if count.is_some() || !is_word(word, "COUNT") {
                return Err(Error::Syntax);
            }
            count = Some(args.positive("count should be greater than 0")?);
        }
        Ok(MultiPop { keys, end, count: count.unwrap_or(1) })
    }
}

/// Parses a number of keys.
pub(super) fn read_numkeys(args: &mut Args<'_>) -> Result<usize> {
    args.positive("numkeys should be greater than 0")
}
