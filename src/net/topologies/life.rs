//! The life of a topology: as long as the client that made it is connected or a node has clients, and a while longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::interval;

use crate::namespace::member::Topology;
use crate::net::topologies::{Deployment, Owner};
use crate::store::NEVER;

/// Interval at which a topology looks if it is still needed.
const LOOK: Duration = Duration::from_millis(100);

impl Deployment {
    /// Starts the tasks of a topology: one that follows a running clock, and one that ends it.
    pub(super) fn live(self: &Arc<Self>) {
        self.tenancy.tasks.spawn_on(self.clone().follow_clock(), &self.tenancy.runtime);
        self.tenancy.tasks.spawn_on(self.clone().keep(), &self.tenancy.runtime);
    }

    /// Triggers what happens by itself, while the clock runs.
    async fn follow_clock(self: Arc<Self>) {
        loop {
            let (clock, due_ms) = (self.creator.clock.clone(), self.next_due_ms());
            tokio::select! {
                () = self.ended.cancelled() => return,
                () = self.news.notified() => continue,
                () = clock.reach(due_ms), if due_ms != NEVER => {}
            }
            let turn = self.creator.upkeep.steering.clone().lock_owned().await;
            let deployment = self.clone();
            let tick = move || {
                let _turn = turn;
                deployment.tick(deployment.creator.clock.now());
            };
            let _ = spawn_blocking(tick).await; // cancelled only when the process ends
        }
    }

    /// Ends the topology once nobody has used it for the time of `namespace-linger`.
    async fn keep(self: Arc<Self>) {
        let mut looks = interval(LOOK);
        let mut unused = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.ended.cancelled() => break,
                _ = looks.tick() => {}
            }
            let linger = Duration::from_millis(self.creator.settings.current().namespace_linger_ms);
            let is_owned = match self.owner {
                Owner::Client(id) => self.creator.clients.find(id).is_some(),
                Owner::Program => true,
            };
            if is_owned || self.has_clients() {
                unused = Duration::ZERO;
            } else if unused >= linger {
                break;
            } else {
                unused += LOOK;
            }
        }
        let turn = self.creator.upkeep.steering.clone().lock_owned().await;
        let end = move || {
            let _turn = turn;
            self.end();
        };
        let _ = spawn_blocking(end).await; // as above
    }

    /// Returns true if a node has clients. Those of a suspended node do not count: whether one has gone, it would not notice.
    fn has_clients(&self) -> bool {
        self.namespaces().iter().any(|node| !node.restrictions.is_frozen() && !node.clients.is_empty())
    }

    /// Ends the topology: its ports are closed, and its nodes are gone. The caller has the turn of those who steer the clock.
    pub(in crate::net) fn end(&self) {
        self.ended.cancel();
        {
            let mut topologies = self.creator.topologies.lock();
            let is_this = topologies.get(&self.name).is_some_and(|known| {
                self.own.upgrade().is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&own)))
            });
            if is_this {
                topologies.remove(&self.name);
            }
        }
        // Not in the head of the loop, which would hold the lock throughout.
        let nodes = std::mem::take(&mut *self.nodes.lock());
        for node in nodes {
            node.namespace.clients.end_all();
            if let Some(link) = node.link {
                link.finish();
            }
            node.namespace.forget_node();
            node.namespace.end();
        }
    }
}
