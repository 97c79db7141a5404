//! The private namespaces of a process, which exist in test mode: found by the name of their user.
//!
//! They belong to their clients and to the task that keeps them while these reconnect; here they are only known.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::client::registry::ClientInfo;
use crate::namespace::Namespace;

/// The most private namespaces at a time.
const NAMESPACES_MAX: usize = 10_000;

/// The private namespaces, by name.
#[derive(Default)]
pub(crate) struct PrivateNamespaces(Mutex<BTreeMap<Box<[u8]>, Weak<Namespace>>>);

/// A client's entry in the namespace that it has entered.
pub(crate) struct Admitted {
    /// The namespace.
    pub(crate) namespace: Arc<Namespace>,
    /// The client in it.
    pub(crate) info: Arc<ClientInfo>,
    /// Whether it was created for the client.
    pub(crate) is_new: bool,
}

impl PrivateNamespaces {
    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<Arc<Namespace>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Adds a client of another namespace to the one of this name, which is created if there is none; `None` when there
    /// are too many already.
    pub(crate) fn admit(
        &self,
        name: &[u8],
        client: &ClientInfo,
        create: impl FnOnce() -> Namespace,
    ) -> Option<Admitted> {
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
        let info = namespace.clients.adopt(client, namespace.clock.now());
        Some(Admitted { namespace, info, is_new })
    }

    /// Forgets a namespace that has no clients, if none has entered since `served` was their number; returns whether it
    /// was forgotten.
    pub(crate) fn forget(&self, namespace: &Namespace, served: u64) -> bool {
        let mut by_name = self.0.lock();
        let is_deserted = namespace.clients.is_empty() && namespace.clients.served() == served;
        if let Some(name) = namespace.name().filter(|_| is_deserted) {
            by_name.remove(name);
        }
        is_deserted
    }
}
