//! JSON.SET, JSON.MSET, JSON.MERGE, JSON.DEL, JSON.FORGET, JSON.CLEAR.

use super::{MISSING, WRONG_TYPE};
use crate::harness::TestServer;

#[test]
fn a_document_is_created_at_its_root_and_grows_by_members() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $.a 1", "-ERR new objects must be created at the root"),
        ("JSON.SET d .a 1", "-ERR new objects must be created at the root"),
        ("JSON.SET d $ {\"a\":1}", "+OK"),
        ("JSON.SET d $.b [1,2]", "+OK"),
        ("JSON.SET d .c {\"x\":{}}", "+OK"),
        ("JSON.SET d $['c']['x'][\"y\"] null", "+OK"),
        ("JSON.SET d $.b[0] 7", "+OK"),
        ("JSON.GET d", "$38 {\"a\":1,\"b\":[7,2],\"c\":{\"x\":{\"y\":null}}}"),
        ("JSON.SET d $.b[5] 7", "-ERR array index out of range"),
        ("JSON.SET d $.b.x 7", "$-1"),
        ("JSON.SET d $.none.x 7", "$-1"),
        ("JSON.SET d $..none 7", "-Err wrong static path"),
        ("JSON.SET d $.b[*] 0", "+OK"),
        ("JSON.SET d $..y [3]", "+OK"),
        ("JSON.GET d $", "$39 [{\"a\":1,\"b\":[0,0],\"c\":{\"x\":{\"y\":[3]}}}]"),
        ("JSON.SET d . 5", "+OK"),
        ("JSON.GET d .", "$1 5"),
    ]);
}

#[test]
fn a_condition_is_about_what_the_path_names() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {} XX", "$-1"),
        ("JSON.SET d $.a 1 XX", "$-1"),
        ("JSON.SET d $ {} NX", "+OK"),
        ("JSON.SET d $ 1 NX", "$-1"),
        ("JSON.SET d $.a 1 XX", "$-1"),
        ("JSON.SET d $.a 1 nx", "+OK"),
        ("JSON.SET d $.a 2 NX", "$-1"),
        ("JSON.SET d $.a 3 xx", "+OK"),
        ("JSON.SET d $.a [3] XX FORMAT JSON", "+OK"),
        ("JSON.SET d $.a[0] 4 NX", "$-1"),
        ("JSON.SET d $ 1 NX XX", "-ERR syntax error"),
        ("JSON.SET d $ 1 FORMAT BSON", "-ERR wrong format"),
        ("JSON.SET d $ 1 nothing", "-ERR syntax error"),
        ("JSON.GET d", "$9 {\"a\":[3]}"),
    ]);
}

#[test]
fn a_text_that_is_not_json_is_refused_with_its_place() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("JSON.SET d $ {", "-EOF while parsing an object at line 1 column 1"),
        ("JSON.SET d $ nul", "-EOF while parsing a value at line 1 column 3"),
        ("JSON.SET d $ [1,]", "-trailing comma at line 1 column 4"),
        ("JSON.SET d $ {\"a\":}", "-expected value at line 1 column 6"),
        ("JSON.SET d $ {a:1}", "-key must be a string at line 1 column 2"),
        ("JSON.SET d $ 1x", "-trailing characters at line 1 column 2"),
        ("JSON.SET d $ 1e999", "-number out of range at line 1 column 5"),
        ("JSON.SET d $ \"\\ud800\"", "-unexpected end of hex escape at line 1 column 8"),
        ("JSON.NUMINCRBY d $ x", MISSING),
        ("EXISTS d", ":0"),
        ("SET s x", "+OK"),
        ("JSON.SET s $ 1", WRONG_TYPE),
        ("JSON.SET d $[ 1", "-ERR new objects must be created at the root"),
    ]);
    assert_eq!(client.call_args(&["JSON.SET", "d", "$", ""]), "-EOF while parsing a value at line 1 column 0");
    assert_eq!(client.call_args(&[&b"JSON.SET"[..], b"d", b"$", b"\"\xff\""]), "-Couldn't parse as UTF-8 string");
    assert_eq!(client.call_args(&["JSON.SET", "d", "$", " {\"a\" :\n[ ] }\t"]), "+OK");
    client.expect(&[
        ("JSON.GET d", "$8 {\"a\":[]}"),
        (
            "JSON.SET d $.a[ 1",
            "-Error occurred on position 4, \"$.a[ <<<<----\", expected one of the following: '*', \
             '<number>[,<number>,...]', ['start:end:steps'], '<string>[,<string>,...]', '[?(filter_expression)]'.",
        ),
    ]);
}

#[test]
fn several_keys_are_set_at_once_or_none() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.MSET a $ {\"x\":1} b $ [1]", "+OK"),
        ("JSON.MSET a $.x 2 b $[0] 2 c $ 3", "+OK"),
        ("JSON.MGET a b c missing $", "*4 $9 [{\"x\":2}] $5 [[2]] $3 [3] $-1"),
        ("JSON.MSET a $.x 9 missing $.x 1", "-ERR new objects must be created at the root"),
        ("JSON.MSET a $.x 9 b $ x", "-expected value at line 1 column 1"),
        ("JSON.MSET a $.x 9 b $", "-ERR wrong number of arguments for 'json.mset' command"),
        ("JSON.MSET a $.x", "-ERR wrong number of arguments for 'json.mset' command"),
        ("SET s x", "+OK"),
        ("JSON.MSET a $.x 9 s $ 1", WRONG_TYPE),
        ("JSON.GET a", "$7 {\"x\":2}"),
        ("JSON.MSET a $ {\"x\":[1]} b $[0] 5", "+OK"),
        ("JSON.MSET a $.x {} a $.x[0] 1 b $[0] 6", "+OK"),
        ("JSON.MGET a b $", "*2 $10 [{\"x\":{}}] $5 [[6]]"),
    ]);
}

#[test]
fn a_merge_adds_changes_and_removes_members() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.MERGE d $.a 1", "-ERR new objects must be created at the root"),
        ("JSON.MERGE d $ {\"a\":{\"b\":1,\"n\":null},\"c\":[1]}", "+OK"),
        ("JSON.MERGE d $ {\"a\":{\"n\":null,\"x\":2},\"c\":null}", "+OK"),
        ("JSON.GET d", "$19 {\"a\":{\"b\":1,\"x\":2}}"),
        ("JSON.MERGE d $.a {\"b\":null}", "+OK"),
        ("JSON.MERGE d $.new {\"k\":null}", "+OK"),
        ("JSON.MERGE d .a.x [1,2]", "+OK"),
        ("JSON.GET d", "$34 {\"a\":{\"x\":[1,2]},\"new\":{\"k\":null}}"),
        ("JSON.MERGE d $.a.x.y 1", "$-1"),
        ("JSON.MERGE d $..* {\"z\":0}", "+OK"),
        ("JSON.GET d $.a", "$21 [{\"x\":{\"z\":0},\"z\":0}]"),
        ("JSON.MERGE d $ 5 NX", "-ERR syntax error"),
        ("JSON.MERGE d $ 5", "+OK"),
        ("JSON.GET d", "$1 5"),
    ]);
}

#[test]
fn values_are_removed_and_a_document_of_which_nothing_is_left_goes_with_its_key() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"a\":1,\"b\":{\"a\":2,\"c\":3},\"x\":[1,2,3,4],\"y\":5}", "+OK"),
        ("JSON.DEL d $..none", ":0"),
        ("JSON.DEL missing", ":0"),
        ("JSON.DEL d $..a", ":2"),
        ("JSON.GET d", "$33 {\"y\":5,\"b\":{\"c\":3},\"x\":[1,2,3,4]}"),
        ("JSON.DEL d $.x[0,2]", ":2"),
        ("JSON.FORGET d .b.c", ":1"),
        ("JSON.GET d", "$24 {\"y\":5,\"b\":{},\"x\":[2,4]}"),
        ("JSON.DEL d $.*", ":3"),
        ("EXISTS d", ":0"),
        ("JSON.SET d $ [1]", "+OK"),
        ("JSON.FORGET d", ":1"),
        ("EXISTS d", ":0"),
        ("JSON.SET d $ {\"a\":1}", "+OK"),
        ("JSON.DEL d .", ":1"),
        ("EXISTS d", ":0"),
        ("SET s x", "+OK"),
        ("JSON.DEL s", WRONG_TYPE),
    ]);
}

#[test]
fn containers_are_emptied_and_numbers_become_zero() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"n\":7,\"f\":1.5,\"z\":0,\"s\":\"x\",\"b\":true,\"a\":[1],\"e\":[],\"o\":{\"k\":1}}", "+OK"),
        ("JSON.CLEAR d $.*", ":4"),
        ("JSON.GET d", "$57 {\"n\":0,\"f\":0,\"z\":0,\"s\":\"x\",\"b\":true,\"a\":[],\"e\":[],\"o\":{}}"),
        ("JSON.CLEAR d $.none", ":0"),
        ("JSON.CLEAR d", ":1"),
        ("JSON.GET d", "$2 {}"),
        ("JSON.CLEAR d", ":0"),
        ("JSON.CLEAR missing $.a", MISSING),
    ]);
}
