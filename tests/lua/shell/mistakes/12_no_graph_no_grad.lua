-- The prediction is made inside no_grad, so the loss has no graph.
local w = torch.ones(3, {requires_grad = true})
local pred = torch.no_grad(function() return w * 2 end)
local loss = (pred - 1):pow(2):mean()
loss:backward()
