//! JSON.ARRAPPEND, JSON.ARRINDEX, JSON.ARRINSERT, JSON.ARRLEN, JSON.ARRPOP, JSON.ARRTRIM.

use super::MISSING;
use crate::harness::TestServer;

const DOCUMENT: &str = "JSON.SET d $ {\"a\":[1,2],\"x\":{\"a\":[]},\"y\":{\"a\":7}}";

#[test]
fn values_are_appended_and_inserted() {
    let server = TestServer::start();
    server.client().expect(&[
        (DOCUMENT, "+OK"),
        ("JSON.ARRAPPEND d $..a 3 [4]", "*3 :4 :2 $-1"),
        ("JSON.ARRAPPEND d .a \"x\"", ":5"),
        ("JSON.GET d .a", "$15 [1,2,3,[4],\"x\"]"),
        ("JSON.ARRAPPEND d .y.a 1", "-ERR Path '.y.a' does not exist or not an array"),
        ("JSON.ARRAPPEND d $.none 1", "*0"),
        ("JSON.ARRAPPEND d $.a x", "-expected value at line 1 column 1"),
        ("JSON.ARRAPPEND missing $ 1", MISSING),
        ("JSON.ARRAPPEND d $.a", "-ERR wrong number of arguments for 'json.arrappend' command"),
        ("JSON.ARRINSERT d $..a 1 {} null", "*3 :7 :4 $-1"),
        ("JSON.ARRINSERT d $.x.a -1 0", "*1 :5"),
        ("JSON.GET d $.x.a", "$19 [[3,{},null,0,[4]]]"),
        ("JSON.ARRINSERT d $.x.a 5 9", "*1 :6"),
        ("JSON.ARRINSERT d $.x.a 7 9", "-ERR index out of bounds"),
        ("JSON.ARRINSERT d $.x.a -7 9", "-ERR index out of bounds"),
        ("JSON.ARRINSERT d $.x.a x 9", "-Couldn't parse as integer"),
        ("JSON.ARRINSERT d .y.a 0 9", "-ERR Path '$.y.a' does not exist or not an array"),
        ("JSON.ARRINSERT missing $ 0 9", MISSING),
    ]);
}

#[test]
fn an_element_is_found_in_a_range() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"a\":[0,1,[2],{\"k\":[3]},1,\"1\"],\"e\":[],\"n\":5}", "+OK"),
        ("JSON.ARRINDEX d $.a 1", "*1 :1"),
        ("JSON.ARRINDEX d .a 1", ":1"),
        ("JSON.ARRINDEX d .a 1 2", ":4"),
        ("JSON.ARRINDEX d .a 1 2 4", ":-1"),
        ("JSON.ARRINDEX d .a 1 -2 0", ":4"),
        ("JSON.ARRINDEX d .a 1 -100 -4", ":1"),
        ("JSON.ARRINDEX d .a 1 100", ":-1"),
        ("JSON.ARRINDEX d .a \"1\" 100", ":5"),
        ("JSON.ARRINDEX d .a [2]", ":2"),
        ("JSON.ARRINDEX d .a {\"k\":[3]}", ":3"),
        ("JSON.ARRINDEX d .a 1.0", ":-1"),
        ("JSON.ARRINDEX d $.* 1", "*3 :1 :-1 $-1"),
        ("JSON.ARRINDEX d .n 1", "-WRONGTYPE wrong type of path value - expected array but found integer"),
        ("JSON.ARRINDEX d .none 1", "-ERR Path '$.none' does not exist"),
        ("JSON.ARRINDEX missing $.a 1", "-ERR Path '$.a' does not exist"),
        ("JSON.ARRINDEX d .a x", "-ERR expected value at line 1 column 1"),
        ("JSON.ARRINDEX d .a 1 x", "-Couldn't parse as integer"),
        ("JSON.ARRINDEX d .a 1 0 0 0", "-ERR wrong number of arguments for 'json.arrindex' command"),
    ]);
}

#[test]
fn arrays_have_lengths() {
    let server = TestServer::start();
    server.client().expect(&[
        (DOCUMENT, "+OK"),
        ("JSON.ARRLEN d $..a", "*3 :2 :0 $-1"),
        ("JSON.ARRLEN d .a", ":2"),
        ("JSON.ARRLEN d .y.a", "-ERR Path '.y.a' does not exist or not an array"),
        ("JSON.ARRLEN d", "-ERR Path '.' does not exist or not an array"),
        ("JSON.ARRLEN d .none", "-ERR Path '.none' does not exist"),
        ("JSON.ARRLEN missing", "$-1"),
        ("JSON.ARRLEN missing $", MISSING),
    ]);
}

#[test]
fn elements_are_popped_from_anywhere() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("JSON.SET d $ {\"a\":[1,{\"k\":2},\"x\",3.5,4],\"x\":{\"a\":[]},\"y\":{\"a\":7}}", "+OK"),
        ("JSON.ARRPOP d $..a", "*3 $1 4 $-1 $-1"),
        ("JSON.ARRPOP d .a 0", "$1 1"),
        ("JSON.ARRPOP d .a -2", "$3 \"x\""),
        ("JSON.ARRPOP d $.a 100", "*1 $3 3.5"),
        ("JSON.ARRPOP d $.a -100", "*1 $7 {\"k\":2}"),
        ("JSON.ARRPOP d .a", "$-1"),
        ("JSON.ARRPOP d .y.a", "-ERR Path '$.y.a' does not exist or not an array"),
        ("JSON.ARRPOP d", "-ERR Path '$' does not exist or not an array"),
        ("JSON.ARRPOP d $.none", "*0"),
        ("JSON.ARRPOP missing", MISSING),
        ("JSON.ARRPOP d FORMAT EXPAND $.a", "-ERR FORMAT argument is not supported on RESP2"),
        ("JSON.SET t $ [1,[2,true]]", "+OK"),
        ("JSON.ARRPOP t", "$8 [2,true]"),
        ("JSON.SET t $ [1,[2,true],{\"a\":[0.5]}]", "+OK"),
    ]);
    server.client3().expect(&[
        ("JSON.ARRPOP t FORMAT EXPAND $", "*1 %1 $1 a *1 ,0.5"),
        ("JSON.ARRPOP t FORMAT EXPAND1 $", "*1 $8 [2,true]"),
        ("JSON.ARRPOP t FORMAT STRING $", "-ERR wrong reply format"),
        ("JSON.ARRPOP t FORMAT EXPAND .", "-Legacy paths are supported only with FORMAT STRINGS"),
        ("JSON.ARRPOP t FORMAT STRINGS $", "*1 $1 1"),
        ("JSON.ARRPOP t", "_"),
    ]);
}

#[test]
fn arrays_are_trimmed_to_a_range() {
    let server = TestServer::start();
    let mut client = server.client();
    for (range, count, left) in [
        ("1 3", 3, "[1,2,3]"),
        ("-3 -2", 2, "[2,3]"),
        ("0 100", 5, "[0,1,2,3,4]"),
        ("-100 1", 2, "[0,1]"),
        ("4 2", 0, "[]"),
        ("5 7", 0, "[]"),
        ("100 -1", 0, "[]"),
        ("-1 100", 1, "[4]"),
    ] {
        client.expect(&[
            ("JSON.SET d $ {\"a\":[0,1,2,3,4],\"n\":1}", "+OK"),
            (&format!("JSON.ARRTRIM d $.* {range}"), &format!("*2 :{count} $-1")),
            ("JSON.GET d .a", &format!("${} {left}", left.len())),
        ]);
    }
    client.expect(&[
        ("JSON.ARRTRIM d .a 0 0", ":1"),
        ("JSON.ARRTRIM d .n 0 0", "-ERR Path '$.n' does not exist or not an array"),
        ("JSON.ARRTRIM d $.none 0 0", "*0"),
        ("JSON.ARRTRIM missing $ 0 0", MISSING),
        ("JSON.SET d $ []", "+OK"),
        ("JSON.ARRTRIM d $ 0 -1", "*1 :0"),
    ]);
}
