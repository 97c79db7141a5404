-- Runs before any function is replaced: what it keeps are the functions of stock Lua.
local join, stock_rep, select, pairs, tostring, type = table.concat, string.rep, select, pairs, tostring, type
local pcall, error, setmetatable, rawget = pcall, error, setmetatable, rawget

-- What callbacks have seen.
local seen = {}
local seen_count = 0
local function note(...)
  for i = 1, select('#', ...) do
    local value = select(i, ...)
    seen_count = seen_count + 1
    seen[seen_count] = type(value) == 'table' and tostring(rawget(value, 'name')) or tostring(value)
  end
end

-- A long string.
function big(text, times)
  return stock_rep(text, times)
end

-- A callback that returns its results in turn; `stop` ends it by an error.
function returning(...)
  local results, count, at = {...}, select('#', ...), 0
  return function(...)
    note(...)
    at = at % count + 1
    if results[at] == 'stop' then error('stopped', 0) end
    if results[at] == 'fail' then error({}) end
    return results[at]
  end
end

-- A comparator that notes what it compares, and ends by an error when the sort does not.
function comparing(order)
  local calls = 0
  return function(a, b)
    note(a, b)
    calls = calls + 1
    if calls > 1500 then error('too many comparisons') end
    return order(a, b)
  end
end

-- A comparator of numbers that answers at random.
function random(seed)
  return function()
    seed = (seed * 16807) % 2147483647
    return seed % 7 < 3
  end
end

-- An item of a sorted table that is not a number.
local item = {__lt = function(a, b) note(a, b) return a.key < b.key end}
function object(name, key)
  return setmetatable({name = name, key = key}, item)
end

-- A table that makes up what it has not got.
function made_up(of)
  return setmetatable({}, {__index = function(_, key) note(key) return of(key) end})
end

local function dump(value, out, depth)
  local kind = type(value)
  if kind == 'string' then out[#out + 1] = 's' .. #value .. ':' .. value
  elseif kind == 'table' and depth < 3 then
    out[#out + 1] = '{'
    for key, held in pairs(value) do
      dump(key, out, depth + 1)
      out[#out + 1] = '='
      dump(held, out, depth + 1)
      out[#out + 1] = ','
    end
    out[#out + 1] = '}'
  elseif kind == 'number' or kind == 'boolean' or kind == 'nil' then out[#out + 1] = kind .. ' ' .. tostring(value)
  else out[#out + 1] = kind
  end
end

-- Runs a case, and returns all that can be seen of it.
function check(case)
  seen, seen_count = {}, 0
  local function pack(...)
    local out, results = {}, {...}
    for i = 1, select('#', ...) do
      dump(results[i], out, 0)
      out[#out + 1] = ' | '
    end
    return join(out)
  end
  -- Not the results of the case through `pcall`: it has no room of its own for another among many.
  local ok, result = pcall(function() return pack(case()) end)
  if type(result) ~= 'string' then result = type(result) end
  return tostring(ok) .. ' ' .. result .. '\nseen: ' .. join(seen, ' ')
end
