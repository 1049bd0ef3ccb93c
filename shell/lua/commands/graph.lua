-- %graph: the operations that made a tensor, as a tree in the terminal or as a drawing.
local columns = require "shell.columns"
local commands = require "shell.commands"
local names = require "shell.graph_names"

local signs = {add = "+", sub = "-", mul = "*", div = "/", pow = "^", neg = "-", remainder = "%", floor_divide = "//"}

-- A value in a few characters: numbers as they are, tensors by their norm.
local function short(t)
  if not t then return "?" end
  if t:numel() == 1 then return names.number(t:double():item()) end
  return "norm " .. names.number(torch.no_grad(function() return t:double():norm():item() end))
end

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
  local leaves, nodes = names.tensors()
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
    if input.number then return names.number(input.number), "" end
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
      local here = names.place(node.source, node.line)
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
  local leaves, nodes = names.tensors()
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
      ("no gradients: backward freed this graph at %s, and what it began with is gone"):format(names.without_line(unfolded.freed_at)) or
      "no gradients: the graph is too large to compute them for a drawing")
  end
end

return {
  {
    name = "graph", usage = "%graph Y [grad|svg [FILE]]", example = "%graph loss grad",
    doc = "The operations that made a tensor, as a tree with values, or with gradients; svg draws it to a file.",
    run = graph,
  },
}
