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
#[cfg(feature = "internals")]
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
            ReplayError::Unknown(name) => write!(f, "the log has the unknown command {}", name.escape_ascii()),
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
#[cfg(feature = "internals")] // until there is a file or a primary to read a log from
pub(crate) fn replay(
    namespace: &Namespace,
    handlers: &'static Handlers,
    log: BytesMut,
) -> Result<Replayed, ReplayError> {
    let cx = Cx::new(namespace.clock.now(), Origin::Replay);
    let mut guard = namespace.store.exclusive();
    let append = |caller: &mut Caller| effects::append(namespace, caller, cx.now);
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
    let namespace = env.namespace;
    let info = namespace.clients.unlisted(namespace.clock.now());
    let (mut caller, renames) = (Caller::new(info, &namespace.acl), Renames::default());
    let mut codec = Codec::new(Limits { bulk_len_max: isize::MAX as usize, authenticated: true });
    let (mut replayed, mut queue) = (Replayed { commands: 0, failed: 0 }, None);
    let mut execute = |request: Request<'_>, caller: &mut Caller| {
        // The log contains the declared names, even of renamed commands.
        let command =
            find(request, Names::new(namespace.commands, &renames)).filter(|command| command.accepts(request.len()));
        let command = command.ok_or_else(|| ReplayError::Unknown(request.name().to_vec()))?;
        let mut out = Output::new();
        nested(env, caller, view, (command, request), Mode::Replay, &mut out);
        replayed.commands += 1;
        replayed.failed += usize::from(out.as_slice().is_some_and(|reply| reply.starts_with(b"-")));
        Ok::<_, ReplayError>(())
    };
    while let Some(batch) = codec.decode(&mut log).map_err(|_| ReplayError::Format)? {
        for request in batch.iter() {
            if request.name().eq_ignore_ascii_case(b"MULTI") {
                if queue.replace(Vec::new()).is_some() {
                    return Err(ReplayError::Format);
                }
            } else if request.name().eq_ignore_ascii_case(b"EXEC") {
                let queued: Vec<OwnedRequest> = queue.take().ok_or(ReplayError::Format)?;
                queued.iter().try_for_each(|request| execute(request.as_request(), &mut caller))?;
                end(&mut caller);
            } else if let Some(queue) = &mut queue {
                queue.push(request.to_owned());
            } else {
                execute(request, &mut caller)?;
                end(&mut caller);
            }
        }
    }
    if queue.is_none() && log.is_empty() { Ok(replayed) } else { Err(ReplayError::Truncated) }
}
