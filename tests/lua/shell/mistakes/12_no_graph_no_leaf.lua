-- No tensor here requires grad.
local w = torch.ones(3)
local loss = (w * 2):sum()
loss:backward()
