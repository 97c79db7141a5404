//! How namespaces of one process are linked, see [`links`](crate::namespace::links).

use std::sync::{Arc, Weak};

use crate::namespace::Namespace;
use crate::namespace::links::LocalLink;

impl Namespace {
    /// Connects the namespace, which is a primary, to a replica.
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

    /// Forgets a link to a replica.
    pub(crate) fn unlink(&self, link: &Arc<dyn LocalLink>) {
        self.links.replicas.lock().retain(|known| !Arc::ptr_eq(known, link));
    }

    /// Forgets the link to the primary, if it is this one.
    pub(crate) fn unlink_primary(&self, link: &Arc<dyn LocalLink>) {
        self.links.primary.lock().take_if(|known| Arc::ptr_eq(known, link));
    }

    /// Returns the namespaces that share the clock, in the order in which they were made, this one among them.
    pub(crate) fn kin(self: &Arc<Self>) -> Vec<Arc<Namespace>> {
        let mut kin = self.links.kin.lock();
        kin.retain(|namespace| namespace.strong_count() > 0);
        let known: Vec<_> = kin.iter().filter_map(Weak::upgrade).collect();
        if known.is_empty() { vec![self.clone()] } else { known }
    }

    /// Returns whether neither this namespace nor one that shares its clock has clients.
    pub(crate) fn is_deserted(self: &Arc<Self>) -> bool {
        self.kin().iter().all(|namespace| namespace.clients.is_empty())
    }
}
