-- The group `files`: what PyTorch, NumPy and safetensors wrote is read as described, or refused.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local values = require "values"
local torch = torch
local group = {}

local check

-- A tensor as described; tensors of one storage number must share memory.
local function check_tensor(got, want, storages)
  if not values.is_tensor(got) then return ("expected a tensor, got %s"):format(type(got)) end
  local why = compare.tensors(got:detach(), data.tensor(want), {atol = 0})
  if why then return why end
  if want.requires_grad ~= nil and got.requires_grad ~= want.requires_grad then return "requires_grad" end
  if storages and want.stride and got:numel() > 0 then
    local stride = "[" .. table.concat(want.stride, ", ") .. "]"
    local mine = "[" .. table.concat({table.unpack(got:stride())}, ", ") .. "]"
    if stride ~= mine then return ("stride %s, expected %s"):format(mine, stride) end
  end
  if storages and want.storage and got:numel() > 0 then
    local base = got:data_ptr() - want.storage_offset * got:element_size()
    local known = storages[want.storage]
    if known and known ~= base then return ("storage %d is not shared"):format(want.storage) end
    storages[want.storage] = base
  end
end

local function number(v) return math.type(v) == "float" and math.tointeger(v) or v end

function check(got, want, storages)
  if want == json.null then return got ~= nil and got ~= torch.none and "expected none" or nil end
  if type(want) ~= "table" then
    return number(got) ~= number(want) and ("%s, expected %s"):format(tostring(got), tostring(want)) or nil
  end
  if want.tensor then return check_tensor(got, want.tensor, storages) end
  if want.f ~= nil then return compare.values(got, values.float(want.f)) end
  if want.bigint then return nil end  -- any answer that is no crash: Lua has no larger integers
  if type(got) ~= "table" then return ("expected a table, got %s"):format(type(got)) end
  if want.list then
    if #got ~= #want.list then return ("%d items, expected %d"):format(#got, #want.list) end
    for i, one in ipairs(want.list) do
      local why = check(got[i], one, storages)
      if why then return ("item %d: %s"):format(i, why) end
    end
  elseif want.table then
    for _, pair in ipairs(want.table) do
      local key = pair[1]
      local value = got[key]
      if value == nil then value = got[tonumber(key) or tostring(key)] end
      local why = check(value, pair[2], storages)
      if why then return ("%s: %s"):format(tostring(key), why) end
    end
  end
end

function group.run(folder, _, report)
  local pipe = assert(io.popen(("ls '%s/files'"):format(folder)))
  for name in pipe:lines() do
    if name:match "%.json$" then
      local spec = reader.read_json(folder .. "/files/" .. name)
      data.row(report, "files:" .. spec.file, function()
        local ok, got = pcall(torch.load, folder .. "/files/" .. spec.file)
        if spec.refuse then
          if ok then return "must be refused: " .. tostring(spec.refuse) end
          return type(got) ~= "table" and "no error object: " .. tostring(got) or nil
        end
        if not ok then return tostring(got) end
        return check(got, spec.content, spec.file:find "%.pt$" and {} or nil)
      end)
    end
  end
  pipe:close()
end

return group
