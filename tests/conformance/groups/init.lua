-- The group `init`: fans, gains and every function of nn.init after manual_seed.
local compare = require "compare"
local data = require "data"
local reader = require "reader"
local rng = require "groups.rng"
local torch = torch
local group = {}

function group.run(folder, _, report)
  local init = torch.nn.init
  local rows = reader.read_json(folder .. "/semantics/init.json")
  for _, f in ipairs(rows.fans) do
    data.row(report, f.id, function()
      local fan_in, fan_out = init._calculate_fan_in_and_fan_out(torch.zeros(f.shape))
      return compare.values(fan_in, f.fan_in) or compare.values(fan_out, f.fan_out)
    end)
  end
  for _, g in ipairs(rows.gains) do
    data.row(report, "gain:" .. g[1], function()
      local name, param = g[1]:match "^([^:]*):?(.*)$"
      return compare.values(init.calculate_gain(name, tonumber(param)), g[2] + 0.0)
    end)
  end
  for i, f in ipairs(rows.functions) do
    data.row(report, ("%s:%d"):format(f.id, i), function()
      local fill = init[f.fn:match "[^.]+$"] or error("missing " .. f.fn, 0)
      local t = torch.empty(f.shape)
      torch.manual_seed(f.seed)
      local out = next(f.options) and fill(t, f.options) or fill(t)
      if not rawequal(out, t) then return "does not return its tensor" end
      if f.fn:find "orthogonal_" then return compare.tensors(t, data.tensor(f.result), {atol = 1e-5}) end
      return rng.check(t, f.result)
    end)
  end
end

return group
