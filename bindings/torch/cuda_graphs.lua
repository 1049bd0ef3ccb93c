-- CUDA graphs, by PyTorch's names: work that is captured once and replayed into the same memory without Lua in between.
local torch = torch
local error = torch._raise
local cuda = torch.cuda

local CUDAGraph = {__name = "torch.cuda.CUDAGraph"}
CUDAGraph.__index = CUDAGraph

-- While there is one stream only, memory is reused without waiting: a stream that nobody sees goes at once.
local function release(stream)
  cuda._release_stream(stream.device_index, stream.stream_id)
  stream.stream_id = 0
end

local modes = {global = true, thread_local = true, relaxed = true}
local function check_mode(mode, who)
  if mode ~= nil and not modes[mode] then
    error(('%s: capture_error_mode is "global", "thread_local" or "relaxed", not %s'):format(who, tostring(mode)), 3, "value")
  end
end
local function check_pool(pool, who)
  if pool ~= nil and math.type(pool) ~= "integer" then
    error(who .. ": a pool is what torch.cuda.graph_pool_handle() or g:pool() gives, not a " .. type(pool), 3)
  end
  return pool or 0
end

---What a device was asked for, to be asked again as a whole: `torch.cuda.graph(g, f)` captures, `g:replay()` does it. It has
---capture_begin, capture_end, replay, reset, pool. Memory that was allocated during the capture stays with the graph: put
---new inputs into the tensors it read (`x:copy_(batch)`), and read results from those it wrote.
function cuda.CUDAGraph() return setmetatable({_graph = cuda._new_graph()}, CUDAGraph) end

function CUDAGraph.__tostring(g) return ("<torch.cuda.CUDAGraph %s>"):format(g.device and tostring(g.device) or "empty") end

---Captures what this thread asks of the current device, on its current stream, which must not be the default one.
---@param pool? integer memory to share with graphs that are replayed before or after this one, never at the same time
---@param capture_error_mode? string
function CUDAGraph:capture_begin(pool, capture_error_mode)
  if type(pool) == "table" then pool, capture_error_mode = pool.pool, pool.capture_error_mode end
  check_mode(capture_error_mode, "capture_begin")
  local number = cuda.current_device()
  cuda._graph_begin(self._graph, number, check_pool(pool, "capture_begin"))
  self.device = torch.device("cuda", number)
end
---Ends the capture; nothing has been computed yet.
function CUDAGraph:capture_end() cuda._graph_end(self._graph) end
---Does what was captured, on the current stream: with what its inputs hold now, and with new random numbers.
function CUDAGraph:replay() cuda._graph_replay(self._graph) end
---Empties the graph and lets its memory go.
function CUDAGraph:reset()
  cuda._graph_reset(self._graph)
  self.device = nil
end
---The memory of this graph, for others to share.
function CUDAGraph:pool() return cuda._graph_pool(self._graph) end

---Memory that graphs can share: `torch.cuda.graph(g, {pool = handle}, f)`.
---@return integer
function cuda.graph_pool_handle() return cuda._new_pool() end

---Is what is asked of the current stream captured into a graph?
---@return boolean
function cuda.is_current_stream_capturing()
  if not cuda.is_available() then return false end
  return cuda._capturing(cuda.current_device())
end

---Captures what f asks of the current device, or what is asked until the scope's block ends:
---`do local _ <close> = torch.cuda.graph(g) .. end`. Call f once or more before, so that all it needs is there. Reading
---values (item, print, conditions on tensors) raises and ends the capture.
---@param g table a torch.cuda.CUDAGraph
---@param options? {pool?: integer, stream?: table, capture_error_mode?: string}
---@param f? function
function cuda.graph(g, options, f)
  if getmetatable(g) ~= CUDAGraph then error("graph: wants a torch.cuda.CUDAGraph, not a " .. type(g), 2) end
  if type(options) == "function" then options, f = nil, options end
  local o = options or {}
  for k in pairs(o) do
    if k ~= "pool" and k ~= "stream" and k ~= "capture_error_mode" then
      error(('graph: no argument "%s" (it has: pool, stream, capture_error_mode)'):format(tostring(k)), 2)
    end
  end
  local number = o.stream and o.stream.device_index or cuda.current_device()
  cuda.synchronize(number)
  collectgarbage()  -- what nobody needs goes now, not in the middle of the capture
  local device, before = cuda.current_device(), cuda.current_stream(number)
  local own = not o.stream and cuda.Stream(number) or nil
  local function back()
    cuda.set_stream(before)
    cuda.set_device(device)
    if own then release(own) end
  end
  cuda.set_stream(o.stream or own)
  local began, why = pcall(g.capture_begin, g, o.pool, o.capture_error_mode)
  if not began then
    back()
    error(why, 0)
  end
  return torch._scope(function(failed)
    local ended, reason = true, nil
    if failed then cuda._graph_discard(g._graph) else ended, reason = pcall(g.capture_end, g) end
    back()
    if failed or not ended then g.device = nil end
    if not ended then error(reason, 0) end
  end, f, "torch.cuda.graph")
end

---- Functions as graphs --------------------------------------------------------------------------------

local function is_module(f) return type(f) == "table" and rawget(f, "_order") ~= nil end
local function tensors(list, who, what)
  if torch.is_tensor(list) then list = {list} end
  for i = 1, list.n or #list do
    if not torch.is_tensor(list[i]) then error(("%s: %s %d must be a tensor, not a %s"):format(who, what, i, type(list[i])), 4) end
  end
  return list
end
local function wanting(list)
  local out = {}
  for _, t in ipairs(list) do
    if t.requires_grad then out[#out + 1] = t end
  end
  return out
end

-- A function with its inputs (the arguments and the parameters), and two graphs of it.
local function start(f, args, o)
  local it = {f = f, args = tensors(args, "make_graphed_callables", "sample argument"), module = is_module(f) and f or nil}
  it.inputs = table.move(it.args, 1, #it.args, 1, {})
  if it.module then
    for _, p in ipairs(f:parameters()) do it.inputs[#it.inputs + 1] = p end
  end
  it.wanted = wanting(it.inputs)
  function it.call() return tensors(table.pack(f(table.unpack(it.args))), "make_graphed_callables", "result") end
  function it.gradients(outputs, grads)
    return table.pack(torch.autograd.grad(outputs, it.wanted, {grad_outputs = grads, allow_unused = o.allow_unused_input or false}))
  end
  return it
end

local function capture_forward(it, pool)
  it.forward = cuda.CUDAGraph()
  cuda.graph(it.forward, {pool = pool}, function() it.outputs = it.call() end)
  it.differentiable = #it.wanted > 0 and wanting(it.outputs) or {}
end

local function capture_backward(it, pool)
  if #it.differentiable == 0 then return end
  it.grads = {}
  for i, y in ipairs(it.differentiable) do it.grads[i] = torch.zeros_like(y) end
  it.backward = cuda.CUDAGraph()
  local found
  cuda.graph(it.backward, {pool = pool}, function() found = it.gradients(it.differentiable, it.grads) end)
  local k = 0
  it.found = {n = #it.inputs}
  for i, x in ipairs(it.inputs) do
    if x.requires_grad then
      k = k + 1
      it.found[i] = found[k]
    end
  end
end

local function as_function(it)
  local differentiable = {}
  for i, y in ipairs(it.outputs) do differentiable[i] = y.requires_grad end
  for i, y in ipairs(it.outputs) do it.outputs[i] = y:detach() end
  local F = torch.autograd.Function("Graphed")
  function F.forward(_, ...)
    local given = {...}
    for i, x in ipairs(it.args) do
      if given[i].shape ~= x.shape then
        error(("argument %d has shape %s; the graph was captured for %s"):format(i, tostring(given[i].shape), tostring(x.shape)), 2, "shape")
      end
      if not rawequal(given[i], x) then x:copy_(given[i]) end
    end
    it.forward:replay()
    local out = {}
    for i, y in ipairs(it.outputs) do out[i] = y:detach() end
    return table.unpack(out)
  end
  function F.backward(_, ...)
    local given, k = {...}, 0
    for i in ipairs(it.outputs) do
      if differentiable[i] then
        k = k + 1
        if given[i] then it.grads[k]:copy_(given[i]) else it.grads[k]:zero_() end
      end
    end
    it.backward:replay()
    local out = {}
    for i = 1, it.found.n do out[i] = it.found[i] and it.found[i]:detach() or nil end
    return table.unpack(out, 1, it.found.n)
  end
  return function(...)
    local given = table.pack(...)
    for i = #it.args + 1, #it.inputs do given[i] = it.inputs[i] end
    if select("#", ...) ~= #it.args then
      error(("wants %d tensors, as the graph was captured for"):format(#it.args), 2)
    end
    return F.apply(table.unpack(given, 1, #it.inputs))
  end
end

---Functions or modules that compute by graphs, forward and backward, for arguments of the shapes of the samples; the
---sample tensors are the graphs' own inputs afterwards. A module stays the same object, and computes as before in the
---other of train() and eval(). Several are captured in the order in which they are called.
---@param callables function|table one, or a list
---@param sample_args table its tensors, or a list of such tables
---@param options? {num_warmup_iters?: integer, allow_unused_input?: boolean, pool?: integer}
function cuda.make_graphed_callables(callables, sample_args, options)
  local o = options or {}
  if math.type(o) == "integer" then o = {num_warmup_iters = o} end
  local one = type(callables) == "function" or getmetatable(callables) ~= nil
  local list, samples = one and {callables} or callables, one and {sample_args} or sample_args
  if type(list) ~= "table" or type(samples) ~= "table" or #list ~= #samples or #list == 0 then
    error("make_graphed_callables: wants a function or module and its sample tensors, or a list of each, equally long", 2)
  end
  local all, pool = {}, check_pool(o.pool or cuda.graph_pool_handle(), "make_graphed_callables")
  for i, f in ipairs(list) do all[i] = start(f, samples[i], o) end
  local side = cuda.Stream()
  side:wait_stream(cuda.current_stream())
  cuda.stream(side, function()
    for _, it in ipairs(all) do
      for _ = 1, o.num_warmup_iters or 3 do
        local outputs = #it.wanted > 0 and wanting(it.call()) or {}
        local grads = {}
        for i, y in ipairs(outputs) do grads[i] = torch.ones_like(y) end
        if #outputs > 0 then it.gradients(outputs, grads) end
      end
    end
  end)
  cuda.current_stream():wait_stream(side)
  release(side)
  for _, it in ipairs(all) do capture_forward(it, pool) end
  for i = #all, 1, -1 do capture_backward(all[i], pool) end
  local made = {}
  for i, it in ipairs(all) do
    made[i] = as_function(it)
    local m = it.module
    if m then
      local graphed, plain, training = made[i], m.forward, m.training
      rawset(m, "forward", function(self, ...)
        if self.training == training then return graphed(...) end
        return plain(self, ...)
      end)
      made[i] = m
    end
  end
  if one then return made[1] end
  return made
end
