//! Stories about bits: each command, option and error at least once.

use super::script::tell;

#[test]
fn single_bits_are_read_and_written_as_redis_does() {
    tell("bits", BITS);
}

#[test]
fn bits_are_counted_and_found_where_redis_finds_them() {
    tell("counts", COUNTS);
}

#[test]
fn strings_are_combined_as_redis_combines_them() {
    tell("combinations", COMBINATIONS);
}

#[test]
fn fields_are_read_and_written_as_redis_does() {
    tell("fields", FIELDS);
}

#[test]
fn fields_overflow_as_those_of_redis_do() {
    tell("overflows", OVERFLOWS);
}

#[test]
fn changes_of_bits_are_noticed_by_the_transactions_that_redis_stops() {
    tell("watches", WATCHES);
}

#[test]
fn the_longest_string_has_as_many_bits_as_that_of_redis() {
    tell("longest", LONGEST);
}

const BITS: &str = r#"
    SETBIT k 7 1
    GET k
    SETBIT k 7 0
    SETBIT k 7 0
    GET k
    SETBIT k 0 1
    GETBIT k 0
    GETBIT k 1
    GETBIT k 8
    GETBIT k 100000
    SETBIT k 23 0
    STRLEN k
    SETBIT k 100 1
    GET k
    GETBIT k 100
    GETBIT missing 0
    GETBIT missing 4294967295
    SETBIT zero 0 0
    GET zero
    EXISTS zero

    SETBIT k -1 1
    SETBIT k x 1
    SETBIT k 4294967296 1
    SETBIT k 9223372036854775807 1
    SETBIT k 9223372036854775808 1
    SETBIT k "" 1
    SETBIT k #1 1
    SETBIT k 01 1
    SETBIT k 1 2
    SETBIT k 1 -1
    SETBIT k 1 x
    SETBIT k 1 ""
    SETBIT k 1 01
    SETBIT k x x
    SETBIT k 1 9223372036854775808
    GETBIT k -1
    GETBIT k x
    GETBIT k #1
    GETBIT k 4294967296
    GETBIT missing -1
    EXISTS k
    SETBIT
    SETBIT k
    SETBIT k 1
    SETBIT k 1 1 1
    GETBIT k
    GETBIT k 1 1

    SET n 12345
    GETBIT n 2
    SETBIT n 7 0
    GET n
    INCR n
    SET k v PXAT 4102444800000
    SETBIT k 3 1
    SETBIT k 50 1
    PEXPIRETIME k
    GET k

    CONFIG SET proto-max-bulk-len 1048576
    SETBIT k 8388607 1
    SETBIT k 8388608 1
    GETBIT k 8388607
    GETBIT k 8388608
    BITFIELD k SET u8 8388607 1
    BITFIELD k SET u8 8388608 1
    STRLEN k
    BITCOUNT k
    CONFIG SET proto-max-bulk-len 536870912
"#;

const COUNTS: &str = r#"
    SET k "\x00\xff\xf0"
    BITCOUNT k
    BITCOUNT k 0 0
    BITCOUNT k 1 1
    BITCOUNT k 0 -1
    BITCOUNT k -2 -1
    BITCOUNT k 5 20 BIT
    BITCOUNT k 5 20 bit
    BITCOUNT k 1 1 BYTE
    BITCOUNT k 1 1 byte
    BITCOUNT k -6 -7
    BITCOUNT k -6 -15 BIT
    BITCOUNT k 1
    BITCOUNT k 1 2 FOO
    BITCOUNT k 1 2 BIT BIT
    BITCOUNT k 1 2 ""
    BITCOUNT k x 1
    BITCOUNT k 1 x
    BITCOUNT k x x FOO
    BITCOUNT k -2 -1 FOO
    BITCOUNT missing
    BITCOUNT
    SET e ""
    BITCOUNT e
    BITCOUNT e 0 -1
    BITCOUNT e 0 -1 BIT
    BITCOUNT e x
    SET n 123
    BITCOUNT n
    SET long "forty-five bytes and Redis encodes a value raw"
    BITCOUNT long
    BITCOUNT long 3 -3
    BITCOUNT long 3 -3 BIT

    SET k "\xff\xf0\x00"
    BITPOS k 0
    BITPOS k 1
    BITPOS k 1 1
    BITPOS k 1 2
    BITPOS k 0 1
    BITPOS k 0 2 -1
    BITPOS k 0 0 0
    BITPOS k 0 0 -3
    BITPOS k 0 0
    BITPOS k 1 7 15 BIT
    BITPOS k 0 7 15 BIT
    BITPOS k 0 0 11 bit
    BITPOS k 0 0 12 BIT
    BITPOS k 1 12 -1 BIT
    BITPOS k 1 0 -1 BYTE
    BITPOS k 2
    BITPOS k -1
    BITPOS k x
    BITPOS k ""
    BITPOS k 1 x
    BITPOS k 1 0 x
    BITPOS k 1 0 x BIT
    BITPOS k 1 0 x FOO
    BITPOS k 1 x 0 FOO
    BITPOS k 1 0 1 FOO
    BITPOS k 1 0 1 BIT BIT
    BITPOS k 2 x
    BITPOS missing 0
    BITPOS missing 1
    BITPOS missing 2
    BITPOS missing x
    BITPOS k
    BITPOS
    SET e ""
    BITPOS e 0
    BITPOS e 1
    BITPOS e 0 0
    BITPOS e 0 0 -1
    BITPOS e 0 0 -1 BIT
    SET ones "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
    BITPOS ones 0
    BITPOS ones 0 0
    BITPOS ones 0 5
    BITPOS ones 0 11
    BITPOS ones 0 0 -1
    BITPOS ones 0 0 -1 BIT
    BITPOS ones 0 3 70 BIT
    BITPOS ones 1 3 70 BIT
    SET zeros "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    BITPOS zeros 1
    BITPOS zeros 1 0 -1 BIT
    BITPOS zeros 0 5
    BITPOS zeros 0 9 9 BIT
    SETRANGE far 20000 "\x80"
    BITPOS far 1
    BITPOS far 1 1000
    BITPOS far 1 3 -1 BIT
    BITPOS far 1 0 159999 BIT
    BITPOS far 1 160001 -1 BIT
    BITPOS far 0 20000
    BITOP NOT far far
    BITPOS far 0
    BITPOS far 0 1001 20000
    BITPOS far 0 3 -1 BIT
    BITPOS far 0 0 159999 BIT
    BITPOS far 0 0 19999
"#;

const COMBINATIONS: &str = r#"
    MSET a "\xf0\x0f\xaa" b "\x3c\xc3" c "\xff" e ""
    BITOP AND d a b
    GET d
    BITOP OR d a b
    GET d
    BITOP XOR d a b
    GET d
    BITOP NOT d a
    GET d
    BITOP and d a b c
    GET d
    BITOP oR d c b a
    GET d
    BITOP Xor d a a
    GET d
    BITOP AND d a
    GET d
    BITOP AND d missing a
    GET d
    BITOP AND d a missing
    GET d
    BITOP OR d missing a missing
    GET d
    BITOP XOR d e a b missing c
    GET d
    BITOP NOT d missing
    EXISTS d
    SET d 1
    BITOP NOT d e
    EXISTS d
    BITOP OR d e missing
    EXISTS d
    BITOP XOR d missing missing2
    EXISTS missing

    MSET a "\xf0\x0f\xaa" b "\x3c\xc3"
    BITOP AND a a b
    GET a
    BITOP NOT a a
    GET a
    BITOP OR b b b b
    GET b
    BITOP XOR a a a
    GET a
    SET t v PXAT 4102444800000
    BITOP OR t b
    PEXPIRETIME t
    SET n 123
    BITOP NOT n n
    GET n
    BITOP NOT n n
    INCR n
    SET long "forty-five bytes and Redis encodes a value raw, and a few words more of it"
    SET longer "forty-five bytes and Redis encodes a value raw, and a few words more of it, and then some"
    BITOP AND x long longer
    GET x
    BITOP XOR x long longer b
    GET x
    SETRANGE far 40000 "\x0f\xf0"
    SETRANGE near 16382 "\xff\xfe\x7f\xaa"
    SET byte "\x5a"
    BITOP OR x far near byte
    BITCOUNT x
    GETRANGE x 16380 16390
    GETRANGE x 39998 -1
    BITOP AND x far near
    BITCOUNT x
    STRLEN x
    BITOP XOR x near far near byte
    BITCOUNT x
    GETRANGE x 39998 -1
    BITOP NOT far far
    GETRANGE far 0 3
    GETRANGE far 39998 -1
    BITOP AND far far near
    BITCOUNT far
    STRLEN far
    GETRANGE far 16380 16390
    BITOP OR x b long longer missing
    GET x
    BITOP NOT x longer
    GET x

    SET k v
    BITOP
    BITOP AND
    BITOP AND d
    BITOP NOT d
    BITOP NOT d k k
    BITOP NOT d k missing
    BITOP FOO d k
    BITOP "" d k
    BITOP "AND\x00x" d k
    BITOP "NOT\x00" d k k
    BITOP ANDNOT d k
    EXISTS d
"#;

const FIELDS: &str = r#"
    BITFIELD k
    EXISTS k
    BITFIELD k GET u8 0
    EXISTS k
    BITFIELD k SET u8 0 255
    GET k
    BITFIELD k SET i5 100 -1 GET u4 0
    GET k
    BITFIELD k GET u8 0 GET i8 0 GET u4 4 GET u1 100 GET i1 100 GET i5 100 GET u63 0 GET i64 3 GET u8 10000
    BITFIELD k INCRBY u8 8 1 INCRBY u8 8 10 GET u8 8 INCRBY i8 8 -100
    GET k
    BITFIELD k SET u4 #1 5 GET u4 #0 GET u4 #1 GET u4 4
    BITFIELD k SET i64 0 -9223372036854775808 GET i64 0 SET i64 0 9223372036854775807 GET i64 0
    BITFIELD k SET u63 1 9223372036854775807 GET u63 1 GET i64 0 GET i63 1
    BITFIELD k SET i64 3 1234567890123456789 GET i64 3 GET u63 4
    GET k
    BITFIELD k get u8 0 set u8 0 1 incrby u8 0 1 overflow sat incrby u8 0 300
    GET k
    BITFIELD k OVERFLOW WRAP
    BITFIELD k OVERFLOW SAT OVERFLOW FAIL
    BITFIELD k OVERFLOW FAIL GET u8 0

    BITFIELD k FOO
    BITFIELD k GET
    BITFIELD k GET u8
    BITFIELD k SET u8 0
    BITFIELD k INCRBY u8 0
    BITFIELD k OVERFLOW
    BITFIELD k OVERFLOW FOO
    BITFIELD k OVERFLOW FOO GET x x
    BITFIELD k GET u8 0 FOO
    BITFIELD k SET u8 0 1 FOO
    BITFIELD k GET u64 0
    BITFIELD k GET i65 0
    BITFIELD k GET u0 0
    BITFIELD k GET i0 0
    BITFIELD k GET i-1 0
    BITFIELD k GET x8 0
    BITFIELD k GET 8 0
    BITFIELD k GET "" 0
    BITFIELD k GET u 0
    BITFIELD k GET U8 0
    BITFIELD k GET u08 0
    BITFIELD k GET "u8 " 0
    BITFIELD k GET "u8\x00junk" 0
    BITFIELD k GET "i\x00" 0
    BITFIELD k GET u8 -1
    BITFIELD k GET u8 x
    BITFIELD k GET u8 ""
    BITFIELD k GET u8 #
    BITFIELD k GET u8 #x
    BITFIELD k GET u8 #-1
    BITFIELD k GET u8 ##1
    BITFIELD k GET u8 4294967295
    BITFIELD k GET u8 4294967296
    BITFIELD k GET u8 #536870911
    BITFIELD k GET u8 #536870912
    BITFIELD k GET u8 #9223372036854775807
    BITFIELD k GET u8 #2305843009213693952
    BITFIELD k GET u8 #2305843009213693953
    BITFIELD k GET i64 #288230376151711744
    BITFIELD k GET u3 #6148914691236517206
    BITFIELD k GET u3 #9223372036854775807
    BITFIELD k SET u8 0 x
    BITFIELD k SET u8 x x
    BITFIELD k SET x x x
    BITFIELD k SET u8 0 9223372036854775808
    BITFIELD k INCRBY u8 0 ""
    BITFIELD k SET u8 0 1 GET u8 x
    BITFIELD
    EXISTS k

    SET n 1234
    BITFIELD n GET u8 0 GET u63 0
    BITFIELD n SET u8 0 50
    INCR n
    SET t v PXAT 4102444800000
    BITFIELD t SET u8 100 1
    PEXPIRETIME t
    BITFIELD t OVERFLOW FAIL SET u8 1000 256
    STRLEN t
    BITFIELD new OVERFLOW FAIL SET u8 9 256
    GET new
    BITFIELD new2 INCRBY u8 9 0
    GET new2

    SET k "\xfe\x01\x80\x00\xff"
    BITFIELD_RO k
    BITFIELD_RO missing
    BITFIELD_RO k GET u8 0 GET i8 0 get i16 #1
    BITFIELD_RO missing GET u8 0
    BITFIELD_RO k SET u8 0 1
    BITFIELD_RO k INCRBY u8 0 1
    BITFIELD_RO k SET u8 0 x
    BITFIELD_RO k SET x 0 1
    BITFIELD_RO k SET u8 0
    BITFIELD_RO k GET u8 0 SET u8 0 1
    BITFIELD_RO k OVERFLOW SAT GET u8 0
    BITFIELD_RO k OVERFLOW FOO GET u8 0
    BITFIELD_RO k FOO
    BITFIELD_RO k GET u8
    BITFIELD_RO
    GET k
"#;

const OVERFLOWS: &str = r#"
    BITFIELD k SET u8 0 255 INCRBY u8 0 1 INCRBY u8 0 -1 INCRBY u8 0 -256
    BITFIELD k SET u8 0 -1 GET u8 0 SET u8 0 256 GET u8 0 SET u8 0 1000 GET u8 0
    BITFIELD k SET i8 0 127 INCRBY i8 0 1 INCRBY i8 0 -1 INCRBY i8 0 300 INCRBY i8 0 -300
    BITFIELD k SET i8 0 128 GET i8 0 SET i8 0 -129 GET i8 0 SET i8 0 -1000 GET i8 0
    BITFIELD k INCRBY i8 0 9223372036854775807 INCRBY i8 0 -9223372036854775808
    BITFIELD k INCRBY u8 0 9223372036854775807 INCRBY u8 0 -9223372036854775808
    BITFIELD k OVERFLOW SAT SET u8 0 -1 GET u8 0 SET u8 0 256 GET u8 0 INCRBY u8 0 -300 INCRBY u8 0 300
    BITFIELD k OVERFLOW SAT SET i8 0 128 GET i8 0 SET i8 0 -129 GET i8 0 INCRBY i8 0 300 INCRBY i8 0 -300
    BITFIELD k OVERFLOW SAT INCRBY u8 0 9223372036854775807 INCRBY u8 0 -9223372036854775808
    BITFIELD k OVERFLOW SAT INCRBY i8 0 9223372036854775807 INCRBY i8 0 -9223372036854775808
    BITFIELD k OVERFLOW FAIL SET u8 0 256 SET u8 0 -1 SET i8 0 128 SET i8 0 -129 SET u8 0 7 INCRBY u8 0 249
    BITFIELD k OVERFLOW FAIL INCRBY u8 0 -8 INCRBY u8 0 248 INCRBY i8 0 1 INCRBY i8 0 -127
    GET k

    BITFIELD k SET i64 0 9223372036854775807 INCRBY i64 0 1 INCRBY i64 0 -1 INCRBY i64 0 9223372036854775807
    BITFIELD k OVERFLOW SAT SET i64 0 -5 INCRBY i64 0 -9223372036854775808 INCRBY i64 0 9223372036854775807
    BITFIELD k OVERFLOW SAT INCRBY i64 0 9223372036854775807 INCRBY i64 0 9223372036854775807
    BITFIELD k OVERFLOW FAIL INCRBY i64 0 1 INCRBY i64 0 -1 INCRBY i64 0 2
    BITFIELD k SET u63 0 -1 GET u63 0 INCRBY u63 0 1 INCRBY u63 0 -1
    BITFIELD k OVERFLOW SAT SET u63 0 -1 GET u63 0 INCRBY u63 0 1 INCRBY u63 0 -9223372036854775808
    BITFIELD k OVERFLOW FAIL SET u63 0 -1 GET u63 0 INCRBY u63 0 -1 INCRBY u63 0 9223372036854775807
    GET k

    # A signed field takes a number that is far too small for one that is too large.
    BITFIELD k OVERFLOW SAT SET i63 0 -9223372036854775808 GET i63 0
    BITFIELD k OVERFLOW SAT SET i63 0 -4611686018427387905 GET i63 0 SET i63 0 -4611686018427387904 GET i63 0
    BITFIELD k OVERFLOW SAT SET i62 0 -6917529027641081856 GET i62 0 SET i62 0 -6917529027641081857 GET i62 0
    BITFIELD k OVERFLOW SAT SET i8 0 -9223372036854775808 GET i8 0
    BITFIELD k OVERFLOW SAT SET i8 0 -9223372036854775680 GET i8 0 SET i8 0 -9223372036854775681 GET i8 0
    BITFIELD k OVERFLOW SAT SET i1 0 -9223372036854775808 GET i1 0 SET i1 0 -9223372036854775807 GET i1 0
    BITFIELD k OVERFLOW SAT SET i64 0 -9223372036854775808 GET i64 0
    BITFIELD k OVERFLOW WRAP SET i63 0 -9223372036854775808 GET i63 0 SET i62 0 -9223372036854775807 GET i62 0
    BITFIELD k OVERFLOW FAIL SET i63 0 -9223372036854775808 GET i63 0
    BITFIELD k OVERFLOW SAT SET i63 0 5 INCRBY i63 0 -9223372036854775808
    BITFIELD k OVERFLOW SAT SET i8 0 -5 INCRBY i8 0 -9223372036854775808

    BITFIELD k INCRBY u1 0 1 INCRBY u1 0 1 INCRBY i1 0 1 INCRBY i1 0 1 INCRBY i2 3 1 INCRBY i2 3 1
    BITFIELD k SET u1 3 5 SET i1 4 1 GET i1 4 SET i1 4 -1 GET i1 4 OVERFLOW FAIL SET i1 4 1 SET u1 3 2
    BITFIELD k OVERFLOW SAT INCRBY i1 4 1 INCRBY i1 4 -1 INCRBY i1 4 -1 INCRBY u1 3 7 INCRBY u1 3 -7
    GET k
"#;

const WATCHES: &str = r#"
    SET k "\xff"
    WATCH k
    b: SETBIT k 3 1
    b: BITFIELD k SET u8 0 255 INCRBY u4 2 0 OVERFLOW FAIL SET u8 0 256
    b: BITFIELD k GET u8 100
    b: GETBIT k 100
    b: BITCOUNT k
    b: BITPOS k 0
    b: BITOP NOT other k
    MULTI
    EXEC

    SET k "\xff"
    WATCH k
    b: SETBIT k 8 0
    MULTI
    EXEC

    WATCH k
    b: SETBIT k 0 0
    MULTI
    EXEC

    SET k "\xff"
    WATCH k
    b: BITFIELD k SET u8 0 254
    MULTI
    EXEC

    SET k "\xff"
    WATCH k
    b: BITFIELD k SET u8 8 0
    MULTI
    EXEC

    SET k "\xff"
    WATCH k
    b: BITOP OR k k
    MULTI
    EXEC

    WATCH k
    b: BITOP OR k missing
    MULTI
    EXEC

    SET k v
    WATCH k
    b: BITOP OR k missing
    MULTI
    EXEC
"#;

const LONGEST: &str = r#"
    SETBIT k 4294967295 1
    STRLEN k
    GETBIT k 4294967295
    GETBIT k 4294967294
    BITCOUNT k
    BITCOUNT k 4294967290 4294967295 BIT
    BITPOS k 1
    BITPOS k 0 -1
    GETRANGE k -2 -1
    SETBIT k 0 1
    BITFIELD k SET u8 4294967295 255 GET u63 4294967295
    STRLEN k
    BITOP NOT k k
    BITCOUNT k
    BITPOS k 0 1
    APPEND k ""
    DEL k
"#;
