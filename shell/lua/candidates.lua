-- The candidates of a completion: collected under a prefix and ranked, only the best kept.
local live = require "shell.live"
local sub, find, lower, byte = string.sub, string.find, string.lower, string.byte

local most = 120
local underscore = 95 | 32

local Set = {}
Set.__index = Set

-- Candidates for a prefix: those that begin with it, those that do in other case, those that hold it.
-- Lower ranks come first. Only the best are kept, so that ten thousand variables cost no sorting.
local function new_set(prefix)
  return setmetatable({prefix = prefix, size = #prefix, lower = lower(prefix), letter = (byte(prefix) or 0) | 32, exact = {}, folded = {}, inside = {}, seen = {}}, Set)
end

local function better(a, b)
  if a.rank ~= b.rank then return a.rank < b.rank end
  return a.text < b.text
end

local function insert(list, item)
  local low, high = 1, #list + 1
  while low < high do
    local mid = (low + high) // 2
    if better(item, list[mid]) then high = mid else low = mid + 1 end
  end
  table.insert(list, low, item)
  list[most + 1] = nil
end

-- The list that a text belongs to, or nil.
function Set:place(text)
  if sub(text, 1, self.size) == self.prefix then return self.exact end
  if #self.exact > 0 then return nil end
  if (byte(text) or 0) | 32 == self.letter and lower(sub(text, 1, self.size)) == self.lower then return self.folded end
  if self.size >= 3 and #self.folded == 0 and find(text, self.prefix, 1, true) then return self.inside end
end

-- `note` may be a function, called only when it is shown; without one `value` is put into words.
function Set:add(text, rank, note, value)
  local list = self:place(text)
  if not list then return end
  if byte(text) == 95 then  -- private: shown to those who type the underscore
    if self.letter ~= underscore then return end
    rank = rank + 100
  elseif byte(text, -1) == 95 then rank = rank + 50 end
  local worst = list[most]
  if worst and (rank > worst.rank or rank == worst.rank and text >= worst.text) or self.seen[text] then return end
  self.seen[text] = true
  insert(list, {text = text, rank = rank, note = note, value = value})
end

-- The same for keys of tables, which may be anything.
function Set:add_name(name, rank, note, value)
  if type(name) ~= "string" then return end
  local worst = self.exact[most]
  if worst and rank >= worst.rank and name >= worst.text then return end
  if find(name, "^[%a_][%w_]*$") then self:add(name, rank, note, value) end
end

function Set:list()
  local list = #self.exact > 0 and self.exact or #self.folded > 0 and self.folded or self.inside
  local out = {}
  for i, c in ipairs(list) do
    local note = c.note
    if type(note) == "function" then note = note() end
    if note == nil and c.value ~= nil then note = live.note(c.value) end
    out[i] = {text = c.text, note = note}
  end
  return out
end

return new_set
