-- Planted faults, to test the reader itself: run.lua --mutant NAME makes Tycho answer wrongly in one way, and the run
-- must then fail. Each row: a name, where it shows (an --only value), and what it does to a call's results.
local resolve = require "resolve"
local torch = torch
local mutants = {}

local unpack = table.unpack
local function is_tensor(x) return type(x) == "userdata" and torch.is_tensor(x) end

-- Changes the first result of every form of a call.
local function first_result(change)
  return function(f)
    return function(...)
      local out = table.pack(f(...))
      if is_tensor(out[1]) then out[1] = change(out[1], ...) end
      return unpack(out, 1, out.n)
    end
  end
end

local function shifted(by)
  return first_result(function(y) return y.dtype == torch.int64 and y + by or y end)
end

-- Only the named forms are wrapped: function, method, inplace.
local function forms(...)
  local wanted = {}
  for _, form in ipairs {...} do wanted[form] = true end
  return function(wrap)
    return function(f, form)
      if wanted[form] then return wrap(f) end
      return f
    end
  end
end
local plain, method, inplace = forms "function", forms "method", forms "inplace"

-- Changes what torch.autograd.grad returns.
local function gradients(change)
  return function()
    local grad = torch.autograd.grad
    torch.autograd.grad = function(...) return change(table.pack(grad(...)), ...) end
  end
end

local function each_gradient(change)
  return gradients(function(out)
    for i = 1, out.n do
      if out[i] then out[i] = change(out[i]) end
    end
    return unpack(out, 1, out.n)
  end)
end

mutants.rows = {
  {"value", "ops/add", first_result(function(y) return y + 1e-3 end)},
  {"small value", "ops/mul", first_result(function(y) return y.dtype == torch.float64 and y * (1 + 1e-4) or y end)},
  {"one element", "ops/exp", first_result(function(y)
    if y:numel() == 0 or y.requires_grad then return y end
    y = y:clone()
    y:view(-1)[-1] = 0
    return y
  end)},
  {"wider dtype", "ops/exp", first_result(function(y) return y:double() end)},
  {"narrow integers", "ops/sum", first_result(function(y) return y.dtype == torch.int64 and y:int() or y end)},
  {"bool as bytes", "ops/isnan", first_result(function(y) return y:to(torch.uint8) end)},
  {"extra dimension", "ops/sum", first_result(function(y) return y:unsqueeze(1) end)},
  {"lost dimension", "ops/softmax", first_result(function(y) return y:flatten() end)},
  {"copy for view", "ops/transpose", first_result(function(y) return y:clone() end)},
  {"copy for slice", "ops/__getitem__", first_result(function(y) return y:clone() end)},
  {"positions from 0", "ops/argmax", shifted(-1)},
  {"positions from 2", "ops/nonzero", shifted(1)},
  {"second result", "ops/sort", function(f)
    return function(...)
      local a, b = f(...)
      return a, b and b + 1
    end
  end},
  {"missing result", "ops/topk", function(f) return function(...) return (f(...)) end end},
  {"extra result", "ops/cumsum", function(f) return function(...) return f(...), 1 end end},
  {"sign of zero", "special_values", first_result(function(y) return y.dtype == torch.float64 and y + 0.0 or y end)},
  {"nan hidden", "special_values", first_result(function(y) return y.dtype == torch.float64 and y:nan_to_num(0.0, math.huge, -math.huge) or y end)},
  {"infinity clipped", "special_values", first_result(function(y) return y.dtype == torch.float64 and y:clamp(-1e308, 1e308) or y end)},
  {"no such function", "ops/tanh", function() return nil end},
  {"no such method", "ops/tanh", method(function() return nil end)},
  {"another method", "ops/sub", method(function() return function(a, b) return torch.add(a, b) end end)},
  {"storage order", "ops/flatten", first_result(function(y, x)
    if not is_tensor(x) or x:is_contiguous() or y.requires_grad then return y end
    return y:flip(1)
  end)},
  {"named argument lost", "ops/cumsum", plain(function(f)
    return function(x, options)
      if type(x) == "table" and x.dim then return f(x.input, 1) end
      return f(x, options)
    end
  end)},
  {"in place does nothing", "ops/abs", inplace(function(f) return function(x, ...) f(x:clone(), ...) return x end end)},
  {"in place elsewhere", "ops/tanh", inplace(function(f) return function(x, ...) return f(x:clone(), ...) end end)},
  {"in place grows", "ops/add", inplace(function(f)
    return function(x, ...)
      local ok, y = pcall(f, x, ...)
      return ok and y or x
    end
  end)},
  {"in place, then error", "ops/add", inplace(function(f)
    return function(x, ...)
      local ok, y = pcall(f, x, ...)
      if not ok then
        if x:numel() > 0 then x:view(-1)[1] = 42 end
        error(y, 0)
      end
      return y
    end
  end)},
  {"swallowed error", "errors", function(f) return function(...) return select(2, pcall(f, ...)) end end},
  {"error as text", "errors", function(f)
    return function(...)
      local out = table.pack(pcall(f, ...))
      if not out[1] then error(tostring(out[2]), 0) end
      return unpack(out, 2, out.n)
    end
  end},
  {"error of another kind", "errors", function(f)
    return function(...)
      local out = table.pack(pcall(f, ...))
      if not out[1] then error({kind = "value", message = "no"}, 0) end
      return unpack(out, 2, out.n)
    end
  end},
  {"error after writing", "errors", function(f)
    return function(x, ...)
      local out = table.pack(pcall(f, x, ...))
      if not out[1] then
        if is_tensor(x) and x:numel() > 0 and not x.requires_grad then x:fill_(1) end
        error(out[2], 0)
      end
      return unpack(out, 2, out.n)
    end
  end},
  {"graph under no_grad", "ops/exp", first_result(function(y)
    if torch.is_grad_enabled() or y.dtype == torch.bool then return y end
    return y:detach():clone():requires_grad_()
  end)},
  {"gradient doubled", "ops/mul", start = each_gradient(function(g) return g * 2 end)},
  {"gradient's sign", "ops/sin", start = each_gradient(function(g) return -g end)},
  {"gradient missing", "ops/matmul", start = gradients(function(out)
    out[1] = nil
    return unpack(out, 1, out.n)
  end)},
  {"gradient not reduced", "ops/add", start = each_gradient(function(g) return g:unsqueeze(1) end)},
  {"gradient's dtype", "ops/div-no_rounding_mode", start = each_gradient(function(g) return g:double() end)},
  {"second order cut", "ops/pow", start = each_gradient(function(g) return g:detach() * 1 end)},
  {"second order doubled", "ops/exp", start = gradients(function(out, _, inputs)
    if #inputs > 1 then out[1] = out[1] and out[1] * 2 end
    return unpack(out, 1, out.n)
  end)},
  {"promotion", "type_promotion", start = function()
    local add = torch.add
    torch.add = function(a, b) return add(a, b):double() end
  end},
  {"broadcast refused", "broadcast", start = function()
    local meta = debug.getmetatable(torch.ones(1))
    local add = meta.__add
    meta.__add = function(a, b)
      if a.shape ~= b.shape then torch._raise("add: no", 1, "broadcast") end
      return add(a, b)
    end
  end},
  {"printing", "print", start = function()
    local show = tostring
    tostring = function(x) return is_tensor(x) and show(x) .. " " or show(x) end
  end},
  {"a draw too many", "rng", start = function()
    local rand = torch.rand
    torch.rand = function(...)
      rand(1)
      return rand(...)
    end
  end},
  {"autocast ignored", "autocast", start = function()
    torch.autocast = function(_, _, f) return f() end
  end},
}

---Makes Tycho wrong in the named way, in this process.
function mutants.switch_on(name)
  for _, row in ipairs(mutants.rows) do
    if row[1] == name then
      if row.start then return row.start() end
      local wrap = row[3]
      for _, form in ipairs {"fn", "method", "inplace"} do
        local find = resolve[form]
        resolve[form] = function(...)
          local f = find(...)
          return f and wrap(f, form == "fn" and "function" or form)
        end
      end
      return
    end
  end
  error("no mutant " .. name, 0)
end

return mutants
