//! Stories about the functions that scripts call: replaced functions of Lua, functions of Redis, and all forms of
//! replies that they get from commands.

use super::script::tell;

#[test]
fn functions_take_and_refuse_what_those_of_redis_do() {
    tell("functions", FUNCTIONS);
}

const FUNCTIONS: &str = r##"
    EVAL "local co=coroutine.create(function() error('x') end) coroutine.resume(co) return {select(2,coroutine.resume(co))}" 0
    EVAL "local co=coroutine.wrap(function() error('x') end) local ok,e=pcall(co) return e" 0
    EVAL "local co=coroutine.wrap(function() end) co() local ok,e=pcall(co) return e" 0
    EVAL "local co co=coroutine.create(function() return coroutine.resume(co) end) return {tostring(select(2,coroutine.resume(co))), select(3,coroutine.resume(co))}" 0
    EVAL "local co co=coroutine.create(function() local c2=coroutine.create(function() return select(2,coroutine.resume(co)) end) return select(2,coroutine.resume(c2)) end) return select(2,coroutine.resume(co))" 0
    EVAL "return coroutine.resume(1)" 0
    EVAL "return coroutine.resume()" 0
    EVAL "return coroutine.wrap(1)" 0
    EVAL "return coroutine.wrap(print)" 0
    EVAL "return coroutine.wrap(string.len)" 0
    EVAL "return {pcall(coroutine.yield,1)}" 0
    EVAL "local co=coroutine.wrap(function(...) local a=coroutine.yield(...) return a end) return {co(1,2,3)}" 0
    EVAL "local f=coroutine.wrap(function() for i=1,3 do coroutine.yield(i) end end) return {f(),f(),f(),f()}" 0
    EVAL "local function r(n) if n==0 then return 0 end return coroutine.wrap(function() return 1+r(n-1) end)() end return r(100)" 0
    EVAL "local function r(n) if n==0 then return 0 end return coroutine.wrap(function() return 1+r(n-1) end)() end return {pcall(r,300)}" 0
    EVAL "return {load(function() error('x') end)}" 0
    EVAL "return {load(function() return {} end)}" 0
    EVAL "local n=0 return load(function() n=n+1 return ({'return ',1,'+1'})[n] end)()" 0
    EVAL "return load(1)" 0
    EVAL "return loadstring()" 0
    EVAL "return loadstring({})" 0
    EVAL "return loadstring(5)" 0
    EVAL "return {loadstring('return +')}" 0
    EVAL "return {loadstring('return +','=n')}" 0
    EVAL "return {loadstring('return +','@n')}" 0
    EVAL "return {loadstring('return +',5)}" 0
    EVAL "return loadstring('return 1',{})" 0
    EVAL "return {load(function() return nil end,{})}" 0
    EVAL "return collectgarbage('x')" 0
    EVAL "return collectgarbage(1)" 0
    EVAL "return type(collectgarbage('count'))" 0
    EVAL "return collectgarbage('collect','x')" 0
    EVAL "return xpcall()" 0
    EVAL "return xpcall(1)" 0
    EVAL "return {xpcall(function() error('a') end, function(e) return e..'b' end)}" 0
    EVAL "return {xpcall(function() error('a') end, function(e) error('b') end)}" 0
    EVAL "return {xpcall(function() return 1,2,3 end, function(e) return e end)}" 0
    EVAL "return {xpcall(error, function(e) return type(e) end)}" 0
    EVAL "return {xpcall(function() error('a') end, 1)}" 0
    EVAL "return {xpcall(1, function(e) return e end)}" 0
    EVAL "return {xpcall(function() local x=nil; return x.y end, function(e) return e end)}" 0
    EVAL "return xpcall(function() error('boom') end, nil)" 0
    EVAL "return {pcall(function() error() end)}" 0
    EVAL "return {pcall(error,nil)}" 0
    EVAL "return {pcall(error,{err='e',x=1})}" 0
    EVAL "return {pcall(error,{err=5})}" 0
    EVAL "return {pcall(error,{err={}})}" 0
    EVAL "return {pcall(error,{1,2})}" 0
    EVAL "return {pcall(redis.call,'nosuch')}" 0
    EVAL "return {pcall(redis.call)}" 0
    EVAL "return {pcall(redis.call,{})}" 0
    EVAL "return redis.pcall({})" 0
    EVAL "return {pcall(1)}" 0
    EVAL "return {pcall(nil)}" 0
    EVAL "error(true)" 0
    EVAL "error(5)" 0
    EVAL "error(function() end ~= nil)" 0
    EVAL "error('plain',0)" 0
    EVAL "error('plain',2)" 0
    EVAL "local function f() error('deep') end f()" 0
    EVAL "local function f() error('deep',2) end f()" 0
    EVAL "local t=nil t.x=1" 0
    EVAL "return nil..'x'" 0
    EVAL "return {}<{}" 0
    EVAL "return -{}" 0
    EVAL "return string.nosuch('x')" 0
    EVAL "return nosuch" 0
    EVAL "nosuch=1" 0
    EVAL "_G.x=1" 0
    EVAL "return next(nil)" 0
    EVAL "return next({},1)" 0
    EVAL "return pairs(nil)" 0
    EVAL "return ipairs(nil)" 0
    EVAL "return setmetatable(1,{})" 0
    EVAL "return setmetatable({})" 0
    EVAL "return setmetatable({},1)" 0
    EVAL "return getmetatable()" 0
    EVAL "return rawget(1,2)" 0
    EVAL "return rawget({})" 0
    EVAL "return rawset({},1)" 0
    EVAL "return rawset({},nil,1)" 0
    EVAL "return rawset()" 0
    EVAL "return next(redis) and 1" 0
    EVAL "return type(rawget(redis,'call'))" 0
    EVAL "local t={} for k,v in pairs(coroutine) do t[#t+1]=k end table.sort(t) return t" 0
    EVAL "table.insert(1)" 0
    EVAL "return table.remove(string)" 0
    EVAL "table.sort(string)" 0
    EVAL "return tostring(getmetatable(redis))" 0
    EVAL "return redis.call('echo',-5)" 0
    EVAL "return redis.call('echo',0/0)" 0
    EVAL "return redis.call('echo',1/0)" 0
    EVAL "redis.call('rpush','l','a','b','a') return redis.call('lpos','l','a','count',0)" 0
    EVAL "return redis.call('lpos','l','zz')" 0
    EVAL "return redis.call('lpos','l','b')" 0
    EVAL "redis.call('sadd','s','a') redis.call('sadd','s2','a') return redis.call('sinter','s','s2')" 0
    EVAL "redis.call('xadd','x','1-1','f','v') return redis.call('xrange','x','-','+')" 0
    EVAL "return redis.call('xread','streams','x','0')" 0
    EVAL "return redis.call('xread','streams','x','9')" 0
    EVAL "redis.call('zadd','z',1.5,'m') return {redis.call('zscore','z','m'),redis.call('zscore','z','n'),redis.call('zrange','z',0,-1,'withscores')}" 0
    EVAL "return redis.call('set','k','v','get')" 0
    EVAL "return redis.call('set','k','w','nx')" 0
    EVAL "return redis.call('type','k')" 0
    EVAL "return redis.call('get','k')" 0
    EVAL "return redis.call('get','none')" 0
    EVAL "return redis.call('incrbyfloat','f','1.5')" 0
    EVAL "return redis.call('object','encoding','k')" 0
    EVAL "return redis.call('object','nosuch','k')" 0
    EVAL "return redis.call('config','get','maxmemory')" 0
    EVAL "return redis.pcall('incr','k')" 0
    EVAL "redis.setresp(3) return redis.call('get','none') == nil and 1 or 0" 0
    EVAL "redis.setresp(3) return redis.call('zscore','z','m').double" 0
    EVAL "redis.setresp(3) return type(redis.call('hgetall','none').map)" 0
    EVAL "redis.setresp(3) return redis.call('sismember','s','a')" 0
    EVAL "return redis.call('ping')" 0
    EVAL "return redis.call('ping','x')" 0
    EVAL "return redis.call('lpop','none')" 0
    EVAL "return redis.call('lpop','none',2)" 0
    EVAL "return redis.call('mget','k','none')" 0
    EVAL "return redis.sha1hex(5)" 0
    EVAL "return redis.error_reply('x')" 0
    EVAL "return redis.status_reply('x')" 0
    EVAL "return redis.log(1)" 0
    EVAL "return redis.set_repl(8)" 0
    EVAL "return redis.acl_check_cmd('get','k')" 0
    EVAL "return bit.band()" 0
    EVAL "return bit.bor('x')" 0
    EVAL "return bit.lshift(1)" 0
    EVAL "return struct.pack('>I2','x')" 0
    EVAL "return struct.unpack('>I2','x')" 0
    EVAL "return struct.pack()" 0
    EVAL "return struct.size('s')" 0
    EVAL "return {struct.unpack('c0','abc')}" 0
    EVAL "return {struct.unpack('Bc0','\\3abc')}" 0
    EVAL "return math.random(0)" 0
    EVAL "return math.random(2,1)" 0
    EVAL "return math.random(1,2,3)" 0
    EVAL "return math.random('x')" 0
    EVAL "return math.randomseed()" 0
    EVAL "return string.rep('x',-1)" 0
    EVAL "return unpack()" 0
    EVAL "return {pcall(string.byte,string.rep('x',7990),1,7990)}" 0
    EVAL "return select('#',pcall(unpack,{},1,7990))" 0
    EVAL "return string.format('%s %s',1)" 0
    EVAL "local t={} for i=1,10 do t[i]=11-i end table.sort(t,function(a,b) return true end) return t" 0
    EVAL "return {string.find('abc','(b)(c)')}" 0
    EVAL "return {string.gsub('hello world','o','0',1)}" 0
    EVAL "return {string.gsub('abc','%w','%2')}" 0
    EVAL "return {string.find('a','[')}" 0
    EVAL "return {tostring(1e15),tostring(1e14),tostring(0.1),tostring(-0)}" 0
    EVAL "local t = {pcall(error,{err={}})} return {#t, type(t[3])}" 0
    EVAL "local t = {pcall(error,{1})} return select('#', pcall(error,{1}))" 0
    EVAL "return {pcall(math.random,'x')}" 0
    EVAL "return tostring(math.random())" 0
    EVAL "return {pcall(math.random,3,1)}" 0
    EVAL "return tostring(math.random())" 0
    EVAL "return {pcall(math.random,'x',2,3)}" 0
    EVAL "return tostring(math.random())" 0
    EVAL "math.randomseed(7) return tostring(math.random())" 0
    EVAL "local function f(n) return (string.gsub('a','a',function() return f(n+1) end)) end return f(1)" 0
    EVAL "local function f(n) return string.gsub('a','a',coroutine.wrap(function() return (f(n+1)) end)) end return {pcall(f,1)}" 0
    EVAL "local t=setmetatable({},{__index=function(t,k) return t[k+1] end}) return t[1]" 0
    EVAL "local function f() return table.sort({1,2,3},f) end return {pcall(f)}" 0
"##;
