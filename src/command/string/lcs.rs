//! LCS: the longest common subsequence of two strings, and its positions.
//!
//! The textbook table has a number per pair of bytes. Only its last row and one bit per pair (the direction of the walk
//! back) are needed, which takes a thirty-second of the memory. The size limit is still that of Redis' table, so that
//! clients get the same errors. The work is done in slices on copies of the strings, so a long comparison does not
//! block other clients.
//!
//! Invariant: of several longest subsequences, the one found is the one that Redis finds.

use bytes::Bytes;

use crate::client::registry::Unblocked;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Continuation, Env};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::{Lookup, Str, View};

/// The memory of Redis' table per pair of bytes.
const CELL_BYTES: u64 = 4;

/// The number of cells filled before other clients are served, about a millisecond's work. A row is not divided.
const SLICE_CELLS: usize = 1 << 20;

/// The options of LCS.
#[derive(Default)]
struct Options {
    length_only: bool,
    ranges: bool,
    with_lengths: bool,
    /// The length below which ranges are omitted.
    length_min: i64,
}

/// A common substring, by its position in each string.
struct Range {
    a: usize,
    b: usize,
    len: usize,
}

/// Executes `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN n] [WITHMATCHLEN]`.
pub(crate) fn lcs(call: &mut Call<'_>) -> Result<()> {
    let (key_a, key_b) = (call.args.key()?, call.args.key()?);
    let not_text = |_| Error::other("The specified keys must contain string values");
    // Both keys are looked up before either type is checked.
    let [a, b]: [Result<Bytes>; 2] = [key_a, key_b].map(|key| {
        let text = call.view.get::<Str>(key, Lookup::READ).map_err(not_text)?;
        Ok(text.map(|text| text.to_bytes()).unwrap_or_default())
    });
    let (a, b) = (a?, b?);
    let options = Options::read(call)?;
    check_size(a.len(), b.len(), call.bulk_len_max())?;
    call.run_incrementally(Comparison::new(a, b, options)?)
}

impl Options {
    fn read(call: &mut Call<'_>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = call.args.next_arg() {
            if is_word(word, "IDX") {
                options.ranges = true;
            } else if is_word(word, "LEN") {
                options.length_only = true;
            } else if is_word(word, "WITHMATCHLEN") {
                options.with_lengths = true;
            } else if is_word(word, "MINMATCHLEN") {
                options.length_min = call.args.int()?;
            } else {
                return Err(Error::Syntax);
            }
        }
        if options.length_only && options.ranges {
            return Err(Error::other("If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }

    fn reply_ranges(&self, reply: &mut Reply<'_>, ranges: &[Range]) {
        let long_enough = || ranges.iter().filter(|range| range.len as i64 >= self.length_min);
        reply.array(long_enough().count());
        for range in long_enough() {
            reply.array(if self.with_lengths { 3 } else { 2 });
            for start in [range.a, range.b] {
                reply.array(2);
                reply.int(start as i64);
                reply.int((start + range.len - 1) as i64);
            }
            if self.with_lengths {
                reply.int(range.len as i64);
            }
        }
    }
}

fn check_size(a_len: usize, b_len: usize, bytes_max: usize) -> Result<()> {
    if a_len.max(b_len) >= u32::MAX as usize - 1 {
        return Err(Error::LcsTooLong);
    }
    let cells = (a_len as u64 + 1) * (b_len as u64 + 1);
    if cells.checked_mul(CELL_BYTES).is_none() {
        return Err(no_memory());
    }
    if cells * CELL_BYTES > bytes_max as u64 {
        return Err(Error::other("Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    Ok(())
}

fn no_memory() -> Error {
    Error::other("Insufficient memory, failed allocating transient memory for LCS")
}

/// Compares two strings, row by row of a table that has a row per byte of `a` and a column per byte of `b`.
struct Comparison {
    a: Bytes,
    b: Bytes,
    options: Options,
    /// The row filled last: the length of the longest common subsequence of `a` up to there and each prefix of `b`.
    row: Vec<u32>,
    rows_filled: usize,
    /// A bit per pair of bytes, set where the walk back moves in `a` and not in `b`; empty if there is no walk.
    shorten_a: Vec<u64>,
}

impl Continuation for Comparison {
    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let rows = (SLICE_CELLS / self.row.len()).max(1);
        let slice_end = self.a.len().min(self.rows_filled + rows);
        (self.rows_filled..slice_end).for_each(|i| self.fill_row(i));
        self.rows_filled = slice_end;
        let finished = slice_end == self.a.len();
        if finished {
            self.reply(reply);
        }
        Ok(finished)
    }
}

impl Comparison {
    fn new(a: Bytes, b: Bytes, options: Options) -> Result<Self> {
        let walks = if options.length_only { 0 } else { (a.len() * b.len()).div_ceil(64) };
        let (row, shorten_a) = (zeros(b.len() + 1)?, zeros(walks)?);
        Ok(Comparison { a, b, options, row, rows_filled: 0, shorten_a })
    }

    fn fill_row(&mut self, i: usize) {
        // `left` is the cell just filled, `diagonal` the one of the previous row before it.
        let (mut left, mut diagonal) = (0, 0);
        for (j, (cell, byte)) in self.row[1..].iter_mut().zip(&self.b).enumerate() {
            let above = *cell;
            if self.a[i] == *byte {
                left = diagonal + 1;
            } else if above > left {
                left = above;
                if !self.options.length_only {
                    let at = i * self.b.len() + j;
                    self.shorten_a[at / 64] |= 1 << (at % 64);
                }
            }
            *cell = left;
            diagonal = above;
        }
    }

    fn reply(&self, reply: &mut Reply<'_>) {
        let length = self.row.last().map_or(0, |cell| i64::from(*cell));
        if self.options.length_only {
            return reply.int(length);
        }
        let ranges = self.walk_back();
        if !self.options.ranges {
            let parts: Vec<&[u8]> = ranges.iter().rev().map(|range| &self.a[range.a..range.a + range.len]).collect();
            return reply.bulk(&parts.concat());
        }
        reply.map(2);
        reply.bulk(b"matches");
        self.options.reply_ranges(reply, &ranges);
        reply.bulk(b"len");
        reply.int(length);
    }

    /// Returns the ranges of the subsequence, the last one first.
    fn walk_back(&self) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            let at = (i - 1) * self.b.len() + j - 1;
            if self.a[i - 1] == self.b[j - 1] {
                match ranges.last_mut() {
                    Some(range) if range.a == i && range.b == j => {
                        *range = Range { a: i - 1, b: j - 1, len: range.len + 1 };
                    }
                    _ => ranges.push(Range { a: i - 1, b: j - 1, len: 1 }),
                }
                (i, j) = (i - 1, j - 1);
            } else if self.shorten_a[at / 64] >> (at % 64) & 1 == 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        ranges
    }
}

fn zeros<T: Copy + Default>(len: usize) -> Result<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| no_memory())?;
    zeros.resize(len, T::default());
    Ok(zeros)
}
