//! The effects of one call.

use crate::resp::{Output, Protocol, Reply};

/// The effects of a call and of those nested in it, until all of them are appended to the log together.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The commands, with `SELECT` where the database changes.
    commands: Output,
    /// How many there are, not counting `SELECT`.
    count: usize,
    /// The databases of the first and the last one.
    first_db: usize,
    last_db: usize,
}

impl Effects {
    /// Returns the effect that one command repeats.
    pub(crate) fn one(db: usize, args: &[&[u8]]) -> Self {
        let mut effects = Effects::default();
        effects.push(db, args.iter().copied());
        effects
    }

    /// Returns the database of the last one.
    pub(crate) fn last_db(&self) -> usize {
        self.last_db
    }

    /// Returns how many effects there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a command that repeats a change in a database.
    pub(crate) fn push<'a>(&mut self, db: usize, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.count == 0 {
            self.first_db = db;
        } else if self.last_db != db {
            write_select(&mut self.commands, db);
        }
        self.last_db = db;
        self.count += 1;
        write_command(&mut self.commands, args);
    }

    /// Takes the effects as they are appended to a log whose last command was in `db`, if there was one.
    pub(super) fn take(&mut self, db: &mut Option<usize>) -> Output {
        let Effects { commands, count, first_db, last_db } = std::mem::take(self);
        let is_selected = count == 0 || *db == Some(first_db);
        if count > 0 {
            *db = Some(last_db);
        }
        if is_selected && count <= 1 {
            return commands;
        }
        let mut log = Output::new();
        if !is_selected {
            write_select(&mut log, first_db);
        }
        if count == 1 {
            log.append(commands);
            return log;
        }
        write_command(&mut log, [&b"MULTI"[..]].into_iter());
        log.append(commands);
        write_command(&mut log, [&b"EXEC"[..]].into_iter());
        log
    }
}

/// The copy of a caller has no effects yet.
impl Clone for Effects {
    fn clone(&self) -> Self {
        Effects::default()
    }
}

/// Writes the command that selects a database.
pub(crate) fn write_select(log: &mut Output, db: usize) {
    write_command(log, [&b"SELECT"[..], itoa::Buffer::new().format(db).as_bytes()].into_iter());
}

/// Writes a command as clients send it: an array of bulk strings.
pub(crate) fn write_command<'a>(log: &mut Output, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    let mut request = Reply::new(log, Protocol::Resp2);
    request.array(args.len());
    args.for_each(|arg| request.bulk(arg));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(effects: &[(usize, &str)], db: &mut Option<usize>) -> String {
        let mut collected = Effects::default();
        for (db, command) in effects {
            collected.push(*db, command.split(' ').map(str::as_bytes).collect::<Vec<_>>().into_iter());
        }
        let log = collected.take(db);
        assert_eq!(collected.count(), 0);
        String::from_utf8_lossy(&log.into_bytes()).replace("\r\n", " ")
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
