-- The loop over a loader with workers: it deals out the batches' positions in turn, a few ahead for each
-- worker, and gives the batches in order. What the workers do stands in worker.lua.
local torch = torch
local error = torch._raise
local data = require "torch.utils.data"
local carried = require "torch.utils.carried"

-- After so many seconds without a batch a note says which worker is waited for; tests set it.
data._patience = 30

-- Where a worker is: "it is in get(417) (data.lua:22)".
local function whereabouts(pool, worker)
  local item, place = pool:where(worker)
  local text = item ~= 0 and ("it is in get(%d)"):format(item) or "it is not in get"
  return place ~= "" and ("%s (%s)"):format(text, place) or text
end

-- The worker's error, raised here as the same kind of error, with the way to it.
local function raise_from(worker, wrong, positions)
  local what = ("worker %d of the loader"):format(worker)
  if wrong.item then what = what .. (", item %s"):format(wrong.item) end
  carried.raise(wrong, what, {worker = worker, index = wrong.item, positions = positions})
end

local function new_pool(loader, seed, single)
  return torch._worker_pool(loader.num_workers, loader.persistent_workers, {
    dataset = loader.dataset, collate_fn = loader.collate_fn or nil, worker_init_fn = loader.worker_init_fn or nil,
    batch_size = loader.batch_size, drop_last = loader.drop_last, single = single, seed = seed,
    num_workers = loader.num_workers, chunks = torch._chunks, notes = carried.notes(),
    path = package.path, cpath = package.cpath,
  })
end

---The iterator of a loader with workers, and what closes it.
---@param loader table
---@param drawer function gives what draws the positions of the batches
---@param unpacked function makes several values of a batch that is a list
return function(loader, drawer, unpacked)
  local n, set = loader.num_workers, loader.dataset
  local single = not loader.batch_size and not loader.batch_sampler
  local prefetch = loader.prefetch_factor or 2
  local draw = set.get and drawer(loader)

  local pool = loader.persistent_workers and rawget(loader, "_worker_pool")
  if pool and not pool:is_over() then
    pool:clear()
    if not set.get then
      for worker = 1, n do pool:send(worker, loader._given, "again") end
    end
  else
    local seed = torch.zeros({}, {dtype = torch.int64}):random_({generator = loader.generator or nil}):item()
    pool = new_pool(loader, seed, single)
    if loader.persistent_workers then
      rawset(loader, "_worker_pool", pool)
      rawset(loader, "_given", 0)
    end
  end

  -- Batches have numbers, which go on where the last loop of the same workers ended.
  local first = (loader.persistent_workers and loader._given or 0) + 1
  local last, wanted = first - 1, first
  local owner, positions_of, ready = {}, {}, {}
  local active, load, turn = {}, {}, 0
  for worker = 1, n do active[worker], load[worker] = true, 0 end
  local over = false

  -- In turn, so that the order of the batches is known; or to who has least to do.
  local function next_worker()
    local best
    for step = 1, n do
      local worker = (turn + step - 1) % n + 1
      if active[worker] and (not best or load[worker] < load[best]) then
        best = worker
        if loader.in_order then break end
      end
    end
    turn = best or turn
    return best
  end

  local function ask()
    local positions = single
    if set.get then
      positions = draw()
      if positions == nil then return end
    end
    local worker = next_worker()
    if not worker then return end
    last = last + 1
    if loader.persistent_workers then rawset(loader, "_given", last) end
    owner[last], load[worker] = worker, load[worker] + 1
    positions_of[last] = set.get and positions or nil
    pool:send(worker, last, positions)
  end
  for _ = 1, prefetch * n do ask() end

  local function wait()
    local patience = data._patience
    local limit = loader.timeout > 0 and loader.timeout or patience
    local number, worker, result = pool:receive(limit)
    while not number do
      worker = owner[wanted]
      if loader.timeout > 0 then
        local text = ("DataLoader: worker %d has produced nothing for %s s (timeout); %s"):format(worker, limit, whereabouts(pool, worker))
        pool:stop()
        error(text, 3, "value")
      end
      if limit == patience then
        io.stderr:write(("note: DataLoader: worker %d has produced nothing for %s s; %s\n"):format(worker, patience, whereabouts(pool, worker)))
        limit = 1e9
      end
      number, worker, result = pool:receive(limit)
    end
    return number, worker, result
  end

  -- Any batch that is there, when the order does not matter.
  local function choose()
    if not loader.in_order then
      local any = next(ready)
      if any then return any end
    end
    return ready[wanted] and wanted
  end

  local function finish()
    over = true
    if not loader.persistent_workers then pool:stop() end
  end

  return function()
    if over then return nil end
    if loader.persistent_workers and loader._given ~= last then
      over = true
      error("DataLoader: another loop over this loader has begun, and its workers are the same (persistent_workers)", 2, "value")
    end
    while true do
      -- Tasks of a worker whose items have ended are never answered.
      while wanted <= last and (not owner[wanted] or (not ready[wanted] and not active[owner[wanted]])) do wanted = wanted + 1 end
      local number = choose()
      if not number and wanted > last then
        finish()
        return nil
      end
      if number then
        local result, worker, positions = ready[number], owner[number], positions_of[number]
        ready[number], owner[number], positions_of[number] = nil, nil, nil
        ask()
        if result[1] == 2 then raise_from(worker, result[2], positions) end
        if set.get and not single then
          data._short_batch = loader.batch_size and #positions < loader.batch_size and {#positions, #set} or nil  -- for messages
        end
        return unpacked(result[2])
      end
      local arrived, worker, result = wait()
      if arrived >= first then
        load[worker] = load[worker] - 1
        if result[1] == 3 then
          active[worker] = false
          ask()
        else
          ready[arrived] = result
        end
      end
    end
  end, nil, nil, pool
end
