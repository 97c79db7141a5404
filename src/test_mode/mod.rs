//! What a server in test mode keeps for tests: the faults to be injected, the calls received, and states to go back to.
//!
//! Nothing of it exists in other servers. Here every call passes the gate's list of checks, the last of which is for
//! faults.

mod calls;
mod fault;
mod faults;
mod history;
mod recorder;

use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use calls::{Calls, ReceivedCall};
pub use fault::Fault;
pub(crate) use fault::FaultKind;
pub(crate) use faults::{ActiveFault, Faults, LINK};
pub(crate) use history::{Former, History, ScriptTexts};
pub(crate) use recorder::Recorder;

/// The state of test mode of one namespace.
pub(crate) struct TestMode {
    /// The faults to be injected.
    pub(crate) faults: Mutex<Faults>,
    /// The calls received.
    pub(crate) calls: Mutex<Calls>,
    /// Snapshots, and the latest writes.
    pub(crate) history: Mutex<History>,
    /// The changes until the next checkpoint.
    pub(crate) recorder: Arc<Recorder>,
}

impl TestMode {
    /// Creates the state of a namespace whose changes this recorder records.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        TestMode { faults: Mutex::default(), calls: Mutex::default(), history: Mutex::default(), recorder }
    }
}
