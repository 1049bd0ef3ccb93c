-- Trees of Python's expressions written in Lua. Positions that stand there as numbers begin with 1; variables keep what
-- they are, since loops over range(n) are written from 1 to n.
local words = require "torch.foreign.words"
local Parser = require "torch.foreign.parse"
local texts = require "torch.foreign.texts"
local lists = require "torch.foreign.lists"
local Writer = {}
Writer.__index = Writer

---@param lua boolean the line is half Lua: its numbers count from 1 already
---@param said fun(remark: string, detail?: string)
function Writer.new(lua, said) return setmetatable({lua = lua, said = said, fail = Parser.fail, spec_of = Parser.spec_of}, Writer) end

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch "%a+" do keywords[word] = true end
local power = {["or"] = 1, ["and"] = 2, ["|"] = 4, ["~"] = 5, ["&"] = 6, ["<<"] = 7, [">>"] = 7, [".."] = 9, ["+"] = 10, ["-"] = 10, ["*"] = 11, ["/"] = 11,
  ["//"] = 11, ["%"] = 11, ["^"] = 14}
local masks = {["<"] = "lt", [">"] = "gt", ["<="] = "le", [">="] = "ge", ["=="] = "eq", ["!="] = "ne", ["~="] = "ne"}

function Writer:string(e) return texts(self, e) end

local function number(e)
  if not e or e.kind ~= "number" and not (e.kind == "unary" and e.op == "-" and e[1].kind == "number") then return nil end
  local n = math.tointeger(tonumber(e.kind == "unary" and "-" .. e[1].text or e.text))
  return n
end
Writer.number = number

local function is_text(e)
  return e.kind == "string" or e.kind == "index" and e[1].kind == "name" and Writer.text_names[e[1].text] or e.kind == "binary" and (e.op == "+" and (is_text(e[1]) or is_text(e[2])) or e.op == "%" and e[1].kind == "string")
    or e.kind == "group" and is_text(e[1]) or e.kind == "call" and e[1].kind == "name" and e[1].text == "str" or e.kind == "call" and e[1].kind == "field" and e[1].name == "format"
end
Writer.is_text = is_text

-- A value to which brackets, a point or a colon are put.
function Writer:object(e)
  local text, level = self:write(e)
  if level < 20 or text:find "^[%d\"'{%[]" or text:find "^function" then return "(" .. text .. ")" end
  return text
end

function Writer:under(e, least)
  local text, level = self:write(e)
  return level < least and "(" .. text .. ")" or text
end

function Writer:list(items)
  local out = {}
  for k, item in ipairs(items) do out[k] = (self:write(item)) end
  return table.concat(out, ", ")
end

local function key(name) return name:find "^[%a_][%w_]*$" and not keywords[name] and name or ('["%s"]'):format(name) end

function Writer:table(e)
  local out = {}
  for k, item in ipairs(e.items) do
    if item.kind == "pair" then
      local name = item.key.kind == "string" and #item.key.parts == 1 and item.key.parts[1].content
      local left = name and name:find "^[%a_][%w_]*$" and key(name) or ("[%s]"):format((self:write(item.key)))
      out[k] = left .. " = " .. self:write(item[1])
      self.said "dict"
    elseif item.kind == "named" then
      out[k] = key(item.name) .. " = " .. self:write(item[1])
    else
      out[k] = (self:write(item))
    end
  end
  if e.list then self.said "list" end
  local star, stars
  for k, item in ipairs(e.items) do
    star = star or item.kind == "star" and k < #e.items
    stars = stars or item.kind == "stars"
  end
  if stars then  -- {**a, "b": 2}
    local parts, own = {}, {}  -- what comes later wins
    for k = 1, #e.items + 1 do
      local other = not e.items[k] or e.items[k].kind == "stars"
      if other and #own > 0 then parts[#parts + 1], own = "{" .. table.concat(own, ", ") .. "}", {} end
      if e.items[k] then table.insert(other and parts or own, out[k]) end
    end
    return ("(function(...) local out = {} for _, part in ipairs{...} do for k, v in pairs(part) do out[k] = v end end return out end)(%s)"):format(table.concat(parts, ", ")), 20
  elseif star then  -- [*a, *b]
    for k, item in ipairs(e.items) do out[k] = item.kind == "star" and (self:write(item[1])) or "{" .. out[k] .. "}" end
    return ("(function(...) local out = {} for _, list in ipairs{...} do table.move(list, 1, #list, #out + 1, out) end return out end)(%s)"):format(table.concat(out, ", ")), 20
  end
  return "{" .. table.concat(out, ", ") .. "}", 19
end

-- One more than a position that stands there as a number.
function Writer:position(e)
  local n = number(e)
  if n and n >= 0 and (not self.lua or n == 0) then return tostring(n + 1) end
  return (self:write(e))
end

-- The last position of a range whose end is not in it any more.
function Writer:before(e, first)
  local n = number(e)
  if n then return tostring(self.lua and n or n < 0 and n - 1 or n) end
  local from = number(first)
  if not first or from == 0 then return (self:write(e)) end  -- x[:n], x[0:n]: n of them
  if e.kind == "binary" and e.op == "+" then  -- x[i : i + 4]
    local m = number(e[2])
    if m then return m == 1 and (self:write(e[1])) or ("%s + %d"):format(self:under(e[1], 10), m - 1) end
  end
  if from then return (self:write(e)) end
  return self:under(e, 10) .. " - 1"
end

function Writer:range(s)
  if not s.first and not s.last and not s.step then return "{}" end
  local step = number(s.step)
  if s.step and (not step or step < 1) then return nil end
  local first = s.first and (number(s.first) and self:position(s.first) or not s.last and self:under(s.first, 10) .. " + 1" or (self:write(s.first))) or nil
  local last = s.last and self:before(s.last, s.first) or nil
  if s.first and not s.last and s.first.kind == "unary" and s.first.op == "-" then first = (self:write(s.first)) end
  if step and step > 1 then return ("{%s, %s, %d}"):format(first or "1", last or "-1", step) end
  if not last then return ("{%s}"):format(first or "1") end
  return ("{%s, %s}"):format(first or "1", last)
end

local text_names = {s = true, text = true, line = true, word = true, name = true, string = true, sentence = true}

function Writer:index(e)
  local object, items = e[1], e.items
  local one = items[1]
  if self.lua then  -- where one counts from 0, all do
    for _, item in ipairs(items) do
      if number(item) == 0 or item.kind == "slice" and (number(item.first) == 0 or not item.first) then
        self.lua = false
        local text, level = self:index(e)
        self.lua = true
        return text, level
      end
    end
  end
  if #items == 1 and self:path(object) == "os.environ" then return ("os.getenv(%s)"):format((self:write(one))), 20 end
  local target = self:object(object)
  if #items == 1 and one.kind ~= "slice" and object.kind == "name" and (object.text:lower():find "dataset$" or object.text:find "_set$" or object.text:find "_data$") and one.kind ~= "string" then
    return ("%s:get(%s)"):format(target, self:position(one)), 20
  end
  if #items == 1 and one.kind ~= "slice" then
    if one.kind == "string" then
      local name = one.parts[1].content
      if #one.parts == 1 and one.parts[1].prefix == "" and name:find "^[%a_][%w_]*$" and not keywords[name] then return target .. "." .. name, 20 end
      return ("%s[%s]"):format(target, (self:write(one))), 20
    end
    if one.kind == "compare" then return ("%s[%s]"):format(target, (self:mask(one))), 20 end
    if one.kind == "name" and (one.text == "None" or one.text == "Ellipsis") then return ("%s[{torch.%s}]"):format(target, one.text == "None" and "newaxis" or "ellipsis"), 20 end
    if one.kind == "table" and one.list then
      local out = {}
      for k, item in ipairs(one.items) do out[k] = self:position(item) end
      return ("%s[torch.tensor{%s}]"):format(target, table.concat(out, ", ")), 20
    end
    if one.kind == "tuple" then items = one.items else
      if number(one) and number(one) >= 0 and not self.lua then self.said "index" end
      if number(one) and object.kind == "name" and text_names[object.text] and not self.lua then
        local at = self:position(one)
        return ("%s:sub(%s, %s)"):format(target, at, at), 20
      end
      if number(one) and number(one) < 0 and object.kind == "name" and lists.is_list(object.text) then
        return ("%s[#%s%s]"):format(target, target, number(one) < -1 and " - " .. -number(one) - 1 or ""), 20
      end
      return ("%s[%s]"):format(target, self:position(one)), 20
    end
  end
  if #items == 1 and one.kind == "slice" then
    local step = number(one.step)
    local text = object.kind == "string" or object.kind == "name" and text_names[object.text]
    if object.kind == "name" and lists.is_list(object.text) and not one.step then return lists.part(target, number(one.first) or one.first, number(one.last) or one.last), 19 end
    if step and step == -1 and not one.first and not one.last then return target .. (text and ":reverse()" or ":flip(1)"), 20 end
    local made = object.kind == "call" and (object[1].text == "list" or object[1].text == "sorted" or object[1].name == "children" or object[1].name == "parameters" or object[1].name == "split")
    if made and not step then
      local last = one.last and number(one.last)
      if one.last and not last then Parser.fail() end
      return ("(function(t) return {table.unpack(t, %s, %s)} end)(%s)"):format(one.first and self:position(one.first) or "1", last and (last < 0 and "#t - " .. -last or tostring(last)) or "#t", (self:write(object))), 20
    end
    if object.kind == "string" or object.kind == "name" and text_names[object.text] then
      return ("%s:sub(%s%s)"):format(target, one.first and self:position(one.first) or "1", one.last and ", " .. self:before(one.last, one.first) or ""), 20
    end
  end
  local out = {}
  for k, item in ipairs(items) do
    if item.kind == "slice" then
      self.said "range_index"
      out[k] = self:range(item)
      if not out[k] then Parser.fail() end
    elseif item.kind == "name" and item.text == "None" then
      out[k] = "torch.newaxis"
    elseif item.kind == "name" and item.text == "Ellipsis" then
      out[k] = "torch.ellipsis"
    elseif item.kind == "compare" then
      out[k] = self:mask(item)
    elseif item.kind == "table" and item.list then
      local list = {}
      for i, each in ipairs(item.items) do list[i] = self:position(each) end
      out[k] = ("torch.tensor{%s}"):format(table.concat(list, ", "))
    else
      out[k] = self:position(item)
    end
  end
  self.said "index"
  return ("%s[{%s}]"):format(target, table.concat(out, ", ")), 20
end

-- A comparison of tensors: a method, whose result is a mask.
function Writer:mask(e)
  if e.kind == "group" then return self:mask(e[1]) end
  if e.kind == "compare" and masks[e.op] then return ("%s:%s(%s)"):format(self:object(e[1]), masks[e.op], (self:write(e[2]))), 20 end
  if e.kind == "binary" and (e.op == "&" or e.op == "|") then
    local level = power[e.op]
    local a, la = self:mask(e[1])
    local b, lb = self:mask(e[2])
    return ("%s %s %s"):format(la < level and "(" .. a .. ")" or a, e.op, lb <= level and "(" .. b .. ")" or b), level
  end
  if e.kind == "unary" and e.op == "~" then
    local a, la = self:mask(e[1])
    return "~" .. (la < 12 and "(" .. a .. ")" or a), 12
  end
  return self:write(e)
end

local types = {int = "integer", float = "float", str = "string", bool = "boolean", list = "table", dict = "table", tuple = "table"}

function Writer:compare(e)
  local a, b, op = e[1], e[2], e.op
  local kind = a.kind == "call" and a[1].text == "type" and #a.args == 1 and b.kind == "name" and types[b.text]
  if kind then
    local of = (b.text == "int" or b.text == "float") and "math.type" or "type"
    return ('%s(%s) %s "%s"'):format(of, (self:write(a.args[1])), (op == "==" or op == "is") and "==" or "~=", kind), 3
  end
  if op == "in" or op == "not in" then
    local no = op == "not in"
    self.said "in"
    if (b.kind == "tuple" or b.kind == "table") and #b.items > 0 and #b.items <= 6 and a.kind ~= "call" then
      local out = {}
      for k, item in ipairs(b.items) do out[k] = ("%s %s %s"):format(self:under(a, 4), no and "~=" or "==", self:under(item, 4)) end
      return table.concat(out, no and " and " or " or "), #out == 1 and 3 or no and 2 or 1
    end
    if is_text(b) or b.kind == "name" and text_names[b.text] then
      return ("%s:find(%s, 1, true) %s nil"):format(self:object(b), (self:write(a)), no and "==" or "~="), 3
    end
    return ("%s %s nil"):format((self:index {b, items = {a.kind == "number" and {kind = "raw", text = a.text} or a}}), no and "==" or "~="), 3
  end
  if op == "is" or op == "is not" then self.said "is" end
  if op == "!=" then self.said "unequal" end
  op = (op == "!=" or op == "is not") and "~=" or op == "is" and "==" or op
  return ("%s %s %s"):format(self:under(a, 4), op, self:under(b, 4)), 3
end

function Writer:binary(e)
  local a, b, op = e[1], e[2], e.op
  if op == "@" then
    self.said "matmul"
    return ("%s:matmul(%s)"):format(self:object(a), (self:write(b))), 20
  end
  if op == "%" and a.kind == "string" then
    self.said "text"
    local args = b.kind == "tuple" and self:list(b.items) or (self:write(b))
    return ("%s:format(%s)"):format(self:object(a), args), 20
  end
  if op == "*" and (is_text(a) or is_text(b)) then
    local text, count = a, b
    if not is_text(a) then text, count = b, a end
    return ("%s:rep(%s)"):format(self:object(text), (self:write(count))), 20
  end
  if op == "*" and (a.kind == "table" and a.list) and #a.items == 1 then
    return ("(function() local out = {} for i = 1, %s do out[i] = %s end return out end)()"):format((self:write(b)), (self:write(a.items[1]))), 20
  end
  if op == "+" and is_text(e) then
    self.said "text"
    op = ".."
  end
  if op == "^" and e.python then self.said "power" end
  if (op == "&" or op == "|") then
    local function compared(x) return x.kind == "group" and compared(x[1]) or x.kind == "compare" end
    if compared(a) or compared(b) then return self:mask(e) end
  end
  local level = power[op]
  if not level then Parser.fail() end
  local right = op == "^" or op == ".."
  return ("%s %s %s"):format(self:under(a, right and level + 1 or level), op, self:under(b, right and level or level + 1)), level
end

local kinds = {}
function kinds.number(self, e)
  local text = e.text
  if text:find "[jJ]$" then
    self.said "complex"
    self.fail()
  end
  if text:find "^0[bB]" then text = tostring(tonumber(text:sub(3), 2)) end
  if text:find "^0[oO]" then text = tostring(tonumber(text:sub(3), 8)) end
  if not tonumber(text) then Parser.fail() end
  return text, 20
end
function kinds.string(self, e) return self:string(e) end
function kinds.raw(_, e) return e.text, 20 end
function kinds.name(self, e)
  local to = words.names[e.text]
  if to then
    if e.text ~= "__name__" then self.said "True" end
    return to, 20
  end
  if e.text == "repeat" or e.text == "until" then Parser.fail() end
  return e.text, 20
end
function kinds.group(self, e) return self:write(e[1]) end
function kinds.table(self, e) return self:table(e) end
function kinds.tuple(self, e)
  if e.bare then return self:list(e.items), 0 end
  self.said "tuple"
  return "{" .. self:list(e.items) .. "}", 19
end
function kinds.compare(self, e) return self:compare(e) end
function kinds.binary(self, e) return self:binary(e) end
function kinds.unary(self, e)
  if e.op == "~" and (e[1].kind == "group" or e[1].kind == "compare") then return self:mask(e) end
  return e.op .. (e.op == "not" and " " or "") .. self:under(e[1], 12), 12
end
-- What is asked of a tensor is a tensor, which is always true to Lua: its number is asked.
local asks = {any = true, all = true, isnan = true, isinf = true, isfinite = true}
function Writer:truth(e)
  while e.kind == "group" do e = e[1] end
  if e.kind == "binary" and (e.op == "and" or e.op == "or") then return {kind = "binary", op = e.op, self:truth(e[1]), self:truth(e[2])} end
  if e.kind == "unary" and e.op == "not" then
    local asked = self:truth(e[1])
    return {kind = "unary", op = "not", asked.kind == "compare" and {kind = "group", asked} or asked}
  end
  if e.kind == "binary" and e.op == "%" then return {kind = "compare", op = "!=", e, {kind = "number", text = "0"}} end  -- 0 is true to Lua
  local f = e.kind == "call" and e[1]
  if f and f.kind == "name" and f.text == "len" then return {kind = "compare", op = ">", e, {kind = "number", text = "0"}} end
  local of_torch = f and f.kind == "field" and f[1].kind == "name" and f[1].text == "torch"
  if f and f.kind == "field" and not f.colon and asks[f.name] and (of_torch or f.name == "any" or f.name == "all") and not self.lua then
    return {kind = "call", {kind = "field", e, name = "item"}, args = {}}
  end
  return e
end

local opposite = {["=="] = "!=", ["!="] = "==", is = "is not", ["is not"] = "is", ["in"] = "not in", ["not in"] = "in", ["<"] = ">=", [">="] = "<", [">"] = "<=", ["<="] = ">"}
function kinds.choice(self, e)
  self.said "ternary"
  local empty = (self:write(e[2]))
  if empty == "nil" or empty == "false" then  -- c and nil or x would always be x
    local test = e[1]
    test = test.kind == "compare" and {kind = "compare", op = opposite[test.op] or self.fail(), test[1], test[2]} or {kind = "unary", op = "not", self:truth(test)}
    return ("%s and %s or %s"):format(self:under(test, 2), self:under(e[3], 3), empty), 1
  end
  e = {self:truth(e[1]), e[2], e[3]}
  return ("%s and %s or %s"):format(self:under(e[1], 2), self:under(e[2], 3), self:under(e[3], 1)), 1
end
function kinds.lambda(self, e)
  self.said "lambda"
  local names, defaults = {}, {}
  for k, each in ipairs(e.names) do
    names[k] = each.name
    if each.default then defaults[#defaults + 1] = ("%s = %s or %s; "):format(each.name, each.name, (self:write(each.default))) end
  end
  return ("function(%s) %sreturn %s end"):format(table.concat(names, ", "), table.concat(defaults), (self:write(e[1]))), 19
end
function kinds.walrus(self, e)
  if not self.first then self.fail() end
  self.first[#self.first + 1] = e.name .. " = " .. (self:write(e[1]))
  return e.name, 20
end
function kinds.star(self, e) return ("table.unpack(%s)"):format((self:write(e[1]))), 20 end
function kinds.stars(self, e) return self:write(e[1]) end
function kinds.named(self, e) return self:write(e[1]) end
function kinds.index(self, e) return self:index(e) end
function kinds.call(self, e) return require "torch.foreign.calls"(self, e) end
function kinds.comprehension(self, e) return require("torch.foreign.loops").value(self, e) end
function kinds.field(self, e)
  local path = self:path(e)
  if path and words.modules[path] and not words.modules[path]:find "%%" then return words.modules[path], 20 end
  if path and path:find "^np%." then return "torch." .. path:sub(4), 20 end
  if keywords[e.name] then return ('%s["%s"]'):format(self:object(e[1]), e.name), 20 end
  return self:object(e[1]) .. "." .. e.name, 20
end

-- a.b.c of names, else nil.
function Writer:path(e)
  if e.kind == "name" then return e.text end
  local before = e.kind == "field" and self:path(e[1])
  return before and before .. "." .. e.name or nil
end

---@return string text, integer level how tightly it binds (20: a value that a point may follow)
function Writer:write(e)
  local f = kinds[e.kind]
  if not f then Parser.fail() end
  return f(self, e)
end

Writer.key, Writer.keywords, Writer.text_names = key, keywords, text_names
return Writer
