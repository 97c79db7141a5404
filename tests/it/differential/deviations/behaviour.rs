//! Differences that a single reply cannot show: the command, setting or field of INFO, the case, and the reason.

use super::page::Area::{Clients, Configuration, DataTypes, Expiry, Memory, Process, Scripting, Wire};
use super::page::Of::{self, Commands, General, Info, Setting};

/// Row: its subject, the case, the behaviour of Redis 7.0.15, the behaviour of keylatch, and the reason.
pub(super) type Row = (Of, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip] // a table
pub(super) const BEHAVIOUR: &[Row] = &[
    // Strings
    (Commands(&["getrange", "substr"]), "end before the first byte, as `GETRANGE k 0 -100`", "the first byte", "an empty string", "as Redis 8"),
    (Commands(&["lcs"]), "long strings", "blocks every client", "serves other clients meanwhile; the result is that of the start of the call", "other clients do not wait"),
    (Commands(&["set"]), "`IFEQ`, `IFNE`, `IFDEQ` or `IFDNE` with another condition", "unknown options; 8.4 accepts some pairs", "a syntax error in either order", "as Redis 8.10"),
    (Commands(&["setifgreater", "delifgreater"]), "other types; plain commands on the same key", "unknown commands; Garnet overwrites other types, and leaves the rest undefined", "`WRONGTYPE`; a value that is replaced loses its fence, one that is changed in place keeps it", "a late write is refused and nothing else"),
    (Commands(&["latency|histogram"]), "`lock-wait`, `lock-hold`", "unknown names", "how long clients waited for the locks that they acquired, and how long locks were held", "locks"),
    (Commands(&["delex", "delifeq", "digest"]), "no condition, digests, other types", "unknown commands; Redis 8.4 and Valkey 9.2 differ", "as Redis 8.4", "Valkey requires a condition and has no digests"),

    // Lists
    (Commands(&["object|encoding"]), "a short list", "`quicklist`", "`listpack`", "as Redis 7.2"),
    (Commands(&["blpop", "brpop", "blmpop", "blmove", "brpoplpush"]), "a key that has become ready", "serves the client whatever its user may do by then", "checks permissions and memory again, and fails with their errors", "as Redis 7.2"),
    (Commands(&["blpop", "brpop", "blmpop"]), "several keys become ready in one transaction or script", "the first that became ready", "the first that was named", "as Redis 7.2"),
    (Commands(&["blmove", "brpoplpush"]), "the destination is no list when the source becomes ready", "loses its place, or sleeps on", "`WRONGTYPE`", "as Redis 7.2"),

    // Sets
    (Commands(&["sadd"]), "small sets that are not all integers", "`hashtable`, in no particular order", "`listpack`, in the order of insertion, up to `set-max-listpack-entries` and `set-max-listpack-value`", "as Redis 7.2"),
    (Commands(&["srandmember"]), "a count below -10000000", "a reply of that many members", "`value is out of range`", "bounded memory"),
    (Commands(&["sscan"]), "cursors and order", "those of its hash table", "its own; the same guarantees", "a different hash table"),

    // JSON
    #[cfg(feature = "json")]
    (Commands(&["json.numincrby", "json.nummultby", "json.numpowby"]), "arrays of numbers", "8.4: may be kept with 8 to 32 bits each, in which the result is cut off", "64 bits each", "no digit is lost"),
    #[cfg(feature = "json")]
    (Commands(&["json.get"]), "a path that is none", "names all that could stand there", "names the place, and most of what could stand there", "the list depends on a parser generator"),
    #[cfg(feature = "json")]
    (Commands(&["json.get"]), "`=~` in paths", "8.4: a pattern with a backslash matches nothing; Unicode classes", "patterns as written; classes are of ASCII", "what is meant; the size of the program"),
    #[cfg(feature = "json")]
    (Commands(&["json.get"]), "several paths", "their order in the reply is by chance", "as they were given", "the same reply to the same request"),
    #[cfg(feature = "json")]
    (Commands(&["json.get"]), "a path that names the same values again and again, as `$..*..*..*`", "fills the memory, and blocks every client", "`ERR the path names too many values`, by a multiple of the document's length", "bounded memory and time"),
    #[cfg(feature = "json")]
    (Commands(&["json.set", "json.merge", "json.arrappend", "json.arrinsert"]), "a document deeper than 1024", "8.4: ends the process when it is printed", "`ERR recursion limit exceeded`", "bounded recursion"),
    #[cfg(feature = "json")]
    (Commands(&["json.set", "json.merge"]), "`FORMAT BSON`", "reads BSON that is UTF-8", "`ERR wrong format`", "no client sends it"),
    #[cfg(feature = "json")]
    (Commands(&["json.set", "json.merge"]), "text behind the value, as `1 x`", "8.4: is ignored until 8.4.5", "`trailing characters`", "as RedisJSON 8.4.5"),
    #[cfg(feature = "json")]
    (Commands(&["json.clear", "json.arrpop", "json.arrinsert"]), "values that contain others which the path names too", "8.4: may fail after part of the change", "the inner ones first; all or nothing", "atomicity"),
    #[cfg(feature = "json")]
    (Commands(&["json.debug"]), "`MEMORY`", "the memory of a tree", "that of the [flat form](decisions/68-json-is-one-flat-value.md), a tenth of it", "another form"),

    #[cfg(feature = "json")]
    (Commands(&["json.set"]), "`FPHA`; a path of which more than the last part is missing", "8.8: halves arrays of numbers; 8.12: is created", "a syntax error; `null`", "not implemented"),

    // Probabilistic types
    #[cfg(feature = "probabilistic")]
    (Commands(&["bf.reserve", "bf.insert", "bf.loadchunk", "cf.reserve", "cf.loadchunk", "cms.initbydim", "cms.initbyprob", "topk.reserve"]), "more than 4 GiB", "as long as the memory lasts", "the error for too little memory", "bounded memory"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["cms.initbydim", "cms.initbyprob"]), "a depth above 65536", "blocks every client for each item", "`CMS: Insufficient memory to create the key`", "bounded time per item"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["topk.reserve"]), "a depth above 64", "blocks every client for each item", "`ERR Insufficient memory to create topk data structure`", "bounded time per item"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["topk.incrby"]), "an increment that is none among several items", "8.4: an array with fewer values than it announces", "the error for this item and those behind it", "a reply that can be read"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["topk.list", "topk.add", "topk.incrby"]), "items with a zero byte", "8.4: are cut off there in replies", "are whole", "binary safety"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["cf.loadchunk"]), "more than 64 filters", "are accepted, and searched for each item", "`Couldn't create filter!`", "bounded time per item"),
    (Commands(&["tdigest.quantile", "tdigest.cdf", "tdigest.trimmed_mean"]), "a single observation", "8.4: `nan`", "what it is, as in t-digest-c since 2026", "a fault that was mended there"),
    (Commands(&["cf.insert", "cf.insertnx"]), "more than 32 filters in one call", "8.4: are added, and searched for each item", "-1 for the rest of the items", "bounded time per item"),
    #[cfg(feature = "probabilistic")]
    (Commands(&["tdigest.info"]), "after a command that reads", "8.4: nodes were merged", "nothing has changed", "a replica that does not read merges the same nodes as its primary"),

    // HyperLogLog
    (Commands(&["pfadd", "pfcount", "pfmerge"]), "a sketch with registers beyond the last", "an error where CVE-2025-32023 is fixed, as in distributions; otherwise some commands accept it", "an error", "the fix"),
    (Commands(&["pfadd", "pfmerge"]), "a sketch cut in the middle of a run", "also changes the byte after the string", "changes it as if that byte were zero", "memory safety"),
    (Commands(&["pfadd", "pfmerge"]), "`hll-sparse-max-bytes` above 12304", "stays sparse although dense is shorter; the larger, the slower", "becomes dense when that is shorter; after 2048 changes in one command the runs are rewritten in their shortest form", "bounded time per element"),
    (Commands(&["pfselftest"]), "", "counts ten million elements and blocks every client", "counts a hundred thousand", "other clients do not wait"),

    // Hashes
    (Commands(&["commandlog"]), "`commandlog-request-larger-than`, `commandlog-reply-larger-than`", "Valkey: 1048576", "-1: these logs are off until they are set", "calls are not measured for logs that nobody reads"),
    (Commands(&["commandlog"]), "`LARGE-REPLY`: the reply of a call that was blocked", "Valkey: counts", "does not count", "it is written elsewhere"),
    (Commands(&["hotkeys"]), "the counts of keys", "8.6: an estimate", "of 1000 keys for each metric, the rest share theirs; names above 4096 bytes do not count", "bounded memory"),
    (Commands(&["hotkeys"]), "`all-commands-all-slots-us`, `total-net-bytes`", "8.6: of the server", "of the commands that were called", "see `INFO` for the totals of the server"),
    (Commands(&["himport"]), "in scripts", "8.10: keeps the fieldsets of each script apart", "is refused", "fieldsets belong to a connection"),
    (Commands(&["himport"]), "the encoding of the hash", "8.10: may be shared with other hashes of the same fields", "that of any hash", "the names of fields are kept with each hash"),
    (Commands(&["hlen", "hdel", "hset"]), "a field that has expired and was not removed yet", "8.4: counts it until it is removed", "removes it first, so that it is not counted", "an expired field is as invisible as an expired key"),
    (Commands(&["hrandfield"]), "a count below -10000000", "is executed; the reply may fill the memory", "`value is out of range`", "bounded memory"),

    // Sorted sets
    (Commands(&["zrandmember"]), "a count below -10000000", "is executed; the reply may fill the memory", "`value is out of range`", "bounded memory"),
    (Commands(&["zadd"]), "the score -0 in a packed sorted set", "is stored as it is", "is stored as 0", "since Redis 7.2"),
    (Commands(&["zscan"]), "fractional scores of a packed sorted set", "have 17 digits", "have as many digits as needed", "since Redis 7.2"),

    // Generic
    (Commands(&["migrate"]), "while it waits for the target", "blocks every client", "serves other clients; a key that is changed meanwhile stays although the target has its old value, with the reply `OK`; a client that disconnects ends its migration", "other clients do not wait"),
    (Commands(&["migrate"]), "the target refuses the login or the database", "has already sent the keys; they may land in another database", "sends no key before both have succeeded", "no key ends up in a wrong database"),
    (Commands(&["migrate"]), "the target does not speak RESP", "takes any line that is not an error as success and deletes the key", "deletes nothing; an error", "loses no data"),
    (Commands(&["migrate"]), "inside `EXEC` and scripts", "blocks every client", "an error if there is a key to move; `NOKEY` and option errors are the same", "transactions and scripts do not wait"),
    (Commands(&["migrate"]), "connections", "kept for ten seconds, retried, TLS with `tls-cluster`", "one per call, without TLS; `migrate_cached_sockets` is 0", "no state between calls"),
    (Commands(&["migrate"]), "time in the slow log and statistics", "includes the target's", "only the time for which other clients were blocked", "the wait blocks nobody"),
    (Commands(&["expireat", "pexpireat", "set", "getex"]), "the millisecond of an absolute deadline", "the key is still visible", "the key expires when it begins", "deadlines are exact"),
    (Commands(&["expireat", "pexpireat", "set", "getex"]), "a deadline in the years 194,841,427 to 194,877,105", "is kept", "becomes the beginning of these years", "a deadline and its clock take eight bytes"),
    (Commands(&["sort", "sort_ro"]), "a packed sorted set", "becomes a `skiplist`", "remains a `listpack`", "a command that reads changes no key"),
    (Commands(&["sort", "sort_ro"]), "numbers after another command has read one that is too small or too large for a double", "`One or more scores can't be converted into double`", "sorts them", "a command does not depend on those before it"),
    (Commands(&["scan"]), "cursors and order", "those of its hash table", "its own; the same guarantees", "a different hash table"),
    (Commands(&["keys"]), "a large database", "an atomic snapshot", "serves other clients meanwhile; a snapshot only inside `EXEC`", "other clients do not wait"),
    (Commands(&["keys", "scan"]), "patterns with a thousand or more `*`", "give up at a nesting of 1000: `*?` repeated 50000 times matches nothing", "match, in time proportional to pattern length times name length. In other commands, such as `SSCAN` and `PUBLISH`, other clients wait for one comparison: up to a second for 100 KB of `a?` against 200 KB", "an iterative matcher"),
    (Commands(&["object|freq"]), "after `BITFIELD`, `SETNX` or `SET` with `NX` or `XX`", "counts each internal lookup", "may count one use fewer or more", "fewer lookups"),
    (Commands(&["object|freq"]), "a number that Redis shares among keys", "one count for all of them", "a count per key", "numbers are not shared"),
    (Commands(&["object|idletime"]), "a key unused for long", "wraps to 0 after 194 days", "wraps to 0 after 38 days", "a smaller field per key"),
    (Commands(&["object|refcount"]), "a small number", "fixed when it was stored: shared, unless `maxmemory` has an LRU or LFU policy", "follows from the present settings; 2147483647 also after `COPY`, where Redis says 1", "numbers are not shared"),
    (Commands(&["restore"]), "a set of integers that are not in ascending order", "is restored unless `sanitize-dump-payload` is set, and loses members", "`Bad data format`", "damaged dumps never become values"),
    (Commands(&["restore"]), "longer than `proto-max-bulk-len`", "restores it", "`Bad data format`", "the limit holds for every string"),
    (Commands(&["dump"]), "compression", "sometimes finds one more repetition, by chance", "always the same bytes", "deterministic"),

    // Streams
    (Commands(&["scard", "smembers", "sinter", "sunion", "sdiff"]), "a member that has expired and was not removed yet", "8.12: is counted, or skipped and left", "removes it first", "an expired member is as invisible as an expired key"),
    (Commands(&["sexpire", "saddex"]), "dumps and files of sets some of whose members have deadlines", "8.12: have a format of their own", "a plain set, and records behind it with the deadlines, which only keylatch reads", "older servers can read them"),
    (Commands(&["saddex"]), "the log and replicas", "8.12: `SADDEX` with `PXAT`", "`SADD`, and the deadlines in the argument of a `PING`, which only keylatch reads", "older servers get the members, and an `SREM` for each that expires"),
    (Commands(&["xnack"]), "files, the log and replicas", "8.8: entries without a consumer have a format of their own", "they are those of a consumer with an empty name, delivered at the time 0; in `DUMP`, and in files with `rdb-version 14`, as in 8.8", "older servers can read them, and show them as 8.8 does"),
    (Commands(&["xcfgset", "xadd"]), "`IDMP` and `IDMPAUTO` of `XADD`: what a stream recognizes", "8.6: is in its files, which older servers cannot read", "is beside the value in files, the log and replicas of keylatch, where Redis skips it; in `DUMP`, `MIGRATE`, and files with `rdb-version 13` or 14, as in 8.6; the engine etcd refuses both", "older servers can read the files"),
    (Commands(&["restore"]), "payloads of Redis 8.6 to 8.10", "refuses them all", "reads all but arrays, rate limits, and metadata of modules that may not be ignored, of which the error says that they are not supported", "as Redis 8.10"),
    (Commands(&["xinfo|stream"]), "`idmp-duration` and its kin", "8.6: are always there", "are there once a producer has named an entry, or `XCFGSET` was called", "the reply is that of 8.4"),
    (Commands(&["xinfo|stream"]), "`nacked-count` of a group", "8.8: is always there", "is there if it is not 0", "the reply is that of 8.4"),
    (Commands(&["xinfo|consumers", "xinfo|stream"]), "consumers", "without `inactive` and `active-time`", "with them", "as Redis 7.2"),
    (Commands(&["xinfo|groups", "xinfo|stream"]), "`lag` and `entries-read` after deletions", "may be wrong", "unknown until they are certain", "as Redis 8.0"),
    (Commands(&["xgroup|create", "xgroup|setid"]), "`ENTRIESREAD` above the number of entries added", "is kept", "counts as that number", "as Redis 8.2"),
    (Commands(&["xsetid"]), "an ID below that of a deleted entry", "is set", "an error", "as Redis 8.0"),
    (Commands(&["xreadgroup", "xclaim", "xautoclaim"]), "a consumer that gets nothing", "some do not create it", "is created", "as Redis 7.2"),
    (Commands(&["xreadgroup"]), "blocked on a key that is deleted or becomes something else, or on a group that is destroyed", "`UNBLOCKED` or `NOGROUP`", "`NOGROUP` or `WRONGTYPE`, the errors of the same call made now", "as Redis 7.2"),

    // Connection
    (Commands(&["hello"]), "several options, one of them wrong", "applies those before the error", "applies nothing; of repeated options the last counts", "as Redis 7.2"),
    (Commands(&["quit", "client|kill"]), "the caller itself, inside `EXEC` or with `CLIENT REPLY OFF`", "loses the rest of the reply, or does not close", "replies and closes", "no lost reply"),
    (Commands(&["client|list", "client|info"]), "fields", "those of 7.0", "those of 8.4: also `watch`, `lib-name`, `lib-ver`, `io-thread` (always 0), `tot-net-in`, `tot-net-out`, `tot-cmds`; then `locks`, how many it holds through `LOCK.*`, and `lwait`, whether it is in line for one", "reports version 8.4.0; locks"),
    (Commands(&["client|list", "client|info"]), "`qbuf`, `qbuf-free` of idle clients", "a query buffer of 16 KiB for two seconds", "0 between requests", "idle clients hold no buffer"),
    (Commands(&["client|tracking"]), "keys that scripts read", "all keys given to a script once it reads any", "the keys that it reads", "as Redis 7.2"),
    (Commands(&["auth"]), "too many arguments", "shown by `MONITOR` and `SLOWLOG`", "redacted", "may contain a password"),
    (Commands(&["hello"]), "`AUTH` without a version", "shown by `MONITOR` and `SLOWLOG`", "redacted", "has a password"),

    // Pub/sub
    (Commands(&["unsubscribe", "sunsubscribe"]), "all channels", "in the order of a hash table", "in the order of subscription", "deterministic"),
    (Commands(&["publish", "spublish"]), "a message to the publisher itself", "before the reply; inside `EXEC` in the middle of it", "after the reply", "as Redis 7.2"),
    (Commands(&["subscribe", "psubscribe"]), "keyspace events that a RESP3 client causes and receives", "before, inside or after the reply", "after the reply", "as Redis 7.2"),

    // Transactions
    (Commands(&["watch"]), "changes", "misses some: by `BITFIELD` of a string that only grew because `OVERFLOW FAIL` prevented all else, by `PFADD` before an error, by `PFDEBUG`", "detects every change", "a watch that misses a change is unsafe"),
    (Commands(&["watch"]), "while a script is busy", "is executed", "`BUSY`, like every command that accesses a key", "the script holds the keys"),
    (Commands(&["exec"]), "conditions", "none", "as Valkey 9.2: `IFEQ`, `IFNE`, `NX`, `XX`, all of which must hold; without permission to read their keys, `NOPERM`", "compare-and-set without `WATCH`"),

    // Scripting
    (Commands(&["script|debug"]), "`YES`, `SYNC`", "debugs the scripts that follow", "an error", "there is no script debugger"),
    (Commands(&["eval", "evalsha", "fcall"]), "resources", "may take all memory; `error({})` or a very long pattern crashes the server", "512 MiB of memory, 512 MiB of JSON or MessagePack, replies of 1 GiB nested 1000 deep, texts of 256 MiB, patterns that take 1000 nested attempts; beyond that an error", "a script cannot crash the server"),
    (General(Scripting), "`redis.set_repl` with `REPL_AOF` or `REPL_REPLICA` alone", "what follows is for one of them", "an error", "the file and replicas read one log"),
    (General(Scripting), "the order of `pairs` over keys of 32 bytes or more", "by the hash of all bytes", "by the hash of up to 32 of them", "Lua is not changed"),
    (General(Scripting), "the table `os`", "does not exist", "has `clock`", "as later versions"),
    (General(Scripting), "the table `server`", "does not exist", "the same as `redis`", "as Valkey"),
    (General(Scripting), "numbers given to commands", "17 digits", "the fewest digits that identify the number", "as Redis 7.2"),

    // ACL
    (Commands(&["acl|cat"]), "", "21 categories", "also `lock`, `json`, `bloom`, `cuckoo`, `cms`, `topk` and `tdigest`, with the commands of these groups", "users may be denied them"),
    (Commands(&["acl|log"]), "", "keys, channels and names of any length", "the first 64 KiB of each; also `entry-id`, `timestamp-created`, `timestamp-last-updated`", "bounded memory; fields of Redis 7.2"),
    (Commands(&["acl|list", "acl|getuser"]), "rules", "derived from the result; `sanitize-payload` only where it was given", "as given, in order; `sanitize-payload` always", "as Redis 7.2"),
    (Commands(&["client|setname", "client|setinfo", "hello"]), "long names", "of any length", "an error beyond 1024 bytes", "bounded memory"),
    (Commands(&["acl|getuser", "acl|deluser"]), "names in the slow log", "shown", "redacted", "as Redis 7.2"),
    (Commands(&["acl|load"]), "clients", "closes those of all users but the default one", "closes those whose user was deleted or lost permission for their channels", "as Redis 7.2"),
    (Commands(&["acl|setuser"]), "`%~pattern`", "accepted; showing the user crashes the server", "a syntax error", "memory safety"),
    (Commands(&["acl|setuser"]), "a parenthesis inside an open one", "drops the first", "a syntax error; of several open ones the first is reported", "as Redis 7.2"),
    (Commands(&["acl|setuser"]), "a blank in a first argument, as `+get|a b`", "accepted; two rules when the file is loaded again", "a syntax error", "what is saved can be loaded"),

    // Data types
    (General(DataTypes), "search (`FT.*`), time series (`TS.*`), arrays (`AR*`)", "do not exist; Redis 8 has them", "unknown commands", "not implemented"),
    (General(DataTypes), "`BITRANGEINTARRAY`, `BLESS`, compressed bitmaps", "do not exist; Redis 8.12 has them", "unknown commands; a bitmap is a string", "not implemented"),
    (Commands(&["cms.initbydim", "cms.initbyprob", "cms.incrby"]), "`CELL_SIZE`, negative increments", "8.12: smaller sketches; occurrences are taken away", "errors", "not implemented"),
    (Commands(&["slowlog|get"]), "the CPU time of a command", "8.12: is shown", "is not shown", "not implemented"),
    (Commands(&["zrange", "zrangebyscore", "zrangebylex", "zrevrange", "zrevrangebyscore", "zrevrangebylex"]), "`XX`", "does not exist; Valkey 9.2: null for a missing key", "a syntax error", "not implemented"),
    (Commands(&["acl|setuser"]), "rules for databases, as `db=0`", "do not exist; Valkey 9.1 has them", "a syntax error", "not implemented"),
    (Commands(&["cluster|addslots", "cluster|delslots", "cluster|meet", "cluster|forget", "cluster|replicate", "cluster|setslot", "cluster|failover", "cluster|reset", "cluster|bumpepoch"]), "and their kin, in a cluster", "change it", "errors", "a cluster of one node, which has all slots; with `engine etcd` the slots are dealt to the live processes"),
    (Commands(&["cluster|slots", "cluster|shards", "cluster|nodes"]), "the address, if the settings announce none", "what the node takes for its own; empty at first", "the one that the client has reached", "mapped ports and names of containers need no setting"),
    (Commands(&["cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|slot-stats"]), "", "are quick", "walk over all keys, in slices", "[no index by slot](decisions/72-a-cluster-of-one-node.md)"),
    (Commands(&["cluster|slot-stats"]), "CPU time, traffic, memory", "8.2: are counted with `cluster-slot-stats-enabled yes`", "are not counted", "not implemented"),
    (Commands(&["clusterscan"]), "the order", "does not exist; Valkey 9.1: slot after slot", "with `SLOT` that slot, otherwise all slots at once; the cursor then names the first", "no index by slot"),
    (Commands(&["hotkeys|start"]), "`SLOTS` in a cluster", "does not exist; 8.6: tracks the keys of some slots", "an error", "not implemented"),
    (Commands(&["cluster|reset"]), "`HARD` at a node of `TEST.CLUSTER`", "others keep the old id until it is forgotten", "is forgotten at once", "no nodes without an address"),
    (Commands(&["cluster|slots", "cluster|shards"]), "of `TEST.CLUSTER`: the order of replicas", "that in which they were attached", "by number", "the same in each run"),
    (Commands(&["exec"]), "`CLUSTER` and `REPLICAOF` in a transaction at a node of `TEST.CLUSTER` or `TEST.SENTINEL`", "are executed in their turn", "are executed after the others, in their order; each reply is at its place", "they change several nodes, whose data a transaction cannot lock together"),
    (Commands(&["ssubscribe"]), "at a primary of `TEST.CLUSTER` that becomes a replica", "the subscription ends", "stays", "its shard still has the slot"),
    (Commands(&["zunionstore", "zinterstore", "zdiffstore"]), "a wrong number of keys, in a cluster", "syntax errors", "`MOVED` where the destination is another node's", "the destination is a key in any case"),
    (General(Process), "elections, failures and gossip of `TEST.CLUSTER` and `TEST.SENTINEL`", "take time, partly random", "take none: all happens at the instant of its cause or of a timeout, by number where several could do it", "the same outcome in each run"),
    (Commands(&["cluster|keyslot"]), "outside of a cluster", "is refused; Valkey 9.1 answers", "is refused", "as Redis"),

    // Vector sets
    (Commands(&["vsim"]), "", "8.4: follows a graph, and may miss elements", "compares all elements and misses none, while others are served, in the set as it was at the start of the call; `EF`, `FILTER-EF`, `TRUTH` and `NOTHREAD` change nothing", "the same reply every time"),
    (Commands(&["vsim"]), "`FILTER` with more than 64 KiB", "8.4: is executed", "an error", "bounded memory"),
    (Commands(&["vsim"]), "`FILTER` that compares, for one element, attributes of more than 16 MiB in all", "8.4: is executed", "the element is left out", "others wait for it"),
    (Commands(&["vadd"]), "a new element, with `SETATTR` and an empty text", "8.0: `VGETATTR` replies with an empty text", "has no attributes", "the same on a replica and after a restart"),
    (Commands(&["vlinks"]), "", "8.4: links of the graph in each level", "the nearest elements in one level, at most as many as `M`", "there is no graph"),
    (Commands(&["vinfo"]), "`max-level`, `vset-uid`", "8.4: the levels of the graph; the number of the set", "the levels that the graph would have on average; a number of the key", "there is no graph"),
    (Commands(&["vadd"]), "`CAS`, `EF`", "8.4: a search in a thread; the care for the graph", "change nothing", "there is no graph"),
    (Commands(&["vadd"]), "`REDUCE` with more than 16777216 factors", "8.4: accepted", "`invalid vector specification`", "bounded memory"),
    (Commands(&["vemb", "vsim"]), "digits", "8.4: one too many in one of a thousand numbers", "the fewest that identify the number", "as in other commands"),
    (Commands(&["vrandmember"]), "a count below -10000000", "8.4: a reply of that many elements", "`value is out of range`", "bounded memory"),
    (Commands(&["dump"]), "a t-digest", "8.4: after its nodes were merged", "with nodes that are not: a Redis that restores it estimates less exactly until it merges them", "a replica and a restart go on from the same state"),
    (Commands(&["dump"]), "a vector set", "8.4: with its graph", "with links that follow the order of the elements: searches in a Redis that restores it need a large `EF`, or `TRUTH`", "there is no graph"),
    (Commands(&["copy"]), "a vector set", "8.4: an error", "copies it", "a type as any other"),
    (Commands(&["command|info", "command|docs"]), "commands on vector sets", "8.4: without categories", "with the categories of their effects", "rules of users cover them"),

    // Server
    (Commands(&["info"]), "fields of missing features", "their values", "0; memory and statistics are its own; also some fields of later versions, and `mem_allocator_quantum`", "exporters find every field"),
    (Info("rdb_last_save_age_seconds"), "also `last_save_error`, `aof_last_error`, `aof_tail_dropped_bytes`; `durability` of locks", "do not exist", "why files could not be written, what was cut off at the start, how old the snapshot is", "seen without the log"),
    (Commands(&["save"]), "", "blocks all clients; `-ERR` after a failure", "others are served meanwhile; the error says why", "saved by a thread"),
    (Commands(&["shutdown"]), "with save points", "blocks all clients while it saves; `ABORT` ends a wait for replicas", "reads are served meanwhile, writes wait; `ABORT` ends that, too", "saved by a thread"),
    (Commands(&["shutdown"]), "replicas that are not sent all of a snapshot yet", "are waited for (`shutdown-timeout`)", "are not waited for", "they cannot have the changes in time"),
    (Commands(&["client|list"]), "the link of a replica to its primary", "has its last command, and the same id when it continues", "`cmd=NULL`, and another id", "a thread executes what the primary sends, not a client"),
    (Commands(&["replicaof", "slaveof"]), "writes of clients on a replica with `replica-read-only no`", "are in its append-only file", "are not", "its log is that of its primary"),
    (Commands(&["replicaof", "slaveof"]), "keys with a TTL that clients write on a replica with `replica-read-only no`", "are deleted when they expire", "are hidden then, and deleted when the server becomes a primary", "all deletions are the primary's"),
    (Commands(&["time", "replicaof", "slaveof"]), "on a replica, and on one that has become a primary until it is started again", "the own clock's time, by which keys expire", "the primary's time, by which keys expire; where the primary refuses `TIME`, the own clock's", "a clock that is ahead ends no lock early"),
    (Commands(&["replicaof", "psync"]), "a restart with an append-only file", "a full synchronisation", "continues where it was, as with a snapshot", "the file has the place in the history"),
    (Commands(&["wait"]), "writes of others", "waits also for those before the last request of the client", "waits for the client's own", "what others wrote is theirs to wait for"),
    (Commands(&["replconf"]), "`ACK` of more than was sent", "is counted", "counts up to what was sent", "`WAIT` says what is so"),
    (Commands(&["replconf"]), "`ip-address` with blanks, commas or line ends", "shown as it is", "shown with `?` in their place", "it cannot add fields to `INFO`"),
    (Commands(&["replicaof", "slaveof"]), "a transaction of the primary with a command that is not known here", "is passed over, and so is a `SELECT` in it: what follows is written to another database", "is passed over, but for its `SELECT`", "what follows is where the primary has it"),
    (Commands(&["psync"]), "a replica that lacks more than `repl-backlog-size`", "a full synchronisation", "is sent what it lacks from the append-only file if that was not rewritten since, with PINGs in the place of messages", "all data is not sent again"),
    (Info("mem_total_replication_buffers"), "", "part of `used_memory`", "not part of it, so nothing is evicted for it", "the log is there without replicas, too"),
    (Info("errorstats"), "error codes made up by scripts", "unbounded; since 7.4 all are dropped at 128", "128 of them; the rest is counted as `ERRORSTATS_OVERFLOW`", "as Valkey"),
    (Info("commandstats"), "a call that blocks its client", "counted when it blocks", "counted when it ends: served, timed out or unblocked", "as Redis 7.2"),
    (Info("commandstats"), "order, `usec`", "order of a hash table; sum of whole microseconds", "by name; sum of nanoseconds", "deterministic, exact"),
    (Info("tracking_total_keys"), "the last tracking client has disconnected", "decreases as keys change", "0", "the table is freed"),
    (Commands(&["latency|histogram", "latency|latest"]), "order", "of a hash table", "by name", "deterministic"),
    (Commands(&["latency|doctor", "latency|graph", "memory|doctor", "lolwut"]), "", "reports and pictures", "its own; `LOLWUT` ends with the line `Redis ver.`", "own wording"),
    (Commands(&["debug", "module"]), "forbidden by the settings", "counted as rejected", "counted as failed", "found during the call"),
    (Commands(&["debug"]), "`SET-DISABLE-DENY-SCRIPTS`", "scripts may call every command", "scripts may call `DEBUG`", "enough for tests"),
    (Commands(&["debug"]), "`OBJECT` of an expired key", "shows it until it is deleted, which may take a while", "the same, but it is deleted at its deadline unless `DEBUG SET-ACTIVE-EXPIRE 0` is set", "deadlines are exact"),
    (Commands(&["debug"]), "`OBJECT`, `HTSTATS`", "internal structures", "encoding and lengths as Redis, no address or compression; number of elements", "other structures"),
    (Commands(&["debug"]), "`RELOAD NOSAVE` and `LOADAOF` beside replicas", "they keep what they have", "they are sent all data again, and a replica gets that of its primary; an append-only file is rewritten", "none differs silently"),
    (Commands(&["debug"]), "`RELOAD`", "saves and loads the data while all clients wait", "the same, and other clients get `-LOADING`; without a snapshot file it writes and reads every value in memory, and `NOSAVE` is an error", "loaded by a thread"),
    (Commands(&["debug"]), "`HELP`", "explains the subcommands", "lists them", "own wording"),
    (Commands(&["monitor"]), "order", "its own calls are shown between its replies", "the same; calls of others follow the replies to a batch", "the replies to a batch are written at once"),
    (Commands(&["command|docs"]), "summaries, histories", "in Redis' words", "own summaries, no histories", "own wording"),
    (Commands(&["config|help", "client|help", "acl|help"]), "`HELP` of every container", "in Redis' words", "derived from grammar and summaries; the first line and the last two are the same", "own wording"),
    (Commands(&["dbsize"]), "expired keys", "may be counted until they are found", "deleted at their deadline, never counted", "deadlines are exact"),

    // Wire protocol
    (General(Wire), "an inline request of more than 64 KiB", "rejected only if its end is not in the same read", "always rejected", "does not depend on packets"),
    (General(Wire), "a request whose arguments are each within `client-query-buffer-limit`", "any length", "closes the client if longer than that and than 1 GiB", "bounded memory"),
    (General(Wire), "doubles in replies", "17 digits", "the fewest digits that identify the number", "as Redis 7.2"),

    // Configuration
    (General(Configuration), "names and values", "those of 7.0", "those of 8.4; names and values of Valkey or later Redis are accepted and shown by `CONFIG GET` of the exact name", "configuration files of either load"),
    (Setting("proto-max-bulk-len"), "requests in the same write as the CONFIG SET that changes it, and behind it", "are read with the new limit", "are read with the former one", "what arrives together is decoded before the first request is executed"),
    (Setting("notify-keyspace-events"), "the classes `o` and `c`", "unknown", "publish `overwritten` and `type_changed`", "as Redis 8.2"),
    (Setting("extended-redis-compatibility"), "a setting of Valkey", "does not exist", "`yes`; with `no`, names and errors of Valkey 8.1: `server valkey`, `version 8.1.0` in `HELLO`; `server_name`, `valkey_version`, `server_mode` in `INFO`; `NOSUB`; `BITCOUNT` with a start alone; `ZSCAN NOSCORES`; `MULTI` and `WATCH` discard the transaction they are in; `server.` in errors of scripts; `Valkey is busy`; `Invalid primary port`; `redis_version` stays 8.4.0", "a drop-in for Valkey's clients"),
    (Setting("fence-memory-ms"), "a setting of keylatch", "does not exist", "300000: how long a fence is remembered after its key is gone", "a late write must not create the key again"),
    (Setting("lock-deadlock"), "a setting of keylatch", "does not exist", "`error`: `LOCK.ACQUIRE` replies `-DEADLOCK` where clients would wait for each other for ever; `wait`: they wait", "a mistake is told at once, not after a timeout"),
    (Setting("session-grace-ms"), "a setting of keylatch", "does not exist", "0: for how many milliseconds the locks of a session of `LOCK.*` are kept after its connection closed", "a client that connects again keeps its locks"),
    (Setting("restart-grace-ms"), "a setting of keylatch", "does not exist", "0; otherwise a start after a crash, or after a stop while locks were held or keys had a TTL that no file has, answers `-LOADING` for that many milliseconds", "no lock of before is believed to be held any more"),
    (Setting("unsupported-settings"), "a setting of keylatch", "does not exist", "`warn`: settings without effect are named in the log; with `refuse` the server does not start with them", "a strict mode"),
    (Setting("save"), "`save`, `dbfilename`, in test mode and in an embedded server", "the same as ever", "empty unless they are set; without a name, nothing is loaded, and `SAVE` is an error", "a test double touches no files"),
    (Setting("save"), "lines in several files of an `include`", "add up", "the first one in a file, and after an `include`, replaces those before", "what `CONFIG REWRITE` writes holds after a restart"),
    (Setting("aof-checksum"), "a setting of keylatch", "does not exist", "`yes`: annotations with checksums in the append-only file and its manifest, which Redis skips", "damage is found"),
    (Setting("rdb-version"), "a setting of keylatch", "does not exist", "0: snapshots in the lowest version of the format that expresses the data; or 10 to 14", "older servers read them"),
    (Setting("refuse-empty-start"), "a setting of keylatch", "does not exist", "`no`; with `yes` the server does not start where its files are missing", "no empty server by mistake"),
    (Setting("client-output-buffer-limit"), "no limit for replicas", "any number of bytes waits for a replica", "it is disconnected when more than 256 MB of changes wait for it", "bounded memory"),
    (Setting("notify-keyspace-events"), "`S`, `T`, `I`, `V`", "do not exist; 8.8: events with fields of hashes", "an error", "not implemented"),
    (General(Process), "`redis-cli --cluster fix` of a slot with keys at two nodes, if it makes the one that was not the owner the owner", "moves the keys of the other node before that hears of it, as a rule", "the keys of the other node are gone", "nodes of `TEST.CLUSTER` hear of changes at once"),
    (Setting("cluster-node-timeout"), "at a node of `TEST.CLUSTER`", "the time after which others have failed", "has no effect: the time is that of `NODE-TIMEOUT`, for all nodes", "one clock and one time decide, so that a test has one outcome"),
    (Setting("cluster-enabled"), "`yes`", "a node of a cluster, at first without slots", "a cluster of one node, with all slots, or of the processes with the same data in etcd, each of which serves every key; no bus, no `MOVED`", "for cluster clients of one server, and of several as [CLUSTER.md](CLUSTER.md#cluster-clients) says"),
    (Setting("repl-diskless-load"), "`swapdb`", "shows keys that have expired while it loads beside the present data, and `MONITOR` shows no calls", "hides them, and shows the calls", "deadlines are exact"),
    (Setting("tls-cert-file"), "keys on the curve P-521, and signatures by RSA-PSS whose salt is not as long as the digest, on either side", "are accepted", "are refused", "the TLS library has neither"),
    (Setting("tls-replication"), "`tls-ca-cert-dir` alone", "authorities for the link", "the link needs `tls-ca-cert-file`", "one file"),
    (Setting("unixsocket"), "a socket on which another server listens, or another file", "is removed", "the server does not start", "no other server loses its clients, no file is lost"),
    (Setting("proc-title-template"), "", "the title of the process follows it", "checked, without effect", "would need unsafe code"),
    (Setting("maxmemory-eviction-tenacity"), "", "bounds a step of eviction by time", "bounds it by the number of keys that takes about that time", "does not depend on the clock"),
    (Setting("tracking-table-max-keys"), "a key beyond it", "dropped before the next command", "dropped at once", "the limit is exact"),

    // Memory
    (Info("used_memory"), "and so `maxmemory`", "what was requested from the allocator", "counted: keys, tables, clients and all state kept for them, and the process at its start; within 5 % of the allocator's figure", "reading the allocator's statistics is slow"),
    (Setting("maxmemory"), "fragmentation, with a policy that evicts", "is not limited", "evicts more keys if it exceeds a twelfth of the limit and 8 MiB", "the process stays within its limit"),
    (Setting("maxmemory-policy"), "`volatile-ttl`", "evicts the nearest deadline of a few keys", "evicts the nearest deadline of all keys", "deadlines are indexed"),
    (General(Memory), "replies that clients do not read", "unbounded", "beyond 256 MiB of one client, or 512 MiB of all, their further requests wait; the reply to one request may have any size", "bounded memory"),
    (General(Memory), "replies to a client that has to authenticate and has not", "unbounded, except where CVE-2025-21605 is fixed, as in distributions", "closes a client that leaves more than 17 KiB unread", "the fix"),
    (General(Memory), "messages and events for a client without an output limit", "unbounded", "closes a client that leaves more than 256 MiB unread", "bounded memory"),

    // Expiry
    (General(Expiry), "a TTL that is set inside `EXEC` or a script", "counts from the beginning of the transaction or script: a slow script may take a lock that has already expired", "counts from the moment it is set; `TTL` and `PTTL` return the remaining time then, and no key expires meanwhile", "a lock keeps its full TTL"),
    (General(Expiry), "the wall clock jumps", "relative TTLs become shorter or longer", "only `EXAT`, `PXAT`, `EXPIREAT` and `PEXPIREAT` follow it", "relative deadlines are monotonic"),
    (General(Expiry), "the `expired` event", "when the key is accessed or sampled", "at the deadline, within a millisecond or two", "deadlines are exact"),

    // Clients and process
    (General(Clients), "order of requests of several connections", "order of arrival", "the same with one worker thread; with several, among the connections of each; on Unix sockets, a client that read a reply while the thread was busy may precede earlier ones", "several threads"),
    (General(Process), "the log", "written by the thread that executes commands, which waits for it", "written by a thread of its own; lines for which there is no room are dropped and counted in `dropped_log_lines`", "a pipe that nobody reads must not stop the service"),
    (General(Process), "certificates, ACL files and a configuration to rewrite that are no regular files", "read, or waited for", "refused, the last two with `Not a regular file`", "a pipe that nobody writes must not stop the service"),
    (General(Process), "a panic (a bug)", "crashes the server with a report", "closes the connection that caused it; a line in the log, a count in `caught_panics`", "a bug must not stop the service for all clients"),
];
