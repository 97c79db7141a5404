//! Filter expressions.

use crate::harness::{Client, TestServer, encode};
use crate::vector_sets::redis_8::Redis8;
use crate::vector_sets::words;

/// Attributes of the elements a, b, ...
#[rustfmt::skip] // a table
const ATTRIBUTES: &[&str] = &[
    r#"{"n":1,"s":"one","t":true,"list":[1,"x"],"o":{"n":5}}"#,
    r#"{"n":2.5,"s":"two","t":false,"list":[]}"#,
    r#"{"n":-3,"s":"","t":true,"none":null}"#,
    r#" { "n" : "4" , "s" : "a\"b" , "other":[{"n":9}] }"#,
    r#"{"n":1e2,"s":"one two"}"#,
    r#"not json"#,
    r#"{"n":"#,
    r#"[1,2]"#,
    r#"{}"#,
];

/// Expressions and the elements that they select, in Redis 8.0.2 as well.
#[rustfmt::skip] // a table
const SELECTIONS: &[(&str, &str)] = &[
    (".n == 1", "a"),
    (".n > 1", "bde"),
    (".n >= 1 and .n < 5", "abd"),
    (".n>=1&&.n<5", "abd"),
    (".n < 0 or .n > 50", "ce"),
    (".n < 0 || .n > 50", "ce"),
    ("not (.n > 1)", "ac"),
    ("!(.n > 1)", "ac"),
    (".n * 2 == 5", "b"),
    (".n + 1 == 2", "a"),
    (".n - 1 == 0", "a"),
    (".n / 2 == 50", "e"),
    (".n % 2 == 1", "a"),
    (".n ** 2 == 9", "c"),
    ("-3 == .n", "c"),
    (".n in [1, 2.5, 'x']", "ab"),
    (".s in ['one', \"two\"]", "ab"),
    ("1 in .list", "a"),
    ("'x' in .list", "a"),
    (".s == 'one'", "a"),
    (".s != 'one'", "bcde"),
    (".s", "abde"),
    (".t", "ac"),
    ("!.t", "b"),
    (".t == 1", "ac"),
    (".n == '4'", "d"),
    (".n == 4", "d"),
    (".none", ""),
    ("!.none", "c"),
    (".none == .none", "c"),
    (".missing", ""),
    ("!.missing", ""),
    (".missing or .n", ""),
    (".o", ""),
    (".", ""),
    ("1", "abcdefghi"),
    ("0", ""),
    ("2 ** 3 ** 2 == 512", "abcdefghi"),
    ("1 + 2 * 3 == 7", "abcdefghi"),
];

/// The same, in later versions of Redis only.
#[rustfmt::skip] // a table
const LATER: &[(&str, &str)] = &[
    ("!!.t", "ac"),
    ("not not .n == 1", "abcde"),
    ("'wo' in .s", "be"),
    (".s in 'one'", "ac"),
    (r#".s == "a\"b""#, "d"),
];

/// Expressions that are none, and what the error names.
#[rustfmt::skip] // a table
const ERRORS: &[(&str, &str)] = &[
    ("", ""),
    ("(", "("),
    ("(1", "(1"),
    ("1)", "1)"),
    ("1 1", "1 1"),
    (".n ==", ".n =="),
    (".n == null", ".n == null"),
    ("true", "true"),
    ("- 1", "- 1"),
    ("1e-5", "-5"),
    (".o.n == 5", ".o.n == 5"),
    (".n ? 1", "? 1"),
    (".s == 'open", ".s == 'open"),
    (".n in [1 2]", "2]"),
    (".n in [[1]]", "[1]]"),
    ("1 & 1", " 1"),
    ("1 = 1", " 1"),
];

fn fill<S: std::io::Read + std::io::Write>(client: &mut Client<S>) {
    for (at, attributes) in ATTRIBUTES.iter().enumerate() {
        let name = [b'a' + at as u8];
        let one = (at + 1).to_string();
        let request =
            [&b"VADD"[..], b"k", b"VALUES", b"2", b"100", one.as_bytes(), &name, b"SETATTR", attributes.as_bytes()];
        assert_eq!(client.call_args(&request), ":1");
    }
    assert_eq!(client.call("VADD k VALUES 2 1 1 without"), ":1");
}

fn select<S: std::io::Read + std::io::Write>(client: &mut Client<S>, expression: &str) -> String {
    client
        .send(&encode(&[words("VSIM k VALUES 2 1 0 COUNT 100 FILTER"), vec![expression.as_bytes().to_vec()]].concat()));
    client.reply()
}

fn compare<S: std::io::Read + std::io::Write>(client: &mut Client<S>, selections: &[(&str, &str)], who: &str) {
    for (expression, expected) in selections {
        let reply = select(client, expression);
        let mut names: Vec<&str> = reply.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect();
        names.sort_unstable();
        assert_eq!(names.concat(), *expected, "{who}: {expression}: {reply}");
    }
}

#[test]
fn expressions_select_the_same_elements_and_have_the_same_errors_as_in_redis_8() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client);
    compare(&mut client, SELECTIONS, "keylatch");
    compare(&mut client, LATER, "keylatch");
    let mut redis = Redis8::start();
    let mut other = redis.as_mut().map(|redis| redis.client());
    if let Some(other) = &mut other {
        fill(other);
        compare(other, SELECTIONS, "Redis");
    }
    for (expression, near) in ERRORS {
        let expected = format!("-ERR syntax error in FILTER expression near: {near}");
        assert_eq!(select(&mut client, expression).trim_end(), expected.trim_end(), "{expression}");
        if let Some(other) = &mut other {
            assert_eq!(select(other, expression).trim_end(), expected.trim_end(), "Redis: {expression}");
        }
    }
}

#[test]
fn the_nearest_of_the_selected_elements_are_returned_and_long_expressions_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    for at in 0..500 {
        client.call(&format!("VADD k VALUES 2 {} 100 e{at} NOQUANT SETATTR {{\"n\":{at}}}", at + 1));
    }
    for (expression, names) in [(".n % 100 == 7", "*3 $2 e7 $4 e107 $4 e207"), (".n > 497", "*2 $4 e498 $4 e499")] {
        let request =
            [&b"VSIM"[..], b"k", b"VALUES", b"2", b"0", b"1", b"COUNT", b"3", b"FILTER", expression.as_bytes()];
        assert_eq!(client.call_args(&request), names);
    }
    let long = format!("1{}", "+1".repeat(40_000));
    assert_eq!(select(&mut client, &long), "-ERR FILTER expression is too long");
    assert!(select(&mut client, &long[..60_001]).starts_with("*100 "));
    assert!(select(&mut client, &"(".repeat(60_000)).starts_with("-ERR syntax error in FILTER expression near: (("));
}
