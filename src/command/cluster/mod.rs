//! CLUSTER and other commands of cluster clients. With `cluster-enabled yes` this server is a cluster of one node, with all
//! slots; what would change that is refused. Otherwise all of it is refused, by which clients recognise a standalone server.

mod address;
mod change;
mod describe;
mod node;
mod scan;
mod slot_stats;
mod slots;

use crate::command::cluster::node::own_node;
use crate::dispatch::call::Handler;
use crate::dispatch::{Call, Command};
use crate::error::Result;
use crate::spec::marks::{ASKS, Marks, NEEDS_FRESH_KEYS, ONLY_VALKEY, READS_ANY_KEY};
use crate::spec::{
    ADMIN, Arg, FAST, Flags, Group, LOADING, NO_ASYNC_LOADING, NO_SCRIPT, READ, STALE, block, integer, one_of, pattern,
    string, token,
};

const ASK: Flags = STALE;
const RULE: Flags = STALE | ADMIN;
const CHANGE: Flags = RULE | NO_ASYNC_LOADING;

/// Marks of subcommands about all keys, which the arguments do not name.
const ON_KEYS: Marks = NEEDS_FRESH_KEYS | READS_ANY_KEY;

const TIPS: &[&str] = &["nondeterministic_output"];
const CONNECTION: &[&str] = &["connection"];
const KEYSPACE: &[&str] = &["keyspace"];
const SCAN: &[Arg] = &[
    string("cursor"),
    pattern("match-pattern").token("MATCH").optional(),
    integer("count").token("COUNT").optional(),
    string("type").token("TYPE").optional(),
    integer("slot").token("SLOT").optional(),
];
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

const SCAN_COST: &str = "O(N) where N is the number of elements returned.";
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
const fn sub(name: &'static str, handler: Handler, flags: Flags, args: &'static [Arg]) -> Command {
    Command::new(name, handler, flags, Group::Cluster).args(args)
}

/// Declares a subcommand of CLUSTER that would change the slots or nodes.
const fn change(name: &'static str, handler: Handler, args: &'static [Arg]) -> Command {
    sub(name, handler, CHANGE, args)
}

#[rustfmt::skip] // every row has its name, its arguments and its docs on a line or two
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("ASKING", asking, FAST, Group::Cluster).marks(ASKS).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Announces that the client follows an ASK redirection."),
    Command::container("CLUSTER", Group::Cluster, &[
        change("ADDSLOTS", change::add_slots, SLOTS).docs("3.0.0", PER_SLOT, "Assigns slots to a node."),
        change("ADDSLOTSRANGE", change::add_ranges, RANGES).docs("7.0.0", PER_RANGE, "Assigns ranges of slots to a node."),
        change("BUMPEPOCH", change::bump_epoch, &[]).tips(TIPS).docs("3.0.0", "O(1)", "Advances a node's configuration epoch."),
        sub("COUNT-FAILURE-REPORTS", node::count_failure_reports, RULE, NODE).tips(TIPS)
            .docs("3.0.0", PER_REPORT, "Counts the failure reports about a node."),
        sub("COUNTKEYSINSLOT", slots::count_keys, ASK, &[integer("slot")]).marks(ON_KEYS).docs("3.0.0", "O(1)", "Counts the keys of a slot."),
        change("DELSLOTS", change::del_slots, SLOTS).docs("3.0.0", PER_SLOT, "Unassigns slots from a node."),
        change("DELSLOTSRANGE", change::del_ranges, RANGES).docs("7.0.0", PER_RANGE, "Unassigns ranges of slots from a node."),
        change("FAILOVER", change::failover, FAILOVER).docs("3.0.0", "O(1)", "Starts a manual failover to a replica."),
        change("FLUSHSLOTS", change::flush_slots, &[]).docs("3.0.0", "O(1)", "Unassigns all slots from a node."),
        change("FORGET", change::forget, NODE).docs("3.0.0", "O(1)", "Removes a node from the cluster."),
        sub("GETKEYSINSLOT", slots::get_keys, ASK, &[integer("slot"), integer("count")]).marks(ON_KEYS).tips(TIPS)
            .docs("3.0.0", PER_KEY, "Lists keys of a slot."),
        sub("HELP", help, LOADING | STALE, &[]).docs("5.0.0", "O(1)", "Describes the subcommands."),
        sub("INFO", node::info, ASK, &[]).tips(TIPS).docs("3.0.0", "O(1)", "Describes the state of a node."),
        sub("KEYSLOT", slots::key_slot, ASK, &[string("key")]).docs("3.0.0", PER_BYTE, "Returns the slot of a key."),
        sub("LINKS", node::links, ASK, &[]).tips(TIPS).docs("7.0.0", PER_NODE, "Lists the links between nodes."),
        change("MEET", change::meet, MEET).docs("3.0.0", "O(1)", "Adds a node to the cluster."),
        sub("MYID", node::my_id, ASK, &[]).docs("3.0.0", "O(1)", "Returns the id of a node."),
        sub("MYSHARDID", node::my_shard_id, ASK, &[]).tips(TIPS).docs("7.2.0", "O(1)", "Returns the id of a node's shard."),
        sub("NODES", node::nodes, ASK, &[]).tips(TIPS).docs("3.0.0", PER_NODE, "Returns the configuration of all nodes."),
        sub("REPLICAS", node::replicas, RULE, NODE).tips(TIPS).docs("5.0.0", "O(1)", "Lists the replicas of a primary."),
        change("REPLICATE", change::replicate, NODE).docs("3.0.0", "O(1)", "Makes a node a replica of another one."),
        sub("RESET", change::reset, RULE | NO_SCRIPT, RESET).docs("3.0.0", RESET_COST, "Resets a node."),
        sub("SAVECONFIG", node::save_config, CHANGE, &[]).docs("3.0.0", "O(1)", "Saves the cluster configuration of a node."),
        change("SET-CONFIG-EPOCH", change::set_config_epoch, &[integer("config-epoch")]).docs("3.0.0", "O(1)", "Sets the configuration epoch of a new node."),
        change("SETSLOT", change::set_slot, SET_SLOT).docs("3.0.0", "O(1)", "Assigns or migrates a slot."),
        sub("SHARDS", node::shards, ASK, &[]).tips(TIPS).docs("7.0.0", PER_SHARD, "Lists the shards with their slots and nodes."),
        sub("SLAVES", node::replicas, RULE, NODE).tips(TIPS).deprecated("5.0.0", "`CLUSTER REPLICAS`")
            .docs("3.0.0", "O(1)", "Lists the replicas of a primary."),
        sub("SLOT-STATS", slot_stats::slot_stats, LOADING | STALE, SLOT_STATS).marks(ON_KEYS).arity(-4).tips(&["nondeterministic_output", "request_policy:all_shards"])
            .valkey("8.0.0")
            .docs("8.2.0", SLOT_STATS_COST, "Returns usage statistics of slots."),
        sub("SLOTS", node::slots, ASK, &[]).tips(TIPS).deprecated("7.0.0", "`CLUSTER SHARDS`")
            .docs("3.0.0", PER_NODE, "Lists the slots with their nodes."),
    ])
    .docs("3.0.0", "Depends on subcommand.", "Contains the cluster subcommands."),
    Command::new("CLUSTERSCAN", scan::cluster_scan, READ, Group::Cluster).categories(KEYSPACE).args(SCAN).tips(TIPS).marks(ONLY_VALKEY)
        .docs("9.1.0", SCAN_COST, "Iterates over the keys of a cluster."),
    Command::new("READONLY", readonly, LOADING | STALE | FAST, Group::Cluster).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Allows reads from a replica on this connection."),
    Command::new("READWRITE", readwrite, LOADING | STALE | FAST, Group::Cluster).categories(CONNECTION)
        .docs("3.0.0", "O(1)", "Ends READONLY on this connection."),
];

fn asking(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    call.caller.is_asking = true;
    call.reply.ok();
    Ok(())
}

fn readonly(call: &mut Call<'_>) -> Result<()> {
    set_reads_replica(call, true)
}

fn readwrite(call: &mut Call<'_>) -> Result<()> {
    set_reads_replica(call, false)
}

/// Allows or ends reads from a replica: in a cluster, and, as in Valkey, for a client that follows redirections.
fn set_reads_replica(call: &mut Call<'_>, reads_replica: bool) -> Result<()> {
    match call.session() {
        Ok(session) if session.is_redirected => {}
        _ => own_node(call).map(|_| ())?,
    }
    call.caller.reads_replica = reads_replica;
    call.reply.ok();
    Ok(())
}

fn help(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    crate::command::server::help::help(call)
}
