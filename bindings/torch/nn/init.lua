-- torch.nn: fills the table `torch.nn` (whose `functional` comes from the op table).
local torch = torch
local nn = rawget(torch, "nn")
setmetatable(nn, nil)

local module = require "torch.nn.module"
nn.Module, nn.class, nn.Parameter = module.Module, module.class, module.Parameter
nn.init = require "torch.nn.initialise"
require "torch.nn.layers"
require "torch.nn.losses"
return nn
