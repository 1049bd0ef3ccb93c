-- Statements of Python written in Lua. A head of a block stands with its end, `--[[ .. ]]` in the place of what belongs
-- between them, unless the block itself is there.
local words = require "torch.foreign.words"
local Parser = require "torch.foreign.parse"
local Writer = require "torch.foreign.write"
local loops = require "torch.foreign.loops"
local statements = {}

local S = {}  -- a statement's parser and writer
S.__index = S

local function fail() Parser.fail() end

function S:expression() return (self.w:write(self.p:expression())) end
function S:expressions() return (self.w:write(self.p:expressions())) end

-- Stands on what ends a head: ":" of Python, or Lua's own word.
function S:head_ends(word)
  local p = self.p
  if p:accept ":" or word and p:accept(word) then return end
  if p:token() == nil then return end
  if p:text() == "{" and p:token(1) == nil then  -- C
    p.at = p.at + 1
    return
  end
  fail()
end

local heads = {}

local function condition(s)
  local p = s.p
  local named = p:token() and p:token().kind == "name" and p:text(1) == ":="
  local e = named and p:argument() or p:expression()
  while e.kind == "group" do e = e[1] end
  s.w.first = {}
  local test = (s.w:write(s.w:truth(e)))
  local before = table.concat(s.w.first, "; ")
  s.w.first = nil
  return test, before
end

function heads.if_(s)
  local test, before = condition(s)
  s:head_ends "then"
  s.w.said(test == '"__main__" == "__main__"' and "pass" or "block")
  if test:find '^"__main__" ==' then return "do", "end" end
  return ("%sif %s then"):format(before ~= "" and before .. "; " or "", test), "end"
end
heads["if"] = heads.if_
function heads.elif(s)
  local test, before = condition(s)
  if before ~= "" then fail() end
  s:head_ends "then"
  s.w.said "elif"
  return ("elseif %s then"):format(test), "end", true
end
heads["elseif"] = heads.elif
heads["else"] = function(s)
  if s.p:text() == "if" then
    s.p.at = s.p.at + 1
    return heads.elif(s)
  end
  s:head_ends()
  s.w.said "block"
  return "else", "end", true
end
heads["while"] = function(s)
  local test, before = condition(s)
  s:head_ends "do"
  s.w.said "block"
  if before ~= "" then return ("while true do %s; if not (%s) then break end;"):format(before, test), "end" end
  return ("while %s do"):format(test), "end"
end
heads["for"] = function(s)
  local p = s.p
  if p:text() == "(" and s.p:has ";" then  -- for (int i = 0; i < n; i++) of C
    p.at = p.at + 1
    if p:token(1) and p:token(1).kind == "name" then p.at = p.at + 1 end
    local name = p:name()
    p:expect "="
    local first = s:expression()
    p:expect ";"
    local test = p:expression()
    if test.kind ~= "compare" or not p:accept ";" then fail() end
    while p:text() and p:text() ~= ")" do p.at = p.at + 1 end
    p:expect ")"
    s:head_ends "do"
    local last, n = s.w:under(test[2], 10), s.w.number(test[2])
    return ("for %s = %s, %s do"):format(name, first, test.op ~= "<" and last or n and tostring(n - 1) or last .. " - 1"), "end"
  end
  local target = p:targets()
  if p:accept "=" then  -- Lua's own
    local range = p:expressions()
    s:head_ends "do"
    return ("for %s = %s do"):format((s.w:write(target)), (s.w:write(range))), "end"
  end
  p:expect "in"
  local iter = p:expressions()
  s:head_ends "do"
  s.w.said "block"
  s.w.by_key = s.by_key
  local head, inside, before = loops.head(s.w, target, iter)
  return (before and before .. "; " or "") .. head .. (inside and " " .. inside .. ";" or ""), "end"
end
for word, head in pairs(require "torch.foreign.scopes") do heads[word] = head end
local definitions = require "torch.foreign.definitions"
heads.class, heads.def = definitions.class, definitions.def
heads["async"] = function(s)
  s.p:expect "def"
  return heads.def(s)
end

local simple = {}
simple["return"] = function(s) return s.p:token() and "return " .. s:expressions() or "return" end
simple["pass"] = function(s)
  s.w.said "pass"
  return "do end"
end
simple["break"] = function() return "break" end
simple["continue"] = function(s)
  s.w.said "continue"
  return "goto continue"
end
simple["del"] = function(s)
  s.w.said "del"
  local out = {}
  repeat out[#out + 1] = s:expression() until not s.p:accept ","
  return table.concat(out, ", ") .. " = nil"
end
simple["global"] = function(s)
  s.w.said "global"
  repeat s.p:name() until not s.p:accept ","
  return ""
end
simple["nonlocal"] = simple["global"]
simple["assert"] = function(s)
  s.w.said "assert"
  local test = s.p:expression()
  local message = s.p:accept "," and ", " .. s:expression() or ""
  while test.kind == "group" do test = test[1] end
  if test.kind == "tuple" then return "assert(" .. s.w:list(test.items) .. ")" end
  return ("assert(%s%s)"):format((s.w:write(s.w:truth(test))), message)
end
simple["raise"] = function(s)
  s.w.said "raise"
  if not s.p:token() then return "error(err)" end
  local e = s.p:expression()
  if s.p:accept "from" then s.p:expression() end
  if e.kind == "call" then return ("error(%s)"):format(#e.args > 0 and (s.w:write(e.args[1])) or '"' .. (s.w:path(e[1]) or "error") .. '"') end
  if e.kind == "name" and e.text:find "^%l" then return "error(" .. e.text .. ")" end
  return ('error("%s")'):format(s.w:path(e) or "error")
end

local imports = require "torch.foreign.imports"
simple["import"], simple["from"] = imports.import, imports.from

-- What a line does that is neither a head nor begins with a word of Python: assigns, or calls.
function S:plain()
  local p, w = self.p, self.w
  local declares = p:accept "local"
  local tree = p:expressions()
  local op = p:text()
  if not op or op == ";" or op == "end" or op == "else" or op == "elseif" or op == "elif" or p:token().kind == "name" and w.lua then
    if tree.kind == "comprehension" then fail() end
    if tree.kind == "name" and tree.text == "Ellipsis" then return "do end" end
    local f = tree.kind == "call" and tree[1]
    local key = f and f.kind == "field" and f.name == "pop" and #tree.args == 1 and tree.args[1]
    if key and key.kind == "string" then return (w:index {f[1], items = {key}}) .. " = nil" end
    if tree.kind == "string" and self.alone then return "-- " .. tree.parts[1].content:gsub("^%s+", ""):gsub("%s*\n%s*", " "):gsub("%s+$", "") end
    return (w:write(tree))
  end
  if op == ":" and tree.kind ~= "tuple" then  -- x: int = 3
    p.at = p.at + 1
    p.slicing = true
    p:expression()
    p.slicing = false
    op = p:text()
    if not op then return (self.body and tree.kind == "name" and self.body .. "." or "") .. w:write(tree) .. " = nil" end
  end
  local function longer(list, right)  -- xs += [4, 5]
    if #right.items == 1 then return ("table.insert(%s, %s)"):format(list, (w:write(right.items[1]))) end
    return ("for _, each in ipairs%s do table.insert(%s, each) end"):format((w:write(right)), list)
  end
  local changed = op:match "^([%+%-%*/%%&|@^]+)=$" or op == "//=" and "//" or op == "<<=" and "<<" or op == ">>=" and ">>"
  if changed then
    p.at = p.at + 1
    local right = p:expressions()
    w.said("augmented", op)
    if changed == "+" and right.kind == "table" and right.list then return longer((w:write(tree)), right) end
    if changed == "^" then changed = "^" end
    local sum = {kind = "binary", op = changed == "**" and "^" or changed, tree, right.kind == "binary" and {kind = "group", right} or right}
    return ("%s = %s"):format((w:write(tree)), (w:write(sum)))
  end
  if op == "++" or op == "--" then
    p.at = p.at + 1
    w.said "increment"
    return ("%s = %s %s 1"):format((w:write(tree)), (w:write(tree)), op:sub(1, 1))
  end
  if op ~= "=" and op ~= ":=" then fail() end
  local targets = {tree}
  while p:accept "=" or p:accept ":=" do
    targets[#targets + 1] = p:expressions()
  end
  local value = table.remove(targets)
  if tree.kind == "index" and w:path(tree[1]) == "os.environ" then  -- is set where a program is started
    local function plain(e) return e.kind == "string" and #e.parts == 1 and e.parts[1].content or (w:write(e)) end
    return ("-- in the shell: %s=%s tycho .."):format(plain(tree.items[1]), plain(value))
  end
  if #targets == 1 and value.kind == "binary" and value.op == "+" and value[2].kind == "table" and value[2].list and value[1].kind == "name" and tree.text == value[1].text then
    return longer(value[1].text, value[2])
  end
  local taken = {}  -- what tuples in tuples are taken apart by, afterwards
  local function left(e)
    if e.kind == "tuple" then
      local names = {}
      for k, item in ipairs(e.items) do
        if item.kind == "tuple" then
          local inner = w:list(item.items)
          names[k] = inner:match "^[%a_][%w_]*" or fail()
          taken[#taken + 1] = ("%s = table.unpack(%s)"):format(inner, names[k])
        elseif item.kind == "group" then
          names[k] = (w:write(item[1]))
        else
          names[k] = (w:write(item))
        end
      end
      return table.concat(names, ", ")
    end
    if e.kind == "group" then e = e[1] end
    if e.kind ~= "name" and e.kind ~= "field" and e.kind ~= "index" then fail() end
    return (self.body and e.kind == "name" and self.body .. "." or "") .. (w:write(e))
  end
  for k, item in ipairs(tree.kind == "tuple" and tree.items or {}) do
    if item.kind == "star" then  -- first, *rest = xs
      if #targets > 1 then fail() end
      local list, n, names, parts = w:object(value), #tree.items, {}, {}
      for i, each in ipairs(tree.items) do
        names[i] = (w:write(i == k and each[1] or each))
        parts[i] = i < k and ("%s[%d]"):format(list, i) or i > k and (i == n and "%s[#%s]" or "%s[#%s - " .. n - i .. "]"):format(list, list)
          or k == n and ("{table.unpack(%s, %d)}"):format(list, k) or ("{table.unpack(%s, %d, #%s - %d)}"):format(list, k, list, n - k)
      end
      return ("%s%s = %s"):format(declares and "local " or "", table.concat(names, ", "), table.concat(parts, ", "))
    end
  end
  local lead = declares and "local " or ""
  local rows = value.kind == "call" and value[1].kind == "name" and value[1].text == "zip" and #value.args == 1 and value.args[1].kind == "star" and value.args[1][1]
  if rows and tree.kind == "tuple" and #targets == 1 then  -- xs, ys = zip(*pairs)
    local names, from = {}, {}
    local list, overlap = (w:write(rows)), nil
    for k, item in ipairs(tree.items) do
      names[k], from[k] = (w:write(item)), "row[" .. k .. "]"
      overlap = overlap or names[k] == list
    end
    w.said "columns"
    if overlap then return ("%s%s = table.unpack(%s)"):format(lead, table.concat(names, ", "), (w:write(value))) end
    return ("%s%s = %s for i, row in ipairs(%s) do %s = %s end"):format(lead, table.concat(names, ", "), ("{}, "):rep(#names - 1) .. "{}", list,
      table.concat(names, "[i], ") .. "[i]", table.concat(from, ", "))
  end
  if value.kind == "call" and value[1].kind == "field" and value[1].name == "split" and tree.kind == "name" and (not value.args[1] or value.args[1].kind == "string") then
    local part = {kind = "name", text = "part"}
    value = {kind = "comprehension", element = part, loops = {{target = part, iter = value}}}
  end
  if #targets == 1 and tree.kind == "name" and value.kind == "comprehension" then
    local name = left(tree)
    return ("%s%s = {} %s"):format(lead, name, loops.filled(w, value, name))
  end
  if #targets > 1 then w.said "chained" end
  local right
  if #targets == 1 and targets[1].kind == "tuple" and (value.kind == "tuple" or value.kind == "table" and value.list) then
    right = w:list(value.items)
  elseif targets[1].kind == "name" and targets[1].text:find "mask" then
    right = (w:mask(value))
  else
    right = (w:write(value))
    local cut = value.kind == "call" and value[1].kind == "field" and value[1].name == "split" and value[1][1].kind ~= "name"
    local mapped = value.kind == "call" and value[1].kind == "name" and value[1].text == "map"
    if targets[1].kind == "tuple" and (cut or mapped or value.kind == "name" or value.kind == "field" or value.kind == "index") then right = "table.unpack(" .. right .. ")" end
  end
  local out = {lead .. left(targets[#targets]) .. " = " .. right}
  for k = #targets - 1, 1, -1 do out[#out + 1] = lead .. left(targets[k]) .. " = " .. left(targets[k + 1]) end
  for _, each in ipairs(taken) do out[#out + 1] = lead .. each end
  return table.concat(out, "; ")
end

-- One statement, which may be a head with its block behind it on the line.
function S:statement()
  local p = self.p
  local word = p:text()
  local after = p:text(1)
  if word == "@" then
    p.at = p.at + 1
    self.w.said "decorator"
    return "-- " .. self:expression() .. "(f) decorates f"
  end
  local head = heads[word]
  if head and (word ~= "match" and word ~= "case" or after ~= "=" and after ~= "." and after ~= "(" and after ~= nil) then
    p.at = p.at + 1
    local text, close, joins, more = head(self)
    if p:token() then  -- the block is on the line
      if close == "" then return text .. " " .. self:line() end
      local body = self:line(true)
      return ("%s %s %s"):format(text, body, close), nil, joins
    end
    return text, close, joins, more
  end
  if word == "end" and after ~= "=" and after ~= "." then
    p.at = p.at + 1
    return "end"
  end
  local f = simple[word]
  if f and after ~= "=" and (after ~= "." or word == "from") and not (after == "(" and (word == "global" or word == "pass")) then
    p.at = p.at + 1
    return f(self)
  end
  if (word == "print" or word == "exec") and p:token(1) and p:token(1).kind ~= "string" and after ~= "(" and after ~= "=" and after ~= "." and after ~= "," and p:token(1).kind ~= "op" then  -- Python 2
    p.at = p.at + 1
    return "print(" .. self:expressions() .. ")"
  end
  return self:plain()
end

-- The statements of a line, one after the other.
function S:line(block)
  local out = {}
  local close, joins, more
  repeat
    if not self.p:token() or block and self.p:text() == "end" then break end
    local text
    text, close, joins, more = self:statement()
    out[#out + 1] = text
    if block and (self.p:text() == "elif" or self.p:text() == "elseif") then
      self.p.at = self.p.at + 1
      local head = heads.elif(self)
      out[#out + 1] = head .. " " .. self:line(true)
      return (table.concat(out, " "))
    end
    if block and self.p:text() == "else" then  -- if c then a else b end
      self.p.at = self.p.at + 1
      out[#out + 1] = "else"
      self.p:accept ":"
      out[#out] = "else " .. self:line(true)
      return (table.concat(out, " "):gsub("; else", " else"))
    end
  until not self.p:accept ";" and not (self.p:text() and (block or self.w.lua) and self.p:text() ~= "end" and self.p:text() ~= ":")
  if block and self.p:text() == "end" then self.p.at = self.p.at + 1 end
  if self.p:token() then fail() end
  return (table.concat(out, "; "):gsub("; ; ", "; "):gsub("^; ", "")), close, joins, more
end

---A logical line in Lua; nil where it is not understood.
---@param line table of read.lines
---@param options {global: boolean, class: string?, said: fun(remark: string, detail?: string)}
---@return string? text, string? close what ends the block that the line begins, boolean? joins it goes on with the block before, table? more
function statements.line(line, options)
  -- Is something like d[k] in the line, or in the block below it?
  local function by_key(object, key)
    for _, each in ipairs {line, table.unpack(options.below or {})} do
      for k = 1, #each - 3 do
        if each[k].text == object and each[k + 1].text == "[" and each[k + 2].text == key and each[k + 3].text == "]" then return true end
      end
    end
    return false
  end
  local s = setmetatable({alone = #line == 1, by_key = by_key, w = Writer.new(line.lua, options.said), p = Parser.new(line), global = options.global, class = options.class, body = options.body}, S)

  local ok, text, close, joins, more = pcall(s.line, s)
  if ok then return text, close, joins, more end
  if text ~= Parser.stop then error(text, 0) end
  return nil
end

return statements
