//! Replay of a log: its commands make the same changes as when it was written.
//!
//! The gate is not consulted, and no key expires or is evicted: the log contains such deletions.

use std::sync::atomic::Ordering::Relaxed;

use bytes::BytesMut;
use tracing::warn;

use crate::client::caller::Caller;
use crate::client::info::Peer;
use crate::dispatch::Env;
use crate::dispatch::call::CallMode;
use crate::dispatch::nested::nested;
use crate::dispatch::plan::find;
#[cfg(feature = "internals")]
use crate::dispatch::{Handlers, effects};
use crate::namespace::Namespace;
use crate::resp::{Batch, Codec, Output, OwnedRequest, Request, RequestLimits};
use crate::spec::marks::{EXECUTES_QUEUE, HEALTH_CHECK, OF_LINK, OPENS_QUEUE, PUBLISHES, SELECTS_DB};
use crate::spec::{CommandSpec, Marks, Names, Renames};
use crate::store::value::{Set, SetRules};
#[cfg(feature = "internals")]
use crate::store::{Cx, Origin};
use crate::store::{Event, Producers, SideRecord, Stream, View};
use crate::types::set_deadlines;

/// Maximum length of a logged error, in characters.
const ERROR_SHOWN_MAX: usize = 4096;

/// Reason for which a log cannot be replayed further; the commands before it were executed.
#[derive(Debug)]
pub enum ReplayError {
    /// The log is not a sequence of requests.
    Format,
    /// No command has this name.
    Unknown(Vec<u8>),
    /// The log selects a database that does not exist.
    NoDatabase,
    /// The log ends in the middle of a request or of a transaction, of which nothing was executed.
    Truncated,
    /// A request is not in the form that servers write: it is inline, or has leading zeros. Its length, and so every
    /// later offset, would differ from the primary's.
    NotCanonical,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Format => f.write_str("the log is damaged"),
            ReplayError::Unknown(name) => write!(f, "Unknown command '{}'", name.escape_ascii()),
            ReplayError::NoDatabase => f.write_str("it selects a database that the setting 'databases' does not give"),
            ReplayError::Truncated => f.write_str("the log is cut short"),
            ReplayError::NotCanonical => f.write_str("it is not written as servers write it"),
        }
    }
}

/// Result of a replay.
#[derive(Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Number of executed commands.
    pub commands: usize,
    /// Number of them that replied with an error, as they did when they were logged after a change.
    pub failed: usize,
}

/// Executes the commands of a log, without other clients in between.
///
/// # Errors
/// The reason for which the log could not be executed to its end.
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
/// The reason for which the log could not be executed to its end.
pub(super) fn replay_in(
    env: Env<'_>,
    view: &mut View<'_>,
    mut log: BytesMut,
    end: impl Fn(&mut Caller),
) -> Result<Replayed, ReplayError> {
    let mut replay = Replay::new(env.namespace);
    replay.go_on(env, view, &mut log, |repeated| end(repeated.caller))?;
    if replay.is_between_writes() && log.is_empty() { Ok(replay.replayed) } else { Err(ReplayError::Truncated) }
}

/// Replay of a log that is read piece by piece.
pub(crate) struct Replay {
    caller: Caller,
    codec: Codec,
    /// True if a primary sends the log.
    is_of_primary: bool,
    /// Commands since MULTI, until EXEC is read.
    queue: Option<Vec<(Option<&'static CommandSpec>, OwnedRequest)>>,
    /// Count of the executed commands.
    pub(crate) replayed: Replayed,
    /// True if the primary has asked for the replica's offset (REPLCONF GETACK) since the last answer.
    pub(crate) is_asked: bool,
    /// Bytes of the complete commands read, and of the commands executed.
    read: u64,
    executed: u64,
}

/// Replayed write: a command, or a transaction.
pub(crate) struct ReplayedWrite<'a> {
    pub(crate) caller: &'a mut Caller,
    /// Number of bytes of the log executed so far, with this write.
    pub(crate) executed: u64,
    /// True if the record is for replicas only, and changes nothing.
    pub(crate) is_aside: bool,
}

impl Replay {
    /// Starts at the beginning of a log.
    pub(crate) fn new(namespace: &Namespace) -> Self {
        let info = namespace.clients.unlisted(namespace.clock.now());
        Replay {
            caller: Caller::new(info, &namespace.acl),
            codec: Codec::new(RequestLimits { bulk_len_max: isize::MAX as usize, authenticated: true }),
            is_of_primary: false,
            queue: None,
            replayed: Replayed { commands: 0, failed: 0 },
            is_asked: false,
            read: 0,
            executed: 0,
        }
    }

    /// Starts in the middle of the log of a primary at an address, with a selected database. The address decides the
    /// commands that only local clients may call. An unknown command fails without ending the replay, as the primary
    /// may be of a later version.
    pub(crate) fn of_primary(namespace: &Namespace, primary: Peer, db: usize) -> Self {
        let mut replay = Replay::new(namespace);
        replay.caller = Caller::new(namespace.clients.visitor(primary, namespace.clock.now()), &namespace.acl);
        (replay.is_of_primary, replay.caller.db) = (true, db);
        replay
    }

    /// Returns whether the replay is outside of a transaction.
    pub(crate) fn is_between_writes(&self) -> bool {
        self.queue.is_none()
    }

    /// Returns the number of bytes of the executed commands, in the form that servers write them. The beginning of a
    /// command or transaction may follow.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    /// Returns the selected database.
    pub(crate) fn db(&self) -> usize {
        self.caller.db
    }

    /// Returns the number of received bytes that are not decoded; `log` is the part of them outside of the decoder.
    fn undecoded_len(&self, log: &BytesMut) -> usize {
        log.len() + self.codec.requests.separate_len()
    }

    /// Executes the complete commands at the start of `log`, and leaves the rest; `end` is called after each write.
    ///
    /// # Errors
    /// The reason for which they cannot be executed.
    pub(crate) fn go_on(
        &mut self,
        env: Env<'_>,
        view: &mut View<'_>,
        log: &mut BytesMut,
        mut end: impl FnMut(ReplayedWrite<'_>),
    ) -> Result<(), ReplayError> {
        let mut batch = Batch::default();
        loop {
            let before = self.undecoded_len(log);
            let has_any = self.codec.requests.decode_into(log, &mut batch).map_err(|_| ReplayError::Format)?;
            let decoded = before.abs_diff(self.undecoded_len(log)) as u64;
            // Checked before anything is executed: the own log has the same bytes, request by request.
            if self.is_of_primary && decoded != batch.iter().map(wire_len).sum::<u64>() {
                return Err(ReplayError::NotCanonical);
            }
            if !has_any {
                return Ok(());
            }
            for request in batch.iter() {
                self.read += wire_len(request);
                let is_aside = match self.take(env, view, request)? {
                    Taken::Queued => continue,
                    Taken::Executed => false,
                    Taken::Aside => true,
                };
                self.executed = self.read;
                end(ReplayedWrite { caller: &mut self.caller, executed: self.executed, is_aside });
            }
            batch.recycle(log);
        }
    }

    /// Executes a command, or queues it until the EXEC of its transaction.
    fn take(&mut self, env: Env<'_>, view: &mut View<'_>, request: Request<'_>) -> Result<Taken, ReplayError> {
        let command = find_in_log(env, request);
        let is = |marks: Marks| command.is_some_and(|command| command.is(marks));
        if is(OPENS_QUEUE) {
            return match self.queue.replace(Vec::new()) {
                None => Ok(Taken::Queued),
                Some(_) => Err(ReplayError::Format),
            };
        }
        if is(EXECUTES_QUEUE) {
            let queued = self.queue.take().ok_or(ReplayError::Format)?;
            let unknown = queued.iter().find(|(command, _)| command.is_none());
            if let Some((_, unknown)) = unknown.filter(|_| self.is_of_primary) {
                let passed = self.pass_unknown(env.namespace, unknown.as_request());
                self.discard(env, view, &queued)?;
                return passed;
            }
            for (command, request) in &queued {
                self.execute(env, view, (*command, request.as_request()))?;
            }
        } else if let Some(queue) = &mut self.queue {
            queue.push((command, request.to_owned()));
            return Ok(Taken::Queued);
        } else if self.is_of_primary && is(OF_LINK) {
            if request.len() == 2 && is(HEALTH_CHECK) {
                if self.adopt_record(env, view, request.arg(1)) {
                    return Ok(Taken::Executed);
                }
                env.namespace.hear_of_fences(request.arg(1));
            }
            self.is_asked |= request.len() > 1 && request.arg(1).eq_ignore_ascii_case(b"GETACK");
            return Ok(Taken::Aside);
        } else {
            let taken = self.execute(env, view, (command, request))?;
            return Ok(if self.is_of_primary && is(PUBLISHES) { Taken::Aside } else { taken });
        }
        Ok(Taken::Executed)
    }

    /// Executes a command, unless it is unknown.
    fn execute(
        &mut self,
        env: Env<'_>,
        view: &mut View<'_>,
        (command, request): (Option<&'static CommandSpec>, Request<'_>),
    ) -> Result<Taken, ReplayError> {
        let Some(command) = command else { return self.pass_unknown(env.namespace, request) };
        if request.len() == 2 && command.is(HEALTH_CHECK) && self.adopt_record(env, view, request.arg(1)) {
            self.replayed.commands += 1;
            return Ok(Taken::Executed);
        }
        let mut out = Output::new();
        nested(env, &mut self.caller, view, (command, request), CallMode::Replay, &mut out);
        let has_failed = out.as_slice().is_some_and(|reply| reply.starts_with(b"-"));
        self.replayed.commands += 1;
        self.replayed.failed += usize::from(has_failed);
        if has_failed && self.is_of_primary {
            let reply = out.as_slice().unwrap_or_default();
            let error = String::from_utf8_lossy(reply.get(1..).unwrap_or_default());
            self.report_divergence(env.namespace, error.trim_end(), &command.name);
        }
        if has_failed && command.is(SELECTS_DB) {
            return Err(ReplayError::NoDatabase); // the next commands would write to another database
        }
        Ok(Taken::Executed)
    }

    /// Adopts the lock, fence, producers or deadlines recorded in the argument of a PING; returns false if the argument is
    /// no such record.
    fn adopt_record(&self, env: Env<'_>, view: &mut View<'_>, word: &[u8]) -> bool {
        let (db, namespace) = (self.caller.db, env.namespace);
        match SideRecord::of_word(word) {
            Some(SideRecord::Fence { key, fence }) => {
                view.in_db(db, |view| view.locks().set_fence(namespace.store.key(key), fence));
            }
            Some(SideRecord::Lock { key, text }) => namespace.adopt_lock((db, namespace.store.key(key)), text, view),
            Some(SideRecord::Producers { key, text }) => view.in_db(db, |view| {
                if let Ok(mut edit) = view.edit::<Stream>(namespace.store.key(key), Event::NONE)
                    && let Some(stream) = edit.annotate()
                {
                    Producers::adopt(stream.producers_mut(), text);
                }
            }),
            Some(SideRecord::Members { key, text }) => view.in_db(db, |view| {
                if let Ok(mut edit) = view.edit::<Set>(namespace.store.key(key), Event::NONE)
                    && let Some(mut set) = edit.annotate()
                {
                    let limits = namespace.settings.current().limits();
                    set_deadlines::adopt_logged(&mut set, text, SetRules::new(limits, namespace.store.hasher()));
                }
            }),
            None => return false,
        }
        true
    }

    /// Skips a transaction with an unknown command, as Redis does. The database that it selects applies to the commands
    /// after it, though; the append-only file does not record that, and is rewritten.
    #[cold]
    fn discard(
        &mut self,
        env: Env<'_>,
        view: &mut View<'_>,
        queued: &[(Option<&'static CommandSpec>, OwnedRequest)],
    ) -> Result<(), ReplayError> {
        let db = self.caller.db;
        for (command, request) in queued {
            if command.is_some_and(|command| command.is(SELECTS_DB)) {
                self.execute(env, view, (*command, request.as_request()))?;
            }
        }
        if self.caller.db != db {
            env.namespace.persistence.rewrite_log();
        }
        Ok(())
    }

    /// Skips an unknown command: it changes nothing, and in the append-only file it would prevent a start.
    #[cold]
    fn pass_unknown(&mut self, namespace: &Namespace, request: Request<'_>) -> Result<Taken, ReplayError> {
        self.replayed.failed += 1;
        if !self.is_of_primary {
            return Err(ReplayError::Unknown(request.name().to_vec()));
        }
        self.report_divergence(
            namespace,
            &format!("ERR unknown command '{}'", request.name().escape_ascii()),
            "<unknown>",
        );
        Ok(Taken::Aside)
    }

    /// Reports that a command of the primary has failed, so that the data may differ from the primary's.
    #[cold]
    fn report_divergence(&self, namespace: &Namespace, error: &str, command: &str) {
        namespace.observed.stats.replication_errors.fetch_add(1, Relaxed);
        let error: String = error.chars().take(ERROR_SHOWN_MAX).collect();
        warn!(
            "== CRITICAL == This replica is sending an error to its master: '{error}' after processing the command \
             '{command}'"
        );
    }
}

/// Returns the command that a request names, if it exists and accepts the number of arguments.
fn find_in_log(env: Env<'_>, request: Request<'_>) -> Option<&'static CommandSpec> {
    // The log contains the declared names, even of renamed commands.
    let renames = Renames::default();
    let command = find(request, Names::new(env.namespace.commands, &renames));
    command.filter(|command| command.accepts(request.len()))
}

/// Result of reading a command.
enum Taken {
    /// The command is queued until EXEC.
    Queued,
    Executed,
    /// The command is for replicas only.
    Aside,
}

/// Returns the length of a request as an array of bulk strings, in bytes.
fn wire_len(request: Request<'_>) -> u64 {
    let number = |number: usize| itoa::Buffer::new().format(number).len() + 3; // with the type byte and CRLF
    let args = request.args().map(|arg| number(arg.len()) + arg.len() + 2);
    (number(request.len()) + args.sum::<usize>()) as u64
}
