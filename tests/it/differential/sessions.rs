//! Stories about the connection and the server: authentication, HELLO, names, settings, COMMAND, arity.

use keylatch::internals::{CommandSpec, table};

use super::companions::play;
use super::deviations::DECLARED;
use super::oracle::Arena;
use super::script::{Differences, spell, tell};

#[test]
fn connections_are_opened_named_and_reset_as_redis_does() {
    tell("connection", CONNECTION);
}

#[test]
fn passwords_are_required_and_checked_as_in_redis() {
    tell("passwords", PASSWORDS);
}

#[test]
fn a_password_set_at_run_time_applies_to_new_clients_only_as_in_redis() {
    play("new-password", NEW_PASSWORD);
}

#[test]
fn unknown_words_are_refused_with_the_texts_of_redis() {
    tell("unknown", UNKNOWN);
}

#[test]
fn settings_are_read_and_refused_as_redis_does() {
    tell("settings", SETTINGS);
}

#[test]
fn what_clients_of_clusters_ask_is_refused_as_redis_alone_refuses_it() {
    tell("cluster", CLUSTER);
}

#[test]
fn commands_describe_themselves_in_the_forms_of_redis() {
    tell("command", COMMAND);
}

#[cfg(feature = "lua")]
#[test]
fn the_keys_of_a_script_are_found_as_redis_finds_them() {
    tell("keys-of-scripts", KEYS_OF_SCRIPTS);
}

/// Compares the text of arity errors: Redis rejects every number of arguments that a row rejects.
#[test]
fn every_command_refuses_the_numbers_of_arguments_that_redis_refuses() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    let mut pair = arena.pair();
    let with_subcommands = |command: &'static CommandSpec| std::iter::once(command).chain(&command.subcommands);
    for command in table().all().iter().flat_map(with_subcommands) {
        if DECLARED.iter().any(|(of, field, _)| (*of, *field) == (command.name.as_str(), "existence")) {
            continue; // Redis 7.0 does not have it
        }
        let name: Vec<Vec<u8>> = command.name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        for len in name.len()..=command.arity.unsigned_abs() as usize + 2 {
            if command.accepts(len) {
                continue;
            }
            let mut args = name.clone();
            args.resize(len, b"x".to_vec());
            let replies = pair.call(&args);
            if !replies.agree() {
                found.add(&spell(&args), &replies);
            }
        }
    }
    found.report();
}

const CONNECTION: &str = r#"
    ping
    PING
    PING hello
    PING "\x00\r\n"
    PING ""
    PING a b
    ECHO hello
    ECHO ""
    ECHO "\x00\r\n\xff"
    ECHO
    ECHO a b
    SELECT 0
    SELECT 15
    SET k fifteen
    SELECT 16
    SELECT -1
    SELECT x
    SELECT ""
    SELECT 1.0
    SELECT 2147483647
    SELECT 2147483648
    SELECT -2147483648
    SELECT -2147483649
    SELECT 9223372036854775807
    SELECT 9223372036854775808
    SELECT " 1"
    SELECT 99999999999
    SELECT
    GET k
    SELECT 0
    GET k

    QUIT
    PING

    QUIT now please
    PING

    HELLO
    HELLO 2
    GET missing
    HELLO 3
    GET missing
    HELLO 4
    HELLO 1
    HELLO x
    HELLO 3.0
    HELLO ""
    HELLO -3
    HELLO 9223372036854775808
    HELLO 2 SETNAME
    HELLO 2 SETNAME me
    CLIENT GETNAME
    HELLO 2 SETNAME "a b"
    CLIENT GETNAME
    HELLO 2 SETNAME ""
    CLIENT GETNAME
    HELLO 2 AUTH
    HELLO 2 AUTH default
    HELLO 2 AUTH default x
    HELLO 2 AUTH nobody x
    HELLO 2 auth default "" setname you
    CLIENT GETNAME
    HELLO 3 SETNAME a SETNAME b
    CLIENT GETNAME
    HELLO 2 FOO
    HELLO 2 FOO bar
    HELLO 2 "a\r\nb"
    HELLO 3 AUTH nobody x
    CLIENT GETNAME
    GET missing
    HELLO 9 FOO
    HELLO FOO 2

    HELLO three
    HELLO 3 FOO
    HELLO 3 SETNAME
    HELLO 3 AUTH default
    HELLO 3 AUTH other x
    HELLO 3 SETNAME "a b"
    GET missing
    CLIENT GETNAME

    CLIENT GETNAME
    CLIENT SETNAME me
    CLIENT GETNAME
    client getname
    CLIENT SETNAME worker:1
    CLIENT GETNAME
    CLIENT SETNAME ""
    CLIENT GETNAME
    CLIENT SETNAME "a b"
    CLIENT SETNAME "a\nb"
    CLIENT SETNAME "\x7f"
    CLIENT SETNAME "\xc3\xa9"
    CLIENT SETNAME "~!"
    CLIENT GETNAME
    CLIENT LIST TYPE nope
    CLIENT LIST TYPE
    CLIENT LIST ID
    CLIENT LIST ID x
    CLIENT LIST ID 0
    CLIENT LIST ID -1
    CLIENT LIST ID 1 x
    CLIENT LIST ID 99999999
    CLIENT LIST FOO
    CLIENT LIST TYPE normal normal
    CLIENT LIST TYPE master
    CLIENT LIST TYPE replica
    CLIENT LIST TYPE slave
    CLIENT LIST TYPE pubsub

    SELECT 3
    CLIENT SETNAME me
    SET k v
    MULTI
    RESET
    EXEC
    CLIENT GETNAME
    GET k
    GET missing
    SELECT 3
    GET k
    RESET x

    TIME x
    DBSIZE x
    INFO nosuchsection
"#;

const PASSWORDS: &str = r#"
    AUTH x
    AUTH default x
    AUTH default ""
    AUTH nobody x
    AUTH a b c
    AUTH ""
    AUTH DEFAULT x

    CONFIG SET requirepass secret
    CONFIG GET requirepass
    b: PING
    RESET
    PING
    GET k
    GET
    NOSUCH
    CLIENT NOSUCH
    CLIENT GETNAME
    CONFIG GET requirepass
    COMMAND COUNT
    MULTI
    EXEC
    SELECT 1
    AUTH
    AUTH wrong
    AUTH default wrong
    AUTH nobody secret
    AUTH secre
    AUTH secrett
    AUTH SECRET
    AUTH ""
    AUTH other secret
    AUTH a b c
    HELLO
    HELLO 2
    HELLO 3
    HELLO 9
    HELLO x
    HELLO 3 FOO
    HELLO 3 SETNAME me
    HELLO 3 AUTH default wrong
    HELLO 3 AUTH default wrong SETNAME me
    HELLO 3 AUTH default
    PING
    GET k
    RESET
    PING
    AUTH default secret
    PING
    RESET
    AUTH secret
    PING
    AUTH wrong
    PING
    RESET
    HELLO 3 AUTH default secret SETNAME me
    CLIENT GETNAME
    GET k
    HELLO
    MULTI
    AUTH wrong
    EXEC
    PING
    CONFIG SET requirepass ""
    CONFIG GET requirepass
    RESET
    PING

    CONFIG SET requirepass secret
    RESET
    QUIT
    PING
    b: CONFIG SET requirepass ""
"#;

const NEW_PASSWORD: &str = r#"
    a: CONFIG SET requirepass secret
    a: PING
    a: CONFIG GET requirepass
    b: PING
    b: AUTH secret
    b: PING
    a: CONFIG SET requirepass other
    b: PING
    b: RESET
    b: PING
    b: AUTH secret
    b: AUTH other
    a: CONFIG SET requirepass ""
    c: PING
"#;

const UNKNOWN: &str = r#"
    NOSUCH
    nosuch a b c
    NoSuch ""
    NOSUCH "a\r\nb" "\x00\xff"
    "NO\r\nSUCH" a
    "NO\x00SUCH" a
    "" a
    ""
    "GET " k
    NOSUCH aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    NOSUCH aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccc dd
    NOSUCHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHH x
    CLIENT NOSUCH
    client nosuch a b
    CLIENT ""
    CLIENT "a\r\nb"
    CLIENT "a\x00b"
    CLIENT aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    CONFIG NOSUCH
    CONFIG
    CLIENT
    COMMAND NOSUCH
    COMMAND NOSUCH a
    CLIENT|GETNAME
    CLIENT|NOSUCH
    CONFIG|GET maxclients
    GET|x k
    MULTI
    CLIENT|GETNAME
    EXEC
"#;

const SETTINGS: &str = r#"
    CONFIG GET maxclients
    CONFIG GET MAXCLIENTS
    config get maxclients maxclients
    ~ CONFIG GET maxclients databases
    ~ CONFIG GET maxcl* databases
    CONFIG GET max[c]lients
    CONFIG GET nosuch
    CONFIG GET nosuch*
    CONFIG GET ""
    CONFIG GET client-output-buffer-limit
    CONFIG GET proto-max-bulk-len
    CONFIG SET nosuch 1
    CONFIG SET "no\r\nsuch" 1
    CONFIG SET maxclients
    CONFIG SET maxclients 100 timeout
    CONFIG SET maxclients x
    CONFIG SET maxclients 0
    CONFIG SET maxclients ""
    CONFIG SET timeout -1
    CONFIG SET timeout 3
    CONFIG GET timeout
    CONFIG SET TIMEOUT 0
    CONFIG GET timeout
    CONFIG SET timeout 1 timeout 2
    CONFIG SET timeout 1 TIMEOUT 2
    CONFIG SET timeout 5 nosuch 1
    CONFIG GET timeout
    CONFIG SET timeout 5 hz x
    CONFIG GET timeout
    CONFIG SET databases 20
    CONFIG SET daemonize yes
    CONFIG SET appendfsync nope
    CONFIG GET loglevel
    CONFIG SET appendonly maybe
    CONFIG SET save x
    CONFIG SET save ""
    CONFIG GET save
    CONFIG SET proto-max-bulk-len 1mb
    CONFIG GET proto-max-bulk-len
    CONFIG SET proto-max-bulk-len x
    CONFIG SET proto-max-bulk-len 512mb
    CONFIG GET proto-max-bulk-len
    CONFIG SET client-output-buffer-limit "normal 1mb 0 0"
    CONFIG GET client-output-buffer-limit
    CONFIG SET client-output-buffer-limit "normal 0 0 0"
    CONFIG SET client-output-buffer-limit "nope 0 0 0"
    CONFIG SET client-output-buffer-limit "normal 0 0"
    CONFIG SET client-output-buffer-limit "normal x 0 0"
    CONFIG SET maxmemory-policy allkeys-lru
    CONFIG GET maxmemory-policy
    CONFIG SET maxmemory-policy noeviction
    CONFIG SET maxmemory 100mb
    CONFIG GET maxmemory
    CONFIG SET maxmemory 0
    CONFIG SET requirepass
    CONFIG SET dir /nosuch/dir
    CONFIG SET hz 1000
    CONFIG GET hz
    CONFIG SET hz 10

    SET k 12345678
    CONFIG SET proto-max-bulk-len 1mb
    SETRANGE k 1048576 x
    SETRANGE k 1048575 x
    APPEND k x
    STRLEN k
    CONFIG SET proto-max-bulk-len 512mb

    CONFIG GET timeout
    CONFIG GET TIMEOUT
    CONFIG GET proto-max-*
    CONFIG GET m?xclients
    CONFIG GET max[b-d]lients
    ~ CONFIG GET timeout maxclients timeout
    CONFIG GET key-load-dela*
    CONFIG GET key-load-delay
    CONFIG GET
    CONFIG SET timeout 5 hz 20
    ~ CONFIG GET timeout hz
    CONFIG SET timeout 9 hz abc
    CONFIG SET timeout 9 nosuch 1
    CONFIG SET timeout 9 port
    CONFIG SET timeout 9 timeout 8
    CONFIG SET timeout 9 databases 4
    ~ CONFIG GET timeout hz
    CONFIG SET timeout 0 hz 10
    CONFIG SET proto-max-bulk-len 5x
    CONFIG SET appendfsync sometimes
    CONFIG SET client-output-buffer-limit wrong
    CONFIG SET

    CONFIG SET proto-max-bulk-len 2MB
    CONFIG GET proto-max-bulk-len
    CONFIG SET proto-max-bulk-len 512mb
    CONFIG SET maxmemory 1g
    CONFIG GET maxmemory
    CONFIG SET maxmemory 0
    CONFIG SET appendonly NO
    CONFIG GET appendonly
    CONFIG SET appendfsync ALWAYS
    CONFIG GET appendfsync
    CONFIG SET appendfsync everysec
    CONFIG SET maxmemory-policy ALLKEYS-LRU
    CONFIG GET maxmemory-policy
    CONFIG SET maxmemory-policy noeviction
    CONFIG SET client-output-buffer-limit "normal 1mb 512kb 5 pubsub 0 0 0"
    CONFIG GET client-output-buffer-limit
    CONFIG SET client-output-buffer-limit "normal 0 0 0 pubsub 32mb 8mb 60"

    CONFIG SET hash-max-ziplist-entries 7
    CONFIG GET hash-max-listpack-entries
    CONFIG SET hash-max-ziplist-entries 512
    CONFIG SET zset-max-listpack-value 1kb
    CONFIG GET zset-max-ziplist-value
    CONFIG SET zset-max-listpack-value 64
    CONFIG SET list-max-listpack-size -2147483648
    CONFIG GET list-max-ziplist-size
    CONFIG SET list-max-listpack-size 2147483648
    CONFIG SET list-max-listpack-size -2
    CONFIG SET set-max-intset-entries -1
    CONFIG SET list-compress-depth 3
    CONFIG GET list-compress-depth
    CONFIG SET list-compress-depth 0
"#;

const CLUSTER: &str = r#"
    CLUSTER INFO
    cluster nodes
    CLUSTER NODES x
    CLUSTER SLOTS
    CLUSTER SHARDS
    CLUSTER MYID
    CLUSTER KEYSLOT k
    CLUSTER KEYSLOT
    CLUSTER MEET 127.0.0.1 1
    CLUSTER RESET HARD SOFT
    CLUSTER HELP
    CLUSTER
    CLUSTER NOSUCH
    READONLY
    READONLY x
    READWRITE
    ASKING
    MULTI
    READONLY
    CLUSTER INFO
    EXEC
"#;

#[cfg(feature = "lua")]
const KEYS_OF_SCRIPTS: &str = r#"
    COMMAND GETKEYS EVAL x 1 a b
    COMMAND GETKEYS EVAL x 3 a
    COMMAND GETKEYS EVAL x 0 a
    COMMAND GETKEYS EVAL x b a
    COMMAND GETKEYS EVAL x -1 a
"#;

const COMMAND: &str = r#"
    COMMAND GETKEYS GET k
    COMMAND GETKEYS MSET a 1 b 2 c
    COMMAND GETKEYS MSET a 1 b 2
    COMMAND GETKEYS SET k v GET
    COMMAND GETKEYS lcs a b
    COMMAND GETKEYS SORT a STORE b
    COMMAND GETKEYS SORT a BY STORE ALPHA
    COMMAND GETKEYSANDFLAGS SORT a by STORE get x store c LIMIT 0 STORE store b ASC
    COMMAND GETKEYSANDFLAGS SORT_RO a BY b
    COMMAND GETKEYS PING x
    COMMAND GETKEYS GET
    COMMAND GETKEYS GET a b
    COMMAND GETKEYS NOSUCH a
    COMMAND GETKEYS CLIENT NOSUCH
    COMMAND GETKEYS OBJECT ENCODING k
    COMMAND GETKEYS MEMORY USAGE k
    COMMAND GETKEYS OBJECT ENCODING
    COMMAND GETKEYS BITOP AND d a b c
    COMMAND GETKEYS PFMERGE d
    COMMAND GETKEYS COPY a b
    COMMAND GETKEYS COMMAND x
    COMMAND GETKEYSANDFLAGS GET k
    COMMAND GETKEYSANDFLAGS SET k v
    COMMAND GETKEYSANDFLAGS SET k v PX 1 get
    COMMAND GETKEYSANDFLAGS BITFIELD k get u8 0
    COMMAND GETKEYSANDFLAGS BITFIELD k get u8 0 incrby u8 0 1
    COMMAND GETKEYSANDFLAGS BITOP AND d a b c
    COMMAND GETKEYSANDFLAGS RENAME a b
    COMMAND GETKEYSANDFLAGS DEL a b c
    COMMAND GETKEYSANDFLAGS WATCH a b
    COMMAND LIST FILTERBY MODULE nosuch
    COMMAND LIST FILTERBY ACLCAT nosuch
    COMMAND LIST FILTERBY NOSUCH x
    COMMAND LIST FILTERBY PATTERN
    ~ COMMAND LIST FILTERBY ACLCAT hyperloglog
    ~ COMMAND LIST FILTERBY PATTERN pf*
    ~ COMMAND LIST FILTERBY PATTERN config|g*
    COMMAND DOCS nosuch
    COMMAND INFO nosuch get|x config|nosuch
    COMMAND NOSUCH

    SHUTDOWN x
    SHUTDOWN SAVE NOSAVE
    SHUTDOWN NOW ABORT
    SHUTDOWN ABORT
    SHUTDOWN abort abort
    MULTI
    SHUTDOWN NOSAVE
    EXEC

    CONFIG REWRITE
    CONFIG REWRITE x
    CONFIG SET timeout 7 timeout 8
    CONFIG SET slave-priority 7 replica-priority 8
    ~ CONFIG GET *-priority replica-priority SLAVE-priority
    CONFIG SET slave-priority 100
    CONFIG SET replica-priority x port 1
    CONFIG SET port x
    CONFIG SET port 70000
    CONFIG SET loglevel warning maxclients 0
    ~ CONFIG GET loglevel maxclients
    CONFIG SET dbfilename x
    CONFIG SET dir /
    CONFIG SET tls-port x

    COMMAND INFO get nosuch
    ~ COMMAND INFO get
    ~ COMMAND INFO GET nosuch set
    ~ COMMAND INFO client|getname
    ~ COMMAND INFO CLIENT|GETNAME
    COMMAND INFO client|nosuch
    COMMAND INFO nosuch
    COMMAND INFO nosuch nosuch
    COMMAND INFO get|x
    COMMAND INFO ""
    COMMAND INFO |
    COMMAND INFO client|
    COMMAND INFO client|getname|x
    COMMAND DOCS nosuch
    COMMAND DOCS nosuch client|nosuch
    COMMAND COUNT x
    COMMAND LIST FILTERBY
    COMMAND LIST FILTERBY PATTERN
    COMMAND LIST FOO
    COMMAND LIST FOO BAR
    COMMAND LIST FILTERBY FOO bar
    COMMAND LIST FILTERBY PATTERN get x
    COMMAND LIST FILTERBY PATTERN get
    COMMAND LIST filterby pattern GET
    ~ COMMAND LIST FILTERBY PATTERN gete*
    COMMAND LIST FILTERBY PATTERN ge*x
    COMMAND LIST FILTERBY MODULE x
    ~ COMMAND LIST FILTERBY PATTERN incr[b]*
    COMMAND LIST FILTERBY PATTERN nosuch
    COMMAND LIST FILTERBY PATTERN client|getname
    ~ COMMAND LIST FILTERBY PATTERN expire*
    COMMAND LIST FILTERBY MODULE nosuch
    COMMAND LIST FILTERBY ACLCAT nosuch
    ~ COMMAND LIST FILTERBY ACLCAT transaction
    ~ COMMAND LIST FILTERBY ACLCAT TRANSACTION
    COMMAND LIST FILTERBY ACLCAT @string
    ~ COMMAND LIST FILTERBY ACLCAT transaction
"#;
