//! The context of a call: the time, the origin of its changes, and the effects of its look-ups.

use crate::time::clock::{Deadline, Now};

/// The context passed to every function of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cx {
    /// The time of the call.
    pub now: Now,
    /// The origin of the call's changes.
    pub origin: Origin,
    /// The allowed effects of this caller's look-ups; see [`Lookup::ALL`] and [`Lookup::NO_TOUCH`].
    pub lookup: Lookup,
}

impl Cx {
    /// Creates the context of a call whose look-ups have all effects.
    #[inline]
    pub fn new(now: Now, origin: Origin) -> Self {
        Cx { now, origin, lookup: Lookup::ALL }
    }

    /// Returns true in the replay of a log: what happens has happened already, here or at the primary.
    pub(crate) fn is_repeated(&self) -> bool {
        self.origin == Origin::Replay
    }

    /// Returns true if keys expire. In the replay of a log they do not: it contains the deletions of expired keys.
    pub fn expires_keys(&self) -> bool {
        !self.is_repeated()
    }

    /// Returns true if a key with this deadline counts as missing.
    #[inline]
    pub fn has_expired(&self, deadline: Deadline) -> bool {
        deadline.is_due(self.now) && self.expires_keys()
    }
}

/// The origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client with this id, or its script or transaction.
    Client(u64),
    /// The replay of a log, this server's or its primary's.
    Replay,
    /// The key's own deadline.
    Expiry,
    /// The memory limit.
    Eviction,
}

impl Origin {
    /// The embedding program, which is not a client: no client has the id 0.
    pub const HOST: Origin = Origin::Client(0);
}

/// The effects of a look-up besides finding the key: a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup(u8);

/// Flag: the look-up is a use of the key, unless disabled for the caller.
const USE: u8 = 1;
/// Flag: the look-up is a use of the key in any case.
const USE_ALWAYS: u8 = 1 << 1;
/// Flag: the look-up counts in INFO, as a hit or as a miss.
const COUNT: u8 = 1 << 2;
/// Flag: a miss emits an event.
const MISS: u8 = 1 << 3;

impl Lookup {
    /// A look-up without other effects, to decide what to do.
    pub const PEEK: Lookup = Lookup(0);
    /// A look-up to read the value.
    pub const READ: Lookup = Lookup(USE | COUNT | MISS);
    /// A look-up to change the value.
    pub const WRITE: Lookup = Lookup(USE);
    /// A look-up by TOUCH.
    pub const TOUCH: Lookup = Lookup(USE_ALWAYS | COUNT | MISS);
    /// A look-up of a property of the key other than its value.
    pub const ABOUT: Lookup = Lookup(COUNT | MISS);
    /// A look-up of the key's internals.
    pub const INSPECT: Lookup = Lookup(COUNT);

    /// The effects allowed for an ordinary caller.
    pub const ALL: Lookup = Lookup(u8::MAX);
    /// The effects allowed for a caller after CLIENT NO-TOUCH.
    pub const NO_TOUCH: Lookup = Lookup(!USE);

    /// Returns the effects allowed for a caller whose look-ups count as uses of keys if `is_use`.
    pub fn allowed(is_use: bool) -> Self {
        if is_use { Lookup::ALL } else { Lookup::NO_TOUCH }
    }

    /// Returns true if the look-up is a use of the key, for a caller with these allowed effects.
    #[inline]
    pub fn is_use(self, allowed: Lookup) -> bool {
        self.0 & (allowed.0 | USE_ALWAYS) & (USE | USE_ALWAYS) != 0
    }

    /// Returns true if the look-up counts in INFO.
    #[inline]
    pub fn is_counted(self) -> bool {
        self.0 & COUNT != 0
    }

    /// Returns true if a miss emits an event, for a caller with these allowed effects.
    #[inline]
    pub fn reports_miss(self, allowed: Lookup) -> bool {
        self.0 & allowed.0 & MISS != 0
    }
}

/// Cause for which a key is removed from its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    Expired,
    Evicted,
    /// The key gets another name.
    Renamed,
    /// The key gets another database.
    Moved,
    /// All keys are deleted.
    Flushed,
    /// All keys get another database.
    Swapped,
}
