-- A network as a tree: finding and replacing parts by name, copies, and its text, PyTorch's under
-- set_printoptions{style="pytorch"}.
local torch = torch
local error = torch._raise
local tree = {}

-- A part of a name ("0", "fc") as the key of a module's or plain table's field.
local function step(owner, part)
  local v = rawget(owner, part)
  if v ~= nil then return v, part end
  local names = rawget(owner, "_names")
  for i, n in ipairs(names or {}) do
    if n == part then return rawget(owner, i), i end
  end
  local i = math.tointeger(tonumber(part))
  if i then return rawget(owner, i + 1), i + 1 end
end

local function find(self, name, what)
  local at, owner, key = self, nil, nil
  for part in tostring(name):gmatch "[^.]+" do
    owner = at
    at, key = step(at, part)
    if at == nil or (type(at) ~= "table" and not torch.is_tensor(at)) then
      error(('%s: there is no "%s" in this %s (no "%s")'):format(what, name, self._name, part), 3)
    end
    if torch.is_tensor(at) and name:sub(-#part) ~= part then
      error(('%s: "%s" in "%s" is a tensor'):format(what, part, name), 3)
    end
  end
  return at, owner, key
end

-- A deep copy: tensors are copied, what is shared inside stays shared.
local function copy(v, Module, made)
  if torch.is_tensor(v) then
    if not made[v] then
      made[v] = Module.is_parameter(v) and Module.Parameter(v:detach():clone(), v.requires_grad) or v:detach():clone()
      if v.is_leaf and v.requires_grad then made[v].requires_grad = true end
    end
    return made[v]
  end
  if type(v) ~= "table" then return v end
  if made[v] then return made[v] end
  local meta = getmetatable(v)
  if meta ~= nil and not Module.is_module(v) then return v end
  local out = {}
  made[v] = out
  for k, one in next, v do
    if k == "_hooks" then  -- the same functions in lists of its own
      out[k] = {}
      for where, list in next, one do out[k][where] = table.move(list, 1, #list, 1, {}) end
    else
      out[k] = copy(one, Module, made)
    end
  end
  return setmetatable(out, meta)
end

local find_text = string.find
local function indented(text) return find_text(text, "\n", 1, true) and (text:gsub("\n", "\n  ")) or text end

-- The lines of children; equal neighbours of a list are one line: "(0-1): 2 x Linear(..)".
local function child_lines(children, fold)
  local texts = {}
  for k = 1, #children do
    local child = children[k]
    local text = tostring(child[2])
    texts[k] = fold and text or "(" .. child[1] .. "): " .. indented(text)
  end
  if not fold then return texts end
  local lines, i = {}, 1
  while i <= #children do
    local text, name, last = texts[i], children[i][1], i
    while texts[last + 1] == text do last = last + 1 end
    if last > i then
      lines[#lines + 1] = ("(%s-%s): %d x %s"):format(name, children[last][1], last - i + 1, indented(text))
    else
      lines[#lines + 1] = "(" .. name .. "): " .. indented(text)
    end
    i = last + 1
  end
  return lines
end

-- ParameterList and ParameterDict show their tensors.
local function parameter_lines(self)
  local lines = {}
  for _, k in ipairs(self._order) do
    local v = rawget(self, k)
    if torch.is_tensor(v) then
      local sizes = {}
      for d = 1, v.ndim do sizes[d] = tostring(v:size(d)) end
      lines[#lines + 1] = ("  (%s): Parameter containing: [%s of size %s]"):format(type(k) == "number" and k - 1 or k,
        tostring(v.dtype), table.concat(sizes, "x"))
    end
  end
  return lines
end

-- Modules whose text is being made: one that is below itself shows as "Name(..)" there.
local showing = setmetatable({}, {__mode = "k"})
local shown_meta = {__close = function(shown) showing[shown[1]] = nil end}

-- Without any, a module has no children: most have none.
local function holds_tables(module)
  local order = module._order
  for i = 1, #order do
    if type(rawget(module, order[i])) == "table" then return true end
  end
  return false
end

function tree.install(Module, Class)
  ---The module at a name with dots ("layers.0.fc", as in state_dict); "" is the module itself.
  function Class:get_submodule(name)
    local found = find(self, name, "get_submodule")
    if not Module.is_module(found) then error(('get_submodule: "%s" is no module'):format(name), 2) end
    return found
  end
  ---The parameter at a name with dots ("layers.0.fc.weight").
  function Class:get_parameter(name)
    local found, owner, key = find(self, name, "get_parameter")
    if not torch.is_tensor(found) or not Module.parameter_at(owner, key, found) then
      error(('get_parameter: "%s" is no parameter'):format(name), 2)
    end
    return found
  end
  ---The buffer at a name with dots ("norm.running_mean").
  function Class:get_buffer(name)
    local found, owner, key = find(self, name, "get_buffer")
    if not torch.is_tensor(found) or not Module.is_buffer(owner, key) then
      error(('get_buffer: "%s" is no buffer'):format(name), 2)
    end
    return found
  end
  ---Replaces the module at a name with dots.
  function Class:set_submodule(name, module)
    local _, owner, key = find(self, name, "set_submodule")
    owner[key] = module
  end
  ---A deep copy with tensors of its own; tied weights stay tied.
  function Class:clone() return copy(self, Module, {}) end

  function Class:_text()
    if showing[self] then return self._name .. "(..)" end
    local extra, lines = self:extra_repr(), nil
    local children = holds_tables(self) and self:named_children()
    if children and #children > 0 then
      showing[self] = true
      local shown <close> = setmetatable({self}, shown_meta)
      lines = child_lines(children, self._name == "ModuleList" and rawget(getmetatable(self), "_item"))
    elseif self._name == "ParameterList" or self._name == "ParameterDict" then
      extra = table.concat(parameter_lines(self), "\n")
    end
    local python = rawget(self, "_python_name")
    local name = python and torch._print_options "pytorch" and python or self._name
    if not lines and not find_text(extra, "\n", 1, true) then return name .. "(" .. extra .. ")" end
    local below = lines and table.concat(lines, "\n  ") or ""
    if extra ~= "" then below = indented(extra) .. (lines and "\n  " or "") .. below end
    return name .. "(\n  " .. below .. "\n)"
  end
end

return tree
