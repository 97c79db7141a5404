//! What carries each command out.

use crate::dispatch::call::no_subcommand;
use crate::dispatch::{Command, Handler};
use crate::spec::{CommandSpec, CommandTable, Declaration};

/// Joins the table of commands with their handlers. The declarations lie below all that asks about a command; only this
/// knows what a handler is.
pub(crate) struct Handlers {
    /// The commands.
    pub commands: CommandTable,
    /// The handlers, by [`CommandSpec::number`].
    by_number: Box<[Handler]>,
}

impl Handlers {
    /// Registers the rows of all families.
    pub(crate) fn new(families: &'static [&'static [Command]], help: fn(&Declaration) -> Command) -> Self {
        let (commands, by_number) = CommandTable::register(families, help, no_subcommand);
        Handlers { commands, by_number }
    }

    /// Returns what carries a command out; a container of subcommands refuses.
    #[inline]
    pub(crate) fn of(&self, command: &CommandSpec) -> Handler {
        self.by_number[command.number]
    }
}
