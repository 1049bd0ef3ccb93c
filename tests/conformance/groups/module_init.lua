-- The group `module_init`: the state of modules made after manual_seed.
local data = require "data"
local reader = require "reader"
local rng = require "groups.rng"
local torch = torch
local group = {}

-- "Linear(3,2,bias=False)" as a module; positions among its arguments are shifted.
local function module_of(text)
  local code = text:gsub("False", "false"):gsub("True", "true"):gsub("padding_idx=(%d+)", function(i) return "padding_idx=" .. (tonumber(i) + 1) end)
  code = code:gsub("(%u%w*)%(([^()]*)%)", function(name, inside)
    if inside:find("=") then return ("nn.%s{%s}"):format(name, inside) end
    return ("nn.%s(%s)"):format(name, inside)
  end)
  code = code:gsub("^Sequential", "nn.Sequential")
  local ok, made = pcall(assert(load("local nn = torch.nn return " .. code)))
  if not ok then error("missing " .. text .. ": " .. tostring(made), 0) end
  return made
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/rng.json")
  for i, m in ipairs(rows.module_init) do
    data.row(report, ("%s:%d"):format(m.id, i), function()
      local made
      torch.manual_seed(m.seed)
      made = module_of(m.module)
      local state = made:state_dict()
      for _, pair in ipairs(m.state) do
        local name, block = pair[1], pair[2]
        if not state[name] then return "no " .. name end
        local why = rng.check(state[name]:detach(), block)
        if why then return name .. ": " .. why end
      end
    end)
  end
end

return group
