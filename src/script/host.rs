//! The host: the interface of a script to everything outside of its interpreter, which exists while the script runs.

use std::borrow::Cow;

use crate::resp::{Kept, Protocol, Request, RequestBuffer};
use crate::spec::CommandSpec;

/// The reply of a command to a script.
pub enum CallReply<'r> {
    /// A single value that was not encoded, with its bytes.
    Kept(Kept, &'r [u8]),
    /// Any other reply.
    Encoded(Cow<'r, [u8]>),
}

/// The operations of a running script outside of its interpreter: it calls commands on behalf of its caller.
pub trait Host {
    /// Borrows the buffer for the arguments of the next call.
    fn args(&mut self) -> &mut RequestBuffer;

    /// Finds the command whose arguments were filled in.
    fn find(&self) -> Option<&'static CommandSpec>;

    /// Executes a command, whose arguments were filled in, and returns its reply; an unknown one is refused.
    ///
    /// # Errors
    /// The reason why the command may not be called from this script; the text after `ERR`.
    fn call(&mut self, command: Option<&'static CommandSpec>) -> Result<CallReply<'_>, Cow<'static, str>>;

    /// Returns true if the caller's user may call the command whose arguments were filled in; `None` for an unknown
    /// command.
    fn may_call(&mut self) -> Option<bool>;

    /// Returns the protocol of the replies to the script.
    fn protocol(&self) -> Protocol;

    /// Sets the protocol of the replies to the script.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Switches the logging of the following commands' changes, for the append-only file and replicas, on or off.
    fn log_changes(&mut self, are_logged: bool);

    /// Returns the name of the script or function, and the request that runs it.
    fn running(&self) -> (String, Request<'_>);
}

scoped_tls_hkt::scoped_thread_local! {
    // Not global state but an implicit argument: the functions of `api` live as long as the interpreter, and the host
    // only as long as one script. It is set while the script runs, on its thread only.
    pub(super) static mut HOST: for<'a> &'a mut (dyn Host + 'a)
}
