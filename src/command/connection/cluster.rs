//! CLUSTER and other commands of cluster clients: the replies say that this server is not a cluster.
//!
//! Clients call these commands on connect and recognise a standalone server by the reply; an unknown command would make
//! some of them give up.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{
    ADMIN, Arg, FAST, Flags, Group, LOADING, NO_ASYNC_LOADING, NO_SCRIPT, STALE, block, integer, one_of, string, token,
};

const ASK: Flags = STALE;
const RULE: Flags = STALE | ADMIN;
const CHANGE: Flags = RULE | NO_ASYNC_LOADING;

const TIPS: &[&str] = &["nondeterministic_output"];
const CONNECTION: &[&str] = &["connection"];
const NODE: &[Arg] = &[string("node-id")];
const SLOTS: &[Arg] = &[integer("slot").multiple()];
const RANGES: &[Arg] = &[block("start-slot_end-slot", &[integer("start-slot"), integer("end-slot")]).multiple()];
const MEET: &[Arg] = &[string("ip"), integer("port"), integer("cluster_bus_port").optional().since("4.0.0")];
const RESET: &[Arg] = &[one_of("hard_soft", &[token("hard", "HARD"), token("soft", "SOFT")]).optional()];
const FAILOVER: &[Arg] = &[one_of("options", &[token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional()];
const SET_SLOT: &[Arg] = &[
    integer("slot"),
    one_of(
        "subcommand",
        &[
            string("node-id").token("IMPORTING"),
            string("node-id").token("MIGRATING"),
            string("node-id").token("NODE"),
            token("stable", "STABLE"),
        ],
    ),
];

const SLOT_STATS: &[Arg] = &[one_of(
    "filter",
    &[
        block("slotsrange", &[integer("start-slot"), integer("end-slot")]).token("SLOTSRANGE"),
        block(
            "orderby",
            &[
                string("metric"),
                integer("limit").token("LIMIT").optional(),
                one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
            ],
        )
        .token("ORDERBY"),
    ],
)];

const PER_NODE: &str = "O(N) where N is the total number of Cluster nodes";
const PER_SHARD: &str = "O(N) where N is the total number of cluster nodes";
const PER_SLOT: &str = "O(N) where N is the total number of hash slot arguments";
const PER_RANGE: &str = "O(N) where N is the total number of the slots between the start slot and end slot arguments.";
const PER_REPORT: &str = "O(N) where N is the number of failure reports";
const PER_BYTE: &str = "O(N) where N is the number of bytes in the key";
const PER_KEY: &str = "O(log(N)) where N is the number of requested keys";
const SLOT_STATS_COST: &str = "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with ORDERBY \
subcommand.";
const RESET_COST: &str =
    "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.";

/// Declares a subcommand of CLUSTER.
const fn sub(name: &'static str, flags: Flags, args: &'static [Arg]) -> Command {
    Command::new(name, refuse, flags, Group::Cluster).args(args)
}

#[rustfmt::skip] // every row has its name, its arguments and its docs on a line or two
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("ASKING", refuse, FAST, Group::Cluster).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Announces that the client follows an ASK redirection."),
    Command::container("CLUSTER", Group::Cluster, &[
        sub("ADDSLOTS", CHANGE, SLOTS).docs("3.0.0", PER_SLOT, "Assigns slots to a node."),
        sub("ADDSLOTSRANGE", CHANGE, RANGES).docs("7.0.0", PER_RANGE, "Assigns ranges of slots to a node."),
        sub("BUMPEPOCH", CHANGE, &[]).tips(TIPS).docs("3.0.0", "O(1)", "Advances a node's configuration epoch."),
        sub("COUNT-FAILURE-REPORTS", RULE, NODE).tips(TIPS)
            .docs("3.0.0", PER_REPORT, "Counts the failure reports about a node."),
        sub("COUNTKEYSINSLOT", ASK, &[integer("slot")]).docs("3.0.0", "O(1)", "Counts the keys of a slot."),
        sub("DELSLOTS", CHANGE, SLOTS).docs("3.0.0", PER_SLOT, "Unassigns slots from a node."),
        sub("DELSLOTSRANGE", CHANGE, RANGES).docs("7.0.0", PER_RANGE, "Unassigns ranges of slots from a node."),
        sub("FAILOVER", CHANGE, FAILOVER).docs("3.0.0", "O(1)", "Starts a manual failover to a replica."),
        sub("FLUSHSLOTS", CHANGE, &[]).docs("3.0.0", "O(1)", "Unassigns all slots from a node."),
        sub("FORGET", CHANGE, NODE).docs("3.0.0", "O(1)", "Removes a node from the cluster."),
        sub("GETKEYSINSLOT", ASK, &[integer("slot"), integer("count")]).tips(TIPS)
            .docs("3.0.0", PER_KEY, "Lists keys of a slot."),
        sub("HELP", LOADING | STALE, &[]).docs("5.0.0", "O(1)", "Describes the subcommands."),
        sub("INFO", ASK, &[]).tips(TIPS).docs("3.0.0", "O(1)", "Describes the state of a node."),
        sub("KEYSLOT", ASK, &[string("key")]).docs("3.0.0", PER_BYTE, "Returns the slot of a key."),
        sub("LINKS", ASK, &[]).tips(TIPS).docs("7.0.0", PER_NODE, "Lists the links between nodes."),
        sub("MEET", CHANGE, MEET).docs("3.0.0", "O(1)", "Adds a node to the cluster."),
        sub("MYID", ASK, &[]).docs("3.0.0", "O(1)", "Returns the id of a node."),
        sub("MYSHARDID", ASK, &[]).tips(TIPS).docs("7.2.0", "O(1)", "Returns the id of a node's shard."),
        sub("NODES", ASK, &[]).tips(TIPS).docs("3.0.0", PER_NODE, "Returns the configuration of all nodes."),
        sub("REPLICAS", RULE, NODE).tips(TIPS).docs("5.0.0", "O(1)", "Lists the replicas of a primary."),
        sub("REPLICATE", CHANGE, NODE).docs("3.0.0", "O(1)", "Makes a node a replica of another one."),
        sub("RESET", RULE | NO_SCRIPT, RESET).docs("3.0.0", RESET_COST, "Resets a node."),
        sub("SAVECONFIG", CHANGE, &[]).docs("3.0.0", "O(1)", "Saves the cluster configuration of a node."),
        sub("SET-CONFIG-EPOCH", CHANGE, &[integer("config-epoch")]).docs("3.0.0", "O(1)", "Sets the configuration epoch of a new node."),
        sub("SETSLOT", CHANGE, SET_SLOT).docs("3.0.0", "O(1)", "Assigns or migrates a slot."),
        sub("SHARDS", ASK, &[]).tips(TIPS).docs("7.0.0", PER_SHARD, "Lists the shards with their slots and nodes."),
        sub("SLAVES", RULE, NODE).tips(TIPS).deprecated("5.0.0", "`CLUSTER REPLICAS`")
            .docs("3.0.0", "O(1)", "Lists the replicas of a primary."),
        sub("SLOT-STATS", LOADING | STALE, SLOT_STATS).arity(-4).tips(&["nondeterministic_output", "request_policy:all_shards"])
            .docs("8.0.0", SLOT_STATS_COST, "Returns usage statistics of slots."),
        sub("SLOTS", ASK, &[]).tips(TIPS).deprecated("7.0.0", "`CLUSTER SHARDS`")
            .docs("3.0.0", PER_NODE, "Lists the slots with their nodes."),
    ])
    .docs("3.0.0", "Depends on subcommand.", "Contains the cluster subcommands; this server is not a cluster."),
    Command::new("READONLY", readonly, LOADING | STALE | FAST, Group::Cluster).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Allows reads from a replica on this connection."),
    Command::new("READWRITE", readwrite, LOADING | STALE | FAST, Group::Cluster).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Ends READONLY on this connection."),
];

fn readonly(call: &mut Call<'_>) -> Result<()> {
    set_reads_replica(call, true)
}

fn readwrite(call: &mut Call<'_>) -> Result<()> {
    set_reads_replica(call, false)
}

/// Allows or ends reads from a replica for a client that follows redirections, as Valkey does outside of a cluster.
fn set_reads_replica(call: &mut Call<'_>, reads_replica: bool) -> Result<()> {
    match call.session() {
        Ok(session) if session.is_redirected => session.reads_replica = reads_replica,
        _ => return refuse(call),
    }
    call.reply.ok();
    Ok(())
}

fn refuse(_: &mut Call<'_>) -> Result<()> {
    Err(Error::other("This instance has cluster support disabled"))
}
