-- torch.optim: optimisers over lists of parameters or of groups ({params = ..., lr = ...}), schedules
-- of their rates (lr_scheduler). Loaded when torch.optim is first asked for.
local optim = require("torch.optim.optimizer").optim
require "torch.optim.sgd"
require "torch.optim.adam"
require "torch.optim.adaptive"
require "torch.optim.lbfgs"
optim.lr_scheduler = require "torch.optim.lr_scheduler"
return optim
