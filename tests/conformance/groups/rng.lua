-- The group `rng`: PyTorch's CPU generator, and every algorithm on it.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local torch = torch
local F = torch.nn.functional
local group = {}

local dtype_names = {float64 = true, bfloat16 = true, float16 = true, int32 = true, float32 = true, int64 = true}

-- "rand(2,3)" "randint(0,2^40,4)" "randn(5,float64)": a function, numbers and maybe a dtype.
local function simple(text)
  local name, inside = text:match("^([%w_]+)%(([^()]*)%)$")
  local numbers, dtype = {}, nil
  for part in (inside or ""):gmatch("[^,]+") do
    if dtype_names[part] then
      dtype = part
    else
      local base, exponent = part:match("^(%d+)%^(%d+)$")
      numbers[#numbers + 1] = base and math.tointeger(tonumber(base) ^ tonumber(exponent)) or tonumber(part)
      if numbers[#numbers] == nil then return nil end
    end
  end
  local named = {dtype = dtype}
  if name == "rand" or name == "randn" then return function() return torch[name](numbers, named) end end
  if name == "randperm" then return function() return torch.randperm(numbers[1], named) - 1 end end
  if name == "randint" then return function() return torch.randint(numbers[1], numbers[2], {numbers[3]}, named) end end
  if name == "uniform_" then return function() return torch.empty({numbers[1]}, named):uniform_(numbers[2], numbers[3]) end end
  if name == "random_" then return function() return torch.empty({numbers[1]}, named):random_() end end
  if name == "log_normal_" or name == "cauchy_" or name == "exponential_" or name == "normal_" then
    return function()
      local x = torch.empty({numbers[1]}, named)
      return x[name](x)
    end
  end
end

local weights = function() return torch.tensor {.1, .2, .7, .4} end
local two_rows = function() return torch.tensor {{.1, .2, .7, .4}, {.4, .7, .2, .1}} end

local function filled(n, v, dtype) return torch.full(type(n) == "table" and n or {n}, v, {dtype = dtype or "float32"}) end

-- The steps that are no plain calls.
local special = {
  ["bernoulli(full(10,.5))"] = function() return filled(10, .5):bernoulli() end,
  ["bernoulli(full(6,.3,float64))"] = function() return filled(6, .3, "float64"):bernoulli() end,
  ["bernoulli_(3,p=.5)"] = function() return torch.empty(3):bernoulli_(.5) end,
  ["normal_(6,mean=1,std=2)"] = function() return torch.empty(6):normal_(1, 2) end,
  ["normal_(20,mean=1,std=2)"] = function() return torch.empty(20):normal_(1, 2) end,
  ["normal(tensor mean 0 1 2, std 1)"] = function() return torch.normal(torch.tensor {0., 1., 2.}, 1.0) end,
  ["uniform_ on a transposed (3,2)"] = function() return torch.zeros(3, 2):t():uniform_() end,
  ["normal_ on a transposed (4,5)"] = function() return torch.zeros(4, 5):t():normal_() end,
  ["exponential_(4,lambd=2.5)"] = function() return torch.empty(4):exponential_(2.5) end,
  ["geometric_(5,p=.3)"] = function() return torch.empty(5):geometric_(.3) end,
  ["dropout(arange(1..6).reshape(2,3).t(),p=.5)"] = function() return F.dropout(torch.arange(1.0, 7.0):reshape(2, 3):t(), .5) end,
  ["dropout(ones(6,float64),p=.5)"] = function() return F.dropout(filled(6, 1, "float64"), .5) end,
  ["dropout(ones(6,bfloat16),p=.5)"] = function() return F.dropout(filled(6, 1, "bfloat16"), .5) end,
  ["dropout(ones(8),training=false)"] = function() return F.dropout(filled(8, 1), {p = .5, training = false}) end,
  ["dropout2d(ones(2,3,2,2),p=.5)"] = function() return F.dropout2d(torch.ones(2, 3, 2, 2), .5) end,
  ["dropout1d(ones(2,3,2),p=.5)"] = function() return F.dropout1d(torch.ones(2, 3, 2), .5) end,
  ["dropout3d(ones(1,3,1,2,2),p=.5)"] = function() return F.dropout3d(torch.ones(1, 3, 1, 2, 2), .5) end,
  ["alpha_dropout(ones(6),p=.5)"] = function() return F.alpha_dropout(filled(6, 1), {p = .5, training = true}) end,
  ["rrelu(-ones(5),training)"] = function() return F.rrelu(-torch.ones(5), {training = true}) end,
  ["gumbel_softmax(zeros(2,3))"] = function() return F.gumbel_softmax(torch.zeros(2, 3)) end,
  ["multinomial({.1,.2,.7,.4},6,replacement)"] = function() return torch.multinomial(weights(), 6, true) - 1 end,
  ["multinomial({.1,.2,.7,.4},2)"] = function() return torch.multinomial(weights(), 2) - 1 end,
  ["multinomial({.1,.2,.7,.4},1)"] = function() return torch.multinomial(weights(), 1) - 1 end,
  ["multinomial(2 rows,2)"] = function() return torch.multinomial(two_rows(), 2) - 1 end,
  ["multinomial(2 rows,3,replacement)"] = function() return torch.multinomial(two_rows(), 3, true) - 1 end,
  ["rand_like(zeros(2,2))"] = function() return torch.rand_like(torch.zeros(2, 2)) end,
  ["randn_like(zeros(3))"] = function() return torch.randn_like(torch.zeros(3)) end,
  ["randint_like(zeros(4),0,5)"] = function() return torch.randint_like(torch.zeros(4), 0, 5) end,
  ["poisson({1,5,20})"] = function() return torch.poisson(torch.tensor {1., 5., 20.}) end,
}

local function step(text)
  if special[text] then return special[text] end
  local n, p = text:match("^dropout%(ones%((%d+)%),p=([%d.]+)%)$")
  if n then return function() return F.dropout(filled(math.tointeger(tonumber(n)), 1), tonumber(p)) end end
  n, p = text:match("^bernoulli_%((%d+),p=([%d.]+)%)$")
  if n then return function() return torch.empty(math.tointeger(tonumber(n))):bernoulli_(tonumber(p)) end end
  return simple(text) or error("no rule for the step " .. text, 0)
end

---Integers, masks and plain uniforms to the bit, the rest to 2e-6.
function group.check(got, block)
  local want = data.tensor(block)
  if not got.dtype.name:find("float") then return compare.tensors(got, want) end
  if got.shape ~= want.shape or got.dtype ~= want.dtype then return compare.tensors(got, want) end
  local low = got.dtype == torch.bfloat16 and 8e-3 or got.dtype == torch.float16 and 1e-3 or 2e-6
  if torch.allclose(got:double(), want:double(), {rtol = low, atol = low}) then return nil end
  return compare.tensors(got, want)
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/rng.json")
  for _, e in ipairs(rows.engine) do
    data.row(report, "rng:" .. e.id, function()
      torch.manual_seed(e.seed)
      local got = torch.randint(0, 2 ^ 31 // 1 | 0, {#e["u32_mod_2^31"]})
      for i, v in ipairs(e["u32_mod_2^31"]) do
        if got[i]:item() ~= v & 0x7fffffff and got[i]:item() ~= v then return ("output %d is %d, expected %d"):format(i, got[i]:item(), v) end
      end
      torch.manual_seed(e.seed)
      local r = torch.rand(4)
      for i, v in ipairs(e.rand_4) do
        if r[i]:item() ~= v then return ("rand %d is %.9g, expected %.9g"):format(i, r[i]:item(), v) end
      end
      local seed = torch.initial_seed()
      if seed < 0 then seed = seed + 2.0 ^ 64 end  -- PyTorch's is unsigned
      if seed ~= e.initial_seed then return "initial_seed" end
    end)
  end
  for _, s in ipairs(rows.streams) do
    data.row(report, s.id, function()
      local calls = {}
      for i, one in ipairs(s.steps) do calls[i] = step(one[1]) end
      torch.manual_seed(s.seed)
      for i, one in ipairs(s.steps) do
        local why = group.check(calls[i](), one[2])
        if why then return one[1] .. ": " .. why end
      end
      -- As many outputs were consumed: the next one is the same.
      if s.outputs_used and s.outputs_used ~= json.null then
        local after = torch.rand(1)
        torch.manual_seed(s.seed)
        local reference = torch.rand(s.outputs_used + 1)
        if after[1]:item() ~= reference[s.outputs_used + 1]:item() then return "another number of outputs was consumed" end
      end
    end)
  end
end

return group
