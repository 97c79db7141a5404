//! TEST.CLUSTER and TEST.TOPOLOGY: whole clusters in this process, and what happens to their nodes.

use std::sync::Arc;

use crate::client::registry::Unblocked;
use crate::command::test_mode::controls::CONTROLS;
use crate::command::topology::{perform, write_nodes};
use crate::dispatch::args::is_word;
use crate::dispatch::{
    Call, Command, Continuation, Env, MadeTopology, NewTopology, TopologyAccess, TopologyKind, Wait,
};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::member::{Operation, Topology};
use crate::resp::Reply;
use crate::spec::{Arg, Group, integer, string, token};
use crate::store::View;
use crate::topology::SLOT_COUNT;
use crate::topology::Slot;
use crate::topology::cluster::NodeNumber;
use crate::topology::sentinel::{SENTINELS_MAX, SentinelPlan};

/// The largest number of nodes of a topology.
const NODES_MAX: usize = 1000;
/// The default of NODE-TIMEOUT, in milliseconds.
const NODE_TIMEOUT_MS: u64 = 15_000;

const PER_NODE: &str = "O(N) where N is the number of nodes.";
const PER_KEY: &str = "O(N) where N is the number of keys of the node.";
const NAME: Arg = string("name").about("The name of the topology.");
const NODE: Arg = integer("node").about("The number of the node.");

#[rustfmt::skip] // every argument is on a line of its own
const CREATE: &[Arg] = &[
    NAME,
    integer("primaries").token("PRIMARIES").optional().about("The number of primaries; 3 without it."),
    integer("replicas").token("REPLICAS").optional().about("The number of replicas of each primary; 1 without it."),
    integer("nodes").token("EMPTY").optional().about("Makes so many nodes instead that know nothing of each other."),
    integer("milliseconds").token("NODE-TIMEOUT").optional().about("The time after which a node that does not answer counts as failed; 15000 without it."),
    string("username").token("USER").optional().about("The only user of the nodes, with the password."),
    string("password").token("PASSWORD").optional().about("The password that the nodes ask for."),
    token("tls", "TLS").optional().about("The nodes speak TLS, with the certificate of the server."),
];

#[rustfmt::skip] // every argument is on a line of its own
const CREATE_SENTINELS: &[Arg] = &[
    NAME,
    integer("replicas").token("REPLICAS").optional().about("The number of replicas; 2 without it."),
    integer("sentinels").token("SENTINELS").optional().about("The number of sentinels; 3 without it."),
    integer("quorum").token("QUORUM").optional().about("How many sentinels have to agree that the master is down; 2 without it."),
    string("master-name").token("MASTER").optional().about("The name of the master; mymaster without it."),
    integer("down-after").token("DOWN-AFTER").optional().about("The time in milliseconds after which a node that does not answer is down; 30000 without it."),
    integer("failover-timeout").token("FAILOVER-TIMEOUT").optional().about("The time in milliseconds between attempts, halved; 180000 without it."),
    string("username").token("USER").optional().about("The only user of master and replicas, with the password."),
    string("password").token("PASSWORD").optional().about("The password that master and replicas ask for."),
    string("sentinel-password").token("SENTINEL-PASSWORD").optional().about("The password that sentinels ask for."),
    token("tls", "TLS").optional().about("The nodes speak TLS, with the certificate of the server."),
];

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(super) const COMMANDS: &[Command] = &[
    Command::container("TEST.CLUSTER", Group::Test, &[
        Command::new("ADD", add, CONTROLS, Group::Test)
            .args(&[NAME, integer("primary").token("REPLICA-OF").optional().about("The number of its primary.")])
            .docs("0.2.0", PER_NODE, "Adds an empty node, and returns its map."),
        Command::new("CREATE", create_cluster, CONTROLS, Group::Test).args(CREATE)
            .docs("0.2.0", PER_NODE, "Makes a cluster, each node of which has a port, and returns a map for each node."),
        Command::new("FAILOVER", failover, CONTROLS, Group::Test)
            .args(&[NAME, NODE, integer("writes").token("LOSE").optional().about("How many of the last writes of the old primary are lost.")])
            .docs("0.2.0", PER_NODE, "Makes a replica the primary of its slots; all nodes know when it replies."),
        Command::new("HEAL", heal, CONTROLS, Group::Test).args(&[NAME])
            .docs("0.2.0", PER_NODE, "Ends a partition."),
        Command::new("LAG", lag, CONTROLS, Group::Test)
            .args(&[NAME, NODE, integer("milliseconds").about("By how much writes of the primary are late.")])
            .docs("0.2.0", "O(1)", "Delays the writes that a replica gets, until it is promoted."),
        Command::new("MIGRATE", migrate, CONTROLS, Group::Test)
            .args(&[
                NAME,
                string("slots").about("A slot, or the first and the last of some, joined by a hyphen."),
                NODE,
                integer("count").token("KEYS").optional().about("Moves so many keys only; the slots stay between the two nodes."),
            ])
            .docs("0.2.0", PER_KEY, "Moves slots with their keys to a node."),
        Command::new("NODES", nodes, CONTROLS, Group::Test).args(&[NAME])
            .docs("0.2.0", PER_NODE, "Returns a map for each node."),
        Command::new("PARTITION", partition, CONTROLS, Group::Test).args(&[NAME, NODE.multiple()])
            .docs("0.2.0", PER_NODE, "Cuts nodes off from the others; clients reach all."),
        Command::new("PAUSE", pause, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Suspends a node: it accepts connections, and answers nothing."),
        Command::new("REMOVE", remove, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Removes a node that has no slots."),
        Command::new("RESUME", resume, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Continues a suspended node."),
        Command::new("START", start, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Starts a stopped node again, with its data."),
        Command::new("STOP", stop, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Ends the process of a node: its connections are cut, further ones refused."),
    ])
    .help_since("0.2.0")
    .docs("0.2.0", "Depends on subcommand.", "Contains the subcommands for clusters in this process."),
    Command::container("TEST.SENTINEL", Group::Test, &[
        Command::new("CREATE", create_sentinels, CONTROLS, Group::Test).args(CREATE_SENTINELS)
            .docs("0.2.0", PER_NODE, "Makes a master with replicas and sentinels, each with a port, and returns a map for each."),
        Command::new("FAILOVER", fail_over_by_sentinels, CONTROLS, Group::Test)
            .args(&[
                NAME,
                integer("node").token("TO").optional().about("The number of the replica; the best one without it."),
                integer("writes").token("LOSE").optional().about("How many of the last writes of the old master are lost."),
            ])
            .docs("0.2.0", PER_NODE, "Makes a replica the master; all sentinels that are up know when it replies."),
        Command::new("HEAL", heal, CONTROLS, Group::Test).args(&[NAME])
            .docs("0.2.0", PER_NODE, "Ends a partition."),
        Command::new("LAG", lag, CONTROLS, Group::Test)
            .args(&[NAME, NODE, integer("milliseconds").about("By how much writes of the master are late.")])
            .docs("0.2.0", "O(1)", "Delays the writes that a replica gets, until it is promoted."),
        Command::new("NODES", nodes, CONTROLS, Group::Test).args(&[NAME])
            .docs("0.2.0", PER_NODE, "Returns a map for each node."),
        Command::new("PARTITION", partition, CONTROLS, Group::Test).args(&[NAME, NODE.multiple()])
            .docs("0.2.0", PER_NODE, "Cuts nodes off from the others; clients reach all."),
        Command::new("PAUSE", pause, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Suspends a node: it accepts connections, and answers nothing."),
        Command::new("RESUME", resume, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Continues a suspended node."),
        Command::new("START", start, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Starts a stopped node again, with its data."),
        Command::new("STOP", stop, CONTROLS, Group::Test).args(&[NAME, NODE])
            .docs("0.2.0", PER_NODE, "Ends the process of a node: its connections are cut, further ones refused."),
    ])
    .help_since("0.2.0")
    .docs("0.2.0", "Depends on subcommand.", "Contains the subcommands for Sentinel deployments in this process."),
    Command::container("TEST.TOPOLOGY", Group::Test, &[
        Command::new("DROP", drop_topology, CONTROLS, Group::Test).args(&[NAME])
            .docs("0.2.0", PER_NODE, "Ends a topology."),
        Command::new("LIST", list, CONTROLS, Group::Test)
            .docs("0.2.0", "O(N) where N is the number of topologies.", "Returns the names of the topologies."),
    ])
    .help_since("0.2.0")
    .docs("0.2.0", "Depends on subcommand.", "Contains the subcommands for all topologies."),
];

fn create_cluster(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?.into();
    let (mut primaries, mut replicas, mut empty, mut timeout) = (None, None, None, None);
    let mut access = TopologyAccess::default();
    while let Some(word) = call.args.next_arg() {
        if read_access(call, word, &mut access)? {
            continue;
        }
        let number = if is_word(word, "PRIMARIES") {
            &mut primaries
        } else if is_word(word, "REPLICAS") {
            &mut replicas
        } else if is_word(word, "EMPTY") {
            &mut empty
        } else if is_word(word, "NODE-TIMEOUT") {
            &mut timeout
        } else {
            return Err(Error::Syntax);
        };
        if number.replace(read_number(call)?).is_some() {
            return Err(Error::Syntax);
        }
    }
    let node_timeout_ms = timeout.unwrap_or(NODE_TIMEOUT_MS);
    let count = |number: Option<u64>, default: u64| usize::try_from(number.unwrap_or(default)).unwrap_or(usize::MAX);
    let (kind, nodes) = match empty {
        Some(_) if primaries.is_some() || replicas.is_some() => return Err(Error::Syntax),
        Some(nodes) => {
            let nodes = count(Some(nodes), 0);
            (TopologyKind::EmptyCluster { nodes, node_timeout_ms }, nodes)
        }
        None => {
            let (primaries, replicas) = (count(primaries, 3), count(replicas, 1));
            let nodes = primaries.saturating_mul(replicas.saturating_add(1));
            (TopologyKind::Cluster { primaries, replicas, node_timeout_ms }, nodes)
        }
    };
    check_count(nodes)?;
    if node_timeout_ms == 0 {
        return Err(Error::other("NODE-TIMEOUT must be positive"));
    }
    check_access(&access)?;
    call.continue_with(Making { new: NewTopology { name, kind, access }, made: MadeTopology::default() })
}

fn create_sentinels(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?.into();
    let (mut plan, mut access, mut seen) = (SentinelPlan::default(), TopologyAccess::default(), Vec::new());
    while let Some(word) = call.args.next_arg() {
        let word_seen = word.to_ascii_uppercase();
        if seen.contains(&word_seen) {
            return Err(Error::Syntax);
        }
        seen.push(word_seen);
        if read_access(call, word, &mut access)? {
        } else if is_word(word, "SENTINEL-PASSWORD") {
            access.sentinel_password = Some(call.args.bytes()?.into());
        } else if is_word(word, "MASTER") {
            plan.master_name = String::from_utf8_lossy(call.args.bytes()?).into_owned();
        } else if is_word(word, "REPLICAS") {
            plan.replicas = read_count(call)?;
        } else if is_word(word, "SENTINELS") {
            plan.sentinels = read_count(call)?;
        } else if is_word(word, "QUORUM") {
            plan.quorum = read_number(call)?;
        } else if is_word(word, "DOWN-AFTER") {
            plan.down_after_ms = read_number(call)?;
        } else if is_word(word, "FAILOVER-TIMEOUT") {
            plan.failover_timeout_ms = read_number(call)?;
        } else {
            return Err(Error::Syntax);
        }
    }
    check_count(plan.replicas.saturating_add(plan.sentinels).saturating_add(1))?;
    if plan.sentinels == 0 || plan.quorum == 0 || plan.down_after_ms == 0 || plan.failover_timeout_ms == 0 {
        return Err(Error::other("SENTINELS, QUORUM, DOWN-AFTER and FAILOVER-TIMEOUT must be positive"));
    }
    if plan.sentinels > SENTINELS_MAX {
        return Err(Error::other(format!("a topology has at most {SENTINELS_MAX} sentinels")));
    }
    check_access(&access)?;
    let kind = TopologyKind::Sentinels(plan);
    call.continue_with(Making { new: NewTopology { name, kind, access }, made: MadeTopology::default() })
}

/// Checks the number of nodes of a topology.
fn check_count(nodes: usize) -> Result<()> {
    if (1..=NODES_MAX).contains(&nodes) {
        return Ok(());
    }
    Err(Error::other(format!("a topology has from 1 to {NODES_MAX} nodes")))
}

fn read_count(call: &mut Call<'_>) -> Result<usize> {
    Ok(usize::try_from(read_number(call)?).unwrap_or(usize::MAX))
}

/// Reads an option of who may use the nodes; returns false if the word is none.
pub(super) fn read_access(call: &mut Call<'_>, word: &[u8], access: &mut TopologyAccess) -> Result<bool> {
    let is_repeated = if is_word(word, "USER") {
        access.user.replace(call.args.bytes()?.into()).is_some()
    } else if is_word(word, "PASSWORD") {
        access.password.replace(call.args.bytes()?.into()).is_some()
    } else if is_word(word, "TLS") {
        std::mem::replace(&mut access.tls, true)
    } else {
        return Ok(false);
    };
    if is_repeated { Err(Error::Syntax) } else { Ok(true) }
}

/// Checks the options of who may use the nodes.
pub(super) fn check_access(access: &TopologyAccess) -> Result<()> {
    let lacks_password = access.user.is_some() && access.password.is_none();
    if lacks_password { Err(Error::other("USER needs PASSWORD")) } else { Ok(()) }
}

/// Reads a number that is not negative.
pub(super) fn read_number(call: &mut Call<'_>) -> Result<u64> {
    u64::try_from(call.args.int()?).map_err(|_| Error::NotPositive)
}

/// The continuation that replies once a topology is made.
struct Making {
    new: NewTopology,
    made: MadeTopology,
}

impl Continuation for Making {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Topology(&self.new, &mut self.made)
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let nodes = self.made.0.take().unwrap_or(Err(Error::other("a topology cannot be made in a transaction")))?;
        write_nodes(reply, &nodes, false);
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Returns the topology of a name.
fn named(namespace: &Namespace, name: &[u8]) -> Result<Arc<dyn Topology>> {
    let found = namespace.topologies.lock().get(name).cloned();
    found.ok_or_else(|| Error::other(format!("there is no topology '{}'", name.escape_ascii())))
}

/// Performs an operation on the topology that the first argument names.
fn operate(call: &mut Call<'_>, read: impl FnOnce(&mut Call<'_>) -> Result<Operation>) -> Result<()> {
    let topology = named(call.namespace, call.args.bytes()?)?;
    let operation = read(call)?;
    perform(call, topology, operation)
}

fn read_node(call: &mut Call<'_>) -> Result<NodeNumber> {
    let number = call.args.int()?;
    NodeNumber::try_from(number).map_err(|_| Error::other(format!("there is no node {number}")))
}

/// Reads an optional number behind a word.
fn read_option(call: &mut Call<'_>, token: &str) -> Result<Option<u64>> {
    match call.args.next_arg() {
        None => Ok(None),
        Some(word) if is_word(word, token) => read_number(call).map(Some),
        Some(_) => Err(Error::Syntax),
    }
}

fn nodes(call: &mut Call<'_>) -> Result<()> {
    operate(call, |_| Ok(Operation::Nodes))
}

fn failover(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| {
        let node = Some(read_node(call)?);
        let lose = read_option(call, "LOSE")?.map(|lose| usize::try_from(lose).unwrap_or(usize::MAX));
        Ok(Operation::Failover { node, lose })
    })
}

fn fail_over_by_sentinels(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| {
        let (mut node, mut lose) = (None, None);
        while let Some(word) = call.args.next_arg() {
            let is_repeated = if is_word(word, "TO") {
                node.replace(read_node(call)?).is_some()
            } else if is_word(word, "LOSE") {
                lose.replace(read_count(call)?).is_some()
            } else {
                return Err(Error::Syntax);
            };
            if is_repeated {
                return Err(Error::Syntax);
            }
        }
        Ok(Operation::Failover { node, lose })
    })
}

fn stop(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| read_node(call).map(Operation::Stop))
}

fn start(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| read_node(call).map(Operation::Start))
}

fn pause(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| read_node(call).map(Operation::Pause))
}

fn resume(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| read_node(call).map(Operation::Resume))
}

fn partition(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| {
        let mut nodes = vec![read_node(call)?];
        while call.args.left() > 0 {
            nodes.push(read_node(call)?);
        }
        Ok(Operation::Partition(nodes))
    })
}

fn heal(call: &mut Call<'_>) -> Result<()> {
    operate(call, |_| Ok(Operation::Heal))
}

fn lag(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| Ok(Operation::Lag { node: read_node(call)?, ms: read_number(call)? }))
}

fn migrate(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| {
        let slots = read_slots(call.args.bytes()?)?;
        let to = read_node(call)?;
        let keys = read_option(call, "KEYS")?.map(|keys| usize::try_from(keys).unwrap_or(usize::MAX));
        Ok(Operation::Migrate { slots, to, keys })
    })
}

/// Reads a slot, or the first and the last of some.
fn read_slots(text: &[u8]) -> Result<(Slot, Slot)> {
    let text = String::from_utf8_lossy(text);
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    let slot = |text: &str| text.parse::<Slot>().ok().filter(|slot| *slot < SLOT_COUNT);
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(Error::other(format!("'{text}' are no slots"))),
    }
}

fn add(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| {
        let replica_of = read_option(call, "REPLICA-OF")?.map(|node| NodeNumber::try_from(node).unwrap_or(usize::MAX));
        Ok(Operation::Add { replica_of })
    })
}

fn remove(call: &mut Call<'_>) -> Result<()> {
    operate(call, |call| read_node(call).map(Operation::Remove))
}

fn drop_topology(call: &mut Call<'_>) -> Result<()> {
    operate(call, |_| Ok(Operation::Drop))
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let names: Vec<Box<[u8]>> = call.namespace.topologies.lock().keys().cloned().collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}
