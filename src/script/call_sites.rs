//! The commands that scripts have called last, by the identity of the string that names them.
//!
//! Lua has one copy of each string, so when scripts call a command again, its name is at the same address, as long as
//! it is referenced: the interpreter stores the names of these commands.

use std::cell::Cell;

use crate::spec::CommandSpec;

/// The number of commands remembered.
const SITES: usize = 16;

/// A command, with the address of its name.
type Site = Cell<(usize, Option<&'static CommandSpec>)>;

/// The commands called last, without commands that have subcommands.
#[derive(Default)]
pub(super) struct CallSites([Site; SITES]);

/// Returns the index for the address of a name.
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

    /// Forgets all commands.
    pub(super) fn forget(&self) {
        self.0.iter().for_each(|site| site.set((0, None)));
    }

    /// Records a command; the caller keeps its name in the returned slot of the interpreter. `None` if the name alone
    /// does not identify the command.
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
