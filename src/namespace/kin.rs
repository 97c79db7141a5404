//! Links between namespaces of one process, see [`links`](crate::namespace::links).

use std::sync::{Arc, Weak};

use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;

impl Namespace {
    /// Connects this namespace, a primary, to a replica.
    pub(crate) fn link_to(self: &Arc<Self>, replica: &Arc<Namespace>, link: Arc<dyn LocalLink>) {
        *replica.links.primary.lock() = Some(link.clone());
        self.links.replicas.lock().push(link);
        let mut kin = self.links.kin.lock();
        for namespace in [self, replica] {
            if !kin.iter().any(|known| known.as_ptr() == Arc::as_ptr(namespace)) {
                kin.push(Arc::downgrade(namespace));
            }
        }
    }

    /// Removes a link to a replica.
    pub(crate) fn unlink(&self, link: &Arc<dyn LocalLink>) {
        self.links.replicas.lock().retain(|known| !Arc::ptr_eq(known, link));
    }

    /// Removes the link to the primary, if it is `link`.
    pub(crate) fn unlink_primary(&self, link: &Arc<dyn LocalLink>) {
        self.links.primary.lock().take_if(|known| Arc::ptr_eq(known, link));
    }

    /// Returns the namespaces that share the clock, in order of their creation, including this one.
    pub(crate) fn kin(self: &Arc<Self>) -> Vec<Arc<Namespace>> {
        let mut kin = self.links.kin.lock();
        kin.retain(|namespace| namespace.strong_count() > 0);
        let known: Vec<_> = kin.iter().filter_map(Weak::upgrade).collect();
        if known.is_empty() { vec![self.clone()] } else { known }
    }

    /// Returns true if neither this namespace nor one that shares its clock has clients.
    pub(crate) fn is_deserted(self: &Arc<Self>) -> bool {
        self.kin().iter().all(|namespace| namespace.clients.is_empty())
    }
}
