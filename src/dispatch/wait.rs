//! Conditions that the rest of a command waits for, and the blocked call that the rest belongs to.

use std::pin::Pin;
use std::time::Duration;

use crate::acl::{Access, RuleSettings};
use crate::client::registry::Blocked;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::member::NodeReport;
use crate::resp::{Protocol, Request};
use crate::topology::sentinel::SentinelPlan;

/// A call whose client was blocked.
#[derive(Clone, Copy)]
pub struct BlockedRequest<'a> {
    pub request: Request<'a>,
    /// Duration of the call before it blocked, in nanoseconds.
    pub spent_ns: u64,
}

/// Condition that a [`Continuation`](crate::dispatch::Continuation) waits for.
pub enum Wait<'a> {
    /// None: other clients are served first.
    Turn,
    /// The end of the client's blocking: it is served, unblocked by CLIENT UNBLOCK, or its timeout is over.
    Blocked(&'a Blocked),
    /// A future that holds no locks, such as an exchange with another server. It is dropped when the client
    /// disconnects.
    Work(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// A future of the same kind that waits for the outcome of a change in a cluster. A client that has closed its
    /// writing side does not drop it.
    Commit(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// A move of the namespace's steered clock, with the work that is due in between.
    TimeTravel(TimeTravel),
    /// A private namespace that is made a replica of this one.
    Replica(&'a mut NewReplica),
    /// A topology that is made.
    Topology(&'a NewTopology, &'a mut MadeTopology),
    /// The client's entry into another namespace, where the next step is executed; if it is refused, the step is
    /// executed here.
    Entry(&'a mut NamespaceEntry),
}

/// A private namespace that is to be created as a replica.
pub struct NewReplica {
    /// Name of the namespace, equal to its user's name.
    pub name: Box<[u8]>,
    /// Reason for which it cannot be created, if it cannot.
    pub refusal: Option<Error>,
}

/// The nodes of a topology once it is made, or why it is not.
#[derive(Default)]
pub struct MadeTopology(pub(crate) Option<Result<Vec<NodeReport>>>);

/// A topology that is to be made.
#[derive(Clone, Debug)]
pub struct NewTopology {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: TopologyKind,
    pub(crate) access: TopologyAccess,
}

/// Kind and size of a topology.
#[derive(Clone, Debug)]
pub(crate) enum TopologyKind {
    /// A cluster; each primary has so many replicas.
    Cluster { primaries: usize, replicas: usize, node_timeout_ms: u64 },
    /// Nodes of a cluster that know nothing of each other.
    EmptyCluster { nodes: usize, node_timeout_ms: u64 },
    /// A master with replicas, and sentinels.
    Sentinels(SentinelPlan),
}

/// Access to the nodes of a topology.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyAccess {
    /// The user; `None` for the default user.
    pub(crate) user: Option<Box<[u8]>>,
    /// The password, if the nodes ask for one.
    pub(crate) password: Option<Box<[u8]>>,
    /// The password of the sentinels, if they ask for one.
    pub(crate) sentinel_password: Option<Box<[u8]>>,
    /// True if the nodes speak TLS.
    pub(crate) tls: bool,
}

impl TopologyAccess {
    /// Sets up the users of a node.
    pub(crate) fn apply(&self, node: &Namespace, is_sentinel: bool) {
        let (user, password) =
            if is_sentinel { (&None, &self.sentinel_password) } else { (&self.user, &self.password) };
        let Some(password) = password else { return };
        let secret = [b">", &password[..]].concat();
        let rules: [&[u8]; 6] = [b"resetpass", b"on", &secret, b"allkeys", b"allchannels", b"allcommands"];
        // These rules are valid.
        let _ = node.acl.set_user(user.as_deref().unwrap_or(b"default"), &rules, RuleSettings::default());
        if user.as_deref().is_some_and(|user| user != b"default") {
            let _ = node.acl.set_user(b"default", &["off"], RuleSettings::default());
        }
    }
}

/// A client's entry into another namespace.
pub struct NamespaceEntry {
    /// Namespace to be entered.
    pub destination: Destination,
    /// The name and the protocol that the client has then, if it has asked for others.
    pub(crate) chosen: (Option<String>, Option<Protocol>),
    /// Reason for which the entry was refused, once it was.
    pub refusal: Option<Error>,
}

/// A namespace that a client enters by authenticating.
pub enum Destination {
    /// The main namespace, with these permissions.
    Main(Access),
    /// The private namespace of a user.
    Private {
        user: Box<[u8]>,
        /// Password of the user; any password is accepted if the user needs none.
        password: Box<[u8]>,
    },
}

/// Command to a steered clock.
#[derive(Clone, Copy, Debug)]
pub enum TimeTravel {
    /// Moves the clock forward by a duration.
    By(Duration),
    /// Moves the clock forward to a wall-clock time in milliseconds since 1970, or sets only the wall clock back.
    To { unix_ms: i64 },
    /// Stops the clock.
    Stop,
    /// Makes a stopped clock run again.
    Run,
}
