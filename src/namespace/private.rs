//! The private namespaces of a process, which exist in test mode: found by the name of their user.
//!
//! They belong to their clients and to the task that keeps them while these reconnect; here they are only known.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The most private namespaces at a time.
const NAMESPACES_MAX: usize = 10_000;

/// The private namespaces, by name.
pub(crate) struct PrivateNamespaces<N>(Mutex<BTreeMap<Box<[u8]>, Weak<N>>>);

impl<N> Default for PrivateNamespaces<N> {
    fn default() -> Self {
        PrivateNamespaces(Mutex::default())
    }
}

impl<N> PrivateNamespaces<N> {
    /// Returns all of them.
    pub(super) fn all(&self) -> Vec<Arc<N>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Calls `enter` with the one of this name, which is created if there is none, and whether it was created; `None`
    /// when there are too many already. None is forgotten meanwhile.
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

    /// Forgets the one of this name if it is deserted, while none is entered; returns whether it was forgotten.
    pub(super) fn forget(&self, name: &[u8], is_deserted: impl FnOnce() -> bool) -> bool {
        let mut by_name = self.0.lock();
        let is_deserted = is_deserted();
        if is_deserted {
            by_name.remove(name);
        }
        is_deserted
    }
}
