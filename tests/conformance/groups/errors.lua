-- The group `errors`: calls that must fail with an error object of the right kind and leave every operand as it was.
local reader = require "reader"
local resolve = require "resolve"
local values = require "values"
local torch = torch
local group = {}

local function same(a, b)
  return a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a:double()), torch.nan_to_num(b:double()))
end

local function run(c, tensors)
  local f = c.kind == "method" and c.fn ~= "__getitem__" and c.fn ~= "__setitem__" or resolve.fn(c.fn)
  if not f then return "missing", c.fn end
  local made, before = {}, {}
  local function make(name, spec)
    local t = tensors[name]
    t = spec.stride and values.strided(t, spec.stride) or t:clone()
    if spec.rg then t:requires_grad_() end
    made[#made + 1], before[#before + 1] = t, t:detach():clone()
    return t
  end
  local args, roles = {n = #c.args}, c.roles or {}
  if c.fn == "__setitem__" and not c.roles then roles = {[2] = "pyindex"} end
  local ok, err = pcall(function()
    for i = 1, #c.args do args[i] = values.decode(c.args[i], roles[i], make) end
    local named
    for key, v in pairs(c.kwargs or {}) do
      named = named or {}
      local one = values.decode(v, c.kwroles and c.kwroles[key], make)
      if one == nil then one = torch.none end
      named[key] = one
    end
    if named then
      args.n = args.n + 1
      args[args.n] = named
    end
    if f == true then
      f = resolve.method(c.fn, args[1])
      if not f then error({missing = true}) end
    end
    torch.manual_seed(0)
    return f(table.unpack(args, 1, args.n))
  end)
  if ok then
    if c.pybinding then return nil end
    return "error", ("accepted; PyTorch: %s (%s)"):format(c.error.message, c.error.class)
  end
  if type(err) == "table" and err.missing then return "missing", c.fn end
  if type(err) ~= "table" or not err.kind then return "error", "no error object: " .. tostring(err) end
  for i, t in ipairs(made) do
    if not same(t:detach(), before[i]) then return "operands", ("tensor %d was changed"):format(i) end
  end
  -- Where only Python's argument parser objects, any error will do.
  if err.kind ~= c.error.class and not c.pybinding then
    return "kind", ("kind %s, expected %s (%s): %s"):format(err.kind, c.error.class, c.error.message, tostring(err.message))
  end
end

function group.run(folder, _, report)
  local lines = reader.read_lines(folder .. "/errors.jsonl")
  local tensors = torch.load(folder .. "/errors.safetensors")
  for i = 2, #lines do
    local ok, check, why = pcall(run, lines[i], tensors)
    if not ok then check, why = "reader", check end
    report(lines[i].id, not check and "passed" or check == "missing" and "missing" or "failed", check, why)
  end
end

return group
