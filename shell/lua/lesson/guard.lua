-- Calls a function that may run for ever: it is stopped after some seconds, also inside pcall loops
-- and coroutines, and Ctrl-C still stops it at once.
local native = require "shell.native"
local T = require("torch.language").text

local guard = {}

--- f(...) in a coroutine of its own, with a limit of time. Guards do not nest.
---@param f function
---@param seconds number
---@return boolean ok
---@return any ... its results; or the error, and "time" as a third value when it ran too long
function guard.call(f, seconds, ...)
  local thread = coroutine.create(f)
  native.limit(thread, seconds)
  local results = table.pack(coroutine.resume(thread, ...))
  local late = native.limit(thread)
  if coroutine.status(thread) == "suspended" then return false, T"it yields, and nobody resumes it" end
  if not results[1] and type(results[2]) == "table" and results[2].kind == "interrupt" then error(results[2], 0) end
  if not results[1] and late then return false, T("it did not come to an end in %g s"):format(seconds), "time" end
  return table.unpack(results, 1, results.n)
end

--- The first line of an error, without the place.
function guard.message(err)
  local ok, text = pcall(tostring, err)
  text = ok and type(text) == "string" and text or T"an error"
  return (text:gsub("^[^\n:]*:%d+: ", ""):match("^[^\n]*"))
end

return guard
