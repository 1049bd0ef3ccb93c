-- What the groups of tasks share: how their values are made, and the list that tasks are put on.
local torch = torch or require "torch"
-- A part that cannot be loaded costs only the tasks that need it.
local function part(of, name)
  local ok, value = pcall(function() return of[name] end)
  return ok and value or nil
end
local nn, optim = part(torch, "nn"), part(torch, "optim")
local F = part(nn, "functional")
local randn = torch.randn
local made = {rows = {}, at_end = {}, nn = nn, optim = optim, F = F}  -- at_end: functions that remove files

-- Values are made when the first statement that names them runs; `makers` maps a name to a function.
local function data(makers)
  local shared = {torch = torch, F = F}
  return setmetatable({}, {__index = function(values, name)
    local make = makers[name]
    local value = shared[name]
    if make then value = make() end
    rawset(values, name, value)
    return value
  end})
end

-- A maker of standard normal values; `d` is a dtype, "grad" makes a leaf.
local function normal(shape, d)
  return function()
    local t = randn(shape)
    if d == "grad" then return t:requires_grad_() end
    return d and t:to(d) or t
  end
end
local function filled(make, shape, grad)
  return function()
    local t = make(shape)
    return grad and t:requires_grad_() or t
  end
end
local function integers(low, high, shape) return function() return torch.randint(low, high, shape) end end
-- n positions from 1 to `count`.
local function positions(count, shape) return integers(1, count + 1, shape) end

local function task(name, statement, env, options)
  made.rows[#made.rows + 1] = {name = name, statement = statement, env = env or data {}, options = options or {}}
end

-- Under autocast to bfloat16.
local function low(f, ...)
  local arguments = table.pack(...)
  return torch.autocast("cpu", {dtype = "bfloat16"},
                        function() return f(table.unpack(arguments, 1, arguments.n)) end)
end

made.data, made.normal, made.filled, made.integers, made.positions, made.task, made.low = data, normal, filled, integers, positions, task, low
return made
