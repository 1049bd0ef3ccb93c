-- The loops of a training that can be stopped at any moment and goes on as if it had not been: the last part of what
-- the scripts beside this file share. A script writes
--   local run = support.training(option, {"epoch", "train_loss", "test_accuracy"})
--   run:keep {net = net, opt = opt, schedule = schedule}
--   run:train(function()
--     for epoch in run:epochs(option.epochs) do
--       for images, labels in run:batches(loader) do
--         ...                                          -- a step, which Ctrl-C does not cut in two
--         run:add(loss:item(), #images)
--       end
--       run:log(run:mean(), evaluate())                -- the epoch ends: a row of metrics, and a checkpoint
--     end
--   end)
-- A checkpoint also has the random numbers' state and how many batches of the epoch are done; to go on within an epoch
-- its batches are drawn again up to there, so that shuffling and random changes of images repeat.
--
-- On several ranks (ranks.lua) each has random numbers of its own, and the checkpoint those of all. There Ctrl-C is held
-- all the time: whether one has come anywhere travels with the gradients, so that all ranks stop after the same step.
local support = ...
local say = support.say

local rank, world = support.rank, support.world

local Run = {}
Run.__index = Run

-- The random numbers' state, also of the device where that has its own.
local function random_state(device)
  return {cpu = torch.get_rng_state(), device = device:find("cuda") and torch.cuda.get_rng_state(device) or nil}
end
local function set_random_state(state, device)
  torch.set_rng_state(state.cpu)
  if state.device and device:find("cuda") then torch.cuda.set_rng_state(state.device, device) end
end

---A training, new or (with --load) where it was stopped. Make it before the network, and call keep after.
---@param option table as support.options gave it
---@param columns string[] names of the metrics; the first is counted here: epoch, step or round
function support.training(option, columns)
  local saved = support.saved
  local run = setmetatable({option = option, columns = columns, saved = saved, parts = {}, epoch = 0, step = 0, batch = 0,
    sum = 0, count = 0, seen = 0}, Run)
  if saved then
    local at = saved.progress
    run.epoch, run.step, run.batch, run.sum, run.count = at.epoch, at.step, at.batch, at.sum, at.count
    local own = saved.ranks and #saved.ranks == world and saved.ranks[rank + 1] or rank == 0 and saved
    if own then
      run.random, run.epoch_random, run.sum, run.count = own.random, own.epoch_random, own.sum or run.sum, own.count or run.count
    else  -- of a training with fewer ranks
      torch.manual_seed(option.seed + rank + at.step)
      run.random, run.sum, run.count = random_state(option.device), 0, 0
      run.epoch_random = run.random
    end
    set_random_state(run.random, option.device)
  else
    run.random = random_state(option.device)
  end
  run.metrics = support.metrics(option.metrics, columns, saved and saved.history)
  return run
end

---What the checkpoint keeps, by name: things with state_dict and load_state_dict, and plain values. Where a saved
---training goes on, they take over their saved state.
---@param parts table
---@param stage? integer for trainings that make several networks: which this is
function Run:keep(parts, stage)
  local saved = self.saved
  if saved and saved.stage == stage then
    support.attempt(function()
      for name, part in pairs(parts) do
        if type(part) == "table" and part.load_state_dict then part:load_state_dict(saved[name]) end
      end
    end)
    self.saved = nil
  else
    if rank > 0 then torch.manual_seed(self.option.seed + rank) end
    self.random = random_state(self.option.device)
  end
  -- Making the network drew random numbers.
  set_random_state(self.random, self.option.device)
  self.parts, self.stage = parts, stage
end

---The network for training forwards: on several ranks, the one whose gradients are averaged. Give `keep` the network.
---@param net nn.Module
function Run:distribute(net)
  self.model = support.distribute(net)
  return self.model
end

---Writes the checkpoint: all ranks call it, rank 0 writes.
function Run:save()
  local own = {random = self.random, epoch_random = self.epoch_random, sum = self.sum, count = self.count}
  local ranks = world > 1 and support.of_ranks(own) or nil
  if rank > 0 then return end
  local file = {script = support.script, options = support.given, stage = self.stage, random = self.random, ranks = ranks,
    epoch_random = self.epoch_random, history = self.metrics.rows,
    progress = {epoch = self.epoch, step = self.step, batch = self.batch, sum = self.sum, count = self.count}}
  for name, part in pairs(self.parts) do
    file[name] = type(part) == "table" and part.state_dict and part:state_dict() or part
  end
  torch.save(file, self.option.save)
end

-- While the body of a loop runs, a first Ctrl-C waits for its end.
local function hold(self)
  self.inside = true
  torch._hold_interrupt(true)
end
local function release(self)
  self.inside = false
  if world == 1 then torch._hold_interrupt(false) end
end
-- Between two steps, on several ranks: all stop here if Ctrl-C had come to one of them.
local function stop_together(self)
  if world == 1 or not self.model:interrupted() then return end
  torch._hold_interrupt("stop")
end

---Counts epochs to `last`, from the one that is not done.
---@param last integer
---@param all? integer how many there are with those of later stages, to show progress
function Run:epochs(last, all)
  self.last = all or last
  return function() return self.epoch < last and self.epoch + 1 or nil end
end

---Counts rounds of `every` steps until there are `steps`: for trainings without epochs.
function Run:rounds(steps, every)
  self.steps, self.every = steps, every
  return function() return self.step < steps and self.epoch + 1 or nil end
end

---The batches of an epoch: those of a loader, or what a function gives, as many as a round has steps.
---@param source table|function
function Run:batches(source)
  local device, endless = self.option.device, type(source) == "function"
  local last = endless and self.batch + math.min(self.every - self.batch, self.steps - self.step) or math.huge
  if self.batch == 0 then self.epoch_random = self.random else set_random_state(self.epoch_random, device) end
  self.began = self.began or torch.perf_counter()
  local draw, _, _, workers = source, nil, nil, nil
  if not endless then
    if source.sampler and source.sampler.set_epoch then source.sampler:set_epoch(self.epoch) end
    draw, _, _, workers = source()
  end
  for _ = 1, self.batch do draw() end
  if self.batch > 0 then set_random_state(self.random, device) end
  self.batches_of_epoch = not endless and #source
  -- What ends the loop early, such as an error, also ends the hold and the loader's workers.
  local closer = setmetatable({}, {__close = function(_, why)
    local _ <close> = workers
    self.cut = why ~= nil and self.inside
    if self.inside then release(self) end
  end})
  local function next_batch()
    if self.inside then
      self.batch, self.step, self.random = self.batch + 1, self.step + 1, random_state(device)
      release(self)
      stop_together(self)
    end
    if self.batch >= last then return nil end
    local values = table.pack(draw())
    if values[1] == nil then return nil end
    hold(self)
    return table.unpack(values, 1, values.n)
  end
  return next_batch, nil, nil, closer
end

---Counts a step's loss into the epoch's mean, and shows progress.
---@param loss number
---@param samples? integer how many it is the mean of
---@param unit? string their name, for "900 images/s"
function Run:add(loss, samples, unit)
  samples = samples or 1
  self.sum, self.count, self.seen = self.sum + loss * samples, self.count + samples, self.seen + samples
  local rate = unit and ("  %d %s/s"):format(self:rate(), unit) or ""
  local mean = self.sum / math.max(1, self.count)
  if self.steps then
    support.progress(self.step + 1, self.steps, "step %d/%d  loss %.4f%s", self.step + 1, self.steps, mean, rate)
  else
    support.progress(self.epoch * self.batches_of_epoch + self.batch + 1, self.last * self.batches_of_epoch, "%s %d/%d  loss %.4f%s",
      self.columns[1], self.epoch + 1, self.last, mean, rate)
  end
end

---The mean loss since the epoch or round began, over all ranks: all of them ask for it.
function Run:mean()
  local sum, count = table.unpack(support.sum(torch.tensor({self.sum, self.count}, {dtype = "float64"})):tolist())
  return sum / math.max(1, count)
end

---How many samples were seen in a second by all ranks, since this run of the script began to train.
function Run:rate() return world * self.seen / (torch.perf_counter() - self.began) // 1 end

---The epoch or round is done: adds a row of metrics (its number comes first by itself) and writes the checkpoint.
function Run:log(...)
  hold(self)
  self.epoch, self.batch, self.sum, self.count = self.epoch + 1, 0, 0, 0
  self.random = random_state(self.option.device)
  self.metrics.add(self.steps and self.step or self.epoch, ...)
  self.inside = false  -- from here on a second Ctrl-C does no harm
  local ok, why = pcall(self.save, self)
  if ok then
    self.saved_at = self.steps and self.step or self.epoch
  elseif why.kind ~= "interrupt" then  -- a disk that is full now may have room when the training ends
    say("the checkpoint was not written: %s", support.reason(why))
  end
  release(self)
  if not ok and why.kind == "interrupt" then error(why, 0) end
end

---Runs f; Ctrl-C ends it after the step, what was reached is saved, and the script ends (with -i it goes on to the prompt).
function Run:train(f)
  local steps, epochs, path, began = self.step, self.epoch, self.option.save, torch.perf_counter()
  local finished = torch.until_interrupt(function()
    if world > 1 then torch._hold_interrupt(true) end
    f()
    if world > 1 then torch._hold_interrupt(false) end
  end)
  support.progress_ends()
  if self.inside or self.cut then  -- by a second Ctrl-C
    say("stopped at once, in the middle of a step; %s", self.saved_at and
      ("saved up to %s %d; go on with --load %s"):format(self.columns[1], self.saved_at, path) or "nothing is saved")
    if not support.interactive then os.exit(130, true) end
    return
  end
  if finished and self.step == steps and self.epoch == epochs then return end
  local unit = self.columns[1]
  say("trained to %s in %s", self.steps and "step " .. self.step or self.batch == 0 and unit .. " " .. self.epoch or
    ("batch %d of %s %d"):format(self.batch, unit, self.epoch + 1), support.clock(torch.perf_counter() - began))
  torch.uninterrupted(support.attempt, self.save, self)
  if finished then return say("saved to %s", path) end
  say("stopped; saved to %s; go on with --load %s", path, path)
  support.wait_for_all()
  if not support.interactive then os.exit(130, true) end
end

---Draws metrics as curves, at the end: in the terminal, and where --plot says. Each plot is a title and the columns that
---are its curves: run:plot {{"loss", "train_loss", "test_loss"}, {"accuracy", "test_accuracy"}}; by = {"fold"} draws a
---curve for each fold.
---@param plots table[]
---@param by? table
function Run:plot(plots, by) self.metrics.plot(self.option.plot, plots, by) end
