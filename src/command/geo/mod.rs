//! Geographic positions: sorted sets whose scores are positions.

use crate::dispatch::Command;

/// Declares the commands of this file.
pub(crate) const COMMANDS: &[Command] = &[];
