//! The log of what was refused, newest first; what is refused again soon after is counted instead of listed again.

use std::collections::VecDeque;

/// How long after the last time the same refusal still counts as the same, in milliseconds.
const SAME_MS: i64 = 60_000;
/// How much of a key, channel or name is kept, in bytes: a client that is refused everything must not fill the memory.
const TEXT_MAX: usize = 64 * 1024;
/// Among how many of the newest entries the same refusal is looked for.
const LOOKED_AT: usize = 10;

/// Says why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The command is not allowed.
    Command,
    /// A key is not allowed.
    Key,
    /// A channel is not allowed.
    Channel,
    /// User name or password were wrong.
    Auth,
}

impl Reason {
    /// Returns the word that ACL LOG has for it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        }
    }
}

/// Says in what a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A request of its own.
    TopLevel,
    /// A transaction.
    Multi,
    /// A script.
    Lua,
}

impl Context {
    /// Returns the word that ACL LOG has for it.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// Tells of a refusal.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The number of the entry, from 0 up and never used again; the log gives it.
    pub id: u64,
    /// How often it has happened.
    pub count: u64,
    /// Why it was refused.
    pub reason: Reason,
    /// In what it was refused.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// When it happened first, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it happened last, in milliseconds since 1970.
    pub wall_ms: i64,
    /// The client's line of CLIENT LIST at that time.
    pub client: String,
}

impl Entry {
    /// Creates the entry of something that was refused once.
    pub fn new((reason, context): (Reason, Context), object: &[u8], user: &[u8], wall_ms: i64, client: String) -> Self {
        let kept = |text: &[u8]| text[..text.len().min(TEXT_MAX)].to_vec();
        let (object, user) = (kept(object), kept(user));
        Entry { id: 0, count: 1, reason, context, object, user, created_ms: wall_ms, wall_ms, client }
    }

    fn is_same(&self, other: &Entry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.wall_ms.abs_diff(other.wall_ms) <= SAME_MS.unsigned_abs()
            && self.object == other.object
            && self.user == other.user
    }
}

/// Holds the entries.
#[derive(Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Log {
    /// Notes a refusal and keeps at most so many entries.
    pub fn note(&mut self, new: Entry, most: usize) {
        let known = self.entries.iter().take(LOOKED_AT).position(|entry| entry.is_same(&new));
        match known.and_then(|at| self.entries.remove(at)) {
            _ if most == 0 => self.entries.clear(),
            Some(Entry { id, count, created_ms, .. }) => {
                self.entries.push_front(Entry { id, count: count + 1, created_ms, ..new });
            }
            None => {
                self.entries.push_front(Entry { id: self.next_id, ..new });
                self.next_id += 1;
                self.entries.truncate(most);
            }
        }
    }

    /// Returns the entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
