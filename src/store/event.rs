//! What happens to keys, by the names that Redis gives it, and who is told.
//!
//! Whoever changes a key says which event that is, and `Shard::changed` tells it; what happens without a command (a key is
//! new, was not found, has ended, was removed for want of memory) the shard tells by itself. All of it is told while the
//! shard is locked, so that events come in the order of the changes.
//!
//! Invariant: while nobody wants to know, an event costs one look at a word of the [`Herald`].

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A set of classes of events, and of the two kinds of channels that they are published to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

impl Classes {
    /// The letters of the classes, in the order of the bits and in that in which `notify-keyspace-events` is printed.
    pub const LETTERS: &'static [u8] = b"g$lshzxetdnKEm";
    /// How many of the classes the letter `A` stands for: the first.
    pub const ALL_COUNT: usize = 10;
    /// What happens to keys of any type.
    pub const GENERIC: Classes = Classes(1);
    /// What happens to strings.
    pub const STRING: Classes = Classes(1 << 1);
    /// Keys that have ended.
    pub const EXPIRED: Classes = Classes(1 << 6);
    /// Keys that were removed for want of memory.
    pub const EVICTED: Classes = Classes(1 << 7);
    /// Keys that were not there before.
    pub const NEW: Classes = Classes(1 << 10);
    /// Not a class: events are published to channels named after the key.
    pub const KEYSPACE: Classes = Classes(1 << 11);
    /// Not a class: events are published to channels named after the event.
    pub const KEYEVENT: Classes = Classes(1 << 12);
    /// Keys that were to be read and are not there.
    pub const MISSED: Classes = Classes(1 << 13);

    /// Reads letters, all of which are known; `A` stands for the first ten classes.
    pub fn from_letters(text: &[u8]) -> Self {
        let bit = |letter: &u8| match Self::LETTERS.iter().position(|known| known == letter) {
            Some(at) => 1 << at,
            None => (1 << Self::ALL_COUNT) - 1,
        };
        Classes(text.iter().map(bit).fold(0, |bits, bit| bits | bit))
    }

    /// Writes letters as Redis prints them. Where all that `A` stands for are in the set, `n` is not printed even if it is.
    pub fn to_letters(self) -> Vec<u8> {
        let all = (1 << Self::ALL_COUNT) - 1;
        let (abbreviated, rest): (&[u8], _) = match self.0 & all == all {
            true => (b"A", Classes(self.0 & !all & !Self::NEW.0)),
            false => (b"", self),
        };
        let letters = (0..).zip(Self::LETTERS).filter(|(at, _)| rest.0 >> at & 1 != 0).map(|(_, letter)| *letter);
        abbreviated.iter().copied().chain(letters).collect()
    }

    /// Returns whether any of the others is in this set.
    pub fn has_any(self, others: Classes) -> bool {
        self.0 & others.0 != 0
    }
}

/// Names what a change is to those who are told of it: one event, none, or two in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing that anybody is told of: a part of a change, or one that Redis does not tell.
    Untold,
    /// A key was set to a string.
    Set,
    /// A key was set to a string that ends.
    SetToExpire,
    /// A string became longer.
    Append,
    /// A part of a string was overwritten.
    SetRange,
    /// An integer was added.
    IncrBy,
    /// A number with a fraction was added.
    IncrByFloat,
    /// Bits of a string were written.
    SetBit,
    /// Elements were added to a HyperLogLog.
    PfAdd,
    /// A key was removed.
    Del,
    /// A key got a time to live.
    Expire,
    /// A key lost its time to live.
    Persist,
    /// A key was renamed: its old name.
    RenameFrom,
    /// A key was renamed: its new name.
    RenameTo,
    /// A key was moved to another database: where it was.
    MoveFrom,
    /// A key was moved to another database: where it is now.
    MoveTo,
    /// A key was copied: the copy.
    CopyTo,
    /// A key was made from a dump.
    Restore,
    /// A key was not there before; told ahead of what made it.
    New,
    /// A key was to be read and is not there.
    Missed,
    /// A key has ended.
    Expired,
    /// A key was removed for want of memory.
    Evicted,
}

impl Event {
    /// Returns the names under which it is told, each with its class.
    fn names(self) -> &'static [(Classes, &'static str)] {
        match self {
            Event::Untold => &[],
            Event::Set => &[(Classes::STRING, "set")],
            Event::SetToExpire => &[(Classes::STRING, "set"), (Classes::GENERIC, "expire")],
            Event::Append => &[(Classes::STRING, "append")],
            Event::SetRange => &[(Classes::STRING, "setrange")],
            Event::IncrBy => &[(Classes::STRING, "incrby")],
            Event::IncrByFloat => &[(Classes::STRING, "incrbyfloat")],
            Event::SetBit => &[(Classes::STRING, "setbit")],
            Event::PfAdd => &[(Classes::STRING, "pfadd")],
            Event::Del => &[(Classes::GENERIC, "del")],
            Event::Expire => &[(Classes::GENERIC, "expire")],
            Event::Persist => &[(Classes::GENERIC, "persist")],
            Event::RenameFrom => &[(Classes::GENERIC, "rename_from")],
            Event::RenameTo => &[(Classes::GENERIC, "rename_to")],
            Event::MoveFrom => &[(Classes::GENERIC, "move_from")],
            Event::MoveTo => &[(Classes::GENERIC, "move_to")],
            Event::CopyTo => &[(Classes::GENERIC, "copy_to")],
            Event::Restore => &[(Classes::GENERIC, "restore")],
            Event::New => &[(Classes::NEW, "new")],
            Event::Missed => &[(Classes::MISSED, "keymiss")],
            Event::Expired => &[(Classes::EXPIRED, "expired")],
            Event::Evicted => &[(Classes::EVICTED, "evicted")],
        }
    }
}

/// Is told what happens to keys, while their shards are locked: so it looks at no key and waits for nobody.
pub trait Witness: Send + Sync {
    /// Hears of an event that is wanted: the number of the database, the key, and the event's name.
    fn hear(&self, db: usize, key: &[u8], event: &'static str);

    /// Learns that a key has changed, by what a client does or by itself.
    fn see_change(&self, key: &[u8], is_doing: bool);

    /// Learns that all keys of a database, or of all, have been removed.
    fn see_all_removed(&self);
}

/// Is not a class: stands for the wish to know of every change.
const CHANGES: u32 = 1 << 31;

/// Knows what the witness wants to know. Shared by a store and its shards.
pub struct Herald {
    wanted: AtomicU32,
    witness: Box<dyn Witness>,
}

impl Herald {
    /// Creates a herald of a witness who wants to know nothing at first.
    pub fn new(witness: impl Witness + 'static) -> Self {
        Herald { wanted: AtomicU32::new(0), witness: Box::new(witness) }
    }

    /// Chooses the classes of events that are told.
    pub fn set_wanted(&self, classes: Classes) {
        // Never fails: the closure always gives a value.
        let _ = self.wanted.fetch_update(Relaxed, Relaxed, |wanted| Some(wanted & CHANGES | classes.0));
    }

    /// Chooses whether every change is told, whatever its event.
    pub fn set_tracked(&self, is_tracked: bool) {
        match is_tracked {
            true => self.wanted.fetch_or(CHANGES, Relaxed),
            false => self.wanted.fetch_and(!CHANGES, Relaxed),
        };
    }

    /// Returns whether anything is wanted.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Tells a change of a key, and the event that it is, as far as they are wanted.
    pub(super) fn tell_change(&self, db: usize, key: &[u8], event: Event) {
        self.tell_wanted(db, key, event, true);
    }

    /// Tells an event of a key that is no change if it is wanted.
    #[inline]
    pub(super) fn tell(&self, db: usize, key: &[u8], event: Event) {
        if self.is_asked() {
            self.tell_wanted(db, key, event, false);
        }
    }

    /// Tells that all keys of a database, or of all, have been removed.
    pub(super) fn tell_all_removed(&self) {
        if self.wanted.load(Relaxed) & CHANGES != 0 {
            self.witness.see_all_removed();
        }
    }

    #[cold]
    fn tell_wanted(&self, db: usize, key: &[u8], event: Event, is_change: bool) {
        let wanted = Classes(self.wanted.load(Relaxed));
        if is_change && wanted.0 & CHANGES != 0 {
            self.witness.see_change(key, !matches!(event, Event::Expired | Event::Evicted));
        }
        for (_, name) in event.names().iter().filter(|(class, _)| wanted.has_any(*class)) {
            self.witness.hear(db, key, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Classes;

    #[test]
    fn letters_are_printed_in_a_fixed_order_and_all_of_them_as_one() {
        for (given, printed) in [("", ""), ("xKE", "xKE"), ("mEK$g", "g$KEm"), ("nKA", "AK"), ("dtexzhsl$gn", "A")] {
            let letters = Classes::from_letters(given.as_bytes()).to_letters();
            assert_eq!(String::from_utf8_lossy(&letters), printed, "{given}");
        }
    }

    #[test]
    fn what_is_not_printed_is_wanted_all_the_same() {
        assert!(Classes::from_letters(b"AnKE").has_any(Classes::NEW));
        assert!(!Classes::from_letters(b"AKE").has_any(Classes::NEW));
    }
}
