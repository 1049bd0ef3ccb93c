-- Rows over small integers have lanes of their own width: they give the bits that int64 lanes give,
-- cut off as storing cuts them, at every length, layout and level.
local rows = {
  function(x, y) return x + y end,
  function(x, y) return x * y end,
  function(x, y) return torch.maximum(x, y) end,
  function(x, y) return torch.minimum(x, y) end,
  function(x, y) return torch.bitwise_and(x, y) end,
  function(x, y) return torch.bitwise_or(x, y) end,
  function(x, y) return torch.bitwise_xor(x, y) end,
  function(x) return torch.sign(x) end,
  function(x, y) return torch.where(x:gt(y), x, y) end,
  function(x, y) return x:masked_fill(x:ne(y), 1) end,
  function(x, y) return torch.logical_and(x, y) end,
  function(x, y) return torch.logical_xor(x, y) end,
  function(x) return x:logical_not() end,
  function(x, y) return x:eq(y) end,
  function(x, y) return x:lt(y) end,
  function(x, y) return x:ge(y) end,
  function(x) return x:gt(1) end,
  function(x) return x:lt(1000) end,
  function(x) return x:ne(-1) end,
}
local numbers = {  -- bool has none of these
  function(x, y) return x - y end,
  function(x, y) return torch.rsub(x, y) end,
  function(x) return -x end,
  function(x) return torch.abs(x) end,
  function(x) return x ^ 2 end,
  function(x) return x ^ 3 end,
  function(x) return torch.bitwise_not(x) end,
  function(x, y) return torch.add(x, y, {alpha = 3}) end,
  function(x, y) return torch.addcmul(x, x, y, {value = 7}) end,
  function(x) return x:clamp(-10, 10) end,
  function(x) return x:clamp {min = 3} end,
  function(x) return x + 100 end,
  function(x) return x * 1000 end,
  function(x) return torch.relu(x) end,
}

-- Compared as what int64 lanes make of the same numbers, stored in the result's type.
local function same(row, x, y)
  local small, wide = row(x, y), row(x:to(torch.int64), y:to(torch.int64))
  if x.dtype == torch.bool then wide = wide:ne(0) end
  check.equal(torch.equal(small, wide:to(small.dtype)), true)
end

test("rows over small integers and bools give what int64 lanes give", function()
  torch.manual_seed(5)
  for _, dtype in ipairs {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32} do
    local low = dtype == torch.uint8 and 0 or -2 ^ 31
    local function any(n)
      local x = torch.randint(math.tointeger(low), 2 ^ 31 | 0, {n}):to(dtype)
      return dtype == torch.bool and torch.rand(n):gt(0.5) or torch.where(torch.rand(n):gt(0.3), x, x:sign())
    end
    for _, n in ipairs {1, 7, 67, 1500} do
      local x, y = any(n * 2), any(n * 2)
      for _, list in ipairs(dtype == torch.bool and {rows} or {rows, numbers}) do
        for _, row in ipairs(list) do
          same(row, x, y)
          same(row, x:view(2, n):t(), y:view(n, 2))
          same(row, x:view(n, 2)[{{}, 1}], y[{{1, 1}}])
        end
      end
    end
  end
end)

test("conversions between small integers keep the low bits, and bools are 0 and 1", function()
  local types = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
  local bits = {8, 8, 16, 32, 64}
  for _, from in ipairs(types) do
    local x = torch.arange(-70000, 70000, 37):to(from)
    for k, to in ipairs(types) do
      local y = x:to(to):to(torch.int64)
      local wide = x:to(torch.int64)
      if bits[k] < 64 then
        local range = 1 << bits[k]
        wide = wide:remainder(range)
        if to ~= torch.uint8 then wide = torch.where(wide:ge(range // 2), wide - range, wide) end
      end
      check.equal(torch.equal(y, wide), true)
      check.equal(torch.equal(x[{{1, -1, 3}}]:to(to), x:to(to)[{{1, -1, 3}}]), true)
    end
    check.equal(torch.equal(x:to(torch.bool), x:ne(0)), true)
    check.equal(torch.equal(x:to(torch.bool):to(from):to(torch.int64), x:to(torch.int64):ne(0):to(torch.int64)), true)
    for _, to in ipairs {torch.float16, torch.bfloat16, torch.float32} do
      check.equal(torch.equal(x:to(to), x:to(torch.float64):to(torch.float32):to(to)), true)
    end
    check.equal(torch.equal(x:to(torch.float64):to(torch.int64), x:to(torch.int64)), true)
  end
  check.equal(torch.tensor {256, 0, 1 << 40}:to(torch.bool):tolist()[3], true)
end)
