-- The one-line echo of names that an entry assigned: `w: f32 [3, 4]`.
local columns = require "shell.columns"
local echo = {on = false}

local hook
local function assigned_names(text)
  local entry = require "shell.entry"
  local tokens = entry.tokens(text)
  local names, first = entry.assigned(tokens), {}
  for i, token in ipairs(tokens) do first[token.text] = first[token.text] or i end
  table.sort(names, function(a, b) return first[a] < first[b] end)
  return names
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
