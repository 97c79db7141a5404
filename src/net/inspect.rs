//! Direct access of a test to the server, without a client: keys, the calls received, faults.
//!
//! Keys are read by the commands that clients call, see `dispatch::introspection`; faults and calls are those of
//! `TEST.FAULT` and `TEST.CALLS`. All methods may be called from blocking and from asynchronous code.

use std::fmt;
use std::time::Duration;

use tokio_util::codec::Decoder;

use crate::command::test_mode::fault::inject;
use crate::command::test_mode::{Fault, ReceivedCall, TestMode, test_mode_of};
use crate::dispatch::Handlers;
use crate::dispatch::introspection::read;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::net::server::Server;
use crate::resp::{Frame, FrameDecoder};

/// Refusal of a request by the server: the line that a client would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError(String);

impl CommandError {
    /// Returns the first word, such as `WRONGTYPE`.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        CommandError(String::from_utf8_lossy(&error.wire_text()).into_owned())
    }
}

/// A call that the server has received, see [`Server::command_log`]. Its `Display` is the arguments, separated by
/// blanks.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedCall {
    /// Time of the call, in milliseconds since 1970 by the server's clock.
    pub unix_ms: i64,
    /// The client's id, as `CLIENT ID` replies it.
    pub client_id: u64,
    /// The name that the client has given itself.
    pub client_name: String,
    /// The command's name as it was sent, and the arguments; passwords are redacted.
    pub args: Vec<Vec<u8>>,
    /// The kind of the fault that was injected into the call, such as `LOSEREPLY`.
    pub fault: Option<&'static str>,
}

impl LoggedCall {
    /// Returns the command's name in upper case.
    pub fn name(&self) -> String {
        self.args.first().map_or_else(String::new, |name| String::from_utf8_lossy(name).to_ascii_uppercase())
    }
}

/// Shows the arguments as text.
impl fmt::Debug for LoggedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoggedCall { unix_ms, client_id, client_name, args, fault } = self;
        let args: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        f.debug_struct("LoggedCall")
            .field("unix_ms", unix_ms)
            .field("client_id", client_id)
            .field("client_name", client_name)
            .field("args", &args)
            .field("fault", fault)
            .finish()
    }
}

impl fmt::Display for LoggedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<_> = self.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        f.write_str(&args.join(" "))
    }
}

impl From<&ReceivedCall> for LoggedCall {
    fn from(call: &ReceivedCall) -> Self {
        LoggedCall {
            unix_ms: call.unix_ms,
            client_id: call.client_id,
            client_name: call.client_name.clone(),
            args: call.args.iter().map(|arg| arg.to_vec()).collect(),
            fault: call.fault,
        }
    }
}

/// Direct access to keys, in database 0. Such an access is no use of a key, counts in no statistics and is not in the
/// log of commands.
impl Server {
    /// Returns the value of a string; `None` if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` for a key of another type, `BUSY` while a script has been running for too long.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, CommandError> {
        self.inspection().get(key.as_ref())
    }

    /// Returns the TTL of a key of any type; `None` if it has none, or does not exist.
    ///
    /// # Errors
    /// `BUSY` while a script has been running for too long.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>, CommandError> {
        self.inspection().ttl(key.as_ref())
    }

    /// Returns the keys that match a pattern, such as `user:*`, in alphabetical order.
    ///
    /// # Errors
    /// `BUSY` while a script has been running for too long.
    pub fn keys(&self, pattern: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, CommandError> {
        self.inspection().keys(pattern.as_ref())
    }

    fn inspection(&self) -> Inspection<'_> {
        Inspection { namespace: self.namespace(), handlers: self.handlers() }
    }
}

/// Direct access to the keys of a namespace, in database 0.
pub(crate) struct Inspection<'n> {
    pub(crate) namespace: &'n Namespace,
    pub(crate) handlers: &'static Handlers,
}

impl Inspection<'_> {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        match self.read(&[b"GET", key])? {
            Frame::Bulk(value) => Ok(Some(value.into())),
            _ => Ok(None),
        }
    }

    pub(crate) fn ttl(&self, key: &[u8]) -> Result<Option<Duration>, CommandError> {
        match self.read(&[b"PTTL", key])? {
            Frame::Integer(ms) => Ok(u64::try_from(ms).ok().map(Duration::from_millis)),
            _ => Ok(None),
        }
    }

    pub(crate) fn keys(&self, pattern: &[u8]) -> Result<Vec<Vec<u8>>, CommandError> {
        let Frame::Array(keys) = self.read(&[b"KEYS", pattern])? else { return Ok(Vec::new()) };
        let mut keys: Vec<Vec<u8>> = keys.iter().filter_map(Frame::as_bytes).map(<[u8]>::to_vec).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    fn read(&self, args: &[&[u8]]) -> Result<Frame, CommandError> {
        let mut reply = read(self.namespace, self.handlers, args)?;
        let frame = FrameDecoder::new().decode(&mut reply).ok().flatten();
        frame.ok_or_else(|| Error::other("the reply cannot be read").into())
    }
}

/// Features of test mode: faults, and the log of commands.
impl Server {
    /// Injects a fault; returns its id, for [`Server::remove_fault`]. Faults are tried in the order in which they were
    /// injected, by this method or by `TEST.FAULT ADD`: the first that fires wins.
    ///
    /// # Errors
    /// If the server is not in test mode ([`Builder::test_mode`](crate::Builder::test_mode)), there is no such command,
    /// or the fault has no effect or one that is out of range.
    pub fn inject(&self, fault: Fault) -> Result<i64, CommandError> {
        let id = inject(self.namespace(), fault)?;
        self.namespace().store.pass_barrier();
        Ok(id)
    }

    /// Removes a fault by its id; returns whether there was one.
    pub fn remove_fault(&self, id: i64) -> bool {
        let is_removed = self.test_mode().is_ok_and(|test_mode| test_mode.faults.lock().remove(id));
        self.namespace().store.pass_barrier();
        is_removed
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        if let Ok(test_mode) = self.test_mode() {
            test_mode.faults.lock().clear();
        }
        self.namespace().store.pass_barrier();
    }

    /// Returns the calls received from clients, oldest first: the last 10,000 (`test-calls-max`) since the start or
    /// [`Server::clear_command_log`]. Included are refused calls, calls with an injected fault, and the calls of a
    /// client library when it connects, such as `HELLO` and `CLIENT SETINFO`; the calls of scripts and `TEST.*` are
    /// not.
    ///
    /// # Errors
    /// If the server is not in test mode ([`Builder::test_mode`](crate::Builder::test_mode)), in which alone calls are
    /// recorded.
    pub fn command_log(&self) -> Result<Vec<LoggedCall>, CommandError> {
        let calls = self.test_mode()?.calls.lock().latest(usize::MAX, None);
        Ok(calls.iter().map(|call| LoggedCall::from(&**call)).collect())
    }

    /// Forgets the calls received so far.
    pub fn clear_command_log(&self) {
        if let Ok(test_mode) = self.test_mode() {
            test_mode.calls.lock().clear();
        }
    }

    fn test_mode(&self) -> Result<&TestMode, CommandError> {
        Ok(test_mode_of(self.namespace())?)
    }
}
