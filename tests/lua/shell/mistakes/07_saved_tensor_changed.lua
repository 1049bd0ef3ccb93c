-- exp keeps its result for the gradient, and the result is changed in place.
local w = torch.tensor({0.5, 1.0}, {requires_grad = true})
local y = w:exp()
y:add_(1)
y:sum():backward()
print(w.grad)
