-- Norms, pools, losses, reductions and products of empty tensors are PyTorch's (property/empty.lua holds the answers).
local cases = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "empty.lua")

local leaves
local makers = {
  F = torch.nn.functional, torch = torch, inf = math.huge,
  z = function(shape)
    local x = torch.ones(shape, {dtype = "float64"}):requires_grad_()
    leaves[#leaves + 1] = x
    return x
  end,
  w = function(shape) return torch.ones(shape, {dtype = "float64"}) end,
  i = function(shape) return torch.ones(shape, {dtype = "int64"}) end,
}

local function differ(what, got, want, tensor)
  if tensor.dtype == torch.int64 then return end  -- positions
  for k, x in ipairs(got) do
    local y = want[k]
    if y == nil then y = 0 end
    local same = x == y or (x ~= x and y ~= y) or (type(x) == "number" and math.abs(x - y) <= 1e-7 * (1 + math.abs(y)))
    if not same then return ("%s is %s, not %s"):format(what, x, y) end
  end
end
local function numbers(x) return x:detach():reshape(-1):tolist() end

local function wrong_in(case)
  leaves = {}
  local results = {assert(load("return " .. case[1], case[1], "t", makers))()}
  local sums = {}
  for k, shape in ipairs(case.shape) do
    local y = results[k]
    if not torch.is_tensor(y) then return end  -- a Lua number or boolean
    if y.shape ~= torch.Size(shape) then return ("result %d has shape %s, not %s"):format(k, tostring(y.shape), tostring(torch.Size(shape))) end
    local why = differ("result " .. k, numbers(y), case.y[k], y)
    if why then return why end
    if y.requires_grad then sums[#sums + 1] = y:sum() end
  end
  if not case.g then return end
  local g = table.pack(torch.autograd.grad(sums, leaves, {allow_unused = true}))
  for k, x in ipairs(leaves) do
    local why = differ("gradient " .. k, numbers(g[k] or torch.zeros_like(x)), case.g[k], x)
    if why then return why end
  end
end

test("operations on empty tensors give PyTorch's shapes, numbers and gradients", function()
  local wrong = {}
  for _, case in ipairs(cases) do
    local ok, why = pcall(wrong_in, case)
    if why then wrong[#wrong + 1] = case[1] .. ": " .. (tostring(why):match "[^\n]*") end
  end
  check.equal(table.concat(wrong, "\n"), "")
end)

test("group_norm refuses 0 channels as PyTorch does", function()
  check.raises("value", "no elements", torch.nn.functional.group_norm, torch.ones(2, 0, 3), 1)
  check.raises("value", "no elements", torch.nn.functional.group_norm, torch.ones(3, 0), 2)
end)
