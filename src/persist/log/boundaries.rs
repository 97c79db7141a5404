//! Positions at which records end in the log, for readers that may not stop in the middle of one.

use std::collections::VecDeque;

/// Least distance between two kept positions, in bytes.
const SPAN: u64 = 16 * 1024;

/// Some of the positions between records. Records are short, so not each position is kept: one in [`SPAN`] bytes is
/// enough.
///
/// Invariant: the end of the last record that was added is one of them.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    /// In rising order.
    positions: VecDeque<u64>,
    before_last: u64,
    /// True if the last position stays when the next is added.
    is_fixed: bool,
}

impl Boundaries {
    /// Adds the end of a record.
    #[inline]
    pub(super) fn add(&mut self, end: u64) {
        match self.positions.back_mut() {
            Some(last) if !self.is_fixed && *last - self.before_last < SPAN => *last = end,
            _ => self.push(end),
        }
    }

    /// Adds a position that stays.
    pub(super) fn fix(&mut self, position: u64) {
        if self.positions.back() != Some(&position) {
            self.push(position);
        }
        self.is_fixed = true;
    }

    fn push(&mut self, position: u64) {
        self.before_last = self.positions.back().copied().unwrap_or(self.before_last);
        self.positions.push_back(position);
        self.is_fixed = false;
    }

    /// Removes all positions; the next record begins at `begin`.
    pub(super) fn clear(&mut self, begin: u64) {
        *self = Boundaries { before_last: begin, ..Boundaries::default() };
    }

    /// Removes the positions up to `position`, but never the last one.
    pub(super) fn free_before(&mut self, position: u64) {
        while self.positions.len() > 1 && self.positions.front().is_some_and(|first| *first <= position) {
            self.positions.pop_front();
        }
    }

    /// Returns the last boundary that is at most `limit` bytes behind a position, or else the next one behind it; the
    /// position itself if there is none.
    pub(super) fn behind(&self, position: u64, limit: u64) -> u64 {
        let after = self.positions.partition_point(|boundary| *boundary <= position.saturating_add(limit));
        let within = after.checked_sub(1).and_then(|at| self.positions.get(at)).filter(|found| **found > position);
        within.or_else(|| self.positions.get(after)).copied().unwrap_or(position).max(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_records_share_a_boundary_and_long_ones_have_their_own() {
        let mut boundaries = Boundaries::default();
        (1..=10_000).for_each(|number| boundaries.add(number * 10));
        boundaries.add(300_000);
        boundaries.add(300_010);
        assert!(boundaries.positions.len() < 12, "{boundaries:?}");
        assert_eq!(boundaries.behind(0, u64::MAX), 300_010);
        let first = boundaries.behind(0, 20_000);
        assert!(first > 0 && first <= 20_000 && first % 10 == 0);
        assert_eq!(boundaries.behind(100_000, 20), 300_000, "a record that is longer than the limit is read whole");
        assert_eq!(boundaries.behind(300_010, 20), 300_010);
    }

    #[test]
    fn a_fixed_boundary_stays() {
        let mut boundaries = Boundaries::default();
        boundaries.add(10);
        boundaries.fix(10);
        boundaries.add(20);
        boundaries.add(30);
        assert_eq!((boundaries.behind(0, 10), boundaries.behind(10, 5)), (10, 30));
        boundaries.free_before(10);
        assert_eq!(boundaries.behind(0, 10), 30);
        boundaries.clear(40);
        boundaries.fix(40);
        boundaries.add(41);
        assert_eq!((boundaries.behind(30, 10), boundaries.behind(40, 10)), (40, 41));
    }
}
