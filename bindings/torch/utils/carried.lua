-- Errors that cross to another thread or process: as a table of what can cross, and raised again there
-- as the same kind of error, with the way to it.
local torch = torch
local error = torch._raise
local carried = {}

-- The user's functions on the stack, innermost first: "data.lua:22 in get".
local function user_frames()
  local list = {}
  for level = 4, 200 do
    local info = debug.getinfo(level, "Sln")
    if not info then break end
    if info.currentline > 0 and info.source:sub(1, 7) ~= "=torch/" and info.source:sub(1, 7) ~= "=shell/" and #list < 8 then
      local name = info.name and info.what ~= "main" and " in " .. info.name or ""
      list[#list + 1] = ("%s:%d%s"):format(info.short_src, info.currentline, name)
    end
  end
  return list
end

local copied = {"kind", "op", "message", "hint", "where", "_call", "_code", "reason"}

---An error as a table that can cross; a handler of xpcall calls it where the error was raised.
---@param err any
---@param who string begins the traceback
---@return table
function carried.describe(err, who)
  local out = {frames = user_frames(), traceback = debug.traceback(who .. ":", 3)}
  if type(err) == "table" and type(rawget(err, "message")) == "string" then
    for _, k in ipairs(copied) do
      local v = rawget(err, k)
      if type(v) == "string" then out[k] = v end
    end
    if out.kind == "distributed" then out.ranks = rawget(err, "ranks") end
  elseif type(err) == "string" then
    local place, rest = err:match("^([^\n]-:%d+): (.*)$")
    local known = place and out.frames[1] and out.frames[1]:sub(1, #place) == place
    out.message, out.where = known and rest or err, known and place or nil
  else
    local ok, text = pcall(tostring, err)
    out.message = ok and text or "an error that is a " .. type(err)
    out.cause = err
  end
  return out
end

---Raises it here; `what` says where it came from: "worker 2 of the loader".
---@param wrong table what describe gave
---@param what string
---@param more? table further fields of the error
function carried.raise(wrong, what, more)
  if #wrong.frames > 0 then what = ("%s: %s"):format(what, table.concat(wrong.frames, ", called by ")) end
  local text = ("%s (%s)"):format(wrong.message, what)
  local _, err = pcall(error, text, 3, wrong.kind or "value")
  for _, k in ipairs {"op", "hint", "where", "_call", "_code", "reason"} do
    if wrong[k] and wrong[k] ~= "" then rawset(err, k, wrong[k]) end
  end
  rawset(err, "traceback", wrong.traceback)
  rawset(err, "cause", wrong.cause)
  for k, v in next, more or {} do rawset(err, k, v) end
  error(err, 0)
end

---How notes are switched, for another state that is to have them so.
function carried.notes()
  local notes, out = package.loaded["torch.notes"], {}
  for code in next, notes and notes.catalogue or {} do
    if notes.state(code) ~= "on" then out[code] = notes.state(code) end
  end
  return out
end

---What another state needs besides its work: the sources for messages, paths, notes, the default type.
function carried.surroundings()
  return {chunks = torch._chunks, notes = carried.notes(), path = package.path, cpath = package.cpath,
    dtype = torch.get_default_dtype()}
end

---Makes this state so.
function carried.settle(surroundings)
  package.path, package.cpath = surroundings.path, surroundings.cpath
  for name, text in next, surroundings.chunks do torch._chunks[name] = text end
  for code, switch in next, surroundings.notes do torch.notes(code, switch) end
  torch.set_default_dtype(surroundings.dtype)
end

return carried
