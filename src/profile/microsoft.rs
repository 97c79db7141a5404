//! Services of Microsoft: Azure Cache for Redis, and Azure Managed Redis.

use crate::profile::redis::{old_version, version};
use crate::profile::service::{Profile, Slots};

/// Azure Cache for Redis, of the tiers Basic, Standard and Premium, which has Redis 6.0 and no newer one.
/// <https://github.com/chirpstack/chirpstack/issues/680>
///
/// The errors are those of Redis 6: <https://github.com/hhyo/Archery/issues/1451>
pub(super) static AZURE_CACHE: Profile = Profile {
    // <https://learn.microsoft.com/en-us/azure/azure-cache-for-redis/cache-configure#redis-commands-not-supported-in-azure-cache-for-redis>;
    // MODULE: <https://github.com/ruoccofabrizio/azure-open-ai-embeddings-qna/issues/90>
    refused: &[
        "acl",
        "bgrewriteaof",
        "bgsave",
        "cluster|addslots",
        "cluster|delslots",
        "cluster|failover",
        "cluster|flushslots",
        "cluster|forget",
        "cluster|meet",
        "cluster|replicate",
        "cluster|reset",
        "cluster|set-config-epoch",
        "cluster|setslot",
        "config",
        "debug",
        "migrate",
        "module",
        "replicaof",
        "save",
        "shutdown",
        "slaveof",
    ],
    // By default; larger tiers can have up to 64. The same page.
    databases: Some(16),
    ..old_version("azure-cache", "6.0.14")
};

/// Azure Managed Redis, with Redis Enterprise 7.4, JSON and the probabilistic types, and the Enterprise clustering policy: one
/// address, behind which the keys of a call still have to be in one slot.
/// <https://learn.microsoft.com/en-us/azure/redis/architecture>
pub(super) static AZURE_MANAGED_REDIS: Profile = Profile {
    modules: &["json", "bf", "cf", "cms", "topk", "tdigest"],
    refused: ENTERPRISE_REFUSED,
    // <https://learn.microsoft.com/en-us/training/modules/implement-data-operations-azure-managed-redis/3-client-libraries-best-practices>
    slots: Slots::Proxied(&["del", "exists", "mget", "mset", "touch", "unlink"]),
    // <https://github.com/onyx-dot-app/onyx/pull/14200>
    databases: Some(1),
    ..version("azure-managed-redis", "7.4.3")
};

/// The commands that Redis Enterprise does not have.
/// <https://redis.io/docs/latest/operate/rs/references/compatibility/commands/>
const ENTERPRISE_REFUSED: &[&str] = &[
    "acl|deluser",
    "acl|genpass",
    "acl|load",
    "acl|log",
    "acl|save",
    "acl|setuser",
    "asking",
    "bgrewriteaof",
    "bgsave",
    "client|getredir",
    "client|no-evict",
    "client|pause",
    "client|reply",
    "client|unpause",
    "cluster",
    "config|resetstat",
    "debug",
    "failover",
    "migrate",
    "module|help",
    "module|load",
    "module|loadex",
    "module|unload",
    "move",
    "readonly",
    "readwrite",
    "reset",
    "save",
    "shutdown",
    "swapdb",
];
