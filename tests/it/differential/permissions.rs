//! Stories about permissions: commands, keys, transactions, and the ACL log.
//!
//! Users outlive a story, so each story begins by deleting its users.

use super::companions::play;
use super::script::tell;

#[test]
fn users_are_refused_what_redis_refuses_them() {
    tell("gate", GATE);
}

#[test]
fn keys_are_read_and_written_as_redis_allows() {
    tell("keys", KEYS);
}

#[test]
fn transactions_ask_again_as_redis_does() {
    tell("transactions", TRANSACTIONS);
}

#[test]
fn clients_of_a_deleted_user_are_closed_as_by_redis() {
    play("deleted", DELETED);
}

#[test]
fn listeners_that_may_not_listen_any_more_are_closed_as_by_redis() {
    let commands = ["SUBSCRIBE news", "SSUBSCRIBE news", "PSUBSCRIBE ne*"];
    play("listeners", &commands.map(|command| LISTENERS.replace("LISTEN", command)).join("\n"));
}

#[test]
fn writes_that_ask_for_replicas_are_refused_as_redis_does() {
    tell("replicas", REPLICAS);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_whose_writes_ask_for_replicas_are_refused_as_redis_does() {
    tell("scripts-without-replicas", SCRIPTS_WITHOUT_REPLICAS);
}

#[test]
fn refusals_are_logged_as_redis_does() {
    tell("log", LOG);
}

const GATE: &str = r##"
    ACL DELUSER alice
    ACL WHOAMI
    ACL SETUSER alice on >pw
    b: AUTH alice pw
    b: ACL WHOAMI
    b: GET k
    b: NOSUCH
    b: GET
    b: CLIENT ID
    b: client getname
    b: CLIENT NOSUCH
    b: CONFIG GET port
    b: RESET
    b: ACL WHOAMI
    b: HELLO 2 AUTH alice pw SETNAME me
    b: CLIENT GETNAME
    ACL SETUSER alice +acl +get +set +client|getname
    b: ACL WHOAMI
    b: GET k
    b: CLIENT GETNAME
    b: CLIENT ID
    ACL SETUSER alice ~k*
    b: GET k
    b: SET k v
    b: SET x v
    b: GET k2
    b: MGET k x
    ACL SETUSER alice +mget
    b: MGET k x
    b: MGET k k2
    ACL SETUSER alice allkeys
    b: MGET k x
    ACL SETUSER alice allcommands
    b: DBSIZE
    ACL SETUSER alice -dbsize
    b: DBSIZE
    ACL SETUSER alice +dbsize
    b: DBSIZE
    ACL SETUSER alice -get
    b: GET k
    ACL SETUSER alice +get
    b: GET k
    b: QUIT

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all -select +select|0 +select|3
    AUTH alice x
    SELECT 0
    SELECT 1
    SELECT 3
    SELECT
    ACL SETUSER alice -acl
    ACL WHOAMI
    b: ACL DELUSER alice
    PING

    ACL DELUSER alice
    ACL SETUSER alice on nopass +acl +ping
    AUTH alice x
    ACL DELUSER alice
    PING

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all ~*
    AUTH alice x
    b: ACL DELUSER alice
    b: ACL SETUSER alice on nopass +@all ~*
    PING

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all
    AUTH alice x
    ACL SETUSER alice -ping
    PING
    ACL SETUSER alice -@all
    ACL WHOAMI
    HELLO 3
    RESET
    ACL DELUSER alice

    ACL DELUSER alice
    ACL SETUSER alice on nopass -@all (+@write ~write::*) (+@read ~read::*)
    b: AUTH alice x
    b: PING
    b: SET write::foo bar
    b: GET read::foo
    b: GET write::foo
    b: SET read::foo bar
    ACL SETUSER alice (+@all)
    b: PING
    b: SET read::foo bar
    b: FLUSHALL
    b: QUIT
"##;

const KEYS: &str = r##"
    ACL DELUSER alice
    ACL SETUSER alice on +@all %R~read* %W~write* %RW~rw*
    ACL DRYRUN alice GET read
    ACL DRYRUN alice GET write
    ACL DRYRUN alice GET other
    ACL DRYRUN alice SET read x
    ACL DRYRUN alice SET write x
    ACL DRYRUN alice SET write x GET
    ACL DRYRUN alice SET write get
    ACL DRYRUN alice SET write get get
    ACL DRYRUN alice SET write x EX Get
    ACL DRYRUN alice SET write x EX "get\x00"
    ACL DRYRUN alice SET rw x GET
    ACL DRYRUN alice GETSET write x
    ACL DRYRUN alice GETDEL write
    ACL DRYRUN alice GETEX read
    ACL DRYRUN alice APPEND write x
    ACL DRYRUN alice SETRANGE write 0 x
    ACL DRYRUN alice INCR write
    ACL DRYRUN alice INCR rw
    ACL DRYRUN alice MSET write1 a write2 b
    ACL DRYRUN alice MSET write1 a read b
    ACL DRYRUN alice MSET write1 a read
    ACL DRYRUN alice MSETNX rw a write b read c
    ACL DRYRUN alice MGET read rw write
    ACL DRYRUN alice COPY read write
    ACL DRYRUN alice COPY write read
    ACL DRYRUN alice RENAME rw write
    ACL DRYRUN alice RENAME read write
    ACL DRYRUN alice BITOP AND write read rw
    ACL DRYRUN alice BITOP AND read read rw
    ACL DRYRUN alice BITFIELD read GET u4 0
    ACL DRYRUN alice BITFIELD read
    ACL DRYRUN alice BITFIELD write
    ACL DRYRUN alice BITFIELD read GET u4 0 SET u4 0 1
    ACL DRYRUN alice BITFIELD read OVERFLOW WRAP GET u4 0
    ACL DRYRUN alice BITFIELD read OVERFLOW
    ACL DRYRUN alice BITFIELD read GET u4
    ACL DRYRUN alice BITFIELD read NOSUCH
    ACL DRYRUN alice BITFIELD write INCRBY u4 0 1
    ACL DRYRUN alice BITFIELD rw INCRBY u4 0 1
    ACL DRYRUN alice BITFIELD_RO read GET u4 0
    ACL DRYRUN alice PFCOUNT read read
    ACL DRYRUN alice PFCOUNT write read
    ACL DRYRUN alice PFADD write x
    ACL DRYRUN alice PFMERGE rw read
    ACL DRYRUN alice PFMERGE write read
    ACL DRYRUN alice TOUCH read
    ACL DRYRUN alice TOUCH write
    ACL DRYRUN alice TOUCH nothing
    ACL DRYRUN alice EXISTS read write rw
    ACL DRYRUN alice EXISTS read nothing
    ACL DRYRUN alice MEMORY USAGE write
    ACL DRYRUN alice MEMORY USAGE nothing
    ACL DRYRUN alice OBJECT ENCODING write
    ACL DRYRUN alice OBJECT ENCODING nothing
    ACL DRYRUN alice TYPE read
    ACL DRYRUN alice TYPE nothing
    ACL DRYRUN alice STRLEN write
    ACL DRYRUN alice STRLEN nothing
    ACL DRYRUN alice DEL write
    ACL DRYRUN alice DEL read
    ACL DRYRUN alice UNLINK write read
    ACL DRYRUN alice EXPIRE write 1
    ACL DRYRUN alice EXPIRE read 1
    ACL DRYRUN alice TTL write
    ACL DRYRUN alice TTL read
    ACL DRYRUN alice PERSIST write
    ACL DRYRUN alice MOVE rw 1
    ACL DRYRUN alice MOVE write 1
    ACL DRYRUN alice WATCH write
    ACL DRYRUN alice WATCH nothing
    ACL DRYRUN alice LCS read rw
    ACL DRYRUN alice LCS read write
    ACL DRYRUN alice SCAN 0
    ACL DRYRUN alice KEYS *
    ACL DRYRUN alice FLUSHALL
    ACL SETUSER alice -@all
    ACL DRYRUN alice set somekey somevalue
    ACL DRYRUN alice CLIENT ID
    ACL DRYRUN alice client|id
    ACL DRYRUN alice AUTH x
    ACL DRYRUN alice HELLO

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all %R~read* %W~write*
    SET read bar
    b: AUTH alice x
    b: GET read
    b: SET read x
    b: SET write x
    b: SET write x GET
    b: GET write
    b: COPY read write
    b: COPY write read
    b: EXISTS write read
    ACL SETUSER alice resetkeys "(%R~read* +@all)" "(%W~write* +@all)"
    b: GET read
    b: SET write x
    b: COPY read write
    b: QUIT
"##;

const TRANSACTIONS: &str = r##"
    ACL DELUSER alice
    ACL SETUSER alice on nopass +multi +exec +discard +get ~a
    b: AUTH alice x
    b: MULTI
    b: GET a
    b: SET a b
    b: GET a
    b: EXEC
    b: MULTI
    b: GET b
    b: DISCARD
    b: MULTI
    b: GET a
    ACL SETUSER alice -get
    b: EXEC
    ACL SETUSER alice +get
    b: MULTI
    b: GET a
    ACL SETUSER alice resetkeys
    b: EXEC
    ACL SETUSER alice -exec ~a
    b: MULTI
    b: GET a
    b: EXEC
    b: EXEC
    b: GET a
    b: QUIT

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all ~*
    AUTH alice x
    MULTI
    SET a 1
    ACL SETUSER alice -get -watch
    GET a
    ACL WHOAMI
    AUTH default ""
    GET a
    EXEC
    ACL WHOAMI
    MULTI
    ACL DELUSER alice
    PING
    EXEC

    ACL DELUSER alice
    ACL SETUSER alice on nopass +@all ~*
    AUTH alice x
    MULTI
    ACL DELUSER alice
    PING
    EXEC
    PING
"##;

const LOG: &str = r##"
    ACL DELUSER alice
    ACL LOG RESET
    ACL LOG
    ACL SETUSER alice >foo on +set ~object:1234 +multi +exec
    b: AUTH alice foo
    b: GET foo
    ACL LOG
    b: GET foo
    b: GET bar
    b: CLIENT ID
    ACL LOG
    b: SET somekeynotallowed 1234
    ACL LOG 1
    b: MULTI
    b: INCR foo
    b: EXEC
    ACL LOG 1
    ACL SETUSER alice +incr
    b: MULTI
    b: INCR object:1234
    ACL SETUSER alice -incr
    b: EXEC
    ACL LOG 1
    ACL LOG 2
    ACL LOG 0
    ACL LOG -5
    ACL LOG x
    ACL LOG 1 2
    b: AUTH alice wrong
    b: auth nobody wrong
    b: hello 2 auth alice wrong
    ACL LOG 3
    b: MULTI
    b: AUTH alice wrong
    b: GET x
    b: EXEC
    ACL LOG 3
    ACL SETUSER alice +auth
    b: MULTI
    b: AUTH alice wrong
    b: EXEC
    ACL LOG 2
    CONFIG SET acllog-max-len 2
    ACL LOG 100
    b: GET another
    ACL LOG 100
    b: SET another x
    ACL LOG 100
    ACL LOG RESET
    ACL LOG
    CONFIG SET acllog-max-len 0
    b: GET another
    ACL LOG
    CONFIG SET acllog-max-len 128
    CONFIG SET acllog-max-len -1
    b: AUTH default ""

    ACL DELUSER alice
    ACL LOG RESET
    ACL SETUSER alice on nopass +mget ~key (+mget ~key ~otherkey)
    b: AUTH alice x
    b: GET key
    ACL LOG
    ACL LOG RESET
    b: MGET otherkey someotherkey
    ACL LOG
    ACL LOG RESET
    b: MGET key otherkey someotherkey
    b: MGET a b c
    ACL LOG
    ACL LOG RESET
    b: QUIT
"##;

const DELETED: &str = r#"
    a: ACL SETUSER alice on nopass allcommands
    b: AUTH alice x
    b: PING
    c: AUTH alice x
    a> ACL DELUSER alice ; ACL SETUSER alice on nopass allcommands
    a<
    a<
    c<
    b: PING
    a: PING
    a: AUTH alice x
    a: ACL WHOAMI
    a: AUTH default x
    a: ACL DELUSER alice

    a: ACL SETUSER alice on nopass allcommands
    a: AUTH alice x
    a> ACL DELUSER alice ; PING
    a<
    a<
"#;

const LISTENERS: &str = r#"
    a: ACL SETUSER alice reset on nopass +@all &news &ne*
    b: AUTH alice x
    b: LISTEN
    a: ACL SETUSER alice -get resetchannels &ne* &other &news
    a: ACL SETUSER alice allchannels
    b: PING
    a: ACL SETUSER alice resetchannels &other
    b<
    a: ACL DELUSER alice
"#;

const REPLICAS: &str = r#"
    CONFIG RESETSTAT
    SET k v
    MULTI
    SET k w
    b: CONFIG SET min-replicas-to-write 2
    b: GET k
    b: PUBLISH c m
    b: SET k v
    b: DEL k
    b: EXPIRE k 10
    b: GETEX k
    b: FLUSHALL
    b: SWAPDB 0 1
    b: SORT k
    b: RESTORE k 0 x
    b: SET k
    b: PFCOUNT nosuch
    EXEC
    GET k
    MULTI
    GET k
    EXEC
    MULTI
    SET k v
    EXEC
    INFO errorstats
    CONFIG SET min-replicas-max-lag 0
    SET k v
    CONFIG SET min-slaves-max-lag 10
    SET k v
    CONFIG SET min-slaves-to-write 0
    SET k v
"#;

#[cfg(feature = "lua")]
const SCRIPTS_WITHOUT_REPLICAS: &str = r##"
    CONFIG SET min-replicas-to-write 1
    EVAL "return redis.call('get', 'k')" 0
    EVAL "return redis.call('set', 'k', 'v')" 0
    EVAL "return redis.pcall('set', 'k', 'v')" 0
    EVAL "#!lua\nreturn redis.call('get', 'k')" 0
    EVAL "#!lua flags=no-writes\nreturn redis.call('get', 'k')" 0
    EXISTS k
    CONFIG SET min-replicas-to-write 0
"##;
