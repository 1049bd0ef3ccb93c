-- A running total of losses that keeps the graph of every step.
local w = torch.ones(3, {requires_grad = true})
local opt = torch.optim.SGD({w}, {lr = 0.001})
local total = 0
for _ = 1, 100 do
  opt:zero_grad()
  local loss = (w * 2):pow(2):mean()
  loss:backward()
  opt:step()
  total = total + loss
end
print(tostring(total) ~= "")
