-- torch.optim: optimisers over lists of parameters or of groups ({params = ..., lr = ...}), schedules
-- of their rates (lr_scheduler) and averages of weights (swa_utils). Loaded when torch.optim is first
-- asked for; swa_utils, which needs torch.nn, when that is.
local optim = require("torch.optim.optimizer").optim
require "torch.optim.sgd"
require "torch.optim.adam"
require "torch.optim.adaptive"
require "torch.optim.matrix"
require "torch.optim.lbfgs"
require "torch.optim.own"
optim.lr_scheduler = require "torch.optim.lr_scheduler"

torch._strict(optim.lr_scheduler, "torch.optim.lr_scheduler")

return torch._strict(optim, "torch.optim", function(_, name)
  if name ~= "swa_utils" then return nil end
  optim.swa_utils = require "torch.optim.swa_utils"
  return optim.swa_utils
end)
