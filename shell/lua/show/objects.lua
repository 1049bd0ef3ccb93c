-- Known objects at the prompt: modules as a tree with shapes and counts, optimisers, datasets, loaders,
-- errors and shapes. `short` gives one line, `whole` all of it; both nil for other values.
local torch = torch
local colour = require "shell.colour"
local text = require "shell.text"
local objects = {}

local thousands = text.thousands

local function bytes(n)
  if n < 1000 then return n .. " B" end
  for _, unit in ipairs {{1e9, "%.2f GB"}, {1e6, "%.1f MB"}, {1e3, "%.0f kB"}} do
    if n >= unit[1] then return unit[2]:format(n / unit[1]) end
  end
end
objects.bytes = bytes

local function count(n, word) return ("%s %s%s"):format(thousands(n), word, n == 1 and "" or "s") end

local function shape_of(t) return tostring(t.shape) end
local function dtype_of(t) return torch._show(t, {line = true, values = false}):match "^%S+" end

-- Pieces of text one after another, in as many lines as they need.
local function flow(parts, indent, width, out, gap)
  gap = gap or " "
  local line = indent
  for _, p in ipairs(parts) do
    if #line > #indent and text.width(line) + #gap + text.width(p) > width then
      out[#out + 1] = line
      line = indent
    end
    line = line .. (#line > #indent and gap or "") .. p
  end
  out[#out + 1] = line
end

-- --- modules ---

local function is_module(v) return type(v) == "table" and rawget(v, "_order") ~= nil end

local function class_of(v)
  local meta = debug.getmetatable(v)
  return type(meta) == "table" and type(rawget(meta, "_name")) == "string" and rawget(meta, "_name") or "Module"
end

local function extra_of(m)
  local f = m.extra_repr
  if type(f) ~= "function" then return "" end
  local ok, extra = pcall(f, m)
  return ok and type(extra) == "string" and text.visible(extra) or ""
end

-- A module (or a plain table that holds modules) as {name, class, extra, tensors, children, values}.
-- `seen` counts what is shared once.
local function look(v, name, seen, depth, params)
  local node = {name = name, tensors = {}, children = {}, values = 0}
  if is_module(v) then
    node.class, node.extra = class_of(v), extra_of(v)
  else
    node.class, node.extra = "", ""
  end
  if seen[v] then
    node.class, node.extra = node.class .. " (shared with " .. seen[v] .. ")", ""
    return node
  end
  seen[v] = name == "" and "the root" or name
  if depth > 30 then return node end
  local keys = rawget(v, "_order")
  if not keys then
    keys = {}
    for i = 1, rawlen(v) do keys[i] = i end
    local names = {}
    for k in next, v do
      if type(k) == "string" then names[#names + 1] = k end
    end
    table.sort(names)
    table.move(names, 1, #names, #keys + 1, keys)
  end
  local buffers, names = rawget(v, "_buffers") or {}, rawget(v, "_names") or {}
  for _, k in ipairs(keys) do
    local child = rawget(v, k)
    local key = names[k] or type(k) == "number" and ("[%d]"):format(k) or tostring(k)
    if torch.is_tensor(child) then
      local buffer = buffers[k] ~= nil
      local entry = {key = key, shape = shape_of(child), buffer = buffer, plain = not buffer and not params[child]}
      if seen[child] then
        entry.shared = seen[child]
      else
        seen[child] = name == "" and key or name .. "." .. key
        if params[child] then node.values = node.values + child:numel() end
      end
      node.tensors[#node.tensors + 1] = entry
    elseif type(child) == "table" and k ~= "_order" and k ~= "_buffers" and (is_module(child) or getmetatable(child) == nil) then
      local below = look(child, key, seen, depth + 1, params)
      if is_module(child) or #below.children > 0 or #below.tensors > 0 then
        node.children[#node.children + 1] = below
        node.values = node.values + below.values
      end
    end
  end
  return node
end

-- What two siblings must have in common to be shown as one.
local function likeness(node)
  local parts = {node.class, node.extra, node.values}
  for _, t in ipairs(node.tensors) do parts[#parts + 1] = t.key .. t.shape .. tostring(t.shared) end
  for _, c in ipairs(node.children) do parts[#parts + 1] = c.name .. likeness(c) end
  return table.concat(parts, "|")
end

local function folded(children)
  local out = {}
  for _, c in ipairs(children) do
    local last = out[#out]
    local like = likeness(c)
    if last and last.like == like and c.name:match "^%[%d+%]$" and last.last:match "^%[%d+%]$" then
      last.last, last.times = c.name, last.times + 1
    else
      out[#out + 1] = {like = like, node = c, last = c.name, times = 1}
    end
  end
  return out
end

local function tree_lines(node, lead, rest, out, width)
  local shapes = {}
  for _, t in ipairs(node.tensors) do
    shapes[#shapes + 1] = t.key .. " " .. t.shape .. (t.buffer and " (buffer)" or t.plain and " (no parameter)" or "") .. (t.shared and " (shared with " .. t.shared .. ")" or "")
  end
  local shown = table.concat(shapes, "  ")
  local label = lead .. (node.name ~= "" and node.name .. "  " or "") .. (node.times or "") .. node.class
  local values = node.values > 0 and "  " .. thousands(node.values) or ""
  local full = label .. (node.extra ~= "" and "(" .. node.extra .. ")" or "")
  local tail = (shown ~= "" and "  " .. shown or "") .. values
  if node.root then
    if text.width(full) + 2 + text.width(shown) <= width then
      out[#out + 1] = colour(label, "heading") .. full:sub(#label + 1) .. (shown ~= "" and "  " .. shown or "")
    else
      out[#out + 1] = colour(label, "heading")
      local parts = {}
      local extra = node.extra:gsub("%b{}", function(list) return (list:gsub(", ", "\0")) end)
      for part in (extra .. ", "):gmatch "(.-), " do parts[#parts + 1] = part ~= "" and part:gsub("%z", ", ") or nil end
      if #parts > 0 then flow(parts, "  ", width, out) end
      if #shapes > 0 then flow(shapes, "  ", width, out, "  ") end
    end
  elseif text.width(full .. tail) <= width then
    out[#out + 1] = full .. colour(tail, "faint")
  elseif text.width(label .. tail) <= width then
    out[#out + 1] = label .. colour(tail, "faint")
  else
    out[#out + 1] = text.cut(label, width - text.width(values)) .. colour(values, "faint")
    local indent = rest .. (#node.children > 0 and "│   " or "    ")
    local room, line = math.max(10, width - text.width(indent)), nil
    for _, s in ipairs(shapes) do
      if line and text.width(line) + 2 + text.width(s) > room then
        out[#out + 1] = indent .. colour(line, "faint")
        line = nil
      end
      line = line and line .. "  " .. s or text.cut(s, room)
    end
    if line then out[#out + 1] = indent .. colour(line, "faint") end
  end
  local list = folded(node.children)
  for i, f in ipairs(list) do
    local last = i == #list
    local c = f.node
    if f.times > 1 then
      c.times = ("%d x "):format(f.times)
      c.name = ("%s-%s]"):format(c.name:sub(1, -2), f.last:match "%d+")
      c.values = c.values * f.times
    end
    tree_lines(c, rest .. (last and "└ " or "├ "), rest .. (last and "  " or "│ "), out, width)
  end
end

local function totals(m)
  local Module = torch.nn.Module
  local list = Module.named_parameters(m)
  local n, frozen, size, device, dtype = 0, 0, 0, nil, nil
  for _, p in ipairs(list) do
    local t = p[2]
    local k = t:numel()
    n, size = n + k, size + k * t:element_size()
    if not t.requires_grad then frozen = frozen + k end
    local d, w = tostring(t.device), dtype_of(t)
    device = (device == nil or device == d) and d or "several devices"
    dtype = (dtype == nil or dtype == w) and w or "several dtypes"
  end
  return n, frozen, size, device, dtype
end

local function module_short(m)
  local n = totals(m)
  return colour(class_of(m), "type") .. (n > 0 and "  " .. count(n, "parameter") or "")
end

local function module_whole(m, _, options)
  local out = {}
  local params = {}
  for _, p in ipairs(torch.nn.Module.named_parameters(m)) do params[p[2]] = true end
  local root = look(m, "", {}, 0, params)
  root.root = true
  tree_lines(root, "", "", out, options.width)
  local n, frozen, size, device, dtype = totals(m)
  local parts = {count(n, "parameter")}
  if n > 0 then
    parts[#parts + 1] = dtype
    parts[#parts + 1] = bytes(size)
    if device ~= "cpu" then parts[#parts + 1] = device end
  end
  if frozen > 0 then parts[#parts + 1] = frozen == n and "all frozen" or thousands(frozen) .. " frozen" end
  if rawget(m, "training") == false then parts[#parts + 1] = "eval mode" end
  local total = table.concat(parts, ", ")
  -- A module without children shows everything on one line.
  if #out == 1 and text.width(out[1]) + 2 + #total <= options.width then return out[1] .. "  " .. colour(total, "faint") end
  out[#out + 1] = total
  return table.concat(out, "\n")
end

-- --- optimisers ---

local function is_optimizer(v, meta)
  return type(rawget(v, "param_groups")) == "table" and type(rawget(meta, "_step")) == "function" and rawget(meta, "_name")
end

local function options_of(group)
  local keys, parts = {}, {}
  for k, v in next, group do
    if k ~= "params" and type(k) == "string" and (type(v) ~= "table" or #v > 0) then keys[#keys + 1] = k end
  end
  table.sort(keys, function(a, b)
    if (a == "lr") ~= (b == "lr") then return a == "lr" end
    return a < b
  end)
  for _, k in ipairs(keys) do
    local v = group[k]
    if type(v) == "table" then
      local list = {}
      for i = 1, #v do list[i] = tostring(v[i]) end
      v = "{" .. table.concat(list, ", ") .. "}"
    end
    parts[#parts + 1] = k .. "=" .. tostring(v)
  end
  return parts
end

local function optimizer_head(v, meta)
  local tensors, values = 0, 0
  for _, g in ipairs(v.param_groups) do
    for _, p in ipairs(g.params) do
      tensors, values = tensors + 1, values + (torch.is_tensor(p) and p:numel() or 0)
    end
  end
  return colour(meta._name, "type") .. ("  %s, %s"):format(count(tensors, "tensor"), count(values, "value"))
end

local function optimizer_whole(v, meta, options)
  local out = {optimizer_head(v, meta)}
  local groups = v.param_groups
  for i, g in ipairs(groups) do
    if i > 12 then
      out[#out + 1] = colour(("  .. %d more groups"):format(#groups - 12), "faint")
      break
    end
    if #groups > 1 then out[#out + 1] = ("  group %d: %s"):format(i, count(#g.params, "tensor")) end
    flow(options_of(g), #groups > 1 and "    " or "  ", options.width, out)
  end
  return table.concat(out, "\n")
end

-- --- datasets and loaders ---

local function data_module() return package.loaded["torch.utils.data"] end

-- The library's own line, with the class in colour.
local function line_of(v, meta)
  local name = meta._name
  return colour(name, "type") .. tostring(v):sub(#name + 1)
end

local function loader_whole(l, meta)
  local ds = l.dataset
  local class = type(ds) == "table" and debug.getmetatable(ds)
  local name = type(class) == "table" and rawget(class, "_name")
  local from = "a dataset of the user's"
  if name then
    local ok, line = pcall(tostring, ds)
    from = rawget(class, "__tostring") and ok and text.lines(text.visible(line))[1] or name
    if from:sub(1, #name) == name then from = colour(name, "type") .. from:sub(#name + 1) end
  end
  return line_of(l, meta) .. "\n  from " .. from
end

local function class_short(c)
  return colour("class", "type") .. " " .. rawget(c, "_name")
end

-- --- choosing ---

local function kind_of(v, meta)
  if rawget(v, "__index") == v and type(rawget(v, "_name")) == "string" then return "class" end
  if is_module(v) and rawget(meta, "_name") then return "module" end
  if is_optimizer(v, meta) then return "optimizer" end
  local name = rawget(meta, "__name")
  if name == "error" and type(rawget(v, "message")) == "string" then return "error" end
  if name == "shape" then return "shape" end
  local data, class = package.loaded["torch.utils.data"], rawget(meta, "_name")
  if data and class and rawget(data, class) == meta and rawget(meta, "__tostring") then
    return meta == data.DataLoader and "loader" or "data"
  end
end

local shorts = {
  class = class_short,
  module = module_short,
  optimizer = optimizer_head,
  error = function(v)
    return colour(("error (%s): "):format(tostring(rawget(v, "kind"))), "error") .. text.cut(text.visible(rawget(v, "message")), 60)
  end,
  shape = function(v) return tostring(v) end,
  loader = line_of,
  data = line_of,
}

local wholes = {
  class = class_short,
  module = module_whole,
  optimizer = optimizer_whole,
  error = function(v)
    local head = colour(("error object, kind %s"):format(tostring(rawget(v, "kind"))), "error")
    local lines = text.lines(tostring(v))
    for i, line in ipairs(lines) do lines[i] = "  " .. text.visible(line) end
    return head .. "\n" .. table.concat(lines, "\n")
  end,
  shape = function(v) return tostring(v) end,
  loader = loader_whole,
  data = line_of,
}

-- An object that a user has bent out of shape is shown as the table it is.
local function guarded(f, ...)
  if not f then return nil end
  local ok, result = pcall(f, ...)
  if ok then return result end
end

---One line for an object that is known.
function objects.short(v, meta) return guarded(shorts[kind_of(v, meta) or ""], v, meta) end
---All lines for an object that is known.
function objects.whole(v, meta, options)
  return guarded(wholes[kind_of(v, meta) or ""], v, meta, options)
end

return objects
