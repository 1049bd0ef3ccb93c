-- torch.nn: fills the table `torch.nn` (whose `functional` comes from the op table).
local torch = torch
local nn = rawget(torch, "nn")
setmetatable(nn, nil)

local module = require "torch.nn.module"
nn.Module, nn.class, nn.Parameter = module.Module, module.class, module.Parameter
nn.Buffer = module.Buffer
nn._is_parameter = module.is_parameter
nn.init = require "torch.nn.initialise"
for _, part in ipairs {"layers", "activations", "weightless", "norm", "losses", "containers", "adaptive", "lazy", "fractional", "recurrent", "attention", "transformer"} do
  require("torch.nn." .. part)
end
nn.utils = require "torch.nn.utils"
nn.parallel = require "torch.nn.parallel"
nn.DataParallel = nn.parallel.DataParallel
torch._strict(nn.init, "torch.nn.init")
return torch._strict(nn, "torch.nn")
