-- %backstep walks a graph's gradients back, operation by operation; %sweep runs code over values of one variable and
-- plots what comes out.
local columns = require "shell.columns"
local commands = require "shell.commands"
local names = require "shell.graph_names"
local native = require "shell.native"

-- ---- %backstep -------------------------------------------------------------------------------

local function short(t)
  if not t then return "?" end
  if t:numel() == 1 then return names.number(t:double():item()) end
  return ("norm %s %s"):format(names.number(torch.no_grad(function() return t:double():norm():item() end)), tostring(t.shape))
end

-- A key where somebody is there to press one: "one" for the next step, "all", or nil for no more.
local function pressed()
  if not (native.is_terminal(0) and native.is_terminal(1)) then return "all" end
  local key = native.read_key()
  if not key or key == "q" or key == "\27" or key == "\3" or key == "\4" then return nil end
  return key == "a" and "all" or "one"
end

-- How many operations read a node's result or a leaf: only of one is its gradient what that one gave.
local function readers(unfolded)
  local of = {}
  for _, node in ipairs(unfolded.nodes) do
    for _, input in ipairs(node.inputs) do
      local key = input.leaf and "l" .. input.leaf or input.node and "n" .. input.node
      if key then of[key] = (of[key] or 0) + 1 end
    end
  end
  return of
end

-- What a node hands to one input: "0.42 x 1 = 0.42 -> w" of numbers, "norm 3 [2, 3] -> W" of tensors.
local function handed(node, input, unfolded, count, leaves, nodes)
  local target = input.leaf and unfolded.leaves[input.leaf] or unfolded.nodes[input.node]
  local g, own = target.grads[input.output or 1], node.grads[1]
  local name = input.leaf and (leaves[target.id] or "a leaf") .. ".grad" or nodes[target.id] or target.name
  if not g then return "nothing -> " .. name end
  local shared = count[(input.leaf and "l" .. input.leaf) or "n" .. input.node] > 1
  if shared then return ("a part of %s -> %s"):format(short(g), name) end
  if g:numel() == 1 and own and own:numel() == 1 then
    local a, b = own:double():item(), g:double():item()
    if a ~= 0 then return ("%s x %s = %s -> %s"):format(names.number(b / a), names.number(a), names.number(b), name) end
  end
  return ("%s -> %s"):format(short(g), name)
end

local function backstep(args, session)
  if args == "" then return "a computed tensor is wanted, or the code that computes it" end
  local y = commands.compile(args, session)()
  if not torch.is_tensor(y) then return ("a tensor is wanted, not %s"):format(y == nil and "nil" or "a " .. type(y)) end
  local unfolded = torch._unfold(y, {values = true, gradients = true})
  if not unfolded then
    return y.requires_grad and "this is a leaf: nothing was computed" or "this tensor has no graph: %why " .. args .. " says more"
  end
  if not unfolded.has_grads then
    local at = unfolded.freed_at and (" at " .. names.without_line(unfolded.freed_at)) or ""
    error(("backward freed this graph%s; give the code that computes it, as in %%backstep F.mse_loss(net(x), y)"):format(at), 0)
  end
  local leaves, nodes = names.tensors()
  local count, order = readers(unfolded), {}
  for i = #unfolded.nodes, 1, -1 do order[#order + 1] = unfolded.nodes[i] end  -- ids grow with time
  session.say(("%s = %s, seed %s"):format(args, short(unfolded.nodes[unfolded.root].values[1]), y:numel() == 1 and "1" or "1 for each element"))
  local way = "one"
  for k, node in ipairs(order) do
    local line = ("%d/%d %s"):format(k, #order, nodes[node.id] and nodes[node.id] .. " = " .. node.name or node.name)
    local where = names.place(node.source, node.line)
    session.say(columns.clip(("%s  %s  value %s  gradient %s"):format(line, where, short(node.values[1]), short(node.grads[1])), columns.window()))
    for _, input in ipairs(node.inputs) do
      if input.leaf or input.node then
        session.say(columns.clip("    " .. handed(node, input, unfolded, count, leaves, nodes), columns.window()))
      end
    end
    if way == "one" and k < #order then
      if k == 1 and native.is_terminal(0) and native.is_terminal(1) then session.say("(any key goes on, a shows all, q stops)") end
      way = pressed()
      if not way then return end
    end
  end
  for _, leaf in ipairs(unfolded.leaves) do
    if leaf.grads[1] then session.say(columns.clip(("%s.grad = %s"):format(leaves[leaf.id] or "a leaf", short(leaf.grads[1])), columns.window())) end
  end
end

-- ---- %sweep ----------------------------------------------------------------------------------

-- The code of a value that was computed before: the right side of the entry that made it.
local function code_of(expression, session)
  local number = expression:find "^[%a_][%w_]*$" and session.origin(expression)
  local record = number and session.entries[number]
  if not record or type(rawget(_G, expression)) == "function" then return expression end
  local right = record.text:match("^%s*local%s+" .. expression .. "%s*=%s*(.-)[%s;]*$") or record.text:match("^%s*" .. expression .. "%s*=%s*(.-)[%s;]*$")
  if right and load("return " .. right .. "\n", "=", "t") then return right end
  error(("%s was not computed by one expression; give the code itself, as in %%sweep F.mse_loss(net(x), y), .."):format(expression), 0)
end

local function number_of(value, what)
  if torch.is_tensor(value) and value:numel() == 1 then return value:double():item() end
  if type(value) == "number" then return value + 0.0 end
  error(("%s is no number, but %s"):format(what, columns.describe(value)), 0)
end

local function sweep(args, session)
  local list = require("shell.lesson.operands").list(args)
  if #list < 3 then return "wants code, a variable, and the ends of a range or a list of values" end
  local target = list[2]
  if not load(target .. " = nil\n", "=", "t") then return ("%s is nothing that can be set"):format(target) end
  local expression = code_of(list[1], session)
  local run = commands.compile("return " .. expression, session)
  local read = commands.compile("return " .. target, session)
  local values = {}
  local third = commands.compile("return " .. list[3], session)()
  if type(third) == "table" or torch.is_tensor(third) and third:numel() > 1 then
    values = torch.is_tensor(third) and third:double():flatten():tolist() or third
    for _, v in ipairs(values) do number_of(v, "a value") end
  else
    local low, high = number_of(third, list[3]), number_of(commands.compile("return " .. (list[4] or "nil"), session)(), list[4] or "the other end")
    local steps = list[5] and math.tointeger(tonumber(list[5])) or 41
    if not steps or steps < 2 or steps > 10000 then return "the number of values goes from 2 to 10000" end
    for i = 1, steps do values[i] = low + (high - low) * (i - 1) / (steps - 1) end
  end
  if #values < 2 then return "wants two values or more" end
  local before = read()
  local is_element = torch.is_tensor(before)
  local now = is_element and before:numel() == 1 and before:double():item() or type(before) == "number" and before or nil
  if not now then error(("%s is no number, but %s"):format(target, columns.describe(before)), 0) end
  local whole = math.type(before) == "integer"
  local random = torch.get_rng_state()
  -- A copy stands in for a tensor of the user's meanwhile: graphs that have saved it do not mind. What lies deeper, a
  -- parameter of a network, is changed in place and changed back.
  local name = target:match "^[%a_][%w_]*"
  local root = rawget(_G, name)
  local copied = torch.is_tensor(root) and root:detach():clone():requires_grad_(root.requires_grad) or nil
  if copied then rawset(_G, name, copied) end
  local set = load("local _tycho_ = ... " .. target .. " = _tycho_\n", "=[sweep]", "t")
  local function put(v)
    torch.no_grad(function()
      if copied and name == target then copied:fill_(v) elseif is_element and not target:find "%]$" then before:fill_(v) else set(v) end
    end)
  end
  local function back()
    if copied then rawset(_G, name, root) else put(not is_element and before or now) end
    torch.set_rng_state(random)
  end
  local function at(v)
    put(whole and v == math.floor(v) and math.floor(v) or v)
    torch.set_rng_state(random)
    return number_of(run(), list[1])
  end
  local results, slope, here = {}, nil, nil
  local ok, err = pcall(function()
    torch.no_grad(function()
      for i, v in ipairs(values) do results[i] = at(v) end
    end)
    put(not is_element and before or now)
    torch.set_rng_state(random)
    local y = run()
    here = number_of(y, list[1])
    if copied and copied.requires_grad and torch.is_tensor(y) and y.requires_grad then
      local g = torch.autograd.grad(y:reshape({}), {copied}, {allow_unused = true})
      local pick = g and load("local " .. name .. " = ... return " .. target .. "\n", "=[sweep]", "t", _G)
      slope = pick and number_of(pick(g), "slope") or nil
    end
    if not slope then
      local h = 1e-4 * math.max(math.abs(now), math.abs(values[#values] - values[1]))
      local fine, high, low = pcall(torch.no_grad, function() return at(now + h), at(now - h) end)
      slope = fine and (high - low) / (2 * h) or nil
    end
  end)
  back()
  if not ok then error(err, 0) end
  -- The tangent where it lies within the curve's range.
  local least, most = math.huge, -math.huge
  for _, r in ipairs(results) do
    if r == r then least, most = math.min(least, r), math.max(most, r) end
  end
  local series, labels = {torch.tensor(results, {dtype = "float64"})}, {list[1]}
  local xs = torch.tensor(values, {dtype = "float64"})
  local from, to = math.min(values[1], values[#values]), math.max(values[1], values[#values])
  local inside = now >= from and now <= to
  local reach = slope and slope == slope and inside and #values > 2
  if reach then
    local line, span, drawn = {}, (to - from) * 0.15, false
    for i, v in ipairs(values) do
      local t = here + slope * (v - now)
      line[i] = math.abs(v - now) <= span and t >= least and t <= most and t or 0 / 0
      drawn = drawn or line[i] == line[i]
    end
    if drawn then
      series[2], labels[2] = torch.tensor(line, {dtype = "float64"}), "slope"
    end
  end
  local figure = require("torch.plot.data").curves({n = 1 + #series, xs, table.unpack(series)}, {labels = labels})
  figure.xlabel, figure.remark = target, nil  -- the tangent ends where it leaves the curve's range
  session.say(require("torch.plot.braille").text(figure, {}))
  local best = 1
  for i, r in ipairs(results) do
    if r < results[best] or results[best] ~= results[best] then best = i end
  end
  local text = ("now %s = %s: %s"):format(target, names.number(now), names.number(here))
  if slope and slope == slope then text = text .. (", slope %s"):format(names.number(slope)) end
  session.say(columns.clip(("%s; least %s at %s"):format(text, names.number(results[best]), names.number(values[best])), columns.window()))
  session.results.keep(session.number, {n = 1, series[1]})
end

return {
  {
    name = "backstep", usage = "%backstep Y", example = "%backstep loss",
    doc = "Walks back through the graph of a tensor: each operation, its entry, what comes in and what it hands on.",
    run = backstep,
  },
  {
    name = "sweep", usage = "%sweep CODE, VARIABLE, LOW, HIGH [, COUNT]", example = "%sweep loss, w[1], -1, 1",
    doc = "Runs code for many values of a variable or an element and plots the results, with the slope where it is now.",
    more = "A list of values does in place of LOW, HIGH: %sweep train(lr), lr, {0.1, 0.01, 0.001}. The variable is as before\n" ..
      "afterwards, random numbers are the same each time, and the results are _.",
    run = sweep,
  },
}
