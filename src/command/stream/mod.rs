//! The commands on streams.

use crate::dispatch::Command;

/// Declares the commands of this file.
pub(crate) const COMMANDS: &[Command] = &[];
