//! `CF.*` through the socket: replies in both protocols, and errors.

use super::WRONG_TYPE;
use crate::harness::TestServer;

#[test]
fn items_are_added_counted_and_deleted() {
    let server = TestServer::start();
    server.client().expect(&[
        ("CF.ADD k a", ":1"),
        ("CF.ADD k a", ":1"),
        ("CF.COUNT k a", ":2"),
        ("CF.COUNT k z", ":0"),
        ("CF.COUNT missing a", ":0"),
        ("CF.ADDNX k a", ":0"),
        ("CF.ADDNX k b", ":1"),
        ("CF.EXISTS k b", ":1"),
        ("CF.EXISTS missing b", ":0"),
        ("CF.MEXISTS k a z b", "*3 :1 :0 :1"),
        ("CF.DEL k a", ":1"),
        ("CF.DEL k a", ":1"),
        ("CF.DEL k a", ":0"),
        ("CF.EXISTS k a", ":0"),
        ("TYPE k", "+MBbloomCF"),
        ("OBJECT ENCODING k", "$3 raw"),
        (
            "CF.INFO k",
            "*16 +Size :1080 +Number of buckets :512 +Number of filters :1 +Number of items inserted :1 \
             +Number of items deleted :2 +Bucket size :2 +Expansion rate :1 +Max iterations :20",
        ),
        ("CF.DEBUG k", "$79 bktsize:2 buckets:512 items:1 deletes:2 filters:1 max_iterations:20 expansion:1"),
        ("CF.INSERT k CAPACITY 50 ITEMS c d c", "*3 :1 :1 :1"),
        ("CF.INSERTNX k ITEMS c e", "*2 :0 :1"),
        ("CF.INSERT k NOCREATE ITEMS f", "*1 :1"),
        ("CF.RESERVE other 100 BUCKETSIZE 4 MAXITERATIONS 30 EXPANSION 3", "+OK"),
        (
            "CF.INFO other",
            "*16 +Size :184 +Number of buckets :32 +Number of filters :1 +Number of items inserted :0 \
             +Number of items deleted :0 +Bucket size :4 +Expansion rate :4 +Max iterations :30",
        ),
    ]);
}

#[test]
fn in_resp3_replies_are_booleans_and_maps() {
    let server = TestServer::start();
    server.client3().expect(&[
        ("CF.RESERVE a 9 EXPANSION 0", "+OK"),
        ("CF.ADD a 3", "#t"),
        ("CF.ADD a 4", "#t"),
        ("CF.ADDNX a 4", "#f"),
        ("CF.ADDNX a 9", "#t"),
        ("CF.INSERT a ITEMS 4 5", "*2 #t #t"),
        ("CF.INSERTNX a ITEMS 4 6", "*2 :0 :1"),
        ("CF.DEL a 3", "#t"),
        ("CF.DEL a 3", "#f"),
        ("CF.EXISTS a 3", "#f"),
        ("CF.EXISTS a 4", "#t"),
        ("CF.MEXISTS a 4 3", "*2 #t #f"),
        ("CF.COUNT a 3", ":0"),
        ("CF.COUNT a 4", ":2"),
        (
            "CF.INFO a",
            "%8 +Size :64 +Number of buckets :4 +Number of filters :1 +Number of items inserted :5 \
             +Number of items deleted :1 +Bucket size :2 +Expansion rate :0 +Max iterations :20",
        ),
        ("CF.INSERT a ITEMS 11 12 13 14 15 16", "*6 #t #t #t #f #f #f"),
    ]);
}

#[test]
fn a_filter_grows_unless_it_must_not_and_shrinks_when_items_are_deleted() {
    let server = TestServer::start();
    let mut client = server.client();
    let words = |count: usize| (0..count).map(|at| format!("item:{at}")).collect::<Vec<_>>().join(" ");
    client.expect(&[("CF.RESERVE k 16 EXPANSION 2", "+OK"), ("CF.RESERVE fixed 16 EXPANSION 0", "+OK")]);
    assert_eq!(client.call(&format!("CF.INSERT k ITEMS {}", words(200))).matches(":1").count(), 200);
    let filters =
        |info: String| info.split("filters :").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(filters(client.call("CF.INFO k")) > Some(3));
    let reply = client.call(&format!("CF.INSERT fixed ITEMS {}", words(200)));
    assert!(reply.matches(":-1").count() > 180, "{reply}");
    client.expect(&[("CF.ADD fixed another", "-Filter is full"), ("CF.ADDNX fixed another", "-Filter is full")]);
    for number in 0..200 {
        assert_eq!(client.call(&format!("CF.DEL k item:{number}")), ":1");
    }
    assert_eq!(filters(client.call("CF.INFO k")), Some(1));
    client.expect(&[("CF.COMPACT k", "+OK"), ("CF.COMPACT missing", "-Cuckoo filter was not found")]);
}

#[test]
fn a_filter_of_32_parts_takes_no_more_items() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("CF.RESERVE k 4 BUCKETSIZE 1", "+OK")]);
    let replies: Vec<String> = (0..1000).map(|number| client.call(&format!("CF.ADD k {number}"))).collect();
    assert_eq!(replies.last().map(String::as_str), Some("-Maximum expansions reached"));
    client.expect(&[("CF.INSERT k ITEMS a", "-Maximum expansions reached"), ("CF.EXISTS k 0", ":1")]);
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let capacity = "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]";
    server.client().expect(&[
        ("SET s v", "+OK"),
        ("CF.RESERVE k 10", "+OK"),
        ("CF.RESERVE k 10", "-ERR item exists"),
        ("CF.RESERVE s 10", WRONG_TYPE),
        ("CF.RESERVE n x", "-Bad capacity"),
        ("CF.RESERVE n 3", capacity),
        ("CF.RESERVE n 10 BUCKETSIZE 6", capacity),
        ("CF.RESERVE n 1073741825", capacity),
        ("CF.RESERVE n 10 BUCKETSIZE x", "-Couldn't parse BUCKETSIZE"),
        ("CF.RESERVE n 10 BUCKETSIZE 256", "-BUCKETSIZE: value must be in the range [1, 255]"),
        ("CF.RESERVE n 10 MAXITERATIONS x", "-Couldn't parse MAXITERATIONS"),
        ("CF.RESERVE n 10 MAXITERATIONS 0", "-MAXITERATIONS: value must be in the range [1, 65535]"),
        ("CF.RESERVE n 10 EXPANSION x", "-Couldn't parse EXPANSION"),
        ("CF.RESERVE n 10 EXPANSION 32769", "-EXPANSION: value must be in the range [0, 32768]"),
        ("CF.RESERVE n 10 EXPANSION", &arity("cf.reserve")),
        ("CF.ADD s a", WRONG_TYPE),
        ("CF.ADDNX s a", WRONG_TYPE),
        ("CF.ADD k a b", &arity("cf.add")),
        ("CF.EXISTS s a", ":0"),
        ("CF.DEL s a", "-Not found"),
        ("CF.DEL missing a", "-Not found"),
        ("CF.INFO missing", "-ERR not found"),
        ("CF.INFO s", WRONG_TYPE),
        ("CF.INSERT n NOCREATE ITEMS a", "-ERR not found"),
        ("CF.INSERT n CAPACITY x ITEMS a", "-Bad capacity"),
        ("CF.INSERT n CAPACITY 3 ITEMS a", "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"),
        ("CF.INSERT n WHAT ITEMS a", "-Unknown argument received"),
        ("CF.INSERTNX n NOCREATE ITEMS", &arity("cf.insertnx")),
        ("CF.SCANDUMP k x", "-Invalid position"),
        ("CF.SCANDUMP k -1", "-Invalid position"),
        ("CF.SCANDUMP k 0", "*2 :0 $-1"),
        ("CF.SCANDUMP missing 0", "-ERR not found"),
        ("CF.LOADCHUNK k 0 data", "-Invalid position"),
        ("CF.LOADCHUNK k 1 data", "-ERR item exists"),
        ("CF.LOADCHUNK k 3 data", "-Couldn't load chunk!"),
        ("CF.LOADCHUNK k 999999 data", "-Couldn't load chunk!"),
        ("CF.LOADCHUNK missing 1 data", "-Invalid header"),
        ("CF.LOADCHUNK missing 1 12345678901234567890123456789012345678", "-Couldn't create filter!"),
        ("CF.LOADCHUNK missing 2 data", "-ERR not found"),
        ("CF.LOADCHUNK s 1 data", WRONG_TYPE),
        ("EXISTS n missing", ":0"),
    ]);
}
