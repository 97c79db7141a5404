//! JSON.GET, JSON.MGET, JSON.TYPE, JSON.RESP, JSON.OBJKEYS, JSON.OBJLEN, JSON.STRLEN, JSON.DEBUG.

use super::{MISSING, WRONG_TYPE, bulk};
use crate::harness::TestServer;

const DOCUMENT: &str =
    "JSON.SET d $ {\"n\":null,\"b\":true,\"i\":7,\"f\":1.5,\"s\":\"text\",\"a\":[1,\"x\"],\"o\":{\"k\":{\"s\":2}}}";

#[test]
fn one_path_gets_a_list_or_a_value_and_several_an_object() {
    let server = TestServer::start();
    for mut client in [server.client(), server.client3()] {
        client.expect(&[
            (DOCUMENT, "+OK"),
            ("JSON.GET d $.i", "$3 [7]"),
            ("JSON.GET d .i", "$1 7"),
            ("JSON.GET d i", "$1 7"),
            ("JSON.GET d $..s", "$10 [\"text\",2]"),
            ("JSON.GET d ..s", "$6 \"text\""),
            ("JSON.GET d $.none", "$2 []"),
            ("JSON.GET d .none", "-ERR Path '$.none' does not exist"),
            ("JSON.GET d .i .f", "$17 {\".i\":7,\".f\":1.5}"),
            ("JSON.GET d $.i .f", "$22 {\"$.i\":[7],\".f\":[1.5]}"),
            ("JSON.GET d $.i $.none $.i", "$23 {\"$.i\":[7],\"$.none\":[]}"),
            ("JSON.GET d .i .none", "-ERR Path '.none' does not exist"),
            ("JSON.GET d NOESCAPE $.o", "$15 [{\"k\":{\"s\":2}}]"),
        ]);
        let null = if client.call("HELLO").starts_with('%') { "_" } else { "$-1" };
        assert_eq!(client.call("JSON.GET missing $.a"), null);
    }
    server.client().expect(&[("SET s x", "+OK"), ("JSON.GET s", WRONG_TYPE)]);
}

#[test]
fn texts_are_laid_out() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("JSON.SET d $ {\"a\":[1,{}],\"b\":[]}", "+OK"),
        ("JSON.GET d INDENT - NEWLINE | SPACE + $", "$45 [|-{|--\"a\":+[|---1,|---{}|--],|--\"b\":+[]|-}|]"),
        ("JSON.GET d indent - newline | space + .", "$34 {|-\"a\":+[|--1,|--{}|-],|-\"b\":+[]|}"),
        ("JSON.GET d SPACE + .a .b", "$23 {\".a\":+[1,{}],\".b\":+[]}"),
        ("JSON.GET d NEWLINE | $.a $.b", "$37 {|\"$.a\":[|[|1,|{}|]|],|\"$.b\":[|[]|]|}"),
        ("JSON.GET d INDENT", "-ERR wrong number of arguments for 'json.get' command"),
    ]);
}

#[test]
fn values_are_replied_in_the_types_of_resp3_on_request() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.expect(&[
        (DOCUMENT, "+OK"),
        (
            "JSON.GET d FORMAT EXPAND $",
            "*1 *1 %7 $1 n _ $1 b #t $1 i :7 $1 f ,1.5 $1 s $4 text $1 a *2 :1 $1 x $1 o %1 $1 k %1 $1 s :2",
        ),
        (
            "JSON.GET d FORMAT EXPAND1 $.* $.none",
            "*2 *7 _ #t :7 ,1.5 $6 \"text\" $7 [1,\"x\"] $13 {\"k\":{\"s\":2}} *0",
        ),
        ("JSON.GET d FORMAT EXPAND .i", "*1 *1 :7"),
        ("JSON.GET d FORMAT STRING $.i", "$3 [7]"),
        ("JSON.GET d FORMAT STRINGS $.i", "-ERR wrong reply format"),
        ("JSON.GET d FORMAT other $.i", "-ERR wrong reply format"),
    ]);
    server.client().expect(&[("JSON.GET d FORMAT EXPAND $.i", "-ERR FORMAT argument is not supported on RESP2")]);
}

#[test]
fn types_have_names() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        (DOCUMENT, "+OK"),
        ("JSON.TYPE d", "$6 object"),
        ("JSON.TYPE d .f", "$6 number"),
        ("JSON.TYPE d .none", "$-1"),
        ("JSON.TYPE d $.*", "*7 $4 null $7 boolean $7 integer $6 number $6 string $5 array $6 object"),
        ("JSON.TYPE d $.none", "*0"),
        ("JSON.TYPE missing", "$-1"),
        ("JSON.TYPE missing $.a", "$-1"),
        ("JSON.SET d $.big 18446744073709551615", "+OK"),
        ("JSON.TYPE d $.big", "*1 $7 integer"),
        ("JSON.GET d $.big", "$22 [18446744073709551615]"),
    ]);
    server.client3().expect(&[
        ("JSON.TYPE d", "*1 $6 object"),
        ("JSON.TYPE d $.i", "*1 *1 $7 integer"),
        ("JSON.TYPE missing", "*1 _"),
    ]);
}

#[test]
fn strings_and_objects_have_lengths_and_objects_names() {
    let server = TestServer::start();
    server.client().expect(&[
        (DOCUMENT, "+OK"),
        ("JSON.STRLEN d $..s", "*2 :4 $-1"),
        ("JSON.STRLEN d .s", ":4"),
        ("JSON.STRLEN d .i", "-WRONGTYPE wrong type of path value - expected string but found integer"),
        ("JSON.STRLEN d .none", "-ERR Path '$.none' does not exist"),
        ("JSON.STRLEN missing", "$-1"),
        ("JSON.STRLEN missing $", MISSING),
        ("JSON.OBJLEN d", ":7"),
        ("JSON.OBJLEN d $.o", "*1 :1"),
        ("JSON.OBJLEN d $.*", "*7 $-1 $-1 $-1 $-1 $-1 $-1 :1"),
        ("JSON.OBJLEN d .a", "-WRONGTYPE wrong type of path value - expected object but found array"),
        ("JSON.OBJLEN d .none", "$-1"),
        ("JSON.OBJLEN missing .", "$-1"),
        ("JSON.OBJLEN missing $", "-ERR Path '$' does not exist or not an object"),
        ("JSON.OBJKEYS d", "*7 $1 n $1 b $1 i $1 f $1 s $1 a $1 o"),
        ("JSON.OBJKEYS d $..o", "*1 *1 $1 k"),
        ("JSON.OBJKEYS d $.i", "*1 $-1"),
        ("JSON.OBJKEYS d .i", "-ERR Path '$.i' does not exist or not an object"),
        ("JSON.OBJKEYS d .none", "$-1"),
        ("JSON.OBJKEYS missing", "$-1"),
        ("JSON.OBJKEYS missing $", MISSING),
    ]);
}

#[test]
fn a_document_is_shown_in_the_types_of_resp2() {
    let server = TestServer::start();
    server.client().expect(&[
        (DOCUMENT, "+OK"),
        (
            "JSON.RESP d",
            "*15 +{ $1 n $-1 $1 b +true $1 i :7 $1 f $3 1.5 $1 s $4 text $1 a *3 +[ :1 $1 x $1 o *3 +{ $1 k *3 +{ $1 s :2",
        ),
        ("JSON.RESP d .a", "*3 +[ :1 $1 x"),
        ("JSON.RESP d $..s", "*2 $4 text :2"),
        ("JSON.RESP d .none", "-ERR Path '$.none' does not exist"),
        ("JSON.RESP missing", "$-1"),
    ]);
}

#[test]
fn memory_is_that_of_the_stored_form() {
    let server = TestServer::start();
    server.client().expect(&[
        (DOCUMENT, "+OK"),
        ("JSON.DEBUG MEMORY d", ":41"),
        ("JSON.DEBUG MEMORY d $..s", "*2 :5 :1"),
        ("JSON.DEBUG memory d .none", "-ERR Path '$.none' does not exist"),
        ("JSON.DEBUG MEMORY missing", ":0"),
        ("JSON.DEBUG MEMORY missing $", "*0"),
        ("JSON.DEBUG MEMORY", "-ERR wrong number of arguments for 'json.debug' command"),
        ("JSON.DEBUG", "-ERR wrong number of arguments for 'json.debug' command"),
        ("JSON.DEBUG other d", "-ERR unknown subcommand - try `JSON.DEBUG HELP`"),
    ]);
    let help = server.client().call("JSON.DEBUG HELP");
    assert!(help.starts_with("*2 $42 MEMORY <key> [path] - reports memory usage"), "{help}");
}

#[test]
fn values_of_several_keys_are_texts_or_null() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("JSON.SET a $ {\"x\":1,\"y\":{\"x\":2}}", "+OK"),
        ("JSON.SET b $ [1]", "+OK"),
        ("SET s x", "+OK"),
        ("JSON.MGET a b s missing $..x", "*4 $5 [1,2] $2 [] $-1 $-1"),
        ("JSON.MGET a b s missing .x", "*4 $1 1 $-1 $-1 $-1"),
        ("JSON.MGET a $[", "*1 $-1"),
        ("JSON.MGET a", "-ERR wrong number of arguments for 'json.mget' command"),
        ("COMMAND GETKEYS JSON.MGET a b $", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS JSON.MSET a $ 1 b $ 2", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS JSON.DEBUG MEMORY a", "*1 $1 a"),
    ]);
}

#[test]
fn numbers_and_strings_are_printed_as_redis_prints_them() {
    let server = TestServer::start();
    let mut client = server.client();
    for (text, printed) in [
        ("1.0", "1.0"),
        ("-0", "-0.0"),
        ("1E2", "100.0"),
        ("1e15", "1000000000000000.0"),
        ("1e20", "1e20"),
        ("1e21", "1e21"),
        ("0.1", "0.1"),
        ("123456789012345678901", "1.2345678901234568e20"),
        ("9223372036854775808", "9223372036854775808"),
        ("\"\\u00e9\\/\\u0001\\n\"", "\"\u{e9}/\\u0001\\n\""),
        ("\"\\ud83d\\ude00\"", "\"\u{1f600}\""),
    ] {
        assert_eq!(client.call_args(&["JSON.SET", "d", "$", text]), "+OK");
        let reply = client.frame(&["JSON.GET", "d", "."]);
        assert_eq!(String::from_utf8_lossy(reply.as_bytes().expect("a text")), printed, "{text}");
    }
    client.expect(&[("JSON.SET d $ {\"a\":1,\"b\":2,\"a\":3}", "+OK")]);
    assert_eq!(client.call("JSON.GET d"), bulk("{\"a\":3,\"b\":2}"));
}
