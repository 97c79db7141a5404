//! The commands on lists.

use crate::dispatch::Command;

/// Declares the commands of this file.
pub(crate) const COMMANDS: &[Command] = &[];
