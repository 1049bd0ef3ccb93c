-- A JSON reader for the vectors: json.decode(text) -> value. Integers stay integers, other numbers become
-- floats, null becomes json.null; objects and arrays are tables (an empty array is json.empty's kind).
local json = {}

json.null = setmetatable({}, {__tostring = function() return "null" end})
local List = {__name = "list"}

---Is this table a decoded array? (An empty array and an empty object are both empty tables.)
function json.is_list(t) return getmetatable(t) == List end

local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}
local find, sub, byte = string.find, string.sub, string.byte

local function fail(text, at, why)
  error(("json: %s at byte %d: %s"):format(why, at, sub(text, at, at + 20)), 0)
end

local function read_string(text, at)
  local close = find(text, '["\\]', at + 1)
  if close and byte(text, close) == 34 then return sub(text, at + 1, close - 1), close + 1 end
  local parts, from = {}, at + 1
  while close do
    parts[#parts + 1] = sub(text, from, close - 1)
    if byte(text, close) == 34 then return table.concat(parts), close + 1 end
    local c = sub(text, close + 1, close + 1)
    if c == "u" then
      local code = tonumber(sub(text, close + 2, close + 5), 16) or fail(text, close, "bad escape")
      from = close + 6
      local low = code >= 0xD800 and code < 0xDC00 and text:match("^\\u(%x%x%x%x)", from)
      if low then
        code, from = 0x10000 + ((code - 0xD800) << 10) + (tonumber(low, 16) - 0xDC00), from + 6
      end
      parts[#parts + 1] = utf8.char(code)
    else
      parts[#parts + 1] = escapes[c] or fail(text, close, "bad escape")
      from = close + 2
    end
    close = find(text, '["\\]', from)
  end
  fail(text, at, "unfinished text")
end

local read

local function read_object(text, at)
  local out = {}
  at = find(text, "%S", at + 1) or fail(text, at, "unfinished object")
  if byte(text, at) == 125 then return out, at + 1 end
  while true do
    if byte(text, at) ~= 34 then fail(text, at, "a name is missing") end
    local key, value
    key, at = read_string(text, at)
    at = find(text, "[^ \t\r\n:]", at) or fail(text, #text, "unfinished object")
    value, at = read(text, at)
    out[key] = value
    at = find(text, "%S", at) or fail(text, #text, "unfinished object")
    local c = byte(text, at)
    if c == 125 then return out, at + 1 end
    if c ~= 44 then fail(text, at, "a comma is missing") end
    at = find(text, "%S", at + 1) or fail(text, at, "unfinished object")
  end
end

local function read_array(text, at)
  local out, n = setmetatable({}, List), 0
  at = find(text, "%S", at + 1) or fail(text, at, "unfinished array")
  if byte(text, at) == 93 then return out, at + 1 end
  while true do
    n = n + 1
    out[n], at = read(text, at)
    at = find(text, "%S", at) or fail(text, #text, "unfinished array")
    local c = byte(text, at)
    if c == 93 then return out, at + 1 end
    if c ~= 44 then fail(text, at, "a comma is missing") end
    at = find(text, "%S", at + 1) or fail(text, at, "unfinished array")
  end
end

local words = {t = {"true", true}, f = {"false", false}, n = {"null", json.null}}

function read(text, at)
  local c = byte(text, at)
  if c == 123 then return read_object(text, at) end
  if c == 91 then return read_array(text, at) end
  if c == 34 then return read_string(text, at) end
  local word = words[sub(text, at, at)]
  if word and sub(text, at, at + #word[1] - 1) == word[1] then return word[2], at + #word[1] end
  local _, last = find(text, "^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  if not last then fail(text, at, "no value") end
  return tonumber(sub(text, at, last)), last + 1
end

---@param text string
function json.decode(text)
  local at = find(text, "%S") or fail(text, 1, "empty")
  local value, next_at = read(text, at)
  if find(text, "%S", next_at) then fail(text, next_at, "more text") end
  return value
end

return json
