-- Commands about variables and memory: %who, %mem, %free.
local columns = require "shell.columns"
local holders = require "shell.holders"
local T = require("torch.language").text

local most_rows = 60

local function from(session, name)
  local n = session.origin and session.origin(name)
  return n and ("[%d]"):format(n) or ""
end

-- A name pattern as people write it: W*, ?x; without these, any part of the name.
local function matcher(pattern)
  if pattern == "" then return function() return true end end
  local lua = pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
  if pattern:find("[%*%?]") then lua = "^" .. lua .. "$" end
  return function(name) return name:find(lua) ~= nil end
end

local function user_values()
  local list = {}
  for name, value in next, _G do
    if holders.is_users(name, value) then list[#list + 1] = {name = tostring(name), value = value} end
  end
  local names = package.loaded["shell.names"]
  for name, value in pairs(names and names.constants or {}) do
    list[#list + 1] = {name = name, value = value[1], constant = true}
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Of all tensors that share a storage, the one that the others are views of.
local function owners(list)
  local by_id, owner = {}, {}
  for _, each in ipairs(list) do
    if torch.is_tensor(each.value) then
      local look = torch._inspect(each.value)
      each.look = look
      by_id[look.id] = by_id[look.id] or each.name
      local now = owner[look.storage]
      local better = not now or (now.base and not look.base) or
        (not look.base == not now.base and look.bytes == look.storage_bytes and now.bytes < look.bytes)
      if better then owner[look.storage] = {name = each.name, base = look.base, bytes = look.bytes, id = look.id} end
    end
  end
  return by_id, owner
end

local function tensor_row(each, by_id, owner, session)
  local look, x, notes = each.look, each.value, {}
  local own = owner[look.storage]
  local view = look.base or (own.name ~= each.name and own.id ~= look.id)
  local kind = view and "view" or look.requires_grad and (look.leaf and "leaf" or "node") or "tensor"
  if view then
    local of = by_id[look.base] or own.name
    notes[#notes + 1] = of ~= each.name and "of " .. of or T("of %s"):format(columns.bytes(look.storage_bytes))
  elseif own.name ~= each.name then
    kind, notes[#notes + 1] = "same", "as " .. own.name
  end
  if look.mapped then notes[#notes + 1] = T"in a mapped file" end
  if look.grad then notes[#notes + 1] = T"grad set" end
  if look.node and look.node.saved > 0 then
    notes[#notes + 1] = look.node.freed and T"graph freed" or T("%d saved for backward"):format(look.node.saved)
  end
  if each.constant then notes[#notes + 1] = "const" end
  local counted = own.name == each.name and not look.base
  return {
    each.name, kind, look.dtype, tostring(x.shape), tostring(x.device),
    counted and columns.bytes(look.bytes) or "-", from(session, each.name), table.concat(notes, ", "),
  }
end

local function parameters(module)
  local ok, list = pcall(function() return module:parameters() end)
  if not ok or type(list) ~= "table" then return nil end
  local values, bytes = 0, 0
  for _, p in ipairs(list) do
    local look = torch._inspect(p)
    if look then values, bytes = values + look.numel, bytes + look.bytes end
  end
  return #list, values, bytes
end

local function other_row(each, session)
  local value = each.value
  local kind, what, bytes = math.type(value) or type(value), columns.describe(value), ""
  if kind == "integer" or kind == "float" then kind, what = "number", tostring(value) end
  if kind == "function" then
    local info = debug.getinfo(value, "S")
    what = info.what == "C" and T"built in" or ("%s:%d"):format(info.short_src, info.linedefined)
  elseif kind == "table" and rawget(value, "_order") then
    local n, values, size = parameters(value)
    kind, what = "module", what .. (n and T(", %d parameters, %d values"):format(n, values) or "")
    bytes = size and columns.bytes(size) or ""
  elseif kind == "userdata" then
    local meta = debug.getmetatable(value)
    local name = type(meta) == "table" and rawget(meta, "__name")
    if name == "device" or name == "dtype" then kind, what = name, tostring(value) end
  elseif kind == "thread" then
    kind, what = "coroutine", coroutine.status(value)
  end
  if each.constant then what = what .. ", const" end
  return {each.name, kind, "", "", "", bytes, from(session, each.name), what}
end

local heads = {
  {title = "name"}, {title = "kind", drop = 2}, {title = "dtype"}, {title = "shape"}, {title = "device", drop = 3},
  {title = "bytes", right = true, drop = 1}, {title = "from", drop = 4}, {title = "notes", drop = 5, cut = true},
}

local function who(args, session)
  if args:find("%s") then return T"it takes one name or pattern" end
  local fits, list = matcher(args), user_values()
  local by_id, owner = owners(list)
  local tensors, others, more = {}, {}, 0
  for _, each in ipairs(list) do
    if fits(each.name) then
      if #tensors + #others >= most_rows and not each.look then
        more = more + 1
      elseif #tensors >= most_rows then
        more = more + 1
      elseif each.look then
        tensors[#tensors + 1] = tensor_row(each, by_id, owner, session)
      else
        others[#others + 1] = other_row(each, session)
      end
    end
  end
  for i, row in ipairs(tensors) do row[1] = columns.clip(columns.plain(row[1]), 30) tensors[i] = row end
  local rows = table.move(others, 1, #others, #tensors + 1, tensors)
  if #rows == 0 then return session.say(args == "" and T"no variables yet" or T("no variable fits %q"):format(args)) end
  local has_device = false
  for _, row in ipairs(rows) do has_device = has_device or row[5] ~= "" and row[5] ~= "cpu" end
  if not has_device then
    for _, row in ipairs(rows) do row[5] = "" end
  end
  session.say(columns.table(heads, rows))
  if more > 0 then session.say(T("and %d more; %%who PATTERN shows some"):format(more)) end
end

local function memory_free()
  local file = io.open("/proc/meminfo", "r")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  local kb = text:match("MemAvailable:%s*(%d+)")
  return kb and tonumber(kb) * 1024
end

local function device_list()
  local list = {{name = "cpu", used = torch.memory_allocated(), reserved = torch.memory_reserved()}}
  for i = 0, torch.cuda.device_count() - 1 do
    local name = "cuda:" .. i
    list[#list + 1] = {name = name, used = torch.cuda.memory_allocated(name), reserved = torch.cuda.memory_reserved(name)}
  end
  return list
end

local function allocated()
  local n = 0
  for _, d in ipairs(device_list()) do n = n + d.used end
  return n
end

local function say_holder(h, session, width)
  local where = from(session, h.root)
  local what = columns.plain(h.path)
  if h.tensors > 1 then what = ("%s (%d tensors)"):format(what, h.tensors) end
  if where ~= "" then what = what .. (h.kind == "graph" and " " .. where or T(", set at %s"):format(where)) end
  if h.note then what = what .. ", " .. h.note end
  local line = ("%9s  %s"):format(columns.bytes(h.bytes), what)
  local cure = "-> " .. columns.plain(h.cure)
  local gap = math.max(2, math.min(48, width - columns.width(cure)) - columns.width(line))
  if columns.width(line) + gap + columns.width(cure) <= width then
    session.say(line .. (" "):rep(gap) .. cure)
  else
    session.say(columns.clip(line, width))
    session.say(columns.clip((" "):rep(11) .. cure, width))
  end
end

local most_holders = 10

local function mem(args, session)
  if args ~= "" then return T"it takes nothing" end
  collectgarbage()
  local width = columns.window()
  local found, cut = holders.find(session.results and session.results.list())
  local free = memory_free()
  for _, device in ipairs(device_list()) do
    if device.used > 0 or device.reserved > 0 or device.name == "cpu" then
      session.say(columns.clip(T("%s  used %s  cached %s%s"):format(device.name, columns.bytes(device.used),
        columns.bytes(device.reserved - device.used),
        free and device.name == "cpu" and "  free " .. columns.bytes(free) or ""), width))
      local shown, rest, bytes = 0, 0, 0
      for _, h in ipairs(found) do
        if h.device == device.name then
          bytes = bytes + h.bytes
          if shown < most_holders then
            shown = shown + 1
            say_holder(h, session, width)
          else
            rest = rest + h.bytes
          end
        end
      end
      if rest > 0 then session.say(("%9s  others"):format(columns.bytes(rest))) end
      local lost = device.used - bytes
      if lost > 1e6 and not cut then
        session.say(T("%9s  held by no variable: hooks, or running code"):format(columns.bytes(lost)))
      end
    end
  end
  if cut then session.say(T"there is too much to look at all of it") end
end

local function free(args, session)
  if args ~= "" and args ~= "all" then return T("it takes nothing or \"all\", not %q"):format(args) end
  collectgarbage()
  local before = allocated()
  local dropped = {}
  for _, result in ipairs(session.results and session.results.list() or {}) do
    dropped[#dropped + 1] = ("_%d"):format(result.number)
  end
  if session.results then session.results.clear() end
  require("shell.undo").clear()
  if session.last_error and session.last_error.frames then
    for _, frame in ipairs(session.last_error.frames) do
      for _, item in ipairs(frame.locals or {}) do item.value = nil end
      frame.code = nil
    end
  end
  collectgarbage()
  collectgarbage()
  local given = 0
  if args == "all" then
    for _, device in ipairs(device_list()) do given = given + device.reserved - device.used end
    if torch.empty_cache then torch.empty_cache() end
    for i = 0, torch.cuda.device_count() - 1 do torch.cuda.empty_cache("cuda:" .. i) end
    local now = 0
    for _, device in ipairs(device_list()) do now = now + device.reserved - device.used end
    given = given - now
  end
  local what = #dropped > 0 and table.concat(dropped, " ") or "nothing"
  session.say(columns.clip(T("dropped %s: %s freed"):format(what, columns.bytes(math.max(0, before - allocated()))), columns.window()))
  if args == "all" then session.say(T("%s of cached memory given back to the system"):format(columns.bytes(math.max(0, given)))) end
end

return {
  {
    name = "who", usage = "%who [PATTERN]", example = "%who W*",
    doc = "Your variables: kind, dtype, shape, device, bytes, where they were set.",
    run = who,
  },
  {
    name = "mem", usage = "%mem", example = "%mem",
    doc = "Memory of tensors per device, who holds it, and the line that frees it.",
    run = mem,
  },
  {
    name = "free", usage = "%free [all]", example = "%free",
    doc = "Let go of the values that only the prompt keeps (_, __, _7); all: also of cached memory.",
    run = free,
  },
}
