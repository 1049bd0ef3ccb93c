-- torch.distributed: groups of ranks, and what they call together. Ranks count from 0. The engine's half is
-- engine/dist; here stand the names, the forms of arguments and the groups.
local torch = torch
local error = torch._raise
local native = torch._dist
local arguments = require "torch.utils.arguments"

local dist = {}

-- --- Operations ---

---How elements of several ranks become one: SUM, AVG (floats only), PRODUCT, MIN, MAX, BAND, BOR, BXOR (integers and
---booleans only). For float16 and bfloat16, numbers are added as float32 and rounded once.
dist.ReduceOp = {}
local red_ops = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"}
local RedOp = {__name = "ReduceOp", __tostring = function(op) return "ReduceOp." .. op.name end}
for code, name in ipairs(red_ops) do dist.ReduceOp[name] = setmetatable({name = name, code = code - 1}, RedOp) end
torch._strict(dist.ReduceOp, "torch.distributed.ReduceOp")
dist.reduce_op = dist.ReduceOp

-- --- Groups ---

-- What is known of each process group, by its userdata; those that are gone leave.
local groups = setmetatable({}, {__mode = "k"})
dist.GroupMember = {NON_GROUP_MEMBER = setmetatable({}, {__name = "GroupMember", __tostring = function() return "not a member" end})}
local outside = dist.GroupMember.NON_GROUP_MEMBER
local world, met_at  -- of init_process_group; the store that it was given

local function remember(pg)
  local handle, rank, ranks, backend, transport = native.about(pg)
  local places = {}
  for i, r in ipairs(ranks) do places[r] = i - 1 end
  groups[pg] = {pg = pg, handle = handle, rank = rank, ranks = ranks, places = places, backend = backend,
    transport = transport, size = #ranks}
  return groups[pg]
end

local function forget_all()
  world, met_at = nil, nil
  groups = setmetatable({}, {__mode = "k"})
end

---What is known of a group (nil: the world); nil for one that this rank is no member of.
local function info(group, who)
  if group == nil or group == dist.group then
    if not world then
      error(who .. ": there is no process group; dist.init_process_group() comes first", 3, "distributed")
    end
    return world
  end
  if group == outside then return nil end
  local g = groups[group]
  if not g then
    error(("%s: wants a process group (dist.new_group{0, 1}), not %s"):format(who,
      type(group) == "userdata" and "one that has been destroyed" or tostring(group)), 3)
  end
  return g
end

-- A rank of the world as a place in the group.
local function place(g, rank, who, what)
  local p = g.places[rank]
  if not p then
    error(("%s: %s=%s is no rank of this group (it has %s)"):format(who, what, tostring(rank), table.concat(g.ranks, ", ")), 3, "value")
  end
  return p
end

---Which rank of the group `src` or `dst` means: a rank of the world, or, as group_src, of the group.
local function root(g, o, name, who, otherwise)
  local own = o["group_" .. name]
  if own ~= nil then
    if math.type(own) ~= "integer" or own < 0 or own >= g.size then
      error(("%s: group_%s=%s is no rank of a group of %d"):format(who, name, tostring(own), g.size), 3, "value")
    end
    return own
  end
  if o[name] == nil and otherwise == nil then error(('%s: argument "%s" is missing'):format(who, name), 3) end
  return place(g, o[name] == nil and otherwise or o[name], who, name)
end

local function red(op, who)
  if op == nil then return 0 end
  if getmetatable(op) ~= RedOp then
    error(("%s: op wants dist.ReduceOp.SUM or another of its names, not %s"):format(who, tostring(op)), 3)
  end
  return op.code
end

local shared = {dist = dist, native = native, info = info, root = root, place = place, red = red, outside = outside, groups = groups}

---Meets the other ranks; all call it. Where, says `init_method`: "env://" (as `tycho run`, torchrun, mpirun and Slurm set
---the environment), "tcp://host:port", "file:///path"; nothing given, the parent's store (mp.spawn), or a world of one.
---@param backend? string "gloo": shared memory inside a machine, Gloo between machines; "shm", "mpi"; "nccl" for tensors on GPUs
---@param options? table {init_method, world_size, rank, timeout=600, store}; timeout in seconds
function dist.init_process_group(...)
  local names = {"backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id"}
  local o = arguments("init_process_group", names, {}, ...)
  if type(o.backend) == "table" and next(o.backend) == nil then o.backend = nil end  -- no options
  for _, name in ipairs {"backend", "init_method"} do
    if o[name] ~= nil and type(o[name]) ~= "string" then
      error(("init_process_group: %s is a text, not %s"):format(name, tostring(o[name])), 2)
    end
  end
  local timeout = o.timeout
  if timeout ~= nil and (type(timeout) ~= "number" or not (timeout > 0)) then
    error(("init_process_group: timeout is a number of seconds, not %s"):format(tostring(timeout)), 2, "value")
  end
  for _, name in ipairs {"world_size", "rank"} do
    if o[name] == -1 then o[name] = nil end
    if o[name] ~= nil and (math.type(o[name]) ~= "integer" or o[name] < 0) then
      error(("init_process_group: %s is an integer, not %s"):format(name, tostring(o[name])), 2, "value")
    end
  end
  world = remember(native.init(o.backend or "", o.init_method or "", o.rank or -1, o.world_size or -1, timeout or 0,
    o.store and o.store._store))
  met_at = o.store  -- it serves them
end

---Says goodbye to the other ranks: of the world and all groups, or of one group.
---@param group? userdata
function dist.destroy_process_group(group)
  if group == outside then return end
  if group == nil or (world and group == world.pg) then
    native.destroy()
    forget_all()
  else
    local g = info(group, "destroy_process_group")
    native.destroy(group)
    groups[g.pg] = nil
  end
end

---Whether init_process_group has been called.
---@return boolean
function dist.is_initialized() return world ~= nil end

---Whether torch.distributed is there: always.
---@return boolean
function dist.is_available() return true end
---Whether groups can use "gloo".
---@return boolean
function dist.is_gloo_available() return true end
---Whether groups can use "mpi".
---@return boolean
function dist.is_mpi_available() return native.has_mpi() end
---Whether groups can use "nccl": it comes with the CUDA backend.
---@return boolean
function dist.is_nccl_available() return native.has_nccl() end
---Whether a launcher that starts ranks again (tycho run, torchrun) has started this one.
---@return boolean
function dist.is_torchelastic_launched() return os.getenv "TORCHELASTIC_RUN_ID" ~= nil or os.getenv "RESTART_COUNT" ~= nil end

---This process's place in a group, from 0; -1 where it is no member.
---@param group? userdata
---@return integer
function dist.get_rank(group)
  local g = info(group, "get_rank")
  return g and g.rank or -1
end

---How many ranks a group has; -1 where this process is no member.
---@param group? userdata
---@return integer
function dist.get_world_size(group)
  local g = info(group, "get_world_size")
  return g and g.size or -1
end

---The name of a group's backend.
---@param group? userdata
---@return string
function dist.get_backend(group)
  local g = info(group, "get_backend")
  return g and g.backend or error("get_backend: this rank is no member of the group", 2, "value")
end

---The ranks of the world that a group has, in its order.
---@param group? userdata
---@return integer[]
function dist.get_process_group_ranks(group)
  local g = info(group, "get_process_group_ranks")
  return g and table.move(g.ranks, 1, g.size, 1, {}) or {}
end

---The rank of the world that has a place in a group.
---@param group userdata
---@param group_rank integer
---@return integer
function dist.get_global_rank(group, group_rank)
  local g = info(group, "get_global_rank")
  local rank = g and math.type(group_rank) == "integer" and g.ranks[group_rank + 1]
  return rank or error(("get_global_rank: the group has no rank %s"):format(tostring(group_rank)), 2, "value")
end

---The place in a group of a rank of the world.
---@param group userdata
---@param global_rank integer
---@return integer
function dist.get_group_rank(group, global_rank)
  local g = info(group, "get_group_rank")
  return place(g or {places = {}, ranks = {}}, global_rank, "get_group_rank", "rank")
end

---This process's place among the ranks of its machine, from 0.
---@param fallback_rank? integer where nothing says it
---@return integer
function dist.get_node_local_rank(fallback_rank)
  local set = math.tointeger(tonumber(os.getenv "LOCAL_RANK" or ""))
  if set then return set end
  if world then return (select(3, native.where())) end
  return fallback_rank or error("get_node_local_rank: LOCAL_RANK is not set; give a fallback_rank", 2, "value")
end

---A group of some ranks of the world. All ranks of the world call it, with the same ranks; those that are no members get
---dist.GroupMember.NON_GROUP_MEMBER.
---@param ranks? integer[] all, unless given; sorted, unless the order is said to matter
---@param options? table {timeout, backend, use_local_synchronization, group_desc, sort_ranks}
---@return userdata
function dist.new_group(...)
  local o = arguments("new_group", {"ranks", "timeout", "backend", "pg_options", "use_local_synchronization", "group_desc",
    "device_id", "sort_ranks", list = true}, {}, ...)
  local w = info(nil, "new_group")
  if o.ranks ~= nil and (type(o.ranks) ~= "table" or getmetatable(o.ranks)) then
    error(("new_group: ranks is a list of integers, not %s"):format(tostring(o.ranks)), 2)
  end
  local ranks = table.move(o.ranks or w.ranks, 1, #(o.ranks or w.ranks), 1, {})
  local seen = {}
  for _, r in ipairs(ranks) do
    if not w.places[r] then error(("new_group: %s is no rank of the world, which has %d"):format(tostring(r), w.size), 2, "value") end
    if seen[r] then error(("new_group: rank %d is there twice"):format(r), 2, "value") end
    seen[r] = true
  end
  if #ranks == 0 then error("new_group: wants at least one rank", 2, "value") end
  if o.sort_ranks ~= false then table.sort(ranks) end
  local backend = o.backend or w.backend
  -- All must mean the same group: a rank that does not is told with all others.
  local mine, all = ("%s of ranks %s"):format(backend, table.concat(ranks, ", ")), {}
  dist.all_gather_object(all, mine)
  for i, text in ipairs(all) do
    if text ~= all[1] then
      error(("new_group: ranks disagree; nothing was made\n   r%d  %s\n   r%d  %s"):format(w.ranks[1], all[1], w.ranks[i], text),
        2, "distributed")
    end
  end
  local pg = native.new_group(ranks, backend)
  return pg and remember(pg).pg or outside
end

---Groups of neighbours: ranks 0 to group_size - 1, and so on. All ranks call it.
---@param group_size? integer the ranks of a machine, unless given
---@return userdata group # of this rank
---@return userdata[] groups # all; of others NON_GROUP_MEMBER
function dist.new_subgroups(group_size)
  local w = info(nil, "new_subgroups")
  local size = group_size or select(4, native.where())
  if math.type(size) ~= "integer" or size < 1 or w.size % size ~= 0 then
    error(("new_subgroups: %s ranks do not divide a world of %d"):format(tostring(size), w.size), 2, "value")
  end
  local lists = {}
  for first = 0, w.size - 1, size do lists[#lists + 1] = table.move(w.ranks, first + 1, first + size, 1, {}) end
  return dist.new_subgroups_by_enumeration(lists)
end

---A group for each list of ranks; no rank is in two. All ranks call it.
---@param ranks_per_subgroup_list integer[][]
---@return userdata group # of this rank
---@return userdata[] groups # all; of others NON_GROUP_MEMBER
function dist.new_subgroups_by_enumeration(ranks_per_subgroup_list)
  info(nil, "new_subgroups_by_enumeration")
  local mine, all, seen = nil, {}, {}
  if type(ranks_per_subgroup_list) ~= "table" or #ranks_per_subgroup_list == 0 then
    error("new_subgroups_by_enumeration: wants a list of lists of ranks, {{0, 1}, {2, 3}}", 2)
  end
  for _, ranks in ipairs(ranks_per_subgroup_list) do
    for _, r in ipairs(type(ranks) == "table" and ranks or {}) do
      if seen[r] then error(("new_subgroups_by_enumeration: rank %s is in two groups"):format(tostring(r)), 2, "value") end
      seen[r] = true
    end
  end
  for _, ranks in ipairs(ranks_per_subgroup_list) do
    local pg = dist.new_group(ranks)
    all[#all + 1] = pg
    if pg ~= outside then mine = pg end
  end
  return mine, all
end

---Goes on without the ranks that have failed (err.ranks of the error): all that stay call it. Groups that were made before
---are gone; the world is that of those who stay, with new ranks from 0.
---@param ranks? integer[] that leave; who has died or ended is left out anyway
---@return userdata group # the new world
function dist.shrink_group(ranks)
  info(nil, "shrink_group")
  if type(ranks) == "userdata" then ranks = {} end
  local pg = native.shrink(ranks or {})
  forget_all()
  world = remember(pg)
  return pg
end

-- dist.group.WORLD is the group of all ranks.
dist.group = setmetatable({}, {
  __name = "torch.distributed.group",
  __index = function(_, name)
    if name == "WORLD" then return world and world.pg end
    if name == "NON_GROUP_MEMBER" then return outside end
  end,
})

shared.world = function() return world end
package.loaded["torch.distributed.shared"] = shared
for _, part in ipairs {"collectives", "messages", "objects"} do require("torch.distributed." .. part) end

---Whether a backend is there: "gloo", "mpi", "nccl".
---@param backend string
---@return boolean
function dist.is_backend_available(backend)
  local asks = type(backend) == "string" and rawget(dist, ("is_%s_available"):format(backend:lower()))
  return asks and asks() or false
end

-- Names of PyTorch's that are not here, and what does the same.
local absent = {
  FileStore = 'init_process_group {init_method = "file:///path"} meets by a file; stores are TCPStore, HashStore and PrefixStore',
  rpc = "functions run in other processes by torch.multiprocessing, on other machines by tycho run; tensors travel by dist.send and dist.recv",
  init_device_mesh = "groups of rows and columns are made by dist.new_group, groups of neighbours by dist.new_subgroups",
  fsdp = "parameters are whole on every rank: torch.nn.parallel.DistributedDataParallel; a net too large for one device is cut over several with :to(device)",
  tensor = "tensors are whole on every rank; dist.scatter and dist.all_gather cut and join them",
  pipeline = "stages stand on devices of one process (:to(device)), or on ranks that dist.send and dist.recv to each other",
  pipelining = "stages stand on devices of one process (:to(device)), or on ranks that dist.send and dist.recv to each other",
  checkpoint = "rank 0 saves with torch.save, and all load",
  optim = "every rank keeps what its optimiser remembers: torch.optim",
  elastic = "tycho run --max-restarts starts all ranks again; they go on from the script's checkpoint",
  all_reduce_coalesced = "torch.cat joins small tensors before one all_reduce",
}
absent.DeviceMesh, absent.device_mesh = absent.init_device_mesh, absent.init_device_mesh
absent.all_gather_coalesced = absent.all_reduce_coalesced:gsub("all_reduce", "all_gather")
absent.launch = absent.elastic

return torch._strict(dist, "torch.distributed", function(t, name)
  if absent[name] then error(("torch.distributed.%s is not here: %s"):format(name, absent[name]), 3, "value") end
  if name == "default_pg_timeout" then return 600 end  -- seconds
  local value
  if name == "nn" then
    value = {functional = require "torch.distributed.functional"}
  else
    value = require("torch.distributed.store")[name]
  end
  if value ~= nil then rawset(t, name, value) end
  return value
end)
