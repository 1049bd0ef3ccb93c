-- argmax picks a position, which has no gradient.
local w = torch.ones(2, 3, {requires_grad = true})
local class = (w * 2):argmax(2)
local loss = class:float():mean()
loss:backward()
