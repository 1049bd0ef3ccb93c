-- A line that begins with "(" goes on with the line before it, which Lua's message does not say: the call of what that
-- line gives, or a local that is not there yet.
local torch = torch
local source = require "torch.source"
local words = require("torch.messages").words

local ends_nothing = {}
for word in ("and break do else elseif end for function goto if in local not or repeat return then until while"):gmatch "%a+" do
  ends_nothing[word] = true
end

-- Does a line end with an expression that a bracket would call?
local function calls_on(line)
  line = line:gsub("%-%-.*$", ""):gsub("%s+$", "")
  if line:find "[%)%]}\"']$" then return true end
  local word = line:match "([%w_]+)$"
  return word ~= nil and not ends_nothing[word] and not word:find "^%d"
end

local function line_of(chunk, n)
  local ok, line = pcall(source.line, chunk, n)
  return ok and line or nil
end

---An error object that names the line, when an error in line n comes from one that begins with a bracket; else nil.
---@param chunk string
---@param n integer
---@param message string
return function(chunk, n, message)
  if not (message:find "^attempt to call " or message:find "nil value %(%a+ '") then return nil end
  local full = torch._chunks[chunk] and "=" .. chunk or "@" .. chunk
  local after = n + 1
  while after < n + 20 and (line_of(full, after) or "."):find "^%s*$" do after = after + 1 end
  for _, at in ipairs {n, after} do
    local line = line_of(full, at)
    local before, k = line and line:find "^%s*%(" and line_of(full, at - 1), at - 1
    while before and before:find "^%s*$" do
      k = k - 1
      before = k > 0 and line_of(full, k) or nil
    end
    if before and calls_on(before) then
      return setmetatable({kind = "argument", op = "", where = chunk .. ":" .. n, message = words.continued:format(message, at), _code = "NAME-1",
        _fixes = {}, hint = words.semicolon:format(line:match "^%s*(.-)%s*$"), _call = ("S %d %s\n"):format(at, full)}, debug.getregistry()["tycho.error"])
    end
  end
end
