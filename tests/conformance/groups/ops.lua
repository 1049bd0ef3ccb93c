-- The group `ops`: one file of cases per operation.
local case = require "case"
local reader = require "reader"
local torch = torch
local group = {}

function group.run(folder, op, report)
  local lines = reader.read_lines(("%s/ops/%s.jsonl"):format(folder, op))
  local tensors = torch.load(("%s/ops/%s.safetensors"):format(folder, op), {map_location = torch.get_default_device()})
  local header = lines[1]
  for i = 2, #lines do
    local check, why = case.run(lines[i], header, tensors)
    local status = not check and "passed" or check == "missing" and "missing" or "failed"
    report(lines[i].id, status, check, why)
  end
end

return group
