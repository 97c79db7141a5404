//! Stories about EVAL and related commands: conversion of values, errors, the sandbox.

use super::script::tell;

#[test]
fn values_go_to_lua_and_back_as_in_redis() {
    tell("values", VALUES);
}

#[test]
fn errors_of_scripts_read_as_those_of_redis() {
    tell("errors", ERRORS);
}

#[test]
fn the_sandbox_refuses_what_redis_refuses() {
    tell("sandbox", SANDBOX);
}

#[test]
fn eval_and_script_take_and_refuse_what_redis_does() {
    tell("commands", COMMANDS);
}

#[test]
fn the_lock_scripts_of_well_known_libraries_do_here_what_they_do_there() {
    tell("locks", LOCKS);
}

const VALUES: &str = r##"
    EVAL "return 1" 0
    EVAL "return 3.99" 0
    EVAL "return -3.99" 0
    EVAL "return 'text'" 0
    EVAL "return ''" 0
    EVAL "return 'a\\0b\\r\\nc'" 0
    EVAL "return true" 0
    EVAL "return false" 0
    EVAL "return nil" 0
    EVAL "return" 0
    EVAL "" 0
    EVAL "return 1,2,3" 0
    EVAL "return {1,2,3}" 0
    EVAL "return {1,2,nil,4}" 0
    EVAL "return {1,{2,{3,{}}},'x',true,false}" 0
    EVAL "return {}" 0
    EVAL "local t = {} for i = 1, 900 do t = {t} end return t" 0
    EVAL "return {a=1}" 0
    EVAL "return {1,a=2}" 0
    EVAL "return {ok='fine'}" 0
    EVAL "return {ok='a\\r\\nb'}" 0
    EVAL "return {ok=1}" 0
    EVAL "return {err='MY error'}" 0
    EVAL "return {err='a\\r\\nb'}" 0
    EVAL "return {err=5}" 0
    EVAL "return {1,{err='INNER error'},{ok='INNER'}}" 0
    EVAL "return {double=3.5}" 0
    EVAL "return {double=1/0}" 0
    EVAL "return {double=-1/0}" 0
    EVAL "return {double=0.1}" 0
    EVAL "return {double='1'}" 0
    EVAL "return {big_number='12345678901234567890'}" 0
    EVAL "return {big_number='12\\r\\n34'}" 0
    EVAL "return {verbatim_string={format='txt',string='hello'}}" 0
    EVAL "return {verbatim_string={format='x',string='hello'}}" 0
    EVAL "return {verbatim_string={format='toolong',string=''}}" 0
    EVAL "return {verbatim_string={format='txt'}}" 0
    EVAL "return {map={a=1}}" 0
    EVAL "return {map={a={map={b=true}}}}" 0
    EVAL "return {map={}}" 0
    EVAL "return {set={a=true}}" 0
    EVAL "return {set={}}" 0
    EVAL "redis.setresp(3); return true" 0
    EVAL "redis.setresp(3); return false" 0
    EVAL "redis.setresp(3); return {true,false,nil}" 0
    EVAL "redis.setresp(3); return {map={a=true}}" 0
    EVAL "return 9007199254740993" 0
    EVAL "return 1e15" 0
    EVAL "return 2^53" 0
    EVAL "return 1/0" 0
    EVAL "return 0/0" 0
    EVAL "return -1e300" 0
    EVAL "return function() end" 0
    EVAL "return cjson.null" 0
    EVAL "return coroutine.create(function() end)" 0

    EVAL "return KEYS" 2 a b c d
    EVAL "return ARGV" 2 a b c d
    EVAL "return {#KEYS,#ARGV,KEYS[1],ARGV[1],KEYS[3]}" 1 a "\x00\xff\r\n"
    EVAL "KEYS[1]='changed' ARGV[2]='new' return {KEYS[1],ARGV[1],ARGV[2]}" 1 a b
    EVAL "return {#KEYS,#ARGV}" 0
    EVAL "table.insert(KEYS,'x') return #KEYS" 1 a
    EVAL "return #KEYS" 1 a
    EVAL "KEYS={} return 1" 0

    SET k value
    EVAL "return redis.call('GET','k')" 0
    EVAL "return redis.call('get',KEYS[1])" 1 k
    EVAL "return redis.call('GET','none')" 0
    EVAL "return type(redis.call('GET','none'))" 0
    EVAL "return type(redis.call('GET','none')) .. tostring(redis.call('GET','none'))" 0
    EVAL "return redis.call('SET','k','1').ok" 0
    EVAL "return redis.call('INCRBY','k',5)" 0
    EVAL "return redis.call('INCRBY','k',5.0)" 0
    EVAL "return redis.pcall('INCRBY','k',5.5).err" 0
    EVAL "return redis.call('SET','k',0.1)" 0
    GET k
    EVAL "return redis.call('SET','k',1e20)" 0
    GET k
    EVAL "return redis.call('SET','k',2^63)" 0
    GET k
    EVAL "return redis.call('SET','k',123456789012)" 0
    GET k
    EVAL "return redis.call('SET','k',1/0)" 0
    GET k
    EVAL "return redis.call('SET','k',0/0)" 0
    GET k
    EVAL "return redis.call('MGET','k','none','k')" 0
    EVAL "return redis.call('MSET','a','1','b','2')" 0
    EVAL "local r = redis.call('MGET','a','b','c') return {#r, r[1], r[2], r[3]}" 0
    EVAL "return redis.call('PING')" 0
    EVAL "return redis.call('PING','hello')" 0
    EVAL "return redis.call('ECHO','a\\0b')" 0
    EVAL "return redis.call('INCRBYFLOAT','f','1.5')" 0
    EVAL "return redis.call('TYPE','a')" 0
    EVAL "return redis.call('EXISTS','a','b','nope')" 0
    EVAL "redis.setresp(3) return redis.call('GET','none')" 0
    EVAL "redis.setresp(3) return type(redis.call('GET','none'))" 0
    EVAL "redis.setresp(2) return type(redis.call('GET','none'))" 0
    EVAL "redis.setresp(3) local r = redis.call('CONFIG','GET','maxclients') return 1" 0
    EVAL "redis.setresp(3) local r = redis.call('LCS','a','b','IDX') return {type(r), type(r.map), r.map.len}" 0
    EVAL "local r = redis.call('LCS','a','b','IDX') return r" 0
    EVAL "redis.setresp(3) return redis.call('LCS','a','b','IDX').map.len" 0
    EVAL "redis.setresp(3) redis.setresp(2) return redis.call('GET','none')" 0
    EVAL "return redis.call('SELECT',1)" 0
    GET a
    EVAL "redis.call('SELECT',1) redis.call('SET','other','db')" 0
    GET other
    SELECT 1
    GET other
    SELECT 0
"##;

const ERRORS: &str = r##"
    EVAL "error('text')" 0
    EVAL "error('text',0)" 0
    EVAL "error('text',2)" 0
    EVAL "error()" 0
    EVAL "error(nil)" 0
    EVAL "error(42)" 0
    EVAL "error({err='MY table'})" 0
    EVAL "error({err='one'})" 0
    EVAL "error('a\\r\\nb')" 0
    EVAL "return error('tail')" 0
    EVAL "\n\n error('third line')" 0
    EVAL "local function f() error('inside') end f()" 0
    EVAL "local function f()\n error('inside')\n end\n f()" 0
    EVAL "local x = nil; return x.y" 0
    EVAL "return 1 + nil" 0
    EVAL "return 1 + {}" 0
    EVAL "return 'a' + 1" 0
    EVAL "return #5" 0
    EVAL "return {} .. 'x'" 0
    EVAL "return {} < {}" 0
    EVAL "return 1 < 'x'" 0
    EVAL "local t = setmetatable({},{__index=function() error('meta') end}) return t.x" 0
    EVAL "return nosuch()" 0
    EVAL "local f = 5 f()" 0
    EVAL "return redis.nosuch()" 0
    EVAL "return ('x'):nosuch()" 0
    EVAL "assert(false)" 0
    EVAL "assert(false,'message')" 0
    EVAL "assert(nil,'message')" 0
    EVAL "return assert(5,'message')" 0
    EVAL "syntax error here" 0
    EVAL "return 'unfinished" 0
    EVAL "if true then" 0
    EVAL "\n\nreturn )" 0
    EVAL "for i=1,2 do break end goto x" 0
    EVAL "return 0x1F" 0
    EVAL "local a <const> = 1" 0
    EVAL "return string.rep()" 0
    EVAL "return string.rep('x')" 0
    EVAL "return string.rep('x',{})" 0
    EVAL "return string.rep(nil,1)" 0
    EVAL "return ('x'):rep(nil)" 0
    EVAL "local r = string.rep('ab',3) return r" 0
    EVAL "local r = string.rep('ab',-3) return r" 0
    EVAL "local r = string.rep(12,2) return r" 0
    EVAL "local r = string.rep('ab','2') return r" 0
    EVAL "for k in pairs(nil) do end" 0
    EVAL "for k in ipairs(nil) do end" 0
    EVAL "for k in pairs('x') do end" 0
    EVAL "for k in nil do end" 0
    EVAL "table.insert(nil,1)" 0
    EVAL "table.insert({},'x',1)" 0
    EVAL "table.insert({})" 0
    EVAL "table.insert({},1,2,3)" 0
    EVAL "table.concat({{}})" 0
    EVAL "table.sort({3,1,'x'})" 0
    EVAL "local t = {3,1,2} table.insert(t,1,9) table.insert(t,7) table.sort(t) return t" 0
    EVAL "setmetatable(1,{})" 0
    EVAL "setmetatable({},1)" 0
    EVAL "local x = setmetatable({},nil) return 'fine'" 0
    EVAL "setmetatable({})" 0
    EVAL "local x = tonumber({})" 0
    EVAL "local x = tonumber('z',99)" 0
    EVAL "return tonumber('0x10')" 0
    EVAL "return tonumber('ff',16)" 0
    EVAL "return tonumber('nope')" 0
    EVAL "return tostring(nil) .. tostring(1.5) .. tostring(1e100) .. tostring(2^53)" 0
    EVAL "return select('#',1,nil,nil)" 0
    EVAL "local x = select(0)" 0
    EVAL "return {select(-1,1,2,3)}" 0
    EVAL "return {unpack({1,2,3},2)}" 0
    EVAL "local function f() return f() end f()" 10
    EVAL "local function f() return 1 + f() end f()" 0
    EVAL "return string.format('%d %s %5.2f %q %x', 42, 'x', 3.14159, 'a\\nb', 255)" 0
    EVAL "return string.format('%d','x')" 0
    EVAL "return string.find('hello','(l)(l)')" 0
    EVAL "return {string.find('hello','(l)(l)')}" 0
    EVAL "local x = string.find('hello','(')" 0
    EVAL "local x = string.gsub('hello','l','%9')" 0
    EVAL "return {string.gsub('hello','l','L')}" 0

    EVAL "return redis.call('nosuch')" 0
    EVAL "return redis.call('GET')" 0
    EVAL "return redis.call('GET','a','b')" 0
    EVAL "return redis.call()" 0
    EVAL "return redis.pcall()" 0
    EVAL "return redis.call({})" 0
    EVAL "return redis.call('GET',{})" 0
    EVAL "return redis.call('GET',nil)" 0
    EVAL "return redis.call('GET',true)" 0
    EVAL "return redis.pcall('GET',true)" 0
    EVAL "return redis.pcall('nosuch')" 0
    EVAL "return redis.pcall('nosuch').err" 0
    EVAL "return redis.pcall('GET').err" 0
    EVAL "return redis.call('MULTI')" 0
    EVAL "return redis.call('EXEC')" 0
    EVAL "return redis.call('WATCH','a')" 0
    EVAL "return redis.call('EVAL','return 1',0)" 0
    EVAL "return redis.call('EVALSHA','x',0)" 0
    EVAL "return redis.call('SCRIPT','FLUSH')" 0
    EVAL "return redis.call('FUNCTION','FLUSH')" 0
    EVAL "return redis.call('FCALL','x',0)" 0
    EVAL "return redis.call('SCRIPT')" 0
    EVAL "return redis.call('SCRIPT','NOSUCH')" 0
    EVAL "return redis.call('CONFIG','SET','hz','10')" 0
    EVAL "return redis.call('AUTH','x')" 0
    EVAL "return redis.call('HELLO','3')" 0
    EVAL "return redis.call('RESET')" 0
    EVAL "return redis.call('QUIT')" 0
    EVAL "return redis.call('CLIENT','ID')" 0
    EVAL "return redis.pcall('MULTI').err" 0
    SET k text
    EVAL "return redis.call('INCR','k')" 0
    EVAL "return redis.pcall('INCR','k')" 0
    EVAL "return redis.pcall('INCR','k').err" 0
    EVAL "return {redis.pcall('INCR','k')}" 0
    EVAL "local e = redis.pcall('INCR','k') return tostring(e.ignore_error_stats_update)" 0
    EVAL "local ok, e = pcall(redis.call,'INCR','k') return {tostring(ok), type(e), e}" 0
    EVAL "local ok, e = pcall(redis.call,'nosuch') return {tostring(ok), type(e), e}" 0
    EVAL "local ok, e = pcall(redis.pcall,'nosuch') return {tostring(ok), type(e), e.err}" 0
    EVAL "local ok, e = pcall(error,'plain') return {tostring(ok), type(e), e}" 0
    EVAL "local ok, e = pcall(error,{err='table'}) return {tostring(ok), type(e), e}" 0
    EVAL "local ok, e = pcall(error,{code=5}) return {tostring(ok), type(e), e.code}" 0
    EVAL "local ok, e = pcall(function() local x = nil; return x.y end) return e" 0
    EVAL "local ok, e = pcall(function() error('in') end) return e" 0
    EVAL "local ok, e = xpcall(function() redis.call('nosuch') end, function(e) return {e=e} end) return {type(e.e), e.e.err}" 0
    EVAL "local ok, e = xpcall(function() error('x') end, function(e) return 'handled ' .. e end) return e" 0
    EVAL "return {xpcall(function() return 1,2 end, function(e) return e end)}" 0
    EVAL "return {pcall(function(...) return ... end, 1, 2)}" 0
    EVAL "local co = coroutine.create(function() redis.call('nosuch') end) local ok, e = coroutine.resume(co) return {tostring(ok), type(e), e.err}" 0
    EVAL "local co = coroutine.wrap(function() redis.call('nosuch') end) co()" 0
    EVAL "local co = coroutine.wrap(function(a) local b = coroutine.yield(a+1) return b*2 end) return {co(1), co(10)}" 0
    EVAL "local co = coroutine.create(function() return redis.call('GET','k') end) return {coroutine.resume(co)}" 0
    EVAL "redis.call('SET','done','1') error('after a write')" 0
    GET done
    EVAL "local function f() redis.call('nosuch') end\n f()" 0
    EVAL "\n\nlocal x = redis.call('INCR','k')\nreturn x" 0

    EVAL "return redis.error_reply('MY text')" 0
    EVAL "return redis.error_reply('-MY text')" 0
    EVAL "return redis.error_reply('text')" 0
    EVAL "return redis.error_reply('')" 0
    EVAL "return redis.error_reply('MY a\\r\\nb\\r\\n')" 0
    EVAL "return redis.error_reply(5)" 0
    EVAL "return redis.error_reply()" 0
    EVAL "return redis.error_reply('a','b')" 0
    EVAL "return redis.error_reply('MY text').err" 0
    EVAL "return redis.status_reply('FINE')" 0
    EVAL "return redis.status_reply('two words')" 0
    EVAL "return redis.status_reply()" 0
    EVAL "return redis.status_reply(5)" 0
    EVAL "return redis.status_reply('x').ok" 0
    EVAL "error(redis.error_reply('MY raised'))" 0
    EVAL "return redis.sha1hex('')" 0
    EVAL "return redis.sha1hex('return 1')" 0
    EVAL "return redis.sha1hex(12)" 0
    EVAL "return redis.sha1hex()" 0
    EVAL "return redis.sha1hex('a','b')" 0
    EVAL "return redis.sha1hex({})" 0
    EVAL "return redis.setresp()" 0
    EVAL "return redis.setresp(4)" 0
    EVAL "return redis.setresp('3')" 0
    EVAL "return redis.setresp(3,3)" 0
    EVAL "return redis.set_repl(redis.REPL_ALL)" 0
    EVAL "return redis.set_repl(redis.REPL_NONE)" 0
    EVAL "return redis.set_repl(4)" 0
    EVAL "return redis.set_repl()" 0
    EVAL "return {redis.REPL_NONE,redis.REPL_AOF,redis.REPL_SLAVE,redis.REPL_REPLICA,redis.REPL_ALL}" 0
    EVAL "return {redis.LOG_DEBUG,redis.LOG_VERBOSE,redis.LOG_NOTICE,redis.LOG_WARNING}" 0
    EVAL "return redis.log(redis.LOG_DEBUG,'x')" 0
    EVAL "return redis.log(redis.LOG_DEBUG)" 0
    EVAL "return redis.log('x','y')" 0
    EVAL "return redis.log(9,'y')" 0
    EVAL "return redis.log(-1,'y')" 0
    EVAL "return redis.replicate_commands()" 0
    EVAL "return redis.breakpoint()" 0
    EVAL "return redis.debug('x')" 0
    EVAL "return redis.acl_check_cmd('GET','x')" 0
    EVAL "return redis.acl_check_cmd('nosuch')" 0
    EVAL "return redis.acl_check_cmd()" 0
    EVAL "return redis.acl_check_cmd({})" 0
"##;

const SANDBOX: &str = r##"
    EVAL "x = 1" 0
    EVAL "return x" 0
    EVAL "local x = 1 return x" 0
    EVAL "function f() end" 0
    EVAL "_G.x = 1" 0
    EVAL "_G['x'] = 1" 0
    EVAL "rawset(_G,'x',1)" 0
    EVAL "local x = rawget(_G,'x') return tostring(x)" 0
    EVAL "return type(rawget(_G,'redis'))" 0
    EVAL "redis = {}" 0
    EVAL "redis.call = nil" 0
    EVAL "redis.x = 1" 0
    EVAL "string.x = 1" 0
    EVAL "string.len = nil" 0
    EVAL "table.insert(string,1)" 0
    EVAL "table.insert(_G,1)" 0
    EVAL "math.pi = 3" 0
    EVAL "cjson.encode = nil" 0
    EVAL "cmsgpack.x = 1" 0
    EVAL "struct.x = 1" 0
    EVAL "bit.x = 1" 0
    EVAL "coroutine.x = 1" 0
    EVAL "setmetatable(_G,{})" 0
    EVAL "setmetatable(_G,nil)" 0
    EVAL "setmetatable(string,{})" 0
    EVAL "setmetatable(redis,{__index=function() return 1 end})" 0
    EVAL "getmetatable(_G).__index = nil" 0
    EVAL "getmetatable('').__index = nil" 0
    EVAL "getmetatable('').__add = function() return 1 end" 0
    EVAL "return type(getmetatable(''))" 0
    EVAL "return type(getmetatable(_G))" 0
    EVAL "return type(getmetatable(redis))" 0
    EVAL "return type(getmetatable({}))" 0
    EVAL "return type(getmetatable(setmetatable({},{})))" 0
    EVAL "return getmetatable(setmetatable({},{__metatable='locked'}))" 0
    EVAL "setmetatable(setmetatable({},{__metatable='locked'}),{})" 0
    EVAL "return tostring(_G._G == _G)" 0
    EVAL "return _VERSION" 0
    EVAL "return {type(_G),type(redis),type(string),type(table),type(math),type(cjson),type(bit),type(struct),type(cmsgpack),type(coroutine)}" 0
    EVAL "local n=0 for k,v in pairs(math) do n=n+1 end return n" 0
    EVAL "local n=0 for k,v in pairs(string) do n=n+1 end return n" 0
    EVAL "local t={} for k,v in pairs(table) do t[#t+1]=k end table.sort(t) return t" 0
    EVAL "local t={} for k,v in pairs(cjson) do t[#t+1]=k end table.sort(t) return t" 0
    EVAL "local t={} for k,v in pairs(bit) do t[#t+1]=k end table.sort(t) return t" 0
    EVAL "local t={} for k,v in pairs(redis) do t[#t+1]=k end table.sort(t) return t" 0
    EVAL "return type(next(redis))" 0
    EVAL "return {next({})}" 0
    EVAL "return {next({5})}" 0
    EVAL "local x = next(nil)" 0
    EVAL "return print" 0
    EVAL "return require" 0
    EVAL "return module" 0
    EVAL "return package" 0
    EVAL "return dofile" 0
    EVAL "return loadfile" 0
    EVAL "return io" 0
    EVAL "return debug" 0
    EVAL "return setfenv" 0
    EVAL "return getfenv" 0
    EVAL "return newproxy" 0
    EVAL "return type(gcinfo()) .. type(collectgarbage('count'))" 0
    EVAL "return collectgarbage('collect')" 0
    EVAL "collectgarbage('nosuch')" 0
    EVAL "return loadstring('return 5')()" 0
    EVAL "return loadstring('return KEYS[1]')()" 1 k
    EVAL "return {loadstring('syntax error')}" 0
    EVAL "local f, e = loadstring('syntax error') return e" 0
    EVAL "local f, e = loadstring('syntax error','@name') return e" 0
    EVAL "local f, e = loadstring(string.dump(function() return 1 end)) return {tostring(f), e}" 0
    EVAL "local f, e = loadstring('\27Lua') return {tostring(f), e}" 0
    EVAL "local f, e = loadstring('\27Lua','@x') return {tostring(f), e}" 0
    EVAL "\x1bLuaQ" 0
    EVAL "return load(function() return nil end)" 0
    EVAL "local parts = {'return ', '7'} local i = 0 return load(function() i = i + 1 return parts[i] end)()" 0
    EVAL "loadstring('x=1')()" 0
    EVAL "loadstring('return y')()" 0
    EVAL "return string.dump(string.len)" 0
    EVAL "return type(string.dump(function() end))" 0
    EVAL "return rawequal(_G,_G)" 0
    EVAL "return __redis__err__handler('x')" 0
    EVAL "local a = math.random() return 1" 0
    EVAL "math.randomseed(7) local a = math.random(1000) math.randomseed(7) return {a == math.random(1000)}" 0
    EVAL "math.randomseed(42) return {math.random(100),math.random(100),math.random(10,20),tostring(math.random())}" 0
    EVAL "math.randomseed(1) local t = {} for i=1,20 do t[i] = math.random(1,1000000) end return t" 0
    EVAL "math.random(0)" 0
    EVAL "math.random(2,1)" 0
    EVAL "math.random(1,2,3)" 0
    EVAL "math.random('x')" 0
    EVAL "return {math.floor(3.7),math.ceil(3.2),math.max(1,5,3),math.min(4,2),math.abs(-3),math.fmod(7,3),math.huge > 1}" 0
    EVAL "return tostring(math.sqrt(2)) .. tostring(math.pi)" 0
    EVAL "return table.concat({1,2,'x'},', ')" 0
    EVAL "return {table.remove({1,2,3})}" 0
    EVAL "return table.maxn({1,2,[10]=3})" 0
    EVAL "return table.getn({1,2})" 0
    EVAL "table.setn({},1)" 0
    EVAL "local t = {} table.foreach({a=1},function(k,v) t[1]=k t[2]=v end) return t" 0
    EVAL "local t = {} for w in string.gmatch('one two','%a+') do t[#t+1]=w end return t" 0
    EVAL "return {('x'):byte(), string.char(65,66), ('Abc'):upper(), ('Abc'):lower(), ('abc'):reverse(), ('abcdef'):sub(2,-2), #'abc'}" 0
"##;

const COMMANDS: &str = r##"
    EVAL
    EVAL "return 1"
    EVAL "return 1" x
    EVAL "return 1" 1
    EVAL "return 1" -1
    EVAL "return 1" 2 a
    EVAL "return 1" 9999999999999999999
    EVAL "return 1" 1.5
    EVALSHA
    EVALSHA abc
    EVALSHA abc 0
    EVALSHA abc x
    EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
    EVALSHA ffffffffffffffffffffffffffffffffffffffff x
    SCRIPT LOAD "return 1"
    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db x
    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 5
    EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db E0E1F9FABFC9D4800C877A703B823AC0578FF8DB nosuch
    SCRIPT FLUSH
    SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    EVAL "return 1" 0
    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    SCRIPT FLUSH ASYNC
    SCRIPT FLUSH SYNC
    SCRIPT FLUSH NOW
    SCRIPT FLUSH SYNC SYNC
    SCRIPT LOAD
    SCRIPT LOAD "a" "b"
    SCRIPT LOAD "syntax error"
    SCRIPT LOAD ""
    SCRIPT EXISTS
    SCRIPT KILL
    SCRIPT KILL x
    SCRIPT DEBUG NO
    SCRIPT DEBUG maybe
    SCRIPT NOSUCH
    SCRIPT
    FUNCTION KILL
    EVAL_RO "return redis.call('GET','x')" 0
    EVAL_RO "return redis.call('SET','x','y')" 0
    EVAL_RO "return redis.pcall('SET','x','y').err" 0
    EVAL_RO "return redis.call('DEL','x')" 0
    EVAL_RO "return redis.call('PFCOUNT','x')" 0
    EVAL_RO "return redis.call('PFADD','x','y')" 0
    EVAL "return redis.call('PFCOUNT','x')" 0
    EXISTS x

    EVAL "#!lua\nreturn 1" 0
    EVAL "#!lua flags=no-writes\nreturn redis.call('GET','x')" 0
    EVAL "#!lua flags=no-writes\nreturn redis.call('SET','x','y')" 0
    EVAL "#!lua flags=no-writes,allow-stale,allow-oom,no-cluster,allow-cross-slot-keys\nreturn 2" 0
    EVAL "#!lua flags=nosuch\nreturn 1" 0
    EVAL "#!lua flags=\nreturn 1" 0
    EVAL "#!lua flags=no-writes,\nreturn 1" 0
    EVAL "#!lua name=x\nreturn 1" 0
    EVAL "#!lua nosuch=x\nreturn 1" 0
    EVAL "#!Lua\nreturn 1" 0
    EVAL "#!python\nreturn 1" 0
    EVAL "#!\nreturn 1" 0
    EVAL "#! lua\nreturn 1" 0
    EVAL "#!lua return 1" 0
    EVAL "#!lua \"open\nreturn 1" 0
    EVAL "#!lua\nerror('second line')" 0
    EVAL "#!lua\nsyntax error" 0
    EVAL "#\nreturn 1" 0
    EVAL_RO "#!lua\nreturn 1" 0
    EVAL_RO "#!lua flags=no-writes\nreturn 1" 0
    EVAL_RO "#!lua flags=no-writes\nreturn redis.call('SET','x','y')" 0
    SCRIPT LOAD "#!lua flags=nosuch\nreturn 1"
    SCRIPT LOAD "#!lua\nreturn 1"

    MULTI
    EVAL "return redis.call('INCR','n')" 0
    EVAL "error('x')" 0
    EVAL "syntax error" 0
    EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
    SCRIPT LOAD "return 2"
    INCR n
    EXEC
    MULTI
    EVAL "return redis.call('MULTI')" 0
    EXEC
    WATCH n
    EVAL "return redis.call('INCR','n')" 0
    MULTI
    GET n
    EXEC
    WATCH n
    b: EVAL "return redis.call('SET','n','5')" 0
    MULTI
    GET n
    EXEC
    MULTI
    EVAL
    EXEC
    EVAL "redis.call('SET','t','v','PX',100000) return redis.call('PTTL','t') > 99000" 0
    EVAL "redis.call('SET','t','v') redis.call('PEXPIRE','t',-1) return redis.call('EXISTS','t')" 0
    EVAL "return redis.call('SET','l',string.rep('x',100000))" 0
    STRLEN l
    EVAL "return redis.call('GET','l')" 0
    EVAL "return #redis.call('GET','l')" 0
    EVAL "for i=1,1000 do redis.call('INCR','loop') end return redis.call('GET','loop')" 0
    EVAL "local t = {} for i=1,500 do t[i] = 'item' .. i end return t" 0
    EVAL "return redis.call('FLUSHALL')" 0
    EVAL "return redis.call('DBSIZE')" 0
"##;

const LOCKS: &str = r##"
    SET lock token NX PX 30000
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock other
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock token
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock token
    SET lock token PX 30000
    EVAL "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"pexpire\", KEYS[1], ARGV[2]) else return 0 end" 1 lock token 60000
    EVAL "return redis.call('pttl','lock') > 30000" 0
    EVAL "\n-- Return 1 if the lock was set and 0 otherwise.\nif redis.call('exists', KEYS[1]) == 1 then\n return 0\nend\nredis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])\nreturn 1\n" 1 res value 1000
    EVAL "\nfor i, key in ipairs(KEYS) do\n if redis.call('exists', key) == 1 then return 0 end\nend\nfor i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end\nreturn #KEYS\n" 2 r1 r2 v 5000
    EVAL "local count = 0\nfor i, key in ipairs(KEYS) do\n if redis.pcall('get', key) == ARGV[1] then redis.pcall('del', key) count = count + 1 end\nend\nreturn count" 3 r1 r2 r3 v
    EVAL "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then return 0 end\nlocal expiration = redis.call('pttl', KEYS[1])\nif not expiration then expiration = 0 end\nif expiration < 0 then return 0 end\nlocal newttl = ARGV[2]\nif ARGV[3] == '0' then newttl = ARGV[2] + expiration end\nredis.call('pexpire', KEYS[1], newttl)\nreturn 1" 1 lock token 1000 0
    EVAL "local current = redis.call('incr',KEYS[1])\nif tonumber(current) == 1 then redis.call('expire',KEYS[1],ARGV[1]) end\nreturn current" 1 rate 10
    EVAL "local current = redis.call('incr',KEYS[1])\nif tonumber(current) == 1 then redis.call('expire',KEYS[1],ARGV[1]) end\nreturn current" 1 rate 10
    EVAL "local v = redis.call('get',KEYS[1]) if v == false then return redis.call('set',KEYS[1],ARGV[1],'NX') end if v == ARGV[1] then return redis.status_reply('OK') end return redis.error_reply('LOCKED by ' .. v)" 1 cas me
    EVAL "local v = redis.call('get',KEYS[1]) if v == false then return redis.call('set',KEYS[1],ARGV[1],'NX') end if v == ARGV[1] then return redis.status_reply('OK') end return redis.error_reply('LOCKED by ' .. v)" 1 cas you
"##;
