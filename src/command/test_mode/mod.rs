//! `TEST.*`: what a test asks of a server that stands in for Redis. Only a server with `test-mode` has these commands.

mod calls;
pub(crate) mod fault;
mod snapshot;
mod time;

use std::sync::LazyLock;

use crate::command::{FAMILIES, server};
use crate::dispatch::{Call, Command, Handlers};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::spec::{ADMIN, Flags, LOADING, NO_MULTI, NO_SCRIPT, SKIP_MONITOR, SKIP_SLOWLOG, STALE};

pub(crate) use crate::test_mode::{Fault, ReceivedCall, TestMode};

/// The flags of all commands here: they are about the server, and not part of what is tested.
const CONTROLS: Flags = ADMIN | NO_SCRIPT | NO_MULTI | LOADING | STALE | SKIP_MONITOR | SKIP_SLOWLOG;

/// The families that exist in test mode only.
const TEST_FAMILIES: &[&[Command]] = &[time::COMMANDS, fault::COMMANDS, calls::COMMANDS, snapshot::COMMANDS];

/// Returns what test mode keeps.
///
/// # Errors
/// Never in test mode, and without it no call gets here.
fn test_mode<'c>(call: &Call<'c>) -> Result<&'c TestMode> {
    test_mode_of(call.namespace)
}

/// Returns what test mode keeps of a namespace.
///
/// # Errors
/// When the server is not in test mode.
pub(crate) fn test_mode_of(namespace: &Namespace) -> Result<&TestMode> {
    namespace.test_mode.as_deref().ok_or(Error::other("the server is not in test mode: it needs the setting test-mode"))
}

/// Returns the commands of every server and those of test mode.
pub(crate) fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
        let families: Vec<&'static [Command]> = FAMILIES.iter().chain(TEST_FAMILIES).copied().collect();
        Handlers::new(families.leak(), server::help::row)
    });
    &HANDLERS
}
