//! A namespace's place in a topology: a cluster or a Sentinel deployment in this process, for test mode.
//!
//! The topology belongs to a higher layer. Commands reach it by the trait [`Topology`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::error::Result;
use crate::push::hub::Message;
use crate::time::clock::Now;
use crate::topology::cluster::{FailoverMode, NO_OWNER, NodeNumber, Routes, SetSlot};
use crate::topology::{ClusterView, Slot};

/// A cluster or a Sentinel deployment of this process.
pub(crate) trait Topology: Send + Sync {
    /// Triggers what happens by itself at an instant; returns true if something did. The caller holds the turn of those who steer
    /// the clock, and no store.
    fn tick(&self, now: Now) -> bool;

    /// Returns the next time at which something happens by itself, in monotonic milliseconds;
    /// [`NEVER`](crate::store::NEVER) if nothing will.
    fn next_due_ms(&self) -> u64;

    /// Performs an operation; the caller as that of [`Topology::tick`].
    ///
    /// # Errors
    /// The reason why the operation is impossible.
    fn perform(&self, operation: &Operation, now: Now) -> Result<Outcome>;

    /// Holds back what nodes tell each other of the operations that follow, up to [`Topology::spread_news`].
    fn hold_news(&self, now: Now);

    /// Has the nodes tell each other what was held back.
    fn spread_news(&self, now: Now);

    /// Returns the cluster as a node sees it; `None` if it is no cluster.
    fn view(&self, at: NodeNumber, now: Now) -> Option<ClusterView>;

    /// Returns the name that the node at a port announces.
    fn announced(&self, port: u16) -> AnnouncedName;

    /// Sends snapshots of a node to the clients that have made themselves its replicas and wait for one, on another thread.
    fn send_snapshots(&self, at: NodeNumber);

    /// Returns true if the nodes are a cluster.
    fn is_cluster(&self) -> bool;

    /// Returns a sentinel's section of INFO.
    fn sentinel_info(&self, at: NodeNumber) -> Option<String>;

    /// Passes a message published at a node on to the subscribers of the nodes that it reaches: all, or those of its shard.
    fn publish(&self, from: NodeNumber, message: Message<'_>, is_sharded: bool, now: Now);
}

/// The name that a node announces by its settings, in place of the address that a client has reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnnouncedName {
    pub(crate) ip: Option<String>,
    /// The host name; empty without one.
    pub(crate) host_name: String,
}

/// Change of a topology, or a question about it.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Describes the nodes.
    Nodes,
    /// Makes a replica the primary, with sentinels perhaps the best one; with `lose` without the last writes of the primary.
    Failover { node: Option<NodeNumber>, lose: Option<usize> },
    /// Ends a node's process.
    Stop(NodeNumber),
    /// Starts it again.
    Start(NodeNumber),
    /// Suspends it.
    Pause(NodeNumber),
    /// Continues it.
    Resume(NodeNumber),
    /// Cuts nodes off from the others.
    Partition(Vec<NodeNumber>),
    /// Ends the partition.
    Heal,
    /// Delays the link of a replica, by milliseconds.
    Lag { node: NodeNumber, ms: u64 },
    /// Moves slots; with a number only as many keys, after which the slots stay in between.
    Migrate { slots: (Slot, Slot), to: NodeNumber, keys: Option<usize> },
    /// Adds a node, perhaps as a replica.
    Add { replica_of: Option<NodeNumber> },
    /// Removes a node.
    Remove(NodeNumber),
    /// Ends the topology.
    Drop,
    /// Makes a data node of a Sentinel deployment the replica of the node at a port, or a master.
    Replicate { at: NodeNumber, port: Option<u16> },
    /// Has a sentinel answer a subcommand with its arguments.
    Sentinel {
        at: NodeNumber,
        question: Question,
        words: Vec<String>,
        /// The host at which the one who asks has reached the server, and so reaches all nodes.
        host: String,
    },
    /// Executes what a node was told by a client.
    Command { at: NodeNumber, command: NodeCommand },
}

/// Command of a client to a node that changes its cluster.
#[derive(Clone, Debug)]
pub(crate) enum NodeCommand {
    Meet { port: u16 },
    AddSlots(Vec<Slot>),
    DelSlots(Vec<Slot>),
    FlushSlots,
    SetSlot(Slot, SetSlot),
    Forget(String),
    Replicate(String),
    Failover(FailoverMode),
    Reset { is_hard: bool },
    SetConfigEpoch(i64),
    BumpEpoch,
}

/// Result of an [`Operation`].
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// The nodes, or the one that was added.
    Nodes(Vec<NodeReport>),
    /// The reply of a node.
    Text(String),
    /// The answer of a sentinel.
    Reply(SentinelReply),
}

/// Question to a sentinel, or an order: a subcommand of SENTINEL, or what else it answers otherwise than a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Masters,
    Master,
    Replicas,
    Sentinels,
    Address,
    CheckQuorum,
    Id,
    PendingScripts,
    FlushConfig,
    Help,
    Debug,
    Config,
    InfoCache,
    Role,
    Failover,
    Reset,
    Monitor,
    Remove,
    Set,
    IsDown,
    SimulateFailure,
    Publish,
}

/// Answer of a sentinel.
#[derive(Clone, Debug)]
pub(crate) enum SentinelReply {
    Simple(String),
    Bulk(String),
    Int(i64),
    Null,
    NullArray,
    Array(Vec<SentinelReply>),
    Map(Vec<(String, String)>),
}

impl SentinelReply {
    pub(crate) fn ok() -> Self {
        SentinelReply::Simple("OK".to_owned())
    }
}

/// Description of a node, for TEST.CLUSTER and TEST.SENTINEL.
#[derive(Clone, Debug)]
pub(crate) struct NodeReport {
    pub(crate) number: NodeNumber,
    pub(crate) id: String,
    /// The address at which the server listens.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) role: &'static str,
    /// The slots, in ranges of first and last.
    pub(crate) slots: Vec<(Slot, Slot)>,
    /// The number of its primary.
    pub(crate) primary: Option<NodeNumber>,
    pub(crate) state: &'static str,
    /// The position in the log that it has executed.
    pub(crate) offset: u64,
    /// Bytes of the primary's log that it lacks, and the delay of its link in milliseconds.
    pub(crate) lag: (u64, u64),
    /// The nodes that it believes to be dead.
    pub(crate) believed_dead: Vec<NodeNumber>,
}

/// A namespace's place in a topology.
pub(crate) struct Member {
    topology: Weak<dyn Topology>,
    pub(crate) number: NodeNumber,
    pub(crate) port: u16,
    /// True while nothing arrives from the primary.
    is_cut: AtomicBool,
    /// Delay of what arrives from the primary, in milliseconds.
    lag_ms: AtomicU64,
    /// Routes of a node of a cluster.
    routes: RwLock<Option<Arc<RoutingTable>>>,
}

/// Facts by which a node of a cluster decides if it serves a key.
pub(crate) struct RoutingTable {
    pub(crate) routes: Routes,
    /// The ports of all nodes.
    pub(crate) ports: Vec<u16>,
}

impl RoutingTable {
    /// Returns the owner of a slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeNumber> {
        let owner = self.routes.owners.get(usize::from(slot)).copied()?;
        (owner != NO_OWNER).then(|| owner.into())
    }

    /// Returns true if a node is the primary of the shard of this one.
    pub(crate) fn is_of_shard(&self, owner: NodeNumber) -> bool {
        owner == self.routes.primary.unwrap_or(self.routes.own)
    }

    /// Returns true if slots are being moved from or to the node.
    pub(crate) fn has_moving_slots(&self) -> bool {
        !self.routes.migrating.is_empty() || !self.routes.importing.is_empty()
    }
}

impl Member {
    pub(crate) fn new(topology: Weak<dyn Topology>, number: NodeNumber, port: u16) -> Self {
        Member {
            topology,
            number,
            port,
            is_cut: AtomicBool::new(false),
            lag_ms: AtomicU64::new(0),
            routes: RwLock::default(),
        }
    }

    /// Returns the topology; `None` once it has ended.
    pub(crate) fn topology(&self) -> Option<Arc<dyn Topology>> {
        self.topology.upgrade()
    }

    pub(crate) fn routes(&self) -> Option<Arc<RoutingTable>> {
        self.routes.read().clone()
    }

    pub(crate) fn set_routes(&self, routes: RoutingTable) {
        *self.routes.write() = Some(Arc::new(routes));
    }

    /// Sets the state of the link from the primary: if it is cut, and its delay.
    pub(crate) fn set_link(&self, is_cut: bool, lag_ms: u64) {
        self.is_cut.store(is_cut, Relaxed);
        self.lag_ms.store(lag_ms, Relaxed);
    }

    pub(crate) fn lag_ms(&self) -> u64 {
        self.lag_ms.load(Relaxed)
    }

    /// Returns the delay of the link from the primary; `None` while it is cut.
    pub(super) fn link_delay(&self) -> Option<Duration> {
        (!self.is_cut.load(Relaxed)).then(|| Duration::from_millis(self.lag_ms()))
    }
}

/// The topologies made in an instance, by name; their nodes have the same list.
pub(crate) type Topologies = Arc<Mutex<BTreeMap<Box<[u8]>, Arc<dyn Topology>>>>;
