-- Property tests: random shapes, layouts, dtypes and values against slow models and laws. 20,000 cases; more by
--   tycho tests/lua/run.lua tests/lua/property/property_test.lua --cases 1000000 --seed 7 [--only "part of a sentence"]
-- A failure prints the smallest failing case as Lua to paste, with its number and seed. The properties are in
-- property_*.lua, the library is property.lua.
local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local property = dofile(here .. "/property/property.lua")
property.temp = check.temp
for _, part in ipairs {"model", "views", "index", "numbers", "ops", "files"} do
  assert(loadfile(("%s/property/property_%s.lua"):format(here, part)))(property)
end

local options = check.options or {}
local cases, seed = options.cases or 20000, options.seed or 1
local total = 0
for _, p in ipairs(property.list) do total = total + p.weight end

torch.notes("all", "off")  -- stretched pairs and nan are wanted here
for _, p in ipairs(property.list) do
  test(p.name, function()
    local report = property.run(p.name, p.body, math.max(1, math.floor(cases * p.weight / total)), seed)
    check.yes(report == nil, report and "\n" .. report)
  end)
end

torch.notes("all", "on")

test("every lane level of this processor gives the same", function()
  local count = tostring(math.max(400, cases // 40))
  local function lines(level)
    local run = check.tycho({here .. "/property/property_lanes.lua", count, tostring(seed)}, {env = {TYCHO_CPU_LEVEL = level}})
    check.equal(run.status, 0, run.err)
    local list = {}
    for line in run.out:gmatch "[^\n]+" do list[#list + 1] = line end
    return list
  end
  local base = lines "x86_64"
  check.yes(#base > 400)
  for _, level in ipairs {"v3", "v4"} do
    local other = lines(level)
    check.equal(#other, #base)
    for k = 1, #base, 2 do
      check.equal(other[k], base[k])
      local a, b = base[k + 1]:gmatch "%S+", other[k + 1]:gmatch "%S+"
      local tol = base[k]:find "float16" and 2e-2 or 1e-4
      for x in a do
        local y = b()
        local p, q = tonumber(x), tonumber(y)
        if x ~= y and not (p and q and math.abs(p - q) <= tol * (1 + math.abs(p))) and not (x:find "nan" and y:find "nan") then
          check.yes(false, ("%s: %s gives %s, x86_64 %s"):format(base[k], level, y, x))
        end
      end
    end
  end
end)

-- --- what the properties found ---
test("view does not copy a tensor that was computed from a transposed one", function()
  local y = torch.zeros(3, 2):t() + 1
  check.raises("shape", "without a copy", function() return y:view(6) end)
  check.shape(y:reshape(6), {6})
end)

test("an empty index of floats has no gradient", function()
  local index, x = torch.zeros(0):requires_grad_(), torch.zeros(0):requires_grad_()
  check.no(torch.zeros(0):gather(1, index).requires_grad)
  x:gather(1, index):sum():backward()
  check.shape(x.grad, {0})
  check.yes(index.grad == nil)
  local source = torch.zeros(1, 1):requires_grad_()
  torch.zeros(0, 1, 1):scatter(1, torch.zeros(0, 1, 1):long(), source):sum():backward()
  check.equal(source.grad:tolist(), {{0}})
end)

test("singular values and eigenvalues of nan and infinity raise; LAPACK's iterations may never end", function()
  for _, bad in ipairs {0 / 0, math.huge, -math.huge} do
    local a = torch.ones(2, 3, 3)
    a[{2, 3, 1}] = bad
    check.raises("linalg", "(matrix 2 of the batch)", function() return torch.linalg.svd(a) end)
    check.raises("linalg", "nan or infinity", function() return torch.linalg.eigh(a) end)
    check.raises("linalg", "nan or infinity", function() return torch.pinverse(a[2]) end)
  end
end)

test("an empty slice that begins behind the end of its storage is saved and loaded", function()
  local path = check.temp("empty.pt")
  torch.save(torch.zeros(0, 3)["..., 2:3"], path)
  check.shape(torch.load(path), {0, 2})
end)

-- --- the library itself ---
test("a case is repeated by its seed and number", function()
  local function drawn(seed, number)
    local seen = {}
    property.run("draws", function(case)
      for k = 1, 8 do seen[k] = case:int(0, 1000) end
    end, 1, seed, number)
    return seen
  end
  check.equal(drawn(5, 3), drawn(5, 3))
  check.no(table.concat(drawn(5, 3), " ") == table.concat(drawn(5, 4), " "))
  check.no(table.concat(drawn(5, 3), " ") == table.concat(drawn(6, 3), " "))
end)

test("a planted fault is found and shrunk to the smallest call", function()
  -- A wrong sum for every tensor with two dimensions or more that holds a number above 2.
  local report = property.run("planted", function(case)
    local x, name = case:tensor(case:shape(4, 4), case:pick(property.dtypes))
    local sum = 0
    for _, v in ipairs(property.flat(x)) do sum = sum + v end
    if x:dim() >= 2 and x:numel() > 0 and x:max():item() == 3 then sum = sum + 1 end
    case:same(case:let(name .. ":sum()"), {sum}, "sum")
  end, 2000, 1)
  check.contains(report, 'x1 = torch.tensor({3}, {dtype="float32"}):reshape(1, 1)\nx2 = x1:sum()\n-- sum: got {3}, expected {4}')
end)

test("a chain of steps is shrunk to the steps that matter", function()
  local report = property.run("planted", function(case)
    local had = {}
    for _ = 1, case:int(1, 12) do
      local what = case:pick {"add", "mul", "neg", "flip"}
      case:note(what)
      had[#had + 1] = what
    end
    local text = table.concat(had, " ")
    case:expect(not text:find("neg.*flip.*neg"), "planted")
  end, 2000, 1)
  check.contains(report, ":\nneg\nflip\nneg\n-- planted")
end)

test("an error raised by a call is reported with the call", function()
  local report = property.run("planted", function(case)
    local _, name = case:let("torch.zeros(2)")
    case:let(name .. ":view(3)")
  end, 1, 1)
  check.contains(report, "x2 = x1:view(3)\n-- raised: ")
end)
