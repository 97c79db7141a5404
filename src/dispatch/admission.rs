//! A call that is to be admitted: what the checks look at.

use crate::client::caller::Caller;
use crate::client::session::Session;
use crate::config::Config;
use crate::dispatch::declared::{routed_keys_of, slot_of_request};
use crate::error::{Denial, Error};
use crate::namespace::Namespace;
use crate::resp::Request;
use crate::spec::marks::EXECUTES_QUEUE;
use crate::spec::{CommandSpec, Flags};
use crate::test_mode::FaultKind;
use crate::time::clock::Now;
use crate::topology::{Slot, SlotsDiffer};

/// Call to be checked.
pub(crate) struct Admission<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) config: &'a Config,
    pub(crate) caller: &'a Caller,
    /// `None` for a caller without a connection.
    pub(crate) session: Option<&'a Session>,
    pub(crate) command: &'static CommandSpec,
    pub(crate) request: Request<'a>,
    pub(crate) now: Now,
    /// Limits of the calling script, if a script calls.
    pub(crate) script: Option<ScriptLimits>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptLimits {
    /// True if the script must not write: it was called by EVAL_RO or similar, or declares `no-writes`.
    pub(crate) is_read_only: bool,
    /// True if memory was over the limit when the script began, and the script has not written yet.
    pub(crate) lacks_memory: bool,
    /// True if its calls may have keys in different slots, each call in one.
    pub(crate) crosses_slots: bool,
    /// The number of keys of the present call are at this node of a topology, and the number of those that are not.
    pub(crate) presence: (usize, usize),
    /// True if it may access keys that its call has not named, where a profile refuses that.
    pub(crate) takes_any_key: bool,
    /// Position of the first key of the present call that the call of the script has not named, where that matters.
    pub(crate) undeclared: Option<usize>,
}

/// Reason for which a call is not admitted.
pub(crate) enum Obstacle {
    /// The call is rejected; a missing permission, if that is the reason, goes to the ACL log.
    Refused(Error, Option<Denial>),
    /// The call has to wait until CLIENT PAUSE is over.
    Paused,
    /// A fault is injected into the call or its reply.
    Injected(FaultKind),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Obstacle::Refused(error, None)
    }
}

impl Admission<'_> {
    pub(super) fn has(&self, flags: Flags) -> bool {
        self.command.flags & flags != 0
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.session.is_some_and(|session| session.transaction.is_some())
    }

    /// Returns whether a test holds for a command that the call executes: for EXEC one of the queued commands,
    /// otherwise its own.
    pub(super) fn executes(&self, test: impl Fn(&'static CommandSpec, Request<'_>) -> bool) -> bool {
        match self.session.and_then(|session| session.transaction.as_ref()) {
            Some(transaction) if self.command.is(EXECUTES_QUEUE) => {
                transaction.queue.iter().any(|(queued, request)| test(queued, request.as_request()))
            }
            _ => test(self.command, self.request),
        }
    }
}

impl<'a> Admission<'a> {
    /// Returns the keys and channels of shards of a call, for EXEC those of its queue.
    pub(super) fn routed_keys(&self) -> Vec<&'a [u8]> {
        match self.session.and_then(|session| session.transaction.as_ref()) {
            Some(transaction) if self.command.is(EXECUTES_QUEUE) => {
                let queued = transaction.queue.iter();
                queued.flat_map(|(command, request)| routed_keys_of(command, request.as_request())).collect()
            }
            _ => routed_keys_of(self.command, self.request).collect(),
        }
    }

    /// Returns the slot of the keys of a call, for EXEC those of its queue.
    pub(super) fn slot(&self) -> Result<Option<Slot>, SlotsDiffer> {
        match self.session.and_then(|session| session.transaction.as_ref()) {
            Some(transaction) if self.command.is(EXECUTES_QUEUE) => {
                let queued = transaction.queue.iter();
                let mut slots = queued.map(|(command, request)| slot_of_request(command, request.as_request()));
                slots.try_fold(None, |first, slot| match (first, slot?) {
                    (Some(first), Some(slot)) if first != slot => Err(SlotsDiffer),
                    (first, slot) => Ok(first.or(slot)),
                })
            }
            _ => slot_of_request(self.command, self.request),
        }
    }
}

/// Returns whether a request may write, by the declaration of the script that it runs, or by the command's flags.
#[cold]
pub(super) fn declares_writes(
    namespace: &Namespace,
    command: &'static CommandSpec,
    request: Request<'_>,
    flags: Flags,
) -> bool {
    #[cfg(feature = "lua")]
    if let Some(declared) = namespace.scripts.declared_flags(command, request, namespace.store.busy_flag()) {
        return declared & crate::script::NO_WRITES == 0;
    }
    let _ = (namespace, request);
    command.flags & flags != 0
}
