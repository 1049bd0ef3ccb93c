-- Changed versions of a failing call, tried with stand-ins: shapes only, nothing of the user's evaluated.
local torch = torch
local source = require "torch.source"

return function(Call)

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

-- The global network that the line called, when all of it is torch's own: it can be run on stand-ins
-- without doing anything else.
function Call:network()
  local function value(node)
    if node.kind == "name" then return rawget(_G, node.name) end
    local outer = node.kind == "field" and value(node.object)
    return type(outer) == "table" and rawget(outer, node.name) or nil
  end
  local net = self.node and self.node.kind == "call" and not self.node.method and value(self.node.called)
  if type(net) ~= "table" or rawget(net, "_order") == nil then return nil end
  for _, module in ipairs(net:modules()) do
    local forward = not rawget(module, "_hooks") and module.forward
    if type(forward) ~= "function" or not debug.getinfo(forward, "S").source:find("^=torch/") then return nil end
  end
  return net
end

-- The function that the call runs: an op by its name, also inside the layer that the line called.
function Call:target()
  if self.deep then return self:network() end
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
    if set.name == name and set.value then
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
  if not node or self.deep and (edit.code or edit.whole or not self:network()) then return nil end
  if edit.code then
    local ok, shape = self:try_code(edit.test or edit.code)
    return ok and edit.code or nil, not edit.test and shape or nil
  end
  -- Every argument becomes a parameter of the tested code; nothing of the user's is evaluated.
  local places, names, slots = {}, {}, {}
  local shown_operands, tested_operands = {}, {}
  for _, slot in ipairs(self.order) do
    local e = slot.kind ~= "{" and self:node_of(node, slot.slot)
    if self.deep then  -- inside a network only what is known to be the line's own
      e = nil
      for _, o in ipairs(self.operands) do
        if o.slot == slot then e = o.node end
      end
    end
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

end
