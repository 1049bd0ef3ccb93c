-- The one-line echo of names that an entry assigned: `w: f32 [3, 4]`.
local columns = require "shell.columns"
local echo = {on = false}

local hook
local function assigned_names(text)
  local entry = require "shell.entry"
  return entry.assigned(entry.tokens(text))
end

---@param on boolean
function echo.set(session, on)
  echo.on = on
  if hook or not on then return end
  hook = function(record, ok)
    if not echo.on or not ok then return end
    local said = {}
    for _, name in ipairs(assigned_names(record.text)) do
      local value = rawget(_G, name)
      if value ~= nil and not said[name] and type(value) ~= "function" then
        said[name] = true
        session.say(columns.clip(name .. ": " .. columns.describe(value), columns.window()))
      end
    end
  end
  table.insert(session.hooks.after, hook)
end

return echo
