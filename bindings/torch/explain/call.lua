-- The failing call of an error: what was written down of its arguments, where it stands in the user's
-- line, and trying out changed versions of it with stand-ins, shapes only.
local torch = torch
local source = require "torch.source"
local Call = {}
Call.__index = Call

-- Lua's names of operator events, and the operators.
local operators = {
  add = {"+"}, sub = {"-"}, mul = {"*"}, div = {"/"}, mod = {"%"}, pow = {"^"}, unm = {"-"}, idiv = {"//"},
  band = {"&"}, bor = {"|"}, bxor = {"~"}, shl = {"<<"}, shr = {">>"}, bnot = {"~"}, len = {"#"}, concat = {".."},
  lt = {"<", ">"}, le = {"<=", ">="}, eq = {"==", "~="},
}

local function numbers(text)
  local list = {}
  for n in text:gmatch("[^%s,%[%]]+") do list[#list + 1] = math.tointeger(tonumber(n)) or tonumber(n) end
  return list
end

local readers = {
  T = function(slot, rest)
    local dtype, device, contiguous, grad, shape, stride, name = rest:match("^(%S+) (%S+) (%d) (%d) (%b[]) (%b[]) ?(.*)$")
    slot.dtype, slot.device, slot.contiguous, slot.grad = dtype, device, contiguous == "1", grad == "1"
    slot.shape, slot.stride = numbers(shape), numbers(stride)
    slot.name = name ~= "" and name or nil
  end,
  N = function(slot, rest) slot.value = math.tointeger(tonumber(rest)) or tonumber(rest) end,
  S = function(slot, rest) slot.value = rest end,
  B = function(slot, rest) slot.value = rest == "true" end,
  I = function(slot, rest) slot.value = numbers(rest) end,
  D = function(slot, rest) slot.value = rest end,
}

---Reads what an error wrote down when it was raised (bindings/core/failed_call.h says how).
---@param err table
---@return table? call
function Call.read(err)
  local text = rawget(err, "_call")
  if type(text) ~= "string" then return nil end
  local call = setmetatable({op = rawget(err, "op") or "", slots = {}, order = {}, variables = {}}, Call)
  for line in text:gmatch("[^\n]+") do
    local tag, rest = line:sub(1, 1), line:sub(3)
    if tag == "S" then
      local number, chunk = rest:match("^(%d+) (.*)$")
      call.line, call.chunk = tonumber(number), chunk
    elseif tag == "F" then
      call.called, call.how = rest:match("^(%S+) ?(.*)$")
    elseif tag == "V" then
      local name, value = rest:match("^(%S+) T (.*)$")
      call.variables[name] = {slot = name, kind = "T"}
      readers.T(call.variables[name], value)
    elseif tag == "L" then
      local below, kind, path = rest:match("^(%d+) (%S+) ?(.*)$")
      call.layer = {below = tonumber(below), kind = kind, path = path}
    elseif tag == "A" then
      local name, kind, value = rest:match("^(%S+) (%S) ?(.*)$")
      if name then
        local slot = {slot = name, kind = kind}
        if readers[kind] then readers[kind](slot, value) end
        call.slots[name], call.order[#call.order + 1] = slot, slot
      end
    end
  end
  call.text = call.chunk and source.text(call.chunk)
  if call.text then call:find() end
  local first, last = text:match("\nP (%d+) (%d+)\n")
  for _, node in ipairs(first and call.nodes or {}) do
    if node.first == tonumber(first) and node.last == tonumber(last) then call.node = node end
  end
  call:list_operands()
  return call
end

-- A global of the user's that is a tensor of this shape, now.
local function is_global(name, slot)
  local v = rawget(_G, name)
  if not torch.is_tensor(v) or tostring(v.dtype):gsub("torch%.", "") ~= slot.dtype or v.ndim ~= #slot.shape then return false end
  for d = 1, v.ndim do
    if v:size(d) ~= slot.shape[d] then return false end
  end
  return true
end

-- The expression at an argument's place.
function Call:node_of(node, name)
  local first, inner = name:match("^(%d+)%.?(.*)$")
  local k = tonumber(first)
  if self.how == "metamethod" and node.kind ~= "binary" and node.kind ~= "unary" and node.kind ~= "index" then
    return k == 1 and (node.method and node.called or node.object) or nil  -- x.name, x:name()
  elseif node.kind == "binary" or node.kind == "unary" then
    if node.op == ">" or node.op == ">=" then k = 3 - k end  -- Lua turns them around
    return inner == "" and node.args[k] or nil
  elseif node.kind == "index" then
    return inner == "" and (k == 1 and node.object or k == 2 and node.key) or nil
  end
  if self.layer and self.layer.below > 0 then
    if self.slots["1"] and self.slots["1"].kind == "?" then k = k - 1 end  -- forward(self, x)
  elseif node.method then
    if k == 1 then return inner == "" and node.called or nil end
    k = k - 1
  end
  local arg = node.args[k]
  if not arg or inner == "" then return arg end
  if arg.kind ~= "table" then return nil end
  return arg.items[tonumber(inner)] or arg.named[inner]
end

-- How well the operands fit the expressions at their places; nil when they cannot.
function Call:fit(node)
  local score = 0
  for _, slot in ipairs(self.order) do
    local e = slot.kind == "T" and self:node_of(node, slot.slot)
    if e and e.kind == "name" then
      if slot.name then
        score = score + (slot.name == e.name and 2 or -2)
      elseif is_global(e.name, slot) then
        score = score + 1
      elseif torch.is_tensor(rawget(_G, e.name)) then
        score = score - 1
      end
    end
  end
  return score
end

-- What set a name that the call reads: the last assignment above it that holds there, {value, line}; nil where that is
-- a parameter, or none.
function Call:made(name)
  local node, last = self.node, nil
  for _, set in ipairs(self.assigned or {}) do
    local at = node and node.first
    if set.name == name and (at and set.after < at or not at and set.line < self.line)
      and (not at or not set.within or (set.within[1] <= at and at <= set.within[2])) then
      last = set
    end
  end
  return last and last.value and last or nil
end

-- The failing call among the expressions of the user's line.
function Call:find(whole)
  local long = not whole and #self.text > 20000
  local nodes, assigned = source.parse(self.text, long and self.line or nil)
  self.assigned, self.nodes = assigned, nodes
  local events = self.how == "metamethod" and operators[self.called]
  local best, best_score
  local function consider(wanted)
    for _, node in ipairs(nodes) do
      local here = node.line == self.line and 0.5 or (node.from <= self.line and node.line >= self.line) and 0 or nil
      if here and wanted(node) then
        local score = here + self:fit(node)
        if not best or score > best_score then best, best_score = node, score end
      end
    end
  end
  if events then
    consider(function(node)
      return (node.kind == "binary" or node.kind == "unary") and (node.op == events[1] or node.op == events[2])
        and (node.kind == "unary") == (self.called == "unm" or self.called == "bnot" or self.called == "len")
    end)
  elseif self.how == "metamethod" and self.called == "index" then
    consider(function(node)
      return node.kind == "index" or node.kind == "field" and self.slots["2"] and self.slots["2"].value == node.name
        or node.kind == "call" and node.method and self.slots["2"] and self.slots["2"].value == node.method
    end)
  elseif self.called == "for" then  -- the iterator of ipairs runs off the end
    consider(function(node) return node.kind == "call" and node.name == "ipairs" end)
  elseif self.how == "metamethod" and self.called == "newindex" then
    consider(function(node) return node.kind == "index" end)
  else
    consider(function(node) return node.kind == "call" and node.name == self.called end)
  end
  if not best or best.name == "pcall" or best.name == "xpcall" then
    best = nil
    consider(function(node) return node.kind == "call" and (node.name == self.op or node.name == self.op .. "_") end)
  end
  self.node = best
  if not best and long then self:find(true) end  -- a long string or comment may begin far above
end

function Call:code(node) return self.text:sub(node.first, node.last) end

-- Expressions that a method can be called on without brackets.
local suffixed = {name = true, field = true, index = true, call = true, group = true}
function Call:operand_text(node)
  local text = self:code(node)
  return suffixed[node.kind] and text or "(" .. text .. ")"
end

function Call:list_operands()
  self.operands = {}
  local function add(slot, name)
    local o = {name = name, dtype = slot.dtype:gsub("bfloat", "bf"):gsub("float", "f"):gsub("uint", "u"):gsub("int", "i"),
      shape = slot.shape, device = slot.device, slot = slot, node = self.node and self:node_of(self.node, slot.slot)}
    if o.node and not self.deep then
      local text = self:code(o.node)
      if #text <= 32 and not text:find("\n") then o.name = text end
    end
    self.operands[#self.operands + 1] = o
  end
  -- Inside a network only what the line itself handed over has a name there.
  self.deep = self.layer ~= nil and self.layer.below > 1
  local single = self.how == "metamethod" and (self.called == "unm" or self.called == "len" or self.called == "bnot")
  for _, slot in ipairs(self.order) do  -- Lua hands the operand of a unary operator over twice
    if slot.kind == "T" and not (single and slot.slot ~= "1") then add(slot, slot.name) end
  end
  if self.deep then
    for _, o in ipairs(self.operands) do
      if o.node and not (o.node.kind == "name" and (o.slot.name == o.node.name or not o.slot.name and is_global(o.node.name, o.slot))) then
        o.node = nil
      elseif o.node then
        o.name = o.node.name
      end
    end
  end
  local assigned = self.how == "metamethod" and self.called == "newindex" and require("torch.messages").words.assigned or {}
  local parameters = self.layer and self.layer.below > 0 and self.layer.path ~= "" and self.layer.path .. "." or nil
  for k, o in ipairs(self.operands) do
    if not o.name then
      local record = torch._ops and torch._ops()[self.op]
      local p = record and record.signatures[1].params and record.signatures[1].params[tonumber(o.slot.slot)]
      if p and k > 1 and parameters then o.name = parameters .. p.name end
      o.label = o.name or assigned[o.slot.slot] or p and p.name or "argument " .. o.slot.slot
    else
      o.label = o.name
    end
  end
end

require "torch.explain.try"(Call)

return Call
