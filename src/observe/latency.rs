//! The latency monitor: for every kind of event, the longest duration in each of the latest seconds that exceeded the
//! threshold.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Number of samples kept per event.
const SAMPLES_MAX: usize = 160;

/// A call of a command.
pub(crate) const COMMAND: &str = "command";
/// A call of a command with the flag FAST.
pub(crate) const FAST_COMMAND: &str = "fast-command";
/// The deletion of expired keys.
pub(crate) const EXPIRE_CYCLE: &str = "expire-cycle";
/// The eviction of keys.
pub(crate) const EVICTION_CYCLE: &str = "eviction-cycle";

/// The samples of all events.
#[derive(Default)]
pub struct LatencyEvents {
    by_name: Mutex<BTreeMap<&'static str, Series>>,
}

/// The samples of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Kept samples, oldest first.
    pub samples: Vec<LatencySample>,
    /// Longest duration ever, in milliseconds.
    pub max_ms: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// The time, in seconds since 1970.
    pub unix_s: i64,
    /// The duration, in milliseconds.
    pub latency_ms: u64,
}

impl LatencyEvents {
    /// Records a duration of an event. Within one second, the longest counts.
    pub fn note(&self, name: &'static str, unix_s: i64, latency_ms: u64) {
        let mut by_name = self.by_name.lock();
        let series = by_name.entry(name).or_default();
        series.max_ms = series.max_ms.max(latency_ms);
        match series.samples.last_mut() {
            Some(last) if last.unix_s == unix_s => last.latency_ms = last.latency_ms.max(latency_ms),
            _ => {
                if series.samples.len() == SAMPLES_MAX {
                    series.samples.remove(0);
                }
                series.samples.push(LatencySample { unix_s, latency_ms });
            }
        }
    }

    /// Returns the samples of an event.
    pub fn series(&self, name: &[u8]) -> Option<(&'static str, Series)> {
        let by_name = self.by_name.lock();
        let found = by_name.iter().find(|(event, _)| event.as_bytes() == name);
        found.map(|(event, series)| (*event, series.clone()))
    }

    /// Returns the samples of all events, by name.
    pub fn all(&self) -> Vec<(&'static str, Series)> {
        self.by_name.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Removes the events with a name (case-insensitive), or all; returns how many.
    pub fn clear(&self, name: Option<&[u8]>) -> usize {
        let mut by_name = self.by_name.lock();
        let before = by_name.len();
        by_name.retain(|event, _| name.is_some_and(|name| !event.as_bytes().eq_ignore_ascii_case(name)));
        before - by_name.len()
    }
}

impl Series {
    /// Returns the shortest and the longest of the kept durations, in milliseconds.
    pub fn range_ms(&self) -> (u64, u64) {
        let all = || self.samples.iter().map(|sample| sample.latency_ms);
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }

    /// Returns the mean and the mean absolute deviation, in milliseconds.
    pub fn mean_ms(&self) -> (u64, u64) {
        let count = (self.samples.len() as u64).max(1);
        let mean = self.samples.iter().map(|sample| sample.latency_ms).sum::<u64>() / count;
        let distances = self.samples.iter().map(|sample| sample.latency_ms.abs_diff(mean));
        (mean, distances.sum::<u64>() / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_is_kept_for_a_second_and_the_oldest_make_room() {
        let events = LatencyEvents::default();
        for second in 0..200 {
            events.note(COMMAND, second, 10);
            events.note(COMMAND, second, 500 - second as u64);
            events.note(COMMAND, second, 20);
        }
        events.note(FAST_COMMAND, 7, 1);
        let (_, series) = events.series(b"command").expect("noted");
        assert_eq!((series.samples.len(), series.samples[0].unix_s, series.max_ms), (160, 40, 500));
        assert_eq!((series.range_ms(), series.mean_ms()), ((301, 460), (380, 40)));
        assert_eq!(events.series(b"COMMAND"), None);
        assert_eq!((events.clear(Some(b"Command")), events.clear(Some(b"x")), events.clear(None)), (1, 0, 1));
    }
}
