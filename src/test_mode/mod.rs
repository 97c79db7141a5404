//! What a server in test mode keeps for tests: the faults to be injected, and the calls received.
//!
//! Nothing of it exists in other servers. Here every call passes the gate's list of checks, the last of which is for
//! faults.

mod calls;
mod faults;

use parking_lot::Mutex;

pub(crate) use calls::{Calls, ReceivedCall};
pub(crate) use faults::{Fault, FaultKind, Faults};

/// The state of test mode of one namespace.
#[derive(Default)]
pub(crate) struct TestMode {
    /// The faults to be injected.
    pub(crate) faults: Mutex<Faults>,
    /// The calls received.
    pub(crate) calls: Mutex<Calls>,
}
