//! Replays a log: its commands make the same changes as when it was written.
//!
//! The gate is not consulted, and no key expires or is evicted: the log contains such deletions.

use bytes::BytesMut;
use tokio_util::codec::Decoder;

use crate::client::caller::Caller;
use crate::dispatch::Env;
use crate::dispatch::call::Mode;
use crate::dispatch::nested::nested;
use crate::dispatch::plan::find;
#[cfg(feature = "internals")]
use crate::dispatch::{Handlers, effects};
use crate::namespace::Namespace;
use crate::resp::{Codec, Limits, Output, OwnedRequest, Request};
use crate::spec::{Names, Renames};
use crate::store::View;
#[cfg(feature = "internals")]
use crate::store::{Cx, Origin};

/// Why a log cannot be replayed further; the commands before the error were executed.
#[derive(Debug)]
pub enum ReplayError {
    /// It is not a sequence of requests.
    Format,
    /// There is no command of this name.
    Unknown(Vec<u8>),
    /// It ends in the middle of a request or of a transaction, of which nothing was executed.
    Truncated,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Format => f.write_str("the log is damaged"),
            ReplayError::Unknown(name) => write!(f, "Unknown command '{}'", name.escape_ascii()),
            ReplayError::Truncated => f.write_str("the log is cut short"),
        }
    }
}

/// The result of a replay.
#[derive(Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many commands were executed.
    pub commands: usize,
    /// How many of them replied with an error, as they did when they were logged after a change.
    pub failed: usize,
}

/// Executes the commands of a log, without other clients in between.
///
/// # Errors
/// Why it could not be executed to its end.
#[cfg(feature = "internals")]
pub(crate) fn replay(
    namespace: &Namespace,
    handlers: &'static Handlers,
    log: BytesMut,
) -> Result<Replayed, ReplayError> {
    let cx = Cx::new(namespace.clock.now(), Origin::Replay);
    let mut guard = namespace.store.exclusive();
    let append = |caller: &mut Caller| effects::append(namespace, caller, cx.now, None);
    Env::with_present(namespace, handlers, 0, |env| replay_in(env, &mut guard.view(0, cx), log, append))
}

/// Executes the commands of a log in a view of the whole store; `end` is called with the caller after each write.
///
/// # Errors
/// Why it could not be executed to its end.
pub(super) fn replay_in(
    env: Env<'_>,
    view: &mut View<'_>,
    mut log: BytesMut,
    end: impl Fn(&mut Caller),
) -> Result<Replayed, ReplayError> {
    let mut replay = Replay::new(env.namespace);
    replay.go_on(env, view, &mut log, end)?;
    if replay.is_between_writes() && log.is_empty() { Ok(replay.replayed) } else { Err(ReplayError::Truncated) }
}

/// The replay of a log that is read piece by piece.
pub(crate) struct Replay {
    caller: Caller,
    codec: Codec,
    /// The commands since MULTI, if EXEC was not read yet.
    queue: Option<Vec<OwnedRequest>>,
    /// What was executed.
    pub(crate) replayed: Replayed,
    /// How many bytes the complete commands take, and those that were executed.
    read: u64,
    executed: u64,
}

impl Replay {
    /// Begins at the start of a log.
    pub(crate) fn new(namespace: &Namespace) -> Self {
        let info = namespace.clients.unlisted(namespace.clock.now());
        Replay {
            caller: Caller::new(info, &namespace.acl),
            codec: Codec::new(Limits { bulk_len_max: isize::MAX as usize, authenticated: true }),
            queue: None,
            replayed: Replayed { commands: 0, failed: 0 },
            read: 0,
            executed: 0,
        }
    }

    /// Returns whether nothing waits for an EXEC.
    pub(crate) fn is_between_writes(&self) -> bool {
        self.queue.is_none()
    }

    /// Returns how many bytes the commands take that were executed, if they are written as servers write them. What follows
    /// is the beginning of a command or of a transaction.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    /// Executes the complete commands at the start of `log`, and leaves what follows; `end` is called with the caller after
    /// each write.
    ///
    /// # Errors
    /// Why they cannot be executed.
    pub(crate) fn go_on(
        &mut self,
        env: Env<'_>,
        view: &mut View<'_>,
        log: &mut BytesMut,
        end: impl Fn(&mut Caller),
    ) -> Result<(), ReplayError> {
        while let Some(batch) = self.codec.decode(log).map_err(|_| ReplayError::Format)? {
            for request in batch.iter() {
                self.read += wire_len(request);
                if request.name().eq_ignore_ascii_case(b"MULTI") {
                    if self.queue.replace(Vec::new()).is_some() {
                        return Err(ReplayError::Format);
                    }
                    continue;
                }
                if request.name().eq_ignore_ascii_case(b"EXEC") {
                    let queued = self.queue.take().ok_or(ReplayError::Format)?;
                    queued.iter().try_for_each(|request| self.execute(env, view, request.as_request()))?;
                } else if let Some(queue) = &mut self.queue {
                    queue.push(request.to_owned());
                    continue;
                } else {
                    self.execute(env, view, request)?;
                }
                end(&mut self.caller);
                self.executed = self.read;
            }
        }
        Ok(())
    }

    fn execute(&mut self, env: Env<'_>, view: &mut View<'_>, request: Request<'_>) -> Result<(), ReplayError> {
        // The log contains the declared names, even of renamed commands.
        let renames = Renames::default();
        let command = find(request, Names::new(env.namespace.commands, &renames));
        let command = command.filter(|command| command.accepts(request.len()));
        let command = command.ok_or_else(|| ReplayError::Unknown(request.name().to_vec()))?;
        let mut out = Output::new();
        nested(env, &mut self.caller, view, (command, request), Mode::Replay, &mut out);
        self.replayed.commands += 1;
        self.replayed.failed += usize::from(out.as_slice().is_some_and(|reply| reply.starts_with(b"-")));
        Ok(())
    }
}

/// Returns how many bytes a request takes as an array of bulk strings.
fn wire_len(request: Request<'_>) -> u64 {
    let number = |number: usize| itoa::Buffer::new().format(number).len() + 3; // its kind, and the end of the line
    let args = request.args().map(|arg| number(arg.len()) + arg.len() + 2);
    (number(request.len()) + args.sum::<usize>()) as u64
}
