//! The context of a call: what time it is, who causes its changes, and how it looks keys up.

use crate::time::clock::{Deadline, Now};

/// What every function of the store is told about the call that it works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cx {
    /// The time of the call.
    pub now: Now,
    /// Who causes what the call changes.
    pub origin: Origin,
    /// What look-ups of this caller may do; see [`Lookup::ALL`] and [`Lookup::NO_TOUCH`].
    pub lookup: Lookup,
}

impl Cx {
    /// Creates the context of a call whose look-ups may do everything.
    #[inline]
    pub fn new(now: Now, origin: Origin) -> Self {
        Cx { now, origin, lookup: Lookup::ALL }
    }

    /// Returns whether keys expire. While the log is replayed they do not: where a key had expired, the log removes it.
    pub fn expires_keys(&self) -> bool {
        !matches!(self.origin, Origin::Primary | Origin::Replay)
    }

    /// Returns whether a key with this deadline counts as missing.
    #[inline]
    pub fn has_expired(&self, deadline: Deadline) -> bool {
        deadline.is_due(self.now) && self.expires_keys()
    }
}

/// Says who causes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client with this number, or a script or transaction of its.
    Client(u64),
    /// The server that this one replicates.
    Primary,
    /// The log, which is replayed.
    Replay,
    /// The key's own deadline.
    Expiry,
    /// The limit of the memory.
    Eviction,
}

impl Origin {
    /// The program around the server, which is no client: none has the number 0.
    pub const HOST: Origin = Origin::Client(0);
}

/// Says what a look-up does beside finding the key: a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup(u8);

/// The look-up is a use of the key, unless the caller's are none.
const USE: u8 = 1;
/// It is a use of the key in any case.
const USE_ALWAYS: u8 = 1 << 1;
/// It counts in INFO: as a hit or as a miss.
const COUNT: u8 = 1 << 2;
/// A miss is an event.
const MISS: u8 = 1 << 3;

impl Lookup {
    /// The key is looked at to decide what to do; that has no other effect.
    pub const PEEK: Lookup = Lookup(0);
    /// The key is read.
    pub const READ: Lookup = Lookup(USE | COUNT | MISS);
    /// The key is read to be changed.
    pub const WRITE: Lookup = Lookup(USE);
    /// The key is touched on purpose.
    pub const TOUCH: Lookup = Lookup(USE_ALWAYS | COUNT | MISS);
    /// Something about the key is read, but not its value.
    pub const ABOUT: Lookup = Lookup(COUNT | MISS);
    /// The inside of the key is looked at.
    pub const INSPECT: Lookup = Lookup(COUNT);

    /// What the look-ups of an ordinary caller may do.
    pub const ALL: Lookup = Lookup(u8::MAX);
    /// What the look-ups of a caller may do after CLIENT NO-TOUCH.
    pub const NO_TOUCH: Lookup = Lookup(!USE);

    /// Returns what the look-ups may do of a caller whose are uses of keys, or are not.
    pub fn allowed(is_use: bool) -> Self {
        if is_use { Lookup::ALL } else { Lookup::NO_TOUCH }
    }

    /// Returns the flags as a number, for [`Lookup::from_bits`].
    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the flags with these bits.
    pub(super) const fn from_bits(bits: u8) -> Self {
        Lookup(bits)
    }

    /// Returns whether the look-up is a use of the key, of a caller who may do `allowed`.
    #[inline]
    pub fn is_use(self, allowed: Lookup) -> bool {
        self.0 & (allowed.0 | USE_ALWAYS) & (USE | USE_ALWAYS) != 0
    }

    /// Returns whether it counts in INFO.
    #[inline]
    pub fn is_counted(self) -> bool {
        self.0 & COUNT != 0
    }

    /// Returns whether a miss is an event.
    #[inline]
    pub fn reports_miss(self) -> bool {
        self.0 & MISS != 0
    }
}
