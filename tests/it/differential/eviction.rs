//! Stories about eviction and OOM errors. Each story begins and ends without a memory limit.

use super::script::tell;

#[test]
fn commands_that_need_memory_are_refused_as_by_redis() {
    tell("refusals", REFUSALS);
}

#[test]
fn what_is_known_of_the_use_of_keys_is_told_as_by_redis() {
    tell("usage", USAGE);
}

const REFUSALS: &str = r#"
    SET a 1
    CONFIG SET maxmemory 1
    SET a 2
    GET a
    APPEND a x
    INCR a
    SETRANGE a 0 x
    MSET a 1 b 2
    GETSET a 1
    SETNX b 1
    COPY a b
    RESTORE b 0 x
    SORT a
    SORT_RO a
    SETBIT a 1 1
    BITFIELD a GET u1 0
    BITFIELD_RO a GET u1 0
    BITOP NOT b a
    PFADD h a
    GETDEL missing
    GETEX a EX 1000
    EXPIRE a 1000
    PERSIST a
    RENAME a b
    TYPE b
    SET
    SET a
    NOSUCH a
    DEL b
    TTL b
    CONFIG SET maxmemory 0
    SET a 1

    CONFIG SET maxmemory 1
    MULTI
    GET a
    EXEC
    MULTI
    PING
    CONFIG SET maxmemory 0
    DISCARD
    MULTI
    SET a 1
    MULTI
    EXEC
    MULTI
    EXEC
    WATCH a
    UNWATCH
    CONFIG SET maxmemory 0

    MULTI
    SET a 1
    SET b 1
    b: CONFIG SET maxmemory 1
    EXEC
    EXISTS a b
    EXEC
    b: CONFIG SET maxmemory 0
    EXISTS a b

    MULTI
    GET a
    PING
    b: CONFIG SET maxmemory 1
    EXEC
    b: CONFIG SET maxmemory 0

    MULTI
    CONFIG SET maxmemory 1
    SET a 1
    EXEC
    SET a 2
    CONFIG SET maxmemory 0
    GET a

    MULTI
    SET a 1
    b: CONFIG SET maxmemory 1
    RESET
    CONFIG SET maxmemory 0

    MULTI
    GET a
    b: CONFIG SET maxmemory 1
    GET a
    DISCARD
    MULTI
    GET a
    RESET
    b: CONFIG SET maxmemory 0
    MULTI
    GET a
    b: CONFIG SET maxmemory 1
    GET a
    QUIT
    PING
    b: CONFIG SET maxmemory 0

    MSET a 1 b 2
    SET t 1 EX 1000
    CONFIG SET maxmemory-policy volatile-lru
    CONFIG SET maxmemory 1
    SET c 3
    DBSIZE
    CONFIG SET maxmemory-policy allkeys-lru
    GET a
    DBSIZE
    SET c 3
    CONFIG SET maxmemory 0
    CONFIG SET maxmemory-policy noeviction

    CONFIG SET maxmemory 100mb maxmemory-samples 10 maxmemory-eviction-tenacity 100 lfu-log-factor 0 lfu-decay-time 0
    CONFIG GET maxmemory
    CONFIG GET maxmemory-samples
    CONFIG SET maxmemory-eviction-tenacity 101
    CONFIG SET lfu-log-factor -1
    CONFIG SET lfu-decay-time x
    CONFIG SET maxmemory -1
    CONFIG SET maxmemory 0 maxmemory-samples 5 maxmemory-eviction-tenacity 10 lfu-log-factor 10 lfu-decay-time 1

    # an evicted key is a changed key
    CONFIG SET maxmemory-policy allkeys-lru
    SET k v
    WATCH k
    MULTI
    GET k
    b: CONFIG SET maxmemory 1
    b: DBSIZE
    b: CONFIG SET maxmemory 0
    EXEC
    CONFIG SET maxmemory-policy noeviction
"#;

const USAGE: &str = r#"
    SET k v
    OBJECT IDLETIME k
    OBJECT FREQ k
    OBJECT FREQ missing
    OBJECT IDLETIME missing
    CONFIG SET maxmemory-policy allkeys-lfu
    OBJECT IDLETIME k
    OBJECT IDLETIME missing
    OBJECT FREQ missing
    SET new v
    OBJECT FREQ new
    CONFIG SET lfu-log-factor 0 lfu-decay-time 0
    GET new
    GET new
    OBJECT FREQ new
    TYPE new
    EXISTS new
    OBJECT ENCODING new
    OBJECT FREQ new
    TOUCH new
    OBJECT FREQ new
    STRLEN new
    OBJECT FREQ new
    APPEND new x
    OBJECT FREQ new
    SET new w
    OBJECT FREQ new
    EXPIRE new 1000
    OBJECT FREQ new
    DUMP new
    OBJECT FREQ new
    COPY new newer
    OBJECT FREQ new
    OBJECT FREQ newer
    RENAME new newest
    OBJECT FREQ newest
    SETRANGE newest 1 abc
    OBJECT FREQ newest
    GETEX newest PERSIST
    OBJECT FREQ newest
    MGET newest newest
    OBJECT FREQ newest
    GETRANGE newest 0 1
    OBJECT FREQ newest
    PERSIST newest
    TTL newest
    OBJECT FREQ newest
    GETSET newest abc
    OBJECT FREQ newest
    SETBIT newest 1 1
    OBJECT FREQ newest
    BITCOUNT newest
    OBJECT FREQ newest
    RESTORE r 0 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" FREQ 77
    OBJECT FREQ r
    MSET newest 1 m v
    OBJECT FREQ m
    CONFIG SET lfu-log-factor 10 lfu-decay-time 1
    CONFIG SET maxmemory-policy noeviction

    SET i 1
    OBJECT REFCOUNT i
    CONFIG SET maxmemory 1gb
    SET i 1
    OBJECT REFCOUNT i
    CONFIG SET maxmemory-policy allkeys-random
    SET i 1
    OBJECT REFCOUNT i
    CONFIG SET maxmemory-policy volatile-lfu
    SET i 1
    OBJECT REFCOUNT i
    OBJECT ENCODING i
    CONFIG SET maxmemory 0
    SET i 1
    OBJECT REFCOUNT i
    CONFIG SET maxmemory-policy noeviction
"#;
