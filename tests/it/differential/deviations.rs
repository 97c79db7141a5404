//! Everything in which keylatch differs from Redis 7.0.15 on purpose: the one table, and its page for people.
//!
//! An entry that is not true any more fails a test: [`DECLARED`] in `catalogue.rs`, [`REPLIES`] here.
//! `KEYLATCH_BLESS=1 cargo test --test it deviations` writes `COMPATIBILITY.md` anew.

use std::fmt::Write;
use std::path::Path;

use super::oracle::Arena;
use super::script::words;
use crate::harness::show;

/// A field of COMMAND, COMMAND DOCS or CONFIG GET that differs: of what, which field, and why.
#[rustfmt::skip] // a table
pub(crate) const DECLARED: &[(&str, &str, &str)] = &[
    ("client", "subcommands", "SETINFO and NO-TOUCH are from Redis 7.2, CAPA is from Valkey 8.0"),
    ("client|capa", "existence", "Valkey has it since 8.0"),
    ("client|kill", "docs: arguments", "MAXAGE is from Redis 7.4; the old form is not marked as deprecated"),
    ("client|no-touch", "existence", "Redis has it since 7.2"),
    ("cluster", "subcommands", "MYSHARDID is from Redis 7.2, SLOT-STATS from 8.0"),
    ("cluster|myshardid", "existence", "Redis has it since 7.2; it is refused like the others"),
    ("cluster|slot-stats", "existence", "Redis has it since 8.0; it is refused like the others"),
    ("delex", "existence", "Redis has it since 8.4"),
    ("delifeq", "existence", "Valkey has it since 9.0; Redis 8.4 has DELEX for it"),
    ("digest", "existence", "Redis has it since 8.4"),
    ("exec", "arity", "the conditions are Valkey's, of 9.2"),
    ("exec", "docs: arguments", "the conditions are Valkey's, of 9.2"),
    ("expire", "docs: arguments", "conditions on the string, as proposed to Redis (pull request 15280)"),
    ("expireat", "docs: arguments", "see expire"),
    ("increx", "existence", "Redis has it since 8.8, Valkey since 9.2"),
    ("msetex", "existence", "Redis has it since 8.4, Valkey since 9.1"),
    ("pexpire", "docs: arguments", "see expire"),
    ("pexpireat", "docs: arguments", "see expire"),
    ("set", "docs: arguments", "IFEQ, IFNE, IFDEQ and IFDNE are from Redis 8.4"),
    ("client|setinfo", "existence", "clients send it on connect; Redis has it since 7.2"),
    ("wait", "flags", "scripts may call it since Redis 7.2, and it is marked as blocking"),
    ("wait", "ACL categories", "see its flags"),
    ("waitaof", "existence", "Redis has it since 7.2"),
    ("script", "subcommands", "SHOW is from Valkey 8.0"),
    ("script|show", "existence", "Valkey has it since 8.0"),
];

/// A command line with a reply of its own: the line, Redis' reply, keylatch's, and why.
///
/// A reply that ends in `...` is compared up to there.
#[rustfmt::skip] // a table
const REPLIES: &[(&str, &str, &str, &str)] = &[
    ("CLIENT SETINFO LIB-NAME mylib", "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.", "+OK",
     "clients send it on connect; Redis has it since 7.2"),
    ("HELLO 3", "%7 $6 server $5 redis $7 version $6 7.0.15 ...", "%7 $6 server $5 redis $7 version $5 8.4.0 ...",
     "clients choose features by the version; what Redis 8.4 brought for strings is there; INFO and scripts say the same"),
    ("SET k v IFEQ w", "-ERR syntax error", "$-1", "Redis has it since 8.4, and IFNE, IFDEQ and IFDNE"),
    ("EXPIRE k 10 IFEQ v", "-ERR Unsupported option IFEQ", ":0", "renews a lock only for its owner, as proposed to Redis; IFNE, IFDEQ and IFDNE too"),
    ("EXEC NX k", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
     "-ERR EXEC without MULTI", "EXEC takes the conditions of Valkey 9.2; inside MULTI, what is none aborts"),
    ("BITOP DIFF k a b", "-ERR syntax error", ":0", "Redis has it since 8.2, and DIFF1, ANDOR and ONE"),
    ("DELEX k", "-ERR unknown command 'DELEX', with args beginning with: 'k' ", ":0", "Redis has it since 8.4"),
    ("DIGEST k", "-ERR unknown command 'DIGEST', with args beginning with: 'k' ", "$-1", "Redis has it since 8.4"),
    ("MSETEX 1 k v NX EX 10", "-ERR unknown command 'MSETEX', with args beginning with: '1' 'k' 'v' 'NX' 'EX' '10' ", ":1",
     "Redis has it since 8.4, Valkey since 9.1"),
    ("INCREX n BYINT 5 UBOUND 3", "-ERR unknown command 'INCREX', with args beginning with: 'n' 'BYINT' '5' 'UBOUND' '3' ",
     "*2 :0 :0", "Redis has it since 8.8, Valkey since 9.2"),
    ("CLIENT CAPA redirect", "-ERR unknown subcommand 'CAPA'. Try CLIENT HELP.", "+OK", "Valkey has it since 8.0"),
    ("CLIENT NO-TOUCH on", "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.", "+OK",
     "Redis has it since 7.2"),
    ("WAITAOF 0 0 0", "-ERR unknown command 'WAITAOF', with args beginning with: '0' '0' '0' ", "*2 :0 :0",
     "Redis has it since 7.2"),
    ("CLIENT KILL MAXAGE 1000000", "-ERR syntax error", ":0", "Redis has it since 7.4"),
    ("CONFIG SET proto-max-bulk-len 1", "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be between 1048576 and 9223372036854775807 inclusive",
     "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be between 1048576 and 4294967295 inclusive", "no string is longer than 4 GiB"),
    ("BITCOUNT missing x y", ":0", "-ERR value is not an integer or out of range", "since Redis 7.2 arguments are checked before the key is looked for"),
    ("BITPOS missing 1 x", ":-1", "-ERR value is not an integer or out of range", "see BITCOUNT"),
    ("WAIT 0 9223372036854775807", ":0", "-ERR timeout is out of range", "since Redis 7.2; CLIENT PAUSE, too"),
    ("CONFIG SET maxmemory-samples 65", "+OK", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-samples') - argument must be between 1 and 64 inclusive",
     "since Redis 7.2"),
    ("HSET h f v", ":1", "-ERR unknown command 'HSET', with args beginning with: 'h' 'f' 'v' ",
     "there are no data types but strings yet"),
];

/// What differs and cannot be shown by one reply.
#[rustfmt::skip] // a table
const MANNERS: &[(&str, &str, &str)] = &[
    ("`MIGRATE`", "holds every client up until the target has answered", "other clients are served meanwhile; a key that was changed in between stays here although the target has its old value, and the reply is `OK`; a client that leaves ends its migration"),
    ("`MIGRATE` to a target that refuses the login or the database", "has sent the keys already: they may land in another database", "sends no key before both are granted"),
    ("`MIGRATE` to a target that does not speak RESP", "takes any line that is no error for a yes, and deletes the key", "deletes nothing: an error reading"),
    ("`MIGRATE` inside `EXEC` and scripts", "holds every client up", "an error where there is a key to move, because neither waits; `NOKEY` and errors in the options are the same"),
    ("Connections of `MIGRATE`", "are kept for ten seconds and tried a second time, and use TLS with `tls-cluster`", "one for each call, plain: `migrate_cached_sockets` is 0"),
    ("The time of a `MIGRATE` in the slow log and the statistics", "counts the target's", "counts what it held other clients up"),
    ("Scripts", "may take all memory, and `error({})` or a very long pattern ends the server", "are limited to 512 MiB of memory, 512 MiB of JSON or MessagePack, replies of 1 GiB nested 1000 deep, coroutines nested 150 deep and patterns of 1000 bytes; beyond that they get an error"),
    ("`SCRIPT DEBUG YES`, `SYNC`", "debugs the scripts that follow", "an error: scripts run to their end"),
    ("An error in a function of Lua's that a script returns directly, as `return next(nil)`", "names the place", "names no place where the function is one that the sandbox has replaced"),
    ("`GETRANGE` and `SUBSTR` with an end before the first byte, as `GETRANGE k 0 -100`", "return the first byte", "return nothing, as Redis 8"),
    ("`WATCH` while a script is busy", "is served", "is refused with `BUSY`, as all that touches a key"),
    ("The global table `os` in scripts", "does not exist", "has `clock`, as in later versions"),
    ("The global table `server` in scripts", "does not exist", "is the same as `redis`, as in Valkey"),
    ("`extended-redis-compatibility`, a setting of Valkey's", "does not exist", "is `yes`; with `no` the names and error messages are those of Valkey 8.1: `server valkey` and `version 8.1.0` in `HELLO`, `server_name`, `valkey_version` and `server_mode` in `INFO`, `NOSUB` where nothing is subscribed to, `BITCOUNT` with a start alone, `MULTI` and `WATCH` that discard the transaction they are in, `server.` in errors of scripts, `Valkey is busy`, `Invalid primary port`; `redis_version` stays 8.4.0"),
    ("`EXPIREAT`, `PEXPIREAT`, `EXAT` and `PXAT`", "the key can be seen for the millisecond of its deadline", "the key expires when that millisecond begins"),
    ("A time to live that is set inside `EXEC` or a script", "counts from the beginning of the transaction or the script, so a slow script may take a lock that has already expired", "counts from the moment it is set; `TTL` and `PTTL` tell what is left at that moment, while no key expires in between"),
    ("The order of requests of several connections", "the order of arrival", "the same, with one worker thread; with several, among the connections of each; on Unix sockets, a client that took a reply while the thread was busy may come before those that asked first"),
    ("A panic, which is a bug", "ends the server with a report", "closes the connection that it happened in, with a line in the log and a count in `caught_panics`"),
    ("Keys that have ended", "may be counted by `DBSIZE` until they are found", "are removed at their deadline; nothing counts them"),
    ("A jump of the wall clock", "shortens or lengthens relative times to live", "does not touch them; only `EXAT`, `PXAT`, `EXPIREAT` and `PEXPIREAT` follow the wall clock"),
    ("`SCAN`", "cursors and the order of keys follow its hash table", "cursors and order are its own; the guarantees are the same"),
    ("`KEYS`", "an atomic snapshot", "over a big database other clients are served in between, so it is a snapshot only inside `EXEC`"),
    ("`LCS` of long strings", "holds every client up", "other clients are served in between; the result is that of the moment it began"),
    ("`WATCH`", "misses some changes: by `BITFIELD` of a string that only grew because `OVERFLOW FAIL` kept all else, by `PFADD` before it met damage, by `PFDEBUG`", "notices every change"),
    ("A HyperLogLog that goes on behind its last register", "is refused since the repair of CVE-2025-32023, which distributions have added to 7.0.15; without it some commands take it", "is refused"),
    ("A HyperLogLog cut in the middle of a run", "is changed together with the byte behind the end of its string", "is changed as if that byte were zero"),
    ("A HyperLogLog under a `hll-sparse-max-bytes` above 12304", "stays sparse although the dense form is shorter, and adding an element takes longer the larger it is", "becomes dense where that form is shorter; after 2048 changes in one command its runs are rewritten in their shortest form"),
    ("`PFSELFTEST`", "counts ten million elements and holds every client up", "counts a hundred thousand"),
    ("An inline line of more than 64 KiB", "refused only where its end has not arrived in the same read", "always refused"),
    ("`UNSUBSCRIBE` and `SUNSUBSCRIBE` of all", "go through the channels in the order of a hash table", "go through them in the order in which they were subscribed to"),
    ("A message that a client publishes to itself", "comes before the reply, and inside `EXEC` in the middle of it", "comes after it, as since Redis 7.2"),
    ("Events of keys that a client of RESP3 causes and listens to", "come before, inside or after the reply of its command", "come after it, as in Redis 7.2"),
    ("What scripts read, for clients that track keys", "the keys that the script was given are remembered once it reads any", "the keys that it does read are, as in Redis 7.2"),
    ("`tracking_total_keys` in `INFO` when the last client that tracks has gone", "goes down as keys change", "is 0"),
    ("A key beyond `tracking-table-max-keys`", "is given up before the next command", "is given up at once"),
    ("The `expired` event", "comes when somebody looks at the key, or at the latest when the key is sampled", "comes at the deadline, within a millisecond or two"),
    ("`QUIT` and `CLIENT KILL` of oneself inside `EXEC`, or under `CLIENT REPLY OFF`", "lose the rest of the reply, or do not close", "reply and close"),
    ("What others send to a client without an output limit", "is kept without bound", "closes a client that leaves more than 256 MiB of it unread"),
    ("`OBJECT FREQ` after `BITFIELD`, `SETNX` or `SET` with `NX` or `XX`", "counts each time the command looked the key up", "may count one use fewer or more"),
    ("`OBJECT IDLETIME` of a key unused for long", "begins again at 0 after 194 days", "begins again at 0 after 38 days"),
    ("`OBJECT FREQ` of a number that Redis shares among keys", "one count for all of them", "a count for each key"),
    ("`OBJECT REFCOUNT` of a small number", "was decided when it was stored: shared, unless `maxmemory` with an LRU or LFU policy was in force", "follows from the settings now"),
    ("`RESTORE` of other types than strings", "restores them", "says `Bad data format: only strings can be restored`"),
    ("`RESTORE` of a string longer than `proto-max-bulk-len`", "restores it", "says `Bad data format`"),
    ("A dump's compression", "now and then finds a repetition more, by chance", "is always the same"),
    ("`used_memory`, which `maxmemory` limits", "what was asked of the allocator", "counted: what keys, tables, clients and all that is remembered for them take, and what the process held at its start; within 5 % of what was asked of the allocator"),
    ("`maxmemory` with a policy that evicts keys", "lets the process take what the allocator loses to fragmentation besides", "evicts more keys where that is more than a twelfth of the limit and more than 8 MiB"),
    ("Replies that wait for clients that do not read", "are kept without bound", "256 MiB for one client and 512 MiB for all together; the requests behind them are executed when there is room again"),
    ("A request of arguments that are each within `client-query-buffer-limit`", "may be of any length", "closes its client when it is longer than that and than 1 GiB"),
    ("`maxmemory-eviction-tenacity`", "bounds a step of eviction by time", "bounds it by the number of keys that take about that time"),
    ("`volatile-ttl`", "removes the first to end of a few keys", "removes the first to end of all"),
    ("`OBJECT REFCOUNT` of a small number that `COPY` made", "1", "2147483647, as that of every number below 10000"),
    ("`ACL LOG`", "keeps keys, channels and names of any length", "keeps the first 64 KiB of each; has `entry-id`, `timestamp-created` and `timestamp-last-updated` of Redis 7.2 besides"),
    ("`ACL SETUSER ... %~pattern`", "is accepted and ends the server when the user is shown", "is a syntax error"),
    ("Rules of `ACL LIST` and `ACL GETUSER`", "are worked out from what they have come to; whether payloads are checked is shown where it was said", "are those that were given, in their order, and `sanitize-payload` is always shown, as since Redis 7.2"),
    ("`ACL LOAD`", "closes the clients of all users but the default one", "closes those whose user is gone, or may not listen any more to what they listen to, as since Redis 7.2"),
    ("`ACL SETUSER` with a parenthesis that opens inside an open one", "forgets the first", "is a syntax error; of several that stay open the first is named, as since Redis 7.2"),
    ("`ACL SETUSER` with a blank in a first argument, as `+get|a b`", "is accepted, and makes two rules when the file is read again", "is a syntax error"),
    ("Names of users in `ACL GETUSER` and `ACL DELUSER`", "are shown by the slow log", "are redacted, as since Redis 7.2"),
    ("`HELLO`", "carries out each option at once, even if a later one is refused", "carries out nothing before all options are known to be right; of several the last one counts, as since Redis 7.2"),
    ("Doubles in replies, and numbers that scripts give to commands", "have 17 digits", "have as few digits as tell them from all others, as since Redis 7.2"),
    ("`KEYS`, `SCAN` and other patterns with a thousand `*` and more", "give up at a nesting of 1000: `*?` repeated 50000 times matches nothing", "match whatever the pattern says, in a time that grows with its length times that of the name"),
    ("`INFO`", "fields of features that keylatch does not have", "every field, with a plain zero for such features; memory and statistics are its own; some fields of later versions besides"),
    ("The names in `INFO errorstats`", "as many as scripts make up; since 7.4 all of them are forgotten when there are 128, and none is counted any more", "the server's own, and of those that scripts make up 128 in all; the rest is counted as `ERRORSTATS_OVERFLOW`, as in Valkey"),
    ("`INFO commandstats`, `LATENCY HISTOGRAM`, `LATENCY LATEST`", "in the order of a hash table", "by name"),
    ("`usec` in `INFO commandstats`", "the sum of whole microseconds", "the sum of nanoseconds, in microseconds"),
    ("`DEBUG` and `MODULE` that the settings do not allow", "are counted as rejected", "are counted as failed"),
    ("`AUTH` with too many words", "is shown by `MONITOR` and `SLOWLOG` as it is", "is shown redacted"),
    ("A client that watches by `MONITOR`", "sees its own calls between its replies", "the same; calls of others come after the replies to what it sent at once"),
    ("`LATENCY DOCTOR`, `MEMORY DOCTOR`, `LATENCY GRAPH`, `LOLWUT`", "reports and pictures of its own", "reports and pictures of its own; `LOLWUT` ends with the line `Redis ver.`"),
    ("`CLIENT LIST`, `CLIENT INFO`", "the fields of 7.0", "those of 8.4: `watch`, `lib-name`, `lib-ver`, `io-thread`, which is always 0, `tot-net-in`, `tot-net-out` and `tot-cmds` besides"),
    ("The memory of idle clients", "each keeps a query buffer of 16 KiB for two seconds", "none keeps a buffer: `qbuf` and `qbuf-free` are 0 between requests"),
    ("`DEBUG SET-DISABLE-DENY-SCRIPTS`", "lets scripts call every command", "lets scripts call `DEBUG`"),
    ("`DEBUG OBJECT` of an expired key", "shows it until it is removed, which may take a while", "the same; but it is removed at its deadline, unless `DEBUG SET-ACTIVE-EXPIRE 0` keeps it"),
    ("The title of the process", "follows `proc-title-template`", "stays what it was; the template is checked"),
    ("`DEBUG HELP`", "explains the subcommands", "lists them"),
    ("`DEBUG RELOAD`", "saves the data and loads it again", "replies `OK`: nothing that a client sees would change; with `NOSAVE` and as `LOADAOF` it is refused"),
    ("`DEBUG OBJECT`, `DEBUG HTSTATS`", "tell of Redis' structures", "tell the encoding and the lengths as Redis would, with no address or compression, and the number of elements"),
    ("`HELP` of containers", "says what the subcommands do in Redis' words", "in its own, derived from grammar and summaries; the first line and the last two are the same"),
    ("What `redis_version` promises", "7.0.15", "8.4.0: all that strings, keys, connections, scripts and messages got up to 8.4, by its own name."),
    ("`SET` with `IFEQ`, `IFNE`, `IFDEQ` or `IFDNE` beside another condition", "has none of them; 8.4 lets some pairs pass", "a syntax error in either order, as in 8.10"),
    ("`DELEX` without a condition, `IFDEQ`, the error for other types", "has none of them; Redis and Valkey differ", "as in Redis 8.4; Valkey 9.2 asks for a condition and knows no digests"),
    ("`EXEC` with conditions", "has none", "as in Valkey 9.2: `IFEQ`, `IFNE`, `NX`, `XX`, all of which must be met; whoever may not read their keys is refused"),
    ("Settings", "those of 7.0", "those of 8.4; names and words that only Valkey has, or Redis after 8.4, are accepted and shown by `CONFIG GET` of the very name"),
    ("`COMMAND DOCS`", "summaries and histories in Redis' words", "summaries in its own words, no histories"),
];

/// Clients and tools that were seen working: name, version, what they did, and whether CI repeats it.
const SEEN: &str = include_str!("../../clients/seen.txt");

/// The page, from its title to the end.
fn page() -> String {
    let mut page = String::from(
        "# Compatibility\n\n\
         keylatch replies byte for byte as Redis 7.0.15 does, in RESP2 and RESP3, to every command that it has. The\n\
         tests send the same bytes to both and compare (`tests/it/differential.rs`). This page lists all that differs on\n\
         purpose. Replies and declarations are checked: an entry that is no longer true fails a test. The page is generated\n\
         from the table of those tests by `KEYLATCH_BLESS=1 cargo test --test it deviations`.\n\n\
         ## Manners\n\n| What | Redis 7.0.15 | keylatch |\n|---|---|---|\n",
    );
    // Writing to a string cannot fail.
    for (what, redis, keylatch) in MANNERS {
        let _ = writeln!(page, "| {what} | {redis} | {keylatch} |");
    }
    page.push_str("\n## Replies\n\n| Line | Redis 7.0.15 | keylatch | Why |\n|---|---|---|---|\n");
    for (line, redis, keylatch, reason) in REPLIES {
        let _ = writeln!(page, "| `{line}` | `{redis}` | `{keylatch}` | {reason} |");
    }
    page.push_str(
        "\n## Declarations\n\nFields of `COMMAND`, `COMMAND DOCS` and `CONFIG GET`, of commands and settings that both know.\n\n\
         | Of | Field | Why it differs |\n|---|---|---|\n",
    );
    for (of, field, reason) in DECLARED {
        let _ = writeln!(page, "| `{}` | {field} | {reason} |", of.replace('|', "\\|"));
    }
    page.push_str(
        "\n## Clients and tools seen working\n\nAgainst the release binary. What CI repeats is in `tests/clients`, where the three claims about\n\
         locks are explained in `locks.py`.\n\n| Name | Version | Seen doing | In CI |\n|---|---|---|---|\n",
    );
    for line in SEEN.lines() {
        let _ = writeln!(page, "| {line} |");
    }
    page.push_str(&super::suite_table::section());
    page
}

#[test]
fn the_page_of_deviations_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("COMPATIBILITY.md");
    if std::env::var_os("KEYLATCH_BLESS").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "COMPATIBILITY.md is stale; run with KEYLATCH_BLESS=1");
}

#[test]
fn the_versions_that_were_seen_are_those_that_ci_installs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("text");
    let pinned = [read("requirements.txt"), read("package.json"), read("rust/Cargo.toml")].concat();
    // `name==1`, `"name": "1"`, `name = "=1"` and `name = { version = "=1", ...`
    for line in pinned.lines().map(|line| line.replace("{ version =", "").replace(['"', ',', ':', '='], " ")) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let is_pin = version.starts_with(|c: char| c.is_ascii_digit()) && version != "0.0.0";
        if is_pin && !["edition", "tokio"].contains(&name) {
            assert!(
                SEEN.lines().any(|seen| seen.split(" | ").nth(1) == Some(version)),
                "{name} {version} is not in seen.txt"
            );
        }
    }
}

#[test]
fn replies_that_differ_on_purpose_are_those_of_the_table() {
    let Some(arena) = Arena::open() else { return };
    for (line, redis, keylatch, _) in REPLIES {
        let replies = arena.pair().call(&words(line));
        for (name, said, expected) in [("redis", replies.redis, redis), ("keylatch", replies.keylatch, keylatch)] {
            let said = show(&said.expect("a reply"));
            let matches = match expected.strip_suffix("...") {
                Some(start) => said.starts_with(start),
                None => said == *expected,
            };
            assert!(matches, "{name} says to {line}\n  {said}\nand not\n  {expected}");
        }
    }
}
