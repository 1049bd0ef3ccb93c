-- torch.progress: how far a loop is. In a terminal one line that is redrawn, which print writes above; elsewhere, in a
-- log, a line a minute. Loops inside loops share the line. Of several ranks only the first shows anything.
local torch = torch
local error = torch._raise
local columns = require "torch.columns"
local progress = {}

-- Where it is shown, and the clock: tests have others.
progress.place = {
  window = function()
    local t = torch._terminal()
    return t.terminal and os.getenv "TERM" ~= "dumb" and (t.columns or 80) or nil
  end,
  clock = torch.perf_counter,
}
local place = progress.place

local shown_every, beat_every = 0.1, 60
local active = {}             -- bars whose loops run, the outermost first
local on_line = false         -- is there a bar in the terminal's last line?
local plain_print, own_print  -- print as it was, and the one that puts the bar aside

local function silent()
  if (tonumber(os.getenv "RANK") or 0) > 0 and (tonumber(os.getenv "WORLD_SIZE") or 1) > 1 then return true end
  local dist = rawget(torch, "distributed")
  return dist ~= nil and dist.is_initialized() and dist.get_rank() > 0
end

local function clear()
  if not on_line then return end
  io.stdout:write("\r\27[K")
  io.stdout:flush()
  on_line = false
end

local function clock_text(seconds)
  seconds = math.ceil(seconds)
  local text = ("%d:%02d"):format(seconds // 60 % 60, seconds % 60)
  return seconds < 3600 and text or ("%d:%s"):format(seconds // 3600, ("0" .. text):sub(-5))
end

local function number_text(v)
  if torch.is_tensor(v) and v:numel() == 1 then v = v:item() end
  return math.type(v) == "float" and ("%.4g"):format(v) or tostring(v)
end

local Bar = {__name = "progress"}
Bar.__index = Bar

-- "epoch 2/10": what stands in front of the bars of loops inside.
function Bar:_short()
  local count = self.unit and (self.total and ("%d/%d"):format(self.done, self.total) or ("%d"):format(self.done)) or nil
  return table.concat({self.desc or count, self.desc and count or nil}, " ")
end

-- The line without the bar itself: share done, count, time, rate, what set_postfix said.
function Bar:_text(now)
  local parts, took = {}, math.max(now - self.began, 1e-9)
  local made = self.done - self.done_before
  local rate = made / took
  if self.total then parts[#parts + 1] = ("%3d %%"):format(self.total > 0 and math.min(100, 100 * self.done // self.total) or 100) end
  if self.unit then parts[#parts + 1] = self.total and ("%d/%d"):format(self.done, self.total) or ("%d"):format(self.done) end
  if self.postfix then parts[#parts + 1] = self.postfix end
  if self.unit and made > 0 then
    local unit = self.unit ~= "" and " " .. self.unit or ""
    parts[#parts + 1] = rate >= 1 and ("%.4g%s/s"):format(rate, unit) or ("%.3g s each"):format(1 / rate)
  end
  if not self.ended and self.total and made > 0 then
    parts[#parts + 1] = clock_text(math.max(0, self.total - self.done) / rate) .. " left"
  else
    parts[#parts + 1] = clock_text(took // 1)
  end
  return table.concat(parts, "  ")
end

function Bar:_line(now, width)
  local before = {}
  for _, bar in ipairs(active) do
    if bar == self then break end
    before[#before + 1] = bar:_short()
  end
  if self.desc then before[#before + 1] = self.desc end
  local head = #before > 0 and table.concat(before, "  ") .. "  " or ""
  local text = self:_text(now)
  if not width then return head .. text end
  local room = math.min(24, width - 2 - columns.of(head) - columns.of(text))
  if self.total and room >= 4 then
    local filled = self.total > 0 and math.floor(room * math.min(1, self.done / self.total)) or room
    text = ("█"):rep(filled) .. ("░"):rep(room - filled) .. " " .. text
  end
  return columns.clipped(head .. text, width - 1)
end

-- While a bar is drawn, what is printed comes above it.
local function take_print()
  if own_print and _G.print == own_print then return end
  plain_print = _G.print
  local before = plain_print
  own_print = function(...)
    clear()
    return before(...)
  end
  _G.print = own_print
end
local function give_print()
  if own_print and _G.print == own_print then _G.print = plain_print end
  own_print, plain_print = nil, nil
end

function Bar:_show(force)
  if self.disable or active[#active] ~= self then return end
  local now, width = place.clock(), place.window()
  if not width then
    if now - self.shown < beat_every and not (force and self.beats) then return end
    self.shown, self.beats = now, true
    clear()
    self.file:write(self:_line(now), "\n")
    self.file:flush()
    return
  end
  if not force and now - self.shown < shown_every then return end
  self.shown = now
  take_print()
  io.stdout:write("\r", self:_line(now, width), "\27[K")
  io.stdout:flush()
  on_line = true
end

function Bar:_begin(done)
  self.began, self.shown, self.done, self.done_before = place.clock(), place.clock(), done, done
  self.ended, self.beats = false, nil
  active[#active + 1] = self
  if place.window() then self.shown = -math.huge end
end

---Counts n more as done (1 unless given).
---@param n? number
function Bar:update(n)
  if n ~= nil and type(n) ~= "number" then error(("progress: update wants a number, not a %s"):format(type(n)), 2) end
  return self:to((self.began and not self.ended and self.done or self.initial or 0) + (n or 1))
end

---So much is done in all; `text` goes beside the bar.
---@param done number
---@param text? string
function Bar:to(done, text)
  if type(done) ~= "number" or done ~= done then error(("progress: to wants a number, not %s"):format(tostring(done)), 2) end
  if not self.began or self.ended then self:_begin(self.initial or 0) end
  self.done, self.postfix = done, text or self.postfix
  self:_show()
  return self
end

---Shows values beside the bar: a text, or numbers by name, as in bar:set_postfix{loss = loss}.
---@param values string|table
function Bar:set_postfix(values)
  if type(values) == "table" and not torch.is_tensor(values) then
    local names, parts = {}, {}
    for name in pairs(values) do names[#names + 1] = tostring(name) end
    table.sort(names)
    for i, name in ipairs(names) do parts[i] = name .. " " .. number_text(values[name]) end
    values = table.concat(parts, "  ")
  end
  self.postfix = values ~= nil and number_text(values) or nil
  if self.began and not self.ended then self:_show() end
end

---What stands in front of the bar.
---@param text string
function Bar:set_description(text) self.desc = text ~= nil and tostring(text) or nil end

---Prints a line above the bar.
---@param ... any as print takes
function Bar:write(...)
  if self.disable then return end
  clear()
  print(...)
end

---Ends the bar; a loop that it goes around does so by itself.
function Bar:close()
  if self.closing then
    local closing = self.closing
    self.closing = nil
    local _ <close> = closing
  end
  self.draw = nil
  if not self.began or self.ended then return end
  -- Bars of loops inside that were left by an error end too.
  while active[#active] ~= self and #active > 0 do
    local inner = active[#active]
    table.remove(active)
    inner.ended = true
  end
  self.ended = true
  local outer = #active > 1
  if self.leave and not outer and (place.window() or self.beats) then self:_show(true) end
  if active[#active] == self then table.remove(active) end
  if on_line and self.leave and not outer and not self.disable then
    io.stdout:write("\n")
    io.stdout:flush()
    on_line = false
  elseif not outer then
    clear()
  end
  if #active == 0 then give_print() end
end
Bar.__close = Bar.close

Bar.__tostring = function(self)
  return ("progress: %s"):format(self.total and ("%d/%d"):format(self.done or 0, self.total) or ("%d"):format(self.done or 0))
end

-- --- What a loop goes over ---

local next_of_list = ipairs {}

local function unpacked(v)
  if type(v) == "table" and getmetatable(v) == nil and #v > 0 then return table.unpack(v) end
  return v
end

-- How to begin a loop over it, and how many turns that has (nil: unknown).
local function source_of(v, state, control, closing)
  if math.type(v) == "integer" or math.type(v) == "float" and math.tointeger(v) then
    local n, i = math.tointeger(v), 0
    if n < 0 then error(("progress: a number of steps is 0 or more, not %d"):format(n), 3, "value") end
    return function()
      i = 0
      return function()
        i = i + 1
        if i <= n then return i end
      end
    end, n
  elseif type(v) == "function" then
    if (v == next_of_list or v == next) and type(state) ~= "table" then
      error("progress: the iterator lost its table; ipairs(t) comes last, or give the list itself: torch.progress(t, {..})", 3)
    end
    local total
    if v == next_of_list then total = #state end
    if v == next then
      total = 0
      for _ in next, state do total = total + 1 end
    end
    return function() return v, state, control, closing end, total
  elseif torch.is_tensor(v) then
    if v.ndim == 0 then error("progress: a tensor without dimensions has no rows to go over; for a number of steps: x:item()", 3, "shape") end
    return function()
      local i = 0
      return function()
        i = i + 1
        if i <= #v then return v[i] end
      end
    end, #v
  elseif type(v) == "table" then
    local meta = getmetatable(v)
    local known, total = pcall(function() return #v end)
    known = known and (meta == nil or meta.__len ~= nil)
    local items = meta and known and type(v.get) == "function"
    if meta and meta.__call and not items then return v, known and total or nil end
    if items then
      return function()
        local i = 0
        return function()
          i = i + 1
          if i <= total then return unpacked(v:get(i)) end
        end
      end, total
    end
    return function()
      local i = 0
      return function()
        i = i + 1
        return v[i]
      end
    end, total
  end
  error(("progress: goes over what a loop does: a loader, a list, a number of steps, an iterator such as ipairs(t); not a %s"):format(type(v)), 3)
end

function Bar:_start()
  if not self.source then error("progress: this bar has nothing to go over; it is moved by bar:update()", 3) end
  self:close()
  self.draw, self.state, self.control, self.closing = self.source()
  if not self.draw then error("progress: there is nothing to go over", 3) end
  self:_begin(0)
  self:_show()
end

local function step(self, control, ...)
  if control == nil then
    self:close()
    return nil
  end
  self.control = control
  return control, ...
end

-- bar() begins a loop, as loader() does; `for x in bar do` begins by itself. Lua's loop calls with two arguments.
function Bar:__call(...)
  if select("#", ...) == 0 then
    self:_start()
    return self, nil, nil, self
  end
  if not self.draw then self:_start() else self:update() end
  return step(self, self.draw(self.state, self.control))
end

local allowed = {desc = "string", total = "number", unit = "text", leave = "boolean", disable = "boolean", initial = "number", file = "userdata"}

-- A table with names alone; `known`: with those of options alone, for what an iterator may have as its state.
local function is_options(t, known)
  if type(t) ~= "table" or getmetatable(t) ~= nil or t[1] ~= nil or next(t) == nil then return false end
  for k in next, t do
    if type(k) ~= "string" or known and not allowed[k] then return false end
  end
  return true
end

local function read_options(o)
  for key, value in next, o do
    local want = allowed[key]
    if not want then
      error(('progress: no option "%s" (it has: desc, disable, file, initial, leave, total, unit)'):format(tostring(key)), 4)
    end
    local ok = type(value) == want or want == "text" and (type(value) == "string" or value == false)
    if ok and want == "number" then ok = value >= 0 and value < math.huge end
    if not ok then
      error(("progress: %s must be %s, not %s"):format(key, want == "number" and "a number of at least 0" or want == "text" and "a string, or false" or
        want == "userdata" and "an open file" or "a " .. want, tostring(value)), 4)
    end
  end
  return o
end

---Shows how far a loop is: `for x, y in torch.progress(loader) do`. It goes over loaders, lists, datasets, a number of
---steps, rows of a tensor, and iterators such as ipairs(t). In a terminal it is a bar; in a log a line a minute (on
---stderr, or in `file`); of several ranks only rank 0 shows it. A bar in a variable has set_postfix{loss = ..},
---set_description(text), write(..); torch.progress{total = n} is moved by update(n) and ended by close().
---@param iterable any
---@param options? {desc?: string, total?: number, unit?: string, leave?: boolean, disable?: boolean, initial?: number, file?: file*}
---@return any bar
function progress.progress(iterable, options, ...)
  local bar, o = {leave = true, unit = "", file = io.stderr}, nil
  if iterable == nil then
    error("progress: wants what the loop goes over, as in torch.progress(loader), or torch.progress{total = 100}", 2)
  end
  if is_options(iterable) and options == nil then
    o = read_options(iterable)
  else
    if iterable ~= next and is_options(options, type(iterable) == "function") then o = read_options(options) end
    if options ~= nil and not o and type(iterable) ~= "function" then
      error('progress: options stand in a table, as in torch.progress(loader, {desc = "epoch 1"})', 2)
    end
    if o then bar.source, bar.total = source_of(iterable) else bar.source, bar.total = source_of(iterable, options, ...) end
  end
  for key, value in next, o or {} do bar[key] = value end
  bar.disable = bar.disable or silent()
  setmetatable(bar, Bar)
  if bar.source then return bar, nil, nil, bar end
  return bar
end

return progress
