//! Attacks on the tables that scripts share: by each way in which Lua gives a script a value, killed at each
//! instruction.
//!
//! An attack is a library with two functions: `collect` stores every table that it obtains where the next call finds
//! it, and `write` tries to change all of them. Between the two, `collect` is killed at its first instruction, its
//! second one, and so on, which leaves in its variables the values of that moment.

use std::borrow::Cow;
use std::sync::Arc;

use crate::resp::{Output, Protocol, Reply, Request, RequestBuffer};
use crate::script::control::{Control, LOAD_MS_MAX};
use crate::script::host::{CallReply, Host};
use crate::script::shared::{Registered, VmKind};
use crate::script::vm::{ScriptCall, Vm};
use crate::spec::CommandSpec;
use crate::store::BusyFlag;
use crate::time::clock::Clock;

/// The maximum number of instructions, from the first on, at each of which an attack is killed.
const KILLS_MAX: usize = 600;

/// A host that knows no command.
struct NoCommands {
    request: RequestBuffer,
    args: RequestBuffer,
}

impl Host for NoCommands {
    fn args(&mut self) -> &mut RequestBuffer {
        &mut self.args
    }

    fn find(&self) -> Option<&'static CommandSpec> {
        None
    }

    fn call(&mut self, _: Option<&'static CommandSpec>) -> Result<CallReply<'_>, Cow<'static, str>> {
        Err("Unknown Redis command called from script".into())
    }

    fn may_call(&mut self) -> Option<bool> {
        None
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&mut self, _: Protocol) {}

    fn log_changes(&mut self, _: bool) {}

    fn running(&self) -> (String, Request<'_>) {
        ("test".into(), self.request.as_request().expect("a request"))
    }
}

/// An interpreter without a server around it.
struct Interpreter {
    vm: Vm,
    control: Arc<Control>,
}

impl Interpreter {
    fn new(kind: VmKind) -> Self {
        let control = Arc::new(Control::new(Clock::system(), false, Arc::<BusyFlag>::default()));
        Interpreter { vm: Vm::new(kind, control.clone()), control }
    }

    /// Loads a library; returns its functions.
    fn load(&mut self, text: &str) -> Vec<Registered> {
        let compiled = self.vm.compile(text.as_bytes(), "@user_function");
        let compiled = compiled.unwrap_or_else(|error| panic!("{}: {text}", String::from_utf8_lossy(&error)));
        let loaded = self.vm.load(compiled, LOAD_MS_MAX);
        loaded.unwrap_or_else(|error| panic!("{}: {text}", String::from_utf8_lossy(&error)))
    }

    /// Loads a script under a number.
    fn define(&mut self, number: usize, text: &str) {
        let compiled = self.vm.compile(text.as_bytes(), "@user_script");
        let compiled = compiled.unwrap_or_else(|error| panic!("{}: {text}", String::from_utf8_lossy(&error)));
        self.vm.define(number, compiled);
    }

    /// Runs a script or function with a key and an argument, killed at the instruction `killed_at` unless that is 0;
    /// returns its reply.
    fn run(&mut self, number: usize, killed_at: usize) -> String {
        let mut request = RequestBuffer::default();
        [&b"EVAL"[..], b"text", b"1", b"a key", b"an argument"].iter().for_each(|word| request.push(word));
        let mut host = NoCommands { request: RequestBuffer::default(), args: RequestBuffer::default() };
        host.request.push(b"EVAL");
        let invocation =
            ScriptCall { request: request.as_request().expect("a request"), keys: 1, now_ms: 0, threshold_ms: 0 };
        self.control.kill_at(killed_at);
        let executed = self.vm.run(number, invocation, &mut host);
        self.control.kill_at(0);
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, Protocol::Resp2);
        _ = self.vm.finish(executed, Protocol::Resp2, &mut host, &mut reply);
        String::from_utf8_lossy(&output.into_bytes()).into_owned()
    }
}

/// A function that describes everything that scripts share: names, the identity of functions and tables, metatables,
/// and attempts to write to any of it. From its first call on it has its own references to the functions that it uses.
const DESCRIBE: &str = "
    local run
    local function prepare()
        local pairs, type, tostring, getmetatable, pcall, rawset = pairs, type, tostring, getmetatable, pcall, rawset
        local insert, sort, concat, globals = table.insert, table.sort, table.concat, _G
        return function()
            local lines, seen = {}, {}
            local function walk(path, value)
                insert(lines, path .. ' ' .. tostring(value))
                if type(value) == 'table' then
                    if seen[value] then return end
                    seen[value] = true
                    insert(lines, path .. ' writable ' .. tostring((pcall(function() value.written = 1 end))))
                    insert(lines, path .. ' writable ' .. tostring((pcall(rawset, value, 'written', 1))))
                    for key, item in pairs(value) do
                        if key ~= 'KEYS' and key ~= 'ARGV' then walk(path .. '.' .. tostring(key), item) end
                    end
                end
                local meta = getmetatable(value)
                if meta ~= nil and not seen[meta] then walk(path .. ' meta', meta) end
            end
            walk('_G', globals)
            insert(lines, tostring((''):rep(1) == '') .. tostring((''):rep(2)) .. tostring(('').rep))
            sort(lines)
            return concat(lines, '\\n')
        end
    end
    local function describe()
        run = run or prepare()
        return run()
    end";

/// Checks that a description reports nothing as writable.
#[track_caller]
fn assert_is_read_only(description: &str) {
    assert!(description.contains(".call function"), "{description}");
    assert!(!description.contains("writable true"), "{description}");
}

/// Returns the lines that occur in only one of two texts.
fn difference(before: &str, now: &str) -> String {
    let only = |text: &str, other: &str| -> Vec<String> {
        text.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
    };
    format!("before: {:#?}\nnow: {:#?}", only(before, now), only(now, before))
}

/// Statements that pass tables to `keep`, each by one way of the language. `keep` returns its arguments.
const ROUTES: &[&str] = &[
    // A variable that a closure shares, overwritten by the next instruction, or not if that instruction fails.
    "local x get[1] = function() return x end x = redis x = x.missing x = string x = x.rep x = _G x = x.redis",
    "for _, name in ipairs({'redis', 'string', 'cjson'}) do local x get[#get + 1] = function() return x end x = _G[name] x = x.y end",
    // The same with calls nested so deep that a metamethod cannot be called.
    "local function deep(n) local x get[n] = function() return x end
         if n < 220 then pcall(deep, n + 1) end
         x = redis x = x.missing x = string x = x.missing end
     deep(1)",
    "local function deep(n) if n < 220 then pcall(deep, n + 1) end
         local x get[n] = function() return x end x = getmetatable(_G) x = x.missing x = redis x = x[n] end
     deep(1)",
    // Each name, each value below it, each metatable.
    "for name, value in pairs(_G) do keep(name, value, getmetatable(value)) end",
    "local function walk(t, depth) keep(t, getmetatable(t)) if depth < 3 then for k, v in pairs(t) do
         if type(v) == 'table' then walk(v, depth + 1) end end end end walk(_G, 0)",
    "local k, v = next(_G) while k do keep(v, rawget(_G, k)) k, v = next(_G, k) end",
    "keep(getmetatable(_G), getmetatable(_G).__index, getmetatable(''), getmetatable('').__index)",
    "for _, t in ipairs({_G, redis, string, table, math, cjson, cmsgpack, bit, struct, os, coroutine}) do
         keep(t, getmetatable(t), rawget(t, '__index')) end",
    // Behind a metatable of the script's own.
    "local t = setmetatable({}, {__index = redis, __newindex = redis}) keep(t) t.call = nil",
    "local t = setmetatable({}, {__index = function(a, b) keep(a, b) return redis end}) keep(t.x, t[redis])",
    "local t = setmetatable({}, {__newindex = _G}) t.redis = 1 keep(t)",
    "local t = setmetatable({}, {__metatable = redis}) keep(getmetatable(t))",
    "local t = setmetatable({}, {__call = function(...) keep(...) return ... end}) keep(t(redis, string))",
    "local t = setmetatable({}, {__concat = function(a, b) keep(a, b) end}) local x = t .. redis",
    "local t = setmetatable({}, {__eq = function(a, b) keep(a, b) end}) local x = t == setmetatable({}, getmetatable(t))",
    "local t = setmetatable({}, {__mode = 'k'}) t[redis] = string for k, v in pairs(t) do keep(k, v) end",
    // Values of errors, through handlers and coroutines.
    "keep(pcall(error, redis)) keep(pcall(error, _G)) keep(pcall(function() error(string) end))",
    "keep(xpcall(function() local x = redis.call.x end, function(...) keep(...) return redis end))",
    "keep(xpcall(function() redis.call = 1 end, function(e) return e end))",
    "keep(pcall(redis.call, 'x', redis), pcall(redis.pcall, redis), redis.error_reply('x'), redis.status_reply('x'))",
    "keep(pcall(setmetatable, redis, {})) keep(pcall(rawset, _G, 'x', 1)) keep(pcall(table.insert, string, 1))",
    "local co = coroutine.create(function(a) keep(a) keep(coroutine.yield(redis)) error(_G) end)
     keep(coroutine.resume(co, string)) keep(coroutine.resume(co, cjson)) keep(coroutine.resume(co))",
    "local wrap = coroutine.wrap(function() local x get[1] = function() return x end
         for i = 1, 3 do x = redis x = x.y coroutine.yield(x) end end) wrap() wrap() pcall(wrap)",
    "for value in coroutine.wrap(function() for _, v in pairs(_G) do coroutine.yield(v) end end) do keep(value) end",
    // Callbacks from libraries, and their results.
    "string.gsub('abc', '.', function(c) keep(redis, c) return nil end)",
    "keep(string.gsub('redis string', '%a+', _G)) keep(pcall(string.gsub, 'x', 'x', redis))",
    "pcall(table.sort, {3, 2, 1}, function(a, b) local x get[1] = function() return x end x = _G x = x.y.z end)",
    "pcall(table.sort, redis) pcall(table.concat, redis) pcall(table.remove, redis) pcall(table.remove, string, 1)",
    "table.foreach(_G, function(k, v) keep(v) end)",
    "table.foreachi({redis, string}, function(k, v) keep(v) end)",
    "pcall(table.foreach, redis, function(k, v) keep(k, v) error(redis) end)",
    "keep(unpack({redis, string, _G})) keep(select(2, redis, string)) keep(pcall(unpack, redis))",
    "keep(pcall(cjson.encode, redis)) keep(pcall(cjson.encode, _G)) keep(pcall(cmsgpack.pack, string))",
    "keep(cjson.decode('{\"a\":[1]}'), cmsgpack.unpack(cmsgpack.pack({a = 1})))",
    "if cjson.new then keep(pcall(cjson.new)) end",
    // Compiled text, and its globals.
    "keep(loadstring('return redis, _G, string')()) pcall(loadstring('redis = nil')) pcall(loadstring('x = _G'))",
    "local parts = {'return ', 're', 'dis'} local n = 0 keep(load(function() n = n + 1 return parts[n] end)())",
    "pcall(loadstring('local x get = function() return x end x = redis x = x.y return x'))",
    // Values that a loop, a method call or a comparison stores in a register of its own.
    "for _, f in pairs(string) do keep(f) end for k in pairs(redis) do keep(redis[k]) end",
    "pcall(function() redis:call('x') end) pcall(function() string:rep(2) end) pcall(function() return redis < string end)",
    "local x = redis and string or table keep(x) local t = {redis, k = string} keep(t[1], t.k)",
    "local function variadic(...) keep(...) local t = {...} keep(t[1]) return ... end keep(variadic(redis, string))",
    "local function tail(t) return keep(t) end tail(redis) return tail(_G)",
];

/// Returns a library whose function `collect` executes a route, and whose function `write` changes the collected
/// tables.
fn attack(route: &str) -> String {
    format!(
        "local kept, get = {{}}, {{}}
        local function keep(...)
            for i = 1, select('#', ...) do
                local v = select(i, ...)
                if type(v) == 'table' then kept[#kept + 1] = v end
            end
            return ...
        end
        redis.register_function('collect', function() {route} end)
        redis.register_function('write', function()
            for _, getter in pairs(get) do keep((getter())) end
            for _, t in pairs(kept) do
                pcall(function() t.call = nil end)
                pcall(function() t.redis = nil end)
                pcall(function() t.written = 1 end)
                pcall(rawset, t, 'rep', 1)
                pcall(setmetatable, t, {{__index = t, __newindex = t}})
                pcall(table.insert, t, 1)
                pcall(table.remove, t)
                pcall(table.sort, t)
                pcall(function() for k in pairs(t) do t[k] = 1 end end)
            end
            kept, get = {{}}, {{}}
        end)"
    )
}

#[test]
fn no_way_of_the_language_leads_to_a_shared_table_that_can_be_written_even_for_functions_that_are_killed() {
    for route in ROUTES {
        let mut interpreter = Interpreter::new(VmKind::Functions);
        let describe = format!("{DESCRIBE} redis.register_function('describe', describe)");
        let describe = interpreter.load(&describe)[0].number;
        let before = interpreter.run(describe, 0);
        assert_is_read_only(&before);
        let functions = interpreter.load(&attack(route));
        let (collect, write) = (functions[0].number, functions[1].number);
        for killed_at in (1..=KILLS_MAX).chain([0]) {
            let ended = interpreter.run(collect, killed_at);
            interpreter.run(write, 0);
            let now = interpreter.run(describe, 0);
            assert!(now == before, "{}\n{route}\nkilled at instruction {killed_at}", difference(&before, &now));
            if killed_at > 0 && !ended.contains("Script killed") {
                break;
            }
        }
    }
}

#[test]
fn no_way_of_the_language_leads_to_a_shared_table_that_can_be_written_for_scripts() {
    let mut interpreter = Interpreter::new(VmKind::Eval);
    interpreter.define(1, &format!("{DESCRIBE} return describe()"));
    let before = interpreter.run(1, 0);
    assert_is_read_only(&before);
    for route in ROUTES {
        // A library's text as a script: the functions that it would register are called at once.
        let attack = attack(route).replace("redis.register_function('collect', ", "pcall(pcall, ");
        interpreter.define(2, &attack.replace("redis.register_function('write', ", "pcall(pcall, "));
        interpreter.run(2, 0);
        let now = interpreter.run(1, 0);
        assert!(now == before, "{}\n{route}", difference(&before, &now));
    }
}

#[test]
fn what_a_script_does_to_its_arguments_is_not_seen_by_the_next_one() {
    let mut interpreter = Interpreter::new(VmKind::Eval);
    interpreter.define(1, "return {#KEYS, #ARGV, KEYS[1], ARGV[1], tostring(getmetatable(KEYS)), tostring(KEYS.x)}");
    let before = interpreter.run(1, 0);
    assert!(before.contains("a key") && before.contains("an argument"), "{before}");
    for change in [
        "KEYS.x = 1 setmetatable(KEYS, {__index = function() return 'other' end}) KEYS[1] = nil",
        "for i = 1, 100 do ARGV[i] = 'other' KEYS[i] = 'other' end",
        "local x local get = function() return x end x = KEYS pcall(function() x = x[1].y.z end) get()[1] = 'other'",
        "setmetatable(ARGV, {__newindex = KEYS}) ARGV[2] = 'other' table.insert(KEYS, 1, 'other')",
    ] {
        interpreter.define(2, change);
        for killed_at in 0..100 {
            interpreter.run(2, killed_at);
            assert_eq!(interpreter.run(1, 0), before, "{change}, killed at instruction {killed_at}");
        }
    }
}
