-- detach() in the middle of the forward pass.
local w = torch.ones(3, {requires_grad = true})
local pred = (w * 2):detach()
local loss = (pred - 1):pow(2):mean()
loss:backward()
