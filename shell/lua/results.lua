-- The values of earlier entries: `_` the last, `__` the one before, `_7` that of entry 7. What is
-- large, or on a device, is held weakly: the prompt keeps no memory alive that nobody else wants.
local native = require "shell.native"
local T = require("torch.language").text
local results = {
  most = 20,                     -- entries whose values are kept
  most_bytes = 64 * 1024 * 1024,  -- of all kept values together
  most_device_bytes = 1024 * 1024,
}

local kept = {}   -- list of {number=, value= or weak=, bytes=, what=}, oldest first
local last  -- {value}: held whatever its size
local dropped, oldest = {}, 1  -- number -> what it was, of the last 1000 entries

local function drop(item)
  dropped[item.number] = item.what
  while oldest <= item.number - 1000 do
    dropped[oldest], oldest = nil, oldest + 1
  end
end

local function size(bytes)
  if bytes < 1e6 then return ("%.1f kB"):format(bytes / 1e3) end
  return bytes < 1e9 and ("%.1f MB"):format(bytes / 1e6) or ("%.2f GB"):format(bytes / 1e9)
end

-- Lets the oldest go until the rest is small enough; memory that several share counts once.
local function shrink()
  local strong = {}
  for i = #kept, 1, -1 do strong[#strong + 1] = kept[i].value end
  while #strong > 0 and native.held(strong) > results.most_bytes do
    strong[#strong] = nil
    for _, item in ipairs(kept) do
      if item.value ~= nil then
        item.value, item.weak = nil, setmetatable({item.value}, {__mode = "v"})
        break
      end
    end
  end
end

-- Remembers the values of an entry: `values` is packed, nil as the first is not remembered.
function results.keep(number, values)
  local value = values[1]
  if value == nil then return end
  rawset(_G, "_", nil)
  rawset(_G, "__", nil)
  last = {value}
  local bytes, device_bytes, complete, what = native.held(value)
  if torch.is_tensor(value) then what = torch._brief(value) end
  local item = {number = number, bytes = bytes, what = bytes > 1000 and what .. ", " .. size(bytes) or what}
  if not complete or device_bytes > results.most_device_bytes or bytes > results.most_bytes then
    item.weak = setmetatable({value}, {__mode = "v"})
  else
    item.value = value
  end
  kept[#kept + 1] = item
  while #kept > results.most do drop(table.remove(kept, 1)) end
  if bytes > 1000 then shrink() end
end

local function value_of(item)
  if item.weak then return item.weak[1] end
  return item.value
end

-- Why a value is not there any more.
local function gone(number, what)
  return T("_%d (%s) was not kept. %%rerun %d computes it again."):format(number, what, number)
end

-- `_`, `__`, `_7`: true and the value when the name is one of them, or why there is none.
---@return boolean is_result, any value, string|nil gone
function results.read(name)
  if name == "_" then return true, last and last[1] end
  local number = tonumber(name:match("^_(%d+)$"))
  local item
  if name == "__" then
    item = kept[#kept - 1]
    if not item then return true, nil end
  elseif not number then
    return false
  else
    for _, each in ipairs(kept) do
      if each.number == number then item = each end
    end
    if not item then return dropped[number] ~= nil, nil, dropped[number] and gone(number, dropped[number]) end
    if item == kept[#kept] and last then return true, last[1] end
  end
  local value = value_of(item)
  return true, value, value == nil and gone(item.number, item.what) or nil
end

-- The note for an entry that only asks for a value that was dropped, or nil.
function results.note(text)
  local name = text:match("^%s*(_%d+)%s*$")
  if not name or rawget(_G, name) ~= nil then return nil end
  return select(3, results.read(name))
end

-- What only the prompt may hold: list of {number=, value=, what=}.
function results.list()
  local out = {}
  for _, item in ipairs(kept) do
    local value = value_of(item)
    if value ~= nil then out[#out + 1] = {number = item.number, value = value, bytes = item.bytes, what = item.what} end
  end
  return out
end

-- Hands out everything and begins anew; `back` takes it in again.
function results.park()
  local was = {kept = kept, last = last, dropped = dropped, oldest = oldest}
  kept, last, dropped, oldest = {}, nil, {}, 1
  return was
end

function results.back(was) kept, last, dropped, oldest = was.kept, was.last, was.dropped, was.oldest end

-- Lets go of everything.
function results.clear()
  for _, item in ipairs(kept) do drop(item) end
  kept, last = {}, nil
end

return results
