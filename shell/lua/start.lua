-- What happens before the first prompt: one line about the program and the machine, and the user's
-- init.lua.
local native = require "shell.native"
local width = require("torch.columns").of
local T = require("torch.language").text
local start = {}

---@return string banner one line, or several in a narrow window
function start.banner()
  local threads = torch.get_num_threads()
  local machine = (threads == 1 and T"cpu %d thread" or T"cpu %d threads"):format(threads)
  local devices = torch.cuda.device_count()
  if devices > 0 then
    local name = torch.cuda.get_device_name(0):find("simulated", 1, true) and "simulated" or torch.cuda.get_device_name(0)
    machine = ("%s, cuda:0%s %s"):format(machine, devices > 1 and ".." .. devices - 1 or "", name)
  end
  local parts = {"tycho " .. native.version:gsub("%.0$", ""), _VERSION, machine, T" ? help", T" %learn lessons", T" Ctrl-D leaves"}
  local lines, line = {}, parts[1]
  local columns = native.window()
  for i = 2, #parts do
    if width(line) + 2 + width(parts[i]) > columns then
      lines[#lines + 1] = line
      line = (parts[i]:gsub("^ ", ""))
    else
      line = line .. "  " .. parts[i]
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- $XDG_CONFIG_HOME/tycho/init.lua or ~/.config/tycho/init.lua; nil without a home.
function start.init_file()
  local config, home = os.getenv("XDG_CONFIG_HOME"), os.getenv("HOME")
  if config and config ~= "" then return config .. "/tycho/init.lua" end
  return home and home ~= "" and home .. "/.config/tycho/init.lua" or nil
end

-- Runs the user's file; an error in it is reported and the prompt goes on.
function start.init(session)
  local path = start.init_file()
  local file = path and io.open(path, "rb")
  if not file then return end
  file:close()
  local chunk, message = loadfile(path)
  local ok, trace = chunk ~= nil, nil
  if chunk then ok, message, trace = native.guarded(chunk) end
  if not ok then session.report(message, trace) end
end

return start
