//! Deadlines over a restart: a clock that was set while the server was down ends no lock early, and lets none live on.
//!
//! The files have deadlines by the wall clock. Each block of the append-only file says when it was written, by the wall
//! clock and by the time since the system was booted, so a start can tell how much time has really passed since.

use bytes::BytesMut;
use tracing::info;

use crate::dispatch::replay::replay;
use crate::durability::worker::Worker;
use crate::persist::aof::{Header, boot_field};
use crate::persist::{write_command, write_select};
use crate::resp::Output;
use crate::store::{Cx, Origin, ValueRef, View};
use crate::time::clock::Deadline;

/// By how many milliseconds the wall clock may be ahead of, or behind the time since boot: it is corrected all the time,
/// by little. Ahead it ends locks early, so less is tolerated.
const AHEAD_MAX_MS: i64 = 1000;
const BEHIND_MAX_MS: i64 = 10_000;

/// Returns by how many milliseconds deadlines are to be moved.
fn correction_ms(last: &Header, boot: &str, wall_ms: i64, boot_ms: u64) -> i64 {
    let ahead_ms = match i64::try_from(boot_ms).ok().filter(|_| last.boot == boot) {
        Some(boot_ms) => {
            let passed_ms = boot_ms.saturating_sub_unsigned(last.at.boot_ms);
            wall_ms.saturating_sub(last.at.wall_ms.saturating_add(passed_ms))
        }
        // After another boot the wall clock decides, but no time that has passed passes again.
        None => wall_ms.saturating_sub(last.at.wall_ms).min(0),
    };
    if (-BEHIND_MAX_MS..=AHEAD_MAX_MS).contains(&ahead_ms) { 0 } else { ahead_ms }
}

impl Worker {
    /// Moves the deadlines of keys and fields if the wall clock was set since the last block was written.
    pub(super) fn correct_deadlines(&self, last: Option<&Header>) -> Result<(), String> {
        let Some(last) = last else { return Ok(()) };
        let (boot, now) = (boot_field(&self.disk.boot_id().unwrap_or_default()), self.namespace.clock.now());
        let by_ms = correction_ms(last, &boot, now.wall_ms(), self.disk.since_boot_ms());
        if by_ms == 0 {
            return Ok(());
        }
        info!("The clock was set by {by_ms} ms while no server was running: all deadlines are moved as far");
        let mut commands = Output::new();
        {
            let mut held = self.namespace.store.exclusive();
            let mut view = held.view(0, Cx::new(now, Origin::Replay));
            for db in view.used_databases() {
                view.in_db(db, |view| push_deadlines(view, db, by_ms, &mut commands));
            }
        }
        let commands = commands.into_bytes();
        let moved = replay(&self.namespace, self.handlers, BytesMut::from(&commands[..]));
        moved.map(drop).map_err(|error| format!("deadlines cannot be moved: {error}"))
    }
}

/// Adds commands that move the deadlines of a database.
fn push_deadlines(view: &mut View<'_>, db: usize, by_ms: i64, commands: &mut Output) {
    write_select(commands, db);
    let (mut cursor, now) = (0, view.now());
    let moved = |at_ms: i64| at_ms.saturating_add(by_ms).max(1).to_string();
    loop {
        cursor = view.scan(cursor, |entry| {
            if let Some(at_ms) = entry.deadline().map(|deadline| Deadline::wall_ms(deadline, now)) {
                write_command(commands, [&b"PEXPIREAT"[..], entry.key(), moved(at_ms).as_bytes()].into_iter());
            }
            let ValueRef::Hash(hash) = entry.contents() else { return };
            if hash.nearest_deadline().is_some() {
                hash.for_each_timed(|field, _, deadline| {
                    let Some(at_ms) = deadline.map(moved) else { return };
                    field.with(|field| {
                        let args = [&b"HPEXPIREAT"[..], entry.key(), at_ms.as_bytes(), b"FIELDS", b"1", field];
                        write_command(commands, args.into_iter());
                    });
                });
            }
        });
        if cursor == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::aof::Stamp;

    #[test]
    fn what_the_clock_was_set_by_is_what_differs_from_the_time_since_boot() {
        let at = Stamp { wall_ms: 100_000, boot_ms: 5000, fence: 0 };
        let last = Header { position: 0, len: 0, boot: "one".into(), at, synced: 0 };
        for (boot, wall_ms, boot_ms, expected) in [
            ("one", 103_000, 8000, 0),
            ("one", 104_000, 8000, 0),
            ("one", 104_001, 8000, 1001),
            ("one", 93_000, 8000, 0),
            ("one", 92_999, 8000, -10_001),
            ("one", 5_000_000, 8000, 4_897_000),
            // Another boot, of which nothing but the wall clock is known.
            ("other", 5_000_000, 10, 0),
            ("other", 89_999, 10, -10_001),
            ("one", i64::MIN, u64::MAX, i64::MIN),
            ("one", i64::MAX, 0, i64::MAX - 95_000),
        ] {
            assert_eq!(correction_ms(&last, boot, wall_ms, boot_ms), expected, "{boot} {wall_ms} {boot_ms}");
        }
    }
}
