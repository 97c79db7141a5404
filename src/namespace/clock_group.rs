//! Links between namespaces of one process, see [`local_replicas`](crate::namespace::local_replicas).

use std::sync::{Arc, Weak};

use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;
use crate::namespace::member::Topology;

impl Namespace {
    /// Connects this namespace, a primary, to a replica.
    pub(crate) fn link_to(self: &Arc<Self>, replica: &Arc<Namespace>, link: Arc<dyn LocalLink>) {
        *replica.links.primary.lock() = Some(link.clone());
        self.links.replicas.lock().push(link);
        self.share_clock_with(&[replica]);
    }

    /// Adds this namespace and others, which have the same clock, to the group of those that share it.
    fn share_clock_with(self: &Arc<Self>, others: &[&Arc<Namespace>]) {
        let mut clock_group = self.links.clock_group.lock();
        for namespace in [&[self], others].concat() {
            if !clock_group.iter().any(|known| known.as_ptr() == Arc::as_ptr(namespace)) {
                clock_group.push(Arc::downgrade(namespace));
            }
        }
    }

    /// Makes the clock of this namespace drive a topology with these nodes.
    pub(crate) fn drive(self: &Arc<Self>, topology: &Arc<dyn Topology>, nodes: &[&Arc<Namespace>]) {
        self.share_clock_with(nodes);
        let mut topologies = self.links.topologies.lock();
        topologies.retain(|known| known.strong_count() > 0);
        if !topologies.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(topology))) {
            topologies.push(Arc::downgrade(topology));
        }
    }

    /// Returns the topologies that the clock drives, in order of their creation.
    pub(crate) fn driven_topologies(&self) -> Vec<Arc<dyn Topology>> {
        self.links.topologies.lock().iter().filter_map(Weak::upgrade).collect()
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
