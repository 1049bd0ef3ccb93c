-- The options of a DataLoader: their names, what they are unless given, and what they may be.
local torch = torch
local error = torch._raise

local names = {batch_size = 1, shuffle = false, num_workers = 0, pin_memory = false, drop_last = false,
  sampler = false, batch_sampler = false, collate_fn = false, generator = false, timeout = 0, worker_init_fn = false,
  prefetch_factor = false, persistent_workers = false, multiprocessing_context = false, in_order = true,
  pin_memory_device = ""}

local function check_workers(self)
  local function wrong(name, rule)
    error(("DataLoader: %s must be %s, not %s"):format(name, rule, tostring(self[name])), 4, "value")
  end
  for _, name in ipairs {"persistent_workers", "in_order", "drop_last", "shuffle", "pin_memory"} do
    if type(self[name]) ~= "boolean" then wrong(name, "true or false") end
  end
  local n = math.tointeger(self.num_workers)
  if not n or n < 0 or n > 512 then wrong("num_workers", "an integer from 0 (no threads) to 512") end
  self.num_workers = n
  if type(self.timeout) ~= "number" or not (self.timeout >= 0) then wrong("timeout", "a number of seconds, 0 for no limit") end
  if self.prefetch_factor == torch.none then self.prefetch_factor = false end
  if self.prefetch_factor and (math.type(self.prefetch_factor) ~= "integer" or self.prefetch_factor < 1) then
    wrong("prefetch_factor", "a positive integer")
  end
  for _, name in ipairs {"worker_init_fn", "collate_fn"} do
    local f = self[name]
    if f == torch.none then self[name] = false
    elseif f and type(f) ~= "function" and not (type(f) == "table" and getmetatable(f) and getmetatable(f).__call) then
      wrong(name, "a function")
    end
  end
  if self.multiprocessing_context and self.multiprocessing_context ~= torch.none and type(self.multiprocessing_context) ~= "string" then
    wrong("multiprocessing_context", "a text (it changes nothing here: workers are threads)")
  end
  if n == 0 then
    for _, name in ipairs {"prefetch_factor", "persistent_workers"} do
      if self[name] then error(("DataLoader: %s is for workers: give num_workers=2, or leave it out"):format(name), 4, "value") end
    end
    if self.timeout > 0 then error("DataLoader: timeout is for workers: give num_workers=2, or leave it out", 4, "value") end
  elseif require("torch.utils.data").get_worker_info() then
    error("DataLoader: this is a worker of a loader already: a loader inside it has num_workers=0", 4, "value")
  end
end

-- PyTorch's order of what may be given by position; the last may be a table of named options.
local order = {"batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
  "timeout", "worker_init_fn", "multiprocessing_context", "generator"}
local function by_position(...)
  local given, out = table.pack(...), {}
  local last = given[given.n]
  if type(last) == "table" and getmetatable(last) == nil and type(next(last)) ~= "number" then
    for k, v in pairs(last) do out[k] = v end
    given.n = given.n - 1
  end
  if given.n > #order then error(("DataLoader: takes at most %d options by position, not %d"):format(#order, given.n), 4) end
  for i = 1, given.n do
    if given[i] ~= nil then
      if out[order[i]] ~= nil then error(('DataLoader: argument "%s" is given twice'):format(order[i]), 4) end
      out[order[i]] = given[i]
    end
  end
  return out
end

---Writes the options into the loader; raises for those that are unknown or wrong.
---@param self table
---@param options? table
---@param ... any options by position, where the first is no table
return function(self, options, ...)
  if options ~= nil and type(options) ~= "table" or select("#", ...) > 0 then options = by_position(options, ...) end
  for k, v in pairs(names) do self[k] = v end
  for k, v in pairs(options or {}) do
    if names[k] == nil then
      local list = {}
      for n in pairs(names) do list[#list + 1] = n end
      table.sort(list)
      error(('DataLoader: no argument "%s" (it has: %s)'):format(tostring(k), table.concat(list, ", ")), 3)
    end
    self[k] = v
  end
  for _, name in ipairs {"sampler", "batch_sampler"} do
    local s = self[name]
    if s == torch.none then s = false end
    if torch.is_tensor(s) then s = s:tolist() end
    if type(s) == "table" and getmetatable(s) == nil then s = require("torch.utils.data")._Listed(s) end
    if s and type(s) ~= "function" and not (type(s) == "table" and getmetatable(s).__call) then
      error(("DataLoader: %s must be a sampler, or a list of %s, not %s"):format(name, name == "sampler" and "positions" or "batches",
        tostring(s)), 3, "value")
    end
    self[name] = s
  end
  if self.batch_size == torch.none then self.batch_size = false end
  if self.batch_size and (math.type(self.batch_size) ~= "integer" or self.batch_size < 1) then
    error(("DataLoader: batch_size must be a positive integer, not %s"):format(tostring(self.batch_size)), 3, "value")
  end
  check_workers(self)
end
