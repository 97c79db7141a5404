//! INCREX: a counter with bounds and a TTL. The expected replies are those of Redis 8.8.

use crate::harness::TestServer;

const SYNTAX: &str = "-ERR syntax error";
const MAX: &str = "9223372036854775807";
const MIN: &str = "-9223372036854775808";

#[test]
fn increx_counts_and_says_what_it_added() {
    let server = TestServer::start();
    server.client().expect(&[
        ("INCREX k", "*2 :1 :1"),
        ("INCREX k BYINT 9", "*2 :10 :9"),
        ("increx k byint -25", "*2 :-15 :-25"),
        ("INCREX k BYINT 0", "*2 :-15 :0"),
        ("OBJECT ENCODING k", "$3 int"),
        ("GET k", "$3 -15"),
        ("INCREX k BYFLOAT 1.5", "*2 $5 -13.5 $3 1.5"),
        ("INCREX k BYFLOAT -0.25", "*2 $6 -13.75 $5 -0.25"),
        ("INCREX new BYFLOAT 3e2", "*2 $3 300 $3 300"),
        ("SET word hello", "+OK"),
        ("INCREX word", "-ERR value is not an integer or out of range"),
        ("INCREX word BYFLOAT 1", "-ERR value is not a valid float"),
        ("INCREX k", "-ERR value is not an integer or out of range"),
    ]);
    server.client3().expect(&[("INCREX k BYFLOAT 0.5", "*2 ,-13.25 ,0.5"), ("INCREX n BYINT 2", "*2 :2 :2")]);
}

#[test]
fn a_sum_out_of_bounds_changes_nothing_unless_it_is_cut_back() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k 10 EX 100", "+OK"),
        ("INCREX k BYINT 10 UBOUND 15 EX 500", "*2 :10 :0"),
        ("INCREX k BYINT -10 LBOUND 5 PERSIST", "*2 :10 :0"),
        ("TTL k", ":100"),
        ("INCREX k BYINT 10 UBOUND 15 SATURATE EX 500", "*2 :15 :5"),
        ("TTL k", ":500"),
        ("INCREX k LBOUND 0 SATURATE BYINT -100 UBOUND 20", "*2 :0 :-15"),
        ("INCREX k BYINT 20 LBOUND 0 UBOUND 20", "*2 :20 :20"),
        // A number out of bounds may move back, or be set, into the bounds.
        ("INCREX k BYINT -5 UBOUND 15", "*2 :15 :-5"),
        ("INCREX k BYINT 1 UBOUND 10", "*2 :15 :0"),
        ("INCREX k BYINT 1 UBOUND 10 SATURATE", "*2 :10 :-5"),
        ("INCREX missing BYINT 5 LBOUND 10", "*2 :0 :0"),
        ("INCREX missing BYFLOAT -0.5 UBOUND -1.5", "*2 $1 0 $1 0"),
        ("EXISTS missing", ":0"),
        ("INCREX missing BYINT 5 LBOUND 10 SATURATE", "*2 :10 :10"),
        ("SET f 10", "+OK"),
        ("INCREX f BYFLOAT 100 UBOUND 42.5", "*2 $2 10 $1 0"),
        ("INCREX f BYFLOAT 100 UBOUND 42.5 SATURATE", "*2 $4 42.5 $4 32.5"),
        ("INCREX f BYFLOAT -100 LBOUND -5.5 UBOUND inf SATURATE", "*2 $4 -5.5 $3 -48"),
    ]);
}

#[test]
fn the_ends_of_the_numbers_are_bounds_too() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k 9223372036854775800", "+OK")]);
    assert_eq!(client.call("INCREX k BYINT 8"), "*2 :9223372036854775800 :0");
    assert_eq!(client.call("INCREX k BYINT 8 SATURATE"), format!("*2 :{MAX} :7"));
    assert_eq!(client.call(&format!("INCREX k SATURATE UBOUND {MIN}")), "-ERR applied increment would overflow");
    assert_eq!(client.call("GET k"), format!("$19 {MAX}"));
    client.expect(&[("SET k -9223372036854775800", "+OK")]);
    assert_eq!(client.call("INCREX k BYINT -9223372036854775800 SATURATE"), format!("*2 :{MIN} :-8"));
    client.expect(&[
        ("SET f 1e4932", "+OK"),
        ("INCREX f BYFLOAT inf", "-ERR BYFLOAT increment cannot be Infinity"),
        ("SET i -inf", "+OK"),
        ("INCREX i BYFLOAT 0 LBOUND -100", "-ERR value cannot be Infinity"),
    ]);
    let huge = client.frame(&["INCREX", "f", "BYFLOAT", "1e4932", "UBOUND", "inf", "SATURATE"]);
    assert!(format!("{huge:?}").contains("1189731495357231765021"), "the largest number there is");
    let refused = client.frame(&["INCREX", "f", "BYFLOAT", "1e4932", "UBOUND", "inf"]);
    assert!(format!("{refused:?}").contains("1189731495357231765021"), "and no larger one");
}

#[test]
fn increx_sets_keeps_or_removes_the_ttl() {
    let server = TestServer::start();
    server.client().expect(&[
        ("INCREX k EX 100", "*2 :1 :1"),
        ("TTL k", ":100"),
        ("INCREX k", "*2 :2 :1"),
        ("TTL k", ":100"),
        ("INCREX k ENX EX 7", "*2 :3 :1"),
        ("TTL k", ":100"),
        ("INCREX k EXAT 1 ENX", "*2 :4 :1"),
        ("TTL k", ":100"),
        ("INCREX k PERSIST", "*2 :5 :1"),
        ("TTL k", ":-1"),
        ("INCREX k PX 7000 ENX", "*2 :6 :1"),
        ("PTTL k", ":7000"),
        ("INCREX k BYFLOAT 0.5 PXAT 99999999999999", "*2 $3 6.5 $3 0.5"),
        ("PEXPIRETIME k", ":99999999999999"),
        ("INCREX k BYFLOAT 1 EXAT 1", "*2 $3 7.5 $1 1"),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn increx_rejects_unknown_and_repeated_options() {
    let server = TestServer::start();
    let mut client = server.client();
    for words in [
        "FOO",
        "BYINT",
        "BYFLOAT",
        "LBOUND",
        "UBOUND",
        "EX",
        "BYINT 1 BYFLOAT 1.5",
        "BYFLOAT 1.5 BYINT 1",
        "BYINT 1 BYINT 2",
        "BYFLOAT 1 BYFLOAT 2",
        "LBOUND 0 LBOUND 1",
        "UBOUND 9 UBOUND 8",
        "SATURATE SATURATE",
        "SAT",
        "ENX ENX EX 10",
        "PERSIST PERSIST",
        "EX 10 EX 20",
        "EX 10 PX 5000",
        "EX 10 PERSIST",
        "PERSIST EX 10",
        "PERSIST ENX",
        "ENX PERSIST",
        "KEEPTTL",
        "NX",
    ] {
        assert_eq!(client.call(&format!("INCREX k {words}")), SYNTAX, "{words}");
    }
    client.expect(&[
        ("INCREX", "-ERR wrong number of arguments for 'increx' command"),
        ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
        ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
        ("INCREX k BYFLOAT abc", "-ERR Increment is not a valid float"),
        ("INCREX k LBOUND 1.5", "-ERR LBOUND is not an integer or out of range"),
        ("INCREX k BYFLOAT 1 LBOUND x", "-ERR LBOUND is not a valid float"),
        ("INCREX k UBOUND abc", "-ERR UBOUND is not an integer or out of range"),
        ("INCREX k LBOUND 10 UBOUND 5", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k BYFLOAT 1 LBOUND 10.5 UBOUND 1.5", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
        ("INCREX k PX -1", "-ERR invalid expire time in 'increx' command"),
        ("INCREX k EX ten", "-ERR value is not an integer or out of range"),
        ("DBSIZE", ":0"),
    ]);
}

#[test]
fn a_rate_limiter_is_one_command() {
    let server = TestServer::start();
    let mut client = server.client();
    let call = "INCREX limit UBOUND 3 EX 10 ENX";
    client.expect(&[(call, "*2 :1 :1"), (call, "*2 :2 :1"), (call, "*2 :3 :1"), (call, "*2 :3 :0")]);
    server.advance_ms(9_999);
    client.expect(&[(call, "*2 :3 :0")]);
    server.advance_ms(1);
    client.expect(&[(call, "*2 :1 :1"), ("TTL limit", ":10")]);
}
