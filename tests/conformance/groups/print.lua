-- The group `print`: PyTorch's own text of tensors and modules under set_printoptions{style="pytorch"}.
local data = require "data"
local reader = require "reader"
local torch = torch
local group = {}

-- A tensor that is no leaf, made so that its last operation has the name in the text.
local function recorded(x, text)
  local name = text:match("grad_fn=<(%w+)Backward0>")
  x = x:detach():requires_grad_()
  if name == "Sum" then return x:reshape(-1):sum() end
  if name == "Exp" then return x:log():exp() end
  return x * 1
end

-- "nn.Conv2d(3, 6, 3, stride=2)" as Lua.
local function module_of(python)
  local code = python:gsub("False", "false"):gsub("True", "true"):gsub("%[", "{"):gsub("%]", "}")
  code = code:gsub("(nn%.%w+)%(([^()]*)%)", function(name, arguments)
    if arguments:find("=") then return name .. "{" .. arguments .. "}" end
    return name .. "(" .. arguments .. ")"
  end)
  return assert(load("local nn = torch.nn return " .. code))()
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/print.json")
  torch.set_printoptions {style = "pytorch", precision = rows.options.precision, threshold = rows.options.threshold,
    edgeitems = rows.options.edgeitems, linewidth = rows.options.linewidth}
  for _, c in ipairs(rows.cases) do
    data.row(report, c.id, function()
      local x = data.tensor(c.tensor)
      if not c.is_leaf then x = recorded(x, c.text) elseif c.requires_grad then x:requires_grad_() end
      local got = tostring(x)
      if got ~= c.text then return ("got %q, expected %q"):format(got, c.text) end
    end)
  end
  for _, c in ipairs(rows.modules) do
    data.row(report, c.id, function()
      local ok, made = pcall(module_of, c.python)
      if not ok then error("missing " .. c.python .. ": " .. tostring(made), 0) end
      local got = tostring(made)
      if got ~= c.text then return ("got %q, expected %q"):format(got, c.text) end
    end)
  end
  torch.set_printoptions {style = "tycho", profile = "default"}
end

return group
