-- Rows of a matrix that repeat, lie apart or are a part of a wider one are computed many at once: each gives
-- the bits that the same elements give in a row of their own.
local types = {"float32", "float64", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"}

local function values(dtype, size)
  if dtype == "bool" then return torch.randint(0, 2, size):to(torch.bool) end
  return (torch.randn(size) * 20):clamp(dtype == "uint8" and 1 or -100, 100):to(torch[dtype])
end

-- A tensor that broadcasts to `size`, and the same elements without gaps.
local function operand(dtype, size)
  local own = {}
  for d, n in ipairs(size) do own[d] = torch.randint(0, 3, {1}):item() == 0 and 1 or n end
  local kind = torch.randint(0, 4, {1}):item()
  local x = values(dtype, own)
  if kind == 0 then
    local wide = {table.unpack(own)}
    wide[#wide] = wide[#wide] + 5
    local w = values(dtype, wide):narrow(#own, 3, own[#own])
    x = w
  elseif kind == 1 then
    x = values(dtype, {own[1] * 2, table.unpack(own, 2)})[{{1, -1, 2}}]
  end
  return x, x:expand(size):contiguous():reshape(-1)
end

local binary = {
  add = function(a, b) return a + b end,
  greater = function(a, b) return a:gt(b) end,
  maximum = torch.maximum,
  bits = function(a, b) return a:is_floating_point() and a * b or a | b end,
  hypot = function(a, b) return a:is_floating_point() and torch.hypot(a, b) or a:eq(b) end,
}
local ternary = {
  where = function(a, b, c) return torch.where(a:gt(b), b, c) end,
  addcmul = function(a, b, c) return a.dtype == torch.bool and a & b | c or torch.addcmul(a, b, c) end,
  lerp = function(a, b, c) return a:is_floating_point() and torch.lerp(a, b, c) or a - b * c end,
}

local function same(got, want, what)
  check.equal(torch.equal(got:contiguous():reshape(-1), want), true, what)
end

test("rows that are computed together give what each gives alone, in every type and layout", function()
  torch.manual_seed(3)
  local threads, fusion = torch.get_num_threads(), torch.get_fusion()
  for _, fused in ipairs {false, true} do
    torch.set_fusion(fused and 1 or false)
    for i = 1, 120 do
      torch.set_num_threads(i % 2 + 1)
      local dtype = types[i % #types + 1]
      local n = torch.randint(1, 130, {1}):item()
      local size = i % 3 == 0 and {torch.randint(1, 9, {1}):item(), torch.randint(1, 40, {1}):item(), n} or {torch.randint(1, 700, {1}):item(), n}
      local a, flat_a = operand(dtype, size)
      local b, flat_b = operand(dtype, size)
      local c, flat_c = operand(dtype, size)
      local what = dtype .. " " .. table.concat(size, "x") .. " "
      for name, f in pairs(binary) do
        if dtype ~= "bool" or name ~= "hypot" then
          -- Two in a row are held together where rows are fused.
          local y, z = f(a, b), f(b, a)
          same(torch.broadcast_to(y, size), f(flat_a, flat_b), what .. name)
          same(torch.broadcast_to(z, size), f(flat_b, flat_a), what .. name .. " turned")
        end
      end
      for name, f in pairs(ternary) do
        if dtype ~= "bool" or name == "where" then
          same(torch.broadcast_to(f(a, b, c), size), f(flat_a, flat_b, flat_c), what .. name)
        end
      end
      if dtype ~= "bool" then
        local whole = values(dtype, {size[1] + 1, table.unpack(size, 2)}):narrow(1, 2, size[1])
        local before = whole:clone():reshape(-1)
        whole:mul_(b)
        same(whole, before * flat_b, what .. "in place")
        same(whole:neg(), -whole:contiguous():reshape(-1), what .. "neg")
      end
      for _, to in ipairs {"bool", "float32", "int16", "float64"} do
        same(torch.broadcast_to(a:to(torch[to]), size), flat_a:to(torch[to]), what .. to)
      end
    end
  end
  torch.set_fusion(fusion)
  torch.set_num_threads(threads)
end)
