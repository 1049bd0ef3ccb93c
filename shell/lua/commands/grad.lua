-- Commands about gradients and values that went wrong: %check (gradients against differences) and
-- %nan (where a nan or inf began).
local columns = require "shell.columns"
local commands = require "shell.commands"
local names = require "shell.graph_names"

-- ---- %check ----------------------------------------------------------------------------------

local most_checked = 200  -- elements per input

local function index_text(flat, shape)
  local index = {}
  for d = #shape, 1, -1 do
    index[d] = (flat - 1) % shape[d] + 1
    flat = (flat - 1) // shape[d] + 1
  end
  if #index == 0 then return "" end
  return #index == 1 and ("[%d]"):format(index[1]) or ("[{%s}]"):format(table.concat(index, ", "))
end

-- Differences against the gradient, in one dtype; a list of the worst per input.
local function differences(f, inputs, dtype, eps)
  local given = {}
  for k, x in ipairs(inputs) do
    given[k] = torch.is_tensor(x) and x:is_floating_point() and x:detach():to(dtype):clone():requires_grad_() or x
  end
  local weights = {}
  -- One number out of whatever f gives: all elements with weights of their own.
  local function total()
    local sum
    for i, y in ipairs {f(table.unpack(given))} do
      if torch.is_tensor(y) and y:is_floating_point() then
        weights[i] = weights[i] or (torch.arange(1, y:numel() + 1, {dtype = "float64"}) * 0.618033988749895 % 1 + 0.5):reshape(y:size())
        local part = (y:double() * weights[i]):sum()
        sum = sum and sum + part or part
      end
    end
    return sum
  end
  local y = total()
  if not y then error("%check: the function gives no floating point tensor", 0) end
  local wanted = {}
  for _, x in ipairs(given) do
    if torch.is_tensor(x) and x.requires_grad then wanted[#wanted + 1] = x end
  end
  if #wanted == 0 then error("%check: no floating point tensor among the inputs", 0) end
  local grads = y.requires_grad and table.pack(torch.autograd.grad(y, wanted, {allow_unused = true})) or {}
  local worst, count, k = {}, 0, 0
  torch.no_grad(function()
    for i, x in ipairs(given) do
      if torch.is_tensor(x) and x.requires_grad then
        k = k + 1
        local flat, n = x:view(-1), x:numel()
        local step = math.max(1, n // most_checked)
        local g = grads[k] and grads[k]:double():reshape(-1)
        worst[i] = {gap = -1, shape = x:size()}
        for e = 1, n, step do
          local at = flat[e]
          local before = at:item()
          local h = eps * math.max(1, math.abs(before))
          at:fill_(before + h)
          local high, up = total():item(), at:item()
          at:fill_(before - h)
          local low, down = total():item(), at:item()
          at:fill_(before)
          local numeric = (high - low) / (up - down)
          local analytic = g and g[e]:item() or 0
          local gap = math.abs(numeric - analytic) / math.max(1, math.abs(numeric), math.abs(analytic))
          if gap ~= gap then gap = math.huge end
          count = count + 1
          if gap > worst[i].gap then worst[i] = {gap = gap, element = e, numeric = numeric, analytic = analytic, shape = x:size()} end
        end
      end
    end
  end)
  return worst, count
end

local function check(args, session)
  local values = table.pack(commands.compile(args == "" and "nil" or args, session)())
  local f, inputs = values[1], values[2]
  local meta = type(f) == "table" and debug.getmetatable(f)
  if type(f) ~= "function" and not (meta and meta.__call) then return "a function is wanted first, then its inputs" end
  if torch.is_tensor(inputs) then inputs = {inputs} end
  if type(inputs) ~= "table" then return "the inputs are wanted second, a tensor or a table of tensors" end
  local dtype, tolerance = "float64", 1e-5
  local ok, worst, count = pcall(differences, f, inputs, "float64", 1e-6)
  if not ok and type(worst) == "table" and worst.kind == "dtype" then
    -- The function uses float32 tensors of its own.
    dtype, tolerance = "float32", 2e-2
    worst, count = differences(f, inputs, "float32", 1e-2)
  elseif not ok then
    error(worst, 0)
  end
  local list = args:match("{(.*)}%s*$")
  local labels, n = {}, 0
  for name in (list or args:match(",%s*(.-)%s*$") or ""):gmatch("[^,]+") do
    n = n + 1
    labels[n] = name:match("^%s*([%a_][%w_.]*)%s*$")
  end
  local bad = false
  for i, w in pairs(worst) do bad = bad or w.gap > tolerance end
  session.say(("%s: %d elements, differences in %s"):format(bad and "gradients are WRONG" or "gradients agree", count, dtype))
  for i = 1, #inputs do
    local w = worst[i]
    if w and w.element then
      local text = ("%s%s worst: gradient %.6g, difference %.6g, relative error %.1g"):format(
        labels[i] or "input " .. i, index_text(w.element, w.shape), w.analytic, w.numeric, w.gap)
      session.say("  " .. table.concat(columns.wrap(text, columns.window() - 4), "\n    "))
    end
  end
  if bad then return false end
end

-- ---- %nan ------------------------------------------------------------------------------------

local function bad_counts(t)
  if not t or not t:is_floating_point() or t:numel() == 0 then return 0, 0 end
  local s = torch._summary(t)
  return s.nan, s.plus + s.minus
end

local function is_bad(t)
  local nan, inf = bad_counts(t)
  return nan + inf > 0
end

local function counts_text(nan, inf, numel)
  local parts = {}
  if nan > 0 then parts[#parts + 1] = nan .. " nan" end
  if inf > 0 then parts[#parts + 1] = inf .. " inf" end
  return ("%s of %d value%s"):format(table.concat(parts, " and "), numel, numel == 1 and "" or "s")
end

local function range_text(t)
  if not t then return "?" end
  local text = columns.describe(t)
  if not t:is_floating_point() or t:numel() == 0 then return text end
  local s = torch._summary(t)
  if t:numel() == 1 then return text .. "  " .. names.number(t:double():item()) end
  local low, high = names.number(s.min), names.number(s.max)
  return ("%s  %s .. %s%s"):format(text, low, high, s.zero > 0 and (", %d zero"):format(s.zero) or "")
end

local function source_line(source, line)
  local text = torch._source_line and torch._source_line(source, line)
  if not text and torch._chunks[source] then
    local n = 0
    for each in (torch._chunks[source] .. "\n"):gmatch("(.-)\n") do
      n = n + 1
      if n == line then text = each end
    end
  end
  return text and columns.plain(text:match("^%s*(.-)%s*$"))
end

local function say_place(session, source, line)
  local text = source ~= "" and source_line(source, line)
  if text then session.say(columns.clip(("   %s  %s"):format(names.place(source, line), text), columns.window())) end
end

-- Reports an operation that was seen while it ran.
local function say_found(session, found, way)
  local inside = found.outer ~= found.name and (" (inside %s)"):format(found.outer) or ""
  session.say(("%s%s made the first: %s"):format(found.name, inside, counts_text(found.nan, found.inf, found.numel)) .. (way or ""))
  say_place(session, found.source, found.line)
  for k, x in ipairs(found.inputs) do session.say(columns.clip(("   input %d  %s"):format(k, range_text(x)), columns.window())) end
end

local function input_value(unfolded, input)
  if input.leaf then return unfolded.leaves[input.leaf].values[1] end
  if input.node then return unfolded.nodes[input.node].values[input.output] end
end

local function say_node(session, unfolded, node, headline)
  local leaves, nodes = names.tensors()
  session.say(headline)
  say_place(session, node.source, node.line)
  for k, input in ipairs(node.inputs) do
    local x = input_value(unfolded, input)
    local name = input.leaf and leaves[unfolded.leaves[input.leaf].id] or input.node and nodes[unfolded.nodes[input.node].id] or "input " .. k
    if x then session.say(columns.clip(("   %s  %s"):format(name, range_text(x)), columns.window())) end
  end
end

-- The first bad result forward; true when there was one.
local function look_forward(session, unfolded)
  local leaves = names.tensors()
  for _, leaf in ipairs(unfolded.leaves) do
    local x = leaf.values[1]
    if is_bad(x) then
      local nan, inf = bad_counts(x)
      session.say(("%s itself holds %s"):format(leaves[leaf.id] or "a leaf " .. tostring(x.shape), counts_text(nan, inf, x:numel())))
      return true
    end
  end
  local unknown
  for _, node in ipairs(unfolded.nodes) do
    local x = node.values[1]
    if not x then
      unknown = unknown or node
    elseif is_bad(x) then
      local nan, inf = bad_counts(x)
      if unknown then
        session.say(("%s, or one before it, made the first: %s"):format(node.name, counts_text(nan, inf, x:numel())))
        say_place(session, node.source, node.line)
        session.say(unfolded.freed_at and ("   backward freed the graph at %s; give the code instead of the variable"):format(names.without_line(unfolded.freed_at))
          or ("   values before it are not known, from %s on"):format(unknown.name))
        session.say("   as in  %nan F.mse_loss(net(x), y)")
        return true
      end
      say_node(session, unfolded, node, ("%s made the first: %s"):format(node.name, counts_text(nan, inf, x:numel())))
      return true
    end
  end
  return false, unknown
end

local function look_backward(session, unfolded)
  local leaves = names.tensors()
  for i = #unfolded.nodes, 1, -1 do
    local node = unfolded.nodes[i]
    local own_bad = false
    for k = 1, node.outputs do own_bad = own_bad or is_bad(node.grads[k]) end
    for _, input in ipairs(node.inputs) do
      local target = input.leaf and unfolded.leaves[input.leaf] or input.node and unfolded.nodes[input.node]
      local g = target and target.grads[input.output or 1]
      if not own_bad and g and is_bad(g) then
        local nan, inf = bad_counts(g)
        local name = input.leaf and leaves[unfolded.leaves[input.leaf].id]
        say_node(session, unfolded, node, ("backward of %s made the first: the gradient of its input%s has %s"):format(
          node.name, name and " " .. name or "", counts_text(nan, inf, g:numel())))
        return true
      end
    end
  end
  return false
end

local function nan(args, session)
  if args == "" then return "a loss, or the code that computes one, is wanted" end
  local is_name = args:find("^[%a_][%w_.]*$") ~= nil
  local run = commands.compile(args, session)
  local seen = table.pack(torch._find_bad(run))
  local found, ok, y = seen[1], seen[2], seen[3]
  if not ok then
    if found then say_found(session, found) end
    error(y, 0)
  end
  if found and not is_name then return say_found(session, found) end
  if not torch.is_tensor(y) then return ("a tensor is wanted, not %s"):format(y == nil and "nil" or "a " .. type(y)) end
  local unfolded = torch._unfold(y, {values = true, gradients = true})
  if not unfolded then
    if not is_bad(y) then return session.say("no nan and no inf") end
    local n, inf = bad_counts(y)
    session.say(("%s holds %s, and has no graph that tells why"):format(args, counts_text(n, inf, y:numel())))
    return session.say("   give the code that makes it, as in  %nan F.mse_loss(net(x), y)")
  end
  local bad, unknown = look_forward(session, unfolded)
  if bad then return end
  if unfolded.has_grads and look_backward(session, unfolded) then return end
  local what = unfolded.has_grads and "forward or backward" or "forward; the gradients are not known any more"
  session.say(("no nan and no inf in %d operations, %s"):format(#unfolded.nodes, what))
  if unknown then session.say("   values of some could not be known; give the code instead of the variable") end
end

return {
  {
    name = "check", usage = "%check F, {X, ..}", example = "%check function(x) return (x * x):sum() end, {x}",
    doc = "Compare a function's gradients with differences, and show the worst element.",
    run = check,
  },
  {
    name = "nan", usage = "%nan LOSS or CODE", example = "%nan F.mse_loss(net(x), y)",
    doc = "Find the first operation that made a nan or inf, forward or backward.",
    run = nan,
  },
}
