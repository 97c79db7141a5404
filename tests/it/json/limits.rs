//! Limits of depth, of what a path finds, and of lengths.

use super::nested;
use crate::harness::TestServer;

#[test]
fn a_text_is_at_most_as_deep_as_redis_lets_it_and_a_document_deeper() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call(&format!("JSON.SET d $ {}", nested(127))), "+OK");
    let error = "-recursion limit exceeded at line 1 column 128";
    assert_eq!(client.call(&format!("JSON.SET d $ {}", nested(128))), error);
    assert_eq!(client.call(&format!("JSON.SET d $ {}", "[".repeat(1_000_000))), error);
    assert_eq!(client.call(&format!("JSON.ARRAPPEND d $ 1 {}", nested(128))), error);
    let mut path = "$".to_owned();
    for depth in [127, 254, 381, 508, 635, 762, 889, 1016] {
        let (text, shown) = (nested(127), nested(depth));
        path = format!("$.a{}", "[0]".repeat(depth - 127));
        if depth == 127 {
            client.expect(&[(
                &format!("JSON.SET d $ {{\"a\":{text}}}"),
                "-recursion limit exceeded at line 1 column 132",
            )]);
            client.expect(&[("JSON.SET d $ {\"a\":[]}", "+OK")]);
        }
        let reply = client.call(&format!("JSON.SET d {} {text}", if depth == 127 { "$.a" } else { &path }));
        let last = path.rfind('[').unwrap_or(path.len());
        match reply.as_str() {
            "+OK" => {}
            _ => client.expect(&[(&format!("JSON.ARRAPPEND d {} {text}", &path[..last]), "*1 :1")]),
        }
        let got = client.call("JSON.GET d .a");
        assert_eq!(got.matches('[').count(), shown.matches('[').count(), "{depth}");
    }
    let text = nested(8);
    client
        .expect(&[(&format!("JSON.ARRAPPEND d {path}{} {text}", "[0]".repeat(126)), "-ERR recursion limit exceeded")]);
    client.expect(&[("JSON.DEL d $.a", ":1"), ("EXISTS d", ":0")]);
}

#[test]
fn a_deep_document_is_dumped_copied_and_printed() {
    let server = TestServer::start();
    let mut client = server.client3();
    assert_eq!(client.call(&format!("JSON.SET d $ {}", nested(127))), "+OK");
    for at in (126..1000).step_by(126) {
        let request = format!("JSON.ARRAPPEND d ${} {}", "[0]".repeat(at), nested(126));
        assert_eq!(client.call(&request), "*1 :1");
    }
    let text = client.call("JSON.GET d .");
    assert_eq!(client.call("COPY d e"), ":1");
    assert_eq!(client.call("JSON.GET e ."), text);
    let dump = client.frame(&["DUMP", "d"]).as_bytes().expect("a dump").to_vec();
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"f", b"0", &dump]), "+OK");
    assert_eq!(client.call("JSON.GET f ."), text);
    assert_eq!(client.call("JSON.ARRINDEX d . 5"), ":-1");
    // Deeper replies in the types of the protocol are not read by the client of these tests.
    let request = format!("JSON.SET d $ {}", nested(20));
    client.expect(&[(&request, "+OK")]);
    assert!(client.call("JSON.GET d FORMAT EXPAND $").starts_with("*1 *1 *1 *1"));
    assert!(client.call("JSON.RESP d").starts_with("*2 +[ *2 +["));
}

#[test]
fn a_path_that_names_too_much_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call(&format!("JSON.SET d $ {}", nested(127))), "+OK");
    for command in ["JSON.GET d ?", "JSON.DEL d ?", "JSON.ARRAPPEND d ? 1", "JSON.MGET d ?"] {
        let reply = client.call(&command.replace('?', &format!("${}", "..*".repeat(20))));
        assert!(["-ERR the path names too many values", "*1 $-1"].contains(&reply.as_str()), "{command}: {reply}");
    }
    assert_eq!(client.call("JSON.GET d ."), format!("$254 {}", nested(127)));
    let expensive = "JSON.SET d $ {\"s\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    assert_eq!(client.call(expensive), "+OK");
    assert_eq!(client.call("JSON.GET d $[?(@=~'(a*)*(a*)*(a*)*b')]"), "$2 []");
    assert_eq!(client.call("JSON.GET d $[?(@=~'(')]"), "$2 []");
}

#[test]
fn a_path_that_names_the_same_large_value_again_and_again_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    let members: Vec<String> = (0..2000).map(|at| format!("\"name{at}\":{at}")).collect();
    assert_eq!(client.call(&format!("JSON.SET d $ [[{{{}}}]]", members.join(","))), "+OK");
    let path = format!("$[{}0][{}0]", "0,".repeat(99), "0,".repeat(99));
    for command in ["JSON.OBJKEYS d ?", "JSON.RESP d ?", "JSON.GET d ?", "JSON.MERGE d ? {\"x\":1}"] {
        let reply = client.call(&command.replace('?', &path));
        assert_eq!(reply, "-ERR the path names too many values", "{command}");
    }
    assert!(client.call("JSON.GET d $[0,0][0].name7").starts_with("$5 [7,7]"));
}
