--@ kind: autograd
--@ code: GRAD-1
--@ says: has shape [2]; a gradient needs one number
--@ says: y:sum():backward()
--@ says: y:mean():backward()
--@ says: y:backward(torch.ones(2))
--@ fix: 1
--@ fix: 2
--@ fix: 3
local x = torch.ones(2, {requires_grad = true})
local y = x * 3
y:backward()
return x.grad
