//! Stories about MULTI, EXEC and WATCH with two connections.

use super::script::tell;

#[test]
fn transactions_are_queued_run_and_refused_as_redis_does() {
    tell("transactions", TRANSACTIONS);
}

#[test]
fn watched_keys_stop_the_transactions_that_redis_stops() {
    tell("watches", WATCHES);
}

#[test]
fn whatever_changes_a_watched_key_stops_the_transaction_as_in_redis() {
    let stories = CHANGES.map(|change| CHANGED.replace("CHANGE", change));
    tell("changes", &stories.join("\n"));
}

/// Changes of `k`, or of `fresh`, which does not exist.
const CHANGES: [&str; 21] = [
    "b: SET k 2",
    "b: SET k 1",
    "b: SETNX fresh 1",
    "b: DEL k",
    "b: UNLINK k",
    "b: INCR k",
    "b: APPEND k x",
    "b: SETRANGE k 0 x",
    "b: EXPIRE k 100",
    "b: PEXPIREAT k 99999999999999",
    "b: GETEX k EX 100",
    "b: GETDEL k",
    "b: GETSET k 9",
    "b: MSET other 1 k 2",
    "b: RENAME k elsewhere",
    "b: RENAME source k",
    "b: INCRBYFLOAT k 1",
    "b: SETEX k 10 v",
    "b: FLUSHDB",
    "b: FLUSHALL",
    "b: SELECT 5\n    b: FLUSHALL",
];

const CHANGED: &str = r#"
    MSET k 1 source 5
    WATCH k fresh
    CHANGE
    MULTI
    SET done 1
    EXEC
    EXISTS done
    MULTI
    SET done 1
    EXEC
"#;

const TRANSACTIONS: &str = r#"
    MULTI
    SET k 1
    b: GET k
    INCR k
    GET k
    MGET k x
    EXEC
    b: GET k
    EXEC
    DISCARD
    MULTI
    EXEC
    MULTI
    MULTI
    SET k 5
    EXEC
    GET k

    MULTI
    SET k 1
    DISCARD
    GET k
    MULTI
    NOSUCH
    SET k 1
    EXEC
    GET k
    MULTI
    GET
    DISCARD
    MULTI
    GET
    EXEC
    MULTI
    SET a 1
    CLIENT NOSUCH
    SET b 1
    EXEC
    EXISTS a b
    MULTI
    WATCH
    SET b 1
    EXEC
    EXISTS b
    MULTI
    CONFIG GET
    EXEC
    MULTI x
    DISCARD x
    WATCH
    UNWATCH x

    SET s abc
    MULTI
    INCR s
    SET k v EX 0
    SET k after-an-error
    RENAME x y
    EXPIRE k x
    SELECT 99
    EXEC
    GET k

    MULTI
    WATCH k
    SET k 1
    EXEC
    MULTI
    UNWATCH
    PING
    PING hello
    ECHO hi
    SELECT 1
    SET k in-one
    SELECT 0
    DBSIZE
    CLIENT SETNAME me
    CLIENT GETNAME
    CONFIG GET maxclients
    FLUSHALL
    TYPE k
    ~ KEYS *
    SCAN 0
    EXEC
    CLIENT GETNAME

    MULTI
    SET k zero
    SELECT 3
    SET k three
    SELECT 99
    GET k
    DBSIZE
    EXEC
    GET k
    SELECT 0
    GET k

    MULTI
    AUTH x
    HELLO 9
    RESET
    EXEC
    PING

    MULTI
    SET k v
    QUIT
    b: GET k
    GET k

    MULTI
    RESET
    DISCARD

    MULTI
    ECHO hi
    CONFIG SET timeout 7
    CONFIG GET timeout
    EXISTS a
    MSET a 1 b 2
    COMMAND COUNT
    DISCARD
    CONFIG GET timeout
    MGET a b
    MULTI
    CONFIG SET timeout 7
    CONFIG GET timeout
    CONFIG SET timeout 0
    MSET a 1 b 2
    LCS a b LEN
    RENAME a c
    PEXPIREAT c 4102444800000
    PEXPIRETIME c
    TYPE c
    EXEC

    MULTI
    LCS a b IDX
    GETEX k EX 0
    SET k v NX XX
    SET k v GET
    COMMAND COUNT x
    EXEC

    MULTI
    DEL x
    UNLINK x
    EXISTS x
    RENAMENX x y
    KEYS
    EXEC
"#;

const WATCHES: &str = r#"
    WATCH k
    b: SET k 1
    MULTI
    GET k
    EXEC
    GET k

    WATCH k l
    b: SET m 1
    MULTI
    PING
    EXEC

    SET k 1
    WATCH k
    SET k 2
    MULTI
    PING
    EXEC

    SET k 1
    WATCH k
    b: GET k
    b: EXISTS k
    b: TTL k
    b: TYPE k
    b: STRLEN k
    b: GETRANGE k 0 1
    b: ~ KEYS *
    b: SCAN 0
    b: SET other 1
    b: RENAMENX other k
    b: FLUSHDB SIDEWAYS
    b: SET k 2 NX
    b: SETNX k 3
    b: PERSIST k
    b: APPEND k ""
    b: RENAME k k
    b: RENAMENX k k
    b: DEL other
    b: EXPIRE k 100 XX
    b: GETEX k
    b: GETEX k PERSIST
    b: MSETNX k 1 z 2
    b: SETRANGE k 3 ""
    b: INCR z
    MULTI
    PING
    EXEC

    SET k 1
    WATCH k
    b: APPEND k ""
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: EXPIRE k 100
    MULTI
    EXEC

    SET k 1 PXAT 4102444800000
    WATCH k
    b: PERSIST k
    MULTI
    EXEC

    SET k 1 PXAT 4102444800000
    WATCH k
    b: GETEX k PERSIST
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: GETEX k EX 100
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: GETDEL k
    b: SET k 1
    MULTI
    EXEC

    WATCH k
    b: SET k 1
    b: DEL k
    MULTI
    EXEC

    WATCH k
    b: DEL k
    b: UNLINK k
    MULTI
    EXEC

    SET k 1
    WATCH l
    b: RENAME k l
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: RENAME k l
    MULTI
    EXEC

    WATCH k
    b: FLUSHALL
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: FLUSHALL
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: SELECT 1
    b: FLUSHDB
    b: SET k 1
    MULTI
    EXEC

    SET k 1
    WATCH k
    SELECT 1
    b: SET k 2
    MULTI
    EXEC
    GET k

    # whatever ends a transaction ends its watches
    WATCH k
    MULTI
    NOSUCH
    EXEC
    b: SET k 1
    MULTI
    GET k
    EXEC
    WATCH k
    MULTI
    SET k 2
    DISCARD
    b: SET k 3
    MULTI
    GET k
    EXEC
    WATCH k
    MULTI
    EXEC
    b: SET k 4
    MULTI
    GET k
    EXEC
    WATCH k
    MULTI
    UNWATCH
    b: SET k 5
    EXEC
    MULTI
    UNWATCH
    EXEC
    MULTI
    SET a 1
    FLUSHALL
    SET b 1
    DBSIZE
    EXEC
    EXISTS a b

    SET k 1
    WATCH k
    b: SET k 2
    UNWATCH
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: SET k 2
    MULTI
    DISCARD
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: SET k 2
    MULTI
    EXEC
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: SET k 2
    RESET
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: SET k 2
    MULTI
    NOSUCH
    EXEC

    SET k 1
    WATCH k
    b: EXPIRE k -1
    MULTI
    EXEC

    SET k v PXAT 1
    WATCH k
    MULTI
    GET k
    EXEC

    SET k v PXAT 1
    WATCH k
    b: GET k
    MULTI
    EXEC

    SET k v PXAT 1
    WATCH k
    b: SET k w
    MULTI
    EXEC

    SET k v PXAT 1
    WATCH k
    b: DEL k
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: INCRBYFLOAT k 0
    MULTI
    EXEC

    SET k 1
    WATCH k
    b: INCRBY k 0
    MULTI
    EXEC

    SET k v
    WATCH k
    b: INCR k
    b: SETRANGE k 0 ""
    b: EXPIRE k 1 GT
    MULTI
    EXEC

    WATCH k k k
    b: MULTI
    b: SET k 1
    b: EXEC
    MULTI
    EXEC

    SET k v
    WATCH k
    b: EXPIRE k 0 GT
    MULTI
    EXEC

    SET k v PXAT 1
    WATCH k
    b: MGET k
    b: FLUSHALL
    MULTI
    EXEC

    # a key is watched in the database in which it was watched
    SELECT 5
    WATCH k
    SELECT 0
    MULTI
    PING
    b: SET k 1
    EXEC
    SELECT 5
    WATCH k
    SELECT 0
    MULTI
    PING
    b: SELECT 5
    b: SET k 1
    EXEC

    # the same name in two databases is two keys
    WATCH k
    SELECT 5
    WATCH k
    MULTI
    PING
    b: SET k 2
    EXEC

    WATCH k
    RESET
    b: SET k 1
    MULTI
    PING
    EXEC
    MULTI
    SET k 2
    RESET
    EXEC
    GET k
    MULTI
    SET k 3
    QUIT
    GET k
    b: GET k
"#;
