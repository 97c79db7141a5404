//! Locks of owners, who hold a lock once however often they acquire it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::error::AcquireError;
use crate::held::Hold;
use crate::terms::{Mode, Terms};

/// What the acquisitions of one lock by one owner have in common: the hold, if there is one. Who has locked it acquires.
pub(crate) type OwnedHold = Arc<AsyncMutex<Weak<Hold>>>;

/// Turn of an acquisition by an owner.
pub(crate) type OwnerTurn = OwnedMutexGuard<Weak<Hold>>;

/// Locks of all owners.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<OwnedLock, OwnedHold>>);

/// Lock of an owner.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnedLock {
    owner: String,
    names: BTreeSet<Vec<u8>>,
    mode: Mode,
}

impl Owners {
    /// Returns the hold of a lock by its owner; none without an owner.
    ///
    /// # Errors
    /// If the owner has other locks with one of the names, which would be released with these.
    pub(crate) fn of(&self, terms: &Terms) -> Result<Option<OwnedHold>, AcquireError> {
        let Some(owner) = terms.owner.clone() else { return Ok(None) };
        let lock = OwnedLock { owner, names: terms.names.iter().cloned().collect(), mode: terms.mode };
        let mut owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = |hold: &Weak<Hold>| hold.upgrade().is_some_and(|hold| !hold.is_over());
        owned.retain(|_, hold| Arc::strong_count(hold) > 1 || hold.try_lock().is_ok_and(|hold| is_held(&hold)));
        let overlaps = |other: &OwnedLock| {
            other.owner == lock.owner && other.names != lock.names && !other.names.is_disjoint(&lock.names)
        };
        if owned.keys().any(overlaps) {
            return Err(AcquireError::Terms("an owner cannot have a lock alone and with others at a time"));
        }
        Ok(Some(owned.entry(lock).or_default().clone()))
    }
}
