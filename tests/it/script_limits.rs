//! No script blocks the server: whatever it executes, others get BUSY after a time, and it can be killed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::harness::{TestServer, encode, wait_until};

/// Scripts that run practically for ever, each inside another construct.
const ENDLESS: &[&str] = &[
    // Error handlers, for which the kill is just another error.
    "xpcall(function() while true do end end, function() while true do end end)",
    "xpcall(function() error('x') end, function() while true do end end)",
    "xpcall(function() xpcall(error, function() while true do end end) end, function() while true do end end)",
    "while true do pcall(function() while true do end end) string.find(string.rep('a', 20000), string.rep('a-', 8) .. 'b') end",
    // One call of a native function.
    "string.find(string.rep('a', 20000), string.rep('a-', 8) .. 'b')",
    "string.match(string.rep('a', 20000), string.rep('a*', 8) .. 'b')",
    "string.gsub(string.rep('a', 20000), string.rep('.-', 8) .. 'b', '')",
    "for x in string.gmatch(string.rep('a', 20000), string.rep('(a-)', 8) .. 'b') do end",
    "string.find(string.rep('a', 20000000), string.rep('a', 10000000) .. 'b', 1, true)",
    "string.find(string.rep('(', 200000), string.rep('.-', 3) .. '%b()')",
    "table.insert({}, -1e9, 1)",
    "table.insert({}, -2^31, 1)",
    "cjson.encode_sparse_array(false, 0, 0) cjson.encode({[2^31 - 1] = 1})",
    "local t = {} for i = 1, 40 do t = {t, t} end cjson.encode(t)",
    "local t = {} for i = 1, 40 do t = {a = t, b = t} end cjson.encode(t)",
    "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end cmsgpack.pack(t)",
    // Many calls, each of few instructions and much work.
    "local s = string.rep('x', 1e7) while true do local t = s .. 'y' end",
    "local s = string.rep('x', 1e7) while true do local t = s:upper() end",
    "local s = string.rep('x', 1e7) while true do redis.sha1hex(s) end",
    "local s = string.rep('1', 1e5) while true do local n = s + 0 end",
    "local s = string.rep('1', 1e6) while true do tonumber(s, 2) end",
    "local s, t = string.rep('x', 1e7) .. 'a', string.rep('x', 1e7) .. 'b' while true do local is = s < t end",
    "local s = 'return \"' .. string.rep('x', 1e6) .. '\"' while true do loadstring(s) end",
    "local s = '[' .. string.rep('1,', 1e5) .. '1]' while true do cjson.decode(s) end",
    "local s = cmsgpack.pack(string.rep('x', 1e6)) while true do cmsgpack.unpack(s) end",
    "local s = string.rep('x', 1e6) while true do struct.size(s) end",
    "local t = {} for i = 1, 1e5 do t[i] = {} end while true do collectgarbage() end",
    "local t = {} for i = 1, 1e5 do t[i] = i % 7 end while true do table.sort(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.concat(t) table.maxn(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
    "local t = {} for i = 1, 7000 do t[i] = i end while true do local a = {unpack(t)} end",
    // Keys of 64 bytes that differ where Lua's hash does not look.
    "local t, n, char, math = {}, 0, string.char, math while true do n = n + 1 \
     t[string.rep('x', 57) .. char(120, n % 256, math.floor(n / 256) % 256, 120, math.floor(n / 65536) % 256, 120, 120)] = n end",
    "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 do t[i] = nil end while true do next(t) end",
    "local s = string.rep('x', 1e7) while true do redis.log(redis.LOG_WARNING, s) end",
    // A reply that takes long to write: tables in many places, each with ten thousand empty slots to look at.
    "local t, h = {}, {} for i = 1, 1e4 do h[i] = i end for i = 1, 1e4 do h[i] = nil end \
     t.map = h for i = 1, 60 do t = {t, t} end return t",
    "redis.call('SET', 'k', string.rep('x', 1e7)) while true do redis.call('BITCOUNT', 'k') end",
];

#[test]
fn every_script_turns_busy_and_ends_when_it_is_killed() {
    for script in ENDLESS {
        let server = TestServer::start_on_workers(1);
        let (mut busy, mut other, mut killer) = (server.client(), server.client(), server.client());
        busy.send(&encode(&["EVAL", script, "0"]));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    server.advance_ms(6000); // the script becomes busy at its next interrupt
                    std::thread::yield_now();
                }
            });
            wait_until(|| other.call("PING") != "+PONG");
            is_over.store(true, Relaxed);
        });
        let killed = killer.call("SCRIPT KILL");
        if killed.starts_with("-UNKILLABLE") {
            continue; // it has written; it ends with the server
        }
        assert_eq!(killed, "+OK", "{script}");
        let reply = busy.reply();
        assert!(reply.starts_with("-ERR "), "{script}: {reply}");
        assert_eq!(busy.call_args(&["EVAL", "return 1", "0"]), ":1", "after {script}");
    }
}

#[test]
fn a_table_in_many_places_makes_no_endless_reply() {
    let server = TestServer::start();
    let mut client = server.client().patient();
    let shared = "local t = {} for i = 1, 60 do t = {t, t} end ";
    for act in ["return cjson.encode(string.rep('\\0', 100000000))", "return t"] {
        let reply = client.call_args(&["EVAL", &format!("{shared}{act}"), "0"]);
        assert!(reply.starts_with("-ERR"), "{act}: {}", &reply[..reply.len().min(100)]);
    }
    assert_eq!(client.call("PING"), "+PONG");
}

/// Covers a reply that exceeds a limit within its first few megabytes, which ends the script: the rest would take very
/// long.
#[test]
fn a_reply_that_exceeds_the_limit_of_output_is_not_written_to_its_end() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "normal 1mb 0 0")]);
    let (mut client, mut other) = (server.client(), server.client());
    let script = "local h = {} for i = 1, 1e5 do h[i] = i end for i = 1, 1e5 do h[i] = nil end \
        local t, rest = {string.rep('x', 4e6), string.rep('x', 4e6)}, {map = h} \
        for i = 1, 60 do rest = {rest, rest} end t[3] = rest return t";
    client.send(&encode(&["EVAL", script, "0"]));
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(other.info("client_output_buffer_limit_disconnections"), "1");
}

#[test]
fn a_command_takes_as_many_arguments_as_the_interpreter_has_room_for() {
    let server = TestServer::start();
    let mut client = server.client();
    for count in [7900, 7979, 7980, 7990, 7996] {
        let script = format!(
            "local t = {{'DEL'}} for i = 2, {count} do t[i] = 'k' .. i end \
             redis.call('SET', 'k{count}', 1) return {{redis.call(unpack(t)), redis.pcall(unpack(t))}}"
        );
        assert_eq!(client.call_args(&["EVAL", &script, "0"]), "*2 :1 :0", "{count} arguments");
    }
}

#[test]
fn os_clock_is_the_only_function_of_os() {
    let server = TestServer::start();
    let mut client = server.client();
    let script = "local names = {} for name in pairs(os) do names[#names + 1] = name end \
        local before = os.clock() for i = 1, 1e6 do end \
        return {#names, names[1], type(before), os.clock() >= before and before >= 0}";
    assert_eq!(client.call_args(&["EVAL", script, "0"]), "*4 :1 $5 clock $6 number :1");
    let reply = client.call_args(&["EVAL", "os.clock = nil", "0"]);
    assert!(reply.contains("Attempt to modify a readonly table"), "{reply}");
}
