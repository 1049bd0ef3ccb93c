-- Where in torch a name is. A part is loaded only when one of its files seems to define the name: whoever made a slip of
-- the pen should not wait for all of torch.
local torch = torch
local places = {}

-- The parts that scripts know, the ones that are used most first: name, the files that it is made of, and how it is
-- reached. Without files: it is always there.
local parts = {
  {"torch"}, {"torch.nn", "torch/nn"}, {"torch.nn.functional"}, {"torch.optim", "torch/optim"}, {"torch.utils.data", "torch/utils"},
  {"torch.utils.data.transforms", "torch/utils/transforms"}, {"torch.metrics", "torch/metrics"},
  {"torch.optim.lr_scheduler", "torch/optim"}, {"torch.optim.swa_utils", "torch/optim"}, {"torch.nn.init", "torch/nn"},
  {"torch.nn.utils", "torch/nn"}, {"torch.nn.parallel", "torch/nn"}, {"torch.linalg"}, {"torch.models", "torch/models"},
  {"torch.func", "torch/func"}, {"torch.distributions", "torch/distributions"}, {"torch.distributed", "torch/distributed"},
  {"torch.amp", "torch/amp"}, {"torch.cuda"}, {"torch.utils.checkpoint", "torch/utils"},
}
local folders, seen = {}, {}
for _, row in ipairs(parts) do
  local folder = row[2]
  if folder and not seen[folder] then seen[folder], folders[#folders + 1] = true, folder end
end

---@param path string "torch.nn.functional"
---@return any
function places.reach(path)
  local part = torch
  for name in path:gmatch "%.([^.]+)" do part = part and part[name] end
  return part
end

---The parts of torch that have a name, the likeliest first.
---@param name string
---@return string[] "torch.nn", ..
function places.of(name)
  local out, defined = {}, torch._defined_in(name, folders)
  for _, row in ipairs(name:sub(1, 1) ~= "_" and parts or {}) do
    local part = (not row[2] or defined[row[2]]) and places.reach(row[1])
    if type(part) == "table" and part[name] ~= nil then out[#out + 1] = row[1] end
  end
  return out
end

---Whether a table is one of these parts.
---@param value any
---@return boolean
function places.is_part(value)
  if type(value) ~= "table" then return false end
  for _, row in ipairs(parts) do
    -- Only what is loaded can be it.
    local part = torch
    for name in row[1]:gmatch "%.([^.]+)" do part = type(part) == "table" and rawget(part, name) or nil end
    if part == value then return true end
  end
  return false
end

return places
