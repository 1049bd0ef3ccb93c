-- Several processes: what the training scripts beside this file share to run on one process or on many (`tycho run -n 4
-- scripts/train_digits.lua`), without a line that differs. Every rank computes an equal part of each batch; rank 0 alone
-- speaks and writes files.
local support = ...

---This process's number and how many there are: RANK and WORLD_SIZE, which `tycho run` sets, else 0 and 1.
support.rank, support.world = 0, 1
if os.getenv "RANK" and os.getenv "WORLD_SIZE" then
  support.rank, support.world = math.tointeger(tonumber(os.getenv "RANK")) or 0, math.tointeger(tonumber(os.getenv "WORLD_SIZE")) or 1
end
local rank, world = support.rank, support.world

---Meets the other ranks. Returns the device to compute on: of several GPUs, this rank's own.
---@param device string
function support.meet(device)
  if world == 1 then return device end
  support.attempt(torch.distributed.init_process_group)
  return device == "cuda" and "cuda:" .. (os.getenv "LOCAL_RANK" or rank) or device
end

---This rank's part of a number that counts all ranks together.
---@param key string the option's name
---@param n integer
function support.share(key, n)
  if n % world ~= 0 then support.stop("--%s must divide among %d ranks, got %d", key, world, n) end
  return n // world
end

---A loader that shuffles; each rank gets its share of the items.
---@param set table
---@param options table as DataLoader takes them
function support.loader(set, options)
  local data = torch.utils.data
  if world == 1 then options.shuffle = true else options.sampler = data.DistributedSampler(set) end
  return data.DataLoader(set, options)
end

---The network whose gradients are the mean over all ranks.
---@param net nn.Module
function support.distribute(net)
  return world == 1 and net or torch.nn.parallel.DistributedDataParallel(net)
end

---The positions of this rank's part of n items, which are computed once: the first and the last.
---@param n integer
function support.part(n)
  return n * rank // world + 1, n * (rank + 1) // world
end

---The sum of every rank's tensor, in place, on all ranks.
---@param t torch.Tensor
function support.sum(t)
  if world > 1 then torch.distributed.all_reduce(t) end
  return t
end

---Before an evaluation: every rank gets rank 0's buffers, which each has moved by batches of its own.
---@param net nn.Module
function support.same_buffers(net)
  if world == 1 then return end
  for _, b in ipairs(net:buffers()) do torch.distributed.broadcast(b, 0) end
end

---Before this process ends with a status other than 0: `tycho run` then ends the others, of which one may still write.
function support.wait_for_all()
  if world > 1 then pcall(torch.distributed.barrier) end
end

---What each rank has, as a list in their order.
function support.of_ranks(value)
  if world == 1 then return {value} end
  local all = {}
  torch.distributed.all_gather_object(all, value)
  return all
end
