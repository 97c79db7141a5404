//! Services of Amazon: ElastiCache, node-based and serverless, and MemoryDB.

use crate::profile::service::{Profile, ScriptRules, Slots};
use crate::profile::texts::NoCommand;
use crate::profile::valkey::{self, of_7_2};

/// JSON. <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/json-list-commands.html>
const JSON: &[&str] = &["json"];
/// JSON, and Bloom filters, with Valkey 8.1.
/// <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/SupportedCommands.html>
const JSON_AND_BLOOM: &[&str] = &["json", "bf"];

/// The restricted commands of ElastiCache.
/// <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html>
const RESTRICTED: [&str; 10] =
    ["bgrewriteaof", "bgsave", "config", "debug", "migrate", "replicaof", "save", "shutdown", "slaveof", "sync"];

/// ElastiCache on nodes, with Valkey 8.1 and cluster mode disabled; other versions and cluster mode can be chosen there.
/// <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/engine-versions.html>
pub(super) static ELASTICACHE: Profile = Profile {
    modules: JSON_AND_BLOOM,
    refused: &RESTRICTED,
    // The name of the system in INFO: <https://github.com/felixmosh/bull-board/issues/457>
    ..valkey::version(
        "elasticache",
        "8.1.0",
        &[("server_name", "valkey"), ("valkey_version", "8.1.0"), ("os", "Amazon ElastiCache")],
    )
};

/// ElastiCache Serverless, with Valkey 8.0, always in cluster mode.
/// <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/WhatIs.corecomponents.html>
pub(super) static ELASTICACHE_SERVERLESS: Profile = Profile {
    modules: JSON,
    refused: &SERVERLESS_RESTRICTED,
    // The name in lower case, and one argument as it is: <https://github.com/langfuse/langfuse/issues/9443>,
    // <https://github.com/redis/jedis/issues/3766>
    no_command: NoCommand::FirstArgument,
    // <https://repost.aws/questions/QUXz_Eoe5bTvGs7mzEOkRxNw/trouble-with-integration-amazon-elasticache-err-select-is-not-allowed-in-cluster-mode>
    slots: Slots::Cluster,
    scripts: ScriptRules {
        // <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/BestPractices.Clients.Redis.LuaScripts.html>
        without_keys: Some("ERR Lua scripts without any input keys are not supported."),
        // <https://github.com/taskforcesh/bullmq/issues/2787>
        in_transaction: Some("ERR command not supported inside transaction"),
        undeclared_key: None,
    },
    ..valkey::version("elasticache-serverless", "8.0.0", &[("server_name", "valkey"), ("valkey_version", "8.0.0")])
};

/// The restricted commands of ElastiCache, and what serverless caches refuse besides, as far as it was to be found: KEYS
/// (<https://repost.aws/questions/QUVJ3PbTE8RXmmhsDNJq8Oig/redis-cache-serverless-keys>), LASTSAVE and LATENCY
/// (<https://github.com/oliver006/redis_exporter/issues/1054>), and MEMORY (<https://github.com/redis/jedis/issues/3766>).
const SERVERLESS_RESTRICTED: [&str; 14] = [
    "bgrewriteaof",
    "bgsave",
    "config",
    "debug",
    "keys",
    "lastsave",
    "latency",
    "memory",
    "migrate",
    "replicaof",
    "save",
    "shutdown",
    "slaveof",
    "sync",
];

/// MemoryDB, with Valkey 7.2, always in cluster mode.
/// <https://docs.aws.amazon.com/memorydb/latest/devguide/engine-versions.html>
pub(super) static MEMORYDB: Profile = Profile {
    modules: JSON,
    // <https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html>
    refused: &[
        "acl|deluser",
        "acl|load",
        "acl|save",
        "acl|setuser",
        "bgrewriteaof",
        "bgsave",
        "cluster|addslots",
        "cluster|addslotsrange",
        "cluster|delslots",
        "cluster|delslotsrange",
        "cluster|setslot",
        "config",
        "debug",
        "migrate",
        "module",
        "psync",
        "replicaof",
        "save",
        "shutdown",
        "slaveof",
        "sync",
    ],
    // <https://github.com/celery/celery/issues/9019>, <https://github.com/taskforcesh/bullmq/issues/2216>
    slots: Slots::Cluster,
    ..of_7_2("memorydb", &[("server_name", "valkey"), ("valkey_version", "7.2.6")])
};
