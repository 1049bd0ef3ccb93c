-- JSON, as the files of tokenizers have it: read(text) and write(value). Objects and arrays are tables, null is json.null.
local torch = torch
local error = torch._raise
local json = {null = setmetatable({}, {__name = "null", __tostring = function() return "null" end})}

local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}
local words = {["true"] = true, ["false"] = false, null = json.null}

---The value that a text stands for; `name` names the text in messages.
---@param text string
---@param name string
function json.read(text, name)
  local at = 1
  local function fail(what) error(("%s: no valid JSON at byte %d: %s"):format(name, at, what), 2, "io") end
  local function blanks() at = text:find("[^ \t\r\n]", at) or #text + 1 end

  local function unescape(s)
    local out, i = {}, 1
    while true do
      local j = s:find("\\", i, true)
      out[#out + 1] = s:sub(i, j and j - 1)
      if not j then return table.concat(out) end
      local e = s:sub(j + 1, j + 1)
      i = j + 2
      if e == "u" then
        local code = tonumber(s:match("^%x%x%x%x", i), 16) or fail "\\u without four digits"
        i = i + 4
        local low = code >= 0xd800 and code < 0xdc00 and tonumber(s:match("^\\u([dD][c-fC-F]%x%x)", i) or "", 16)
        if low then
          code = 0x10000 + (code - 0xd800) * 1024 + low - 0xdc00
          i = i + 6
        end
        out[#out + 1] = utf8.char(code)
      else
        out[#out + 1] = escapes[e] or fail("\\" .. e)
      end
    end
  end

  local function read_string()
    local from, to = at + 1, at
    repeat  -- the quote that no backslash hides
      to = text:find('["\\]', to + 1) or fail "a string without end"
      local hidden = text:byte(to) == 92
      if hidden then to = to + 1 end
    until not hidden
    at = to + 1
    local s = text:sub(from, to - 1)
    return s:find("\\", 1, true) and unescape(s) or s
  end

  local read_value
  local function read_items(closing, depth, one)
    at = at + 1
    blanks()
    if text:sub(at, at) == closing then
      at = at + 1
      return
    end
    while true do
      one(depth)
      blanks()
      local c = text:sub(at, at)
      at = at + 1
      if c == closing then return end
      if c ~= "," then
        at = at - 1
        fail(('"," or "%s" is wanted'):format(closing))
      end
      blanks()
    end
  end

  function read_value(depth)
    if depth > 200 then fail "nested too deep" end
    blanks()
    local c, out = text:sub(at, at), {}
    if c == '"' then return read_string() end
    if c == "{" then
      read_items("}", depth + 1, function(d)
        if text:sub(at, at) ~= '"' then fail "a name in quotes is wanted" end
        local key = read_string()
        blanks()
        if text:sub(at, at) ~= ":" then fail '":" is wanted' end
        at = at + 1
        out[key] = read_value(d)
      end)
      return out
    elseif c == "[" then
      read_items("]", depth + 1, function(d) out[#out + 1] = read_value(d) end)
      return out
    end
    local number = text:match("^-?%d[%d.eE+-]*", at)
    if number then
      local value = tonumber(number) or fail(number)
      at = at + #number
      return value
    end
    local word = text:match("^%a+", at)
    if word == nil or words[word] == nil then fail(at > #text and "the text ends" or ("%q"):format(text:sub(at, at + 10))) end
    at = at + #word
    return words[word]
  end

  local value = read_value(0)
  blanks()
  if at <= #text then fail "more text after the value" end
  return value
end

local function quoted(s)
  return '"' .. s:gsub('[%c"\\\127]', function(c)
    return c == '"' and '\\"' or c == "\\" and "\\\\" or c == "\n" and "\\n" or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

---The text of a value. A table with a list of {name, value} in its field `pairs` is an object in that order; other tables
---are arrays.
---@param value any
function json.write(value)
  if value == json.null or value == nil then return "null" end
  if type(value) == "string" then return quoted(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  if value.pairs then
    for i, pair in ipairs(value.pairs) do parts[i] = quoted(pair[1]) .. ": " .. json.write(pair[2]) end
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  for i, item in ipairs(value) do parts[i] = json.write(item) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

return json
