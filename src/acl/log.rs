//! The ACL log: denied calls, newest first; repeated denials are counted instead of listed again.

use std::collections::VecDeque;

/// The time within which a repeated denial is counted with the previous one, in milliseconds.
const SAME_MS: i64 = 60_000;
/// Length to which a key, channel or name is cut: a client whose every call is denied must not fill the memory.
const TEXT_MAX: usize = 64 * 1024;
/// The number of newest entries that are searched for the same denial.
const LOOKED_AT: usize = 10;

/// The reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// The command is not allowed.
    Command,
    /// A key is not allowed.
    Key,
    /// A channel is not allowed.
    Channel,
    /// User name or password were wrong.
    Auth,
}

impl DenialReason {
    /// Returns the name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            DenialReason::Command => "command",
            DenialReason::Key => "key",
            DenialReason::Channel => "channel",
            DenialReason::Auth => "auth",
        }
    }
}

/// The place from which a denied command was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Directly by the client.
    TopLevel,
    /// A transaction.
    Multi,
    /// A script.
    Lua,
}

impl Context {
    /// Returns the name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// One denial.
#[derive(Clone, Debug)]
pub struct DenialEntry {
    /// The number of the entry, from 0 up never reused; assigned by the log.
    pub id: u64,
    /// The number of occurrences.
    pub count: u64,
    /// The reason.
    pub reason: DenialReason,
    /// The place from which the command was called.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// The first time, in milliseconds since 1970.
    pub created_ms: i64,
    /// The last time, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The client's line of CLIENT LIST at that time.
    pub client: String,
}

impl DenialEntry {
    /// Creates the entry of a first denial.
    pub fn new(
        (reason, context): (DenialReason, Context),
        object: &[u8],
        user: &[u8],
        wall_ms: i64,
        client: String,
    ) -> Self {
        let kept = |text: &[u8]| text[..text.len().min(TEXT_MAX)].to_vec();
        let (object, user) = (kept(object), kept(user));
        DenialEntry { id: 0, count: 1, reason, context, object, user, created_ms: wall_ms, wall_ms, client }
    }

    fn is_same(&self, other: &DenialEntry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.wall_ms.abs_diff(other.wall_ms) <= SAME_MS.unsigned_abs()
            && self.object == other.object
            && self.user == other.user
    }
}

/// The entries of the log.
#[derive(Default)]
pub struct AclLog {
    entries: VecDeque<DenialEntry>,
    next_id: u64,
}

impl AclLog {
    /// Records a denial and keeps at most `max_len` entries.
    pub fn note(&mut self, new: DenialEntry, max_len: usize) {
        let known = self.entries.iter().take(LOOKED_AT).position(|entry| entry.is_same(&new));
        match known.and_then(|at| self.entries.remove(at)) {
            _ if max_len == 0 => self.entries.clear(),
            Some(DenialEntry { id, count, created_ms, .. }) => {
                self.entries.push_front(DenialEntry { id, count: count + 1, created_ms, ..new });
            }
            None => {
                self.entries.push_front(DenialEntry { id: self.next_id, ..new });
                self.next_id += 1;
                self.entries.truncate(max_len);
            }
        }
    }

    /// Returns the entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &DenialEntry> {
        self.entries.iter()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
