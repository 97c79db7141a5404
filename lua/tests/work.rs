//! Functions whose work is long count it, and end when the script must.

#[path = "stock/state.rs"]
mod state;

use state::Own;

/// Runs a text until this interrupt; returns the error that it ends with.
fn run(interrupts: usize, text: &str) -> String {
    let text = format!("local ok, e = pcall(function() {text} end) return tostring(e)");
    String::from_utf8(Own::new("").run_until(interrupts, None, text.as_bytes())).expect("text")
}

/// What takes longer than anyone can wait, or at least very long.
const HOSTILE: [&str; 23] = [
    "string.find(string.rep('a', 10000), string.rep('a?', 25) .. string.rep('a', 25) .. 'b')",
    "string.find(string.rep('a', 25), string.rep('a?', 25) .. string.rep('a', 25) .. 'b')",
    "string.find(string.rep('a', 10000), string.rep('a*', 20) .. 'b')",
    "string.match(string.rep('a', 10000), '(.-)(.-)(.-)b')",
    "string.match(string.rep('a', 10000), '.-.-.-b')",
    "for i = 1, 1000 do string.find(string.rep(' ', 10000), '%f[%w]') end",
    "string.find(string.rep('(', 10000), '%b()')",
    "string.gsub(string.rep('(', 10000), '%b()', '')",
    "for w in string.gmatch(string.rep('a', 10000), '%w-%d') do end",
    "for w in string.gmatch(string.rep('a', 10000), '(a+)%1b') do end",
    "string.find(string.rep('a', 1000000), string.rep('a', 100000) .. 'b', 1, true)",
    "string.find(string.rep('a', 100000), '[' .. string.rep('b', 100000) .. ']')",
    "for i = 1, 1000 do string.gsub(string.rep('a', 10000), 'a', '%0%0') end",
    "string.gsub(string.rep('a', 10000), '', string.rep('b', 10000))",
    "string.rep('abc', 100000000)",
    "for i = 1, 100 do string.format(string.rep('%%', 100000)) string.format('%q', string.rep('a', 100000)) end",
    "local s = string.rep('1', 100000) for i = 1, 1000 do tonumber(s) tonumber(s, 2) end",
    "table.insert({}, -2147483648, 1)",
    "local t = {} for i = 1, 10000 do t[i] = i end for i = 1, 10000 do table.insert(t, 1, i) table.remove(t, 1) end",
    "local t = {} for i = 1, 10000 do t[i] = i end for i = 1, 10000 do table.maxn(t) end",
    "local t = {} for i = 1, 10000 do t[i] = 'a' end for i = 1, 1000 do table.concat(t, ',') end",
    "local t = {} for i = 1, 10000 do t[i] = -i end \
     for i = 1, 1000 do table.sort(t, function(a, b) return a < b end) end",
    "local t = {} for i = 1, 7000 do t[i] = i end for i = 1, 10000 do unpack(t) end",
];

#[test]
fn long_work_ends_when_the_script_must() {
    for text in HOSTILE {
        assert_eq!(run(50, text), "too much work", "{text}");
    }
}

#[test]
fn a_script_ends_while_its_arguments_become_values() {
    let items: Vec<Vec<u8>> = (0..10_000).map(|n: u32| n.to_le_bytes().to_vec()).collect();
    assert_eq!(Own::new("").push_until(5, &items), b"too much work");
    assert_eq!(Own::new("").push_until(usize::MAX, &items), b"");
}

#[test]
fn a_pattern_calls_itself_up_to_a_depth() {
    for (text, wanted) in [
        ("string.find(string.rep('a', 999), string.rep('a?', 999) .. 'b')", "too much work"),
        ("string.find(string.rep('a', 3000), string.rep('a?', 2000) .. 'b')", "case:1: pattern too complex"),
        ("string.find('', string.rep('a-', 1002) .. 'b')", "case:1: pattern too complex"),
        ("string.find('', string.rep('a*', 1002) .. 'b')", "case:1: pattern too complex"),
        ("error(string.find('', string.rep('a-', 1000)), 0)", "1"),
        ("error(string.find(string.rep('a', 100000), string.rep('a', 100000) .. '$'), 0)", "1"),
        ("error(string.find(string.rep('a', 100000), string.rep('[a]', 100000) .. '$'), 0)", "1"),
        ("error(string.find(string.rep('()', 100000), string.rep('%b()', 100000) .. '$'), 0)", "1"),
    ] {
        assert_eq!(run(700, text).trim_start_matches("case:1: "), wanted.trim_start_matches("case:1: "), "{text}");
    }
}

#[test]
fn no_text_is_longer_than_512_megabytes() {
    const LONG: &str = "local half = string.rep('a', 2^28) ";
    for (text, wanted) in [
        ("string.rep('a', 2^29 + 1)", "not enough memory"),
        ("string.rep('ab', 2^31 - 1)", "not enough memory"),
        ("error(#string.rep('a', 2^29), 0)", "536870912"),
        ("error(#string.rep('', 2^31 - 1), 0)", "0"),
        (&format!("{LONG} error(#table.concat({{half, half}}), 0)"), "536870912"),
        (&format!("{LONG} table.concat({{half, half}}, ',')"), "not enough memory"),
        (&format!("{LONG} table.concat({{half, half, 1}})"), "not enough memory"),
        (&format!("{LONG} table.concat({{'', '', '', ''}}, half)"), "not enough memory"),
    ] {
        assert_eq!(run(usize::MAX, text), wanted, "{text}");
    }
}

/// Ranges that are refused are those of the advisory, in the tests of the server.
#[test]
fn extreme_ranges_are_not_counted_beyond() {
    for text in [
        "error(unpack({[-2147483648] = 7}, -2147483648, -2147483648), 0)",
        "error(unpack({[2147483647] = 7}, 2147483647, 2147483647), 0)",
        "error(table.concat({[2147483647] = 7}, ',', 2147483647, 2147483647), 0)",
        "local t = {} table.insert(t, 2147483647, 7) error(t[2147483647], 0)",
        "local t = {7} table.remove(t, -2147483648) table.remove(t, 2147483647) error(t[1], 0)",
    ] {
        assert_eq!(run(usize::MAX, text), "7", "{text}");
    }
}
