//! Time as a parameter: the only file that reads the operating system's clocks.
//!
//! A [`Clock`] gives one reading, [`Now`], of two clocks at once: the monotonic clock, for relative TTLs, and the wall
//! clock, for absolute deadlines (`EXPIREAT`, `PXAT`). A steered clock can be stopped and moved, so that tests and test
//! doubles move time instead of waiting for it.
//!
//! Durations are measured with a counter, [`Clock::ticks`]: the processor's own where it can be trusted, because
//! reading it takes a few nanoseconds and every command is measured.
//!
//! The clock of a replica follows its primary's clock once it knows the difference ([`Clock::follow`]): then a change
//! of this machine's wall clock moves no deadline.
//!
//! Invariant: between two adjustments of the wall clock, `wall_ms - mono_ms` is constant. The two clocks are read one
//! after the other and would otherwise drift apart by a rounded millisecond from one reading to the next, and
//! `PEXPIRETIME` of an untouched key would flicker.

#![allow(clippy::disallowed_methods)] // this is the one place that reads OS time

mod deadline;
mod now;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::time::clock::now::US_PER_MS;
use crate::time::counter::{self, Counter, TickRate};

pub(crate) use deadline::Deadline;
pub(crate) use now::Now;
pub(crate) use now::us_between;

/// Deviation of the wall clock from its last known offset beyond which it was adjusted.
const WALL_TOLERANCE_MS: i64 = 1;

/// Latest time that a steered clock is moved to, on both of its clocks: far from an overflow of its microseconds.
pub(crate) const END_MS: i64 = i64::MAX / 2000;

/// A source of time: the system's clocks, or a steered clock for tests. Clones share the same time. While one of them
/// belongs to a server that is a replica, the primary's wall clock replaces the system's.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    System {
        origin: Instant,
        /// Part of a wall-clock millisecond that had passed at the origin. With it, milliseconds of both clocks begin
        /// together, and the wall clock read here is not behind the reading of other programs.
        lead: Duration,
        offset: AtomicI64,
        /// Time when the offset was last compared with the wall clock, in monotonic milliseconds. Once per millisecond
        /// is enough and saves reading the second clock for most requests.
        compared_ms: AtomicU64,
        counter: Counter,
    },
    Steered(SteeredClock),
}

/// Offset from monotonic to wall-clock milliseconds, with a flag for an offset set by [`Clock::follow`]. Both are in
/// one word, so that a reading loads no other, and a thread that compares with the system's clock at that moment does
/// not undo it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Offset(i64);

impl Offset {
    /// Creates the offset of the system's clock.
    fn own(ms: i64) -> Self {
        Offset(ms << 1)
    }

    /// Creates the offset of another server's clock, clamped to the valid times.
    fn followed(ms: i64) -> Self {
        Offset(ms.clamp(-END_MS, END_MS) << 1 | 1)
    }

    fn ms(self) -> i64 {
        self.0 >> 1
    }

    fn is_followed(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Value of [`SteeredClock::mono_us`] while the clock is running.
const RUNNING: u64 = u64::MAX;

/// A clock that can be stopped and moved.
#[derive(Debug)]
struct SteeredClock {
    /// Copies of the state's base, from which a stopped clock is read without a lock. The first is [`RUNNING`]
    /// otherwise.
    mono_us: AtomicU64,
    wall_offset_ms: AtomicI64,
    state: Mutex<Steered>,
}

impl SteeredClock {
    fn new(state: Steered) -> Self {
        SteeredClock {
            mono_us: AtomicU64::new(state.standing_us()),
            wall_offset_ms: AtomicI64::new(state.base.wall_offset_ms),
            state: Mutex::new(state),
        }
    }

    #[inline]
    fn now(&self) -> Now {
        match self.mono_us.load(Ordering::Relaxed) {
            RUNNING => self.running_now(),
            mono_us => Now { mono_us, wall_offset_ms: self.wall_offset_ms.load(Ordering::Relaxed) },
        }
    }

    #[inline]
    fn mono_us(&self) -> u64 {
        match self.mono_us.load(Ordering::Relaxed) {
            RUNNING => self.running_now().mono_us,
            mono_us => mono_us,
        }
    }

    #[cold]
    #[inline(never)]
    fn running_now(&self) -> Now {
        self.state.lock().now()
    }

    fn steer(&self, steer: impl FnOnce(&mut Steered)) {
        let mut state = self.state.lock();
        steer(&mut state);
        self.wall_offset_ms.store(state.base.wall_offset_ms, Ordering::Relaxed);
        self.mono_us.store(state.standing_us(), Ordering::Relaxed);
    }
}

/// State of a steered clock.
#[derive(Debug)]
struct Steered {
    /// Reading when the clock was last moved, stopped or started.
    base: Now,
    /// Time of that, if the clock has been running since.
    runs_since: Option<Instant>,
    /// Target of the present move, in monotonic microseconds.
    heading_us: u64,
}

impl Steered {
    /// Returns the monotonic time of a stopped clock, or [`RUNNING`].
    fn standing_us(&self) -> u64 {
        if self.runs_since.is_some() { RUNNING } else { self.base.mono_us.min(RUNNING - 1) }
    }

    fn now(&self) -> Now {
        self.base.later_by_us(self.runs_since.map_or(0, |since| since.elapsed().as_micros() as u64))
    }

    /// Sets the present reading.
    fn set(&mut self, now: Now) {
        (self.base, self.runs_since) = (now, self.runs_since.map(|_| Instant::now()));
    }
}

impl Clock {
    /// Creates a clock that follows the operating system.
    pub fn system() -> Self {
        let counter = Counter::new();
        let (wall_us, origin) = (unix_us(), Instant::now());
        Clock(Arc::new(Source::System {
            origin,
            lead: Duration::from_micros(wall_us.rem_euclid(1000) as u64),
            offset: AtomicI64::new(Offset::own(wall_us.div_euclid(1000)).0),
            compared_ms: AtomicU64::new(0),
            counter,
        }))
    }

    /// Creates a clock that stays at today's date until [`Server::advance`](crate::Server::advance) moves it.
    pub fn manual() -> Self {
        Clock::steered(Now::at_ms(0, unix_us().div_euclid(1000)), None)
    }

    /// Creates a clock that runs like the system's until it is stopped or moved.
    pub(crate) fn running() -> Self {
        let wall_us = unix_us();
        let (mono_us, wall_offset_ms) = (wall_us.rem_euclid(1000) as u64, wall_us.div_euclid(1000));
        Clock::steered(Now { mono_us, wall_offset_ms }, Some(Instant::now()))
    }

    fn steered(base: Now, runs_since: Option<Instant>) -> Self {
        Clock(Arc::new(Source::Steered(SteeredClock::new(Steered { base, runs_since, heading_us: 0 }))))
    }

    /// Returns whether the clock can be stopped and moved.
    pub(crate) fn is_steered(&self) -> bool {
        matches!(*self.0, Source::Steered(_))
    }

    /// Returns whether the clock is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        match &*self.0 {
            Source::Steered(clock) => clock.mono_us.load(Ordering::Relaxed) != RUNNING,
            Source::System { .. } => false,
        }
    }

    /// Reads both clocks.
    #[doc(hidden)]
    pub fn now(&self) -> Now {
        match &*self.0 {
            Source::Steered(clock) => clock.now(),
            Source::System { origin, lead, offset, compared_ms, counter } => {
                let elapsed = origin.elapsed();
                let mono_us = (elapsed + *lead).as_micros() as u64;
                let mono_ms = mono_us / US_PER_MS;
                let mut present = Offset(offset.load(Ordering::Relaxed));
                if compared_ms.load(Ordering::Relaxed) != mono_ms {
                    compared_ms.store(mono_ms, Ordering::Relaxed);
                    present = compare(offset, present, mono_ms);
                    counter.calibrate(elapsed);
                }
                Now { mono_us, wall_offset_ms: present.ms() }
            }
        }
    }

    /// Makes the wall clock follow another server's, by its offset from this clock's monotonic milliseconds, or the
    /// system's again for `None`. Does nothing to a steered clock.
    pub(crate) fn follow(&self, offset_ms: Option<i64>) {
        let Source::System { offset, .. } = &*self.0 else { return };
        let next = match offset_ms {
            Some(ms) => Offset::followed(ms),
            None => Offset::own(self.own_offset_ms()),
        };
        offset.store(next.0, Ordering::Relaxed);
    }

    /// Returns whether the wall clock follows another server's.
    pub(crate) fn is_following(&self) -> bool {
        match &*self.0 {
            Source::System { offset, .. } => Offset(offset.load(Ordering::Relaxed)).is_followed(),
            Source::Steered(_) => false,
        }
    }

    /// Returns the offset from monotonic to wall-clock milliseconds by the system's clock.
    pub(crate) fn own_offset_ms(&self) -> i64 {
        match &*self.0 {
            Source::System { .. } => unix_us().div_euclid(1000).wrapping_sub_unsigned(self.now().mono_ms()),
            Source::Steered(_) => self.now().wall_offset_ms,
        }
    }

    /// Returns the duration until a monotonic time in milliseconds, to the nanosecond.
    pub(crate) fn time_until(&self, mono_ms: u64) -> Duration {
        let since_start = match &*self.0 {
            Source::Steered(clock) => Duration::from_micros(clock.now().mono_us),
            Source::System { origin, lead, .. } => origin.elapsed() + *lead,
        };
        Duration::from_millis(mono_ms).saturating_sub(since_start)
    }

    /// Waits until a monotonic time in milliseconds. Never returns for `u64::MAX`, or while the clock is stopped:
    /// moving the clock requires waking its waiters.
    pub(crate) async fn reach(&self, mono_ms: u64) {
        if self.is_stopped() || mono_ms == u64::MAX {
            std::future::pending().await
        } else {
            tokio::time::sleep(self.time_until(mono_ms)).await
        }
    }

    /// Returns the wall clock in microseconds since 1970, for `TIME`.
    pub(crate) fn wall_us(&self) -> i64 {
        match &*self.0 {
            Source::Steered(clock) => clock.now().wall_us(),
            Source::System { .. } if self.is_following() => self.now().wall_us(),
            Source::System { .. } => unix_us(),
        }
    }

    /// Reads the counter that measures durations; [`Clock::tick_rate`] converts its ticks.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        match &*self.0 {
            Source::System { counter: Counter { is_trusted: true, .. }, .. } => counter::read(),
            Source::Steered(clock) => clock.mono_us().wrapping_mul(1000),
            Source::System { origin, .. } => elapsed_ns(*origin),
        }
    }

    /// Returns the duration of a tick, by the calibration so far.
    pub(crate) fn tick_rate(&self) -> TickRate {
        match &*self.0 {
            Source::System { counter, .. } => counter.rate(),
            Source::Steered(_) => TickRate::NANOSECOND,
        }
    }

    /// Waits on this thread: sleeps while the clock runs, advances a stopped one.
    pub(crate) fn pass(&self, time: Duration) {
        if self.is_stopped() { self.advance(time) } else { std::thread::sleep(time) }
    }

    /// Moves a steered clock forward, both of its clocks together; a system clock is not changed.
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.steer(|state| state.set(state.now().later_by_us(by.as_micros().try_into().unwrap_or(u64::MAX))));
    }

    /// Moves a steered clock forward to a reading, unless that has passed. A running clock continues from there.
    pub(crate) fn advance_to(&self, mono_us: u64) {
        self.steer(|state| {
            let now = state.now();
            if mono_us > now.mono_us {
                state.set(Now { mono_us, ..now });
            }
        });
    }

    /// Sets the target of a move of a steered clock, in monotonic microseconds.
    pub(crate) fn set_target(&self, mono_us: u64) {
        self.steer(|state| state.heading_us = mono_us);
    }

    /// Returns the target of the present move, or else the present time, in monotonic milliseconds.
    pub(crate) fn heading_ms(&self) -> u64 {
        let heading_us = match &*self.0 {
            Source::Steered(clock) => clock.state.lock().heading_us,
            Source::System { .. } => 0,
        };
        self.now().mono_ms().max(heading_us / US_PER_MS)
    }

    /// Sets only the wall clock of a steered clock, as an administrator does with `date`, in milliseconds since 1970.
    #[doc(hidden)]
    pub fn set_wall_ms(&self, unix_ms: i64) {
        self.steer(|state| {
            let now = state.now();
            state.set(Now { wall_offset_ms: unix_ms.wrapping_sub_unsigned(now.mono_ms()), ..now });
        });
    }

    /// Stops a steered clock at a whole millisecond: a key with a TTL of n milliseconds then expires in a move by n
    /// milliseconds.
    pub(crate) fn stop(&self) {
        self.steer(|state| (state.base, state.runs_since) = (state.now().at_next_ms(), None));
    }

    /// Makes a stopped clock run again from its present reading.
    pub(crate) fn run(&self) {
        self.steer(|state| (state.base, state.runs_since) = (state.now(), Some(Instant::now())));
    }

    fn steer(&self, steer: impl FnOnce(&mut Steered)) {
        if let Source::Steered(clock) = &*self.0 {
            clock.steer(steer);
        }
    }
}

/// Adjusts the offset of a clock to the system's wall clock, unless it follows another server's; returns the present
/// offset.
fn compare(offset: &AtomicI64, last: Offset, mono_ms: u64) -> Offset {
    if last.is_followed() {
        return last;
    }
    let seen = Offset::own(unix_us().div_euclid(1000).wrapping_sub_unsigned(mono_ms));
    if seen.ms().abs_diff(last.ms()) <= WALL_TOLERANCE_MS as u64 {
        return last;
    }
    match offset.compare_exchange(last.0, seen.0, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => seen,
        Err(present) => Offset(present),
    }
}

fn unix_us() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    }
}

/// Returns the nanoseconds since an instant. A separate function, to keep the fast path short.
#[inline(never)]
fn elapsed_ns(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}

/// Returns the milliseconds since the system was booted. That clock cannot be set, and continues while the machine
/// sleeps.
pub(crate) fn since_boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1000 + nanoseconds / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_the_time_that_passes() {
        let manual = Clock::manual();
        let start = manual.ticks();
        manual.pass(Duration::from_micros(1500));
        assert_eq!(manual.tick_rate().ns(manual.ticks() - start), 1_500_000);
        let system = Clock::system();
        let (start, before) = (system.ticks(), Instant::now());
        system.pass(Duration::from_millis(5));
        let (ticks, at_most) = (system.ticks() - start, before.elapsed());
        system.now();
        let ns = u128::from(system.tick_rate().ns(ticks));
        assert!((4_500_000..=at_most.as_nanos() * 11 / 10).contains(&ns), "{ns} ns of {at_most:?}");
    }

    #[test]
    fn the_system_clock_keeps_its_wall_offset_between_readings() {
        let clock = Clock::system();
        let first = clock.now().wall_offset_ms();
        assert!((0..10_000).all(|_| clock.now().wall_offset_ms().abs_diff(first) <= 1));
    }

    #[test]
    fn a_clock_that_follows_another_one_is_not_compared_with_the_systems_until_it_is_told_to() {
        let clock = Clock::system();
        let own = clock.now().wall_offset_ms();
        for by_ms in [3_600_000, -3_600_000, 1, 0] {
            clock.follow(Some(own + by_ms));
            let is_kept = || clock.now().wall_offset_ms() == own + by_ms && clock.is_following();
            // Over more than one comparison.
            let until_ms = clock.now().mono_ms() + 5;
            while clock.now().mono_ms() < until_ms {
                assert!(is_kept(), "{by_ms}");
            }
            let ahead_us = clock.wall_us() - unix_us();
            assert!((ahead_us - by_ms * 1000).abs() < 1_000_000, "{ahead_us}");
            assert!(clock.own_offset_ms().abs_diff(own) < 1000);
        }
        clock.follow(Some(own + 3_600_000));
        clock.follow(None);
        assert!(!clock.is_following() && clock.now().wall_offset_ms().abs_diff(own) < 1000);
    }

    #[test]
    fn a_comparison_does_not_undo_that_the_clock_follows_another_one_meanwhile() {
        let (own, followed) = (Offset::own(7), Offset::followed(7));
        assert_eq!((own.ms(), own.is_followed(), followed.ms(), followed.is_followed()), (7, false, 7, true));
        assert_eq!(Offset::followed(-7).ms(), -7);
        assert_eq!([i64::MIN, i64::MAX].map(|ms| Offset::followed(ms).ms()), [-END_MS, END_MS]);
        let offset = AtomicI64::new(followed.0);
        assert!(compare(&offset, own, 0) == followed && offset.load(Ordering::Relaxed) == followed.0);
        offset.store(own.0, Ordering::Relaxed);
        assert!(compare(&offset, own, 0).ms() > 7);
    }

    #[test]
    fn a_steered_clock_follows_none() {
        let clock = Clock::manual();
        let before = clock.now();
        clock.follow(Some(5));
        assert!(clock.now() == before && !clock.is_following() && clock.own_offset_ms() == before.wall_offset_ms());
    }
}
