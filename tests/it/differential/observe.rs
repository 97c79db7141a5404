//! Observation of the same commands on both servers: fields of INFO, statistics, the slow log.

use std::collections::BTreeSet;

use super::oracle::{Arena, Peer};
use super::script::{tell, words};
use crate::harness::encode;

/// Fields of INFO that only one of the servers has, with the reasons.
#[rustfmt::skip] // a table
const FIELDS: &[(&str, &str, &str)] = &[
    ("server", "keylatch_version", "Redis' version says what clients may rely on, this one what runs"),
    ("server", "listener0", "from Redis 7.2"),
    ("clients", "total_blocking_keys", "from Redis 7.2"),
    ("clients", "total_blocking_keys_on_nokey", "from Redis 7.2"),
    ("clients", "pubsub_clients", "from Redis 7.4"),
    ("clients", "watching_clients", "from Redis 7.4"),
    ("clients", "total_watched_keys", "from Redis 7.4"),
    ("memory", "allocator_muzzy", "from Redis 7.4"),
    ("memory", "mem_overhead_db_hashtable_rehashing", "from Redis 7.4"),
    ("memory", "mem_allocator_quantum", "of keylatch: the size classes that the allocator was built with"),
    ("threads", "io_thread_0", "from Redis 8.0"),
    ("persistence", "rdb_last_save_age_seconds", "of keylatch"),
    ("engine", "engine", "of keylatch"),
    ("locks", "durability", "of keylatch"),
    ("locks", "held", "of keylatch"),
    ("locks", "waiting", "of keylatch"),
    ("locks", "acquired_total", "of keylatch"),
    ("locks", "contended_total", "of keylatch"),
    ("locks", "timed_out_total", "of keylatch"),
    ("locks", "deadlocks_total", "of keylatch"),
    ("locks", "deadlock_steps_total", "of keylatch"),
    ("locks", "expired_while_held_total", "of keylatch"),
    ("locks", "longest_wait_ms", "of keylatch"),
    ("locks", "remembered_fences", "of keylatch"),
    ("locks", "remembered_fences_bytes", "of keylatch"),
    ("locks", "kept_places", "of keylatch"),
    ("locks", "kept_places_bytes", "of keylatch"),
    ("locks", "lock_wait_usec", "of keylatch"),
    ("locks", "lock_hold_usec", "of keylatch"),
    ("stats", "caught_panics", "of keylatch: bugs that cost a connection"),
    ("stats", "dropped_log_lines", "of keylatch: lines that a slow log had no room for"),
    ("stats", "acl_access_denied_auth", "from Redis 7.2"),
    ("stats", "acl_access_denied_cmd", "from Redis 7.2"),
    ("stats", "acl_access_denied_key", "from Redis 7.2"),
    ("stats", "acl_access_denied_channel", "from Redis 7.2"),
    ("stats", "expired_subkeys", "from Redis 7.4"),
    ("stats", "expired_subkeys_active", "from Redis 8.4"),
    ("stats", "expired_keys_active", "from Redis 8.4"),
    ("stats", "evicted_scripts", "from Redis 7.4"),
    ("stats", "io_threaded_total_prefetch_batches", "from Redis 8.0"),
    ("stats", "io_threaded_total_prefetch_entries", "from Redis 8.0"),
    ("stats", "client_query_buffer_limit_disconnections", "from Redis 7.4"),
    ("stats", "client_output_buffer_limit_disconnections", "from Redis 7.4"),
    ("stats", "eventloop_cycles", "from Redis 7.2"),
    ("stats", "eventloop_duration_sum", "from Redis 7.2"),
    ("stats", "eventloop_duration_cmd_sum", "from Redis 7.2"),
    ("stats", "instantaneous_eventloop_cycles_per_sec", "from Redis 7.2"),
    ("stats", "instantaneous_eventloop_duration_usec", "from Redis 7.2"),
    #[cfg(any(feature = "json", feature = "probabilistic"))]
    ("modules", "module", "modules of Redis 8 are built in"),
];

#[test]
fn info_has_the_sections_and_fields_that_redis_has() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    for peer in [&mut pair.keylatch, &mut pair.redis] {
        ask(peer, "SET k v EX 1000");
        ask(peer, "CONFIG RESETSTAT");
        ask(peer, "NOSUCH");
    }
    let (ours, theirs) = (names(&mut pair.keylatch), names(&mut pair.redis));
    let differing: BTreeSet<_> = ours.symmetric_difference(&theirs).cloned().collect();
    let declared = FIELDS.iter().map(|(section, field, _)| ((*section).to_owned(), (*field).to_owned())).collect();
    assert_eq!(differing, declared, "fields that only one has, and those declared as such");
}

#[test]
fn info_shows_the_sections_that_are_asked_for() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    for line in [
        "INFO",
        "INFO all",
        "INFO everything",
        "INFO DEFAULT",
        "INFO modules",
        "INFO module_list",
        "INFO nosuch",
        "INFO Server nosuch CPU",
        "INFO keyspace server keyspace",
        "INFO default commandstats",
        "INFO latencystats commandstats all",
    ] {
        // From Redis 8.0 on there are more, and one is our own.
        let is_old = |line: &&str| !["# Threads", "# Keysizes", "# Locks", "# Engine"].contains(line);
        let titles = |peer: &mut Peer| -> Vec<String> {
            let text = info(peer, line);
            text.lines().filter(|line| line.starts_with('#')).filter(is_old).map(str::to_owned).collect()
        };
        assert_eq!(titles(&mut pair.keylatch), titles(&mut pair.redis), "{line}");
    }
}

/// Returns the sections and fields of INFO EVERYTHING.
fn names(peer: &mut Peer) -> BTreeSet<(String, String)> {
    let (mut section, mut found) = (String::new(), BTreeSet::new());
    for line in info(peer, "INFO everything").lines() {
        match (line.strip_prefix("# "), line.split_once(':')) {
            (Some(title), _) => section = title.to_lowercase(),
            (None, Some((field, _))) => drop(found.insert((section.clone(), field.to_owned()))),
            _ => {}
        }
    }
    found
}

fn ask(peer: &mut Peer, line: &str) -> Vec<u8> {
    peer.send(&encode(&words(line)));
    peer.reply().expect("a reply")
}

fn info(peer: &mut Peer, line: &str) -> String {
    String::from_utf8(ask(peer, line)).expect("INFO is text")
}

/// Compares the increases of hits and misses after each line.
#[test]
fn hits_and_misses_are_counted_as_redis_counts_them() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    let mut found = String::new();
    for line in LOOKUPS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        pair.call(&words(line));
        let lookups = |peer: &mut Peer| -> Vec<String> {
            let text = info(peer, "INFO stats");
            text.lines().filter(|line| line.starts_with("keyspace_")).map(str::to_owned).collect()
        };
        let (ours, theirs) = (lookups(&mut pair.keylatch), lookups(&mut pair.redis));
        if ours != theirs {
            found.push_str(&format!("{line}: redis {theirs:?}, keylatch {ours:?}\n"));
        }
        for peer in [&mut pair.keylatch, &mut pair.redis] {
            ask(peer, "CONFIG RESETSTAT");
        }
    }
    assert!(found.is_empty(), "{found}");
}

const LOOKUPS: &str = "
    SET s 12
    GET s
    GET missing
    MGET s missing s
    EXISTS s s missing
    TOUCH s missing
    STRLEN s
    STRLEN missing
    GETRANGE s 0 1
    SUBSTR missing 0 1
    GETSET s 13
    GETSET new 1
    GETDEL new
    GETDEL missing
    GETEX s EX 100
    GETEX missing PERSIST
    SET s 1 GET
    SET missing2 1 GET NX
    SET s 1 NX
    SETNX s 1
    MSETNX s 1 t 2
    INCR s
    APPEND s 1
    SETRANGE s 1 2
    TTL s
    PTTL missing
    EXPIRETIME s
    EXPIRE s 100
    PERSIST s
    TYPE s
    TYPE missing
    OBJECT ENCODING s
    OBJECT REFCOUNT missing
    OBJECT IDLETIME s
    OBJECT FREQ missing
    MEMORY USAGE s
    SETBIT bits 7 1
    GETBIT bits 7
    GETBIT missing 7
    BITCOUNT bits
    BITPOS bits 1
    BITPOS missing 1
    BITOP OR bits2 bits missing
    BITFIELD bits GET u8 0
    BITFIELD bits GET u8 0 SET u8 0 1
    BITFIELD_RO missing GET u8 0
    LCS s missing
    PFADD h a b
    PFCOUNT h
    PFCOUNT missing
    PFCOUNT h missing
    PFMERGE h2 h missing
    COPY s copied
    COPY missing copied
    RENAME copied copied2
    RENAMENX copied2 s
    MOVE copied2 1
    DEL copied2
    UNLINK missing
    RANDOMKEY
    KEYS *
    SCAN 0
    DBSIZE
    WATCH s
    UNWATCH
    DUMP s
    DUMP missing
    SORT_RO missing
";

#[test]
fn calls_failures_rejections_and_errors_are_counted_as_redis_counts_them() {
    tell("counted", COUNTED);
}

#[cfg(feature = "lua")]
#[test]
fn what_goes_wrong_in_scripts_is_counted_as_redis_counts_it() {
    tell("counted-in-scripts", COUNTED_IN_SCRIPTS);
}

#[cfg(feature = "lua")]
const COUNTED_IN_SCRIPTS: &str = r##"
    CONFIG RESETSTAT
    SET k v
    EVAL "return redis.call('INCR', 'k')" 0
    EVAL "return redis.pcall('INCR', 'k')" 0
    EVAL "redis.pcall('INCR', 'k') return 1" 0
    EVAL "return redis.call('SET', 'k')" 0
    EVAL "return redis.pcall('SET', 'k')" 0
    EVAL "redis.pcall('NOSUCH') redis.pcall('MULTI') return 1" 0
    EVAL "return redis.call('NOSUCH')" 0
    EVAL "return redis.error_reply('MADE up')" 0
    EVAL "return {err = 'MADE up'}" 0
    EVAL "error('oops')" 0
    EVAL "error({err = 'MADE up'})" 0
    EVAL "return nosuch" 0
    EVAL "return (" 0
    EVAL "return 1" x
    EVALSHA nosuch 0
    EVAL_RO "return redis.call('SET', 'k', 'v')" 0
    EVAL "#!lua flags=no-writes\nreturn redis.pcall('SET', 'k', 'v')" 0
    ACL SETUSER alice on nopass ~k +eval +get +config|set
    AUTH alice x
    EVAL "return redis.pcall('SET', 'k', 'v')" 0
    EVAL "return redis.pcall('GET', 'l')" 0
    AUTH default x
    CONFIG SET maxmemory 1
    EVAL "return redis.call('SET', 'k', 'v')" 0
    EVAL "return redis.pcall('SET', 'k', 'v')" 0
    EVAL "redis.pcall('SET', 'k', 'v') return redis.pcall('GET', 'k')" 0
    CONFIG SET maxmemory 0
    FUNCTION LOAD "#!lua name=counted\nredis.register_function('counted', function() return redis.call('SET') end)"
    FCALL counted 0
    FCALL nosuch 0
    FCALL_RO counted 0
    INFO commandstats
    INFO errorstats
    INFO stats
    FUNCTION FLUSH
    ACL DELUSER alice
"##;

const COUNTED: &str = r#"
    CONFIG RESETSTAT
    SET k v
    GET k
    get k
    GET
    GET a b
    INCR k
    INCR
    NOSUCH
    CONFIG NOSUCH
    CONFIG
    CONFIG GET
    CLIENT GETNAME
    CLIENT LIST TYPE nope
    MULTI
    SET k 1
    GET
    EXEC
    MULTI
    INCR k
    SET k
    DISCARD
    MULTI
    SET k v
    INCR k
    APPEND k w
    EXEC
    MULTI
    MULTI
    WATCH k
    EXEC
    EXEC
    DISCARD
    AUTH nothing
    AUTH a b
    AUTH a b c
    HELLO 9
    HELLO 2 AUTH a b
    SELECT 99
    RESET
    OBJECT ENCODING k
    OBJECT NOSUCH k
    DEBUG ERROR "MADE up"
    DEBUG NOSUCH
    SLOWLOG GET x
    LATENCY GRAPH nosuch
    PFADD k x
    INFO commandstats
    INFO errorstats
    INFO stats

    # a failure inside EXEC is that of the command that failed
    SET k v
    CONFIG RESETSTAT
    MULTI
    INCR k
    SET
    EXEC
    INFO commandstats
    MULTI
    INCR k
    EXEC
    INFO commandstats
    EXEC
    INFO commandstats
    INFO errorstats
    INFO stats

    # a queued command counts when EXEC executes it, a rejected one never
    CONFIG RESETSTAT
    MULTI
    SET k v
    GET k
    EXEC
    NOSUCH
    GET
    INFO stats
"#;

#[test]
fn the_slow_log_keeps_the_arguments_that_redis_keeps() {
    let words = |count: usize| (1..=count).map(|number| format!(" {number}")).collect::<String>();
    let long = [31, 32, 33, 40].map(|count| format!("DEL{}", words(count - 1)));
    tell("slow-log", &SLOW_LOG.replace("MANY", &long.join("\n")));
}

const SLOW_LOG: &str = r#"
    CONFIG SET slowlog-log-slower-than 0
    SLOWLOG RESET
    MANY
    GET "x\{127}"
    GET "x\{128}"
    GET "x\{129}"
    GET "x\{1000}"
    GET "a\{128}" "b\{129}"
    MGET "a\{128}" "b\{129}"
    SLOWLOG GET -1
    CONFIG SET slowlog-log-slower-than 10000

    CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3
    PING
    PING
    PING
    PING
    SLOWLOG LEN
    CONFIG SET slowlog-max-len 2
    SLOWLOG LEN
    SLOWLOG GET 1
    SLOWLOG GET
    CONFIG SET slowlog-max-len 128 slowlog-log-slower-than 10000

    CONFIG SET slowlog-log-slower-than 0
    CLIENT SETNAME me
    SLOWLOG RESET
    AUTH secret
    AUTH name secret
    HELLO 2 AUTH name secret SETNAME me
    HELLO 2 SETNAME me AUTH name secret
    CONFIG SET timeout 0 requirepass secret masterauth secret
    AUTH secret
    CONFIG SET requirepass "" masterauth ""
    GET
    NOSUCH
    MULTI
    PING
    EXEC
    SLOWLOG LEN
    CONFIG SET slowlog-log-slower-than -1
    PING
    SLOWLOG GET -1
    CONFIG SET slowlog-log-slower-than 10000
"#;

#[test]
fn what_is_asked_about_the_server_is_answered_as_redis_does() {
    tell("stories", STORIES);
}

const STORIES: &str = r#"
    SLOWLOG LEN x
    SLOWLOG GET 1 2
    SLOWLOG GET x
    SLOWLOG GET -2
    SLOWLOG GET 99999999999999999999
    SLOWLOG GET 0
    SLOWLOG NOSUCH
    SLOWLOG
    LATENCY
    LATENCY NOSUCH
    LATENCY HISTORY
    LATENCY HISTORY nosuch
    LATENCY GRAPH nosuch
    LATENCY LATEST
    LATENCY LATEST x
    LATENCY RESET
    LATENCY RESET a b
    LATENCY HISTOGRAM nosuch
    LATENCY DOCTOR x

    ROLE
    ROLE x
    LASTSAVE x
    MODULE NOSUCH
    MODULE LOAD x
    MODULE UNLOAD x
    MODULE LOADEX x
    MODULE LOADEX x CONFIG a b
    MEMORY PURGE
    MEMORY DOCTOR x
    MEMORY STATS x
    MEMORY MALLOC-STATS x
    LOLWUT VERSION x
    CONFIG RESETSTAT
    CONFIG RESETSTAT x
    MONITOR x
    MULTI
    MONITOR
    EXEC

    DEBUG
    DEBUG NOSUCH
    DEBUG SLEEP
    DEBUG SLEEP 0
    DEBUG SLEEP -1
    DEBUG SLEEP 0.001x
    DEBUG SLEEP x
    DEBUG ERROR
    DEBUG ERROR "ERR made up"
    DEBUG ERROR "a\r\nb"
    DEBUG LOG
    DEBUG LOG hello
    DEBUG SET-DISABLE-DENY-SCRIPTS 0
    DEBUG CHANGE-REPL-ID
    DEBUG PAUSE-CRON 0
    DEBUG REPLYBUFFER RESIZING 1
    DEBUG REPLYBUFFER PEAK-RESET-TIME NEVER
    DEBUG REPLYBUFFER PEAK-RESET-TIME RESET
    DEBUG REPLYBUFFER PEAK-RESET-TIME 100
    DEBUG REPLYBUFFER PEAK-RESET-TIME x
    DEBUG REPLYBUFFER NOSUCH x
    DEBUG QUICKLIST-PACKED-THRESHOLD 1gb
    DEBUG QUICKLIST-PACKED-THRESHOLD 5gb
    DEBUG QUICKLIST-PACKED-THRESHOLD x
    DEBUG QUICKLIST-PACKED-THRESHOLD 0
    DEBUG CLIENT-EVICTION
    DEBUG STRINGMATCH-TEST x
    DEBUG HTSTATS x
    DEBUG HTSTATS 99
    DEBUG HTSTATS-KEY k
    DEBUG LISTPACK k
    DEBUG OBJECT k
    DEBUG RELOAD NOSUCH
    SET k v
    DEBUG HTSTATS-KEY k
    DEBUG LISTPACK k
    DEBUG QUICKLIST k
    DEBUG QUICKLIST k 1
    DEBUG RELOAD
    GET k
    DEBUG HTSTATS 3

    DEBUG PROTOCOL string
    DEBUG PROTOCOL INTEGER
    DEBUG PROTOCOL double
    DEBUG PROTOCOL bignum
    DEBUG PROTOCOL null
    DEBUG PROTOCOL array
    DEBUG PROTOCOL set
    DEBUG PROTOCOL map
    DEBUG PROTOCOL verbatim
    DEBUG PROTOCOL true
    DEBUG PROTOCOL false
    DEBUG PROTOCOL nosuch
    DEBUG PROTOCOL

    DEBUG DIGEST
    DEBUG DIGEST x
    SET a 1
    SET b two
    SET c 3 EX 1000
    SET "" ""
    DEBUG DIGEST
    DEBUG DIGEST-VALUE a b c "" missing
    DEBUG DIGEST-VALUE
    SELECT 5
    SET a 1
    DEBUG DIGEST
    DEL a
    DEBUG DIGEST
    DEBUG POPULATE 20
    DEBUG POPULATE 3 other
    DEBUG POPULATE 3 sized 4
    DEBUG POPULATE 1 zero 0
    MGET key:0 key:19 key:20 other:2 sized:1 zero:0
    DEBUG DIGEST
    DEBUG POPULATE
    DEBUG POPULATE x
    DEBUG POPULATE -1
    DEBUG POPULATE 1 k x
    DBSIZE

    SET key:1 mine
    DEBUG POPULATE 3
    MGET key:0 key:1 key:2 key:3
    DEBUG POPULATE 1 other 3
    GET other:0
    DEBUG POPULATE 1 long 10
    GET long:0
"#;
