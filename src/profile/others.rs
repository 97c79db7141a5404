//! Servers of their own that speak the protocol: Upstash, and Dragonfly.

use crate::profile::identity::Identity;
use crate::profile::redis::version;
use crate::profile::service::{Limits, Profile, ScriptRules};
use crate::profile::texts::{NoCommand, NoSubcommand};

/// Upstash, which has the commands of Redis up to 8.4 that its reference lists.
/// <https://upstash.com/docs/redis/overall/compatibility>
pub(super) static UPSTASH: Profile = Profile {
    modules: &["json"],
    only: Some(UPSTASH_COMMANDS),
    // <https://github.com/sidekiq/sidekiq/issues/5641>
    no_command: NoCommand::NotAvailable("https://docs.upstash.com/overall/rediscompatibility"),
    // An empty array: <https://upstash.com/docs/redis/commands/server/command>
    lists_commands: false,
    // <https://upstash.com/docs/redis/commands/connection/select>
    databases: Some(1),
    // <https://upstash.com/docs/redis/troubleshooting/max_request_size_exceeded>
    limits: Limits { request_len: Some((10 * 1024 * 1024, "ERR max request size exceeded")), ..Limits::NONE },
    // <https://upstash.com/docs/redis/commands/server/config-get>
    settings: Some(&["notify-keyspace-events"]),
    // <https://upstash.com/docs/redis/commands/server/info>
    info_sections: Some(&["server", "clients", "memory", "stats", "cluster", "keyspace"]),
    ..version("upstash", "8.4.0")
};

/// The commands in the reference of Upstash: <https://upstash.com/docs/redis/commands/overview>
const UPSTASH_COMMANDS: &str = "\
    append decr decrby delex digest get getdel getex getrange getset incr incrby incrbyfloat mget mset msetnx psetex \
    set setex setnx setrange strlen bitcount bitfield bitfield_ro bitop bitpos getbit setbit hdel hexists hexpire \
    hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hpersist hpexpire \
    hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals blmove blmpop blpop brpop \
    brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpoplpush rpush \
    rpushx sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop \
    srandmember srem sscan sunion sunionstore bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby \
    zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex \
    zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex \
    zrevrangebyscore zrevrank zscan zscore zunion zunionstore geoadd geodist geohash geopos georadius georadius_ro \
    georadiusbymember georadiusbymember_ro geosearch geosearchstore pfadd pfcount pfmerge eval eval_ro evalsha \
    evalsha_ro fcall fcall_ro function|delete function|flush function|kill function|list function|load \
    function|stats script|exists script|flush script|kill script|load psubscribe publish pubsub pubsub|channels \
    pubsub|numpat pubsub|numsub punsubscribe subscribe unsubscribe discard exec multi unwatch watch copy del dump \
    exists expire expireat expiretime keys memory|usage persist pexpire pexpireat pexpiretime pttl randomkey rename \
    renamenx restore scan touch ttl type unlink wait waitaof auth client|getname client|id client|info client|list \
    client|setinfo client|setname echo hello ping quit reset select acl|cat acl|deluser acl|genpass acl|getuser \
    acl|list acl|load acl|log acl|save acl|setuser acl|users acl|whoami command config|get config|set dbsize \
    flushall flushdb info monitor time json.arrappend json.arrindex json.arrinsert json.arrlen json.arrpop \
    json.arrtrim json.clear json.debug json.debug|memory json.del json.forget json.get json.merge json.mget \
    json.mset json.numincrby json.nummultby json.objkeys json.objlen json.resp json.set json.strappend json.strlen \
    json.toggle json.type xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup|create xgroup|createconsumer \
    xgroup|delconsumer xgroup|destroy xgroup|setid xinfo|consumers xinfo|groups xinfo|stream xlen xpending xrange \
    xread xreadgroup xrevrange xtrim";

/// Dragonfly, which has the commands of Redis 7.4 and says that it is that version.
/// <https://github.com/dragonflydb/dragonfly/blob/main/src/server/server_family.cc>
pub(super) static DRAGONFLY: Profile = Profile {
    identity: Identity { info: &[("dragonfly_version", "df-v1.40.1")], ..Identity::redis("7.4.0") },
    modules: &["json", "bf", "cf", "cms", "topk"],
    refused: DRAGONFLY_UNSUPPORTED,
    // <https://github.com/dragonflydb/dragonfly/blob/main/src/server/main_service.cc>
    no_command: NoCommand::NameOnly,
    // <https://github.com/dragonflydb/dragonfly/blob/main/src/facade/facade.cc>
    no_subcommand: NoSubcommand::OrArguments,
    // <https://www.dragonflydb.io/docs/managing-dragonfly/flags>
    databases: Some(16),
    limits: Limits {
        // <https://github.com/dragonflydb/dragonfly/blob/main/src/facade/dragonfly_connection.cc>
        args: Some((1 << 16, "ERR Protocol error: invalid multibulk length")),
        clients: Some(64_000),
        ..Limits::NONE
    },
    scripts: ScriptRules {
        // <https://www.dragonflydb.io/docs/managing-dragonfly/scripting>, <https://github.com/taskforcesh/bullmq/issues/3760>
        undeclared_key: Some("ERR script tried accessing undeclared key, key: "),
        ..ScriptRules::NONE
    },
    // <https://www.dragonflydb.io/docs/command-reference/server-management/info>
    info_sections: Some(&[
        "server",
        "clients",
        "memory",
        "persistence",
        "stats",
        "replication",
        "cpu",
        "commandstats",
        "keyspace",
        "errorstats",
    ]),
    ..version("dragonfly", "7.4.0")
};

/// The commands that Dragonfly does not have, unless its sources have them meanwhile.
/// <https://www.dragonflydb.io/docs/command-reference/compatibility>
const DRAGONFLY_UNSUPPORTED: &[&str] = &[
    "asking",
    "bf.card",
    "bf.debug",
    "bf.insert",
    "bgrewriteaof",
    "cf.debug",
    "cf.loadchunk",
    "cf.scandump",
    "client|getredir",
    "client|no-evict",
    "client|no-touch",
    "client|reply",
    "client|trackinginfo",
    "client|unblock",
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|count-failure-reports",
    "cluster|countkeysinslot",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslots",
    "cluster|forget",
    "cluster|getkeysinslot",
    "cluster|keyslot",
    "cluster|links",
    "cluster|meet",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|replicas",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "cluster|slaves",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|list",
    "config|rewrite",
    "failover",
    "fcall",
    "fcall_ro",
    "function",
    "geosearchstore",
    "hexpireat",
    "hexpiretime",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpttl",
    "json.debug|memory",
    "latency|doctor",
    "latency|graph",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "latency|reset",
    "lcs",
    "lolwut",
    "memory|doctor",
    "memory|purge",
    "memory|stats",
    "migrate",
    "module",
    "object",
    "pfdebug",
    "pfselftest",
    "readwrite",
    "script|debug",
    "script|kill",
    "swapdb",
    "waitaof",
];
