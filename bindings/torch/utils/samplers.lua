-- Samplers: which items a loader takes, in which order. A sampler is called for its iterator and has
-- a length; positions count from 1. The random ones draw from the generators as PyTorch's do.
local torch = torch
local error = torch._raise

return function(data)
  local class = data._class

  -- Named options after the first argument(s); a generator alone may stand there too.
  local function options_of(name, options, known)
    if options == nil then return {} end
    if type(options) == "userdata" then return {generator = options} end
    if type(options) ~= "table" then error(("%s: wants its options in a table, not a %s"):format(name, type(options)), 4) end
    for k in pairs(options) do
      if not known[k] then
        local list = {}
        for n in pairs(known) do list[#list + 1] = n end
        table.sort(list)
        error(('%s: no argument "%s" (it has: %s)'):format(name, tostring(k), table.concat(list, ", ")), 4)
      end
    end
    return options
  end

  local function count(name, key, v)
    if math.type(v) ~= "integer" or v < 1 then
      error(("%s: %s must be a positive integer, not %s"):format(name, key, tostring(v)), 4, "value")
    end
  end

  local function each(list)
    local i = 0
    return function()
      i = i + 1
      return list[i]
    end
  end

  ---The base of samplers. Define `Mine:iter()`, which returns an iterator function, and `Mine:__len()`.
  data.Sampler = class("Sampler")
  data.Sampler.__call = data._iterated("a sampler", "for i in sampler() do", function(self) return self:iter() end)

  -- A list of positions, or of batches of them, in the place of a sampler.
  data._Listed = class("list", data.Sampler)
  function data._Listed:init(list) self.list = list end
  function data._Listed:iter() return each(self.list) end
  data._Listed.__len = function(self) return #self.list end

  ---The positions 1 to n in order.
  data.SequentialSampler = class("SequentialSampler", data.Sampler)
  function data.SequentialSampler:init(dataset) self.dataset = dataset end
  function data.SequentialSampler:iter()
    local i, n = 0, #self.dataset
    return function()
      i = i + 1
      if i <= n then return i end
    end
  end
  data.SequentialSampler.__len = function(self) return #self.dataset end

  -- One random integer of the default generator: the seed of a generator of one's own.
  local function drawn_seed() return torch.zeros({}, {dtype = torch.int64}):random_():item() end

  ---The positions 1 to n in random order, or num_samples of them.
  data.RandomSampler = class("RandomSampler", data.Sampler)
  ---@param dataset table
  ---@param options? {replacement: boolean, num_samples: integer, generator: torch.Generator}
  function data.RandomSampler:init(dataset, options)
    options = options_of("RandomSampler", options, {replacement = true, num_samples = true, generator = true})
    self.dataset, self.replacement, self.generator = dataset, options.replacement or false, options.generator
    self.num_samples = options.num_samples
    if self.num_samples ~= nil then count("RandomSampler", "num_samples", self.num_samples) end
  end
  function data.RandomSampler:iter()
    local n, wanted = #self.dataset, self.num_samples or #self.dataset
    local generator, part, at, given = self.generator, nil, 0, 0
    return function()
      if given == wanted then return nil end
      if not generator then generator = torch.Generator():manual_seed(drawn_seed()) end
      if not part or at == #part then
        if self.replacement then
          part = torch.randint(1, n + 1, {math.min(32, wanted - given)}, {generator = generator}):tolist()
        else
          part = torch.randperm(n, {generator = generator}):tolist()
        end
        at = 0
      end
      at, given = at + 1, given + 1
      return part[at]
    end
  end
  data.RandomSampler.__len = function(self) return self.num_samples or #self.dataset end

  ---The given positions in random order.
  data.SubsetRandomSampler = class("SubsetRandomSampler", data.Sampler)
  ---@param indices integer[]
  ---@param generator? torch.Generator
  function data.SubsetRandomSampler:init(indices, generator)
    self.generator = options_of("SubsetRandomSampler", generator, {generator = true}).generator
    self.indices = torch.is_tensor(indices) and indices:tolist() or indices
    if type(self.indices) ~= "table" then error("SubsetRandomSampler: wants a list of positions", 3) end
  end
  function data.SubsetRandomSampler:iter()
    local order = torch.randperm(#self.indices, {generator = self.generator}):tolist()
    for i, k in ipairs(order) do order[i] = self.indices[k] end
    return each(order)
  end
  data.SubsetRandomSampler.__len = function(self) return #self.indices end

  ---Positions drawn with probabilities in proportion to weights.
  data.WeightedRandomSampler = class("WeightedRandomSampler", data.Sampler)
  ---@param weights number[]
  ---@param num_samples integer or a table with it and the rest
  ---@param replacement? boolean true unless given
  ---@param generator? torch.Generator
  function data.WeightedRandomSampler:init(weights, num_samples, replacement, generator)
    if type(num_samples) == "table" then
      local o = options_of("WeightedRandomSampler", num_samples, {num_samples = true, replacement = true, generator = true})
      num_samples, replacement, generator = o.num_samples, o.replacement, o.generator
    elseif type(replacement) == "table" then
      local o = options_of("WeightedRandomSampler", replacement, {replacement = true, generator = true})
      replacement, generator = o.replacement, o.generator
    end
    count("WeightedRandomSampler", "num_samples", num_samples)
    if not torch.is_tensor(weights) then weights = torch.tensor(weights, {dtype = torch.float64}) end
    self.weights, self.num_samples = weights:double(), num_samples
    self.replacement, self.generator = replacement ~= false, generator
  end
  function data.WeightedRandomSampler:iter()
    return each(torch.multinomial(self.weights, self.num_samples, self.replacement, {generator = self.generator}):tolist())
  end
  data.WeightedRandomSampler.__len = function(self) return self.num_samples end

  ---Batches of another sampler's positions, as tables: what DataLoader takes as batch_sampler.
  data.BatchSampler = class("BatchSampler", data.Sampler)
  ---@param sampler table
  ---@param batch_size integer
  ---@param drop_last? boolean
  function data.BatchSampler:init(sampler, batch_size, drop_last)
    if type(batch_size) == "table" then batch_size, drop_last = batch_size.batch_size, batch_size.drop_last end
    count("BatchSampler", "batch_size", batch_size)
    self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last or false
  end
  function data.BatchSampler:iter()
    local draw = self.sampler()
    return function()
      local batch, n = {}, 0
      while n < self.batch_size do
        local i = draw()
        if i == nil then break end
        n = n + 1
        batch[n] = i
      end
      if n == 0 or (n < self.batch_size and self.drop_last) then return nil end
      return batch
    end
  end
  data.BatchSampler.__len = function(self)
    local n = #self.sampler
    return self.drop_last and n // self.batch_size or (n + self.batch_size - 1) // self.batch_size
  end

  ---One process's share of a dataset: of every num_replicas positions one, the same number for each; the first positions
  ---come again where they do not divide (or, with drop_last, the last ones are left out). set_epoch(n) shuffles anew.
  ---With shares = {2, 1} rank 0 gets two of every three; give its loader twice the batch size, and the same shares to
  ---DistributedDataParallel.
  data.DistributedSampler = class("DistributedSampler", data.Sampler)
  ---@param dataset table
  ---@param options? {num_replicas: integer, rank: integer, shuffle: boolean, seed: integer, drop_last: boolean, shares: integer[]} num_replicas and rank: the process group's unless given
  function data.DistributedSampler:init(dataset, options)
    options = options_of("DistributedSampler", options,
      {num_replicas = true, rank = true, shuffle = true, seed = true, drop_last = true, shares = true})
    local world, rank = options.num_replicas, options.rank
    if world == nil or rank == nil then
      local dist = torch.distributed
      if not (dist and dist.is_initialized and dist.is_initialized()) then
        error("DistributedSampler: wants num_replicas and rank where no process group is there", 3)
      end
      world, rank = world or dist.get_world_size(), rank or dist.get_rank()
    end
    count("DistributedSampler", "num_replicas", world)
    if math.type(rank) ~= "integer" or rank < 0 or rank >= world then
      error(("DistributedSampler: rank must be 0 to %d, not %s"):format(world - 1, tostring(rank)), 3, "value")
    end
    local shares, before, all = options.shares, 0, 0
    if shares ~= nil and (type(shares) ~= "table" or #shares ~= world) then
      error(("DistributedSampler: shares must be a list of %d whole numbers, one for each rank"):format(world), 3, "value")
    end
    for r = 1, world do
      local share = shares and shares[r] or 1
      count("DistributedSampler", "a share", share)
      before, all = r <= rank and before + share or before, all + share
    end
    self.dataset, self.num_replicas, self.rank, self.epoch = dataset, world, rank, 0
    self.shuffle, self.seed, self.drop_last = options.shuffle ~= false, options.seed or 0, options.drop_last or false
    self.share, self.before, self.round = shares and shares[rank + 1] or 1, before, all
    local rounds = self.drop_last and #dataset // all or (#dataset + all - 1) // all
    self.num_samples, self.total_size = rounds * self.share, rounds * all
  end
  function data.DistributedSampler:iter()
    local n, order = #self.dataset, nil
    if self.shuffle then
      local generator = torch.Generator():manual_seed(self.seed + self.epoch)
      order = torch.randperm(n, {generator = generator}):tolist()
    end
    local k = -1
    return function()
      k = k + 1
      if k >= self.num_samples then return nil end
      local at = (k // self.share * self.round + self.before + k % self.share) % n + 1
      return order and order[at] or at
    end
  end
  data.DistributedSampler.__len = function(self) return self.num_samples end
  ---Another order for this epoch; the same on every process.
  ---@param epoch integer
  function data.DistributedSampler:set_epoch(epoch) self.epoch = epoch end

  ---@type table
  data.distributed = torch._strict({DistributedSampler = data.DistributedSampler}, "torch.utils.data.distributed")
end
