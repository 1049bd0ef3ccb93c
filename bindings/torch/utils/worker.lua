-- What a worker of a DataLoader does: it gets the dataset and the functions once, then for each number
-- the positions of a batch, and sends the batch back under that number. It runs in a thread and a Lua
-- state of its own, started by bindings/worker.cpp.
local torch = torch
local data = require "torch.utils.data"
local make_fetch = require "torch.utils.fetch"
local carried = require "torch.utils.carried"

local item_now  -- native.at

-- An error as a table that can cross, with the way to it and the item that was being loaded.
local function described(err)
  local item = item_now()
  local out = carried.describe(err, "worker")
  out.item = item ~= 0 and item or nil
  return out
end

function os.exit()
  torch._raise("os.exit: a worker of a loader cannot end the program; raise an error, which arrives in the loop", 2, "value")
end

local batch_is, error_is, end_is = 1, 2, 3

return function(native, id)
  local info = {}
  item_now = native.at
  function data.get_worker_info() return info end
  local number, setup = native.next()
  if not number then return end
  if setup.entry then return require(setup.entry)(native, setup) end

  info.id, info.num_workers, info.seed, info.dataset = id, setup.num_workers, setup.seed + id - 1, setup.dataset
  package.path, package.cpath = setup.path, setup.cpath
  for name, text in next, setup.chunks do torch._chunks[name] = text end
  if id > 1 then torch.notes("all", "off") end  -- the first worker says notes for all
  for code, switch in next, setup.notes do torch.notes(code, switch) end
  torch.manual_seed(info.seed)
  math.randomseed(info.seed)

  local set, single, size = setup.dataset, setup.single, setup.batch_size
  local fetch = make_fetch(set, setup.collate_fn, single, native.at)
  local draw, ended = nil, false

  -- The next items of a dataset that is read in order; nothing at its end.
  local function take()
    if ended then return nil end
    draw = draw or set:iter()
    if single then
      local item = draw()
      ended = item == nil
      return item
    end
    local items = {}
    while #items < size do
      local item = draw()
      if item == nil then
        ended = true
        break
      end
      items[#items + 1] = item
    end
    if #items == 0 or (setup.drop_last and #items < size) then return nil end
    return items
  end

  local function work(positions)
    if not set.get then
      positions = take()
      if positions == nil then return end_is end
    end
    return batch_is, fetch(positions)
  end

  local begun, broken = true, nil
  if setup.worker_init_fn then begun, broken = xpcall(setup.worker_init_fn, described, id) end
  while true do
    local positions
    number, positions = native.next()
    if not number then return end
    if positions == "again" then
      draw, ended = nil, false
    else
      native.at(0)
      local ok, what, batch = true, nil, nil
      if begun then
        ok, what, batch = xpcall(work, described, positions)
        if ok then ok, what = xpcall(native.send, described, number, {what, batch}) end
      else
        ok, what = false, broken
      end
      if not ok then
        if not pcall(native.send, number, {error_is, what}) then
          what.cause = nil
          native.send(number, {error_is, what})
        end
      end
    end
  end
end
