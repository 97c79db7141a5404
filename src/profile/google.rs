//! Services of Google Cloud: Memorystore for Redis, and Memorystore for Redis Cluster.

use crate::profile::redis::version;
use crate::profile::service::{Limits, Profile, Slots};
use crate::profile::texts::RefusalReply;

/// Memorystore for Redis, with Redis 7.2, the newest that it has.
/// <https://docs.cloud.google.com/memorystore/docs/redis>
///
/// The errors are those of Redis: <https://github.com/spring-projects/spring-data-redis/issues/3151>
pub(super) static MEMORYSTORE: Profile = Profile {
    // <https://cloud.google.com/memorystore/docs/redis/product-constraints>; of CLIENT, which that page blocks, a newer one
    // allows some subcommands from Redis 6 on: <https://docs.cloud.google.com/memorystore/docs/redis/supported-commands>
    refused: &[
        "acl",
        "bgrewriteaof",
        "bgsave",
        "client|no-evict",
        "client|pause",
        "client|setinfo",
        "client|unblock",
        "client|unpause",
        "cluster",
        "command",
        "config",
        "debug",
        "lastsave",
        "migrate",
        "monitor",
        "object",
        "replicaof",
        "save",
        "shutdown",
    ],
    // <https://docs.cloud.google.com/memorystore/docs/redis/quotas>
    databases: Some(16),
    limits: Limits { clients: Some(65_000), ..Limits::NONE },
    ..version("memorystore", "7.2.4")
};

/// Memorystore for Redis Cluster, with Redis 7.2.
/// <https://docs.cloud.google.com/memorystore/docs/cluster/memorystore-for-redis-cluster-overview>
pub(super) static MEMORYSTORE_CLUSTER: Profile = Profile {
    // The commands from A to D that the list of supported ones does not have; the rest of the list was not to be found.
    // <https://docs.cloud.google.com/memorystore/docs/cluster/supported-commands>
    refused: &[
        "acl",
        "bgrewriteaof",
        "bgsave",
        "client|no-evict",
        "client|no-touch",
        "client|pause",
        "client|setinfo",
        "client|unblock",
        "client|unpause",
        "cluster|addslots",
        "cluster|addslotsrange",
        "cluster|bumpepoch",
        "cluster|delslots",
        "cluster|delslotsrange",
        "cluster|failover",
        "cluster|flushslots",
        "cluster|forget",
        "cluster|meet",
        "cluster|myshardid",
        "cluster|replicate",
        "cluster|reset",
        "cluster|saveconfig",
        "cluster|set-config-epoch",
        "cluster|setslot",
        "config|get",
        "config|resetstat",
        "config|rewrite",
        "config|set",
        "debug",
    ],
    // What is not supported gets NOPERM: the same page.
    refusal: RefusalReply::NoPermission,
    slots: Slots::Cluster,
    // The default of nodes of the type redis-standard-small: <https://docs.cloud.google.com/memorystore/docs/cluster/quotas>
    limits: Limits { clients: Some(16_000), ..Limits::NONE },
    ..version("memorystore-cluster", "7.2.4")
};
