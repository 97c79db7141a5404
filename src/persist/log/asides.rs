//! Ranges of the log that are for replicas alone: messages of PUBLISH, PING, requests for an acknowledgement.

use std::collections::VecDeque;
use std::ops::Range;

/// The ranges of a log that other readers skip, in order. None touches the next.
#[derive(Debug, Default)]
pub(super) struct Asides(VecDeque<Range<u64>>);

impl Asides {
    /// Adds a range behind the present ones.
    pub(super) fn add(&mut self, begin: u64, end: u64) {
        match self.0.back_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => self.0.push_back(begin..end),
        }
    }

    /// Removes the ranges that end at a position or before.
    pub(super) fn free_before(&mut self, position: u64) {
        while self.0.front().is_some_and(|aside| aside.end <= position) {
            self.0.pop_front();
        }
    }

    /// Returns the first range for every reader from a position on: behind the aside that begins there, and up to the
    /// next one.
    pub(super) fn between(&self, position: u64) -> Range<u64> {
        let after = self.0.partition_point(|aside| aside.end <= position);
        let mut rest = self.0.range(after..);
        let next = rest.next();
        match next {
            Some(aside) if aside.start <= position => aside.end..rest.next().map_or(u64::MAX, |next| next.start),
            next => position..next.map_or(u64::MAX, |next| next.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_follow_each_other_are_one_and_readers_are_led_around_them() {
        let mut asides = Asides::default();
        assert_eq!(asides.between(7), 7..u64::MAX);
        asides.add(10, 20);
        asides.add(20, 30);
        asides.add(50, 60);
        assert_eq!(asides.0.len(), 2);
        assert_eq!(asides.between(0), 0..10);
        assert_eq!(asides.between(10), 30..50);
        assert_eq!(asides.between(30), 30..50);
        assert_eq!(asides.between(50), 60..u64::MAX);
        asides.free_before(30);
        assert_eq!(asides.0.len(), 1);
        asides.free_before(60);
        assert_eq!(asides.between(0), 0..u64::MAX);
    }
}
