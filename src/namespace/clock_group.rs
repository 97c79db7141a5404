//! Links between namespaces of one process, see [`local_replicas`](crate::namespace::local_replicas).

use std::sync::{Arc, Weak};

use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;

impl Namespace {
    /// Connects this namespace, a primary, to a replica.
    pub(crate) fn link_to(self: &Arc<Self>, replica: &Arc<Namespace>, link: Arc<dyn LocalLink>) {
        *replica.links.primary.lock() = Some(link.clone());
        self.links.replicas.lock().push(link);
        let mut clock_group = self.links.clock_group.lock();
        for namespace in [self, replica] {
            if !clock_group.iter().any(|known| known.as_ptr() == Arc::as_ptr(namespace)) {
                clock_group.push(Arc::downgrade(namespace));
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
    pub(crate) fn clock_group(self: &Arc<Self>) -> Vec<Arc<Namespace>> {
        let mut clock_group = self.links.clock_group.lock();
        clock_group.retain(|namespace| namespace.strong_count() > 0);
        let known: Vec<_> = clock_group.iter().filter_map(Weak::upgrade).collect();
        if known.is_empty() { vec![self.clone()] } else { known }
    }

    /// Returns true if neither this namespace nor one that shares its clock has clients.
    pub(crate) fn is_deserted(self: &Arc<Self>) -> bool {
        self.clock_group().iter().all(|namespace| namespace.clients.is_empty())
    }
}
