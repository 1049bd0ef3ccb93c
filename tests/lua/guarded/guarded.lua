-- Random calls of everything that reaches a kernel of its own or a library's, against the same in float64:
--   TYCHO_GUARD=1 tycho tests/lua/run.lua tests/lua/guarded/guarded.lua [--cases 20000] [--seed 7] [--only "products"]
-- In guard mode (engine/base/guard.h) an access outside of a block ends the program; the line printed last is then
-- the case. TYCHO_RANDOM_SEED and TYCHO_RANDOM_CASES do what the options do. The cases are beside this file.
local here = ((arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or ".") .. "/guarded"
local options = check.options or {}
local seed = options.seed or math.tointeger(tonumber(os.getenv("TYCHO_RANDOM_SEED"))) or 1
local cases = options.cases or math.tointeger(tonumber(os.getenv("TYCHO_RANDOM_CASES"))) or 400

local guarded = {list = {}, check = check}

-- A kind of case: `weight` parts of all cases; make(draw) returns its text and a function that runs it.
function guarded.add(name, weight, make) guarded.list[#guarded.list + 1] = {name = name, weight = weight, make = make} end

-- Random choices, from the numbers of one case alone.
local Draw = {}
Draw.__index = Draw
function Draw:int(low, high) return math.random(low, high) end
function Draw:pick(list) return list[math.random(#list)] end
function Draw:chance(n) return math.random(n) == 1 end
-- Small numbers are as likely as large ones.
function Draw:size(high) return math.max(1, math.min(high, math.floor(math.exp(math.random() * math.log(high + 1))))) end

-- Values in (-1, 1) of a type, or -9..9 for whole numbers.
function Draw:values(shape, dtype)
  if dtype:find("int") then return torch.randint(dtype == "uint8" and 0 or -9, 10, shape, {dtype = dtype}) end
  return (torch.rand(shape, {dtype = "float64"}) * 2 - 1):to(dtype)
end

-- The same values in another layout: contiguous, a part of a larger tensor, every second one, turned, or channels
-- last. What lies around a view is nan, or a large number.
function Draw:layout(t)
  local kind, n = self:int(1, 8), t.ndim
  if n == 0 or kind <= 3 then return t, "" end
  local bad = t:is_floating_point() and 0 / 0 or 100
  if kind == 4 then  -- rows longer than they look, with an offset
    local shape, part = {}, {}
    for d = 1, n do shape[d], part[d] = t.shape[d] + (d == n and 3 or 1), {2, t.shape[d] + 1} end
    local large = torch.full(shape, bad, {dtype = t.dtype})
    large[part] = t
    return large[part], "/part"
  elseif kind == 5 then
    local shape = {table.unpack(t.shape)}
    shape[#shape + 1] = 2
    local large = torch.full(shape, bad, {dtype = t.dtype})
    large:select(n + 1, 2):copy_(t)
    return large:select(n + 1, 2), "/step"
  elseif kind == 6 and n >= 2 then
    local a, b = self:int(1, n), self:int(1, n)
    return t:transpose(a, b):contiguous():transpose(a, b), ("/turned%d%d"):format(a, b)
  elseif n >= 3 then
    return t:transpose(2, n):contiguous():transpose(2, n):movedim(2, 2), "/last"
  end
  return t, ""
end

guarded.tolerance = {float64 = 1e-11, float32 = 3e-5, bfloat16 = 2e-2, float16 = 3e-3}

-- `have` is what `want` (float64) says, within the type's tolerance of the largest number, or of `scale`.
function guarded.close(what, have, want, dtype, scale)
  if tostring(have.shape) ~= tostring(want.shape) then error(("%s has shape %s, not %s"):format(what, have.shape, want.shape), 0) end
  if want:numel() == 0 then return end
  have = have:detach():to("float64")
  want = want:detach()
  local tolerance = guarded.tolerance[dtype] or 0
  local largest = math.max(want:abs():max():item(), scale or 0)
  local off = (have - want):abs():max():item()
  if not (off <= tolerance * largest) then
    error(("%s is off by %g where the largest number is %g (%s)"):format(what, off, largest, dtype), 0)
  end
end

-- f at `inputs` of a type against f at the same numbers in float64, contiguous, and the gradients of both. `scale`: one
-- number, or one for the result and for each gradient.
function guarded.compare(draw, f, inputs, dtype, differentiable, scale)
  local g
  local function run(list, type)
    local leaves, floating = {}, {}
    for i, t in ipairs(list) do
      leaves[i] = t
      if differentiable and t:is_floating_point() then
        leaves[i] = t:detach():requires_grad_()
        floating[#floating + 1] = leaves[i]
      end
    end
    local y = f(table.unpack(leaves))
    if #floating == 0 then return {y} end
    g = g or draw:values(y.shape, dtype)
    return {y:detach(), torch.autograd.grad(y, floating, {grad_outputs = g:to(type)})}
  end
  local exact, laid = {}, {}
  for i, t in ipairs(inputs) do
    exact[i] = t.dtype == torch[dtype] and t:to("float64") or t
    laid[i] = draw:layout(t)
  end
  local have = run(laid, dtype)
  local threads = torch.get_num_threads()
  torch.set_num_threads(2)
  local want = run(exact, "float64")
  torch.set_num_threads(threads)
  for i = 1, #want do
    guarded.close(i == 1 and "the result" or ("gradient %d"):format(i - 1), have[i], want[i]:to("float64"), dtype,
      type(scale) == "table" and scale[i] or tonumber(scale))
  end
end

for _, part in ipairs {"conv", "products", "layers"} do assert(loadfile(("%s/%s.lua"):format(here, part)))(guarded) end

local version = check.tycho({"--version"})
print((version.out:gsub("\n+$", "")), "guard: " .. (os.getenv("TYCHO_GUARD") or "off"), ("seed %d"):format(seed))
io.stdout:setvbuf("line")
torch.notes("all", "off")

local total = 0
for _, kind in ipairs(guarded.list) do total = total + kind.weight end
for number, kind in ipairs(guarded.list) do
  test(kind.name, function()
    local before, count = torch.get_num_threads(), math.max(1, math.ceil(cases * kind.weight / total))
    local wrong = {}
    for i = 1, count do
      math.randomseed(seed * 1000003 + i, number)
      torch.manual_seed(seed * 1000003 + i)
      torch.set_num_threads(math.random(1, 2))
      local draw = setmetatable({}, Draw)
      local text, run = kind.make(draw)
      print(("%s, case %d on %d: %s"):format(kind.name, i, torch.get_num_threads(), text))
      local ok, err = pcall(run)
      collectgarbage()  -- what lies behind a block's end is looked at when it is given back
      if not ok then wrong[#wrong + 1] = ("case %d of seed %d, %s: %s"):format(i, seed, text, tostring(err)) end
      if #wrong == 10 then break end
    end
    torch.set_num_threads(before)
    check.yes(#wrong == 0, table.concat(wrong, "\n"))
  end)
end
torch.notes("all", "on")
