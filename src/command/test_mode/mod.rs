//! `TEST.*`: the controls of a server that stands in for Redis in a test. Only a server with `test-mode` has them.

mod calls;
mod controls;
pub(crate) mod fault;
mod instance;
mod maintenance;
mod snapshot;
mod time;
pub(crate) mod topology;

use std::sync::LazyLock;

use crate::command::{FAMILIES, sentinel, server};
use crate::dispatch::{Command, Handlers};

pub(crate) use crate::test_mode::{Fault, ReceivedCall, TestMode};
pub(crate) use controls::test_mode_of;

/// The families that exist in test mode only.
const TEST_FAMILIES: &[&[Command]] = &[
    time::COMMANDS,
    fault::COMMANDS,
    calls::COMMANDS,
    snapshot::COMMANDS,
    instance::COMMANDS,
    maintenance::COMMANDS,
    topology::COMMANDS,
    sentinel::COMMANDS,
];

/// Returns the commands of every server and those of test mode.
pub(crate) fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
        let families: Vec<&'static [Command]> = FAMILIES.iter().chain(TEST_FAMILIES).copied().collect();
        Handlers::new(&families, server::help::row)
    });
    &HANDLERS
}
