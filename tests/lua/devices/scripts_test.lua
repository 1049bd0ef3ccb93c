-- The scripts of several devices as a person runs them: one device and two give the same lines, also after --load.
local scripts = (arg[0]:match("^(.*)/") or ".") .. "/../../scripts/"
local function run(script, ...)
  local out = check.tycho {scripts .. script, "--quick", "--threads", "1", ...}
  check.equal(out.err, "")
  check.equal(out.status, 0)
  return out.out
end
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

test("the first device may be any, and the others come after it", function()
  local env = {env = {TYCHO_SIMULATE_CUDA = "2"}}
  for _, script in ipairs {"data_parallel.lua", "model_parallel.lua"} do
    for _, device in ipairs {"cuda:1", "cuda", "auto"} do
      local out = check.tycho({scripts .. script, "--quick", "--epochs", "1", "--device", device, "--save", check.temp "any.pt"}, env)
      check.equal({out.err, out.status}, {"", 0})
    end
  end
end)

for _, row in ipairs {{"model_parallel.lua", "--cut", "layer"}, {"model_parallel.lua", "--cut", "branch"}, {"model_parallel.lua", "--cut", "sequence"},
  {"data_parallel.lua", "--devices", "2"}, {"data_parallel.lua", "--shares", "3,1"}} do
  local name = table.concat(row, " ")
  test(name .. " learns over two devices what one device learns, and goes on where it was stopped", function()
    local one, two, three = check.temp "one.csv", check.temp "two.csv", check.temp "three.csv"
    local file = check.temp "net.pt"
    run(row[1], row[2], row[3], "--device", "cpu", "--metrics", one, "--save", check.temp "one.pt")
    local pipelined = row[1]:find "model"  -- the other's rates depend on how many epochs are meant
    check.contains(run(row[1], row[2], row[3], "--epochs", pipelined and "1" or "2", "--save", file, "--metrics", two), "cuda:0")
    if not pipelined then return check.equal(read(two), read(one)) end
    run(row[1], "--load", file, "--epochs", "2", "--metrics", two)
    check.equal(read(two), read(one))
    -- A checkpoint of two devices goes on on the CPU.
    run(row[1], "--load", file, "--epochs", "2", "--device", "cpu", "--metrics", three)
    check.equal(read(three):match "\n2,[^\n]+", read(one):match "\n2,[^\n]+")
  end)
end

test("--device auto takes cuda where there is one, and the CPU elsewhere", function()
  for count, line in pairs {["0"] = "nil", ["2"] = "cuda"} do
    local out = check.tycho({scripts .. "train_rnn.lua", "--quick", "--epochs", "1", "--threads", "1", "--device", "auto", "--save", check.temp "auto.pt"},
      {env = {TYCHO_SIMULATE_CUDA = count}})
    check.equal(out.err, "")
    local saved = torch.load(check.temp "auto.pt", "cpu")
    check.equal(tostring(saved.random.device and "cuda"), line)
  end
end)

test("wrong devices and shares end a script with a sentence", function()
  local function refused(text, ...)
    local out = check.tycho {scripts .. "data_parallel.lua", ...}
    check.contains(out.err, text)
    check.lacks(out.err, "traceback")
    check.equal(out.status, 1)
  end
  refused("there is no device cuda:4", "--devices", "5")
  refused("--shares is a list of whole numbers", "--shares", "a,b")
  refused("one for each of the 2 devices", "--shares", "1,2,3")
end)
