-- The square root of a negative number makes the loss nan.
local x = torch.tensor({4.0, -1.0}, {requires_grad = true})
local loss = x:sqrt():sum()
loss:backward()
