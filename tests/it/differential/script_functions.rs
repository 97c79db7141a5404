//! Stories about FUNCTION and FCALL, and libraries exchanged between the servers.

use super::oracle::Arena;
use super::script::tell;

#[test]
fn functions_are_loaded_listed_called_and_removed_as_in_redis() {
    tell("functions", FUNCTIONS);
}

#[test]
fn what_is_wrong_with_a_library_is_said_as_redis_says_it() {
    tell("wrong", WRONG);
}

#[test]
fn libraries_that_redis_has_dumped_are_restored_and_the_other_way_round() {
    let Some(arena) = Arena::open() else { return };
    let code =
        format!("#!lua name=long\n{}redis.register_function('answer', function() return 42 end)", " ".repeat(500));
    let mut pair = arena.pair();
    for library in [&code[..], "#!lua name=short\nredis.register_function('half', function() return 21 end)"] {
        let replies = pair.call(&["FUNCTION", "LOAD", library]);
        assert!(replies.agree(), "{}", replies.shown());
    }
    let dumps = pair.call(&["FUNCTION", "DUMP"]);
    let payload = |reply: Option<Vec<u8>>| {
        let reply = reply.expect("a payload");
        let start = reply.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
        reply[start..reply.len() - 2].to_vec()
    };
    for payload in [payload(dumps.redis), payload(dumps.keylatch)] {
        let calls: [&[&[u8]]; 7] = [
            &[b"FUNCTION", b"RESTORE", &payload],
            &[b"FUNCTION", b"RESTORE", &payload, b"REPLACE"],
            &[b"FUNCTION", b"FLUSH"],
            &[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"],
            &[b"FCALL", b"answer", b"0"],
            &[b"FCALL", b"half", b"0"],
            &[b"FUNCTION", b"RESTORE", &payload[1..]],
        ];
        for call in calls {
            let replies = pair.call(call);
            let is_collision = replies.redis.as_ref().is_some_and(|reply| reply.starts_with(b"-ERR Library "));
            assert!(replies.agree() || is_collision, "{}", replies.shown());
        }
    }
}

const FUNCTIONS: &str = r##"
    FUNCTION FLUSH
    FUNCTION LIST
    FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function(keys, args) return {keys, args} end)"
    FCALL f 0
    FCALL f 1 a b
    FCALL f 2 a b
    FCALL F 0
    FCALL nosuch 0
    FCALL f x
    FCALL f -1
    FCALL f 5 a
    FCALL f
    FCALL_RO f 0
    FUNCTION LIST
    FUNCTION LIST WITHCODE
    FUNCTION LIST LIBRARYNAME li*
    FUNCTION LIST LIBRARYNAME LI*
    FUNCTION LIST LIBRARYNAME nosuch
    FUNCTION LIST LIBRARYNAME lib WITHCODE
    FUNCTION LIST LIBRARYNAME
    FUNCTION LIST NOSUCH
    FUNCTION LIST WITHCODE WITHCODE
    FUNCTION STATS
    FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function() return 2 end)"
    FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('f', function() return 2 end)"
    FCALL f 0
    FUNCTION LOAD replace REPLACE "#!lua name=lib\nredis.register_function('g', function() return 3 end)"
    FCALL f 0
    FCALL g 0
    FUNCTION LOAD "#!lua name=other\nredis.register_function('g', function() return 4 end)"
    FUNCTION LOAD REPLACE "#!lua name=lib\nsyntax error"
    FUNCTION LOAD REPLACE "#!lua name=lib\nerror('x')"
    FUNCTION LOAD REPLACE "#!lua name=lib\nlocal x = 1"
    FCALL g 0
    FUNCTION DELETE nosuch
    FUNCTION DELETE lib
    FCALL g 0
    FUNCTION DELETE lib
    FUNCTION STATS

    FUNCTION FLUSH
    FUNCTION LOAD "#!lua name=flags\nredis.register_function{function_name='ro', callback=function(keys) return redis.call('GET',keys[1]) end, flags={'no-writes'}, description='reads'}\nredis.register_function{function_name='bad', callback=function(keys) return redis.call('SET',keys[1],'x') end, flags={'no-writes'}}"
    FCALL ro 1 k
    FCALL_RO ro 1 k
    FCALL bad 1 k
    FCALL_RO bad 1 k
    FUNCTION DELETE flags
    FUNCTION LOAD "#!lua name=one\nredis.register_function{function_name='all', description='d', callback=function() return 1 end, flags={'no-writes','allow-oom','allow-stale','no-cluster','allow-cross-slot-keys'}}"
    ~ FUNCTION LIST
    FCALL all 0
    FUNCTION DELETE one
    FUNCTION LOAD "#!lua name=two\nlocal n = 0\nredis.register_function('count', function() n = n + 1 return n end)"
    FCALL count 0
    FCALL count 0
    FUNCTION DELETE two
    FUNCTION LOAD "#!lua name=three\nlocal function helper(x) return x * 2 end\nredis.register_function('double', function(keys, args) return helper(tonumber(args[1])) end)\n"
    FCALL double 0 21
    FCALL double 0
    EVAL "return redis.call('FCALL','double',0,'1')" 0
    EVAL "return redis.register_function" 0
    EVAL "redis.register_function('f', function() end)" 0
    MULTI
    FCALL double 0 4
    FUNCTION STATS
    EXEC

    FUNCTION FLUSH
    FUNCTION LOAD "#!lua name=globals\nredis.register_function('g1', function() return x end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() x = 1 end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() return {type(string.len), type(redis.call), type(cjson.encode), type(KEYS)} end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() redis.register_function('g2', function() end) end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() return redis.breakpoint end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() return redis.call('nosuch') end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function()\n error('third line') end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() redis.setresp(3) return {double=1.5} end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.register_function('g1', function() return redis.pcall('INCR','s') end)"
    SET s text
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nlocal v = redis.REDIS_VERSION_NUM > 0 redis.register_function('g1', function() return v end)"
    FCALL g1 0
    FUNCTION LOAD REPLACE "#!lua name=globals\nredis.log(redis.LOG_DEBUG, 'loading') redis.register_function('g1', function() return 1 end)"
    FCALL g1 0

    FUNCTION FLUSH ASYNC
    FUNCTION FLUSH SYNC
    FUNCTION FLUSH NOW
    FUNCTION FLUSH SYNC SYNC
    FUNCTION DUMP
    FUNCTION DUMP x
    FUNCTION RESTORE
    FUNCTION RESTORE x
    FUNCTION RESTORE x y
    FUNCTION RESTORE x FLUSH
    FUNCTION RESTORE x FLUSH y
    FUNCTION RESTORE "\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    FUNCTION KILL
    FUNCTION STATS x
    FUNCTION NOSUCH
    FUNCTION
    FUNCTION LOAD
    FUNCTION DELETE
"##;

const WRONG: &str = r##"
    FUNCTION FLUSH
    FUNCTION LOAD "return 1"
    FUNCTION LOAD ""
    FUNCTION LOAD "#!lua"
    FUNCTION LOAD "#!lua name=x"
    FUNCTION LOAD "#!lua\nreturn 1"
    FUNCTION LOAD "#!\nreturn 1"
    FUNCTION LOAD "#!lua name=\nreturn 1"
    FUNCTION LOAD "#!lua name=a-b\nreturn 1"
    FUNCTION LOAD "#!lua name='a b'\nreturn 1"
    FUNCTION LOAD "#!lua name=a name=b\nreturn 1"
    FUNCTION LOAD "#!lua NAME=a\nreturn 1"
    FUNCTION LOAD "#!lua name=a engine=b\nreturn 1"
    FUNCTION LOAD "#!python name=a\nreturn 1"
    FUNCTION LOAD "#!LUA name=upper\nredis.register_function('u', function() return 1 end)"
    FUNCTION LOAD "#!lua \"name=a\nreturn 1"
    FUNCTION LOAD REPLACE
    FUNCTION LOAD NOSUCH "#!lua name=a\nreturn 1"
    FUNCTION LOAD REPLACE NOSUCH "#!lua name=a\nreturn 1"
    FUNCTION LOAD "#!lua name=a\nredis.register_function()"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('f')"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('f', 1)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('f', function() end, 1)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function({}, function() end)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('a-b', function() end)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('', function() end)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function('f', function() end) redis.register_function('f', function() end)"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f'}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{callback=function() end}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name={}, callback=function() end}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=1}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, flags='x'}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, flags={'x'}}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, flags={1}}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, description={}}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, nosuch=1}"
    FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='f', callback=function() end, [{}]=1}"
    FUNCTION LOAD "#!lua name=a\nredis.call('GET','x')"
    FUNCTION LOAD "#!lua name=a\nredis.pcall('GET','x')"
    FUNCTION LOAD "#!lua name=a\nredis.setresp(3)"
    FUNCTION LOAD "#!lua name=a\nredis.nosuch()"
    FUNCTION LOAD "#!lua name=a\nstring.len('x')"
    FUNCTION LOAD "#!lua name=a\nx = 1"
    FUNCTION LOAD "#!lua name=a\nfunction f() end"
    FUNCTION LOAD "#!lua name=a\nredis.x = 1"
    FUNCTION LOAD "#!lua name=a\nredis.register_function = 1"
    FUNCTION LOAD "#!lua name=a\nerror('x')"
    FUNCTION LOAD "#!lua name=a\nsyntax error"
    FUNCTION LOAD "#!lua name=a\nreturn 1"
    FUNCTION LIST
"##;
