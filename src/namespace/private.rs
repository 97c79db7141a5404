//! The private namespaces of a process, which exist in test mode, by the name of their user.
//!
//! Their clients own them, and the task that keeps them while these reconnect; this list has weak references.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Largest number of private namespaces at a time.
const NAMESPACES_MAX: usize = 10_000;

/// The private namespaces, by name.
pub(crate) struct PrivateNamespaces<N>(Mutex<BTreeMap<Box<[u8]>, Weak<N>>>);

impl<N> Default for PrivateNamespaces<N> {
    fn default() -> Self {
        PrivateNamespaces(Mutex::default())
    }
}

impl<N> PrivateNamespaces<N> {
    /// Returns all private namespaces.
    pub(super) fn all(&self) -> Vec<Arc<N>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Calls `enter` with the namespace of a name, and with true if it was created for the call; `None` if there are
    /// too many already. No namespace is removed meanwhile.
    pub(super) fn enter<T>(
        &self,
        name: &[u8],
        create: impl FnOnce() -> N,
        enter: impl FnOnce(Arc<N>, bool) -> T,
    ) -> Option<T> {
        let mut by_name = self.0.lock();
        let existing = by_name.get(name).and_then(Weak::upgrade);
        let is_new = existing.is_none();
        if is_new && by_name.len() >= NAMESPACES_MAX {
            return None;
        }
        let namespace = existing.unwrap_or_else(|| Arc::new(create()));
        if is_new {
            by_name.insert(name.into(), Arc::downgrade(&namespace));
        }
        Some(enter(namespace, is_new))
    }

    /// Removes the namespace of a name if it is deserted, while no client can enter; returns true if it was removed.
    pub(super) fn forget(&self, name: &[u8], is_deserted: impl FnOnce() -> bool) -> bool {
        let mut by_name = self.0.lock();
        let is_deserted = is_deserted();
        if is_deserted {
            by_name.remove(name);
        }
        is_deserted
    }
}
