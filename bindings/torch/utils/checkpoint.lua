-- torch.utils.checkpoint: less memory for more time. What a function would keep for backward is computed again when
-- backward needs it (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
local torch = torch
local error = torch._raise
local generators = require "torch.generators"
local checkpoint = {}
local first_run = torch._checkpoint
torch._checkpoint = nil

local known = {use_reentrant = true, preserve_rng_state = true, determinism_check = true, early_stop = true, debug = true}

-- The options at the end of the arguments: a plain table of nothing but known names.
local function take_options(args)
  local last = args[args.n]
  if args.n == 0 or type(last) ~= "table" or getmetatable(last) ~= nil or next(last) == nil then return {} end
  for k in next, last do
    if not known[k] then return {} end
  end
  args[args.n] = nil
  args.n = args.n - 1
  return last
end

local function callable(f)
  local meta = type(f) == "table" and getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil
end

---f(...), which keeps only its arguments for backward: there it runs again, with the same random numbers and in the same
---autocast region. Options in a last table: preserve_rng_state=true (false: other random numbers the second time);
---use_reentrant is taken for PyTorch's sake, the way of false is always used: gradients of parameters inside arrive,
---autograd.grad works, and derivatives may be of any order.
---@param f function a function or a module
---@param ... any its arguments
function checkpoint.checkpoint(f, ...)
  if not callable(f) then
    error("checkpoint: wants a function or a module first, not " .. (torch.is_tensor(f) and "a tensor" or "a " .. type(f)), 2)
  end
  local args = table.pack(...)
  local options = take_options(args)
  if not torch.is_grad_enabled() then return f(table.unpack(args, 1, args.n)) end
  local states = options.preserve_rng_state ~= false and generators.states()
  local function again()
    local now = states and generators.states()
    local _ <close> = setmetatable({}, {__close = function() if now then generators.set(now) end end})
    if states then generators.set(states) end
    f(table.unpack(args, 1, args.n))
  end
  return first_run(again, function(...) return f(...) end, table.unpack(args, 1, args.n))
end

---Calls functions one after the other, in `segments` parts of which all but the last are checkpointed.
---@param functions table an nn.Sequential or a list of functions or modules
---@param segments integer
---@param input any
---@param options? {use_reentrant?: boolean, preserve_rng_state?: boolean}
function checkpoint.checkpoint_sequential(functions, segments, input, options)
  local is_module = type(functions) == "table" and type(functions.children) == "function"
  local list = is_module and functions:children() or functions
  if type(list) ~= "table" or #list == 0 then error("checkpoint_sequential: wants an nn.Sequential or a list of functions first", 2) end
  for i, f in ipairs(list) do
    if not callable(f) then error(("checkpoint_sequential: item %d is no function"):format(i), 2) end
  end
  if math.type(segments) ~= "integer" or segments < 1 or segments > #list then
    error(("checkpoint_sequential: segments must be 1 to %d, the number of functions, not %s"):format(#list, tostring(segments)), 2, "value")
  end
  local size = #list // segments
  local function part(first, last)
    return function(x)
      for i = first, last do x = list[i](x) end
      return x
    end
  end
  local first = 1
  for _ = 1, segments - 1 do
    input = checkpoint.checkpoint(part(first, first + size - 1), input, options or {use_reentrant = false})
    first = first + size
  end
  return part(first, #list)(input)
end

return torch._strict(checkpoint, "torch.utils.checkpoint")
