-- Class numbers that begin with 0, as Python's do: datasets of tensors are looked at when a loss takes their numbers for
-- classes, others in their loader's first epoch. A batch that happens to hold no 0 would train with every class shifted by one, and no error.
local torch = torch
local labels = {}

-- The least and the greatest of a list of class numbers, and how many there are; nil where it is none.
local function bounds(t)
  if not torch.is_tensor(t) or t.ndim ~= 1 or #t == 0 or t.dtype.is_floating_point or t.dtype == torch.bool or t.device.type ~= "cpu" then return nil end
  return t:min():item(), t:max():item(), #t
end

local function of_line(pattern)
  for level = 3, 12 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    local text = info.currentline > 0 and not info.source:find "^=torch/" and require("torch.notes").line_text(info.short_src, info.currentline)
    local found = text and text:match(pattern)
    if found then return found, {source = info.short_src, line = info.currentline} end
  end
end

-- The last of several expressions with commas between them.
local function last_of(list)
  local rest = list:gsub("%b()", function(s) return ("\1"):rep(#s) end):gsub("%b{}", function(s) return ("\1"):rep(#s) end)
  return list:sub((rest:match "^.*,()" or 1)):match "^%s*(.-)%s*$"
end

-- 0 and 1 are as often the two values of a yes or no; numbers none of which comes twice are places or names.
local function begin_with_0(least, most, count) return least == 0 and most >= 2 and count > most + 1 end

local waiting = {}  -- datasets whose labels begin with 0, until a loss over as many classes is computed
local kMost, kOffers = 8, 64

---Looks at the last tensor of a new dataset. That its numbers are classes is known when a loss takes them as such.
---@param tensors any[]
function labels.of_tensors(tensors)
  local least, most, count = bounds(tensors[#tensors])
  if #tensors < 2 or not least or not begin_with_0(least, most, count) then return end
  local list, place = of_line "TensorDataset%s*(%b())"
  local name = list and last_of(list:sub(2, -2))
  if #waiting == kMost then table.remove(waiting, 1) end
  waiting[#waiting + 1] = {place = place, values = {most = most, count = most + 1, name = name or "the last tensor of a dataset",
    fix = name and (name:find "^[%w_.]+$" and name or "(" .. name .. ")") .. " + 1"}}
  torch._class_losses(kOffers)
end

---A loss over so many classes is computed.
---@param classes integer
function labels.used(classes)
  for i, each in ipairs(waiting) do
    if each.values.count == classes then
      table.remove(waiting, i)
      require("torch.notes").tell("LABEL", "dataset", each.values, each.place)
      break
    end
  end
  if #waiting == 0 then torch._class_losses(0) end
  return false
end

local seen = setmetatable({}, {__mode = "k"})  -- loaders whose first epoch has ended
local kEnough = 10  -- labels for each class, of which the last never occurs

---An iterator of a loader's batches that says at the end of the first epoch where its labels begin, and whether they end
---one short of the classes of the loss that was computed meanwhile.
---@param loader table
---@param draw function
---@param ... any what else the loop gets (what closes the workers)
---@return function
function labels.of_epoch(loader, draw, ...)
  if seen[loader] then return draw, ... end
  local tensors = loader.dataset.tensors
  local losses = torch._class_losses()
  local least, most, count = nil, nil, 0
  local function finish()
    seen[loader] = true
    if tensors then
      if type(tensors) ~= "table" or #tensors < 2 then return end
      least, most, count = bounds(tensors[#tensors])
    end
    if not least then return end
    local computed, classes = torch._class_losses()
    local trained = computed > losses
    local form
    if begin_with_0(least, most, count) and not tensors and (not trained or most + 1 == classes) then
      form = "epoch"
    elseif trained and least == 1 and most > 1 and most + 1 == classes and count >= kEnough * classes then
      form = "short"
    end
    if not form then return end
    local names, place = of_line "for%s+([%w_,%s]-)%s+in%s"
    local name = names and names:find(",", 1, true) and last_of(names) or nil
    require("torch.notes").tell("LABEL", form, {most = most, count = most + 1, name = name, fix = name and ("%s = %s + 1"):format(name, name)}, place)
  end
  local function look(...)
    if (...) == nil then
      finish()
    elseif not tensors and select("#", ...) > 1 then
      local a, b, n = bounds((select(-1, ...)))
      if a then least, most, count = math.min(a, least or a), math.max(b, most or b), count + n end
    end
    return ...
  end
  return function() return look(draw()) end, ...
end

return labels
