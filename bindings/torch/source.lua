-- The user's source text and the expressions on one of its lines: where error messages find the names
-- of operands and the part to underline.
local torch = torch
local source = {}

local most = 4 << 20  -- bytes of a file that are looked at

---The text of a chunk: of a file from disk, of a prompt entry from torch._chunks.
---@param chunk string as debug.getinfo gives it: "@file.lua", "=[12]", or the text itself; or a short name
---@return string?
function source.text(chunk)
  local name = chunk:match("^=(.*)$")
  if name then return torch._chunks[name] end
  if torch._chunks[chunk] then return torch._chunks[chunk] end
  if chunk:find("[\n\1]") or chunk:find("^%s*return ") then return (chunk:gsub("\1", "\n")) end
  local path = chunk:match("^@(.*)$") or chunk
  local file = io.open(path, "rb")
  if not file then return not chunk:find("^@") and #chunk > 60 and chunk or nil end
  local ok, text = pcall(file.read, file, most)
  file:close()
  return ok and text or nil
end

---One line of a chunk's text.
---@param chunk string
---@param line integer
---@return string?
function source.line(chunk, line)
  local text = source.text(chunk)
  if not text then return nil end
  local n = 1
  for found in (text .. "\n"):gmatch("([^\n]*)\n") do
    if n == line then return (found:gsub("\r$", "")) end
    n = n + 1
  end
end

torch._source_line = source.line

local binary = {
  ["or"] = {1, 1}, ["and"] = {2, 2}, ["<"] = {3, 3}, [">"] = {3, 3}, ["<="] = {3, 3}, [">="] = {3, 3},
  ["~="] = {3, 3}, ["=="] = {3, 3}, ["|"] = {4, 4}, ["~"] = {5, 5}, ["&"] = {6, 6}, ["<<"] = {7, 7},
  [">>"] = {7, 7}, [".."] = {9, 8}, ["+"] = {10, 10}, ["-"] = {10, 10}, ["*"] = {11, 11},
  ["/"] = {11, 11}, ["//"] = {11, 11}, ["%"] = {11, 11}, ["^"] = {14, 13},
}
local unary = {["not"] = 12, ["-"] = 12, ["#"] = 12, ["~"] = 12}
local values = {["nil"] = true, ["true"] = true, ["false"] = true, ["..."] = true}

local Parser = {}
Parser.__index = Parser

function Parser:text(k) return self.words[k or self.at] end
function Parser:node(kind, first, more)
  more.kind, more.first = kind, self.tokens[first].first
  more.last = self.tokens[math.min(self.at - 1, #self.tokens)].last
  more.token = first
  more.line = more.line or self.lines[first]
  more.from = self.lines[first]
  self.nodes[#self.nodes + 1] = more
  return more
end

-- The list inside brackets, which the parser stands on; nil when it does not end.
function Parser:list(close)
  local items = {}
  self.at = self.at + 1
  while self:text() ~= close do
    local e = self:expression(0)
    if not e then return nil end
    items[#items + 1] = e
    if self:text() == "," then
      self.at = self.at + 1
    elseif self:text() ~= close then
      return nil
    end
  end
  self.at = self.at + 1
  return items
end

function Parser:constructor()
  local first, items, named = self.at, {}, {}
  self.at = self.at + 1
  while self:text() ~= "}" do
    local word = self.tokens[self.at]
    if not word then return nil end
    if word.kind == "name" and self:text(self.at + 1) == "=" then
      local key = self:text()
      self.at = self.at + 2
      local e = self:expression(0)
      if not e then return nil end
      named[key] = e
    elseif self:text() == "[" then
      self.at = self.at + 1
      if not self:expression(0) or self:text() ~= "]" or self:text(self.at + 1) ~= "=" then return nil end
      self.at = self.at + 2
      if not self:expression(0) then return nil end
    else
      local e = self:expression(0)
      if not e then return nil end
      items[#items + 1] = e
    end
    if self:text() == "," or self:text() == ";" then
      self.at = self.at + 1
    elseif self:text() ~= "}" then
      return nil
    end
  end
  self.at = self.at + 1
  return self:node("table", first, {items = items, named = named})
end

-- Parameters and body of a function; stands on "(".
function Parser:body()
  if self:text() ~= "(" then return nil end
  while self:text() and self:text() ~= ")" do self.at = self.at + 1 end
  if not self:text() then return nil end
  self.at = self.at + 1
  self:block()
  if self:text() == "end" then self.at = self.at + 1 end
  return true
end

function Parser:simple()
  local token, first = self.tokens[self.at], self.at
  if not token then return nil end
  local word = self:text()
  if token.kind == "number" or token.kind == "string" or values[word] then
    self.at = first + 1
    return self:node("value", first, {})
  elseif word == "{" then
    return self:constructor()
  elseif word == "function" then
    self.at = first + 1
    return self:body() and self:node("function", first, {})
  end
  local e
  if word == "(" then
    self.at = first + 1
    if not self:expression(0) or self:text() ~= ")" then return nil end
    self.at = self.at + 1
    e = self:node("group", first, {})
  elseif token.kind == "name" then
    self.at = first + 1
    e = self:node("name", first, {name = word})
  else
    return nil
  end
  while true do
    local next_token, op = self.tokens[self.at], self:text()
    if not next_token then return e end
    local line = self.lines[self.at]
    local method
    if op == "." then
      local key = self.tokens[self.at + 1]
      if not key or key.kind ~= "name" then return e end
      local name = self:text(self.at + 1)
      self.at = self.at + 2
      e = self:node("field", first, {object = e, name = name, line = line})
      goto continue
    elseif op == "[" then
      self.at = self.at + 1
      local key = self:expression(0)
      if not key or self:text() ~= "]" then return nil end
      self.at = self.at + 1
      e = self:node("index", first, {object = e, key = key, line = line})
      goto continue
    elseif op == ":" then
      local key = self.tokens[self.at + 1]
      if not key or key.kind ~= "name" then return e end
      method = self:text(self.at + 1)
      self.at = self.at + 2
      next_token, op = self.tokens[self.at], self:text()
      if not next_token then return nil end
    end
    do
      local args
      if op == "(" then
        args = self:list(")")
        if not args then return nil end
      elseif op == "{" then
        local t = self:constructor()
        if not t then return nil end
        args = {t}
      elseif next_token.kind == "string" then
        self.at = self.at + 1
        args = {self:node("value", self.at - 1, {})}
      else
        return not method and e or nil
      end
      e = self:node("call", first, {called = e, method = method, name = method or e.name, args = args, line = line})
    end
    ::continue::
  end
end

function Parser:expression(limit)
  self.depth = self.depth + 1
  if self.depth > 150 then return nil end
  local first, word = self.at, self:text()
  local left
  if word and unary[word] and self.tokens[first].kind ~= "string" then
    self.at = first + 1
    local operand = self:expression(12)
    left = operand and self:node("unary", first, {op = word, args = {operand}})
  else
    left = self:simple()
  end
  while left do
    local op = self:text()
    local power = op and self.tokens[self.at].kind ~= "string" and binary[op]
    if not power or power[1] <= limit then break end
    local line = self.lines[self.at]
    self.at = self.at + 1
    local right = self:expression(power[2])
    left = right and self:node("binary", first, {op = op, args = {left, right}, line = line})
  end
  self.depth = self.depth - 1
  return left
end

-- The values of an assignment: each name has its own, and those without one are results of the last.
function Parser:assign(targets)
  local value
  for i, e in ipairs(targets) do
    if i == 1 or self:text() == "," then
      self.at = self.at + 1
      value = self:expression(0)
      if not value then return end
    end
    if e.kind == "name" then self.assigned[#self.assigned + 1] = {name = e.name, value = value, line = e.line, after = value.last} end
  end
end

-- Statements are skipped over; what counts are the expressions in them.
function Parser:block()
  local depth = 0
  while self.tokens[self.at] do
    local token, word, first = self.tokens[self.at], self:text(), self.at
    if word == "function" then
      self.at = first + 1
      while self.tokens[self.at] and self:text() ~= "(" do self.at = self.at + 1 end
      self:body()
    elseif token.kind == "keyword" and not values[word] and not unary[word] then
      if word == "do" or word == "if" or word == "repeat" then
        depth = depth + 1
      elseif word == "end" or word == "until" then
        if depth == 0 then
          if self.inner > 0 then return end
        else
          depth = depth - 1
        end
      end
      self.at = first + 1
    else
      self.depth = 0
      local targets = {self:expression(0)}
      if not targets[1] then
        self.at = math.max(self.at, first + 1)
      else
        while self:text() == "," do
          self.at = self.at + 1
          targets[#targets + 1] = self:expression(0) or {kind = "none"}
        end
        if self:text() == "=" then self:assign(targets) end
      end
    end
    if self.at <= first then self.at = first + 1 end
  end
end
-- A function's parameters are set from outside, and what it sets counts inside of it alone.
do
  local body = Parser.body
  function Parser:body()
    self.inner = self.inner + 1
    local from, first = #self.assigned, self.at
    for i = first + 1, #self.tokens do
      if self.words[i] == ")" then break end
      if self.tokens[i].kind == "name" then
        self.assigned[#self.assigned + 1] = {name = self.words[i], line = self.lines[i], after = self.tokens[i].last}
      end
    end
    local ok = body(self)
    local last = self.tokens[math.min(self.at, #self.tokens)].last
    for i = from + 1, #self.assigned do
      local set = self.assigned[i]
      set.within = set.within or {self.tokens[first].first, last}
    end
    self.inner = self.inner - 1
    return ok
  end
end

-- Where the lines around one begin and end, and the first one's number.
local function window(text, near)
  local begins, n, at = {}, 1, 1
  local begin, first, stop = 1, 1, #text
  while at do
    begins[n % 300] = at
    if n == near then
      if n > 299 then begin, first = begins[(n + 1) % 300], n - 299 end
    elseif n == near + 100 then
      stop = at - 1
      break
    end
    at = text:find("\n", at, true)
    at, n = at and at + 1, n + 1
  end
  return begin, first, stop
end

-- One error asks several times for the same text, and a loop's errors come from the same one.
local last = {}

---All expressions of a text: nodes {kind, first, last (bytes), line, from}, calls with name, method,
---called and args, operators with op and args; and what sets names: {name, value (nil for
---a parameter), line, after (where it is set), within (first and last byte of its function)}.
---@param text string
---@param near? integer a line: of a long text only what is around it is looked at
---@return table nodes, table assigned: the same ones for the same text, not to be changed
function source.parse(text, near)
  if text == last.text and near == last.near then return last.nodes, last.assigned end
  local tokens, words, lines, line, at = {}, {}, {}, 1, 1
  local begin, stop = 1, #text
  if near then
    begin, line, stop = window(text, near)
    at = begin
  end
  for _, t in ipairs(torch._lex(begin == 1 and stop == #text and text or text:sub(begin, stop))) do
    if t.kind ~= "comment" then
      t.first, t.last = t.first + begin - 1, t.last + begin - 1
      while true do
        local n = text:find("\n", at, true)
        if not n or n >= t.first then break end
        line, at = line + 1, n + 1
      end
      tokens[#tokens + 1] = t
      words[#tokens], lines[#tokens] = text:sub(t.first, t.last), line
    end
  end
  local p = setmetatable({tokens = tokens, words = words, lines = lines, at = 1, depth = 0, inner = 0,
    nodes = {}, assigned = {}}, Parser)
  p:block()
  last = {text = text, near = near, nodes = p.nodes, assigned = p.assigned}
  return p.nodes, p.assigned
end

return source
