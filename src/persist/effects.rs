//! The effects of one call.

use crate::resp::{write_command, write_select};

/// Capacity kept for the next effects, in bytes, so that a client's effects do not allocate each time.
const IDLE_CAPACITY_MAX: usize = 1024;

/// Frame around several effects in the log, which makes them one transaction.
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// The effects of a call and of calls nested in it, until they are appended to the log together.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The commands, with `SELECT` where the database changes.
    commands: Vec<u8>,
    /// Number of commands, not counting `SELECT`.
    count: usize,
    /// Commands for replicas alone, logged after the others.
    asides: Vec<u8>,
    /// True while added commands are dropped, because a script wants its changes neither logged nor replicated; the
    /// number of dropped commands, and the last one.
    is_withheld: bool,
    withheld: usize,
    dropped: Vec<u8>,
    /// Databases of the first and the last command.
    first_db: usize,
    last_db: usize,
}

impl Effects {
    /// Creates the effects of a call that has one command as its effect.
    pub(crate) fn one(db: usize, args: &[&[u8]]) -> Self {
        let mut effects = Effects::default();
        effects.push(db, args);
        effects
    }

    /// Returns the database of the last effect.
    pub(crate) fn last_db(&self) -> usize {
        self.last_db
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if there is nothing to be logged.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.asides.is_empty() && self.withheld == 0
    }

    /// Drops commands that are added from now on, or ends that.
    pub(crate) fn withhold(&mut self, is_withheld: bool) {
        self.is_withheld = is_withheld;
        self.dropped = Vec::new();
    }

    /// Returns the number of dropped commands.
    pub(crate) fn withheld(&self) -> usize {
        self.withheld
    }

    /// Begins a command for replicas alone; the caller appends it.
    pub(crate) fn begin_aside(&mut self) -> &mut Vec<u8> {
        &mut self.asides
    }

    pub(super) fn asides(&self) -> &[u8] {
        &self.asides
    }

    /// Adds a command that repeats a change in a database.
    pub(crate) fn push(&mut self, db: usize, args: &[&[u8]]) {
        write_command(self.begin(db), args);
    }

    /// Begins a command that repeats a change in a database; the caller appends it.
    pub(crate) fn begin(&mut self, db: usize) -> &mut Vec<u8> {
        if self.is_withheld {
            self.withheld += 1;
            self.dropped.clear();
            return &mut self.dropped;
        }
        if self.count == 0 {
            self.first_db = db;
        } else if self.last_db != db {
            write_select(&mut self.commands, db);
        }
        self.last_db = db;
        self.count += 1;
        &mut self.commands
    }

    /// Returns the bytes to log before the commands and after them; `db` is the database of the log's last command.
    pub(super) fn frame(&self, db: &mut Option<usize>) -> (Vec<u8>, &'static [u8]) {
        let mut before = Vec::new();
        if self.count > 0 && db.replace(self.last_db) != Some(self.first_db) {
            write_select(&mut before, self.first_db);
        }
        if self.count <= 1 {
            return (before, b"");
        }
        before.extend_from_slice(MULTI);
        (before, EXEC)
    }

    /// Borrows the commands, which the log may take.
    pub(super) fn commands(&mut self) -> &mut Vec<u8> {
        &mut self.commands
    }

    /// Removes all effects.
    pub(super) fn clear(&mut self) {
        (self.count, self.withheld) = (0, 0);
        self.asides = Vec::new();
        self.commands.clear();
        if self.commands.capacity() > IDLE_CAPACITY_MAX {
            self.commands = Vec::new();
        }
    }
}

/// A cloned caller starts without effects.
impl Clone for Effects {
    fn clone(&self) -> Self {
        Effects::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(effects: &[(usize, &str)], db: &mut Option<usize>) -> String {
        let mut collected = Effects::default();
        for (db, command) in effects {
            collected.push(*db, &command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        let (before, after) = collected.frame(db);
        let log = [&before, &*collected.commands, after].concat();
        collected.clear();
        assert_eq!((collected.count(), collected.commands.len()), (0, 0));
        String::from_utf8_lossy(&log).replace("\r\n", " ")
    }

    #[test]
    fn a_single_effect_is_logged_alone_and_several_in_a_transaction() {
        let mut db = None;
        assert_eq!(logged(&[], &mut db), "");
        assert_eq!(logged(&[(0, "DEL k")], &mut db), "*2 $6 SELECT $1 0 *2 $3 DEL $1 k ");
        assert_eq!(
            logged(&[(0, "DEL k"), (0, "DEL l")], &mut db),
            "*1 $5 MULTI *2 $3 DEL $1 k *2 $3 DEL $1 l *1 $4 EXEC "
        );
    }

    #[test]
    fn commands_that_are_withheld_count_and_are_in_no_log() {
        let mut effects = Effects::default();
        effects.push(0, &[b"DEL", b"a"]);
        effects.withhold(true);
        effects.push(3, &[b"DEL", b"b"]);
        assert_eq!((effects.count(), effects.withheld(), effects.is_empty()), (1, 1, false));
        effects.withhold(false);
        effects.push(0, &[b"DEL", b"c"]);
        let (before, after) = effects.frame(&mut Some(0));
        let log = [&before, &*effects.commands, after].concat();
        let log = String::from_utf8_lossy(&log).replace("\r\n", " ");
        assert_eq!(log, "*1 $5 MULTI *2 $3 DEL $1 a *2 $3 DEL $1 c *1 $4 EXEC ");
        effects.clear();
        assert!(effects.is_empty());
    }

    #[test]
    fn the_database_is_selected_where_it_changes() {
        let mut db = Some(3);
        assert_eq!(logged(&[(3, "DEL k")], &mut db), "*2 $3 DEL $1 k ");
        assert_eq!(
            logged(&[(3, "DEL k"), (4, "DEL k"), (4, "DEL l")], &mut db),
            "*1 $5 MULTI *2 $3 DEL $1 k *2 $6 SELECT $1 4 *2 $3 DEL $1 k *2 $3 DEL $1 l *1 $4 EXEC "
        );
        assert_eq!(db, Some(4));
    }
}
