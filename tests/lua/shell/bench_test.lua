-- The benchmark (tests/bench): its task list is whole, and what it times runs. No test asserts a time.
local script = "tests/bench/tasks.lua"

local function words(text)
  local list = {}
  for word in text:gmatch("%S+") do list[#list + 1] = word end
  table.sort(list)
  return list
end

test("the benchmark has every task that costs.tsv lists, and no other", function()
  local run = check.tycho {script, "--list"}
  check.equal(run.status, 0, run.err)
  local costs = {}
  for line in io.lines("tests/bench/costs.tsv") do costs[#costs + 1] = line:match("^([^#\t]+)\t") end
  check.equal(words(run.out), words(table.concat(costs, "\n")))
end)

test("a benchmark line has the keys that the tables need", function()
  local run = check.tycho {script, "--only", "a.add4,c.add.1e4", "--seconds", "0.01"}
  check.equal(run.status, 0, run.err)
  for _, key in ipairs {"task", "peer", "threads", "min_us", "median_us", "n", "inner", "extra", "gb_s"} do
    check.contains(run.out, ('"%s": '):format(key))
  end
end)

test("the benchmark's small tasks run without an error", function()
  local only = "a.,b.,c.add.1e4,c.exp_out.1e4,c.chain8_bwd.1e4,c.where,d.softmax,d.layer_norm,d.cross,"
    .. "e.gather,e.masked,f.mm_f32.16,f.linear,h.lenet.f32"
  local run = check.tycho {script, "--only", only, "--seconds", "0"}
  check.equal(run.status, 0, run.err)
  for line in run.out:gmatch("[^\n]+") do check.lacks(line, '"error"') end
end)

test("the benchmark refuses a wrong group, option or thread count", function()
  for _, arguments in ipairs {{"z"}, {"--fast", "1"}, {"--threads", "two"}, {"--only"}} do
    local run = check.tycho {script, table.unpack(arguments)}
    check.equal(run.status, 2)
    check.contains(run.err, "tasks.lua: ")
  end
end)
