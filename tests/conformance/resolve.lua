-- Finds what a case calls, by the public name in the vectors: functions under torch, methods, fields, indexing.
local torch = torch
local resolve = {}

-- Names that read differently in Lua.
local spelled = {["repeat"] = "tile"}

local function walk(name)
  local at = torch
  for part in name:gmatch("[^.]+") do
    if at == nil or type(at) == "function" then return nil end
    local there, value = pcall(function() return at[part] end)  -- a name that torch lacks raises
    if not there then return nil end
    at = value
  end
  return at
end

---The function of a case, or nil when there is none.
function resolve.fn(name)
  if name == "__getitem__" then return function(x, i) return x[i] end end
  if name == "__setitem__" then
    return function(x, i, v)
      x[i] = v
      return x
    end
  end
  return walk(name)
end

local function last_part(name) return name:match("[^.]+$") end

---A caller of the method form: f(self, ...), or nil.
function resolve.method(name, x)
  local short = last_part(name)
  local ok, found = pcall(function() return x[short] or x[spelled[short]] end)
  if not ok or type(found) ~= "function" then return nil end
  return found
end

---A caller of the in-place form.
function resolve.inplace(name, x)
  local method = resolve.method(name .. "_", x)
  if method then return method end
  if not name:find("^nn%.functional%.") then return nil end
  local f = walk(name .. "_")
  if f then return f end
  local plain = walk(name)
  if not plain then return nil end
  return function(...)
    local args = table.pack(...)
    local named = args[args.n]
    if type(named) == "table" and next(named) and not named[1] then
      named.inplace = true
    else
      args.n = args.n + 1
      args[args.n] = {inplace = true}
    end
    return plain(table.unpack(args, 1, args.n))
  end
end

return resolve
