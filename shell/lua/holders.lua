-- Who keeps tensors alive: a walk from the variables through tables, functions and coroutines that
-- gives each storage to the shortest path to it, then graphs and what the prompt itself keeps.
local holders = {}

local most_visits = 2000000  -- of values; those that can hold nothing count little
local most_path = 160
local most_graphs = 300

-- Globals that are not the user's: Lua's own, as they were at the start, and modules.
local standard = {}
for name in ([[_G _VERSION assert collectgarbage dofile error getmetatable ipairs load loadfile next pairs
  pcall print rawequal rawget rawlen rawset require select setmetatable tonumber tostring type warn xpcall coroutine
  debug io math os package string table utf8 torch]]):gmatch("%S+") do
  standard[name] = rawget(_ENV, name)
end

---Is the global one that the user made? (A standard name that was given another value is.)
function holders.is_users(name, value)
  if name == "arg" or standard[name] ~= nil and rawequal(standard[name], value) then return false end
  if type(value) == "function" then return debug.getinfo(value, "S").source:sub(1, 7) ~= "=shell/" end
  if type(value) ~= "table" then return true end
  for _, module in next, package.loaded do
    if rawequal(module, value) then return false end
  end
  return not rawequal(value, rawget(torch, name)) and not rawequal(value, rawget(torch.nn, "functional"))
end

local function step(path, key)
  if #path > most_path then return path:find("%.%.$") and path or path .. ".." end
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return path .. "." .. key end
  if math.type(key) == "integer" or type(key) == "boolean" then return ("%s[%s]"):format(path, key) end
  if type(key) == "string" then return ("%s[%q]"):format(path, #key > 20 and key:sub(1, 18) .. ".." or key) end
  return path .. "[..]"
end

local Walk = {}
Walk.__index = Walk

function Walk:push(parent, path, value, extra)
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" and kind ~= "thread" and not torch.is_tensor(value) then return end
  if kind ~= "userdata" then
    if self.seen[value] then return end
    self.seen[value] = true
  end
  local item = {parent = parent, path = path, value = value, bytes = 0, tensors = 0, device = {}}
  if parent then item.root, item.kind, item.cure = parent.root, parent.kind, parent.cure end
  for k, v in pairs(extra or {}) do item[k] = v end
  item.root = item.root or path
  self.queue[#self.queue + 1] = item
end

function Walk:claim(item, storage, bytes, device)
  if self.claimed[storage] then return end
  self.claimed[storage] = true
  local at = item
  while at do
    at.bytes, at.tensors = at.bytes + bytes, at.tensors + 1
    at.device[device] = (at.device[device] or 0) + bytes
    at = at.parent
  end
end

function Walk:tensor(item)
  local x = item.value
  local look = torch._inspect(x)
  item.leaf_value = true
  if look.storage_bytes > 4 * look.bytes and not self.claimed[look.storage] and item.kind ~= "result" then
    item.note = ("uses %s of it"):format(require("shell.columns").bytes(look.bytes))
    item.cure = ("%s = %s:clone()"):format(item.path, item.path)
  end
  local device = tostring(x.device)
  self:claim(item, look.storage, look.mapped and 0 or look.storage_bytes, device)
  if look.node then
    self.graphs[#self.graphs + 1] = {path = item.path, root = item.root, kind = item.kind, id = look.node.id,
      single = look.numel == 1, graph = torch._graph(x), device = device}
    if #self.graphs > 2 * most_graphs then self:forget_graphs() end
  end
  if look.grad then
    self:push(item, item.path .. ".grad", x.grad, {kind = item.kind or "grad", cure = item.path .. ".grad = nil"})
  end
end

-- The newest graphs hold what the older ones do.
function Walk:forget_graphs()
  table.sort(self.graphs, function(a, b) return a.id > b.id end)
  for i = #self.graphs, most_graphs + 1, -1 do self.graphs[i] = nil end
end

function Walk:run()
  local at = self.at
  while self.queue[at] and self.visits < most_visits do
    local item = self.queue[at]
    local value, kind = item.value, type(item.value)
    item.value = nil
    self.visits = self.visits + 1
    if kind == "userdata" then
      item.value = value
      self:tensor(item)
      item.value = nil
    elseif kind == "table" then
      for k, v in next, value do
        local kind_of = type(v)
        if kind_of == "table" or kind_of == "userdata" or kind_of == "function" or kind_of == "thread" then
          self.visits = self.visits + 1
          self:push(item, step(item.path, k), v)
        else
          self.visits = self.visits + 0.1
        end
        if torch.is_tensor(k) then self:push(item, item.path .. " (key)", k) end
        if self.visits > most_visits then break end
      end
      local meta = debug.getmetatable(value)
      if type(meta) == "table" and not package.loaded[meta] then self:push(item, "metatable of " .. item.path, meta) end
    elseif kind == "function" then
      for i = 1, 255 do
        local name, v = debug.getupvalue(value, i)
        if not name then break end
        if name ~= "_ENV" then self:push(item, ("%s in %s"):format(name == "" and "a value" or name, item.path), v, {cure = item.cure or item.path .. " = nil"}) end
      end
    elseif kind == "thread" then
      for level = 0, 50 do
        if not debug.getinfo(value, level, "l") then break end
        for i = 1, 200 do
          local name, v = debug.getlocal(value, level, i)
          if not name then break end
          self:push(item, ("%s in %s"):format(name, item.path), v, {cure = item.cure or item.path .. " = nil"})
        end
      end
    end
    self.finished[#self.finished + 1] = item
    at = at + 1
  end
  self.at = at
end

-- From a root to the place that holds nearly all of it.
local function descend(item, children)
  while true do
    local best
    for _, child in ipairs(children[item] or {}) do
      if not best or child.bytes > best.bytes then best = child end
    end
    if not best or best.bytes < 0.9 * item.bytes then return item end
    item = best
  end
end

---What holds tensors, largest first: {path=, bytes=, device=, tensors=, root=, kind=, cure=, note=}.
---@param results table[]|nil what the prompt keeps: {number=, value=}
function holders.find(results)
  local walk = setmetatable({queue = {}, at = 1, seen = {}, claimed = {}, graphs = {}, visits = 0, finished = {}}, Walk)
  for _, module in pairs(package.loaded) do
    if type(module) == "table" and module ~= _G then walk.seen[module] = true end
  end
  walk.seen[_G] = true
  -- Plain variables first, views last of them: they name their storage best.
  local roots = {}
  for name, value in next, _G do
    if holders.is_users(name, value) then
      local look = torch._inspect(value)
      local path = type(name) == "string" and name:find("^[%a_][%w_]*$") and name or step("_G", name)
      roots[#roots + 1] = {name = path, value = value, rank = not look and 3 or look.base and 2 or 1}
    end
  end
  table.sort(roots, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.name < b.name
  end)
  for _, root in ipairs(roots) do walk:push(nil, root.name, root.value) end
  local names = package.loaded["shell.names"]
  for name, value in pairs(names and names.constants or {}) do walk:push(nil, name, value[1]) end
  walk:run()
  for _, result in ipairs(results or {}) do
    walk:push(nil, "_" .. result.number, result.value, {kind = "result", cure = "%free"})
  end
  walk:run()
  for name, module in pairs(package.loaded) do
    if type(module) == "table" and module ~= _G and not name:find("^shell%.") and not name:find("^torch") and standard[name] == nil then
      walk.seen[module] = nil
      walk:push(nil, ("module %q"):format(name), module, {cure = ("%%reload %s"):format(name)})
    end
  end
  walk:run()
  local children, out = {}, {}
  for _, item in ipairs(walk.finished) do
    if item.parent and item.bytes > 0 then
      children[item.parent] = children[item.parent] or {}
      table.insert(children[item.parent], item)
    end
  end
  for _, item in ipairs(walk.finished) do
    if not item.parent and item.bytes > 0 then
      local deepest = descend(item, children)
      local most
      for device, bytes in pairs(deepest.device) do
        if not most or bytes > deepest.device[most] then most = device end
      end
      out[#out + 1] = {path = deepest.path, bytes = deepest.bytes, device = most, tensors = deepest.tensors, root = item.root,
        kind = deepest.kind, cure = deepest.cure or (deepest.path:find("%.%.$") and item.root or deepest.path) .. " = nil", note = deepest.note}
    end
  end
  walk:forget_graphs()
  for _, graph in ipairs(walk.graphs) do
    local item = {bytes = 0, tensors = 0, device = {}}
    for storage, bytes in pairs(graph.graph.saved) do walk:claim(item, storage, bytes, graph.device) end
    for storage, bytes in pairs(graph.graph.leaves) do walk:claim(item, storage, bytes, graph.device) end
    if item.bytes > 0 then
      local p = graph.path
      out[#out + 1] = {path = "graph of " .. p, bytes = item.bytes, device = graph.device, tensors = item.tensors, root = graph.root,
        kind = "graph",
        cure = graph.kind == "result" and "%free" or graph.single and ("%s = %s:item()"):format(p, p) or ("%s = %s:detach()"):format(p, p)}
    end
  end
  table.sort(out, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return a.path < b.path
  end)
  return out, walk.visits >= most_visits
end

return holders
