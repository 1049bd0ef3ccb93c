-- Lines of other languages, Python's above all, as Lua: what the prompt, files, %run and -e say under a line that is not
-- Lua's. The line is read by a small parser of Python and written anew; only what compiles is shown.
local torch = torch
local read = require "torch.foreign.read"
local statements = require "torch.foreign.statements"
local words = require "torch.foreign.words"
local foreign = {}

local function compiles(code, open)
  if code:find "^%?" then return true end
  return load(code .. "\n", "=", "t") ~= nil or load("return " .. code .. "\n", "=", "t") ~= nil
    or open and (load("while true do " .. code .. "\n::continue:: end", "=", "t") ~= nil or load("return function(...) " .. code .. "\nend", "=", "t") ~= nil)
end

-- A part of an if: it compiles behind the other parts.
local function joined(code) return load("if true then " .. code .. "\nend", "=", "t") ~= nil end

-- The class that stands nearest above a line.
local function class_above(text, row)
  local found, n = nil, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    n = n + 1
    if n >= row then break end
    found = line:match "^class%s+([%a_][%w_]*)" or line:match "^local%s+([%a_][%w_]*)%s*=%s*[%w_.]*nn%.class" or line:match "^([%a_][%w_]*)%s*=%s*[%w_.]*nn%.class" or found
  end
  return found
end

-- The lines of a program, one after the other, with the blocks' ends; nil where one is not understood.
local function program(lines, options)
  local out, open, decorated, broken = {}, {}, nil, 0
  local function close_to(indent, joins)
    while #open > 0 and indent <= open[#open].indent do
      local block = table.remove(open)
      local last = joins and indent == block.indent and block.close == "end"
      if last and not block.loop then return end
      if block.continues then out[#out + 1] = (" "):rep(block.indent + 4) .. "::continue::" end
      if block.close ~= "" then out[#out + 1] = (" "):rep(block.indent) .. block.close end
      if last then return block end
    end
  end
  -- What stands behind a loop's else is done where no break left the loop.
  local function loop_else(block)
    broken = broken + 1
    local name, indent = broken == 1 and "broken" or "broken" .. broken, (" "):rep(block.indent)
    for _, at in ipairs(block.breaks) do out[at] = out[at]:gsub("%f[%w_]break%f[^%w_]", name .. " = true; break", 1) end
    out[block.at] = indent .. "local " .. name .. " = false\n" .. out[block.at]
    options.said "loop_else"
    return ("if not %s then"):format(name)
  end
  for n, line in ipairs(lines) do
    if #line == 0 then
      out[#out + 1] = (" "):rep(line.indent) .. "-- " .. line.comment
    else
      local class
      for k = #open, 1, -1 do class = class or line.indent > open[k].indent and open[k].class or nil end
      local body = open[#open] and line.indent > open[#open].indent and open[#open].class or nil
      local below = {}
      for k = n + 1, #lines do
        if lines[k].indent <= line.indent then break end
        below[#below + 1] = lines[k]
      end
      local text, close, joins, more = statements.line(line, {global = options.global, said = options.said, class = class or options.class, body = body, below = below})
      if not text then return nil end
      -- @torch.no_grad() holds in the whole function below it.
      local scope = text:match "^%-%- (torch%.[%w_]+%b())%(f%) decorates f$"
      if scope then
        decorated = scope
      elseif decorated and (text:find "^function " or text:find "^local function ") and (not close or close == "end") then
        text = text:gsub("%b()", function(names) return names .. " local _ <close> = " .. decorated .. ";" end, 1)
        decorated = nil
      end
      if text:find "goto continue" then
        for k = #open, 1, -1 do
          if line.indent > open[k].indent and open[k].loop then
            open[k].continues = true
            break
          end
        end
      end
      local left
      for k, token in ipairs(line) do
        if token.text == "break" and token.kind == "name" then left = k end
      end
      -- What a dataset gives for a position is one value.
      local values = text:match "^return (.*)$"
      for k = values and #open or 0, 1, -1 do
        if open[k].get and line.indent > open[k].indent and values:gsub("%b()", ""):gsub("%b{}", ""):gsub("%b[]", ""):find(",", 1, true) then text = "return {" .. values .. "}" end
        if open[k].get ~= nil then break end
      end
      if joins and #open > 0 then
        local loop = close_to(line.indent, true)
        if loop then
          if text:sub(1, 4) ~= "else" or text:find "^elseif" then return nil end
          text = loop_else(loop) .. text:sub(5)
        end
      else
        close_to(line.indent)
      end
      local inside = open[#open] and open[#open].class and 0 or line.indent
      local comment = line.comment and line.comment ~= "" and "  -- " .. line.comment or ""
      if scope then text = "" end
      if text ~= "" or comment ~= "" then out[#out + 1] = (" "):rep(inside) .. text .. comment end
      for k = left and #open or 0, 1, -1 do
        if open[k].loop then
          table.insert(open[k].breaks, #out)
          break
        end
      end
      local get = nil
      if text:find "^function " or text:find "^local function " then get = text:find "^function [%w_]+:get%(" ~= nil end
      if close then open[#open + 1] = {get = get, at = #out, breaks = {}, indent = line.indent, close = close, class = more and more.class, loop = text:find "%f[%a]do$" or text:find "^for " or text:find "^while "} end
    end
  end
  close_to(-1)
  return table.concat(out, "\n")
end

---A text of one or several lines in Lua.
---@param text string
---@param options? {global: boolean?, class: string?} global: as at the prompt, where names stay without local
---@return string? code that compiles; a head of a block alone stands with its end
---@return string[] remarks about what is written otherwise
function foreign.rewrite(text, options)
  local remarks, seen = {}, {}
  local function said(name, detail)
    if seen[name] or not words.remarks[name] then return end
    seen[name] = true
    remarks[name == "complex" and 1 or #remarks + 1] = detail and words.remarks[name]:find "%%s" and words.remarks[name]:format(detail) or words.remarks[name]
  end
  local narrow, changed = read.narrow(text)
  if changed then
    said "full_width"
    if compiles(narrow) then return narrow, remarks end
  end
  text = narrow
  if text:find "^%s*>>> " or text:find "^%s*In %[%d*%]: " then  -- copied with the prompt
    text = ("\n" .. text):gsub("\n%s*>>> ", "\n"):gsub("\n%s*%.%.%. ?", "\n"):gsub("\n%s*In %[%d*%]: ", "\n"):gsub("\n%s*Out%[%d*%]: [^\n]*", ""):sub(2)
    if compiles(text) then return text, remarks end
  end
  local command = words.command(text)
  if command then return command, remarks end
  options = {global = options and options.global, class = options and options.class, said = said}
  local remark = text:find "%s//%s*%a[%w]*%s*$" or text:find "%s//%s*%a+%s+%a" -- `x = 3 // a comment`
  for try = remark and 2 or 1, 2 do
    local lines = read.lines(text, try == 2)
    if lines and #lines > 0 then
      local only = #lines == 1 and lines[1]
      if only and #only == 0 then
        if only.mark == "-" then return nil, remarks end
        said "comment"
        return "-- " .. only.comment, remarks
      end
      if lines[1].comment and lines[1].mark ~= "-" then said "comment" end
      local code
      if only then
        local body, close, joins = statements.line(only, options)
        if body then
          local comment = only.comment and only.comment ~= "" and "  -- " .. only.comment or ""
          if close then body = ("%s --[[ .. ]]%s"):format(body, close ~= "" and " " .. close or "") end
          if close == "" then body = body:gsub(" %-%-%[%[ %.%. %]%]$", "") end
          if body:match "^%s*$" and #remarks > 0 then body = "-- " .. remarks[#remarks] end
          code = body .. comment
          if joins then
            local part = code:gsub(" %-%-%[%[ %.%. %]%] end", " --[[ .. ]]"):gsub("([^%]]) end$", "%1")
            if joined(part) then return part, remarks end
          end
          if compiles(code, true) then return code, remarks end
        end
      else
        code = program(lines, options)
        if code and compiles(code) then return code, remarks end
      end
    end
    if not text:find("//", 1, true) then break end
  end
  if text:find '"""' then said "long" end
  return nil, remarks
end

-- The lines of a text that belong to the one at `row`: what its brackets hold together.
local function logical(text, row)
  local narrow = read.narrow(text)
  local lines = read.lines(narrow)
  local all = {}
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do all[#all + 1] = line end
  for _, line in ipairs(lines or {}) do
    if line.first <= row and (line.last or line.first) >= row and line.last - line.first < 12 then
      return table.concat(all, "\n", line.first, math.min(line.last, #all)), line.first, line.last
    end
  end
  return all[row], row, row
end

-- What goes on with the block of the head before it.
local goes_on = {["else"] = true, elif = true, except = true, finally = true}

-- A head with the lines of its block, when they are few; without the indentation of the head.
local function below(text, row, head)
  local indent, out, n = #head:match "^%s*", {}, 0
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    n = n + 1
    if n == row then
      out[1] = line:sub(indent + 1)
    elseif n > row then
      local word = #line:match "^%s*" == indent and line:match "^%s*(%a+)"
      if not line:find "%S" or #line:match "^%s*" <= indent and not (word and goes_on[word]) then break end
      out[#out + 1] = line:sub(indent + 1)
    end
    if #out > 8 then return nil end
  end
  return #out > 1 and table.concat(out, "\n") or nil
end

---What to write in the place of a line that Lua does not compile, or that does something else there than in Python.
---@param text string the whole text: a file, an entry
---@param row integer the line in it
---@param options? {global: boolean?}
---@return string? code, string[] remarks, integer? first, integer? last lines that it stands for
function foreign.line(text, row, options)
  local line, first, last = logical(text, row)
  if not line or #line > 4000 then return nil, {} end
  local block = not line:find("\n", 1, true) and line:find ":%s*$" and below(text, row, line)
  if block then
    local code, remarks = foreign.rewrite(block, {global = options and options.global, class = class_above(text, first)})
    if code then return code, remarks, first, last end
  end
  local trimmed = line:gsub("^%s+", "")
  local code, remarks = foreign.rewrite(trimmed, {global = options and options.global, class = class_above(text, first)})
  if code == trimmed then code = nil end
  if not code and line:find("\n", 1, true) then
    local n = 0
    for each in (text .. "\n"):gmatch "(.-)\n" do
      n = n + 1
      if n == row then line = each end
    end
    code, remarks = foreign.rewrite((line:gsub("^%s+", "")), options)
    first, last = row, row
  end
  return code, remarks, first, last
end

---What a first line says that goes on below it in Python: a list, a table, a mark that the line goes on.
---@param line string
---@return string[]? remarks
function foreign.begun(line)
  if line:find "\\%s*$" then return {words.remarks.backslash} end
  local name, value = line:match '^%s*["\']([%a_][%w_]*)["\']%s*:%s*(.-),?%s*$'
  if name then
    local code = foreign.rewrite(("x = {%q: %s}"):format(name, value:gsub("[%[{%(]$", "") == value and value or "0"))
    return {code and value:find "[^%[{%(]$" and ("in Lua: %s,"):format(code:match "{(.*)}$" or "") or words.remarks.dict, words.remarks.dict}
  end
  local before = line:match "^(.*)%[%s*$"
  if before then return {("in Lua: %s{"):format((before:gsub("%(%s*$", "")))} end
end

-- Heads of Python's blocks: what Lua would take for a line that goes on.
local heads = {["if"] = true, ["for"] = true, ["while"] = true, ["else"] = true, ["try"] = true, ["finally"] = true, ["except"] = true, ["elif"] = true,
  ["def"] = true, ["class"] = true, ["with"] = true}

local followers = {["and"] = true, ["or"] = true, ["then"] = true, ["do"] = true, ["end"] = true, ["else"] = true}

---Does Lua wait for more where Python's block begins, or in a list of lists that is a long text to it? Gives the byte of
---the colon or the bracket.
---@param text string
---@return integer?
function foreign.waits(text)
  local list = text:match "()%[%[[%s%d%.%-%[%]\"']" or text:match "()%[%[[^\n]*%sfor%s[^\n]*%]%s*$"
  if list and not text:find("]]", list, true) then
    local tokens = torch._lex(text)
    local last = tokens[#tokens]
    return last and last.unfinished and last.first == list and foreign.rewrite(text) and list or nil
  end
  local comment, word = text:match "()//%s+%a[%w_]*%s+(%a[%w_]*)[^\n]*$"
  if not comment and not text:find "\n" then comment = text:match "^%s*()//%s" end
  if comment and not followers[word] and foreign.rewrite(text) then return comment end
  local bare = text:match "%f[%w_]lambda[%w_%s,]*():"
  if bare and foreign.rewrite(text) then return bare end
  local first = text:match "^%s*([%a]+)"
  if not first or not heads[first] then return nil end
  local depth = 0
  local tokens = torch._lex(text)
  local last, before = tokens[#tokens], tokens[#tokens - 1]
  if before and text:sub(before.first, last.last):find "^%)%s*{$" then return last.first end  -- C's
  for k, token in ipairs(tokens) do
    local word = text:sub(token.first, token.last)
    if token.kind == "keyword" and (word == "do" or word == "then" or word == "function") then return nil end
    if token.kind == "op" then
      if word:find "^[%(%[{]$" then depth = depth + 1 end
      if word:find "^[%)%]}]$" then depth = depth - 1 end
      if word == ":" and depth == 0 then
        local after = tokens[k + 1]
        if not after or after.first > token.last + 1 then return token.first end
        local called = first == "for" and text:match "^%s*for%s+[%w_,%s]+%s+in%s+range%s*%b()()"
        if called == token.first then return token.first end
      end
    end
  end
end

-- Several names for the sizes of a tensor, which are one value: B, T = x.shape.
local function sizes(text, chunk)
  if not text:find ",[^\n=]*=[^\n]*%.shape" and not text:find ",[^\n=]*=[^\n]*:size%(%)" then return end
  local row = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    row = row + 1
    local lead, left, right = line:gsub("%s*%-%-.*$", ""):match "^%s*(l?o?c?a?l?%s*)([%a_][%w_]*%s*,[%w_%s,]*)=%s*(.-)%s*;?%s*$"
    if left and (lead:gsub("%s", "") == "local" or lead == "") then
      local plain = right:gsub("%b()", ""):gsub("%b[]", ""):gsub("%b{}", "")
      local one = not plain:find "[,%s]" and (plain:find "%.shape$" or right:find ":size%(%)$")
      if one and not right:find "^table%.unpack" then
        left = left:gsub("%s+$", "")
        require("torch.notes").tell("SIZES", "sizes", {text = left .. " = " .. right, second = left:match ",%s*([%w_]+)",
          fix = ("%s%s = table.unpack(%s)"):format(lead, left, right)}, {source = chunk, line = row})
      end
    end
  end
end

-- A tensor as a condition, where the line tells for sure that it is one: if x:gt(0):any() then. At the prompt its
-- own look at entries finds them, and more.
local truths = {any = true, all = true}
local asked = {gt = true, lt = true, ge = true, le = true, eq = true, ne = true, isnan = true, isinf = true, isfinite = true}
local function conditions(text, chunk)
  local row = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    row = row + 1
    local code = line:find("any()", 1, true) or line:find("all()", 1, true)
    local condition = code and (line:match "%f[%w_]e?l?s?e?if%s+(.-)%s+then%f[^%w_]" or line:match "%f[%w_]while%s+(.-)%s+do%f[^%w_]")
    local value, before, call = (condition or ""):match "^(([%w_.:]+)%b():(a%l%l)%(%))$"
    local mask = value and before:match "([%w_]+)$"
    if not value then value, before, call = (condition or ""):match "^n?o?t?%s*(([%w_.:]+)%b():(a%l%l)%(%))$" end
    mask = mask or value and before:match "([%w_]+)$"
    if value and truths[call] and asked[mask] and not line:match "^%s*%-%-" then
      require("torch.notes").tell("IF", "condition", {text = value, fix = value .. ":item()"}, {source = chunk, line = row})
    end
  end
end

---Says notes for what a text has of other languages and is something else in Lua: lists in double brackets, and several names for
---the sizes of a tensor.
---@param text string
---@param chunk string its short name: "file.lua", "[3]"
function foreign.lists(text, chunk)
  sizes(text, chunk)
  if chunk:sub(1, 1) ~= "[" then conditions(text, chunk) end
  if not text:find "%[%[[%s%d%.%-%[]" then return end
  local tokens = torch._lex(text)
  for k, token in ipairs(tokens) do
    local content = token.kind == "string" and text:sub(token.first, token.last):match "^%[%[([%s%d%.,eE%+%-%[%]]+)%]%]$"
    local before = tokens[k - 1]
    local given = before and before.kind == "op" and text:sub(before.first, before.last) == "(" -- what takes it answers itself
    if content and content:find "%d" and content:find "," and not given then
      local list = text:sub(token.first, token.last)
      local code = foreign.rewrite("x = " .. list)
      local short = #list > 40 and list:sub(1, 37) .. ".." or list
      local _, row = text:sub(1, token.first):gsub("\n", "")
      require("torch.notes").tell("LIST", "list", {text = short:gsub("%s*\n%s*", " "), fix = code and code:sub(5) or nil}, {source = chunk, line = row + 1})
    end
  end
end

return foreign
