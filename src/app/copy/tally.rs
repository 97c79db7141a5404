//! Results of a copy: keys copied, and keys left out, by reason.

use crate::text::quote;

/// Maximum number of keys named for one reason of leaving keys out.
const NAMES_MAX: usize = 10;

/// Results of a copy.
#[derive(Default)]
pub(super) struct CopyTally {
    keys: u64,
    with_ttl: u64,
    bytes: u64,
    existing: Named,
    refused: Named,
    /// Databases that the target does not have, each with its refusal.
    databases: Vec<String>,
    /// The database whose keys are copied.
    database: u32,
}

/// Keys that were not copied, of which only the first are named.
#[derive(Default)]
struct Named {
    count: u64,
    names: Vec<String>,
}

impl Named {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(name());
        }
    }

    /// Returns the names, and the number of further keys.
    fn listed(&self, separator: &str) -> String {
        let mut text = self.names.join(separator);
        let left = self.count - self.names.len() as u64;
        if left > 0 {
            text.push_str(&format!("{separator}and {left} more"));
        }
        text
    }
}

impl CopyTally {
    /// Begins to count for a database of the source.
    pub(super) fn begin(&mut self, database: u32) {
        self.database = database;
    }

    /// Counts a key that was copied.
    pub(super) fn copied(&mut self, has_ttl: bool, bytes: usize) {
        self.keys += 1;
        self.with_ttl += u64::from(has_ttl);
        self.bytes += bytes as u64;
    }

    /// Counts a key that exists at the target and is left as it is.
    pub(super) fn existing(&mut self, key: &[u8]) {
        self.existing.add(|| name(key, self.database));
    }

    /// Counts a key that one of the servers refuses.
    pub(super) fn refused(&mut self, key: &[u8], reason: &str) {
        self.refused.add(|| format!("{}: {reason}", name(key, self.database)));
    }

    /// Records that the target does not have the present database.
    pub(super) fn without_database(&mut self, reason: &str) {
        self.databases.push(format!("Nothing of database {} was copied: {reason}", self.database));
    }

    /// Describes the keys that were not copied; returns no lines if all were.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut lines = self.databases.clone();
        if self.refused.count > 0 {
            lines.push(format!("{} refused:\n  {}", counted(self.refused.count), self.refused.listed("\n  ")));
        }
        if self.existing.count > 0 {
            let (count, names) = (counted(self.existing.count), self.existing.listed(", "));
            lines.push(format!("{count} not copied, because of the same name at the target (see --replace): {names}"));
        }
        lines
    }

    /// Describes the keys that were copied; `verb` tells whether that has happened.
    pub(super) fn summary(&self, verb: &str, ms: u64) -> String {
        let CopyTally { with_ttl, bytes, .. } = self;
        let seconds = format!("{}.{:03}", ms / 1000, ms % 1000);
        format!("{verb} {}, {with_ttl} with a TTL, {bytes} bytes, in {seconds} seconds", counted(self.keys))
    }
}

fn counted(keys: u64) -> String {
    format!("{keys} key{}", if keys == 1 { "" } else { "s" })
}

/// Returns a key as it is named to the user.
fn name(key: &[u8], database: u32) -> String {
    match database {
        0 => quote(key),
        _ => format!("{} in database {database}", quote(key)),
    }
}
