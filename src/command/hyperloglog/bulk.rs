//! Adds many elements to a sketch in one call, in a time that hardly grows with the length of its runs.
//!
//! Finding a register of a sparse sketch scans its runs from the start. With a high `hll-sparse-max-bytes`, that is
//! twelve thousand runs per element. So where many elements are added, the registers are kept unpacked next to the
//! runs: an element that changes nothing needs no scan, and after many changes the runs are rebuilt once, at the end.

use crate::command::hyperloglog::sketch::{DENSE_LEN, REGISTERS, Registers, Sketch, place};
use crate::error::Result;

/// The number of elements from which the registers are kept unpacked.
const MANY: usize = 64;
/// The number of changes after which the runs are only rebuilt at the end. With the default of `hll-sparse-max-bytes` a
/// sketch becomes dense earlier, so its runs are split and joined as in Redis.
const CHANGES_MAX: usize = 2048;

/// A sketch that is being changed.
pub(crate) struct Bulk {
    sketch: Sketch,
    /// The maximum length of the sparse encoding.
    sparse_max: usize,
    known: Option<Registers>,
    changes: usize,
    /// True if `known` has changes that the runs lack.
    is_behind: bool,
}

impl Bulk {
    /// Prepares to raise `count` registers of a sketch. The result becomes dense where that encoding is shorter,
    /// whatever the settings allow.
    ///
    /// # Errors
    /// The runs do not add up and there are many registers to raise.
    pub(crate) fn new(sketch: Sketch, sparse_max: usize, count: usize) -> Result<Self> {
        let known = if count >= MANY { Some(Registers::of(sketch.as_bytes())?) } else { None };
        Ok(Bulk { sketch, sparse_max: sparse_max.min(DENSE_LEN), known, changes: 0, is_behind: false })
    }

    /// Adds an element; returns true if a register was raised.
    pub(crate) fn add(&mut self, element: &[u8]) -> Result<bool> {
        let (index, rank) = place(element);
        self.raise(index, rank)
    }

    /// Raises a register to a value; returns true if it was lower.
    pub(crate) fn raise(&mut self, index: usize, value: u8) -> Result<bool> {
        if let Some(known) = &mut self.known {
            if !known.raise(index, value) {
                return Ok(false);
            }
            self.is_behind = self.is_behind || self.changes >= CHANGES_MAX && !self.sketch.is_dense();
            if self.is_behind {
                return Ok(true);
            }
        }
        let is_changed = self.sketch.raise(index, value, self.sparse_max)?;
        self.changes += usize::from(is_changed);
        Ok(is_changed)
    }

    /// Raises every register to its value in `registers`. As in Redis, damaged runs of a sketch that was read
    /// successfully before are not an error here.
    pub(crate) fn raise_all(&mut self, registers: &Registers) {
        for index in 0..REGISTERS {
            let value = registers.value(index);
            if value > 0 {
                let _ = self.raise(index, value);
            }
        }
    }

    /// Returns the sketch with all changes.
    pub(crate) fn finish(mut self) -> Sketch {
        if let Some(known) = self.known.filter(|_| self.is_behind) {
            self.sketch.set_all(&known, self.sparse_max);
        }
        self.sketch
    }
}
