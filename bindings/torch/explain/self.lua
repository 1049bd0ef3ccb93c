-- Methods with a wrong `self`: called with a point (net.train()), or on what their class does not know
-- (torch.nn.Linear.to(3)). They fail somewhere inside; while their stack stands, the functions on it tell which method it
-- was and what it was given, and the user's line tells what was meant. What else of Lua's own goes wrong inside torch
-- becomes an error object that names the function.
local torch = torch
local words = require("torch.messages").words

local function of_torch(source) return source:find "^=torch/" ~= nil or source:find "^=shell/" ~= nil end

-- --- whose method a function is ---

-- Function -> {class, name}; class -> what it is called. Found by walking through all that torch's parts hold.
local owner, label, classes, walked

local function walk()
  local weak = {__mode = "k"}
  owner, label, classes = setmetatable({}, weak), setmetatable({}, weak), setmetatable({}, weak)
  local seen, queue = {[_G] = true}, {}
  local function push(v)
    local kind = type(v)
    if (kind == "table" or kind == "function") and not seen[v] then
      seen[v] = true
      queue[#queue + 1] = v
    end
  end
  for name, part in next, package.loaded do
    if type(name) == "string" and name:find "^torch" then push(part) end
  end
  for key, meta in next, debug.getregistry() do
    if type(key) == "string" and key:find "^tycho%." and type(meta) == "table" then
      label[meta] = key:match "([%a_]+)$"
      push(meta)
      push(rawget(meta, "__index"))
      if type(rawget(meta, "__index")) == "table" then label[meta.__index] = label[meta] end
    end
  end
  local at = 1
  while queue[at] and at < 60000 do
    local v = queue[at]
    at = at + 1
    if type(v) == "function" then
      local info = debug.getinfo(v, "S")
      if info.what == "C" or of_torch(info.source) then
        for i = 1, 255 do
          local name, value = debug.getupvalue(v, i)
          if not name then break end
          push(value)
        end
      end
    else
      local meta = debug.getmetatable(v)
      if not (meta and rawget(meta, "__mode")) then  -- no walk through what users have made
        local base, index = rawget(v, "_base"), rawget(v, "__index")
        if base ~= nil or index ~= nil then classes[v] = true end
        for _, t in ipairs {base or index, index} do
          if type(t) == "table" then classes[t] = true end
        end
        for key, value in next, v do
          if type(key) == "string" then
            if type(value) == "function" then
              local before = owner[value]
              if not before or classes[v] and not classes[before.class] then owner[value] = {class = v, name = key} end
            elseif type(value) == "table" and key:find "^%u" and not label[value] then
              label[value] = key
            end
          end
          push(value)
        end
        push(meta)
      end
    end
  end
end

local function method_of(f)
  local parts = 0
  for _ in next, package.loaded do parts = parts + 1 end
  if parts ~= walked then
    walked = parts
    walk()
  end
  local known = owner[f]
  return known, known and classes[known.class]
end

local function name_of(class)
  local name = rawget(class, "_name") or label[class] or rawget(class, "__name")
  return type(name) == "string" and name or nil
end

-- The tables that a value finds its methods in: its metatable's, and those behind.
local function lookup(v, visit)
  local meta = debug.getmetatable(v)
  for _ = 1, 12 do
    if type(meta) ~= "table" then return nil end
    if visit(meta) then return meta end
    local index = rawget(meta, "__index")
    if type(index) == "table" and index ~= meta then
      if visit(index) then return index end
      meta = debug.getmetatable(index) or rawget(index, "_base")
    else
      meta = rawget(meta, "_base") or debug.getmetatable(meta)
    end
  end
end

local function is_object(v, class)
  if type(v) ~= "table" and type(v) ~= "userdata" then return false end
  if type(v) == "table" and rawget(v, "__index") ~= nil then return false end  -- a class
  return lookup(v, function(t) return t == class end) ~= nil
end

local function described(v)
  if v == nil then return "nil" end
  if torch.is_tensor(v) then return ("a tensor of shape [%s]"):format(table.concat(v.shape, ", ")) end
  local kind = type(v)
  if kind == "number" then return "the number " .. tostring(v) end
  if kind == "boolean" then return tostring(v) end
  if kind == "string" then return "the text " .. ("%q"):format(#v > 30 and v:sub(1, 30) .. ".." or v):gsub("\n", "n") end
  if kind == "table" and rawget(v, "__index") ~= nil and name_of(v) then return "the class " .. name_of(v) end
  local meta = debug.getmetatable(v)
  local name = type(meta) == "table" and (rawget(meta, "_name") or rawget(meta, "__name"))
  return "a " .. (type(name) == "string" and name:gsub("^tycho%.", "") or kind)
end

-- --- what the user's line says ---

-- The value of a name or of fields of one, in a function on the stack; nothing of the user's is run.
local function value_of(node, variable)
  if node.kind == "name" then return variable(node.name) end
  if node.kind ~= "field" and node.kind ~= "index" then return nil end
  local v, key = value_of(node.object, variable), node.name or node.key and tonumber(node.key.text)
  if type(v) ~= "table" or key == nil then return nil end
  local found = rawget(v, key)
  if found == nil then lookup(v, function(t) found = rawget(t, key) return found ~= nil end) end
  return found
end

-- The call with a point to a function of that name, in the user's line: its node and the object before the point.
local function written(call, name, line, variable)
  for _, node in ipairs(call and call.nodes or {}) do
    local f = node.kind == "call" and not node.method and node.called
    if f and f.kind == "field" and f.name == name and node.from <= line and node.line >= line then return node, value_of(f.object, variable) end
  end
end

local function object(message, op, frame)
  local err = setmetatable({kind = "argument", op = op, message = message, hint = "", where = "", _code = "ARG-0"}, debug.getregistry()["tycho.error"])
  if not frame then return err end
  local full = torch._chunks[frame.short_src] and "=" .. frame.short_src or frame.source
  err.where = ("%s:%d"):format(frame.short_src, frame.currentline)
  err._call = ("S %d %s\n"):format(frame.currentline, full)
  return err, require("torch.explain.call").read(err)
end

-- A function on the stack whose first parameter is no object of the class that it is a method of: what it is called and
-- what it got. `own`: the error is Lua's; else only values that are no objects at all count.
local function misused(info, name, self, own)
  if name ~= "self" and info.what ~= "C" then return nil end  -- most functions: the walk takes milliseconds
  local known, sure = method_of(info.func)
  local bare = type(self) ~= "table" or debug.getmetatable(self) == nil or rawget(self, "__index") ~= nil
  if sure and (name == "self" or info.what == "C") then
    if (own or bare) and not is_object(self, known.class) then return {info = info, name = known.name, class = name_of(known.class), self = self} end
  elseif not known and name == "self" and info.name and bare and not of_torch(info.source) then
    return {info = info, name = info.name, theirs = true, self = self}
  end
end

-- Has the object this method, and is it not what the method got?
local function was_meant(before, method)
  if type(before) ~= "table" or rawget(before, "__index") ~= nil or rawequal(before, method.self) then return false end
  return lookup(before, function(t) return rawequal(rawget(t, method.name), method.info.func) end) ~= nil
end

-- --- methods that an object has not ---

-- What other libraries call otherwise, by the class's name or a method that it has.
local elsewhere = {
  DataLoader = {next = "loader()() gives the first batch; for x, y in loader() do goes through all", iter = "for x, y in loader() do goes through all"},
  Module = {predict = "net(x) calls it; net:eval() comes first", fit = "a loop over batches trains: opt:zero_grad() loss:backward() opt:step()",
    summary = "print(net) shows its parts", save = "torch.save(net:state_dict(), path)", evaluate = "net:eval() switches dropout and batch norm"},
  Optimizer = {zerograd = "opt:zero_grad()"},
}

local function methods_of(v)
  local out = {}
  for k, f in next, v do
    if type(k) == "string" and type(f) == "function" then out[k] = true end
  end
  lookup(v, function(t)
    for k, f in next, t do
      if type(k) == "string" and k:sub(1, 1) ~= "_" and type(f) == "function" and k ~= "init" then out[k] = true end
    end
    return false
  end)
  return out
end

-- An error object for a method of that name, which the object in the user's line has not.
local function unknown_method(name, user, variable)
  local err, call = object("", name, user)
  for _, node in ipairs(call and call.nodes or {}) do
    if node.kind == "call" and node.method and node.name == name and node.from <= user.currentline and node.line >= user.currentline then
      local v = value_of(node.called, variable)
      local meta = type(v) == "table" and debug.getmetatable(v)
      if not meta then return nil end
      local known, what = methods_of(v), call:code(node.called)
      local class = rawget(meta, "_name") or rawget(v, "_name") or rawget(meta, "__name")
      local here = elsewhere[class] or known.zero_grad and known.step and elsewhere.Optimizer or known.forward and known.parameters and elsewhere.Module or {}
      local near = require("torch.explain.names").nearest(name, known)
      err.message = words.no_such_method:format(type(class) == "string" and class or "object", what, name)
      if here[name] then
        err.hint = here[name]
      elseif near[1] then
        for i, n in ipairs(near) do near[i] = what .. ":" .. n end
        err.hint = words.mean_name:format(table.concat(near, ", "))
      else
        local list = {}
        for n in pairs(known) do list[#list + 1] = n end
        table.sort(list)
        if #list == 0 or #list > 20 then return nil end
        err.hint = words.has_methods:format(table.concat(list, ", "))
      end
      err._call = err._call .. ("P %d %d\n"):format(node.first, node.last)
      err._code = "NAME-1"
      return err
    end
  end
end

---An error object for what a wrong self, or wrong arguments of a function of torch written in Lua, made fail; nil when
---it was something else.
---@param failure any the error: a text of Lua's own, or an error object
---@param thread? thread the coroutine that it ended; the running one when nil
---@param above? integer functions of ours between what failed and the handler that called this
return function(failure, thread, above)
  local own = type(failure) == "string"
  -- Levels as seen from this function; below it stands the handler that called it.
  local function info_at(n) if thread then return debug.getinfo(thread, n, "fSln") end return debug.getinfo(n + 1, "fSln") end
  local function local_at(n, i) if thread then return debug.getlocal(thread, n, i) end return debug.getlocal(n + 1, i) end
  local first = thread and 0 or 3 + (above or 0)
  local absent = own and failure:match "attempt to call a nil value %(method '([%a_][%w_]*)'%)$"
  local info = absent and info_at(first)
  if info and info.what ~= "C" and not of_torch(info.source) then
    if require("torch.explain.names").from_text(failure) then return nil end
    local seen = {}
    for i = 1, 255 do
      local n, v = debug.getupvalue(info.func, i)
      if not n then break end
      seen[n] = v
    end
    for i = 1, 250 do
      local n, v = local_at(first, i)
      if not n then break end
      seen[n] = v
    end
    return unknown_method(absent, info, function(name)
      if seen[name] ~= nil then return seen[name] end
      return rawget(_G, name)
    end)
  end
  local method, user, variables, entered
  for level = first, first + 60 do
    local info = info_at(level)
    if not info or info.func == pcall or info.func == xpcall then break end
    if own and level == first and (info.func == error or info.func == assert) then return nil end  -- somebody's own text
    local name, value = local_at(level, 1)
    local wrong = misused(info, name, value, own)
    if wrong then
      method, user = wrong, nil
    elseif info.what ~= "C" and not of_torch(info.source) and not user then
      user, variables = info, {}
      for i = 1, 250 do
        local n, v = local_at(level, i)
        if not n then break end
        variables[n] = v
      end
      if not method and not entered then return nil end
    elseif not user and info.what ~= "C" then
      entered = info
    end
    if not entered and not method and info.what ~= "C" then return nil end
  end
  if not method then
    if not own or not entered then return nil end
    local known, sure = method_of(entered.func)
    local name = known and (sure and name_of(known.class) and name_of(known.class) .. ":" or "") .. known.name or entered.name or "torch"
    local why = failure:match "^torch/[%w_/]+%.lua:%d+: ([^\n]*)" or failure:match "^[^\n]*"
    return (object(words.wrong_arguments:format(name, why), name, user))
  end
  local err, call = object("", method.name, user)
  local node, before = nil, nil
  if user then
    node, before = written(call, method.name, user.currentline, function(name)
      if variables[name] ~= nil then return variables[name] end
      for i = 1, 255 do
        local n, v = debug.getupvalue(user.func, i)
        if not n then break end
        if n == name then return v end
      end
      return rawget(_G, name)
    end)
  end
  if was_meant(before, method) then
    local f = node.called
    err.message = words.colon:format(call:code(f), call:code(f.object))
    err._call = err._call .. ("P %d %d\n"):format(node.first, node.last)
    err._code = "ARG-3"
    err._fixes = {{code = call:code(f.object) .. ":" .. f.name .. call:code(node):sub(f.last - node.first + 2)}}
    return err
  end
  if method.theirs then return nil end
  local class = classes[before] and name_of(before) or method.class or "object"
  err.message = words.wrong_self:format(class, method.name, class, described(method.self))
  err.hint = words.right_self:format(method.name)
  return err
end
