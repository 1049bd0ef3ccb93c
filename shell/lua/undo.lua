-- What %undo takes back: around each entry, which variables, fields and gradients it gave other values, and through
-- torch._changes what tensors held before it wrote into them. Old values are kept up to a limit in bytes, of the last
-- entries only.
local names = require "shell.names"
local native = require "shell.native"
local T = require("torch.language").text
local torch = torch
-- Entries may set these names otherwise.
local ipairs, next, rawequal, rawget, rawset, setmetatable, type = ipairs, next, rawequal, rawget, rawset, setmetatable, type
local getmetatable, insert, remove = debug.getmetatable, table.insert, table.remove
local require, loaded = require, package.loaded

local undo = {
  on = true,
  most_bytes = 64 * 1024 * 1024,  -- of old values and copies, per entry and of all together
  most_slots = 10000,             -- fields looked at around an entry
  most_records = 10,
}

local globals = _G
local Big = {__mode = "v"}  -- holds a tensor that is too large to be kept alive: {tensor}
local few = 4               -- a tensor that takes more than a fourth of the limit is Big

local function big(v) return setmetatable({v}, Big) end
local function is_big(v) return type(v) == "table" and rawequal(getmetatable(v), Big) end

local records, before = {}, nil

-- Shallow copies of the variables and of every table of the user's behind them, and the gradients of tensors.
local function look()
  local seen = {tables = {}, grads = setmetatable({}, {__mode = "k"}), tensors = setmetatable({}, Big), complete = true, random = torch._encode(torch.get_rng_state(), "undo")}
  local slots, queue, libraries = 0, {globals, names.origins, names.constants, names.known}, {}
  for _, module in next, loaded do libraries[module] = true end
  for _, part in next, torch do
    if type(part) == "table" then libraries[part] = true end
  end
  libraries[globals] = nil
  local at = 1
  local large = {}
  -- What stands for a value in the copies.
  local function meet(v)
    local kind = type(v)
    if kind == "table" then
      if not libraries[v] and not seen.tables[v] then queue[#queue + 1] = v end
    elseif kind == "userdata" and torch.is_tensor(v) then
      if seen.grads[v] == nil then
        local look = torch._inspect(v)
        local g = look.grad and v.grad or false
        if look.storage_bytes * few > undo.most_bytes then
          large[v] = big(v)
          g = g and big(g)
        end
        seen.grads[v] = g
        seen.tensors[#seen.tensors + 1] = v
        if g and not is_big(g) then seen.tensors[#seen.tensors + 1] = g end
        slots = slots + 1
      end
      return large[v] or v
    end
    return v
  end
  while queue[at] do
    local t = queue[at]
    at = at + 1
    if not seen.tables[t] then
      if slots > undo.most_slots then
        seen.complete = false
        break
      end
      local copy = {}
      for k, v in next, t do
        slots = slots + 1
        if slots > 2 * undo.most_slots then  -- a large table would cost every entry
          seen.complete, copy = false, nil
          break
        end
        if not (rawequal(t, names.known) or rawequal(t, names.origins)) then
          meet(k)
          v = meet(v)
        end
        copy[k] = v
      end
      seen.tables[t] = copy
    end
  end
  return seen
end

---An entry begins.
---@param session table
function undo.begin(session)
  before = nil
  if not undo.on or not session.options.print then return end
  before = look()
  before.changes = torch._changes(undo.most_bytes, before.tensors)
  before.tensors = nil
end

-- Of two looks, what is different: {table, key, old value}.
local function differences(seen)
  local slots, grads = {}, {}
  for t, copy in next, seen.tables do
    for k, v in next, copy do
      local now = rawget(t, k)
      if is_big(v) then
        if v[1] == nil or not rawequal(now, v[1]) then slots[#slots + 1] = {t, k, nil, weak = v} end
      elseif not rawequal(now, v) then
        slots[#slots + 1] = {t, k, v}
      end
    end
    for k in next, t do
      if copy[k] == nil then slots[#slots + 1] = {t, k, nil} end
    end
  end
  for x, old in next, seen.grads do
    local now = torch._inspect(x).grad and x.grad or false
    local weak = is_big(old) and old or nil
    if weak then old = weak[1] or false end
    if weak and not rawequal(now, old) and not (now and old and torch._inspect(now).id == torch._inspect(old).id) then
      grads[#grads + 1] = {x, nil, weak = weak}
    elseif not rawequal(now, old) and not (now and old and torch._inspect(now).id == torch._inspect(old).id) then
      grads[#grads + 1] = {x, old}
    end
  end
  return slots, grads
end

local function users(slot)
  return not (rawequal(slot[1], names.known) or rawequal(slot[1], names.origins))
end

---An entry has ended; what it changed can be taken back.
function undo.finish(session, record)
  local seen = before
  before = nil
  if not seen then return end
  local storages, lost, other, bytes = torch._changes_end(seen.changes)
  local slots, grads = differences(seen)
  local any = false
  for _, slot in ipairs(slots) do any = any or users(slot) end
  if not any and #grads == 0 and storages == 0 then return end
  local old = {}
  for _, slot in ipairs(slots) do old[#old + 1] = slot[3] end
  for _, pair in ipairs(grads) do old[#old + 1] = pair[2] or nil end
  local held = native.held(old)
  local kept = {
    number = session.number, text = record.text, changes = storages > 0 and seen.changes or nil, slots = slots, grads = grads,
    lost = lost, other = other, complete = seen.complete, random = seen.random, bytes = bytes + held,
  }
  for _, list in ipairs {slots, grads} do
    for _, each in ipairs(list) do
      if each.weak then kept.gone = 0 end
    end
  end
  if held > undo.most_bytes then  -- the old values are freed, as they would be without us
    kept.gone = held
    for _, slot in ipairs(slots) do
      if type(slot[3]) ~= "string" and type(slot[3]) ~= "number" and type(slot[3]) ~= "boolean" and slot[3] ~= nil then
        slot[3], slot.weak = nil, setmetatable({slot[3]}, {__mode = "v"})
      end
    end
    for _, pair in ipairs(grads) do
      if pair[2] and not pair.weak then pair[2], pair.weak = nil, setmetatable({pair[2]}, {__mode = "v"}) end
    end
    kept.bytes = bytes
  end
  records[#records + 1] = kept
  local sum = 0
  for i = #records, 1, -1 do
    sum = sum + records[i].bytes
    if #records - i >= undo.most_records or i < #records and sum > undo.most_bytes then
      for _ = 1, i do remove(records, 1) end
      break
    end
  end
end

---Forgets everything: nothing before this can be taken back.
function undo.clear()
  if before then torch._changes_end(before.changes) end
  records, before = {}, nil
end

local function value_of(slot, at)
  if not slot.weak then return true, slot[at] end
  return slot.weak[1] ~= nil, slot.weak[1]
end

---Takes back what the last entry that changed something did.
---@return table|nil record of that entry
---@return string[] names of what was taken back
---@return string[] what could not be
function undo.back()
  local record = remove(records)
  if not record then return nil, {}, {} end
  local done, not_done = {}, {}
  if record.changes then
    local lost = torch._changes_undo(record.changes)
    if lost > 0 then not_done[#not_done + 1] = T("tensors of %s were changed in place, too much to keep"):format(require("shell.columns").bytes(lost)) end
    if record.other then not_done[#not_done + 1] = T("%s_ gave a tensor another shape or storage"):format(record.other:match "^[^.]*") end
    done[#done + 1] = T"values of tensors"
  end
  local gone = 0
  for _, slot in ipairs(record.slots) do
    local there, value = value_of(slot, 3)
    if not there then
      gone = gone + 1
    else
      rawset(slot[1], slot[2], value)
      if rawequal(slot[1], globals) and type(slot[2]) == "string" then insert(done, 1, slot[2]) end
    end
  end
  local fields = 0
  for _, slot in ipairs(record.slots) do
    if users(slot) and not rawequal(slot[1], globals) and not rawequal(slot[1], names.constants) then fields = fields + 1 end
  end
  if fields > 0 then done[#done + 1] = fields == 1 and T"a field of a table" or T("%d fields of tables"):format(fields) end
  for _, pair in ipairs(record.grads) do
    local there, g = value_of(pair, 2)
    if there then pair[1].grad = g or nil else gone = gone + 1 end
  end
  if #record.grads > 0 then done[#done + 1] = #record.grads == 1 and "a gradient" or #record.grads .. " gradients" end
  if gone > 0 then not_done[#not_done + 1] = gone == 1 and T"an old value that was too large to keep" or T("%d old values that were too large to keep"):format(gone) end
  if not record.complete then not_done[#not_done + 1] = T"tables with too many fields to look at may have changed, too" end
  torch.set_rng_state(torch._decode(record.random))
  return record, done, not_done
end

---How many bytes are held for it.
function undo.bytes()
  local sum = 0
  for _, r in ipairs(records) do sum = sum + r.bytes end
  return sum
end

return undo
