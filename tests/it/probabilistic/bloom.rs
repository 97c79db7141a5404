//! `BF.*` through the socket: replies in both protocols, and errors.

use super::WRONG_TYPE;
use crate::harness::TestServer;

#[test]
fn items_are_added_once_and_are_found() {
    let server = TestServer::start();
    server.client().expect(&[
        ("BF.ADD k a", ":1"),
        ("BF.ADD k a", ":0"),
        ("BF.MADD k a b c b", "*4 :0 :1 :1 :0"),
        ("BF.EXISTS k b", ":1"),
        ("BF.EXISTS k z", ":0"),
        ("BF.EXISTS missing z", ":0"),
        ("BF.MEXISTS k a z c", "*3 :1 :0 :1"),
        ("BF.MEXISTS missing a b", "*2 :0 :0"),
        ("BF.CARD k", ":3"),
        ("BF.CARD missing", ":0"),
        ("TYPE k", "+MBbloom--"),
        ("OBJECT ENCODING k", "$3 raw"),
        ("BF.INSERT new CAPACITY 1000 ERROR 0.001 EXPANSION 4 ITEMS a b a", "*3 :1 :1 :0"),
        ("BF.INSERT new NOCREATE ITEMS c", "*1 :1"),
        ("bf.insert new nocreate items c d", "*2 :0 :1"),
        (
            "BF.INFO new",
            "*10 +Capacity :1000 +Size :2080 +Number of filters :1 +Number of items inserted :4 +Expansion rate :4",
        ),
    ]);
}

#[test]
fn in_resp3_replies_are_booleans_and_maps() {
    let server = TestServer::start();
    server.client3().expect(&[
        ("BF.ADD k item", "#t"),
        ("BF.ADD k item", "#f"),
        ("BF.CARD k", ":1"),
        ("BF.EXISTS k item", "#t"),
        ("BF.INSERT k ITEMS item2 item3 item2", "*3 #t #t #f"),
        ("BF.MADD k item4 item2", "*2 #t #f"),
        ("BF.MEXISTS k item4 item6", "*2 #t #f"),
        ("BF.MEXISTS missing a", "*1 #f"),
        (
            "BF.INFO k",
            "%5 +Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :4 +Expansion rate :2",
        ),
        ("BF.INFO k ITEMS", "%1 +Number of items inserted :4"),
        ("BF.INFO k size", "%1 +Size :240"),
        ("BF.RESERVE fixed 0.01 10 NONSCALING", "+OK"),
        ("BF.INFO fixed EXPANSION", "%1 +Expansion rate _"),
    ]);
}

#[test]
fn a_filter_grows_unless_it_is_fixed() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("BF.RESERVE k 0.01 10", "+OK"), ("BF.RESERVE fixed 0.01 4 NONSCALING", "+OK")]);
    for number in 0..70 {
        client.call(&format!("BF.ADD k {number}"));
    }
    client.expect(&[
        ("BF.INFO k FILTERS", "*1 :3"),
        ("BF.INFO k CAPACITY", "*1 :70"),
        ("BF.MADD fixed a b c d e f", "*5 :1 :1 :1 :1 -ERR non scaling filter is full"),
        ("BF.ADD fixed e", "-ERR non scaling filter is full"),
        ("BF.ADD fixed d", ":0"),
        ("BF.INFO fixed EXPANSION", "*1 $-1"),
        ("BF.RESERVE zero 0.01 4 EXPANSION 0", "+OK"),
        ("BF.INFO zero EXPANSION", "*1 $-1"),
        ("BF.INSERT other CAPACITY 4 NONSCALING ITEMS a b c d e f", "*5 :1 :1 :1 :1 -ERR non scaling filter is full"),
        ("BF.DEBUG fixed", "*2 $6 size:4 $66 bytes:8 bits:64 hashes:7 hashwidth:64 capacity:4 size:4 ratio:0.01"),
    ]);
}

#[test]
fn a_chain_whose_error_rate_cannot_be_halved_takes_no_more_items() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("BF.RESERVE k 0.1 1 EXPANSION 1", "+OK")]);
    let is_refused = |number: &u32| client.call(&format!("BF.ADD k {number}")).starts_with("-ERR problem");
    let full = (0..5000).find(is_refused).expect("an end");
    assert!(full > 1000, "{full}");
    client.expect(&[
        (&format!("BF.MADD k 0 {full} 1"), "*3 :0 -ERR problem inserting into filter :0"),
        ("BF.LOADCHUNK k 71752852194637 HELLO", "-ERR invalid offset - no link found"),
    ]);
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let mut client = server.client();
    client.expect(&[
        ("SET s v", "+OK"),
        ("BF.RESERVE k 0.01 10", "+OK"),
        ("BF.RESERVE k 0.01 10", "-ERR item exists"),
        ("BF.RESERVE s 0.01 10", WRONG_TYPE),
        ("BF.RESERVE n x 10", "-ERR bad error rate"),
        ("BF.RESERVE n 0 10", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE n 1 10", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE n 0.1 x", "-ERR bad capacity"),
        ("BF.RESERVE n 0.1 0", "-ERR capacity must be in the range [1, 1073741824]"),
        ("BF.RESERVE n 0.1 1073741825", "-ERR capacity must be in the range [1, 1073741824]"),
        ("BF.RESERVE n 0.1 10 EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE n 0.1 10 EXPANSION x", "-ERR bad expansion"),
        ("BF.RESERVE n 0.1 10 EXPANSION -1", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE n 0.1 10 EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"),
        ("BF.RESERVE n 0.0000000001 1073741824", "-ERR Insufficient memory to create filter"),
        ("BF.RESERVE n 0.1", &arity("bf.reserve")),
        ("BF.RESERVE n 0.1 1 EXPANSION 1 a b", &arity("bf.reserve")),
        ("BF.ADD s a", WRONG_TYPE),
        ("BF.MADD s a", WRONG_TYPE),
        ("BF.EXISTS s a", ":0"),
        ("BF.INFO s", WRONG_TYPE),
        ("BF.INFO missing", "-ERR not found"),
        ("BF.INFO k NAME", "-Invalid information value"),
        ("BF.CARD s", WRONG_TYPE),
        ("BF.ADD k a b", &arity("bf.add")),
        ("BF.MADD k", &arity("bf.madd")),
        ("BF.INSERT n NOCREATE ITEMS a", "-ERR not found"),
        ("BF.INSERT n ERROR 2 ITEMS a", "-Bad error rate"),
        ("BF.INSERT n CAPACITY 0 ITEMS a", "-Bad capacity"),
        ("BF.INSERT n EXPANSION 40000 ITEMS a", "-Bad expansion"),
        ("BF.INSERT n WHAT ITEMS a", "-Unknown argument received"),
        ("BF.INSERT n NOCREATE ITEMS", &arity("bf.insert")),
        ("BF.INSERT n CAPACITY 5 ERROR 0.1", &arity("bf.insert")),
        ("BF.SCANDUMP k x", "-Second argument must be numeric"),
        ("BF.SCANDUMP missing 0", "-ERR not found"),
        ("BF.LOADCHUNK k x data", "-ERR Second argument must be numeric"),
        ("BF.LOADCHUNK k 1 data", "-ERR received bad data"),
        ("BF.LOADCHUNK missing 1 data", "-ERR received bad data"),
        ("BF.LOADCHUNK missing 2 data", "-ERR not found"),
        ("BF.LOADCHUNK s 1 data", WRONG_TYPE),
        ("BF.DEBUG missing", "-ERR not found"),
        ("EXISTS n missing", ":0"),
    ]);
}

#[test]
fn false_positives_are_within_the_rate() {
    let server = TestServer::start();
    let mut client = server.client();
    for rate in ["0.1", "0.01", "0.001"] {
        assert_eq!(client.call(&format!("BF.RESERVE k{rate} {rate} 300")), "+OK");
        let words = |from: usize, to: usize| (from..to).map(|at| format!("item:{at}")).collect::<Vec<_>>().join(" ");
        client.call(&format!("BF.MADD k{rate} {}", words(0, 5000)));
        let found = |reply: String| reply.matches(":1").count();
        assert_eq!(found(client.call(&format!("BF.MEXISTS k{rate} {}", words(0, 5000)))), 5000);
        let wrong = found(client.call(&format!("BF.MEXISTS k{rate} {}", words(100_000, 120_000))));
        assert!((wrong as f64) < 20_000.0 * rate.parse::<f64>().expect("a rate"), "{wrong} for {rate}");
    }
}
