//! Every published advisory on scripts in Redis, as a script that must do no harm here. `.ci/run` also runs these tests
//! under AddressSanitizer, including the interpreter's C code; for that they are among the tests of the library, which
//! is built once with it. docs/decisions/25-lua-sources.md lists the advisories.

#[allow(dead_code, unreachable_pub, reason = "most of it serves the other tests")]
#[path = "../../tests/it/harness.rs"]
mod harness;

use harness::{Client, TestServer};

/// Runs a script in every possible way, and checks that its reply contains this text and that the server keeps running.
fn expect(script: &str, wanted: &str) {
    let server = TestServer::start();
    let mut client = server.client();
    let library = format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
    for request in [
        &["EVAL", script, "0"][..],
        &["EVAL_RO", script, "0"],
        &["EVAL", &format!("return loadstring({script:?})()"), "0"],
        &["FUNCTION", "LOAD", &library],
        &["FCALL", "f", "0"],
    ] {
        let reply = client.call_args(request);
        assert!(reply.contains(wanted) || request[0] == "FUNCTION", "{script}: {reply}");
        assert_eq!(client.call("PING"), "+PONG", "after {script}");
    }
}

fn eval(client: &mut Client, script: &str) -> String {
    let reply = client.call_args(&["EVAL", script, "0"]);
    assert_eq!(client.call("PING"), "+PONG", "after {script}");
    reply
}

#[test]
fn cve_2021_32626_nesting_never_overruns_the_interpreters_stack() {
    for nested in [
        "return cjson.decode(string.rep('[', 100000))",
        "return cjson.decode(string.rep('{\"a\":', 100000))",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
    ] {
        expect(nested, "nest");
    }
    expect("return cmsgpack.unpack(string.rep(string.char(145), 100000))", "too many nested tables");
    expect("return cmsgpack.unpack(string.rep(string.char(129, 1), 100000))", "too many nested tables");
    expect("local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)", ":17");
    expect("return {cmsgpack.unpack(string.rep(string.char(1), 100000))}", "-ERR");
    expect("return {struct.unpack(string.rep('b', 100000), string.rep('x', 100000))}", "-ERR");
}

#[test]
fn cve_2022_24735_no_script_changes_what_another_one_sees() {
    for change in [
        "redis.call = nil",
        "redis = nil",
        "rawset(_G, 'x', 1)",
        "string.upper = string.lower",
        "getmetatable(_G).__index = nil",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "table.insert(string, 1)",
        "cjson.decode = 1",
    ] {
        expect(change, "Attempt to modify a readonly table");
    }
    for missing in ["return setfenv", "return getfenv", "return debug", "return newproxy", "return package"] {
        expect(missing, "Script attempted to access nonexistent global variable");
    }
}

#[test]
fn cve_2022_24736_a_script_cannot_close_the_function_around_it() {
    let server = TestServer::start();
    let mut client = server.client();
    for script in ["return 1 end function f() return 2", "end", "return 1 end end", "f_0 = nil end do return 1"] {
        assert!(eval(&mut client, script).starts_with("-ERR Error compiling script"), "{script}");
    }
    assert!(eval(&mut client, "\u{1b}Lua").starts_with("-ERR Error compiling script"), "compiled code");
    assert!(eval(&mut client, "return loadstring(string.dump(function() return 1 end))()").starts_with("-ERR"));
}

#[test]
fn cve_2022_24834_long_strings_do_not_overrun_the_buffers_of_cjson_and_cmsgpack() {
    expect("return #cjson.encode(string.rep('\\127', 1000000))", ":6000002");
    expect("return #cjson.encode({[string.rep('\"', 1000000)] = 1})", ":2000006");
    expect("return #cmsgpack.pack(string.rep('x', 1000000), string.rep('x', 70000))", ":1070010");
    expect("return #cjson.decode('\"' .. string.rep('\\\\u0001', 100000) .. '\"')", ":100000");
}

#[test]
fn cve_2024_31449_any_number_of_hex_digits_is_bounded() {
    expect("return bit.tohex(65535, -2147483648)", "$8 0000FFFF");
    expect("return bit.tohex(65535, 2147483647)", "$8 0000ffff");
    expect("return bit.tohex(65535, 2^53)", "$0");
    expect("return bit.tohex(0/0, 1/0)", "$");
}

#[test]
fn cve_2024_46981_the_interpreter_can_be_given_up_in_the_middle_of_a_collection() {
    let server = TestServer::start();
    let mut client = server.client();
    for step in [0, 1, 10, 100, 1000] {
        let script = format!(
            "local t = {{}} for i = 1, 20000 do t[i] = {{i, tostring(i), function() return t end}} end \
             for i = 1, 100 do pcall(redis.call, 'nosuch') pcall(cjson.decode, '[') end \
             collectgarbage('step', {step}) return 1"
        );
        assert_eq!(eval(&mut client, &script), ":1");
        assert_eq!(client.call("SCRIPT FLUSH SYNC"), "+OK");
        assert_eq!(client.call("FUNCTION FLUSH SYNC"), "+OK");
    }
}

#[test]
fn cve_2025_46817_a_range_that_is_too_large_is_not_unpacked() {
    for range in [
        "0, 2147483647",
        "-1, 2147483646",
        "-2, 2147483645",
        "-2147483647, 2147483647",
        "-2147483648, 2147483647",
        "1, 2147483647",
        "-2147483648, -1",
        "1, 8000",
        "2147483647 - 8000, 2147483647",
    ] {
        expect(&format!("return {{unpack({{}}, {range})}}"), "too many results to unpack");
    }
    for (range, count) in [
        ("2147483647, 2147483647", 1),
        ("-2147483648, -2147483648", 1),
        ("2147483640, 2147483647", 8),
        ("1, -2147483648", 0),
        ("1, 7997", 7997),
    ] {
        expect(&format!("return select('#', unpack({{}}, {range}))"), &format!(":{count}"));
    }
    expect("return unpack({[-2147483648] = 7}, -2147483648, -2147483648)", ":7");
    expect("return rawget({1, 2}, -2147483648)", "$-1");
}

#[test]
fn cve_2025_46817_permission_for_eval_ro_alone_cannot_crash_the_server() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("ACL SETUSER reader on nopass +eval_ro", "+OK"), ("AUTH reader any", "+OK")]);
    let reply = client.call_args(&["EVAL_RO", "return {unpack({}, 0, 2147483647)}", "0"]);
    assert!(reply.contains("too many results to unpack"), "{reply}");
    assert_eq!(server.client().call("PING"), "+PONG");
}

#[test]
fn cve_2025_46818_the_metatables_of_basic_types_cannot_be_changed() {
    expect("getmetatable('').__index = function() end", "Attempt to modify a readonly table");
    expect("getmetatable('').__add = function() end", "Attempt to modify a readonly table");
    expect("rawset(getmetatable(''), '__index', nil)", "Attempt to modify a readonly table");
    expect("getmetatable('').__index.upper = nil", "Attempt to modify a readonly table");
    for value in ["nil", "1", "true", "function() end", "coroutine.create(function() end)"] {
        expect(&format!("return tostring(getmetatable({value}))"), "$3 nil");
        expect(&format!("setmetatable({value}, {{}})"), "bad argument #1 to");
    }
    expect("setmetatable('', {})", "bad argument #1 to 'setmetatable' (table expected, got string)");
}

#[test]
fn cve_2025_46819_brackets_of_any_length_are_read() {
    let compiled = |text: &str| format!("return loadstring({text})");
    for (text, wanted) in [
        ("'return [' .. string.rep('=', 100000) .. '[x]' .. string.rep('=', 100000) .. ']'", "$1 x"),
        ("'--[' .. string.rep('=', 100000) .. '[ x ]] ]' .. string.rep('=', 100000) .. '] return 7'", ":7"),
        ("'return [==[a]=]b]===]c]==]'", "$10 a]=]b]===]c"),
        ("'local t = {[1]=5} return t[ 1]'", ":5"),
    ] {
        expect(&format!("{}()", compiled(text)), wanted.split_at(wanted.len().min(3)).1.trim());
    }
    for text in ["'return [' .. string.rep('=', 100000)", "'return [==[x'", "'--[==[x]=]'", "'return [=x'", "'--['"] {
        expect(&format!("{} == nil", compiled(text)), if text == "'--['" { "$-1" } else { ":1" });
    }
}

#[test]
fn cve_2025_49844_the_name_of_a_chunk_outlives_the_collector() {
    expect(
        "local last = '' \
         for i = 1, 50 do \
           local parts = 0 \
           local f = load(function() \
             parts = parts + 1 collectgarbage() \
             for j = 1, 50 do last = string.rep('y', j) .. i end \
             if parts < 20 then return 'local a' .. parts .. ' = {\"' .. string.rep('x', parts) .. i .. '\"} ' end \
             if parts == 20 then return 'error(1)' end \
           end, '=' .. string.rep('n', 20) .. i) \
           local ok, err = pcall(f) \
           if err ~= string.rep('n', 20) .. i .. ':1: 1' then return {ok, err} end \
         end return 'done'",
        "done",
    );
    expect(
        "local text = {} for i = 1, 5000 do text[i] = 'local function f' .. i .. '() return \"' .. i .. '\" end do end ' end \
         for i = 1, 5 do collectgarbage('step', 1) \
           local f, err = loadstring('do ' .. table.concat(text, 'end do ') .. ' end return 9', '=chunk' .. i) \
           if f == nil or f() ~= 9 then return err end \
         end return 'done'",
        "done",
    );
}
