//! Tests of documents: text, paths, changes, and bytes by chance.

use std::borrow::Cow;

use super::*;

/// Numbers by a seed, as xorshift makes them.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn pick<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.below(words.len())]
    }
}

fn document(text: &str) -> Vec<u8> {
    encode(text, TEXT_DEPTH).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn text(document: &[u8]) -> String {
    let mut text = Vec::new();
    print(JsonNode::root(document), &JsonLayout::default(), 0, &mut text).expect("it is short");
    String::from_utf8(text).expect("it is UTF-8")
}

fn found(json: &str, path: &str) -> String {
    let document = document(json);
    let (path, _) = JsonPath::modern(path);
    let path = JsonPath::parse(&path).unwrap_or_else(|error| panic!("{path}: {error:?}"));
    let nodes = path.find(&document).expect("it is not too much");
    let mut text = Vec::new();
    print_list(nodes.into_iter(), &JsonLayout::default(), 0, &mut text).expect("it is short");
    String::from_utf8(text).expect("it is UTF-8")
}

/// Returns a random value as text.
fn value(chance: &mut Chance, depth: usize) -> String {
    const SCALARS: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "-0",
        "63",
        "64",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "32768",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1.0",
        "3.14",
        "-2.50",
        "1e20",
        "1E-7",
        "5e-324",
        "1.7976931348623157e308",
        "0.1",
        "123456.789012",
        "100.12",
        "1e22",
        "1e23",
        "\"\"",
        "\"a\"",
        "\"\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\\u0001\"",
        "\"\\ud83d\\ude00\"",
        "\"é😀\"",
    ];
    match chance.below(if depth == 0 { 3 } else { 6 }) {
        0 => format!("\"{}\"", "x".repeat(chance.below(200))),
        1 | 2 => chance.pick(SCALARS).to_owned(),
        3 | 4 => {
            let length = [0, 1, 3, 40][chance.below(4)];
            let elements: Vec<String> = (0..length).map(|_| value(chance, depth - 1)).collect();
            format!("[ {}\n]", elements.join(" , "))
        }
        _ => {
            let length = [0, 1, 3, 40][chance.below(4)];
            let members: Vec<String> =
                (0..length).map(|_| format!("\"{}\" : {}", chance.below(60), value(chance, depth - 1))).collect();
            format!("{{{}\t}}", members.join(","))
        }
    }
}

#[test]
fn texts_are_read_as_by_the_parser_whose_words_redis_uses() {
    let mut chance = Chance(0x1234_5678_9abc_def1);
    for _ in 0..2000 {
        let mut json = value(&mut chance, 4);
        if chance.below(3) == 0 {
            for _ in 0..1 + chance.below(3) {
                let at = (0..=chance.below(json.len() + 1)).rev().find(|at| json.is_char_boundary(*at)).unwrap_or(0);
                json.insert_str(
                    at,
                    chance.pick(&["", "[", "]", "{", "}", ",", ":", "\"", "\\", "1", "-", ".", "e", " x", "\\u12"]),
                );
                if chance.below(2) == 0 {
                    json.truncate(at);
                }
            }
        }
        let theirs = serde_json::from_str::<serde_json::Value>(&json);
        match (encode(&json, TEXT_DEPTH), theirs) {
            (Ok(document), Ok(theirs)) => {
                let printed = text(&document);
                assert_eq!(text(&encode(&printed, TEXT_DEPTH).expect("it has been printed")), printed);
                let ours: serde_json::Value = serde_json::from_str(&printed).expect("it has been printed");
                assert_eq!(ours, theirs, "{json}");
            }
            (Err(error), Err(theirs)) => assert_eq!(error.to_string(), theirs.to_string(), "{json}"),
            (ours, theirs) => panic!("{json}: {ours:?}, {theirs:?}"),
        }
    }
}

#[test]
fn numbers_are_printed_with_the_fewest_digits_and_stay_what_they_are() {
    for (json, printed) in [
        ("1", "1"),
        ("-0", "-0.0"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("1e2", "100.0"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("1e20", "1e20"),
        ("0.00001", "0.00001"),
        ("0.000001", "1e-6"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("0.30000000000000004", "0.30000000000000004"),
    ] {
        assert_eq!(text(&document(json)), printed);
    }
    let mut chance = Chance(77);
    for _ in 0..20000 {
        let double = f64::from_bits(chance.below(usize::MAX) as u64 ^ (chance.below(2) as u64) << 63);
        let near = (chance.below(1 << 20) as f64 - 524_288.0) / [1.0, 10.0, 100.0, 1e4, 1e7][chance.below(5)];
        for double in [double, near] {
            if let Some(number) = JsonNumber::of_double(double) {
                let document = number.document();
                let JsonKind::Number(JsonNumber::Double(read)) = JsonNode::root(&document).kind() else { panic!() };
                assert_eq!(read.to_bits(), double.to_bits());
            }
        }
    }
}

#[test]
fn of_two_members_with_the_same_name_the_last_takes_the_place_of_the_first() {
    assert_eq!(text(&document(r#"{"a":1,"b":2,"a":{"c":1,"c":2}}"#)), r#"{"a":{"c":2},"b":2}"#);
    let many: Vec<String> = (0..100).map(|n| format!("\"{}\":{n}", n % 50)).collect();
    let once: Vec<String> = (0..50).map(|n| format!("\"{n}\":{}", n + 50)).collect();
    assert_eq!(text(&document(&format!("{{{}}}", many.join(",")))), format!("{{{}}}", once.join(",")));
}

#[test]
fn a_text_may_be_as_deep_as_redis_lets_it() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(depth_of(&document(&nested(127))), 127);
    let error = encode(&nested(128), TEXT_DEPTH).expect_err("it is too deep");
    assert_eq!(error.to_string(), "recursion limit exceeded at line 1 column 128");
    assert_eq!(text(&encode(&nested(1000), DOCUMENT_DEPTH).expect("a document may be deeper")), nested(1000));
    assert_eq!(depth_of(&document(r#"{"a":[1,{"b":[]}],"c":{}}"#)), 4);
    assert_eq!(depth_of(&document("1")), 0);
}

#[test]
fn a_small_document_takes_less_than_its_text() {
    for (json, bytes) in [
        (r#"{"name":"Ada","age":36,"langs":["en","fr"]}"#, 30),
        (r#"{"id":1024,"price":19.99,"tags":["a","b"],"stock":{"berlin":3,"paris":0}}"#, 52),
        (r#"[1,2,3,4.5,-6,null,true,"seven"]"#, 18),
    ] {
        assert_eq!(document(json).len(), bytes, "{json} has {}", json.len());
    }
}

#[test]
fn a_layout_indents_and_breaks_lines() {
    let document = document(r#"{"a":[1,{}],"b":{"c":[]}}"#);
    let layout = JsonLayout { indent: b"  ", newline: b"\n", space: b" ", ..JsonLayout::default() };
    let mut to = Vec::new();
    print(JsonNode::root(&document), &layout, 0, &mut to).expect("it is short");
    let expected = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}";
    assert_eq!(String::from_utf8_lossy(&to), expected);
    to.clear();
    print_list([JsonNode::root(&document)].into_iter(), &JsonLayout { newline: b"\n", ..layout }, 0, &mut to)
        .expect("it is short");
    assert!(to.starts_with(b"[\n  {\n    \"a\": ["));
}

#[test]
fn values_are_equal_whatever_the_order_of_their_members() {
    let is_equal = |one: &str, other: &str| is_equal(JsonNode::root(&document(one)), JsonNode::root(&document(other)));
    assert!(is_equal(r#"{"a":1,"b":[1,{"c":2,"d":3}]}"#, r#"{"b":[1,{"d":3,"c":2}],"a":1}"#));
    assert!(!is_equal(r#"{"a":1}"#, r#"{"a":1,"b":1}"#));
    assert!(!is_equal("1", "1.0"));
    assert!(is_equal("18446744073709551615", "18446744073709551616.0"));
    assert!(!is_equal("[1]", r#"{"a":1}"#));
}

#[test]
fn paths_find_what_redis_finds() {
    const STORE: &str = r#"{"store":{"book":[
        {"category":"reference","author":"Rees","title":"Sayings","price":8.95},
        {"category":"fiction","author":"Waugh","title":"Sword","price":12.99},
        {"category":"fiction","author":"Melville","title":"Moby","isbn":"0-553","price":8},
        {"category":"fiction","author":"Tolkien","title":"Rings","isbn":"0-395","price":22.99}],
        "bicycle":{"color":"red","price":19.95}},"max":10,"a b":[0,1,2,3,4,5],"it's":{"\"":1},"$x":5}"#;
    for (path, expected) in [
        ("$.max", "[10]"),
        ("max", "[10]"),
        (".max", "[10]"),
        (".store.book[0].author", r#"["Rees"]"#),
        ("store['book'][-1][\"title\"]", r#"["Rings"]"#),
        ("$.store.book[*].author", r#"["Rees","Waugh","Melville","Tolkien"]"#),
        ("$..author", r#"["Rees","Waugh","Melville","Tolkien"]"#),
        ("$..book[2].title", r#"["Moby"]"#),
        ("$..book[0,1].price", "[8.95,12.99]"),
        ("$..book[:2].price", "[8.95,12.99]"),
        ("$..book[1:3].price", "[12.99,8]"),
        ("$..book[-2:].price", "[8,22.99]"),
        ("$['a b'][::2]", "[0,2,4]"),
        ("$['a b'][1:5:3]", "[1,4]"),
        ("$['a b'][-100:2]", "[0,1]"),
        ("$['a b'][100]", "[]"),
        ("$['a b'][-100]", "[0]"),
        ("$[\"it's\"]", r#"[{"\"":1}]"#),
        ("$['it\\'s']['\"']", "[1]"),
        ("$.['max','a b'][0]", "[0]"),
        ("$.$x", "[5]"),
        ("$x", "[5]"),
        ("$..book[?(@.isbn)].title", r#"["Moby","Rings"]"#),
        ("$..book[?(@.price<10)].title", r#"["Sayings","Moby"]"#),
        ("$..book[?(@.price <= $.max && @.isbn)].title", r#"["Moby"]"#),
        ("$..book[?@.price == 8 || @.price > 20].title", r#"["Moby","Rings"]"#),
        ("$..book[?((@.price>20||@.price<8.5)&&@.category=='fiction')].title", r#"["Moby","Rings"]"#),
        ("$..book[?(@.author =~ \"(?i)^m\")].title", r#"["Moby"]"#),
        ("$..book[?('fiction' != @.category)].title", r#"["Sayings"]"#),
        ("$.store.bicycle[?(@=='red')]", r#"["red"]"#),
        ("$..[?(@.color)].price", "[19.95]"),
        ("$.store[*].price", "[19.95]"),
        ("$..price", "[8.95,12.99,8,22.99,19.95]"),
        ("$.none", "[]"),
        ("$.store.book.author", "[]"),
    ] {
        assert_eq!(found(STORE, path), expected, "{path}");
    }
    assert_eq!(found(r#"[{"a":[1,2]},{"a":[3]},{"a":4}]"#, "$[?(@.a[*]>1)]"), r#"[{"a":[1,2]},{"a":[3]}]"#);
    assert_eq!(found("[1,[2,[3]]]", "$..*"), "[1,[2,[3]],2,[3],3]");
    assert_eq!(found(r#"[null,1,true]"#, "$[?(@==null||@==true)]"), "[null,true]");
    assert_eq!(found("[1]", "$..[0]"), "[1]");
}

#[test]
fn a_path_that_is_none_is_refused_with_its_place() {
    for (path, at) in [
        ("$.", 2),
        ("$[", 2),
        ("$[a]", 2),
        ("$.a[", 4),
        ("$[?(", 4),
        ("$[?(@.a", 7),
        ("$.a b", 4),
        ("$[1:2:0]", 6),
        ("$['a]", 2),
    ] {
        let Err(JsonPathError::Malformed(reply)) = JsonPath::parse(path) else { panic!("{path}") };
        assert!(reply.starts_with(&format!("Error occurred on position {at}, \"")), "{reply}");
    }
    let deep = format!("$[?{}@{}]", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(JsonPath::parse(&deep), Err(JsonPathError::Malformed(_))));
}

#[test]
fn paths_that_find_too_much_are_given_up() {
    let document = document(&format!("{}{}", "[".repeat(127), "]".repeat(127)));
    let path = JsonPath::parse(&format!("${}", "..*".repeat(30))).expect("it is a path");
    assert_eq!(path.find(&document).err(), Some(JsonPathError::TooMuch));
    let path = JsonPath::parse("$..[?(@..[?(@..[?(@..[?(@..[?(@.a)])])])])]").expect("it is a path");
    assert_eq!(path.find(&document).err(), Some(JsonPathError::TooMuch));
}

#[test]
fn a_path_to_one_value_has_a_tail() {
    let tail = |path: &str| match JsonPath::parse(path).expect("it is a path").tail() {
        Some(JsonTail::Name(name)) => name.to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(tail("$"), "Some(Whole)");
    assert_eq!(tail("$.a['b c']"), "b c");
    assert_eq!(tail("$.a[-1]"), "Some(Index)");
    for path in ["$.*", "$..a", "$[0,1]", "$[0:1]", "$['a','b']"] {
        assert_eq!(tail(path), "None");
    }
}

/// Changes what a path finds.
fn edited(
    json: &str,
    path: &str,
    outermost: bool,
    change: &mut dyn FnMut(JsonNode<'_>) -> JsonChange<'static>,
) -> String {
    let document = document(json);
    let nodes = JsonPath::parse(path).expect("it is a path").find(&document).expect("it is not too much");
    let offsets: Vec<usize> = nodes.iter().map(|node| node.offset()).collect();
    let targets = if outermost { JsonTargets::outermost(&document, &offsets) } else { JsonTargets::all(&offsets) };
    let edited = edit::<JsonTooLong>(&document, &targets, &mut |node, _, _| Ok(change(node))).expect("it is short");
    edited.map_or("nothing".into(), |edited| text(&edited))
}

#[test]
fn any_number_of_values_are_changed_at_once() {
    const JSON: &str = r#"{"a":1,"b":{"a":[1,{"a":2}],"c":3},"d":[{"a":4}]}"#;
    let mut set = |_: JsonNode<'_>| JsonChange::Replace(Cow::Owned(document_of_string(b"x")));
    assert_eq!(edited(JSON, "$..a", true, &mut set), r#"{"a":"x","b":{"a":"x","c":3},"d":[{"a":"x"}]}"#);
    assert_eq!(edited(JSON, "$", true, &mut set), r#""x""#);
    assert_eq!(edited(JSON, "$.none", true, &mut set), JSON);
    let mut append = |node: JsonNode<'_>| match spliced(node, usize::MAX, 0, &[document("9"), document("[]")]) {
        Some(array) => JsonChange::Replace(Cow::Owned(array)),
        None => JsonChange::Keep,
    };
    assert_eq!(edited("[[1,[2]],3]", "$..*", false, &mut append), "[[1,[2,9,[]],9,[]],3]");
    let mut twice = |node: JsonNode<'_>| match node.kind() {
        JsonKind::Number(JsonNumber::Integer(n)) => JsonChange::Replace(JsonNumber::Integer(n * 2).document().into()),
        _ => JsonChange::Keep,
    };
    assert_eq!(edited(JSON, "$['a','a']", false, &mut twice), r#"{"a":4,"b":{"a":[1,{"a":2}],"c":3},"d":[{"a":4}]}"#);
    let wide = format!("[{}]", vec!["63"; 200].join(","));
    assert_eq!(edited(&wide, "$[*]", false, &mut twice), format!("[{}]", vec!["126"; 200].join(",")));
}

#[test]
fn a_member_that_is_removed_gives_its_place_to_the_last() {
    let mut remove = |_: JsonNode<'_>| JsonChange::Remove;
    const JSON: &str = r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#;
    assert_eq!(edited(JSON, "$.b", true, &mut remove), r#"{"a":1,"e":5,"c":3,"d":4}"#);
    assert_eq!(edited(JSON, "$['c','a']", true, &mut remove), r#"{"e":5,"b":2,"d":4}"#);
    assert_eq!(edited(JSON, "$.*", true, &mut remove), "{}");
    assert_eq!(edited(r#"{"1":1,"10":2,"x":3,"y":4}"#, "$['1','10']", true, &mut remove), r#"{"x":3,"y":4}"#);
    assert_eq!(edited("[0,1,2,3]", "$[0,2]", true, &mut remove), "[1,3]");
    assert_eq!(edited("[0]", "$", true, &mut remove), "nothing");
}

#[test]
fn arrays_are_cut_and_objects_grow() {
    let array = document("[0,[1,2],\"x\",3]");
    let node = JsonNode::root(&array);
    let spliced =
        |at, removed, inserted: &[Vec<u8>]| text(&spliced(node, at, removed, inserted).expect("it is an array"));
    assert_eq!(spliced(0, 0, &[document("7")]), "[7,0,[1,2],\"x\",3]");
    assert_eq!(spliced(1, 2, &[]), "[0,3]");
    assert_eq!(spliced(9, 9, &[document("7")]), "[0,[1,2],\"x\",3,7]");
    assert_eq!(text(&sliced(node, 1, 3).expect("it is an array")), "[[1,2],\"x\"]");
    assert_eq!(text(&sliced(node, 3, 1).expect("it is an array")), "[]");
    assert_eq!(node.children().nth(2).map(|child| text(child.node.bytes())), Some("\"x\"".into()));
    let object = document(r#"{"a":{"b":1}}"#);
    let inner = JsonNode::root(&object).member(b"a").expect("it has it");
    assert_eq!(with_member(inner, b"c", &document("[]")).map(|object| text(&object)), Some(r#"{"b":1,"c":[]}"#.into()));
    assert_eq!(with_member(inner, b"b", &document("[]")), None);
    assert_eq!((text(&empty_array()), text(&empty_object())), ("[]".into(), "{}".into()));
    assert_eq!(sliced(inner, 0, 1), None);
}

#[test]
fn merging_follows_rfc_7396() {
    let merged = |value: &str, patch: &str| {
        let value = document(value);
        text(&merge(Some(JsonNode::root(&value)), JsonNode::root(&document(patch))))
    };
    for (value, patch, expected) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        assert_eq!(merged(value, patch), expected, "{value} {patch}");
    }
    let many: Vec<String> = (0..40).map(|n| format!("\"{n}\":{n}")).collect();
    let none: Vec<String> = (0..40).map(|n| format!("\"{n}\":null")).collect();
    assert_eq!(merged(&format!("{{{}}}", many.join(",")), &format!("{{{},\"x\":1}}", none.join(","))), r#"{"x":1}"#);
    assert_eq!(text(&merge(None, JsonNode::root(&document(r#"{"a":null,"b":1}"#)))), r#"{"b":1}"#);
}

#[test]
fn no_path_panics() {
    const WORDS: &[&str] = &[
        "$",
        "@",
        ".",
        "..",
        "[",
        "]",
        "*",
        "?",
        "(",
        ")",
        "a",
        "b",
        "'a'",
        "\"b\"",
        "'",
        "\"",
        "\\",
        "0",
        "-1",
        "1",
        ":",
        ",",
        " ",
        "==",
        "!=",
        "=~",
        "<",
        ">=",
        "&&",
        "||",
        "true",
        "null",
        "1.5",
        "é",
        "99999999999999999999",
        "[0]",
        "[*]",
        "[?(@.a",
        "..*",
    ];
    let json = r#"{"a":[0,1,{"b":{"a":"b"}},"a"],"b":{"a":null,"b":[[],{}]}}"#;
    let document = document(json);
    let mut chance = Chance(42);
    let mut good = 0;
    for _ in 0..100_000 {
        let mut path = "$".to_owned();
        for _ in 0..chance.below(12) {
            path.push_str(chance.pick(WORDS));
        }
        if let Ok(parsed) = JsonPath::parse(&path) {
            good += 1;
            let _ = (parsed.find(&document), parsed.tail());
        }
    }
    assert!(good > 1000, "{good} of the paths were any");
}

#[test]
fn bytes_that_are_no_document_are_read_without_a_panic() {
    let mut chance = Chance(99);
    let path = JsonPath::parse("$..[?(@.a==1||@[0]=='x')]").expect("it is a path");
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..chance.below(40)).map(|_| chance.below(256) as u8).collect();
        let root = JsonNode::root(&bytes);
        let _ = (root.bytes().len(), root.children().take(100).count(), depth_of(&bytes), path.find(&bytes));
        let mut to = Vec::new();
        let _ = (print(root, &JsonLayout::default(), 0, &mut to), merge(Some(root), root), is_equal(root, root));
    }
}
