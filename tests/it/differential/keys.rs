//! Stories about keys of any type: each command, option and error at least once.

use super::script::tell;

#[test]
fn keys_are_found_renamed_and_removed_as_redis_does() {
    tell("keys", KEYS);
}

#[test]
fn keys_reach_other_databases_as_those_of_redis_do() {
    tell("databases", DATABASES);
}

#[test]
fn values_are_said_to_be_kept_as_redis_keeps_them() {
    tell("encodings", ENCODINGS);
}

const KEYS: &str = r#"
    MSET a 1 b 2 c 3
    EXISTS a
    EXISTS a b x a a
    DEL a x a
    UNLINK b x b
    EXISTS a b c
    DEL x
    UNLINK x
    EXISTS
    DEL
    UNLINK
    TYPE
    TYPE a b
    DBSIZE x
    TYPE c
    TYPE x
    DBSIZE

    MSET a 1 b 2
    RENAME a c
    GET c
    RENAME a c
    RENAME c c
    RENAME x x
    RENAME c
    RENAME b c
    MGET a b c
    RENAMENX x y
    RENAMENX x x
    RENAMENX c c
    SET d 1
    RENAMENX c d
    RENAMENX c e
    MGET c d e
    SET t 1 PXAT 4102444800000
    RENAME t u
    PEXPIRETIME u
    RENAME e u
    PEXPIRETIME u
    SET past 1 PXAT 1
    RENAME past new
    RENAMENX u past
    EXISTS past

    MSET one 1 two 2 three 3 "a[b" 4 "h\\llo" 5 hello 6 hallo 7 "" 8 "\xff" 9 H*o 10
    ~ KEYS *
    ~ KEYS t*
    ~ KEYS h?llo
    ~ KEYS h[ae]llo
    ~ KEYS h[^e]llo
    ~ KEYS h[a-e]llo
    ~ KEYS h[e-a]llo
    ~ KEYS h*llo
    ~ KEYS hell[o
    ~ KEYS *o
    KEYS
    KEYS a b
    ~ KEYS h[ae
    ~ KEYS "h\\*o"
    ~ KEYS "H\\*o"
    ~ KEYS "a\\[b"
    ~ KEYS "h\\\\llo"
    ~ KEYS "\xff"
    ~ KEYS ""
    ~ KEYS "\\"
    ~ KEYS [
    ~ KEYS ?
    ~ KEYS **
    ~ KEYS H*O
    ~ KEYS [^a]*
    ~ KEYS none*
    ~ SCAN 0 COUNT 1000
    ~ SCAN 0 COUNT 1000 MATCH t*
    ~ SCAN 0 MATCH t* COUNT 1000
    ~ SCAN 0 match h?llo count 1000
    ~ SCAN 0 COUNT 1000 TYPE string
    ~ SCAN 0 COUNT 1000 TYPE STRING
    ~ SCAN 0 COUNT 1000 TYPE hash
    ~ SCAN 0 COUNT 1000 TYPE list
    ~ SCAN 0 COUNT 5 COUNT 1000
    ~ SCAN 0 COUNT 1000 MATCH x MATCH t*
    SCAN 0 COUNT 0
    SCAN 0 COUNT -1
    SCAN 0 COUNT x
    SCAN 0 COUNT
    SCAN 0 MATCH
    SCAN 0 TYPE
    SCAN 0 FOO
    SCAN 0 FOO bar
    SCAN
    SCAN x
    SCAN 1.0
    ~ SCAN "" COUNT 1000
    SCAN -
    SCAN "1 "
    SCAN 18446744073709551616
    SCAN 0x
    DBSIZE

    MSET a 1 b 2
    SELECT 1
    DBSIZE
    EXISTS a
    SET a other
    SELECT 0
    GET a
    b: SELECT 1
    b: FLUSHDB
    FLUSHDB NOW
    FLUSHDB SYNC ASYNC
    DBSIZE
    b: DBSIZE
    b: SET x 1
    FLUSHDB SYNC
    b: DBSIZE
    FLUSHALL ASYNC
    b: DBSIZE
    FLUSHALL FOO
    FLUSHALL SYNC ASYNC
    FLUSHALL SYNC SYNC
    FLUSHDB async
    FLUSHDB ASYNC FOO
    FLUSHDB ""

    DBSIZE
    SCAN 0
    SCAN 0 COUNT 1000
    KEYS *
    SET a 1
    SET a 2
    DBSIZE
    MSET b 1 c 1 d 1
    DBSIZE
    RENAME b c
    DBSIZE
    INCR n
    APPEND s x
    SETRANGE r 1 x
    DBSIZE
    GETDEL n
    DEL s r
    EXPIRE a 0
    DBSIZE
    SELECT 2
    SET two v
    KEYS *
    SCAN 0
"#;

const DATABASES: &str = r#"
    SET a 1
    COPY a b
    COPY a b
    COPY a b REPLACE
    COPY a b replace replace
    COPY missing b
    COPY missing b REPLACE
    GET b
    COPY a a
    COPY a a REPLACE
    COPY missing missing
    COPY a a DB 0
    COPY a a DB 1
    COPY a a DB 1
    SET a 2
    COPY a a DB 1 REPLACE
    COPY a c REPLACE DB 1
    COPY a c DB 2 DB 3
    COPY a d db 1 db 0
    GET d
    SELECT 1
    ~ KEYS *
    MGET a c
    COPY c c DB 0
    COPY c c DB 1
    SELECT 3
    GET c
    SELECT 2
    GET c
    SELECT 0
    GET c

    COPY a
    COPY a b FOO
    COPY a b DB
    COPY a b DB x
    COPY a b DB 16
    COPY a b DB -1
    COPY a b DB 2147483648
    COPY a b DB 99 FOO
    COPY a b FOO DB 99
    COPY a b REPLACE DB
    SET t v PXAT 4102444800000
    COPY t u
    PEXPIRETIME u
    COPY t t DB 5
    SET plain v
    COPY plain t REPLACE
    PEXPIRETIME t
    SELECT 5
    PEXPIRETIME t
    SELECT 0
    SET past v PXAT 1
    COPY past x
    COPY plain past
    GET past

    SET a 1
    MOVE a 1
    GET a
    MOVE a 1
    MOVE missing 1
    SET a 2
    MOVE a 1
    GET a
    SELECT 1
    GET a
    MOVE a 1
    MOVE missing 1
    MOVE a
    MOVE a x
    MOVE a 16
    MOVE a -1
    MOVE a 2147483648
    MOVE missing 16
    SET t v PXAT 4102444800000
    MOVE t 3
    EXISTS t
    SELECT 3
    PEXPIRETIME t

    MSET a 0 b 0
    SELECT 1
    SET a 1
    SWAPDB 0 1
    MGET a b
    SELECT 0
    MGET a b
    SWAPDB 1 0
    SWAPDB 0 0
    MGET a b
    SWAPDB 0 16
    SWAPDB 16 0
    SWAPDB -1 0
    SWAPDB x 0
    SWAPDB 0 x
    SWAPDB x x
    SWAPDB 0 2147483648
    SWAPDB 2147483648 0
    SWAPDB 99 x
    SWAPDB 0
    SWAPDB 0 1 2
    SET t v PXAT 4102444800000
    SWAPDB 0 7
    DBSIZE
    SELECT 7
    PEXPIRETIME t
    DBSIZE

    MULTI
    SET a 1
    COPY a b DB 1
    MOVE a 2
    SWAPDB 1 2
    SELECT 2
    GET b
    COPY b b
    EXEC
    SELECT 1
    GET a

    RANDOMKEY
    SET only 1
    RANDOMKEY
    SET past v PXAT 1
    DEL only
    RANDOMKEY
    RANDOMKEY x
    MSET a 1 b 2
    TOUCH a b c a
    TOUCH
    TOUCH missing

    WAIT 0 0
    WAIT 0 100
    WAIT -5 0
    WAIT x 0
    WAIT 0 x
    WAIT 0 -1
    WAIT 1 -1
    WAIT 0 9223372036854775808
    WAIT x x
    WAIT 0
    MULTI
    WAIT 1 0
    EXEC

    SET k v
    WATCH k
    b: COPY k l
    b: COPY k k DB 1
    b: COPY k k
    b: TOUCH k
    b: OBJECT ENCODING k
    MULTI
    EXEC

    SET k v
    WATCH l
    b: COPY k l
    MULTI
    EXEC

    SET k v
    WATCH k
    b: MOVE k 1
    MULTI
    EXEC

    SELECT 1
    WATCH k
    b: SET k v
    b: MOVE k 1
    MULTI
    EXEC

    SET k v
    WATCH k
    b: SWAPDB 0 1
    MULTI
    EXEC

    WATCH k
    b: SELECT 1
    b: SET k v
    b: SWAPDB 1 0
    MULTI
    EXEC

    SET l v
    WATCH k
    b: SWAPDB 0 1
    b: SWAPDB 2 3
    MULTI
    EXEC

    SET k v
    WATCH k
    b: SWAPDB 0 0
    b: SWAPDB 2 3
    MULTI
    EXEC

    SET k v PXAT 1
    WATCH k
    b: SWAPDB 0 1
    MULTI
    EXEC
"#;

const ENCODINGS: &str = r#"
    MEMORY
    MEMORY USAGE
    MEMORY USAGE missing
    MEMORY USAGE missing SAMPLES 0
    MEMORY USAGE missing samples 5 SAMPLES 6
    MEMORY USAGE missing SAMPLES
    MEMORY USAGE missing SAMPLES -1
    MEMORY USAGE missing SAMPLES x
    MEMORY USAGE missing NOSUCH 1
    MEMORY USAGE missing NOSUCH

    OBJECT ENCODING missing
    OBJECT FREQ missing
    OBJECT IDLETIME missing
    OBJECT REFCOUNT missing
    OBJECT HELP x
    OBJECT
    OBJECT FOO
    OBJECT FOO k
    OBJECT ENCODING
    OBJECT ENCODING k k
    OBJECT FREQ
    OBJECT IDLETIME
    OBJECT REFCOUNT
    MSET i 1 s 9999 l 10000 m -1 v hello
    OBJECT FREQ i
    OBJECT REFCOUNT i
    OBJECT REFCOUNT s
    OBJECT REFCOUNT l
    OBJECT REFCOUNT m
    OBJECT REFCOUNT v

    SET k ""
    OBJECT ENCODING k
    SET k 12345678901234567890
    OBJECT ENCODING k
    SET k 9223372036854775807
    OBJECT ENCODING k
    SET k -9223372036854775808
    OBJECT ENCODING k
    SET k 007
    OBJECT ENCODING k
    SET k "1 "
    OBJECT ENCODING k
    SET k 1.5
    OBJECT ENCODING k
    SET k "forty-four bytes are as many as embstr holds"
    OBJECT ENCODING k
    SET k "forty-five bytes and Redis encodes a value raw"
    OBJECT ENCODING k

    SET k 12
    APPEND k 3
    OBJECT ENCODING k
    RENAME k l
    OBJECT ENCODING l
    COPY l m
    OBJECT ENCODING m
    MOVE m 1
    EXPIRE l 1000
    OBJECT ENCODING l
    PERSIST l
    OBJECT ENCODING l
    INCR l
    OBJECT ENCODING l
    APPEND l ""
    OBJECT ENCODING l
    OBJECT REFCOUNT l
    GETSET l 5
    OBJECT ENCODING l
    OBJECT REFCOUNT l
    SETRANGE l 0 ""
    OBJECT ENCODING l
    SETRANGE l 0 6
    OBJECT ENCODING l
    SELECT 1
    OBJECT ENCODING m

    APPEND a 12
    OBJECT ENCODING a
    APPEND b word
    OBJECT ENCODING b
    SETRANGE c 0 12
    OBJECT ENCODING c
    INCRBYFLOAT d 3
    OBJECT ENCODING d
    INCRBYFLOAT d 0.5
    OBJECT ENCODING d
    COPY d e
    OBJECT ENCODING e
    SET f 3
    INCRBYFLOAT f 1
    OBJECT ENCODING f
    OBJECT REFCOUNT f
    EXPIRE f 1000
    OBJECT ENCODING f
    INCR f
    OBJECT ENCODING f
    APPEND f 1
    OBJECT ENCODING f
    SET f 1 KEEPTTL
    OBJECT ENCODING f
    SETNX g 5
    OBJECT ENCODING g
    SETEX h 1000 5
    OBJECT ENCODING h
    MSETNX i 5 j x
    OBJECT ENCODING i
    GETEX i
    OBJECT ENCODING i
    MULTI
    SET k 5
    OBJECT ENCODING k
    APPEND k 5
    OBJECT ENCODING k
    EXEC

    SETBIT a 2 1
    OBJECT ENCODING a
    SET b 5
    SETBIT b 2 1
    OBJECT ENCODING b
    SET b 5
    GETBIT b 2
    BITCOUNT b
    OBJECT ENCODING b
    BITFIELD b GET u8 0
    OBJECT ENCODING b
    BITFIELD b INCRBY u8 0 0
    OBJECT ENCODING b
    SET b 5
    BITFIELD b OVERFLOW FAIL SET u8 0 256
    OBJECT ENCODING b
    BITOP NOT c b
    BITOP NOT c c
    OBJECT ENCODING c
    BITFIELD d SET u8 0 49
    OBJECT ENCODING d
    PFADD e a
    OBJECT ENCODING e
    PFMERGE f e
    OBJECT ENCODING f
    SET e "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    OBJECT ENCODING e
    PFCOUNT e e
    PFMERGE f e
    OBJECT ENCODING e
    PFCOUNT e
    OBJECT ENCODING e
    SET e "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFADD e
    OBJECT ENCODING e
    SET e "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFDEBUG ENCODING e
    OBJECT ENCODING e
    SET e "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
    PFADD e
    OBJECT ENCODING e
"#;
