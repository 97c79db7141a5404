//! Timestamps by the wall clock and by the time since boot.

use crate::persist::aof::block::{BlockStamp, Header, NO_BOOT, RunningChecksum, boot_field, timestamp};
use crate::persist::aof::policy::Annotations;
use crate::persist::disk::Disk;
use crate::time::clock::Clock;

/// Longest time to read both clocks, in milliseconds. A thread that is interrupted in between reads them again.
const READING_MAX_MS: u64 = 10;

/// Timestamp by the wall clock, and by the time since the system was booted, which cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp {
    /// The number of the boot, or [`NO_BOOT`].
    pub(crate) boot: String,
    /// Milliseconds since 1970.
    pub(crate) wall_ms: i64,
    /// Milliseconds since the boot.
    pub(crate) boot_ms: u64,
}

/// Returns the milliseconds since 1970 and since the boot.
pub(crate) fn read_clocks(disk: &dyn Disk, clock: &Clock) -> (i64, u64) {
    loop {
        let (before_ms, wall_ms) = (disk.since_boot_ms(), clock.now().wall_ms());
        if disk.since_boot_ms().saturating_sub(before_ms) <= READING_MAX_MS {
            return (wall_ms, before_ms);
        }
    }
}

impl Timestamp {
    pub(crate) fn present(disk: &dyn Disk, clock: &Clock) -> Self {
        let (wall_ms, boot_ms) = read_clocks(disk, clock);
        Timestamp { boot: boot_field(&disk.boot_id(clock).unwrap_or_default()), wall_ms, boot_ms }
    }

    /// Returns true if both timestamps are of the same, known boot, so that the time between them is known.
    pub(crate) fn is_of_same_boot(&self, other: &Timestamp) -> bool {
        self.boot == other.boot && self.boot != NO_BOOT
    }

    /// Returns the time at which a block was written.
    pub(crate) fn of(header: &Header) -> Self {
        Timestamp { boot: header.boot.clone(), wall_ms: header.at.wall_ms, boot_ms: header.at.boot_ms }
    }

    /// Returns the annotations at the start of a base of commands: the time at which it was written and, in the header
    /// of an empty block, the last fencing token by then.
    pub(crate) fn annotations(&self, wanted: Annotations, fence: i64) -> Vec<u8> {
        let (mut lines, mut sum) = (Vec::new(), RunningChecksum::default());
        if wanted.timestamps {
            lines = timestamp(self.wall_ms);
            sum.add(&lines);
        }
        if wanted.checksums {
            let at = BlockStamp { wall_ms: self.wall_ms, boot_ms: self.boot_ms, fence, history: None };
            let header = Header { position: 0, len: 0, end: 0, boot: self.boot.clone(), at, synced: 0 };
            lines.extend_from_slice(&header.write([], &mut sum));
        }
        lines
    }

    /// Formats the timestamp as text.
    pub(crate) fn to_text(&self) -> String {
        let Timestamp { boot, wall_ms, boot_ms } = self;
        format!("{boot},{wall_ms},{boot_ms}")
    }

    /// Parses [`Timestamp::to_text`].
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(text).ok()?.split(',');
        let (boot, wall_ms, boot_ms) =
            (fields.next()?.to_owned(), fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Timestamp { boot, wall_ms, boot_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_was_written_and_what_is_none_is_not() {
        let moment = Timestamp { boot: "0f9b-1".into(), wall_ms: -5, boot_ms: 7 };
        assert_eq!(Timestamp::parse(moment.to_text().as_bytes()), Some(moment));
        for text in ["", "a", "a,1", "a,1,-1", "a,x,1"] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
        }
    }
}
