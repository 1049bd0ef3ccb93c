-- Expressions of Python, and of lines that are half Lua, as trees: {kind =, ..}. A line that is neither gives nil.
local read = require "torch.foreign.read"

---@class ForeignParser
local Parser = {}
Parser.__index = Parser

local stop = {}  -- raised where a line is not understood
local function fail() error(stop, 0) end

local words = {}  -- that are no names
for word in ("and or not in is if else elif lambda for while return import from def class then do end elseif local"):gmatch "%a+" do words[word] = true end

function Parser.new(tokens, at) return setmetatable({tokens = tokens, at = at or 1}, Parser) end
function Parser:token(k) return self.tokens[self.at + (k or 0)] end
function Parser:text(k)
  local token = self.tokens[self.at + (k or 0)]
  return token and token.kind ~= "string" and token.text or nil
end
function Parser:accept(text)
  if self:text() ~= text then return false end
  self.at = self.at + 1
  return true
end
function Parser:expect(text)
  if not self:accept(text) then fail() end
end
function Parser:has(text)
  for _, token in ipairs(self.tokens) do
    if token.kind == "op" and token.text == text then return true end
  end
  return false
end
function Parser:name()
  local token = self:token()
  if not token or token.kind ~= "name" then fail() end
  self.at = self.at + 1
  return token.text
end

-- Items between brackets up to `close`: fields of a table, arguments, elements.
function Parser:items(close, one)
  local items = {}
  while self:text() ~= close do
    items[#items + 1] = one(self)
    if not self:accept "," and not self:accept ";" then
      if self:text() ~= close then fail() end
    else
      items.comma = true
    end
  end
  self.at = self.at + 1
  return items
end

-- `for x in xs if c` behind an element.
function Parser:loops(element)
  if self:text() ~= "for" then return nil end
  local loops = {}
  while true do
    if self:accept "for" then
      local target = self:targets()
      self:expect "in"
      loops[#loops + 1] = {target = target, iter = self:either()}
    elseif self:accept "if" then
      local last = loops[#loops]
      last.test = last.test and {kind = "binary", op = "and", last.test, self:either()} or self:either()
    else
      return {kind = "comprehension", element = element, loops = loops}
    end
  end
end

-- The names that a loop or a tuple assigns.
function Parser:targets()
  local list = {}
  repeat
    if self:accept "(" then
      list[#list + 1] = self:targets()
      self:expect ")"
    elseif self:text() == "in" or self:text() == "=" then
      break
    else
      self:accept "*"
      list[#list + 1] = self:postfix()
    end
  until not self:accept ","
  return #list == 1 and list[1] or {kind = "tuple", items = list}
end

function Parser:slice()
  local token = self:token()
  local part, bounds, colons = nil, {}, 0
  if self:text() ~= ":" and self:text() ~= "::" then
    self.slicing = true
    part = self:expression()
    self.slicing = false
  end
  if self:text() ~= ":" and self:text() ~= "::" then return part end
  bounds[1] = part
  while self:text() == ":" or self:text() == "::" do
    colons = colons + (self:text() == "::" and 2 or 1)
    self.at = self.at + 1
    if self:text() ~= ":" and self:text() ~= "," and self:text() ~= "]" then
      self.slicing = true
      bounds[colons + 1] = self:expression()
      self.slicing = false
    end
  end
  if colons > 2 then fail() end
  return {kind = "slice", first = bounds[1], last = bounds[2], step = bounds[3], at = token.at}
end

function Parser:argument()
  local token = self:token()
  if self:accept "*" then return {kind = "star", self:expression()} end
  if self:accept "**" then return {kind = "stars", self:expression()} end
  if token and token.kind == "name" and self:text(1) == ":=" then
    self.at = self.at + 2
    return {kind = "walrus", name = token.text, self:expression()}
  end
  if token and token.kind == "name" and self:text(1) == "=" then
    self.at = self.at + 2
    return {kind = "named", name = token.text, self:expression()}
  end
  local value = self:expression()
  local loops = self:loops(value)
  return loops or value
end

function Parser:element()
  if self:accept "*" then return {kind = "star", self:expression()} end
  local value = self:expression()
  return value
end

-- { ... }: a dict, a set, or a table of Lua's.
function Parser:braces()
  local first = true
  local out
  local items = self:items("}", function(p)
    if p:accept "**" then return {kind = "stars", p:expression()} end
    if p:token() and p:token().kind == "name" and p:text(1) == "=" then
      local key = p:name()
      p.at = p.at + 1
      return {kind = "named", name = key, p:expression()}
    end
    if p:text() == "[" then  -- [key] = value, or a list in a list
      local from = p.at
      p.at = p.at + 1
      local ok, key = pcall(p.expression, p)
      if ok and p:accept "]" and p:accept "=" then return {kind = "pair", key = key, p:expression()} end
      p.at = from
    end
    p.slicing = true
    local value = p:expression()
    p.slicing = false
    if p:accept ":" then
      value = {kind = "pair", key = value, p:expression()}
    end
    if first then out = p:loops(value) end
    first = false
    return value
  end)
  return out or {kind = "table", items = items}
end

local levels = {{"or"}, {"and"}}
local power = {["|"] = 1, ["^^"] = 2, ["&"] = 3, ["<<"] = 4, [">>"] = 4, [".."] = 5, ["+"] = 6, ["-"] = 6, ["*"] = 7, ["/"] = 7, ["//"] = 7, ["%"] = 7, ["@"] = 7}

function Parser:primary()
  local token, text = self:token(), self:text()
  if not token then fail() end
  self.at = self.at + 1
  if token.kind == "number" then
    return {kind = "number", text = token.text:gsub("_", ""), at = token.at}
  elseif token.kind == "string" then
    local parts = {token}
    while self:token() and self:token().kind == "string" do
      parts[#parts + 1] = self:token()
      self.at = self.at + 1
    end
    return {kind = "string", parts = parts}
  elseif text == "(" then
    local items = self:items(")", Parser.argument)
    if #items == 1 and not items.comma then return items[1].kind == "named" and fail() or {kind = "group", items[1]} end
    return {kind = "tuple", items = items}
  elseif text == "[" then
    local loops
    local items = self:items("]", function(p)
      local value = p:element()
      loops = loops or p:loops(value)
      return value
    end)
    return loops or {kind = "table", items = items, list = true}
  elseif text == "{" then
    return self:braces()
  elseif text == "..." then
    return {kind = "name", text = "Ellipsis"}
  elseif text == "function" then  -- a function of Lua's, as it stands
    local depth, parts = 1, {"function"}
    while depth > 0 do
      local each = self:token()
      if not each then fail() end
      local word = self:text()
      if word == "function" or word == "do" or word == "if" or word == "repeat" then depth = depth + 1 end
      if word == "end" or word == "until" then depth = depth - 1 end
      parts[#parts + 1] = (each.space and " " or "") .. each.text
      self.at = self.at + 1
    end
    return {kind = "raw", text = table.concat(parts)}
  elseif token.kind == "name" and not words[text] then
    return {kind = "name", text = text}
  elseif text == "end" then  -- a name of Python's, where Lua's word cannot stand
    local after = self:text()
    if after == ")" or after == "," or after == "." or after == "=" then return {kind = "name", text = "end_"} end
  end
  fail()
end

function Parser:postfix()
  local e = self:primary()
  while true do
    local text = self:text()
    if text == "." then
      self.at = self.at + 1
      e = {kind = "field", e, name = self:name()}
    elseif text == "(" then
      self.at = self.at + 1
      e = {kind = "call", e, args = self:items(")", Parser.argument)}
    elseif text == "[" then
      self.at = self.at + 1
      local slicing = self.slicing
      local items = self:items("]", Parser.slice)
      self.slicing = slicing
      if #items == 0 then fail() end
      e = {kind = "index", e, items = items}
    elseif text == ":" and not self.slicing and self:token(1) and self:token(1).kind == "name" and not self:token(1).space
      and self:token(2) and not self:token().space and (self:text(2) == "(" or self:text(2) == "{" or self:token(2).kind == "string") then
      self.at = self.at + 1
      self.lua = true
      local name = self:name()
      if self:accept "(" then
        e = {kind = "call", {kind = "field", e, name = name, colon = true}, args = self:items(")", Parser.argument)}
      else
        e = {kind = "call", {kind = "field", e, name = name, colon = true}, args = {self:primary()}, bare = true}
      end
    elseif (text == "{" or self:token() and self:token().kind == "string") and (e.kind == "name" or e.kind == "field") and not self:token().space then
      e = {kind = "call", e, args = {self:primary()}, bare = true}  -- torch.ones{2, 3}
    else
      return e
    end
  end
end

function Parser:unary()
  local text = self:text()
  if text == "-" or text == "+" or text == "~" or text == "#" or text == "--" or text == "!" or text == "await" then
    self.at = self.at + 1
    local operand = self:unary()
    if text == "+" or text == "--" or text == "await" then return operand end
    return {kind = "unary", op = text == "!" and "not" or text, operand}
  end
  local base = self:postfix()
  if self:text() == "**" or self:text() == "^" then
    local op = self:text()
    self.at = self.at + 1
    return {kind = "binary", op = "^", python = op == "**", base, self:unary()}
  end
  return base
end

function Parser:arithmetic(least)
  local left = self:unary()
  while true do
    local op = self:text()
    local level = op and power[op]
    if not level or level < least then return left end
    self.at = self.at + 1
    left = {kind = "binary", op = op, left, self:arithmetic(level + 1)}
  end
end

local compares = {["<"] = true, [">"] = true, ["<="] = true, [">="] = true, ["=="] = true, ["!="] = true, ["~="] = true}

function Parser:comparison()
  if self:accept "not" then return {kind = "unary", op = "not", self:comparison()} end
  local left, whole = self:arithmetic(1), nil
  while true do
    local op = self:text()
    if op == "is" then
      self.at = self.at + 1
      op = self:accept "not" and "is not" or "is"
    elseif op == "not" and self:text(1) == "in" then
      self.at, op = self.at + 2, "not in"
    elseif op == "in" and not self.no_in or compares[op] then
      self.at = self.at + 1
    else
      return whole or left
    end
    local right = self:arithmetic(1)
    local one = {kind = "compare", op = op, left, right}
    whole = whole and {kind = "binary", op = "and", whole, one} or one
    left = right
  end
end

function Parser:level(k)
  local word = k == 1 and "or" or "and"
  local other = k == 1 and "||" or "&&"
  local left = k == 1 and self:level(2) or self:comparison()
  while self:text() == word or self:text() == other do
    self.logic = self.logic or self:text() == other
    self.at = self.at + 1
    left = {kind = "binary", op = word, left, k == 1 and self:level(2) or self:comparison()}
  end
  return left
end

function Parser:either() return self:level(1) end

function Parser:expression()
  if self:accept "lambda" then
    local names = {}
    while self:text() ~= ":" do
      if self:accept "*" then
        self:name()
        names[#names + 1] = {name = "..."}
      else
        local name = {name = self:name()}
        if self:accept "=" then name.default = self:either() end
        names[#names + 1] = name
      end
      if not self:accept "," and self:text() ~= ":" then fail() end
    end
    self:expect ":"
    return {kind = "lambda", names = names, self:expression()}
  end
  if self:accept "yield" then return {kind = "call", {kind = "name", text = "coroutine.yield"}, args = {self:expression()}} end
  local value = self:either()
  if self:text() == "if" and not self.no_if then
    self.at = self.at + 1
    local test = self:either()
    self:expect "else"
    return {kind = "choice", test, value, self:expression()}
  end
  return value
end

-- Several expressions with commas between them: one, or a tuple.
function Parser:expressions()
  local first = self:element()
  if self:text() ~= "," then return first end
  local items = {first}
  while self:accept "," do
    if not self:token() or self:text() == "=" then break end
    items[#items + 1] = self:element()
  end
  return {kind = "tuple", bare = true, items = items}
end

---A tree for the whole of a text; nil when it is none.
function Parser.of_text(text)
  local lines = read.lines(text)
  if not lines or #lines ~= 1 then return nil end
  local p = Parser.new(lines[1])
  local ok, tree = pcall(p.expressions, p)
  if not ok then
    if tree ~= stop then error(tree, 0) end
    return nil
  end
  return p:token() == nil and tree or nil
end

Parser.stop, Parser.fail, Parser.levels = stop, fail, levels
return Parser
