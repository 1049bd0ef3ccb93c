-- What training on several processes is, twice: first with nothing but all_reduce after each backward, then with
-- DistributedDataParallel. Both take the same steps, as one process with the whole batch would.
-- Run it with: tycho run -n 2 scripts/ddp_from_scratch.lua (or without `run -n 2`: one rank that is the whole world).
local nn, F, optim, data, dist = torch.nn, torch.nn.functional, torch.optim, torch.utils.data, torch.distributed
local here = arg[0]:match("^(.*)/") or "."

local usage = "tycho run -n N scripts/ddp_from_scratch.lua [EPOCHS] [--device cpu|cuda|auto]    trains on digits in EPOCHS rounds (5), by hand and with DDP"
local epochs, device, quick = 5, "cpu", false
for i = 1, #arg do
  if arg[i] == "--help" then print(usage) os.exit(0, true) end
  if arg[i] == "--quick" then
    epochs, quick = 1, true
  elseif math.tointeger(tonumber(arg[i])) and tonumber(arg[i]) > 0 then
    epochs = math.tointeger(tonumber(arg[i]))
  elseif arg[i - 1] == "--device" then
    device = arg[i]
  elseif arg[i] ~= "--device" then
    io.stderr:write("ddp_from_scratch: ", arg[i], " is no option\n", usage, "\n")
    os.exit(1, true)
  end
end
local whole_batch = 48

dist.init_process_group()                                          -- the ranks meet; alone, the world is one rank
local rank, world = dist.get_rank(), dist.get_world_size()
if device == "auto" then device = torch.cuda.is_available() and "cuda" or "cpu" end
if device == "cuda" and torch.cuda.is_available() then              -- each rank has a device of its own, where there are enough
  torch.cuda.set_device(tonumber(os.getenv "LOCAL_RANK" or 0) % torch.cuda.device_count())
end
local function say(text, ...)
  if rank == 0 then print(text:format(...)) end
end
if quick then say("--quick is a smoke test: its numbers say nothing about the real run") end

-- 1797 digits of 8 x 8 points. Each rank reads them all, and a sampler gives it every world-th one of an order that is the
-- same everywhere.
local digits = data.read_csv(here .. "/data/digits.csv.gz", {dtype = {[-1] = "class"}})
local set = data.TensorDataset(digits:tensor{except = {-1}}:float() / 16, (digits:column(-1)))
local sampler = data.DistributedSampler(set, {seed = 1})
local loader = data.DataLoader(set, {batch_size = whole_batch // world, sampler = sampler})

local function make_network()
  torch.manual_seed(1)                                             -- equal weights on every rank to begin with
  return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)):to(device)
end

-- Trains and gives the mean loss of the last epoch, over all ranks.
local function train(model, net, after_backward)
  local opt = optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
  local mean
  for epoch = 1, epochs do
    sampler:set_epoch(epoch)                                       -- another order, the same on all ranks
    local sum, batches = torch.zeros(1, {device = device}), 0
    for x, y in loader() do
      opt:zero_grad()
      local loss = F.cross_entropy(model(x:to(device)), y:to(device))
      loss:backward()
      after_backward()
      opt:step()
      sum, batches = sum + loss:detach(), batches + 1
    end
    dist.all_reduce(sum)
    mean = sum:item() / batches / world
    say("  epoch %d  loss %.4f", epoch, mean)
  end
  return mean
end

---- By hand: after backward, every gradient becomes the mean of all ranks' -------------------------

say("%d ranks; all_reduce by hand", world)
local by_hand = make_network()
train(by_hand, by_hand, function()
  for _, p in ipairs(by_hand:parameters()) do
    dist.all_reduce(p.grad)                                        -- the sum of every rank's
    p.grad:div_(world)
  end
end)

---- DistributedDataParallel does the same, in few large messages, while backward goes on -----------

say("DistributedDataParallel")
local wrapped = make_network()
train(nn.parallel.DistributedDataParallel(wrapped), wrapped, function() end)

---- The same numbers ------------------------------------------------------------------------------

local apart = 0
for i, p in ipairs(by_hand:parameters()) do
  apart = math.max(apart, (p - wrapped:parameters()[i]):abs():max():item())
end
say("the weights of the two differ by %g at most", apart)
dist.destroy_process_group()
