--@ kind: value
--@ says: SGD: lr must be a number of at least 0, not -0.1
--@ replace: lr = -0.1 => lr = 0.1
local optim = torch.optim
local w = torch.ones(2, {requires_grad = true})
local opt = optim.SGD({w}, {lr = -0.1})
return opt
