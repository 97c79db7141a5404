//! Test mode: faults to be injected, received calls, and former states to be restored.
//!
//! Other servers have none of this. In test mode, every call passes the list of checks, the last of which is for
//! faults.

mod calls;
mod fault;
mod faults;
mod history;
mod recorder;

use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use calls::{CallJournal, ReceivedCall};
pub use fault::Fault;
pub(crate) use fault::FaultKind;
pub(crate) use faults::{ActiveFault, Faults, SharedFaults};
pub(crate) use history::{NamespaceHistory, PreviousState, ScriptTexts};
pub(crate) use recorder::Recorder;

/// Name of the connections by which a test observes: no fault closes them together with others.
pub(crate) const CONTROL_CLIENT: &str = "keylatch-control";

/// State of test mode of one namespace.
pub(crate) struct TestMode {
    pub(crate) faults: SharedFaults,
    pub(crate) calls: Mutex<CallJournal>,
    /// Snapshots and the latest writes.
    pub(crate) history: Mutex<NamespaceHistory>,
    /// Recorder of the changes since the last checkpoint.
    pub(crate) recorder: Arc<Recorder>,
}

impl TestMode {
    /// Creates the state of a namespace whose changes this recorder records.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        TestMode { faults: SharedFaults::default(), calls: Mutex::default(), history: Mutex::default(), recorder }
    }
}
