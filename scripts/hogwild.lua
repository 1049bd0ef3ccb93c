-- Hogwild (Niu et al. 2011): several processes train one network at the same time. Its weights lie in memory that all
-- share, each process adds its steps without waiting for the others, and nothing is locked. What is lost that way is
-- small: the loss ends where that of one process does. Run it with: tycho scripts/hogwild.lua [PROCESSES [EPOCHS]]
local nn, F, optim, data, mp = torch.nn, torch.nn.functional, torch.optim, torch.utils.data, torch.multiprocessing
local here = arg[0]:match("^(.*)/") or "."

local usage = "tycho scripts/hogwild.lua [PROCESSES [EPOCHS]]    trains on 8x8 digits in 4 processes, 20 rounds; --quick: 2 and 6"
if arg[1] == "--help" then
  print(usage)
  os.exit(0, true)
end
local quick = arg[1] == "--quick"
-- Nothing else: weights that processes share lie in the CPU's memory.
for i = quick and 2 or 1, #arg do
  local n = math.tointeger(tonumber(arg[i]))
  if i > 2 or not n or n < 1 then
    io.stderr:write("hogwild: ", arg[i], " is no number of processes or rounds\n", usage, "\n")
    os.exit(1, true)
  end
end
if quick then print("--quick is a smoke test: its numbers say nothing about the real run") end
local processes = quick and 2 or math.tointeger(tonumber(arg[1] or 4)) or 4
local epochs = quick and 6 or math.tointeger(tonumber(arg[2] or 20)) or 20

torch.manual_seed(1)
local rows = data.read_csv(here .. "/data/digits.csv.gz", {dtype = {[-1] = "class"}})
local x, y = rows:tensor {except = {-1}, dtype = torch.float32} / 16, (rows:column(-1))
local order = torch.randperm(#x)
local train, test = order[{{1, 1500}}], order[{{1501, -1}}]

local function make() return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)) end
-- Steps on these rows; the optimiser's memory and the gradients are each process's own.
local function learn(net, mine, seed)
  torch.manual_seed(seed)
  local opt = optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.5})
  for _ = 1, epochs do
    for _, batch in ipairs {mine[torch.randperm(#mine)]:split(16)} do
      opt:zero_grad()
      F.cross_entropy(net(x[batch]), y[batch]):backward()
      opt:step()
    end
  end
end
local function report(name, net, seconds)
  torch.no_grad(function()
    local loss = F.cross_entropy(net(x[train]), y[train]):item()
    local right = net(x[test]):argmax(2):eq(y[test]):sum():item()
    print(("%-12s loss %.4f  test accuracy %.1f %%  %.2f s"):format(name, loss, 100 * right / #test, seconds))
  end)
end

local alone, together = make(), make()
together:load_state_dict(alone:state_dict())                      -- the same start

local began = torch.perf_counter()
learn(alone, train, 1)
report("one process", alone, torch.perf_counter() - began)

began = torch.perf_counter()
together:share_memory()                                           -- from here on all processes see its weights
x:share_memory_()
y:share_memory_()
mp.spawn(function(rank)
  learn(together, train[torch.arange(rank + 1, #train + 1, processes)], rank + 1)    -- a share of the rows for each
end, {nprocs = processes})
report(("%d processes"):format(processes), together, torch.perf_counter() - began)
