-- An evaluation in training mode: dropout still drops.
local nn = torch.nn
local net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
torch.no_grad(function()
  local out = net(torch.ones(2, 4))
  print(out:mean():item() == nil)
end)
