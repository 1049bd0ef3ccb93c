-- The same, with the loss written by hand.
local pred, y = torch.ones(4, 1), torch.ones(4)
local loss = ((pred - y) ^ 2):mean()
print(loss:item())
