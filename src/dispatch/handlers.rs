//! The handlers of all commands.

use crate::dispatch::call::no_subcommand;
use crate::dispatch::{Command, Handler};
use crate::spec::{CommandSpec, CommandTable, Declaration};

/// The table of commands with their handlers. Modules below use only the declarations, which do not know the type of a
/// handler.
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

    /// Returns the handler of a command; that of a container returns an error.
    #[inline]
    pub(crate) fn of(&self, command: &CommandSpec) -> Handler {
        self.by_number[command.number]
    }
}
