-- Writes what the examples of help show into engine/ops and torch/help_pages.lua, from a run: to be used when the look of
-- values has changed, and after adding an example. Look at the differences before you commit them.
-- tycho tests/lua/shell/fill_examples.lua, from the top of the source tree.
local examples = require "shell.help.examples"

local function quoted(line) return '"' .. line:gsub('[\\"]', "\\%0") end

-- The text of adjacent string literals that begin at `at`, and where they end.
local function read_literals(source, at)
  local parts, stop = {}, at - 1
  while true do
    local from = source:match('^[%s\\]*()"', stop + 1)
    if not from then break end
    local i = from + 1
    while source:sub(i, i) ~= '"' do i = i + (source:sub(i, i) == "\\" and 2 or 1) end
    parts[#parts + 1] = source:sub(from + 1, i - 1):gsub("\\(.)", {n = "\n", ['"'] = '"', ["\\"] = "\\"})
    stop = i
  end
  return table.concat(parts), stop
end

local function write_literals(text, indent, lua)
  if lua then return quoted(text):gsub("\n", "\\n") .. '"' end
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = quoted(line) end
  return table.concat(lines, '\\n"\n' .. indent) .. '"'
end

local changed = 0
local pipe = assert(io.popen "grep -rl 'example =' engine/ops bindings/torch/help_pages.lua")
for path in pipe:lines() do
  local file = assert(io.open(path))
  local source = file:read "a"
  file:close()
  local out, at, lua = {}, 1, path:find "%.lua$"
  for from in source:gmatch(lua and "[ ,]example =()" or "%.example =()") do
    local start = source:match('^[%s*/]*()"', from)
    if start then
      local text, stop = read_literals(source, start)
      local ok, filled = pcall(examples.fill, text)
      if not ok then
        print(path .. ": " .. text .. "\n   " .. tostring(filled))
      elseif filled ~= text then
        changed = changed + 1
        local column = #source:sub(1, start - 1):match "[^\n]*$"
        out[#out + 1] = source:sub(at, start - 1) .. write_literals(filled, (" "):rep(column), lua)
        at = stop + 1
      end
    end
  end
  out[#out + 1] = source:sub(at)
  file = assert(io.open(path, "w"))
  file:write(table.concat(out))
  file:close()
end
pipe:close()
print(("%d examples changed"):format(changed))
