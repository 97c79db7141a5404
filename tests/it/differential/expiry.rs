//! Stories about TTLs of keys: each command, option and error at least once.

use super::script::tell;

#[test]
fn ttls_are_set_and_reported_as_in_redis() {
    tell("expiry", EXPIRY);
}

#[test]
fn a_ttl_of_zero_or_less_removes_a_key_under_the_conditions_of_redis() {
    let calls = ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k 0", "PEXPIRE k -5", "EXPIREAT k 0", "PEXPIREAT k 1000"];
    tell("ended", &calls.map(|call| ENDED.replace("CALL", call)).join("\n"));
}

const ENDED: &str = r#"
    SET k v
    CALL
    EXISTS k
    DBSIZE
    SET k v EX 77000000
    CALL LT
    DBSIZE
    SET k v EX 77000000
    CALL GT
    DBSIZE
"#;

const EXPIRY: &str = r#"
    SET k v
    TTL k
    PTTL k
    EXPIRETIME k
    PEXPIRETIME k
    TTL x
    PTTL x
    EXPIRETIME x
    PEXPIRETIME x
    PERSIST k
    PERSIST x
    EXPIRE k 77000000
    TTL k
    PEXPIRE k 77000000000
    PTTL k
    EXPIREAT k 4102444800
    EXPIRETIME k
    PEXPIRETIME k
    PEXPIREAT k 4102444800499
    EXPIRETIME k
    PEXPIREAT k 4102444800500
    EXPIRETIME k
    PEXPIRETIME k
    PERSIST k
    PERSIST k
    TTL k
    EXPIRE x 100
    PEXPIRE x 100
    EXPIREAT x 4102444800
    PEXPIREAT x 4102444800000

    SET k v
    EXPIRE k x
    EXPIRE k 1.5
    EXPIRE k ""
    EXPIRE x x
    EXPIRE k 9223372036854775807
    EXPIRE k 9223372036854775
    EXPIRE k 9223372036854774
    EXPIRE k -9223372036854775808
    EXPIRE k -9223372036854776
    PEXPIRE k 9223372036854775807
    PEXPIRE k x
    EXPIREAT k 9223372036854775807
    EXPIREAT k 9223372036854775
    EXPIRETIME k
    PEXPIRETIME k
    PEXPIREAT k 9223372036854775807
    EXPIRETIME k
    PEXPIRETIME k
    PEXPIREAT k x
    EXPIRE x 9223372036854775807
    EXPIRE k 100 FOO
    EXPIRE k x FOO
    EXPIRE k 100 "FOO\r\nbar"
    EXPIRE k 100 "FOO\r\n"
    EXPIRE k 100 "FO\x00O"
    EXPIRE k 100 ""
    EXPIRE k 100 NX FOO
    EXPIRE k 100 NX XX
    EXPIRE k x NX XX
    EXPIRE k 100 NX GT
    EXPIRE k 100 LT NX
    EXPIRE k
    PERSIST k x
    EXPIRE x 100 GT LT
    TTL k

    SET k v
    EXPIRE k 77000010 XX
    EXPIRE k 77000010 GT
    EXPIRE k 77000100 LT
    EXPIRE k 77000010 NX
    EXPIRE k 77000200 LT
    EXPIRE k 77000200 GT
    EXPIRE k 77000100 gt
    EXPIRE k 77000050 lt
    EXPIREAT k 4102444800 XX GT
    EXPIREAT k 4102444800 GT
    EXPIREAT k 4102444800 XX XX
    PERSIST k
    EXPIRE k 77000060 XX LT
    EXPIREAT k 4102444800 NX
    EXPIRETIME k

    SET k v
    EXPIRE k 0
    EXISTS k
    SET k v
    EXPIRE k -1
    EXISTS k
    SET k v
    PEXPIRE k 0
    GET k
    SET k v
    PEXPIRE k -9223372036854775808
    GET k
    SET k v
    EXPIREAT k 0
    GET k
    SET k v
    EXPIREAT k -1
    GET k
    SET k v
    PEXPIREAT k 1
    GET k
    SET k v
    EXPIRE k 0 XX
    EXPIRE k 0 GT
    EXPIRE k 0 LT
    EXISTS k

    SET k v PXAT 1
    DEL k
    SET k v PXAT 1
    EXISTS k
    SET k v PXAT 1
    APPEND k x
    SET k v PXAT 1
    SETNX k x
    GET k
    TTL k
    SET k v PXAT 1
    INCR k
    SET k v PXAT 1
    EXPIRE k 100
    SET k v PXAT 1
    PERSIST k
    SET k v PXAT 1
    TTL k
    SET k v PXAT 1
    TYPE k
    SET k v PXAT 1
    GETDEL k
    SET k v PXAT 1
    SET k w XX
    SET k v PXAT 1
    SET k w KEEPTTL
    TTL k
    SET k v PXAT 1
    MSETNX k 1 l 2
    SET k v PXAT 1
    GETRANGE k 0 -1
    ~ KEYS *
    ~ SCAN 0 COUNT 100
    SET k v PXAT 1
    GETSET k x
    SET k v PXAT 1
    SETRANGE k 2 x
    GET k
    DBSIZE
"#;
