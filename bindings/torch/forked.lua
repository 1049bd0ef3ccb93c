-- What a thread of torch.fork does: it runs functions, keeps their graphs, and computes gradients through
-- them when the other side asks (torch/fork.lua).
local torch = torch
local carried = require "torch.utils.carried"

return function(native, setup)
  carried.settle(setup.around)
  require "torch.fork"(setup.depth)
  local graphs = {}  -- the number of a task -> its inputs and outputs

  local function described(err) return carried.describe(err, "fork") end

  -- The gradients of a task's inputs, and of the gradients themselves when they have a graph.
  local function gradients(task)
    local graph = graphs[task.backward]
    local outputs, grads = {}, {}
    for i = 1, task.n do
      if task.grads[i] then
        outputs[#outputs + 1], grads[#grads + 1] = graph.outputs[i], task.grads[i]
      end
    end
    local list = {}
    for i = 1, #graph.inputs do list[i] = false end
    if #outputs == 0 or #graph.inputs == 0 then return list end
    local found = table.pack(torch.autograd.grad(outputs, graph.inputs, {grad_outputs = grads, retain_graph = true, create_graph = task.create, allow_unused = true}))
    for i = 1, #graph.inputs do list[i] = found[i] or false end
    return list
  end

  while true do
    local number, task, leaves = native.next()
    if not number then return end
    if task.free then
      graphs[task.free] = nil
    else
      local inputs = leaves
      local function run()
        if task.backward then
          local before = task.create and graphs[task.backward].inputs or {}
          inputs = table.move(leaves, 1, #leaves, #before + 1, table.move(before, 1, #before, 1, {}))
          return table.pack(gradients(task))
        end
        torch.manual_seed(task.seed)
        torch.set_default_device(task.device)
        return table.pack(task.f(table.unpack(task.args, 1, task.n)))
      end
      local ok, out = xpcall(run, described)
      local sent, outputs = xpcall(native.send, described, number, {ok, out}, inputs)
      if not sent then
        if not ok then out.cause = nil end
        native.send(number, {false, ok and outputs or out}, {})
      elseif #outputs > 0 then
        graphs[number] = {inputs = inputs, outputs = outputs}
      end
    end
  end
end
