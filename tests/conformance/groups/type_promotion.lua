-- The group `type_promotion`: the dtype of every mixture of operands, of many ops' results, and what fits in place.
local data = require "data"
local reader = require "reader"
local torch = torch
local F = torch.nn.functional
local group = {}

local numbers = {boolean = true, integer = 1, float = 1.0}

local function operand(kind, dtype)
  if kind == "scalar" then return numbers[dtype] end
  return torch.ones(kind == "zero" and {} or {1}, {dtype = dtype})
end

-- Rows of op_result_dtype that are no op names: what they call.
local calls = {
  true_sqrt = function(x) return x:sqrt() end,
  mul_true = function(x) return x * true end,
  add_int = function(x) return x + 1 end,
  add_float = function(x) return x + 1.5 end,
  add_ = function(x) return x:add_(1) end,
  div_ = function(x) return x:div_(2) end,
  mul_float_ = function(x) return x:mul_(1.5) end,
  pow2 = function(x) return x ^ 2 end,
  pow_half = function(x) return x ^ 0.5 end,
  rpow = function(x) return 2 ^ x end,
  rsub = function(x) return 1 - x end,
  rdiv = function(x) return 1 / x end,
  lshift = function(x) return x << 1 end,
  clamp_int = function(x) return x:clamp(0, 1) end,
  clamp_float = function(x) return x:clamp(0.5, 1.5) end,
  cat_f32 = function(x) return torch.cat({x, torch.ones(1)}) end,
  stack_i64 = function(x) return torch.stack({x, torch.ones({#x}, {dtype = "int64"})}) end,
  where_int = function(x) return torch.where(torch.tensor({true}), x, 1) end,
  where_scalar = function(x) return torch.where(torch.tensor({true}), x, 1.5) end,
  to_half_add = function(x) return x:half() + x end,
  full_like = function(x) return torch.full_like(x, 1) end,
  matmul = function(x) return x:reshape(1, -1):matmul(x:reshape(-1, 1)) end,
  lerp = function(x) return x:lerp(x, 0.5) end,
  bitwise_and = function(x) return x & x end,
  bitwise_not = function(x) return ~x end,
  atan2 = function(x) return x:atan2(x) end,
  cumsum = function(x) return x:cumsum(1) end,
  cumprod = function(x) return x:cumprod(1) end,
  softmax = function(x) return x:softmax(1) end,
  logsumexp = function(x) return x:logsumexp(1) end,
  topk = function(x) return (x:topk(1)) end,
  sub = function(x) return x - x end,
  div = function(x) return x / x end,
  eq = function(x) return x:eq(x) end,
  floor_divide = function(x) return x // x end,
  fmod = function(x) return x:fmod(x) end,
  dot = function(x) return x:dot(x) end,
  ["nn.functional.gelu"] = function(x) return F.gelu(x) end,
}

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/type_promotion.json")
  for i, r in ipairs(rows.result_type) do
    data.row(report, ("type_promotion:result_type:%d"):format(i), function()
      local got = torch.add(operand(r[1], r[2]), operand(r[3], r[4])).dtype
      if got.name ~= r[5] then return ("%s %s + %s %s gives %s, expected %s"):format(r[1], r[2], r[3], r[4], got.name, r[5]) end
    end)
  end
  for i, r in ipairs(rows.op_result_dtype) do
    data.row(report, ("type_promotion:%s:%s:%d"):format(r[1], r[2], i), function()
      local x = torch.ones({2}, {dtype = r[2]})
      local call = calls[r[1]] or function(t)
        if not t[r[1]] then error("missing " .. r[1], 0) end
        return t[r[1]](t)
      end
      local ok, out = pcall(call, x)
      if type(r[3]) == "table" then
        if ok then return ("%s of %s must fail: %s"):format(r[1], r[2], r[3].error) end
        return type(out) ~= "table" and tostring(out) or nil
      end
      if not ok then return tostring(out) end
      if out.dtype.name ~= r[3] then return ("%s of %s gives %s, expected %s"):format(r[1], r[2], out.dtype.name, r[3]) end
    end)
  end
  for i, r in ipairs(rows.can_cast_inplace) do
    data.row(report, ("type_promotion:inplace:%d"):format(i), function()
      local to, from = torch.ones({1}, {dtype = r[2]}), torch.ones({1}, {dtype = r[1]})
      local ok, err = pcall(to.add_, to, from)
      if ok ~= r[3] then return ("%s added in place to %s: %s"):format(r[1], r[2], ok and "accepted" or tostring(err)) end
    end)
  end
end

return group
