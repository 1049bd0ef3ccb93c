-- The forward pass stands before the loop: the second turn finds its graph freed.
local w = torch.tensor({0.5, 1.0}, {requires_grad = true})
local loss = w:exp():sum()
for _ = 1, 2 do
  w.grad = nil
  loss:backward()
end
