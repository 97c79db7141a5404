//! `TOPK.*` through the socket: replies in both protocols, and errors.

use super::WRONG_TYPE;
use crate::harness::TestServer;

#[test]
fn the_most_frequent_items_are_kept_and_the_others_expelled() {
    let server = TestServer::start();
    server.client().expect(&[
        ("TOPK.RESERVE k 2 50 5 0.9", "+OK"),
        ("TOPK.ADD k foo bar baz 42 foo bar baz", "*7 $-1 $-1 $3 foo $3 bar $3 baz $2 42 $3 foo"),
        ("TOPK.ADD k foo baz 42 foo baz", "*5 $3 bar $-1 $-1 $-1 $-1"),
        ("TOPK.ADD k foo bar baz foo baz", "*5 $-1 $-1 $-1 $-1 $-1"),
        ("TOPK.LIST k", "*2 $3 foo $3 baz"),
        ("TOPK.ADD k bar bar bar bar bar", "*5 $-1 $-1 $3 foo $-1 $-1"),
        ("TOPK.INFO k", "*8 +k :2 +width :50 +depth :5 +decay $3 0.9"),
        ("TOPK.LIST k WITHCOUNT", "*4 $3 bar :8 $3 baz :6"),
        ("TOPK.QUERY k foo bar z", "*3 :0 :1 :0"),
        ("TOPK.COUNT k foo bar z", "*3 :6 :8 :0"),
        ("TYPE k", "+TopK-TYPE"),
        ("OBJECT ENCODING k", "$3 raw"),
        ("TOPK.RESERVE d 3", "+OK"),
        ("TOPK.INFO d", "*8 +k :3 +width :8 +depth :7 +decay $3 0.9"),
        ("TOPK.LIST d", "*0"),
    ]);
    server.client3().expect(&[
        ("TOPK.QUERY k baz z", "*2 #t #f"),
        ("TOPK.INFO k", "%4 +k :2 +width :50 +depth :5 +decay ,0.9"),
        ("TOPK.LIST k withcount", "*4 $3 bar :8 $3 baz :6"),
        ("TOPK.ADD k bar", "*1 _"),
    ]);
}

#[test]
fn counts_grow_by_increments() {
    let server = TestServer::start();
    let increment = format!(
        "-TopK: increment must be an integer greater or equal to 0{}and smaller or equal to 100,000",
        " ".repeat(28)
    );
    server.client().expect(&[
        ("TOPK.RESERVE k 3 10 3 1", "+OK"),
        ("TOPK.INCRBY k bar 3 baz 6 42 2", "*3 $-1 $-1 $-1"),
        ("TOPK.INCRBY k 42 8 xyzzy 4", "*2 $-1 $3 bar"),
        ("TOPK.COUNT k bar baz 42 xyzzy 4", "*5 :3 :6 :10 :4 :0"),
        ("TOPK.INCRBY k foo -5", &format!("*1 {increment}")),
        ("TOPK.INCRBY k foo 123456 baz 1", &format!("*2 {increment} {increment}")),
        ("TOPK.INCRBY k baz 1 foo x", &format!("*2 $-1 {increment}")),
        ("TOPK.COUNT k baz foo", "*2 :7 :0"),
    ]);
}

#[test]
fn an_empty_item_is_an_item() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("TOPK.RESERVE k 3", "+OK")]);
    for (words, reply) in [
        (&["TOPK.ADD", "k", ""][..], "*1 $-1"),
        (&["TOPK.QUERY", "k", ""], "*1 :1"),
        (&["TOPK.LIST", "k", "withcount"], "*2 $0  :1"),
        (&["TOPK.INCRBY", "k", "", "100"], "*1 $-1"),
        (&["TOPK.COUNT", "k", ""], "*1 :101"),
    ] {
        assert_eq!(client.call_args(words), reply, "{words:?}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    server.client().expect(&[
        ("SET s v", "+OK"),
        ("TOPK.RESERVE k 3", "+OK"),
        ("TOPK.RESERVE k 3", "-TopK: key already exists"),
        ("TOPK.RESERVE s 3", "-TopK: key already exists"),
        ("TOPK.RESERVE n 0", "-TopK: invalid k"),
        ("TOPK.RESERVE n 4294967296 1 1 0.1", "-TopK: invalid k"),
        ("TOPK.RESERVE n 1 4294967296 1 0.1", "-TopK: invalid width"),
        ("TOPK.RESERVE n 1 1 0.9 0.1", "-TopK: invalid depth"),
        ("TOPK.RESERVE n 1 1 1 42", "-TopK: invalid decay value. must be '<= 1' & '> 0'"),
        ("TOPK.RESERVE n 3 2000000000 200000000 1", "-ERR Insufficient memory to create topk data structure"),
        ("TOPK.RESERVE n 3 50", &arity("topk.reserve")),
        ("TOPK.RESERVE n 3 50 5", &arity("topk.reserve")),
        ("TOPK.ADD s a", WRONG_TYPE),
        ("TOPK.ADD missing a", "-TopK: key does not exist"),
        ("TOPK.INCRBY missing a 1", "-TopK: key does not exist"),
        ("TOPK.INCRBY k a", &arity("topk.incrby")),
        ("TOPK.INCRBY k a 1 b", &arity("topk.incrby")),
        ("TOPK.QUERY missing a", "-TopK: key does not exist"),
        ("TOPK.QUERY s a", WRONG_TYPE),
        ("TOPK.COUNT missing a", "-TopK: key does not exist"),
        ("TOPK.LIST missing", "-TopK: key does not exist"),
        ("TOPK.LIST missing COUNTS", "-WITHCOUNT keyword expected"),
        ("TOPK.LIST k WITHCOUNT a", &arity("topk.list")),
        ("TOPK.INFO missing", "-TopK: key does not exist"),
        ("TOPK.INFO s", WRONG_TYPE),
        ("EXISTS n missing", ":0"),
    ]);
}
