-- Where Lua's complaint about a text is, in words: the wrong token, its line and column, and what to write there when the
-- line is of another language. Serves entries of the prompt and files alike.
local torch = torch
local words = require("torch.messages").words
local syntax = {}
local load, lex = load, torch._lex
local T = require("torch.language").text

-- Without a newline an unfinished 'abc would look incomplete, and a comment would swallow what follows.
local function try(text, chunk) return load(text .. "\n", chunk, "t") end
syntax.try = try

---@param message? string of load
function syntax.wants_more(message) return message ~= nil and message:sub(-5) == "<eof>" end
local wants_more = syntax.wants_more

-- Tokens with their nesting: depth in blocks, and in brackets of any kind.
local opens = {["do"] = 1, ["if"] = 1, ["function"] = 1, ["repeat"] = 1, ["end"] = -1, ["until"] = -1}
local brackets = {["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1}

---@param text string
---@return table[] tokens each {kind=, first=, last=, text=, block=, bracket=} without comments
function syntax.tokens(text)
  local out, block, bracket = {}, 0, 0
  for _, token in ipairs(lex(text)) do
    if token.kind ~= "comment" then
      token.text = text:sub(token.first, token.last)
      local step = token.kind == "keyword" and opens[token.text] or 0
      local turn = token.kind == "op" and brackets[token.text] or 0
      if step < 0 then block = block - 1 end
      if turn < 0 then bracket = bracket - 1 end
      token.block, token.bracket = block, bracket
      if step > 0 then block = block + 1 end
      if turn > 0 then bracket = bracket + 1 end
      out[#out + 1] = token
    end
  end
  return out
end

-- Line and byte in it of a position in the text.
local function line_and_column(text, at)
  local line, from = 1, 1
  for newline in text:gmatch("()\n") do
    if newline >= at then break end
    line, from = line + 1, newline + 1
  end
  return line, at - from + 1
end
syntax.line_and_column = line_and_column

-- Position, width and Lua's words for a failure to compile `text`, which stands `shift` bytes into
-- what was compiled.
function syntax.locate(text, tokens, message, prefix)
  local what, near = message:match("^%[[^\n]*%]:%d+: (.*) near (.+)$")
  local line = tonumber(message:match("^%[[^\n]*%]:(%d+):")) or 1
  what = what or message:match("^%[[^\n]*%]:%d+: (.*)$") or message
  local row, from = 1, 1  -- the line of the last token looked at
  local function line_of(token)
    local newline = text:find("\n", from, true)
    while newline and newline < token.last do
      row, from = row + 1, newline + 1
      newline = text:find("\n", from, true)
    end
    return row
  end
  if near then
    near = near:match("^'(.*)'$") or near
    for _, token in ipairs(tokens) do
      -- Lua names a wrong string up to what is wrong in it.
      local near_it = token.text:sub(1, #near) == near or token.unfinished or token.kind == "error"
      if line_of(token) >= line and near_it then
        local _, wrong = try(prefix .. text:sub(1, token.last), "=[1]")
        if wrong and not wants_more(wrong) then
          return token.first, token.last - token.first + 1, what, token.text
        end
      end
    end
  end
  row, from = 1, 1
  local name = what:match("['<](%a[%w_]*)['>]$") or what:match("variable '([%w_]+)'")
  local best
  for _, token in ipairs(tokens) do
    if line_of(token) == line and (token.text == name or not best) then best = token end
  end
  if best then return best.first, best.last - best.first + 1, what, nil end
  return #text, 1, what, nil
end

local function wrong(text, at, width, message)
  local line, column = line_and_column(text, at)
  return {kind = "wrong", message = message, line = line, column = column, width = math.max(width, 1), at = at}
end
syntax.wrong = wrong

function syntax.describe(what, token)
  if not token then return (what:gsub(" at line 1$", "")) end
  if what:find("^unfinished") then return what end
  token = token:match("^[^\n]*")
  if #token > 30 then token = token:sub(1, 27) .. "..." end
  local expected = what:match("^(.*) expected.*$")
  if what:find("unexpected symbol", 1, true) or what == "syntax error" or expected == "<eof>" or expected == "'<eof>'" then
    return T("unexpected '%s'"):format(token)
  elseif expected then
    return T("unexpected '%s': %s"):format(token, what)
  end
  return T("%s near '%s'"):format(what, token)
end

-- A line that is a value and no statement, as people write it at a prompt: the one where the text fails, or the one before.
local ends = {quit = "os.exit()", exit = "os.exit()"}
local function lone_value(text, line)
  local at, row, before, here = 1, 0, nil, nil
  for code, next_at in text:gmatch "([^\n]*)\n?()" do
    row = row + 1
    local first = code:find "%S"
    if first and row <= line then before, here = here, {at = at + first - 1, code = code:match "^%s*(.-)%s*$", row = row} end
    if row == line or next_at > #text then break end
    at = next_at
  end
  for _, each in ipairs {here or false, before or false} do
    local statement = each and each.code:gsub("%s*%-%-[^\n]*$", "")
    if each and try("return " .. statement, "=") and not try(statement, "=") and not statement:find "^return" then
      each.code = statement
      return each
    end
  end
end

---What is wrong with a text that does not compile: {message=, line=, column=, width=, text=, hint=, code=}.
---@param text string
---@param message string of load
---@return table
function syntax.failure(text, message)
  text = text:gsub("^#[^\n]*", function(line) return "--" .. (" "):rep(#line - 2) end)
  local tokens = syntax.tokens(text)
  message = message:gsub("^.-:(%d+): ", "[1]:%1: ", 1)
  local out
  if wants_more(message) then
    local what = message:match "^.-:%d+: (.*) near <eof>$" or message
    local last = tokens[#tokens]
    out = wrong(text, last and last.first or 1, last and last.last - last.first + 1 or 1, what == "unexpected symbol" and T"the text ends too early" or T("the text ends too early: %s"):format(what))
    local colon = require("torch.foreign").waits(text)
    if colon then out = wrong(text, colon, 1, T("unexpected '%s'"):format ":") end
  else
    local at, width, what, token = syntax.locate(text, tokens, message, "")
    out = wrong(text, at, width, syntax.describe(what, token))
  end
  -- A block of Python's above: Lua went on behind its colon, until a word that cannot follow.
  local at, head, outer = 1, nil, {}
  for row = 1, out.line do
    local stop = text:find("\n", at, true) or #text + 1
    local line = text:sub(at, stop - 1)
    local indent = #line:match "^%s*"
    while line:find "%S" and #outer > 0 and outer[#outer].indent >= indent do table.remove(outer) end
    if row == out.line or not line:find "%S" then line = nil end
    if line then
      head = {at = at, line = line, indent = indent, above = outer[#outer]}
      outer[#outer + 1] = head
    end
    at = stop + 1
  end
  local waits = require("torch.foreign").waits
  local colon = head and waits(head.line)
  if not colon and head then  -- the lines whose blocks this one, or the one before it, belongs to
    local near = outer[#outer] ~= head and outer[#outer] or head.above
    while near and not colon do
      head, near, colon = near, near.above, waits(near.line)
    end
  end
  if colon then out = wrong(text, head.at + colon - 1, 1, T("unexpected '%s'"):format(head.line:sub(colon, colon))) end
  out.text = text
  local value = lone_value(text, out.line)
  if value then out = wrong(text, value.at, #value.code, words.lone_value) out.text = text end
  syntax.hint(text, out)
  if value and not out.code then out.hint = "in Lua: " .. (ends[value.code] or "print(" .. value.code .. ")") end
  if out.code and try("return " .. out.code, "=") and not try(out.code, "=") then out.hint = out.hint:gsub("^in Lua: ([^\n]*)", "in Lua: print(%1)") end
  return out
end

---Adds what to write instead: `code`, which compiles, and `hint`, the lines of a report.
---@param text string
---@param failure table
---@param options? {global: boolean?, whole: boolean?} an entry: its names stay, and all of it is written anew
function syntax.hint(text, failure, options)
  if not failure.line then return end
  local foreign = require "torch.foreign"
  local ok, code, remarks
  if options and options.whole then ok, code, remarks = pcall(foreign.rewrite, text, options) end
  if not (ok and code and select(2, code:gsub("\n", "")) < 24) then
    ok, code, remarks = pcall(foreign.line, text, failure.line, options)
    if not ok then return end
  end
  local lines = {}
  if ok and not code then
    local row = 0
    for each in (text .. "\n"):gmatch "(.-)\n" do
      row = row + 1
      if row == failure.line then remarks = foreign.begun(each) or remarks end
    end
  end
  failure.code = code
  if code then
    local body = code:gsub("\n", "\n           ")
    lines[1] = (code:find "^%?" and T"at the prompt: %s" or T"in Lua: %s"):format(body)
  end
  for k = 1, math.min(#remarks, code and 2 or 1) do lines[#lines + 1] = (code and "-- " or "") .. remarks[k] end
  if #lines > 0 then failure.hint = table.concat(lines, "\n   ") end
end

return syntax
