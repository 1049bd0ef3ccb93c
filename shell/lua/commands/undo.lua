-- %undo: takes back what the last entry did to variables and tensors.
local columns = require "shell.columns"
local T = require("torch.language").text

local function run(args, session)
  local undo = require "shell.undo"
  if args == "on" or args == "off" then
    undo.on = args == "on"
    undo.clear()
    return session.say(args == "on" and T"changes are kept for %undo" or T"changes are not kept; %undo on keeps them again")
  end
  if args ~= "" then return T"it takes nothing, on or off" end
  if not undo.on then return T"it was switched off; %undo on keeps what entries change from now on" end
  local record, done, not_done = undo.back()
  if not record then return session.say(T"there is nothing to take back") end
  local text = columns.plain(record.text:match "^%s*([^\n]*)")
  session.say(columns.clip(T("took back [%d]: %s"):format(record.number, text), columns.window()))
  if #done > 0 then session.say("  " .. table.concat(columns.wrap(table.concat(done, ", "), columns.window() - 2), "\n  ")) end
  for _, what in ipairs(not_done) do session.say("  " .. table.concat(columns.wrap(T("not taken back: %s"):format(what), columns.window() - 2), "\n    ")) end
end

return {
  {
    name = "undo", usage = "%undo, %undo on|off", example = "%undo",
    doc = "Take back what the last entry did to variables, fields, tensors, gradients and random numbers.",
    more = "Again for the entry before it, up to ten. Old values are kept up to 64 MB; what was more, and is lost, is said.\n" ..
      "Files, devices, and locals that functions have captured stay as they are. Graphs made before see a tensor that was\n" ..
      "written back as changed: compute the loss again.",
    run = run,
  },
}
