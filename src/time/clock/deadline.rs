//! Deadlines: the instants at which keys expire.

use crate::time::clock::now::{Now, US_PER_MS};

/// Upper bits of the milliseconds of a [kept](Deadline::kept) deadline, see [`unreserved`].
const KEPT: u64 = 0x1555 << 50;
/// The other bits of these milliseconds.
const KEPT_MS: u64 = (1 << 50) - 1;

/// The instant at which a key expires, on the monotonic or the wall clock; see also [`Deadline::kept`].
///
/// Packed into eight bytes, because every key with a TTL has one: the lowest bit selects the clock, the rest are
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(u64);

impl Deadline {
    /// Returns the deadline `ttl_ms` milliseconds from now on the monotonic clock: rounded up to a whole millisecond.
    /// Rounded down, a lock could be granted to another client before its TTL is over.
    pub fn after(now: Now, ttl_ms: u64) -> Self {
        Deadline(unreserved(now.ms_later(ttl_ms).min(u64::MAX >> 1)) << 1)
    }

    /// Returns the deadline at a wall-clock time in milliseconds since 1970; before 1970 counts as 1970.
    pub fn at_wall_ms(unix_ms: i64) -> Self {
        Deadline(unreserved(unix_ms.max(0) as u64) << 1 | 1)
    }

    /// Returns the deadline at a monotonic time in milliseconds.
    pub(crate) fn at_mono_ms(mono_ms: u64) -> Self {
        Deadline(unreserved(mono_ms.min(u64::MAX >> 1)) << 1)
    }

    /// Returns the deadline of a key that stays until it is removed: clients see the deadline, but it never passes.
    pub(crate) fn kept(self) -> Self {
        let ms = self.shown_ms().max(0).cast_unsigned().min(KEPT_MS);
        Deadline((KEPT | ms) << 1 | self.0 & 1)
    }

    /// Returns the milliseconds that clients see.
    fn shown_ms(self) -> i64 {
        let ms = self.0 >> 1;
        (if ms & !KEPT_MS == KEPT { ms ^ KEPT } else { ms }) as i64
    }

    /// Returns whether the deadline has passed.
    #[inline]
    pub fn is_due(self, now: Now) -> bool {
        let at_ms = self.0 >> 1;
        if self.is_wall() { at_ms as i64 <= now.wall_ms() } else { at_ms.saturating_mul(US_PER_MS) <= now.mono_us }
    }

    /// Returns the remaining TTL in milliseconds, zero or less after the deadline. What [`Deadline::after`] rounded up
    /// is subtracted, so that no client sees a longer TTL than was set.
    pub fn remaining_ms(self, now: Now) -> i64 {
        let at_ms = self.shown_ms();
        if self.is_wall() {
            at_ms.saturating_sub(now.wall_ms())
        } else {
            at_ms.saturating_sub_unsigned(now.next_mono_ms())
        }
    }

    /// Returns the deadline in wall-clock milliseconds since 1970, as seen from now.
    pub fn wall_ms(self, now: Now) -> i64 {
        let at_ms = self.shown_ms();
        if self.is_wall() { at_ms } else { now.wall_offset_ms().saturating_add(at_ms) }
    }

    /// Returns the milliseconds since 1970 of a deadline made by [`Deadline::at_wall_ms`].
    pub fn absolute_ms(self) -> i64 {
        debug_assert!(self.is_wall());
        (self.0 >> 1) as i64
    }

    /// Returns the deadline in monotonic milliseconds, if the wall clock is not adjusted.
    pub fn mono_ms(self, now: Now) -> u64 {
        let at_ms = self.0 >> 1;
        if self.is_wall() { at_ms.saturating_add_signed(now.wall_offset_ms().saturating_neg()) } else { at_ms }
    }

    /// Returns the deadline in monotonic milliseconds as clients see it, if the wall clock is not adjusted.
    pub(crate) fn shown_mono_ms(self, now: Now) -> u64 {
        let shown_ms = self.shown_ms().max(0).cast_unsigned();
        Deadline(shown_ms << 1 | self.0 & 1).mono_ms(now)
    }

    /// Returns the packed representation.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Restores a deadline from [`Deadline::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Deadline(bits)
    }

    /// Returns whether the deadline follows the wall clock: it was set as a date, not relative to the present.
    pub fn is_wall(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Returns the milliseconds of a deadline, or a nearby number if their upper bits are the reserved ones: the years
/// 194,841,427 to 194,877,105 end at their beginning.
#[inline]
fn unreserved(ms: u64) -> u64 {
    if ms & !KEPT_MS == KEPT { KEPT - 1 } else { ms }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::clock::Clock;

    #[test]
    fn a_relative_deadline_ignores_a_jump_of_the_wall_clock() {
        let clock = Clock::manual();
        let deadline = Deadline::after(clock.now(), 1000);
        clock.set_wall_ms(clock.now().wall_ms() + 3_600_000);
        assert!(!deadline.is_due(clock.now()));
        clock.advance(Duration::from_millis(1000));
        assert!(deadline.is_due(clock.now()));
    }

    #[test]
    fn an_absolute_deadline_follows_the_wall_clock() {
        let clock = Clock::manual();
        let at = clock.now().wall_ms() + 1000;
        let deadline = Deadline::at_wall_ms(at);
        assert_eq!(deadline.wall_ms(clock.now()), at);
        clock.set_wall_ms(at);
        assert!(deadline.is_due(clock.now()));
    }

    #[test]
    fn a_kept_deadline_is_shown_as_it_was_and_never_passes() {
        let clock = Clock::manual();
        for deadline in [Deadline::after(clock.now(), 1000), Deadline::at_wall_ms(clock.now().wall_ms() + 1000)] {
            let (kept, now) = (deadline.kept(), clock.now());
            assert_eq!((kept.kept(), kept.remaining_ms(now)), (kept, 1000));
            assert_eq!(
                (kept.shown_mono_ms(now), deadline.shown_mono_ms(now)),
                (deadline.mono_ms(now), deadline.mono_ms(now))
            );
        }
        let kept = Deadline::after(clock.now(), 1000).kept();
        clock.advance(Duration::from_millis(5000));
        assert!(!kept.is_due(clock.now()) && kept.remaining_ms(clock.now()) == -4000);
    }
}
