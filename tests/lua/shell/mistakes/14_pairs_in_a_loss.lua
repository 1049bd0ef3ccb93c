-- Predictions [4, 1] against targets [4]: 16 pairs are compared instead of 4.
local pred, target = torch.ones(4, 1), torch.ones(4)
local loss = torch.nn.functional.mse_loss(pred, target)
print(loss:item())
