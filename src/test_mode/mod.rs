//! What a server in test mode keeps for tests: the faults to be injected, the calls received, and states to go back to.
//!
//! Nothing of it exists in other servers. Here every call passes the gate's list of checks, the last of which is for
//! faults.

mod calls;
mod fault;
mod faults;
mod history;

use parking_lot::Mutex;

use crate::spec::CommandSpec;

pub(crate) use calls::{Calls, ReceivedCall};
pub use fault::Fault;
pub(crate) use faults::{ActiveFault, FaultKind, Faults};
pub(crate) use history::{Former, History, ScriptTexts};

/// The state of test mode of one namespace.
#[derive(Default)]
pub(crate) struct TestMode {
    /// The faults to be injected.
    pub(crate) faults: Mutex<Faults>,
    /// The calls received.
    pub(crate) calls: Mutex<Calls>,
    /// Snapshots, and the latest writes.
    pub(crate) history: Mutex<History>,
}

/// Returns whether a command is the wanted one or, if that is a container, one of its subcommands.
fn covers(wanted: &CommandSpec, command: &CommandSpec) -> bool {
    let rest = command.name.strip_prefix(&wanted.name[..]);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
}
