//! Journal of received calls: the latest ones, limited by number and size.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::spec::CommandSpec;

/// Maximum size of the arguments of all kept calls together, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Call as it was received.
pub(crate) struct ReceivedCall {
    /// Time when it was executed or refused, in milliseconds since 1970 by the clock of the namespace.
    pub(crate) unix_ms: i64,
    pub(crate) client_id: u64,
    pub(crate) client_name: String,
    /// Command; `None` for an unknown one.
    pub(crate) command: Option<&'static CommandSpec>,
    /// Arguments with secrets redacted.
    pub(crate) args: Vec<Box<[u8]>>,
    /// Kind of the injected fault, if any.
    pub(crate) fault: Option<&'static str>,
    /// True if it was refused before faults were tried.
    pub(crate) is_refused: bool,
    /// The keys among its arguments that existed, and whether each had a TTL.
    pub(crate) keys: Vec<(Box<[u8]>, bool)>,
    /// The end of the log of changes when it arrived.
    pub(crate) offset: u64,
}

impl ReceivedCall {
    fn bytes(&self) -> usize {
        self.args.iter().chain(self.keys.iter().map(|(key, _)| key)).map(|text| text.len()).sum()
    }
}

/// Received calls, oldest first.
#[derive(Default)]
pub(crate) struct CallJournal {
    calls: VecDeque<Arc<ReceivedCall>>,
    bytes: usize,
}

impl CallJournal {
    /// Adds a call, and drops the oldest calls beyond `max_count` and the size limit.
    pub(crate) fn push(&mut self, call: ReceivedCall, max_count: usize) {
        self.bytes += call.bytes();
        self.calls.push_back(Arc::new(call));
        while self.calls.len() > max_count || self.bytes > BYTES_MAX {
            let Some(oldest) = self.calls.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = CallJournal::default();
    }

    /// Returns the latest `max_count` calls of a command, or of all, oldest first.
    pub(crate) fn latest(&self, max_count: usize, command: Option<&CommandSpec>) -> Vec<Arc<ReceivedCall>> {
        let is_asked_for = |call: &&Arc<ReceivedCall>| match command {
            Some(wanted) => call.command.is_some_and(|command| wanted.covers(command)),
            None => true,
        };
        let mut found: Vec<_> = self.calls.iter().rev().filter(is_asked_for).take(max_count).cloned().collect();
        found.reverse();
        found
    }
}
