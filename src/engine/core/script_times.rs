//! Usual durations of scripts: calls of quick ones go together with those of other clients.

use std::collections::HashMap;

use crate::engine::core::usual::UsualDuration;

/// Largest usual duration of a quick script, in microseconds.
const QUICK_US_MAX: u64 = 100;
/// Largest number of scripts that are known.
const SCRIPTS_MAX: usize = 1024;

/// Usual durations of scripts and functions, each by the hash of its text, digest or name.
#[derive(Default)]
pub(super) struct ScriptTimes {
    hasher: ahash::RandomState,
    usual: HashMap<u64, UsualDuration, ahash::RandomState>,
}

impl ScriptTimes {
    /// Returns true if a script was executed before, and was usually quick.
    pub(super) fn is_quick(&self, script: &[u8]) -> bool {
        let usual = self.usual.get(&self.hasher.hash_one(script));
        usual.is_some_and(|usual| usual.us() <= QUICK_US_MAX)
    }

    pub(super) fn record(&mut self, script: &[u8], us: u64) {
        if self.usual.len() >= SCRIPTS_MAX {
            self.usual.clear();
        }
        self.usual.entry(self.hasher.hash_one(script)).or_default().record(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_quick_after_it_was_and_for_long_not_after_it_took_long() {
        let mut times = ScriptTimes::default();
        let runs_until_quick = |times: &mut ScriptTimes| {
            let runs = (0..1000).take_while(|_| {
                let is_slow = !times.is_quick(b"script");
                times.record(b"script", 20);
                is_slow
            });
            runs.count()
        };
        assert_eq!(runs_until_quick(&mut times), 1);
        assert!(!times.is_quick(b"another"));
        times.record(b"script", 5_000_000);
        assert!(runs_until_quick(&mut times) > 50);
    }

    #[test]
    fn only_so_many_scripts_are_known() {
        let mut times = ScriptTimes::default();
        (0..5000_u32).for_each(|script| times.record(&script.to_le_bytes(), 1));
        assert!(times.usual.len() <= SCRIPTS_MAX && times.is_quick(&4999_u32.to_le_bytes()));
    }
}
