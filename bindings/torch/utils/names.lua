-- What every thread's torch and Lua have under a name: functions, classes and tables that therefore need
-- not be copied when a dataset goes to a worker. A name is a path: the module to require, then keys ("k"),
-- variables of a function by their number ("u"), or a metatable ("m").
local names = {env = _ENV}

local libraries = {"string", "table", "math", "io", "os", "debug", "coroutine", "utf8", "package"}
local left_out = {loaded = true, preload = true, _chunks = true, _G = true}

local function is_ours(f) return debug.getinfo(f, "S").source:sub(1, 7) == "=torch/" end

local kept, kept_modules  -- the last answer, and how many modules were loaded then

---A table from values (functions, tables, objects) to their names. What users added to torch is not in it.
function names.known()
  local modules = 0
  for _ in next, package.loaded do modules = modules + 1 end
  if modules == kept_modules then return kept end
  local known, queue = {}, {}
  local globals = _G
  local function add(value, path, only_c)
    local kind = type(value)
    if kind ~= "table" and kind ~= "function" and kind ~= "userdata" then return end
    if value == globals or value == names.env or known[value] then return end
    if kind == "userdata" and torch.is_tensor(value) then return end
    if kind == "function" and debug.getinfo(value, "S").what ~= "C" and not (is_ours(value) and not only_c) then return end
    known[value] = path
    queue[#queue + 1] = value
  end
  for name, value in next, names.env do
    if type(name) == "string" and type(value) == "function" then add(value, "\1k" .. name) end
  end
  for _, name in ipairs(libraries) do add(package.loaded[name], name) end
  -- What hangs in tables first, from torch on, where looking a name up loads what is loaded lazily; then modules,
  -- the shortest name first: several have one table, which only the one named like it completes; last what only
  -- functions hold.
  local at, functions = 0, {}
  local function walk()
    while at < #queue do
      at = at + 1
      local value = queue[at]
      local path = known[value]
      if type(value) == "table" then
        for k, v in next, value do
          if type(k) == "string" and not left_out[k] then add(v, path .. "\1k" .. k) end
        end
        local meta = debug.getmetatable(value)
        if meta then add(meta, path .. "\1m") end
      elseif type(value) == "function" and debug.getinfo(value, "S").what ~= "C" then
        functions[#functions + 1] = value
      end
    end
  end
  add(package.loaded.torch, "torch")
  walk()
  local ours, others = {}, {}
  for name, module in next, package.loaded do
    if type(name) == "string" and name:sub(1, 6) == "torch." then
      ours[#ours + 1] = name
    elseif type(name) == "string" and type(module) == "table" and name ~= "_G" and name ~= "torch" and name:sub(1, 6) ~= "shell." then
      others[name] = module
    end
  end
  table.sort(ours, function(p, q) return #p < #q or #p == #q and p < q end)
  for _, name in ipairs(ours) do add(package.loaded[name], name) end
  walk()
  local done = 0
  while done < #functions do
    done = done + 1
    local i, f = 1, functions[done]
    while true do
      local name, v = debug.getupvalue(f, i)
      if not name then break end
      add(v, ("%s\1u%d"):format(known[f], i))
      i = i + 1
    end
    walk()
  end
  -- Functions of C libraries that the user required: the other state requires them, too.
  for name, module in next, others do
    for k, v in next, module do
      if type(k) == "string" and type(v) == "function" and debug.getinfo(v, "S").what == "C" then add(v, name .. "\1k" .. k, true) end
    end
  end
  kept, kept_modules = known, modules
  return known
end

---The value that has this name here, or nil.
---@param path string
function names.find(path)
  local module, rest = path:match("^([^\1]*)(.*)$")
  local value
  if module == "" then
    value = names.env
  else
    value = package.loaded[module] or require(module)
  end
  for kind, step in rest:gmatch("\1(.)([^\1]*)") do
    if kind == "k" then
      if type(value) ~= "table" then return nil end
      value = value[step]
    elseif kind == "u" then
      if type(value) ~= "function" then return nil end
      local _, v = debug.getupvalue(value, tonumber(step))
      value = v
    else
      value = debug.getmetatable(value)
    end
  end
  return value
end

---The same for what another machine names: a class of torch's own, else nil.
---@param path string
function names.find_class(path)
  local module = path:match("^[^\1]*")
  if module ~= "torch" and module:sub(1, 6) ~= "torch." then return nil end
  local ok, value = pcall(names.find, path)
  if ok and type(value) == "table" then return value end
end

return names
