-- The sandbox: what a script sees instead of Lua's own globals, and what runs it.
--
-- Lua 5.1 has no read-only tables. So a script never has access to the real ones: it sees empty tables that read from them
-- through their metatables and reject writes. Functions that would bypass a metatable handle these tables specially.
-- Errors are raised by native functions, so that messages have the position in the script and not one in this file.

local native, real, is_eval = ...

local raw_getmetatable, raw_setmetatable, raw_next, raw_pairs = getmetatable, setmetatable, next, pairs
local raw_rawget, raw_rawset, raw_pcall, raw_xpcall = rawget, rawset, pcall, xpcall
local raw_loadstring, raw_collectgarbage, raw_resume = loadstring, collectgarbage, coroutine.resume
local raw_setfenv, raw_insert, create = setfenv, table.insert, coroutine.create
local find, match, gmatch = string.find, string.match, string.gmatch
local type, select, error, byte, gsub, concat = type, select, error, string.byte, string.gsub, table.concat
local unwrap, refuse, refuse_here, argument_error = native.unwrap, native.refuse, native.refuse_here, native.argument_error
local is_killed, spend = native.is_killed, native.spend

-- The real table behind each table that a script sees, and the metatables that it may read.
local behind, globals_metatable, string_metatable = {}, nil, nil

local function protect(table)
  local front = raw_setmetatable({}, { __index = table, __newindex = refuse_here })
  behind[front] = table
  return front
end

-- Errors of native functions are objects; a script sees their content.
local function settle(ok, ...)
  if ok then
    return true, ...
  end
  local err = unwrap((...))
  if type(err) == "table" then
    local text = raw_rawget(err, "err")
    if type(text) == "string" or type(text) == "number" then
      err = text
    end
  end
  return false, err
end

function pcall(...)
  return settle(raw_pcall(...))
end

function xpcall(f, handler)
  return raw_xpcall(f, function(err)
    -- The error handler of a killed script would be called for the kill again and again.
    if is_killed() then
      return unwrap(err)
    end
    return handler(unwrap(err))
  end)
end

-- Nested coroutines use the thread's own stack, which Lua 5.1 does not check.
local depth, DEPTH_MAX = 0, 150

local function resume(co, ...)
  if depth >= DEPTH_MAX then
    return false, "C stack overflow"
  end
  depth = depth + 1
  return raw_resume(co, ...)
end

local function settle_resumed(ok, ...)
  depth = depth > 0 and depth - 1 or 0
  if ok then
    return true, ...
  end
  return false, unwrap((...))
end

function coroutine.resume(co, ...)
  if type(co) ~= "thread" then
    argument_error(1, "resume", "coroutine expected")
  end
  return settle_resumed(resume(co, ...))
end

local function settle_wrapped(ok, ...)
  depth = depth > 0 and depth - 1 or 0
  if ok then
    return ...
  end
  local err = (...)
  if type(err) == "string" then
    native.fail(unwrap(err))
  end
  error(err, 0)
end

function coroutine.wrap(f)
  if type(f) ~= "function" then
    argument_error(1, "wrap", "Lua function expected")
  end
  local co = create(f)
  return function(...)
    return settle_wrapped(resume(co, ...))
  end
end

-- The longer a pattern is, the deeper Lua's matcher recurses.
local PATTERN_MAX = 1000

local function check_pattern(pattern)
  if type(pattern) == "string" and #pattern > PATTERN_MAX then
    native.fail_above("pattern too complex")
  end
end

function string.find(text, pattern, ...)
  check_pattern(pattern)
  return find(text, pattern, ...)
end

function string.match(text, pattern, ...)
  check_pattern(pattern)
  return match(text, pattern, ...)
end

function string.gsub(text, pattern, ...)
  check_pattern(pattern)
  return gsub(text, pattern, ...)
end

function string.gmatch(text, pattern)
  check_pattern(pattern)
  return gmatch(text, pattern)
end
string.gfind = string.gmatch

function getmetatable(object)
  if behind[object] then
    return behind[object] == real and globals_metatable or nil
  elseif type(object) == "string" then
    return string_metatable
  end
  return raw_getmetatable(object)
end

function setmetatable(object, ...)
  if behind[object] then
    refuse()
  elseif type(object) ~= "table" then
    argument_error(1, "setmetatable", "table", object)
  end
  local metatable = ...
  if metatable ~= nil and type(metatable) ~= "table" or select("#", ...) == 0 then
    argument_error(2, "setmetatable", "nil or table expected")
  end
  local old = raw_getmetatable(object)
  if type(old) == "table" and raw_rawget(old, "__metatable") ~= nil or old ~= nil and type(old) ~= "table" then
    native.fail("cannot change a protected metatable")
  end
  return raw_setmetatable(object, metatable)
end

function rawget(object, key)
  if type(object) ~= "table" then
    argument_error(1, "rawget", "table", object)
  end
  return raw_rawget(behind[object] or object, key)
end

function rawset(object, key, value)
  if behind[object] then
    refuse()
  elseif type(object) ~= "table" then
    argument_error(1, "rawset", "table", object)
  end
  return raw_rawset(object, key, value)
end

function next(object, key)
  if type(object) ~= "table" then
    argument_error(1, "next", "table", object)
  end
  return raw_next(behind[object] or object, key)
end

function pairs(object)
  if behind[object] then
    return next, object, nil
  elseif type(object) ~= "table" then
    argument_error(1, "pairs", "table", object)
  end
  return raw_next, object, nil
end

function table.insert(object, ...)
  if behind[object] then
    refuse()
  elseif type(object) ~= "table" then
    argument_error(1, "insert", "table", object)
  end
  local count = select("#", ...)
  if count == 1 then
    raw_rawset(object, #object + 1, (...))
  elseif count == 2 then
    local at, value = ...
    if type(at) ~= "number" then
      argument_error(2, "insert", "number", at)
    end
    raw_insert(object, at, value)
  else
    native.fail("wrong number of arguments to 'insert'")
  end
end

-- Bytecode is rejected with the parser's error for a text that begins with its first byte.
function loadstring(text, name)
  if type(text) == "number" then
    text = "" .. text
  elseif type(text) ~= "string" then
    argument_error(1, "loadstring", "string", text)
  end
  if byte(text, 1) == 27 then
    local _, message = raw_loadstring("\26", name or text)
    return nil, (gsub(message, "char%(26%)", "char(27)"))
  end
  spend(#text) -- the compiler is not interrupted
  return raw_loadstring(text, name or text)
end

function load(reader, name)
  if type(reader) ~= "function" then
    argument_error(1, "load", "function", reader)
  end
  local parts = {}
  while true do
    local ok, part = pcall(reader)
    if not ok then
      return nil, part
    elseif part == nil or part == "" then
      break
    elseif type(part) ~= "string" and type(part) ~= "number" then
      return nil, "reader function must return a string"
    end
    parts[#parts + 1] = part
  end
  return loadstring(concat(parts), name or "=(load)")
end

-- Scripts must not stop or tune the collector, which later scripts use as well.
function collectgarbage(option, argument)
  if option == nil or option == "collect" or option == "count" or option == "step" then
    return raw_collectgarbage(option or "collect", argument)
  elseif option == "setpause" or option == "setstepmul" then
    return 200
  elseif option == "stop" or option == "restart" then
    return 0
  end
  argument_error(1, "collectgarbage", "invalid option '" .. tostring(option) .. "'")
end

for name, functions in raw_pairs(native) do
  if type(functions) == "table" then
    local library = real[name] or {}
    for key, value in raw_pairs(functions) do
      library[key] = value
    end
    real[name] = library
  end
end

for _, name in raw_pairs({ "dofile", "loadfile", "print", "require", "module", "package", "newproxy", "getfenv", "setfenv",
  "io", "debug" }) do
  real[name] = nil
end

local library_api
if is_eval then
  real.__redis__err__handler = native.on_error
else
  redis.breakpoint, redis.debug, redis.replicate_commands = nil, nil, nil
  -- What a library sees while it is loaded: enough to register functions.
  library_api = { register_function = native.register_function }
  for _, name in raw_pairs({ "log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION",
    "REDIS_VERSION_NUM" }) do
    library_api[name] = redis[name]
  end
end

raw_setmetatable(real.redis, { __index = native.valkey_field })
for name, value in raw_pairs(real) do
  if type(value) == "table" and value ~= real then
    real[name] = protect(value)
  end
end
real.server = real.redis
string_metatable = protect({ __index = real.string })
globals_metatable = protect({ __index = native.missing })
raw_setmetatable(real, { __index = native.missing })
local globals = protect(real)
local environment = raw_getmetatable(globals)
real._G = globals

local while_loading
if library_api then
  raw_setmetatable(library_api, { __index = native.missing })
  local redis_api = protect(library_api)
  while_loading = raw_setmetatable({ redis = redis_api, server = redis_api }, { __index = native.missing })
end

-- Scripts by number, because the numbers of references that Rust may hold is limited.
local functions = {}
local on_error = native.on_error
raw_setfenv(0, globals)

return {
  -- Stores a function under a number.
  define = function(number, f)
    functions[number] = f
  end,
  -- Runs a script.
  run = function(number, keys, argv)
    real.KEYS, real.ARGV = keys, argv
    depth = 0
    return raw_xpcall(functions[number], on_error)
  end,
  -- Calls a function of a library.
  call = function(number, keys, argv)
    local f = functions[number]
    depth = 0
    return raw_xpcall(function()
      return f(keys, argv)
    end, on_error)
  end,
  -- Runs the text of a library.
  load = function(f)
    environment.__index = while_loading
    local ok, err = raw_pcall(f)
    environment.__index = real
    return ok, unwrap(err)
  end,
}
