-- Collectives of any values: data and tensors, no functions (what comes from another rank is never run). They travel
-- as bytes. And a barrier that says who is missing.
local torch = torch
local error = torch._raise
local shared = require "torch.distributed.shared"
local arguments = require "torch.utils.arguments"
local dist, native, info, root = shared.dist, shared.native, shared.info, shared.root

-- A value as a tensor of bytes.
local function bytes(object, who) return native.bytes(torch._encode(object, who)) end
local function value(t, n) return torch._decode(native.text(t, n)) end

local function list_of(t, who, what)
  if type(t) ~= "table" then error(("%s: %s wants a table, not %s"):format(who, what, type(t)), 3) end
  return t
end

-- How many bytes each rank has.
local function lengths(g, n)
  local all = torch.empty(g.size, {dtype = torch.int64})
  native.all_gather_into_(all, torch.tensor({n}, {dtype = torch.int64}), g.handle)
  return all:tolist()
end

local function padded(t, n)
  if t:numel() == n then return t end
  local room = torch.zeros(n, {dtype = torch.uint8})
  if t:numel() > 0 then room[{{1, t:numel()}}] = t end
  return room
end

---Every rank's object, in a table: [1] is rank 0's.
---@param object_list table filled
---@param object any data and tensors
---@param group? userdata
function dist.all_gather_object(object_list, object, ...)
  local o = arguments("all_gather_object", {"group"}, {}, ...)
  local g = info(o.group, "all_gather_object")
  if not g then return end
  local list = list_of(object_list, "all_gather_object", "object_list")
  local mine = bytes(object, "all_gather_object")
  local sizes = lengths(g, mine:numel())
  local most = math.max(table.unpack(sizes))
  local all = torch.empty({g.size, most}, {dtype = torch.uint8})
  native.all_gather_into_(all, padded(mine, most), g.handle)
  for i = 1, g.size do list[i] = value(all[{i}], sizes[i]) end
end

---Rank `src`'s list of objects in the lists of all, which have the same length.
---@param object_list table changed
---@param src? integer 0, unless given
---@param group? userdata
function dist.broadcast_object_list(object_list, ...)
  local o = arguments("broadcast_object_list", {"src", "group", "device", "group_src"}, {}, ...)
  local g = info(o.group, "broadcast_object_list")
  if not g then return end
  local list, src = list_of(object_list, "broadcast_object_list", "object_list"), root(g, o, "src", "broadcast_object_list", g.ranks[1])
  local mine = g.rank == src and bytes({n = #list, table.unpack(list)}, "broadcast_object_list")
  local n = torch.tensor({mine and mine:numel() or 0}, {dtype = torch.int64})
  native.broadcast_(n, src, g.handle)
  local all = mine or torch.empty(n:item(), {dtype = torch.uint8})
  native.broadcast_(all, src, g.handle)
  if mine then return end
  local got = value(all, all:numel())
  for i = 1, got.n do list[i] = got[i] end
end

---Every rank's object, in a table on rank `dst`.
---@param object any
---@param object_gather_list? table filled, on rank dst
---@param dst? integer 0, unless given
---@param group? userdata
function dist.gather_object(object, ...)
  local o = arguments("gather_object", {"object_gather_list", "dst", "group", "group_dst"}, {}, ...)
  local g = info(o.group, "gather_object")
  if not g then return end
  local dst = root(g, o, "dst", "gather_object", g.ranks[1])
  local mine = bytes(object, "gather_object")
  local sizes = lengths(g, mine:numel())
  local most = math.max(table.unpack(sizes))
  if g.rank ~= dst then
    local t = padded(mine, most)
    native.gather_into_(t, t, dst, g.handle)
    return
  end
  local list = list_of(o.object_gather_list, "gather_object", "object_gather_list (on rank dst)")
  local all = torch.empty({g.size, most}, {dtype = torch.uint8})
  native.gather_into_(all, padded(mine, most), dst, g.handle)
  for i = 1, g.size do list[i] = value(all[{i}], sizes[i]) end
end

---An object for each rank from rank `src`: output_list[1] becomes this rank's.
---@param output_list table
---@param input_list? table on rank src: one object for each rank
---@param src? integer 0, unless given
---@param group? userdata
function dist.scatter_object_list(output_list, input_list, ...)
  local o = arguments("scatter_object_list", {"src", "group", "group_src"}, {}, ...)
  local g = info(o.group, "scatter_object_list")
  if not g then return end
  local out, src = list_of(output_list, "scatter_object_list", "the first argument"), root(g, o, "src", "scatter_object_list", g.ranks[1])
  local sizes, parts, most = torch.zeros(g.size, {dtype = torch.int64}), {}, 0
  if g.rank == src then
    local list = list_of(input_list, "scatter_object_list", "the second argument (on rank src)")
    for i = 1, g.size do
      parts[i] = bytes(list[i], "scatter_object_list")
      sizes[i] = parts[i]:numel()
      most = math.max(most, parts[i]:numel())
    end
  end
  native.broadcast_(sizes, src, g.handle)
  most = sizes:max():item()
  local all
  if g.rank == src then
    for i = 1, g.size do parts[i] = padded(parts[i], most) end
    all = torch.stack(parts)
  end
  local mine = torch.empty(most, {dtype = torch.uint8})
  native.scatter_into_(mine, all, src, g.handle)
  out[1] = value(mine, sizes[{g.rank + 1}]:item())
end

---Sends an object to a rank, or a list of them.
---@param object_list table
---@param dst integer
---@param group? userdata
function dist.send_object_list(object_list, ...)
  local o = arguments("send_object_list", {"dst", "group", "device", "group_dst"}, {}, ...)
  local text = bytes({n = #list_of(object_list, "send_object_list", "the first argument"), table.unpack(object_list)}, "send_object_list")
  dist.send {torch.tensor({text:numel()}, {dtype = torch.int64}), dst = o.dst, group = o.group, group_dst = o.group_dst}
  dist.send {text, dst = o.dst, group = o.group, group_dst = o.group_dst}
end

---Receives a list of objects.
---@param object_list table filled
---@param src? integer nil: whoever sends first
---@param group? userdata
---@return integer # the rank that has sent
function dist.recv_object_list(object_list, ...)
  local o = arguments("recv_object_list", {"src", "group", "device", "group_src"}, {}, ...)
  local n = torch.zeros(1, {dtype = torch.int64})
  local from = dist.recv {n, src = o.src, group = o.group, group_src = o.group_src}
  local text = torch.empty(n:item(), {dtype = torch.uint8})
  dist.recv {text, src = from, group = o.group}
  local got = value(text, text:numel())
  for i = 1, got.n do object_list[i] = got[i] end
  return from
end

---A barrier whose error says which ranks have not come within `timeout` seconds.
---@param group? userdata
---@param timeout? number the group's, unless given
---@param wait_all_ranks? boolean changes nothing: all that are missing are always named
function dist.monitored_barrier(...)
  local o = arguments("monitored_barrier", {"group", "timeout", "wait_all_ranks"}, {}, ...)
  local g = info(o.group, "monitored_barrier")
  if not g then return end
  if o.timeout ~= nil and (type(o.timeout) ~= "number" or not (o.timeout > 0)) then
    error(("monitored_barrier: timeout is a number of seconds, not %s"):format(tostring(o.timeout)), 2, "value")
  end
  native.monitored_barrier(g.pg, o.timeout or 0)
end
