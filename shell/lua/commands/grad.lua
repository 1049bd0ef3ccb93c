-- Commands about gradients: %graph (the tree of operations), %check (gradients against differences)
-- and %nan (where a nan or inf began).
local columns = require "shell.columns"
local commands = require "shell.commands"
local holders = require "shell.holders"

local signs = {add = "+", sub = "-", mul = "*", div = "/", pow = "^", neg = "-", remainder = "%", floor_divide = "//"}

-- Names of the user's tensors: of leaves by their identity, of computed ones by their node.
local function tensor_names()
  local leaves, nodes = {}, {}
  local function add(name, value)
    local look = torch._inspect(value)
    if not look then return end
    if look.node then nodes[look.node.id] = nodes[look.node.id] or name else leaves[look.id] = leaves[look.id] or name end
  end
  local list = {}
  for name, value in next, _G do
    if type(name) == "string" and holders.is_users(name, value) then list[#list + 1] = {name, value} end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for _, pair in ipairs(list) do add(pair[1], pair[2]) end
  for _, pair in ipairs(list) do  -- parameters of modules
    if type(pair[2]) == "table" and rawget(pair[2], "_order") then
      local ok, named = pcall(function() return pair[2]:named_parameters() end)
      for _, each in ipairs(ok and named or {}) do add(pair[1] .. "." .. tostring(each[1]), each[2]) end
    end
  end
  return leaves, nodes
end

local function place(source, line)
  if source == "" then return "" end
  return source:find("^%[%d+%]$") and source or ("%s:%d"):format(source:match("[^/]*$"), line)
end

local function number(v)
  if v ~= v then return "nan" end
  return ("%.4g"):format(v)
end

-- A value in a few characters: numbers as they are, tensors by their norm.
local function short(t)
  if not t then return "?" end
  if t:numel() == 1 then return number(t:double():item()) end
  return "norm " .. number(torch.no_grad(function() return t:double():norm():item() end))
end

local function without_line(where) return (where:gsub("^(%[%d+%]):%d+$", "%1")) end

-- ---- %graph ----------------------------------------------------------------------------------

local most_lines = 60
local most_values = 20e6  -- elements computed again for what is shown

local function numel_of(node)
  local n = 1
  for size in (node.shape or ""):gmatch("%d+") do n = n * tonumber(size) end
  return n
end

local function shape_text(node) return node.shape == "[]" and "" or (" %s"):format(node.shape) end

-- What is said of a node or a leaf: operation, shape, value, gradient.
local function facts(item, with_values, with_grads)
  local text = ""
  if with_values then text = " " .. short(item.values[1]) end
  if with_grads then text = text .. " | " .. (item.grads[1] and short(item.grads[1]) or "-") end
  return text
end

local function tree(unfolded, with_values, with_grads, session)
  local leaves, nodes = tensor_names()
  local lines, shown, hidden = {}, {}, 0
  local wide = 0
  local function add(prefix, text, note)
    if #lines >= most_lines then
      hidden = hidden + 1
      return
    end
    lines[#lines + 1] = {prefix .. text, note}
    wide = math.max(wide, math.min(columns.width(prefix .. text), 48))
  end
  local function input_text(input)
    if input.number then return number(input.number), "" end
    if input.leaf then
      local leaf = unfolded.leaves[input.leaf]
      local x = leaf.values[1]
      local name = leaves[leaf.id] or "leaf"
      local shape = x:dim() > 0 and " " .. tostring(x.shape) or ""
      local from = session.origin and leaves[leaf.id] and session.origin(leaves[leaf.id])
      return name .. shape .. facts(leaf, with_values, with_grads), leaves[leaf.id] and ("leaf" .. (from and (" [%d]"):format(from) or "")) or ""
    end
    return "a tensor without gradient", ""
  end
  -- Depth first, with a stack of its own: graphs may be deep.
  local stack = {{node = unfolded.root, prefix = "", below = "", place = ""}}
  while #stack > 0 and hidden == 0 do  -- what is not shown is not built: it may be deep
    local at = table.remove(stack)
    if at.node then
      local node = unfolded.nodes[at.node]
      local op = signs[node.name] and #node.inputs == (node.name == "neg" and 1 or 2) and signs[node.name] or node.name
      local here = place(node.source, node.line)
      local name = nodes[node.id]
      local head = (name and name .. shape_text(node) or op .. shape_text(node)) .. facts(node, with_values, with_grads)
      local note = name and op or ""
      if here ~= at.place and here ~= "" then note = note .. (note ~= "" and "   " or "") .. here end
      if shown[at.node] then
        add(at.prefix, head .. "  (above)", "")
      else
        shown[at.node] = true
        add(at.prefix, head, note)
        local inputs = {}
        for _, input in ipairs(node.inputs) do
          if input.node or input.leaf or input.number then inputs[#inputs + 1] = input end
        end
        for k = #inputs, 1, -1 do
          local last = k == #inputs
          stack[#stack + 1] = {
            node = inputs[k].node, input = inputs[k], place = here,
            prefix = at.below .. (last and "└ " or "├ "), below = at.below .. (last and "  " or "│ "),
          }
        end
      end
    else
      add(at.prefix, input_text(at.input))
    end
  end
  for _, line in ipairs(lines) do
    local text = line[1]
    if line[2] and line[2] ~= "" then
      text = text .. (" "):rep(math.max(wide - columns.width(text), 0) + 3) .. line[2]
    end
    session.say(columns.clip(text, columns.window()))
  end
  if hidden > 0 then
    local seen = 0
    for _ in pairs(shown) do seen = seen + 1 end
    session.say((".. and %d more operations; %%graph Y svg FILE draws all"):format(#unfolded.nodes - seen + 1))
  end
end

-- The graph as a drawing: inputs above, the result below.
local function svg(unfolded, path)
  local leaves, nodes = tensor_names()
  local items, level = {}, {}
  local function key(kind, i) return kind .. i end
  for i, node in ipairs(unfolded.nodes) do  -- ids grow with time: inputs come first
    local deepest = 0
    for _, input in ipairs(node.inputs) do
      local k = input.node and key("n", input.node) or input.leaf and key("l", input.leaf)
      if k then
        level[k] = level[k] or 0
        deepest = math.max(deepest, level[k])
      end
    end
    level[key("n", i)] = deepest + 1
  end
  local rows, most = {}, 0
  local function put(k, title, detail, is_leaf)
    local row = level[k] or 0
    rows[row] = rows[row] or {}
    table.insert(rows[row], k)
    most = math.max(most, #rows[row])
    items[k] = {title = title, detail = detail, leaf = is_leaf, row = row, column = #rows[row]}
  end
  for i, leaf in ipairs(unfolded.leaves) do
    local x = leaf.values[1]
    put(key("l", i), leaves[leaf.id] or "leaf", x:numel() == 1 and short(x) or tostring(x.shape), true)
  end
  for i, node in ipairs(unfolded.nodes) do
    local value = node.values[1]
    put(key("n", i), (nodes[node.id] and nodes[node.id] .. " = " or "") .. (signs[node.name] or node.name),
      value and value:numel() == 1 and short(value) or node.shape or "")
  end
  local w, h, gap_x, gap_y, last = 120, 40, 20, 36, 0
  for row in pairs(rows) do last = math.max(last, row) end
  local width, height = most * (w + gap_x) + gap_x, (last + 1) * (h + gap_y) + gap_y
  local function centre(item)
    local left = (width - #rows[item.row] * (w + gap_x) + gap_x) / 2
    return left + (item.column - 1) * (w + gap_x) + w / 2, gap_y / 2 + item.row * (h + gap_y) + h / 2
  end
  local function escape(text) return (columns.plain(text):gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"})) end
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'):format(width, height, width, height),
    '<rect width="100%" height="100%" fill="white"/>',
  }
  for i, node in ipairs(unfolded.nodes) do
    local x2, y2 = centre(items[key("n", i)])
    for _, input in ipairs(node.inputs) do
      local from = items[input.node and key("n", input.node) or input.leaf and key("l", input.leaf) or ""]
      if from then
        local x1, y1 = centre(from)
        out[#out + 1] = ('<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" fill="none" stroke="#888"/>'):format(
          x1, y1 + h / 2, x1, y1 + h / 2 + gap_y / 2, x2, y2 - h / 2 - gap_y / 2, x2, y2 - h / 2)
      end
    end
  end
  for _, item in pairs(items) do
    local x, y = centre(item)
    out[#out + 1] = ('<rect x="%.1f" y="%.1f" width="%d" height="%d" rx="6" fill="%s" stroke="#555"/>'):format(
      x - w / 2, y - h / 2, w, h, item.leaf and "#e3f1e3" or "#e6ecf7")
    out[#out + 1] = ('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>'):format(x, y - 3, escape(columns.clip(item.title, 18)))
    out[#out + 1] = ('<text x="%.1f" y="%.1f" text-anchor="middle" fill="#555">%s</text>'):format(x, y + 13, escape(columns.clip(item.detail, 18)))
  end
  out[#out + 1] = "</svg>\n"
  local file, why = io.open(path, "w")
  if not file then error(why, 0) end
  file:write(table.concat(out, "\n"))
  file:close()
end

local function one_tensor(code, session)
  local value = commands.compile(code, session)()
  if not torch.is_tensor(value) then
    return nil, ("a tensor is wanted, not %s"):format(value == nil and "nil" or "a " .. type(value))
  end
  return value
end

local function graph(args, session)
  local code, path = args:match("^(.-)%s+svg%s+(%S+)$")
  if not code then
    code = args:match("^(.-)%s+svg$")
    path = code and "graph.svg"
  end
  local with_grads = false
  if not code then
    code = args:match("^(.-)%s+grad$")
    with_grads = code ~= nil
  end
  code = code or args
  if code == "" then return "a computed tensor is wanted" end
  local y, wrong = one_tensor(code, session)
  if not y then return wrong end
  local plain = torch._unfold(y, {})
  if not plain then
    return y.requires_grad and "this is a leaf: nothing was computed" or "this tensor has no graph: nothing it comes from requires grad"
  end
  local numel, single = 0, true
  for _, node in ipairs(plain.nodes) do
    numel = numel + numel_of(node)
    single = single and node.shape == "[]"
  end
  local affordable = numel <= most_values and #plain.nodes <= 2000
  local with_values = affordable and (single or with_grads or #plain.nodes <= 200)
  local unfolded = torch._unfold(y, {values = with_values, gradients = with_grads and affordable})
  if path then
    svg(unfolded, path)
    return session.say(("wrote %d operations to %s"):format(#unfolded.nodes, columns.plain(path)))
  end
  if not unfolded.complete then session.say("the graph is too large to draw; its newest part:") end
  tree(unfolded, with_values, with_grads and unfolded.has_grads, session)
  if with_grads and not unfolded.has_grads then
    session.say(unfolded.freed_at and
      ("no gradients: backward freed this graph at %s, and what it began with is gone"):format(without_line(unfolded.freed_at)) or
      "no gradients: the graph is too large to compute them for a drawing")
  end
end

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
  local names = args:match("{(.*)}%s*$")
  local labels, n = {}, 0
  for name in (names or args:match(",%s*(.-)%s*$") or ""):gmatch("[^,]+") do
    n = n + 1
    labels[n] = name:match("^%s*([%a_][%w_.]*)%s*$")
  end
  local bad = false
  for i, w in pairs(worst) do bad = bad or w.gap > tolerance end
  session.say(("%s: %d elements, differences in %s"):format(bad and "gradients are WRONG" or "gradients agree", count, dtype))
  for i = 1, #inputs do
    local w = worst[i]
    if w and w.element then
      local text = ("%s%s worst: gradient %.6g, difference %.6g, off by %.1g"):format(
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
  if t:numel() == 1 then return text .. "  " .. number(t:double():item()) end
  local low, high = number(s.min), number(s.max)
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
  if text then session.say(columns.clip(("   %s  %s"):format(place(source, line), text), columns.window())) end
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
  local leaves, nodes = tensor_names()
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
  local leaves = tensor_names()
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
        session.say(unfolded.freed_at and ("   backward freed the graph at %s; give the code instead of the variable"):format(without_line(unfolded.freed_at))
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
  local leaves = tensor_names()
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
    name = "graph", usage = "%graph Y [grad|svg [FILE]]", example = "%graph loss grad",
    doc = "The operations that made a tensor, as a tree with values, or with gradients; svg draws it to a file.",
    run = graph,
  },
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
