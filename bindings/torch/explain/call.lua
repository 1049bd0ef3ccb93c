-- The failing call of an error: what was written down of its arguments, where it stands in the user's
-- line, and trying out changed versions of it with stand-ins, shapes only.
local torch = torch
local source = require "torch.source"
local Call = {}
Call.__index = Call

-- Lua's names of operator events, and the operators.
local operators = {
  add = {"+"}, sub = {"-"}, mul = {"*"}, div = {"/"}, mod = {"%"}, pow = {"^"}, unm = {"-"}, idiv = {"//"},
  band = {"&"}, bor = {"|"}, bxor = {"~"}, shl = {"<<"}, shr = {">>"}, bnot = {"~"}, concat = {".."},
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

---Reads what an error wrote down when it was raised (bindings/failed_call.h says how).
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

-- The failing call among the expressions of the user's line.
function Call:find()
  local nodes, assigned = source.parse(self.text)
  self.assigned = assigned
  self.nodes = nodes
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
        and (node.kind == "unary") == (self.called == "unm" or self.called == "bnot")
    end)
  elseif self.how == "metamethod" and self.called == "index" then
    consider(function(node)
      return node.kind == "index" or node.kind == "field" and self.slots["2"] and self.slots["2"].value == node.name
        or node.kind == "call" and node.method and self.slots["2"] and self.slots["2"].value == node.method
    end)
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
  for _, slot in ipairs(self.order) do
    if slot.kind == "T" then add(slot, slot.name) end
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
  local parameters = self.layer and self.layer.below > 0 and self.layer.path ~= "" and self.layer.path .. "." or nil
  for k, o in ipairs(self.operands) do
    if not o.name then
      local record = torch._ops and torch._ops()[self.op]
      local p = record and record.signatures[1].params and record.signatures[1].params[tonumber(o.slot.slot)]
      if p and k > 1 and parameters then o.name = parameters .. p.name end
      o.label = o.name or p and p.name or "argument " .. o.slot.slot
    else
      o.label = o.name
    end
  end
end

-- The call's text with expressions replaced: {[node] = text}.
function Call:compose(replaced)
  local parts = {}
  for node, text in pairs(replaced) do parts[#parts + 1] = {node = node, text = text} end
  table.sort(parts, function(a, b) return a.node.first < b.node.first end)
  local out, at = {}, self.node.first
  for _, p in ipairs(parts) do
    if p.node.first >= at then
      out[#out + 1] = self.text:sub(at, p.node.first - 1)
      out[#out + 1] = p.text
      at = p.node.last + 1
    end
  end
  out[#out + 1] = self.text:sub(at, self.node.last)
  return table.concat(out)
end

local function stand_in(slot)
  if slot.kind == "T" then
    local options = {dtype = slot.dtype, device = slot.device}
    if slot.contiguous then return torch.empty(slot.shape, options) end
    local last = 1  -- a view of a list of numbers
    for d, n in ipairs(slot.shape) do last = last + (n - 1) * slot.stride[d] end
    return torch.empty({math.max(last, 1)}, options):as_strided(slot.shape, slot.stride)
  end
  return slot.value
end

-- The function that the call runs: an op by its name, also inside the layer that the line called.
function Call:target()
  local op = self.op
  local f = rawget(torch, op) or rawget(torch.nn, "functional")[op] or torch.linalg[op]
  if not (self.layer and self.layer.below > 0) then
    local name = self.node.name
    if name ~= op and name ~= op .. "_" then  -- an alias
      f = torch[name] or rawget(torch.nn, "functional")[name] or torch.linalg[name] or f
    end
    return f
  end
  if self.layer.below > 1 or not self.slots["1"] or self.slots["1"].kind ~= "T" or not f then return nil end
  local top = 0
  for _, slot in ipairs(self.order) do top = math.max(top, tonumber(slot.slot:match("^%d+"))) end
  return function(...)  -- the layer's own parameters behind what the line gives
    local args = table.pack(...)
    for k = args.n + 1, top do
      local slot = self.slots[tostring(k)]
      if slot.kind == "{" then
        args[k] = {}
        for _, inner in ipairs(self.order) do
          local outer, key = inner.slot:match("^(%d+)%.(.+)$")
          if tonumber(outer) == k then args[k][tonumber(key) or key] = stand_in(inner) end
        end
      else
        args[k] = stand_in(slot)
      end
    end
    return f(table.unpack(args, 1, math.max(top, args.n)))
  end
end

local environment = {torch = torch, math = math}

-- Runs code on stand-ins; `names` lists the parameters' names, `slots` what they stand for.
function Call:run(code, names, slots, f)
  local chunk = load(("local _f, %s = ... return %s"):format(#names > 0 and table.concat(names, ", ") or "_", code), "=fix", "t", environment)
  if not chunk then return false end
  return pcall(torch._shapes_only, function()
    local values = {}
    for k, slot in ipairs(slots) do values[k] = stand_in(slot) end
    return chunk(f, table.unpack(values, 1, #slots))
  end)
end

-- Puts texts into a template: % own text, %1 the operands, %0 the call, %L and %R an operator's sides.
local function put(template, own, operands, more)
  local complete = true
  local text = template:gsub("%%([%dLR]?)", function(k)
    local v = k == "" and own or operands[tonumber(k)] or more and more[k]
    complete = complete and v ~= nil
    return v or ""
  end)
  return complete and text or nil
end

-- What a name of the user's code stands for, when it is a part of torch: `F` by its assignment.
function Call:part_of_torch(name)
  if name == "torch" then return torch end
  local v = rawget(_G, name)
  if v == nil then v = ({nn = torch.nn, F = torch.nn.functional, optim = torch.optim})[name] end
  for _, set in ipairs(self.assigned or {}) do
    if set.name == name then
      local path = self:code(set.value):match("^torch([%.%w_]*)$")
      if path then
        v = torch
        for key in path:gmatch("[%w_]+") do v = type(v) == "table" and v[key] or nil end
        if v ~= nil then return v end
      end
    end
  end
  for _, part in ipairs {torch, torch.nn, torch.nn.functional, torch.linalg, torch.optim} do
    if v == part then return v end
  end
end

local makers = {tensor = true, size = true, dim = true, numel = true, tolist = false, item = false}

---Tries code that was not evaluated so far: its names must be tensors that are known by shape, and its
---calls operations of torch.
---@return boolean ok
---@return string? shape of its result
function Call:try_code(code)
  local text = "return " .. code
  local nodes = source.parse(text)
  local values, ops = {}, torch._ops()
  for _, node in ipairs(nodes) do
    if node.kind == "function" then return false end
    if node.kind == "call" and not ops[node.name] and not (ops[node.name:gsub("_$", "")]) and not makers[node.name] then return false end
    if node.kind == "name" then
      local v = rawget(_G, node.name)
      local part = self:part_of_torch(node.name)
      local slot = self.variables[node.name]
      for _, s in ipairs(self.order) do
        if s.name == node.name then slot = s end
      end
      if slot then
        values[node.name] = slot
      elseif torch.is_tensor(v) then
        values[node.name] = v
      elseif part then
        values[node.name] = {part = part}
      else
        return false
      end
    end
  end
  local env = {}
  local chunk = load(text, "=fix", "t", env)
  if not chunk then return false end
  local ok, result = pcall(torch._shapes_only, function()
    for name, v in pairs(values) do
      if torch.is_tensor(v) then env[name] = torch._stand_in(v)
      else env[name] = v.part or stand_in(v) end
    end
    return chunk()
  end)
  if type(result) == "function" then return false end  -- a method that is not called
  return ok, ok and torch.is_tensor(result) and tostring(result.shape) or nil
end

---Tries a changed call with stand-ins (see explain/rules.lua for what a change says).
---@return string? code that fits in the call's place
---@return string? shape of its result
function Call:try(edit)
  local node = self.node
  if not node or self.deep then return nil end
  if edit.code then
    local ok, shape = self:try_code(edit.test or edit.code)
    return ok and edit.code or nil, not edit.test and shape or nil
  end
  -- Every argument becomes a parameter of the tested code; nothing of the user's is evaluated.
  local places, names, slots = {}, {}, {}
  local shown_operands, tested_operands = {}, {}
  for _, slot in ipairs(self.order) do
    local e = slot.kind ~= "{" and self:node_of(node, slot.slot)
    if e and not places[e] then
      if slot.kind == "?" then return nil end
      names[#names + 1], slots[#slots + 1] = "_" .. #names + 1, slot
      places[e] = {slot = slot, name = names[#names], text = self:code(e)}
      for k, o in ipairs(self.operands) do
        if o.slot == slot then shown_operands[k], tested_operands[k] = self:operand_text(e), names[#names] end
      end
    end
  end
  local shown, tested = {}, {}
  for e, place in pairs(places) do
    shown[e], tested[e] = place.text, place.name
    for key, template in pairs(edit) do
      if type(key) == "table" and (key == place.slot or key.slot == place.slot) then
        local own = template:find("^%%$") and place.text or self:operand_text(e)
        shown[e] = put(template, own, shown_operands)
        tested[e] = put(template, place.name, tested_operands)
        if not (shown[e] and tested[e]) then return nil end
        if e.kind ~= "name" and e == (node.method and node.called) and not template:find("^%%") then return nil end
        if (node.kind == "binary" or node.kind == "unary") and template:find(" ", 1, true) and not template:find("^%%:") then
          shown[e] = "(" .. shown[e] .. ")"
        end
        tested[e] = "(" .. tested[e] .. ")"
      end
    end
  end
  local code, test
  local method_free = node.kind == "call" and not node.method
  if method_free then tested[node.called] = "_f" end
  local layer = self.layer and self.layer.below > 0
  if layer and node.method then return nil end
  if edit.whole then
    local function sides(texts)
      local left, right = node.args and node.args[1], node.args and node.args[2]
      return {["0"] = self:compose(texts), L = left and texts[left], R = right and texts[right]}
    end
    code = put(edit.whole, nil, shown_operands, sides(shown))
    test = code and put(edit.test or edit.whole, nil, tested_operands, sides(tested))
  else
    code, test = self:compose(shown), self:compose(tested)
    if edit.rename then
      local pattern, into = "%f[%w_]" .. edit.rename[1] .. "(%s*=)", edit.rename[2] .. "%1"
      code, test = code:gsub(pattern, into), test:gsub(pattern, into)
    end
  end
  if not test then return nil end
  local ok, result = self:run(test, names, slots, method_free and self:target() or nil)
  if not ok then return nil end
  return code, not edit.test and torch.is_tensor(result) and tostring(result.shape) or nil
end

return Call
