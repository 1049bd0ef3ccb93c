-- Errors as text: what the prompt says of an entry that failed, and a script of its end. Only text,
-- places and shapes are kept, never the values that an error or its frames hold.
local T = require("torch.language").text
local report = {}

local native = require "shell.native"
local columns = require "shell.columns"

-- A table that somebody raised, spelled out: {code = 7, message = "no"}.
local function spell(value, depth)
  if type(value) == "string" then return ("%q"):format(value:sub(1, 200)):gsub("\\\n", "\\n") end
  if type(value) ~= "table" then return tostring(value) end
  if depth > 3 then return "{..}" end
  local parts, n = {}, math.min(rawlen(value), 20)
  for i = 1, n do parts[i] = spell(rawget(value, i), depth + 1) end
  for key, item in next, value do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then
      if #parts > 20 then
        parts[#parts + 1] = ".."
        break
      end
      local name = type(key) == "string" and key:find("^[%a_][%w_]*$") and key or "[" .. spell(key, depth + 1) .. "]"
      parts[#parts + 1] = name .. " = " .. spell(item, depth + 1)
    end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- The text of anything raised.
function report.message(err)
  local ok, text = native.guarded(function()
    local meta = type(err) == "table" and debug.getmetatable(err)
    if type(err) == "table" and not (meta and meta.__tostring) then return spell(err, 1) end
    return tostring(err)
  end)
  return ok and text or T"an error whose __tostring fails"
end

-- A copy of an error object that holds no tensors and nothing else that is large.
local function plain(value, depth)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" then return value end
  if kind ~= "table" or depth > 4 then return nil end
  local out, count = {}, 0
  for k, v in next, value do
    if type(k) == "string" or type(k) == "number" then
      out[k] = plain(v, depth + 1)
      count = count + 1
      if count > 200 then break end
    end
  end
  local meta = debug.getmetatable(value)
  if meta and type(meta.__name) == "string" then debug.setmetatable(out, meta) end
  return out
end

---@return table remembered {error=, text=, traceback=, frames=, interrupted=, seconds=}
function report.remember(err, trace)
  trace = type(trace) == "table" and trace or {}
  local copy = type(err) == "table" and plain(err, 1) or type(err) == "string" and err or nil
  return {
    error = copy,
    text = report.message(err),
    frames = trace.frames or {},
    traceback = report.traceback(trace.frames or {}),
    full = trace.full,
    interrupted = trace.interrupted,
    stopped_in = trace.stopped_in,
    stopped_at = trace.stopped_at,
    seconds = trace.seconds,
  }
end

local function name_of(frame)
  if frame.what == "main" then return nil end
  return frame.name
end

-- One line per function of the user's, innermost first; what repeats is counted.
function report.traceback(frames)
  local lines, last, times = {}, nil, 0
  local function count()
    if times > 1 then lines[#lines] = ("%s  (%d times)"):format(last, times) end
  end
  for _, frame in ipairs(frames) do
    local name = not frame.skipped and name_of(frame)
    local line = frame.skipped and ("  .. %d more"):format(frame.skipped)
      or ("  %s:%d%s"):format(frame.source, frame.line, name and " in " .. name or "")
    if line == last then
      times = times + 1
    else
      count()
      lines[#lines + 1], last, times = line, line, 1
    end
  end
  count()
  return table.concat(lines, "\n")
end

local function duration(seconds)
  if seconds < 10 then return ("%.1f s"):format(seconds) end
  if seconds < 600 then return ("%.0f s"):format(seconds) end
  return ("%.0f min"):format(seconds / 60)
end

local function stopped(remembered)
  local where = remembered.stopped_at ~= "" and remembered.stopped_at or nil
  local name = remembered.stopped_in
  if where then where = name ~= "" and T(" in %s (%s)"):format(name, where) or " at " .. where end
  local after = remembered.seconds and T(", after %s"):format(duration(remembered.seconds)) or ""
  return native.stopped_mark() .. T("stopped%s%s. Variables are intact."):format(where or "", after)
end

local uncompiled

-- The full report, where more is known of an error than its text.
local function explained(remembered, where)
  local ok, text = pcall(function()
    local explain = require "torch.explain"
    local wrong = uncompiled(remembered.error)
    if wrong then return wrong end
    local object = explain.object(remembered.error)
    local window = torch._terminal()
    return object and explain.report(object, {colour = require "shell.colour", where = where,
      width = window.terminal and window.columns >= 20 and window.columns or nil})
  end)
  return ok and text or nil
end

-- What the prompt says of a failed entry.
function report.text(remembered)
  if remembered.interrupted then return stopped(remembered) end
  local known = explained(remembered, false)
  if known then return known end
  local text, number, line, rest = remembered.text, remembered.text:match("^%[(%d+)%]:(%d+): (.*)$")
  if number then
    text = rest
    local code = torch._chunks["[" .. number .. "]"]
    if code and code:find("\n") then
      local row = 0
      for each in (code .. "\n"):gmatch("(.-)\n") do
        row = row + 1
        if row == tonumber(line) then text = T("%s\n   [%s] line %s:  %s"):format(text, number, line, each:match("^%s*(.-)%s*$")) end
      end
    end
  end
  local window = torch._terminal()
  if window.terminal and window.columns >= 20 then
    local columns = require "shell.columns"
    local first = text:match("^[^\n]*")
    if columns.width(first) > window.columns - #"error: " then
      text = table.concat(columns.wrap(first, window.columns - #"error: "), "\n   ") .. text:sub(#first + 1)
    end
  end
  return require("shell.colour")("error:", "error") .. " " .. text
end

-- What ends a script: the error and the functions it went through.
function report.script(err, trace)
  local remembered = report.remember(err, trace)
  report.of_script = remembered
  local text = "tycho: " .. (explained(remembered, true) or remembered.text)
  if remembered.traceback ~= "" then text = text .. "\n" .. remembered.traceback end
  return text
end

-- Under an entry or a file that does not compile: its line, and a caret under the wrong token.
---@param wrong table
---@param where? string "file.lua:3: "
function report.wrong(wrong, where)
  local colour, text = require "shell.colour", require "shell.text"
  local out = {(where or "") .. colour("error:", "error") .. " " .. text.visible(wrong.message)}
  if wrong.line then
    local row = 0
    for each in (wrong.text .. "\n"):gmatch("(.-)\n") do
      row = row + 1
      if row == wrong.line then
        local function plain(piece) return text.visible((piece:gsub("\t", " "))) end
        local before, token = plain(each:sub(1, wrong.column - 1)), plain(each:sub(wrong.column, wrong.column + wrong.width - 1))
        local room = math.max(native.window() - 5, 20)
        -- Scrolled sideways so that the token is in sight.
        local too_wide = text.width(before) + math.min(text.width(token), room // 2) - room
        local from = 1
        while too_wide > 0 and text.width(before:sub(1, from - 1)) < too_wide do
          local known, after = pcall(utf8.offset, before, 2, from)
          from = known and after or from + 1
        end
        before = before:sub(from)
        local shown = text.cut(before .. token .. plain(each:sub(wrong.column + wrong.width)), room)
        local columns = text.width(before)
        local width = math.max(1, math.min(text.width(token), room - columns))
        out[#out + 1] = "   " .. shown
        out[#out + 1] = "   " .. (" "):rep(columns) .. colour(("^"):rep(width), "error")
      end
    end
  end
  for line in (wrong.hint or ""):gmatch "[^\n]+" do  -- code as it is, sentences by the window
    local indent, sentence = line:match "^(%s*%-%- )(.*)$"
    local lead = #out > 0 and line:find "^%s" and "" or "   "
    local pieces = indent and columns.wrap(sentence, math.max(native.window() - 4 - #indent, 20)) or {line}
    out[#out + 1] = lead .. (indent or "") .. table.concat(pieces, "\n" .. lead .. (indent or ""))
  end
  return table.concat(out, "\n")
end

---What a file or a piece of code says that does not compile; nil when the message is about something else.
---@param message string of load
---@return string?
function report.uncompiled(message)
  local chunk, line = message:match "^(.-):(%d+): "
  local source = require "torch.source"
  local text = chunk and source.text(torch._chunks[chunk] and "=" .. chunk or "@" .. chunk)
  if not text then return nil end
  local wrong = require("torch.syntax").failure(text, message)
  return report.wrong(wrong, ("%s:%d: "):format(chunk, wrong.line or line))
end

-- The same for the prompt's %run and a script's end, where it may have come up as an error.
function uncompiled(err)
  if type(err) ~= "string" then return nil end
  local message = err:match "^error loading module '[^\n]*' from file '[^\n]*':\n%s*(.*)$" or err
  if not message:find "^[^\n]-:%d+: [^\n]* near [^\n]*$" then return nil end
  local ok, text = pcall(report.uncompiled, message)
  return ok and text or nil
end

return report
