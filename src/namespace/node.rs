//! Nodes of topologies, see [`member`](crate::namespace::member).

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use crate::acl::Acl;
use crate::client::outbox::NUDGE;
use crate::config::Config;
use crate::instance::new_node;
use crate::namespace::Namespace;
use crate::namespace::member::{Member, RoutingTable};
use crate::namespace::restrictions::{HAS_PROFILE, IN_CLUSTER, IN_TOPOLOGY, IS_FROZEN, IS_SENTINEL};
use crate::profile::Profile;
use crate::spec::marks::OF_SENTINEL;
use crate::spec::{CommandSpec, Group};
use crate::topology::NodeIdentity;

impl Namespace {
    /// Creates a namespace that is to be a node of a topology made in `creator`, whose clock it shares: one of a cluster with
    /// this identity, or none of one. Its clients connect to this port, with TLS or without.
    pub(crate) fn new_node(
        (main, creator): (&Namespace, &Namespace),
        name: &[u8],
        node: Option<NodeIdentity>,
        (port, is_tls): (u16, bool),
    ) -> Self {
        let mut namespace = Namespace::new_replica(main, name, creator);
        let is_clustered = node.is_some();
        // No check can refuse this setting.
        let _ = namespace.settings.update(|config| {
            let mut config = config.clone();
            config.join_topology(is_clustered, port, is_tls);
            Ok(config)
        });
        namespace.restrictions.set(IN_CLUSTER, is_clustered);
        namespace.node = node.map_or_else(OnceLock::new, OnceLock::from);
        namespace.topologies = creator.topologies.clone();
        namespace
    }

    /// Gives the namespace its place in a topology.
    pub(crate) fn join(&self, member: Member, is_sentinel: bool) {
        self.restrictions.set(IS_SENTINEL, is_sentinel);
        if is_sentinel {
            let _ = self.settings.update(|config| {
                let mut config = config.clone();
                let is_known = |command: &CommandSpec| command.is(OF_SENTINEL) || command.command.group == Group::Test;
                config.directives.renames.keep(self.commands, is_known);
                Ok(config)
            });
        }
        self.restrictions.set(IN_TOPOLOGY, self.node().is_some());
        let is_first = self.member.set(member).is_ok();
        debug_assert!(is_first, "a node stays in its topology");
    }

    /// Returns the identity as a node of a cluster, if the server is one.
    pub(crate) fn node(&self) -> Option<&NodeIdentity> {
        self.node.get().filter(|_| self.restrictions.is_in_cluster())
    }

    /// Answers as the profile of the settings says: it may make a cluster of the server. A node of a topology stays what it is.
    pub(super) fn follow_profile(&self, config: &Config) {
        self.restrictions.set(HAS_PROFILE, config.profile.is_some());
        if self.member().is_some() {
            return;
        }
        let is_in_cluster = config.cluster_enabled || config.profile.is_some_and(Profile::is_cluster);
        if is_in_cluster {
            self.node.get_or_init(new_node);
        }
        self.restrictions.set(IN_CLUSTER, is_in_cluster);
    }

    /// Returns the place in a topology, for a node of one.
    pub(crate) fn member(&self) -> Option<&Member> {
        self.member.get()
    }

    /// Returns the users as which clients log in: those of the process, or, at a node of a topology, its own.
    pub(crate) fn login_users(&self) -> &Acl {
        if self.member().is_some() { &self.acl } else { &self.instance.acl }
    }

    /// Returns the TCP port at which clients reach the namespace; 0 without one.
    pub(crate) fn port(&self) -> u16 {
        let of_process = || u16::try_from(self.instance.tcp_port.load(Relaxed)).unwrap_or(0);
        self.member().map_or_else(of_process, |member| member.port)
    }

    /// Sets by what calls are routed. Once this returns, no call is made that was routed before. The caller holds no store.
    pub(crate) fn set_routes(&self, routes: RoutingTable) {
        let Some(member) = self.member() else { return };
        member.set_routes(routes);
        self.store.renew_generation();
        self.store.pass_barrier();
        self.wake_clients(); // subscribers of shards that have moved
    }

    /// Suspends the namespace, or continues it: its clients are neither read from nor written to.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.restrictions.set(IS_FROZEN, is_frozen);
        self.wake_clients();
    }

    /// Has all clients' tasks look at the state of the namespace again.
    fn wake_clients(&self) {
        self.clients.all().iter().for_each(|client| client.outbox.signal(NUDGE));
    }
}
