-- Commands about the last error: %debug (its functions and their variables) and %bt.
local columns = require "shell.columns"
local native = require "shell.native"
local T = require("torch.language").text

-- The text of line n of a source as frames name it, or nil.
local function lines_of(source)
  local text = torch._chunks[source]
  if not text then
    local file = io.open(source, "r")
    if not file then return nil end
    text = file:read("a")
    file:close()
    if not text then return nil end
  end
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do lines[#lines + 1] = line end
  return lines
end

-- "f32 [2, 3]" for "a tensor (float32 [2, 3])"
local function short(text)
  local dtype, rest = (text or "nil"):match("^a tensor %((%S+)(.*)%)$")
  if not dtype then return columns.plain(text or "nil") end
  local letter, bits = dtype:match("^(%a)%a+(%d+)$")
  return (letter and (dtype:find("^b") and "bf" or letter) .. bits or dtype) .. rest
end

local function headline(last)
  local text = (last.text or ""):match("^[^\n]*"):gsub("^%[%d+%]:%d+: ", "")
  local where = last.number and ("in [%d]"):format(last.number) or T"in the script"
  return T("error %s: %s"):format(where, columns.plain(text))
end

local function title(frame)
  local what = frame.what == "main" and T"main chunk" or frame.name or "a function"
  return ("%s  %s:%d"):format(what, frame.source, frame.line)
end

local function say(session, text) session.say(columns.clip(text, columns.window())) end

local function say_source(session, frame, around)
  local lines = lines_of(frame.source)
  if not lines or not lines[frame.line] then return end
  for n = math.max(1, frame.line - around), math.min(#lines, frame.line + around) do
    say(session, ("  %s%4d | %s"):format(n == frame.line and ">" or " ", n, columns.plain(lines[n])))
  end
end

-- A value in full, when it was kept.
local function say_value(session, item)
  local show = session.optional and session.optional("shell.show")
  local ok, text = pcall(function()
    return show and show.values and show.values({n = 1, item.value}) or tostring(item.value)
  end)
  text = ok and text or item.text
  if text:find("\n") then
    session.say("    " .. item.name .. " = ")
    session.say("      " .. text:gsub("\n", "\n      "))
  else
    say(session, ("    %s = %s"):format(item.name, text))
  end
end

local function say_locals(session, frame, most, values)
  local wide = 0
  for _, item in ipairs(frame.locals or {}) do wide = math.max(wide, math.min(#item.name, 16)) end
  for i, item in ipairs(frame.locals or {}) do
    if i > most then
      session.say(T("    and %d more"):format(#frame.locals - most))
      break
    end
    if values and item.value ~= nil then
      say_value(session, item)
    else
      say(session, ("    %-" .. math.max(wide, 1) .. "s  %s"):format(item.name, short(item.text)))
    end
  end
end

local most_frames = 10

local function real_frames(session)
  local out = {}
  for _, frame in ipairs(session.last_error and session.last_error.frames or {}) do
    if not frame.skipped then out[#out + 1] = frame end
  end
  return out
end

-- The value of a kept or weakly kept variable; false when it is gone.
local function value_of(item)
  if item.value ~= nil then return true, item.value end
  if not item.weak then return true, nil end
  return item.weak[1] ~= nil, item.weak[1]
end

-- The names that code in a frame sees: its variables, the last declared first, those around it, globals.
local function scope_of(frame, session)
  local gone
  local env = setmetatable({}, {__index = function(_, name)
    for i = #(frame.locals or {}), 1, -1 do
      if frame.locals[i].name == name then
        local there, value = value_of(frame.locals[i])
        if there then return value end
        gone = name
        local again = session.last_error.number and T("; %%debug on, then %%rerun %d keeps it"):format(session.last_error.number) or T"; %debug on keeps values"
        error(T("%s (%s) was not kept%s"):format(name, short(frame.locals[i].text), again), 0)
      end
    end
    local _, f = value_of(frame.code or {})
    for i = 1, type(f) == "function" and 60 or 0 do
      local upvalue, value = debug.getupvalue(f, i)
      if not upvalue then break end
      if upvalue == name and name ~= "_ENV" then return value end
    end
    local found = _G[name]
    local shortcut = found == nil and session.names.shortcuts[name]
    if shortcut then return shortcut() end
    if found == nil then error(T("frame %s has no %s"):format(frame.name or frame.source, name), 0) end
    return found
  end})
  return env, function() return gone end
end

-- Runs an expression, or statements, with the names of a frame.
local function evaluate(code, frame, session)
  local env = scope_of(frame, session)
  local f, message = load("return " .. code .. "\n", "=shell/debug", "t", env)
  if not f then f, message = load(code .. "\n", "=shell/debug", "t", env) end
  if not f then error(message:gsub("^[^\n]-debug:%d+: ", ""), 0) end
  session.print(table.pack(f()))
end

local function debug_command(args, session)
  if args == "on" or args == "off" then
    native.keep_frames(args == "on")
    session.options.debug = args == "on"
    return session.say(args == "on" and T"errors keep the values of variables, until the next error or %free" or T"errors keep names and shapes only")
  end
  local number, code = args:match("^(%d+)%s*(.-)%s*$")
  local n = number and math.tointeger(tonumber(number))
  if not n then code = args end
  local last = session.last_error
  if not last and code ~= "" then return T"there was no error yet, so there is no frame to look into" end
  if not last then return session.say(T"there was no error yet") end
  local frames = real_frames(session)
  if code ~= "" and #frames > 0 then
    if n and not frames[n] then return T("there %s"):format(#frames == 1 and T"is one frame" or T("are %d frames"):format(#frames)) end
    return evaluate(code, frames[n or 1], session)
  end
  say(session, headline(last))
  if #frames == 0 then return session.say(T"it was raised outside of your functions") end
  if n then
    local frame = frames[n]
    if not frame then return T("there %s"):format(#frames == 1 and T"is one frame" or T("are %d frames"):format(#frames)) end
    say(session, ("%d  %s"):format(n, title(frame)))
    say_source(session, frame, 3)
    return say_locals(session, frame, 100, true)
  end
  for i, frame in ipairs(frames) do
    if i > most_frames then
      session.say(T("and %d more frames; %%debug N shows one"):format(#frames - most_frames))
      break
    end
    say(session, ("%d  %s"):format(i, title(frame)))
    say_source(session, frame, 0)
    say_locals(session, frame, 8, false)
  end
end

local function bt(args, session)
  if args ~= "" and args ~= "full" then return T("it takes nothing or full, not %q"):format(args) end
  local last = session.last_error
  if not last then return session.say(T"there was no error yet") end
  say(session, headline(last))
  if args == "full" and last.full then
    for line in last.full:gmatch("[^\n]+") do say(session, (line:gsub("\t", "  "))) end
    return
  end
  local text = last.traceback
  session.say(text and text ~= "" and text or T"  raised outside of your functions")
end

return {
  {
    name = "debug", usage = "%debug [NUMBER] [EXPRESSION], %debug on|off", example = "%debug 1 x.shape",
    doc = "Functions of the last error with their lines and variables; after %debug on, with values. An expression sees the " ..
      "names of its function, 1 where the error was.",
    run = debug_command,
  },
  {
    name = "bt", usage = "%bt [full]", example = "%bt full",
    doc = "Where the last error came from; full: the prompt's and built-in functions too.",
    run = bt,
  },
}
