-- The group `data`: sizes of batches, what samplers give for a seed, collating, chunks. Positions in the
-- vectors count from 0.
local reader = require "reader"
local row = require("data").row
local tensor = require("data").tensor
local compare = require "compare"
local torch = torch
local group = {}

-- A dataset of n items whose item i is the position in the vectors, i - 1.
local function numbers(n)
  local Set = torch.utils.data.class("Numbers")
  Set.get = function(_, i) return i - 1 end
  Set.__len = function() return n end
  return Set()
end

local function drawn(sampler)
  local out = {}
  for i in sampler() do out[#out + 1] = i - 1 end
  return out
end

local function same(got, want, what)
  if #got ~= #want then return ("%s: %d values, expected %d"):format(what, #got, #want) end
  for i, v in ipairs(want) do
    if type(v) == "table" then
      local why = same(got[i], v, what .. " " .. i)
      if why then return why end
    elseif got[i] ~= v then
      return ("%s: value %d is %s, expected %s"):format(what, i, tostring(got[i]), tostring(v))
    end
  end
end

local function batches(r)
  local data = torch.utils.data
  local loader = data.DataLoader(numbers(r.n), {batch_size = r.batch_size, drop_last = r.drop_last})
  local sizes, first, last = {}, {}, {}
  for x in loader() do
    sizes[#sizes + 1] = x:numel()
    last = x:tolist()
    if #sizes == 1 then first = last end
  end
  if #loader ~= #r.batches then return ("length %d, expected %d"):format(#loader, #r.batches) end
  local function start(list) return table.move(list, 1, math.min(4, #list), 1, {}) end
  return same(sizes, r.batches, "sizes") or same(start(first), r.first, "first") or same(start(last), r.last, "last")
end

local function distributed(r)
  for rank, want in ipairs(r.zero_based_indices) do
    local s = torch.utils.data.DistributedSampler(numbers(r.n),
      {num_replicas = r.world, rank = rank - 1, shuffle = r.shuffle, seed = r.seed, drop_last = r.drop_last})
    s:set_epoch(r.epoch)
    local why = same(drawn(s), want, "rank " .. rank - 1)
    if why then return why end
    if #s ~= #want then return ("length %d"):format(#s) end
  end
end

local function chunks(r)
  local sizes = {}
  for i, c in ipairs {torch.arange(r.n):chunk(r.parts)} do sizes[i] = c:numel() end
  return same(sizes, r.sizes, "sizes")
end

local function collate(r)
  local samples = r["in"]
  if r.out then
    local list = {}
    for i, s in ipairs(samples) do list[i] = {torch.tensor(s[1], {dtype = r.out[1].dtype}), s[2]} end
    local got = torch.utils.data.default_collate(list)
    for i, block in ipairs(r.out) do
      local why = compare.tensors(got[i], tensor(block))
      if why then return why end
    end
    return nil
  end
  local got = torch.utils.data.default_collate(table.move(samples, 1, #samples, 1, {}))
  if got.dtype.name ~= r.dtype then return ("dtype %s, expected %s"):format(got.dtype.name, r.dtype) end
  return same(got:tolist(), samples, "values")
end

-- What each kind of row does; the part of its id before the first colon.
local shuffles = {}
local function seeded(r) return torch.Generator():manual_seed(r.seed) end
local function split(r, lengths)
  local out = {}
  for i, part in ipairs {torch.utils.data.random_split(numbers(r.n), lengths, seeded(r))} do
    out[i] = {}
    for k = 1, #part do out[i][k] = part:get(k) end
  end
  return out
end
shuffles["RandomSampler-generator"] = function(r)
  return {drawn(torch.utils.data.RandomSampler(numbers(r.n), {generator = seeded(r)}))}
end
shuffles.random_split = function(r) return split(r, {r.n - 2, 2}) end
shuffles["random_split-fractions"] = function(r) return split(r, {.5, .3, .2}) end
shuffles.RandomSampler = function(r)
  torch.manual_seed(r.seed)
  local s = torch.utils.data.RandomSampler(numbers(r.n))
  return {drawn(s), drawn(s)}
end
shuffles.DataLoader = function(r)
  torch.manual_seed(r.seed)
  local loader, out = torch.utils.data.DataLoader(numbers(r.n), {batch_size = 3, shuffle = true}), {}
  for epoch = 1, 2 do
    out[epoch] = {}
    for x in loader() do out[epoch][#out[epoch] + 1] = x:tolist() end
  end
  return out
end
shuffles.WeightedRandomSampler = function(r)
  torch.manual_seed(r.seed)
  return {drawn(torch.utils.data.WeightedRandomSampler({.1, .9, .4, .7, 3.0}, 8))}
end
shuffles.SubsetRandomSampler = function(r)
  torch.manual_seed(r.seed)
  return {drawn(torch.utils.data.SubsetRandomSampler({3, 5, 7, 9}))}
end

local function shuffle(r)
  local f = shuffles[r.id:match("^([^:]+)")] or error("no rule for " .. r.id, 0)
  local got = f(r)
  local why = same(got, r.zero_based_indices or r.zero_based_batches, "order")
  if why then return why end
  if r.then_rand_1 then
    local after = torch.rand(1):item()
    if after ~= r.then_rand_1 then return ("then rand(1) is %.9g, expected %.9g"):format(after, r.then_rand_1) end
  end
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/data.json")
  for _, r in ipairs(rows.batches) do row(report, r.id, batches, r) end
  for _, r in ipairs(rows.distributed_sampler) do row(report, r.id, distributed, r) end
  for _, r in ipairs(rows.scatter_chunks) do row(report, r.id, chunks, r) end
  for _, r in ipairs(rows.collate) do row(report, r.id, collate, r) end
  for _, r in ipairs(rows.shuffles) do row(report, r.id, shuffle, r) end
end

return group
