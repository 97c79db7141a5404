//! Time of the next automatic snapshot.

use crate::config::SavePoint;
use crate::persist::FileFigures;
use crate::time::clock::Now;

/// Pause after a failed save before the next, in milliseconds.
const RETRY_MS: u64 = 5_000;

/// Longest pause after a failure with the append-only file, in milliseconds.
const RETRY_MAX_MS: u64 = 300_000;

/// Times and results of the attempts so far.
#[derive(Default)]
pub(super) struct SaveSchedule {
    /// Start of the last save, in monotonic milliseconds.
    pub(super) tried_ms: u64,
    /// True if the last save has failed, or was given up because the disk stood still.
    pub(super) has_failed: bool,
    /// End of the pause for the append-only file, in monotonic milliseconds, and length of the last pause.
    log_until_ms: u64,
    log_pause_ms: u64,
    /// True if a rewrite is due because the file does not have the present deadlines: the next start would move those
    /// in the file by the clock of that time.
    pub(super) is_rewrite: bool,
}

impl SaveSchedule {
    /// Returns true during the pause after a failure with the append-only file.
    pub(super) fn is_log_put_off(&self, now_ms: u64) -> bool {
        now_ms < self.log_until_ms
    }

    /// Begins a pause for the append-only file, longer after each failure.
    pub(super) fn put_log_off(&mut self, now_ms: u64) {
        self.log_pause_ms = (self.log_pause_ms * 2).clamp(RETRY_MS, RETRY_MAX_MS);
        self.log_until_ms = now_ms + self.log_pause_ms;
    }

    /// Ends the pause, and the rewrite that was due.
    pub(super) fn log_has_worked(&mut self) {
        (self.log_until_ms, self.log_pause_ms, self.is_rewrite) = (0, 0, false);
    }

    /// Returns the save point that is reached after `changes` changes, if there is one; none during the pause after a
    /// failed save.
    pub(super) fn save(
        &self,
        points: &[SavePoint],
        figures: &FileFigures,
        changes: u64,
        now: Now,
    ) -> Option<SavePoint> {
        let has_failed = self.has_failed || figures.saves.error.is_some();
        let is_put_off = has_failed && now.mono_ms().saturating_sub(self.tried_ms) < RETRY_MS;
        let age_s = now.wall_ms().saturating_sub(figures.saved_ms).div_euclid(1000);
        let is_reached = |point: &&SavePoint| changes >= point.changes && age_s > point.seconds as i64;
        points.iter().find(is_reached).filter(|_| !is_put_off).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::JobOutcome;

    const POINTS: [SavePoint; 2] = [SavePoint { seconds: 60, changes: 1 }, SavePoint { seconds: 5, changes: 100 }];

    fn at(ms: u64) -> Now {
        Now::at_ms(ms, ms as i64)
    }

    fn due(figures: &FileFigures, changes: u64, now_ms: u64) -> Option<u64> {
        SaveSchedule::default().save(&POINTS, figures, changes, at(now_ms)).map(|point| point.seconds)
    }

    #[test]
    fn a_save_point_is_reached_by_its_changes_after_its_seconds() {
        let figures = FileFigures::default();
        for (changes, now_ms, expected) in [
            (0, 1_000_000, None),
            (1, 60_999, None),
            (1, 61_000, Some(60)),
            (99, 7_000, None),
            (100, 5_999, None),
            (100, 6_000, Some(5)),
        ] {
            assert_eq!(due(&figures, changes, now_ms), expected, "{changes} changes at {now_ms}");
        }
    }

    #[test]
    fn a_failed_save_is_tried_again_after_five_seconds() {
        let saves = JobOutcome { error: Some("No space left on device".into()), ..JobOutcome::default() };
        let figures = FileFigures { saves, ..FileFigures::default() };
        for (figures, has_failed) in [(figures, false), (FileFigures::default(), true)] {
            let due = SaveSchedule { tried_ms: 100_000, has_failed, ..SaveSchedule::default() };
            assert_eq!(due.save(&POINTS, &figures, 1, at(104_999)), None);
            assert!(due.save(&POINTS, &figures, 1, at(105_000)).is_some());
        }
    }
}
