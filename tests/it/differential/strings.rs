//! Stories about strings: each command, option and error at least once.

use super::script::tell;

#[test]
fn strings_are_read_and_written_as_redis_does() {
    tell("strings", STRINGS);
}

#[test]
fn keys_and_values_may_have_any_bytes_as_in_redis() {
    let bytes = |bytes: &mut dyn Iterator<Item = u8>| bytes.map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let (key, value) = (bytes(&mut (0..=255)), bytes(&mut (0..=255).rev()));
    let story = format!("SET '{key}' '{value}'\nGET '{key}'\nGET ''\nSET '' empty\nGET ''\nGET '\\x00'");
    tell("bytes", &story.replace('\'', "\""));
}

#[test]
fn parts_of_strings_are_read_and_written_as_redis_does() {
    tell("ranges", RANGES);
}

#[test]
fn numbers_are_counted_as_redis_counts_them() {
    tell("numbers", NUMBERS);
}

#[test]
fn common_subsequences_are_those_redis_finds() {
    tell("lcs", LCS);
}

const STRINGS: &str = r#"
    SET k v
    GET k
    get k
    GET K
    GeT missing
    SET "" ""
    GET ""
    SET "\x00\r\n\xff" "\x00\r\n\xff"
    GET "\x00\r\n\xff"
    STRLEN "\x00\r\n\xff"
    STRLEN missing

    SETNX k 1
    SETNX k 2
    GET k
    GETSET k 3
    GETSET new 4
    GETDEL new
    GETDEL new
    EXISTS new
    SET new 5 PXAT 4102444800000
    GETDEL new
    SET new 6
    TTL new
    GETDEL
    GETDEL new x
    GETSET k
    SETNX k
    SETNX k 1 2
    SET k
    GET
    STRLEN
    STRLEN ""
    SET long-name "\xc3\xbcber"
    STRLEN long-name
    SET k v PXAT 4102444800000
    GETSET k w
    PEXPIRETIME k
    SET k v PXAT 4102444800000
    SETNX k w
    PEXPIRETIME k
    APPEND k w
    PEXPIRETIME k

    SET k v NX
    SET k w NX
    SET k w XX
    SET none w XX
    SET k x GET
    SET none x GET
    SET k y NX GET
    SET other y NX GET
    SET k y XX GET
    SET third y XX GET
    EXISTS third
    SET k v NX XX
    SET k v XX NX
    SET k v nx ge
    SET k v nx get
    SET k v EX
    SET k v EX x
    SET k v EX 0
    SET k v EX -1
    SET k v PX 0
    SET k v EXAT 0
    SET k v PXAT -5
    SET k v EX 9223372036854775807
    SET k v EX 9223372036854775
    SET k v EX 9223372036854774
    SET k v PX 9223372036854775807
    SET k v EXAT 9223372036854775807
    SET k v PXAT 9223372036854775807
    PEXPIRETIME k
    EXPIRETIME k
    SET k v EX 10 PX 10
    SET k v EX 10 KEEPTTL
    SET k v KEEPTTL EX 10
    SET k v PERSIST
    SET k v KEEPTTL KEEPTTL
    SET k v GET GET
    SET k v FOO
    SET k v 10
    SET k v NX EX
    SET k v EX 99999999999999999999
    SET k 6 GET GET XX XX
    SET k v EX 1 EX 77000000
    TTL k
    SET k v "EX\x00" 5
    SET k v EX " 5"
    SET k v EX 5.0
    SET k v EXAT 1
    GET k
    SET k v PXAT 1 GET
    GET k
    SET k v PXAT 4102444800000
    SET k w KEEPTTL
    PEXPIRETIME k
    SET k new EX 0
    SET k new NX XX
    SET k new NX
    GET k
    PEXPIRETIME k
    SET k x
    PEXPIRETIME k

    SET k v EX 77000000
    TTL k
    SET k v KEEPTTL
    TTL k
    SET k v PX 77000000000
    PTTL k
    SET k v
    PTTL k
    SET k v KEEPTTL
    PTTL k
    SET fresh v KEEPTTL
    PTTL fresh
    SET k w ex 77000000 nx
    PTTL k
    SET k w xx ex 77000000
    TTL k
    GET k

    SETEX k 77000000 v
    TTL k
    SETEX k 0 v
    SETEX k -1 v
    SETEX k x v
    SETEX k 9223372036854775807 v
    SETEX k 9223372036854775 v
    PSETEX k 77000000000 v
    PTTL k
    PSETEX k 0 v
    PSETEX k -9 v
    PSETEX k 1.5 v
    PSETEX k 9223372036854775807 v
    GET k
    PTTL k

    GETEX missing
    GETEX missing EX 0
    GETEX missing EX 10
    GETEX missing EX x
    GETEX missing EX 5 PX 5
    SET k v
    GETEX k
    TTL k
    GETEX k EX 77000000
    TTL k
    GETEX k
    TTL k
    GETEX k PX 77000000000
    PTTL k
    GETEX k px 88000000000
    PTTL k
    GETEX k EXAT 4102444800
    EXPIRETIME k
    GETEX k PXAT 4102444800001
    PEXPIRETIME k
    GETEX k
    PEXPIRETIME k
    GETEX k PERSIST
    TTL k
    GETEX k PERSIST
    GETEX k EX 0
    GETEX k EX -1
    GETEX k PX x
    GETEX k EX
    GETEX k KEEPTTL
    GETEX k NX
    GETEX k XX
    GETEX k GET
    GETEX k EX 5 PERSIST
    GETEX k PERSIST EX 5
    GETEX k PERSIST PERSIST
    GETEX k FOO
    GETEX k EX 9223372036854775807
    GETEX k EX 1 PX 1
    GETEX
    GETEX k PXAT 1
    EXISTS k
    SET k v
    GETEX k EXAT 1
    EXISTS k

    MSET a 1 b 2 a 3
    MGET a b c a
    MSET a
    MSET a 1 b
    MSETNX a 1 b
    MSETNX a
    MGET
    MSETNX c 1 a 9
    MGET a c
    MSETNX c 1 d 2 c 3
    MGET c d
    MSET "" "" x ""
    MGET "" x
    SET a 1 PXAT 4102444800000
    MSET a 2
    PEXPIRETIME a

    APPEND k ""
    EXISTS k
    APPEND k abc
    APPEND k ""
    APPEND k "\x00"
    GET k
    SET n 10
    APPEND n 5
    INCR n

    SELECT 4
    SET k four
    b: SELECT 5
    b: GET k
    b: SET k five
    b: SELECT 4
    b: GET k
    SELECT 5
    GET k
    DEL k
    SELECT 4
    DBSIZE
"#;

const RANGES: &str = r#"
    SETRANGE k 0 ""
    EXISTS k
    SETRANGE k 5 ""
    EXISTS k
    SETRANGE k 3 abc
    GET k
    SETRANGE k 1 ZZ
    GET k
    SETRANGE k 1 ""
    SETRANGE k 0 longer-than-before
    GET k
    SETRANGE k -1 x
    SETRANGE k -1 ""
    SETRANGE missing -1 ""
    SETRANGE k x x
    SETRANGE none 5 ""
    EXISTS none
    SETRANGE k 15 beyond
    SETRANGE k 536870912 x
    SETRANGE k 536870912 ""
    SETRANGE k 9223372036854775807 x
    SETRANGE missing 536870912 x
    SETRANGE missing 9223372036854775807 ""
    SET n 123
    SETRANGE n 1 9
    INCR n
    SET k v PXAT 4102444800000
    SETRANGE k 4 w
    PEXPIRETIME k
    STRLEN k

    SET k "Hello World"
    GETRANGE k 0 -1
    GETRANGE k 0 4
    GETRANGE k -5 -1
    GETRANGE k -1 -5
    GETRANGE k 5 2
    GETRANGE k -100 100
    GETRANGE k 100 200
    GETRANGE k 0 0
    GETRANGE k 10 10
    GETRANGE k 11 11
    GETRANGE k 0 9223372036854775807
    GETRANGE k -9223372036854775808 9223372036854775807
    GETRANGE k x 1
    GETRANGE k 1 x
    GETRANGE k 0
    GETRANGE missing 0 -1
    GETRANGE missing x -1
    SUBSTR k 0 4
    SUBSTR k -5 -1
    SUBSTR k x 1
    SUBSTR missing 0 1
    SET e ""
    GETRANGE e 0 -1
    GETRANGE e 0 0
    GETRANGE e -1 -1
    SET n 12345
    GETRANGE n 1 3

    SETRANGE k 536870911 xx
    SETRANGE k 9223372036854775807 x
    EXISTS k
    CONFIG SET proto-max-bulk-len 1mb
    SETRANGE k 1048575 x
    APPEND k x
    SETRANGE k 1048576 x
    SETRANGE k 0 y
    STRLEN k
    GETRANGE k 0 0
    GETRANGE k -1 -1
    CONFIG SET proto-max-bulk-len 512mb

    SETRANGE k 99999 a
    COPY k l
    SETRANGE k 0 b
    GETRANGE l 0 1
    COPY k l
    COPY k l REPLACE
    GETRANGE l 0 1
    DBSIZE
"#;

const NUMBERS: &str = r#"
    INCR k
    INCR k
    DECR k
    DECR new
    INCRBY k 10
    DECRBY k 3
    INCRBY k -5
    DECRBY k -5
    INCRBY k x
    INCRBY k 1.5
    INCRBY k ""
    INCRBY k " 1"
    INCRBY k "1 "
    INCRBY k +1
    INCRBY k 01
    INCRBY k -0
    INCRBY k 1.0
    INCRBY k 1e3
    INCRBY k 0x10
    INCRBY k --1
    INCRBY third 0
    GET third
    INCRBY k 9223372036854775807
    INCRBY k 9223372036854775808
    DECRBY k -9223372036854775808
    DECRBY k -9223372036854775809
    DECRBY k 9223372036854775807
    GET k

    SET k 9223372036854775807
    INCR k
    INCRBY k 1
    DECRBY k -1
    DECR k
    SET k -9223372036854775808
    DECR k
    DECRBY k 1
    INCRBY k -1
    INCR k
    SET k 9223372036854775808
    INCR k
    SET k abc
    INCR k
    DECR k
    INCRBY k 1
    DECRBY k 1
    SET k ""
    INCR k
    SET k " 11"
    INCR k
    SET k "11 "
    INCR k
    SET k +11
    INCR k
    SET k 0011
    INCR k
    SET k -0
    INCR k
    SET k "11\x00"
    INCR k
    SET k 1e3
    INCR k
    SET k 1.0
    INCR k
    SET k 0x10
    INCR k
    SET k --1
    INCR k
    SET k -9223372036854775807
    INCRBY k 9223372036854775807
    DECRBY k -9223372036854775808
    SET k 10 PXAT 4102444800000
    INCR k
    PEXPIRETIME k

    INCRBYFLOAT k 0.1
    INCRBYFLOAT k 0.2
    INCRBYFLOAT k -0.3
    INCRBYFLOAT k 5e3
    INCRBYFLOAT k 3.0e-10
    INCRBYFLOAT k 1e17
    INCRBYFLOAT k -1e17
    INCRBYFLOAT k 0x1p4
    INCRBYFLOAT k 0x10
    INCRBYFLOAT k nan
    INCRBYFLOAT k inf
    INCRBYFLOAT k +inf
    INCRBYFLOAT k -Infinity
    INCRBYFLOAT k x
    INCRBYFLOAT k ""
    INCRBYFLOAT k " 1"
    INCRBYFLOAT k "1 "
    INCRBYFLOAT k "1\x00"
    INCRBYFLOAT k 1e
    INCRBYFLOAT k .5
    INCRBYFLOAT k 5.
    INCRBYFLOAT k +5
    INCRBYFLOAT k 1e400
    INCRBYFLOAT k 1e5000
    INCRBYFLOAT k 1e-5000
    INCRBYFLOAT k -1e5000
    GET k
    SET k 3.0
    INCRBYFLOAT k 1.0
    SET k 5.0e3
    INCRBYFLOAT k 2.0e2
    SET k abc
    INCRBYFLOAT k 1
    SET k " 1"
    INCRBYFLOAT k 1
    SET k ""
    INCRBYFLOAT k 1
    SET k 1e4932
    INCRBYFLOAT k 1.1e4932
    INCRBYFLOAT k -1e4932
    STRLEN k
    SET k 0
    INCRBYFLOAT k -0.0
    SET k 9223372036854775807
    INCRBYFLOAT k 1
    SET k 3
    INCRBYFLOAT k 1.000000000000000005
    SET k 17179869184
    INCRBYFLOAT k 1.5
    INCRBY k 1
    INCRBYFLOAT k 1.0.0
    INCRBYFLOAT k 1,5
    INCRBYFLOAT k
    SET k 0.1234567890123456789
    INCRBYFLOAT k 0.00000000000000001
    SET k 1 PXAT 4102444800000
    INCRBYFLOAT k 1
    PEXPIRETIME k
"#;

const LCS: &str = r#"
    MSET a ohmytext b mynewtext
    LCS a b
    LCS a b LEN
    LCS a b len
    LCS a b IDX
    LCS a b IDX WITHMATCHLEN
    LCS a b IDX MINMATCHLEN 4
    LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN
    LCS a b WITHMATCHLEN MINMATCHLEN 4 IDX
    LCS a b MINMATCHLEN 4
    LCS a b WITHMATCHLEN
    LCS a b IDX MINMATCHLEN -1
    LCS a b IDX MINMATCHLEN 0
    LCS a b IDX MINMATCHLEN 100
    LCS a b IDX MINMATCHLEN x
    LCS a b IDX MINMATCHLEN
    LCS a b LEN IDX
    LCS a b IDX LEN
    LCS a b LEN LEN
    LCS a b FOO
    LCS a
    LCS missing a IDX
    LCS a missing
    LCS missing a LEN
    LCS missing missing IDX
    LCS missing missing2
    LCS a a
    LCS a a IDX WITHMATCHLEN
    MSET x aaa y aa e ""
    LCS x y IDX WITHMATCHLEN
    LCS y x IDX
    LCS x e IDX
    LCS e e
    MSET n 12345 m 345
    LCS n m IDX WITHMATCHLEN
    MSET p "\x00\xff\x00" q "\xff\x00"
    LCS p q
    LCS p q IDX
"#;
