//! Replays a log: its commands make the same changes as when it was written.
//!
//! The gate is not consulted, and no key expires or is evicted: the log contains such deletions.

use bytes::BytesMut;
use tokio_util::codec::Decoder;

use crate::client::caller::Caller;
use crate::dispatch::call::nested;
use crate::dispatch::plan::find;
use crate::dispatch::{Handlers, effects};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Codec, Limits, Output, OwnedRequest, Request};
use crate::spec::{Names, Renames};
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
pub(crate) fn replay(
    namespace: &Namespace,
    handlers: &'static Handlers,
    mut log: BytesMut,
) -> Result<Replayed, ReplayError> {
    let config = namespace.instance.settings.current();
    let info = namespace.instance.clients.unlisted(namespace.clock.now());
    let timer = CallTimer::new(&namespace.observed.command_stats, &namespace.clock, info.id);
    let (mut caller, renames) = (Caller::new(info, &namespace.instance.acl), Renames::default());
    let cx = Cx::new(namespace.clock.now(), Origin::Replay);
    let mut codec = Codec::new(Limits { bulk_len_max: isize::MAX as usize, authenticated: true });
    let (mut replayed, mut queue) = (Replayed { commands: 0, failed: 0 }, None);
    let mut guard = namespace.store.exclusive();
    let mut view = guard.view(0, cx);
    let mut execute = |request: Request<'_>, caller: &mut Caller| {
        // The log contains the declared names, even of renamed commands.
        let command =
            find(request, Names::new(namespace.commands, &renames)).filter(|command| command.accepts(request.len()));
        let command = command.ok_or_else(|| ReplayError::Unknown(request.name().to_vec()))?;
        let mut out = Output::new();
        nested(&mut view, (caller, None), (namespace, handlers, &config, &timer), command, request, &mut out);
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
                effects::append(namespace, &mut caller);
            } else if let Some(queue) = &mut queue {
                queue.push(request.to_owned());
            } else {
                execute(request, &mut caller)?;
                effects::append(namespace, &mut caller);
            }
        }
    }
    if queue.is_none() && log.is_empty() { Ok(replayed) } else { Err(ReplayError::Truncated) }
}
