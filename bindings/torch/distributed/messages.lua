-- Messages from one rank to another: send and recv, their forms that do not wait, and lists of them.
local torch = torch
local error = torch._raise
local shared = require "torch.distributed.shared"
local arguments = require "torch.utils.arguments"
local dist, native, info, Work = shared.dist, shared.native, shared.info, shared.Work

local function tensor(t, who)
  if not torch.is_tensor(t) then error(("%s: wants a tensor, not %s"):format(who, type(t)), 3) end
  return t
end

local function post(who, o, async)
  local g = info(o.group, who)
  if not g then return end
  local t = tensor(o.tensor, who)
  local to = shared.root(g, o, "dst", who)
  return setmetatable({work = native.send(g.pg, t:detach(), to, o.tag or 0, async)}, Work)
end

local function fetch(who, o, async)
  local g = info(o.group, who)
  if not g then return end
  local t = tensor(o.tensor, who)
  local from = -1
  if o.src ~= nil or o.group_src ~= nil then from = shared.root(g, o, "src", who) end
  local whole = t:is_contiguous()
  local into = whole and t:detach() or torch.empty(t.shape, {dtype = t.dtype, device = t.device})
  local work = native.receive(g.pg, into, from, o.tag or 0, async)
  local self = setmetatable({work = work}, Work)
  self.after = function()
    self.sender = g.ranks[work:sender() + 1]
    if whole then return end
    local mode <close> = torch.no_grad()
    t:copy_(into)
  end
  return self
end

local out, into = {"tensor", "dst", "group", "tag", "group_dst", needed = 1}, {"tensor", "src", "group", "tag", "group_src", needed = 1}

---Sends a tensor to a rank, which receives one of the same dtype and number of elements. Returns when the tensor may be
---changed again.
---@param t Tensor
---@param dst integer a rank of the world; or group_dst, of the group
---@param group? userdata
---@param tag? integer 0, unless given
function dist.send(...)
  local w = post("send", arguments("send", out, {}, ...), false)
  if w then w:wait() end
end

---Receives a tensor.
---@param t Tensor filled
---@param src? integer nil: whoever sends first
---@param group? userdata
---@param tag? integer
---@return integer # the rank that has sent
function dist.recv(...)
  local w = fetch("recv", arguments("recv", into, {}, ...), false)
  if not w then return -1 end
  w:wait()
  return w.sender
end

---As send, and does not wait; the tensor stays as it is until the handle's wait().
---@param t Tensor
---@param dst integer
---@param group? userdata
---@param tag? integer
---@return Work
function dist.isend(...) return post("isend", arguments("isend", out, {}, ...), true) end

---As recv, and does not wait; the next operation on the tensor does.
---@param t Tensor
---@param src? integer
---@param group? userdata
---@param tag? integer
---@return Work
function dist.irecv(...) return fetch("irecv", arguments("irecv", into, {}, ...), true) end

local P2POp = {__name = "P2POp"}
P2POp.__index = P2POp

---One of a list of messages: dist.isend or dist.irecv, and its arguments.
---@param op function
---@param t Tensor
---@param peer? integer
---@param group? userdata
---@param tag? integer
---@return table
function dist.P2POp(...)
  local o = arguments("P2POp", {"op", "tensor", "peer", "group", "tag", "group_peer", needed = 2}, {}, ...)
  if o.op ~= dist.isend and o.op ~= dist.irecv then error("P2POp: op is dist.isend or dist.irecv", 2) end
  return setmetatable(o, P2POp)
end

---Starts a list of messages. Ranks that send to each other do not wait for each other's order.
---@param p2p_op_list table[] of dist.P2POp
---@return Work[]
function dist.batch_isend_irecv(p2p_op_list)
  if type(p2p_op_list) ~= "table" then error("batch_isend_irecv: wants a list of dist.P2POp", 2) end
  local works = {}
  for i, op in ipairs(p2p_op_list) do
    if getmetatable(op) ~= P2POp then error(("batch_isend_irecv: entry %d is no dist.P2POp"):format(i), 2) end
    local sends = op.op == dist.isend
    local peer, own = sends and "dst" or "src", sends and "group_dst" or "group_src"
    works[i] = op.op {tensor = op.tensor, [peer] = op.peer, [own] = op.group_peer, group = op.group, tag = op.tag}
  end
  return works
end
