//! Readings of both clocks.

pub(super) const US_PER_MS: u64 = 1000;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Microseconds since the clock was created. Never decreases.
    pub(super) mono_us: u64,
    /// Offset from monotonic to wall-clock milliseconds.
    pub(super) wall_offset_ms: i64,
}

impl Now {
    /// Creates a reading from two times in milliseconds.
    pub fn at_ms(mono_ms: u64, wall_ms: i64) -> Self {
        let mono_us = mono_ms.saturating_mul(US_PER_MS);
        Now { mono_us, wall_offset_ms: wall_ms.wrapping_sub_unsigned(mono_us / US_PER_MS) }
    }

    /// Returns the whole milliseconds since the clock was created.
    pub fn mono_ms(self) -> u64 {
        self.mono_us / US_PER_MS
    }

    /// Returns the microseconds since the clock was created.
    pub fn mono_us(self) -> u64 {
        self.mono_us
    }

    /// Converts a wall-clock time, in microseconds since 1970 by a clock like this one, to monotonic microseconds. The
    /// result is negative if the time is before the clock was created; a time in the future counts as the present.
    pub(crate) fn mono_us_at(self, wall_us: i64) -> i64 {
        self.mono_us.cast_signed().saturating_sub(self.wall_us().saturating_sub(wall_us).max(0))
    }

    /// Returns the whole milliseconds since an earlier reading of [`Now::mono_us`].
    pub fn ms_since(self, earlier_us: u64) -> u64 {
        self.mono_us.saturating_sub(earlier_us) / US_PER_MS
    }

    /// Returns the milliseconds since the clock was created, rounded up.
    pub(super) fn next_mono_ms(self) -> u64 {
        self.mono_us.saturating_add(US_PER_MS - 1) / US_PER_MS
    }

    /// Returns the monotonic time, in milliseconds and rounded up, at which `ms` milliseconds have passed.
    pub(crate) fn ms_later(self, ms: u64) -> u64 {
        self.next_mono_ms().saturating_add(ms)
    }

    /// Returns the reading of both clocks `us` microseconds later.
    pub fn later_by_us(self, us: u64) -> Self {
        Now { mono_us: self.mono_us.saturating_add(us), ..self }
    }

    /// Returns the reading at the next whole millisecond.
    pub(crate) fn at_next_ms(self) -> Self {
        Now { mono_us: self.next_mono_ms().saturating_mul(US_PER_MS), ..self }
    }

    /// Returns the microseconds since 1970 by the wall clock.
    pub(crate) fn wall_us(self) -> i64 {
        self.wall_offset_ms.saturating_mul(1000).saturating_add_unsigned(self.mono_us)
    }

    /// Returns the milliseconds since 1970 by the wall clock.
    pub fn wall_ms(self) -> i64 {
        self.wall_offset_ms.wrapping_add_unsigned(self.mono_ms())
    }

    /// Returns the offset from monotonic to wall-clock time, in milliseconds.
    pub fn wall_offset_ms(self) -> i64 {
        self.wall_offset_ms
    }
}

/// Returns the microseconds between two times of a monotonic clock; the first may lie before the clock was created.
pub(crate) fn us_between(since_us: i64, at_us: u64) -> u64 {
    at_us.saturating_add_signed(since_us.saturating_neg())
}
