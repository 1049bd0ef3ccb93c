-- A method called with a point (net.train(), opt.step()): the function that it finds has no object to work on, and fails
-- inside torch. The user's line, which the trace knows, tells what was meant.
local torch = torch
local words = require("torch.messages").words

-- Names of methods of networks, optimisers, schedules, scalers and datasets.
local function methods()
  local known = {get = true, iter = true, forward = true}
  local function take(t)
    for k, v in next, t or {} do
      if type(k) == "string" and type(v) == "function" then known[k] = true end
    end
  end
  local loaded = package.loaded
  if loaded["torch.nn.module"] then take(loaded["torch.nn.module"].Base) end
  if loaded["torch.optim.optimizer"] then take(loaded["torch.optim.optimizer"].Optimizer) end
  local optim, amp, utils = rawget(torch, "optim"), rawget(torch, "amp"), rawget(torch, "utils")
  if optim then take(optim.lr_scheduler.LRScheduler) end
  if amp then take(rawget(amp.GradScaler, "__index") or amp.GradScaler) end
  if utils and utils.data then take(utils.data.Dataset) end
  return known
end

---The call with a point that a frame's line holds, with a colon: the node's code, and what it should be; nil when there
---is none.
---@param call table
---@param line integer
---@return table? node, string? right
local function find(call, line)
  local known = methods()
  for _, node in ipairs(call.nodes or {}) do
    local f = node.kind == "call" and not node.method and node.called
    if f and f.kind == "field" and known[f.name] and node.line == line then
      local root = f.object
      while root and root.kind == "field" do root = root.object end
      local library = root and root.kind == "name" and (root.name == "torch" or call:part_of_torch(root.name))
      if not library then
        return node, call:code(f.object) .. ":" .. f.name .. call:code(node):sub(f.last - node.first + 2)
      end
    end
  end
end

---An error object for an error of Lua's own inside torch that a point in the place of a colon made; else nil.
---@param text string
---@param frames? table[] the user's functions, innermost first
return function(text, frames)
  local message = text:match "^torch/[%w_/]+%.lua:%d+: ([^\n]*)"
  local frame = message and frames and frames[1]
  if not frame or frame.skipped then return nil end
  if not (message:find "%(local 'self'%)" or message:find "%(local 'layer'%)" or message:find "%(local 'module'%)" or message:find "^bad argument #1 to 'rawget'") then return nil end
  local full = torch._chunks[frame.source] and "=" .. frame.source or "@" .. frame.source
  local err = setmetatable({kind = "argument", op = "", hint = "", where = frame.source .. ":" .. frame.line,
    _call = ("S %d %s\n"):format(frame.line, full)}, debug.getregistry()["tycho.error"])
  local call = require("torch.explain.call").read(err)
  if not call or not call.text then return nil end
  local node, right = find(call, frame.line)
  if not node then return nil end
  err.message = words.colon:format(call:code(node.called), call:code(node.called.object))
  err._call = err._call .. ("P %d %d\n"):format(node.first, node.last)
  err._code = "ARG-3"
  err._fixes = {{code = right}}
  return err
end
