-- What a session is told and what it says, for whoever writes it down as well: %log and %record.
local tap = {}

local sinks, was = {}, nil

local function tell(what, ...)
  for _, sink in ipairs(sinks) do
    if sink[what] then sink[what](...) end
  end
end

local function install(session)
  was = {say = session.say, complain = session.complain, run = session.run, print = print, io_write = io.write, display = torch._display}
  session.say = function(text)
    tell("said", text .. "\n")
    return was.say(text)
  end
  session.complain = function(text)
    tell("said", text .. "\n")
    return was.complain(text)
  end
  session.run = function(text)
    tell("entered", text, session.number)
    local ok, wrong = was.run(text)
    tell "ended"
    return ok, wrong
  end
  function _G.print(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    tell("said", table.concat(parts, "\t") .. "\n")
    return was.print(...)
  end
  function io.write(...)
    if io.output() == io.stdout then
      for i = 1, select("#", ...) do
        local part = select(i, ...)
        if type(part) == "string" or type(part) == "number" then tell("said", tostring(part)) end
      end
    end
    return was.io_write(...)
  end
  torch._display = function(figure)
    tell("drawn", figure)
    return was.display ~= nil and was.display(figure)
  end
end

---A sink has any of entered(text, number), said(text), drawn(figure), ended().
---@param session table
---@param sink table
function tap.open(session, sink)
  if #sinks == 0 then install(session) end
  sinks[#sinks + 1] = sink
end

---@param session table
---@param sink table
function tap.close(session, sink)
  for i, each in ipairs(sinks) do
    if each == sink then table.remove(sinks, i) end
  end
  if #sinks > 0 or not was then return end
  session.say, session.complain, session.run, _G.print, io.write = was.say, was.complain, was.run, was.print, was.io_write
  torch._display, was = was.display, nil
end

return tap
