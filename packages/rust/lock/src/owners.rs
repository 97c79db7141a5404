//! Locks of owners, who hold a lock once however often they acquire it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as AsyncMutex;

use crate::held::Hold;
use crate::terms::{Mode, Terms};

/// What the acquisitions of one lock by one owner have in common: the hold, if there is one. Who has locked it acquires.
pub(crate) type OwnedHold = Arc<AsyncMutex<Weak<Hold>>>;

/// Locks of all owners.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<OwnedLock, OwnedHold>>);

/// Lock of an owner.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnedLock {
    owner: String,
    names: Vec<Vec<u8>>,
    mode: Mode,
}

impl Owners {
    /// Returns the hold of a lock by its owner; none without an owner.
    pub(crate) fn of(&self, terms: &Terms) -> Option<OwnedHold> {
        let lock = OwnedLock { owner: terms.owner.clone()?, names: terms.names.clone(), mode: terms.mode };
        let mut owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owned
            .retain(|_, hold| Arc::strong_count(hold) > 1 || hold.try_lock().is_ok_and(|hold| hold.strong_count() > 0));
        Some(owned.entry(lock).or_default().clone())
    }
}
