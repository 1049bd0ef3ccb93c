-- A room of its own for a lesson: while it runs, the globals are those that a fresh prompt has, and what the
-- lesson and its entries set is gone afterwards. The user's variables, results, random numbers and defaults wait
-- outside and come back as they were.
local names = require "shell.names"
local results = require "shell.results"
local undo = require "shell.undo"

local room = {}

local globals = _G
local parked  -- what waits outside; nil when no lesson runs

local function copy(t)
  local out = {}
  for k, v in next, t do out[k] = v end
  return out
end

local function put(t, wanted)
  for k in next, copy(t) do
    if wanted[k] == nil then rawset(t, k, nil) end
  end
  for k, v in next, wanted do rawset(t, k, v) end
end

-- In a lesson torch.empty holds nan, so that nobody takes what happens to lie in memory for a result.
local plain_empty
local function fill_empty(on)
  if on and not plain_empty then
    plain_empty = torch.empty
    torch.empty = function(...)
      local x = plain_empty(...)
      if x.dtype.is_floating_point then torch.no_grad(function() x:fill_(0 / 0) end) end
      return x
    end
  elseif not on and plain_empty then
    torch.empty, plain_empty = plain_empty, nil
  end
end

---The user's variables step outside; does nothing when they are there already.
---@param session table
function room.enter(session)
  if parked then return end
  parked = {
    globals = copy(globals), origins = copy(names.origins), constants = copy(names.constants), known = copy(names.known), results = results.park(),
    last_error = session.last_error, random = torch.get_rng_state(), dtype = torch.get_default_dtype(),
  }
  fill_empty(true)
  undo.clear()
  room.clear()
end

---The globals are those of a fresh prompt: a lesson begins, or begins again.
function room.clear()
  put(globals, names.fresh())
  put(names.origins, {})
  put(names.constants, {})
  local known = {}
  for name in next, names.fresh() do known[name] = true end
  put(names.known, known)
  results.park()
end

---Everything is as it was before the lesson.
---@param session table
function room.leave(session)
  if not parked then return end
  local was = parked
  parked = nil
  fill_empty(false)
  undo.clear()
  put(globals, was.globals)
  put(names.origins, was.origins)
  put(names.constants, was.constants)
  put(names.known, was.known)
  results.back(was.results)
  session.last_error = was.last_error
  torch.set_rng_state(was.random)
  torch.set_default_dtype(was.dtype)
end

return room
