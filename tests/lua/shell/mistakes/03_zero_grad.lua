-- A training loop without zero_grad: every step uses the sum of all gradients so far.
local nn, optim = torch.nn, torch.optim
torch.manual_seed(1)
local x, y = torch.randn(8, 3), torch.randn(8, 1)
local net = nn.Linear(3, 1)
local opt = optim.SGD(net:parameters(), {lr = 0.01})
for _ = 1, 5 do
  local loss = nn.functional.mse_loss(net(x), y)
  loss:backward()
  opt:step()
end
