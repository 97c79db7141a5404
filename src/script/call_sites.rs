//! The commands that scripts have called last, by the identity of the string that names them.
//!
//! Lua has one copy of each string, so where scripts call a command again, its name is at the same address, as long as
//! something refers to it: the interpreter stores the names of these commands.

use std::cell::Cell;

use crate::spec::CommandSpec;

/// How many commands are remembered.
const SITES: usize = 16;

/// One command, with the address of its name.
type Site = Cell<(usize, Option<&'static CommandSpec>)>;

/// The commands called last. Those with subcommands are not among them.
#[derive(Default)]
pub(super) struct CallSites([Site; SITES]);

/// Returns where a name may be.
fn slot(address: usize) -> usize {
    address / 16 % SITES
}

impl CallSites {
    /// Finds the command whose name is at an address.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        let address = name.as_ptr().addr();
        let (known, command) = self.0[slot(address)].get();
        command.filter(|_| known == address)
    }

    /// Remembers a command, whose name the caller keeps for the returned number of a slot; `None` for one whose name does
    /// not tell which command it is.
    #[cold]
    pub(super) fn remember(&self, name: &[u8], command: &'static CommandSpec) -> Option<i32> {
        if command.name.contains('|') || !command.subcommands.is_empty() {
            return None;
        }
        let address = name.as_ptr().addr();
        self.0[slot(address)].set((address, Some(command)));
        Some(slot(address) as i32)
    }
}
