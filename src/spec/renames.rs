//! Renamed and disabled commands: `rename-command` in a config file; and the profile, whose commands are all that there are.
//!
//! The table of commands is constant and the same for every server of a process; the names used by one server are here.
//! Invariant: no two commands have the same name.

use std::collections::BTreeMap;
use std::fmt;

use crate::profile::{Profile, SETTING};
use crate::resp::Request;
use crate::spec::marks::CONFIGURES;
use crate::spec::{CommandSpec, CommandTable, known};

/// The names that differ from the declared ones.
#[derive(Clone, Default)]
pub struct Renames {
    /// Names in lower case: new ones with their command, and old ones without.
    names: BTreeMap<Vec<u8>, Option<&'static CommandSpec>>,
    /// The profile.
    profile: Option<&'static Profile>,
    /// True if any name differs from the declared ones.
    differs: bool,
}

impl Renames {
    /// Reduces the commands to those of a profile, or ends that.
    pub(crate) fn answer_as(&mut self, profile: Option<&'static Profile>) {
        self.profile = profile;
        self.differs = profile.is_some() || !self.names.is_empty();
    }

    /// Renames the command `from` to `to`, or disables it if `to` is empty. A command that Redis has and keylatch lacks
    /// is accepted without effect.
    ///
    /// # Errors
    /// The reason, in Redis' words.
    pub fn rename(&mut self, commands: &'static CommandTable, from: &[u8], to: &[u8]) -> Result<(), String> {
        let names = Names::new(commands, self);
        let Some(command) = names.find(from) else {
            let is_absent = commands.find(from).is_none() && !from.contains(&b'|') && known::is_known(from);
            return if is_absent { Ok(()) } else { Err("No such command in rename-command".into()) };
        };
        self.names.insert(from.to_ascii_lowercase(), None);
        self.answer_as(self.profile);
        if !to.is_empty() {
            if Names::new(commands, self).find(to).is_some() {
                return Err("Target command name already exists".into());
            }
            self.names.insert(to.to_ascii_lowercase(), Some(command));
        }
        // A command that got its own name back is no longer renamed.
        self.names.retain(|name, command| !command.is_some_and(|command| command.name.as_bytes() == name));
        self.answer_as(self.profile);
        Ok(())
    }

    /// Disables all commands but some.
    pub fn keep(&mut self, commands: &'static CommandTable, is_kept: impl Fn(&CommandSpec) -> bool) {
        let others = commands.all().iter().filter(|command| !is_kept(command));
        self.names.extend(others.map(|command| (command.name.clone().into_bytes(), None)));
        self.names.retain(|_, command| command.is_none_or(&is_kept));
        self.answer_as(self.profile);
    }
}

/// The names of the commands of one server: those of the table, with the renamed ones replaced.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    commands: &'static CommandTable,
    renames: &'a Renames,
}

impl<'a> Names<'a> {
    /// Combines the table with the renamed commands.
    pub fn new(commands: &'static CommandTable, renames: &'a Renames) -> Self {
        Names { commands, renames }
    }

    /// Finds a command by its present name, case-insensitive.
    #[inline]
    pub fn find(self, name: &[u8]) -> Option<&'static CommandSpec> {
        if self.renames.differs { self.find_renamed(name) } else { self.commands.find(name) }
    }

    fn find_renamed(self, name: &[u8]) -> Option<&'static CommandSpec> {
        match self.renames.names.get(&name.to_ascii_lowercase()) {
            Some(command) => self.table().find((*command)?.name.as_bytes()),
            None => self.table().find(name),
        }
    }

    /// Returns the table of the commands that there are.
    pub(crate) fn table(self) -> &'static CommandTable {
        self.renames.profile.map_or(self.commands, |profile| self.commands.under(profile))
    }

    /// Returns the profile, if there is one.
    pub(crate) fn profile(self) -> Option<&'static Profile> {
        self.renames.profile
    }

    /// Finds a command, or one of its subcommands, that a request names and the profile does not have.
    pub(crate) fn find_beyond_profile(self, request: Request<'_>) -> Option<&'static CommandSpec> {
        let renamed = self.renames.names.get(&request.name().to_ascii_lowercase());
        let command = renamed.map_or_else(|| self.commands.find(request.name()), |command| *command)?;
        let is_alone = command.subcommands.is_empty() || request.len() == 1;
        if is_alone { Some(command) } else { command.subcommand(request.arg(1)) }
    }

    /// Finds the command of a request that reads or changes the profile, and nothing else: it exists under every profile.
    pub(crate) fn find_to_leave_profile(self, request: Request<'_>) -> Option<&'static CommandSpec> {
        let concerns_it = request.len() > 2 && request.arg(2).eq_ignore_ascii_case(SETTING.as_bytes());
        let is_alone = concerns_it && request.len() <= 4;
        self.renames.profile.filter(|_| is_alone)?;
        self.find_beyond_profile(request).filter(|command| command.is(CONFIGURES))
    }

    /// Finds a command by its present name, or one of its subcommands by `container|name`.
    pub fn find_full(self, name: &[u8]) -> Option<&'static CommandSpec> {
        match name.iter().position(|byte| *byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        }
    }

    /// Returns all commands that have a name, in the order of their declared names.
    pub fn all(self) -> impl Iterator<Item = &'static CommandSpec> {
        let are_listed = self.renames.profile.is_none_or(|profile| profile.lists_commands);
        let listed = if are_listed { self.table().all() } else { &[] };
        listed.iter().filter(move |command| self.has_name(command))
    }

    fn has_name(self, command: &CommandSpec) -> bool {
        let is_it = |other: &Option<&CommandSpec>| other.is_some_and(|other| other.name == command.name);
        let names = &self.renames.names;
        !names.contains_key(command.name.as_bytes()) || names.values().any(is_it)
    }
}

impl fmt::Debug for Renames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().map(|(name, command)| (name.escape_ascii().to_string(), command));
        f.debug_map().entries(names.map(|(name, command)| (name, command.map(|command| &command.name)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample::commands;

    fn names(renames: &Renames) -> Names<'_> {
        Names::new(commands(), renames)
    }

    fn name(renames: &Renames, name: &[u8]) -> Option<String> {
        names(renames).find(name).map(|command| command.name.clone())
    }

    #[test]
    fn commands_that_are_not_kept_have_no_name_left() {
        let mut renames = Renames::default();
        assert_eq!(renames.rename(commands(), b"GET", b"Fetch"), Ok(()));
        assert_eq!(renames.rename(commands(), b"SET", b"Store"), Ok(()));
        renames.keep(commands(), |command| command.name == "get");
        assert_eq!(names(&renames).all().map(|command| &*command.name).collect::<Vec<_>>(), ["get"]);
        assert_eq!(
            (name(&renames, b"fetch"), name(&renames, b"store"), name(&renames, b"get")),
            (Some("get".into()), None, None)
        );
    }

    #[test]
    fn a_command_goes_by_its_last_name_or_none() {
        let mut renames = Renames::default();
        assert_eq!(renames.rename(commands(), b"GET", b"Fetch"), Ok(()));
        assert_eq!((name(&renames, b"get"), name(&renames, b"FETCH")), (None, Some("get".into())));
        assert_eq!(renames.rename(commands(), b"get", b"x"), Err("No such command in rename-command".into()));
        assert_eq!(renames.rename(commands(), b"set", b"FETCH"), Err("Target command name already exists".into()));
        let mut renames = Renames::default();
        let count = names(&renames).all().count();
        assert_eq!(renames.rename(commands(), b"get", b"get2"), Ok(()));
        assert_eq!(names(&renames).all().count(), count);
        assert_eq!(renames.rename(commands(), b"get2", b""), Ok(()));
        assert_eq!((name(&renames, b"get"), name(&renames, b"get2")), (None, None));
        assert_eq!(names(&renames).all().count(), count - 1);
        let mut renames = Renames::default();
        assert_eq!(renames.rename(commands(), b"get", b"GET"), Ok(()));
        assert!(renames.names.is_empty());
        assert_eq!(renames.rename(commands(), b"BGSAVE", b""), Ok(()));
        assert_eq!(renames.rename(commands(), b"XGROUP", b"other"), Ok(()));
        assert_eq!(renames.rename(commands(), b"nosuch", b""), Err("No such command in rename-command".into()));
        assert_eq!(renames.rename(commands(), b"xgroup|create", b""), Err("No such command in rename-command".into()));
        assert!(renames.names.is_empty());
        assert_eq!(renames.rename(commands(), b"get", b"BGSAVE"), Ok(()));
        assert_eq!(name(&renames, b"bgsave"), Some("get".into()));
    }
}
