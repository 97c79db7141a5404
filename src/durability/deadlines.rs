//! Deadlines across a restart: a wall clock that was set meanwhile ends no lock early, and prolongs none.
//!
//! The append-only file has deadlines by the wall clock. Its base and each of its blocks have timestamps by the wall
//! clock and by the time since the system was booted, so a start can tell between which of them the clock was set. The
//! deadlines loaded so far are moved by the same amount. The data is then no longer that of its replication offset.
//!
//! A replica counts by its primary's clock, and so do its files: it continues by it, whatever its own clock shows at
//! the start.

use tracing::info;

use crate::dispatch::Env;
use crate::dispatch::replay::Replay;
use crate::durability::worker::FilesWorker;
use crate::persist::aof::Timestamp;
use crate::resp::{write_command, write_select};
use crate::store::value::{Hash, Set, SetRef};
use crate::store::{Cx, Origin, View};
use crate::time::clock::Deadline;
use crate::time::estimate::DRIFT_MAX_MS;

/// Number of deadlines that are moved at once.
const BATCH: usize = 1000;

/// Detector of steps of the wall clock between timestamps noted in order.
#[derive(Default)]
pub(super) struct ClockSteps {
    last: Option<Timestamp>,
    /// True if the clock was set between any two timestamps.
    pub(super) has_any: bool,
}

impl ClockSteps {
    /// Notes a timestamp; returns the milliseconds by which the clock was set since the last one.
    pub(super) fn note(&mut self, moment: Timestamp) -> i64 {
        let step_ms = self.last.as_ref().map_or(0, |last| step_ms(last, &moment));
        self.last = Some(moment);
        self.has_any |= step_ms != 0;
        step_ms
    }

    /// Forgets the last timestamp, before data of which the time is not known.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

/// Returns the milliseconds by which the clock was set between two timestamps.
pub(super) fn step_ms(last: &Timestamp, next: &Timestamp) -> i64 {
    let passed_ms = i128::from(next.wall_ms) - i128::from(last.wall_ms);
    let step_ms = if last.is_of_same_boot(next) {
        passed_ms - (i128::from(next.boot_ms) - i128::from(last.boot_ms))
    } else {
        // After another boot the wall clock decides, but no time that has passed passes again.
        passed_ms.min(0)
    };
    let step_ms = step_ms.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    // A wall clock is corrected by small amounts all the time.
    if (-DRIFT_MAX_MS..=DRIFT_MAX_MS).contains(&step_ms) { 0 } else { step_ms }
}

impl FilesWorker {
    pub(super) fn moment(&self) -> Timestamp {
        Timestamp::present(&*self.disk, &self.namespace.clock)
    }

    /// Moves the deadlines by the step of the clock since a file was written. The deadlines of a replica stay, and its
    /// clock continues from the file's.
    ///
    /// # Errors
    /// Errors of [`FilesWorker::move_deadlines`].
    pub(super) fn arrive_at_present(&self, steps: &mut ClockSteps) -> Result<(), String> {
        if self.namespace.role.is_replica() {
            self.continue_time(steps.last.as_ref());
            return Ok(());
        }
        self.move_deadlines(steps.note(self.moment()))
    }

    /// Continues the clock of a replica from the last timestamp of a file, if the time passed since is known.
    pub(super) fn continue_time(&self, last: Option<&Timestamp>) {
        let present = self.moment();
        if let Some(last) = last.filter(|last| self.namespace.role.is_replica() && last.is_of_same_boot(&present)) {
            self.namespace.continue_time(step_ms(last, &present));
        }
    }

    /// Moves all deadlines of keys and fields.
    ///
    /// # Errors
    /// A command that cannot be executed, which is a bug.
    pub(super) fn move_deadlines(&self, by_ms: i64) -> Result<(), String> {
        if by_ms == 0 {
            return Ok(());
        }
        info!("The clock was set by {by_ms} ms since a part of the append only file was written: deadlines are moved");
        let namespace = &*self.namespace;
        let (mut replay, mut log) = (Replay::new(namespace), bytes::BytesMut::new());
        let mut held = namespace.store.exclusive();
        let mut view = held.view(0, Cx::new(namespace.clock.now(), Origin::Replay));
        for db in view.used_databases() {
            // Another deadline of a key applies to all holders of the lock, so the lock records are read before.
            let locks = view.in_db(db, |view| view.locks().texts_of_shared());
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let mut commands = Vec::new();
                write_select(&mut commands, db);
                cursor = view.in_db(db, |view| push_deadlines(view, from, by_ms, &mut commands));
                log.extend_from_slice(&commands);
                let moved = Env::with_present(namespace, self.handlers, 0, |env| {
                    replay.go_on(env, &mut view, &mut log, |repeated| repeated.caller.forget_effects())
                });
                moved.map_err(|error| format!("deadlines cannot be moved: {error}"))?;
            }
            let by_ms = by_ms.max(-view.now().wall_ms());
            view.in_db(db, |view| locks.iter().for_each(|(key, text)| self.move_lock((db, key), text, by_ms, view)));
        }
        Ok(())
    }
}

impl FilesWorker {
    /// Restores a lock from its text, with the deadlines of its holders moved.
    fn move_lock(&self, (db, key): (usize, &[u8]), text: &[u8], by_ms: i64, view: &mut View<'_>) {
        let key = self.namespace.store.key(key);
        self.namespace.adopt_lock((db, key), text, view);
        view.locks().move_holders(key, by_ms);
    }
}

/// Appends commands that move deadlines of a database, from a scan cursor on; returns the next cursor, if there is
/// more.
fn push_deadlines(view: &mut View<'_>, mut cursor: u64, by_ms: i64, commands: &mut Vec<u8>) -> Option<u64> {
    let (mut count, now) = (0, view.now());
    let moved = |at_ms: i64| at_ms.saturating_add(by_ms).max(1).to_string();
    while count < BATCH {
        cursor = view.scan(cursor, |entry| {
            if let Some(at_ms) = entry.deadline().map(|deadline| Deadline::wall_ms(deadline, now)) {
                count += 1;
                write_command(commands, &[b"PEXPIREAT", entry.key(), moved(at_ms).as_bytes()]);
            }
            let mut push = |[command, block]: [&[u8]; 2], deadline: Option<i64>, element: &[u8]| {
                if let Some(at_ms) = deadline.map(moved) {
                    count += 1;
                    write_command(commands, &[command, entry.key(), at_ms.as_bytes(), block, b"1", element]);
                }
            };
            if let Ok(hash) = entry.get::<Hash>()
                && hash.nearest_deadline().is_some()
            {
                hash.for_each_timed(|field, _, deadline| {
                    field.with(|field| push([b"HPEXPIREAT", b"FIELDS"], deadline, field));
                });
            } else if let Ok(SetRef::Timed(set)) = entry.get::<Set>() {
                set.iter().for_each(|(member, deadline)| {
                    member.with_text(|member| push([b"SPEXPIREAT", b"MEMBERS"], deadline, member));
                });
            }
        });
        if cursor == 0 {
            return None;
        }
    }
    Some(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::aof::NO_BOOT;

    fn moment(boot: &str, wall_ms: i64, boot_ms: u64) -> Timestamp {
        Timestamp { boot: boot.into(), wall_ms, boot_ms }
    }

    #[test]
    fn what_the_clock_was_set_by_is_what_differs_from_the_time_since_boot() {
        for (boot, wall_ms, boot_ms, expected) in [
            ("one", 103_000, 8000, 0),
            ("one", 104_000, 8000, 0),
            ("one", 104_001, 8000, 1001),
            ("one", 102_000, 8000, 0),
            ("one", 101_999, 8000, -1001),
            ("one", 5_000_000, 8000, 4_897_000),
            // Another boot, of which only the wall clock is known.
            ("other", 5_000_000, 10, 0),
            ("other", 98_999, 10, -1001),
            ("one", i64::MIN, u64::MAX, i64::MIN),
            ("one", i64::MAX, 0, i64::MAX - 95_000),
            ("one", 99_000, 0, 4000),
        ] {
            let mut steps = ClockSteps::default();
            assert_eq!(steps.note(moment("one", 100_000, 5000)), 0);
            assert_eq!(steps.note(moment(boot, wall_ms, boot_ms)), expected, "{boot} {wall_ms} {boot_ms}");
            assert_eq!(steps.note(moment(boot, wall_ms, boot_ms)), 0);
        }
    }

    #[test]
    fn nothing_is_known_of_a_clock_across_what_has_no_moment_and_without_the_number_of_a_boot() {
        let mut steps = ClockSteps::default();
        steps.note(moment("one", 100_000, 5000));
        steps.forget();
        assert_eq!(steps.note(moment("one", 900_000, 5000)), 0);
        steps.note(moment(NO_BOOT, 900_000, 5000));
        assert_eq!(steps.note(moment(NO_BOOT, 990_000, 5000)), 0);
        assert_eq!(steps.note(moment(NO_BOOT, 900_000, 5000)), -90_000);
    }
}
