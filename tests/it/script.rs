//! Scripts through the socket: atomic, with bounded resources, and never blocking other clients for ever.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::harness::{Client, TestServer, wait_until};

const FOREVER: [&str; 3] = ["EVAL", "while true do end", "0"];
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Advances the server's clock while `act` waits for an event that depends on it.
fn while_time_passes<T>(server: &TestServer, act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                server.advance_ms(6000); // beyond the threshold: the loop waits until the script is busy
                std::thread::yield_now();
            }
        });
        let result = act();
        is_over.store(true, Relaxed);
        result
    })
}

/// Runs an endless script on a connection of its own, and returns once other clients get BUSY.
pub(crate) fn occupy(server: &TestServer, script: &[&str]) -> Client {
    let mut client = server.client();
    client.send(&crate::harness::encode(script));
    let mut other = server.client();
    while_time_passes(server, || wait_until(|| other.call("PING") != "+PONG"));
    client
}

#[test]
fn a_script_is_busy_once_it_has_run_for_long_and_can_be_killed() {
    for server in [TestServer::start(), TestServer::start_on_workers(1), TestServer::start_on_workers(2)] {
        let mut busy = occupy(&server, &FOREVER);
        let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for other in &mut others {
            assert_eq!(other.call("GET k"), BUSY);
            assert_eq!(other.call("nosuch"), "-ERR unknown command 'nosuch', with args beginning with: ");
            assert_eq!(other.call("SCRIPT LOAD x"), BUSY);
            assert_eq!(other.call("FUNCTION KILL"), BUSY);
            assert_eq!(other.call("FUNCTION STATS"), BUSY);
        }
        assert_eq!(others[0].call("SCRIPT KILL"), "+OK");
        let reply = busy.reply();
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL... script: "), "{reply}");
        assert_eq!(others[1].call("SET k v"), "+OK");
        assert_eq!(busy.call("GET k"), "$1 v");
        assert_eq!(others[2].call("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.");
    }
}

#[test]
fn a_script_is_busy_in_real_time_too_while_the_clock_stands_still() {
    let server = TestServer::start_on_workers(1);
    let (mut busy, mut other) = (server.client(), server.client());
    assert_eq!(other.call("CONFIG SET busy-reply-threshold 20"), "+OK");
    busy.send(&crate::harness::encode(&FOREVER));
    wait_until(|| other.call("PING") != "+PONG");
    assert_eq!(other.call("GET k"), BUSY);
    server.advance_ms(1);
    assert_eq!(other.call("SCRIPT KILL"), "+OK");
    assert!(busy.reply().starts_with("-ERR Script killed by user with SCRIPT KILL..."));
}

#[test]
fn a_script_that_catches_every_error_is_killed_all_the_same() {
    let server = TestServer::start_on_workers(1);
    for script in [
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do pcall(function() while true do end end) end end) f()",
        "while true do pcall(redis.call, 'PING') end",
        "table.sort({3,2,1}, function(a, b) while true do end end)",
        "string.gsub('aaa', 'a', function() while true do end end)",
    ] {
        let mut busy = occupy(&server, &["EVAL", script, "0"]);
        assert_eq!(server.client().call("SCRIPT KILL"), "+OK");
        assert!(busy.reply().starts_with("-ERR "), "{script}");
        assert_eq!(
            busy.call_args(&["EVAL", "local n = 0 for i = 1, 500000 do n = n + 1 end return n", "0"]),
            ":500000"
        );
    }
}

#[test]
fn a_script_that_has_written_cannot_be_killed_and_ends_with_the_server() {
    let server = TestServer::start_on_workers(1);
    let _busy = occupy(&server, &["EVAL", "redis.call('SET', 'k', 'v') while true do end", "0"]);
    let reply = server.client().call("SCRIPT KILL");
    assert!(reply.starts_with("-UNKILLABLE Sorry the script already executed write commands"), "{reply}");
    assert_eq!(server.client().call("GET k"), BUSY);
}

#[test]
fn a_script_is_not_aborted_by_a_shutdown_without_nosave() {
    let server = TestServer::start_on_workers(1);
    let mut busy = occupy(&server, &["EVAL", "redis.call('SET', 'k', 'v') while true do end", "0"]);
    let mut other = server.client();
    for options in ["", " NOW", " FORCE", " SAVE", " NOW FORCE"] {
        assert_eq!(other.call(&format!("SHUTDOWN{options}")), BUSY, "SHUTDOWN{options}");
    }
    assert_eq!(other.call("SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    assert_eq!(server.client().call("GET k"), BUSY);
    other.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(busy.read_to_end().starts_with(b"-ERR "), "it is told that it was ended");
}

#[test]
fn a_function_is_busy_and_killed_as_a_function() {
    let server = TestServer::start_on_workers(1);
    let library = "#!lua name=lib\nredis.register_function('forever', function() while true do end end)";
    assert_eq!(server.client().call_args(&["FUNCTION", "LOAD", library]), "$3 lib");
    let mut busy = occupy(&server, &["FCALL", "forever", "1", "key"]);
    let mut other = server.client();
    let told = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    assert_eq!(other.call("GET k"), told);
    assert_eq!(other.call("SCRIPT KILL"), told);
    let stats = other.call("FUNCTION STATS");
    assert!(
        stats.starts_with("*4 $14 running_script *6 $4 name $7 forever $7 command *4 $5 FCALL $7 forever $1 1 $3 key"),
        "{stats}"
    );
    assert!(stats.ends_with("$7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :1"), "{stats}");
    assert_eq!(other.call("FUNCTION KILL"), "+OK");
    assert!(busy.reply().starts_with("-ERR Script killed by user with SCRIPT KILL..."));
    assert_eq!(other.call("FCALL nosuch 0"), "-ERR Function not found");
}

#[test]
fn what_is_busy_is_named_and_killed_in_valkeys_words_where_they_are_asked_for() {
    let server = TestServer::start_on_workers(1);
    assert_eq!(server.client().call("CONFIG SET extended-redis-compatibility no"), "+OK");
    let library = "#!lua name=lib\nserver.register_function('forever', function() while true do end end)";
    assert_eq!(server.client().call_args(&["FUNCTION", "LOAD", library]), "$3 lib");
    for (kind, call) in [("FUNCTION", &["FCALL", "forever", "0"][..]), ("SCRIPT", &FOREVER)] {
        let mut busy = occupy(&server, call);
        let mut other = server.client();
        let told = format!("-BUSY Valkey is busy running a script. You can only call {kind} KILL or SHUTDOWN NOSAVE.");
        assert_eq!(other.call("GET k"), told);
        assert_eq!(other.call(&format!("{kind} KILL")), "+OK");
        let reply = busy.reply();
        assert!(reply.starts_with(&format!("-ERR Script killed by user with {kind} KILL. script: ")), "{reply}");
    }
}

#[test]
fn transactions_and_watches_live_through_a_busy_script() {
    let server = TestServer::start_on_workers(1);
    let (mut queueing, mut watching, mut dropped) = (server.client(), server.client(), server.client());
    queueing.expect(&[("MULTI", "+OK"), ("SET k 1", "+QUEUED")]);
    watching.expect(&[("WATCH k", "+OK")]);
    dropped.expect(&[("WATCH k", "+OK")]);
    let mut busy = occupy(&server, &FOREVER);
    queueing.expect(&[("SET k 2", BUSY)]);
    watching.expect(&[("WATCH other", BUSY), ("UNWATCH", "+OK"), ("MULTI", "+OK")]);
    drop(dropped);
    assert_eq!(
        server.client().call("EXEC"),
        "-EXECABORT Transaction discarded because of: BUSY Redis is busy running a \
        script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            .replace("        ", "")
    );
    assert_eq!(server.client().call("SCRIPT KILL"), "+OK");
    assert!(busy.reply().starts_with("-ERR Script killed"));
    queueing.expect(&[("EXEC", "-EXECABORT Transaction discarded because of previous errors."), ("SET k 3", "+OK")]);
    watching.expect(&[("GET k", "+QUEUED"), ("EXEC", "*1 $1 3")]);
}

#[test]
fn a_script_in_a_transaction_is_busy_too() {
    let server = TestServer::start_on_workers(2);
    let mut client = server.client();
    client.expect(&[("MULTI", "+OK")]);
    assert_eq!(client.call_args(&FOREVER), "+QUEUED");
    client.send(&crate::harness::encode(&["EXEC"]));
    let mut other = server.client();
    while_time_passes(&server, || wait_until(|| other.call("PING") != "+PONG"));
    assert_eq!(other.call("SCRIPT KILL"), "+OK");
    assert!(client.reply().starts_with("*1 -ERR Script killed"));
}

#[test]
fn the_threshold_is_a_setting_and_zero_makes_others_wait() {
    let server = TestServer::start_on_workers(1);
    let mut client = server.client();
    client.expect(&[("CONFIG SET busy-reply-threshold 0", "+OK")]);
    let script = "local n = 0 for i = 1, 3000000 do n = n + 1 end return n";
    client.send(&crate::harness::encode(&["EVAL", script, "0"]));
    while_time_passes(&server, || assert_eq!(server.client().call("PING"), "+PONG"));
    assert_eq!(client.reply(), ":3000000");
}

#[test]
fn a_script_cannot_take_all_memory_or_crash_the_server() {
    let server = TestServer::start();
    let mut client = server.client();
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2000000000)",
        "local function f() return 1 + f() end return f()",
        "local function f(x) return {f(x)} end return f(1)",
        "return loadstring(string.rep('(', 100000))()",
        "return string.format('%' .. string.rep('9', 1000) .. 'd', 1)",
        "local co = coroutine.wrap(function() error('x') end) while true do co() end",
        "local function f() return coroutine.wrap(f)() end return f()",
        "return cjson.encode(setmetatable({}, {__index = function() error('x') end}))",
        "local t = {} for i = 1, 100 do t[i] = {} end t[101] = t return cjson.encode(t)",
        "return tostring(setmetatable({}, {__tostring = function() return {} end}))",
        "return string.find(string.rep('a', 300000), string.rep('a?', 300000))",
        "local co co = coroutine.wrap(function() co() end) co()",
        "return string.rep('', 1e15)",
        "return #redis.call('SET', string.rep('k', 1e6), string.rep('v', 1e7))",
    ] {
        let reply = client.call_args(&["EVAL", script, "0"]);
        assert!(!reply.is_empty(), "{script}");
        assert_eq!(client.call("PING"), "+PONG", "after {script}");
    }
    assert_eq!(client.call_args(&["EVAL", "return string.rep('', 1e9)", "0"]), "$0 ");
}

#[test]
fn nothing_of_a_script_is_left_for_the_next() {
    let server = TestServer::start();
    let mut client = server.client();
    for script in [
        "KEYS.extra = 1 ARGV.extra = 2",
        "setmetatable(KEYS, {__index = function() return 'stale' end})",
        "math.randomseed(1)",
        "redis.setresp(3)",
        "redis.call('SELECT', 3)",
        "collectgarbage('stop')",
        "rawset(KEYS, 7, 'x') table.insert(ARGV, 'y')",
    ] {
        // A script that only reads fields, one that gives its arguments away, and one that may do anything:
        // `access.rs`.
        for (begin, keys) in [("", "KEYS"), ("local keys = KEYS", "keys"), ("local globals = _G", "KEYS")] {
            assert!(!client.call_args(&["EVAL", script, "1", "k", "a"]).starts_with('-'), "{script}");
            let look = format!(
                "{begin} return {{#{keys}, #ARGV, tostring({keys}.extra), tostring({keys}[5]), \
                 type(redis.call('GET', 'none'))}}"
            );
            assert_eq!(client.call_args(&["EVAL", &look, "0"]), "*5 :0 :0 $3 nil $3 nil $7 boolean", "after {script}");
        }
        assert_eq!(client.call("SET db0 here"), "+OK");
    }
}

/// Covers the tables of scripts that only read, which were used before.
#[test]
fn each_script_has_its_own_keys_and_arguments_alone() {
    let server = TestServer::start();
    let mut client = server.client();
    let words = |count: usize, len: usize| -> Vec<String> { (0..count).map(|n| format!("{n:0len$}")).collect() };
    for (keys, args) in [(3, 2), (1, 5), (0, 0), (2, 0), (70, 70), (1, 1), (0, 300), (5, 0), (0, 1)] {
        for len in [1, 20_000] {
            let (count, keys_and_args) = (keys.to_string(), words(keys + args, len));
            let look = "local found = {#KEYS, #ARGV, KEYS[#KEYS + 1], ARGV[#ARGV + 1]} \
                        for i = 1, 400 do if KEYS[i] then found[1] = found[1] + 1000 end if ARGV[i] then found[2] = \
                        found[2] + 1000 end end return found";
            let mut request = vec!["EVAL", look, &count];
            request.extend(keys_and_args.iter().map(String::as_str));
            assert_eq!(client.call_args(&request), format!("*2 :{} :{}", keys * 1001, args * 1001));
            let last = "return {KEYS[#KEYS] or 'none', ARGV[#ARGV] or 'none'}";
            request[1] = last;
            let wanted = |first: usize, end: usize| match end - first {
                0 => "$4 none".to_owned(),
                _ => format!("${} {}", keys_and_args[end - 1].len(), keys_and_args[end - 1]),
            };
            let wanted = format!("*2 {} {}", wanted(0, keys), wanted(keys, keys + args));
            assert_eq!(client.call_args(&request), wanted);
        }
    }
}

/// Covers a script that reads a field of such a table: it gets no writable table.
#[test]
fn no_table_of_the_globals_holds_another() {
    let server = TestServer::start();
    let mut client = server.client();
    let look = "local found = {} for name, value in pairs(_G) do if type(value) == 'table' and value ~= _G then \
                for field, inner in pairs(value) do if type(inner) == 'table' then found[#found + 1] = name .. '.' .. \
                field end end end end return found";
    assert_eq!(client.call_args(&["EVAL", look, "0"]), "*0");
    let library = format!("#!lua name=lib\nredis.register_function('look', function() {look} end)");
    assert_eq!(client.call_args(&["FUNCTION", "LOAD", &library]), "$3 lib");
    assert_eq!(client.call("FCALL look 0"), "*0");
}

#[test]
fn info_counts_scripts_and_functions() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.info("number_of_cached_scripts"), "0");
    client.call_args(&["EVAL", "return 1", "0"]);
    client.call_args(&["SCRIPT", "LOAD", "return 2"]);
    client.call_args(&["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() end)"]);
    assert_eq!(client.info("number_of_cached_scripts"), "2");
    assert_eq!(client.info("number_of_functions"), "1");
    assert_eq!(client.info("number_of_libraries"), "1");
    assert!(client.info("used_memory_lua").parse::<u64>().expect("a number") > 10_000);
    assert!(
        client.call_args(&["EVAL", "return redis.call('INFO', 'memory')", "0"]).contains("number_of_cached_scripts:2")
    );
    client.expect(&[("SCRIPT FLUSH", "+OK"), ("FUNCTION FLUSH", "+OK")]);
    assert_eq!(client.info("number_of_cached_scripts"), "0");
    assert_eq!(client.info("number_of_libraries"), "0");
}

#[test]
fn a_library_that_does_not_come_to_an_end_is_given_up() {
    let server = TestServer::start();
    let reply = server.client().call_args(&["FUNCTION", "LOAD", "#!lua name=l\nwhile true do end"]);
    assert_eq!(reply, "-ERR Error registering functions: ERR FUNCTION LOAD timeout");
}

/// Covers the analysis of the code of each registered function, within the same time limit.
#[test]
fn a_library_that_registers_a_large_function_again_and_again_is_not_loaded() {
    let server = TestServer::start();
    let mut client = server.client();
    let body: String = (0..50_000).map(|number| format!("a('c{number}') ")).collect();
    let library = format!(
        "#!lua name=lib\nlocal i, f = 0, function(a) {body} end while true do i = i + 1 \
         redis.register_function('f' .. i, f) end"
    );
    let reply = client.call_args(&["FUNCTION", "LOAD", &library]);
    assert_eq!(reply, "-ERR Error registering functions: ERR FUNCTION LOAD timeout");
    assert_eq!(client.call("FUNCTION LIST"), "*0");
}

#[test]
fn server_is_another_name_of_redis() {
    let server = TestServer::start();
    let script = "return server.call('SET', KEYS[1], server.sha1hex(''))";
    assert_eq!(server.client().call_args(&["EVAL", script, "1", "k"]), "+OK");
    let library = "#!lua name=l\nserver.register_function('f', function() return server.call('GET', 'k') end)";
    assert_eq!(server.client().call_args(&["FUNCTION", "LOAD", library]), "$1 l");
    assert_eq!(server.client().call("FCALL f 0"), "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

#[test]
fn scripts_see_expired_keys_like_other_clients_and_time_does_not_advance_in_them() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK")]);
    assert_eq!(client.call_args(&["EVAL", "return redis.call('PTTL', 'k')", "0"]), ":100");
    server.advance_ms(100);
    assert_eq!(client.call_args(&["EVAL", "return redis.call('EXISTS', 'k')", "0"]), ":0");
}

#[test]
fn time_replies_the_same_throughout_a_script_or_a_transaction() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK")]);
    let script = "local before = redis.call('TIME') redis.call('DEBUG', 'SLEEP', 1.5) local after = redis.call('TIME') \
                  return {before[1] == after[1], before[2] == after[2], after[1]}";
    let told = |reply: &str| -> u64 { reply.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("seconds") };
    let first = client.call_args(&["EVAL", script, "0"]);
    assert!(first.starts_with("*3 :1 :1 $"), "{first}");
    let second = client.call_args(&["EVAL", script, "0"]);
    assert!(told(&second) > told(&first), "{first}, then {second}");
    client.expect(&[("MULTI", "+OK"), ("TIME", "+QUEUED"), ("DEBUG SLEEP 2", "+QUEUED")]);
    client.call_args(&["EVAL", "redis.call('DEBUG', 'SLEEP', 1.5) return redis.call('TIME')", "0"]);
    let reply = client.call("EXEC");
    let (before, after) = reply.strip_prefix("*3 ").and_then(|times| times.split_once(" +OK ")).expect("two times");
    assert_eq!(before, after);
    assert_ne!(client.call("TIME"), before);
}

#[test]
fn scripts_ask_for_replicas_and_do_not_wait() {
    let server = TestServer::start();
    let mut client = server.client();
    for (call, reply) in [
        ("'WAIT', 0, 0", ":0"),
        ("'WAIT', 1, 0", ":0"),
        ("'WAIT', 1, 100000", ":0"),
        ("'WAIT', 1, -1", "-ERR timeout is negative"),
        ("'WAITAOF', 0, 1, 0", "*2 :0 :0"),
        ("'WAITAOF', 1, 0, 0", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."),
    ] {
        assert_eq!(client.call_args(&["EVAL", &format!("return redis.pcall({call})"), "0"]), reply, "{call}");
    }
}

#[test]
fn the_log_of_denials_shows_a_client_that_runs_a_script_or_a_transaction() {
    let server = TestServer::start();
    let (mut admin, mut client) = (server.client(), server.client());
    admin.expect(&[("ACL SETUSER bob on nopass +@all -incr ~*", "+OK")]);
    client.expect(&[("AUTH bob x", "+OK")]);
    let mut seen = |parts: &[&str]| {
        let log = admin.call("ACL LOG 1");
        parts.iter().for_each(|part| assert!(log.contains(part), "{part} in {log}"));
        assert_eq!(admin.call("ACL LOG RESET"), "+OK");
    };
    let script = ["EVAL", "return redis.pcall('INCR', 'n')", "0"];
    client.call_args(&script);
    seen(&["context $3 lua", " cmd=eval ", " multi=-1 "]);
    client.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED")]);
    client.call_args(&script);
    client.call("EXEC");
    seen(&["context $3 lua", " cmd=exec ", " multi=2 ", " flags=x "]);
    client.expect(&[("MULTI", "+OK")]);
    assert!(client.call("INCR n").starts_with("-NOPERM "));
    seen(&["context $5 multi", " cmd=incr ", " multi=0 "]);
    client.expect(&[("DISCARD", "+OK"), ("MULTI", "+OK"), ("CLIENT INFO", "+QUEUED"), ("GET n", "+QUEUED")]);
    assert_eq!(server.client().call("ACL SETUSER bob -get"), "+OK");
    let reply = client.call("EXEC");
    assert!(reply.contains(" multi=2 ") && reply.contains(" flags=x ") && reply.contains(" cmd=exec "), "{reply}");
    seen(&["context $5 multi", " cmd=exec ", " multi=2 "]);
    let reply = client.call("CLIENT INFO");
    assert!(reply.contains(" multi=-1 ") && reply.contains(" cmd=client|info "), "{reply}");
}

#[test]
fn errors_that_scripts_make_up_do_not_hide_those_of_the_server() {
    let server = TestServer::start();
    let mut client = server.client();
    let script = "for i = 1, 1 do return redis.error_reply(ARGV[1] .. ' made up') end";
    for number in 0..200 {
        assert_eq!(
            client.call_args(&["EVAL", script, "0", &format!("MADE{number}")]),
            format!("-MADE{number} made up")
        );
    }
    client.expect(&[
        ("INCR", "-ERR wrong number of arguments for 'incr' command"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("HELLO 9", "-NOPROTO unsupported protocol version"),
    ]);
    let text = client.call("INFO errorstats");
    assert!(text.contains("errorstat_ERR:count=2 ") && text.contains("errorstat_NOPROTO:count=1"), "{text}");
    assert!(text.contains("errorstat_ERRORSTATS_OVERFLOW:count=72 "), "{text}");
    assert!(text.contains("errorstat_MADE0:count=1 ") && !text.contains("errorstat_MADE199"), "{text}");
}

#[test]
fn the_text_of_a_script_is_shown_by_its_name() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call_args(&["SCRIPT", "LOAD", "return 1"]), "$40 e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    client.expect(&[
        ("SCRIPT SHOW E0E1f9fabfc9d4800c877a703b823ac0578ff8db", "$8 return 1"),
        ("SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8dc", "-NOSCRIPT No matching script. Please use EVAL."),
        ("SCRIPT SHOW short", "-NOSCRIPT No matching script. Please use EVAL."),
        ("SCRIPT SHOW", "-ERR wrong number of arguments for 'script|show' command"),
    ]);
}

#[test]
fn script_debug_is_rejected_with_a_plain_text() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SCRIPT DEBUG NO", "+OK"),
        ("SCRIPT DEBUG YES", "-ERR SCRIPT DEBUG is not supported: there is no script debugger"),
        ("SCRIPT DEBUG maybe", "-ERR Use SCRIPT DEBUG YES/SYNC/NO"),
    ]);
}

#[test]
fn a_user_who_may_only_run_scripts_cannot_replace_what_scripts_share() {
    let server = TestServer::start();
    let mut admin = server.client();
    admin.expect(&[("ACL SETUSER limited on nopass +eval +eval_ro", "+OK")]);
    let mut limited = server.client();
    assert_eq!(limited.call("AUTH limited x"), "+OK");
    // Where calls are nested so deep that a metamethod cannot be called, a variable keeps the value that it was about
    // to lose.
    let attack = "
        local get = {}
        local function deep(n)
            local x
            get[n] = function() return x end
            if n < 250 then pcall(deep, n + 1) end
            x = redis x = x.missing
        end
        pcall(deep, 1)
        for n, variable in pairs(get) do
            local t = variable()
            pcall(function() t.call = function() return 'replaced' end end)
            pcall(rawset, t, 'call', nil)
        end";
    for eval in ["EVAL", "EVAL_RO"] {
        assert_eq!(limited.call_args(&[eval, attack, "0"]), "$-1");
        assert_eq!(admin.call_args(&["EVAL", "return redis.call('PING')", "0"]), "+PONG");
    }
}
