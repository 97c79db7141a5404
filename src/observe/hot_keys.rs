//! The keys that cost most, while HOTKEYS tracks them: those whose commands take most time, and most bytes.
//!
//! A fixed number of keys is counted: one more takes the place of the key with the smallest count, and its count with it
//! (Space-Saving). So a key that costs more than its share is among them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::random::Random;

/// The number of keys that are counted for each metric.
const TRACKED: usize = 1000;
/// The longest name of a key that is counted.
const NAME_MAX: usize = 4096;

/// The session of HOTKEYS, if there is one.
#[derive(Default)]
pub(crate) struct HotKeys {
    is_active: AtomicBool,
    session: Mutex<Option<HotKeySession>>,
}

/// The options of a session.
#[derive(Clone, Copy)]
pub(crate) struct HotKeyOptions {
    /// True if the time of commands is counted.
    pub(crate) cpu: bool,
    /// True if the bytes of requests and replies are counted.
    pub(crate) net: bool,
    /// The number of keys to be shown.
    pub(crate) count: usize,
    /// One of this many keys is counted.
    pub(crate) sample_ratio: u64,
    /// The time after which the session ends by itself.
    pub(crate) duration_ms: Option<i64>,
}

/// A session, and the costs that it has counted.
pub(crate) struct HotKeySession {
    pub(crate) options: HotKeyOptions,
    pub(crate) started_ms: i64,
    ended_ms: Option<i64>,
    /// The seconds of the process in user mode and in the kernel, at the start and at the end.
    cpu_seconds: [[f64; 2]; 2],
    pub(crate) total_ns: u64,
    pub(crate) total_bytes: u64,
    by_ns: TopKeys,
    by_bytes: TopKeys,
    random: Random,
}

/// The cost of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallCost {
    pub(crate) ns: u64,
    pub(crate) bytes: u64,
}

impl HotKeys {
    /// Returns true while keys are tracked.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Relaxed)
    }

    /// Begins a session in place of one that has ended; returns false if one is active.
    pub(crate) fn start(&self, options: HotKeyOptions, now_ms: i64, cpu_seconds: [f64; 2]) -> bool {
        let mut session = self.session.lock();
        if session.as_mut().is_some_and(|session| !session.has_ended(now_ms)) {
            return false;
        }
        *session = Some(HotKeySession {
            options,
            started_ms: now_ms,
            ended_ms: None,
            cpu_seconds: [cpu_seconds; 2],
            total_ns: 0,
            total_bytes: 0,
            by_ns: TopKeys::default(),
            by_bytes: TopKeys::default(),
            random: Random::new(now_ms.cast_unsigned()),
        });
        self.is_active.store(true, Relaxed);
        true
    }

    /// Ends the session; returns false if none is active.
    pub(crate) fn stop(&self, now_ms: i64, cpu_seconds: [f64; 2]) -> bool {
        let mut session = self.session.lock();
        let Some(session) = session.as_mut().filter(|session| session.ended_ms.is_none()) else { return false };
        let was_active = !session.has_ended(now_ms);
        session.ended_ms.get_or_insert(now_ms);
        session.cpu_seconds[1] = cpu_seconds;
        self.is_active.store(false, Relaxed);
        was_active
    }

    /// Forgets a session that has ended; returns false if one is active.
    pub(crate) fn reset(&self, now_ms: i64) -> bool {
        let mut session = self.session.lock();
        if session.as_mut().is_some_and(|session| !session.has_ended(now_ms)) {
            return false;
        }
        *session = None;
        self.is_active.store(false, Relaxed);
        true
    }

    /// Calls `read` with the session, if there is one.
    pub(crate) fn read<R>(
        &self,
        now_ms: i64,
        cpu_seconds: [f64; 2],
        read: impl FnOnce(&HotKeySession) -> R,
    ) -> Option<R> {
        let mut session = self.session.lock();
        let session = session.as_mut()?;
        if session.ended_ms.is_none() {
            session.cpu_seconds[1] = cpu_seconds;
            session.has_ended(now_ms);
        }
        Some(read(session))
    }

    /// Counts a call and its keys.
    pub(crate) fn note<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, cost: CallCost, now_ms: i64) {
        let mut session = self.session.lock();
        let Some(session) = session.as_mut() else { return };
        if session.has_ended(now_ms) {
            return self.is_active.store(false, Relaxed);
        }
        session.total_ns += cost.ns;
        session.total_bytes += cost.bytes;
        let ratio = session.options.sample_ratio;
        for key in keys.filter(|key| key.len() <= NAME_MAX) {
            if ratio > 1 && session.random.next() % ratio != 0 {
                continue;
            }
            if session.options.cpu {
                session.by_ns.add(key, cost.ns);
            }
            if session.options.net {
                session.by_bytes.add(key, cost.bytes);
            }
        }
    }
}

impl HotKeySession {
    /// Returns true if the session has ended, also because its time is over.
    fn has_ended(&mut self, now_ms: i64) -> bool {
        if let (None, Some(duration_ms)) = (self.ended_ms, self.options.duration_ms) {
            let end_ms = self.started_ms.saturating_add(duration_ms);
            self.ended_ms = (now_ms >= end_ms).then_some(end_ms);
        }
        self.ended_ms.is_some()
    }

    /// Returns true while keys are tracked.
    pub(crate) fn is_active(&self) -> bool {
        self.ended_ms.is_none()
    }

    /// Returns for how many milliseconds the session has been active.
    pub(crate) fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_ms.unwrap_or(now_ms).saturating_sub(self.started_ms).max(0)
    }

    /// Returns the milliseconds of the process in user mode and in the kernel.
    pub(crate) fn cpu_ms(&self) -> [i64; 2] {
        let [start, end] = self.cpu_seconds;
        [0, 1].map(|at| ((end[at] - start[at]) * 1000.0).max(0.0) as i64)
    }

    /// Returns the keys whose commands take most time, each with the nanoseconds.
    pub(crate) fn top_by_ns(&self) -> Vec<(&[u8], u64)> {
        self.by_ns.top(self.options.count)
    }

    /// Returns the keys whose requests and replies have most bytes, each with these.
    pub(crate) fn top_by_bytes(&self) -> Vec<(&[u8], u64)> {
        self.by_bytes.top(self.options.count)
    }
}

/// The keys with the largest counts, as far as [`TRACKED`] counters can tell.
#[derive(Default)]
struct TopKeys {
    counts: HashMap<Box<[u8]>, u64>,
    by_count: BTreeSet<(u64, Box<[u8]>)>,
}

impl TopKeys {
    fn add(&mut self, key: &[u8], more: u64) {
        let before = match self.counts.get(key) {
            Some(count) => {
                let count = *count;
                self.by_count.remove(&(count, key.into()));
                count
            }
            None if self.counts.len() < TRACKED => 0,
            None => {
                let Some((least, name)) = self.by_count.pop_first() else { return };
                self.counts.remove(&name);
                least
            }
        };
        let count = before.saturating_add(more);
        self.counts.insert(key.into(), count);
        self.by_count.insert((count, key.into()));
    }

    fn top(&self, count: usize) -> Vec<(&[u8], u64)> {
        self.by_count.iter().rev().take(count).map(|(count, key)| (&**key, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_costs_more_than_its_share_is_among_the_first_however_many_there_are() {
        let mut top = TopKeys::default();
        for number in 0..50_000 {
            top.add(format!("k{number}").as_bytes(), 1);
            if number % 10 == 0 {
                top.add(b"hot", 3);
            }
        }
        assert_eq!((top.top(1)[0].0, top.counts.len(), top.by_count.len()), (&b"hot"[..], TRACKED, TRACKED));
        assert!((15_000..16_000).contains(&top.top(1)[0].1));
    }
}
