//! JSON.NUMINCRBY, JSON.NUMMULTBY, JSON.NUMPOWBY, JSON.STRAPPEND, JSON.TOGGLE.

use super::{MISSING, WRONG_TYPE};
use crate::harness::TestServer;

#[test]
fn numbers_are_computed_with() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"a\":1,\"b\":{\"a\":2.5},\"c\":{\"a\":\"x\"}}", "+OK"),
        ("JSON.NUMINCRBY d $..a 2", "$12 [3,4.5,null]"),
        ("JSON.NUMINCRBY d .a 2", "$1 5"),
        ("JSON.NUMINCRBY d a 0.5", "$3 5.5"),
        ("JSON.NUMMULTBY d $.a 2", "$6 [11.0]"),
        ("JSON.NUMMULTBY d $.b.a 2", "$5 [9.0]"),
        ("JSON.SET d $.a 3", "+OK"),
        ("JSON.NUMPOWBY d $.a 4", "$4 [81]"),
        ("JSON.NUMPOWBY d .a 0.5", "$3 9.0"),
        ("JSON.NUMINCRBY d ..a 1", "$4 10.0"),
        ("JSON.NUMINCRBY d $.none 1", "$2 []"),
        ("JSON.NUMINCRBY d .none 1", "-ERR Path '$.none' does not exist or does not contains a number"),
        ("JSON.NUMINCRBY d .c.a 1", "-ERR Path '$.c.a' does not exist or does not contains a number"),
        ("JSON.NUMINCRBY d $.a x", "-ERR expected value at line 1 column 1"),
        ("JSON.NUMINCRBY d $.a \"x\"", "-bad input number"),
        ("JSON.NUMINCRBY missing $.a 1", MISSING),
        ("JSON.NUMINCRBY missing .a 1", MISSING),
        ("SET s x", "+OK"),
        ("JSON.NUMINCRBY s $.a 1", WRONG_TYPE),
    ]);
}

#[test]
fn numbers_are_replied_as_numbers_in_resp3() {
    let server = TestServer::start();
    server.client3().expect(&[
        ("JSON.SET d $ {\"a\":1,\"b\":{\"a\":2.5},\"c\":{\"a\":\"x\"}}", "+OK"),
        ("JSON.NUMINCRBY d $..a 2", "*3 :3 ,4.5 _"),
        ("JSON.NUMINCRBY d .a 2", "*1 :5"),
        ("JSON.NUMMULTBY d .none 2", "*0"),
    ]);
}

#[test]
fn an_integer_that_leaves_its_range_wraps_around_and_a_double_stays() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ [9223372036854775807,1e308,9223372036854775808]", "+OK"),
        ("JSON.NUMINCRBY d $[0] 1", "$22 [-9223372036854775808]"),
        ("JSON.NUMMULTBY d $[0] 2", "$3 [0]"),
        ("JSON.NUMINCRBY d $[0] 9223372036854775807", "$21 [9223372036854775807]"),
        ("JSON.NUMPOWBY d $[0] 2", "$3 [1]"),
        ("JSON.NUMMULTBY d $[1] 1000", "-result is not a number"),
        ("JSON.NUMINCRBY d $[*] 1e308", "-result is not a number"),
        ("JSON.GET d", "$29 [1,1e308,9223372036854775808]"),
        ("JSON.NUMINCRBY d $[2] 1", "$22 [9.223372036854776e18]"),
    ]);
}

#[test]
fn strings_grow() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"s\":\"a\",\"x\":{\"s\":1},\"y\":{\"s\":\"\u{e9}\"}}", "+OK"),
        ("JSON.STRAPPEND d $..s \"bc\"", "*3 :3 $-1 :4"),
        ("JSON.STRAPPEND d .s \"d\"", ":4"),
        ("JSON.GET d .s", "$6 \"abcd\""),
        ("JSON.STRAPPEND d $.s 5", "-WRONGTYPE wrong type of path value - expected string but found 5"),
        ("JSON.STRAPPEND d $.s x", "-ERR expected value at line 1 column 1"),
        ("JSON.STRAPPEND d .x.s \"d\"", "-ERR Path '$.x.s' does not exist or not a string"),
        ("JSON.STRAPPEND d $.none \"d\"", "*0"),
        ("JSON.STRAPPEND missing \"d\"", MISSING),
        ("JSON.SET t $ \"a\"", "+OK"),
        ("JSON.STRAPPEND t \"b\"", ":2"),
        ("JSON.GET t", "$4 \"ab\""),
    ]);
}

#[test]
fn booleans_are_inverted() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"b\":true,\"x\":{\"b\":false},\"y\":{\"b\":1}}", "+OK"),
        ("JSON.TOGGLE d $..b", "*3 :0 :1 $-1"),
        ("JSON.TOGGLE d .b", "$4 true"),
        ("JSON.TOGGLE d .b", "$5 false"),
        ("JSON.TOGGLE d .y.b", "-ERR Path '$.y.b' does not exist or not a bool"),
        ("JSON.TOGGLE d $.none", "*0"),
        ("JSON.TOGGLE missing $", MISSING),
        ("JSON.TOGGLE d", "-ERR wrong number of arguments for 'json.toggle' command"),
    ]);
}

#[test]
fn a_value_that_becomes_longer_or_shorter_moves_what_is_behind_it() {
    let server = TestServer::start();
    let mut client = server.client();
    let long = "x".repeat(5000);
    assert_eq!(client.call(&format!("JSON.SET d $ {{\"n\":1,\"s\":\"{long}\",\"a\":[7,true]}}")), "+OK");
    for (request, reply) in [
        ("JSON.NUMINCRBY d $.n 62", "$4 [63]"),
        ("JSON.NUMINCRBY d $.n 1", "$4 [64]"),
        ("JSON.NUMINCRBY d $.n 1000000", "$9 [1000064]"),
        ("JSON.NUMINCRBY d $.n -1000063", "$3 [1]"),
        ("JSON.TOGGLE d $.a[1]", "*1 :0"),
        ("JSON.NUMMULTBY d $.a[0] 0.5", "$5 [3.5]"),
        ("JSON.STRAPPEND d $.s \"y\"", "*1 :5001"),
    ] {
        client.expect(&[(request, reply)]);
    }
    client.expect(&[
        ("JSON.GET d $.n $.a", "$31 {\"$.n\":[1],\"$.a\":[[3.5,false]]}"),
        ("JSON.STRLEN d $.s", "*1 :5001"),
    ]);
}
