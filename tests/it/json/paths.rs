//! Paths in commands: both dialects, filters, and places that several commands treat in the same way.

use crate::harness::TestServer;

#[test]
fn paths_select_by_name_index_range_and_filter() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[(
        "JSON.SET d $ {\"books\":[{\"t\":\"A\",\"p\":5,\"tags\":[\"x\"]},{\"t\":\"B\",\"p\":12.5},{\"t\":\"C\",\"p\":7}],\"max\":10}",
        "+OK",
    )]);
    for (path, found) in [
        ("$.books[*].t", "[\"A\",\"B\",\"C\"]"),
        ("$..t", "[\"A\",\"B\",\"C\"]"),
        ("$.books[-1].t", "[\"C\"]"),
        ("$.books[0,2].t", "[\"A\",\"C\"]"),
        ("$.books[::2]['t','p']", "[\"A\",5,\"C\",7]"),
        ("$.books[1:].p", "[12.5,7]"),
        ("$.books[?(@.p<$.max)].t", "[\"A\",\"C\"]"),
        ("$.books[?@.p>5&&@.p<=12.5].t", "[\"B\",\"C\"]"),
        ("$.books[?(@.t=='A'||@.p>12)].t", "[\"A\",\"B\"]"),
        ("$.books[?(@.tags)].t", "[\"A\"]"),
        ("$.books[?(@.t=~\"^[BC]$\")].p", "[12.5,7]"),
        ("$.books[?(@.t!=\"A\")].p", "[12.5,7]"),
        ("$..[?(@.p==7)]", "[{\"t\":\"C\",\"p\":7}]"),
        ("$.*.t", "[]"),
    ] {
        assert_eq!(client.call(&format!("JSON.GET d {path}")), format!("${} {found}", found.len()), "{path}");
    }
    client.expect(&[
        ("JSON.GET d books[1].t", "$3 \"B\""),
        ("JSON.GET d .books[?(@.p>100)]", "-ERR Path '$.books[?(@.p>100)]' does not exist"),
        ("JSON.GET d .[\"books\"][0].tags", "$5 [\"x\"]"),
        ("JSON.SET d $.books[?(@.p<$.max)].p 1", "+OK"),
        ("JSON.GET d $..p", "$10 [1,12.5,1]"),
        ("JSON.DEL d $.books[?(@.p==1)]", ":2"),
        ("JSON.GET d", "$39 {\"books\":[{\"t\":\"B\",\"p\":12.5}],\"max\":10}"),
    ]);
}

#[test]
fn a_path_that_is_none_is_an_error_of_each_command() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("JSON.SET d $ {\"a\":[1]}", "+OK")]);
    for request in [
        "JSON.GET d $[",
        "JSON.DEL d $..",
        "JSON.TYPE d $[?",
        "JSON.NUMINCRBY d $.a[ 1",
        "JSON.ARRLEN d $.a[x]",
        "JSON.STRLEN d $.a['",
        "JSON.CLEAR d $(",
        "JSON.MERGE d $.a[1:0:x] 1",
    ] {
        let reply = client.call(request);
        assert!(reply.starts_with("-Error occurred on position "), "{request}: {reply}");
    }
    client.expect(&[("JSON.GET d $[ $.a", "$13 {\"$.a\":[[1]]}"), ("JSON.GET d", "$9 {\"a\":[1]}")]);
}

#[test]
fn a_value_that_is_named_twice_is_changed_twice() {
    let server = TestServer::start();
    server.client().expect(&[
        ("JSON.SET d $ {\"a\":1,\"b\":[[1,2],[3]]}", "+OK"),
        ("JSON.NUMINCRBY d $['a','a'] 2", "$5 [3,5]"),
        ("JSON.ARRAPPEND d $..b..[*] 9", "*5 :3 :2 $-1 $-1 $-1"),
        ("JSON.GET d $.b", "$17 [[[1,2,9],[3,9]]]"),
    ]);
}
