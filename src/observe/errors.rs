//! Error statistics: number of error replies, in total and by prefix.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Number of prefixes from which on a new prefix made up by a script is not counted separately.
const PREFIXES_MAX: usize = 128;
/// Name under which such prefixes are counted, as in Valkey.
const OVERFLOW: &[u8] = b"ERRORSTATS_OVERFLOW";
/// Number of bytes of an error, `-` included, in which its prefix must end.
const PREFIX_REACH: usize = 32;

/// Counters of error replies.
#[derive(Default)]
pub struct ErrorCounts {
    total: AtomicU64,
    by_prefix: Mutex<BTreeMap<Box<[u8]>, u64>>,
}

impl ErrorCounts {
    /// Counts an error of the server's own, by its line, which begins with the prefix.
    pub fn count(&self, line: &[u8]) {
        self.count_up_to(usize::MAX, line);
    }

    /// Counts an error made up by a script, by its line.
    pub fn count_made_up(&self, line: &[u8]) {
        self.count_up_to(PREFIXES_MAX, line);
    }

    fn count_up_to(&self, prefixes_max: usize, line: &[u8]) {
        self.total.fetch_add(1, Relaxed);
        let prefix = line.iter().take(PREFIX_REACH - 1).position(|byte| *byte == b' ');
        let prefix = prefix.map_or(&b"ERR"[..], |end| &line[..end]);
        let mut by_prefix = self.by_prefix.lock();
        let is_counted = by_prefix.contains_key(prefix) || by_prefix.len() < prefixes_max;
        let counted = if is_counted { prefix } else { OVERFLOW };
        *by_prefix.entry(counted.into()).or_default() += 1;
    }

    /// Returns how many errors were replied.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the number of errors by prefix, sorted.
    pub fn by_prefix(&self) -> Vec<(Box<[u8]>, u64)> {
        self.by_prefix.lock().iter().map(|(prefix, count)| (prefix.clone(), *count)).collect()
    }

    /// Resets the counters.
    pub fn clear(&self) {
        let mut by_prefix = self.by_prefix.lock();
        by_prefix.clear();
        self.total.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_short_and_there_is_an_end_to_them() {
        let errors = ErrorCounts::default();
        errors.count(b"WRONGTYPE no");
        errors.count(b"no-blank");
        errors.count(b"A23456789012345678901234567890 x");
        errors.count(b"A234567890123456789012345678901 x");
        let shown = || -> Vec<(String, u64)> {
            let text = |(prefix, count): (Box<[u8]>, u64)| (String::from_utf8_lossy(&prefix).into_owned(), count);
            errors.by_prefix().into_iter().map(text).collect()
        };
        let expected = [("A23456789012345678901234567890", 1), ("ERR", 2), ("WRONGTYPE", 1)];
        assert_eq!(shown(), expected.map(|(prefix, count)| (prefix.to_owned(), count)));
        (0..1000).for_each(|number| errors.count_made_up(format!("E{number} x").as_bytes()));
        assert_eq!((errors.by_prefix().len(), errors.total()), (PREFIXES_MAX + 1, 1004));
        assert!(shown().contains(&("ERRORSTATS_OVERFLOW".to_owned(), 1000 - (PREFIXES_MAX as u64 - 3))));
        errors.count(b"NOPROTO one of the server's own");
        assert!(shown().contains(&("NOPROTO".to_owned(), 1)));
        errors.clear();
        assert_eq!((errors.by_prefix().len(), errors.total()), (0, 0));
    }
}
